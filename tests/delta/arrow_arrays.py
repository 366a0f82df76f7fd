"""Arrow columns as Arrow permits them: all types that hold the values of a column, all encodings of these,
cut and laid out in every way, and memory that is not what the type says.

`columns(type_)` draws what could be given for a column of a SQL type. `expected` says what it means: the
values that a table holds then, or None, if it must be refused.
"""

from __future__ import annotations

import datetime as dt
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from everfresh.delta.values import Refused, read_value
from everfresh.types import SqlType, to_arrow, to_physical

_TEXT = st.one_of(
    st.sampled_from(["", "a", "longer than seven bytes", "é", "漢字 and more", "\0", "🐍" * 9]),
    st.text(max_size=12),
)
_INT = st.one_of(
    st.sampled_from([0, 1, -1, 127, 128, -129, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]), st.integers(-9, 9)
)
_FLOAT = st.one_of(
    st.sampled_from([0.0, -0.0, float("nan"), float("inf"), -1.5, 2.0**53, 1e300, 0.005, 5e-324]),
    st.integers(-9, 9).map(float),
)
_DAYS = st.one_of(st.sampled_from([0, -719_162, 2_932_896, -1, 19_000]), st.integers(0, 20_000))

_DAY_FORMS: dict[pa.DataType, Any] = {
    pa.date32(): st.one_of(_DAYS, st.sampled_from([2**31 - 1, -(2**31), 2_932_897, -719_163])),
    pa.date64(): st.one_of(
        _DAYS.map(lambda d: d * 86_400_000), st.sampled_from([2**60 // 86_400_000 * 86_400_000])
    ),
}
_MOMENT_FORMS = {
    pa.timestamp(unit, zone): st.one_of(
        _DAYS.map(lambda d, per=per: d * 86_400 * per), st.sampled_from([2**62, -(2**62), 1, per, -per, 999])
    )
    for unit, per in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
    for zone in (None, "UTC", "Nowhere/City")
}
_PHYSICAL = _DAY_FORMS | _MOMENT_FORMS
"""Types whose arrays are made of numbers: Python's values do not reach as far as theirs."""


def _decimals(type_: pa.DataType) -> Any:
    digits = min(type_.precision, 30)
    exact = Context(prec=40)  # Python's own rounds to 28 digits
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(
        lambda i: Decimal(i).scaleb(-type_.scale, exact)
    )


_VALUES: dict[pa.DataType, Any] = {
    pa.bool_(): st.booleans(),
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()), _INT),
    **dict.fromkeys((pa.float16(), pa.float32(), pa.float64()), _FLOAT),
    **{
        t: _decimals(t)
        for t in (
            pa.decimal32(7, 2),
            pa.decimal64(18, 0),
            pa.decimal128(9, 2),
            pa.decimal128(18, 3),
            pa.decimal128(30, 2),
            pa.decimal128(38, 0),
            pa.decimal128(5, -2),
            pa.decimal256(60, 2),
        )
    },
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view(), pa.json_(pa.string())), _TEXT),
    **{t: st.binary(max_size=9) for t in (pa.binary(), pa.binary_view())},
    pa.uuid(): st.binary(min_size=16, max_size=16),
    pa.bool8(): st.sampled_from([0, 1]),
    pa.time64("us"): st.just(dt.time(1)),
    pa.duration("ns"): st.just(dt.timedelta(1)),
    pa.list_(pa.int64()): st.lists(st.integers(0, 9), max_size=2),
    pa.struct([("a", pa.int64())]): st.fixed_dictionaries({"a": st.integers(0, 9)}),
    pa.null(): st.none(),
}

_NUMBERS = [t for t in _VALUES if pa.types.is_integer(t) or pa.types.is_decimal(t) or pa.types.is_floating(t)]
_FORMS: dict[str, list[pa.DataType]] = {
    "BOOLEAN": [pa.bool_(), pa.bool8()],
    "VARCHAR": [pa.string(), pa.large_string(), pa.string_view(), pa.json_(pa.string()), pa.binary()],
    "DATE": [*_PHYSICAL],
    "TIMESTAMP": [*_PHYSICAL],
}
"""Arrow types that come near a SQL type, more often than others."""


