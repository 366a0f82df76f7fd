"""Every compiled loop of the in-process engine: hash index, sums, string interning.

Implements the record pools and unique hash indexes of 001, section 4.2.2, as arrays: an entry is a *slot*,
a column of the arrays of `pool.Pool`; the index maps key words to slots. All kernels and all their helpers
live in this one module: a function cached on disk does not notice that a callee in another module has
changed.

The hash table is open addressing with linear probing over a power of two. A cell is one int64: the high
half is a 32-bit tag of the hash, the low half is slot + 1, and 0 is an empty cell. The home position is the
low bits of the tag, so growing the table and closing the gap of a deletion never read a key.

`mark[slot]` is at least 0 for a live slot: its place among the slots touched by the current batch, or a
stale one (`touched[mark[slot]] == slot` tells which, so nothing is cleared between batches). For a free
slot it is negative and links the free list: `-2 - next`, so that -1 ends it.

Invariants: kernels raise nothing and never run out of room (they return how far they came); a slot not in
use holds zero in n and in all components; no kernel reads a parameter from a module variable. Integers are
added as uint64, whose wrap-around is defined. Never compile with fastmath: it deletes the compensation of
float sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.local.arrow_memory import BUFFERS, CHILDREN, NULLS, OFFSET
from everfresh.local.jit import njit
from everfresh.local.native.memory import ld, ld8, ld32, ldu
from everfresh.local.native.memory import prefetch as _prefetch

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Marks = NDArray[np.int32]

# Positions in a pool's state: slots ever used, head of the free list (-1: none), live entries.
TOP, FREE, LIVE = 0, 1, 2

_HIGH = np.int64(-1 << 32)
_LOW = np.int64((1 << 32) - 1)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_AHEAD = 16  # rows between asking for a table cell and reading it
_STEP = 6  # the same for each of the three reads to a string
_SOME = 128  # slots whose keys are read before the first of them is looked up
_BLOCK = 1024  # strings that are hashed before the first of them is looked up


# -------------------------------------------------------------------------------------- primitives


@njit(forceinline=True, cache=True)
def _finish(h: np.uint64) -> np.int64:
    """The tag, in the high half: its low bits vary also when only the lowest or the top bits of `h` do."""
    h ^= h >> _HALF
    h *= _MIX
    h ^= h >> np.uint64(15)
    return np.int64(h) & _HIGH


@njit(forceinline=True, cache=True)
def _two_sum(a: float, b: float) -> tuple[float, float]:
    """a + b as rounded sum and exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


# -------------------------------------------------------------------------------------- hash index


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
        out[i] = _finish(sums[i])
    return out


@njit(forceinline=True, cache=True)
def _same(keys: Ints, key: Ints, slot: int, words: Ints, rows: Ints, i: int) -> bool:
    for j in range(key.size):  # noqa: SIM110 - Numba compiles the loop better than all()
        if keys[key[j], slot] != words[rows[j], i]:
            return False
    return True


@njit(forceinline=True, cache=True)
def _probe(keys: Ints, table: Ints, key: Ints, tag: int, words: Ints, rows: Ints, i: int) -> int:
    """The slot of column `i` of `words`, or -1 - (the empty cell where it belongs)."""
    mask = table.size - 1
    at = (tag >> 32) & mask
    while True:
        cell = table[at]
        if cell == 0:
            return -1 - at
        if (cell & _HIGH) == tag:
            slot = (cell & _LOW) - 1
            if _same(keys, key, slot, words, rows, i):
                return int(slot)
        at = (at + 1) & mask


@njit(forceinline=True, cache=True)
def _take(mark: Marks, state: Ints) -> int:
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
def _store(keys: Ints, slot: int, words: Ints, i: int) -> None:
    for j in range(keys.shape[0]):
        keys[j, slot] = words[j, i]


