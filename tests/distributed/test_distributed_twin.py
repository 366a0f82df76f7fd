"""Distributed programs, run: W workers and a driver in one process equal the local engine after every batch.

Every map and table is compared, and the change that each view publishes; `misplaced` says that no worker
holds an entry that its placement does not give it, so that no statement can read one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from sys import path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from everfresh.calculus import Rel
from everfresh.datasets import orderbook, tpcds, tpch
from everfresh.distributed import (
    ALL,
    LOCAL,
    NAIVE,
    RANDOM,
    REPLICATED,
    DistributedProgram,
    Limits,
    Passes,
    Placement,
    distributed,
)
from everfresh.distributed.plan.early import done_early
from everfresh.distributed.plan.tags import Tag
from everfresh.errors import EverfreshError
from everfresh.local.state import LocalState
from everfresh.testing import in_process
from everfresh.testing.random_sql import random_case, spelled
from everfresh.testing.state_check import contents
from everfresh.types import TableSchema, arrow_schema, quoted
from everfresh.workloads import WORKLOADS, Query

path.insert(0, str(Path(__file__).parents[1] / "workloads"))
from twin import Parts, Twins, started
from workload_streams import Batches, Stream

LARGE = dict.fromkeys(("lineitem", "orders", "partsupp", "store_sales", "bids", "asks"), 10 * 10**6)
EVERYTHING = [q for w in WORKLOADS.values() for q in w.queries]
LONG = {q.view for q in EVERYTHING if q.workload in ("thesis", "tpcds")} | {"tpch_q09"}
"""Queries for the soak: programs of these take seconds to compile, or are much like another's."""


def data(workload: str) -> dict[str, pa.Table]:
    """A few rows of each table, that join."""
    match workload:
        case "tpch" | "thesis":
            return _joining(tpch.read(0.001))
        case "tpcds":
            return {n: t.slice(0, 300) for n, t in tpcds.read(0.01).items() if n in WORKLOADS["tpcds"].tables}
        case "finance":
            return orderbook.orders(60)
    rng = np.random.default_rng(1)
    return {
        name: pa.table({c: rng.integers(0, 6, 40) for c in columns})
        for name, columns in {
            "c": ("ck",),
            "o": ("ck", "ok"),
            "li": ("ok", "qty"),
            "b": ("p", "v"),
            "a": ("p", "v"),
        }.items()
    }


