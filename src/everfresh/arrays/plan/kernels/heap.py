"""A binary heap in arrays: the least (key, second, id) first.

Invariant: `keys`, `seconds` and `ids` hold a heap in their first `size` places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]


@njit(inline="always")
def _less(keys: Array, seconds: Array, ids: Array, a: int, b: int) -> bool:
    if keys[a] != keys[b]:
        return bool(keys[a] < keys[b])
    if seconds[a] != seconds[b]:
        return bool(seconds[a] < seconds[b])
    return bool(ids[a] < ids[b])


@njit(inline="always")
def _swap(keys: Array, seconds: Array, ids: Array, a: int, b: int) -> None:
    keys[a], keys[b] = keys[b], keys[a]
    seconds[a], seconds[b] = seconds[b], seconds[a]
    ids[a], ids[b] = ids[b], ids[a]


@njit(cache=True)
def sift_down(keys: Array, seconds: Array, ids: Array, size: int, at: int) -> None:
    """Let the entry at `at` sink to where it belongs."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _less(keys, seconds, ids, child + 1, child):
            child += 1
        if not _less(keys, seconds, ids, child, at):
            return
        _swap(keys, seconds, ids, at, child)
        at = child


@njit(cache=True)
def sift_up(keys: Array, seconds: Array, ids: Array, at: int) -> None:
    """Let the entry at `at` rise to where it belongs."""
    while at > 0:
        parent = (at - 1) // 2
        if not _less(keys, seconds, ids, at, parent):
            return
        _swap(keys, seconds, ids, at, parent)
        at = parent


@njit(cache=True)
def heapify(keys: Array, seconds: Array, ids: Array, size: int) -> None:
    """Make a heap of the first `size` entries."""
    for at in range(size // 2 - 1, -1, -1):
        sift_down(keys, seconds, ids, size, at)


@njit(cache=True)
def drop_top(keys: Array, seconds: Array, ids: Array, size: int) -> int:
    """Take the first entry away; the size that is left."""
    size -= 1
    keys[0], seconds[0], ids[0] = keys[size], seconds[size], ids[size]
    sift_down(keys, seconds, ids, size, 0)
    return size
