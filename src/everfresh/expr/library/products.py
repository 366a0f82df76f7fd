"""What variances and covariances of doubles are made of: products without loss, and the moment of sums.

A product of two doubles has up to twice their digits: `product_rest` is what rounding takes from it, so that
the sum of the products and the sum of their rests together are the exact sum.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from everfresh.expr.coerce import takes
from everfresh.expr.column import Array, Vector
from everfresh.expr.library.signature import Function, Signature, never_fails, never_null
from everfresh.types import BIGINT, DOUBLE

_SPLIT = 134_217_729.0  # 2**27 + 1: halves of a double whose products are exact
_LEAST, _MOST = 1e-140, 1e140
"""Within these bounds no product of halves leaves the range of a double."""


def _rest(_: Signature, x: float | None, y: float | None) -> float:
    """What rounding takes from a product; 0 where that is not finite.

    >>> _rest(None, 0.1, 0.1) == float(Fraction(0.1) ** 2 - Fraction(0.1 * 0.1))
    True
    """
    if x is None or y is None or not math.isfinite(x * y):
        return 0.0
    return float(Fraction(x) * Fraction(y) - Fraction(x * y))


def _halves(x: Array) -> tuple[Array, Array]:
    high = x * _SPLIT
    high = high - (high - x)
    return high, x - high


def _rests(types: Signature, x: Vector, y: Vector) -> Vector:
    """The same for columns (Dekker, "A floating-point technique for extending the available precision",
    1971); very large and very small numbers one by one."""
    a, b = x.values, y.values
    with np.errstate(all="ignore"):
        product = a * b
        (high, low), (tall, short) = _halves(a), _halves(b)
        out = ((high * tall - product) + high * short + low * tall) + low * short
        out[product == 0] = 0.0
        usual = [(v == 0) | ((np.abs(v) > _LEAST) & (np.abs(v) < _MOST)) for v in (a, b)]
    for i in np.flatnonzero(~(usual[0] & usual[1])).tolist():
        out[i] = _rest(types, float(a[i]), float(b[i]))
    return Vector(DOUBLE, out + 0.0)


def _moment(_: Signature, n: int, *parts: float) -> float:
    """n times a sum of products less the product of the sums; each sum is the sum of two doubles."""
    values: list[Any] = [Fraction(a) + Fraction(b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    y, x, products, rests = values
    try:
        return float(n * (products + rests) - y * x)
    except OverflowError:
        return math.inf


_NUMBERS = (BIGINT, *(8 * (DOUBLE,)))

ROWS = (
    Function(
        "product_rest",
        takes(((DOUBLE, DOUBLE), DOUBLE)),
        _rest,
        strict=False,
        null=never_null,
        fails=never_fails,
        columns=_rests,
    ),
    Function("moment_of", takes((_NUMBERS, DOUBLE)), _moment, fails=never_fails),
)
