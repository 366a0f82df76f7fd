"""A batch as one sequence of steps over all programs of a catalog: what `everfresh.program.ir` sets, written
out.

For each changed table in turn (a *round*): its statements are evaluated, the table changes, maps that no unit
is read off are added to; then each unit whose maps may have changed takes its step, and goes on with its own
change. Which steps there are does not depend on the data: at run time many do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from everfresh.calculus import Query
from everfresh.compiler import Catalog
from everfresh.program import Intervals, MapDef, Partitions, Statement, View
from everfresh.types import Column

Relation = View | Partitions[Query] | Intervals


@dataclass(frozen=True, slots=True)
class Unit:
    """A relation with a change of its own, as `everfresh.local.wiring` numbers them."""

    view: str
    relation: Relation
    number: int
    is_view: bool

    @property
    def name(self) -> str:
        """The name by which statements read it."""
        return self.view if self.is_view else self.relation.name

    @property
    def maps(self) -> tuple[str, ...]:
        """The maps that it is read off."""
        return self.relation.maps


@dataclass(frozen=True, slots=True)
class Evaluate:
    """A statement: what it adds to `target`, given the change of `base`."""

    view: str
    base: str
    target: str
    expr: Query
    at: int
    """The unit whose change it is about, -1 for a table's."""
    round: int


@dataclass(frozen=True, slots=True)
class Change:
    """The rows of a table change."""

    table: str
    round: int


@dataclass(frozen=True, slots=True)
class Add:
    """What statements (their places in the sequence) have computed is added to a map."""

    target: str
    of: int


@dataclass(frozen=True, slots=True)
class Step:
    """A unit's maps get what is pending for them, and the unit's change is taken."""

    unit: Unit
    adds: tuple[tuple[str, int], ...]
    round: int


Flat = Evaluate | Change | Add | Step


@dataclass(frozen=True)
class Programs:
    """The programs of a catalog, as one."""

    catalog: Catalog
    maps: Mapping[str, MapDef[Query]] = field(init=False)

    def __post_init__(self) -> None:
        found = {m.name: m for v in self.catalog.views.values() for m in v.compiled.program.maps}
        object.__setattr__(self, "maps", found)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """In the order of their steps."""
        views = self.catalog.views.values()
        read = {base for view in views for base in view.compiled.bases}
        found: list[Unit] = []
        for view in views:
            compiled = view.compiled
            if compiled.reevaluated:
                continue
            for relation in compiled.program.relations:
                found.append(Unit(view.name, relation, len(found), False))  # type: ignore[arg-type]
            if view.name in read or compiled.view.sides:
                found.append(Unit(view.name, compiled.view, len(found), True))
        return tuple(found)

    @cached_property
    def under(self) -> frozenset[str]:
        """The maps that units are read off."""
        return frozenset(name for unit in self.units for name in unit.maps)

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], Unit]:
        return {("" if u.is_view else u.view, u.name): u for u in self.units}

    def unit(self, view: str, name: str) -> Unit | None:
        """The unit that a name stands for in a view's program; None for a table or a re-evaluated view."""
        return self._by_name.get((view, name)) or self._by_name.get(("", name))

    def columns(self, view: str, name: str) -> tuple[Column, ...]:
        """The columns of a table, a view, or a derived relation of a view's program."""
        unit = self.unit(view, name)
        if unit is not None:
            return unit.relation.columns
        return self.catalog.schemas[name]

    def statements(self, base: str, view: str | None = None) -> Iterator[tuple[str, Statement[Query]]]:
        """What to run when a table or view changes; or, given `view`, a derived relation of its program."""
        views = self.catalog.views_on(base) if view is None else (self.catalog.views[view],)
        for v in views:
            trigger = None if v.compiled.reevaluated else v.compiled.program.trigger(base)
            for statement in trigger.statements if trigger is not None else ():
                yield v.name, statement  # type: ignore[misc]

    def every_statement(self) -> Iterator[tuple[str, str, Statement[Query]]]:
        """All statements of all programs: view, base, statement."""
        for view in self.catalog.views.values():
            if not view.compiled.reevaluated:
                for trigger in view.compiled.program.triggers:
                    for statement in trigger.statements:
                        yield view.name, trigger.base, statement  # type: ignore[misc]


def flattened(programs: Programs, changed: Sequence[str]) -> tuple[Flat, ...]:
    """The steps of a batch that changes these tables (or re-evaluated views), in this order."""
    out: list[Flat] = []
    for number, table in enumerate(changed):
        _round(programs, table, number, out)
    return tuple(out)


def _round(programs: Programs, table: str, number: int, out: list[Flat]) -> None:
    pending: dict[str, list[int]] = {}
    applied: set[str] = set()

    def evaluate(base: str, view: str | None, at: int) -> list[int]:
        first = len(out)
        for name, s in programs.statements(base, view):
            out.append(Evaluate(name, base, s.target, s.expr, at, number))
        return list(range(first, len(out)))

    def distribute(places: list[int]) -> None:
        for place in places:
            target = out[place].target  # type: ignore[union-attr]
            if target in programs.under:
                pending.setdefault(target, []).append(place)
            else:
                out.append(Add(target, place))

    made = evaluate(table, None, -1)
    out.append(Change(table, number))
    distribute(made)
    for unit in programs.units:
        if not any(name in pending or name in applied for name in unit.maps):
            continue
        adds = tuple((n, place) for n in unit.maps for place in pending.pop(n, ()))
        applied.update(name for name, _ in adds)
        out.append(Step(unit, adds, number))
        distribute(evaluate(unit.name, None if unit.is_view else unit.view, unit.number))
    assert not pending, f"pending for no relation: {sorted(pending)}"


def only(catalog: Catalog, view: str) -> Catalog:
    """The catalog with a view and what it reads alone."""
    wanted, left = set(), [view]
    while left:
        name = left.pop()
        if name in catalog.views and name not in wanted:
            wanted.add(name)
            left += catalog.views[name].compiled.bases
            left += [
                v.name
                for v in catalog.views.values()
                for m in v.compiled.program.maps
                if m.name in {s.name for s in catalog.views[name].compiled.program.shared}
            ]
    return replace(catalog, views={n: v for n, v in catalog.views.items() if n in wanted})


def tables_of(catalog: Catalog, view: str) -> tuple[str, ...]:
    """The tables that a view depends on, also through other views."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in catalog.tables:
            found[name] = None
        else:
            for base in catalog.views[name].compiled.bases:
                visit(base)

    visit(view)
    return tuple(found)
