"""What stands behind a relation atom or a map read in a statement: entries that are found by some columns.

`Stored` entries lie in words: the rows of a change, a table, a map, an aggregated part of the statement.
They are found through the pool's own index where the bound columns contain its key, else through slices that
are built at the first use. Relations that are computed from maps are in `reading`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.calculus import Rel
from everfresh.local.interpret.frame_columns import Cells, assemble, column_cells, same
from everfresh.local.interpret.weights import Number, from_words
from everfresh.local.phases import UNTIMED, Untimed
from everfresh.local.store.codec import Codec
from everfresh.local.store.pool import Pool
from everfresh.local.store.slices import Slice, every_pair
from everfresh.local.store.strings import Alive
from everfresh.local.store.table import Net, Table, TableUndo
from everfresh.state.interrupts import HeldBack
from everfresh.types import Column

Ints = NDArray[np.int64]
_TOGETHER = 1024
"""Rows of a table that wait at most before they enter its slices."""


@dataclass(slots=True)
class Found:
    """The entries that agree with the rows of a frame: `at[i]` is the row of the frame that entry i goes
    with."""

    at: Ints
    columns: dict[int, Cells]
    weight: tuple[Number, ...]
    """One number for the count and all values alike, or one for each."""
    visited: int


class Atom(Protocol):
    """What a relation atom or a map read offers."""

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int]) -> Found:
        """The entries that agree with the bound columns on each of `rows` rows, with the columns `want`."""


class Indexed:
    """Slices over entries with slots, built at the first use and then kept."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.columns = codec.columns
        self._slices: dict[tuple[str, ...], Slice] = {}
        self._codecs: dict[tuple[str, ...], Codec] = {}

    def slots(self) -> Ints:
        """All slots in use."""
        raise NotImplementedError

    def words(self, slots: Ints) -> Ints:
        """All words of some slots."""
        raise NotImplementedError

    def words_of(self, column: Column, slots: Ints) -> dict[int, Ints]:
        """The words that one column takes, by place."""
        raise NotImplementedError

    def find(self, names: tuple[str, ...], words: Ints) -> Ints | None:
        """The one slot for each column of `words`, -1 for none; None if these columns are no key."""
        return None

    @property
    def slice_bytes(self) -> int:
        """Bytes of the slices."""
        return sum(slice_.nbytes for slice_ in self._slices.values())

    def clear(self) -> None:
        """Forget the slices."""
        self._slices.clear()

    def mark(self, alive: Alive) -> None:
        """Say which strings are used: see `reclaim`."""
        for slice_ in self._slices.values():
            slice_.mark(alive)

    def remake(self, names: Iterable[tuple[str, ...]]) -> None:
        """Make slices anew. They never only go: compiled code that enters new entries looks once which there
        are."""
        for one in names:
            self._slices.pop(one, None)
            self.slice(one)

    def enter(self, slots: Ints) -> None:
        """Some slots have come into use."""
        if self._slices and len(slots):
            for slice_ in self._slices.values():
                self._enter(slice_, slots)

    def leave(self, slots: Ints) -> None:
        """Some slots are no longer in use."""
        if len(slots):
            for slice_ in self._slices.values():
                slice_.remove(slots)

    def probe(self, names: tuple[str, ...], cells: Sequence[Cells], rows: int) -> tuple[Ints, Ints]:
        """Pairs of row number and slot that agree on the columns `names`, which come in their order."""
        if not names:
            return every_pair(rows, self.slots())
        codec = self._codecs.get(names)
        if codec is None:
            codec = Codec([c for c in self.columns if c.name in names], self.codec.interner)
            self._codecs[names] = codec
        words, able = assemble(codec, cells, rows)
        found = self.find(names, words)
        if found is not None:
            at = np.flatnonzero(found >= 0)
            slots = found[at]
        else:
            at, slots = self.slice(names).probe(words)
        return at if able is None else able[at], slots

    def slice(self, names: tuple[str, ...]) -> Slice:
        """The slice on some columns."""
        found = self._slices.get(names)
        if found is None:
            found = Slice([c for c in self.columns if c.name in names], self.codec)
            self._enter(found, self.slots())
            self._slices[names] = found
        return found

    def _enter(self, slice_: Slice, slots: Ints) -> None:
        slice_.add(slots, self.words(slots))

    def cells(self, column: Column, slots: Ints) -> Cells:
        """One column of some slots."""
        return column_cells(self.codec, column, self.words_of(column, slots))  # type: ignore[arg-type]


class Stored(Indexed):
    """Entries with a count, and components where they have some."""

    def weight(self, slots: Ints) -> tuple[Number, ...]:
        """What entries weigh."""
        raise NotImplementedError

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int]) -> Found:
        """Through an index on the bound columns."""
        at, slots = self.match(self.columns, bound, rows)
        columns = {i: self.cells(self.columns[i], slots) for i in want}
        return Found(at, columns, self.weight(slots), len(slots))

    def match(self, columns: Sequence[Column], bound: Sequence[Cells | None], rows: int) -> tuple[Ints, Ints]:
        """Pairs of row number and slot that agree on those of some columns that are bound."""
        names = tuple([c.name for c, cells in zip(columns, bound, strict=True) if cells is not None])
        return self.probe(names, [cells for cells in bound if cells is not None], rows)


