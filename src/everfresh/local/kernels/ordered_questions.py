"""Compiled loops that ask an ordered index (`ordered_blocks`) for ranks, sums, entries, descents, strings."""

from __future__ import annotations

import numpy as np

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.ordered_blocks import (
    Bools,
    Bytes,
    Ints,
    count_before,
    negate,
    position_of,
    seek,
    sums_to,
    within,
)
from everfresh.local.kernels.primitives import ONE, ZERO

# -- ranks and sums --------------------------------------------------------------------------------


@njit(cache=True)
def rank(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    keys: Ints,
    after: bool,
    out: Ints,
) -> None:
    """out[i]: how many entries sort before column i of `keys` (`after`: or agree with its words)."""
    count, length = state[0], keys.shape[0]
    for i in range(out.size):
        position = position_of(tops, count, keys, i, length, after)
        n = count_before(tree, position)
        if position < count:
            block = order[position]
            n += within(data, block, totals[block, 0], keys, i, length, after)
        out[i] = n


@njit(cache=True)
def prefix(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    keys: Ints,
    after: bool,
    out: Ints,
) -> None:
    """out[i, row]: count and sums over the entries that `rank` counts."""
    count, length, words = state[0], keys.shape[0], tops.shape[1]
    scratch = np.zeros((1, high.size), np.int64)
    for i in range(out.shape[0]):
        position = position_of(tops, count, keys, i, length, after)
        at = 0
        if position < count:
            block = order[position]
            at = within(data, block, totals[block, 0], keys, i, length, after)
        sums_to(data, order, tree, high, count, words, position, at, scratch, out, i)


@njit(cache=True)
def sums_before(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    ranks: Ints,
    out: Ints,
) -> None:
    """out[i, row]: count and sums over the first `ranks[i]` entries."""
    count = state[0]
    scratch = np.zeros((1, high.size), np.int64)
    for i in range(out.shape[0]):
        position, at = seek(tree, count, min(max(ranks[i], 0), state[1]))
        sums_to(data, order, tree, high, count, tops.shape[1], position, at, scratch, out, i)


@njit(cache=True)
def rows_at(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    ranks: Ints,
    first: int,
    out: Ints,
) -> None:
    """out[:, i]: rows `first`.. of entry `ranks[i]`; -1 throughout where there is none."""
    for i in range(ranks.size):
        if 0 <= ranks[i] < state[1]:
            position, at = seek(tree, state[0], ranks[i])
            for row in range(out.shape[0]):
                out[row, i] = data[order[position], first + row, at]
        else:
            for row in range(out.shape[0]):
                out[row, i] = -1


@njit(cache=True)
def walk(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    starts: Ints,
    stops: Ints,
    at: Ints,
    out: Ints,
) -> None:
    """The slots of entries starts[i] up to stops[i], one range after the other; `at`: the range of each."""
    words, done = tops.shape[1], 0
    for i in range(starts.size):
        left = stops[i] - starts[i]
        if left <= 0:
            continue
        position, first = seek(tree, state[0], starts[i])
        while left > 0:
            block = order[position]
            take = min(totals[block, 0] - first, left)
            for e in range(take):
                out[done + e] = data[block, words, first + e]
                at[done + e] = i
            done += take
            left -= take
            first = 0
            position += 1


# -- the first entry where a sum passes ------------------------------------------------------------


@njit(forceinline=True, cache=True)
def _passes(a: np.int64, b: np.uint64, c: np.int64, d: np.uint64, strict: bool) -> bool:
    """Whether the 128-bit (a, b) is greater than (c, d), or (not strict) equal."""
    if a != c:
        return bool(a > c)
    return bool(b > d or (b == d and not strict))


@njit(forceinline=True, cache=True)
def _read(matrix: Ints, i: int, row: int, wide: bool) -> tuple[np.int64, np.uint64]:
    """A sum of a row of `totals` or `tree` as 128 bits."""
    if wide:
        return matrix[i, row], np.uint64(matrix[i, row + 1])
    return matrix[i, row] >> 63, np.uint64(matrix[i, row])


