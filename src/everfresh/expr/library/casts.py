"""Casts between types: the scalar reference, one row per pair of families.

Rounding is DuckDB's: DECIMAL to integer and to a smaller scale half away from zero, DOUBLE to integer half to
even, DOUBLE to DECIMAL half away from zero after scaling in double. A value that does not fit raises
Code.OVERFLOW; text that cannot be read raises Code.VALUE.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.library.civil import DAY_US
from everfresh.expr.library.json_values import from_json, to_json
from everfresh.expr.library.readers import read
from everfresh.expr.library.render import render
from everfresh.types import BIGINT, NULL, VARCHAR, SqlType, canonical_float, coding, fold

# Integers up to these are exact in the float type: beyond them DuckDB divides whole and fraction apart.
EXACT_IN = {"DOUBLE": 1 << 53, "REAL": 1 << 24}


def _outside(value: Any, source: SqlType, to: SqlType) -> EverfreshError:
    message = f"{render(value, source)} is outside {to}"
    return EverfreshError(Code.OVERFLOW, message, hint="cast to a wider type")


def _bounded(result: int, value: Any, source: SqlType, to: SqlType) -> int:
    low, high = to.bounds
    if low <= result <= high:
        return result
    raise _outside(value, source, to)


def divide_half_away(value: int, unit: int) -> int:
    """`value / unit`, rounded half away from zero.

    >>> divide_half_away(25, 10), divide_half_away(-25, 10), divide_half_away(24, 10)
    (3, -3, 2)
    """
    quotient = (abs(value) + unit // 2) // unit
    return -quotient if value < 0 else quotient


def _exact_to_exact(value: int, source: SqlType, to: SqlType) -> int:
    shift = to.scale - source.scale
    result = value * 10**shift if shift >= 0 else divide_half_away(value, 10**-shift)
    return _bounded(result, value, source, to)


def _bool_to_exact(value: bool, source: SqlType, to: SqlType) -> int:
    return _bounded(int(value) * 10**to.scale, value, source, to)


def half_away(x: float) -> float:
    """C's round: half away from zero, exact for every double."""
    whole = math.floor(abs(x))
    return math.copysign(whole + (abs(x) - whole >= 0.5), x)


def _float_to_exact(value: float, source: SqlType, to: SqlType) -> int:
    if not math.isfinite(value):
        raise _outside(value, source, to)
    if to.name != "DECIMAL":
        return _bounded(round(value), value, source, to)
    scaled = value * float(10**to.scale)
    if not abs(scaled) < float(10**to.precision):
        raise _outside(value, source, to)
    result = int(half_away(scaled))
    if abs(float(result)) >= float(10**to.precision):
        raise _outside(value, source, to)
    return result


def _to_float32(value: float) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.float32(value))


def _exact_to_float(value: int, source: SqlType, to: SqlType) -> float:
    convert: Callable[[int], Any] = float
    if to.name == "REAL":
        # int64 to float32 in one rounding; wider ones pass through double
        convert = lambda v: np.int64(v).astype(np.float32) if abs(v) <= BIGINT.bounds[1] else np.float32(v)  # noqa: E731
    one = np.float32 if to.name == "REAL" else float
    if source.scale == 0:
        return float(convert(value))
    power = one(10.0**source.scale)
    if abs(value) <= EXACT_IN[to.name]:
        return canonical_float(float(convert(value) / power))
    whole, rest = divmod(abs(value), 10**source.scale)
    result = float(convert(whole) + convert(rest) / power)
    return -result if value < 0 else result


def _float_to_float(value: float, source: SqlType, to: SqlType) -> float:
    if to.name == "DOUBLE":
        return value
    result = _to_float32(value)
    if math.isinf(result) and not math.isinf(value):
        raise _outside(value, source, to)
    return result + 0.0


Scalar = Callable[[Any, SqlType, SqlType], Any]


def family(type_: SqlType) -> str:
    """The row and column of a type in the table of casts."""
    return "EXACT" if type_.is_exact else "FLOAT" if type_.is_float else type_.name


def _list_to_list(value: str, source: SqlType, to: SqlType) -> str:
    from_, inner = source.inner[0], to.inner[0]
    return coding.from_elements([cast_value(v, from_, inner) for v in coding.elements(value, source)], to)


