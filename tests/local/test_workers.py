"""Threads compute, bit for bit, what one thread computes, and fail as it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import everfresh as ef
from everfresh.local.workers import Workers
from everfresh.testing.engine.suite_base import refused
from everfresh.testing.state_check import check_state

TABLES = (
    "CREATE TABLE t (k BIGINT, g VARCHAR, x DOUBLE, p DECIMAL(12,2)); "
    "CREATE TABLE d (k BIGINT PRIMARY KEY, f VARCHAR, y DOUBLE)"
)
VIEWS = {
    "grouped": "SELECT g, SUM(x) AS x, AVG(x) AS a, SUM(p) AS p, COUNT(*) AS n FROM t GROUP BY g",
    "flat": "SELECT k, x / 3 AS y FROM t WHERE x > 0.5",
    "joined": "SELECT d.f, SUM(t.x * d.y) AS s, COUNT(*) AS n FROM t JOIN d ON t.k = d.k GROUP BY d.f",
    "joined2": "SELECT d.f, SUM(t.x) AS s FROM t JOIN d ON t.k = d.k WHERE t.x < 0.7 GROUP BY d.f",
    "extremes": "SELECT g, MIN(x) AS a, MAX(x) AS b FROM t GROUP BY g",
    "texts": "SELECT upper(g) || '-' || CAST(k AS VARCHAR) AS name, SUM(x) AS x FROM t GROUP BY ALL",
    "above": "SELECT COUNT(*) AS n, SUM(x) AS x FROM t WHERE x > (SELECT AVG(x) FROM t)",
    "outer_": "SELECT d.k, COUNT(t.k) AS n, SUM(t.x) AS x FROM d LEFT JOIN t ON t.k = d.k GROUP BY d.k",
    "on_view": "SELECT n, SUM(x) AS x FROM grouped GROUP BY n",
    "first_": "SELECT f, y FROM d ORDER BY y DESC, f LIMIT 4",
}


def batches(seed: int, count: int, rows: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    kept: list[pa.Table] = []
    for number in range(count):
        new = pa.table(
            {
                "k": rng.integers(0, 40, rows),
                "g": pa.array([f"g{i}" for i in rng.integers(0, 9, rows)]),
                "x": rng.standard_normal(rows) * 10.0 ** rng.integers(-9, 9, rows).astype(float),
                "p": rng.integers(0, 10**6, rows),
            }
        )
        batch: dict[str, Any] = {"t": ef.Delta(inserts=new, deletes=kept.pop() if number % 3 == 2 else None)}
        kept.append(new)
        if number % 2 == 0:
            batch["d"] = [(number * 20 + i, f"f{i % 3}", float(rng.standard_normal())) for i in range(20)]
        yield batch


def bits(table: pa.Table) -> Any:
    """All rows, in order, with doubles by their bits."""
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_floating(column.type):
            columns[name] = (
                column.fill_null(0.0).to_numpy().view(np.int64).tolist(),
                column.is_null().to_pylist(),
            )
        else:
            columns[name] = column.to_pylist()
    return columns


def connect(threads: int, compile: str) -> ef.Database:
    db = ef.connect(engine="local", options=ef.Options(threads=threads, compile=compile))
    db._engine._workers._enough = 20  # type: ignore[attr-defined]
    db.sql(TABLES)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


@pytest.mark.parametrize("compile", ["off", pytest.param("now", marks=pytest.mark.soak)])
def test_threads_change_no_bit(compile: str) -> None:
    with connect(1, compile) as one, connect(3, compile) as many:
        for batch in batches(5, 7, 200):
            assert one.apply(batch) == many.apply(batch)
            for name in VIEWS:
                assert bits(one.view(name).to_arrow()) == bits(many.view(name).to_arrow()), name
                assert bits(one.view(name).changes()) == bits(many.view(name).changes()), name
        for name in VIEWS:
            assert many.view(name).verify().num_rows == 0
        assert many._engine._workers._pool is not None, "no thread was used"  # type: ignore[attr-defined]
        assert one._engine._workers._pool is None  # type: ignore[attr-defined]


def test_the_state_after_threads() -> None:
    with connect(3, "off") as db:
        for batch in batches(6, 3, 40):
            db.apply(batch)
        check_state(db)


def test_statements_that_share_nothing_are_apart() -> None:
    with connect(2, "off") as db:
        wiring = db._engine._state.wiring  # type: ignore[attr-defined]
        groups = wiring.apart(wiring.statements("t"), -1)
        views = [{s.view for s in group} for group in groups]
        assert sum(map(len, groups)) == len(wiring.statements("t"))
        assert {"flat"} in views
        assert {"texts"} in views
        used = [set().union(*(wiring._used(s) for s in group)) for group in groups]
        assert all(not a & b for i, a in enumerate(used) for b in used[:i])


def test_an_error_is_that_of_one_thread() -> None:
    texts = []
    for threads in (1, 3):
        options = ef.Options(threads=threads, compile="off")
        with ef.connect(engine="local", options=options) as db:
            db._engine._workers._enough = 1  # type: ignore[attr-defined]
            db.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
            db.sql("CREATE MATERIALIZED VIEW a AS SELECT SUM(x) AS x FROM t")
            db.sql("CREATE MATERIALIZED VIEW b AS SELECT SUM(100 // x) AS x FROM t")
            db.sql("CREATE MATERIALIZED VIEW c AS SELECT SUM(7 % x) AS x FROM t")
            db.apply(t=[(1, 2), (2, 3)])
            before = {name: bits(db.view(name).to_arrow()) for name in "abc"}
            with pytest.raises(ef.EverfreshError) as caught:
                db.apply(t=[(3, 5), (4, 0)])
            texts.append(str(caught.value))
            assert {name: bits(db.view(name).to_arrow()) for name in "abc"} == before
            db.apply(t=[(3, 5)])
            assert all(db.view(name).verify().num_rows == 0 for name in "abc")
    assert texts[0] == texts[1]


def test_an_aggregate_out_of_range_takes_everything_back() -> None:
    with ef.connect(engine="local", options=ef.Options(threads=3, compile="off")) as db:
        db._engine._workers._enough = 1  # type: ignore[attr-defined]
        db.sql("CREATE TABLE t (g BIGINT, x HUGEINT)")
        for i in range(4):
            db.sql(
                f"CREATE MATERIALIZED VIEW v{i} AS SELECT g, COUNT(*) AS n FROM t WHERE g >= {i} GROUP BY g"
            )
        db.sql("CREATE MATERIALIZED VIEW s AS SELECT g, SUM(x) AS x FROM t GROUP BY g")
        db.apply(t=[(5, 9 * 10**37), (6, 1)])
        before = {name: bits(view.to_arrow()) for name, view in db.views.items()}
        with refused(ef.Code.OVERFLOW):
            db.apply(t=[(5, 9 * 10**37), (7, 1)])
        assert {name: bits(view.to_arrow()) for name, view in db.views.items()} == before
        check_state(db)


# -- the threads themselves ----------------------------------------------------------------------------------


def test_tasks_run_side_by_side_and_answer_in_order() -> None:
    workers, meet = Workers(3), threading.Barrier(3, timeout=60)

    def task(number: int) -> int:
        meet.wait()  # passes only if all three are at work
        return number

    assert workers.run([lambda i=i: task(i) for i in range(3)]) == [0, 1, 2]  # type: ignore[misc]
    workers.close()


def test_the_first_error_after_all_have_ended() -> None:
    workers, ended = Workers(2), []

    def task(number: int) -> None:
        time.sleep(Random(number).random() / 50)
        ended.append(number)
        if number in (1, 3):
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        workers.run([lambda i=i: task(i) for i in range(5)])  # type: ignore[misc]
    assert sorted(ended) == [0, 1, 2, 3, 4]
    workers.close()


def test_one_thread_is_none() -> None:
    workers = Workers(1, enough=1)
    assert not workers.pays(10**9)
    assert workers.run([lambda: threading.current_thread()]) == [threading.current_thread()]
    with refused(ef.Code.ARGUMENT, "threads"):
        ef.Options(threads=0)
