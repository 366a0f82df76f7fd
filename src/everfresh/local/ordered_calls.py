"""An ordered index one key at a time, for compiled code that works tuple by tuple.

The functions of `ordered_kernels` take many keys and are called from Python; these take one, column `k` of
`keys[word, k]`, and are called from compiled loops: they allocate nothing (but `put` and `remove`), raise
nothing and do not hold the interpreter's lock. All take the seven arrays of an index first
(`OrderedIndex.arrays`), or some of them, in the same order.

| call | gives |
|---|---|
| `rank_of` | how many entries sort before a key or a prefix of keys |
| `sums_below` | their count and sums |
| `sum_reaches` | the first rank at which a running sum reaches a value |
| `range_first`, `range_next` | places of the entries of a range of ranks, in order |
| `slot_of`, `word_of` | what stands at a place |
| `put`, `remove` | enter a key or give it other sums; take it out |

Invariant: what they answer and leave behind is what the methods of `OrderedIndex` would.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from everfresh.local import ordered_kernels as kernels
from everfresh.local.ordered_kernels import (
    ENTRIES,
    NEGATIVE,
    Bools,
    Ints,
    _count_before,
    _passes,
    _passing_place,
    _plus,
    _position,
    _read,
    _seek,
    _sums_to,
    _within,
)

_ZERO = np.uint64(0)


@njit(forceinline=True, cache=True, nogil=True)
def rank_of(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    keys: Ints,
    k: int,
    length: int,
    after: bool,
) -> int:
    """How many entries sort before the first `length` words of a key; `after`: or agree with them."""
    count = state[0]
    position = _position(tops, count, keys, k, length, after)
    n = _count_before(tree, position)
    if position < count:
        block = order[position]
        n += _within(data, block, totals[block, 0], keys, k, length, after)
    return int(n)


@njit(forceinline=True, cache=True, nogil=True)
def sums_below(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    keys: Ints,
    k: int,
    length: int,
    after: bool,
    scratch: Ints,
    out: Ints,
    row: int,
) -> None:
    """out[row]: count and sums over the entries that `rank_of` counts; `scratch` is one row like it."""
    count = state[0]
    position, at = _position(tops, count, keys, k, length, after), 0
    if position < count:
        block = order[position]
        at = _within(data, block, totals[block, 0], keys, k, length, after)
    _sums_to(data, order, tree, high, count, tops.shape[1], position, at, scratch, out, row)


@njit(forceinline=True, cache=True, nogil=True)
def sum_reaches(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    row: int,
    wide: bool,
    value_high: np.int64,
    value_low: np.int64,
    strict: bool,
) -> int:
    """The first rank at which the sum of a row of `totals` over the entries up to it, itself included,
    reaches a value, or (strict) exceeds it; as many as there are if none does. No entry is negative."""
    count, words = state[0], tops.shape[1]
    step = 1
    while 2 * step <= count:
        step *= 2
    a, b = np.int64(0), _ZERO
    c, d = value_high, np.uint64(value_low)
    position = 0
    while step > 0:
        if position + step <= count:
            e, f = _read(tree, position + step, row, wide)
            e, f = _plus(a, b, e, f)
            if not _passes(e, f, c, d, strict):
                position += step
                a, b = e, f
        step >>= 1
    if position >= count:
        return int(state[ENTRIES])
    block = order[position]
    fill = totals[block, 0]
    at, a, b = _passing_place(data, block, 0, fill, words + row, wide, a, b, c, d, strict)
    return int(_count_before(tree, position) + at)


@njit(forceinline=True, cache=True, nogil=True)
def grows(state: Ints, row: int) -> bool:
    """Whether no entry is negative in a row of `totals`."""
    return bool(state[NEGATIVE + row] == 0)


@njit(forceinline=True, cache=True, nogil=True)
def range_first(tree: Ints, state: Ints, rank: int) -> tuple[int, int]:
    """The place (position of a block, entry in it) of the entry of a rank, which is there."""
    position, at = _seek(tree, state[0], rank)
    return position, at


@njit(forceinline=True, cache=True, nogil=True)
def range_next(totals: Ints, order: Ints, position: int, at: int) -> tuple[int, int]:
    """The place behind a place."""
    at += 1
    if at >= totals[order[position], 0]:
        return position + 1, 0
    return position, at


@njit(forceinline=True, cache=True, nogil=True)
def slot_of(data: Ints, order: Ints, words: int, position: int, at: int) -> int:
    """The slot at a place."""
    return int(data[order[position], words, at])


@njit(forceinline=True, cache=True, nogil=True)
def word_of(data: Ints, order: Ints, word: int, position: int, at: int) -> int:
    """A word of the key at a place."""
    return int(data[order[position], word, at])


@njit(cache=True, nogil=True)
def put(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    keys: Ints,
    slots: Ints,
    sums: Ints,
    out: Ints,
) -> bool:
    """Enter the one key of `keys[words, 1]`, or give it these sums; False if no block is free."""
    ops = np.full(1, 2)
    done = kernels.apply(data, totals, order, tops, tree, high, state, ops, keys, slots, sums, 0, out)
    return bool(done == 1)


@njit(cache=True, nogil=True)
def remove(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    keys: Ints,
    slots: Ints,
    sums: Ints,
    out: Ints,
) -> bool:
    """Take the one key of `keys[words, 1]` out; whether it was there."""
    ops = np.full(1, -1)
    kernels.apply(data, totals, order, tops, tree, high, state, ops, keys, slots, sums, 0, out)
    return bool(out[0] >= 0)
