"""Functions of one number: abs, sign, rounding, roots, logarithms and powers.

`round(DECIMAL(p,s))`, `floor`, `ceil` and `trunc` have scale 0. A constant number of digits changes the type
of a DECIMAL; `everfresh.expr.build` turns it into a cast, so that here types follow from types. Logarithms
and powers are the C library's, row by row: NumPy's own differ in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from everfresh.expr.coerce import alike, cost, is_null_literal, is_string_literal, takes
from everfresh.expr.column import Array, canonical_floats
from everfresh.expr.library import checked
from everfresh.expr.library.casts import divide_half_away, half_away
from everfresh.expr.library.render import render
from everfresh.expr.library.signature import Function, Rule, Signature, check
from everfresh.expr.nodes import Expr
from everfresh.types import (
    BIGINT,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    MAX_DIGITS,
    TINYINT,
    SqlType,
    canonical_float,
)

# -- typing --------------------------------------------------------------------------------------------------


def _number(args: Sequence[Expr]) -> SqlType | None:
    if is_null_literal(args[0]):
        return BIGINT
    return args[0].type if args[0].type.is_numeric else None


def _not_integer(args: Sequence[Expr]) -> SqlType | None:
    if is_null_literal(args[0]):
        return DOUBLE
    found = _number(args)
    return DOUBLE if found is not None and found.is_integer else found


def _whole(type_: SqlType) -> SqlType | None:
    if type_.name == "DECIMAL":
        return DECIMAL(type_.precision, 0)
    return type_ if type_.is_numeric else None


def _rounded(types: Sequence[SqlType]) -> SqlType | None:
    if len(types) == 2:
        if types[1] != INTEGER or not types[0].is_numeric:
            return None
        if types[0].name != "DECIMAL":
            return types[0]
        return DECIMAL(min(MAX_DIGITS, max(types[0].precision, types[0].precision - types[0].scale + 1)), 0)
    return _whole(types[0]) if len(types) == 1 else None


def _truncated(types: Sequence[SqlType]) -> SqlType | None:
    if len(types) == 2:
        return types[0] if types[1] == INTEGER and types[0].is_numeric else None
    return _whole(types[0]) if len(types) == 1 else None


def _with_digits(args: Sequence[Expr]) -> list[SqlType] | None:
    found = _number(args) if len(args) in (1, 2) else None
    if found is None or is_string_literal(args[0]):
        return None
    if len(args) == 1:
        return [found]
    return None if cost(args[1], INTEGER) is None else [found, INTEGER]


Exact = Callable[[int, int], int]  # a scaled integer and its unit
Inexact = Callable[[float], float]

# -- scalar and vector ---------------------------------------------------------------------------------------


def _abs(types: Signature, x: Any) -> Any:
    if types.result.is_float:
        return abs(x)
    return check(abs(x), types.result, lambda: f"abs({render(x, types.args[0])})")


def _abs_vector(types: Signature, x: Array) -> Array:
    if types.result.is_float:
        return np.abs(x)
    if types.result.is_integer and (x == types.result.bounds[0]).any():
        raise checked.outside()
    return np.abs(x)


def _step(exact: Exact, inexact: Inexact) -> Callable[[Signature, Any], Any]:
    def scalar(types: Signature, x: Any) -> Any:
        if types.result.is_float:
            return canonical_float(float(inexact(x))) if math.isfinite(x) else x
        return exact(x, 10 ** types.args[0].scale)

    return scalar


def _step_vector(
    exact: Callable[[Array, int], Array], inexact: Callable[[Array], Array]
) -> Callable[[Signature, Array], Array]:
    def vector(types: Signature, x: Array) -> Array:
        if types.result.is_float:
            with np.errstate(invalid="ignore"):
                return canonical_floats(inexact(x))
        return checked.within(exact(x, 10 ** types.args[0].scale), types.result)

    return vector


def _floor(x: Any, unit: int) -> Any:
    return x // unit


def _ceil(x: Any, unit: int) -> Any:
    return -(-x // unit)


def _truncate(x: int, unit: int) -> int:
    return -(-x // unit) if x < 0 else x // unit


def _truncate_array(x: Array, unit: int) -> Array:
    return np.where((x < 0).astype(np.bool_), -(-x // unit), x // unit)


def _round_array(x: Array) -> Array:
    whole = np.floor(np.abs(x))
    out: Array = np.copysign(whole + (np.abs(x) - whole >= 0.5), x)
    return out


def _digits(exact: Exact, inexact: Inexact) -> Callable[[Signature, Any, int], Any]:
    """Rounding to `n` digits behind the point, or before it if n is negative."""

    def scalar(types: Signature, x: Any, n: int) -> Any:
        if types.result.is_float:
            return _float_digits(inexact, types.result, x, n)
        places = types.args[0].scale - n
        if places > 0:
            x = exact(x, 10 ** min(places, 60)) * 10 ** min(places, 60)
        shrink = types.args[0].scale - types.result.scale
        value = x // 10**shrink  # a multiple of 10**places, and places >= shrink for what `build` makes
        return check(value, types.result, lambda: f"{render(x, types.args[0])} rounded to {n} digits")

    return scalar


def _float_digits(inexact: Inexact, type_: SqlType, x: float, n: int) -> float:
    """Scale, round, scale back, as DuckDB does; where that leaves the finite numbers, x itself."""
    if abs(n) > 308:
        # 10**309 is infinite: DuckDB rounds to 0 what is finite, and truncates nothing
        return 0.0 if n < 0 and inexact is half_away and math.isfinite(x) else x
    unit = float(10 ** abs(n))
    scaled = x / unit if n < 0 else x * unit
    if not math.isfinite(scaled):
        return x
    value = inexact(scaled) * unit if n < 0 else inexact(scaled) / unit
    if not math.isfinite(value):
        return x
    return canonical_float(float(np.float32(value)) if type_.name == "REAL" else value)


def _step_or_digits(step: Callable[..., Any], digits: Callable[..., Any]) -> Callable[..., Any]:
    return lambda types, x, *n: digits(types, x, *n) if n else step(types, x)


def _only_step(step: Callable[..., Array]) -> Callable[..., Array | None]:
    return lambda types, x, *n: None if n else step(types, x)


def _ieee(fn: Callable[[float], float], at_zero: float = math.nan) -> Callable[[Signature, float], float]:
    """A function of the C library with IEEE results where Python raises."""

    def scalar(_: Signature, x: float) -> float:
        if x == 0.0 and at_zero == at_zero:
            return at_zero
        try:
            return canonical_float(fn(x))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return scalar


def _power(_: Signature, x: float, y: float) -> float:
    try:
        return canonical_float(math.pow(x, y))
    except ValueError:
        # 0 to a negative power is infinite, a negative base to a fraction is not a number
        return math.inf if x == 0 else math.nan
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf


def _sqrt_vector(_: Signature, x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return canonical_floats(np.sqrt(x))


def _variance_of(_: Signature, n: int, total: int, squares: int, less: int) -> float | None:
    """The variance of n numbers from their sum and their sum of squares, exact until it is rounded once.

    `less` is 0 for the population, 1 for a sample.
    """
    divisor = n * (n - less)
    return float(Fraction(n * squares - total * total, divisor)) if n > less and divisor else None


_ONE = takes(((DOUBLE,), DOUBLE))

ROWS = (
    Function("abs", alike(lambda t: t if t.is_numeric else None, 1, 1, _number), _abs, vector=_abs_vector),
    Function(
        "sign",
        alike(lambda t: TINYINT if t.is_numeric else None, 1, 1, _number),
        lambda types, x: (x > 0) - (x < 0),
        vector=lambda types, x: (x > 0).astype(np.int64) - (x < 0).astype(np.int64),
    ),
    Function(
        "floor",
        alike(lambda t: None if t.is_integer else _whole(t), 1, 1, _not_integer),
        _step(_floor, math.floor),
        vector=_step_vector(_floor, np.floor),
    ),
    Function(
        "ceil",
        alike(lambda t: None if t.is_integer else _whole(t), 1, 1, _not_integer),
        _step(_ceil, math.ceil),
        vector=_step_vector(_ceil, np.ceil),
    ),
    Function(
        "round",
        Rule(_rounded, _with_digits),
        _step_or_digits(_step(divide_half_away, half_away), _digits(divide_half_away, half_away)),
        vector=_only_step(_step_vector(checked.half_away, _round_array)),
    ),
    Function(
        "trunc",
        Rule(_truncated, _with_digits),
        _step_or_digits(_step(_truncate, math.trunc), _digits(_truncate, math.trunc)),
        vector=_only_step(_step_vector(_truncate_array, np.trunc)),
    ),
    Function("sqrt", _ONE, _ieee(math.sqrt), vector=_sqrt_vector),
    Function("ln", _ONE, _ieee(math.log, -math.inf)),
    Function("log10", _ONE, _ieee(math.log10, -math.inf)),
    Function("log2", _ONE, _ieee(math.log2, -math.inf)),
    Function("exp", _ONE, _ieee(math.exp)),
    Function(
        "variance_of",
        takes(((BIGINT, HUGEINT, HUGEINT, BIGINT), DOUBLE)),
        _variance_of,
        null=lambda args: True,
    ),
    Function("power", takes(((DOUBLE, DOUBLE), DOUBLE)), _power),
)