@njit(cache=True)
def _release(
    keys: Ints, table: Ints, mark: Marks, state: Ints, key: Ints, multipliers: Ints, slot: int
) -> None:
    """Take `slot` out of the index and free it. Releasing in reverse order of `_take` undoes it exactly."""
    h = np.uint64(0)
    for j in range(key.size):
        h += np.uint64(keys[key[j], slot]) * np.uint64(multipliers[j])
    mask = table.size - 1
    hole = (_finish(h) >> 32) & mask
    while (table[hole] & _LOW) != slot + 1:
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


# ------------------------------------------------------------------------------------------- pools


@njit(cache=True)
def find(keys: Ints, table: Ints, key: Ints, words: Ints, rows: Ints, multipliers: Ints, out: Ints) -> None:
    """`out[i]`: the slot whose key words equal column `i` of `words`, or -1."""
    tags = tags_of(words, rows, multipliers, 0)
    mask = table.size - 1
    for i in range(out.size):
        if i + _AHEAD < out.size:
            _prefetch(table, (tags[i + _AHEAD] >> 32) & mask)
        out[i] = max(_probe(keys, table, key, tags[i], words, rows, i), -1)


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
        if i + _AHEAD < m:
            _prefetch(table, (tags[i + _AHEAD] >> 32) & mask)
        tag = tags[i]
        slot = max(_probe(keys, table, key, tag, words, key, i), -1)
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
        if i + _AHEAD < m:
            _prefetch(table, (tags[i + _AHEAD] >> 32) & mask)
        slots[i] = _probe(keys, table, key, tags[i], given, at, i)
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
        if i + _AHEAD < m:
            _prefetch(table, (tags[i + _AHEAD] >> 32) & mask)
        slot = _take(mark, state)
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
        if i + _AHEAD < m:
            _prefetch(table, (tags[i + _AHEAD - start] >> 32) & mask)
        tag = tags[i - start]
        slot = _probe(keys, table, key, tag, words, key, i)
        if slot < 0:
            at = -1 - slot
            slot = _take(mark, state)
            if slot < 0:
                return i, count
            table[at] = tag | (slot + 1)
            _store(keys, slot, words, i)
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
            tags[i] = _finish(h)
            _prefetch(table, (tags[i] >> 32) & mask)
        for i in range(some.size):
            slot = _probe(keys, table, key, tags[i], words, key, i)
            if slot < 0:
                at = -1 - slot
                slot = _take(mark, state)
                if slot < 0:
                    return low + i
                table[at] = tags[i] | (slot + 1)
                _store(keys, slot, words, i)
            of[low + i] = slot
    return m


@njit(forceinline=True, cache=True)
def _add_checked(target: Ints, slots: Ints, delta: Ints) -> int:
    """target[slots] += delta; negative if one addition overflowed."""
    bad = 0
    for i in range(slots.size):
        a = target[slots[i]]
        b = delta[i]
        s = np.int64(np.uint64(a) + np.uint64(b))
        bad |= (a ^ s) & (b ^ s)
        target[slots[i]] = s
    return int(bad)


@njit(forceinline=True, cache=True)
def _add_wide(high: Ints, low: Ints, slots: Ints, delta_high: Ints, delta_low: Ints) -> int:
    """The same for two-word integers: carry from the low word, overflow judged in the high one."""
    bad = 0
    for i in range(slots.size):
        slot = slots[i]
        x = np.uint64(low[slot])
        y = x + np.uint64(delta_low[i])
        a = high[slot]
        b = delta_high[i]
        s = np.uint64(a) + np.uint64(b)
        if y < x:
            s += _ONE
        bad |= (a ^ np.int64(s)) & (b ^ np.int64(s))
        low[slot] = np.int64(y)
        high[slot] = np.int64(s)
    return int(bad)


@njit(forceinline=True, cache=True)
def _add_cascade(s: Floats, c: Floats, cc: Floats, slots: Ints, ds: Floats, dc: Floats, dcc: Floats) -> int:
    """The three-term cascade, level by level; negative if a sum left the finite range (for good)."""
    bad = 0
    for i in range(slots.size):
        slot = slots[i]
        t, error = _two_sum(s[slot], ds[i])
        u, first = _two_sum(c[slot], dc[i])
        u, second = _two_sum(u, error)
        s[slot] = t
        c[slot] = u
        cc[slot] += dcc[i] + (first + second)
        if not np.isfinite(t):
            bad = -1
    return int(bad)


