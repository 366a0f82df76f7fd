"""A program over base tables in one process: what changes of base rows are to the rows of one relation.

The local engine's state, with the tables' rows and the maps of one compiled view. Invariant: the changes it
gives, one after the other, leave the relation of the base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from everfresh.compiler import Catalog, Effect, ViewDef
from everfresh.errors import Code, EverfreshError
from everfresh.kv.encoding import RowCodec
from everfresh.kv.protocol.timeline import Change
from everfresh.local.state import LocalState
from everfresh.program import Part
from everfresh.sql import CreateView, parse_and_bind
from everfresh.sql.statements import Statement
from everfresh.types import TableSchema


class Program:
    """The compiled program of one view."""

    def __init__(self, tables: Mapping[str, TableSchema], statement: CreateView) -> None:
        self._steps: list[tuple[Catalog, Effect]] = []
        catalog = base_catalog(tables, self._steps)
        catalog, effect = catalog.execute(replace(statement, options=_compiled(statement)))
        self._steps.append((catalog, effect))
        self.view: ViewDef = catalog.views[statement.name]
        self.tables: tuple[str, ...] = self.view.compiled.bases
        self._codecs = {name: RowCodec(tables[name]) for name in self.tables}

    def blank(self) -> LocalState:
        """The view over empty tables."""
        state = LocalState()
        for catalog, effect in self._steps:
            state.execute(catalog, effect, 1)
        return state

    def apply(self, state: LocalState, changes: Sequence[Change]) -> pa.Table | None:
        """Change the base: how the view's rows change, with weights; None if they do not."""
        return self.step(state, self._parts(changes))

    def step(self, state: LocalState, parts: Mapping[str, Sequence[Part]]) -> pa.Table | None:
        """Change the base by Arrow rows."""
        nets = state.resolve(parts)
        if not nets:
            return None
        with state.changing(nets) as changes:
            changed = changes[self.view.name].table if self.view.name in changes else None
        state.reclaim()
        return changed

    def _parts(self, changes: Sequence[Change]) -> dict[str, list[Part]]:
        """The rows that go and those that come, by table."""
        gone: dict[str, list[tuple[object, ...]]] = {name: [] for name in self._codecs}
        come: dict[str, list[tuple[object, ...]]] = {name: [] for name in self._codecs}
        for change in changes:
            codec = self._codecs[change.table]
            if change.before is not None:
                gone[change.table].append(codec.decode(change.key, change.before))
            if change.after is not None:
                come[change.table].append(codec.decode(change.key, change.after))
        parts: dict[str, list[Part]] = {}
        for name, codec in self._codecs.items():
            what = f"rows of {name}"
            if gone[name]:
                parts.setdefault(name, []).append(Part(name, "delete", codec.arrow(gone[name]), what))
            if come[name]:
                parts.setdefault(name, []).append(Part(name, "insert", codec.arrow(come[name]), what))
        return parts


def base_catalog(
    tables: Mapping[str, TableSchema], steps: list[tuple[Catalog, Effect]] | None = None
) -> Catalog:
    """The catalog of base tables."""
    catalog = Catalog(joins=True, rows=True)
    for schema in tables.values():
        for statement in parse_and_bind(schema.ddl, catalog):
            catalog, effect = catalog.execute(statement)
            if steps is not None:
                steps.append((catalog, effect))
    return catalog


OPTIONS = ("layout",)
"""Options of a view that are the store's and not the compiler's."""


def _compiled(statement: CreateView) -> dict[str, object]:
    return {name: value for name, value in statement.options.items() if name not in OPTIONS}


def bound(text: str, tables: Mapping[str, TableSchema] | Catalog) -> list[Statement]:
    """The statements of a text over base tables."""
    catalog = tables if isinstance(tables, Catalog) else base_catalog(tables)
    return list(parse_and_bind(text, catalog))


def one_view(text: str, tables: Mapping[str, TableSchema] | Catalog) -> CreateView:
    """The one CREATE MATERIALIZED VIEW statement of a text."""
    found = bound(text, tables)
    if not found or not isinstance(found[0], CreateView):
        raise EverfreshError(
            Code.ARGUMENT, "this is not a view", hint="it begins with CREATE MATERIALIZED VIEW"
        )
    if len(found) > 1:
        raise EverfreshError(Code.ARGUMENT, "one view is made at a time")
    return found[0]
