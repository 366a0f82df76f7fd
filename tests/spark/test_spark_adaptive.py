"""Views filled anew after a batch: the choice, and that nobody can tell from the views."""

from __future__ import annotations

import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.delta.bags import difference
from everfresh.spark.adaptive import AUTO, ENOUGH, INCREMENTAL, PER_ROW, RECOMPUTE, Costs, choose

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


@pytest.mark.spark
def test_filling_anew_gives_the_same_views_and_changes(spark: Any, tmp_path: Path) -> None:
    options = ef.Options(workers=2, durable=False)
    dbs = {
        way: ef.connect(tmp_path / way, engine="spark", spark=spark, options=options.with_(refresh=way))
        for way in (INCREMENTAL, RECOMPUTE)
    }
    try:
        for db in dbs.values():
            db.sql(DDL)
        for batch in batches():
            for db in dbs.values():
                db.apply(batch)
            for view in VIEWS:
                one, other = (db.view(view).to_arrow() for db in dbs.values())
                assert difference(one, other).num_rows == 0, view
        assert dbs[RECOMPUTE].statistics()["last batch"]["refresh"] == RECOMPUTE
        for view in VIEWS:
            one, other = (db.view(view).changes(since=db.epoch - 6) for db in dbs.values())
            assert difference(_added(one), _added(other)).num_rows == 0, view
            assert dbs[RECOMPUTE].view(view).verify().num_rows == 0, view
    finally:
        for db in dbs.values():
            db.close()
    with ef.connect(tmp_path / RECOMPUTE, engine="spark", spark=spark, options=options) as db:
        for view in VIEWS:  # from files
            assert db.view(view).verify().num_rows == 0, view
        db.apply(orders=[(1000, 26, Decimal(7), 0.5)])
        for view in VIEWS:
            assert db.view(view).verify().num_rows == 0, view


def _added(changes: Any) -> Any:
    """The rows of changes, each as often as its weights of one epoch say."""
    rows = [
        {**{k: v for k, v in row.items() if k != "_weight"}, "sign": 1 if row["_weight"] > 0 else -1}
        for row in changes.to_pylist()
        for _ in range(abs(row["_weight"]))
    ]
    import pyarrow as pa

    return pa.Table.from_pylist(rows) if rows else pa.table({"sign": pa.array([], pa.int64())})


def test_what_is_cheaper_by_rows() -> None:
    costs = Costs()
    much = 10_000_000
    assert choose(AUTO, costs, 1000, {"v": much}) == INCREMENTAL
    assert choose(AUTO, costs, much, {"v": 1000}) == RECOMPUTE
    assert choose(AUTO, costs, None, {"v": 0}) == INCREMENTAL
    assert choose(AUTO, costs, much, {}) == INCREMENTAL
    costs.filled("v", much, much * PER_ROW / 100)  # filling turns out to be fast
    costs.followed(["v"], much, much * PER_ROW * 100)
    assert choose(AUTO, costs, much, {"v": 2 * much}) == RECOMPUTE


def test_what_is_learnt() -> None:
    costs = Costs()
    costs.filled("v", ENOUGH - 1, 100.0)
    assert not costs.fill
    costs.filled("v", 1_000_000, 2.1)
    assert costs.fill["v"] == pytest.approx(2e-6)
    costs.filled("v", 1_000_000, 12.1)
    assert costs.fill["v"] == pytest.approx(5e-6)
    costs.followed(["v", "w"], 1_000_000, 4.1)
    assert costs.follow == pytest.approx({"v": 2e-6, "w": 2e-6})
    costs.forget(["v"])
    assert "v" not in costs.fill
    assert "v" not in costs.follow


def test_the_choice_is_logged_with_both_estimates(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "everfresh.batches"):
        choose(AUTO, Costs(), 1_000_000, {"v": 0})
        choose(INCREMENTAL, Costs(), 1_000_000, {"v": 0})
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "1000000 rows, 0 in the tables after them: incremental 3.100 s, recomputing 0.200 s; recompute"
    )


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(ef.EverfreshError, match="refresh"):
        ef.Options(refresh="sometimes")
