"""Where maps and tables are kept (section 5.5), so that one stage is enough where that can be.

A *class* is a set of columns that statements join with each other. A view's maps are partitioned by one
class: of those that leave nothing large apart, classes of primary keys first, the one with the most different
values. What has no column of it is replicated if it is small and read by statements, on the driver if it is
small and only statements of maps on the driver read it, else partitioned by a class of its own, which costs
an exchange. Maps over static tables alone take no part in this: they are replicated if they are small.

What a derived relation is read off lies together: its sides where its map is, the bag of a window by columns
of its PARTITION BY, or on the first worker. Whatever is asked for, a placement is possible: in the last
resort the maps that cannot be joined where they are are kept on every worker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from everfresh.calculus import MapRef, Query, Rel, relations
from everfresh.compiler import Catalog
from everfresh.compiler.choice.cost import Model
from everfresh.compiler.choice.size_guess import guessed
from everfresh.compiler.lowering.static_tables import fixed_relations
from everfresh.distributed.plan.ir import map_id, table_id
from everfresh.distributed.plan.located import atoms
from everfresh.distributed.plan.programs import Programs
from everfresh.distributed.plan.tags import FIRST, LOCAL, REPLICATED, Dist, Tag, renamed
from everfresh.expr import Var
from everfresh.local.interpret.join_order import products
from everfresh.program import Intervals, Partitions, Unit, View, side_of
from everfresh.program.schedule import Relation

Place = tuple[str, str]
"""A column of something stored: `("map:q#1", "o_orderkey")`, `("table:orders", ...)`."""
_KNOWN = 1000  # rows of all tables, below which sizes say nothing
_SMALL = 1000.0  # entries of a result that no key is a column of


@dataclass(frozen=True, slots=True)
class Limits:
    """How large things may be, in entries."""

    driver: int = 50_000
    """A map on the driver, by what its conditions are guessed to leave."""
    replicated: int = 1_000_000
    """A map or table on every worker."""
    driver_most: int = 500_000
    """A map on the driver, if its conditions leave everything: an entry for each row of the table that has
    its keys."""


@dataclass(frozen=True)
class Placement:
    """The tags of all tables and maps, over their own columns."""

    tables: Mapping[str, Tag] = field(default_factory=dict)
    maps: Mapping[str, Tag] = field(default_factory=dict)

    def relation(self, unit: Unit[Query]) -> Tag:
        """Where the rows of a relation are: where its map is, by the columns that show its keys."""
        tag = self.maps[unit.relation.map]
        if not isinstance(tag, Dist) or not tag.columns:
            return tag
        shown, names = shown_columns(unit.relation)
        return renamed(tag, shown, names)


def shown_columns(relation: Relation[Query]) -> tuple[list[str], list[str]]:
    """Keys of a relation's map that are columns of it, and which."""
    if not isinstance(relation, View):
        return [], []
    found = {
        e.name: c.name
        for e, c in zip(relation.outputs, relation.columns, strict=True)
        if isinstance(e, Var) and side_of(e.name) is None
    }
    return list(found), list(found.values())


def placed(
    catalog: Catalog,
    sizes: Mapping[str, int] | None = None,
    *,
    by: Mapping[str, str] | None = None,
    kept: Placement | None = None,
    limits: Limits = Limits(),
) -> Placement:
    """A placement of a catalog's tables and maps.

    `sizes` are rows of tables, `by` names for a view a column of one of its maps that it is to be partitioned
    by, `kept` is what was decided before and stays.
    """
    known = {n: s for n, s in (sizes or {}).items() if s}
    if sum(known.values()) < _KNOWN:
        known = {}
    chooser = _Chooser(Programs(catalog), known, dict(by or {}), kept or Placement(), limits)
    return chooser.placement()


