"""Views of a store whose programs run on Spark: as DuckDB has them, and gone on with by another manager."""

from __future__ import annotations

from random import Random
from typing import Any

import duckdb
import pytest
from test_shared_views import CUSTOMERS, ORDERS, rows, write

from everfresh.kv.protocol.head import shown
from everfresh.kv.spark import engines
from everfresh.kv.store import memory_store
from everfresh.kv.views import Views
from everfresh.options import Options

TEXTS = {
    "spend": """SELECT city, SUM(price) AS s, COUNT(*) AS n, MAX(price) AS most
        FROM orders o JOIN customers c ON o.cust = c.cust GROUP BY city""",
    "cheap": "SELECT note, SUM(price) AS s, COUNT(*) AS n FROM orders WHERE price < 4 GROUP BY note",
    "dear": "SELECT note, SUM(price) AS s, COUNT(*) AS n FROM orders WHERE price < 9 GROUP BY note",
}


def assert_right(views: Views) -> None:
    with duckdb.connect() as oracle:
        for name, ddl in (("orders", ORDERS), ("customers", CUSTOMERS)):
            oracle.execute(ddl)
            base = views.client.scan(name)
            oracle.execute(f"INSERT INTO {name} SELECT * FROM base")
            assert base.num_rows == oracle.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0][0]
        for name, text in TEXTS.items():
            listed = [tuple(row.values()) for row in views.client.read(name).to_pylist()]
            assert rows(listed) == rows(oracle.execute(text).fetchall()), name
            assert views.verify(name).num_rows == 0


@pytest.mark.spark
def test_views_on_spark_equal_duckdb(spark: Any) -> None:
    """Epochs of one change, of seven, and of all; a second manager begins from what is committed, and fences
    the first."""
    random, store = Random(8), memory_store(partitions=2)
    made = engines(spark, Options(workers=2))
    views = Views(store, engine=made)
    views.create_table(f"{ORDERS}; {CUSTOMERS}")
    for _ in range(30):
        write(random, views.client)
    views.create_view(f"CREATE MATERIALIZED VIEW spend AS {TEXTS['spend']}", key=["city"])
    views.create_views([f"CREATE MATERIALIZED VIEW {name} AS {TEXTS[name]}" for name in ("cheap", "dear")])
    views.refresh()
    assert_right(views)
    for size in (1, 7):
        for _ in range(size):
            write(random, views.client)
        views.refresh()
        assert_right(views)
    before = views.epoch("spend")
    for _ in range(7):
        write(random, views.client)
    again = Views(store, engine=made)
    again.refresh()
    assert_right(again)
    assert again.epoch("spend") >= before
    for _ in range(7):
        write(random, views.client)
    views.refresh()  # the first one takes over again, with maps of what is committed by then
    assert_right(views)
    assert shown(views._head("spend").committed) == views.epoch("spend")
