"""Arrow columns that are what they say: the values that Arrow lets through and no table holds are refused.

Arrow arrays are memory that somebody else filled. Text may be bytes that are not UTF-8, decimals may have
more digits than their type, indices of a dictionary or offsets of strings may point nowhere: Arrow itself
never looks, and whoever reads such a value later fails, or reads other memory. And dates may be of years that
Python and pandas have not. `check_sound` sees to the first before anything reads a column, `check_years` to
the second in the columns that come of it.

Invariant: a column that passes both holds only values of its type, and every one of them reads back in every
form.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.refused import shown
from everfresh.errors import Code, EverfreshError
from everfresh.types import DATE, TIME, TIMESTAMP, TIMESTAMPTZ, Column, SqlType, from_arrow, to_physical

_DAY_US = 86_400_000_000
_FIRST, _LAST = to_physical(dt.date.min, DATE), to_physical(dt.date.max, DATE)
_MOMENTS = _FIRST * _DAY_US, (_LAST + 1) * _DAY_US - 1
_YEARS = {
    DATE: (_FIRST, _LAST), TIMESTAMP: _MOMENTS, TIMESTAMPTZ: _MOMENTS, TIME: (0, _DAY_US - 1),
}  # fmt: skip

_LATIN = "text is UTF-8: decode it with the encoding it was written in (such as latin-1) first"
_BROKEN = "whoever made the array wrote other buffers than its type says"


def years_of(type_: SqlType) -> tuple[int, int] | None:
    """The least and the greatest physical value of the years 1 to 9999; None for other types than days and
    moments."""
    return _YEARS.get(type_)


def is_sound(data: pa.RecordBatch | pa.Table | pa.Array | pa.ChunkedArray, full: bool = True) -> bool:
    """Whether Arrow data are what their types say; unless `full`, as far as is seen without reading all."""
    try:
        data.validate(full=full)
    except (pa.ArrowInvalid, pa.ArrowIndexError):
        return False
    return True


def check_sound(values: pa.Array | pa.ChunkedArray, column: Column, what: str) -> None:
    """Refuse a column that is not what its Arrow type says, with the first row where it is not.

    >>> texts = pa.array([b"a", "éz".encode("latin-1")], pa.binary()).view(pa.string())
    >>> check_sound(texts, Column("s", SqlType("VARCHAR")), "t")
    Traceback (most recent call last):
        ...
    everfresh.errors.EverfreshError: value b'\\xe9z' in column 's' of row 1 is not UTF-8 (t, row 1, column s)
      hint: text is UTF-8: decode it with the encoding it was written in (such as latin-1) first
    """
    try:
        values.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as problem:
        raise _unsound(values, column, what, problem) from None


def check_years(array: pa.Array | pa.ChunkedArray, column: Column, what: str) -> None:
    """Refuse a day or a moment of a year that Python does not know."""
    if column.type.is_nested:
        for part in _parts(array, column.type):
            check_years(part[0], Column(column.name, part[1]), what)
        return
    row = _first_beyond(array, column.type)
    if row is not None:
        raise EverfreshError(
            Code.OVERFLOW,
            f"value {_text(array[row])} in column '{column.name}' of row {row} is outside {column.type}",
            place=f"{what}, row {row}, column {column.name}",
            hint="a TIME is before 24:00:00"
            if column.type == TIME
            else f"columns of {column.type} hold the years 1 to 9999",
        )


def _parts(array: pa.Array | pa.ChunkedArray, type_: SqlType) -> list[tuple[pa.Array, SqlType]]:
    """The values inside of nested values, and their types."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    if type_.name == "LIST":
        return [(chunk.flatten(), type_.inner[0]) for chunk in chunks]
    if type_.name == "MAP":
        return [(part, t) for c in chunks for part, t in zip((c.keys, c.items), type_.inner, strict=True)]
    return [(part, t) for c in chunks for part, t in zip(c.flatten(), type_.inner, strict=True)]


