"""Arrays on Spark: what workers compute, send and keep; the driver's part is figures."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_spark import FakeSession, install
from test_answering import STATEMENTS, A, B, C, arrays, bag, wanted

import everfresh as ef
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.domain import Arrays
from everfresh.arrays.evaluate import create, evaluate
from everfresh.arrays.script import about_arrays
from everfresh.arrays.spark import laying
from everfresh.spark.jobs.runner import Runner

FUNCTION = "function"  # needs a module of the tests, which Spark's own processes do not have


def connect(session: Any, path: Any = None, **options: Any) -> ef.Database:
    chosen = ef.Options(workers=3, durable=False, snapshots="now").with_(**options)
    return ef.connect(path, engine="spark", spark=session, options=chosen)


def filled(db: ef.Database, seed: int = 1) -> dict[str, Any]:
    """Three arrays, dealt by different rules, and the same in memory."""
    held = arrays(seed)
    for ddl, rule in ((A, "round-robin"), (B, "hilbert"), (C, "hash")):
        db.sql(f"{ddl} WITH (placement = '{rule}')")
    db.apply({name: value.to_arrow() for name, value in held.items()})
    return held


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


@pytest.fixture
def db(session: FakeSession) -> Iterator[ef.Database]:
    with connect(session) as db:
        yield db


def check(db: ef.Database, text: str, held: dict[str, Any]) -> None:
    """A statement gives what the evaluator gives, and what was measured is what was planned."""
    domain = db._domain("array")
    domain.last = None
    if " INTO " in text:
        db.sql(text)
        found = db.array("t").to_arrow()
        assert db.array("t").verify().num_rows == 0
        assert len(db.array("t")) == found.num_rows
        db.sql("DROP ARRAY t")
    elif about_arrays(text):
        found = db.sql(text).to_arrow()
    else:  # SQL's too, which has no Spark here
        found = domain.answer(parse(text))
    want = wanted(text, held)
    assert found.schema.names == want.schema.names
    assert bag(found) == bag(want)
    query, measured = domain.last
    if query.plan is not None:
        measured.check(query.plan)


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_equal_the_local_ones(db: ef.Database, session: FakeSession, name: str) -> None:
    held = filled(db)
    before = session.jobs
    check(db, STATEMENTS[name], held)
    if " INTO " not in STATEMENTS[name]:
        assert session.jobs - before == (2 if name == FUNCTION else 1)


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("algorithm", ["bhvc", "opt-vc", "mbh", "struct", "mr", "shuffle"])
def test_algorithms_and_workers(session: FakeSession, workers: int, algorithm: str) -> None:
    memory = 1500 if workers == 2 else None
    with connect(session, workers=workers, array_join=algorithm, array_memory=memory) as db:
        held = filled(db, workers)
        for name in ("rows", "groups", "mapped", "apply"):
            check(db, STATEMENTS[name], held)


def test_a_statement_that_workers_do_not_run(db: ef.Database) -> None:
    """It is evaluated over whole arrays, and EXPLAIN says so."""
    held = filled(db)
    text = "FILTER((SELECT i, j, v FROM a ORDER BY i, j, v LIMIT 3), v > 2)"
    assert "at one place" in str(db.sql(f"EXPLAIN {text}"))
    assert bag(db.sql(text).to_arrow()) == bag(wanted(text, held))


NESTED = {
    "filter of apply": "FILTER(APPLY(a, COUNT(*) AS n, L1(1)), a.n > 2)",
    "apply of apply": "APPLY(APPLY(PROJECT(a, v), SUM(v) AS s, L1(1)), MAX(s) AS m, LINF(1))",
    "moved": "REGRID(FILTER(SUBARRAY(a, 1, 1, 6, 6), v > 0), 2, 2, COUNT(*) AS n)",
    "moved twice": "SUBARRAY(SUBARRAY(a, 0, 0, 6, 6), 1, 1, 3, 3)",
    "query": "APPLY((SELECT i, j, SUM(v) AS s FROM a GROUP BY i, j), COUNT(*) AS n, SUM(s) AS t, L1(1))",
    "both sides": "SELECT x.i, COUNT(*) AS n FROM APPLY(a, COUNT(*) AS n, L1(1)) AS x SIMILARITY JOIN "
    "REGRID(a, 1, 1, SUM(v) AS s) AS y ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(1) GROUP BY x.i",
    "into": "SELECT i, j, m INTO t FROM APPLY(REGRID(a, 1, 1, SUM(v) AS s), MAX(s) AS m, L1(1)) WHERE m > 3",
    "empty": "APPLY(FILTER(APPLY(a, COUNT(*) AS n, L1(1)), n > 1000), COUNT(*) AS k, L1(1))",
}


@pytest.mark.parametrize("name", NESTED)
def test_operators_inside_of_one_another(db: ef.Database, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers run them step by step; nothing is collected, and nothing is left."""
    held = filled(db)
    monkeypatch.setattr(type(db._domain("array")), "all", None)
    monkeypatch.setattr(type(db._domain("array")), "array", None)
    check(db, NESTED[name], held)
    told = [str(db.sql(f"EXPLAIN {how}{NESTED[name]}")) for how in ("", "ANALYZE ") if name != "into"]
    assert all("at one place" not in text for text in told)
    if name == "both sides":
        assert "planned when the steps before it are done" in told[0]
        assert "#1" in told[1]
        assert told[1].count("measured: ") == 2
    assert not list((Path(db._engine.folder.root) / "inbox").glob("*.cells"))


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_explain_shows_planned_and_measured(session: FakeSession, engine: str) -> None:
    given = {"engine": "local", "options": ef.Options(workers=3)} if engine == "local" else {}
    with ef.connect(**given) if engine == "local" else connect(session) as db:  # type: ignore[arg-type]
        filled(db)
        plan = str(db.sql("EXPLAIN " + STATEMENTS["groups"]))
        assert "bhvc: " in plan
        assert "3 workers" in plan
        assert "bytes from worker (row) to worker (column)" in plan
        assert "measured" not in plan
        ran = str(db.sql("EXPLAIN ANALYZE " + STATEMENTS["groups"]))
        (line,) = [line for line in ran.splitlines() if line.startswith("measured: ")]
        moved, planned = re.findall(r"([0-9,]+) bytes moved \(planned ([0-9,]+)\)", line)[0]
        assert moved == planned != "0"
        # Times come from the last stage alone: what goes through an exchange has to repeat itself.
        assert ("joins in" in ran) == (engine == "local")
        ran = str(db.sql("EXPLAIN ANALYZE " + STATEMENTS["rows"]))
        assert len(re.findall(r"joins in [0-9.]+ s", ran)) == 3
        assert len(re.findall(r"received in [0-9.]+ s", ran)) == (3 if engine == "spark" else 0)


