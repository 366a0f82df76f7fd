"""Many views of few templates, beside DuckDB: in each mode and layout, made and dropped meanwhile."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.sharing.cells import Mode
from everfresh.kv.store import memory_store
from everfresh.kv.views import Views

ORDERS = """CREATE TABLE orders
    (id BIGINT PRIMARY KEY, cust BIGINT, price DECIMAL(9,2), note VARCHAR, day DATE)"""
CUSTOMERS = "CREATE TABLE customers (cust BIGINT PRIMARY KEY, city VARCHAR)"
TEMPLATES = (
    """SELECT SUM(price) AS s, AVG(price) AS a, COUNT(*) AS n FROM orders
       WHERE day >= DATE '2020-01-{a:02}' AND day < DATE '2020-01-{a:02}' + INTERVAL 5 DAY AND price < {b}""",
    """SELECT note, city, SUM(price) AS s, COUNT(price) AS n FROM orders o JOIN customers c ON o.cust = c.cust
       WHERE day <= DATE '2020-01-{a:02}' OR city = '{c}' GROUP BY note, city""",
)


def write(random: Random, client: Client) -> None:
    if random.random() < 0.2:
        cust = random.randrange(5)
        if random.random() < 0.3:
            client.delete("customers", cust)
        else:
            client.put("customers", {"cust": cust, "city": random.choice(["A", "B", None])})
        return
    id_ = random.randrange(30)
    if random.random() < 0.3:
        client.delete("orders", id_)
        return
    price = random.choice([None, Decimal(random.randrange(100)) / 10])
    row = {"id": id_, "cust": random.choice([None, *range(5)]), "price": price}
    day = dt.date(2020, 1, random.randrange(1, 28))
    client.put("orders", {**row, "note": random.choice(["x", "y", None]), "day": day})


def made(random: Random, name: str, texts: dict[str, str], layout: str) -> str:
    template = TEMPLATES[len(texts) % 2]
    texts[name] = template.format(a=random.randrange(1, 20), b=random.randrange(2, 9), c=random.choice("AB"))
    return f"CREATE MATERIALIZED VIEW {name} WITH (layout = '{layout}') AS {texts[name]}"


def rows(listed: list[Any]) -> Counter[Any]:
    """An average may differ in its last bit."""
    return Counter(tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in listed)


def assert_right(views: Views, texts: dict[str, str]) -> None:
    with duckdb.connect() as oracle:
        for name, ddl in (("orders", ORDERS), ("customers", CUSTOMERS)):
            oracle.execute(ddl)
            base = views.client.scan(name)
            oracle.execute(f"INSERT INTO {name} SELECT * FROM base")
            assert base.num_rows == oracle.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0][0]
        for name, text in texts.items():
            seen = views.client.read(name)
            listed = [tuple(row.values()) for row in seen.to_pylist()]
            assert rows(listed) == rows(oracle.execute(text).fetchall()), name
            assert views.verify(name).num_rows == 0
            for row in seen.to_pylist():
                key = (row["note"], row["city"]) if "note" in row else ()
                assert views.client.read_row(name, *key) == row


@pytest.mark.parametrize(
    ("layout", "mode"),
    [("own", "standard"), ("own", "single"), ("own", "double"), ("shared", "double")],
)
def test_views_of_templates_equal_duckdb(layout: str, mode: Mode) -> None:
    random, store, texts = Random(3), memory_store(partitions=2), dict[str, str]()
    views = Views(store)
    views.create_table(f"{ORDERS}; {CUSTOMERS}")
    for _ in range(20):
        write(random, views.client)
    views.create_views([made(random, f"v{i}", texts, layout) for i in range(8)], mode=mode)
    assert len(views.groups) == 2  # one for each template
    for step in range(4):
        views.refresh()
        assert_right(views, texts)
        for _ in range(15):
            write(random, views.client)
        if step == 0:
            views.create_views([made(random, f"v{i}", texts, layout) for i in range(10, 14)], mode=mode)
        if step == 1:
            for name in ("v3", "v4", "v11"):
                views.drop_view(name)
                del texts[name]
            store.split(next(p.id for p in store.partitions() if p.open))
        if step == 2:
            views = Views(store)
            views.sweep()


def test_the_last_view_of_a_family_takes_its_rows_with_it() -> None:
    store = memory_store()
    views = Views(store)
    views.create_table(ORDERS)
    before = set(store.tables())
    text = "SELECT SUM(price) AS s FROM orders WHERE id < {0}"
    views.create_views([f"CREATE MATERIALIZED VIEW v{i} AS {text.format(i)}" for i in (1, 2, 2)][:2])
    views.refresh()
    for name in ("v1", "v2"):
        views.drop_view(name)
    assert set(store.tables()) == before
    views.create_views([f"CREATE MATERIALIZED VIEW v1 AS {text.format(1)}"])
    views.refresh()
    assert views.client.read("v1").to_pylist() == [{"s": None}]


def test_equal_views_are_one() -> None:
    store = memory_store()
    views = Views(store)
    views.create_table(ORDERS)
    views.create_views(
        [f"CREATE MATERIALIZED VIEW {name} AS SELECT COUNT(*) AS n FROM orders WHERE {condition}"
         for name, condition in (("a", "id <= 3"), ("b", "3 >= id"), ("c", "id < 4"), ("d", "id < 5"))]
    )  # fmt: skip
    views.client.put("orders", {"id": 3, "cust": 1, "price": None, "note": None, "day": None})
    views.refresh()
    (group,) = views.groups
    assert sum(len(batch) for batch in store.scan(group)) == 2
    views.drop_view("a")
    views.refresh()
    assert [views.client.read(name).to_pylist() for name in "bcd"] == [[{"n": 1}]] * 3


def test_what_cannot_share_says_why() -> None:
    views = Views(memory_store())
    views.create_table(ORDERS)
    head = "CREATE MATERIALIZED VIEW v AS "
    for code, text in (
        (Code.UNSUPPORTED, head + "SELECT id FROM orders WHERE id < 3"),
        (Code.UNSUPPORTED, head + "SELECT MIN(id) AS m FROM orders WHERE id < 3"),
        (Code.UNSUPPORTED, head + "SELECT COUNT(*) AS n FROM orders"),
        (Code.UNSUPPORTED, head + "SELECT COUNT(*) AS n FROM orders WHERE id < 3 GROUP BY cust"),
        (Code.ARGUMENT, "CREATE MATERIALIZED VIEW v WITH (layout = 'x') AS SELECT 1 AS n"),
        (Code.ARGUMENT, "CREATE TABLE t (a BIGINT)"),
    ):
        with pytest.raises(EverfreshError) as caught:
            views.create_views([text])
        assert caught.value.code == code, text
    with pytest.raises(EverfreshError, match="no mode"):
        views.create_views([], mode="triple")  # type: ignore[arg-type]
    with pytest.raises(EverfreshError, match="no strategy"):
        views.create_view(head + "SELECT id FROM orders", strategy="XYZ")
    assert views.names == []