class _Chooser:
    def __init__(
        self,
        programs: Programs,
        sizes: Mapping[str, int],
        by: Mapping[str, str],
        kept: Placement,
        limits: Limits,
    ) -> None:
        self.programs, self.by, self.kept, self.limits = programs, by, kept, limits
        self.sized = bool(sizes)
        self.entries: dict[str, float] = {}
        self.most: dict[str, float] = {}
        """How many entries a map may come to have by the keys of tables, at least."""
        self.distinct: dict[Place, float] = {}
        self._estimate(sizes)
        self.classes = _classes(programs)
        self.keys = {
            self.classes.get((table_id(n), c), (table_id(n), c))
            for n, schema in programs.catalog.tables.items()
            for c in schema.key
        }
        self.maps: dict[str, Tag] = {n: t for n, t in kept.maps.items() if n in programs.maps}
        self.read = _read(programs)
        self.fixed = _fixed(programs)
        self._cap()

    def _estimate(self, sizes: Mapping[str, int]) -> None:
        catalog = self.programs.catalog
        statistics = catalog.statistics(sizes)
        for view in catalog.views.values():
            program = view.compiled.program
            if view.compiled.reevaluated:
                self.entries[view.compiled.map.name] = float("inf")
                continue
            known = guessed(statistics, program.maps)  # type: ignore[arg-type]
            model = Model(program, known)  # type: ignore[arg-type]
            for m in program.maps:
                size = model.size(m.name)
                self.entries[m.name] = size.rows
                self.distinct.update({(map_id(m.name), k): d for k, d in size.distinct.items()})
            for base in view.compiled.bases:
                rows = known.table(base).rows
                self.entries[table_id(base)] = max(rows, self.entries.get(table_id(base), 0.0))

    def _cap(self) -> None:
        """What keys say of the estimates: a column has no more values than the table that it is the key of
        has rows; a result without a column of any key is taken to be small (section 5.5); one with such a
        column may come to have an entry for every row of that table, whatever conditions are guessed to leave
        of them."""
        most: dict[Place, float] = {}
        for name, schema in self.programs.catalog.tables.items():
            if len(schema.key) == 1 and table_id(name) in self.entries:
                place = (table_id(name), schema.key[0])
                known = self.classes.get(place, place)
                most[known] = min(self.entries[table_id(name)], most.get(known, float("inf")))
        results = {v.compiled.map.name for v in self.programs.catalog.views.values()}
        results -= self.read | {
            v.compiled.map.name for v in self.programs.catalog.views.values() if v.compiled.reevaluated
        }
        for name in self.programs.maps:
            classes = {c: self._class(name, c) for c in self._columns(name)}
            for column, known in classes.items():
                place = (map_id(name), column)
                if place in self.distinct:
                    self.distinct[place] = min(self.distinct[place], most.get(known, float("inf")))
            if self.sized:
                self.most[name] = max((most.get(known, 0.0) for known in classes.values()), default=0.0)
            if self.entries.get(name, float("inf")) < float("inf"):
                some = prod(self.distinct.get((map_id(name), c), 1.0) for c in classes)
                self.entries[name] = min(self.entries[name], some)
                if name in results and self.keys and not self.keys & set(classes.values()):
                    self.entries[name] = min(self.entries[name], _SMALL)

    # -- maps --------------------------------------------------------------------------------------

    def placement(self) -> Placement:
        programs = self.programs
        driver = self._driver()
        fed = {target for target, read, origin in self._uses() if (read | origin) & driver}
        for name, view in programs.catalog.views.items():
            mine = [m.name for m in view.compiled.program.maps if m.name not in self.maps]
            if view.compiled.reevaluated:
                self.maps.update({n: self._alone(n) for n in mine})
                continue
            still = [m for m in mine if m in self.fixed - driver and self._everywhere(m)]
            self.maps.update(dict.fromkeys(still, REPLICATED))
            mine = [m for m in mine if m not in self.maps]
            chosen = self._class_of(name, mine, driver)
            for m in mine:
                result = m not in self.read and m not in programs.schedule.under and m not in fed
                there = chosen is not None and self._column_in(m, chosen) is not None
                local = m in driver and not (result and there)  # where its entries are made is as good
                self.maps[m] = LOCAL if local else self._by_class(m, chosen)
        self._together(driver)
        tables = {name: self._table(name) for name in programs.catalog.tables}
        return Placement(tables, self.maps)

    def _columns(self, name: str) -> list[str]:
        return [v.name for v in self.programs.maps[name].keys]

    def _class(self, name: str, column: str) -> Place:
        place = (map_id(name), column)
        return self.classes.get(place, place)

    def _class_of(self, view: str, mine: Sequence[str], driver: Collection[str]) -> Place | None:
        """The class that a view's maps are partitioned by."""
        wanted = self.by.get(view)
        candidates: dict[Place, float] = {}
        for m in mine:
            if m in driver:
                continue
            for column in self._columns(m):
                if wanted is None or column == wanted:
                    known = self._class(m, column)
                    values = self.distinct.get((map_id(m), column), 1.0)
                    candidates[known] = max(values, candidates.get(known, 0.0))

        def cost(known: Place) -> tuple[float, bool, float, float]:
            without = [m for m in mine if m not in driver and self._column_in(m, known) is None]
            sizes = [self.entries[m] for m in without if self._used(m)]
            apart = sum(size for size in sizes if size > self.limits.replicated)
            return apart, known not in self.keys, -candidates[known], sum(sizes)

        return min(candidates, key=cost, default=None)

    def _column_in(self, name: str, known: Place) -> str | None:
        return next((c for c in self._columns(name) if self._class(name, c) == known), None)

    def _by_class(self, name: str, chosen: Place | None) -> Tag:
        column = self._column_in(name, chosen) if chosen is not None else None
        if column is not None:
            return Dist((column,))
        if self._everywhere(name):
            return REPLICATED
        if not self._used(name) and self._small(name):
            return LOCAL
        return self._alone(name)

    def _small(self, name: str) -> bool:
        """Whether a map may be on the driver."""
        limits = self.limits
        return self.entries[name] <= limits.driver and self.most.get(name, 0.0) <= limits.driver_most

    def _used(self, name: str) -> bool:
        return name in self.read or name in self.programs.schedule.under

    def _everywhere(self, name: str) -> bool:
        """Whether a map is read, and small enough to be on every worker."""
        return self._used(name) and self.entries[name] <= self.limits.replicated

    def _alone(self, name: str) -> Tag:
        """A partitioning of its own: by the column with the most values, keys first."""
        columns = self._columns(name)
        if not columns:
            return REPLICATED if name in self.read else FIRST
        return Dist(
            (
                max(
                    columns,
                    key=lambda c: (
                        self._class(name, c) in self.keys,
                        self.distinct.get((map_id(name), c), 1.0),
                    ),
                ),
            )
        )

    # -- the driver --------------------------------------------------------------------------------

    def _driver(self) -> set[str]:
        """Small maps that are read by statements of such maps only, with nothing but such maps beside; none
        over static tables that rows of other tables are joined with."""
        programs = self.programs
        small = {n for n in self.entries if n in programs.maps and self._small(n)}
        small -= set(self.maps) - {n for n, t in self.maps.items() if t == LOCAL}
        ties = [{*unit.maps} for unit in programs.schedule.units]
        ties += [{*v.compiled.view.maps} for v in programs.catalog.views.values()]
        uses = list(self._uses())
        for _, read, origin in uses:
            if not any(name in programs.maps for name in origin):  # rows are joined where they are
                small -= {name for name in read & self.fixed if self._everywhere(name)}
        while True:
            gone = {m for tie in ties if not tie <= small for m in tie & small}
            for target, read, origin in uses:
                there = read | (origin if origin <= small else set())
                large = any(self.entries.get(name, 0.0) > self.limits.driver for name in origin)
                if there & small and (large or not (there <= small and target in small)):
                    gone |= there & small
            if not gone:
                return small
            small -= gone

    def _uses(self) -> Iterable[tuple[str, set[str], set[str]]]:
        """Each statement: its target, the maps and tables that it reads, those whose change it is about."""
        for run in self.programs.schedule.runs:
            unit, s = self.programs.unit(run.view, run.base), run.statement
            origin = {*unit.maps} if unit is not None else {table_id(run.base)}
            yield s.target, set(maps_read(self.programs, run.view, s.expr)), origin

    # -- what lies together ------------------------------------------------------------------------

    def _together(self, driver: Collection[str]) -> None:
        """Bring the maps of each relation together; repeated, since a map may be under several."""
        relations: list[Relation[Query]] = [u.relation for u in self.programs.schedule.units]
        relations += [
            v.compiled.view for v in self.programs.catalog.views.values() if not v.compiled.reevaluated
        ]
        for _ in range(len(self.maps) + 1):
            before = dict(self.maps)
            for relation in relations:
                if isinstance(relation, Partitions):
                    self._partitions(relation)
                elif isinstance(relation, Intervals):
                    self._whole(relation)
                else:
                    self._sides(relation)
            if self.maps == before:
                return
        for relation in relations:  # they ask for different things: all of them everywhere
            self.maps.update(dict.fromkeys(relation.maps, REPLICATED))

    def _partitions(self, relation: Partitions[Query]) -> None:
        tag, prefix = self.maps[relation.map], self._columns(relation.map)[: relation.prefix]
        if isinstance(tag, Dist) and not set(tag.columns) <= set(prefix):
            best = max(prefix, key=lambda c: self.distinct.get((map_id(relation.map), c), 1.0), default=None)
            self.maps[relation.map] = Dist((best,)) if best is not None else FIRST

    def _whole(self, relation: Intervals) -> None:
        """A relation that is of all entries together."""
        if isinstance(self.maps[relation.map], Dist):
            small = self.entries[relation.map] <= self.limits.replicated
            self.maps[relation.map] = REPLICATED if small else FIRST
        self.maps.update({side.map: self.maps[relation.map] for side in relation.sides})

    def _sides(self, view: View) -> None:
        keys, tag = self._columns(view.map), self.maps[view.map]
        for side in view.sides:
            own = self._columns(side.map)
            own = own[: len(own) - side.beyond]
            same = (
                dict(zip(own, own, strict=True))
                if set(own) <= set(keys)
                else dict(zip(keys, own, strict=False))
            )
            if not isinstance(tag, Dist):
                self.maps[side.map] = tag
            elif all(c in same for c in tag.columns):
                if self.maps[side.map] != REPLICATED or not tag.columns:
                    self.maps[side.map] = Dist(tuple(same[c] for c in tag.columns))
            else:
                self.maps[side.map] = REPLICATED
        if view.always and not keys and self.maps[view.map] not in (LOCAL, REPLICATED):
            self.maps[view.map] = FIRST

    # -- tables ------------------------------------------------------------------------------------

    def _table(self, name: str) -> Tag:
        """By its key, or a part of it that maps are partitioned by; on every worker if statements read it and
        it is small."""
        if name in self.kept.tables:
            return self.kept.tables[name]
        schema = self.programs.catalog.tables[name]
        if table_id(name) in self.read and self.entries.get(table_id(name), 0.0) <= self.limits.replicated:
            return REPLICATED
        able = schema.key or schema.names
        used = [self._class(m, c) for m, t in self.maps.items() if isinstance(t, Dist) for c in t.columns]
        counts = {c: used.count(self.classes.get((table_id(name), c), (table_id(name), c))) for c in able}
        best = max(able, key=lambda c: counts[c])
        return Dist((best,)) if counts[best] else Dist(tuple(able))