def _joining(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    import pyarrow.compute as pc

    orders = tables["orders"].slice(0, 150)
    lines = tables["lineitem"]
    lines = lines.filter(pc.is_in(lines["l_orderkey"], value_set=orders["o_orderkey"].combine_chunks()))
    return {**tables, "orders": orders, "lineitem": lines.slice(0, 500)}


def parts(batch: Batches) -> Parts:
    for name, some in batch.items():
        if some.deletes.num_rows:
            yield name, "delete", some.deletes
        if some.inserts.num_rows:
            yield name, "insert", some.inserts


def histories(state: LocalState, workload: str, seed: int) -> Iterator[list[tuple[str, str, pa.Table]]]:
    """Most rows at once; then one by one, sevens, and everything that is left."""
    rows = {n: t for n, t in data(workload).items() if n in state.catalog.tables}
    source = Stream(dict(state.catalog.tables), rows, seed, 60)
    yield list(parts(source.preload()))
    tail = source.tail()
    for size, count in ((1, 2), (7, 3)):
        for _, batch in zip(range(count), source.batches(tail, size), strict=False):
            yield list(parts(batch))
    for batch in source.batches(tail, 10**9):
        yield list(parts(batch))


@pytest.mark.parametrize(
    "query",
    [pytest.param(q, marks=pytest.mark.soak if q.view in LONG else (), id=q.view) for q in EVERYTHING],
)
def test_workloads_equal_the_local_engine(query: Query) -> None:
    number = EVERYTHING.index(query)
    state = started([*WORKLOADS[query.workload].tables.values(), query.ddl], LARGE)
    workers = (2, 3) if number % 4 else (1, 8)
    given: tuple[Tag, ...] = (REPLICATED, RANDOM) if number % 2 else (RANDOM, REPLICATED)
    twins = Twins(state, workers[:1], given=given[:1], sizes=LARGE)
    twins.others += Twins(state, workers[1:], given=given[1:], sizes=LARGE).others
    for batch in histories(state, query.workload, number):
        twins.apply(batch)
    assert sum(len(store.pool) for store in state.stores().values())


@pytest.mark.parametrize("workload", ["thesis", "finance"])
def test_views_of_one_database_share_stages(workload: str) -> None:
    names = {"thesis": ("q01", "q03", "q06", "q17", "q18"), "finance": ("axf", "bsv", "vwap")}[workload]
    source = WORKLOADS[workload]
    views = [q.ddl for q in source.queries if q.name in names]
    state = started([*source.tables.values(), *views], LARGE)
    twins = Twins(state, (3,), given=(REPLICATED, RANDOM), sizes=LARGE)
    for batch in histories(state, workload, 5):
        twins.apply(batch)
    if workload == "thesis":
        assert [(o.traffic.jobs, o.traffic.stages) for o in twins.others] == [(1, 1), (1, 2)]


@pytest.mark.parametrize(
    "passes",
    [NAIVE, Passes(simplify=False), Passes(common=False), Passes(dead=False), Passes(fusion=False)],
    ids=str,
)
@pytest.mark.parametrize("name", ["q03", "q11", "q18"])
def test_each_optimisation_can_be_left_out(passes: Passes, name: str) -> None:
    query = WORKLOADS["thesis"].query(name)
    state = started([*WORKLOADS["thesis"].tables.values(), query.ddl], LARGE)
    twins = Twins(state, (2,), passes=passes, given=(RANDOM,), sizes=LARGE)
    for batch in histories(state, "thesis", 3):
        twins.apply(batch)


@pytest.mark.soak
@pytest.mark.parametrize("limits", [Limits(0, 0), Limits(0, 10**12), Limits(10**12, 0)], ids=str)
@pytest.mark.parametrize("name", ["q05", "q09", "q11", "q15", "q20", "q22"])
def test_any_placement_gives_the_same(limits: Limits, name: str) -> None:
    query = WORKLOADS["thesis"].query(name)
    state = started([*WORKLOADS["thesis"].tables.values(), query.ddl], LARGE)
    twins = Twins(state, (3,), given=(RANDOM,), sizes=LARGE, limits=limits)
    for batch in histories(state, "thesis", 4):
        twins.apply(batch)


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ("thesis", "q05"),
        ("thesis", "q18"),
        ("tpch", "tpch_q21"),
        pytest.param("thesis", "q20", marks=pytest.mark.soak),
        pytest.param("thesis", "q22", marks=pytest.mark.soak),
    ],
)
def test_programs_that_have_only_the_columns_they_read(workload: str, name: str) -> None:
    """As of wide tables: columns that are moved, kept early or waited for are found by their places."""
    source = WORKLOADS[workload]
    query = source.query(name) if workload == "thesis" else next(q for q in source.queries if q.view == name)
    state = started([*source.tables.values(), query.ddl], LARGE, wide=1)
    program = state.catalog.views[query.view].compiled.program
    atoms = [n for m in program.maps for n in m.definition.walk() if isinstance(n, Rel)]
    assert any(atom.columns is not None for atom in atoms)
    twins = Twins(state, (2,), given=(RANDOM, REPLICATED), sizes=LARGE)
    for batch in histories(state, workload, 6):
        twins.apply(batch)


