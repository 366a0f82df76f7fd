"""Views over stores on servers that fail: writers, a maintainer and readers, and what they have seen."""

from __future__ import annotations

import threading
import time
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.store import Store
from everfresh.kv.views import Views

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT, price DECIMAL(9,2))"
CUSTOMERS = "CREATE TABLE customers (cust BIGINT PRIMARY KEY, city VARCHAR)"
VIEWS = {
    "spend": ("SELECT cust, SUM(price) AS s, COUNT(*) AS n FROM orders GROUP BY cust", ["cust"]),
    "cheap": ("SELECT cust, MIN(price) AS least FROM orders GROUP BY cust", ["cust"]),
    "cities": (
        "SELECT city, SUM(price) AS s FROM orders JOIN customers USING (cust) GROUP BY city",
        ["city"],
    ),
    "idle": (
        "SELECT cust FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.cust = c.cust)",
        ["cust"],
    ),
}
IDS, CUSTS = 60, 8


def declared(store: Store, strategy: str = "SCI") -> Views:
    """The tables and views, and a few customers."""
    views = Views(store)
    views.create_table(ORDERS)
    views.create_table(CUSTOMERS)
    for name, (query, key) in VIEWS.items():
        views.create_view(f"CREATE MATERIALIZED VIEW {name} AS {query}", key=key, strategy=strategy)
    for cust in range(CUSTS):
        views.client.put("customers", {"cust": cust, "city": f"city {cust % 3}"})
    return views


def write(random: Random, client: Client) -> tuple[int, Any]:
    """One random write: the order, and what it is then."""
    id_ = random.randrange(IDS)
    if random.random() < 0.25:
        client.delete("orders", id_)
        return id_, None
    row = {"id": id_, "cust": random.randrange(CUSTS), "price": Decimal(random.randrange(1, 500)) / 100}
    client.put("orders", row)
    return id_, row


def assert_right(views: Views, patience: float = 60.0) -> None:
    """All views are those of the base, once everything is in them."""
    end = time.monotonic() + patience
    while True:
        try:
            views.refresh()
            for name in VIEWS:
                wrong = views.verify(name)
                assert wrong.num_rows == 0, (name, wrong.to_pylist())
            return
        except EverfreshError as error:
            if error.code not in (Code.ENVIRONMENT, Code.NOT_FOUND, Code.FENCED) or time.monotonic() > end:
                raise


class Load:
    """Threads that write, maintain and read until they are stopped. Each writer has orders of its own, so
    that it knows what they must be."""

    def __init__(self, stores: Any, writers: int = 2) -> None:
        self.stop = threading.Event()
        self.acknowledged: dict[int, Any] = {}
        """What an order is after its last write that was acknowledged; those of writes whose answer was lost
        are in `unknown`."""
        self.unknown: set[int] = set()
        self.writes = 0
        self.refused: Counter[str] = Counter()
        self.reads: list[int] = []
        self.failures: list[BaseException] = []
        self._lock = threading.Lock()
        jobs = [lambda n=n: self._write(stores(), n, writers) for n in range(writers)]
        jobs += [lambda: self._maintain(stores()), lambda: self._read(stores())]
        self._threads = [threading.Thread(target=self._guarded, args=(job,)) for job in jobs]
        for thread in self._threads:
            thread.start()

    def _guarded(self, job: Any) -> None:
        try:
            job()
        except BaseException as error:
            self.failures.append(error)

    def _write(self, store: Store, number: int, of: int) -> None:
        random, client = Random(number), Client(store)
        while not self.stop.is_set():
            id_ = random.randrange(IDS) // of * of + number
            price = Decimal(random.randrange(1, 500)) / 100
            row = {"id": id_, "cust": random.randrange(CUSTS), "price": price}
            try:
                if random.random() < 0.25:
                    row = None  # type: ignore[assignment]
                    client.delete("orders", id_)
                else:
                    client.put("orders", row)
            except EverfreshError as error:
                if error.code != Code.ENVIRONMENT:
                    raise
                with self._lock:
                    self.unknown.add(id_)
                continue
            with self._lock:
                self.acknowledged[id_] = row
                self.unknown.discard(id_)
                self.writes += 1

    def _maintain(self, store: Store) -> None:
        views = Views(store)
        while not self.stop.is_set():
            try:
                views.refresh()
            except EverfreshError as error:
                if error.code not in (Code.ENVIRONMENT, Code.FENCED):
                    raise
                self.refused[error.message] += 1

    def _read(self, store: Store) -> None:
        """Sums of `spend` are of one moment: no customer twice, and its rows are whole."""
        client = Client(store)
        while not self.stop.is_set():
            try:
                rows = client.read("spend").to_pylist()
                client.read_row("spend", 1)
            except EverfreshError as error:
                if error.code not in (Code.ENVIRONMENT, Code.NOT_FOUND):
                    raise
                continue
            assert len({row["cust"] for row in rows}) == len(rows)
            assert all(row["n"] > 0 for row in rows)
            assert sum(row["n"] for row in rows) <= IDS + 2
            self.reads.append(sum(row["n"] for row in rows))

    def until(self, writes: int, seconds: float = 120.0) -> None:
        """Wait until so many more writes were acknowledged."""
        goal, end = self.writes + writes, time.monotonic() + seconds
        while self.writes < goal:
            assert not self.failures, self.failures
            assert time.monotonic() < end, "writers do not come on"
            time.sleep(0.01)

    def end(self) -> None:
        """Stop all, and raise what went wrong."""
        self.stop.set()
        for thread in self._threads:
            thread.join(120)
        if self.failures:
            raise self.failures[0]
