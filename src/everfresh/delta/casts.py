"""The rules of `values` on whole Arrow columns.

`fast_cast` answers where Arrow's kernels (or a little NumPy) give exactly what the reference rules give, and
gives None where they might not, or where a value does not fit: then the reference decides, and finds the
value to name. Invariant: a result of `fast_cast` equals `read_value` on every value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.types import MAX_DIGITS, SqlType, to_arrow

_FIRST_DAY = -719_162  # 0001-01-01, the first day that Python knows: Arrow's parser also takes year 0
_US_PER_DAY = 86_400_000_000
_FLOAT_DIGITS = 15  # every integer of 15 digits is a double
_EXACT_POWER = 22  # 10**22 is the last power of ten that is a double


def plain(array: pa.Array) -> pa.Array:
    """`array` without an encoding: no dictionary, run-end, extension or view type; a date64 by its moment."""
    if isinstance(array.type, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_dictionary(array.type):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(array.type):
        places = np.arange(array.offset, array.offset + len(array))
        ends = array.run_ends.to_numpy()
        return plain(array.values).take(pa.array(np.searchsorted(ends, places, side="right")))
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array.view(pa.timestamp("ms")) if pa.types.is_date64(array.type) else array


def fast_cast(array: pa.Array, type_: SqlType) -> pa.Array | None:
    """`array` (a plain one) as a column of `type_`, or None if that is not certain.

    >>> from everfresh.types import DECIMAL
    >>> fast_cast(pa.array([1.5, None]), DECIMAL(9, 2)).to_pylist()
    [Decimal('1.50'), None]
    """
    if array.type == to_arrow(type_):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), to_arrow(type_))
    rule = _RULES.get((_source(array.type), _target(type_)))
    try:
        return None if rule is None else rule(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def canonical(array: pa.Array) -> pa.Array:
    """`array` with one NaN and no -0.0 if its type is a float's; the same object where nothing changes."""
    if not pa.types.is_floating(array.type) or len(array) == 0:
        return array
    dtype = array.type.to_pandas_dtype()
    values = numbers(array, dtype)
    bits = values.view(f"i{values.itemsize}")
    zero = bits == np.iinfo(bits.dtype).min
    nan = np.isnan(values)
    if not zero.any() and not (bits[nan] != np.array(np.nan, dtype).view(bits.dtype)).any():
        return array
    fixed = np.where(nan, dtype(np.nan), np.where(zero, dtype(0), values))
    return pa.array(fixed, array.type, mask=nulls(array))


def numbers(array: pa.Array, dtype: Any) -> Any:
    """The values of a fixed-width array as NumPy sees its buffer: no copy, anything at all for a NULL."""
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, array.offset + len(array))[array.offset :]


def nulls(array: pa.Array) -> Any:
    """Where `array` is NULL."""
    return array.is_null().to_numpy(zero_copy_only=False)


def _source(type_: pa.DataType) -> str:
    for name, test in _SOURCES.items():
        if test(type_):
            return name
    return "other"


_SOURCES: dict[str, Callable[[pa.DataType], bool]] = {
    "integer": pa.types.is_integer,
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "string": pa.types.is_string,
    "date": pa.types.is_date,
    "timestamp": lambda t: pa.types.is_timestamp(t) and t.tz is None,
    "moment": lambda t: pa.types.is_timestamp(t) and t.tz is not None,
    "time": pa.types.is_time,
    "bytes": lambda t: (
        pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t)
    ),
}


def _target(type_: SqlType) -> str:
    return "integer" if type_.is_integer and type_.name != "HUGEINT" else type_.name


def _cast(array: pa.Array, type_: SqlType) -> pa.Array | None:
    return array.cast(to_arrow(type_))


# -- to exact numbers ----------------------------------------------------------------------------------------


def _integer_to_decimal(array: pa.Array, type_: SqlType) -> pa.Array | None:
    digits = 20 + type_.scale  # Arrow asks for room for every value of the source type
    if digits > MAX_DIGITS:
        return array.cast(pa.decimal256(digits, type_.scale)).cast(to_arrow(type_))
    return array.cast(pa.decimal128(digits, type_.scale)).cast(to_arrow(type_))


