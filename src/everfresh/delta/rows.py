"""Every accepted kind of rows, matched to a table's schema by column name.

`read_rows` is the one way data gets in: it recognises what it was given (foreign classes by their module's
name, never by importing them), finds the schema's columns in it without regard to case, and hands the columns
to `coerce`.

- A pandas NaN, NaT or NA is NULL, as pandas itself has it; a NaN from anywhere else is a NaN.
- An insert may leave out nullable columns: they are NULL. A delete has all columns or exactly the primary
  key. An update has the primary key and some other columns, the same in every row.
- Tuples go by position: all columns in the table's order (a delete: or the key columns in the key's order).
- Rows to insert with a column `_change_type` are a change feed (`everfresh.delta.feeds`).

Invariant: the result has the table's columns in the table's order (those that were given, for key deletes and
updates), in the form that `coerce` promises; key columns hold no NULL. A feed has its own columns behind
them.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.delta.casts import canonical
from everfresh.delta.changes import Delta, Operation
from everfresh.delta.coerce import coerce_column, direct, null_error
from everfresh.delta.feeds import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    Feed,
    check_pairs,
    find_feed,
    fit_feed,
    missing_column,
)
from everfresh.delta.files import read_files
from everfresh.errors import Code, EverfreshError
from everfresh.types import Column, SqlType, TableSchema, arrow_schema, fold, no_rows, to_arrow

ACCEPTED = (
    "rows can be a pyarrow Table, a pandas, Polars or Spark DataFrame, a DuckDB relation, a list of dicts "
    "or tuples, a dict of columns, or a path to .parquet or .csv files"
)


_FEEDS = ("insert", "change")  # what may turn out to be a change feed


@dataclass(frozen=True)
class SparkRows:
    """Rows in a Spark DataFrame, untouched: its types are checked where it is read.

    `names` has a pair for each of the table's columns that is there, and for those of a change feed: its name
    in the table, its name in the DataFrame.
    """

    df: Any
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Source:
    """Named columns of one length, as Arrow or as Python values."""

    names: Sequence[Any]
    columns: Sequence[Any]
    rows: int


def read_rows(
    data: Any, schema: TableSchema, *, what: str, op: Operation = "insert", kind: str | None = None
) -> pa.Table | SparkRows:
    """The rows in `data` as an Arrow table of `schema`; `what` names them in errors ("table 't', inserts").

    >>> from everfresh.types import BIGINT, VARCHAR
    >>> schema = TableSchema("t", (Column("a", BIGINT), Column("b", VARCHAR)))
    >>> read_rows([{"A": 1}, {"A": 2, "b": "x"}], schema, what="table 't'").to_pylist()
    [{'a': 1, 'b': None}, {'a': 2, 'b': 'x'}]
    """
    if is_from(data, "pyspark.sql") and hasattr(data, "columns"):
        return _read_spark(data, schema, what, op)
    rows = (
        _read_paths(data, schema, what, op, kind)
        if isinstance(data, (str, os.PathLike))
        else _fit(opened(data, schema, what, op), schema, what, op)
    )
    if op == "insert":  # with "change" it may be a piece of a feed
        check_pairs(rows, schema, what)
    return rows


def read_local(data: Any, schema: TableSchema, what: str, op: Operation) -> pa.Table:
    """The same in this process: rows of a Spark DataFrame are fetched."""
    rows = read_rows(data, schema, what=what, op=op)
    return read_rows(rows.df.toArrow(), schema, what=what, op=op) if isinstance(rows, SparkRows) else rows


def _read_paths(
    data: str | os.PathLike[str], schema: TableSchema, what: str, op: Operation, kind: str | None
) -> pa.Table:
    tables: list[pa.Table] = []
    for name, table in read_files(data, what=what, kind=kind):
        tables.append(_fit(_from_table(table), schema, f"{what}, file '{name}'", op))
        if tables[-1].schema != tables[0].schema:
            raise EverfreshError(
                Code.ARGUMENT,
                f"file '{name}' has other columns than the file before it",
                place=what,
                hint="apply the files one by one",
            )
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()


# -- which columns -------------------------------------------------------------------------------------------


def match_columns(
    names: Sequence[Any], schema: TableSchema, *, what: str, op: Operation
) -> list[tuple[Column, int | None]]:
    """The table's columns that the operation is about, each with its position in `names` (None: NULL)."""
    folded = {fold(column.name): column for column in schema.columns}
    feed = find_feed(names, schema)
    if feed is not None and op not in _FEEDS:
        raise EverfreshError(
            Code.ARGUMENT,
            f"the rows to {op} have a column '{CHANGE_TYPE}', which says itself what happened to them",
            place=what,
            hint=f"give a change feed by itself: db.apply({schema.name}=rows)",
        )
    found: dict[str, int] = {}
    for index, name in enumerate(names):
        if feed is not None and index in feed.positions:
            continue
        column = folded.get(fold(str(name)))
        if column is None:
            raise _unknown(str(name), schema, what)
        if column.name in found:
            raise EverfreshError(
                Code.ARGUMENT,
                f"column '{column.name}' is given twice",
                place=what,
                hint="names are compared without regard to case",
            )
        found[column.name] = index
    if op != "delete" and schema.generated:
        _check_given(found, schema, what)
    if op in _FEEDS:
        for column in schema.columns:
            needed = column.name in schema.key if feed is not None else required(column, schema)
            if column.name not in found and needed:
                raise null_error(column, what, None)
        return [(column, found.get(column.name)) for column in schema.columns]
    _check_key(found, schema, what, op)
    return [(column, found[column.name]) for column in schema.columns if column.name in found]