@pytest.mark.parametrize("name", ["q03", "q05", "q12", "q19"])
def test_what_is_done_early_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes filtered and added up before maps are read, where all maps are everywhere."""
    early = []

    def distributed_early(*args: Any) -> DistributedProgram:
        program = distributed(*args)
        early.append(done_early(program) != program)
        return done_early(program)

    monkeypatch.setattr(in_process, "distributed", distributed_early)
    query = WORKLOADS["thesis"].query(name)
    state = started([*WORKLOADS["thesis"].tables.values(), query.ddl], LARGE)
    twins = Twins(state, ())
    twins.others = [in_process.InProcess(3, given=RANDOM, sizes=LARGE)]
    held = state.catalog.views[query.view].compiled.map.name
    everywhere = {name: LOCAL if name == held else REPLICATED for name in state.stores()}
    twins.others[0].placement = Placement({}, everywhere)
    twins.others[0].scatter(state)
    for batch in histories(state, "thesis", 4):
        twins.apply(batch)
    assert any(early)


MODES = (
    (ALL, Limits()),
    (ALL, Limits(0, 0)),
    (NAIVE, Limits(0, 0)),
    (ALL, Limits(0, 10**12)),
    (Passes(common=False), Limits(10**12, 0)),
)


@pytest.mark.parametrize("seed", range(6))
def test_random_views_equal_the_local_engine(seed: int) -> None:
    random_history(seed)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_many_random_views_equal_the_local_engine(block: int) -> None:
    for seed in range(1000 + block * 100, 1100 + block * 100):
        random_history(seed)


def random_history(seed: int) -> None:
    history = spelled(random_case(seed, views=2).history)
    schemas = {s.name: s for s in history.schemas}
    views = [f"CREATE MATERIALIZED VIEW {quoted(n)} AS {q}" for n, q in history.views]
    passes, limits = MODES[seed % len(MODES)]
    try:
        state = started([*(s.ddl for s in history.schemas), *views], wide=(None, 1)[seed % 2])
    except EverfreshError:
        return  # a view that everfresh does not have
    given = (REPLICATED,) if seed // 20 % 2 else (RANDOM,)
    twins = Twins(state, ((1, 2, 3, 8)[seed // 5 % 4],), given=given, passes=passes, limits=limits)
    for batch in history.batches:
        try:
            twins.apply(list(changes(schemas, batch)))
        except EverfreshError:
            return  # refused by the local engine, before anything was compared


def changes(schemas: dict[str, TableSchema], batch: object) -> Parts:
    found: dict[tuple[str, str], list[object]] = {}
    for change in batch:  # type: ignore[attr-defined]
        op = "insert" if change.weight > 0 else "delete"
        found.setdefault((change.table, op), []).append(change.row)
    for (table, op), rows in sorted(found.items(), key=lambda item: (item[0][0], item[0][1] != "delete")):
        schema = schemas[table]
        made = [dict(zip(schema.names, row, strict=True)) for row in rows]  # type: ignore[call-overload]
        yield table, op, pa.Table.from_pylist(made, schema=arrow_schema(schema.columns))


def test_a_view_over_a_view_that_is_computed_anew() -> None:
    state = started(
        [
            "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT NOT NULL, v BIGINT NOT NULL)",
            "CREATE MATERIALIZED VIEW a WITH (strategy = 're-evaluate') AS "
            "SELECT g, SUM(v) AS s FROM t GROUP BY g",
            "CREATE MATERIALIZED VIEW b AS SELECT t.k, a.s FROM t JOIN a ON t.g = a.g WHERE a.s > 3",
        ]
    )
    twins = Twins(state, (1, 3), given=(REPLICATED, RANDOM))
    schema = arrow_schema(state.catalog.tables["t"].columns)
    rng = np.random.default_rng(7)
    for start in range(0, 60, 12):
        rows = [
            {"k": k, "g": int(rng.integers(4)), "v": int(rng.integers(5))} for k in range(start, start + 12)
        ]
        twins.apply([("t", "insert", pa.Table.from_pylist(rows, schema=schema))])
        twins.apply([("t", "delete", pa.Table.from_pylist(rows[:5], schema=schema))])
    assert len(state.stores()["b"].pool)


NEXT = (
    "SELECT a.k, (SELECT MIN(b.x) FROM u b WHERE b.g = a.g AND b.x > a.x) AS n FROM t a",
    "SELECT a.k, (SELECT MAX(b.x) FROM u b WHERE b.x <= a.x) AS n FROM t a",
    "SELECT a.k, (SELECT MAX(b.x) FROM t b WHERE b.g = a.g AND b.x > a.x) AS n FROM t a",
    "SELECT a.k FROM t a WHERE NOT EXISTS (SELECT 1 FROM u b WHERE b.g = a.g AND b.x >= a.x)",
    "SELECT a.k FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.g = a.g AND b.x < a.x)",
)


@pytest.mark.parametrize("limits", [Limits(), Limits(0, 0), Limits(0, 10**12)], ids=str)
def test_next_values_equal_the_local_engine(limits: Limits) -> None:
    """Keys that ask lie with the values that they may be given, wherever both are placed."""
    columns = "(k BIGINT PRIMARY KEY, g BIGINT, x BIGINT)"
    views = [f"CREATE MATERIALIZED VIEW v{i} AS {query}" for i, query in enumerate(NEXT)]
    sizes = {"t": 10**6, "u": 10**6}
    state = started([f"CREATE TABLE t {columns}", f"CREATE TABLE u {columns}", *views], sizes)
    twins = Twins(state, (1, 3), given=(REPLICATED, RANDOM), sizes=sizes, limits=limits)
    schema = arrow_schema(state.catalog.tables["t"].columns)
    chance = np.random.default_rng(5)
    for start in range(0, 48, 12):
        for table in "tu":
            rows = [
                {"k": k, "g": [0, 0, 1, None][chance.integers(4)], "x": [None, *range(6)][chance.integers(7)]}
                for k in range(start, start + 12)
            ]
            twins.apply([(table, "insert", pa.Table.from_pylist(rows, schema=schema))])
            twins.apply([(table, "delete", pa.Table.from_pylist(rows[3:7], schema=schema))])
    assert all(len(state.stores()[f"v{i}"].pool) for i in range(len(NEXT)))


def test_a_batch_that_fails_leaves_nothing() -> None:
    state = started(
        [
            "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT NOT NULL, v BIGINT NOT NULL)",
            "CREATE MATERIALIZED VIEW a AS SELECT g, SUM(v) AS s FROM t GROUP BY g",
            "CREATE MATERIALIZED VIEW b AS SELECT g, SUM(CAST(v AS INTEGER)) AS q FROM t GROUP BY g",
        ]
    )
    twins = Twins(state, (3,), given=(REPLICATED, RANDOM))
    schema = arrow_schema(state.catalog.tables["t"].columns)
    twins.apply(
        [("t", "insert", pa.Table.from_pylist([{"k": k, "g": k % 3, "v": 5} for k in range(9)], schema))]
    )
    rows = pa.Table.from_pylist([{"k": k, "g": 1, "v": 2**k} for k in range(25, 45)], schema)
    for other in twins.others:
        before = other.gathered()
        with pytest.raises(EverfreshError):
            other.apply({"t": (rows, np.ones(20, np.int64))})
        assert not other.misplaced()
        for name, store in before.stores().items():
            assert contents(store) == contents(other.gathered().stores()[name])


def test_little_travels_for_a_small_batch() -> None:
    """However much there is: what is sent is derived from the batch."""
    query = WORKLOADS["thesis"].query("q03")
    state = started([*WORKLOADS["thesis"].tables.values(), query.ddl], LARGE)
    twins = Twins(state, (4,), given=(RANDOM,), sizes=LARGE)
    batches = histories(state, "thesis", 9)
    twins.apply(next(batches))
    twins.apply(next(batches))
    assert sum(len(store.pool) for store in state.stores().values()) > 100
    assert twins.others[0].traffic.rows <= 4 * 5  # a row that is broadcast arrives four times