def _float_to_decimal(array: pa.Array, type_: SqlType) -> pa.Array | None:
    """Half away from zero, where one product in doubles decides it; None if some number is too near a tie."""
    if type_.scale > _EXACT_POWER:
        return None
    missing = nulls(array)
    values = np.where(missing, 0.0, numbers(array, array.type.to_pandas_dtype()).astype(np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.abs(values) * float(10**type_.scale)
        distance = np.abs(scaled - np.floor(scaled) - 0.5)
        if not ((scaled < 2.0**50) & (distance > scaled * 2.0**-50)).all():
            return None
    physical = np.floor(scaled + 0.5).astype(np.int64)
    if type_.precision <= 18 and (physical >= 10**type_.precision).any():
        return None
    return _decimals(np.where(values < 0, -physical, physical), missing, to_arrow(type_))


def _decimals(physical: Any, missing: Any, type_: pa.DataType) -> pa.Array:
    """An Arrow decimal column of 64-bit physical values."""
    words = np.empty((len(physical), 2), np.int64)
    words[:, 0] = physical
    words[:, 1] = physical >> 63
    validity = pa.array(~missing).buffers()[1] if missing.any() else None
    return pa.Array.from_buffers(type_, len(physical), [validity, pa.py_buffer(words)])


def _float_to_hugeint(array: pa.Array, type_: SqlType) -> pa.Array | None:
    return array.cast(pa.int64()).cast(to_arrow(type_))


def _string_to_integer(array: pa.Array, type_: SqlType) -> pa.Array | None:
    digits = pc.all(pc.match_substring_regex(array, "^-?[0-9]+$")).as_py()  # Arrow's parser also takes 0x1F
    return array.cast(to_arrow(type_)) if digits else None


# -- to floats -----------------------------------------------------------------------------------------------


def _integer_to_float(array: pa.Array, type_: SqlType) -> pa.Array | None:
    return array.cast(pa.float64(), safe=False).cast(to_arrow(type_), safe=False)


def _float_to_float(array: pa.Array, type_: SqlType) -> pa.Array | None:
    result = array.cast(to_arrow(type_))
    if pc.sum(pc.is_inf(result)).as_py() != pc.sum(pc.is_inf(array.cast(pa.float64()))).as_py():
        return None
    return result


def _string_to_float(array: pa.Array, type_: SqlType) -> pa.Array | None:
    result = array.cast(pa.float64())
    if not pc.all(pc.is_finite(result)).as_py():  # Arrow reads 1e400 as infinity, and more spellings of NaN
        return None
    return _float_to_float(result, type_)


def _decimal_to_float(array: pa.Array, type_: SqlType) -> pa.Array | None:
    """Both parts of the fraction are exact doubles, so the division rounds correctly, unlike Arrow's cast."""
    source = array.type
    if (
        not pa.types.is_decimal128(source)
        or source.precision > _FLOAT_DIGITS
        or not 0 <= source.scale <= _EXACT_POWER
    ):
        return None
    low = numbers(array, np.dtype([("low", np.int64), ("high", np.int64)]))["low"]
    result = pa.array(low.astype(np.float64) / float(10**source.scale), mask=nulls(array))
    return _float_to_float(result, type_)


# -- to days and moments -------------------------------------------------------------------------------------


def _string_to_time(array: pa.Array, type_: SqlType) -> pa.Array | None:
    result = array.cast(to_arrow(type_))
    first = pc.min(result).value
    return result if first >= _FIRST_DAY * (1 if type_.name == "DATE" else _US_PER_DAY) else None


def _timestamp_to_date(array: pa.Array, type_: SqlType) -> pa.Array | None:
    micro = array.cast(pa.timestamp("us"))
    days = micro.cast(to_arrow(type_))
    return days if days.cast(pa.timestamp("us")).equals(micro) else None


_RULES: dict[tuple[str, str], Callable[[pa.Array, SqlType], pa.Array | None]] = {
    ("integer", "integer"): _cast,
    ("integer", "HUGEINT"): _integer_to_decimal,
    ("integer", "DECIMAL"): _integer_to_decimal,
    ("integer", "REAL"): _integer_to_float,
    ("integer", "DOUBLE"): _integer_to_float,
    ("float", "integer"): _cast,
    ("float", "HUGEINT"): _float_to_hugeint,
    ("float", "DECIMAL"): _float_to_decimal,
    ("float", "REAL"): _float_to_float,
    ("float", "DOUBLE"): _float_to_float,
    ("decimal", "integer"): _cast,
    ("decimal", "HUGEINT"): _cast,
    ("decimal", "DECIMAL"): _cast,
    ("decimal", "REAL"): _decimal_to_float,
    ("decimal", "DOUBLE"): _decimal_to_float,
    ("string", "BOOLEAN"): _cast,
    ("string", "integer"): _string_to_integer,
    ("string", "HUGEINT"): _cast,
    ("string", "DECIMAL"): _cast,
    ("string", "REAL"): _string_to_float,
    ("string", "DOUBLE"): _string_to_float,
    ("string", "DATE"): _string_to_time,
    ("string", "TIMESTAMP"): _string_to_time,
    ("date", "DATE"): _cast,
    ("date", "TIMESTAMP"): _cast,
    ("timestamp", "DATE"): _timestamp_to_date,
    ("timestamp", "TIMESTAMP"): _cast,
    ("moment", "TIMESTAMPTZ"): _cast,
    ("time", "TIME"): _cast,
    ("bytes", "BLOB"): _cast,
}
