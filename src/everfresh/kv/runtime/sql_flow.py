"""A SQL view as a dataflow: the compiled program of the view over the local engine's state.

"View types" in docs/design/key-value.md. All changes go to one manager, which keeps the base tables and the
maps of the program. A view with a key has a row for each key; one without has all its columns as the key of
its store table, and `_weight` says how often a row is there. Invariant: the rows it gives, one epoch after
the other, leave the view of the base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from everfresh.compiler import Catalog, Effect
from everfresh.delta.bags import WEIGHT, split
from everfresh.errors import Code, EverfreshError
from everfresh.kv.encoding import RowCodec
from everfresh.kv.protocol.dataflow import Contribution, ViewRow
from everfresh.kv.protocol.timeline import Change
from everfresh.local import adhoc
from everfresh.local.state import LocalState
from everfresh.program import Part
from everfresh.sql import CreateView, parse_and_bind
from everfresh.types import BIGINT, Column, TableSchema

_ALL = "all"


@dataclass
class _Maps:
    state: LocalState
    counts: Counter[bytes]
    """How often each row is there, of a view without a key."""
    started: bool = False


class SqlFlow:
    """One view over base tables with primary keys."""

    def __init__(self, text: str, tables: Mapping[str, TableSchema], key: Sequence[str] = ()) -> None:
        self._steps: list[tuple[Catalog, Effect]] = []
        catalog = Catalog(joins=True, rows=True)
        for schema in tables.values():
            catalog = self._step(catalog, schema.ddl)
        catalog = self._step(catalog, text)
        if not catalog.views:
            raise EverfreshError(
                Code.ARGUMENT, "this is not a view", hint="it begins with CREATE MATERIALIZED VIEW"
            )
        (self.view,) = catalog.views.values()
        self.name = self.view.name
        self.tables = self.view.compiled.bases
        self.key = tuple(key)
        columns = self.view.columns
        for name in self.key:
            if name not in [c.name for c in columns]:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"view '{self.name}' has no column '{name}'",
                    hint="columns are: " + ", ".join(c.name for c in columns),
                )
        if not self.key:
            columns = (*columns, Column(WEIGHT, BIGINT))
        self.schema = TableSchema(self.name, columns, self.key or tuple(c.name for c in self.view.columns))
        self.codec = RowCodec(self.schema)
        self._codecs = {name: RowCodec(tables[name]) for name in self.tables}

    def _step(self, catalog: Catalog, text: str) -> Catalog:
        for statement in parse_and_bind(text, catalog):
            if catalog.views and isinstance(statement, CreateView):
                raise EverfreshError(Code.ARGUMENT, "one view is made at a time")
            catalog, effect = catalog.execute(statement)
            self._steps.append((catalog, effect))
        return catalog

    # -- the dataflow ------------------------------------------------------------------------------

    def blank(self) -> _Maps:
        """The view over empty tables."""
        state = LocalState()
        for catalog, effect in self._steps:
            state.execute(catalog, effect, 1)
        return _Maps(state, Counter())

    def route(self, changes: Sequence[Change]) -> list[Contribution]:
        """Everything to one manager."""
        return [Contribution(_ALL, change) for change in changes]

    def apply(self, maps: _Maps, given: Iterable[Contribution]) -> list[ViewRow]:
        """Run the program; the rows of the view that have changed."""
        parts = self._parts([contribution.delta for contribution in given])
        rows = self._first(maps)
        nets = maps.state.resolve(parts)
        if nets:
            with maps.state.changing(nets) as changes:
                changed = changes[self.name].table if self.name in changes else None
            maps.state.reclaim()
            if changed is not None:
                rows = [*rows, *self._rows(maps, changed)]
        return list({row.key: row for row in rows}.values())

    def _parts(self, changes: Sequence[Change]) -> dict[str, list[Part]]:
        """The rows that go and those that come, by table."""
        parts: dict[str, list[Part]] = {}
        for name, codec in self._codecs.items():
            of = [change for change in changes if change.table == name]
            gone = [codec.decode(c.key, c.before) for c in of if c.before is not None]
            come = [codec.decode(c.key, c.after) for c in of if c.after is not None]
            parts[name] = [
                *([Part(name, "delete", codec.arrow(gone), f"rows of {name}")] if gone else []),
                *([Part(name, "insert", codec.arrow(come), f"rows of {name}")] if come else []),
            ]
        return {name: of for name, of in parts.items() if of}

    def _first(self, maps: _Maps) -> list[ViewRow]:
        """What the view shows without any change before the first: an aggregate of nothing has a row."""
        if maps.started:
            return []
        maps.started = True
        return self._rows(maps, _weighed(maps.state.rows(self.name)))

    def _rows(self, maps: _Maps, changed: pa.Table) -> list[ViewRow]:
        rows, weights = split(changed)
        listed = self._physical(rows)
        net: Counter[tuple[Any, ...]] = Counter()
        for row, weight in zip(listed, weights.to_pylist(), strict=True):
            net[row] += weight
        found: dict[bytes, bytes | None] = {}
        for row, weight in sorted(net.items(), key=lambda item: item[1]):  # what goes, goes first
            if not weight:
                continue
            if self.key:
                key, value = self.codec.encode(row)
                if weight > 1 or (weight > 0 and found.get(key) is not None):
                    raise self._not_a_key(row)
                found[key] = value if weight > 0 else None
                continue
            key, _ = self.codec.encode((*row, 0))
            maps.counts[key] += weight
            count = maps.counts[key]
            found[key] = self.codec.encode((*row, count))[1] if count else None
            if not count:
                del maps.counts[key]
        return [ViewRow(self.name, key, value) for key, value in sorted(found.items())]

    def _not_a_key(self, row: Sequence[Any]) -> EverfreshError:
        return EverfreshError(
            Code.DUPLICATE_KEY,
            f"view '{self.name}' has two rows with one key ({', '.join(self.key)}): {row}",
            hint="make it with another key, or without",
        )

    def _physical(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        return RowCodec(TableSchema(self.name, self.view.columns)).physical(rows)

    # -- reading -----------------------------------------------------------------------------------

    def recomputed(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The view of these tables, from its plan alone."""
        return adhoc.execute(self.view.compiled.plan, lambda name: tables[name])


def _weighed(rows: pa.Table) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array([1] * rows.num_rows, pa.int64()))