def _check_given(found: Mapping[str, int], schema: TableSchema, what: str) -> None:
    """What is computed is not given."""
    for name, _ in schema.generated:
        if name in found:
            raise EverfreshError(
                Code.ARGUMENT,
                f"column '{name}' of '{schema.name}' is generated: rows do not have it",
                place=what,
                hint="leave it out; rows have: " + ", ".join(schema.given),
            )


def _check_key(found: Mapping[str, int], schema: TableSchema, what: str, op: Operation) -> None:
    """A delete has all columns or exactly the key, an update at least the key."""
    if op == "update" and not schema.key:
        raise EverfreshError(
            Code.ARGUMENT,
            f"table '{schema.name}' has no primary key, so its rows cannot be updated by it",
            place=what,
            hint="delete the old row in full and insert the new one",
        )
    lacking = [name for name in (schema.key if op == "update" else schema.given) if name not in found]
    if not lacking or (op == "delete" and schema.key and set(found) == set(schema.key)):
        return
    key = f"exactly the primary key ({', '.join(schema.key)})" if schema.key else ""
    if op == "update":
        hint = f"an update names its rows by the primary key ({', '.join(schema.key)})"
    else:
        hint = "a deleted row has all columns" + (f", or {key}" if key else "; the table has no primary key")
    raise EverfreshError(
        Code.ARGUMENT,
        f"the rows to {op} lack column '{lacking[0]}' of table '{schema.name}'",
        place=what,
        hint=hint,
    )


def required(column: Column, schema: TableSchema) -> bool:
    """Whether a column of a table refuses NULL: it says so, or is in the primary key."""
    return not column.nullable or column.name in schema.key


def _unknown(name: str, schema: TableSchema, what: str) -> EverfreshError:
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in schema.names], n=1)
    real = [n for n in schema.names if near and n.lower() == near[0]]
    hint = f"did you mean '{real[0]}'? " if real else ""
    return EverfreshError(
        Code.NOT_FOUND,
        f"table '{schema.name}' has no column '{name}'",
        place=what,
        hint=f"{hint}columns are: {', '.join(schema.names)}",
    )