def _struct_to_struct(value: str, source: SqlType, to: SqlType) -> str:
    """By the names of fields: those that are not there are NULL."""
    pairs = zip(source.names, coding.fields(value, source), source.inner, strict=True)
    found = {fold(name): (part, of) for name, part, of in pairs}
    missing = (None, NULL)
    parts = [(found.get(fold(name), missing), t) for name, t in zip(to.names, to.inner, strict=True)]
    return coding.from_fields([cast_value(part, of, t) for (part, of), t in parts], to)


def _map_to_map(value: str, source: SqlType, to: SqlType) -> str:
    (key, item), (to_key, to_item) = source.inner, to.inner
    found = coding.entries(value, source)
    cast = [(cast_value(k, key, to_key), cast_value(v, item, to_item)) for k, v in found]
    return coding.from_entries(cast, to)


_TEXTED = (
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL", "BLOB", "UUID", "JSON", "LIST", "STRUCT", "MAP",
    "ENUM",
)  # fmt: skip
CASTS: dict[tuple[str, str], Scalar] = {
    ("EXACT", "EXACT"): _exact_to_exact,
    ("EXACT", "FLOAT"): _exact_to_float,
    ("EXACT", "BOOLEAN"): lambda value, source, to: value != 0,
    ("FLOAT", "EXACT"): _float_to_exact,
    ("FLOAT", "FLOAT"): _float_to_float,
    ("FLOAT", "BOOLEAN"): lambda value, source, to: value != 0,
    ("BOOLEAN", "EXACT"): _bool_to_exact,
    ("BOOLEAN", "FLOAT"): lambda value, source, to: float(value),
    ("DATE", "TIMESTAMP"): lambda value, source, to: _bounded(value * DAY_US, value, source, BIGINT),
    ("TIMESTAMP", "DATE"): lambda value, source, to: value // DAY_US,
    ("DATE", "TIMESTAMPTZ"): lambda value, source, to: _bounded(value * DAY_US, value, source, BIGINT),
    ("TIMESTAMPTZ", "DATE"): lambda value, source, to: value // DAY_US,
    ("TIMESTAMP", "TIMESTAMPTZ"): lambda value, source, to: value,
    ("TIMESTAMPTZ", "TIMESTAMP"): lambda value, source, to: value,
    ("TIMESTAMP", "TIME"): lambda value, source, to: value % DAY_US,
    ("UUID", "BLOB"): lambda value, source, to: bytes.fromhex(value.replace("-", "")).decode("latin-1"),
    **{
        (name, "VARCHAR"): lambda value, source, to: render(value, source)
        for name in ("EXACT", "FLOAT", "BOOLEAN", *_TEXTED)
    },
    **{
        ("VARCHAR", name): lambda value, source, to: read(value, to)
        for name in ("EXACT", "FLOAT", "BOOLEAN", *_TEXTED)
    },
    ("ENUM", "ENUM"): lambda value, source, to: read(source.names[value], to),
    ("LIST", "LIST"): _list_to_list,
    ("STRUCT", "STRUCT"): _struct_to_struct,
    ("MAP", "MAP"): _map_to_map,
}


def castable(source: SqlType, to: SqlType) -> bool:
    """Whether there is a cast between two types."""
    if source in (to, NULL):
        return True
    if "JSON" in (source.name, to.name):
        return "INTERVAL" not in (source.name, to.name)
    if source.is_nested and source.name == to.name:
        if source.name == "STRUCT":
            known = dict(zip(map(fold, source.names), source.inner, strict=True))
            pairs = [(known.get(fold(n), NULL), t) for n, t in zip(to.names, to.inner, strict=True)]
            return any(fold(n) in known for n in to.names) and all(castable(a, b) for a, b in pairs)
        return all(castable(a, b) for a, b in zip(source.inner, to.inner, strict=True))
    return (family(source), family(to)) in CASTS


def cast_value(value: Any, source: SqlType, to: SqlType) -> Any:
    """`CAST(value AS to)` for a physical value of type `source`."""
    if value is None or source == to:
        return value
    if "JSON" in (source.name, to.name) and VARCHAR not in (source, to):
        return from_json(value, to) if source.name == "JSON" else to_json(value, source)
    return CASTS[family(source), family(to)](value, source, to)
