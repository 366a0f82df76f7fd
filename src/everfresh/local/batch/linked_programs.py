"""The schedule of a catalog's programs over the tables and maps of this process.

What there is to do, and in which order, is said by `everfresh.program.schedule`. Here its units get what
reads their rows, its statements the order of their joins, and both are found by what changes. Everything is
made once for a catalog and its stores; what a statement like CREATE VIEW leaves as it was, a new wiring takes
over from the one before (`carried`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.calculus import MapRef, Query, Rel, Sum
from everfresh.compiler import Catalog, Crossing, Ordered, ViewDef
from everfresh.local.interpret.atoms import Atom, Picked, Rows, TableRows, part
from everfresh.local.interpret.determined import determining
from everfresh.local.interpret.interpreter import PoolDelta, run_terms
from everfresh.local.interpret.join_order import Term, ordered
from everfresh.local.order.extremes import NOTHING
from everfresh.local.order.read_orders import Orders, orders
from everfresh.local.order.thresholds import Between, between
from everfresh.local.relations.intervals import IntervalReader
from everfresh.local.relations.top_rows import partition_reader
from everfresh.local.relations.view_reader import Reader, Reading, ViewReader
from everfresh.local.store.entries import Before, EntryStore
from everfresh.local.store.growth import Growth
from everfresh.local.store.map_store import MapStore
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Table
from everfresh.program import Intervals, Partitions, Run, Schedule, scheduled
from everfresh.program import Unit as Scheduled

if TYPE_CHECKING:
    from everfresh.local.native.manager import Native

Ints = NDArray[np.int64]
_FEW: Final = 64

ALIKE = 64
"""Views that look alike from which on they are planned as they are made, not when rows come: to interpret
them takes longer for one row than to plan one of them."""
EACH_TIME = 8
"""So many views are made until some are planned."""


@dataclass(frozen=True, slots=True)
class LinkedRelation(Scheduled[Query]):
    """A relation that is stepped, and what reads its rows."""

    reader: Reader


@dataclass(frozen=True)
class Prepared:
    """A statement ready to run."""

    view: str
    base: str
    index: int
    store: EntryStore
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Group:
    """Statements on one relation: all of some views."""

    base: str
    views: tuple[str, ...]
    statements: list[Prepared]


@dataclass
class StatementNames:
    """The scope of a view's statements: what its atoms stand for at one point of a batch."""

    wiring: Wiring
    view: str
    changes: Mapping[str, Rows]
    at: int = -1
    """The unit whose change is being worked on: it and later ones are read as they were before."""
    before: Before = field(default_factory=dict)
    visited: int = 0

    @property
    def interner(self) -> Interner:
        """The strings of all tables and maps."""
        return self.wiring.interner

    @property
    def many(self) -> bool:
        """Whether a change has more rows than are joined with each other one by one."""
        return any(len(change) > _FEW for change in self.changes.values())

    def atom(self, factor: Rel | MapRef) -> Atom:
        """A change, a map, a table, or a relation read off maps."""
        if isinstance(factor, MapRef):
            return Picked(self.wiring.stores(factor.name), factor.components)
        if factor.delta:
            return part(self.changes[factor.name], factor)
        if factor.name in self.wiring.tables:
            return part(self.wiring.tables[factor.name], factor)
        reader, number = self.wiring.reader(self.view, factor.name)
        return Reading(reader, self.before if number >= self.at else NOTHING)

    def between(self, crossing: Crossing) -> tuple[Ints, Between] | None:
        """The entries that a change of a threshold passes, and what they are multiplied by."""
        atom = self.atom(crossing.atom)
        assert isinstance(atom, Picked | Reading)
        return between(crossing, self.changes[crossing.change.name], atom)

    def summable(self, atom: Query) -> bool:
        """Whether the sums over some of its entries are known without visiting them."""
        if not isinstance(atom, MapRef):
            return isinstance(atom, Sum)
        kinds = self.wiring.stores(atom.name).layout.kinds
        return all(c <= 0 or kinds[c - 1] != Kind.FLOAT for c in atom.components)

    def keyed(self, atom: Rel | MapRef) -> Sequence[int]:
        """The places of a table's primary key, or of the keys that determine an entry of a map."""
        if isinstance(atom, MapRef):
            return self.wiring.determining(atom.name)
        rows = self.wiring.tables.get(atom.name)
        if rows is None:
            return ()
        schema = rows.table.schema
        return atom.within(schema.names.index(name) for name in schema.key) or ()

    def needs(self, atom: Rel) -> Sequence[int] | None:
        """What must be bound before a relation is read."""
        if atom.delta or atom.name in self.wiring.tables:
            return None
        return self.wiring.reader(self.view, atom.name)[0].needs


