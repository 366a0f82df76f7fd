"""The compiled loops of ordered indexes: blocks of sorted entries, and prefix sums over the blocks.

An index is seven arrays (`ordered.OrderedIndex` owns them):

- `data[block, row, i]`: entry i of a block; the rows are the key words, the slot, the words of the sums.
- `totals[block, row]`: how many entries a block holds (row 0), and the sums over them.
- `order[position]`: the blocks in key order; those behind the `state[BLOCKS]` in use are free.
- `tops[position, word]`: the largest key of the block at a position, for the binary search.
- `tree[position + 1, row]`: a Fenwick tree over `totals` in key order.
- `high[row]`: whether a row of `totals` is the high word of a 128-bit sum whose low word is the next row.
- `state`: blocks in use, entries, and per row of `totals` how many entries are negative there.

Invariants: entries increase strictly in their key words, no block in use is empty, and of two neighbours
not both are less than a quarter full. Sums are taken modulo 2^64 (2^128 for two words): exact where the true
sum fits. Kernels raise nothing; `apply` returns how far it came when no block is free. All parameters are
arguments or array shapes: a cached function does not notice that a global has changed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit import njit

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

# Positions in `state`; what follows counts negative entries per row of `totals`.
BLOCKS, ENTRIES, NEGATIVE = 0, 1, 2

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


# ------------------------------------------------------------------------------------------ search


@njit(forceinline=True, cache=True)
def _position(tops: Ints, count: int, keys: Ints, k: int, length: int, after: bool) -> int:
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
def _within(data: Ints, block: int, fill: int, keys: Ints, k: int, length: int, after: bool) -> int:
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
def _is_at(data: Ints, block: int, at: int, keys: Ints, k: int) -> bool:
    for j in range(keys.shape[0]):  # noqa: SIM110 - Numba compiles the loop better than all()
        if data[block, j, at] != keys[j, k]:
            return False
    return True


# -------------------------------------------------------------------------------------------- sums


@njit(forceinline=True, cache=True)
def _add(target: Ints, to: int, source: Ints, of: int, high: Bools) -> None:
    """target[to] += source[of], carrying from low to high words."""
    carry = False
    for r in range(high.size - 1, -1, -1):
        a = np.uint64(target[to, r])
        s = a + np.uint64(source[of, r])
        if carry and high[r]:
            s += _ONE
        carry = bool(s < a)
        target[to, r] = np.int64(s)


@njit(forceinline=True, cache=True)
def _negate(row: Ints, high: Bools) -> None:
    """The one row of `row` times -1."""
    borrow = False
    for r in range(high.size - 1, -1, -1):
        x = np.uint64(row[0, r])
        s = _ZERO - x
        if borrow and high[r]:
            s -= _ONE
        borrow = x != _ZERO
        row[0, r] = np.int64(s)


@njit(forceinline=True, cache=True)
def _block_sums(data: Ints, block: int, end: int, words: int, high: Bools, out: Ints) -> None:
    """out[0]: how many the first `end` entries of a block are, and their sums."""
    out[0, 0] = end
    for r in range(1, high.size):
        row = data[block, words + r]
        if high[r - 1]:  # a low word: halves add up without overflow, the high word before takes the carry
            small, large = _ZERO, _ZERO
            for i in range(end):
                x = np.uint64(row[i])
                small += x & _LOW
                large += x >> _HALF
            large += small >> _HALF
            out[0, r] = np.int64((large << _HALF) | (small & _LOW))
            out[0, r - 1] = np.int64(np.uint64(out[0, r - 1]) + (large >> _HALF))
        else:
            s = _ZERO
            for i in range(end):
                s += np.uint64(row[i])
            out[0, r] = np.int64(s)


@njit(forceinline=True, cache=True)
def _raise_from(tree: Ints, position: int, count: int, delta: Ints, high: Bools) -> None:
    """Add `delta` at a position of the Fenwick tree."""
    i = position + 1
    while i <= count:
        _add(tree, i, delta, 0, high)
        i += i & -i


@njit(cache=True)
def _plant(totals: Ints, order: Ints, tree: Ints, high: Bools, count: int) -> None:
    """Build the Fenwick tree from the totals of the blocks."""
    for p in range(count):
        for r in range(high.size):
            tree[p + 1, r] = totals[order[p], r]
    for i in range(1, count + 1):
        j = i + (i & -i)
        if j <= count:
            _add(tree, j, tree, i, high)


@njit(forceinline=True, cache=True)
def _count_before(tree: Ints, position: int) -> int:
    """How many entries stand before a position."""
    n = 0
    while position > 0:
        n += tree[position, 0]
        position &= position - 1
    return n


@njit(forceinline=True, cache=True)
def _seek(tree: Ints, count: int, rank: int) -> tuple[int, int]:
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
def _sums_to(
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
        _block_sums(data, order[position], at, words, high, scratch)
        for r in range(high.size):
            out[k, r] = scratch[0, r]
    else:
        for r in range(high.size):
            out[k, r] = 0
    i = position
    while i > 0:
        _add(out, k, tree, i, high)
        i &= i - 1


# ------------------------------------------------------------------------------------------ change


@njit(cache=True)
def _open(order: Ints, tops: Ints, position: int, count: int) -> None:
    """Put the first free block at `position`, those from there on one further."""
    block = order[count]
    for p in range(count, position, -1):
        order[p] = order[p - 1]
        for j in range(tops.shape[1]):
            tops[p, j] = tops[p - 1, j]
    order[position] = block


@njit(cache=True)
def _close(order: Ints, tops: Ints, position: int, count: int) -> None:
    """Free the block at `position`."""
    block = order[position]
    for p in range(position, count - 1):
        order[p] = order[p + 1]
        for j in range(tops.shape[1]):
            tops[p, j] = tops[p + 1, j]
    order[count - 1] = block


@njit(cache=True)
def _move(data: Ints, source: int, first: int, end: int, target: int, to: int) -> None:
    """Copy entries first..end of one block to another, from place `to` on."""
    for row in range(data.shape[1]):
        for i in range(end - first):
            data[target, row, to + i] = data[source, row, first + i]


@njit(forceinline=True, cache=True)
def _total(data: Ints, totals: Ints, block: int, fill: int, words: int, high: Bools, scratch: Ints) -> None:
    _block_sums(data, block, fill, words, high, scratch)
    for r in range(high.size):
        totals[block, r] = scratch[0, r]


@njit(cache=True)
def _split(
    data: Ints, totals: Ints, order: Ints, tops: Ints, high: Bools, count: int, position: int, keep: int
) -> None:
    """Cut the full block at `position`: its entries from `keep` on go to a new block behind it."""
    words, size = tops.shape[1], data.shape[2]
    _open(order, tops, position + 1, count)
    block, new = order[position], order[position + 1]
    _move(data, block, keep, size, new, 0)
    scratch = np.empty((1, high.size), np.int64)
    _total(data, totals, block, keep, words, high, scratch)
    _total(data, totals, new, size - keep, words, high, scratch)
    for j in range(words):
        tops[position + 1, j] = tops[position, j]
        tops[position, j] = data[block, j, keep - 1]


@njit(cache=True)
def _merge(data: Ints, totals: Ints, order: Ints, tops: Ints, high: Bools, count: int, position: int) -> bool:
    """Let the block at `position` go if it is empty, or together with a neighbour fits one block."""
    fill = totals[order[position], 0]
    if fill == 0:
        _close(order, tops, position, count)
        return True
    for left in range(position, position - 2, -1):
        if left < 0 or left + 1 >= count:
            continue
        a, b = order[left], order[left + 1]
        first, second = totals[a, 0], totals[b, 0]
        if first + second <= data.shape[2]:
            _move(data, b, 0, second, a, first)
            _add(totals, a, totals, b, high)
            for j in range(tops.shape[1]):
                tops[left, j] = tops[left + 1, j]
            _close(order, tops, left + 1, count)
            return True
    return False


@njit(forceinline=True, cache=True)
def _negatives(data: Ints, block: int, at: int, words: int, state: Ints, sign: int) -> None:
    """Count an entry among those with negative words, or (sign -1) no longer."""
    for r in range(1, state.size - 2):
        if data[block, words + r, at] < 0:
            state[2 + r] += sign


@njit(forceinline=True, cache=True)
def _enter(data: Ints, block: int, fill: int, at: int, keys: Ints, slot: int, delta: Ints, k: int) -> None:
    """Write column `k` into a block with room, at place `at`."""
    words = keys.shape[0]
    for row in range(data.shape[1]):
        for i in range(fill, at, -1):
            data[block, row, i] = data[block, row, i - 1]
        if row < words:
            data[block, row, at] = keys[row, k]
        elif row == words:
            data[block, row, at] = slot
        else:
            data[block, row, at] = delta[0, row - words]


@njit(forceinline=True, cache=True)
def _difference(delta: Ints, data: Ints, block: int, words: int, at: int, high: Bools) -> None:
    """delta[0] minus the sums of an entry, borrowing from high words."""
    borrow = False
    for r in range(high.size - 1, 0, -1):
        a, b = np.uint64(delta[0, r]), np.uint64(data[block, words + r, at])
        s = a - b
        if borrow and high[r]:
            s -= _ONE
        borrow = bool(a < b)
        delta[0, r] = np.int64(s)


@njit(cache=True)
def apply(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    ops: Ints,
    keys: Ints,
    slots: Ints,
    sums: Ints,
    start: int,
    out: Ints,
) -> int:
    """Run the operations of columns `start`.., in order: 1 enters a key, -1 removes it, 0 adds to its sums,
    2 enters it or, where it is there, gives it these sums.

    out[i]: the slot that key i had before its operation, or -1. Entering a key that is there and the others
    on one that is not change nothing. Returns the column reached: not the end when no block is free.
    """
    words, size, rows, m = tops.shape[1], data.shape[2], high.size, ops.size
    count = state[0]
    # The tree is not read here: with many changes, or once blocks move, it is built anew at the end.
    late = (m - start) * 8 > count
    delta = np.zeros((1, rows), np.int64)
    reached = m
    for i in range(start, m):
        position = _position(tops, count, keys, i, words, False)
        at, block, found = 0, 0, False
        if position < count:
            block = order[position]
            at = _within(data, block, totals[block, 0], keys, i, words, False)
            found = _is_at(data, block, at, keys, i)
        out[i] = data[block, words, at] if found else -1
        op = ops[i]
        if op == 2:
            op = 0 if found else 1
        elif found == (op > 0):
            continue
        for r in range(1, rows):
            delta[0, r] = data[block, words + r, at] if op < 0 else sums[r - 1, i]
        if ops[i] == 2 and found:
            _difference(delta, data, block, words, at, high)
        delta[0, 0] = abs(op)
        if op > 0:
            if count == 0 or position == count:
                position = max(count - 1, 0)
                block = order[position]
                at = totals[block, 0] if count > 0 else 0
            if count == 0 or totals[block, 0] == size:
                if count == order.size:
                    reached = i
                    break
                late = True
                if count == 0:
                    for r in range(rows):
                        totals[block, r] = 0
                else:
                    # Keys that come in order fill blocks: nothing moves when one is put behind the last.
                    keep = size if position == count - 1 and at == size else size // 2
                    _split(data, totals, order, tops, high, count, position, keep)
                    if at > keep or keep == size:
                        position += 1
                        at -= keep
                        block = order[position]
                count += 1
            fill = totals[block, 0]
            _enter(data, block, fill, at, keys, slots[i], delta, i)
            if at == fill:
                for j in range(words):
                    tops[position, j] = keys[j, i]
            _negatives(data, block, at, words, state, 1)
            state[1] += 1
        else:
            _negatives(data, block, at, words, state, -1)
            if op < 0:
                fill = totals[block, 0] - 1
                for row in range(data.shape[1]):
                    for e in range(at, fill):
                        data[block, row, e] = data[block, row, e + 1]
                if at == fill and fill > 0:
                    for j in range(words):
                        tops[position, j] = data[block, j, fill - 1]
                _negate(delta, high)
                state[1] -= 1
            else:
                carry = False
                for r in range(rows - 1, 0, -1):
                    a = np.uint64(data[block, words + r, at])
                    s = a + np.uint64(delta[0, r])
                    if carry and high[r]:
                        s += _ONE
                    carry = bool(s < a)
                    data[block, words + r, at] = np.int64(s)
                _negatives(data, block, at, words, state, 1)
        _add(totals, block, delta, 0, high)
        if not late:
            _raise_from(tree, position, count, delta, high)
        if (
            op < 0
            and 4 * totals[block, 0] < size
            and _merge(data, totals, order, tops, high, count, position)
        ):
            count -= 1
            late = True
    state[0] = count
    if late:
        _plant(totals, order, tree, high, count)
    return reached


@njit(cache=True)
def take_out(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    stored: Ints,
    inside: Bools,
    slots: Ints,
) -> None:
    """Remove those of `slots` that are inside: the key of a slot is its column of `stored`, and the slot."""
    m = 0
    for i in range(slots.size):
        if slots[i] < inside.size and inside[slots[i]]:
            m += 1
    keys, there, at = np.empty((tops.shape[1], m), np.int64), np.empty(m, np.int64), 0
    for i in range(slots.size):
        slot = slots[i]
        if slot < inside.size and inside[slot]:
            inside[slot] = False
            for j in range(stored.shape[0]):
                keys[j, at] = stored[j, slot]
            keys[stored.shape[0], at] = there[at] = slot
            at += 1
    ops, sums = np.full(m, np.int64(-1)), np.empty((high.size - 1, m), np.int64)
    apply(data, totals, order, tops, tree, high, state, ops, keys, there, sums, 0, np.empty(m, np.int64))


@njit(cache=True)
def build(
    data: Ints,
    totals: Ints,
    order: Ints,
    tops: Ints,
    tree: Ints,
    high: Bools,
    state: Ints,
    entries: Ints,
    fill: int,
) -> None:
    """Fill an empty index that has room with sorted `entries[row, i]`, `fill` to a block."""
    words, n = tops.shape[1], entries.shape[1]
    scratch = np.empty((1, high.size), np.int64)
    count = 0
    for first in range(0, n, fill):
        end = min(first + fill, n)
        block = order[count]
        for row in range(data.shape[1]):
            for i in range(end - first):
                data[block, row, i] = entries[row, first + i]
        _total(data, totals, block, end - first, words, high, scratch)
        for j in range(words):
            tops[count, j] = entries[j, end - 1]
        count += 1
    for r in range(1, high.size):
        for i in range(n):
            if entries[words + r, i] < 0:
                state[2 + r] += 1
    state[0] = count
    state[1] = n
    _plant(totals, order, tree, high, count)


@njit(cache=True)
def export(data: Ints, totals: Ints, order: Ints, count: int, out: Ints) -> None:
    """All entries in order, as `build` takes them."""
    done = 0
    for p in range(count):
        block = order[p]
        fill = totals[block, 0]
        for row in range(data.shape[1]):
            for i in range(fill):
                out[row, done + i] = data[block, row, i]
        done += fill


# --------------------------------------------------------------------------------------- questions


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
        position = _position(tops, count, keys, i, length, after)
        n = _count_before(tree, position)
        if position < count:
            block = order[position]
            n += _within(data, block, totals[block, 0], keys, i, length, after)
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
        position = _position(tops, count, keys, i, length, after)
        at = 0
        if position < count:
            block = order[position]
            at = _within(data, block, totals[block, 0], keys, i, length, after)
        _sums_to(data, order, tree, high, count, words, position, at, scratch, out, i)


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
        position, at = _seek(tree, count, min(max(ranks[i], 0), state[1]))
        _sums_to(data, order, tree, high, count, tops.shape[1], position, at, scratch, out, i)


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
            position, at = _seek(tree, state[0], ranks[i])
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
        position, first = _seek(tree, state[0], starts[i])
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
        high += _ONE
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
        a, b = np.int64(0), _ZERO
        c, d = value_high[i], np.uint64(value_low[i])
        position, first = 0, 0
        if start > 0:
            position, first = _seek(tree, count, start)
        if monotone:
            if start > 0:  # the sum from the start is what the prefix has more than the one before it
                _sums_to(data, order, tree, high, count, words, position, first, scratch, before, 0)
                _negate(before, high)
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
                out[i] = max(_count_before(tree, position) + at, start)
                break
            position += 1
            first = 0


# ----------------------------------------------------------------------------------------- strings


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
        n = _count_before(tree, low)
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
