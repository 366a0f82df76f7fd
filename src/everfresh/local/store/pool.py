"""Record pools: the entries of a map or a table as columns of arrays, with a unique hash index.

Implements the thesis, section 4.2.2 (record pools, free slots, unique hash indexes), batch-wise: every
operation takes arrays and runs one or two compiled loops over them (`kernels`). An entry is key words (int64
each), a count `n` and the components of a `Layout` (`components`). The *slot* of an entry does not change
while it lives: other structures may refer to it.

Invariant: between batches an entry is in the pool exactly while n != 0, and no two entries agree on the key
words. Within a batch (after `add`, before `commit` or `rollback`) entries with n = 0 stay, so that a key
which goes and comes back keeps its slot. What operations return depends on their history, not on capacity
or hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.errors import Code, EverfreshError
from everfresh.local.kernels import hashing, pool_changes, pool_values
from everfresh.local.kernels.hashing import LIVE, TOP, Floats, Ints
from everfresh.local.store.arena import AT_ONCE, enlarge, pages, reserved, touch
from everfresh.local.store.components import WORD, Layout, Values, plain_array

__all__ = ["Layout", "Located", "Pool", "Replacing", "Touched", "Values"]

_LASTING: Final = 1 << 15  # slots from which a pool that has grown grows in place
_RESERVED: Final = 1 << 24  # slots that it has address space for at first
_LARGE: Final = 1 << 17  # slots from which memory of a hash table is taken by large pages
_ASIDE: Final = 1 << 18
_MARKED: Final = 1 << 18  # entries that are looked at together
_WORTHWHILE: Final = 1 << 12  # slots from which memory that is not used is given back
_LEFT: Final = 8  # and when: if less than one in so many is in use
_SLOTS: Final = 1 << 30  # most slots of one pool: slot + 1 and twice as many table cells fit 32 bits


@dataclass(slots=True)
class Touched:
    """What one `add` changed: each slot once, in the order of first touch, with its values before."""

    slots: Ints
    old: Values
    created: NDArray[np.bool_]


@dataclass(slots=True)
class Located:
    """Where the keys of some rows are: hash, slot (-1: none), the first of these rows with the same key; and
    how many are there already or came before."""

    tags: Ints
    slots: Ints
    first: Ints
    known: int


@dataclass(slots=True)
class Replacing:
    """Entries that others come in the place of: their slots, the hashes of their keys, their words and then
    those of the others, which of them differ, and how many; -1 - i if row i, the first, has none."""

    slots: Ints
    tags: Ints
    both: Ints
    changed: NDArray[np.bool_]
    count: int


def _multipliers(count: int, mask: int) -> Ints:
    """Odd 64-bit constants, one per key word (the finaliser of SplitMix64 over 1, 2, ...)."""
    out = []
    for i in range(1, count + 1):
        z = i * 0x9E3779B97F4A7C15 & WORD
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
        out.append(((z ^ z >> 31) | 1) & mask)
    return np.array(out, dtype=np.uint64).view(np.int64)


class Pool:
    """Entries of `words` int64 words with a count and components, unique by the words at positions `key`.

    Words outside the key (a table's other columns) are stored when the entry is created. A pool of zero words
    holds at most one entry. `_multiplier_mask` = 0 makes all keys collide, for tests.

    >>> pool = Pool(1, Layout((Kind.COUNT,)))
    >>> delta = Values(np.array([1, 1, 1]), np.array([[10, 20, 5]]), np.empty((0, 3)))
    >>> pool.commit(pool.add(np.array([[7, 8, 7]]), delta))
    >>> pool.keys_at(pool.live()).tolist(), pool.gather(pool.live()).ints.tolist()
    ([[7, 8]], [[15, 20]])
    """

    def __init__(
        self,
        words: int,
        layout: Layout,
        key: tuple[int, ...] | None = None,
        capacity: int = 16,
        *,
        _multiplier_mask: int = WORD,
    ) -> None:
        key = tuple(range(words)) if key is None else tuple(key)
        if len(set(key)) != len(key) or not all(0 <= i < words for i in key):
            raise ValueError(f"{key} are not distinct positions among {words} words")
        self.words, self.layout, self.key = words, layout, key
        self._initial = 1 << max(capacity - 1, 1).bit_length()
        self._mask = _multiplier_mask
        self._key = np.array(key, dtype=np.int64)
        self._rows = np.arange(len(key), dtype=np.int64)
        self._kinds = np.array(layout.kinds, dtype=np.int64)
        self._multipliers = _multipliers(len(key), _multiplier_mask)
        self.watch: Callable[[int], None] | None = None
        """Told of how many entries there is room for when there is more."""
        self.clear()

    def clear(self) -> None:
        """Remove all entries and give their memory back."""
        self._allocate(self._initial, np.zeros)
        self._state = np.array([0, -1, 0], dtype=np.int64)
        self._came = 0  # entries that the last batch made: the next one may do the same

    def _allocate(self, room: int, zeros: Callable[[Any, Any], NDArray[Any] | None]) -> bool:
        """Empty arrays of `room` slots, whose memory is taken as slots are used; whether there were some."""
        shapes = self.words, self.layout.int_rows, self.layout.float_rows
        kinds = np.int64, np.int64, np.float64
        keys, ints, floats = (
            zeros((rows, room), kind) if rows else np.zeros((0, room), kind)
            for rows, kind in zip(shapes, kinds, strict=True)
        )
        n, mark = zeros((room,), np.int64), zeros((room,), np.int32)
        table = zeros((2 << (room.bit_length() - 1),), np.int64)
        if keys is None or ints is None or floats is None or n is None or mark is None or table is None:
            return False
        self._keys, self._values, self._full = keys, Values(n, ints, floats), (n, mark, table)
        self._mark, self._table = mark, table
        self._touched = room
        return True

    def _sized(self, capacity: int) -> None:
        """Let entries take this many slots of the room."""
        n, mark, table = self._full
        self._values.n, self._mark, self._table = n[:capacity], mark[:capacity], table[: 2 * capacity]
        if capacity >= _LARGE:  # not before: a page of a small table would be mostly empty
            enlarge(table)

    def _move(self, capacity: int) -> None:
        """To other arrays of `capacity` slots, or of room for many more.

        The room is a little over a power of two: the words of a slot would share lines of the cache
        otherwise, and all of them would come to a new page at once.
        """
        top = int(self._state[TOP])
        keys, values, mark, table = self._keys, self._values, self._mark, self._table
        room = _RESERVED if capacity <= _RESERVED else _SLOTS
        aside = 8 * (_ASIDE // 8 // max(self.words, 2) | 1)
        if capacity >= _LASTING and self._allocate(room + aside, reserved):
            self._sized(capacity)
            self._touched = 0
        else:
            self._allocate(capacity, np.zeros)
        self._keys[:, :top] = keys[:, :top]
        self._mark[:top] = mark[:top]
        for new, old in zip(self._cells, (values.n, values.ints, values.floats), strict=True):
            new[..., :top] = old[..., :top]
        hashing.rehash(table, self._table)

    @property
    def _index(self) -> tuple[Any, ...]:
        """What kernels that change entries take first."""
        return self._keys, self._table, self._mark, self._state, self._key, self._multipliers

    @property
    def _cells(self) -> tuple[Ints, Ints, Floats]:
        return self._values.n, self._values.ints, self._values.floats

    # ---------------------------------------------------------------------------------------- size

    def __len__(self) -> int:
        return int(self._state[LIVE])

    @property
    def capacity(self) -> int:
        """Slots that fit before the arrays grow."""
        return len(self._mark)

    @property
    def top(self) -> int:
        """The slots that have been in use are below this."""
        return int(self._state[TOP])

    @property
    def stride(self) -> int:
        """How far the rows of the matrices are apart: at least the capacity."""
        return int(self._keys.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, unused capacity included, but not what is only reserved."""
        room, top = len(self._full[1]), max(int(self._state[TOP]), self._touched)
        arrays = (self._keys, self._values.ints, self._values.floats, *self._full[:2])
        if room == self.capacity:
            return self._table.nbytes + sum(x.nbytes for x in arrays)
        return self._table.nbytes + sum(x.size // room * pages(top * x.itemsize) for x in arrays)

    def reserve(self, entries: int) -> None:
        """Make room for `entries` further entries."""
        need = len(self) + entries
        if need > self.capacity:
            self._grow(need)

    def _touch(self, entries: int) -> None:
        """Take memory for so many further entries, if that comes as it is written."""
        end = min(int(self._state[TOP]) + entries, self.capacity)
        if end > self._touched:
            end = min(-(-end // AT_ONCE) * AT_ONCE, self.capacity)
            for array in (self._keys, self._values.ints, self._values.floats, *self._full[:2]):
                touch(array, self._touched, end)
            self._touched = end

    def _grow(self, need: int) -> None:
        capacity = 1 << (need - 1).bit_length()
        if capacity > _SLOTS:
            raise MemoryError(f"a pool holds at most {_SLOTS} entries")
        if self.watch is not None:
            self.watch(need)
        if capacity > len(self._full[1]):
            self._move(capacity)
            return
        size = len(self._table)
        while self.capacity < capacity:
            self._sized(2 * self.capacity)
            hashing.spread(self._table, size)
            size *= 2

    def _grow_for(self, done: int, created: int, rows: int) -> None:
        """Full after `done` of `rows` rows: grow for the rest, if it creates entries at the rate seen so far.

        At most eightfold, since the first rows of a batch say little: a wrong guess then costs little memory.
        """
        expected = len(self) + (rows - done) * created // max(done, 1)
        self._grow(min(max(expected, 2 * self.capacity), 8 * self.capacity))

    # ------------------------------------------------------------------------------------- reading

    def find(self, words: Ints) -> Ints:
        """The slots of the entries with the key words `words[len(key), m]`; -1 where there is none."""
        words = self._words(words, len(self.key))
        out = np.empty(words.shape[1], np.int64)
        hashing.find(self._keys, self._table, self._key, words, self._rows, self._multipliers, out)
        return out

    def gather(self, slots: Ints) -> Values:
        """The values at `slots`; zeros where the slot is -1."""
        slots = plain_array(slots, np.int64)
        out = Values.empty(self.layout, len(slots))
        pool_values.gather_values(*self._cells, slots, self._state[TOP], out.n, out.ints, out.floats)
        return out

    def keys_at(self, slots: Ints) -> Ints:
        """All words of the entries at `slots`, as `[words, m]`; zeros where the slot is -1."""
        slots = plain_array(slots, np.int64)
        out = np.empty((self.words, len(slots)), np.int64)
        pool_values.gather(self._keys, slots, self._state[TOP], out)
        return out

    def entries_at(self, slots: Ints) -> tuple[Ints, Values]:
        """Both: all words and the values at `slots`."""
        slots = plain_array(slots, np.int64)
        words, out = np.empty((self.words, len(slots)), np.int64), Values.empty(self.layout, len(slots))
        top = self._state[TOP]
        pool_values.gather_entries(self._keys, *self._cells, slots, top, words, out.n, out.ints, out.floats)
        return words, out

    def is_last(self, touched: Touched) -> bool:
        """Whether nothing has changed the entries of a change since: then the mark of each slot points to
        where the change has its values before."""
        marks = self._mark[touched.slots]
        return np.array_equal(marks, np.arange(len(marks)))

    def live(self) -> Ints:
        """The slots of all entries, increasing."""
        return np.flatnonzero(self._mark[: self._state[TOP]] >= 0)

    def words_of(self, row: int) -> Ints:
        """One word of every slot. Whoever writes to one of the key has lost it."""
        out: Ints = self._keys[row]
        return out

    def words_at(self, rows: Sequence[int], slots: Ints) -> tuple[Ints, ...]:
        """Some words of the entries at `slots`, which are all live."""
        return tuple(self._keys[row][slots] for row in rows)

    def component_at(self, index: int, slots: Ints) -> tuple[NDArray[Any], ...]:
        """The arrays of one component (one to three, by its kind) at `slots`, which are live; -1 is n."""
        if index < 0:
            return (self._values.n[slots],)
        kind, at = self.layout.kinds[index], self.layout.offsets[index]
        matrix = self._values.floats if kind == Kind.FLOAT else self._values.ints
        return tuple(matrix[at + i][slots] for i in range((1, 2, 3)[kind]))

    def mark(self, rows: Sequence[int], marks: NDArray[np.bool_]) -> None:
        """Set those of `marks` whose numbers stand in some words of the entries."""
        top = int(self._state[TOP])
        for start in range(0, top, _MARKED) if rows else ():
            some = slice(start, min(start + _MARKED, top))
            live = slice(None) if len(self) == top else self._mark[some] >= 0
            for row in rows:
                marks[self._keys[row, some][live]] = True

    # -------------------------------------------------------------------------------------- memory

    @property
    def wasteful(self) -> bool:
        """Whether it has room for many more entries than are left."""
        return self.capacity >= _WORTHWHILE and len(self) * _LEFT < self.capacity

    def copy(self, change: Callable[[Ints], None] = lambda words: None) -> Pool:
        """The same entries, after `change` of their words, in no more memory than they take; each has another
        slot."""
        words, values = self.entries_at(self.live())
        change(words)
        out = Pool(self.words, self.layout, self.key, self._initial, _multiplier_mask=self._mask)
        out.reserve(len(self))
        out.put(words, values)
        return out

    def become(self, other: Pool) -> None:
        """Take the entries of another, who is not used any more: at one go. Slots are those of the other."""
        self.__dict__.update(other.__dict__)

    # ------------------------------------------------------------------------------------- indexes

    @property
    def counts(self) -> Ints:
        """n of every slot. Whoever writes to it calls `sweep` for those that come to 0."""
        return self._values.n

    def enter(self, words: Ints) -> Ints:
        """The slots of the entries with these words; absent ones are created with n = 0."""
        return self._resolve(self._words(words, self.words))[0]

    def enter_from(self, other: Pool, slots: Ints, rows: Ints, nulls: Ints) -> Ints:
        """`enter` for words that `other` has at `slots`, chosen by `rows` and `nulls` (see the kernel)."""
        m, reached, before = len(slots), 0, len(self)
        of = np.empty(m, np.int64)
        while True:
            reached = pool_changes.enter_from(*self._index, other._keys, slots, reached, rows, nulls, of)
            if reached == m:
                return of
            self._grow_for(reached, len(self) - before, m)

    def sweep(self, slots: Ints) -> None:
        """Remove those of `slots` that have n = 0."""
        pool_changes.drop_empty(*self._index, *self._cells, plain_array(slots, np.int64))

    # ---------------------------------------------------------------------------------------- maps

    def add(self, words: Ints, delta: Values) -> Touched:
        """Add `delta` to the entries of the columns of `words`, row by row; absent ones start from zero.

        Each `add` is followed by `commit` or `rollback`; of several, all are committed or, last first, all
        rolled back. An overflow leaves the pool as it was and raises.
        """
        words = self._words(words, self.words)
        delta = self._delta(delta, words.shape[1])
        slots, touched, created = self._resolve(words)
        old = self.gather(touched)
        failed = pool_values.accumulate(*self._cells, self._kinds, slots, delta.n, delta.ints, delta.floats)
        out = Touched(touched, old, created)
        if failed:
            self.rollback(out)
            what = "a count" if failed == 1 else f"the sum in component {failed - 2}"
            raise EverfreshError(Code.OVERFLOW, f"{what} is out of range")
        return out

    def rollback(self, touched: Touched) -> None:
        """Undo an `add`: values, entries and the slots that come next are as before it."""
        old = touched.old
        pool_changes.undo(
            *self._index, *self._cells, touched.slots, touched.created, old.n, old.ints, old.floats
        )

    def commit(self, touched: Touched) -> None:
        """Finish an `add`: entries that have come to n = 0 go, whatever their components are."""
        pool_changes.drop_empty(*self._index, *self._cells, touched.slots)

    def put(self, words: Ints, values: Values) -> None:
        """Set the entries of the columns of `words` to `values`, in order, creating them; n = 0 removes."""
        words = self._words(words, self.words)
        values = self._delta(values, words.shape[1])
        m, reached, before = words.shape[1], 0, len(self)
        while True:
            reached = pool_changes.put(
                *self._index, *self._cells, words, reached, values.n, values.ints, values.floats
            )
            if reached == m:
                return
            self._grow_for(reached, len(self) - before, m)

    # -------------------------------------------------------------------------------------- tables

    def insert(self, words: Ints, n: Ints) -> Ints:
        """Create entries with counts `n` and zero components; their slots.

        `ValueError`, and no change, if a key is there already or comes twice. `remove`, then `insert` of the
        same words in reverse order, gives every entry its slot back.
        """
        words, n = self._words(words, self.words), plain_array(n, np.int64)
        m = words.shape[1]
        if n.shape != (m,) or not n.all():
            raise ValueError(f"{m} rows need {m} counts other than 0")
        slots, touched, created = self._resolve(words)
        if len(touched) < m or not created.all():
            self.rollback(Touched(touched, self.gather(touched), created))
            raise ValueError("the keys to insert are not absent and distinct")
        self._values.n[slots] = n
        return slots

    def locate(self, words: Ints) -> Located:
        """Where the keys of some full rows are, here and among these rows."""
        words = self._words(words, self.words)
        m = words.shape[1]
        tags, slots, first = np.empty((3, m), np.int64)
        known = hashing.locate(
            self._keys, self._table, self._key, words, self._multipliers, tags, slots, first
        )
        return Located(tags, slots, first, known)

    def tags(self, words: Ints) -> Ints:
        """The hashes of the keys of some full rows."""
        out: Ints = hashing.tags_of(self._words(words, self.words), self._key, self._multipliers, 0)
        return out

    def judge(self, words: Ints, weights: Ints, at: Located) -> NDArray[np.bool_] | None:
        """Which rows of a batch change something, for a pool of entries that are there once; None where the
        batch is refused, or takes more to decide (`pool_changes.judge`)."""
        keep = np.empty(words.shape[1], np.bool_)
        ok = pool_changes.judge(
            self._keys,
            self._words(words, self.words),
            plain_array(weights, np.int64),
            at.slots,
            at.first,
            keep,
        )
        return keep if ok else None

    def replacing(self, given: Ints, at: Ints, lines: Ints, nulls: Ints) -> Replacing:
        """Rows of which some words are given, those of the key at `at`, put over the entries with their keys
        (`pool_changes.replacing`)."""
        m = given.shape[1]
        slots, tags = np.empty((2, m), np.int64)
        both, changed = np.empty((self.words, 2 * m), np.int64), np.empty(m, np.bool_)
        count = pool_changes.replacing(
            self._keys, self._table, self._key, self._multipliers,
            plain_array(given, np.int64), at, lines, nulls, slots, tags, both, changed,
        )  # fmt: skip
        return Replacing(slots, tags, both, changed, count)

    def insert_new(self, words: Ints, tags: Ints, start: int = 0) -> Ints:
        """`insert`, each once, of columns `start`.. , whose keys `locate` found absent and distinct."""
        words = self._words(words, self.words)
        slots = np.empty(words.shape[1] - start, np.int64)
        self.reserve(len(slots))
        self._touch(len(slots))
        pool_changes.insert_new(
            self._keys, self._table, self._mark, self._state, self._values.n, tags, words, start, slots
        )
        return slots

    def remove(self, slots: Ints) -> None:
        """Remove the entries at `slots`; `ValueError`, and no change, if one is not live or comes twice."""
        slots = plain_array(slots, np.int64)
        if not pool_changes.remove(*self._index, *self._cells, slots):
            raise ValueError("the slots to remove are not live and distinct")

    # ----------------------------------------------------------------------------------- snapshots

    def to_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """The whole pool as arrays, copied; names start with `prefix`."""
        return {name: array.copy() for name, array in self.as_arrays(prefix).items()}

    def as_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """The same as views: good until the pool changes."""
        top = int(self._state[TOP])
        n, ints, floats = self._cells
        shape = [self.words, self.capacity, self._initial]
        return {
            f"{prefix}shape": np.array(shape, dtype=np.int64),
            f"{prefix}mask": np.array([self._mask], dtype=np.uint64),
            f"{prefix}kinds": self._kinds,
            f"{prefix}key": self._key,
            f"{prefix}state": self._state,
            f"{prefix}keys": self._keys[:, :top],
            f"{prefix}mark": self._mark[:top],
            f"{prefix}n": n[:top],
            f"{prefix}ints": ints[:, :top],
            f"{prefix}floats": floats[:, :top],
            f"{prefix}table": self._table,
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Pool:
        """The pool that `to_arrays` wrote, in its own memory: the arrays may be read-only and mapped."""
        words, capacity, initial = (int(x) for x in arrays[f"{prefix}shape"])
        layout = Layout(tuple(Kind(k) for k in arrays[f"{prefix}kinds"].tolist()))
        key = tuple(arrays[f"{prefix}key"].tolist())
        pool = Pool(words, layout, key, initial, _multiplier_mask=int(arrays[f"{prefix}mask"][0]))
        pool._state = np.array([0, -1, 0], dtype=np.int64)
        pool._move(capacity)
        pool._state = np.array(arrays[f"{prefix}state"])
        pool._table[:] = arrays[f"{prefix}table"]
        top = int(pool._state[TOP])
        pool._keys[:, :top] = arrays[f"{prefix}keys"]
        pool._mark[:top] = arrays[f"{prefix}mark"]
        for name, target in zip(("n", "ints", "floats"), pool._cells, strict=True):
            target[..., :top] = arrays[f"{prefix}{name}"]
        return pool

    # -------------------------------------------------------------------------------------- inside

    def _words(self, words: Ints, rows: int) -> Ints:
        words = plain_array(words, np.int64)
        if words.ndim != 2 or len(words) != rows:
            raise ValueError(f"expected {rows} rows of words, not shape {words.shape}")
        return words

    def _delta(self, values: Values, m: int) -> Values:
        n, ints, floats = (
            plain_array(values.n, np.int64),
            plain_array(values.ints, np.int64),
            plain_array(values.floats, np.float64),
        )
        rows = self.layout.int_rows, self.layout.float_rows
        if n.shape != (m,) or ints.shape != (rows[0], m) or floats.shape != (rows[1], m):
            raise ValueError(f"values of shapes {n.shape}, {ints.shape}, {floats.shape} do not fit {m} rows")
        return Values(n, ints, floats)

    def _resolve(self, words: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """The slot of each column, created where absent; the distinct ones; and which of these are new."""
        m = words.shape[1]
        slots, touched = np.empty(m, np.int64), np.empty(m, np.int64)
        created = np.empty(m, np.bool_)
        reached = count = 0
        before = len(self)
        self._touch(min(m, self._came))
        while True:
            reached, count = pool_changes.resolve(
                *self._index, words, reached, count, slots, touched, created
            )
            if reached == m:
                self._came = len(self) - before
                return slots, touched[:count], created[:count]
            self._grow_for(reached, len(self) - before, m)