@njit(cache=True)
def accumulate(
    n: Ints,
    ints: Ints,
    floats: Floats,
    kinds: Ints,
    slots: Ints,
    delta_n: Ints,
    delta_ints: Ints,
    delta_floats: Floats,
) -> int:
    """Add the deltas at `slots`, in order. Returns 0, or 1 for an overflow of n, or 2 + its component."""
    failed = 0
    if _add_checked(n, slots, delta_n) < 0:
        failed = 1
    row, float_row = 0, 0
    for component in range(kinds.size):
        if kinds[component] == 0:
            bad = _add_checked(ints[row], slots, delta_ints[row])
            row += 1
        elif kinds[component] == 1:
            bad = _add_wide(ints[row], ints[row + 1], slots, delta_ints[row], delta_ints[row + 1])
            row += 2
        else:
            f, d = float_row, delta_floats
            bad = _add_cascade(floats[f], floats[f + 1], floats[f + 2], slots, d[f], d[f + 1], d[f + 2])
            float_row += 3
        if bad < 0 and failed == 0:
            failed = 2 + component
    return failed


@njit(forceinline=True, cache=True)
def _fetch(matrix: Any, slots: Ints, top: int, out: Any) -> None:
    for j in range(matrix.shape[0]):
        row = matrix[j]
        target = out[j]
        for i in range(slots.size):
            slot = slots[i]
            target[i] = row[slot] if 0 <= slot < top else 0


@njit(cache=True)
def gather(matrix: Any, slots: Ints, top: int, out: Any) -> None:
    """out[:, i] = matrix[:, slots[i]], or zeros where `slots[i]` is no slot."""
    _fetch(matrix, slots, top, out)


@njit(cache=True)
def gather_values(
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
    top: int,
    out_n: Ints,
    out_ints: Ints,
    out_floats: Floats,
) -> None:
    """n and all components at `slots`, zeros where there is no slot."""
    for i in range(slots.size):
        slot = slots[i]
        out_n[i] = n[slot] if 0 <= slot < top else 0
    _fetch(ints, slots, top, out_ints)
    _fetch(floats, slots, top, out_floats)


@njit(cache=True)
def gather_entries(
    keys: Ints,
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
    top: int,
    out: Ints,
    out_n: Ints,
    out_ints: Ints,
    out_floats: Floats,
) -> None:
    """The words, n and all components at `slots`, zeros where there is no slot."""
    _fetch(keys, slots, top, out)
    gather_values(n, ints, floats, slots, top, out_n, out_ints, out_floats)


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
            _release(keys, table, mark, state, key, multipliers, slot)
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
            _release(keys, table, mark, state, key, multipliers, slot)


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
        slot = _probe(keys, table, key, tags[i - start], words, key, i)
        if new_n[i] == 0:
            if slot >= 0:
                _wipe(n, ints, floats, slot)
                _release(keys, table, mark, state, key, multipliers, slot)
            continue
        if slot < 0:
            at = -1 - slot
            slot = _take(mark, state)
            if slot < 0:
                return i
            table[at] = tags[i - start] | (slot + 1)
        _store(keys, slot, words, i)
        _assign(n, ints, floats, slot, new_n, new_ints, new_floats, i)
    return int(m)


# ----------------------------------------------------------------------------------------- numbers


@njit(cache=True)
def wide_to_float(high: Ints, low: Ints, out: Floats) -> None:
    """Two-word integers as doubles, rounded once, half to even."""
    zero = np.uint64(0)
    for i in range(out.size):
        h, w = np.uint64(high[i]), np.uint64(low[i])
        negative = high[i] < 0
        if negative:
            w = ~w + _ONE
            h = ~h + (_ONE if w == zero else zero)
        scale = 1.0
        if h != zero:
            # The top 64 bits, all lower ones folded into the last: the conversion rounds as if it saw them.
            shift = 0
            while (h >> np.uint64(63)) == zero:
                h = (h << _ONE) | (w >> np.uint64(63))
                w = w << _ONE
                shift += 1
            w = h | (_ONE if w != zero else zero)
            scale = 2.0 ** np.float64(64 - shift)
        x = np.float64(w) * scale
        out[i] = -x if negative else x


