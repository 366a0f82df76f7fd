"""Families of views for simulations: the real dataflow of views that share a program, over the small tables
that all simulations have.

Records travel as the simulation writes them, JSON `[group, number]`, and become rows here. Invariant: the
rows of a flow are what `rows_of` says of the base, which adds up view by view.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from everfresh.kv.encoding import RowCodec
from everfresh.kv.protocol.dataflow import Contribution, ViewRow
from everfresh.kv.protocol.timeline import Change
from everfresh.kv.runtime.core_program import base_catalog, one_view
from everfresh.kv.runtime.shared_flow import Numbered, SharedFlow
from everfresh.kv.sharing.template import shared
from everfresh.testing.kv.flows import VIEW, Base
from everfresh.types import BIGINT, VARCHAR, Column, TableSchema

RANGES: tuple[tuple[int, int], ...] = ((0, 1 << 40), (0, 200), (32, 4096))
_COLUMNS = (Column("k", VARCHAR, False), Column("g", VARCHAR), Column("n", BIGINT))
_TABLES = {name: TableSchema(name, _COLUMNS, ("k",)) for name in ("r", "s")}
KINDS = {
    "sums": "FROM r",
    "joined": "FROM r JOIN s ON r.g = s.g",
    "beside": "FROM r JOIN s ON r.g || '' = s.g",
}
"""Views over one table; over two that are divided by one column; over one that is divided and another that
everyone has."""


class FamilyFlow:
    """Sums and counts of each group, of the numbers in three ranges."""

    rounds = SharedFlow.rounds
    version = 1

    def __init__(self, kind: str) -> None:
        text = "SELECT r.g, SUM(r.n) AS t, COUNT(*) AS c {} WHERE r.n >= {} AND r.n < {} GROUP BY r.g"
        catalog = base_catalog(_TABLES)
        views = [
            shared(one_view(f"CREATE MATERIALIZED VIEW v AS {text.format(KINDS[kind], *of)}", catalog).plan)
            for of in RANGES
        ]
        self.kind = kind
        self.flow = SharedFlow(
            VIEW, _TABLES, views[0].template, [Numbered(i, v.ranges, 1) for i, v in enumerate(views)]
        )
        self.tables = tuple(sorted(self.flow.tables))
        self._codecs = {name: RowCodec(schema) for name, schema in _TABLES.items()}

    @property
    def identity(self) -> int:
        """That of the views."""
        return self.flow.identity

    def is_new(self, row: ViewRow, version: int) -> bool:
        """All rows are of views that came at once."""
        return self.flow.is_new(row, version)

    def blank(self, worker: int, workers: int) -> Any:
        """The maps of one worker, empty."""
        return self.flow.blank(worker, workers)

    def route(self, changes: Sequence[Change], workers: int) -> list[Contribution]:
        """By the column that divides the tables."""
        rows = [Change(t, self._row(t, k, v)[0], *(self._value(t, k, x) for x in (b, a)))
                for t, k, b, a in changes for v in (b if b is not None else a,) if v is not None]  # fmt: skip
        return self.flow.route(rows, workers)

    def forward(self, maps: Any, given: Iterable[Contribution]) -> list[Contribution]:
        """What becomes of the core."""
        return self.flow.forward(maps, given)

    def apply(self, maps: Any, given: Iterable[Contribution]) -> list[ViewRow]:
        """The rows of views that have changed."""
        return self.flow.apply(maps, given)

    def _row(self, table: str, key: bytes, value: bytes) -> tuple[bytes, bytes]:
        return self._codecs[table].encode((key.decode(), *json.loads(value)))

    def _value(self, table: str, key: bytes, value: bytes | None) -> bytes | None:
        return None if value is None else self._row(table, key, value)[1]

    def rows_of(self, base: Base) -> Mapping[bytes, bytes]:
        """The views of a base."""
        partners: dict[str, int] = defaultdict(int)
        for (table, _), value in base.items():
            if table == "s":
                partners[json.loads(value)[0]] += 1
        sums: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
        for (table, _), value in base.items():
            group, number = json.loads(value)
            times = 1 if self.kind == "sums" else partners[group]
            for view, (lo, hi) in enumerate(RANGES):
                if table == "r" and lo <= number < hi and times:
                    of = sums[view, group]
                    of[0], of[1] = of[0] + number * times, of[1] + times
        return dict(self.flow.codec.encode((view, group, *of)) for (view, group), of in sums.items())


__all__ = ["KINDS", "FamilyFlow"]
