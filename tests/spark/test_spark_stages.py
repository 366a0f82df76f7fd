"""The stages of distributed programs as Spark's tasks run them, without a JVM: rows, and maps level by level.

Units are those of the tasks; exchanges are dictionaries. After every batch the views equal the local
engine's, and what they publish leads from the rows before to those after.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from sys import path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from everfresh.compiler import Catalog, explain
from everfresh.distributed.plan.tags import Replicated
from everfresh.distributed.worker.execute import Journal, Site
from everfresh.distributed.worker.routing import owners
from everfresh.distributed.worker.wire import Held
from everfresh.local.store.table import Net
from everfresh.spark.jobs.exchange import (
    came,
    given,
    given_whole,
    handed_on,
    images,
    published,
    ran,
    received,
)
from everfresh.spark.jobs.job import GATHERED, STAGED, WHOLE, World
from everfresh.spark.jobs.programs import (
    batch_program,
    executed,
    home_of,
    incremental,
    load_program,
    no_catalog,
    placement_of,
    replayed,
    whole_program,
)
from everfresh.spark.jobs.stages import HOMES, MAPS, ROWS, Staged
from everfresh.spark.state.table_content import TableContent
from everfresh.sql import parse_and_bind
from everfresh.testing.oracle import assert_same

for folder in ("distributed", "workloads"):
    path.insert(0, str(Path(__file__).parents[1] / folder))
from test_distributed_twin import histories  # noqa: E402
from twin import started  # noqa: E402

from everfresh.delta.bags import expand, net, weigh  # noqa: E402
from everfresh.program import Part  # noqa: E402
from everfresh.workloads import WORKLOADS  # noqa: E402

NAMES = ("q01", "q03", "q05", "q10", "q11", "q13", "q15", "q17", "q18", "q20", "q22")

SIZES = {
    "lineitem": 6_000_000,
    "orders": 1_500_000,
    "partsupp": 800_000,
    "part": 200_000,
    "customer": 150_000,
    "supplier": 10_000,
    "nation": 25,
    "region": 5,
    "t": 50_000_000,
}

NESTED = "CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b BIGINT, x BIGINT)"
FIRST = "SELECT a, MAX(b) AS b, MAX(x) AS x FROM t GROUP BY a"
SECOND = f"SELECT b, MAX(x) AS x, COUNT(*) AS n FROM ({FIRST}) l1 GROUP BY b"
THIRD = f"SELECT x, MAX(n) AS n, COUNT(*) AS k FROM ({SECOND}) l2 GROUP BY x"
FOURTH = f"SELECT n, MAX(k) AS m, COUNT(*) AS k FROM ({THIRD}) l3 GROUP BY n"
LEVELS = {
    2: FIRST,
    3: "SELECT a, b, x, r, ROW_NUMBER() OVER (PARTITION BY r, x ORDER BY id) AS q FROM"
    " (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY id) AS r FROM t) l1",
    4: THIRD,
    5: FOURTH,
    6: f"SELECT f.n, f.m, l2.b FROM ({FOURTH}) f LEFT JOIN ({SECOND}) l2 ON f.m = l2.n",
}
"""Views over one table, by the stages that a batch of each takes: each step's change is partitioned anew."""


def catalog_of(ddl: list[str], sizes: dict[str, int] | None = None) -> Catalog:
    catalog = no_catalog()
    for text in ddl:
        for statement in parse_and_bind(text, catalog):
            catalog, _ = executed(catalog, statement, sizes)
    return catalog


