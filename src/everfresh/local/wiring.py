"""What a catalog's programs mean in this process: relations in the order of their steps, statements by base.

A *unit* is a relation whose change other statements read: a derived relation of a program, or a view that
another view reads or that is read off several maps. Views come in the order of their creation, the derived
relations of a program before its view. Everything is made once for a catalog and its stores; what a statement
like CREATE VIEW leaves as it was, a new wiring takes over from the one before (`carried`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.calculus import MapRef, Query, Rel, Sum
from everfresh.compiler import Catalog, Crossing, Ordered, ViewDef
from everfresh.local.atoms import Atom, Picked, Rows, TableRows, part
from everfresh.local.determined import determining
from everfresh.local.entries import Before, EntryStore
from everfresh.local.extremes import NOTHING
from everfresh.local.growth import Growth
from everfresh.local.intervals import IntervalReader
from everfresh.local.joined import PoolDelta, run_terms
from everfresh.local.mapstore import MapStore
from everfresh.local.ordering import Term, ordered
from everfresh.local.orders import Orders, orders
from everfresh.local.reading import Reader, Reading, ViewReader
from everfresh.local.strings import Interner
from everfresh.local.table import Table
from everfresh.local.thresholds import Between, between
from everfresh.local.toprows import partition_reader
from everfresh.program import Intervals, Partitions

if TYPE_CHECKING:
    from everfresh.local.native.manager import Native

Ints = NDArray[np.int64]
_FEW: Final = 64


@dataclass(frozen=True)
class Unit:
    """A relation with a change of its own: where it is defined, its reader, and the maps it is read off."""

    view: str
    name: str
    reader: Reader
    maps: tuple[str, ...]
    number: int
    is_view: bool


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
class Names:
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
        self.units: list[Unit] = []
        self._by_name: dict[tuple[str, str], Unit] = {}
        self._prepared: dict[tuple[str, str], list[Prepared]] = {}
        self._own: dict[tuple[str, str], list[Prepared]] = {}
        """The statements of one view on a relation."""
        self._apart: dict[tuple[int, str], list[list[Prepared]]] = {}
        self._together: dict[int, list[Group]] = {}
        self._determining: dict[str, tuple[int, ...]] = {}
        self._affected: dict[tuple[str, ...], tuple[ViewDef, ...]] = {}
        self._orders: dict[str, Orders] = {}
        self._tied = _tied(catalog)
        self._read = {base for view in catalog.views.values() for base in view.compiled.bases}
        self.kept = frozenset[str]() if before is None else carried(before, self)
        """The views that are run as they were before."""
        there = {} if before is None else before.units_by_view()
        for view in catalog.views.values():
            if view.name in self.kept:
                for unit in there.get(view.name, ()):
                    self._add(unit)
            else:
                self._wire(view)
        if before is not None:
            self._own = {key: some for key, some in before._own.items() if key[0] in self.kept}
        self.under = {name for unit in self.units for name in unit.maps}
        self.native: Native | None = None
        if compile != "off":
            from everfresh.local.native.manager import Native

            self.native = Native(self, compile, None if before is None else before.native)

    def units_by_view(self) -> dict[str, list[Unit]]:
        """The relations of each view's program, and itself, as far as their changes are read."""
        found: dict[str, list[Unit]] = {}
        for unit in self.units:
            found.setdefault(unit.view, []).append(unit)
        return found

    def sizes(self) -> dict[str, int]:
        """How many units each view has."""
        return {name: self._size(view) for name, view in self.catalog.views.items()}

    def _size(self, view: ViewDef) -> int:
        if view.compiled.reevaluated:
            return 0
        return len(view.compiled.program.relations) + self._is_unit(view)

    def _is_unit(self, view: ViewDef) -> bool:
        return view.name in self._read or bool(view.compiled.view.sides)

    def _wire(self, view: ViewDef) -> None:
        compiled = view.compiled
        if compiled.reevaluated:
            return
        rows = [self.tables[base].pool for base in compiled.bases if base in self.tables]
        whole = self.catalog.rows and len(rows) == len(compiled.bases)  # not a worker's part of them
        for m in compiled.program.maps:
            if whole and m.name != compiled.view.map:
                store = self.stores(m.name)
                store.growth = store.pool.watch = Growth(store, view.name, rows)
        for relation in compiled.program.relations:
            reader: Reader
            store = self.stores(relation.map)
            if isinstance(relation, Partitions):
                reader = partition_reader(relation, store)
            elif isinstance(relation, Intervals):
                reader = IntervalReader(relation, store, self.stores)
            else:
                reader = ViewReader(relation, store, self.stores)
            self._unit(view.name, relation.name, reader, relation.maps, is_view=False)
        if self._is_unit(view):
            self._unit(view.name, view.name, self.maps[view.name].reader, compiled.view.maps, is_view=True)

    def _unit(self, view: str, name: str, reader: Reader, maps: tuple[str, ...], *, is_view: bool) -> None:
        self._add(Unit(view, name, reader, maps, len(self.units), is_view))

    def _add(self, unit: Unit) -> None:
        self.units.append(unit)
        self._by_name["" if unit.is_view else unit.view, unit.name] = unit

    def reader(self, view: str, name: str) -> tuple[Reader, int]:
        """The relation that a name stands for in a view's program, and the number of its unit."""
        unit = self._by_name.get((view, name)) or self._by_name.get(("", name))
        if unit is not None:
            return unit.reader, unit.number
        return self.maps[name].reader, -1  # a re-evaluated view changes after all steps of the tables

    def determining(self, name: str) -> tuple[int, ...]:
        """The places of the keys that determine an entry of a map; none if it takes all of them."""
        found = self._determining.get(name)
        if found is None:
            target = self.stores(name).target
            keyed = Names(self, "", {}).keyed
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
            views = self.catalog.views_on(base) if view is None else (self.catalog.views[view],)
            found = [p for v in views if not v.compiled.reevaluated for p in self._of(v, base)]
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
                unit = self._by_name.get((statement.view, node.name)) or self._by_name.get(("", node.name))
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
            terms = (term for statements in some for s in statements for term in s.terms)
            found = self._orders[stands] = orders(terms, self.stores)
        return found

    def _of(self, view: ViewDef, base: str) -> list[Prepared]:
        key = view.name, base
        found = self._own.get(key)
        if found is None:
            found = self._own[key] = self._made(view, base)
        return found

    def _made(self, view: ViewDef, base: str) -> list[Prepared]:
        trigger = view.compiled.program.trigger(base)
        names, kept = Names(self, view.name, {}), Ordered.of(view.compiled.program)  # type: ignore[arg-type]
        found = []
        for index, statement in enumerate(trigger.statements if trigger is not None else ()):
            expr, store = statement.expr, self.stores(statement.target)
            if not isinstance(expr, Query) or statement.op != "+=":
                raise TypeError(
                    f"{statement.target} {statement.op} is no statement of an incremental program"
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
            found.append(Prepared(view.name, base, index, store, terms))
        return found


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
    first = _starts(before), _starts(after)
    same = {
        name
        for name, view in after.catalog.views.items()
        if name in before.catalog.views
        and before.catalog.views[name].compiled is view.compiled
        and before._is_unit(view) == after._is_unit(view)
        and first[0][name] == first[1][name]
        and all(before.tables.get(base) is after.tables.get(base) for base in view.compiled.bases)
    }
    old, new = (_groups(wiring._tied) for wiring in (before, after))
    return frozenset(
        name
        for stands, names in new.items()
        if names <= same and names == old.get(before._tied[next(iter(names))])
        for name in names
    )


def _starts(wiring: Wiring) -> dict[str, int]:
    """The number that the first unit of each view has, or would have."""
    found, number = {}, 0
    for name, size in wiring.sizes().items():
        found[name] = number
        number += size
    return found


def _groups(tied: Mapping[str, str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, stands in tied.items():
        found.setdefault(stands, set()).add(name)
    return found


def run_prepared(statement: Prepared, names: Names) -> PoolDelta:
    """What a statement adds to its map."""
    store = statement.store
    return run_terms(statement.terms, store.target.keys, store.codec, store.layout, names)
