"""One block on one worker (or on the driver): `(state, block, inputs) -> (outputs, journal)`.

The state is that of the local engine, holding the worker's part of every table and map, and statements run by
its code. Nothing here knows how blocks reach workers: no Spark, no globals, no files. What a block did can be
taken back or made final together (`Journal`).

A worker reads its own part of a map only where the placement makes that right; the one thing that would show
on the wrong worker is a relation with a row for every key, which answers there for its own keys only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.calculus import MapRef, Query, Rel
from everfresh.compiler import Ordered
from everfresh.distributed.compiled import Code, led_by, owned, run
from everfresh.distributed.ir import Add, Block, Change, Eval, Instruction, Keep, Step, Temp
from everfresh.distributed.placement import Placement, shown_columns
from everfresh.distributed.routing import owners
from everfresh.distributed.tags import Dist
from everfresh.distributed.wire import Held, entries_table, entries_values, kept
from everfresh.errors import EverfreshError
from everfresh.local.atoms import Atom, Found
from everfresh.local.cells import Cells
from everfresh.local.codec import Codec
from everfresh.local.entries import EntryStore
from everfresh.local.fanout import fanout
from everfresh.local.joined import PoolDelta, joined_deltas, run_terms
from everfresh.local.native.manager import BATCH, ENOUGH
from everfresh.local.ordering import Term, ordered
from everfresh.local.pool import Layout, Touched, Values
from everfresh.local.reading import Reading, RowSet, ViewReader
from everfresh.local.state import LocalState
from everfresh.local.steps import unit_change
from everfresh.local.table import Net
from everfresh.local.wiring import Names
from everfresh.program import View

Ints = NDArray[np.int64]
Before = dict[tuple[int, str], pa.Table]
"""The entries of maps that steps of a round have changed, as they were before it: by round and map."""
BACKGROUND, OFF = "background", "off"
_GROWN, _FEW = 4, 1000  # maps that have grown so many times, from so many entries on, are joined anew


@dataclass(frozen=True, slots=True)
class Ready:
    """A statement ready to run, the maps that it reads, and how many entries they had when its joins were
    ordered."""

    terms: tuple[Term, ...]
    maps: tuple[EntryStore, ...]
    entries: int
    lead: str | None
    """The change that it runs on, if it has a compiled form at all."""
    code: Code

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
    work: Counter[int] = field(default_factory=Counter)
    """Rows that came so far for statements, and what batches cost beside them: by the hash of what makes a
    statement what it is in all programs. Two that share one are compiled a little sooner."""

    def pays(self, i: Eval, rows: int) -> bool:
        """Whether enough rows have come for a statement, with these, that it is to be compiled."""
        if self.compile != BACKGROUND:
            return self.compile != OFF
        key = hash((i.view, i.at, i.target.columns, i.read, tuple(t.origin for t in i.uses)))
        if self.work[key] < ENOUGH:
            self.work[key] += rows + BATCH
        return self.work[key] >= ENOUGH

    def owns(self, tag: Dist, columns: Sequence[Cells]) -> NDArray[np.bool_]:
        """Which rows belong here, by the values of a tag's columns."""
        rows = len(columns[0].vector.values) if columns else 1
        mine: NDArray[np.bool_] = owners([c.vector for c in columns], rows, self.workers) == self.number
        return mine


