"""One block on one worker (or on the driver): `(state, block, inputs) -> (outputs, journal)`.

The state is that of the local engine, holding the worker's part of every table and map, and statements run by
its code (`everfresh.local.batch.steps`): the instructions say which step comes next, on what. Nothing here
knows how blocks reach workers: no Spark, no globals, no files. What a block did can be taken back or made
final together (`Journal`).

A worker reads its own part of a map only where the placement makes that right; the one thing that would show
on the wrong worker is a relation with a row for every key, which answers there for its own keys only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.calculus import MapRef, Query, Rel
from everfresh.compiler import Ordered
from everfresh.distributed.plan.ir import Add, Block, Eval, Instruction, Keep, PlacedChange, Step, Temp
from everfresh.distributed.plan.placement import Placement, shown_columns
from everfresh.distributed.plan.tags import Dist
from everfresh.distributed.worker.native_blocks import as_before, led_by, owned, planned
from everfresh.distributed.worker.routing import owners
from everfresh.distributed.worker.wire import Held, entries_table, entries_values, kept
from everfresh.local.batch.journal import Journal
from everfresh.local.batch.linked_programs import Prepared, StatementNames
from everfresh.local.batch.steps import Made, Stepper
from everfresh.local.interpret.atoms import Atom, Found, Rows
from everfresh.local.interpret.fanout import fanout
from everfresh.local.interpret.frame_columns import Cells
from everfresh.local.interpret.interpreter import PoolDelta
from everfresh.local.interpret.join_order import ordered
from everfresh.local.native.manager import OFF, Form, Planned, chosen, pays
from everfresh.local.relations.view_reader import Reading, RowSet, ViewReader
from everfresh.local.state import LocalState
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.pool import Layout, Touched, Values
from everfresh.local.store.table import Net
from everfresh.program import MapDef, View

Ints = NDArray[np.int64]
Handed = Mapping[tuple[int, str], pa.Table]
"""The entries of maps that steps of a round have changed, as they were before it: by round and map."""
_GROWN, _FEW = 4, 1000  # maps that have grown so many times, from so many entries on, are joined anew


@dataclass(slots=True)
class Ready:
    """A statement ready to run, the maps that it reads, and how many entries they had when its joins were
    ordered."""

    prepared: Prepared
    maps: tuple[EntryStore, ...]
    entries: int
    lead: str | None
    """The change that it runs on, if it has a compiled form at all."""
    given: str | None
    """The change of a table that it reads, if that is one: its rows are what an error may be about."""
    planned: Planned | None = None
    """How it runs compiled, once that has been asked for."""

    @property
    def outgrown(self) -> bool:
        """Whether its maps have grown so much that another order may be better."""
        return sum(len(store.pool) for store in self.maps) > _GROWN * (self.entries + _FEW)


@dataclass
class Site:
    """A place where blocks run: a worker with its part of the state, or (number -1) the driver."""

    state: LocalState
    number: int
    workers: int
    placement: Placement
    terms: dict[object, Ready] = field(default_factory=dict)
    """Statements ready to run, of this catalog and placement."""
    compile: str = OFF
    """Whether they become native code: `background`, `now` or `off`."""
    work: dict[int, int] = field(default_factory=dict)
    """Rows that came so far for statements, and what batches cost beside them: by the hash of what makes a
    statement what it is in all programs. Two that share one are compiled a little sooner."""

    def owns(self, tag: Dist, columns: Sequence[Cells]) -> NDArray[np.bool_]:
        """Which rows belong here, by the values of a tag's columns."""
        rows = len(columns[0].vector.values) if columns else 1
        mine: NDArray[np.bool_] = owners([c.vector for c in columns], rows, self.workers) == self.number
        return mine


def run_block(
    site: Site, block: Block, inputs: Mapping[str, Held], before: Handed | None = None
) -> tuple[dict[str, Held], Journal]:
    """Run a block from its inputs; its outputs, and what it did. If it raises, nothing was done.

    `before` is what blocks before it on this site have handed on in their journals.
    """
    run = _Run(site, block, inputs, before or {})
    try:
        for instruction in block.instructions:
            run.one(instruction)
    except BaseException:
        run.journal.rollback()
        raise
    run.leave()
    return {t.name: run.temps[t.name] for t in block.outputs}, run.journal


