"""The compiled loops of exact products: integers with an overflow flag, sums of doubles without error.

A sum of doubles is a cascade of three terms (`kernels`); products of terms are split by Dekker into a rounded
product and its exact error, and added to a cascade again. Never compile with fastmath: it deletes both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit import njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(cache=True, error_model="numpy")
def multiply(a: Ints, b: Ints, out: Ints) -> bool:
    """out = a * b; whether all products fit (a little below 63 bits is the limit)."""
    fits = True
    for i in range(out.size):
        if abs(np.float64(a[i]) * np.float64(b[i])) >= 9.2e18:
            fits = False
        out[i] = a[i] * b[i]
    return fits


@njit(cache=True, error_model="numpy")
def split(x: Ints, high: Floats, low: Floats) -> None:
    """Integers as sums of two doubles, exactly."""
    for i in range(x.size):
        if -(1 << 53) <= x[i] <= (1 << 53):
            high[i] = np.float64(x[i])
            low[i] = 0.0
        else:
            upper = x[i] >> 32
            high[i] = np.float64(upper) * 4294967296.0
            low[i] = np.float64(x[i] - (upper << 32))


@njit(forceinline=True, cache=True, error_model="numpy")
def _two_sum(a: float, b: float) -> tuple[float, float]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@njit(forceinline=True, cache=True, error_model="numpy")
def _halves(a: float) -> tuple[float, float]:
    c = 134217729.0 * a
    high = c - (c - a)
    return high, a - high


@njit(forceinline=True, cache=True, error_model="numpy")
def _two_product(a: float, b: float) -> tuple[float, float]:
    """a * b as rounded product and exact error; no error beyond the finite range."""
    p = a * b
    if not math.isfinite(p) or p == 0.0:
        return p, 0.0
    back = 1.0
    if abs(a) > 1e290:  # splitting would overflow
        a, back = a * 2.0**-60, back * 2.0**60
    if abs(b) > 1e290:
        b, back = b * 2.0**-60, back * 2.0**60
    p_scaled = p / back
    a1, a2 = _halves(a)
    b1, b2 = _halves(b)
    return p, (((a1 * b1 - p_scaled) + a1 * b2 + a2 * b1) + a2 * b2) * back


@njit(cache=True, error_model="numpy")
def cascade_product(a: Any, b: Any, out: Any) -> None:
    """out = a * b, each a cascade `[3, m]`."""
    for i in range(out.shape[1]):
        s, c, cc = 0.0, 0.0, 0.0
        for j in range(3):
            x = a[j, i]
            if x == 0.0:
                continue
            for k in range(3):
                y = b[k, i]
                if y == 0.0:
                    continue
                p, e = _two_product(x, y)
                s, e1 = _two_sum(s, p)
                c, e2 = _two_sum(c, e1)
                c, e3 = _two_sum(c, e)
                cc += e2 + e3
        if not math.isfinite(s):  # the pool refuses it; no NaN in its place
            c, cc = 0.0, 0.0
        out[0, i], out[1, i], out[2, i] = s, c, cc