def maps_read(programs: Programs, view: str, query: Query) -> Iterable[str]:
    """The maps and (by `table_id`) tables that a statement reads, also through relations."""
    for n in atoms(query):
        if isinstance(n, MapRef):
            yield n.name
        elif not n.delta:
            unit = programs.unit(view, n.name)
            if unit is not None:
                yield from unit.maps
            elif n.name in programs.catalog.tables:
                yield table_id(n.name)
            else:
                yield programs.catalog.views[n.name].compiled.map.name


def _read(programs: Programs) -> set[str]:
    """The maps and tables that some statement reads."""
    runs = programs.schedule.runs
    return {m for run in runs for m in maps_read(programs, run.view, run.statement.expr)}


def _fixed(programs: Programs) -> set[str]:
    """The maps over static tables alone: once they are filled, nothing is ever sent to them."""
    found: set[str] = set()
    for view in programs.catalog.views.values():
        if not view.compiled.reevaluated:
            program = view.compiled.program
            fixed = fixed_relations(program, programs.catalog.static)
            found |= {m.name for m in program.maps if fixed.issuperset(relations(m.definition))}  # type: ignore[arg-type]
    return found


def _classes(programs: Programs) -> dict[Place, Place]:
    """Columns that statements join, each with one column that stands for its class."""
    parent: dict[Place, Place] = {}

    def find(place: Place) -> Place:
        while parent.get(place, place) != place:
            place = parent[place]
        return place

    def same(a: Place, b: Place) -> None:
        parent[find(a)] = find(b)

    for run in programs.schedule.runs:
        s = run.statement
        target = [(map_id(s.target), v.name) for v in programs.maps[s.target].keys]
        for _, factors in products(s.expr):
            at: dict[str, Place] = {}
            found = list(zip((v.name for v in programs.maps[s.target].keys), target, strict=True))
            for factor in factors:
                for n in factor.walk():
                    if isinstance(n, Rel | MapRef):
                        found += _named(programs, run.view, n)
            for name, place in found:
                if name in at:
                    same(at[name], place)
                at.setdefault(name, place)
    return {place: find(place) for place in {*parent, *parent.values()}}