class Wiring:
    """The programs of a catalog over its stores."""

    def __init__(
        self,
        catalog: Catalog,
        interner: Interner,
        tables: Mapping[str, Table],
        maps: Mapping[str, MapStore],
        stores: Callable[[str], EntryStore],
        compile: str = "off",
        before: Wiring | None = None,
    ) -> None:
        self.catalog, self.interner, self.maps, self.stores = catalog, interner, maps, stores
        known: dict[str, TableRows] = {} if before is None else before.tables
        self.tables: dict[str, TableRows] = {
            name: known[name] if name in known and known[name].table is table else TableRows(table)
            for name, table in tables.items()
        }
        self.schedule: Schedule[Query] = scheduled(catalog.compiled)  # type: ignore[arg-type]
        self.under = self.schedule.under
        self.empty = {m: name for name, v in catalog.views.items() for m in v.compiled.program.empty}
        """Maps that batches have to leave without entries, and the views that ask for it."""
        self._prepared: dict[tuple[str, str], list[Prepared]] = {}
        self._reached: dict[str, tuple[LinkedRelation, ...]] = {}
        self._own: dict[tuple[str, str], list[Prepared]] = {}
        """The statements of one view on a relation."""
        self._apart: dict[tuple[int, str], list[list[Prepared]]] = {}
        self._together: dict[int, list[Group]] = {}
        self._determining: dict[str, tuple[int, ...]] = {}
        self._affected: dict[tuple[str, ...], tuple[ViewDef, ...]] = {}
        self._orders: dict[str, Orders] = {}
        self._tied = _tied(catalog)
        self.kept = frozenset[str]() if before is None else carried(before, self)
        """The views that are run as they were before."""
        for view in catalog.views.values():
            if view.name not in self.kept:
                self._watch(view)
        self.units: list[LinkedRelation] = [
            before.units[unit.number] if before is not None and unit.view in self.kept else self._linked(unit)
            for unit in self.schedule.units
        ]
        self._by_name = {(unit.scope, unit.name): unit for unit in self.units}
        if before is not None:
            self._own = {key: some for key, some in before._own.items() if key[0] in self.kept}
        self.native: Native | None = None
        if compile != "off":
            from everfresh.local.native.manager import Native

            self.native = Native(self, compile, None if before is None else before.native)

    def _watch(self, view: ViewDef) -> None:
        """Watch how a program's maps grow beside the rows that they are made of, if those are all here."""
        compiled = view.compiled
        rows = [self.tables[base].pool for base in compiled.bases if base in self.tables]
        if compiled.reevaluated or not self.catalog.rows or len(rows) < len(compiled.bases):
            return
        for m in compiled.program.maps:
            if m.name != compiled.view.map:
                store = self.stores(m.name)
                store.growth = store.pool.watch = Growth(store, view.name, rows)

    def _linked(self, unit: Scheduled[Query]) -> LinkedRelation:
        relation = unit.relation
        reader: Reader = self.maps[unit.view].reader
        if not unit.is_view:
            store = self.stores(relation.map)
            if isinstance(relation, Partitions):
                reader = partition_reader(relation, store)
            elif isinstance(relation, Intervals):
                reader = IntervalReader(relation, store, self.stores)
            else:
                reader = ViewReader(relation, store, self.stores)
        return LinkedRelation(unit.view, unit.name, unit.number, unit.maps, unit.is_view, relation, reader)

    def unit(self, view: str, name: str) -> LinkedRelation | None:
        """The unit that a name stands for in a view's program; None for a table or a re-evaluated view."""
        return self._by_name.get((view, name)) or self._by_name.get((None, name))

    def reached(self, base: str) -> tuple[LinkedRelation, ...]:
        """The units that the change of a table or view may reach, in the order of their steps."""
        found = self._reached.get(base)
        if found is None:
            found = tuple(self.units[unit.number] for unit in self.schedule.round(base).steps)
            self._reached[base] = found
        return found

    def reader(self, view: str, name: str) -> tuple[Reader, int]:
        """The relation that a name stands for in a view's program, and the number of its unit."""
        unit = self._by_name.get((view, name)) or self._by_name.get((None, name))
        if unit is not None:
            return unit.reader, unit.number
        return self.maps[name].reader, -1  # a re-evaluated view changes after all steps of the tables

    def determining(self, name: str) -> tuple[int, ...]:
        """The places of the keys that determine an entry of a map; none if it takes all of them."""
        found = self._determining.get(name)
        if found is None:
            target = self.stores(name).target
            keyed = StatementNames(self, "", {}).keyed
            found = self._determining[name] = determining(target.definition, target.keys, keyed)
        return found

    def affected_by(self, names: tuple[str, ...]) -> tuple[ViewDef, ...]:
        """The views that a change of these tables may change: see `Catalog.affected_by`."""
        found = self._affected.get(names)
        if found is None:
            found = self._affected[names] = self.catalog.affected_by(names)
        return found

    def statements(self, base: str, view: str | None = None) -> list[Prepared]:
        """What to run when a table or view changes; or, given `view`, a derived relation of its program."""
        found = self._prepared.get((view or "", base))
        if found is None:
            runs = groupby(self.schedule.on(base, view), key=lambda run: run.view)
            found = [p for name, some in runs for p in self._of(name, base, some)]
            self._prepared[view or "", base] = found
        return found

    def apart(self, statements: list[Prepared], unit: int) -> list[list[Prepared]]:
        """Statements on one relation in groups, by views, of which no two read or change the same map or
        table."""
        if not statements:
            return []
        key = unit, statements[0].base
        found = self._apart.get(key)
        if found is None:
            groups: list[tuple[set[str], list[Prepared]]] = []
            for statement in statements:
                used, members = self._used(statement), [statement]
                for group in [g for g in groups if g[0] & used]:
                    used, members = used | group[0], [*group[1], *members]
                    groups.remove(group)
                groups.append((used, members))
            found = self._apart[key] = [members for _, members in groups]
        return found

    def _used(self, statement: Prepared) -> set[str]:
        """What a statement reads and changes, and, so that its statements stay together, its view."""
        program = self.catalog.views[statement.view].compiled.program
        trigger = program.trigger(statement.base)
        assert trigger is not None
        used = {f"view {statement.view}", f"map {statement.store.target.name}"}
        for node in trigger.statements[statement.index].expr.walk():
            if isinstance(node, MapRef):
                used.add(f"map {node.name}")
            elif isinstance(node, Rel) and not node.delta and node.name in self.tables:
                used.add(f"table {node.name}")
            elif isinstance(node, Rel) and not node.delta:
                unit = self.unit(statement.view, node.name)
                maps = unit.maps if unit is not None else self.maps[node.name].view.maps
                used |= {f"map {name}" for name in maps}
        return used

    def together(self, statements: list[Prepared]) -> list[Group]:
        """Statements on one relation in groups, by views, of which none reads anything that another keeps.
        Unlike those of `apart` they may read the same table. `statements` is a list that this has made, and
        keeps."""
        made = self._together.get(id(statements))
        if made is None:
            found: dict[str, list[Prepared]] = {}
            for statement in statements:
                found.setdefault(self._tied[statement.view], []).append(statement)
            made = self._together[id(statements)] = [
                Group(some[0].base, tuple(dict.fromkeys(s.view for s in some)), some)
                for some in found.values()
            ]
        return made

    def orders(self, view: str) -> Orders:
        """In which orders the maps of a view, and of those that it is run together with, are read."""
        stands = self._tied[view]
        found = self._orders.get(stands)
        if found is None:
            views = [v for name, v in self.catalog.views.items() if self._tied[name] == stands]
            bases = dict.fromkeys(base for v in views for base in v.compiled.bases)
            units = [u for u in self.units if self._tied[u.view] == stands and not u.is_view]
            some = [self.statements(base) for base in bases]
            some += [self.statements(unit.name, unit.view) for unit in units]
            own = (s for statements in some for s in statements if self._tied[s.view] == stands)
            terms = (term for s in own for term in s.terms)
            found = self._orders[stands] = orders(terms, self.stores)
        return found

    def _of(self, view: str, base: str, runs: Iterable[Run[Query]]) -> list[Prepared]:
        """The statements of one view on a relation."""
        found = self._own.get((view, base))
        if found is None:
            names = StatementNames(self, view, {})
            kept = Ordered.of(self.catalog.views[view].compiled.program)  # type: ignore[arg-type]
            found = self._own[view, base] = [self._made(run, names, kept) for run in runs]
        return found

    def _made(self, run: Run[Query], names: StatementNames, kept: Ordered) -> Prepared:
        expr, store = run.statement.expr, self.stores(run.statement.target)
        if not isinstance(expr, Query) or run.statement.op != "+=":
            raise TypeError(
                f"{run.statement.target} {run.statement.op} is no statement of an incremental program"
            )
        exact = Kind.FLOAT not in store.layout.kinds  # doubles are added entry by entry
        terms = ordered(
            expr,
            store.target.keys,
            names.needs,
            kept=kept,
            summable=names.summable if exact else None,
            keyed=names.keyed,
        )
        return Prepared(run.view, run.base, run.index, store, terms)


