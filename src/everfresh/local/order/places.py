"""The value of a map's last key at a place among the entries that agree on others: the first in an order, or
the one at a fraction of the rows.

Both are read off an index that follows the map, so that a question costs the logarithm of the map, whatever
the size of a group: `Firsts` from the ends of an index in the order of several keys, `Places` from one with
running counts (`value_index`). A question may be about the state before some changes, whose entries are all
still in the pool: the counts that they had then are put in place of those of now, entry by entry.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.local.adhoc.frame import take
from everfresh.local.order.extremes import NOTHING, Ends, Extremes
from everfresh.local.order.followers import Ordered
from everfresh.local.order.nearest import band_of
from everfresh.local.order.ranking import SortKey
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import Before, EntryStore
from everfresh.program import Side

Ints = NDArray[np.int64]


def in_order(side: Side, store: EntryStore, before: Before = NOTHING) -> Extremes:
    """What answers for a side that is read by a value of its map."""
    if side.how == "first":
        return Firsts(side, store, before)
    return Ends(store, side.how, before) if side.how in ("min", "max") else Places(side, store, before)


class _Answers:
    """The value of the last key of one entry for each key that is asked for."""

    def __init__(self, side: Side, store: EntryStore, before: Before) -> None:
        self._side, self._store, self._before = side, store, before
        self._groups = store.columns[: len(store.columns) - side.beyond]
        self.codec = Codec(self._groups, store.codec.interner)
        self.visited = 0

    def at(self, words: Ints) -> Vector:
        """The value for each column of `words`, NULL where there is no entry."""
        slots = self._slots(words)
        there = np.flatnonzero(slots >= 0)
        values = self._store.cells(self._store.columns[-1], slots[there]).vector
        place = np.full(len(slots), -1, np.int64)
        place[there] = np.arange(len(there))
        return take(values, place)

    def _slots(self, words: Ints) -> Ints:
        """The entry for each column of `words`, -1 for none."""
        raise NotImplementedError


class Firsts(_Answers):
    """The first entry in the order of the keys that are beyond those that are asked for."""

    def _slots(self, words: Ints) -> Ints:
        store, order = self._store, self._side.order
        columns = store.columns[len(self._groups) :]
        keys = [SortKey(c.name, *how) for c, how in zip(columns, order, strict=True)]
        ordered = store.follower(
            ("first", len(self._groups), order),
            lambda: Ordered(store.pool, store.codec, self._groups, keys, store.ranks),
        )
        seen = ordered.visited
        slots = ordered.first(words, lambda some: store.entries(some, self._before).n)
        self.visited += ordered.visited - seen
        return slots


class Places(_Answers):
    """The entry at a fraction of the rows of a group, in the order of its value."""

    def _slots(self, words: Ints) -> Ints:
        band = band_of(self._store, self._store.columns[-1], self._groups)
        low, high = band.spans([], words)[0]
        change = self._before.get(self._store.target.name)
        changed = np.empty(0, np.int64) if change is None else change.slots
        ranks = band.ranks_of(changed)
        in_index = np.flatnonzero(ranks >= 0)
        in_index = in_index[np.argsort(ranks[in_index])]
        ranks, slots = ranks[in_index], changed[in_index]
        more = self._store.entries(slots, self._before).n - self._store.entries(slots, NOTHING).n
        self.visited += words.shape[1] + len(ranks)
        # What the counts of then are more than those of now, over the changed entries before each place.
        gained = np.concatenate([np.zeros(1, np.int64), np.cumsum(more)])
        first, last = np.searchsorted(ranks, low), np.searchsorted(ranks, high)
        base = band.rows_before(low)
        rows = band.rows_before(high) - base + gained[last] - gained[first]
        wanted = self._place(rows) + 1
        # The running counts of then at changed entries grow with their order: which one reaches the place?
        reached = band.rows_before(ranks + 1) + gained[1:]
        at = np.clip(np.searchsorted(reached, wanted + base + gained[first]), first, last)
        found = band.reaching(low, wanted - (gained[at] - gained[first]))
        bounded = at < last
        found[bounded] = np.minimum(found[bounded], ranks[at[bounded]])
        return band.slots_at(np.where(rows > 0, found, -1))

    def _place(self, rows: Ints) -> Ints:
        """The place asked for among so many rows, from 0."""
        fraction = self._side.fraction
        if self._side.how == "disc":
            place = np.maximum(np.ceil(rows * fraction) - 1, 0)
        else:
            place = np.maximum(rows - 1, 0) * fraction
            place = np.floor(place) if self._side.how == "low" else np.ceil(place)
        found: Ints = place.astype(np.int64)
        return found