@dataclass
class Journal:
    """What a block did to tables and maps, to be made final or taken back together."""

    touched: dict[str, list[Touched]] = field(default_factory=dict)
    """The changes of maps."""
    tables: dict[str, Net] = field(default_factory=dict)
    """The changes of tables."""
    changes: dict[str, list[RowSet]] = field(default_factory=dict)
    """The changes of views that are units."""
    before: Before = field(default_factory=dict)
    """What later blocks of the same rounds have to know."""
    visited: int = 0
    compiled: int = 0
    """How many statements ran as compiled code."""
    interpreted: int = 0
    _undo: list[tuple[Callable[[Any], None], Any]] = field(default_factory=list)
    _final: list[tuple[Callable[[Any], None], Any]] = field(default_factory=list)

    def did(self, store: Any, what: Any) -> None:
        """Remember a change of a table or map."""
        self._undo.append((store.rollback, what))
        self._final.append((store.commit, what))

    def then(self, later: Journal) -> Journal:
        """What was done here, and later: as one."""
        for name, touched in later.touched.items():
            self.touched.setdefault(name, []).extend(touched)
        for view, rows in later.changes.items():
            self.changes.setdefault(view, []).extend(rows)
        self.tables.update(later.tables)
        self.before.update(later.before)
        self.visited += later.visited
        self.compiled += later.compiled
        self.interpreted += later.interpreted
        self._undo += later._undo
        self._final += later._final
        return self

    def rollback(self) -> None:
        """Take everything back."""
        for fn, what in reversed(self._undo):
            fn(what)

    def commit(self) -> None:
        """Make everything final."""
        for fn, what in self._final:
            fn(what)


