"""Values as Spark SQL holds them, and as it is read by others.

Spark has no unsigned integers, no UUID and no order of maps, and compares lists otherwise. In everfresh's own
queries every type that Spark lacks, or has with another meaning, is held as it is held in vectors: a coded
type by its code, a STRING; TIME by its microseconds. Whoever reads a DataFrame of a table, a view or a result
gets what Spark has nearest.

| type | in queries | to others |
|---|---|---|
| UTINYINT, USMALLINT, UINTEGER | SMALLINT, INT, BIGINT | the same |
| UBIGINT | DECIMAL(38,0) | DECIMAL(20,0) |
| BLOB | STRING, its code | BINARY |
| UUID, JSON | STRING | the same |
| TIME | BIGINT | STRING, `HH:MM:SS.ffffff` |
| TIMESTAMPTZ | TIMESTAMP_NTZ, in UTC | TIMESTAMP_LTZ |
| ENUM | BIGINT, the place of its label | STRING |
| LIST, STRUCT, MAP | STRING, their codes | ARRAY, STRUCT, MAP |

Invariant: `from_held(held(table))` is the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.expr.library.casts import cast_value
from everfresh.types import Column, SqlType, arrow_schema, parse_type, to_arrow
from everfresh.types.exchange import arrow_of, coded, physical

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HELD = {
    "UTINYINT": "SMALLINT", "USMALLINT": "INT", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(38,0)",
    "BLOB": "STRING", "UUID": "STRING", "JSON": "STRING", "LIST": "STRING", "STRUCT": "STRING",
    "MAP": "STRING", "TIME": "BIGINT", "TIMESTAMPTZ": "TIMESTAMP_NTZ", "ENUM": "BIGINT",
}  # fmt: skip
"""The Spark types in which queries hold the types that Spark lacks."""

_AS_ARROW = {
    "UTINYINT": pa.int16(), "USMALLINT": pa.int32(), "UINTEGER": pa.int64(), "UBIGINT": pa.decimal128(38, 0),
    "TIME": pa.int64(), "TIMESTAMPTZ": pa.timestamp("us"), "ENUM": pa.int64(),
}  # fmt: skip

_SHADOWS = {
    "UUID": "VARCHAR", "JSON": "VARCHAR", "TIME": "VARCHAR", "ENUM": "VARCHAR", "UTINYINT": "SMALLINT",
    "USMALLINT": "INTEGER", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(20,0)", "HUGEINT": "DECIMAL(38,0)",
}  # fmt: skip


def is_plain(columns: Iterable[Column]) -> bool:
    """Whether Spark has all types of these columns."""
    return not any(c.type.name in HELD for c in columns)


# -- as queries hold them ------------------------------------------------------------------------------------


def held(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Rows in their Arrow types as queries hold them; columns behind these stay as they are."""
    for i, column in enumerate(columns):
        if column.type.name in HELD:
            table = table.set_column(i, column.name, _held(table.column(i), column.type))
    return table


def _held(column: pa.ChunkedArray, type_: SqlType) -> Any:
    if type_.is_coded or type_.name == "JSON":
        return coded(column, type_)
    target = _AS_ARROW[type_.name]
    if type_.name == "ENUM":
        return pa.array([v for chunk in column.chunks for v in physical(chunk, type_)], target)
    if type_.name in ("TIME", "TIMESTAMPTZ"):
        return pa.chunked_array([chunk.view(target) for chunk in column.chunks], target)
    return column.cast(pa.decimal128(20, 0)).cast(target) if type_.name == "UBIGINT" else column.cast(target)


def from_held(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """The inverse, with exactly the Arrow types of the columns."""
    for i, column in enumerate(columns):
        if column.type.name in HELD:
            table = table.set_column(i, column.name, _from_held(table.column(i), column.type))
    return table


def _from_held(column: pa.ChunkedArray, type_: SqlType) -> Any:
    target = to_arrow(type_)
    if type_.is_coded or type_.name in ("JSON", "ENUM"):
        return arrow_of(column.to_pylist(), type_)
    if type_.name in ("TIME", "TIMESTAMPTZ"):
        return pa.chunked_array([chunk.view(pa.int64()).view(target) for chunk in column.chunks], target)
    return column.cast(target)


# -- as others read them -------------------------------------------------------------------------------------


def shadow(type_: SqlType) -> SqlType:
    """The type that Spark has nearest, inside of nested types too."""
    if type_.is_nested:
        return SqlType(type_.name, inner=tuple(map(shadow, type_.inner)), names=type_.names)
    name = _SHADOWS.get(type_.name)
    return type_ if name is None else parse_type(name)


def shown_type(type_: SqlType) -> str:
    """The Spark type in which others read values of a type."""
    from everfresh.spark.sql.text import name, spark_type

    found = shadow(type_)
    inner = [shown_type(t) for t in found.inner]
    match found.name:
        case "LIST":
            return f"ARRAY<{inner[0]}>"
        case "MAP":
            return f"MAP<{inner[0]}, {inner[1]}>"
        case "STRUCT":
            pairs = zip(found.names, inner, strict=True)
            return f"STRUCT<{', '.join(f'{name(field)}: {t}' for field, t in pairs)}>"
        case "BLOB":
            return "BINARY"
        case "TIMESTAMPTZ":
            return "TIMESTAMP_LTZ"
    return spark_type(found)


def shown(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Rows in their Arrow types as others read them from Spark."""
    for i, column in enumerate(columns):
        to = shadow(column.type)
        if to != column.type and column.type.name != "HUGEINT":
            values = [v for chunk in table.column(i).chunks for v in physical(chunk, column.type)]
            cast = [cast_value(v, column.type, to) for v in values]
            table = table.set_column(i, column.name, arrow_of(cast, to))
    return table


def shown_frame(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """A DataFrame of a query as others read it."""
    from everfresh.spark.sql.text import name

    if is_plain(columns):
        return frame
    schema = ", ".join(f"{name(c.name)} {shown_type(c.type)}" for c in columns)
    return frame.mapInArrow(partial(_shown_block, tuple(columns)), schema)


def _shown_block(columns: tuple[Column, ...], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = from_held(pa.Table.from_batches([batch]), columns)
        yield from shown(table.cast(arrow_schema(columns)), columns).to_batches()