def unreadable(table: pa.Table) -> EverfreshError | None:
    """Why rows cannot be Python's values: a view may compute a day that Python does not know. None if they
    can."""
    for name, array in zip(table.column_names, table.columns, strict=True):
        type_ = from_arrow(array.type)
        row = None if type_ is None else _first_beyond(array, type_)
        if row is not None:
            return EverfreshError(
                Code.OVERFLOW,
                f"{_text(array[row])} in column '{name}' is beyond Python's dates, of the years 1 to 9999",
                place=f"row {row}, column {name}",
                hint="read the rows with to_arrow() or to_polars(), or CAST the column AS VARCHAR",
            )
    return None


def _first_beyond(array: pa.Array | pa.ChunkedArray, type_: SqlType) -> int | None:
    bounds = years_of(type_)
    if bounds is None or array.null_count == len(array):
        return None
    least, most = (pa.scalar(bound, pa.int64()).cast(_number(type_)).cast(array.type) for bound in bounds)
    extremes = pc.min_max(array)
    if pc.and_(pc.less_equal(least, extremes["min"]), pc.less_equal(extremes["max"], most)).as_py():
        return None
    row: int = pc.index(pc.or_(pc.less(array, least), pc.greater(array, most)), True).as_py()
    return row


def _number(type_: SqlType) -> pa.DataType:
    return pa.int32() if type_ == DATE else pa.int64()


def _text(scalar: pa.Scalar) -> str:
    return str(scalar.cast(pa.string()))


# -- what is wrong -------------------------------------------------------------------------------------------


def _unsound(values: Any, column: Column, what: str, problem: Exception) -> EverfreshError:
    """The error of the first value that is not sound; or of the column, where that is no value at all."""
    before = 0
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    chunk = next((c for c in chunks if not is_sound(c)), None)
    for other in chunks:
        if other is chunk:
            break
        before += len(other)
    row, found = (None, None) if chunk is None else _first_bad(chunk)
    place = what if row is None else f"{what}, row {before + row}"
    if row is None or found is None:
        message, code = f"column '{column.name}' is no valid Arrow {values.type}: {problem}", Code.VALUE
        hint = _BROKEN
    else:
        code, value, reason, hint = found
        message = f"value {shown(value)} in column '{column.name}' of row {before + row} {reason}"
    return EverfreshError(code, message, place=f"{place}, column {column.name}", hint=hint)


def _first_bad(array: pa.Array) -> tuple[int | None, tuple[str, Any, str, str] | None]:
    """The first row of an array that is not sound (None: it has not even rows), and what can be said of its
    value: the code of the error, the value, the rest of the sentence, and a hint."""
    if isinstance(array.type, pa.BaseExtensionType):
        return _first_bad(array.storage)
    if pa.types.is_dictionary(array.type) and not is_sound(array.dictionary):
        entry, found = _first_bad(array.dictionary)
        row = -1 if entry is None else pc.index(array.indices, pa.scalar(entry, array.indices.type)).as_py()
        return (row, found) if row >= 0 else (None, None)
    sound, bad = 0, len(array)  # how many rows from the first are sound, and how many are not
    if not is_sound(array.slice(0, 0)):
        return None, None
    while bad - sound > 1:
        middle = (sound + bad) // 2
        sound, bad = (middle, bad) if is_sound(array.slice(0, middle)) else (sound, middle)
    return sound, _bad_value(array.slice(sound, 1))


def _bad_value(one: pa.Array) -> tuple[str, Any, str, str] | None:
    """What is wrong with the one value of an array; None if it cannot be read at all."""
    bytes_of = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }
    if one.type in bytes_of:
        raw = one.view(bytes_of[one.type])
        return (Code.VALUE, raw[0].as_py(), "is not UTF-8", _LATIN) if is_sound(raw) else None
    if pa.types.is_decimal(one.type):
        return Code.OVERFLOW, one[0].as_py(), f"has more digits than its Arrow type, {one.type}", _BROKEN
    return None
