"""Rows that a query reads beside tables and views: a variable, what is registered, files.

Whatever they come as, they are columns with SQL types: those that Arrow's types name, or, of what has none
(lists, texts of CSV, JSON), those that hold all values. A column is read and looked at when somebody asks for
it, once. Invariant: a column that is handed out is what a table would hold of it (`everfresh.delta.coerce`),
and two `Given` are equal only if they are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.delta.coerce import coerce_column
from everfresh.delta.rows import is_from, opened
from everfresh.errors import Code, EverfreshError
from everfresh.types import INTEGER, Column, SqlType, TableSchema, arrow_schema, from_arrow, to_arrow

NO_TABLE = TableSchema("", ())
KINDS = (
    "a query can read a pyarrow Table, a pandas, Polars or Spark DataFrame, whatever has __arrow_c_stream__, "
    "a list of dicts, or a dict of columns"
)


class Given:
    """Some rows with names and types.

    >>> found = given([{"k": 1, "v": "x"}, {"k": 2, "v": None}], "df")
    >>> [str(c) for c in found.columns], found.arrow().to_pylist()
    (['k BIGINT', 'v VARCHAR'], [{'k': 1, 'v': 'x'}, {'k': 2, 'v': None}])
    """

    def __init__(
        self,
        what: str,
        columns: Sequence[Column],
        load: Callable[[int], Any],
        rows: Callable[[], int],
        frame: Any = None,
    ) -> None:
        self.what = what
        self.columns = tuple(columns)
        self.once = False
        """Whether the rows could not be read again from what they came in."""
        self.frame = frame
        """The Spark DataFrame that the rows are in, untouched."""
        self._load, self._rows = load, rows
        self._done: dict[int, pa.Array] = {}

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._rows()

    def column(self, place: int) -> pa.Array:
        """A column in exactly the Arrow type of its SQL type."""
        found = self._done.get(place)
        if found is None:
            found = self._done[place] = coerce_column(self._load(place), self.columns[place], what=self.what)
        return found

    def close(self) -> None:
        """Let go of the rows."""
        self._load, self._rows = _closed, lambda: 0
        self._done.clear()
        self.frame = None

    def arrow(self) -> pa.Table:
        """All columns; their names are not made distinct."""
        schema = arrow_schema(self.columns)
        if not self.columns:
            return pa.table({})
        return pa.Table.from_arrays([self.column(i) for i in range(len(self.columns))], schema=schema)


def _closed(place: int) -> Any:
    raise RuntimeError("the rows are read while their statement runs")


def is_rows(value: Any) -> bool:
    """Whether a value is rows by itself: with columns that have names.

    >>> [is_rows(v) for v in ([{"a": 1}], {"a": [1]}, pa.table({"a": [1]}), [1], {"a": 1}, "a.csv", None)]
    [True, True, True, False, False, False, False]
    """
    if isinstance(value, type) or value is None or isinstance(value, str | bytes):
        return False
    if isinstance(value, list):
        return bool(value) and all(isinstance(row, Mapping) for row in value)
    if isinstance(value, Mapping):
        columns = [
            isinstance(v, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray) for v in value.values()
        ]
        return bool(columns) and all(columns) and all(isinstance(name, str) for name in value)
    if isinstance(value, np.ndarray):
        return value.dtype.names is not None
    if isinstance(value, pa.Array | pa.ChunkedArray | pa.Scalar):
        return False
    if is_from(value, "pandas") or is_from(value, "polars"):
        return len(getattr(value, "shape", (0, 0))) == 2 or hasattr(value, "collect_schema")
    return is_spark(value) or any(
        hasattr(value, name) for name in ("__arrow_c_stream__", "to_table", "__arrow_c_array__")
    )


def is_spark(value: Any) -> bool:
    """Whether a value is a Spark DataFrame."""
    return is_from(value, "pyspark.sql") and hasattr(value, "columns") and hasattr(value, "isStreaming")


def given(value: Any, name: str, *, on_spark: bool = False) -> Given:
    """The rows in a value; `on_spark` leaves a Spark DataFrame to Spark."""
    what = f"'{name}'"
    if is_spark(value):
        return _frame(value, what, on_spark)
    if isinstance(value, Given):
        return value
    if not is_rows(value):
        raise EverfreshError(
            Code.ARGUMENT, f"a {type(value).__name__} has no columns with names", place=what, hint=KINDS
        )
    known = getattr(value, "columns", None) if is_from(value, "everfresh") else None
    if isinstance(known, tuple) and all(isinstance(c, Column) for c in known):
        table = value.to_arrow()
        return Given(what, _nullable(known), table.column, lambda: table.num_rows)
    source = opened(value, NO_TABLE, what, "insert")
    names = [str(one) for one in source.names]
    found = [
        values if hasattr(values, "type") else _typed(values, n, what)
        for values, n in zip(source.columns, names, strict=True)
    ]
    columns = [Column(n, type_of(values.type, n, what)) for n, values in zip(names, found, strict=True)]
    rows = Given(what, columns, found.__getitem__, lambda: source.rows)
    rows.once = isinstance(value, pa.RecordBatchReader)
    return rows


def _nullable(columns: Sequence[Column]) -> list[Column]:
    return [Column(c.name, c.type) for c in columns]


def type_of(arrow: pa.DataType, name: str, what: str) -> SqlType:
    """The type of a column of an Arrow type."""
    if pa.types.is_null(arrow):
        return INTEGER  # as in CREATE TABLE ... AS
    found = from_arrow(arrow)
    if found is None:
        raise EverfreshError(
            Code.TYPE,
            f"column '{name}' is of Arrow's type {arrow}, which no SQL type is like",
            place=f"{what}, column {name}",
            hint="cast it first, or leave it out",
        )
    return found


def _typed(values: list[Any], name: str, what: str) -> pa.Array:
    """Values of Python in the one type that Arrow finds for them."""
    try:
        return pa.array(values, from_pandas=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        if all(v is None or (isinstance(v, int) and not isinstance(v, bool)) for v in values):
            return pa.array(values, to_arrow(SqlType("HUGEINT")))
        if values and is_number(values):
            return pa.array([None if v is None else float(v) for v in values], pa.float64())
        raise EverfreshError(
            Code.TYPE,
            f"the values of column '{name}' are of no one type: {problem}",
            place=f"{what}, column {name}",
            hint="give it as a pyarrow Table, whose columns have types",
        ) from problem


def is_number(values: Sequence[Any]) -> bool:
    """Whether all values are numbers."""
    return all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in values)


def _frame(frame: Any, what: str, on_spark: bool) -> Given:
    """A Spark DataFrame; its rows are fetched when somebody asks for them."""
    if frame.isStreaming:
        raise EverfreshError(
            Code.ARGUMENT,
            "a streaming DataFrame has no rows to query",
            place=what,
            hint="use db.stream(table, df), and query the table",
        )
    fetched: list[pa.Table] = []

    def table() -> pa.Table:
        if not fetched:
            fetched.append(frame.toArrow())
        return fetched[0]

    if on_spark:
        shape = frame.limit(0).toArrow().schema
    else:
        shape = table().schema
    columns = [Column(field.name, type_of(field.type, field.name, what)) for field in shape]
    return Given(
        what,
        columns,
        lambda place: table().column(place),
        lambda: table().num_rows,
        frame if on_spark else None,
    )
