"""The compiled loops that change an ordered index (`ordered_blocks`): entering, removing, adding, filling.

Kernels raise nothing; `apply` returns how far it came when no block is free.
"""

from __future__ import annotations

import numpy as np

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.ordered_blocks import (
    Bools,
    Ints,
    add,
    block_sums,
    is_at,
    negate,
    plant,
    position_of,
    raise_from,
    within,
)
from everfresh.local.kernels.primitives import ONE

# -- blocks ----------------------------------------------------------------------------------------


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
    block_sums(data, block, fill, words, high, scratch)
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
            add(totals, a, totals, b, high)
            for j in range(tops.shape[1]):
                tops[left, j] = tops[left + 1, j]
            _close(order, tops, left + 1, count)
            return True
    return False


# -- entries ---------------------------------------------------------------------------------------


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
            s -= ONE
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
        position = position_of(tops, count, keys, i, words, False)
        at, block, found = 0, 0, False
        if position < count:
            block = order[position]
            at = within(data, block, totals[block, 0], keys, i, words, False)
            found = is_at(data, block, at, keys, i)
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
                negate(delta, high)
                state[1] -= 1
            else:
                carry = False
                for r in range(rows - 1, 0, -1):
                    a = np.uint64(data[block, words + r, at])
                    s = a + np.uint64(delta[0, r])
                    if carry and high[r]:
                        s += ONE
                    carry = bool(s < a)
                    data[block, words + r, at] = np.int64(s)
                _negatives(data, block, at, words, state, 1)
        add(totals, block, delta, 0, high)
        if not late:
            raise_from(tree, position, count, delta, high)
        if (
            op < 0
            and 4 * totals[block, 0] < size
            and _merge(data, totals, order, tops, high, count, position)
        ):
            count -= 1
            late = True
    state[0] = count
    if late:
        plant(totals, order, tree, high, count)
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


# -- all entries -----------------------------------------------------------------------------------


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
    plant(totals, order, tree, high, count)


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