@njit(cache=True)
def cascade_total(floats: Floats, out: Floats) -> None:
    """The exact sum of the three terms of each column, rounded once, half to even."""
    for i in range(out.size):
        a, b, c = floats[0, i], floats[1, i], floats[2, i]
        for _ in range(3):  # three passes order any three doubles by size, without overlap
            b, c = _two_sum(b, c)
            a, b = _two_sum(a, b)
        b, c = _two_sum(b, c)
        total, rest = _two_sum(a, b)
        # b was half a unit of `total`, rounded to even: then the sign of c decides.
        if rest != 0.0 and ((rest < 0.0 and c < 0.0) or (rest > 0.0 and c > 0.0)):
            twice = rest * 2.0
            up = total + twice
            if twice == up - total:
                total = up
        out[i] = total + 0.0  # -0.0 is 0.0


# ----------------------------------------------------------------------------------------- strings


_DONE = 2  # like 1, no tag


@njit(forceinline=True, cache=True)
def _hash_bytes(start: int, size: int) -> np.int64:
    h = np.uint64(size)
    at = start
    end = start + size
    while at + 8 <= end:
        h = (h ^ ldu(at)) * _MIX
        h ^= h >> _HALF
        at += 8
    return np.int64(_finish((h ^ _tail(at, end)) * _MIX))


@njit(forceinline=True, cache=True)
def _tail(at: int, end: int) -> np.uint64:
    """Less than eight bytes as one word."""
    tail = np.uint64(0)
    while at < end:
        tail = (tail << np.uint64(8)) | np.uint64(ld8(at, 0))
        at += 1
    return tail


@njit(forceinline=True, cache=True)
def _short(begin: int, size: int) -> np.int64:
    """A number of its own for a string of less than eight bytes, which is not 0."""
    return np.int64((np.uint64(size + 1) << np.uint64(56)) | _tail(begin, begin + size))


@njit(forceinline=True, cache=True)
def _place(short: int, places: int) -> int:
    """Where a short string is remembered."""
    return int((np.uint64(short) * _MIX) >> np.uint64(40)) & (places - 1)


@njit(forceinline=True, cache=True)
def _equal_bytes(a: int, b: int, size: int) -> bool:
    """Whether as many bytes at two addresses are the same."""
    i = 0
    while i + 8 <= size:
        if ldu(a + i) != ldu(b + i):
            return False
        i += 8
    while i < size:
        if ld8(a, i) != ld8(b, i):
            return False
        i += 1
    return True