@dataclass(frozen=True, slots=True)
class PartialEntries:
    """Entries read by some of their columns: what an atom that does not read all of them stands for."""

    store: Stored
    places: tuple[int, ...]

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int]) -> Found:
        """As stored; columns are counted among those that are read."""
        store = self.store
        columns = [store.columns[place] for place in self.places]
        at, slots = store.match(columns, bound, rows)
        return Found(at, {i: store.cells(columns[i], slots) for i in want}, store.weight(slots), len(slots))


def part(store: Stored, factor: Rel) -> Atom:
    """What an atom reads of the entries that its relation stands for."""
    return store if factor.columns is None else PartialEntries(store, factor.columns)


class Rows(Stored):
    """Rows given as words, with weights: a change."""

    def twin(self) -> Rows:
        """The same rows, with slices of their own: for another thread."""
        return Rows(self.codec, self._words, self._weights)

    def __init__(self, codec: Codec, words: Ints, weights: Ints) -> None:
        super().__init__(codec)
        self._words, self._weights = words, weights

    def __len__(self) -> int:
        return len(self._weights)

    def slots(self) -> Ints:
        """The numbers of the rows."""
        return np.arange(len(self._weights))

    def words(self, slots: Ints) -> Ints:
        """As they were given."""
        return np.ascontiguousarray(self._words[:, slots])

    def words_of(self, column: Column, slots: Ints) -> dict[int, Ints]:
        """As they were given."""
        return {row: self._words[row][slots] for row in _rows_of(self.codec, column)}

    def weight(self, slots: Ints) -> tuple[Number, ...]:
        """As they were given."""
        return (self._weights[slots],)


class Pooled(Stored):
    """Entries of a pool. `components` are those that serve as count and values: 0 is n, -1 is zero."""

    def __init__(self, codec: Codec, pool: Pool) -> None:
        super().__init__(codec)
        self.pool = pool
        self._key_names = _key_names(codec, pool)

    def slots(self) -> Ints:
        """The live entries."""
        return self.pool.live()

    def words(self, slots: Ints) -> Ints:
        """The key words."""
        return self.pool.keys_at(slots)

    def words_of(self, column: Column, slots: Ints) -> dict[int, Ints]:
        """The words of a key column."""
        rows = _rows_of(self.codec, column)
        return dict(zip(rows, self.pool.words_at(rows, slots), strict=True))

    def _enter(self, slice_: Slice, slots: Ints) -> None:
        slice_.follow(self.pool, slots)

    def trim(self) -> None:
        """The entries and slices in no more memory than is in proportion to them."""
        if self.pool.wasteful:
            self.become(self.pool.copy())
        else:
            with HeldBack():
                self.remake([names for names, slice_ in self._slices.items() if slice_.wasteful])

    def become(self, pool: Pool | None) -> None:
        """Hold the entries of another pool, if one is given; everything that follows them is made anew."""
        with HeldBack():
            names = [*self._slices]
            self.clear()
            if pool is not None:
                self.pool.become(pool)
            self.remake(names)

    def find(self, names: tuple[str, ...], words: Ints) -> Ints | None:
        """By the pool's own index."""
        return self.pool.find(words) if names == self._key_names else None

    def match(self, columns: Sequence[Column], bound: Sequence[Cells | None], rows: int) -> tuple[Ints, Ints]:
        """By the pool's key where it is bound, the other columns compared after."""
        names = [c.name for c, cells in zip(columns, bound, strict=True) if cells is not None]
        if len(names) == len(self._key_names) or not set(self._key_names) <= set(names) or not names:
            return super().match(columns, bound, rows)
        known = [
            cells if c.name in self._key_names else None for c, cells in zip(columns, bound, strict=True)
        ]
        at, slots = super().match(columns, known, rows)
        for column, cells in zip(columns, bound, strict=True):
            if cells is not None and column.name not in self._key_names:
                keep = same(self.cells(column, slots), cells.take(at))
                at, slots = at[keep], slots[keep]
        return at, slots

    def weight(self, slots: Ints) -> tuple[Number, ...]:
        """The counts."""
        return (self.pool.component_at(-1, slots)[0],)

    def number(self, component: int, slots: Ints) -> Number:
        """One component of some entries; 0 is the count, -1 is zero."""
        if component < 0:
            return np.zeros(len(slots), np.int64)
        kind = self.pool.layout.kinds[component - 1] if component else Kind.COUNT
        return from_words(kind, self.pool.component_at(component - 1, slots))


@dataclass(frozen=True, slots=True)
class Picked:
    """A pool read as a map: some of its components."""

    store: Pooled
    components: tuple[int, ...]

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int]) -> Found:
        """As stored, with these components for weights."""
        return self.read(*self.store.match(self.store.columns, bound, rows), want)

    def read(self, at: Ints, slots: Ints, want: Sequence[int]) -> Found:
        """These entries for these rows."""
        store = self.store
        weight = tuple(store.number(c, slots) for c in self.components)
        return Found(at, {i: store.cells(store.columns[i], slots) for i in want}, weight, len(slots))


