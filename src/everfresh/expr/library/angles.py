"""Angles, and other functions of one DOUBLE.

They are the C library's, row by row: NumPy's own differ in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from everfresh.expr.coerce import takes
from everfresh.expr.library.signature import Function, Signature, never_fails
from everfresh.types import BOOLEAN, DOUBLE, REAL, canonical_float

_ONE = takes(((DOUBLE,), DOUBLE))
_TEST = takes(((DOUBLE,), BOOLEAN))
_PAIR = takes(((DOUBLE, DOUBLE), DOUBLE))


def _of(name: str, fn: Callable[[float], float]) -> Function:
    """A function that is NaN outside its domain."""

    def scalar(_: Signature, x: float) -> float:
        try:
            return canonical_float(fn(x))
        except ValueError:
            return math.nan

    return Function(name, _ONE, scalar, fails=never_fails)


def _unless_infinite(fn: Callable[[float], float]) -> Callable[[float], float]:
    def of(x: float) -> float:
        try:
            return fn(x)
        except OverflowError:
            return math.copysign(math.inf, x) if fn is math.sinh else math.inf

    return of


def _cot(x: float) -> float:
    tangent = math.tan(x)
    return 1.0 / tangent if tangent else math.copysign(math.inf, tangent)


def _even(_: Signature, x: float) -> float:
    if not math.isfinite(x):
        return x
    up = math.ceil(abs(x))
    return canonical_float(math.copysign(float(up + up % 2), x))


def _degrees(x: float) -> float:
    return x * (180 / math.pi)


def _radians(x: float) -> float:
    return x * (math.pi / 180)


def _atanh(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x)


def _log(_: Signature, base: float, x: float) -> float:
    """The logarithm to a base: by decimal ones, as DuckDB has it."""
    below, above = _log10(base), _log10(x)
    if below == 0:
        return canonical_float(above * math.inf) if above == above else math.nan
    return canonical_float(above / below)


def _log10(x: float) -> float:
    return -math.inf if x == 0 else math.nan if x < 0 else math.log10(x)


def _fmod(_: Signature, x: float, y: float) -> float:
    """What a division leaves that rounds down."""
    return canonical_float(x - y * _floored(x, y))


def _fdiv(_: Signature, x: float, y: float) -> float:
    return canonical_float(_floored(x, y))


def _floored(x: float, y: float) -> float:
    found = x / y if y else math.nan if x == 0 or x != x else math.copysign(math.inf, x)
    return math.floor(found) if math.isfinite(found) else found


def _next(types: Signature, x: float, y: float) -> float:
    if types.result == REAL:
        return canonical_float(float(np.nextafter(np.float32(x), np.float32(y))))
    return canonical_float(math.nextafter(x, y))


def _two(_: Signature, y: Any, x: Any) -> float:
    return canonical_float(math.atan2(y, x))


ROWS = (
    _of("sin", math.sin),
    _of("cos", math.cos),
    _of("tan", math.tan),
    _of("cot", _cot),
    _of("asin", math.asin),
    _of("acos", math.acos),
    _of("atan", math.atan),
    Function("atan2", _PAIR, _two, fails=never_fails),
    _of("cbrt", math.cbrt),
    _of("acosh", math.acosh),
    _of("asinh", math.asinh),
    _of("atanh", _atanh),
    Function("log_to", _PAIR, _log, fails=never_fails),
    Function("fmod", _PAIR, _fmod, fails=never_fails),
    Function("fdiv", _PAIR, _fdiv, fails=never_fails),
    Function("nextafter", takes(*_PAIR.rows, ((REAL, REAL), REAL)), _next, fails=never_fails),
    Function("signbit", _TEST, lambda _, x: math.copysign(1, x) < 0, fails=never_fails),
    _of("sinh", _unless_infinite(math.sinh)),
    _of("cosh", _unless_infinite(math.cosh)),
    _of("tanh", math.tanh),
    _of("degrees", _degrees),
    _of("radians", _radians),
    Function("even", _ONE, _even, fails=never_fails),
    Function("isnan", _TEST, lambda _, x: math.isnan(x), fails=never_fails),
    Function("isinf", _TEST, lambda _, x: math.isinf(x), fails=never_fails),
    Function("isfinite", _TEST, lambda _, x: math.isfinite(x), fails=never_fails),
)