@njit(cache=True)
def intern(
    heap: Bytes,
    bounds: Ints,
    table: Ints,
    state: Ints,
    recent: Ints,
    array: int,
    columns: Ints,
    tag_mask: int,
    reached: Ints,
    out: Ints,
) -> bool:
    """The codes of the strings of columns where they lie; NULL is 0. Whether all are done.

    `array` is the address of an `ArrowArray`, `columns` has a line for each column: which child it is (-1:
    the array itself), the row of `out` that its codes go to, and whether its offsets have 64 bits. `reached`
    is where to begin: column, row; and what to go on with, with the size of the string there, if something
    is full. `state` is (the highest code, bytes of the heap, the first free code, free codes). `recent` has
    short strings and their codes, some of those that came last: most columns of short strings have few
    different ones.
    """
    top, used, free, unused = state[0], state[1], state[2], state[3]
    mask, rows, strings = table.size - 1, out.shape[1], heap.ctypes.data
    tags = np.empty(min(rows, _BLOCK), np.int64)
    for c in range(reached[0], columns.shape[0]):
        child, base = array, 0
        if columns[c, 0] >= 0:
            child, base = ld(ld(array, CHILDREN), columns[c, 0]), ld(array, OFFSET)
        base += ld(child, OFFSET)
        buffers, wide, row = ld(child, BUFFERS), columns[c, 2] != 0, columns[c, 1]
        bits = ld(buffers, 0) if ld(child, NULLS) != 0 else 0
        offsets, data = ld(buffers, 1), ld(buffers, 2)
        first = reached[1] if c == reached[0] else 0
        while first < rows:
            some = min(rows - first, _BLOCK)
            for k in range(some):
                i = base + first + k
                if bits != 0 and not (ld8(bits, i >> 3) >> (i & 7)) & 1:
                    tags[k] = 1  # which no tag is
                else:
                    begin = ld(offsets, i) if wide else ld32(offsets, i)
                    size = (ld(offsets, i + 1) if wide else ld32(offsets, i + 1)) - begin
                    if size < 8:
                        short = _short(data + begin, size)
                        at = _place(short, recent.shape[1])
                        if recent[0, at] == short:
                            out[row, first + k] = recent[1, at]
                            tags[k] = _DONE
                            continue
                    tags[k] = _hash_bytes(data + begin, size) & tag_mask
            for k in range(some):
                i, tag, code = base + first + k, tags[k], 0
                if tag == _DONE:
                    continue
                # Three dependent reads lead to a string: each is asked for some rows before the next one.
                # Not a function of its own: arrays that a branch in one reads are counted at each call.
                if k + 3 * _STEP < some:
                    _prefetch(table, (tags[k + 3 * _STEP] >> 32) & mask)
                    code = table[(tags[k + 2 * _STEP] >> 32) & mask] & _LOW
                    _prefetch(bounds, 2 * code)
                    code = table[(tags[k + _STEP] >> 32) & mask] & _LOW
                    _prefetch(heap, bounds[2 * code])
                    code = 0
                begin = ld(offsets, i) if wide else ld32(offsets, i)
                size = (ld(offsets, i + 1) if wide else ld32(offsets, i + 1)) - begin
                at = (tag >> 32) & mask
                while tag != 1:
                    cell = table[at]
                    if cell == 0:
                        if (free == 0 and 2 * top + 2 == bounds.size) or used + size > heap.size:
                            state[0], state[1], state[2], state[3] = top, used, free, unused
                            reached[0], reached[1], reached[2] = c, first + k, size
                            return False
                        for j in range(size):
                            heap[used + j] = ld8(data, begin + j)
                        if free != 0:
                            code = free
                            free = -1 - bounds[2 * code]
                            unused -= 1
                        else:
                            top += 1
                            code = top
                        bounds[2 * code] = used
                        used += size
                        bounds[2 * code + 1] = used
                        table[at] = tag | code
                        break
                    if (cell & _HIGH) == tag:
                        known = cell & _LOW
                        where = bounds[2 * known]
                        same = bounds[2 * known + 1] - where == size
                        if same and _equal_bytes(strings + where, data + begin, size):
                            code = known
                            break
                    at = (at + 1) & mask
                out[row, first + k] = code
                if tag != 1 and size < 8:
                    short = _short(data + begin, size)
                    at = _place(short, recent.shape[1])
                    recent[0, at], recent[1, at] = short, code
            first += some
    state[0], state[1], state[2], state[3] = top, used, free, unused
    return True


@njit(cache=True)
def string_offsets(bounds: Ints, codes: Ints, offsets: Ints) -> int:
    """Arrow offsets of the strings of `codes`; code 0 is empty. A code among them that is free, or 0."""
    offsets[0], free = 0, 0
    for i in range(codes.size):
        begin = bounds[2 * codes[i]]
        if begin < 0:
            free = codes[i]
        offsets[i + 1] = offsets[i] + bounds[2 * codes[i] + 1] - begin
    return free


@njit(cache=True)
def copy_strings(heap: Bytes, bounds: Ints, codes: Ints, offsets: Ints, out: Bytes) -> None:
    """The bytes of the strings of `codes`, one after the other."""
    for i in range(codes.size):
        begin, to = bounds[2 * codes[i]], offsets[i]
        for j in range(offsets[i + 1] - to):
            out[to + j] = heap[begin + j]
