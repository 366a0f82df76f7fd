"""Views filled anew after a batch: the choice, and that nobody can tell from the views."""

from __future__ import annotations

import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fake_spark import FakeSession, install

import everfresh as ef
from everfresh.spark.adaptive import AUTO, ENOUGH, INCREMENTAL, PER_ROW, RECOMPUTE, Costs, choose
from everfresh.testing.oracle import assert_same

DDL = """
CREATE TABLE customer (id BIGINT PRIMARY KEY, region VARCHAR NOT NULL);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, price DECIMAL(15,2) NOT NULL, x DOUBLE);
CREATE MATERIALIZED VIEW revenue AS
  SELECT c.region, SUM(o.price) AS total, SUM(o.x) AS x, COUNT(*) AS n
  FROM orders o JOIN customer c ON o.customer = c.id GROUP BY c.region;
CREATE MATERIALIZED VIEW above AS
  SELECT o.id, o.price FROM orders o
  WHERE o.price > (SELECT AVG(price) FROM orders p WHERE p.customer = o.customer);
CREATE MATERIALIZED VIEW total AS SELECT SUM(price) AS price, COUNT(*) AS n FROM orders;
CREATE MATERIALIZED VIEW most AS SELECT id, price FROM orders ORDER BY price DESC, id LIMIT 5;
"""
VIEWS = ("revenue", "above", "total", "most")


def batches() -> list[dict[str, Any]]:
    """Rows come, some change, most go, all go, some come again."""
    orders = [(k, k * 7 % 30, Decimal(k) / 4, k / 8) for k in range(200)]
    customers = [(k, f"r{k % 3}") for k in range(25)]
    key = ("id",)
    gone = [dict(zip(key, row, strict=False)) for row in orders]
    return [
        {"customer": customers, "orders": orders},
        {"orders": ef.Delta(updates=[{"id": 3, "price": Decimal(900)}, {"id": 4, "price": Decimal(0)}])},
        {"customer": ef.Delta(deletes=[{"id": 1}, {"id": 2}], inserts=[(26, "r9")])},
        {"orders": ef.Delta(deletes=gone[:180])},
        {"orders": ef.Delta(deletes=gone[180:])},
        {"orders": orders[50:90]},
    ]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


def opened(session: FakeSession, path: Path, **changes: Any) -> ef.Database:
    options = ef.Options(durable=False).with_(**changes)
    return ef.connect(path, engine="spark", spark=session, options=options)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [1, 3])
def test_filling_anew_gives_the_same_views_and_changes(
    session: FakeSession, tmp_path: Path, workers: int
) -> None:
    with ef.connect(engine="local") as expected:
        expected.sql(DDL)
        with opened(session, tmp_path, workers=workers, refresh=RECOMPUTE) as db:
            db.sql(DDL)
            assert not any(db.catalog.views[view].compiled.reevaluated for view in VIEWS)
            for batch in batches():
                expected.apply(batch)
                db.apply(batch)
                assert db.statistics()["last batch"]["refresh"] == RECOMPUTE
                compare(expected, db)
            for view in VIEWS:
                one, other = (_added(d.view(view).changes(since=d.epoch - 6)) for d in (expected, db))
                assert_same(one, other, view)
            db.apply(orders=[(900, 3, Decimal(2), 0.25)])
            expected.apply(orders=[(900, 3, Decimal(2), 0.25)])
        session.forget()
        with opened(session, tmp_path, refresh=INCREMENTAL) as db:  # from files alone, and on
            compare(expected, db)
            for d in (expected, db):
                d.apply(orders=[(1000, 26, Decimal(7), 0.5)])
            compare(expected, db)