class _Run(Stepper):
    """The steps that the instructions of a block say, on a worker's part of the state."""

    def __init__(self, site: Site, block: Block, inputs: Mapping[str, Held], before: Handed) -> None:
        super().__init__(site.state.wiring, Journal())
        self.site, self.block = site, block
        self.temps: dict[str, Held] = {t.name: inputs[t.name] for t in block.inputs}
        self.rounds: dict[int, dict[str, Touched]] = {}
        """What has changed under units, by round."""
        nothing = np.zeros((0, 0), np.int64), np.zeros(0, np.int64)
        self._none = Rows(Codec((), site.state.interner), *nothing)
        """The change that a statement reads which reads maps alone."""
        for (round_, name), table in before.items():
            if round_ in block.rounds:
                self._round(round_)[name] = self._restored(self._wiring.stores(name), table)

    def one(self, instruction: Instruction) -> None:
        match instruction:
            case Eval():
                self.temps[instruction.target.name] = self._eval(instruction)
            case Keep(target, source):
                held = self.temps[source.name]
                self.temps[target.name] = kept(held, target, self.site.number, self.site.workers)
            case Add(name, source):
                self._put(self._wiring.stores(name), self.temps[source.name])
            case PlacedChange(name, source):
                held = self.temps[source.name]
                table = self._wiring.tables.get(name)
                if table is None:  # a re-evaluated view
                    self._put(self._wiring.maps[name], held)
                elif len(held):
                    self._change(table, Net(held.words, held.values.n))
            case Step():
                self.temps[instruction.target.name] = self._stepped(instruction)
            case _:
                raise TypeError(f"{type(instruction).__name__} is no instruction of a block")

    def leave(self) -> None:
        """What later blocks have to know of the rounds that go on there."""
        for round_ in self.block.rounds:
            for name, touched in self.rounds.get(round_, {}).items():
                store = self._wiring.stores(name)
                table = entries_table(store.codec, store.words(touched.slots), touched.old)
                self.journal.handed[round_, name] = table

    def _round(self, number: int) -> dict[str, Touched]:
        self._before = self.rounds.setdefault(number, {})
        return self._before

    def _restored(self, store: EntryStore, table: pa.Table) -> Touched:
        """A change that another block made, from the entries as they were before it: those that have gone
        since are there again, with nothing in them, until the block is final."""
        words, old = entries_values(store.codec, store.layout, table)
        found = store.add_words(words, Values.zeros(store.layout, len(old)))
        self.journal.did(store, found)
        return Touched(found.slots, old, found.created)

    def _put(self, store: EntryStore, held: Held) -> None:
        if len(held):
            self._add(store, PoolDelta(held.words, held.values))

    def _stepped(self, i: Step) -> Held:
        unit = self._wiring.unit(i.view, i.relation)
        assert unit is not None
        self._round(i.round)
        for name, temp in i.adds:
            held = self.temps[temp.name]
            if len(held):
                self._pending.setdefault(name, []).append(PoolDelta(held.words, held.values))
        return _held(i.target, self._wiring.interner, self._step(unit))

    # -- statements --------------------------------------------------------------------------------

    def _eval(self, i: Eval) -> Held:
        self._round(i.round)
        unit = self._wiring.unit(i.view, i.at) if i.at is not None else None
        at = unit.number if unit is not None else -1
        self.changes = {t.name: self.temps[t.name].rows() for t in i.uses}
        self.uses = {t.name: self.temps[t.name] for t in i.uses}
        ready = self._ready(i, at)
        prepared, journal = ready.prepared, self.journal
        forms, interpreted = self._forms(i, ready, at), journal.interpreted
        change = self._none
        if i.uses:
            change = self.changes[ready.lead or ready.given or i.uses[0].name]
        ((store, delta),) = self._evaluate((prepared,), forms, change, at)
        journal.compiled += journal.interpreted == interpreted
        return Held(i.target, store.codec, delta.words, delta.values)

    def _forms(self, i: Eval, ready: Ready, at: int) -> tuple[Form, ...]:
        """How the statement runs compiled on this change, if it does."""
        if ready.lead is None:
            return ()
        site, wiring, change = self.site, self._wiring, self.changes[ready.lead]
        key = hash((i.view, i.at, i.target.columns, i.read, tuple(t.origin for t in i.uses)))
        if not pays(site.work, key, len(change), site.compile):
            return ()
        if ready.planned is None:
            ready.planned = planned(i, ready.prepared, wiring, site.placement, change.codec, at)
        forms = chosen(ready.planned, len(change), ready.planned, site.compile)
        known = change.codec.interner is wiring.interner or not len(change)
        return tuple(f for f in forms if known and as_before(f, i, wiring, self._before))

    def _interpret(self, statements: Sequence[Prepared], change: Rows, at: int) -> Made:
        self.journal.interpreted += len(statements)
        return super()._interpret(statements, change, at)

    def _names(self, statement: Prepared, change: Rows, at: int) -> StatementNames:
        return self._scope(statement.view, at)

    def _scope(self, view: str, at: int) -> _BlockNames:
        names = _BlockNames(self._wiring, view, self.changes, at, self._before)
        names.site, names.temps = self.site, self.uses
        return names

    def _ready(self, i: Eval, at: int) -> Ready:
        """The statement in the order of its evaluation, which is chosen anew when its maps have grown."""
        key = (i.expr, i.view, i.at, i.target.columns, i.target.kinds, tuple(t.columns for t in i.uses))
        found = self.site.terms.get(key)
        if found is None or found.outgrown:
            wiring = self._wiring
            known = Ordered.of(wiring.catalog.views[i.view].compiled.program)  # type: ignore[arg-type]
            single = {t.name for t in i.uses if t.origin in known.single}
            lead, tables = led_by(i), [t for t in i.uses if t.origin in wiring.catalog.tables]
            given = tables[0] if len(tables) == 1 else None
            target = MapDef(i.target.name, i.target_vars, i.target.kinds, i.expr)
            names = self._scope(i.view, at)
            terms = ordered(
                i.expr,
                i.target_vars,
                names.needs,
                kept=Ordered(single, known.plain),
                keyed=names.keyed,
                fanout=names.fanout,
            )
            read = {n.name for n in i.expr.walk() if isinstance(n, MapRef)} - self.uses.keys()
            maps = tuple(wiring.stores(name) for name in read)
            entries = sum(len(store.pool) for store in maps)
            base = given.origin if given is not None else None
            prepared = Prepared(i.view, base or "", 0, EntryStore(target, wiring.interner), terms)
            found = Ready(prepared, maps, entries, lead, given.name if given is not None else None)
            self.site.terms[key] = found
        return found