class TableRows(Pooled):
    """A base table with slices that follow it: rows that have come enter one when it is read, and all of them
    when there are many rows or some go, in one call."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.codec, table.pool)
        self.table = table
        self._came: list[Ints] = []
        self._waiting = 0
        self._taken: dict[tuple[str, ...], int] = {}
        """How many of the arrays in `_came` a slice has, if any."""

    def enter(self, slots: Ints) -> None:
        """Some rows have come."""
        if self._slices and len(slots):
            self._came.append(slots)
            self._waiting += len(slots)
            if self._waiting >= _TOGETHER:
                self._catch_up()

    def leave(self, slots: Ints) -> None:
        """Some rows are going."""
        if len(slots):
            self._catch_up()
            super().leave(slots)

    def slice(self, names: tuple[str, ...]) -> Slice:
        """The slice on some columns, with all rows."""
        found = self._slices.get(names)
        if found is None:
            found = super().slice(names)  # of all slots
        elif self._came:
            self._take(names, found)
        if self._came:
            self._taken[names] = len(self._came)
            if all(self._taken.get(one) == len(self._came) for one in self._slices):
                self._forget()
        return found

    def clear(self) -> None:
        """Forget the slices."""
        super().clear()
        self._forget()

    def mark(self, alive: Alive) -> None:
        """Those of the rows, and of the slices."""
        super().mark(alive)
        self.table.mark(alive)

    def trim(self) -> None:
        """The rows and the slices in no more memory than is in proportion to them."""
        self._catch_up()
        super().trim()
        self.table.trim_texts()

    def _catch_up(self) -> None:
        """Let all slices have what has come."""
        if self._came:
            for names, slice_ in self._slices.items():
                self._take(names, slice_)
            self._forget()

    def _take(self, names: tuple[str, ...], slice_: Slice) -> None:
        came = self._came[self._taken.get(names, 0) :]
        if came:
            slots = came[0] if len(came) == 1 else np.concatenate(came)
            self._enter(slice_, slots)

    def _forget(self) -> None:
        self._came, self._waiting, self._taken = [], 0, {}

    def apply(self, net: Net, phases: Untimed = UNTIMED) -> TableUndo:
        """Add a net change; `commit` or `rollback` must follow."""
        if self.table.schema.key and self._slices:
            phases.to("maps")
            self.leave(self._slots_of(net.words[:, net.weights < 0]) if net.found is None else net.found.gone)
        phases.to("tables")
        undo = self.table.apply(net)
        phases.to("maps")
        if undo.touched is not None:
            self.enter(undo.touched.slots[undo.touched.created])
        elif undo.inserted is not None:
            self.enter(undo.inserted)
        return undo

    def commit(self, undo: TableUndo) -> None:
        """Make a change final."""
        if undo.touched is not None:
            self.leave(undo.touched.slots[self.pool.gather(undo.touched.slots).n == 0])
        self.table.commit(undo)

    def rollback(self, undo: TableUndo) -> None:
        """Take a change back."""
        if undo.touched is not None:
            self.leave(undo.touched.slots[undo.touched.created])
        elif undo.inserted is not None:
            self.leave(undo.inserted)
        self.table.rollback(undo)
        if undo.removed is not None:
            self.enter(self._slots_of(undo.removed))

    def _slots_of(self, words: Ints) -> Ints:
        return self.pool.find(np.ascontiguousarray(words[list(self.pool.key)]))


class Only(Stored):
    """Some slots of other entries: the piece that a load works on."""

    def __init__(self, of: Stored, slots: Ints) -> None:
        super().__init__(of.codec)
        self._of, self._slots = of, slots

    def slots(self) -> Ints:
        """The given ones."""
        return self._slots

    def words(self, slots: Ints) -> Ints:
        """Those of the others."""
        return self._of.words(slots)

    def words_of(self, column: Column, slots: Ints) -> dict[int, Ints]:
        """Those of the others."""
        return self._of.words_of(column, slots)

    def weight(self, slots: Ints) -> tuple[Number, ...]:
        """Those of the others."""
        return self._of.weight(slots)


def _rows_of(codec: Codec, column: Column) -> tuple[int, ...]:
    places, null = codec.places(column)
    return places if null is None else (*places, null[0])


def _key_names(codec: Codec, pool: Pool) -> tuple[str, ...]:
    """The columns whose words are the key of a pool."""
    if len(pool.key) == codec.words:
        return tuple(c.name for c in codec.columns)
    return tuple(c.name for c in codec.columns if set(codec.positions((c.name,))) <= set(pool.key))


__all__ = [
    "Atom",
    "Found",
    "Indexed",
    "Only",
    "PartialEntries",
    "Picked",
    "Pooled",
    "Rows",
    "Stored",
    "TableRows",
    "part",
]
