"""SQL views over stores, beside DuckDB: after random writes, splits, and opening the store again."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.kv import split
from everfresh.kv.client import Client
from everfresh.kv.protocol.calls import base_by_chunks, bases
from everfresh.kv.store import Cut, EmbeddedStore, StoredTable, memory_store, rocks_store
from everfresh.kv.views import Views
from everfresh.types import BIGINT, Column, TableSchema

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT, price DECIMAL(9,2), note VARCHAR)"
CUSTOMERS = "CREATE TABLE customers (cust BIGINT PRIMARY KEY, city VARCHAR)"
VIEWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dear": ("SELECT id, price * 2 AS twice FROM orders WHERE price > 5", ("id",)),
    "spend": ("SELECT cust, SUM(price) AS s, COUNT(*) AS n FROM orders GROUP BY cust", ("cust",)),
    "extremes": ("SELECT cust, MIN(price) AS lo, MAX(note) AS hi FROM orders GROUP BY cust", ("cust",)),
    "placed": ("SELECT o.id, c.city FROM orders o JOIN customers c ON o.cust = c.cust", ("id",)),
    "every": ("SELECT c.cust, o.id FROM orders o FULL JOIN customers c ON o.cust = c.cust", ()),
    "idle": (
        "SELECT cust FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.cust = c.cust)",
        ("cust",),
    ),
    "buyers": (
        "SELECT cust FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.cust = c.cust)",
        ("cust",),
    ),
    "cities": (
        "SELECT city, SUM(price) AS s FROM orders JOIN customers USING (cust) GROUP BY city",
        (),
    ),
    "total": ("SELECT COUNT(*) AS n, SUM(price) AS s FROM orders", ()),
    "bag": ("SELECT note FROM orders", ()),
    "top": ("SELECT id, price FROM orders ORDER BY price DESC NULLS LAST, id LIMIT 3", ("id",)),
}


def made(store: EmbeddedStore, strategy: str = "SCI", batch: int = 0) -> Views:
    views = Views(store)
    views.create_table(f"{ORDERS}; {CUSTOMERS}")
    for name, (text, key) in VIEWS.items():
        views.create_view(
            f"CREATE MATERIALIZED VIEW {name} AS {text}", key=key, strategy=strategy, batch=batch
        )
    return views


def write(random: Random, client: Client) -> None:
    if random.random() < 0.25:
        cust = random.randrange(6)
        if random.random() < 0.3:
            client.delete("customers", cust)
        else:
            client.put("customers", {"cust": cust, "city": random.choice(["Bern", "Rom", None])})
        return
    id_ = random.randrange(15)
    if random.random() < 0.3:
        client.delete("orders", id_)
        return
    price = random.choice([None, Decimal(random.randrange(1000)) / 100])
    row = {"id": id_, "cust": random.choice([None, *range(6)]), "price": price}
    client.put("orders", {**row, "note": random.choice(["", "a", "b\0c", None])})


def rows(table: Any) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def assert_right(views: Views) -> None:
    with duckdb.connect() as oracle:
        for name, ddl in (("orders", ORDERS), ("customers", CUSTOMERS)):
            oracle.execute(ddl)
            base = views.client.scan(name)
            oracle.execute(f"INSERT INTO {name} SELECT * FROM base")
            assert base.num_rows == oracle.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0][0]
        for name, (text, key) in VIEWS.items():
            seen = views.client.read(name)
            assert rows(seen) == Counter(oracle.execute(text).fetchall()), name
            assert views.verify(name).num_rows == 0
            for row in seen.to_pylist() if key else []:
                assert views.client.read_row(name, *[row[k] for k in key]) == row


@pytest.mark.parametrize(("strategy", "batch"), [("IN", 0), ("IMB", 4), ("SCI", 3), ("ISN", 0), ("ISC", 0)])
def test_views_equal_duckdb_after_every_refresh(strategy: str, batch: int) -> None:
    random, store = Random(batch), memory_store(partitions=2)
    views = made(store, strategy, batch)
    views.refresh()
    assert_right(views)
    for step in range(6):
        for _ in range(random.choice([1, 3, 20])):
            write(random, views.client)
        if step == 2:
            store.split(random.choice([p.id for p in store.partitions() if p.open]))
        views.refresh()
        assert_right(views)
        if step == 3:
            views.trim()


def test_views_go_on_when_the_store_is_opened_again(tmp_path: Path) -> None:
    random, store = Random(9), rocks_store(tmp_path, partitions=2)
    views = made(store)
    for _ in range(3):
        for _ in range(10):
            write(random, views.client)
        views.refresh()
        views.trim()
        write(random, views.client)
        store.split(next(p.id for p in store.partitions() if p.open))
        store.close()
        store = rocks_store(tmp_path)
        views = Views(store)
        assert views.names == sorted(VIEWS)
        views.refresh()
        views.sweep()
        assert_right(views)
    store.close()


class _Dies(Exception):
    """The process ends here."""


@pytest.mark.parametrize("call", ["fence", "prepare", "resolve", "collect", "put"])
@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_dies_at_any_call_leaves_views_that_go_on(call: str, after: bool) -> None:
    for count in (3,) if after else (2,):
        store = memory_store(partitions=2)
        views = Views(store)
        views.create_table(ORDERS)
        spend = f"CREATE MATERIALIZED VIEW spend AS {VIEWS['spend'][0]}"
        views.create_view(spend, key=("cust",), strategy="IN")
        random, real, left = Random(count), getattr(store, call), [count]

        def dying(*given: Any, real: Any = real, left: list[int] = left, **how: Any) -> Any:
            if given[0] == "orders":
                return real(*given, **how)
            left[0] -= 1
            if left[0]:
                return real(*given, **how)
            if after:
                real(*given, **how)
            raise _Dies

        setattr(store, call, dying)
        died = False
        for _ in range(6):
            for _ in range(4):
                id_, cust = random.randrange(5), random.randrange(3)
                views.client.put("orders", {"id": id_, "cust": cust, "price": Decimal(1), "note": None})
            if random.random() < 0.5:
                views.client.delete("orders", random.randrange(5))
            try:
                views.refresh()
            except _Dies:
                died = True
                break
        assert died or call in ("resolve", "collect")
        setattr(store, call, real)
        again = Views(store)
        before = again.client.read("spend")
        sums = rows(before)
        again.refresh()
        assert again.verify("spend").num_rows == 0
        assert all(n >= 1 for _, _, n in sums)
        again.sweep()
        assert again.verify("spend").num_rows == 0


def test_a_point_read_takes_at_most_two_gets() -> None:
    store = memory_store()
    views = Views(store)
    views.create_table(ORDERS)
    views.create_view(f"CREATE MATERIALIZED VIEW spend AS {VIEWS['spend'][0]}", key=("cust",))
    views.client = Client(store, fresh_for=1e9)
    views.refresh()
    assert views.client.read_row("spend", 1) is None  # the client knows from now on where the view is
    gets: list[str] = []
    real = store.get

    def counting(table: str, key: bytes) -> Any:
        gets.append(table)
        return real(table, key)

    for n in range(1, 5):
        views.client.put("orders", {"id": n, "cust": 1, "price": Decimal(n), "note": None})
        views.refresh()
        row = real("spend", views.client._codec("spend", view=True).encode_key((1,)))
        assert row is not None
        states = split.unpack(row.value)
        gets.clear()
        store.get = counting  # type: ignore[method-assign]
        found = views.client.read_row("spend", 1)
        store.get = real  # type: ignore[method-assign]
        assert found is not None
        assert found["n"] == n
        assert gets == ["spend", "_ef_heads"][: len(states)]
        old = views.client.plain("spend", 1)
        assert (old["n"] if old else 0) in (n - 1, n)


def test_a_view_that_is_made_again_is_not_read_as_the_old_one() -> None:
    """Another client remembers for ever where the views were."""
    store = memory_store()
    views, other = Views(store), Client(store, fresh_for=1e9)
    views.create_table(ORDERS)
    views.client.put("orders", {"id": 1, "cust": 7, "price": Decimal(4), "note": "a"})
    old = "CREATE MATERIALIZED VIEW v AS SELECT cust, SUM(price) AS s FROM orders GROUP BY cust"
    new = "CREATE MATERIALIZED VIEW v AS SELECT cust, COUNT(*) AS n FROM orders GROUP BY cust"
    for text, row in ((old, {"cust": 7, "s": Decimal(4)}), (new, {"cust": 7, "n": 1})) * 2:
        views.create_view(text, key=["cust"])
        with pytest.raises(EverfreshError, match="is being made"):
            other.read_row("v", 7)
        views.refresh()
        assert other.read_row("v", 7) == row
        assert other.read("v").to_pylist() == [row]
        assert other.read_row("v", 8) is None
        views.drop_view("v")
        for call in (other.read, lambda name: other.read_row(name, 7)):
            with pytest.raises(EverfreshError, match="no view 'v'"):
                call("v")


def test_a_view_of_a_family_that_is_made_again_is_not_read_as_the_old_one() -> None:
    """Its family has another view, so that table and head stay; nobody maintains meanwhile."""
    store = memory_store()
    views, other = Views(store), Client(store, fresh_for=1e9)
    views.create_table(ORDERS)
    views.client.put("orders", {"id": 3, "cust": 7, "price": Decimal(4), "note": "a"})
    text = "CREATE MATERIALIZED VIEW {0} AS SELECT COUNT(*) AS n FROM orders WHERE id < {1}"
    views.create_views([text.format("stays", 9), text.format("v", 2)])
    views.refresh()
    assert other.read_row("v") == {"n": 0}
    declaring = Views(store, only=lambda group: False)
    declaring.drop_view("v")
    with pytest.raises(EverfreshError, match="no view 'v'"):
        other.read_row("v")
    declaring.create_views([text.format("v", 5)])
    Views(store).refresh()
    assert other.read_row("v") == {"n": 1}
    assert other.read("v").to_pylist() == [{"n": 1}]
    assert other.read_row("stays") == {"n": 1}


def test_mistakes_are_named() -> None:
    store = memory_store()
    views = Views(store)
    views.create_table(ORDERS)
    client = views.client
    row = {"id": 1, "cust": 1, "price": Decimal(1), "note": None}
    view = "CREATE MATERIALIZED VIEW v AS SELECT cust, id FROM orders"
    for code, call in (
        (Code.ARGUMENT, lambda: views.create_table("CREATE TABLE t (a BIGINT)")),
        (Code.ARGUMENT, lambda: views.create_table("SELECT 1")),
        (Code.ARGUMENT, lambda: views.create_view("CREATE TABLE t (a BIGINT)")),
        (Code.NOT_FOUND, lambda: views.create_view(view, key=["x"])),
        (Code.NOT_FOUND, lambda: views.drop_view("x")),
        (Code.NOT_FOUND, lambda: client.read("orders")),
        (Code.NOT_FOUND, lambda: client.get("nothing", 1)),
        (Code.ARGUMENT, lambda: client.get("orders", 1, 2)),
        (Code.ARGUMENT, lambda: client.put("orders", {"id": 1})),
        (Code.NULL, lambda: client.put("orders", {**row, "id": None})),
        (Code.VALUE, lambda: client.put("orders", {**row, "cust": "x"})),
    ):
        with pytest.raises(EverfreshError) as caught:
            call()
        assert caught.value.code == code
    with pytest.raises(EverfreshError, match="IN has no parallel transition"):
        views.create_view(view, strategy="IN", parallel=True)
    views.create_view(view, key=["cust"])
    with pytest.raises(EverfreshError) as caught:
        views.create_view(view)
    assert caught.value.code == Code.EXISTS
    client.put("orders", row)
    client.put("orders", {**row, "id": 2})
    with pytest.raises(EverfreshError) as caught:
        views.refresh()
    assert caught.value.code == Code.DUPLICATE_KEY
    views.drop_view("v")
    views.create_view(view)
    views.refresh()
    assert views.verify("v").num_rows == 0
    views.trim()
    views.create_view(view.replace("VIEW v", "VIEW w"), strategy="IN")
    with pytest.raises(EverfreshError) as caught:
        views.refresh()
    assert caught.value.code == Code.HISTORY


@pytest.mark.parametrize(
    ("strategy", "parallel"),
    [
        *((name, False) for name in ("SNI", "SNIMB", "SCI", "SCIMB", "ISN", "ISC")),
        *((name, True) for name in ("SNI", "SCIMB")),
    ],
)
def test_a_view_over_existing_data_needs_no_log(strategy: str, parallel: bool) -> None:
    random, store = Random(7), memory_store(partitions=2)
    views = Views(store)
    views.create_table(f"{ORDERS}; {CUSTOMERS}")
    for _ in range(60):
        write(random, views.client)
    store.split(1)
    views.trim()
    for name, (text, key) in VIEWS.items():
        made = f"CREATE MATERIALIZED VIEW {name} AS {text}"
        views.create_view(made, key=key, strategy=strategy, batch=9, parallel=parallel)
    for _ in range(30):
        write(random, views.client)  # after it was made, and before it is loaded
    with pytest.raises(EverfreshError, match="is being made"):
        views.client.read("spend")
    views.refresh()
    assert_right(views)


@pytest.mark.parametrize("strategy", ["SN", "SC"])
def test_generations_are_switched_at_once(strategy: str) -> None:
    random, store = Random(8), memory_store(partitions=2)
    views = Views(store)
    views.create_table(f"{ORDERS}; {CUSTOMERS}")
    for name, (text, key) in VIEWS.items():
        views.create_view(f"CREATE MATERIALIZED VIEW {name} AS {text}", key=key, strategy=strategy)
    with pytest.raises(EverfreshError, match="is being made"):
        views.client.read("spend")
    real, seen = store.prepare, list[Any]()

    def watched(*given: Any) -> None:
        real(*given)
        seen.append(rows(views.client.read("spend")))

    for step in range(4):
        for _ in range(10):
            write(random, views.client)
        if step:
            before = rows(views.client.read("spend"))
            store.prepare = watched  # type: ignore[method-assign, assignment]
        views.refresh()
        store.prepare = real  # type: ignore[method-assign]
        assert_right(views)
        if step:
            assert all(state in (before, rows(views.client.read("spend"))) for state in seen)
            assert seen
        seen.clear()
        views.trim()
        if step == 2:
            views = Views(store)
    generations = [name for name in store.tables() if name.startswith("spend@")]
    assert 1 <= len(generations) <= 2
    views.drop_view("spend")
    assert not [name for name in store.tables() if name.startswith("spend")]
    assert "spend" not in Views(store).names


@pytest.mark.parametrize("parallel", [False, True])
def test_a_view_is_made_while_clients_write_between_the_chunks(parallel: bool) -> None:
    for seed in range(3):
        random, store = Random(seed), memory_store(partitions=2)
        busy: Any = _Writing(store, random)
        views = Views(busy)
        views.create_table(f"{ORDERS}; {CUSTOMERS}")
        busy.client = Client(store)
        for _ in range(60):
            write(random, views.client)
        for name, (text, key) in VIEWS.items():
            views.create_view(f"CREATE MATERIALIZED VIEW {name} AS {text}", key=key, parallel=parallel)
        busy.writes = 40
        views.refresh()
        assert busy.writes == 0
        views.refresh()
        assert_right(views)


class _Writing:
    """A store to which somebody writes after each chunk and each slice that is read."""

    def __init__(self, store: EmbeddedStore, random: Random) -> None:
        self.store, self.random, self.writes, self.client = store, random, 0, Client(store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def _write(self) -> None:
        for _ in range(min(self.writes, 3)):
            self.writes -= 1
            write(self.random, self.client)

    def scan_chunks(self, partition: int, table: str, *given: Any, **how: Any) -> Any:
        for chunk in self.store.scan_chunks(partition, table, *given, **{**how, "size": 7}):
            yield chunk
            self._write()

    def log(self, *given: Any) -> Any:
        found = self.store.log(*given)
        self._write()
        return found


class _Busy:
    """A store in which somebody writes between the chunks of a scan."""

    def __init__(self, store: EmbeddedStore, random: Random) -> None:
        self.store, self.random = store, random

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def scan_chunks(self, partition: int, table: str, **how: Any) -> Any:
        for chunk in self.store.scan_chunks(partition, table, **how):
            yield chunk
            for _ in range(self.random.randrange(4)):
                some_write(self.random, self.store)


def some_write(random: Random, store: EmbeddedStore) -> None:
    key = b"k%02d" % random.randrange(20)
    if random.random() < 0.4:
        store.delete("t", key)
    else:
        store.put("t", key, b"%d" % random.randrange(1000))


def test_a_scan_beside_writers_is_the_base_at_the_cut() -> None:
    differs = 0
    for seed in range(10):
        random, store = Random(seed), memory_store(partitions=2)
        store.create_table(StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",))))
        for _ in range(30):
            some_write(random, store)
        cut = Cut({p.id: store.log_end(p.id) for p in store.partitions()})
        expected = sorted(("t", key, row.value) for batch in store.scan("t") for key, row in batch)
        for _ in range(10):
            some_write(random, store)
        if seed % 2:
            store.split(1)
            for _ in range(5):
                some_write(random, store)
        ends = [(p, store.log_end(p.id)) for p in store.partitions()]
        busy: Any = _Busy(store, random)
        found = []
        for base in bases(ends, ("t",), cut, chunks=True):
            found += base_by_chunks(busy, base.partition, base.tables, base.logs, 3)
        assert sorted(found) == expected
        now = sorted(("t", key, row.value) for batch in store.scan("t") for key, row in batch)
        differs += now != expected
    assert differs == 10


def test_verify_finds_damage() -> None:
    store = memory_store()
    views = Views(store)
    views.create_table(ORDERS)
    views.create_view(f"CREATE MATERIALIZED VIEW spend AS {VIEWS['spend'][0]}", key=("cust",))
    views.client.put("orders", {"id": 1, "cust": 1, "price": Decimal(1), "note": None})
    views.refresh()
    for batch in store.scan("spend"):
        for key, _ in batch:
            store.delete("spend", key)
    assert views.verify("spend").num_rows == 1