def test_a_batch_that_a_view_cannot_take_changes_nothing(session: FakeSession, tmp_path: Path) -> None:
    with opened(session, tmp_path, refresh=RECOMPUTE) as db, ef.connect(engine="local") as expected:
        for d in (db, expected):
            d.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, x BIGINT NOT NULL)")
            d.sql("CREATE MATERIALIZED VIEW v AS SELECT CAST(SUM(x) AS BIGINT) AS x FROM t")
            d.apply(t=[(1, 2**62), (2, 1)])
            with pytest.raises(ef.EverfreshError):
                d.apply(t=[(3, 2**62), (4, 2**62)])
            d.apply(t=[(5, 7)])
        assert_same(expected.view("v").to_arrow(), db.view("v").to_arrow(), "v")
        assert db.epoch == expected.epoch


def test_a_batch_that_leaves_little(session: FakeSession, tmp_path: Path) -> None:
    with opened(session, tmp_path) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT NOT NULL)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        ids = np.arange(200_000)
        db.apply(t=pa.table({"id": ids, "k": ids % 5}))
        assert db.statistics()["last batch"]["refresh"] == INCREMENTAL
        db._engine._costs = Costs()
        db.apply(t=ef.Delta(deletes=pa.table({"id": ids[:199_990]})))
        assert db.statistics()["last batch"]["refresh"] == RECOMPUTE
        assert sorted(db.view("v").to_pylist(), key=lambda row: row["k"]) == [
            {"k": k, "n": 2} for k in range(5)
        ]


def compare(expected: ef.Database, db: ef.Database) -> None:
    for view in VIEWS:
        assert_same(expected.view(view).to_arrow(), db.view(view).to_arrow(), view)


def _added(changes: pa.Table) -> pa.Table:
    """Each row of a change as often as its weight says, with its sign."""
    weights = changes.column("_weight").to_numpy()
    rows = changes.take(pa.array(np.repeat(np.arange(len(weights)), np.abs(weights))))
    signs = pa.array(np.sign(np.repeat(weights, np.abs(weights))))
    return rows.drop_columns(["_weight", "_epoch"]).append_column("sign", signs)


def test_what_is_cheaper_by_rows() -> None:
    costs = Costs()
    much = 10_000_000
    assert choose(AUTO, costs, 1000, {"v": much}) == INCREMENTAL
    assert choose(AUTO, costs, much, {"v": much}) == INCREMENTAL
    assert choose(AUTO, costs, much, {"v": 1000}) == RECOMPUTE
    assert choose(AUTO, costs, None, {"v": 0}) == INCREMENTAL
    assert choose(AUTO, costs, much, {}) == INCREMENTAL
    for _ in range(2):  # filling turns out to be fast, but the same program does both
        costs.filled("v", much, much * PER_ROW / 100)
        costs.followed(["v"], much, much * PER_ROW * 100)
    assert choose(AUTO, costs, much, {"v": 3 * much}) == RECOMPUTE
    assert choose(AUTO, costs, much, {"v": 5 * much}) == INCREMENTAL


def test_what_is_learnt() -> None:
    costs = Costs(store=0.0)
    costs.filled("v", 1_000_000, 90.0)  # with compiling
    costs.filled("v", ENOUGH - 1, 100.0)
    assert not costs.fill
    costs.filled("v", 1_000_000, 2.1)
    assert costs.fill["v"] == pytest.approx(2e-6)
    costs.filled("v", 1_000_000, 12.1)
    assert costs.fill["v"] == pytest.approx(5e-6)
    for _ in range(2):
        costs.followed(["v", "w"], 1_000_000, 4.1)
    assert costs.follow == pytest.approx({"v": 2e-6, "w": 2e-6})
    costs.forget("v")
    assert "v" not in costs.fill
    assert "v" not in costs.follow
    for _ in range(2):
        costs.stored(1_000_000, 1.1)
    assert costs.store == pytest.approx(0.3e-6)


def test_the_choice_is_logged_with_both_estimates(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "everfresh.batches"):
        choose(AUTO, Costs(), 1_000_000, {"v": 0})
        choose(INCREMENTAL, Costs(), 1_000_000, {"v": 0})
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "1000000 rows, 0 in the tables after them: incremental 4.600 s, recomputing 1.700 s; recompute"
    )


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(ef.EverfreshError, match="refresh"):
        ef.Options(refresh="sometimes")