class Cluster:
    """Units of W workers and of the driver, and batches through them: in stages, or read whole."""

    def __init__(self, ddl: list[str], workers: int, whole: bool) -> None:
        self.catalog, self.whole = catalog_of(ddl, SIZES), whole
        ids = {name: f"{name}@1" for name in (*self.catalog.tables, *self.catalog.views)}
        entries = tuple(text for _, text in self.catalog.ddl)
        self.root = TemporaryDirectory()
        self.world = World(self.root.name, "x", workers, entries, ids, frozenset(), 1, 0, False, None)
        self.units = {
            role: [TableContent(f"{role}/{w}", self.world) for w in range(workers)] for role in HOMES
        }
        self.driver = TableContent("driver", self.world)
        self.changes: dict[str, list[pa.Table]] = {}
        self.forms: set[str] = set()

    def apply(self, nets: dict[str, tuple[pa.Table, list[int]]]) -> None:
        world = self.world
        for unit in (*(unit for units in self.units.values() for unit in units), self.driver):
            unit.reclaim(world, now=True)  # strings that nothing uses are freed before every batch
        program = world.program(WHOLE, frozenset(nets)) if self.whole else None
        self.forms.add("staged" if program is None else "whole")
        program = program or world.program(STAGED, frozenset(nets))
        assert program is not None
        self.changes = defaultdict(list)
        gathered = self._whole(program, nets) if program.whole else self._staged(program, nets)
        site = self.driver.site(world)
        inputs = came(program.driver.inputs, sorted(gathered), self.driver.interner)
        self._done(site, ran(site, program.driver, inputs)[0])
        for view in self.catalog.views:  # the driver has none but its own
            for m in self.catalog.views[view].compiled.program.maps:
                local = str(site.placement.maps.get(m.name)) == "@driver"
                assert local or not len(site.state._store(m.name).pool)

    def _done(self, site: Site, journal: Journal) -> None:
        assert images(self.world, site, journal) is not None
        for view in site.state.catalog.views:
            change = published(site, journal, view)
            if change is not None:
                self.changes[view].append(change)
        journal.commit()

    def _staged(self, program: Staged, nets: dict[str, tuple[pa.Table, list[int]]]) -> list[bytes]:
        world, count = self.world, self.world.workers
        inbox: dict[int, list[bytes]] = defaultdict(list)
        gathered: list[bytes] = []

        def hand_on(site: Site, stage: int, held: dict[str, Held]) -> None:
            for to, kind, payload in handed_on(world, site, program, stage, held):
                (gathered if kind == GATHERED else inbox[to]).append(payload)

        for w in range(count):
            unit = self.units["base"][w]
            tables, mine = {}, {}
            for name, (rows, weights) in nets.items():
                table = tables[name] = unit.table(world, name)
                words = table.codec.encode(rows)
                keys = [c for c in table.schema.names if c in (table.schema.key or table.schema.names)]
                to = owners([table.codec.vectors(words, keys)[c] for c in keys], len(weights), count)
                mine[name] = Net(words[:, to == w].copy(), weights[to == w])
            site = unit.blank(world)
            hand_on(site, ROWS, ran(site, program.blocks[ROWS], given(program, tables, mine))[1])
        for stage in range(MAPS, program.stages):
            role = HOMES[stage]
            came_, inbox = inbox, defaultdict(list)
            for w in range(count):
                site = self.units[role][w].site(world)
                journal, held = received(site, program, stage, sorted(came_[w]))
                hand_on(site, stage, held)
                self._done(site, journal)
        return gathered

    def _whole(self, program: Staged, nets: dict[str, tuple[pa.Table, list[int]]]) -> list[bytes]:
        gathered = []
        rows = {
            name: [
                (table.filter(pa.array(weights * sign > 0)), sign)  # a row that comes twice is given twice
                for sign in (-1, 1)
                for table, weights in [_repeated(*change)]
            ]
            for name, change in nets.items()
        }
        for unit in self.units["maps"]:
            site = unit.site(self.world)
            journal, held = ran(site, program.blocks[0], given_whole(program, rows, unit.interner))
            for _, kind, payload in handed_on(self.world, site, program, 0, held):
                assert kind == GATHERED
                gathered.append(payload)
            self._done(site, journal)
        return gathered

    def rows(self, view: str) -> pa.Table:
        home = home_of(self.catalog, view)
        units = [self.driver] if home == "driver" else self.units[home]
        everywhere = isinstance(
            placement_of(self.catalog).maps[self.catalog.views[view].compiled.map.name], Replicated
        )
        parts = []
        for w, unit in enumerate(units):
            store = unit.map(self.world, view)
            if w == 0 or not (store.view.always or everywhere):
                parts.append(expand(store.rows()))
        return pa.concat_tables(parts)


def _repeated(table: pa.Table, weights: Any) -> tuple[pa.Table, Any]:
    times = np.repeat(np.arange(len(weights)), np.abs(weights))
    return table.take(pa.array(times)), np.sign(weights)[times]


def test_which_views_run() -> None:
    ddl = [*WORKLOADS["thesis"].tables.values(), *(q.ddl for q in WORKLOADS["thesis"].queries)]
    catalog = catalog_of(ddl, SIZES)
    assert set(incremental(catalog).views) == {q.view for q in WORKLOADS["thesis"].queries}
    everything = frozenset(catalog.tables)
    assert batch_program(catalog, everything).stages == 2
    found = whole_program(catalog, everything)
    assert found is not None
    assert found.stages == 1


@pytest.mark.parametrize(("workers", "whole"), [(3, True), (2, False)])
@pytest.mark.parametrize("name", NAMES)
def test_stages_equal_the_local_engine(name: str, workers: int, whole: bool) -> None:
    query = WORKLOADS["thesis"].query(name)
    ddl = [*WORKLOADS["thesis"].tables.values(), query.ddl]
    cluster, state = Cluster(ddl, workers, whole), started(ddl)
    assert query.view in incremental(cluster.catalog).views
    for batch in histories(state, "thesis", 11):
        parts: dict[str, list[Part]] = {}
        for table, op, rows in batch:
            parts.setdefault(table, []).append(Part(table, op, rows, table, None, None))  # type: ignore[arg-type]
        nets = {n: state.tables[n].resolve(some) for n, some in parts.items()}
        nets = {n: one for n, one in nets.items() if len(one)}
        decoded = {n: (state.tables[n].codec.decode(c.words), c.weights.copy()) for n, c in nets.items()}
        before = cluster.rows(query.view)
        with state.changing(nets):
            pass
        cluster.apply(decoded)  # type: ignore[arg-type]
        assert_same(expand(state.maps[query.view].rows()), cluster.rows(query.view))
        assert all(unit.upkeep.collections for units in cluster.units.values() for unit in units)
        if cluster.changes[query.view]:
            parts_ = cluster.changes[query.view]
            moved = net(pa.concat_tables([weigh(before).cast(parts_[0].schema), *parts_]))
            assert_same(cluster.rows(query.view), expand(moved))


