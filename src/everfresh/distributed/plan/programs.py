"""The programs of a catalog as the distributed compiler reads them: their schedule, maps and columns by name,
and which of them a view needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from everfresh.calculus import Query
from everfresh.compiler import Catalog
from everfresh.program import MapDef, Schedule, Unit, scheduled
from everfresh.types import Column


@dataclass(frozen=True)
class Programs:
    """The programs of a catalog, as one."""

    catalog: Catalog

    @cached_property
    def schedule(self) -> Schedule[Query]:
        """In which order their statements run and their relations are stepped."""
        return scheduled(self.catalog.compiled)  # type: ignore[arg-type]

    @cached_property
    def maps(self) -> Mapping[str, MapDef[Query]]:
        """All maps, by name."""
        return {m.name: m for v in self.catalog.views.values() for m in v.compiled.program.maps}  # type: ignore[misc]

    def unit(self, view: str, name: str) -> Unit[Query] | None:
        """The unit that a name stands for in a view's program; None for a table or a re-evaluated view."""
        return self.schedule.unit(view, name)

    def columns(self, view: str, name: str) -> tuple[Column, ...]:
        """The columns of a table, a view, or a derived relation of a view's program."""
        unit = self.unit(view, name)
        return self.catalog.schemas[name] if unit is None else unit.relation.columns


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
