"""Addresses for a generated function: where pools, slices, buffers and columns lie when it is called.

Invariant: the arrays whose addresses stand in the context are held by what owns them, or here, while a call
runs. Pools and slices write theirs anew when they have grown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.errors import EverfreshError
from everfresh.local.interpret.atoms import Indexed, Picked
from everfresh.local.native.runtime import build as building
from everfresh.local.native.runtime import layout as at
from everfresh.local.native.runtime.helpers import (
    POOL_BANDS,
    POOL_CAPACITY,
    POOL_COUNT,
    POOL_CREATED,
    POOL_FLOAT_ROWS,
    POOL_INT_ROWS,
    POOL_JOURNAL,
    POOL_OLD_FLOATS,
    POOL_OLD_INTS,
    POOL_OLD_N,
    POOL_ROOM,
    POOL_SLICES,
    POOL_TOUCHED,
    SLICE_SIZE,
)
from everfresh.local.native.runtime.indexes import EDGES, INDEX_SIZE
from everfresh.local.native.runtime.layout import BandUse, BufferUse, PoolUse
from everfresh.local.order.range_join import band_name, band_of
from everfresh.local.order.value_index import Band
from everfresh.local.store.pool import Pool, Touched, Values
from everfresh.local.store.slices import Slice

Ints = NDArray[np.int64]
_LEAST_BLOCKS = 16
"""Blocks of an ordered index that are free when a call begins."""
_FEW = 1024
"""Rows of a change that enter an index one by one, if it is not read on the way."""


def address(array: NDArray[Any]) -> int:
    """Where an array lies."""
    return int(array.ctypes.data)


def pool_words(pool: Pool) -> list[int]:
    """The block of a pool, as far as it only reads."""
    values = pool._values
    return [
        address(pool._keys),
        pool._keys.shape[1],
        address(pool._table),
        len(pool._table) - 1,
        address(pool._mark),
        address(pool._state),
        address(values.n),
        address(values.ints),
        address(values.floats),
    ]


class SliceBinding:
    """The block of a slice; `words` are what it is, kept as long as its arrays are."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_
        self._scratch = np.zeros(max(slice_.codec.words, 1), np.int64)
        self._arrays: tuple[Any, Any, Any] = None, None, None
        self.words: list[int] = []

    def refresh(self, slots: int = 0) -> bool:
        """Make it fit `slots` slots, if they are to be entered; whether anything has moved."""
        s = self.slice
        if slots:
            s._room(slots)
        keys, (table, heads, nexts) = s._keys, self._arrays
        if keys._table is table and s._heads is heads and s._nexts is nexts:
            return False
        self._arrays = keys._table, s._heads, s._nexts
        self.words = [
            s.codec.words,
            (len(s.sources) - s.codec.words) // 4,
            address(s.sources),
            *pool_words(keys)[:7],
            address(keys._multipliers),
            address(s._heads),
            address(s._nexts),
            address(s._prevs),
            address(s._groups),
            address(self._scratch),
            keys.capacity,
        ]
        return True


