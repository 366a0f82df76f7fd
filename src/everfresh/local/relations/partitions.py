"""Relations that are recomputed partition by partition: windows, ORDER BY with LIMIT.

The map is a bag of rows; those that agree on its first keys are a partition. A change of the map touches some
partitions: their rows before and after are given to the relation's plan, and the difference is its change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.delta.bags import WEIGHT, expand
from everfresh.local import adhoc
from everfresh.local.interpret.atoms import Found
from everfresh.local.interpret.frame_columns import Cells
from everfresh.local.kernels.netting import netted
from everfresh.local.order.extremes import NOTHING
from everfresh.local.relations.view_reader import RowSet
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import Before, EntryStore
from everfresh.program import Partitions
from everfresh.sql.logical import plan as p

Ints = NDArray[np.int64]


class PartitionReader:
    """The rows of one such relation."""

    needs: tuple[int, ...] | None = None

    def __init__(self, relation: Partitions[p.Plan], store: EntryStore) -> None:
        self.relation, self.store = relation, store
        self.codec = Codec(relation.columns, store.codec.interner)
        self._prefix = tuple(c.name for c in store.columns[: relation.prefix])
        self.scanned = 0
        self._part = Codec(store.columns[: relation.prefix], store.codec.interner)

    def touched(self, changes: Mapping[str, Ints]) -> Ints:
        """The partitions that a change of the map, given by its keys, touches."""
        words = self.store.codec.project(changes[self.relation.map], self._part)
        return netted(words, np.ones(words.shape[1], np.int64))[0]

    def at(self, words: Ints, before: Before = NOTHING) -> RowSet:
        """The rows of the partitions `words`, each given once."""
        if self._prefix:
            _, slots = self.store.slice(self._prefix).probe(words)
        else:
            slots = self.store.slots()
        return self._rows(slots, before)

    def all(self, before: Before = NOTHING) -> RowSet:
        """All rows."""
        return self._rows(self.store.slots(), before)

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int], before: Before) -> Found:
        """All rows, found by the bound columns: a relation of this kind has no keys to read it at."""
        return self.all(before).atom().join(bound, rows, want)

    def _rows(self, slots: Ints, before: Before) -> RowSet:
        self.scanned += len(slots)
        counts = self.store.entries(slots, before).n
        there = counts != 0
        table = self.store.codec.decode(self.store.words(slots[there]))
        bag = expand(table.append_column(WEIGHT, pa.array(counts[there], pa.int64())))
        rows = adhoc.execute(self.relation.expr, lambda _: bag)
        columns = [c.name for c in self.relation.columns]
        words = self.codec.encode(rows.rename_columns(columns))
        return RowSet(self.codec, *netted(words, np.ones(rows.num_rows, np.int64)))
