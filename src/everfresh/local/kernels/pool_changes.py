"""The compiled loops that change a pool: what a batch comes to; entries entered, set, undone, removed.

Implements the record pools of the thesis, section 4.2.2 (free slots, unique keys), over the index of
`hashing`.
Invariant: a slot not in use holds zero in n and in all components.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.hashing import (
    AHEAD,
    TOP,
    Floats,
    Ints,
    Marks,
    probe,
    release,
    store,
    tags_of,
    take,
)
from everfresh.local.kernels.primitives import finish
from everfresh.local.native.runtime.memory import prefetch

_SOME = 128  # slots whose keys are read before the first of them is looked up


# -- what a batch comes to -------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def _equal_rows(a: Ints, i: int, b: Ints, j: int) -> bool:
    for w in range(a.shape[0]):  # noqa: SIM110 - Numba compiles the loop better than all()
        if a[w, i] != b[w, j]:
            return False
    return True


@njit(cache=True)
def judge(keys: Ints, words: Ints, weights: Ints, slots: Ints, first: Ints, keep: NDArray[np.bool_]) -> bool:
    """What a batch of rows, each 1 or -1, comes to in a table that is unique by its key; `keep` what stays.

    A row that goes and comes again is dropped. False where it takes more to decide: a key that goes or comes
    twice, a row to go that is not there, a key to come that stays.
    """
    m = slots.size
    going, coming = np.full(m, -1, np.int64), np.full(m, -1, np.int64)  # by first row of the key
    for i in range(m):
        keep[i] = True
        at = first[i]
        if weights[i] < 0:
            if going[at] >= 0:
                return False
            going[at] = i
        else:
            if coming[at] >= 0:
                return False
            coming[at] = i
    for at in range(m):
        i, j = going[at], coming[at]
        if i >= 0 and j >= 0 and _equal_rows(words, i, words, j):
            keep[i] = keep[j] = False
            continue
        if i >= 0:
            if slots[i] < 0 or not _equal_rows(words, i, keys, slots[i]):
                return False
        elif j >= 0 and slots[j] >= 0:
            return False
    return True


@njit(cache=True)
def replacing(
    keys: Ints,
    table: Ints,
    key: Ints,
    multipliers: Ints,
    given: Ints,
    at: Ints,
    lines: Ints,
    nulls: Ints,
    slots: Ints,
    tags: Ints,
    both: Ints,
    changed: NDArray[np.bool_],
) -> int:
    """The rows that come in the place of those with the same keys; how many differ from them, or -1 - (the
    first that has none).

    `given` has some words of each row, those of its key at `at`; they are put over the others by `lines`
    (from, to), and single bits by `nulls` (from word and bit, to word and bit). `both` has the rows as they
    are, then as they will be.
    """
    m, mask = slots.size, table.size - 1
    tags[:] = tags_of(given, at, multipliers, 0)
    for i in range(m):
        if i + AHEAD < m:
            prefetch(table, (tags[i + AHEAD] >> 32) & mask)
        slots[i] = probe(keys, table, key, tags[i], given, at, i)
        if slots[i] < 0:
            return -1 - i
    for j in range(keys.shape[0]):
        row, out = keys[j], both[j]
        for i in range(m):
            out[i] = out[m + i] = row[slots[i]]
    for j in range(lines.shape[0]):
        row, out = given[lines[j, 0]], both[lines[j, 1]]
        for i in range(m):
            out[m + i] = row[i]
    for j in range(nulls.shape[0]):
        row, out, bit = given[nulls[j, 0]], both[nulls[j, 2]], np.int64(1) << nulls[j, 3]
        for i in range(m):
            out[m + i] = (out[m + i] & ~bit) | (((row[i] >> nulls[j, 1]) & 1) << nulls[j, 3])
    count = 0
    for i in range(m):
        changed[i] = False
        for j in range(keys.shape[0]):
            changed[i] |= both[j, i] != both[j, m + i]
        count += changed[i]
    return count


# -- entries ---------------------------------------------------------------------------------------


@njit(cache=True)
def insert_new(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    n: Ints,
    tags: Ints,
    words: Ints,
    start: int,
    slots: Ints,
) -> None:
    """Create entries, each once, for columns `start`.. of `words`: keys absent and distinct, and room."""
    m = slots.size
    mask = table.size - 1
    for i in range(m):
        if i + AHEAD < m:
            prefetch(table, (tags[i + AHEAD] >> 32) & mask)
        slot = take(mark, state)
        at = (tags[i] >> 32) & mask
        while table[at] != 0:
            at = (at + 1) & mask
        table[at] = tags[i] | (slot + 1)
        slots[i] = slot
        n[slot] = 1
    for j in range(keys.shape[0]):  # column by column: rows of a power of two would share cache lines
        row, source = keys[j], words[j]
        for i in range(m):
            row[slots[i]] = source[start + i]


@njit(cache=True)
def resolve(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    key: Ints,
    multipliers: Ints,
    words: Ints,
    start: int,
    count: int,
    slots: Ints,
    touched: Ints,
    created: NDArray[np.bool_],
) -> tuple[int, int]:
    """Find or create the entries of columns `start`.. of `words`: `slots`, and each one once in `touched`.

    Returns the column reached (not the end when the pool is full: grow, call again) and the number touched.
    """
    tags = tags_of(words, key, multipliers, start)
    mask = table.size - 1
    m = slots.size
    for i in range(start, m):
        if i + AHEAD < m:
            prefetch(table, (tags[i + AHEAD - start] >> 32) & mask)
        tag = tags[i - start]
        slot = probe(keys, table, key, tag, words, key, i)
        if slot < 0:
            at = -1 - slot
            slot = take(mark, state)
            if slot < 0:
                return i, count
            table[at] = tag | (slot + 1)
            store(keys, slot, words, i)
            touched[count] = slot
            created[count] = True
            mark[slot] = count
            count += 1
        else:
            place = mark[slot]
            if place >= count or touched[place] != slot:
                touched[count] = slot
                created[count] = False
                mark[slot] = count
                count += 1
        slots[i] = slot
    return m, count


@njit(cache=True)
def enter_from(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    key: Ints,
    multipliers: Ints,
    entries: Ints,
    slots: Ints,
    start: int,
    rows: Ints,
    nulls: Ints,
    of: Ints,
) -> int:
    """`of[i]`, from `start` on: the entry with some of the words that `entries` has at `slots[i]`, created
    where absent. Returns the place reached: not the end when the pool is full.

    Word j is row `rows[j]` of theirs (-1: 0); a line of `nulls` is a row and a bit of theirs, and the word
    and the bit that it is here.
    """
    m, mask = slots.size, table.size - 1
    size = min(_SOME, m - start)
    words, tags = np.empty((rows.size, size), np.int64), np.empty(size, np.int64)
    for low in range(start, m, _SOME):
        some = slots[low : low + _SOME]
        for j in range(rows.size):
            for i in range(some.size):
                words[j, i] = entries[rows[j], some[i]] if rows[j] >= 0 else 0
        for j in range(nulls.shape[0]):
            for i in range(some.size):
                bit = (entries[nulls[j, 0], some[i]] >> nulls[j, 1]) & 1
                words[nulls[j, 2], i] |= bit << nulls[j, 3]
        for i in range(some.size):
            h = np.uint64(0)
            for j in range(rows.size):
                h += np.uint64(words[j, i]) * np.uint64(multipliers[j])
            tags[i] = finish(h)
            prefetch(table, (tags[i] >> 32) & mask)
        for i in range(some.size):
            slot = probe(keys, table, key, tags[i], words, key, i)
            if slot < 0:
                at = -1 - slot
                slot = take(mark, state)
                if slot < 0:
                    return low + i
                table[at] = tags[i] | (slot + 1)
                store(keys, slot, words, i)
            of[low + i] = slot
    return m


@njit(forceinline=True, cache=True)
def _assign(
    n: Ints, ints: Ints, floats: Floats, slot: int, from_n: Ints, from_ints: Ints, from_floats: Floats, i: int
) -> None:
    n[slot] = from_n[i]
    for j in range(ints.shape[0]):
        ints[j, slot] = from_ints[j, i]
    for j in range(floats.shape[0]):
        floats[j, slot] = from_floats[j, i]


@njit(forceinline=True, cache=True)
def _wipe(n: Ints, ints: Ints, floats: Floats, slot: int) -> None:
    n[slot] = 0
    for j in range(ints.shape[0]):
        ints[j, slot] = 0
    for j in range(floats.shape[0]):
        floats[j, slot] = 0.0


@njit(cache=True)
def undo(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    key: Ints,
    multipliers: Ints,
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
    created: NDArray[np.bool_],
    old_n: Ints,
    old_ints: Ints,
    old_floats: Floats,
) -> None:
    """Give touched slots their old values, backwards; those that were created leave the pool."""
    for i in range(slots.size - 1, -1, -1):
        slot = slots[i]
        if created[i]:
            _wipe(n, ints, floats, slot)
            release(keys, table, mark, state, key, multipliers, slot)
        else:
            _assign(n, ints, floats, slot, old_n, old_ints, old_floats, i)


@njit(cache=True)
def drop_empty(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    key: Ints,
    multipliers: Ints,
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
) -> None:
    """Remove those of `slots` that are live and have n = 0."""
    for i in range(slots.size):
        slot = slots[i]
        if n[slot] == 0 and mark[slot] >= 0:
            _wipe(n, ints, floats, slot)
            release(keys, table, mark, state, key, multipliers, slot)


@njit(cache=True)
def distinct_live(mark: Marks, state: Ints, slots: Ints) -> bool:
    """Whether all `slots` are live and no two are equal."""
    for i in range(slots.size):
        slot = slots[i]
        if not 0 <= slot < state[TOP] or mark[slot] < 0:
            return False
        place = mark[slot]
        if place < i and slots[place] == slot:
            return False
        mark[slot] = i
    return True


@njit(cache=True)
def remove(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    key: Ints,
    multipliers: Ints,
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
) -> bool:
    """Remove all of `slots`; False, and no change, unless they are live and distinct."""
    if not distinct_live(mark, state, slots):
        return False
    for i in range(slots.size):
        n[slots[i]] = 0
    drop_empty(keys, table, mark, state, key, multipliers, n, ints, floats, slots)
    return True


@njit(cache=True)
def put(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    key: Ints,
    multipliers: Ints,
    n: Ints,
    ints: Ints,
    floats: Floats,
    words: Ints,
    start: int,
    new_n: Ints,
    new_ints: Ints,
    new_floats: Floats,
) -> int:
    """Set the entries of columns `start`.. to new values; n = 0 removes. Returns the column reached."""
    tags = tags_of(words, key, multipliers, start)
    m = words.shape[1]
    for i in range(start, m):
        slot = probe(keys, table, key, tags[i - start], words, key, i)
        if new_n[i] == 0:
            if slot >= 0:
                _wipe(n, ints, floats, slot)
                release(keys, table, mark, state, key, multipliers, slot)
            continue
        if slot < 0:
            at = -1 - slot
            slot = take(mark, state)
            if slot < 0:
                return i
            table[at] = tags[i - start] | (slot + 1)
        store(keys, slot, words, i)
        _assign(n, ints, floats, slot, new_n, new_ints, new_floats, i)
    return int(m)
