"""The batches that the reliability tests apply, and what a database must hold after each prefix of them.

Batches are known up front; batch i has the key `b<i>`. `Expected` follows them in plain Python, so
that what is expected comes from nothing that is under test.
"""

from __future__ import annotations

import functools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import everfresh as ef
from everfresh.testing.oracle import DuckOracle, Row, assert_same
from everfresh.types import BIGINT, DECIMAL, DOUBLE, VARCHAR, Column, TableSchema

ACCOUNTS = TableSchema(
    "accounts",
    (Column("k", BIGINT, False), Column("owner", VARCHAR), Column("amount", DECIMAL(15, 2))),
    ("k",),
)
EVENTS = TableSchema("events", (Column("owner", VARCHAR), Column("x", DOUBLE)))
VIEWS = {
    "per_owner": "SELECT owner, SUM(amount) AS s, COUNT(*) AS n, AVG(amount) AS a FROM accounts GROUP BY "
    "owner",
    "rich": "SELECT k, amount * 2 AS twice FROM accounts WHERE amount > 50",
    "activity": "SELECT owner, SUM(x) AS s, COUNT(x) AS n FROM events GROUP BY owner",
    "total": "SELECT SUM(amount) AS s, COUNT(*) AS n FROM accounts",
}
BASE = 2 + len(VIEWS)
"""The epochs that creating tables and views takes: batch i commits epoch BASE + 1 + i."""

Batch = dict[str, ef.Delta]


def create(db: ef.Database) -> None:
    """Tables and views."""
    for schema in (ACCOUNTS, EVENTS):
        db.sql(schema.ddl)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    assert db.epoch == BASE


class Workload:
    """`count` batches of up to `size` rows, the same for the same arguments."""

    def __init__(self, count: int, size: int = 8, seed: int = 1) -> None:
        rng = Random(seed)
        self.batches: list[Batch] = []
        self.nets: list[dict[str, tuple[list[Row], list[Row]]]] = []
        accounts: dict[int, Row] = {}
        events: list[Row] = []
        for number in range(count):
            inserts, deletes, updates, gone, come = [], [], [], [], []
            for _ in range(rng.randint(1, size)):
                key = rng.randrange(60)
                row: Row = (
                    key,
                    rng.choice(["ann", "bob", "cy", None]),
                    Decimal(rng.randrange(-5000, 20000)) / 100,
                )
                if any(key == r[0] for r in (*inserts, *updates)) or key in {k for (k,) in deletes}:
                    continue
                if key not in accounts:
                    inserts.append(row)
                elif rng.random() < 0.5:
                    deletes.append((key,))
                else:
                    updates.append(row)
            for row in (*((k,) for (k,) in deletes), *updates):
                gone.append(accounts.pop(row[0]))
            for row in (*inserts, *updates):
                accounts[row[0]] = row
                come.append(row)
            new = [
                (rng.choice(["ann", "bob", None]), rng.randrange(-80, 80) / 8)
                for _ in range(rng.randint(0, 3))
            ]
            old = [events.pop(rng.randrange(len(events))) for _ in range(min(len(events), rng.randint(0, 2)))]
            events += new
            self.nets.append({"accounts": (come, gone), "events": (new, old)})
            self.batches.append(
                {
                    "accounts": ef.Delta(
                        inserts=inserts,
                        deletes=[{"k": k} for (k,) in deletes],
                        updates=[dict(zip(ACCOUNTS.names, row, strict=True)) for row in updates] or None,
                    ),
                    "events": ef.Delta(inserts=new, deletes=old),
                }
            )
            assert number == len(self.batches) - 1

    def apply(self, db: ef.Database, acknowledge: Callable[[int, int], None], start: int = 0) -> None:
        """Send all batches with their keys, and tell each epoch."""
        for number in range(start, len(self.batches)):
            acknowledge(number, db.apply(self.batches[number], key=f"b{number}"))


class Expected:
    """What the database holds after a prefix of the batches; only forward."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.oracle = DuckOracle()
        self.done = 0
        for schema in (ACCOUNTS, EVENTS):
            self.oracle.create(schema)

    def advance(self, count: int) -> None:
        """Move on to the state after `count` batches."""
        assert count >= self.done, f"{self.done} batches were committed before, and now only {count}"
        for net in self.workload.nets[self.done : count]:
            for table, (inserts, deletes) in net.items():
                self.oracle.apply(table, inserts, deletes)
        self.done = count

    def check(self, db: ef.Database, at: int | None = None) -> None:
        """Fail unless tables and views hold exactly this; with `at`, only the views, at that epoch."""
        if at is None:
            for schema in (ACCOUNTS, EVENTS):
                assert_same(self.oracle.table(schema.name), db.table(schema.name).to_arrow(), schema.name)
        for name, query in VIEWS.items():
            assert_same(
                self.oracle.query(query), db.view(name).to_arrow(at=at), f"{name} after {self.done} batches"
            )


def committed(db: ef.Database) -> int:
    """How many batches a database holds, by its epoch."""
    return db.epoch - BASE


def read_acknowledged(file: Path) -> list[tuple[int, int]]:
    """The batches a child said were committed, with their epochs; a line cut short by the kill is not one."""
    text = file.read_text() if file.exists() else ""
    return [(int(a), int(b)) for a, b in (line.split() for line in text.split("\n")[:-1])]


def acknowledger(file: Path, pause: float = 0.0) -> Callable[[int, int], None]:
    """Writes down each commit at once, so that it is there when the process is killed the moment after."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def acknowledge(number: int, epoch: int) -> None:
        os.write(fd, f"{number} {epoch}\n".encode())
        time.sleep(pause)

    return acknowledge


@functools.cache
def workload(count: int) -> Workload:
    """The workload of a number of batches, made once per process."""
    return Workload(count)


def check_after_kill(db: ef.Database, expected: Expected, acknowledged: list[tuple[int, int]]) -> None:
    """What must hold after a kill: exactly a prefix, with all that was acknowledged, no epoch twice."""
    count = committed(db)
    for number, epoch in acknowledged:
        assert epoch == BASE + 1 + number, f"batch {number} was committed as epoch {epoch}"
    promised = 1 + max((number for number, _ in acknowledged), default=-1)
    assert promised <= count, f"{promised} batches were acknowledged, and {count} are there"
    expected.advance(count)
    expected.check(db)
    for name in VIEWS:
        assert db.view(name).verify().num_rows == 0
    for number in _some(count):
        assert db.apply(expected.workload.batches[number], key=f"b{number}") == BASE + 1 + number
    assert committed(db) == count


def finish(db: ef.Database, expected: Expected) -> None:
    """Send everything again: what was committed changes nothing, the rest is completed."""
    epochs: list[int] = []
    expected.workload.apply(db, lambda number, epoch: epochs.append(epoch))
    assert epochs == [BASE + 1 + i for i in range(len(expected.workload.batches))]
    assert db.epoch == epochs[-1]
    assert max(Counter(epochs).values()) == 1
    expected.advance(len(epochs))
    expected.check(db)


def _some(count: int) -> Iterator[int]:
    yield from sorted({0, count // 2, count - 2, count - 1} & set(range(count)))


def options(**changes: Any) -> ef.Options:
    """Small snapshots and a short history, so that kills meet all of it."""
    return ef.Options(snapshot_epochs=7, history=5, workers=2).with_(**changes)
