"""FROM a variable, what was registered, a file or a function that reads files: rows beside the catalog.

Names of common table expressions, tables and views come first. Only a statement that is carried out once may
read such rows: what is kept as text (a view) would not have them again.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from sqlglot import exp

from everfresh.delta.given import Given as Rows
from everfresh.delta.given_files import FileOptions, kind_of_file
from everfresh.errors import Code, EverfreshError
from everfresh.expr import evaluate
from everfresh.expr.nodes import Var
from everfresh.sql.context import Context
from everfresh.sql.datatypes import sql_type
from everfresh.sql.expressions import Binder
from everfresh.sql.logical.plan import Given
from everfresh.sql.queries.clauses import Query
from everfresh.sql.scope import Catalog, Scope
from everfresh.sql.source import Source, near
from everfresh.types import VARCHAR, SqlType, distinct_names, fold

Bound = tuple[Query, str]
"""A query over given rows, and the name that it goes by."""


class Beside(Protocol):
    """What a statement may read beside tables and views."""

    def rows(self, name: str) -> Rows | None:
        """The rows that a name stands for; None if it stands for nothing, or for no rows."""

    def other(self, name: str) -> str | None:
        """What a name stands for that is no rows, for a hint."""

    def files(self, paths: tuple[str, ...], kind: str, options: FileOptions, what: str) -> Rows:
        """The rows of files."""


FUNCTIONS = {
    "read_parquet": "parquet", "parquet_scan": "parquet", "read_csv": "csv", "read_csv_auto": "csv",
    "read_json": "json", "read_json_auto": "json", "read_ndjson": "json", "read_ndjson_auto": "json",
}  # fmt: skip
_OPTIONS = {
    "parquet": ("union_by_name", "hive_partitioning"),
    "csv": (
        "header", "delim", "sep", "delimiter", "all_varchar", "nullstr", "columns", "union_by_name",
        "hive_partitioning",
    ),
    "json": ("columns", "hive_partitioning"),
}  # fmt: skip
_FIELDS = {"delim": "delimiter", "sep": "delimiter", "hive_partitioning": "partitions"}
_TEXTS = ("delimiter", "nullstr")


def given_name(context: Context, node: Any) -> Bound | None:
    """What a name in FROM stands for that is no table and no view; None for nothing."""
    beside: Beside | None = context.source.beside
    if beside is None or node.args.get("db") or node.args.get("catalog"):
        return None
    name = node.name
    rows = beside.rows(name)
    if rows is not None:
        _answered_once(context.source, node, f"'{name}', which is a variable or was registered,")
        return _query(context, rows, name), name
    kind = kind_of_file(name) if node.this.args.get("quoted") else None
    if kind is None:
        return None
    _answered_once(context.source, node, f"the file '{name}'")
    found = _at(context.source, node, lambda: beside.files((name,), kind, FileOptions(), f"FROM '{name}'"))
    shown = _stem(name)
    return _query(context, found, shown), shown


def goes_by(catalog: Catalog, node: Any) -> str:
    """The name of a factor of FROM that has no alias: of a file without its folder and ending."""
    function = file_function(node)
    if function is not None:
        return function
    name: str = node.name
    file = node.this.args.get("quoted") and kind_of_file(name) and catalog.relation(name) is None
    return _stem(name) if file else name


def _stem(path: str) -> str:
    return os.path.basename(path).split(".")[0] or path


def not_given(context: Context, node: Any) -> str | None:
    """A hint where a name stands for something that is no rows."""
    beside: Beside | None = context.source.beside
    return None if beside is None or context.source.now is None else beside.other(node.name)


def _answered_once(source: Source, node: Any, what: str) -> None:
    if source.now is None:
        raise source.unsupported(
            f"{what} in a view",
            node,
            hint="a view reads tables and views, whose changes it follows: CREATE TABLE t AS FROM ..., "
            "then COPY t FROM 'file' or db.apply(t=rows) when there are more",
        )


def _query(context: Context, rows: Rows, shown: str) -> Query:
    names = distinct_names([c.name for c in rows.columns])
    fresh = context.names.fresh
    columns = zip(names, rows.columns, strict=True)
    vars_ = tuple(Var(fresh(n, shown), c.type, c.nullable) for n, c in columns)
    return Query(Given(rows, shown, vars_), tuple(names))


def _at(source: Source, node: Any, read: Any) -> Rows:
    try:
        rows: Rows = read()
    except EverfreshError as error:
        raise (error if error.place else error.at(source.place(node))) from None
    return rows


# -- functions -------------------------------------------------------------------------------------------


def file_function(node: Any) -> str | None:
    """The name of a function that reads files, if a factor of FROM is one."""
    call = node.this if isinstance(node, exp.Table) else node
    if isinstance(call, exp.ReadParquet):
        return "read_parquet"
    if isinstance(call, exp.ReadCSV):
        return "read_csv"
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    return name if name in FUNCTIONS else None


def given_function(context: Context, node: Any) -> Bound:
    """FROM read_parquet(...), read_csv(...), read_json(...)."""
    source, name = context.source, file_function(node) or ""
    call = node.this if isinstance(node, exp.Table) else node
    args = [*([call.this] if isinstance(call, exp.ReadCSV) else []), *call.expressions]
    _answered_once(source, node, f"{name.upper()}")
    beside: Beside | None = source.beside
    if beside is None:
        raise source.unsupported(f"{name.upper()} here", node)
    if not args or isinstance(args[0], exp.EQ | exp.PropertyEQ):
        raise source.error(Code.SYNTAX, f"{name}('path', option = value, ...) has a path first", node)
    kind = FUNCTIONS[name]
    paths = tuple(_text(source, one, name) for one in _listed(args[0]))
    if not paths:
        raise source.error(Code.VALUE, f"{name} has no path to read", node)
    options: dict[str, Any] = {}
    for arg in args[1:]:
        field, value = _option(source, arg, name, kind)
        if field in options:
            raise source.error(Code.SYNTAX, f"an option of {name} is given twice", arg)
        options[field] = value
    found = _at(
        source, node, lambda: beside.files(paths, kind, FileOptions(**options), f"{name}('{paths[0]}')")
    )
    return _query(context, found, name), name


def _listed(tree: Any) -> list[Any]:
    return list(tree.expressions) if isinstance(tree, exp.Array) else [tree]


def _constant(source: Source, tree: Any, name: str) -> tuple[Any, SqlType]:
    bound = Binder(Scope(source), name.upper()).bind(tree)
    return evaluate(bound, {}), bound.type


def _text(source: Source, tree: Any, name: str) -> str:
    value, type_ = _constant(source, tree, name)
    if type_ != VARCHAR or value is None:
        raise source.error(Code.TYPE, f"a path of {name} is a text", tree)
    return str(value)


def _option(source: Source, arg: Any, name: str, kind: str) -> tuple[str, Any]:
    """An option: what it is called in `FileOptions`, and its value."""
    if not isinstance(arg, exp.EQ | exp.PropertyEQ):
        raise source.unsupported(
            f"more than one path for {name}", arg, hint=f"write {name}(['a', 'b']), or option = value"
        )
    option = arg.this.name.lower()
    if option not in _OPTIONS[kind]:
        raise source.unsupported(
            f"the option {option} of {name}", arg, hint=near(option, _OPTIONS[kind], "options")
        )
    field = _FIELDS.get(option, option)
    if option == "columns":
        return field, _columns(source, arg.expression, name)
    value, _ = _constant(source, arg.expression, name)
    good = isinstance(value, str) if field in _TEXTS else isinstance(value, bool)
    if not good or (field == "delimiter" and len(value) != 1):
        wanted = "one character" if field == "delimiter" else "a text" if field in _TEXTS else "true or false"
        raise source.error(Code.TYPE, f"the option {option} of {name} is {wanted}", arg)
    return field, value


def _columns(source: Source, tree: Any, name: str) -> tuple[tuple[str, SqlType], ...]:
    """`{'name': 'TYPE', ...}`"""
    pairs = tree.expressions if isinstance(tree, exp.Struct) else ()
    found: list[tuple[str, SqlType]] = []
    for pair in pairs:
        type_ = pair.expression if isinstance(pair, exp.PropertyEQ) else None
        if not isinstance(type_, exp.Literal) or not type_.is_string:
            pairs = ()
            break
        found.append((pair.this.name, sql_type(exp.DataType.build(type_.name, dialect="duckdb"), source)))
    if not pairs or len({fold(n) for n, _ in found}) != len(found):
        raise source.error(Code.TYPE, f"columns of {name} are written {{'name': 'TYPE', ...}}", tree)
    return tuple(found)
