"""Columns of exactly the schema's types, or an error that names the row, the column and the value.

Invariant: the result has the Arrow types of the schema, one chunk per column, values that these types hold
(`sound`), canonical floats, and no NULL where the schema has none. A column that is all that already is not
copied (it may be a slice: mind its offset). Rows count from 0.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.casts import canonical, fast_cast, plain
from everfresh.delta.refused import Refused, Unreadable, shown
from everfresh.delta.sound import check_sound, check_years
from everfresh.delta.values import read_value
from everfresh.errors import Code, EverfreshError
from everfresh.types import (
    DOUBLE,
    INTEGER_BITS,
    JSON,
    REAL,
    VARCHAR,
    Column,
    SqlType,
    arrow_schema,
    to_arrow,
    to_physical,
)
from everfresh.types.exchange import arrow_of

# The classes that Arrow converts as `read_value` does, or refuses. Exactly these: a bool is an int too.
_DIRECT: dict[str, frozenset[type]] = {
    "BOOLEAN": frozenset({bool, type(None)}),
    "DECIMAL": frozenset({int, Decimal, type(None)}),
    "DOUBLE": frozenset({float, int, type(None)}),
    "VARCHAR": frozenset({str, type(None)}),
    "DATE": frozenset({dt.date, type(None)}),
    "TIMESTAMP": frozenset({dt.datetime, type(None)}),
    "BLOB": frozenset({bytes, type(None)}),
    **{name: frozenset({int, type(None)}) for name in INTEGER_BITS},
}
_TEXT = frozenset({str, type(None)})


def coerce(table: pa.Table, columns: Sequence[Column], *, what: str) -> pa.Table:
    """The `columns` of `table`, found by name, with exactly the types of the schema.

    >>> from everfresh.types import BIGINT, DECIMAL
    >>> rows = pa.table({"a": [1.0, 2.0], "b": ["1.5", None]})
    >>> coerce(rows, [Column("a", BIGINT), Column("b", DECIMAL(9, 2))], what="table 't'").to_pylist()
    [{'a': 1, 'b': Decimal('1.50')}, {'a': 2, 'b': None}]
    """
    arrays = []
    for column in columns:
        index = table.schema.get_field_index(column.name)
        if index < 0:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no column '{column.name}', or more than one",
                place=what,
                hint="columns are: " + ", ".join(table.column_names),
            )
        arrays.append(coerce_column(table.column(index), column, what=what))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(tuple(columns)))


def coerce_column(
    values: pa.Array | pa.ChunkedArray | list[Any], column: Column, *, what: str, required: bool = False
) -> pa.Array:
    """One column, from Arrow or from Python values; `required` refuses NULL as NOT NULL does (for keys)."""
    if isinstance(values, list):
        array = _from_values(values, column, what)
    else:
        check_sound(values, column, what)
        try:
            array = _from_arrow(_one_chunk(values, column, what), column, what)
        except pa.ArrowNotImplementedError as problem:  # an encoding of a type that Arrow itself cannot undo
            raise EverfreshError(
                Code.TYPE,
                f"column '{column.name}' is of Arrow's type {values.type}, not a {column.type}",
                place=f"{what}, column {column.name}",
                hint=f"cast it to {to_arrow(column.type)} first",
            ) from problem
        check_years(array, column, what)
    array = canonical(array)
    if array.null_count and (required or not column.nullable):
        row = pc.index(pc.is_null(array), True).as_py()
        raise null_error(column, what, row)
    return array


def null_error(column: Column, what: str, row: int | None) -> EverfreshError:
    """The error of a NULL in `column`, in one row or (None) because the column is not there."""
    if row is None:
        return EverfreshError(
            Code.NULL,
            f"column '{column.name}' is missing, and it takes no NULL",
            place=what,
            hint=f"give '{column.name}' a value in every row",
        )
    return EverfreshError(
        Code.NULL,
        f"NULL in column '{column.name}' of row {row}, which takes no NULL",
        place=f"{what}, row {row}, column {column.name}",
        hint="give the row a value (rows count from 0)",
    )


def _one_chunk(values: pa.Array | pa.ChunkedArray, column: Column, what: str) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if values.num_chunks == 1:
        return values.chunk(0)
    if values.num_chunks == 0:
        return pa.nulls(0, to_arrow(column.type))
    if values.type != to_arrow(column.type):
        values = pa.chunked_array([plain(chunk) for chunk in values.chunks])  # no kernel joins all encodings
    try:
        return values.combine_chunks()
    except pa.ArrowInvalid as problem:
        raise EverfreshError(
            Code.ARGUMENT,
            f"column '{column.name}' is too large for one batch: {problem}",
            place=what,
            hint="apply the rows in several batches",
        ) from problem


def _from_arrow(array: pa.Array, column: Column, what: str) -> pa.Array:
    if array.type == to_arrow(column.type) and column.type != JSON:
        return array
    array = plain(array)
    result = fast_cast(array, column.type)
    return _one_by_one(_values(array), column, what) if result is None else result


def _values(array: pa.Array) -> list[Any]:
    """The values as Python's; what Python cannot hold (nanoseconds, year 10000) as its text."""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))  # Python may not know the zone
    try:
        values: list[Any] = array.to_pylist()
    except (ValueError, OverflowError):
        values = [_value(scalar) for scalar in array]
    return values


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        nested = pa.types.is_nested(scalar.type)
        return Unreadable(str(scalar) if nested else str(scalar.cast(pa.string())))


def _from_values(values: list[Any], column: Column, what: str) -> pa.Array:
    result = direct(values, column.type)
    return _one_by_one(values, column, what) if result is None else result


def direct(values: list[Any], type_: SqlType) -> pa.Array | None:
    """The column at once, or None if the values have to be looked at one by one."""
    if type_ == REAL:
        wide = direct(values, DOUBLE)
        return None if wide is None else fast_cast(wide, type_)
    classes = set(map(type, values))
    if classes <= _TEXT and type_ != VARCHAR:
        texts = direct(values, VARCHAR)
        return None if texts is None else fast_cast(texts, type_)
    if not classes <= _DIRECT.get(type_.name, frozenset({type(None)})):
        return None
    if type_.name == "TIMESTAMP" and any(value is not None and value.tzinfo for value in values):
        return None  # Arrow would convert it to UTC without a word
    try:
        return pa.array(values, to_arrow(type_))
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        return None


def _one_by_one(values: list[Any], column: Column, what: str) -> pa.Array:
    result = []
    for row, value in enumerate(values):
        try:
            result.append(read_value(value, column.type))
        except Refused as refused:
            raise EverfreshError(
                refused.code,
                f"value {shown(value)} in column '{column.name}' of row {row} {refused.reason}",
                place=f"{what}, row {row}, column {column.name}",
                hint=refused.hint,
            ) from None
    if column.type.is_coded or column.type == JSON:
        return arrow_of([to_physical(value, column.type) for value in result], column.type)
    return pa.array(result, to_arrow(column.type))