def test_results_that_are_refused_change_nothing(db: ef.Database) -> None:
    filled(db)
    epoch = db.epoch
    for text, said in [
        ("SELECT i, j, v INTO t [i=1,5,2; j=1,5,2] FROM a", "outside of 1..5"),
        ("SELECT w, v INTO t FROM a", "none of the columns is a dimension"),
        ("SELECT i INTO a FROM a", "'a'"),
        ("SELECT 1 // (v - v) AS n, nope FROM a", "nope"),
    ]:
        with pytest.raises(ef.EverfreshError, match=said):
            db.sql(text)
    assert db.epoch == epoch
    assert db.array("a").verify().num_rows == 0
    assert list(db.arrays) == ["a", "b", "c"]


def test_results_live_on(session: FakeSession, tmp_path: Path) -> None:
    """What INTO kept is there again from the log and from a snapshot, and changes like any array."""
    path = tmp_path / "db"
    with connect(session, path) as db:
        held = filled(db)
        db.sql(STATEMENTS["into groups"])
    want = wanted(STATEMENTS["into groups"], held)
    for snapshot in (False, True):
        session.forget()
        with connect(session, path) as db:
            assert bag(db.array("t").to_arrow()) == bag(want)
            assert db.array("t").verify().num_rows == 0
            if snapshot:
                db._engine.snapshot()
    session.forget()
    with connect(session, path) as db:
        row = want.to_pylist()[0]
        db.apply(t=ef.Delta(deletes=[row]))
        assert len(db.array("t")) == want.num_rows - 1
        changes = db.array("t").changes(since=db.epoch - 1).to_pylist()
        assert [change["_weight"] for change in changes] == [-1]


def test_chunks_stay_along_the_left_dimensions(db: ef.Database) -> None:
    """A chunk of a result is kept by a worker that computed most of it: rows move only to get together."""
    filled(db)
    db.sql(STATEMENTS["into groups"])
    domain = db._domain("array")
    query, measured = domain.last
    assert measured.rows_moved.sum() < int(query.work.cut.keys and db.array("t").__len__())
    result, left = domain.about("t").catalog, domain.about("a").catalog
    assert len(result) <= len(left)


