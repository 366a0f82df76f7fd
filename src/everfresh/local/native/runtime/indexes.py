"""Ordered indexes by address, one key at a time, for generated code: edges, sums, descents, entering.

The loops of `kernels.ordered_changes` and `ordered_questions` over the same arrays (`OrderedIndex` owns
them), so that the interpreter and compiled code read and change one index. Invariant: what `put` leaves is an
index in the sense of `kernels.ordered_blocks`; answers are those of `OrderedIndex`, or say that they do not
fit a word.

A *block of words* says where an index lies (`INDEX_*`). An *edge* is a place between two entries: the
position of a block and the place in it, in one word, so that edges compare as ranks do.
"""

from __future__ import annotations

import numpy as np

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.primitives import HALF, LOW_BITS, ONE, ZERO
from everfresh.local.native.runtime.memory import ld, ld8, st, st8

INDEX_DATA, INDEX_TOTALS, INDEX_ORDER, INDEX_TOPS, INDEX_TREE, INDEX_HIGH, INDEX_STATE = 0, 1, 2, 3, 4, 5, 6
INDEX_WORDS, INDEX_ROWS, INDEX_BLOCK, INDEX_BLOCKS = 7, 8, 9, 10
"""Words of a key, rows of the sums (the first counts entries), entries that fit a block, blocks."""
INDEX_STORED, INDEX_STRIDE, INDEX_IN = 11, 12, 13
"""By slot: the words of its key but the last, the slot; whether it is there."""
INDEX_KEY, INDEX_DELTA, INDEX_EDGES = 14, 15, 16
"""Where a key is put that is looked for or entered, what is added to its sums, and edges with weights."""
INDEX_FLAG = 17
"""1 if the last sum did not fit a word."""
INDEX_CALLS = 18
"""The addresses of the compiled `CALLED` (`calls`)."""
INDEX_SIZE = INDEX_CALLS + 6

EDGES = 64
"""How many edges there is room for."""


# -- search ----------------------------------------------------------------------------------------


@njit(forceinline=True)
def _sorts_before(at: int, stride: int, key: int, length: int, after: int) -> int:
    """Whether a key whose words are `stride` apart sorts before another one, by its first words."""
    for j in range(length):
        a, b = ld(at, j * stride), ld(key, j)
        if a != b:
            return 1 if a < b else 0
    return after


@njit
def edge(index: int, length: int, after: int) -> int:
    """Where the key that was put down, by its first `length` words, stands among the entries: before those
    that agree with it, or (`after`) behind them."""
    count, words, rows, key = ld(ld(index, 6), 0), ld(index, 7), ld(index, 8), ld(index, 14)
    tops = ld(index, 3)
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if _sorts_before(tops + 8 * words * middle, 1, key, length, after) != 0:
            low = middle + 1
        else:
            high = middle
    if low == count:
        return low << 16
    position, size = low, ld(index, 9)
    block = ld(ld(index, 2), position)
    data = ld(index, 0) + 8 * size * (words + rows) * block
    low, high = 0, ld(ld(index, 1), block * rows)
    while low < high:
        middle = (low + high) >> 1
        if _sorts_before(data + 8 * middle, size, key, length, after) != 0:
            low = middle + 1
        else:
            high = middle
    return (position << 16) | low


@njit
def last_edge(index: int) -> int:
    """The edge behind all entries."""
    return int(ld(ld(index, 6), 0) << 16)


@njit
def slot_at(index: int, place: int) -> int:
    """The slot of the entry behind an edge; -1 if the edge is behind the last of its block."""
    words, rows, size = ld(index, 7), ld(index, 8), ld(index, 9)
    block = ld(ld(index, 2), place >> 16)
    if (place & 65535) >= ld(ld(index, 1), block * rows):
        return -1
    return int(ld(ld(index, 0), size * ((words + rows) * block + words) + (place & 65535)))


@njit
def word_at(index: int, place: int, word: int) -> int:
    """A word of the key of the entry behind an edge."""
    words, rows, size = ld(index, 7), ld(index, 8), ld(index, 9)
    block = ld(ld(index, 2), place >> 16)
    return int(ld(ld(index, 0), size * ((words + rows) * block + word) + (place & 65535)))


@njit
def ranked(index: int, rank: int) -> int:
    """The edge before the entry of a rank."""
    count, rows, tree = ld(ld(index, 6), 0), ld(index, 8), ld(index, 4)
    step = 1
    while 2 * step <= count:
        step *= 2
    position = 0
    while step > 0:
        if position + step <= count and ld(tree, (position + step) * rows) <= rank:
            position += step
            rank -= ld(tree, position * rows)
        step >>= 1
    return (position << 16) | rank


@njit
def before_first(index: int, place: int) -> int:
    """The edge before the entry in front of an edge that is not the first."""
    position, at = place >> 16, place & 65535
    if at > 0:
        return place - 1
    position -= 1
    fill = ld(ld(index, 1), ld(ld(index, 2), position) * ld(index, 8))
    return int((position << 16) | (fill - 1))


# -- sums ------------------------------------------------------------------------------------------