def _tied(catalog: Catalog) -> dict[str, str]:
    """For each view one that stands for all that it reads, or shares a map with, directly or not."""
    tied = {name: name for name in catalog.views}
    keeps = {m.name: name for name, view in catalog.views.items() for m in view.compiled.program.maps}
    for name, view in catalog.views.items():
        shared = {keeps[m.name] for m in view.compiled.program.shared}
        for other in shared.union(view.compiled.bases):
            if other in tied and tied[name] != tied[other]:
                old, new = tied[name], tied[other]
                tied = {one: new if stands == old else stands for one, stands in tied.items()}
    return tied


def carried(before: Wiring, after: Wiring) -> frozenset[str]:
    """The views that a new wiring runs as the one before did: it and all that it is run together with are the
    same objects over the same tables, and their relations come at the same places in the order of steps."""
    same = {
        name
        for name, view in after.catalog.views.items()
        if name in before.catalog.views
        and before.catalog.views[name].compiled is view.compiled
        and before.schedule.of(name) == after.schedule.of(name)
        and all(before.tables.get(base) is after.tables.get(base) for base in view.compiled.bases)
    }
    old, new = (_groups(wiring._tied) for wiring in (before, after))
    return frozenset(
        name
        for stands, names in new.items()
        if names <= same and names == old.get(before._tied[next(iter(names))])
        for name in names
    )


def _groups(tied: Mapping[str, str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, stands in tied.items():
        found.setdefault(stands, set()).add(name)
    return found


def run_prepared(statement: Prepared, names: StatementNames) -> PoolDelta:
    """What a statement adds to its map."""
    store = statement.store
    return run_terms(statement.terms, store.target.keys, store.codec, store.layout, names)
