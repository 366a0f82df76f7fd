"""Plain views: queries with a name, which stand for it where it is read, and have no rows of their own.

A statement that names one is bound with its query in place (`everfresh.sql.queries.query`), so programs and
engines never see it. It is kept as its text, as materialized views are; its columns are those it had when it
was created, whatever is added to its tables. Invariant: a plan here is over tables and materialized views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from everfresh.compiler.altering import followed
from everfresh.sql import CreateQuery
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.plan import scans
from everfresh.types import Column, TableSchema

if TYPE_CHECKING:
    from everfresh.compiler.catalog import Catalog


@dataclass(frozen=True)
class PlainView:
    """A plain view: its text as the user wrote it, its query, and the plain views that the text names."""

    name: str
    text: str
    plan: p.Plan
    through: tuple[str, ...] = ()

    @staticmethod
    def of(s: CreateQuery) -> PlainView:
        """What a statement creates."""
        return PlainView(s.name, s.text, s.plan, s.through)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the view."""
        return self.plan.columns

    @cached_property
    def reads(self) -> frozenset[str]:
        """The tables and views that it reads, or that its text names."""
        return frozenset(scan.table for scan in scans(self.plan)).union(self.through)

    def altered(self, old: TableSchema, new: TableSchema) -> PlainView:
        """The view after a change of a table's columns: its own stay as they are."""
        return replace(self, plan=followed(self.plan, old, new)) if old.name in self.reads else self


def readers(catalog: Catalog, name: str) -> tuple[str, ...]:
    """The views of both kinds that read one thing directly, or name it."""
    views = [v.name for v in catalog.views.values() if name in v.compiled.bases or name in v.through]
    return (*views, *(v.name for v in catalog.queries.values() if name in v.reads))


def going(catalog: Catalog, name: str) -> tuple[str, ...]:
    """What goes with a table or view, each before what it reads."""
    gone: dict[str, None] = {name: None}
    left = [name]
    while left:
        for reader in readers(catalog, left.pop()):
            if reader not in gone:
                gone[reader] = None
                left.append(reader)
    order: Mapping[str, Any] = {**catalog.queries, **dict.fromkeys(reversed(list(catalog.views)))}
    return tuple(n for n in order if n in gone and n != name)
