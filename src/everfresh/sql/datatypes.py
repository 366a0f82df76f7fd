"""The types that DDL and CAST may name, as one table from sqlglot's type names to ours.

DuckDB's meaning of each name: FLOAT is REAL, a bare DECIMAL is DECIMAL(18,3), the length of a VARCHAR is
ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from everfresh.errors import EverfreshError
from everfresh.sql.source import Source
from everfresh.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    ENUM,
    HUGEINT,
    INTEGER,
    JSON,
    LIST,
    REAL,
    SMALLINT,
    STRUCT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TINYINT,
    UBIGINT,
    UINTEGER,
    USMALLINT,
    UTINYINT,
    UUID,
    VARCHAR,
    SqlType,
    fold,
)

_T = exp.DType
_TYPES: dict[Any, SqlType] = {
    _T.BOOLEAN: BOOLEAN,
    _T.TINYINT: TINYINT,
    _T.SMALLINT: SMALLINT,
    _T.INT: INTEGER,
    _T.BIGINT: BIGINT,
    _T.INT128: HUGEINT,
    _T.UTINYINT: UTINYINT,
    _T.USMALLINT: USMALLINT,
    _T.UINT: UINTEGER,
    _T.UBIGINT: UBIGINT,
    _T.VARBINARY: BLOB,
    _T.BINARY: BLOB,
    _T.BLOB: BLOB,
    _T.UUID: UUID,
    _T.JSON: JSON,
    _T.TIME: TIME,
    _T.TIMESTAMPTZ: TIMESTAMPTZ,
    _T.FLOAT: REAL,
    _T.DOUBLE: DOUBLE,
    _T.TEXT: VARCHAR,
    _T.VARCHAR: VARCHAR,
    _T.CHAR: VARCHAR,
    _T.NCHAR: VARCHAR,
    _T.NVARCHAR: VARCHAR,
    _T.BPCHAR: VARCHAR,
    _T.DATE: DATE,
    _T.TIMESTAMP: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP,
    _T.DATETIME: TIMESTAMP,
}
_SIZED = {
    _T.TEXT,
    _T.VARCHAR,
    _T.CHAR,
    _T.NCHAR,
    _T.NVARCHAR,
    _T.BPCHAR,
}  # a length may follow; it is ignored
_LOCAL_TIMESTAMP = {"spark", "spark2", "databricks", "hive"}  # TIMESTAMP is read as TIMESTAMPTZ by sqlglot
_HINT = (
    "types are: BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT, UTINYINT, USMALLINT, UINTEGER, "
    "UBIGINT, REAL, DOUBLE, DECIMAL(p,s), VARCHAR, BLOB, UUID, JSON, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, "
    "ENUM('label', ...), and of them type[], STRUCT(name type, ...), MAP(type, type)"
)


def sql_type(node: Any, source: Source) -> SqlType:
    """The type that a DataType node names; refuses types outside the language."""
    if not isinstance(node, exp.DataType):
        raise source.unsupported(f"type {str(node)[:40]}", node, hint=_HINT)
    if node.this == _T.DECIMAL:
        return _decimal(node, source)
    if node.this == _T.USERDEFINED:
        named = source.types.get(fold(str(node.args.get("kind") or "").strip('"')))
        if named is not None:
            found_type: SqlType = named
            return found_type
    if node.this == _T.ENUM:
        return _enum(node, source)
    nested = _NESTED.get(node.this)
    if nested is not None and not node.args.get("values"):
        return nested(node, source)
    found = _TYPES.get(node.this)
    if node.this == _T.TIMESTAMPTZ and source.dialect in _LOCAL_TIMESTAMP:
        found = TIMESTAMP
    if found is None or (node.expressions and node.this not in _SIZED):
        shown = node.sql(source.dialect)
        raise source.unsupported(f"type {shown[:40]}", node, hint=_HINT)
    return found


def _list(node: Any, source: Source) -> SqlType:
    (inner,) = node.expressions or [None]
    return LIST(sql_type(inner, source))


def _struct(node: Any, source: Source) -> SqlType:
    fields = [
        (part.this.name, sql_type(part.args.get("kind"), source)) if isinstance(part, exp.ColumnDef) else None
        for part in node.expressions
    ]
    known = [field for field in fields if field is not None]
    if len(known) < len(fields):
        raise source.unsupported("a STRUCT with a field without a name", node, hint=_HINT)
    try:
        return STRUCT(known)
    except EverfreshError as error:
        raise error.at(source.place(node)) from None


def _map(node: Any, source: Source) -> SqlType:
    if len(node.expressions) != 2:
        raise source.unsupported(f"type {node.sql('duckdb')[:40]}", node, hint=_HINT)
    key, item = (sql_type(part, source) for part in node.expressions)
    return SqlType("MAP", inner=(key, item))


_NESTED: dict[Any, Callable[[Any, Source], SqlType]] = {
    _T.ARRAY: _list,
    _T.LIST: _list,
    _T.STRUCT: _struct,
    _T.MAP: _map,
}


def _enum(node: Any, source: Source) -> SqlType:
    if any(not isinstance(p, exp.Literal) or not p.is_string for p in node.expressions):
        raise source.unsupported("an ENUM of anything but texts", node, hint="as in ENUM('low', 'high')")
    try:
        return ENUM([p.this for p in node.expressions])
    except EverfreshError as error:
        raise error.at(source.place(node)) from None


def _decimal(node: Any, source: Source) -> SqlType:
    params = [p.this for p in node.expressions if isinstance(p, exp.DataTypeParam)]
    if any(not isinstance(p, exp.Literal) or not p.this.isdigit() for p in params) or len(params) > 2:
        raise source.unsupported(f"type {node.sql('duckdb')[:40]}", node, hint=_HINT)
    numbers = [int(p.this) for p in params]
    precision, scale = (18, 3) if not numbers else (numbers[0], numbers[1] if len(numbers) > 1 else 0)
    try:
        return DECIMAL(precision, scale)
    except EverfreshError as error:
        raise error.at(source.place(node)) from None