def nested(*stages: int) -> list[str]:
    """The table, and views of so many stages."""
    return [NESTED, *(f"CREATE MATERIALIZED VIEW v{n} AS {LEVELS[n]}" for n in stages)]


@pytest.mark.parametrize("stages", LEVELS)
def test_each_step_of_a_nested_view_is_a_stage(stages: int) -> None:
    """And every map is on one level, also when the view is replayed."""
    catalog = catalog_of(nested(stages), SIZES)
    again = no_catalog()
    for _, entry in catalog.ddl:
        again, _ = replayed(again, entry)
    for known in (catalog, again):
        assert not known.views[f"v{stages}"].compiled.reevaluated
        assert batch_program(known, frozenset("t")).stages == stages
        assert load_program(known, f"v{stages}").stages == stages
        assert (whole_program(known, frozenset("t")) is None) == (stages > 2)


@pytest.mark.parametrize(("workers", "size", "ddl"), [
    *((3, 7, nested(stages)) for stages in LEVELS),
    (2, 1, nested(*LEVELS)),
    (3, 40, nested(*LEVELS)),
])  # fmt: skip
def test_views_of_many_stages(workers: int, size: int, ddl: list[str]) -> None:
    """Rows that come, go, come again and change: one view alone, and all of them in one job."""
    cluster, state, random = Cluster(ddl, workers, False), started(ddl), np.random.default_rng(3)
    names = [*cluster.catalog.views]
    assert {*incremental(cluster.catalog).views} == {*names}
    there: dict[int, tuple[int | None, ...]] = {}
    for _ in range(12):
        come, go = [], []
        for number in random.choice(40, min(size, 40), replace=False).tolist():
            if number in there:
                go.append((number, *there.pop(number)))
            if not go or random.random() < 0.7:
                there[number] = tuple(
                    None if random.random() < 0.1 else int(v) for v in random.integers(4, size=3)
                )
                come.append((number, *there[number]))
        parts = {
            "t": [Part("t", op, _rows(some), "t") for op, some in (("delete", go), ("insert", come)) if some]
        }
        nets = {n: state.tables[n].resolve(some) for n, some in parts.items()}
        nets = {n: one for n, one in nets.items() if len(one)}
        decoded = {n: (state.tables[n].codec.decode(c.words), c.weights.copy()) for n, c in nets.items()}
        before = {name: cluster.rows(name) for name in names}
        with state.changing(nets):
            pass
        cluster.apply(decoded)
        for name in names:
            assert_same(expand(state.maps[name].rows()), cluster.rows(name))
            if cluster.changes[name]:
                some = cluster.changes[name]
                moved = net(pa.concat_tables([weigh(before[name]).cast(some[0].schema), *some]))
                assert_same(cluster.rows(name), expand(moved))


def _rows(rows: list[tuple[int | None, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table({n: pa.array(c, pa.int64()) for n, c in zip(("id", "a", "b", "x"), columns, strict=True)})


def test_decisions_are_kept_with_the_view() -> None:
    """What the sizes said when a view was created holds when it is replayed, without them."""
    ddl = [*WORKLOADS["thesis"].tables.values(), WORKLOADS["thesis"].query("q10").ddl]
    catalogs = catalog_of(ddl, SIZES), catalog_of(ddl, {**SIZES, "customer": 15_000_000})
    tags = [placement_of(catalog).maps for catalog in catalogs]
    assert tags[0] != tags[1]
    for catalog, expected in zip(catalogs, tags, strict=True):
        again = no_catalog()
        for _, entry in catalog.ddl:
            again, _ = replayed(again, entry)
        assert again.ddl == catalog.ddl
        assert placement_of(again).maps == expected


def test_why_a_view_is_computed_anew_is_kept() -> None:
    ddl = [
        "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT)",
        "CREATE TABLE u (k BIGINT PRIMARY KEY, g BIGINT)",
    ]
    ddl += ["CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g"]
    ddl += [
        "CREATE MATERIALIZED VIEW w WITH (strategy = 'first-order') AS"
        " SELECT t.k, u.g FROM t JOIN u ON t.g = u.g"
    ]
    catalog = catalog_of(ddl)
    again = no_catalog()
    for _, entry in catalog.ddl:
        again, _ = replayed(again, entry)
    for known in (catalog, again):
        assert not known.views["v"].compiled.reevaluated
        assert "its program reads the rows of t, u" in explain(known.views["w"].compiled, "")
