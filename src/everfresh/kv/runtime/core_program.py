"""A program over base tables: what changes of base rows are to the rows of one relation.

The local engine's state, with the tables' rows and the maps of one compiled view, or those of an engine
elsewhere. Invariant: the changes it gives, one after the other, leave the relation of the base.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from everfresh.compiler import Catalog, Effect, ViewDef
from everfresh.compiler.lowering.narrow_scans import narrowed
from everfresh.errors import Code, EverfreshError
from everfresh.kv.encoding import RowCodec
from everfresh.kv.encoding.columns import columns
from everfresh.kv.protocol.timeline import Change
from everfresh.kv.runtime.on_engine import MakeEngine, OnEngine
from everfresh.local.state import LocalState
from everfresh.program import Part
from everfresh.sql import CreateView, parse_and_bind
from everfresh.sql.logical import plan as p
from everfresh.sql.statements import Statement
from everfresh.types import TableSchema


class Program:
    """The compiled program of one view."""

    def __init__(
        self, tables: Mapping[str, TableSchema], statement: CreateView, engine: MakeEngine | None = None
    ) -> None:
        """Without an engine it runs in this process."""
        self._steps: list[tuple[Catalog, Effect]] = []
        statement, narrow = _narrowed(statement, tables)
        catalog = base_catalog(narrow, self._steps)
        statement = replace(statement, options=_compiled(statement))
        self._engine, self._statements = engine, [*_declared(narrow), statement]
        catalog, effect = catalog.execute(statement)
        self._steps.append((catalog, effect))
        self.view: ViewDef = catalog.views[statement.name]
        self.tables: tuple[str, ...] = self.view.compiled.bases
        self._codecs = {name: RowCodec(tables[name]) for name in self.tables}
        self._names = {name: narrow[name].names for name in self.tables}

    def blank(self) -> LocalState | OnEngine:
        """The view over empty tables."""
        if self._engine is not None:
            return OnEngine(self._engine, self._statements)
        state = LocalState()
        for catalog, effect in self._steps:
            state.execute(catalog, effect, 1)
        return state

    def apply(self, state: LocalState | OnEngine, changes: Sequence[Change]) -> pa.Table | None:
        """Change the base: how the view's rows change, with weights; None if they do not."""
        return self.step(state, self._parts(changes))

    def step(self, state: LocalState | OnEngine, parts: Mapping[str, Sequence[Part]]) -> pa.Table | None:
        """Change the base by Arrow rows."""
        if isinstance(state, OnEngine):
            return state.step(parts, self.view.name)
        nets = state.resolve(parts)
        if not nets:
            return None
        with state.changing(nets) as changes:
            changed = changes[self.view.name].table if self.view.name in changes else None
        state.reclaim()
        return changed

    def _parts(self, changes: Sequence[Change]) -> dict[str, list[Part]]:
        """The rows that go and those that come, by table, with the columns that the view reads."""
        gone: dict[str, list[tuple[bytes, bytes]]] = {name: [] for name in self._codecs}
        come: dict[str, list[tuple[bytes, bytes]]] = {name: [] for name in self._codecs}
        for table, key, before, after in changes:
            if before is not None:
                gone[table].append((key, before))
            if after is not None:
                come[table].append((key, after))
        parts: dict[str, list[Part]] = {}
        for name, codec in self._codecs.items():
            what, names = f"rows of {name}", self._names[name]
            if gone[name]:
                rows = columns(codec, gone[name], names)
                parts.setdefault(name, []).append(Part(name, "delete", rows, what))
            if come[name]:
                rows = columns(codec, come[name], names)
                parts.setdefault(name, []).append(Part(name, "insert", rows, what))
        return parts


def _narrowed(
    statement: CreateView, tables: Mapping[str, TableSchema]
) -> tuple[CreateView, dict[str, TableSchema]]:
    """A view over tables that have only their keys and the columns that it reads: what is not read is neither
    decoded nor kept."""
    every = {v.name: scan for scan in _scans(statement.plan) for v in scan.vars}
    plan = narrowed(statement.plan, 1)
    kept = {
        name: {schema.names.index(column) for column in schema.key}
        for name, schema in tables.items()
        if any(scan.table == name for scan in every.values())
    }
    for scan in _scans(plan):
        kept[scan.table].update(range(len(scan.vars)) if scan.places is None else scan.places)

    def visit(node: Any) -> Any:
        if not isinstance(node, p.Scan):
            return node.map_children(visit)
        whole = every[node.vars[0].name]
        return replace(node, vars=tuple(whole.vars[i] for i in sorted(kept[node.table])), places=None)

    schemas = {
        name: replace(tables[name], columns=tuple(tables[name].columns[i] for i in sorted(places)))
        for name, places in kept.items()
    }
    return replace(statement, plan=visit(plan)), schemas


def _scans(node: Any) -> Iterator[p.Scan]:
    if isinstance(node, p.Scan):
        yield node
        return
    for child in node.children:
        yield from _scans(child)


def base_catalog(
    tables: Mapping[str, TableSchema], steps: list[tuple[Catalog, Effect]] | None = None
) -> Catalog:
    """The catalog of base tables."""
    catalog = Catalog(joins=True, rows=True)
    for statement in _declared(tables):
        catalog, effect = catalog.execute(statement)
        if steps is not None:
            steps.append((catalog, effect))
    return catalog


def _declared(tables: Mapping[str, TableSchema]) -> list[Statement]:
    """The statements that make tables."""
    empty = Catalog()
    return [statement for schema in tables.values() for statement in parse_and_bind(schema.ddl, empty)]


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