def _named(programs: Programs, view: str, atom: Rel | MapRef) -> list[tuple[str, Place]]:
    """The variables of an atom, and the stored columns that they are."""
    if isinstance(atom, MapRef):
        keys = programs.maps[atom.name].keys
        return [(v.name, (map_id(atom.name), k.name)) for v, k in zip(atom.keys, keys, strict=True)]
    unit = programs.unit(view, atom.name)
    columns = programs.columns(view, atom.name)
    names = [columns[place].name for place in atom.places]
    if unit is None:
        if atom.name in programs.catalog.tables:
            return [(v.name, (table_id(atom.name), c)) for v, c in zip(atom.vars, names, strict=True)]
        held = programs.catalog.views[atom.name].compiled.map
        shown = [held.keys[place].name for place in atom.places]
        return [(v.name, (map_id(held.name), c)) for v, c in zip(atom.vars, shown, strict=True)]
    keys_of = dict(zip(*reversed(shown_columns(unit.relation)), strict=True))
    return [
        (v.name, (map_id(unit.relation.map), keys_of[c]))
        for v, c in zip(atom.vars, names, strict=True)
        if c in keys_of
    ]


def with_replicated(placement: Placement, names: Iterable[str]) -> Placement:
    """The placement with these maps on every worker."""
    return replace(placement, maps={**placement.maps, **dict.fromkeys(names, REPLICATED)})
