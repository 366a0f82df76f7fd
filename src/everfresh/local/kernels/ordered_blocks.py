"""Ordered indexes as arrays: blocks of sorted entries, prefix sums over the blocks, and search in both.

An index is seven arrays (`ordered_index.OrderedIndex` owns them):

- `data[block, row, i]`: entry i of a block; the rows are the key words, the slot, the words of the sums.
- `totals[block, row]`: how many entries a block holds (row 0), and the sums over them.
- `order[position]`: the blocks in key order; those behind the `state[BLOCKS]` in use are free.
- `tops[position, word]`: the largest key of the block at a position, for the binary search.
- `tree[position + 1, row]`: a Fenwick tree over `totals` in key order.
- `high[row]`: whether a row of `totals` is the high word of a 128-bit sum whose low word is the next row.
- `state`: blocks in use, entries, and per row of `totals` how many entries are negative there.

Invariants: entries increase strictly in their key words, no block in use is empty, and of two neighbours
not both are less than a quarter full. Sums are taken modulo 2^64 (2^128 for two words): exact where the true
sum fits. `ordered_changes` keeps it so, `ordered_questions` asks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.primitives import HALF, LOW_BITS, ONE, ZERO

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

# Positions in `state`; what follows counts negative entries per row of `totals`.
BLOCKS, ENTRIES, NEGATIVE = 0, 1, 2


# -- search ----------------------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def position_of(tops: Ints, count: int, keys: Ints, k: int, length: int, after: bool) -> int:
    """The first position whose largest key does not sort before column `k` of `keys`; `count` if all do.

    Keys are compared by their first `length` words; `after`: an equal one counts as before, too.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        before = after
        for j in range(length):
            a, b = tops[middle, j], keys[j, k]
            if a != b:
                before = a < b
                break
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@njit(forceinline=True, cache=True)
def within(data: Ints, block: int, fill: int, keys: Ints, k: int, length: int, after: bool) -> int:
    """The first of `fill` entries of a block that does not sort before column `k` of `keys`."""
    low, high = 0, fill
    while low < high:
        middle = (low + high) >> 1
        before = after
        for j in range(length):
            a, b = data[block, j, middle], keys[j, k]
            if a != b:
                before = a < b
                break
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@njit(forceinline=True, cache=True)
def is_at(data: Ints, block: int, at: int, keys: Ints, k: int) -> bool:
    """Whether the key at place `at` of a block is column `k` of `keys`."""
    for j in range(keys.shape[0]):  # noqa: SIM110 - Numba compiles the loop better than all()
        if data[block, j, at] != keys[j, k]:
            return False
    return True


# -- sums ------------------------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def add(target: Ints, to: int, source: Ints, of: int, high: Bools) -> None:
    """target[to] += source[of], carrying from low to high words."""
    carry = False
    for r in range(high.size - 1, -1, -1):
        a = np.uint64(target[to, r])
        s = a + np.uint64(source[of, r])
        if carry and high[r]:
            s += ONE
        carry = bool(s < a)
        target[to, r] = np.int64(s)


@njit(forceinline=True, cache=True)
def negate(row: Ints, high: Bools) -> None:
    """The one row of `row` times -1."""
    borrow = False
    for r in range(high.size - 1, -1, -1):
        x = np.uint64(row[0, r])
        s = ZERO - x
        if borrow and high[r]:
            s -= ONE
        borrow = x != ZERO
        row[0, r] = np.int64(s)


@njit(forceinline=True, cache=True)
def block_sums(data: Ints, block: int, end: int, words: int, high: Bools, out: Ints) -> None:
    """out[0]: how many the first `end` entries of a block are, and their sums."""
    out[0, 0] = end
    for r in range(1, high.size):
        row = data[block, words + r]
        if high[r - 1]:  # a low word: halves add up without overflow, the high word before takes the carry
            small, large = ZERO, ZERO
            for i in range(end):
                x = np.uint64(row[i])
                small += x & LOW_BITS
                large += x >> HALF
            large += small >> HALF
            out[0, r] = np.int64((large << HALF) | (small & LOW_BITS))
            out[0, r - 1] = np.int64(np.uint64(out[0, r - 1]) + (large >> HALF))
        else:
            s = ZERO
            for i in range(end):
                s += np.uint64(row[i])
            out[0, r] = np.int64(s)


@njit(forceinline=True, cache=True)
def raise_from(tree: Ints, position: int, count: int, delta: Ints, high: Bools) -> None:
    """Add `delta` at a position of the Fenwick tree."""
    i = position + 1
    while i <= count:
        add(tree, i, delta, 0, high)
        i += i & -i


@njit(cache=True)
def plant(totals: Ints, order: Ints, tree: Ints, high: Bools, count: int) -> None:
    """Build the Fenwick tree from the totals of the blocks."""
    for p in range(count):
        for r in range(high.size):
            tree[p + 1, r] = totals[order[p], r]
    for i in range(1, count + 1):
        j = i + (i & -i)
        if j <= count:
            add(tree, j, tree, i, high)


@njit(forceinline=True, cache=True)
def count_before(tree: Ints, position: int) -> int:
    """How many entries stand before a position."""
    n = 0
    while position > 0:
        n += tree[position, 0]
        position &= position - 1
    return n


@njit(forceinline=True, cache=True)
def seek(tree: Ints, count: int, rank: int) -> tuple[int, int]:
    """The position of the block that holds entry `rank`, and the entry's place in it."""
    step = 1
    while 2 * step <= count:
        step *= 2
    position = 0
    while step > 0:
        if position + step <= count and tree[position + step, 0] <= rank:
            position += step
            rank -= tree[position, 0]
        step >>= 1
    return position, rank


@njit(forceinline=True, cache=True)
def sums_to(
    data: Ints,
    order: Ints,
    tree: Ints,
    high: Bools,
    count: int,
    words: int,
    position: int,
    at: int,
    scratch: Ints,
    out: Ints,
    k: int,
) -> None:
    """out[k]: count and sums over all entries before place `at` of the block at `position`."""
    if position < count and at > 0:
        block_sums(data, order[position], at, words, high, scratch)
        for r in range(high.size):
            out[k, r] = scratch[0, r]
    else:
        for r in range(high.size):
            out[k, r] = 0
    i = position
    while i > 0:
        add(out, k, tree, i, high)
        i &= i - 1