class PoolBinding:
    """A pool in the context, with a journal and its slices if the function changes it."""

    def __init__(
        self,
        use: PoolUse,
        target: bool,
        bands: Sequence[BandBinding] = (),
        followed: Sequence[BandBinding] = (),
    ) -> None:
        self.use, self.target = use, target
        self._read, self._followed = (bands, followed) if target else ((), ())
        self.bands = self._read
        """Those that the function keeps up in this call."""
        self._listed = False
        self._seen: Any = None
        self._slices: dict[tuple[str, ...], SliceBinding] = {}
        self._blocks = np.zeros(0, np.int64)
        self._journal = 0

    def refresh(self, context: Ints, rows: int) -> None:
        """Write what has moved; `rows` is how many slots a journal has room for at least."""
        if self._followed:
            now = [*self._read, *[b for b in self._followed if b.follow(context, rows <= _FEW)]]
            self._listed &= now == self.bands
            self.bands = now
        pool, place = self.use.stored.pool, self.use.place
        if self._seen is not pool._table:
            self._write(context)
        if self.target:
            self._refresh_slices(context)
            if self._journal < rows:
                self._make_journal(context, rows)
            context[place + POOL_COUNT] = 0
            context[place + POOL_ROOM] = 0
            if not self._listed:
                self._listed = True
                context[place + POOL_BANDS] = len(self.bands)
                start = address(context)
                for i, band in enumerate(self.bands):
                    context[place + POOL_BANDS + 1 + i] = start + 8 * band.use.place

    def _write(self, context: Ints) -> None:
        pool, place = self.use.stored.pool, self.use.place
        context[place : place + 9] = pool_words(pool)
        context[place + POOL_CAPACITY] = pool.capacity
        self._seen = pool._table

    def _refresh_slices(self, context: Ints) -> None:
        stored: Indexed = self.use.stored
        if not stored._slices and not self._slices:
            return  # as the context says from the first
        moved = False
        for names, slice_ in stored._slices.items():
            binding = self._slices.get(names)
            if binding is None or binding.slice is not slice_:
                binding = self._slices[names] = SliceBinding(slice_)
            moved |= binding.refresh(self.use.stored.pool.capacity)
        if len(self._slices) > len(stored._slices):
            self._slices = {n: b for n, b in self._slices.items() if n in stored._slices}
            moved = True
        if moved or len(self._blocks) != SLICE_SIZE * len(self._slices):
            words = [word for binding in self._slices.values() for word in binding.words]
            self._blocks = np.array(words, np.int64)
            place = self.use.place + POOL_SLICES
            context[place : place + 2] = len(self._slices), address(self._blocks)

    def _make_journal(self, context: Ints, rows: int) -> None:
        layout, place = self.use.stored.pool.layout, self.use.place
        count, old = int(context[place + POOL_COUNT]), getattr(self, "_old", None)
        slots, created = np.empty(rows, np.int64), np.empty(rows, np.bool_)
        values = Values.empty(layout, rows)
        if count and old is not None:
            slots[:count], created[:count] = old[0][:count], old[1][:count]
            for new, was in zip(
                (values.n, values.ints, values.floats), (old[2].n, old[2].ints, old[2].floats), strict=True
            ):
                new[..., :count] = was[..., :count]
        self._old = (slots, created, values)
        self._journal = rows
        context[place + POOL_TOUCHED] = address(slots)
        context[place + POOL_CREATED] = address(created)
        context[place + POOL_OLD_N] = address(values.n)
        context[place + POOL_OLD_INTS] = address(values.ints)
        context[place + POOL_OLD_FLOATS] = address(values.floats)
        context[place + POOL_JOURNAL] = rows
        context[place + POOL_INT_ROWS] = layout.int_rows
        context[place + POOL_FLOAT_ROWS] = layout.float_rows

    def grow(self, context: Ints, need: int) -> None:
        """Make room for `need` more upserts."""
        pool, place = self.use.stored.pool, self.use.place
        if int(context[place + POOL_COUNT]) + need > self._journal:
            self._make_journal(context, 2 * (self._journal + need))
        if len(pool) + need > pool.capacity:
            pool.reserve(max(need, pool.capacity))
            self._write(context)
        for binding in self._slices.values():
            keys = binding.slice._keys
            if len(keys) + need > keys.capacity:
                keys.reserve(max(need, keys.capacity))
        self._refresh_slices(context)
        for band in self.bands:
            band.grow(context, need)
        context[place + POOL_ROOM] = 0

    def take_back(self, context: Ints) -> None:
        """Undo what the function changed, slices and what keeps the entries in order included."""
        stored, change = self.use.stored, self.touched(context)
        created = change.slots[change.created]
        Indexed.leave(stored, created)
        for band in self.bands:
            band.band.remove(created, created)
        stored.pool.rollback(change)
        for band in self.bands:
            band.band.touch(change.slots[~change.created], created)

    def forget(self, context: Ints) -> None:
        """Empty the journal."""
        context[self.use.place + POOL_COUNT] = 0

    def count(self, context: Ints) -> int:
        """How many entries the function has changed."""
        return int(context[self.use.place + POOL_COUNT])

    def touched(self, context: Ints) -> Touched:
        """What the function changed."""
        count = self.count(context)
        slots, created, values = self._old
        floats = values.floats[:, :count].copy() if len(values.floats) else np.empty((0, count))
        old = Values(values.n[:count].copy(), values.ints[:, :count].copy(), floats)
        return Touched(slots[:count].copy(), old, created[:count].copy())


