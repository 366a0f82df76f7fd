"""The steps of a batch (`everfresh.program.schedule`), taken on tables and maps.

`Stepper` is what a step does, wherever it is taken: statements are evaluated, compiled or interpreted, a
table or a map changes, a unit is stepped; what was done is in a journal. `Steps` takes those of a batch of
the local engine, round by round, as far as there is something to do. On a worker the instructions of a block
say which come next (`everfresh.distributed.worker.execute`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.errors import EverfreshError
from everfresh.local.batch.journal import Journal
from everfresh.local.batch.linked_programs import (
    Group,
    LinkedRelation,
    Prepared,
    StatementNames,
    Wiring,
    run_prepared,
)
from everfresh.local.interpret.atoms import Rows, TableRows
from everfresh.local.interpret.interpreter import PoolDelta, joined_deltas
from everfresh.local.measured import ADD, STEP, Key, Measured
from everfresh.local.native.manager import Form
from everfresh.local.native.runtime.runner import Outcome
from everfresh.local.native.templates import Template
from everfresh.local.phases import UNTIMED, Untimed
from everfresh.local.relations.view_reader import RowSet
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.map_store import MapStore
from everfresh.local.store.pool import Touched
from everfresh.local.store.table import Net
from everfresh.local.workers import Workers

Made = list[tuple[EntryStore, PoolDelta]]
"""What statements make, by the map that it is for."""
Pending = dict[str, list[PoolDelta]]
"""What is to be added to maps under units, by map."""
ALONE = Workers()


class Stepper:
    """Takes steps, and notes in a journal what was done."""

    def __init__(
        self,
        wiring: Wiring,
        journal: Journal,
        phases: Untimed = UNTIMED,
        breathe: Callable[[], None] = lambda: None,
        workers: Workers = ALONE,
        at_work: list[Any] | None = None,
        measured: Measured | None = None,
    ) -> None:
        self._measured = measured
        self._wiring, self.journal, self._phases = wiring, journal, phases
        self._workers, self._alone = workers, True
        self._breathe = breathe
        """Called wherever what is done and the journal agree, so that others may read."""
        self._before: dict[str, Touched] = {}
        """What has changed in this round under the units that were stepped: some read it as it was before."""
        self._pending: Pending = {}
        """What was made in this round for maps under units that were not stepped yet."""
        self._at_work: list[Any] = [] if at_work is None else at_work
        """Tables and maps that are being changed: what an exception finds here is in no journal yet."""

    # -- statements --------------------------------------------------------------------------------

    def _evaluate(self, statements: Sequence[Prepared], forms: Sequence[Form], change: Rows, at: int) -> Made:
        """What statements on one relation make of its change, `at` the number of its unit: by the compiled
        forms that were chosen (`native.manager`), by the interpreter what these do not cover, or cannot."""
        if not forms:
            return self._interpret(statements, change, at)
        covered = forms[0].covered if len(forms) == 1 else frozenset().union(*(f.covered for f in forms))
        made: Made = []
        if len(covered) < len(statements):  # before any form changes a map
            made += self._interpret([s for i, s in enumerate(statements) if i not in covered], change, at)
        journal, seen, at_work = self.journal, self.journal.visited, self._at_work
        for form in forms:
            runner = form.runner
            assert runner is not None
            at_work.append(form)
            since = 0.0 if self._measured is None else perf_counter()
            outcome = runner.run(change, self._before)
            if outcome is None:
                at_work.pop()
                form.bad += 1
                made += self._interpret([statements[i] for i in sorted(form.covered)], change, at)
                continue
            for store, touched in outcome.touched:
                journal.of_map(store, touched)
            at_work.pop()
            if self._measured is not None:
                self._measured.share(perf_counter() - since, len(change), _costs(outcome))
            for statement, visited in outcome.visited:
                key = statement.view, statement.base, statement.index
                seen[key] = seen.get(key, 0) + visited
            made += outcome.deltas
        return made

    def _interpret(self, statements: Sequence[Prepared], change: Rows, at: int) -> Made:
        made = []
        for statement in statements:
            if self._alone:
                self._breathe()
            names = self._names(statement, change, at)
            since = 0.0 if self._measured is None else perf_counter()
            try:
                made.append((statement.store, run_prepared(statement, names)))
            except EverfreshError as error:
                place = f"view '{statement.view}'"
                row = getattr(error, "row", None)
                if row is not None and statement.base in self._wiring.tables:
                    shown = change.codec.decode(change.words(np.array([row]))).to_pylist()[0]
                    place += f", row {shown}"
                raise error.at(place) from error
            if self._measured is not None:
                key, spent = (statement.view, statement.base, statement.index), perf_counter() - since
                seen, rows = names.visited, len(made[-1][1])
                self._measured.add(key, spent, rows=len(change), visited=seen, made=rows)
            self._count(statement.view, statement.base, statement.index, names.visited)
        return made

    def _names(self, statement: Prepared, change: Rows, at: int) -> StatementNames:
        """What the atoms of a statement stand for."""
        return StatementNames(self._wiring, statement.view, {statement.base: change}, at, self._before)

    def _count(self, view: str, base: str, index: int, visited: int) -> None:
        key, seen = (view, base, index), self.journal.visited
        seen[key] = seen.get(key, 0) + visited

    # -- changes -----------------------------------------------------------------------------------

    def _change(self, table: TableRows, net: Net, phases: Untimed = UNTIMED) -> None:
        """A table changes."""
        self._at_work.append(table)
        self.journal.of_table(table, net, table.apply(net, phases))
        self._at_work.pop()

    def _add(self, store: EntryStore, delta: PoolDelta) -> Touched:
        """A map changes."""
        since = 0.0 if self._measured is None else perf_counter()
        self._at_work.append(store)
        touched = store.add_words(delta.words, delta.values)
        self.journal.of_map(store, touched)
        self._at_work.pop()
        if self._measured is not None:
            name, rows = store.target.name, len(delta)
            self._measured.add(("", name, ADD), perf_counter() - since, rows=rows, made=len(touched.slots))
        return touched

    def _step(self, unit: LinkedRelation) -> RowSet | None:
        """A unit takes its step: what is pending for it is added to its maps. The difference of its rows at
        the touched keys; None if nothing has come to its maps."""
        since = 0.0 if self._measured is None else perf_counter()
        before, pending, stores = self._before, self._pending, self._wiring.stores
        added = {name: joined_deltas(pending.pop(name)) for name in unit.maps if name in pending}
        if not added and before.keys().isdisjoint(unit.maps):
            return None
        if added:
            self._at_work.append(unit)
        self._phases.to("relations")
        words = {n: stores(n).words(before[n].slots) for n in unit.maps if n in before}
        words.update({name: delta.words for name, delta in added.items()})
        reader = unit.reader
        scanned = reader.scanned
        try:
            keys = reader.touched(words)
            old = reader.at(keys, before)
            self._phases.to("maps")
            for name, delta in added.items():
                before[name] = self._add(stores(name), delta)
            self._phases.to("relations")
            change = reader.at(keys).minus(old)
        except EverfreshError as error:
            raise error.at(f"view '{unit.view}'") from error
        if added:
            self._at_work.pop()
        seen = keys.shape[1] + reader.scanned - scanned
        if self._measured is not None:
            key, spent = (unit.view, unit.name, STEP), perf_counter() - since
            self._measured.add(key, spent, rows=keys.shape[1], visited=seen, made=len(change))
        self._count(unit.view, unit.name, -1, seen)
        if unit.is_view and len(change):
            self.journal.changes.setdefault(unit.view, []).append(change)
        return change


def _costs(outcome: Outcome) -> Iterator[tuple[Key, int, int]]:
    """Of what a compiled function ran: the statement, what it visited and what it made."""
    made = {id(store): len(delta) for store, delta in outcome.deltas}
    made.update((id(store), len(touched.slots)) for store, touched in outcome.touched)
    for statement, visited in outcome.visited:
        key = statement.view, statement.base, statement.index
        yield key, visited, made.get(id(statement.store), 0)


class Steps(Stepper):
    """The steps of one batch of the local engine."""

    def table(self, name: str, net: Net) -> None:
        """The round of a table: it changes, and all that is maintained from it."""
        table = self._wiring.tables[name]
        change = Rows(table.codec, net.words, net.weights)
        made = self._statements(self._wiring.statements(name), change, -1)
        self._phases.to("tables")
        if self._workers.pays(len(net)):
            self._distribute(made, [partial(self._change, table, net)])
        else:
            self._change(table, net, self._phases)
            self._distribute(made)
        self._units(name)

    def view(self, name: str, change: RowSet, touched: Touched) -> None:
        """The round of a re-evaluated view that has changed.

        Its map holds its new rows already; statements on its change read it as it was before.
        """
        self._before = {self._wiring.maps[name].target.name: touched}
        made = self._statements(self._wiring.statements(name), change.atom(), -1)
        self._before = {}
        self._distribute(made)
        self._units(name)

    def replaced(self, store: MapStore, rows: pa.Table) -> Touched:
        """A re-evaluated view has other rows."""
        self._at_work.append(store)
        touched = store.replace(rows)
        self.journal.of_map(store, touched)
        self._at_work.pop()
        return touched

    def _units(self, base: str) -> None:
        if not self._pending:
            return
        for unit in self._wiring.reached(base):
            change = self._step(unit)
            if change is None:
                continue
            self._breathe()
            if len(change):
                statements = self._wiring.statements(unit.name, unit.scope)
                self._distribute(self._statements(statements, change.atom(), unit.number))
        assert not self._pending, f"pending for no relation: {sorted(self._pending)}"
        self._before = {}

    def _distribute(self, made: Made, also: Sequence[Callable[[], None]] = ()) -> None:
        """Add what was made to its maps, or keep it for the units over them; `also` is done beside that."""
        if not also:
            self._phases.to("maps")
            if not made:
                return
        adds: list[Callable[[], object]] = [*also]
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

    def _statements(self, statements: list[Prepared], change: Rows, at: int) -> Made:
        self._phases.to("statements")
        native, pays = self._wiring.native, self._workers.pays(len(change))
        if pays and native is not None:
            pays = not native.covers(self._wiring.together(statements), at, len(change))
        groups = self._wiring.apart(statements, at) if pays else ()
        if len(groups) < 2:
            return self._made(statements, change, at)
        self._alone = False
        try:
            made = self._workers.run([partial(self._made, group, change.twin(), at) for group in groups])
        finally:
            self._alone = True
        return [one for group in made for one in group]

    def _made(self, statements: list[Prepared], change: Rows, at: int) -> Made:
        native = self._wiring.native
        if native is None:
            return self._interpret(statements, change, at)
        made: Made = []
        groups: Sequence[Group] = self._wiring.together(statements)
        if self._alone:
            templates, groups = native.alike(groups, at, len(change))
            for template in templates:
                groups = [*groups, *self._template(template, change)]
        for group in groups:
            forms = native.of(group, change.codec, at, len(change), self._alone)
            made += self._evaluate(group.statements, forms, change, at)
        return made

    def _template(self, template: Template, change: Rows) -> list[Group]:
        """Run views of one template; those that have to run by themselves."""
        self._breathe()
        self._at_work.append(template)
        since = 0.0 if self._measured is None else perf_counter()
        ran = template.run(change)
        for alike in ran.changes:
            self.journal.of_maps(alike)
        self._at_work.pop()
        if self._measured is not None:
            costs = (
                (key, count, 0)
                for statements, visited in ran.visited
                for key, count in zip(statements, visited, strict=True)
            )
            self._measured.share(perf_counter() - since, len(change), costs)
        for statements, visited in ran.visited:
            for (view, base, index), count in zip(statements, visited, strict=True):
                if count:
                    self._count(view, base, index, count)
        return ran.left