def test_many_epochs_with_dropped_arrays(session: FakeSession, tmp_path: Path) -> None:
    """Random cells, arrays dropped and made again under the same name, new processes."""
    rng, path = random.Random(3), tmp_path / "db"
    bags: dict[str, Counter[Any]] = {}
    db = connect(session, path, snapshot_epochs=5, history=3)
    for number in range(40):
        name = f"n{rng.randrange(3)}"
        if name not in bags:
            db.sql(f"CREATE ARRAY {name} <v: INT> [i=0,50,{1 + rng.randrange(9)}]")
            bags[name] = Counter()
        elif rng.random() < 0.15:
            db.sql(f"DROP ARRAY {name}")
            del bags[name]
            continue
        held = bags[name]
        new = [(rng.randrange(51), rng.randrange(4)) for _ in range(rng.randrange(20))]
        gone = rng.sample(sorted(held.elements()), min(held.total(), rng.randrange(8)))
        db.apply({name: ef.Delta(inserts=new, deletes=gone)})
        held.update(new)
        held.subtract(gone)
        if number % 9 == 8:
            db.close()
            session.forget()
            db = connect(session, path, snapshot_epochs=5, history=3)
        for each, cells in bags.items():
            assert Counter(tuple(r.values()) for r in db.array(each).to_pylist()) == +cells
            assert db.array(each).verify().num_rows == 0
    db.close()


@pytest.mark.spark
def test_on_spark(spark: Any, tmp_path: Path) -> None:
    """The same with Spark's own processes: batches, queries, results kept, snapshots."""
    path = tmp_path / "db"
    with connect(spark, path) as db:
        held = filled(db)
        for name in ("rows", "groups", "all", "apply", "regrid", "into", "into groups"):
            check(db, STATEMENTS[name], held)
        epoch, before = db.epoch, db.array("a").to_arrow()
        gone = held["a"].to_arrow().slice(0, 7)
        held["a"] = held["a"].changed(inserts=[(2, 2, 9, 0.25, "new")], deletes=gone)
        db.apply(a=ef.Delta(inserts=[(2, 2, 9, 0.25, "new")], deletes=gone))
        with pytest.raises(ef.EverfreshError, match="is not in array 'a'"):
            db.apply(a=ef.Delta(inserts=[(3, 3, 1, 0.0, "x")], deletes=[(2, 2, 9, 0.5, "new")]))
        db._engine.snapshot()
        check(db, STATEMENTS["groups"], held)
        assert bag(db.array("a").to_arrow(at=epoch)) == bag(before)
    with connect(spark, path) as db:
        assert bag(db.array("a").to_arrow()) == bag(held["a"].to_arrow())
        assert db.array("a").to_spark().count() == len(held["a"])
        assert bag(db.sql("SELECT w, SUM(v) AS s FROM a GROUP BY w").to_arrow()) == bag(
            evaluate(parse("SELECT w, SUM(v) AS s FROM a GROUP BY w"), held)  # type: ignore[arg-type]
        )
        assert bag(db.array("a").to_arrow()) == bag(create(A, held["a"].to_arrow()).to_arrow())