class BandBinding:
    """Entries in order in the context. An index whose map the function changes is kept up by it: always if it
    reads it, else if there is one, and few rows come."""

    def __init__(self, use: BandUse) -> None:
        self.use, self._calls = use, building.index_calls()
        self._name = band_name(use.order.value, use.stored, use.order.groups)
        self._band: Band | None = None
        self._cleared = 0
        self._data: Any = None
        self._stored: Any = None
        self._scratch = np.zeros(0, np.int64)

    @property
    def band(self) -> Band:
        """The index."""
        assert self._band is not None
        return self._band

    def refresh(self, context: Ints, target: bool) -> None:
        """Write where it lies; make room if entries may come."""
        order, store = self.use.order, self.use.stored
        if self._band is None or self._cleared != store.cleared:
            names = [c.name for c in store.columns]
            self._band = band_of(order.value, Picked(store, ()), store, names, order.groups)
            self._cleared = store.cleared
        self._band._settle()
        self.grow(context, _LEAST_BLOCKS if target else 0)

    def follow(self, context: Ints, few: bool) -> bool:
        """Whether it is there and kept up; it is not for many rows, which enter it faster together."""
        if few and self._is_there():
            try:
                self.refresh(context, True)
                return True
            except EverfreshError:  # a value that cannot be computed
                pass
        context[self.use.place] = 0
        self._data = None
        return False

    def _is_there(self) -> bool:
        store = self.use.stored
        if self._band is not None and self._cleared == store.cleared:
            return True
        return store.is_followed(self._name)

    def grow(self, context: Ints, blocks: int) -> None:
        """Make room for some blocks, and for all slots of the map."""
        band, index, place = self.band, self.band._index, self.use.place
        if blocks and len(index._order) - index._state.item(0) < blocks:
            index._grow(2 * len(index._order) + blocks)
        slots = self.use.stored.pool.capacity
        if blocks and len(band._in) <= slots:
            band._cover(slots)
        if index._data is self._data and band._stored is self._stored:
            return  # and so are the arrays that come and go with these
        self._data, self._stored = index._data, band._stored
        rows = len(index._high)
        self._scratch = np.zeros(index.words + rows + 2 * EDGES, np.int64)
        scratch = address(self._scratch)
        context[place : place + INDEX_SIZE] = [
            *(address(array) for array in (index._data, index._totals, index._order, index._tops)),
            *(address(array) for array in (index._tree, index._high, index._state)),
            *(index.words, rows, index.block, len(index._order)),
            *(address(band._stored), band._stored.shape[1], address(band._in)),
            *(scratch, scratch + 8 * index.words, scratch + 8 * (index.words + rows), 0),
            *self._calls,
        ]


class BufferBinding:
    """The buffer of a statement."""

    def __init__(self, use: BufferUse) -> None:
        self.use = use
        kinds = use.components.kinds
        self._rows = use.words + 1 + sum(kind != Kind.FLOAT for kind in kinds)
        self._float_rows = use.components.float_rows
        self._words, self._floats = np.empty((self._rows, 0), np.int64), np.empty((self._float_rows, 0))

    def refresh(self, context: Ints, rows: int) -> None:
        """Make room for `rows` rows, and begin anew."""
        if self._words.shape[1] < rows:
            self._allocate(context, rows)
        context[self.use.place + at.BUFFER_COUNT] = 0

    def _allocate(self, context: Ints, rows: int) -> None:
        count, place = int(context[self.use.place + at.BUFFER_COUNT]), self.use.place
        words, floats = np.empty((self._rows, rows), np.int64), np.empty((self._float_rows, rows))
        words[:, :count], floats[:, :count] = self._words[:, :count], self._floats[:, :count]
        self._words, self._floats = words, floats
        context[place : place + 3] = address(words), address(floats), rows

    def grow(self, context: Ints) -> None:
        """Make twice the room."""
        self._allocate(context, 2 * self._words.shape[1])

    def rows(self, context: Ints) -> tuple[Ints, Values]:
        """The words and values of what was made."""
        count = int(context[self.use.place + at.BUFFER_COUNT])
        keys, row = self.use.words, self.use.words + 1
        words = self._words[:keys, :count].copy()
        values = Values.empty(self.use.components, count)
        values.n[:] = self._words[keys, :count]
        for kind, place in zip(self.use.components.kinds, self.use.components.offsets, strict=True):
            if kind == Kind.FLOAT:
                continue
            cells = self._words[row, :count]
            if kind == Kind.WIDE:
                values.ints[place], values.ints[place + 1] = cells >> 63, cells
            else:
                values.ints[place] = cells
            row += 1
        values.floats[:] = self._floats[:, :count]
        return words, values