def _fit(source: _Source, schema: TableSchema, what: str, op: Operation) -> pa.Table:
    """The columns of `source` that the operation is about, with the schema's types."""
    if not source.names and source.rows == 0:  # nothing at all: no rows, of any shape
        return no_rows(schema.arrow)
    plan = _plan(source.names, schema, what, op)
    if plan.feed is not None:
        return fit_feed(source.columns, source.rows, plan.feed, plan.chosen, schema, what)
    known: dict[int, pa.Array] = {}
    if source.rows <= _FEW and len(plan.chosen) >= _WIDE:
        known = _together(source, plan)
    arrays = [
        known[place]
        if place in known
        else pa.nulls(source.rows, to_arrow(column.type))
        if index is None
        else coerce_column(source.columns[index], column, what=what, required=required(column, schema))
        for place, (column, index) in enumerate(plan.chosen)
    ]
    return pa.Table.from_arrays(arrays, schema=plan.arrow)


def _together(source: _Source, plan: _Plan) -> dict[int, pa.Array]:
    """Columns of a few rows by their places: those of one type are made at once, and are parts of one array.
    Columns whose values have to be looked at one by one, or are NULL, are left out."""
    found: dict[int, pa.Array] = {}
    rows, columns = source.rows, source.columns
    for type_, places in plan.by_type:
        lists = [columns[index] for _, index in places]
        if not all(type(values) is list for values in lists):
            continue
        array = direct([value for values in lists for value in values], type_)
        if array is not None and not array.null_count:
            array = canonical(array)
            for i, (place, _) in enumerate(places):
                found[place] = array.slice(i * rows, rows)
    return found


@dataclass(frozen=True)
class _Plan:
    """Which of the given columns are which of the table's; it is good for all rows with the same names."""

    schema: TableSchema
    chosen: list[tuple[Column, int | None]]
    feed: Feed | None
    arrow: pa.Schema

    @cached_property
    def by_type(self) -> list[tuple[SqlType, list[tuple[int, int]]]]:
        """The places of the columns of each type, here and among those that are given."""
        found: dict[SqlType, list[tuple[int, int]]] = {}
        for place, (column, index) in enumerate(self.chosen):
            if index is not None:
                found.setdefault(column.type, []).append((place, index))
        return list(found.items())


_PLANS: dict[tuple[int, Operation, tuple[Any, ...]], _Plan] = {}
"""By the identity of the schema (which a plan holds), the operation and the given names."""
_MOST = 1000
_FEW, _WIDE = 16, 16
"""Rows up to which, and columns from which, columns of one type are made at once."""


def _plan(names: Sequence[Any], schema: TableSchema, what: str, op: Operation) -> _Plan:
    key = id(schema), op, tuple(names)
    plan = _PLANS.get(key)
    if plan is None:
        chosen = match_columns(names, schema, what=what, op=op)
        arrow = arrow_schema(tuple(column for column, _ in chosen))
        plan = _Plan(schema, chosen, find_feed(names, schema), arrow)
        if len(_PLANS) >= _MOST:
            _PLANS.clear()
        _PLANS[key] = plan
    return plan


def _read_spark(df: Any, schema: TableSchema, what: str, op: Operation) -> SparkRows:
    if df.isStreaming:
        raise EverfreshError(
            Code.ARGUMENT,
            "a streaming DataFrame is not one batch of rows",
            place=what,
            hint="use db.stream(table, df)",
        )
    names = df.columns
    chosen = match_columns(names, schema, what=what, op=op)
    found = [(column.name, names[index]) for column, index in chosen if index is not None]
    feed = find_feed(names, schema)
    if feed is not None:
        found.append((CHANGE_TYPE, names[feed.kind]))
        if feed.version is not None:
            found.append((COMMIT_VERSION, names[feed.version]))
    return SparkRows(df, tuple(found))


# -- which kind ----------------------------------------------------------------------------------------------


def is_from(value: Any, package: str) -> bool:
    """Whether a value is of a class of a package, which need not be imported for that."""
    module = type(value).__module__
    return module == package or module.startswith(package + ".")


