"""Views over several tables on Spark, maintained by distributed programs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef

pytestmark = pytest.mark.spark

DDL = """
CREATE TABLE customer (id BIGINT PRIMARY KEY, region VARCHAR NOT NULL);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, price DECIMAL(15,2) NOT NULL);
CREATE MATERIALIZED VIEW revenue AS
  SELECT c.region, SUM(o.price) AS total, COUNT(*) AS n
  FROM orders o JOIN customer c ON o.customer = c.id GROUP BY c.region;
CREATE MATERIALIZED VIEW above AS
  SELECT o.id, o.price FROM orders o
  WHERE o.price > (SELECT AVG(price) FROM orders p WHERE p.customer = o.customer);
"""
VIEWS = ("revenue", "above")


def opened(spark: Any, path: Path, **changes: Any) -> ef.Database:
    options = ef.Options(workers=2, durable=False).with_(**changes)
    return ef.connect(path, engine="spark", spark=spark, options=options)


def check(db: ef.Database, *views: str) -> None:
    for view in views or VIEWS:
        assert not db.catalog.views[view].compiled.reevaluated
        assert db.view(view).verify().num_rows == 0, view


def batch(number: int) -> dict[str, Any]:
    orders = [(100 * number + k, k * 7 % 30, Decimal(k)) for k in range(50)]
    return {"customer": [(10 * number + k, f"r{k % 3}") for k in range(10)], "orders": orders}


def test_joins_are_incremental_and_survive(spark: Any, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as db:
        db.sql(DDL)
        for number in range(3):
            db.apply(batch(number))
        check(db)
        assert sum(row["n"] for row in db.view("revenue").to_pylist()) == 150
        before = {r["region"]: r["n"] for r in db.view("revenue").to_pylist()}
        db.sql("DELETE FROM orders WHERE id % 3 = 0")
        db.sql("UPDATE customer SET region = 'x' WHERE id < 5")
        check(db)
        for row in db.view("revenue").changes(since=db.epoch - 2).to_pylist():
            before[row["region"]] = before.get(row["region"], 0) + row["_weight"] * row["n"]
        assert {g: n for g, n in before.items() if n} == {
            r["region"]: r["n"] for r in db.view("revenue").to_pylist()
        }
        db.sql(
            "CREATE MATERIALIZED VIEW late AS SELECT c.region, o.price, COUNT(*) AS n"
            " FROM orders o JOIN customer c ON o.customer = c.id GROUP BY c.region, o.price"
        )
        check(db, *VIEWS, "late")
        rows = sorted(map(str, db.view("late").to_pylist()))
    with opened(spark, tmp_path) as db:
        assert sorted(map(str, db.view("late").to_pylist())) == rows
        db.sql("DELETE FROM orders WHERE price > 30")
        check(db, *VIEWS, "late")


@pytest.mark.parametrize("fault", ["mid-apply:raise:0:1", "before-yield:exit:1:1"])
def test_a_task_that_fails_is_run_again(spark: Any, tmp_path: Path, fault: str) -> None:
    with opened(spark, tmp_path) as db:
        db.sql(DDL)
        db.apply(batch(0))
    with opened(spark, tmp_path, fault=fault) as db:
        db.apply(batch(1))
    with opened(spark, tmp_path) as db:
        db.apply(batch(2))
        check(db)


def test_views_over_views_and_static_tables(spark: Any, tmp_path: Path) -> None:
    """Programs over programs, over what is recomputed and what never changes; and the other way round."""
    with opened(spark, tmp_path) as db:
        db.sql(DDL)
        db.sql("CREATE STATIC TABLE country (region VARCHAR PRIMARY KEY, name VARCHAR)")
        db.apply(country=[("r0", "A"), ("r1", "B")])
        db.apply(batch(0))
        db.sql(
            """
            CREATE MATERIALIZED VIEW again WITH (strategy = 're-evaluate') AS
              SELECT customer, SUM(price) AS total FROM orders GROUP BY customer;
            CREATE MATERIALIZED VIEW most AS SELECT customer, total FROM again ORDER BY total DESC LIMIT 3;
            CREATE MATERIALIZED VIEW sums AS
              SELECT COUNT(*) AS n, SUM(total) AS total, (SELECT MAX(price) FROM above) AS top FROM revenue;
            CREATE MATERIALIZED VIEW countries AS
              SELECT k.name, r.total FROM country k LEFT JOIN revenue r ON k.region = r.region;
            CREATE MATERIALIZED VIEW spread AS
              SELECT name, (SELECT VAR_POP(CAST(total AS DECIMAL(30,20))) FROM countries) AS s FROM countries;
            """
        )
        anew = [name for name, view in db.catalog.views.items() if view.compiled.reevaluated]
        assert anew == ["again", "spread"]
        everything = ("most", "sums", "countries")
        for number in range(1, 3):
            db.apply(batch(number))
            check(db, *VIEWS, *everything)
        db.sql("DELETE FROM orders WHERE id % 3 = 0")
        check(db, *VIEWS, *everything)
        assert all(db.view(view).verify().num_rows == 0 for view in anew)
        assert "reads: the tables below revenue" in db.view("countries").explain()
    with opened(spark, tmp_path) as db:
        db.sql("UPDATE orders SET price = price + 1 WHERE id < 120")
        check(db, *VIEWS, *everything)


def test_values_that_maps_take_apart_stay_in_their_types(spark: Any, tmp_path: Path) -> None:
    options = ef.Options(workers=2, durable=False)
    with ef.connect(tmp_path / "db", engine="spark", spark=spark, options=options) as db:
        db.sql("CREATE TABLE a (g INTEGER, x INTEGER); CREATE TABLE b (g INTEGER, y INTEGER)")
        db.apply(a=[(1, 100_000)])
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(a.x * b.y) AS p FROM a JOIN b ON a.g = b.g")
        db.apply(b=[(1, 10)])
        with pytest.raises(ef.EverfreshError, match="view 'v'") as refused:
            db.apply(b=[(1, 100_000)])
        assert refused.value.code == ef.Code.OVERFLOW
        db.apply(b=[(2, 100_000)])
        assert db.view("v").to_pylist() == [{"p": 1_000_000}]
        assert db.view("v").verify().num_rows == 0
        with pytest.raises(ef.EverfreshError, match="view 'w'"):
            db.sql("CREATE MATERIALIZED VIEW w AS SELECT SUM(a.x * b.y) AS p FROM a, b")
