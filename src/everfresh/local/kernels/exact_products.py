"""The compiled loops of exact products: integers with an overflow flag, sums of doubles without error.

A sum of doubles is a cascade of three terms (`pool_values`); products of terms are a rounded product and its
exact error (`primitives.two_product`), and added to a cascade again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.primitives import two_doubles, two_product, two_sum

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
        high[i], low[i] = two_doubles(x[i])


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
                p, e = two_product(x, y)
                s, e1 = two_sum(s, p)
                c, e2 = two_sum(c, e1)
                c, e3 = two_sum(c, e)
                cc += e2 + e3
        if not math.isfinite(s):  # the pool refuses it; no NaN in its place
            c, cc = 0.0, 0.0
        out[0, i], out[1, i], out[2, i] = s, c, cc