@pytest.mark.spark
def test_cells_of_a_dataframe_stay_with_the_workers(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inserts and deletes from DataFrames of any partitions equal those of tables, under other names too."""
    monkeypatch.setattr(laying, "_SECTION", 2000)
    rng, kept = np.random.default_rng(5), Counter[tuple[int, ...]]()
    with connect(spark, tmp_path / "db") as db:
        db.sql("CREATE ARRAY f <v: INT> [i=0,99,10; j=0,99,7] WITH (placement = 'hilbert')")
        db.sql("CREATE MATERIALIZED VIEW rows_of AS SELECT i, COUNT(*) AS n FROM f GROUP BY i")
        for count in (3000, 40, 0):
            new = [tuple(map(int, row)) for row in rng.integers(0, 100, (count, 3))]
            gone = rng.permutation(sorted(kept.elements()))[: count // 2].tolist() if kept else []
            names = "V: long, j: long, i: long"
            frames = [
                spark.createDataFrame([(v, j, i) for i, j, v in some], names).repartition(3)
                for some in (new, gone)
            ]
            monkeypatch.setattr(type(frames[0]), "toArrow", None)  # nobody collects them
            db.apply(f=ef.Delta(inserts=frames[0], deletes=frames[1]))
            monkeypatch.undo()
            monkeypatch.setattr(laying, "_SECTION", 2000)
            kept += Counter(new)
            kept -= Counter(map(tuple, gone))
            assert Counter(tuple(row.values()) for row in db.array("f").to_pylist()) == kept
            assert db.array("f").verify().num_rows == 0
        assert db.sql("SELECT SUM(n) AS n FROM rows_of").fetchall() == [(kept.total(),)]
        assert not list((tmp_path / "db" / "inbox").glob("*.cells"))
        epoch = db.epoch
        for rows, said in (([(1, 200, 1)], "outside of 0..99"), ([(None, 1, 1)], "NULL")):
            with pytest.raises(ef.EverfreshError, match=said):
                db.apply(f=spark.createDataFrame(rows, "i: long, j: long, v: long").union(frames[0]))
        with pytest.raises(ef.EverfreshError, match="777"):
            db.apply(f=ef.Delta(deletes=spark.createDataFrame([(1, 1, 777)], "i: long, j: long, v: long")))
        assert db.epoch == epoch
        changes = db.array("f").changes(since=epoch - 2).to_pylist()
        assert sum(change["_weight"] for change in changes) == 20
    with connect(spark, tmp_path / "db") as db:
        assert len(db.array("f")) == kept.total()


def test_the_driver_collects_figures_alone(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten times the cells in the same chunks it collects as much: less than a hundredth of the data."""
    collected: list[int] = []
    run = Runner._collected

    def counting(self: Runner, *args: Any) -> Any:
        rows = run(self, *args)
        collected.append(sum(len(row["payload"]) for row in rows))
        return rows

    monkeypatch.setattr(Runner, "_collected", counting)
    found = []
    for times in (1, 10):
        with connect(session, inline_bytes=0) as db:
            db.sql("CREATE ARRAY a <v: INT> [i=0,599,150; j=0,599,150]")
            collected.clear()
            rng = np.random.default_rng(1)
            for _ in range(times):
                db.apply(a=(rng.integers(0, 600, (30_000, 2)), rng.integers(0, 9, 30_000)))
            each = max(collected)
            db.sql(
                "SELECT l.i, l.j, SUM(r.v) AS s INTO t FROM a AS l SIMILARITY JOIN a AS r "
                "ON (r.i = l.i AND r.j = l.j) WITH SHAPE LINF(1) GROUP BY l.i, l.j"
            )
            data = db.statistics()["array"]["a"]["bytes"]
            assert sum(collected) < 0.01 * data
            found.append((each, collected[-1], db.statistics()["array"]["a"]["catalog bytes"], data))
    (few, query, catalog, data), (more, query_more, catalog_more, data_more) = found
    assert data_more > 9.9 * data
    assert max(more / few, query_more / query, catalog_more / catalog) < 1.1


def test_what_a_batch_was_given_goes_with_its_epoch(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: not when Python next looks for cycles."""
    given: list[weakref.ref[Any]] = []
    prepare = Arrays.prepare

    def noted(self: Arrays, name: str, cells: Any) -> Any:
        change = prepare(self, name, cells)
        given.append(weakref.ref(change))
        return change

    monkeypatch.setattr(Arrays, "prepare", noted)
    with connect(session) as db:
        db.sql(A)
        gc.collect()
        gc.disable()
        try:
            for number in range(1, 4):
                db.apply(a=[(number, 1, number, 0.5, "x")])
            assert len(given) == 3
            assert all(change() is None for change in given)
        finally:
            gc.enable()


MEMORY = """
import gc, json, resource, sys
import numpy as np
from pyspark.sql import SparkSession
import everfresh as ef

times, path = int(sys.argv[1]), sys.argv[2]
session = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false").config("spark.driver.memory", "512m")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.executor.memory", "512m").config("spark.log.level", "ERROR")
    .config("spark.ui.showConsoleProgress", "false").getOrCreate()
)
jvm = session._jvm
heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
with ef.connect(path, spark=session, options=ef.Options(workers=2, durable=False)) as db:
    db.sql("CREATE ARRAY a <v: INT> [i=0,3999,500; j=0,3999,500]")
    rng, used = np.random.default_rng(1), []
    for number in range(3 * times):
        db.apply(a=(rng.integers(0, 4000, (300_000, 2)), rng.integers(0, 9, 300_000)))
        if number % times == 0:
            jvm.java.lang.System.gc()
            used.append(heap.getHeapMemoryUsage().getUsed())
    db.sql("SELECT i, COUNT(*) AS n INTO t FROM a GROUP BY i")
    jvm.java.lang.System.gc()
    used.append(heap.getHeapMemoryUsage().getUsed())
    told = db.statistics()["array"]
    print(json.dumps({
        "python": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "heap": max(used),
        "bytes": told["a"]["bytes"], "cells": told["a"]["cells"],
    }), flush=True)
session.stop()
"""


@pytest.mark.spark
@pytest.mark.soak
def test_chunks_are_with_the_workers(tmp_path: Path) -> None:
    """Ten times the cells in the same chunks: the driver's process and its heap stay as they are."""
    found = []
    for times in (1, 10):
        command = [sys.executable, "-c", MEMORY, str(times), str(tmp_path / f"db{times}")]
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        (told,) = [line for line in ran.stdout.splitlines() if line.startswith('{"python"')]
        found.append(json.loads(told))
    few, more = found
    assert more["cells"] == 10 * few["cells"]
    assert more["bytes"] > 0.4 * few["python"]  # if they were kept here it would be seen
    assert more["python"] < 1.1 * few["python"], found
    assert more["heap"] < 1.1 * few["heap"], found