def opened(data: Any, schema: TableSchema, what: str, op: Operation) -> _Source:
    """The columns in `data`, whatever it is (but for paths and Spark)."""
    if isinstance(data, list):
        return _from_rows(data, schema, what, op)
    if isinstance(data, pa.Table):
        return _from_table(data)
    if is_from(data, "pandas") and hasattr(data, "iloc") and hasattr(data, "columns"):
        columns = [_pandas_column(data.iloc[:, index]) for index in range(len(data.columns))]
        return _Source(list(data.columns), columns, len(data))
    if (
        isinstance(data, pa.RecordBatchReader)
        or hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "__arrow_c_array__")
        or _is_lazy(data)
    ):
        return _from_arrow(data, what)
    if isinstance(data, np.ndarray) and data.dtype.names:
        return _from_columns({name: data[name] for name in data.dtype.names}, what)
    if isinstance(data, Mapping):
        return _from_mapping(data, schema, what, op)
    if isinstance(data, Iterable) and not isinstance(data, (bytes, bytearray, np.ndarray, Delta)):
        return _from_rows(list(data), schema, what, op)
    raise EverfreshError(Code.ARGUMENT, f"{_a(data)} is not rows", place=what, hint=ACCEPTED)


def _a(value: Any) -> str:
    name = "None" if value is None else f"{type(value).__name__}"
    return name if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _from_table(table: pa.Table) -> _Source:
    return _Source(table.column_names, table.columns, table.num_rows)


def _is_lazy(data: Any) -> bool:
    """Whether rows are only read when they are asked for: a Polars LazyFrame, a Dataset or a Scanner."""
    return (is_from(data, "polars") and hasattr(data, "collect")) or (
        is_from(data, "pyarrow") and hasattr(data, "to_table")
    )


def _from_arrow(data: Any, what: str) -> _Source:
    try:
        if _is_lazy(data):
            data = data.collect() if hasattr(data, "collect") else data.to_table()
        return _from_table(data.read_all() if isinstance(data, pa.RecordBatchReader) else pa.table(data))
    except Exception as problem:  # whatever the producer raises, or a column that is no table
        raise EverfreshError(
            Code.ARGUMENT,
            f"{_a(data)} cannot be read as an Arrow table: {problem}",
            place=what,
            hint=ACCEPTED,
        ) from problem


def _pandas_column(series: Any) -> Any:
    """A pandas Series: by Arrow, but for objects, whose types pandas does not know."""
    if series.dtype != object:
        try:
            return pa.array(series, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):  # a type of pandas' own, such as a period
            series = series.astype(object)
    return [None if missing else value for value, missing in zip(series, series.isna(), strict=True)]


