"""Scalar primitives of all kernels: the tag of a hash, sums and products of doubles without error.

Loops over arrays (this folder) and code generated for one entry at a time (`native.runtime`) call the same
functions, so that both give the same bits. They are compiled into whoever calls them, and kept nowhere
themselves: their source is in the digest of kernels (`jit.code_cache`) and in the names of generated modules
(`native.runtime.build`). Never compile with fastmath: it deletes the compensation of float sums.
"""

from __future__ import annotations

import math

import numpy as np

from everfresh.local.jit.kernel import njit

HIGH = np.int64(-1 << 32)
"""The half of a cell of a hash table that is the tag."""
LOW = np.int64((1 << 32) - 1)
"""The half that is slot + 1."""
MIX = np.uint64(0xD6E8FEB86659FD93)
"""Odd, and with bits all over: what hashes are multiplied by."""
HALF = np.uint64(32)
ONE = np.uint64(1)
ZERO = np.uint64(0)
LOW_BITS = np.uint64(0xFFFFFFFF)


# -- hashes ----------------------------------------------------------------------------------------


@njit(forceinline=True)
def finish(h: np.uint64) -> np.int64:
    """The tag, in the high half: its low bits vary also when only the lowest or the top bits of `h` do."""
    h ^= h >> HALF
    h *= MIX
    h ^= h >> np.uint64(15)
    return np.int64(h) & HIGH


# -- sums of doubles -------------------------------------------------------------------------------


@njit(forceinline=True)
def two_sum(a: float, b: float) -> tuple[float, float]:
    """a + b as rounded sum and exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@njit
def rounded_sum(a: float, b: float, c: float) -> float:
    """The exact sum of three terms, rounded once, half to even."""
    for _ in range(3):  # three passes order any three doubles by size, without overlap
        b, c = two_sum(b, c)
        a, b = two_sum(a, b)
    b, c = two_sum(b, c)
    total, rest = two_sum(a, b)
    # b was half a unit of `total`, rounded to even: then the sign of c decides.
    if rest != 0.0 and ((rest < 0.0 and c < 0.0) or (rest > 0.0 and c > 0.0)):
        twice = rest * 2.0
        up = total + twice
        if twice == up - total:
            total = up
    return float(total + 0.0)  # -0.0 is 0.0


# -- products of doubles ---------------------------------------------------------------------------


@njit(forceinline=True)
def two_doubles(x: int) -> tuple[float, float]:
    """An integer as a sum of two doubles, exactly."""
    if -(1 << 53) <= x <= (1 << 53):
        return np.float64(x), 0.0
    upper = x >> 32
    return np.float64(upper) * 4294967296.0, np.float64(x - (upper << 32))


@njit(forceinline=True, error_model="numpy")
def _halves(a: float) -> tuple[float, float]:
    c = 134217729.0 * a
    high = c - (c - a)
    return high, a - high


@njit(forceinline=True, error_model="numpy")
def two_product(a: float, b: float) -> tuple[float, float]:
    """a * b as rounded product and exact error (Dekker); no error beyond the finite range."""
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
