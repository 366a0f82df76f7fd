"""The in-process executor of distributed programs beside the local engine: the same batches go to both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.compiler import Catalog
from everfresh.delta.bags import WEIGHT
from everfresh.distributed.plan.compile import ALL, Passes
from everfresh.distributed.plan.placement import Limits
from everfresh.distributed.plan.tags import REPLICATED, Tag
from everfresh.local.state import LocalState
from everfresh.program import Part
from everfresh.sql import parse_and_bind
from everfresh.testing.in_process import InProcess
from everfresh.testing.state_check import contents

Parts = Iterable[tuple[str, str, pa.Table]]


def started(
    ddl: Iterable[str], sizes: Mapping[str, int] | None = None, wide: int | None = None
) -> LocalState:
    """The local engine's state after some statements, views compiled for tables of these sizes into programs
    that a cluster runs too: statements read maps, not tables. Of tables with `wide` columns, they have those
    that they read."""
    state = LocalState()
    state.catalog = replace(state.catalog, rows=False, wide=wide)
    for text in ddl:
        for statement in parse_and_bind(text, state.catalog):
            catalog, effect = state.catalog.execute(statement, sizes)
            state.execute(catalog, effect, 1)
    return state


class Twins:
    """A local state, and what it must equal."""

    def __init__(
        self,
        state: LocalState,
        workers: Iterable[int],
        *,
        passes: Passes = ALL,
        given: Iterable[Tag] = (REPLICATED,),
        sizes: Mapping[str, int] | None = None,
        by: Mapping[str, str] | None = None,
        limits: Limits = Limits(),  # noqa: B008
        compile: str = "off",
    ) -> None:
        self.state = state
        self.others = []
        for count in workers:
            for tag in given:
                other = InProcess(count, passes, tag, sizes, limits, compile)
                other.scatter(state, by)
                for site in other.sites:
                    site.state.upkeep.always = True  # strings that nothing uses are freed after every batch
                self.others.append(other)

    @property
    def catalog(self) -> Catalog:
        return self.state.catalog

    def apply(self, parts: Parts, *, check: bool = True) -> None:
        by_table: dict[str, list[Part]] = {}
        for table, op, rows in parts:
            by_table.setdefault(table, []).append(Part(table, op, rows, table, None, None))  # type: ignore[arg-type]
        nets = {n: self.state.tables[n].resolve(some) for n, some in by_table.items()}
        nets = {n: net for n, net in nets.items() if len(net)}
        given = {
            n: (self.state.tables[n].codec.decode(net.words), net.weights.copy()) for n, net in nets.items()
        }
        with self.state.changing(nets) as made:
            published = {name: change.table for name, change in made.items()}
        published = {name: table for name, table in published.items() if table.num_rows}
        for other in self.others:
            other.apply(given)
            if check:
                self.check(other, published)

    def check(self, other: InProcess, published: Mapping[str, pa.Table]) -> None:
        note = f"{other.workers} workers, {other.given}"
        assert not other.misplaced(), note
        whole = other.gathered()
        for name, store in self.state.stores().items():
            assert_like(contents(store), contents(whole.stores()[name]), f"{note}, {name}")
        for name, table in self.state.tables.items():
            assert _bag(*table.rows()) == _bag(*whole.tables[name].rows()), f"{note}, {name}"
        assert published.keys() == other.changes.keys(), note
        for name, change in published.items():
            mine, theirs = (
                _bag(t.drop_columns([WEIGHT]), t.column(WEIGHT).to_numpy())
                for t in (change, other.changes[name])
            )
            assert mine == theirs, f"{note}, the change of {name}"


def assert_like(mine: Mapping[Any, Any], theirs: Mapping[Any, Any], note: str) -> None:
    """Equal entries, doubles nearly."""
    assert mine.keys() == theirs.keys(), note
    for key, values in mine.items():
        for x, y in zip(values, theirs[key], strict=True):
            same = x == y or (isinstance(x, float) and (abs(x - y) <= 1e-9 * max(1.0, abs(x)) or x != x))
            assert same, (note, key, values, theirs[key])


def _bag(rows: pa.Table, counts: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row, count in zip(rows.to_pylist(), np.asarray(counts).tolist(), strict=True):
        found[tuple(_plain(v) for v in row.values())] += count
    return Counter({k: n for k, n in found.items() if n})


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if value != value else float(f"{value:.8g}")
    return value
