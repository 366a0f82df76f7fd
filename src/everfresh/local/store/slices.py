"""Slice indexes: the entries of a map, or the rows of a change, that agree on some columns.

A persistent slice belongs to a map and follows its pool: entries enter when they are created and leave when
they go. A passing one is built over the rows of a change for one statement. Both answer the same question,
`probe`, for a whole batch of keys at once. The distinct slice keys are the entries of a pool of their own;
the slots of a key are a linked chain (`slice_links`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from everfresh.local.kernels import slice_links
from everfresh.local.store.arena import Growing
from everfresh.local.store.codec import Codec
from everfresh.local.store.pool import Layout, Pool
from everfresh.local.store.strings import Alive
from everfresh.types import Column

Ints = NDArray[np.int64]
_MOST = 1 << 26  # slots that links have address space for when they are many


class Slice:
    """Slots by the words of some columns."""

    def __init__(self, columns: Sequence[Column], codec: Codec) -> None:
        self.names = tuple(c.name for c in columns)
        self.codec = Codec(columns, codec.interner)
        self._source = codec
        self._keys = Pool(self.codec.words, Layout())
        self._grown = [Growing(0, np.int32, _MOST) for _ in range(4)]
        self._heads, self._nexts, self._prevs, self._groups = (grown.array for grown in self._grown)

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, unused capacity included."""
        chained = (self._heads, self._nexts, self._prevs, self._groups)
        return self._keys.nbytes + sum(array.nbytes for array in chained)

    def add(self, slots: Ints, words: Ints) -> None:
        """Enter some slots, which are not in it, with the words of their entries."""
        if not len(slots):
            return
        of = self._keys.enter(self._source.project(words, self.codec))
        self._room(int(slots.max()) + 1)
        slice_links.link(
            self._heads, self._nexts, self._prevs, self._groups, self._keys.counts, of, _array(slots)
        )

    def follow(self, pool: Pool, slots: Ints) -> None:
        """`add` for slots of a pool: the same, in half of the time or less."""
        if not self._source.kept.isdisjoint(self.names):
            self.add(slots, pool.keys_at(slots))
            return
        slots = _array(slots)
        of = self._keys.enter_from(pool, slots, *self._rows_nulls)
        self._room(pool.top)
        slice_links.link(self._heads, self._nexts, self._prevs, self._groups, self._keys.counts, of, slots)

    @cached_property
    def sources(self) -> Ints:
        """Where the words of a key come from in an entry, -1: nowhere; then from which word and bit to which
        each bit for NULL goes."""
        words, nulls = [-1] * self.codec.words, []
        for column in self.codec.columns:
            places, null = self.codec.places(column)
            source, from_null = self._source.places(column)
            for place, row in zip(places, source, strict=True):
                words[place] = row
            if null is not None and from_null is not None:
                nulls += [*from_null, *null]
        return np.array([*words, *nulls], np.int64)

    @cached_property
    def _rows_nulls(self) -> tuple[Ints, Ints]:
        return self.sources[: self.codec.words], self.sources[self.codec.words :].reshape(-1, 4)

    def remove(self, slots: Ints) -> None:
        """Take some slots out; those that are not in it are passed over."""
        slots = _array(slots[slots < len(self._groups)])
        left = np.empty(len(slots), np.int64)
        gone = slice_links.unlink(
            self._heads, self._nexts, self._prevs, self._groups, self._keys.counts, slots, left
        )
        if gone:
            self._keys.sweep(left[:gone])

    def mark(self, alive: Alive) -> None:
        """Say which strings it holds beside those of entries: of columns whose strings these only keep."""
        if not self._source.kept.isdisjoint(self.names):
            self._keys.mark(self.codec.codes, alive)

    @property
    def wasteful(self) -> bool:
        """Whether it has room for many more groups than are left, and for many in proportion to the slots."""
        return self._keys.wasteful and 4 * self._keys.capacity > len(self._groups)

    def met(self, words: Ints) -> int:
        """How many pairs `probe` would find."""
        return int(slice_links.count(self._keys.counts, self._keys.find(words)))

    def probe(self, words: Ints) -> tuple[Ints, Ints]:
        """For each column of `words`, in the layout of `codec`, the slots that agree with it: pairs of its
        number and a slot, in a fixed order."""
        groups = self._keys.find(words)
        total = slice_links.count(self._keys.counts, groups)
        at, slots = np.empty(total, np.int64), np.empty(total, np.int64)
        slice_links.fill(self._heads, self._nexts, groups, at, slots)
        return at, slots

    def _room(self, slots: int) -> None:
        if len(self._heads) < self._keys.capacity:
            self._heads = self._grown[0].grow(self._keys.capacity)
        if len(self._groups) < slots:
            size, known = max(16, 1 << (slots - 1).bit_length()), len(self._groups)
            self._nexts, self._prevs, self._groups = (grown.grow(size) for grown in self._grown[1:])
            self._groups[known:] = -1


def every_pair(rows: int, slots: Ints) -> tuple[Ints, Ints]:
    """All pairs of a row number and a slot: a join without a shared column."""
    return np.repeat(np.arange(rows), len(slots)), np.tile(slots, rows)


def _array(slots: Ints) -> Ints:
    return np.ascontiguousarray(slots, np.int64)
