"""The compiled loops of thin products: rows of a large matrix times a few columns, both directions at once.

Four rows of the matrix are read and, while they are in the cache, multiplied by the columns two by two, and
their transpose by others. So a matrix is read from memory once, at the speed of the memory, and never
copied. Sums are taken in the order that vector instructions like best; infinities and NaN stay what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_num_threads, njit

Array = np.ndarray[Any, Any]
HEIGHT = 4  # rows at a time
_ORDER = {"reassoc", "contract", "nsz"}


def threads() -> int:
    """How many threads compiled loops may use here: `NUMBA_NUM_THREADS`, or one for each processor."""
    return int(get_num_threads())


@njit(forceinline=True, cache=True, fastmath=_ORDER)
def _forth(
    m0: Array, m1: Array, m2: Array, m3: Array, x0: Array, x1: Array, ahead: Array, c: int, i: int
) -> None:
    """Four rows times two columns."""
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = m0.dtype.type(0.0)
    for j in range(m0.shape[0]):
        e0, e1, e2, e3 = m0[j], m1[j], m2[j], m3[j]
        a, b = x0[j], x1[j]
        a0 += e0 * a
        a1 += e1 * a
        a2 += e2 * a
        a3 += e3 * a
        b0 += e0 * b
        b1 += e1 * b
        b2 += e2 * b
        b3 += e3 * b
    ahead[c, i], ahead[c, i + 1], ahead[c, i + 2], ahead[c, i + 3] = a0, a1, a2, a3
    ahead[c + 1, i], ahead[c + 1, i + 1], ahead[c + 1, i + 2], ahead[c + 1, i + 3] = b0, b1, b2, b3


@njit(forceinline=True, cache=True, fastmath=_ORDER)
def _back(
    m0: Array, m1: Array, m2: Array, m3: Array, back0: Array, back1: Array, y: Array, c: int, i: int
) -> None:
    """The transpose of four rows times two columns."""
    a0, a1, a2, a3 = y[c, i], y[c, i + 1], y[c, i + 2], y[c, i + 3]
    b0, b1, b2, b3 = y[c + 1, i], y[c + 1, i + 1], y[c + 1, i + 2], y[c + 1, i + 3]
    for j in range(m0.shape[0]):
        e0, e1, e2, e3 = m0[j], m1[j], m2[j], m3[j]
        back0[j] += e0 * a0 + e1 * a1 + e2 * a2 + e3 * a3
        back1[j] += e0 * b0 + e1 * b1 + e2 * b2 + e3 * b3


@njit(forceinline=True, cache=True, fastmath=_ORDER)
def _both(
    m0: Array,
    m1: Array,
    m2: Array,
    m3: Array,
    x0: Array,
    x1: Array,
    back0: Array,
    back1: Array,
    ahead: Array,
    y: Array,
    c: int,
    i: int,
) -> None:
    """`_forth` and `_back` in one loop."""
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = m0.dtype.type(0.0)
    p0, p1, p2, p3 = y[c, i], y[c, i + 1], y[c, i + 2], y[c, i + 3]
    q0, q1, q2, q3 = y[c + 1, i], y[c + 1, i + 1], y[c + 1, i + 2], y[c + 1, i + 3]
    for j in range(m0.shape[0]):
        e0, e1, e2, e3 = m0[j], m1[j], m2[j], m3[j]
        a, b = x0[j], x1[j]
        a0 += e0 * a
        a1 += e1 * a
        a2 += e2 * a
        a3 += e3 * a
        b0 += e0 * b
        b1 += e1 * b
        b2 += e2 * b
        b3 += e3 * b
        back0[j] += e0 * p0 + e1 * p1 + e2 * p2 + e3 * p3
        back1[j] += e0 * q0 + e1 * q1 + e2 * q2 + e3 * q3
    ahead[c, i], ahead[c, i + 1], ahead[c, i + 2], ahead[c, i + 3] = a0, a1, a2, a3
    ahead[c + 1, i], ahead[c + 1, i + 1], ahead[c + 1, i + 2], ahead[c + 1, i + 3] = b0, b1, b2, b3


@njit(cache=True, nogil=True, fastmath=_ORDER)
def multiply(matrix: Array, x: Array, y: Array, ahead: Array, back: Array) -> None:
    """`ahead = x matrix'` and `back += y matrix`, for as many rows as make up whole groups of `HEIGHT`.

    All arrays have contiguous rows; `x` and `y` have an even number of them, maybe none.
    """
    forth, turned = x.shape[0], y.shape[0]
    for i in range(0, matrix.shape[0] - 3, 4):
        m0, m1, m2, m3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for c in range(0, max(forth, turned), 2):
            if c >= turned:
                _forth(m0, m1, m2, m3, x[c], x[c + 1], ahead, c, i)
            elif c >= forth:
                _back(m0, m1, m2, m3, back[c], back[c + 1], y, c, i)
            else:
                _both(m0, m1, m2, m3, x[c], x[c + 1], back[c], back[c + 1], ahead, y, c, i)


@njit(cache=True, nogil=True, fastmath=_ORDER)
def multiply_one(matrix: Array, x: Array, y: Array, ahead: Array, back: Array) -> None:
    """`multiply` for one column in each direction."""
    x0, back0 = x[0], back[0]
    for i in range(0, matrix.shape[0] - 3, 4):
        m0, m1, m2, m3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        a0 = a1 = a2 = a3 = matrix.dtype.type(0.0)
        p0, p1, p2, p3 = y[0, i], y[0, i + 1], y[0, i + 2], y[0, i + 3]
        for j in range(m0.shape[0]):
            e0, e1, e2, e3 = m0[j], m1[j], m2[j], m3[j]
            a = x0[j]
            a0 += e0 * a
            a1 += e1 * a
            a2 += e2 * a
            a3 += e3 * a
            back0[j] += e0 * p0 + e1 * p1 + e2 * p2 + e3 * p3
        ahead[0, i], ahead[0, i + 1], ahead[0, i + 2], ahead[0, i + 3] = a0, a1, a2, a3


@njit(cache=True, nogil=True, fastmath=_ORDER)
def shifted(base: Array, left: Array, right: Array, out: Array) -> None:
    """`out = base + left' right`, for as many rows as make up pairs; `left` has an even number of rows."""
    for i in range(0, base.shape[0] - 1, 2):
        out0, out1 = out[i], out[i + 1]
        out0[:] = base[i]
        out1[:] = base[i + 1]
        for c in range(0, left.shape[0], 2):
            a0, a1, b0, b1 = left[c, i], left[c + 1, i], left[c, i + 1], left[c + 1, i + 1]
            right0, right1 = right[c], right[c + 1]
            for j in range(out0.shape[0]):
                e0, e1 = right0[j], right1[j]
                out0[j] += a0 * e0 + a1 * e1
                out1[j] += b0 * e0 + b1 * e1