def _held(temp: Temp, interner: Any, rows: RowSet | None) -> Held:
    codec = Codec(temp.columns, interner)
    count = 0 if rows is None else len(rows)
    values = Values.zeros(Layout(()), count)
    if rows is None:
        return Held(temp, codec, np.zeros((codec.words, 0), np.int64), values)
    values.n[:] = rows.weights
    return Held(temp, codec, rows.words, values)


class _BlockNames(StatementNames):
    """The scope of a statement in a block: temporaries beside what the worker stores."""

    site: Site
    temps: Mapping[str, Held]

    def keyed(self, atom: Rel | MapRef) -> Sequence[int]:
        """Of what is stored here."""
        return () if atom.name in self.temps else super().keyed(atom)

    def fanout(self, atom: Query, places: Sequence[int]) -> float | None:
        """Of the maps that are stored here; what has been sent here is little beside them."""
        if isinstance(atom, Rel | MapRef) and atom.name in self.temps:
            return 1.0
        return fanout(self.wiring.stores(atom.name), places) if isinstance(atom, MapRef) else None

    def atom(self, factor: Rel | MapRef) -> Atom:
        """A temporary, or a stored thing; a relation with a row for every key only at this worker's keys."""
        if isinstance(factor, MapRef) and factor.name in self.temps:
            return self.temps[factor.name].picked(factor.components)
        atom = super().atom(factor)
        if isinstance(atom, Reading) and (tag := owned(atom.reader, self.site.placement)) is not None:
            reader = atom.reader
            places = _places(reader.view, tag) if isinstance(reader, ViewReader) else ()
            return _Owned(atom, self.site, tag, places)
        return atom


def _places(view: View, tag: Dist) -> tuple[int, ...]:
    """The columns of a relation that show the columns of its map's tag."""
    keys, names = shown_columns(view)
    columns = [c.name for c in view.columns]
    return tuple(columns.index(names[keys.index(c)]) for c in tag.columns)


@dataclass(frozen=True, slots=True)
class _Owned:
    """A relation with a row for every key, at the keys that belong to a worker."""

    of: Reading
    site: Site
    tag: Dist
    places: tuple[int, ...]

    def join(self, bound: Sequence[Cells | None], rows: int, want: Sequence[int]) -> Found:
        """As the relation finds it, of the rows that belong here."""
        found = self.of.join(bound, rows, want)
        if not self.places:
            mine = np.full(len(found.at), self.site.number == 0)
        else:
            cells = [bound[i] for i in self.places]
            assert all(c is not None for c in cells)
            mine = self.site.owns(self.tag, [c.take(found.at) for c in cells])  # type: ignore[union-attr]
        if mine.all():
            return found
        weight = tuple(w[mine] for w in found.weight)
        return Found(
            found.at[mine], {i: c.take(mine) for i, c in found.columns.items()}, weight, found.visited
        )


__all__ = ["Handed", "Journal", "Site", "run_block"]
