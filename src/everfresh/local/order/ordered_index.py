"""Ordered indexes: the entries of a map in key order, with prefix sums.

Blocked sorted arrays (`kernels.ordered_blocks`) with a Fenwick tree over the sums of the blocks: an entry is
a key of int64 words, compared word by word, a *slot* (the entry of the pool that it stands for) and the
integer components of a `Layout`. Everything is answered through *ranks*, the number of an entry in key order:
`rank` turns keys or prefixes of keys into ranks, `slots_at`, `between` and `sums_before` read there, and
`find` is the rank where a running sum passes a value. Keys are unique: equal values are told apart by further
words.

Invariant: after every operation the index holds exactly the keys entered and not removed since; memory
follows the number of entries, down as well as up. What is answered does not depend on the block size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.local.kernels import ordered_changes, ordered_questions
from everfresh.local.kernels.ordered_blocks import BLOCKS, ENTRIES, Ints
from everfresh.local.store.components import wide_from_python
from everfresh.local.store.pool import Layout

_BLOCK: Final = 256
ENTER, ADD, REMOVE, PUT = 1, 0, -1, 2


class OrderedIndex:
    """Entries of `words` key words in order, with the sums of `layout` (COUNT and WIDE components).

    Sums are given and returned as a pool holds them: one row for a COUNT, high and low for a WIDE.

    >>> index = OrderedIndex(2, Layout((Kind.COUNT,)))
    >>> index.insert(np.array([[1, 1, 2], [30, 10, 20]]), np.array([7, 8, 9]), np.array([[5, 1, 2]])).tolist()
    [-1, -1, -1]
    >>> index.first(np.array([[1, 2, 3]])).tolist(), index.slots().tolist()
    ([8, 9, -1], [8, 7, 9])
    >>> index.prefix(np.array([[1], [30]]), after=True).tolist(), index.find(0, [4, 8]).tolist()
    ([[6]], [1, 2])
    """

    def __init__(self, words: int, layout: Layout | None = None, block: int = _BLOCK) -> None:
        layout = layout or Layout()
        if words < 1 or block < 4:
            raise ValueError("an ordered index has at least one key word and blocks of at least 4 entries")
        if Kind.FLOAT in layout.kinds:
            raise ValueError("doubles are not summed in an ordered index: their sums are not monotone")
        self.words, self.layout, self.block = words, layout, block
        high = [False]
        for kind in layout.kinds:
            high += [True, False] if kind == Kind.WIDE else [False]
        self._high = np.array(high)
        self.clear()

    def clear(self) -> None:
        """Remove all entries and give their memory back."""
        self._state = np.zeros(2 + len(self._high), np.int64)
        self._allocate(1)

    def _allocate(self, blocks: int) -> None:
        """Empty arrays of `blocks` blocks: memory is taken as blocks are used."""
        rows = len(self._high)
        self._data = np.zeros((blocks, self.words + rows, self.block), np.int64)
        self._totals = np.zeros((blocks, rows), np.int64)
        self._order = np.arange(blocks)
        self._tops = np.zeros((blocks, self.words), np.int64)
        self._tree = np.zeros((blocks + 1, rows), np.int64)

    @property
    def _arrays(self) -> tuple[Any, ...]:
        """What most kernels take first."""
        return (
            *(self._data, self._totals, self._order, self._tops, self._tree),
            *(self._high, self._state),
        )

    # ---------------------------------------------------------------------------------------- size

    def __len__(self) -> int:
        return int(self._state[ENTRIES])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, unused capacity included."""
        return sum(array.nbytes for array in self._arrays)

    def _grow(self, blocks: int) -> None:
        old = self._data, self._totals, self._order, self._tops, self._tree
        self._allocate(blocks)
        for new, before in zip(self._arrays, old, strict=False):
            new[: len(before)] = before

    def _shrink(self) -> None:
        """Give memory back when less than a quarter of the blocks is used."""
        if 4 * self._state[BLOCKS] < len(self._order) and len(self._order) > 4:
            self._fill(self._entries())

    def _entries(self) -> Ints:
        """All entries in order: key words, slots, sums."""
        out = np.empty((self._data.shape[1], len(self)), np.int64)
        ordered_changes.export(self._data, self._totals, self._order, self._state[BLOCKS], out)
        return out

    def _fill(self, entries: Ints) -> None:
        """Hold these sorted entries and no others, in blocks three quarters full."""
        fill = self.block * 3 // 4
        self._state[:] = 0
        self._allocate(max(1, -(-entries.shape[1] // fill) * 5 // 4))
        ordered_changes.build(*self._arrays, np.ascontiguousarray(entries), fill)

    # -------------------------------------------------------------------------------------- change

    def insert(self, keys: Ints, slots: Ints, sums: Ints | None = None) -> Ints:
        """Enter keys `[words, m]`, in order; -1, or the slot that a key has: such a one stays as it is."""
        keys, slots = self._keys(keys, self.words), _array(slots)
        m = keys.shape[1]
        sums = self._sums(sums, m)
        if m <= max(len(self), self.block):
            return self.apply(np.full(m, ENTER), keys, slots, sums)
        n, rows = len(self), np.concatenate([keys, self._slots(slots, m), sums])
        rows = np.concatenate([self._entries(), rows], axis=1)
        order = sort_order(rows[: self.words])
        new = _run_starts(rows[: self.words, order])
        self._fill(rows[:, order[new]])
        out = np.full(n + m, -1)
        if not new.all():
            owner = order[np.flatnonzero(new)[np.cumsum(new) - 1]]
            out[order[~new]] = rows[self.words, owner[~new]]
        return out[n:]

    def build(self, keys: Ints, slots: Ints, sums: Ints | None = None) -> None:
        """Hold exactly these entries, given in any order; `ValueError` if two have the same key."""
        keys, slots = self._keys(keys, self.words), _array(slots)
        m = keys.shape[1]
        order = sort_order(keys)
        if not _run_starts(keys[:, order]).all():
            raise ValueError("two entries have the same key")
        self._fill(np.concatenate([keys, self._slots(slots, m), self._sums(sums, m)])[:, order])

    def remove(self, keys: Ints) -> Ints:
        """Remove keys; the slot of each, or -1 where it is not there."""
        m = np.shape(keys)[-1]
        return self.apply(np.full(m, REMOVE), keys, np.zeros(m, np.int64))

    def take_out(self, slots: Ints, stored: Ints, inside: NDArray[np.bool_]) -> None:
        """Remove those of `slots` that are `inside`, and are not from now on: the key of a slot is its column
        of `stored`, and the slot."""
        ordered_changes.take_out(*self._arrays, stored, inside, _array(slots))
        self._shrink()

    def add(self, keys: Ints, sums: Ints) -> Ints:
        """Add to the sums of keys; the slot of each, or -1 where it is not there and nothing is added."""
        m = np.shape(keys)[-1]
        return self.apply(np.full(m, ADD), keys, np.zeros(m, np.int64), sums)

    def put(self, keys: Ints, slots: Ints, sums: Ints | None = None) -> None:
        """Enter keys, each once, or give those that are there, with these slots, these sums."""
        keys, slots = self._keys(keys, self.words), _array(slots)
        m = keys.shape[1]
        sums = self._sums(sums, m)
        if m <= max(len(self) // 4, self.block):
            self.apply(np.full(m, PUT), keys, slots, sums)
            return
        rows = np.concatenate([keys, self._slots(slots, m), sums])
        if len(self):
            rows = np.concatenate([rows, self._entries()], axis=1)
        order = sort_order(rows[: self.words])
        self._fill(rows[:, order[_run_starts(rows[: self.words, order])]])

    def apply(self, ops: Ints, keys: Ints, slots: Ints, sums: Ints | None = None) -> Ints:
        """Operations in order, ENTER, ADD, REMOVE or PUT each; the slot that each key had before, or -1."""
        ops, keys, slots = _array(ops), self._keys(keys, self.words), _array(slots)
        m = keys.shape[1]
        sums = self._sums(sums, m)
        if ops.shape != (m,) or slots.shape != (m,):
            raise ValueError(f"{m} keys need {m} operations and slots")
        out = np.empty(m, np.int64)
        reached = 0
        while True:
            reached = ordered_changes.apply(*self._arrays, ops, keys, slots, sums, reached, out)
            if reached == m:
                break
            self._grow(2 * len(self._order))
        self._shrink()
        return out

    # --------------------------------------------------------------------------------------- ranks

    def rank(self, keys: Ints, after: bool = False) -> Ints:
        """How many entries sort before each of `keys[p, m]` by p words; `after`: or agree with it."""
        keys = self._keys(keys)
        out = np.empty(keys.shape[1], np.int64)
        ordered_questions.rank(*self._arrays, keys, after, out)
        return out

    def span(self, prefixes: Ints) -> tuple[Ints, Ints]:
        """First rank, and the one behind the last, of the entries that start with each prefix."""
        return self.rank(prefixes), self.rank(prefixes, after=True)

    def range(
        self, low: Ints, high: Ints, low_open: bool = False, high_open: bool = False
    ) -> tuple[Ints, Ints]:
        """The ranks `(starts, stops)` between bounds, column by column: keys or prefixes of keys each.

        A closed bound takes in what agrees with it, an open one does not. The number of entries in a range
        is `stops - starts`, never negative; entries of a group lie between bounds that start with it.
        """
        starts, stops = self.rank(low, after=low_open), self.rank(high, after=not high_open)
        return starts, np.maximum(starts, stops)

    def find(
        self, component: int, values: Sequence[int] | Ints, strict: bool = False, start: Any = 0
    ) -> Ints:
        """The first rank, from `start` on, where the sum of a component from there on passes each value.

        Passing is to reach the value, or (strict) to exceed it, with the entry itself included; `len(self)`
        where no entry passes. Logarithmic while no entry is negative in the component, else a walk.
        """
        wide = self.layout.kinds[component] == Kind.WIDE
        high, low = wide_from_python([int(v) for v in values])
        out = np.empty(len(low), np.int64)
        starts = _array(np.broadcast_to(np.asarray(start, np.int64), out.shape))
        row = 1 + self.layout.offsets[component]
        ordered_questions.find(*self._arrays, row, wide, high, low, strict, starts, out)
        return out

    # ------------------------------------------------------------------------------------- reading

    def slots_at(self, ranks: Ints) -> Ints:
        """The slots of the entries of these ranks; -1 where there is none."""
        out = np.empty(len(ranks), np.int64)
        ordered_questions.rows_at(*self._arrays, _array(ranks), self.words, out[None])
        return out

    def keys_at(self, ranks: Ints) -> Ints:
        """The key words of the entries of these ranks, `[words, m]`; -1 throughout where there is none."""
        out = np.empty((self.words, len(ranks)), np.int64)
        ordered_questions.rows_at(*self._arrays, _array(ranks), 0, out)
        return out

    def first(self, prefixes: Ints) -> Ints:
        """The slot of the first entry that starts with each prefix, or -1."""
        return self.nth(prefixes, 0)

    def last(self, prefixes: Ints) -> Ints:
        """The slot of the last entry that starts with each prefix, or -1."""
        return self.nth(prefixes, -1)

    def nth(self, prefixes: Ints, k: int) -> Ints:
        """The slot of the k-th entry that starts with each prefix, from the end if k < 0; or -1."""
        starts, stops = self.span(prefixes)
        ranks = starts + k if k >= 0 else stops + k
        return self.slots_at(np.where((starts <= ranks) & (ranks < stops), ranks, -1))

    def between(self, starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
        """The entries of ranges of ranks, in order: pairs of the number of the range and slot."""
        starts = np.clip(_array(starts), 0, len(self))
        stops = np.clip(_array(stops), 0, len(self))
        total = int(np.maximum(stops - starts, 0).sum())
        at, out = np.empty(total, np.int64), np.empty(total, np.int64)
        ordered_questions.walk(*self._arrays, starts, stops, at, out)
        return at, out

    def slots(self, prefix: Sequence[int] = (), k: int | None = None, descending: bool = False) -> Ints:
        """The slots of the entries that start with a prefix, in order: all, or the first k."""
        lows, highs = np.array([0]), np.array([len(self)])
        if len(prefix):
            lows, highs = self.span(np.array([prefix], np.int64).T)
        if k is not None:
            k = max(k, 0)
            lows, highs = (
                (np.maximum(lows, highs - k), highs) if descending else (lows, np.minimum(highs, lows + k))
            )
        slots = self.between(lows, highs)[1]
        return slots[::-1] if descending else slots

    # ---------------------------------------------------------------------------------------- sums

    def prefix(self, keys: Ints, after: bool = False) -> Ints:
        """The sums `[rows, m]` over the entries before each key or prefix; `after`: or that agree with it."""
        keys = self._keys(keys)
        out = np.empty((keys.shape[1], len(self._high)), np.int64)
        ordered_questions.prefix(*self._arrays, keys, after, out)
        return out.T[1:]

    def sums_before(self, ranks: Ints) -> Ints:
        """The sums `[rows, m]` over the first entries, `ranks[i]` of them."""
        out = np.empty((len(ranks), len(self._high)), np.int64)
        ordered_questions.sums_before(*self._arrays, _array(ranks), out)
        return out.T[1:]

    def sums_between(self, starts: Ints, stops: Ints) -> Ints:
        """The sums over ranges of ranks, where stops are not less than starts."""
        below, above = self.sums_before(starts), self.sums_before(stops)
        out = above - below
        for row in np.flatnonzero(self._high[1:]):
            low = above[row + 1].view(np.uint64), below[row + 1].view(np.uint64)
            out[row] -= low[0] < low[1]
        return out

    def grows(self, component: int) -> bool:
        """Whether no entry is negative in a component."""
        return bool(self._state[2 + 1 + self.layout.offsets[component]] == 0)

    def total(self) -> Ints:
        """The sums `[rows]` over all entries."""
        return self.sums_before(np.array([len(self)]))[:, 0]

    # -------------------------------------------------------------------------------------- inside

    def _keys(self, keys: Ints, rows: int | None = None) -> Ints:
        keys = _array(keys)
        if keys.ndim != 2 or (len(keys) != rows if rows is not None else len(keys) > self.words):
            raise ValueError(
                f"expected {self.words if rows is None else rows} key words, not shape {keys.shape}"
            )
        return keys

    def _sums(self, sums: Ints | None, m: int) -> Ints:
        sums = np.zeros((self.layout.int_rows, m), np.int64) if sums is None else _array(sums)
        if sums.shape != (self.layout.int_rows, m):
            raise ValueError(f"sums of shape {sums.shape} do not fit {m} keys")
        return sums

    @staticmethod
    def _slots(slots: Ints, m: int) -> Ints:
        if slots.shape != (m,):
            raise ValueError(f"{m} keys need {m} slots")
        return slots[None]


def sort_order(keys: Ints) -> Ints:
    """The stable order of columns by their words.

    >>> sort_order(np.array([[1, 1, 0], [5, 4, 9]])).tolist()
    [2, 1, 0]
    """
    varying = [row for row in keys if (row != row[:1]).any()]
    if len(varying) <= 1:
        return np.argsort(varying[0] if varying else np.zeros(keys.shape[1]), kind="stable")
    return np.lexsort(varying[::-1])


def _run_starts(keys: Ints) -> NDArray[np.bool_]:
    """Which columns of sorted keys differ from the one before."""
    out = np.ones(keys.shape[1], np.bool_)
    out[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return out


def _array(x: Any) -> Ints:
    """`x` as the one array type that kernels are compiled for."""
    array: Ints = np.ascontiguousarray(x, np.int64)
    return array if array.flags.writeable else array.copy()
