"""The first rows of a bag (ORDER BY with LIMIT), read off an index that keeps the bag in order.

Its change is the difference of the first rows before and after: no more than twice the limit, found by
walking over `offset + limit` rows, and not at all where nothing before their end was touched.
`PartitionReader`, which runs the plan over the whole bag, is the slow twin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.compiler import Top, top_of
from everfresh.local.interpret.atoms import Found
from everfresh.local.interpret.frame_columns import Cells, assemble
from everfresh.local.kernels.netting import netted
from everfresh.local.order.extremes import NOTHING
from everfresh.local.order.followers import TopRows
from everfresh.local.order.ranking import SortKey
from everfresh.local.relations.partitions import PartitionReader
from everfresh.local.relations.view_reader import Reader, RowSet
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import Before, EntryStore
from everfresh.program import Partitions

Ints = NDArray[np.int64]


def partition_reader(relation: Partitions[Any], store: EntryStore) -> Reader:
    """How a relation that is recomputed by partitions is read: by its plan, or by what keeps it in order."""
    top = top_of(relation)
    return PartitionReader(relation, store) if top is None else TopReader(relation, top, store)


class TopReader:
    """The rows of one such relation."""

    needs: tuple[int, ...] | None = None

    def __init__(self, relation: Partitions[Any], top: Top, store: EntryStore) -> None:
        self.relation, self.store, self._top = relation, store, top
        self.codec = Codec(relation.columns, store.codec.interner)
        self._columns = [store.columns[place] for place in top.columns]
        self.scanned = 0

    def touched(self, changes: Mapping[str, Ints]) -> Ints:
        """The one place that there is."""
        return np.zeros((0, 1), np.int64)

    def at(self, words: Ints, before: Before = NOTHING) -> RowSet:
        """The rows, whatever `words` says."""
        return self.all(before)

    def all(self, before: Before = NOTHING) -> RowSet:
        """All rows."""
        store, first = self.store, self.store.follower(("top", self._top), self._follower)
        seen = first.visited
        if store.target.name in before:
            rows = first.rows_by(lambda slots: store.entries(slots, before).n)
        else:
            rows = first.rows()
        self.scanned += first.visited - seen
        cells = [store.cells(column, rows.slots) for column in self._columns]
        words, able = assemble(self.codec, cells, len(rows.slots))
        if able is not None:
            raise ValueError(f"a column of '{self.relation.name}' that is never NULL is")
        return RowSet(self.codec, *netted(words, rows.counts))

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int], before: Before) -> Found:
        """All rows, found by the bound columns: a relation of this kind has no keys to read it at."""
        return self.all(before).atom().join(bound, rows, want)

    def _follower(self) -> TopRows:
        store, top = self.store, self._top
        keys = [SortKey(store.columns[place].name, *how) for place, *how in top.keys]
        return TopRows(store.pool, store.codec, keys, top.limit, top.offset, store.ranks)
