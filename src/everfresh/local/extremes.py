"""The least or greatest value of a map's last key among the entries that agree on the others.

`Extremes` is the question; `Scan` answers it by looking at every entry of the slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.local.adhoc.frame import take
from everfresh.local.adhoc.keys import codes
from everfresh.local.codec import Codec
from everfresh.local.entries import Before, EntryStore
from everfresh.local.slices import every_pair

Ints = NDArray[np.int64]
NOTHING: Before = {}


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


class Scan:
    """By looking at every entry of a slice. `before` are changes that it does not see."""

    def __init__(self, store: EntryStore, how: str, before: Mapping[str, object] = NOTHING) -> None:
        self._store, self._least = store, how == "min"
        self._before: Before = before  # type: ignore[assignment]
        self._names = tuple(c.name for c in store.columns[:-1])
        self.codec = Codec(store.columns[:-1], store.codec.interner)
        self.visited = 0

    def at(self, words: Ints) -> Vector:
        """The extreme of the last key for each column of `words`, NULL where there is no entry."""
        store, rows = self._store, words.shape[1]
        if self._names:
            at, slots = store.slice(self._names).probe(words)
        else:
            at, slots = every_pair(rows, store.slots())
        self.visited += len(slots)
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
