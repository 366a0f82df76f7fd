"""Angles, and other functions of one DOUBLE.

They are the C library's, row by row: NumPy's own differ in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from everfresh.expr.coerce import takes
from everfresh.expr.library.signature import Function, Signature, never_fails
from everfresh.types import BOOLEAN, DOUBLE, canonical_float

_ONE = takes(((DOUBLE,), DOUBLE))
_TEST = takes(((DOUBLE,), BOOLEAN))


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
    Function("atan2", takes(((DOUBLE, DOUBLE), DOUBLE)), _two, fails=never_fails),
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