@njit
def sum_before(index: int, place: int, row: int, wide: int) -> int:
    """The sum of a row over all entries before an edge; the flag says if it does not fit a word."""
    position, at = place >> 16, place & 65535
    words, rows, size, tree = ld(index, 7), ld(index, 8), ld(index, 9), ld(index, 4)
    high, low = np.int64(0), ZERO
    if at > 0:
        block = ld(ld(index, 2), position)
        data = ld(index, 0) + 8 * size * ((words + rows) * block + words + row)
        if wide != 0:
            small, large = ZERO, ZERO
            for i in range(at):
                x = np.uint64(ld(data, size + i))
                small += x & LOW_BITS
                large += x >> HALF
                high += ld(data, i)
            large += small >> HALF
            low = (large << HALF) | (small & LOW_BITS)
            high += np.int64(large >> HALF)
        else:
            for i in range(at):
                high += ld(data, i)
            low = np.uint64(high)
            high = high >> 63
    while position > 0:
        at = position * rows + row
        if wide != 0:
            more = low + np.uint64(ld(tree, at + 1))
            high += ld(tree, at) + (1 if more < low else 0)
        else:
            more = low + np.uint64(ld(tree, at))
            high += (ld(tree, at) >> 63) + (1 if more < low else 0)
        low = more
        position &= position - 1
    found = np.int64(low)
    st(index, 17, 1 if high != (found >> 63) else 0)
    return int(found)


@njit
def reaches(index: int, row: int, wide: int, value: int) -> int:
    """How many entries it takes, from the first, until the sum of a row reaches a value, where none is
    negative; one more than there are if all do not."""
    if value <= 0:
        return 0
    count, words, rows, size = ld(ld(index, 6), 0), ld(index, 7), ld(index, 8), ld(index, 9)
    tree, least = ld(index, 4), np.uint64(value)
    step = 1
    while 2 * step <= count:
        step *= 2
    position, rank = 0, 0
    sum_ = ZERO
    while step > 0:
        if position + step <= count:
            at = (position + step) * rows
            high = ld(tree, at + row) if wide != 0 else 0
            more = sum_ + np.uint64(ld(tree, at + row + wide))
            if high == 0 and more >= sum_ and more < least:
                position += step
                rank += ld(tree, at)
                sum_ = more
        step >>= 1
    if position >= count:
        return rank + 1
    block = ld(ld(index, 2), position)
    data = ld(index, 0) + 8 * size * ((words + rows) * block + words + row)
    fill = ld(ld(index, 1), block * rows)
    for i in range(fill):
        high = ld(data, i) if wide != 0 else 0
        more = sum_ + np.uint64(ld(data, size * wide + i))
        if high != 0 or more < sum_ or more >= least:
            return rank + i + 1
        sum_ = more
    return int(rank + fill + 1)


@njit
def grows(index: int, row: int) -> bool:
    """Whether no entry is negative in a row."""
    return bool(ld(ld(index, 6), 2 + row) == 0)


# -- change ----------------------------------------------------------------------------------------


@njit
def _add(target: int, stride: int, first: int, rows: int, delta: int, high: int) -> None:
    """Add to rows that are `stride` words apart, carrying from low to high words."""
    carry = 0
    for r in range(rows - 1, first - 1, -1):
        a = np.uint64(ld(target, r * stride))
        s = a + np.uint64(ld(delta, r))
        if carry != 0 and ld8(high, r) != 0:
            s += ONE
        carry = 1 if s < a else 0
        st(target, r * stride, np.int64(s))


@njit
def _negatives(state: int, entry: int, size: int, rows: int, sign: int) -> None:
    """Count an entry among those with negative words, or (sign -1) no longer."""
    for r in range(1, rows):
        if ld(entry, r * size) < 0:
            st(state, 2 + r, ld(state, 2 + r) + sign)


@njit
def _total(index: int, block: int, fill: int) -> None:
    """Sum up a block."""
    words, rows, size, high = ld(index, 7), ld(index, 8), ld(index, 9), ld(index, 5)
    totals = ld(index, 1) + 8 * rows * block
    data = ld(index, 0) + 8 * size * ((words + rows) * block + words)
    st(totals, 0, fill)
    for r in range(1, rows):
        st(totals, r, 0)
    for i in range(fill):
        carry = 0
        for r in range(rows - 1, 0, -1):
            a = np.uint64(ld(totals, r))
            s = a + np.uint64(ld(data, r * size + i))
            if carry != 0 and ld8(high, r) != 0:
                s += ONE
            carry = 1 if s < a else 0
            st(totals, r, np.int64(s))


@njit
def _plant(index: int, count: int) -> None:
    """Build the tree from the totals of the blocks."""
    rows, totals, order, tree, high = ld(index, 8), ld(index, 1), ld(index, 2), ld(index, 4), ld(index, 5)
    for p in range(count):
        for r in range(rows):
            st(tree, (p + 1) * rows + r, ld(totals, ld(order, p) * rows + r))
    for i in range(1, count + 1):
        j = i + (i & -i)
        if j <= count:
            _add(tree + 8 * rows * j, 1, 0, rows, tree + 8 * rows * i, high)