def _is_column(value: Any) -> bool:
    return (
        (isinstance(value, (list, tuple, range, np.ndarray)) and not isinstance(value, pa.MonthDayNano))
        or (hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__"))
        or (is_from(value, "pandas") and hasattr(value, "isna"))
    )


def _from_mapping(data: Mapping[Any, Any], schema: TableSchema, what: str, op: Operation) -> _Source:
    """A dict of columns, or one row: a table has no lists for values, so there is no third reading."""
    columns = [name for name, value in data.items() if _is_column(value)]
    if data and not columns:
        return _from_rows([data], schema, what, op)
    if not data or len(columns) != len(data):
        single = next((name for name in data if name not in columns), None)
        problem = (
            "an empty dict is not rows"
            if not data
            else f"'{single}' is one value, '{columns[0]}' a column of them"
        )
        raise EverfreshError(
            Code.ARGUMENT, problem, place=what, hint="a dict is one row, or a column of values for each name"
        )
    return _from_columns(data, what)


def _from_columns(data: Mapping[Any, Any], what: str) -> _Source:
    columns = [_column(value, name, what) for name, value in data.items()]
    lengths = {name: len(column) for name, column in zip(data, columns, strict=True)}
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length != lengths[first]:
            raise EverfreshError(
                Code.ARGUMENT,
                f"column '{first}' has {lengths[first]} values, column '{name}' has {length}",
                place=what,
                hint="columns are of one length",
            )
    return _Source(list(data), columns, lengths[first])


def _column(value: Any, name: Any, what: str) -> Any:
    if is_from(value, "pandas") and hasattr(value, "dtype"):
        return _pandas_column(value)
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return value
    try:
        if isinstance(value, np.ndarray):
            return pa.array(value) if value.dtype != object else value.tolist()
        return pa.chunked_array(value) if hasattr(value, "__arrow_c_stream__") else list(value)
    except (pa.ArrowException, TypeError, ValueError) as problem:
        raise EverfreshError(
            Code.ARGUMENT,
            f"column '{name}' cannot be read: {problem}",
            place=what,
            hint="give a list of values",
        ) from problem


def _from_rows(rows: list[Any], schema: TableSchema, what: str, op: Operation) -> _Source:
    """A list of rows of one kind: by name or by position."""
    if not rows:
        return _Source([], [], 0)
    if set(map(type, rows)) not in ({dict}, {tuple}, {list}):
        rows = [_row(row, index, what) for index, row in enumerate(rows)]
    by_name = isinstance(rows[0], Mapping)
    for index, row in enumerate(rows[1:], 1):
        if isinstance(row, Mapping) != by_name:
            raise _bad_row(
                index, "is by " + ("position" if by_name else "name") + ", unlike the rows before it", what
            )
    return _from_dicts(rows, schema, what, op) if by_name else _from_tuples(rows, schema, what, op)


def _row(row: Any, index: int, what: str) -> Any:
    if isinstance(row, Mapping):
        return row
    for method in ("_asdict", "asDict"):  # a namedtuple, a Spark Row
        if isinstance(row, tuple) and hasattr(row, method):
            return getattr(row, method)()
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    if isinstance(row, (tuple, list)):
        return row
    raise _bad_row(index, f"is {_a(row)}, not a dict or a tuple", what)


def _bad_row(index: int, problem: str, what: str, hint: str = ACCEPTED) -> EverfreshError:
    return EverfreshError(Code.ARGUMENT, f"row {index} {problem}", place=f"{what}, row {index}", hint=hint)


def _from_dicts(rows: list[Mapping[Any, Any]], schema: TableSchema, what: str, op: Operation) -> _Source:
    names = list(dict.fromkeys(name for row in rows for name in row))
    known = _PLANS.get((id(schema), op, tuple(names)))
    if (known.feed if known is not None else find_feed(names, schema)) is not None:
        for index, row in enumerate(rows):
            if (missing := missing_column(row, names, schema)) is not None:
                raise _bad_row(
                    index,
                    f"lacks column '{missing}', which other rows have",
                    what,
                    "only inserts may leave columns out; a delete has all, or exactly the primary key",
                )
    elif op != "insert":  # what is left out of an update stays as it is, so it must not become NULL
        for index, row in enumerate(rows):
            if len(row) != len(names):
                absent = next(name for name in names if name not in row)
                raise _bad_row(
                    index,
                    f"lacks column '{absent}', which other rows have",
                    what,
                    f"the rows to {op} have the same columns; use one batch for each shape",
                )
    return _Source(names, [[row.get(name) for row in rows] for name in names], len(rows))


def _from_tuples(rows: list[Sequence[Any]], schema: TableSchema, what: str, op: Operation) -> _Source:
    names = schema.given
    if op == "delete" and len(rows[0]) == len(schema.names):
        names = schema.names
    if op == "delete" and len(rows[0]) == len(schema.key) != len(names):
        names = schema.key
    for index, row in enumerate(rows):
        if len(row) != len(names):
            raise _bad_row(
                index,
                f"has {len(row)} values for {len(names)} columns",
                what,
                f"a tuple has a value for each of: {', '.join(names)}; use dicts to leave some out",
            )
    return _Source(names, [list(column) for column in zip(*rows, strict=True)], len(rows))
