"""Sorting of keys that are not negative, by digits of 11 bits from the lowest on: several times faster than
comparing them where there are many.

Invariant: as NumPy's stable sort.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit

Ints = NDArray[np.int64]


@njit(forceinline=True)
def _places(keys: Ints, shift: int, counts: Ints) -> None:
    """Where the first key of each digit belongs."""
    counts[:] = 0
    for i in range(keys.size):
        counts[(keys[i] >> shift) & 2047] += 1
    total = 0
    for digit in range(2048):
        total, counts[digit] = total + counts[digit], total


@njit(cache=True)
def argsort(keys: Ints, bits: int) -> tuple[Ints, Ints]:
    """Keys below 2 to the power of `bits` in ascending order, and the position of each before."""
    a, b = keys.copy(), np.empty_like(keys)
    order, other = np.arange(keys.size), np.empty_like(keys)
    counts = np.empty(2048, np.int64)
    for shift in range(0, bits, 11):
        _places(a, shift, counts)
        for i in range(a.size):
            digit = (a[i] >> shift) & 2047
            at = counts[digit]
            counts[digit] = at + 1
            b[at] = a[i]
            other[at] = order[i]
        a, b = b, a
        order, other = other, order
    return a, order
