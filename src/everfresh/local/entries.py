"""The entries of one map: a pool with its codec, and the slices through which statements read it.

Slices are built at the first read and then follow the pool. An entry whose count has come to zero inside a
batch still stands in its slices until the batch is final; it is read with weight zero, which adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.errors import EverfreshError
from everfresh.expr import Vector
from everfresh.local.codec import Codec
from everfresh.local.columnar import MapDelta, to_words
from everfresh.local.pool import Layout, Pool, Touched, Values
from everfresh.local.slices import Slice, every_pair
from everfresh.local.strings import Interner
from everfresh.program import MapDef
from everfresh.types import Column

Ints = NDArray[np.int64]


class EntryStore:
    """A map in this process (or one partition of it)."""

    def __init__(self, target: MapDef[Any], interner: Interner, pool: Pool | None = None) -> None:
        self.target = target
        self.columns = tuple(Column(v.name, v.type, v.nullable) for v in target.keys)
        self.codec = Codec(self.columns, interner)
        self.layout = Layout(target.kinds)
        self.pool = pool or Pool(self.codec.words, self.layout)
        self._slices: dict[tuple[str, ...], Slice] = {}

    # -- change ------------------------------------------------------------------------------------

    def add(self, delta: MapDelta) -> Touched:
        """Add a statement's result; `commit` or `rollback` must follow."""
        return self.add_words(*to_words(delta, self.codec, self.layout))

    def add_words(self, words: Ints, values: Values) -> Touched:
        """Add a change that is in pool form already."""
        try:
            touched = self.pool.add(words, values)
        except EverfreshError as error:
            raise EverfreshError(
                error.code,
                f"an aggregate of '{self.target.name}' is out of range",
                hint="the batch would make a sum too large for its type",
            ) from error
        self._each_slice("add", touched.slots[touched.created])
        return touched

    def commit(self, touched: Touched) -> None:
        """Make a change final: entries that have come to nothing go."""
        self._each_slice("remove", touched.slots[self.pool.gather(touched.slots).n == 0])
        self.pool.commit(touched)

    def rollback(self, touched: Touched) -> None:
        """Take a change back."""
        self._each_slice("remove", touched.slots[touched.created])
        self.pool.rollback(touched)

    def _each_slice(self, what: str, slots: Ints) -> None:
        if self._slices and len(slots):
            words = self.pool.keys_at(slots)
            for slice_ in self._slices.values():
                getattr(slice_, what)(slots, words)

    # -- reading by statements ---------------------------------------------------------------------

    def probe(self, names: tuple[str, ...], vectors: Sequence[Vector], rows: int) -> tuple[Ints, Ints]:
        """Pairs of row number and slot that agree on the columns `names`."""
        slots = self.pool.live()
        if not names:
            return every_pair(rows, slots)
        if names not in self._slices:
            built = Slice([c for c in self.columns if c.name in names], self.codec)
            built.add(slots, self.pool.keys_at(slots))
            self._slices[names] = built
        return self._slices[names].probe(vectors, rows)

    def read(self, slots: Ints, names: Sequence[str]) -> dict[str, Vector]:
        """Some columns of some entries."""
        return self.codec.vectors(self.pool.keys_at(slots), names)

    def counts(self, slots: Ints) -> Ints:
        """The counts of some entries."""
        return self.pool.gather(slots).n

    # -- upkeep ------------------------------------------------------------------------------------

    def remap_strings(self, remap: Ints) -> None:
        """Follow a compaction of the interner."""
        slots = self.pool.live()
        words, values = self.pool.keys_at(slots), self.pool.gather(slots)
        self.codec.remap_strings(words, remap)
        self.pool.clear()
        self.pool.put(words, values)
        self._slices.clear()


def merged(steps: Sequence[Touched]) -> Touched:
    """Several changes of one pool as one: each slot once, with its values before the first."""
    if len(steps) == 1:
        return steps[0]
    slots, first = np.unique(np.concatenate([s.slots for s in steps]), return_index=True)
    order = np.argsort(first, kind="stable")
    slots, first = slots[order], first[order]
    old = Values(
        np.concatenate([s.old.n for s in steps])[first],
        np.concatenate([s.old.ints for s in steps], axis=1)[:, first],
        np.concatenate([s.old.floats for s in steps], axis=1)[:, first],
    )
    return Touched(slots, old, np.concatenate([s.created for s in steps])[first])
