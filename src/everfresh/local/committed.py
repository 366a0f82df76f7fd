"""What readers see: the last committed epoch, whatever a batch or a DDL statement is doing meanwhile.

A running batch changes tables and maps in place and keeps their old values, to take them back should it fail
(`Journal`). A reader that has its turn (`Latch`) puts these over what it finds. DDL replaces
tables and maps and never changes one, so those of the last epoch are simply still there.

Invariant: everything that one call returns is of one epoch, the last one that was committed when it had its
turn. What a call makes on its way (indexes, the order of strings) is trusted only if the call came to its
end, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.compiler import Catalog
from everfresh.delta.bags import WEIGHT, difference, expand
from everfresh.epochs.history import History
from everfresh.errors import Code, EverfreshError
from everfresh.local import adhoc
from everfresh.local.batch.journal import before
from everfresh.local.kernels.netting import netted_rows
from everfresh.local.latch import Turn
from everfresh.local.relations.alike import Changes
from everfresh.local.relations.publishing import Change
from everfresh.local.state import LocalState, Shaken
from everfresh.local.store.map_store import MapStore, weighted_schema
from everfresh.local.store.strings import Alive
from everfresh.local.store.table import Net, Table
from everfresh.options import Options
from everfresh.program import Stale, check_epoch
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.plan import scans
from everfresh.state.interrupts import HeldBack

T = TypeVar("T")
Ints = NDArray[np.int64]
_HISTORY = "history/"
NOTHING: Mapping[str, pa.Table] = {}


class Committed:
    """Tables and views at the last committed epoch, and the changes that led there."""

    def __init__(self, state: LocalState, options: Options, epoch: int = 0) -> None:
        self._history = History(options.history, lambda make: Change(make, ()), epoch, Changes)
        self.catalog: Catalog = state.catalog
        self._state = state
        self.show(epoch, state)

    def show(self, epoch: int, state: LocalState, changes: Changes | None = None) -> None:
        """Move to an epoch, with the changes of views that made it; the caller holds the latch."""
        self.epoch = epoch
        if self.catalog is not state.catalog:
            self._history.prune(state.created)
        self.catalog = state.catalog
        self._tables, self._maps, self._created = state.tables, state.maps, state.created
        self._beside = state.beside
        self._running = state.running
        state.running.clear()
        state.past = self
        if changes is not None:
            self._history.add(epoch, changes)

    def mark(self, alive: Alive) -> None:
        """Say which strings the changes have that were not asked for yet."""
        for changes in self._history.epochs():
            assert isinstance(changes, Changes)
            changes.mark(alive)

    def restore(self, state: LocalState) -> None:
        """Give a state the tables and views that are shown: DDL was abandoned that had replaced some."""
        state.catalog, state.created = self.catalog, self._created
        state.tables, state.maps, state.beside = self._tables, self._maps, self._beside

    def _in_turn(self, look: Callable[..., T], *args: Any) -> T:
        """What `look` finds, with nobody else at work and signals held back."""
        state = self._state
        turn = Turn(state.latch)
        with HeldBack(), turn.lock:
            turn.come()
            if state.shaken or state.at_work:
                raise Shaken
            state.shaken = True
            try:
                found = look(*args)
            except EverfreshError:
                state.shaken = False
                raise
            state.shaken = False
        return found

    def make_changes(self) -> None:
        """Make the rows of all changes: what they are made from is not good any more when strings are
        renumbered."""
        for change in self._history:
            assert change.table is not None

    def reaches(self) -> int:
        """The earliest epoch that reads reach: as far as the options say, or an earlier handle kept."""
        return self._in_turn(self._oldest)

    def _oldest(self) -> int:
        return self._history.oldest(self.epoch)

    # -- snapshots -----------------------------------------------------------------------------------

    def to_sections(self) -> dict[str, bytes]:
        """The changes that are kept, as sections of a snapshot. Commit records have none: those after a
        snapshot are made again when they are replayed."""
        return self._history.to_sections(
            _HISTORY,
            lambda change: self._in_turn(lambda: change.table),  # readers make rows of changes too
        )

    def load(self, sections: Mapping[str, Any]) -> None:
        """The inverse of `to_sections`."""
        self._history.load(_HISTORY, sections)

    # -- rows ----------------------------------------------------------------------------------------

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of a table or view, now or at an earlier epoch."""
        return self._in_turn(self._read, name, at)

    def _read(self, name: str, at: int | None) -> pa.Table:
        if name in self._tables:
            if at is not None and at != self.epoch:
                raise EverfreshError(
                    Code.UNSUPPORTED, f"'{name}' is a table: earlier epochs are kept for views only"
                )
            return self._rows(name)
        self.catalog.expect_view(name)
        if at is None or at == self.epoch:
            return self._rows(name)
        check_epoch(name, at, max(self._oldest(), self._created[name]), self.epoch)
        return self._history.at(name, self._rows(name), at, self._created[name])

    def select(
        self, plan: p.Plan, bound: Catalog | None = None, others: Mapping[str, pa.Table] = NOTHING
    ) -> pa.Table:
        """The result of an ad hoc query, which may also read `others` by name; `Stale` if it was bound to a
        catalog that is gone."""
        rows = self._in_turn(self._scanned, plan, bound, others)
        if rows is None:
            raise Stale
        return adhoc.execute(plan, rows.__getitem__)

    def _scanned(
        self, plan: p.Plan, bound: Catalog | None, others: Mapping[str, pa.Table]
    ) -> dict[str, pa.Table] | None:
        if bound is not None and bound is not self.catalog:
            return None
        named = {scan.table for scan in scans(plan)}
        return {name: others[name] if name in others else self._rows(name) for name in named}

    def _rows(self, name: str) -> pa.Table:
        if name not in self._tables:
            return self._view_rows(self._maps[name])
        rows, counts = self._table_rows(self._tables[name])
        return expand(rows.append_column(WEIGHT, pa.array(counts)))

    def _view_rows(self, store: MapStore) -> pa.Table:
        rows = store.rows(before(self._running, store.view.maps))
        if (rows.column(WEIGHT).to_numpy() < 0).any():  # only trusted deletes can do that
            raise EverfreshError(
                Code.MISSING_ROW,
                f"view '{store.view.name}' has rows that were deleted more often than they came",
                hint="a table that is not retained trusts its deletes: send the rows that are missing",
            )
        return expand(rows)

    def _table_rows(self, table: Table) -> tuple[pa.Table, Ints]:
        nets = [change for journal in self._running for change in journal.nets.get(table.schema.name, ())]
        return rows_before(table, nets) if nets and table.schema.retained else table.rows()

    def verify(self, view: str) -> pa.Table:
        """The differences of a view from its recomputation: by the reference evaluator, or its plan run
        again. Nothing changes meanwhile."""
        state = self._state
        held = self._in_turn(lambda: expand(state.maps[view].rows()))
        return difference(state.recomputed(view), held)

    # -- the past ------------------------------------------------------------------------------------

    def changes(self, view: str, since: int | None) -> pa.Table:
        """The view's change of each epoch after `since`; of all that are kept if that is None."""
        return self._in_turn(self._changes, view, since)

    def _changes(self, view: str, since: int | None) -> pa.Table:
        self.catalog.expect_view(view)
        store = self._maps[view]
        return self._history.changes(
            view,
            since,
            self._created[view],
            self.epoch,
            lambda: self._view_rows(store),
            weighted_schema(store.view.columns),
        )


def rows_before(table: Table, nets: Sequence[Net]) -> tuple[pa.Table, Ints]:
    """The distinct rows of a table and their multiplicities before these changes were added to it."""
    pool, codec = table.pool, table.codec
    words = np.concatenate([change.words for change in nets], axis=1)
    compared = words.copy()
    for row in codec.kept_words:
        (compared[row],) = codec.texts.comparable(words[row])
    first, weights = netted_rows(compared, np.concatenate([change.weights for change in nets]))
    words = words.take(first, axis=1)
    slots = pool.find(np.ascontiguousarray(words[list(pool.key)]))
    here = (slots >= 0) & ~table.differ(words, pool.keys_at(slots))
    live = pool.live()
    n = np.zeros(int(live.max(initial=-1)) + 1, np.int64)
    n[live] = pool.gather(live).n
    n[slots[here]] -= weights[here]
    live = live[n[live] != 0]
    every = np.concatenate([pool.keys_at(live), words[:, ~here]], axis=1)
    return codec.decode(every), np.concatenate([n[live], -weights[~here]])
