"""The compiled loops of unique hash indexes: tags of keys, looking up, entering, removing, growing.

Implements the unique hash indexes of the thesis, section 4.2.2, as arrays: an entry is a *slot*, a column of
the arrays of `pool.Pool`; the index maps key words to slots.

The hash table is open addressing with linear probing over a power of two. A cell is one int64: the high
half is a 32-bit tag of the hash, the low half is slot + 1, and 0 is an empty cell. The home position is the
low bits of the tag, so growing the table and closing the gap of a deletion never read a key.

`mark[slot]` is at least 0 for a live slot: its place among the slots touched by the current batch, or a
stale one (`touched[mark[slot]] == slot` tells which, so nothing is cleared between batches). For a free
slot it is negative and links the free list: `-2 - next`, so that -1 ends it.

Invariants, here and in all kernels of pools: they raise nothing and never run out of room (they return how
far they came); no kernel reads a parameter from a module variable. Integers are added as uint64, whose
wrap-around is defined.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.primitives import HIGH, LOW, finish
from everfresh.local.native.runtime.memory import prefetch

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Marks = NDArray[np.int32]

# Positions in a pool's state: slots ever used, head of the free list (-1: none), live entries.
TOP, FREE, LIVE = 0, 1, 2

AHEAD = 16  # rows between asking for a table cell and reading it


# -- one entry -------------------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def _same(keys: Ints, key: Ints, slot: int, words: Ints, rows: Ints, i: int) -> bool:
    for j in range(key.size):  # noqa: SIM110 - Numba compiles the loop better than all()
        if keys[key[j], slot] != words[rows[j], i]:
            return False
    return True


@njit(forceinline=True, cache=True)
def probe(keys: Ints, table: Ints, key: Ints, tag: int, words: Ints, rows: Ints, i: int) -> int:
    """The slot of column `i` of `words`, or -1 - (the empty cell where it belongs)."""
    mask = table.size - 1
    at = (tag >> 32) & mask
    while True:
        cell = table[at]
        if cell == 0:
            return -1 - at
        if (cell & HIGH) == tag:
            slot = (cell & LOW) - 1
            if _same(keys, key, slot, words, rows, i):
                return int(slot)
        at = (at + 1) & mask


@njit(forceinline=True, cache=True)
def take(mark: Marks, state: Ints) -> int:
    """A slot for a new entry: the one freed last, else a fresh one, else -1."""
    slot = state[FREE]
    if slot >= 0:
        state[FREE] = -2 - mark[slot]
    else:
        slot = state[TOP]
        if slot == mark.size:
            return -1
        state[TOP] = slot + 1
    state[LIVE] += 1
    mark[slot] = 0
    return int(slot)


@njit(forceinline=True, cache=True)
def store(keys: Ints, slot: int, words: Ints, i: int) -> None:
    """Write the words of a new entry."""
    for j in range(keys.shape[0]):
        keys[j, slot] = words[j, i]


@njit(cache=True)
def release(
    keys: Ints, table: Ints, mark: Marks, state: Ints, key: Ints, multipliers: Ints, slot: int
) -> None:
    """Take `slot` out of the index and free it. Releasing in reverse order of `take` undoes it exactly."""
    h = np.uint64(0)
    for j in range(key.size):
        h += np.uint64(keys[key[j], slot]) * np.uint64(multipliers[j])
    mask = table.size - 1
    hole = (finish(h) >> 32) & mask
    while (table[hole] & LOW) != slot + 1:
        hole = (hole + 1) & mask
    at = hole
    while True:  # backward shift: an entry moves up unless its home lies after the hole
        at = (at + 1) & mask
        cell = table[at]
        if cell == 0:
            break
        if ((at - (cell >> 32)) & mask) >= ((at - hole) & mask):
            table[hole] = cell
            hole = at
    table[hole] = 0
    for j in range(keys.shape[0]):
        keys[j, slot] = 0
    state[LIVE] -= 1
    if state[FREE] < 0 and slot == state[TOP] - 1:
        state[TOP] = slot
        mark[slot] = -1
    else:
        mark[slot] = -2 - state[FREE]
        state[FREE] = slot


# -- growing ---------------------------------------------------------------------------------------


@njit(cache=True)
def rehash(table: Ints, bigger: Ints) -> None:
    """Move all cells of `table` into the empty `bigger`."""
    mask = bigger.size - 1
    for i in range(table.size):
        cell = table[i]
        if cell != 0:
            at = (cell >> 32) & mask
            while bigger[at] != 0:
                at = (at + 1) & mask
            bigger[at] = cell


@njit(cache=True)
def spread(table: Ints, size: int) -> None:
    """`rehash` in place: the cells lie in the first `size`, at most half of them used, the rest is empty.

    Cell by cell from behind an empty one: a cell finds its new place among those that are done, or is the
    first of its chain to stay where it is.
    """
    mask = table.size - 1
    start = 0
    while table[start] != 0:
        start += 1
    for step in range(1, size):
        i = (start + step) & (size - 1)
        cell = table[i]
        if cell != 0:
            table[i] = 0
            at = (cell >> 32) & mask
            while table[at] != 0:
                at = (at + 1) & mask
            table[at] = cell


# -- looking up ------------------------------------------------------------------------------------


@njit(cache=True)
def tags_of(words: Ints, rows: Ints, multipliers: Ints, start: int) -> Ints:
    """The tags of columns `start`.. of `words`, hashing its rows `rows`."""
    m = words.shape[1] - start
    sums = np.zeros(m, np.uint64)
    for j in range(rows.size):
        row = words[rows[j]]
        c = np.uint64(multipliers[j])
        for i in range(m):
            sums[i] += np.uint64(row[start + i]) * c
    out = np.empty(m, np.int64)
    for i in range(m):
        out[i] = finish(sums[i])
    return out


@njit(cache=True)
def find(keys: Ints, table: Ints, key: Ints, words: Ints, rows: Ints, multipliers: Ints, out: Ints) -> None:
    """`out[i]`: the slot whose key words equal column `i` of `words`, or -1."""
    tags = tags_of(words, rows, multipliers, 0)
    mask = table.size - 1
    for i in range(out.size):
        if i + AHEAD < out.size:
            prefetch(table, (tags[i + AHEAD] >> 32) & mask)
        out[i] = max(probe(keys, table, key, tags[i], words, rows, i), -1)


@njit(cache=True)
def locate(
    keys: Ints,
    table: Ints,
    key: Ints,
    words: Ints,
    multipliers: Ints,
    tags: Ints,
    slots: Ints,
    first: Ints,
) -> int:
    """The keys of a batch of full rows: their tags, their slots (-1: none), and the first row with each key.

    Returns how many rows have a key that is there already or that came before.
    """
    m = slots.size
    tags[:] = tags_of(words, key, multipliers, 0)
    mask = table.size - 1
    size = 16
    while size < 2 * m:
        size *= 2
    seen = np.zeros(size, np.int32)
    known = 0
    for i in range(m):
        if i + AHEAD < m:
            prefetch(table, (tags[i + AHEAD] >> 32) & mask)
        tag = tags[i]
        slot = max(probe(keys, table, key, tag, words, key, i), -1)
        slots[i] = slot
        at = (tag >> 32) & (size - 1)
        found = i
        while True:
            other = seen[at] - 1
            if other < 0:
                seen[at] = i + 1
                break
            if tags[other] == tag:
                equal = True
                for j in range(key.size):
                    equal &= words[key[j], other] == words[key[j], i]
                if equal:
                    found = other
                    break
            at = (at + 1) & (size - 1)
        first[i] = found
        known += slot >= 0 or found != i
    return known
