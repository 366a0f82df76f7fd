"""A batch, step by step: one relation after the other, in the order that `everfresh.program.ir` sets.

For a changed table: all statements on it are evaluated, then added to their maps, except to maps that a unit
(a derived relation, a view that others read) is read off; those stay pending until the unit's step, which
takes its rows before and after at the touched keys, and goes on with the difference as the next change.
Everything that was done is on a list, to be made final or taken back together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.errors import EverfreshError
from everfresh.local.atoms import Rows, TableRows
from everfresh.local.entries import EntryStore
from everfresh.local.joined import PoolDelta, joined_deltas
from everfresh.local.mapstore import MapStore
from everfresh.local.native.manager import Form
from everfresh.local.phases import UNTIMED, Untimed
from everfresh.local.pool import Touched
from everfresh.local.reading import RowSet
from everfresh.local.table import Net
from everfresh.local.wiring import Names, Prepared, Unit, Wiring, run_prepared
from everfresh.local.workers import Workers

Visited = dict[tuple[str, str, int], int]
"""Entries visited by (view, relation of the trigger, statement); -1 stands for a relation's own step."""


ALONE = Workers()


class Steps:
    """What one batch does to tables and maps."""

    def __init__(
        self,
        wiring: Wiring,
        visited: Visited,
        phases: Untimed = UNTIMED,
        breathe: Callable[[], None] = lambda: None,
        workers: Workers = ALONE,
        at_work: list[Any] | None = None,
    ) -> None:
        self._wiring, self._visited, self._phases = wiring, visited, phases
        self._workers, self._alone = workers, True
        self._breathe = breathe
        """Called wherever what is done and `done` agree, so that others may read."""
        self.touched: dict[str, list[Touched]] = {}
        """The changes of maps that no unit is read off."""
        self.changes: dict[str, list[RowSet]] = {}
        """The changes of views that are units."""
        self._pending: dict[str, list[PoolDelta]] = {}
        self._applied: dict[str, Touched] = {}
        self.done: list[tuple[Any, Any]] = []
        """Tables and maps with what was done to them, as their `commit` and `rollback` take it."""
        self.nets: dict[str, list[Net]] = {}
        """The changes of tables that were done."""
        self._at_work: list[Any] = [] if at_work is None else at_work
        """Tables and maps that are being changed: what an exception finds here is on no list yet."""

    def rollback(self) -> None:
        """Take everything back."""
        for store, what in reversed(self.done):
            store.rollback(what)

    def commit(self) -> None:
        """Make everything final."""
        for store, what in self.done:
            store.commit(what)

    def did(self, store: Any, what: Any) -> None:
        """Remember a change of a table or map."""
        self.done.append((store, what))

    # -- steps -------------------------------------------------------------------------------------

    def table(self, name: str, net: Net) -> None:
        """A table changes, and all that is maintained from it."""
        table = self._wiring.tables[name]
        change = Rows(table.codec, net.words, net.weights)
        made = self._evaluate(self._wiring.statements(name), change, -1)
        self._phases.to("tables")
        if self._workers.pays(len(net)):
            self._distribute(made, [partial(self._store, table, net, UNTIMED)])
        else:
            self._store(table, net, self._phases)
            self._distribute(made)
        self._units()

    def _store(self, table: TableRows, net: Net, phases: Untimed) -> None:
        self._at_work.append(table)
        self.did(table, table.apply(net, phases))
        self.nets.setdefault(table.table.schema.name, []).append(net)
        self._at_work.pop()

    def view(self, name: str, change: RowSet, touched: Touched) -> None:
        """A re-evaluated view has changed, and all that is maintained from it.

        Its map holds its new rows already; statements on its change read it as it was before.
        """
        self._applied = {self._wiring.maps[name].target.name: touched}
        made = self._evaluate(self._wiring.statements(name), change.atom(), -1)
        self._applied = {}
        self._distribute(made)
        self._units()

    def _units(self) -> None:
        if not self._pending and not self._applied:
            return
        for unit in self._wiring.units:
            if any(name in self._pending or name in self._applied for name in unit.maps):
                self._unit(unit)
        assert not self._pending, f"pending for no relation: {sorted(self._pending)}"
        self._applied = {}

    def _unit(self, unit: Unit) -> None:
        pending = {n: joined_deltas(self._pending.pop(n)) for n in unit.maps if n in self._pending}
        if pending:
            self._at_work.append(unit)
        change, visited = unit_change(
            unit, self._wiring.stores, pending, self._applied, self.did, self._phases
        )
        if pending:
            self._at_work.pop()
        self._count(unit.view, unit.name, -1, visited)
        self._breathe()
        if not len(change):
            return
        if unit.is_view:
            self.changes.setdefault(unit.view, []).append(change)
        statements = self._wiring.statements(unit.name, None if unit.is_view else unit.view)
        self._distribute(self._evaluate(statements, change.atom(), unit.number))

    def _distribute(
        self, made: list[tuple[EntryStore, PoolDelta]], also: Sequence[Callable[[], None]] = ()
    ) -> None:
        """Add what was made to its maps, or keep it for the units over them; `also` is done beside that."""
        if not also:
            self._phases.to("maps")
            if not made:
                return
        adds = [*also]
        for store, delta in made:
            name = store.target.name
            if name not in self._wiring.under:
                adds.append(partial(self._add, store, delta))
            elif len(delta):
                self._pending.setdefault(name, []).append(delta)
        if also or self._workers.pays(sum(len(delta) for _, delta in made)):
            self._workers.run(adds)  # no map has two
            return
        for add in adds:
            add()
            self._breathe()

    def _add(self, store: EntryStore, delta: PoolDelta) -> None:
        self._at_work.append(store)
        touched = store.add_words(delta.words, delta.values)
        self.touched.setdefault(store.target.name, []).append(touched)
        self.did(store, touched)
        self._at_work.pop()

    def replaced(self, store: MapStore, rows: pa.Table) -> Touched:
        """A re-evaluated view has other rows."""
        self._at_work.append(store)
        touched = store.replace(rows)
        self.did(store, touched)
        self._at_work.pop()
        return touched

    # -- statements --------------------------------------------------------------------------------

    def _evaluate(
        self, statements: list[Prepared], change: Rows, at: int
    ) -> list[tuple[EntryStore, PoolDelta]]:
        self._phases.to("statements")
        groups = self._wiring.apart(statements, at) if self._workers.pays(len(change)) else ()
        if len(groups) < 2:
            return self._made(statements, change, at)
        self._alone = False
        try:
            made = self._workers.run([partial(self._made, group, change.twin(), at) for group in groups])
        finally:
            self._alone = True
        return [one for group in made for one in group]

    def _made(self, statements: list[Prepared], change: Rows, at: int) -> list[tuple[EntryStore, PoolDelta]]:
        """What statements make of a change."""
        native = self._wiring.native
        if native is None:
            return self._interpret(statements, change, at)
        made = []
        for group in self._wiring.together(statements):
            forms, some = native.of(group, change.codec, at, len(change), self._alone), group.statements
            covered: Collection[int] = frozenset().union(*(form.covered for form in forms))
            if len(covered) < len(some):
                made += self._interpret([s for i, s in enumerate(some) if i not in covered], change, at)
            for form in forms:
                made += self._native(form, some, change, at)
        return made

    def _native(
        self, form: Form, statements: list[Prepared], change: Rows, at: int
    ) -> list[tuple[EntryStore, PoolDelta]]:
        """Run what is compiled; the interpreter, if it says that it cannot."""
        runner = form.runner
        assert runner is not None
        self._at_work.append(form)
        outcome = runner.run(change, self._applied)
        if outcome is None:
            self._at_work.pop()
            form.bad += 1
            return self._interpret([statements[i] for i in sorted(form.covered)], change, at)
        for store, touched in outcome.touched:
            if store.target.name not in self._wiring.under:
                self.touched.setdefault(store.target.name, []).append(touched)
            self.did(store, touched)
        self._at_work.pop()
        for statement, visited in outcome.visited:
            self._count(statement.view, statement.base, statement.index, visited)
        return outcome.deltas

    def _interpret(
        self, statements: list[Prepared], change: Rows, at: int
    ) -> list[tuple[EntryStore, PoolDelta]]:
        result = []
        for statement in statements:
            if self._alone:
                self._breathe()
            names = Names(self._wiring, statement.view, {statement.base: change}, at, self._applied)
            try:
                result.append((statement.store, run_prepared(statement, names)))
            except EverfreshError as error:
                place = f"view '{statement.view}'"
                row = getattr(error, "row", None)
                if row is not None and statement.base in self._wiring.tables:
                    shown = change.codec.decode(change.words(np.array([row]))).to_pylist()[0]
                    place += f", row {shown}"
                raise error.at(place) from error
            self._count(statement.view, statement.base, statement.index, names.visited)
        return result

    def _count(self, view: str, base: str, index: int, visited: int) -> None:
        key = view, base, index
        self._visited[key] = self._visited.get(key, 0) + visited


def unit_change(
    unit: Unit,
    stores: Callable[[str], EntryStore],
    pending: Mapping[str, PoolDelta],
    applied: dict[str, Touched],
    did: Callable[[EntryStore, Touched], None],
    phases: Untimed = UNTIMED,
) -> tuple[RowSet, int]:
    """A unit's step: what is pending is added to its maps. The difference of its rows at the touched keys,
    and how many entries were visited.

    `applied` are the changes of maps in this round; those of the step are put there, and told to `did`.
    """
    phases.to("relations")
    words = {n: stores(n).words(applied[n].slots) for n in unit.maps if n in applied}
    words.update({n: delta.words for n, delta in pending.items()})
    scanned = unit.reader.scanned
    try:
        keys = unit.reader.touched(words)
        before = unit.reader.at(keys, applied)
        phases.to("maps")
        for name, delta in pending.items():
            touched = stores(name).add_words(delta.words, delta.values)
            applied[name] = touched
            did(stores(name), touched)
        phases.to("relations")
        after = unit.reader.at(keys)
    except EverfreshError as error:
        raise error.at(f"view '{unit.view}'") from error
    return after.minus(before), keys.shape[1] + unit.reader.scanned - scanned