def _array(values: list[Any], type_: pa.DataType) -> pa.Array | None:
    """An array of a type; None if Arrow does not take the values."""
    try:
        if isinstance(type_, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(type_, pa.array(values, type_.storage_type))
        if type_ in _PHYSICAL:
            number = pa.int32() if type_ == pa.date32() else pa.int64()
            return pa.array(values, number).view(type_)
        if type_ == pa.float16():
            values = [None if v is None else np.float16(v) for v in values]
        return pa.array(values, type_)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None


@st.composite
def _plain(draw: Any, type_: SqlType) -> pa.Array:
    near = _FORMS.get(type_.name, _NUMBERS)
    exact = to_arrow(type_)
    form = draw(st.one_of(st.just(exact), st.sampled_from(near), st.sampled_from([*_VALUES, *_PHYSICAL])))
    known = _PHYSICAL | _VALUES
    element = known[form] if form in known else _decimals(form)
    missing = draw(st.booleans())
    values = draw(st.lists(st.one_of(st.none(), element) if missing else element, max_size=8))
    with np.errstate(over="ignore"):
        array = _array([v for v in values if v is None or _array([v], form) is not None], form)
    assert array is not None
    return array


def _as_dictionary(draw: Any, array: pa.Array) -> pa.Array:
    """The same values by a dictionary, whose entries may come twice, be NULL, or not be used at all."""
    if isinstance(array.type, pa.BaseExtensionType):
        return array
    extra = pa.nulls(draw(st.integers(0, 2)), array.type)
    entries = pa.concat_arrays([extra, array]) if len(extra) else array
    places = [
        None if draw(st.booleans()) and not array[i].is_valid else i + len(extra) for i in range(len(array))
    ]
    width = draw(st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64()]))
    return pa.DictionaryArray.from_arrays(pa.array(places, width), entries, safe=True)


def _as_runs(draw: Any, array: pa.Array) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType) or pa.types.is_nested(array.type):
        return array
    ends = pa.array(range(1, len(array) + 1), draw(st.sampled_from([pa.int16(), pa.int32(), pa.int64()])))
    return pa.RunEndEncodedArray.from_arrays(ends, array)


def _as_is(draw: Any, array: pa.Array) -> pa.Array:
    return array


def _cut(draw: Any, array: pa.Array) -> pa.Array | pa.ChunkedArray:
    """A part of an array, in one piece or in several, some of them empty."""
    first = draw(st.integers(0, len(array)))
    array = array.slice(first if draw(st.booleans()) else 0)
    if draw(st.booleans()):
        return array
    cuts = sorted(draw(st.lists(st.integers(0, len(array)), max_size=3)))
    pieces = [array.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(array)], strict=True)]
    return pa.chunked_array(pieces if draw(st.booleans()) else [p for p in pieces if len(p)], array.type)


def _broken(draw: Any, array: pa.Array) -> pa.Array:
    """The same type over buffers of which some bytes are others."""
    if isinstance(array.type, pa.BaseExtensionType | pa.DictionaryType) or pa.types.is_nested(array.type):
        return array
    if pa.types.is_run_end_encoded(array.type) or array.type in (pa.string_view(), pa.binary_view()):
        return array
    buffers = [None if b is None else bytearray(b.to_pybytes()) for b in array.buffers()]
    some = [b for b in buffers[1:] if b]
    for _ in range(draw(st.integers(1, 3)) if some else 0):
        chosen = draw(st.sampled_from(some))
        chosen[draw(st.integers(0, len(chosen) - 1))] = draw(st.sampled_from([0xFF, 0x80, 0xE9, 0x7F, 0, 1]))
    made = [None if b is None else pa.py_buffer(bytes(b)) for b in buffers]
    try:
        return pa.Array.from_buffers(array.type, len(array), made, offset=array.offset)
    except pa.ArrowInvalid:  # so bad that Arrow itself sees it
        return array


@st.composite
def columns(draw: Any, type_: SqlType) -> pa.Array | pa.ChunkedArray:
    """A column that could be given for one of a SQL type."""
    array = draw(_plain(type_))
    if draw(st.integers(0, 3)) == 0:
        array = _broken(draw, array)
        if not _is_valid(array):
            return array
    encode = draw(st.sampled_from([_as_is, _as_is, _as_dictionary, _as_runs]))
    return _cut(draw, encode(draw, array))


def _is_valid(array: pa.Array | pa.ChunkedArray) -> bool:
    try:
        array.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError):
        return False
    return True


def expected(array: pa.Array | pa.ChunkedArray, type_: SqlType) -> list[Any] | None:
    """The physical values of a column, by the rules for single values; None if it has one that is refused.

    Only what Python can hold can be held at all.
    """
    if not _is_valid(array):
        return None
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        array = array.storage
    try:
        values = array.to_pylist()
        return [to_physical(read_value(value, type_), type_) for value in values]
    except (Refused, ValueError, OverflowError, KeyError):
        return None