def run_block(
    site: Site, block: Block, inputs: Mapping[str, Held], before: Before | None = None
) -> tuple[dict[str, Held], Journal]:
    """Run a block from its inputs; its outputs, and what it did. If it raises, nothing was done.

    `before` is what blocks before it on this site left in their journals.
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


class _Run:
    def __init__(self, site: Site, block: Block, inputs: Mapping[str, Held], before: Before) -> None:
        self.site, self.block = site, block
        self.wiring = site.state.wiring
        self.temps: dict[str, Held] = {t.name: inputs[t.name] for t in block.inputs}
        self.journal = Journal()
        self.applied: dict[int, dict[str, Touched]] = {}
        for (round_, name), table in before.items():
            if round_ in block.rounds:
                self.applied.setdefault(round_, {})[name] = self._restored(self.wiring.stores(name), table)

    def one(self, instruction: Instruction) -> None:
        match instruction:
            case Eval():
                self.temps[instruction.target.name] = self._eval(instruction)
            case Keep(target, source):
                held = self.temps[source.name]
                self.temps[target.name] = kept(held, target, self.site.number, self.site.workers)
            case Add(name, source):
                held = self.temps[source.name]
                if len(held):
                    self._did(self.wiring.stores(name), self._added(name, held))
            case Change(table, source):
                self._change(table, self.temps[source.name])
            case Step():
                self.temps[instruction.target.name] = self._step(instruction)
            case _:
                raise TypeError(f"{type(instruction).__name__} is no instruction of a block")

    def leave(self) -> None:
        """What later blocks have to know of the rounds that go on there."""
        for round_ in self.block.rounds:
            for name, touched in self.applied.get(round_, {}).items():
                store = self.wiring.stores(name)
                table = entries_table(store.codec, store.words(touched.slots), touched.old)
                self.journal.before[round_, name] = table

    def _restored(self, store: EntryStore, table: pa.Table) -> Touched:
        """A change that another block made, from the entries as they were before it: those that have gone
        since are there again, with nothing in them, until the block is final."""
        words, old = entries_values(store.codec, store.layout, table)
        found = store.add_words(words, Values.zeros(store.layout, len(old)))
        self.journal.did(store, found)
        return Touched(found.slots, old, found.created)

    def _did(self, store: EntryStore, touched: Touched) -> None:
        self.journal.touched.setdefault(store.target.name, []).append(touched)
        self.journal.did(store, touched)

    def _added(self, name: str, held: Held) -> Touched:
        return self.wiring.stores(name).add_words(held.words, held.values)

    def _change(self, name: str, held: Held) -> None:
        if not len(held):
            return
        table = self.wiring.tables.get(name)
        if table is None:  # a re-evaluated view
            store = self.wiring.maps[name]
            self._did(store, store.add_words(held.words, held.values))
            return
        net = Net(held.words, held.values.n)
        self.journal.did(table, table.apply(net))
        self.journal.tables[name] = net

    # -- statements --------------------------------------------------------------------------------

    def _eval(self, i: Eval) -> Held:
        names = _BlockNames(self.wiring, i.view, {}, i.at, self.applied.get(i.round, {}))
        names.site, names.temps = self.site, {t.name: self.temps[t.name] for t in i.uses}
        names.changes = {name: held.rows() for name, held in names.temps.items()}
        codec, layout = Codec(i.target.columns, self.wiring.interner), Layout(i.target.kinds)
        ready = self._ready(i, names)
        delta = self._compiled(i, ready, names)
        if delta is None:
            try:
                delta = run_terms(ready.terms, i.target_vars, codec, layout, names)
            except EverfreshError as error:
                raise error.at(f"view '{i.view}'{self._row_of(i, names, error)}") from error
            self.journal.interpreted += 1
        self.journal.visited += names.visited
        return Held(i.target, codec, delta.words, delta.values)

    def _compiled(self, i: Eval, ready: Ready, names: _BlockNames) -> PoolDelta | None:
        """What compiled code makes, if there is some and it can."""
        if ready.lead is None:
            return None
        change, site = names.changes[ready.lead], self.site
        if not site.pays(i, len(change)):
            return None
        wiring = self.wiring
        form = ready.code.ready(i, ready.terms, wiring, site.placement, change.codec, site.compile)
        made = run(form, i, change, wiring, names.before) if form is not None else None
        if made is None:
            return None
        delta, names.visited = made
        self.journal.compiled += 1
        return delta

    def _row_of(self, i: Eval, names: _BlockNames, error: EverfreshError) -> str:
        """The row of a table's change that an error is about, as far as it has come here."""
        row = getattr(error, "row", None)
        given = [t.name for t in i.uses if t.origin in self.wiring.catalog.tables]
        if row is None or len(given) != 1:
            return ""
        change = names.changes[given[0]]
        return f", row {change.codec.decode(change.words(np.array([row]))).to_pylist()[0]}"

    def _ready(self, i: Eval, names: _BlockNames) -> Ready:
        """The statement in the order of its evaluation, which is chosen anew when its maps have grown."""
        key = (i.expr, i.view, i.at, i.target.columns, i.target.kinds, tuple(t.columns for t in i.uses))
        found = self.site.terms.get(key)
        if found is None or found.outgrown:
            known = Ordered.of(self.wiring.catalog.views[i.view].compiled.program)  # type: ignore[arg-type]
            single = {t.name for t in i.uses if t.origin in known.single}
            terms = ordered(
                i.expr,
                i.target_vars,
                names.needs,
                kept=Ordered(single, known.plain),
                keyed=names.keyed,
                fanout=names.fanout,
            )
            read = {n.name for n in i.expr.walk() if isinstance(n, MapRef)} - {t.name for t in i.uses}
            maps = tuple(self.wiring.stores(name) for name in read)
            entries = sum(len(store.pool) for store in maps)
            found = self.site.terms[key] = Ready(terms, maps, entries, led_by(i), Code())
        return found

    def _step(self, i: Step) -> Held:
        unit = self.wiring.units[i.number]
        applied = self.applied.setdefault(i.round, {})
        parts: dict[str, list[PoolDelta]] = {}
        for name, temp in i.adds:
            held = self.temps[temp.name]
            if len(held):
                parts.setdefault(name, []).append(PoolDelta(held.words, held.values))
        pending = {name: joined_deltas(some) for name, some in parts.items()}
        if not pending and not any(name in applied for name in unit.maps):
            return _held(i.target, self.wiring.interner, None)
        change, visited = unit_change(unit, self.wiring.stores, pending, applied, self._did)
        self.journal.visited += visited
        if unit.is_view and len(change):
            self.journal.changes.setdefault(unit.view, []).append(change)
        return _held(i.target, self.wiring.interner, change)


def _held(temp: Temp, interner: Any, rows: RowSet | None) -> Held:
    codec = Codec(temp.columns, interner)
    count = 0 if rows is None else len(rows)
    values = Values.zeros(Layout(()), count)
    if rows is None:
        return Held(temp, codec, np.zeros((codec.words, 0), np.int64), values)
    values.n[:] = rows.weights
    return Held(temp, codec, rows.words, values)


class _BlockNames(Names):
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


__all__ = ["Before", "Journal", "Site", "run_block"]
