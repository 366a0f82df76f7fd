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

from everfresh.delta.bags import WEIGHT, split
from everfresh.errors import Code, EverfreshError
from everfresh.kv.encoding import RowCodec
from everfresh.kv.protocol.dataflow import At, Contribution, OneRound, ViewRow
from everfresh.kv.protocol.timeline import Change
from everfresh.kv.runtime.core_program import Program, one_view
from everfresh.kv.runtime.on_engine import MakeEngine, OnEngine
from everfresh.local import adhoc
from everfresh.local.state import LocalState
from everfresh.sql.logical import plan as p
from everfresh.types import BIGINT, Column, TableSchema

_ALL = At(0)


@dataclass
class _Maps:
    state: LocalState | OnEngine
    counts: Counter[bytes]
    """How often each row is there, of a view without a key."""
    started: bool = False


class SqlFlow(OneRound):
    """One view over base tables with primary keys."""

    def __init__(
        self,
        text: str,
        tables: Mapping[str, TableSchema],
        key: Sequence[str] = (),
        *,
        compiled: bool = True,
        table: str = "",
        engine: MakeEngine | None = None,
    ) -> None:
        """`table` is the store's table of its rows, if it has not the view's name; its program runs on an
        engine, if one is given, and here otherwise."""
        self._engine = engine
        statement = one_view(text, tables)
        self._statement, self._tables = statement, tables
        self.name, self.options, self.version = statement.name, statement.options, 1
        self.key, self.table = tuple(key), table or statement.name
        self.plan = statement.plan
        columns = self._columns = statement.columns
        for name in self.key:
            if name not in [c.name for c in columns]:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"view '{self.name}' has no column '{name}'",
                    hint="columns are: " + ", ".join(c.name for c in columns),
                )
        if compiled:
            self.compile()

    def compile(self) -> None:
        """Make the program."""
        self.program = Program(self._tables, self._statement, self._engine)
        self.tables = self.program.tables
        columns = self._columns = self.program.view.columns
        names = tuple(c.name for c in columns)
        if not self.key:
            columns = (*columns, Column(WEIGHT, BIGINT))
        self.schema = TableSchema(self.name, columns, self.key or names)
        self.codec = RowCodec(self.schema)

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables that the view's plan reads."""
        return tuple(dict.fromkeys(scan.table for scan in p.scans(self.plan)))

    # -- the dataflow ------------------------------------------------------------------------------

    def blank(self, worker: int = 0, workers: int = 1) -> _Maps:
        """The view over empty tables: it is the first worker's."""
        return _Maps(self.program.blank(), Counter(), started=_ALL.worker != worker)

    def route(self, changes: Sequence[Change], workers: int = 1) -> list[Contribution]:
        """Everything to one manager, in one message."""
        return [Contribution(_ALL, tuple(changes))] if changes else []

    def apply(self, maps: _Maps, given: Iterable[Contribution]) -> list[ViewRow]:
        """Run the program; the rows of the view that have changed."""
        rows = self._first(maps)
        changed = self.program.apply(maps.state, [change for of in given for change in of.delta])
        if changed is not None:
            rows = [*rows, *self._rows(maps, changed)]
        return list({row.key: row for row in rows}.values())

    def is_new(self, row: ViewRow, version: int) -> bool:
        """Whether a view that was shown at a version of the definitions did not have the row yet."""
        return version < self.version

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
        return [ViewRow(self.table, key, value) for key, value in sorted(found.items())]

    def _not_a_key(self, row: Sequence[Any]) -> EverfreshError:
        return EverfreshError(
            Code.DUPLICATE_KEY,
            f"view '{self.name}' has two rows with one key ({', '.join(self.key)}): {row}",
            hint="make it with another key, or without",
        )

    def _physical(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        return RowCodec(TableSchema(self.name, self._columns)).physical(rows)

    # -- reading -----------------------------------------------------------------------------------

    def recomputed(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The view of these tables, from its plan alone."""
        return adhoc.execute(self.plan, lambda name: tables[name])


def _weighed(rows: pa.Table) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array([1] * rows.num_rows, pa.int64()))
