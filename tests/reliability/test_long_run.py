"""Random batches over ten views for a long time: every view stays right, and memory stays flat.

The tables keep their sizes, strings and keys come and go, the folder is durable and takes its snapshots; half
of the way the database is closed and opened again. How long the long run takes: `EVERFRESH_LONG_RUN` seconds,
30 minutes if it is not set.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

import everfresh as ef
from everfresh.testing.state_check import check_state

TABLES = """
CREATE TABLE customer (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, region VARCHAR, credit DECIMAL(12,2));
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, day DATE NOT NULL, state VARCHAR);
CREATE TABLE item (orders BIGINT, line INTEGER, part BIGINT NOT NULL, price DECIMAL(12,2) NOT NULL,
                   weight DOUBLE, PRIMARY KEY (orders, line));
CREATE TABLE quote (part BIGINT NOT NULL, level INTEGER NOT NULL, volume BIGINT);
"""
VIEWS = {
    "revenue": "SELECT c.region, SUM(i.price) AS total, COUNT(*) AS n FROM item i JOIN orders o "
    "ON i.orders = o.id JOIN customer c ON o.customer = c.id GROUP BY c.region",
    "by_day": "SELECT day, state, COUNT(*) AS n FROM orders GROUP BY day, state",
    "heavy": "SELECT part, SUM(weight) AS w, AVG(weight) AS mean FROM item GROUP BY part HAVING COUNT(*) > 2",
    "extremes": "SELECT part, MIN(price) AS low, MAX(price) AS high FROM item GROUP BY part",
    "best": "SELECT id, credit FROM customer ORDER BY credit DESC, id LIMIT 10",
    "idle": "SELECT c.region, COUNT(*) AS n FROM customer c "
    "WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id) GROUP BY c.region",
    "named": "SELECT COUNT(*) AS n, COUNT(DISTINCT region) AS r FROM customer WHERE name LIKE '%7%'",
    "padded": "SELECT c.id, COUNT(o.id) AS n FROM customer c LEFT JOIN orders o ON o.customer = c.id "
    "GROUP BY c.id",
    "vwap": "SELECT SUM(q.level * q.volume) AS x FROM quote q WHERE "
    "(SELECT SUM(r.volume) FROM quote r) < 4 * (SELECT SUM(s.volume) FROM quote s WHERE s.level > q.level)",
    "large": "SELECT o.id, SUM(i.price) AS total FROM orders o JOIN item i ON i.orders = o.id GROUP BY o.id "
    "HAVING SUM(i.price) > (SELECT 2 * AVG(price) FROM item)",
}
GROWTH = 1.15
"""How much larger the process may be at the end than after the first third."""


@dataclass
class Tables:
    """The rows that there are, and the next batch."""

    rng: Random
    size: int
    rows: dict[str, dict[Any, tuple[Any, ...]]] = field(
        default_factory=lambda: {name: {} for name in ("customer", "orders", "item")}
    )
    quotes: list[tuple[Any, ...]] = field(default_factory=list)
    names: int = 0

    def batch(self) -> dict[str, ef.Delta]:
        """Changes of one to four tables, some rows or very many."""
        rng = self.rng
        most = rng.choice((1, 1, 7, 100, 1000))
        found = {}
        for name in rng.sample(("customer", "orders", "item", "quote"), rng.randint(1, 4)):
            count = rng.randint(1, most)
            found[name] = self._quotes(count) if name == "quote" else self._keyed(name, count)
        return found

    def _keyed(self, name: str, count: int) -> ef.Delta:
        rng, rows = self.rng, self.rows[name]
        limit = self.size * {"customer": 1, "orders": 4, "item": 12}[name]
        gone = [
            rows.pop(key) for key in rng.sample(list(rows), min(len(rows), max(0, len(rows) + count - limit)))
        ]
        new = {}
        for _ in range(count):
            row = getattr(self, f"_{name}")()
            key = row[:2] if name == "item" else row[0]
            if key not in rows:
                new[key] = row
        rows.update(new)
        touched = [key for key in rng.sample(list(rows), min(len(rows), count // 4)) if key not in new]
        updates = []
        for key in touched:
            row = getattr(self, f"_{name}")()
            rows[key] = (*key, *row[2:]) if name == "item" else (key, *row[1:])
            updates.append(rows[key])
        by_key = name != "item" and rng.random() < 0.5
        names = {"customer": ("id", "name", "region", "credit"), "orders": ("id", "customer", "day", "state")}
        columns = names.get(name, ("orders", "line", "part", "price", "weight"))
        return ef.Delta(
            inserts=list(new.values()) or None,
            deletes=([{"id": row[0]} for row in gone] if by_key else gone) or None,
            updates=[dict(zip(columns, row, strict=True)) for row in updates] or None,
        )

    def _quotes(self, count: int) -> ef.Delta:
        rng = self.rng
        new = [(rng.randrange(50), rng.randrange(200), rng.choice((None, 1, 10, 500))) for _ in range(count)]
        rng.shuffle(self.quotes)
        drop = max(0, len(self.quotes) + count - self.size)
        gone, self.quotes = self.quotes[:drop], [*self.quotes[drop:], *new]
        return ef.Delta(inserts=new, deletes=gone or None)

    def _customer(self) -> tuple[Any, ...]:
        rng, self.names = self.rng, self.names + 1
        region = rng.choice(("north", "south", None, f"region {rng.randrange(30)}"))
        return (
            rng.randrange(4 * self.size),
            f"customer number {self.names}",
            region,
            f"{rng.randrange(10**6)}.50",
        )

    def _orders(self) -> tuple[Any, ...]:
        rng = self.rng
        day = f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        return (
            rng.randrange(16 * self.size),
            rng.randrange(4 * self.size),
            day,
            rng.choice(("open", "done", None)),
        )

    def _item(self) -> tuple[Any, ...]:
        rng = self.rng
        weight = rng.choice((None, rng.random(), 1e9 * rng.random()))
        orders, part = rng.randrange(16 * self.size), int(rng.paretovariate(0.5)) % 500
        return orders, rng.randint(1, 5), part, f"{rng.randrange(10**5)}.{rng.randrange(100):02}", weight


def verified(db: ef.Database) -> None:
    """Every view equals its recomputation."""
    for name in VIEWS:
        wrong = db.view(name).verify()
        assert not len(wrong), (name, wrong.to_pylist()[:5])


def long_run(
    path: Path, size: int, over: Callable[[int, float], bool], verify_every: int, **options: Any
) -> list[int]:
    """Batches until `over(count, seconds)`; the process's memory in bytes along the way."""
    tables, memory, count, opened = Tables(Random(14), size), [], 0, time.monotonic()
    chosen = ef.Options(durable=False, snapshot_epochs=100, **options)
    db = ef.connect(path, engine="local", options=chosen)
    db.sql(TABLES)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    reopened = False
    while not over(count, time.monotonic() - opened):
        db.apply(tables.batch())
        count += 1
        if count % verify_every:
            continue
        verified(db)
        gc.collect()
        memory.append(psutil.Process().memory_info().rss)
        if not reopened and over(2 * count, 2 * (time.monotonic() - opened)):
            db.close()
            db, reopened = ef.connect(path, engine="local", options=chosen), True
    verified(db)
    check_state(db)
    assert {name: len(db.table(name).to_arrow()) for name in tables.rows} == {
        name: len(rows) for name, rows in tables.rows.items()
    }
    db.close()
    assert reopened
    return memory


def test_some_batches(tmp_path: Path) -> None:
    memory = long_run(tmp_path / "db", 60, lambda count, _: count >= 120, 20, compile="off")
    assert len(memory) == 6


@pytest.mark.soak
def test_thirty_minutes(tmp_path: Path) -> None:
    wanted = float(os.environ.get("EVERFRESH_LONG_RUN", "1800"))
    memory = long_run(tmp_path / "db", 2000, lambda _, seconds: seconds >= wanted, 200)
    assert len(memory) > 3  # in the first third code is compiled
    early, late = memory[len(memory) // 3 : 2 * len(memory) // 3], memory[-max(1, len(memory) // 6) :]
    print("megabytes:", [size >> 20 for size in memory])
    assert max(late) <= GROWTH * max(early), [size >> 20 for size in memory]
