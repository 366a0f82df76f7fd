"""Rows with weights, merged by identity.

It is done several times in every batch, mostly for few rows: one call of a kernel, no pool.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit
from everfresh.local.store.components import plain_array

Ints = NDArray[np.int64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


def netted(words: Ints, weights: Ints) -> tuple[Ints, Ints]:
    """Rows, the columns of `words`, merged by identity, zero weights dropped, in order of first appearance.

    >>> [x.tolist() for x in netted(np.array([[7, 8, 7, 9]]), np.array([1, 1, 2, 0]))]
    [[[7, 8]], [3, 1]]
    """
    first, total = netted_rows(words, weights)
    return words.take(first, axis=1), total


def netted_rows(words: Ints, weights: Ints) -> tuple[Ints, Ints]:
    """The same: where each row first appeared, and its weight."""
    count = len(weights)
    first, total = np.empty(count, np.int64), np.empty(count, np.int64)
    found = _net(plain_array(words, np.int64), plain_array(weights, np.int64), first, total)
    return first[:found], total[:found]


@njit(cache=True)
def _net(words: Ints, weights: Ints, first: Ints, total: Ints) -> int:
    """Fill `first` and `total`; how many rows are left."""
    m, size = weights.size, 4
    while size < 2 * m:
        size *= 2
    table = np.zeros(size, np.int64)  # the number of a distinct row, from 1
    count = 0
    for i in range(m):
        h = np.uint64(0)
        for j in range(words.shape[0]):
            h = (h ^ np.uint64(words[j, i])) * _MIX
            h ^= h >> _HALF
        at = np.int64(h & np.uint64(size - 1))
        while True:
            known = table[at] - 1
            if known < 0:
                first[count], total[count] = i, weights[i]
                count += 1
                table[at] = count
                break
            other, same = first[known], True
            for j in range(words.shape[0]):
                same &= words[j, other] == words[j, i]
            if same:
                total[known] += weights[i]
                break
            at = (at + 1) & (size - 1)
    left = 0
    for k in range(count):
        if total[k] != 0:
            first[left], total[left] = first[k], total[k]
            left += 1
    return left
