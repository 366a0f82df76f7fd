"""Exact integer arithmetic on arrays: int64 where the extremes prove it safe, Python integers where they do
not.

Every function takes int64 or object arrays and gives an array in the layout of the result type; a value
outside the type raises `OutsideError`. Invariant: no result ever wraps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.column import Array, dtype_of
from everfresh.types import SqlType

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


def _extremes(values: Array) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def outside() -> EverfreshError:
    """The error of a vector; the evaluator replaces it by that of the first failing row."""
    return EverfreshError(Code.OVERFLOW, "a result is outside its type")


def within(values: Array, type_: SqlType) -> Array:
    """`values` in the layout of `type_`; raises if one is outside its bounds."""
    low, high = _extremes(values)
    least, most = type_.bounds
    if low < least or high > most:
        raise outside()
    return values.astype(dtype_of(type_), copy=False)


def _apply(op: Callable[[Array, Array], Array], safe: bool, a: Array, b: Array, type_: SqlType) -> Array:
    if safe or a.dtype == object or b.dtype == object:
        return within(op(a, b), type_)
    return within(op(a.astype(object), b), type_)


def add(a: Array, b: Array, type_: SqlType) -> Array:
    """a + b."""
    (al, ah), (bl, bh) = _extremes(a), _extremes(b)
    return _apply(lambda x, y: x + y, al + bl >= _LOW and ah + bh <= _HIGH, a, b, type_)


def subtract(a: Array, b: Array, type_: SqlType) -> Array:
    """a - b."""
    (al, ah), (bl, bh) = _extremes(a), _extremes(b)
    return _apply(lambda x, y: x - y, al - bh >= _LOW and ah - bl <= _HIGH, a, b, type_)


def multiply(a: Array, b: Array, type_: SqlType) -> Array:
    """a * b."""
    (al, ah), (bl, bh) = _extremes(a), _extremes(b)
    safe = max(abs(al), abs(ah)) * max(abs(bl), abs(bh)) <= _HIGH
    return _apply(lambda x, y: x * y, safe, a, b, type_)


def divide(a: Array, b: Array, type_: SqlType) -> Array:
    """a // b, truncated towards zero."""
    _refuse_zero(b)
    _refuse_least(a, b, type_)
    quotient = a // b
    inexact = (quotient * b != a).astype(np.bool_)
    return within(quotient + (inexact & ((a < 0).astype(np.bool_) != (b < 0).astype(np.bool_))), type_)


def remainder(a: Array, b: Array, type_: SqlType) -> Array:
    """a % b with the sign of a."""
    _refuse_zero(b)
    _refuse_least(a, b, type_)
    if a.dtype != object and b.dtype != object:
        return np.fmod(a, b)
    rest = a % b
    opposite = (rest != 0).astype(np.bool_) & ((a < 0).astype(np.bool_) != (b < 0).astype(np.bool_))
    return within(np.where(opposite, rest - b, rest), type_)


def _refuse_zero(b: Array) -> None:
    if (b == 0).any():
        raise EverfreshError(Code.DIVISION_BY_ZERO, "division by zero")


def _refuse_least(a: Array, b: Array, type_: SqlType) -> None:
    # The least integer by -1 is outside the type; DuckDB raises for the remainder too.
    if type_.is_integer and ((b == -1) & (a == type_.bounds[0])).any():
        raise outside()


def half_away(values: Array, unit: int) -> Array:
    """values / unit rounded half away from zero."""
    low, high = _extremes(values)
    if values.dtype != object and (low - unit < _LOW or high + unit > _HIGH):
        values = values.astype(object)
    quotient = (np.abs(values) + unit // 2) // unit
    return np.where((values < 0).astype(np.bool_), -quotient, quotient)