@njit
def _split(index: int, position: int, count: int, keep: int) -> None:
    """Cut the full block at a position: its entries from `keep` on go to a new block behind it."""
    words, rows, size = ld(index, 7), ld(index, 8), ld(index, 9)
    order, tops, data = ld(index, 2), ld(index, 3), ld(index, 0)
    new = ld(order, count)
    for p in range(count, position + 1, -1):
        st(order, p, ld(order, p - 1))
        for j in range(words):
            st(tops, p * words + j, ld(tops, (p - 1) * words + j))
    st(order, position + 1, new)
    block = ld(order, position)
    for row in range(words + rows):
        source, target = size * ((words + rows) * block + row), size * ((words + rows) * new + row)
        for i in range(size - keep):
            st(data, target + i, ld(data, source + keep + i))
    _total(index, block, keep)
    _total(index, new, size - keep)
    for j in range(words):
        st(tops, (position + 1) * words + j, ld(tops, position * words + j))
        st(tops, position * words + j, ld(data, size * ((words + rows) * block + j) + keep - 1))


@njit
def _raise_from(index: int, position: int, count: int) -> None:
    rows, tree, delta, high = ld(index, 8), ld(index, 4), ld(index, 15), ld(index, 5)
    i = position + 1
    while i <= count:
        _add(tree + 8 * rows * i, 1, 0, rows, delta, high)
        i += i & -i


@njit
def put(index: int, slot: int) -> int:
    """Add what was put down to the sums of the key that was put down, a slot's; enter it if it is not there.
    1 if no block is free."""
    words, rows, size, state = ld(index, 7), ld(index, 8), ld(index, 9), ld(index, 6)
    key, delta, high = ld(index, 14), ld(index, 15), ld(index, 5)
    place = edge(index, words, 0)
    position, at = place >> 16, place & 65535
    count, order, totals = ld(state, 0), ld(index, 2), ld(index, 1)
    if ld8(ld(index, 13), slot) != 0:
        st(delta, 0, 0)
        block = ld(order, position)
        entry = ld(index, 0) + 8 * (size * ((words + rows) * block + words) + at)
        _negatives(state, entry, size, rows, -1)
        _add(entry, size, 1, rows, delta, high)
        _negatives(state, entry, size, rows, 1)
        _add(totals + 8 * rows * block, 1, 0, rows, delta, high)
        _raise_from(index, position, count)
        return 0
    st(delta, 0, 1)
    block = ld(order, max(min(position, count - 1), 0))
    if count == 0:
        for r in range(rows):
            st(totals, block * rows + r, 0)
        position, count, late = 0, 1, True
    else:
        late = False
        if position == count:
            position = count - 1
            at = ld(totals, block * rows)
        if ld(totals, block * rows) == size:
            if count == ld(index, 10):
                return 1
            keep = size if position == count - 1 and at == size else size // 2
            _split(index, position, count, keep)
            if at > keep or keep == size:
                position += 1
                at -= keep
                block = ld(order, position)
            count, late = count + 1, True
    _enter(index, position, block, at, slot)
    st(state, 0, count)
    st(state, 1, ld(state, 1) + 1)
    if late:
        _plant(index, count)
    else:
        _raise_from(index, position, count)
    st8(ld(index, 13), slot, 1)
    for j in range(words - 1):
        st(ld(index, 11), j * ld(index, 12) + slot, ld(key, j))
    return 0


@njit
def _enter(index: int, position: int, block: int, at: int, slot: int) -> None:
    """Write an entry into a block with room."""
    words, rows, size, state = ld(index, 7), ld(index, 8), ld(index, 9), ld(index, 6)
    key, delta, totals = ld(index, 14), ld(index, 15), ld(index, 1) + 8 * ld(index, 8) * block
    data, fill = ld(index, 0) + 8 * size * (words + rows) * block, ld(totals, 0)
    for row in range(words + rows):
        line = data + 8 * size * row
        for i in range(fill, at, -1):
            st(line, i, ld(line, i - 1))
        st(line, at, ld(key, row) if row < words else slot if row == words else ld(delta, row - words))
    if at == fill:
        for j in range(words):
            st(ld(index, 3), position * words + j, ld(key, j))
    _negatives(state, data + 8 * (size * words + at), size, rows, 1)
    _add(totals, 1, 0, rows, delta, ld(index, 5))


# -- edges -----------------------------------------------------------------------------------------


@njit
def note_edge(index: int, count: int, place: int, weight: int) -> int:
    """Keep an edge and its weight in order among `count` others; how many there are then."""
    edges = ld(index, 16)
    i = count
    while i > 0 and ld(edges, 2 * i - 2) > place:
        st(edges, 2 * i, ld(edges, 2 * i - 2))
        st(edges, 2 * i + 1, ld(edges, 2 * i - 1))
        i -= 1
    st(edges, 2 * i, place)
    st(edges, 2 * i + 1, weight)
    return count + 1


CALLED = (edge, sum_before, reaches, ranked, put, note_edge)
"""What generated code calls by address, each with its index first: compiled once, not in each function."""
