"""Lines of samples, one per group, in one arena: blocks of powers of two that grow and shrink with need.

A line is `arena[c, off + lo : off + hi]`; `head[slot]` is (off, cap, lo, hi). A group without samples has no
block. Free blocks of a size are chained through `free[size]` and `links`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]
SMALLEST = 4
"""The binary logarithm of the smallest block."""


@compiled
def size_class(n: int) -> int:
    """The binary logarithm of the smallest block that holds n."""
    k = SMALLEST
    while (1 << k) < n:
        k += 1
    return k


@compiled
def wanted(slots: Array, extra: Array, head: Array) -> int:
    """At most how much of the arena is asked for when lines get room for more samples."""
    total = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        if extra[g] > 0 and head[slot, 3] + extra[g] > head[slot, 1]:
            length = head[slot, 3] - head[slot, 2]
            if 4 * (length + extra[g]) > 3 * head[slot, 1]:
                total += 1 << size_class(2 * (length + extra[g]) if length > 0 else length + extra[g])
    return total


@compiled
def _take(k: int, free: Array, links: Array, top: int) -> tuple[int, int]:
    at = free[k]
    if at >= 0:
        free[k] = links[at >> SMALLEST]
        return at, top
    return top, top + (1 << k)


@compiled
def reserve(
    slots: Array, extra: Array, head: Array, arena: Array, free: Array, links: Array, top: int
) -> int:
    """Give lines room for more samples, by moving them within their block or to a larger one; the new end of
    what is used of the arena."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        off, cap, lo, hi = head[slot, 0], head[slot, 1], head[slot, 2], head[slot, 3]
        if extra[g] <= 0 or hi + extra[g] <= cap:
            continue
        length = hi - lo
        if 4 * (length + extra[g]) <= 3 * cap:
            for c in range(arena.shape[0]):
                for j in range(length):
                    arena[c, off + j] = arena[c, off + lo + j]
        else:
            k = size_class(2 * (length + extra[g]) if length > 0 else length + extra[g])
            at, top = _take(k, free, links, top)
            for c in range(arena.shape[0]):
                for j in range(length):
                    arena[c, at + j] = arena[c, off + lo + j]
            if cap > 0:
                old = size_class(cap)
                links[off >> SMALLEST] = free[old]
                free[old] = off
            head[slot, 0], head[slot, 1] = at, 1 << k
        head[slot, 2], head[slot, 3] = 0, length
    return top


@compiled
def trim(slots: Array, largest: int, head: Array, arena: Array, free: Array, links: Array, top: int) -> int:
    """Give back blocks of lines that are empty, and those that are much larger than their lines need."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        off, cap, lo, hi = head[slot, 0], head[slot, 1], head[slot, 2], head[slot, 3]
        if cap == 0 or (hi > lo and cap <= largest):
            continue
        length = hi - lo
        if length > 0:
            k = size_class(2 * length)
            if 2 * (1 << k) >= cap or (free[k] < 0 and top + (1 << k) > arena.shape[1]):
                continue
            at, top = _take(k, free, links, top)
            for c in range(arena.shape[0]):
                for j in range(length):
                    arena[c, at + j] = arena[c, off + lo + j]
            head[slot, 0], head[slot, 1] = at, 1 << k
        else:
            head[slot, 0], head[slot, 1] = 0, 0
        head[slot, 2], head[slot, 3] = 0, length
        old = size_class(cap)
        links[off >> SMALLEST] = free[old]
        free[old] = off
    return top


@compiled
def append(slots: Array, offsets: Array, values: Array, head: Array, arena: Array) -> None:
    """Put the run of each group behind its line, for which there is room."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        a, b = offsets[g], offsets[g + 1]
        at = head[slot, 0] + head[slot, 3] - a
        for c in range(arena.shape[0]):
            for i in range(a, b):
                arena[c, at + i] = values[c, i]
        head[slot, 3] += b - a


@compiled
def copy_out(slots: Array, head: Array, arena: Array, offsets: Array, out: Array) -> None:
    """The lines of groups, one after the other."""
    for g in range(slots.shape[0]):
        at = head[slots[g], 0] + head[slots[g], 2] - offsets[g]
        for c in range(arena.shape[0]):
            for i in range(offsets[g], offsets[g + 1]):
                out[c, i] = arena[c, at + i]
