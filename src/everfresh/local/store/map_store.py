"""A view's map in a pool: adding what statements compute, and publishing the view's rows and its own change.

The view's change in a batch is, for each touched entry, minus its row before and plus its row after: what
`changes()` returns and what a view over this view would read as its delta. `change` captures it, `published`
is the same at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.compiler import CompiledView
from everfresh.delta.bags import WEIGHT
from everfresh.local.interpret.frame_columns import Cells, assemble, column_cells
from everfresh.local.kernels.netting import netted_rows
from everfresh.local.order.extremes import NOTHING
from everfresh.local.relations.publishing import Change, Promise, ValueLimits, shown
from everfresh.local.relations.view_reader import RowSet, ViewReader, added
from everfresh.local.store.codec import Codec
from everfresh.local.store.components import pieces
from everfresh.local.store.entries import Before, EntryStore, joined_values
from everfresh.local.store.pool import Pool, Touched, Values
from everfresh.local.store.strings import Interner
from everfresh.types import Column, arrow_schema, no_rows

Ints = NDArray[np.int64]


class MapStore(EntryStore):
    """The map of one view (or of one partition of it)."""

    def __init__(self, compiled: CompiledView, interner: Interner, pool: Pool | None = None) -> None:
        super().__init__(compiled.map, interner, pool)
        self.compiled = compiled
        self.view = compiled.view
        self._reader: ViewReader | None = None
        self._promise = Promise(self.view, self.layout)

    def beside(self, stores: Callable[[str], EntryStore]) -> None:
        """Read the sides of the view from these maps."""
        self._reader = ViewReader(self.view, self, stores)

    @property
    def reader(self) -> ViewReader:
        """How the rows of the view are read."""
        if self._reader is None:
            self.beside({self.view.map: self}.__getitem__)
        assert self._reader is not None
        return self._reader

    # -- change ------------------------------------------------------------------------------------

    def replace(self, rows: pa.Table) -> Touched:
        """Make the rows of a re-evaluated view `rows`; `commit` or `rollback` must follow."""
        slots = self.pool.live()
        new = self.codec.encode(rows)
        values = Values.zeros(self.layout, len(slots) + rows.num_rows)
        values.n[: len(slots)] = -self.pool.gather(slots).n
        values.n[len(slots) :] = 1
        return self.add_words(np.concatenate([self.pool.keys_at(slots), new], axis=1), values)

    def change(self, touched: Touched) -> Change:
        """The change of the view's rows that a change of its map made: at once only where it may fail."""
        old = touched.old
        words, new = self.pool.entries_at(touched.slots)
        change = Change(lambda: self._published(words, old, new), [(self.codec, words)])
        sure = self._promise.holds(new) and shown(self.codec, words)
        return change if sure else Change.of(change.table)

    def change_of(self, parts: Sequence[RowSet]) -> Change:
        """The change of the view's rows, which are known; made at once only where that may fail."""
        change = Change(partial(self.table_of, parts), [(rows.codec, rows.words) for rows in parts])
        return change if all(shown(rows.codec, rows.words) for rows in parts) else Change.of(change.table)

    @property
    def limits(self) -> ValueLimits | None:
        """What sums have to be inside of, if nothing else decides whether rows can be made later."""
        wide = any(column.type.name == "HUGEINT" for column in self.columns)
        return None if wide else self._promise.limits

    def published(self, touched: Touched) -> pa.Table:
        """The change of the view's rows that a change of its map made, with `_weight`."""
        return self._published(self.pool.keys_at(touched.slots), touched.old, self.pool.gather(touched.slots))

    def _published(self, words: Ints, old: Values, new: Values) -> pa.Table:
        changed = (
            (new.n != old.n) | (new.ints != old.ints).any(axis=0) | (new.floats != old.floats).any(axis=0)
        )
        if not changed.any():
            return self.no_change()
        words = np.ascontiguousarray(words[:, changed])
        count = words.shape[1]
        both = joined_values(old.take(changed), new.take(changed))
        strings = Interner()  # what is computed to be published is no part of the state
        index, columns, weights = self.reader.columns(np.tile(words, 2), both, strings=strings)
        before = np.arange(2 * count) < count if index is None else index < count
        made, _ = assemble(
            Codec([Column(c.name, c.type) for c in self.view.columns], strings), columns, len(weights)
        )
        first, total = netted_rows(made, np.where(before, -weights, weights))
        return self._table([cells.take(first) for cells in columns], total)

    def no_change(self) -> pa.Table:
        """The empty change."""
        return no_rows(weighted_schema(self.view.columns))

    # -- reading -----------------------------------------------------------------------------------

    def rows(self, before: Before = NOTHING) -> pa.Table:
        """All rows of the view with their multiplicity as `_weight`; without the changes in `before`."""
        return self._table(*self.reader.columns(*self.reader.every(before), before)[1:])

    def count(self) -> int:
        """How many rows the view has. All are made, some at a time: what cannot be shown is found."""
        if self.view.always and not self.columns:
            return int(self.rows().num_rows)
        parts = pieces(self.slots())
        return sum(self.rows_of(self.words(part), self.entries(part, NOTHING)).num_rows for part in parts)

    def rows_of(self, words: Ints, values: Values) -> pa.Table:
        """The rows of some entries: outputs evaluated, HAVING applied; entries with n = 0 have none."""
        return self._table(*self.reader.columns(words, values)[1:])

    def table_of(self, parts: Sequence[RowSet]) -> pa.Table:
        """Rows of the view, netted, with their weights as `_weight`."""
        rows = added(parts)
        return self._table(
            [column_cells(rows.codec, c, rows.words) for c in rows.codec.columns], rows.weights
        )

    def _table(self, columns: Sequence[Cells], weights: Ints) -> pa.Table:
        arrays = [cells.to_arrow() for cells in columns]
        return pa.Table.from_arrays(
            [*arrays, pa.array(weights, pa.int64())], schema=weighted_schema(self.view.columns)
        )


def weighted_schema(columns: Iterable[Column]) -> pa.Schema:
    """The schema of rows with `_weight`."""
    return arrow_schema(tuple(columns)).append(pa.field(WEIGHT, pa.int64(), nullable=False))
