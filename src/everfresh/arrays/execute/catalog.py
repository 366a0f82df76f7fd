"""What the coordinator knows of an array: metadata of its chunks, never a cell; and where new chunks go.

About a hundred bytes per chunk, in columns by ascending number of the chunk: the worker that keeps it, how
many cells and bytes it has, and the tight box of its cells. The placement rule
(`everfresh.arrays.plan.place`) deals the chunks that are new to workers; those that are there stay.

Invariant: numbers ascend, every chunk has cells, and `bytes` are those of `wire.size_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from everfresh.arrays.aql import ROUND_ROBIN
from everfresh.arrays.chunk import Chunk
from everfresh.arrays.execute.wire import size_of
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.plan.catalog import Chunks
from everfresh.arrays.plan.place import PLACEMENTS

DEFAULT_PLACEMENT = ROUND_ROBIN


@dataclass(frozen=True, eq=False)
class Catalog:
    """The chunks of one array that hold data. `lo` and `hi` have a row for each dimension."""

    schema: ArraySchema
    number: Ints
    home: Ints
    cells: Ints
    bytes: Ints
    lo: Ints
    hi: Ints

    @staticmethod
    def empty(schema: ArraySchema) -> Catalog:
        """An array without cells."""
        none, box = np.empty(0, np.int64), np.empty((schema.ndim, 0), np.int64)
        return Catalog(schema, none, none, none, none, box, box)

    @staticmethod
    def of(
        schema: ArraySchema, chunks: Mapping[int, Chunk], workers: int = 1, rule: str = DEFAULT_PLACEMENT
    ) -> Catalog:
        """The catalog of chunks that are at hand, dealt to workers."""
        found = Catalog.empty(schema).after([entry(number, -1, chunk) for number, chunk in chunks.items()])
        return found.at(PLACEMENTS[rule](found.chunks(0), workers)) if len(found) else found

    def __len__(self) -> int:
        return len(self.number)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        columns = (self.number, self.home, self.cells, self.bytes, self.lo, self.hi)
        return sum(column.nbytes for column in columns)

    def at(self, home: Ints) -> Catalog:
        """The same chunks kept by other workers."""
        return Catalog(self.schema, self.number, home, self.cells, self.bytes, self.lo, self.hi)

    def chunks(self, home: int | None = None) -> Chunks:
        """The chunks as the planner reads them."""
        schema = self.schema
        return Chunks.of(
            self.lo.T,
            self.hi.T,
            cells=self.cells,
            bytes=self.bytes,
            start=schema.lo.tolist(),
            length=schema.lengths.tolist(),
            home=self.home if home is None else np.full(len(self), home),
        )

    def places(self, numbers: Ints) -> Ints:
        """At which position chunks of these numbers stand; -1 for those that are not there."""
        at = np.searchsorted(self.number, numbers)
        at[at == len(self.number)] = 0
        if not len(self.number):
            return np.full(len(numbers), -1, np.int64)
        return np.where(self.number[at] == numbers, at, -1).astype(np.int64)

    def homes(self, table_cells: Mapping[int, int], workers: int, rule: str) -> dict[int, int]:
        """The worker of each of these chunks, given how many cells come to it: that which keeps it, or the
        one that the rule says for a new one.

        >>> from everfresh.arrays.model import Dimension
        >>> a = Catalog.empty(ArraySchema("a", (Dimension("i", 1, 8, 2),)))
        >>> a.homes({3: 1, 0: 5, 2: 1}, 2, "round-robin")
        {0: 0, 2: 1, 3: 0}
        """
        numbers = np.array(sorted(table_cells), np.int64)
        at = self.places(numbers)
        found = {int(n): int(self.home[k]) for n, k in zip(numbers, at, strict=True) if k >= 0}
        new = numbers[at < 0]
        if not len(new):
            return found
        if rule == ROUND_ROBIN:
            homes = (len(self) + np.arange(len(new))) % workers
        else:
            homes = self._dealt(new, table_cells, workers, rule)
        found.update(zip(new.tolist(), homes.tolist(), strict=True))
        return dict(sorted(found.items()))

    def _dealt(self, new: Ints, cells: Mapping[int, int], workers: int, rule: str) -> Ints:
        """What a rule that looks at all chunks says of the new ones."""
        schema = self.schema
        first = np.stack([schema.chunk_box(int(number))[0] for number in new], axis=1)
        every = Chunks.of(
            np.concatenate([self.lo.T, first.T]),
            np.concatenate([self.lo.T, first.T]),
            cells=np.concatenate([self.cells, [max(1, cells[int(number)]) for number in new]]),
            start=schema.lo.tolist(),
            length=schema.lengths.tolist(),
        )
        return PLACEMENTS[rule](every, workers)[len(self) :]

    def after(self, entries: list[Entry]) -> Catalog:
        """The catalog after these chunks have changed: one without cells is gone."""
        if not entries:
            return self
        table = np.array(sorted(entries), np.int64).reshape(len(entries), -1).T
        keep = ~np.isin(self.number, table[0])
        there = table[2] > 0
        n = self.schema.ndim
        both = [
            np.concatenate([old[..., keep], new[..., there]], axis=-1)
            for old, new in (
                (self.number, table[0]),
                (self.home, table[1]),
                (self.cells, table[2]),
                (self.bytes, table[3]),
                (self.lo, table[4 : 4 + n]),
                (self.hi, table[4 + n :]),
            )
        ]
        order = np.argsort(both[0], kind="stable")
        return Catalog(self.schema, *(column[..., order] for column in both))

    def to_arrays(self) -> dict[str, Any]:
        """As columns, for a record or a snapshot."""
        return {
            "number": self.number, "home": self.home, "cells": self.cells, "bytes": self.bytes,
            "lo": self.lo, "hi": self.hi,
        }  # fmt: skip

    @staticmethod
    def from_arrays(schema: ArraySchema, found: Mapping[str, Any]) -> Catalog:
        """The inverse of `to_arrays`."""
        names = ("number", "home", "cells", "bytes", "lo", "hi")
        return Catalog(schema, *(np.array(found[name], np.int64) for name in names))


Entry = tuple[int, ...]
"""A chunk: its number, home, cells, bytes, then the first and the last index of its tight box."""


def entry(number: int, home: int, chunk: Chunk) -> Entry:
    """What a catalog says of a chunk; one that is empty has no cells."""
    if not len(chunk):
        return (number, home, 0, 0, *[0] * (2 * chunk.ndim))
    lo, hi = chunk.box
    return (number, home, len(chunk), size_of(chunk.table), *lo.tolist(), *hi.tolist())
