"""The least or greatest value of a map's last key among the entries that agree on the others.

`Extremes` is the question. `SliceScan` answers it by looking at every entry of the slice; `Ends` does so
while slices are short, and from an index in the order of the values when they are not. So no question looks
at more than `_LONG` entries for each key that it asks for, however often it asks for the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.local.adhoc.frame import take
from everfresh.local.adhoc.keys import codes
from everfresh.local.order.followers import Extremes as Ordered
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import Before, EntryStore
from everfresh.local.store.slices import every_pair

Ints = NDArray[np.int64]
NOTHING: Before = {}
_LONG: Final = 64
"""Slices with more entries than this are kept in order."""


class Extremes(Protocol):
    """Answers for the entries as they are now."""

    codec: Codec
    """The layout of the keys that are asked for: all keys of the map but the last."""
    visited: int
    """How many entries have been looked at."""

    def at(self, words: Ints) -> Vector:
        """The extreme of the last key for each column of `words`, NULL where there is no entry.

        In SQL's order: strings by their bytes, NaN above all numbers; NULL keys do not count.
        """


class SliceScan:
    """By looking at every entry of a slice. `before` are changes that it does not see."""

    def __init__(self, store: EntryStore, how: str, before: Mapping[str, object] = NOTHING) -> None:
        self._store, self._least = store, how == "min"
        self._before: Before = before  # type: ignore[assignment]
        self._names = tuple(c.name for c in store.columns[:-1])
        self.codec = Codec(store.columns[:-1], store.codec.interner)
        self.visited = self.longest = 0

    def scans(self, words: Ints) -> int:
        """How many entries `at` would look at."""
        return self._store.slice(self._names).met(words)

    def at(self, words: Ints) -> Vector:
        """The extreme of the last key for each column of `words`, NULL where there is no entry."""
        store, rows = self._store, words.shape[1]
        if self._names:
            at, slots = store.slice(self._names).probe(words)
        else:
            at, slots = every_pair(rows, store.slots())
        self.visited += len(slots)
        if len(slots) > self.longest:
            self.longest = max(self.longest, int(np.bincount(at).max()))
        there = store.entries(slots, self._before).n != 0
        values = store.cells(store.columns[-1], slots).vector
        if values.valid is not None:
            there &= values.valid
        at, values = at[there], values.filter(there)
        order = np.lexsort((codes(values) if self._least else ~codes(values), at))
        at = at[order]
        first = np.flatnonzero(np.r_[True, at[1:] != at[:-1]][: len(at)])
        chosen = np.full(rows, -1, np.int64)
        chosen[at[first]] = order[first]
        return take(values, chosen)


class Ends:
    """A scan until a slice is longer than `_LONG`, then the ends of an index that follows the map.

    A map whose only key is the value has one slice: it is kept in order from the start. The index belongs to
    the map, so that all who ask share it, and is made again when strings have been renumbered.
    """

    def __init__(self, store: EntryStore, how: str, before: Before = NOTHING) -> None:
        self._scan = SliceScan(store, how, before)
        self.codec = self._scan.codec
        self._store, self._least, self._before = store, how == "min", before
        self._value = store.columns[-1]
        self._ordered = self._value.type.name != "INTERVAL"  # which have no words that order like them
        self._long = _LONG if store.columns[:-1] else -1
        self.visited = 0

    def at(self, words: Ints) -> Vector:
        """The extreme of the last key for each column of `words`, NULL where there is no entry."""
        key, rows = ("ends", self._value.name), words.shape[1]
        short = self._long >= 0 and not self._store.is_followed(key)
        if short and rows > 1 and len(self._store.pool) > self._long:
            short = self._scan.scans(words) <= self._long * rows
        if not self._ordered or short:
            seen = self._scan.visited
            found = self._scan.at(words)
            self.visited += self._scan.visited - seen
            if self._ordered and self._scan.longest > self._long:
                self._store.follower(key, self._follower)
            return found
        ends = self._store.follower(key, self._follower)
        seen = ends.visited
        slots = (ends.first if self._least else ends.last)(words, self._counts)
        self.visited += ends.visited - seen
        there = np.flatnonzero(slots >= 0)
        values = self._store.cells(self._value, slots[there]).vector
        place = np.full(len(slots), -1, np.int64)
        place[there] = np.arange(len(there))
        return take(values, place)

    def _counts(self, slots: Ints) -> Ints:
        return self._store.entries(slots, self._before).n

    def _follower(self) -> Ordered:
        store = self._store
        return Ordered(store.pool, store.codec, store.columns[:-1], self._value, store.ranks)
