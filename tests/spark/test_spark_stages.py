"""The stages of distributed programs as Spark's tasks run them, without a JVM: rows, maps, results.

Units are those of the tasks; exchanges are dictionaries. After every batch the views equal the local
engine's, and what they publish leads from the rows before to those after.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from sys import path

import pyarrow as pa
import pytest

from everfresh.compiler import Catalog
from everfresh.distributed.routing import owners
from everfresh.local.table import Net
from everfresh.options import Options
from everfresh.spark.distribute import given, handed_on, images, published, received, sent, site_of
from everfresh.spark.jobs import World
from everfresh.spark.ledger import Draft, Ledger
from everfresh.spark.programs import batch_program, executed, incremental, no_catalog, results_of
from everfresh.spark.stages import MAPS, RESULTS
from everfresh.spark.units import Unit
from everfresh.sql import parse_and_bind
from everfresh.state import StateFolder
from everfresh.testing.oracle import assert_same

for folder in ("distributed", "workloads"):
    path.insert(0, str(Path(__file__).parents[1] / folder))
from test_distributed_twin import histories  # noqa: E402
from twin import started  # noqa: E402

from everfresh.delta.bags import expand, net, weigh  # noqa: E402
from everfresh.program import Part  # noqa: E402
from everfresh.workloads import WORKLOADS  # noqa: E402

NAMES = ("q01", "q03", "q05", "q10", "q11", "q13", "q15", "q17", "q18", "q20", "q22")


def catalog_of(ddl: list[str]) -> Catalog:
    catalog = no_catalog(True)
    for text in ddl:
        for statement in parse_and_bind(text, catalog):
            catalog, _ = executed(catalog, statement)
    return catalog


class Cluster:
    """Units of W workers, and batches through them."""

    def __init__(self, ddl: list[str], workers: int) -> None:
        self.catalog = catalog_of(ddl)
        ids = {name: f"{name}@1" for name in (*self.catalog.tables, *self.catalog.views)}
        entries = tuple(text for _, text in self.catalog.ddl)
        self.world = World("", "x", workers, entries, ids, frozenset(), 1, 0, False, None, True)
        self.units = {
            role: [Unit(f"{role}/{w}", self.world) for w in range(workers)]
            for role in ("base", "maps", "results")
        }
        self.changes: dict[str, list[pa.Table]] = {}

    def apply(self, nets: dict[str, tuple[pa.Table, list[int]]]) -> None:
        world, count = self.world, self.world.workers
        program = batch_program(world.catalog, set(nets))
        inbox: dict[int, list[bytes]] = defaultdict(list)
        self.changes = defaultdict(list)
        for w in range(count):
            tables, mine = {}, {}
            for name, (rows, weights) in nets.items():
                table = tables[name] = self.units["base"][w].table(world, name)
                words = table.codec.encode(rows)
                keys = [c for c in table.schema.names if c in (table.schema.key or table.schema.names)]
                to = owners([table.codec.vectors(words, keys)[c] for c in keys], len(weights), count)
                mine[name] = Net(words[:, to == w].copy(), weights[to == w])
            for to, _, payload in sent(world, w, program, given(program, tables, mine)):
                inbox[to].append(payload)
        for role, stage in (("maps", MAPS), ("results", RESULTS)):
            came, inbox = inbox, defaultdict(list)
            for w in range(count):
                unit = self.units[role][w]
                state = unit.state(world)
                journal, held = received(world, unit, state, w, program, stage, sorted(came[w]))
                assert images(world, state, journal) is not None
                for view in state.catalog.views:
                    change = published(state, journal, view, site_of(world, state, w))
                    if change is not None:
                        self.changes[view].append(change)
                journal.commit()
                if stage == MAPS:
                    for to, _, payload in handed_on(world, w, program, stage, held):
                        inbox[to].append(payload)

    def rows(self, view: str) -> pa.Table:
        role = "results" if view in results_of(self.catalog) else "maps"
        parts = []
        for w, unit in enumerate(self.units[role]):
            store = unit.map(self.world, view)
            if not store.view.always or w == 0:
                parts.append(expand(store.rows()))
        return pa.concat_tables(parts)


def test_which_views_run() -> None:
    ddl = [*WORKLOADS["thesis"].tables.values(), *(q.ddl for q in WORKLOADS["thesis"].queries)]
    runs = set(incremental(catalog_of(ddl)).views)
    assert runs >= {f"thesis_{name}" for name in ("q01", "q03", "q04", "q06", "q12", "q13", "q17", "q18")}


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_stages_equal_the_local_engine(name: str, workers: int) -> None:
    query = WORKLOADS["thesis"].query(name)
    ddl = [*WORKLOADS["thesis"].tables.values(), query.ddl]
    cluster, state = Cluster(ddl, workers), started(ddl)
    if query.view not in incremental(cluster.catalog).views:
        pytest.skip("re-evaluated: more than three stages")
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
        if cluster.changes[query.view]:
            parts_ = cluster.changes[query.view]
            moved = net(pa.concat_tables([weigh(before).cast(parts_[0].schema), *parts_]))
            assert_same(cluster.rows(query.view), expand(moved))


def test_a_folder_knows_whether_its_joins_run_as_programs(tmp_path: Path) -> None:
    def ledger(joins: bool) -> tuple[StateFolder, Ledger]:
        options = Options(joins=joins)
        folder = StateFolder.open(tmp_path, engine="spark", workers=2, options=options, read_only=False)
        return folder, Ledger(folder, options)

    ddl = [*WORKLOADS["thesis"].tables.values(), WORKLOADS["thesis"].query("q03").ddl]
    folder, first = ledger(True)
    for text in ddl:
        for statement in parse_and_bind(text, first.catalog):
            _, effect = executed(first.catalog, statement)
            first.commit(Draft(first), ddl=(effect.text,))
    assert not first.catalog.views["thesis_q03"].compiled.reevaluated
    folder.close()
    folder, again = ledger(False)
    assert again.joins
    assert again.bases.keys() == first.bases.keys()
    assert not again.catalog.views["thesis_q03"].compiled.reevaluated
    assert again.world(1).joins
    folder.close()