@njit(forceinline=True, cache=True)
def _plus(a: np.int64, b: np.uint64, c: np.int64, d: np.uint64) -> tuple[np.int64, np.uint64]:
    low = b + d
    high = np.uint64(a) + np.uint64(c)
    if low < b:
        high += ONE
    return np.int64(high), low


@njit(forceinline=True, cache=True)
def _passing_place(
    data: Ints,
    block: int,
    first: int,
    fill: int,
    row: int,
    wide: bool,
    a: np.int64,
    b: np.uint64,
    c: np.int64,
    d: np.uint64,
    strict: bool,
) -> tuple[int, np.int64, np.uint64]:
    """Add entries first.. of a block to (a, b) until it passes (c, d): the place, or `fill`; the sum."""
    for at in range(first, fill):
        x = data[block, row, at]
        if wide:
            a, b = _plus(a, b, x, np.uint64(data[block, row + 1, at]))
        else:
            a, b = _plus(a, b, x >> 63, np.uint64(x))
        if _passes(a, b, c, d, strict):
            return at, a, b
    return fill, a, b


@njit(cache=True)
def find(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    row: int,
    wide: bool,
    value_high: Ints,
    value_low: Ints,
    strict: bool,
    starts: Ints,
    out: Ints,
) -> None:
    """out[i]: the first entry from `starts[i]` on where the sum from there, itself included, passes value i.

    Passing is to be greater, or (not strict) to reach it; `state[ENTRIES]` where no entry does. While no
    entry is negative this is one descent in the tree, else a walk.
    """
    count, words = state[0], tops.shape[1]
    top = 1
    while 2 * top <= count:
        top *= 2
    monotone = state[2 + row] == 0
    scratch = np.zeros((1, high.size), np.int64)
    before = np.zeros((1, high.size), np.int64)
    for i in range(out.size):
        start = min(max(starts[i], 0), state[1])
        a, b = np.int64(0), ZERO
        c, d = value_high[i], np.uint64(value_low[i])
        position, first = 0, 0
        if start > 0:
            position, first = seek(tree, count, start)
        if monotone:
            if start > 0:  # the sum from the start is what the prefix has more than the one before it
                sums_to(data, order, tree, high, count, words, position, first, scratch, before, 0)
                negate(before, high)
                a, b = _read(before, 0, row, wide)
            position, first = 0, 0
            step = top
            while step > 0:
                if position + step <= count:
                    e, f = _read(tree, position + step, row, wide)
                    e, f = _plus(a, b, e, f)
                    if not _passes(e, f, c, d, strict):
                        position += step
                        a, b = e, f
                step >>= 1
        out[i] = state[1]
        while position < count:
            block = order[position]
            fill = totals[block, 0]
            at, a, b = _passing_place(data, block, first, fill, words + row, wide, a, b, c, d, strict)
            if at < fill:
                out[i] = max(count_before(tree, position) + at, start)
                break
            position += 1
            first = 0


# -- strings ---------------------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def _string_before(heap: Bytes, bounds: Ints, a: int, b: int) -> bool:
    """Whether string `a` sorts before `b` by bytes."""
    at, bt = bounds[2 * a], bounds[2 * b]
    size, other = bounds[2 * a + 1] - at, bounds[2 * b + 1] - bt
    for i in range(min(size, other)):
        if heap[at + i] != heap[bt + i]:
            return bool(heap[at + i] < heap[bt + i])
    return bool(size < other)


@njit(cache=True)
def string_ranks(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    heap: Bytes,
    bounds: Ints,
    codes: Ints,
    out: Ints,
) -> None:
    """out[i]: how many of the codes that are slots of this index have a string before that of codes[i]."""
    words = tops.shape[1]
    for k in range(codes.size):
        low, top = 0, state[0]
        while low < top:
            middle = (low + top) >> 1
            block = order[middle]
            if _string_before(heap, bounds, data[block, words, totals[block, 0] - 1], codes[k]):
                low = middle + 1
            else:
                top = middle
        n = count_before(tree, low)
        if low < state[0]:
            block = order[low]
            first, end = 0, totals[block, 0]
            while first < end:
                middle = (first + end) >> 1
                if _string_before(heap, bounds, data[block, words, middle], codes[k]):
                    first = middle + 1
                else:
                    end = middle
            n += first
        out[k] = n
