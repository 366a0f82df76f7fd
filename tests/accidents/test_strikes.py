"""Exceptions that strike at any instruction: afterwards the database is at the epoch before or the one after,
and every view equals its recomputation."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import everfresh as ef
from everfresh.testing.strikes import Struck, struck

VIEWS = {
    "z": "SELECT g, COUNT(DISTINCT x) AS d, MAX(k) AS m FROM t GROUP BY g",
    "v": "SELECT a.g, COUNT(*) AS n, SUM(b.x) AS s FROM t a JOIN t b ON a.g = b.g AND a.x <= b.x GROUP BY a.g",
    "w": "SELECT k, RANK() OVER (PARTITION BY g ORDER BY x) AS r FROM t",
    "first_": "SELECT k, s FROM t ORDER BY s DESC, k LIMIT 3",
    "names": "SELECT s || '!' AS s, COUNT(*) AS n FROM b GROUP BY s",
    "above": "SELECT SUM(n) AS n FROM names",
}


def create(path: Path | None, **options: Any) -> ef.Database:
    options = {"durable": False, "compile": "off", "threads": 1, **options}
    db = ef.connect(path, engine="local", options=ef.Options(**options))
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, x BIGINT, s VARCHAR, kept VARCHAR)")
    db.sql("CREATE TABLE b (s VARCHAR, x BIGINT)")
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


class Batches:
    """Random changes of the tables, each by itself."""

    def __init__(self, seed: int) -> None:
        self._rng, self._next = Random(seed), 0

    def one(self, db: ef.Database) -> dict[str, Any]:
        rng = self._rng
        rows = db.table("t").to_arrow().to_pylist()
        gone = rng.sample(rows, len(rows) // 3)
        self._next += 10
        new = [
            (self._next + i, rng.randrange(4), rng.randrange(9), f"s{rng.randrange(9)}", f"kept {self._next} {i}")
            for i in range(6)
        ]
        bag = [(f"b{rng.randrange(5)}", 1) for _ in range(4)]
        return {"t": ef.Delta(inserts=new, deletes=[{"k": r["k"]} for r in gone]), "b": bag}


def contents(db: ef.Database) -> dict[str, list[Any]]:
    found = {**db.tables, **db.views}
    return {n: sorted(map(repr, r.to_arrow().to_pylist())) for n, r in found.items()}


def check(db: ef.Database) -> None:
    for view in db.views.values():
        assert view.verify().num_rows == 0, view.name


def strike_all(
    db: ef.Database,
    work: Callable[[], Any],
    places: int,
    rng: Random,
    undo: Callable[[], Any],
    error: type[BaseException] = Struck,
) -> dict[str, int]:
    """Strike `work` at some places, each from the same state; whether it was committed is counted."""
    counts = {"before": 0, "after": 0}
    db_epoch = db.epoch
    _, total = struck(work)
    assert db.epoch == db_epoch + 1
    undo()
    for _ in range(places):
        before, epoch = contents(db), db.epoch
        at = rng.randrange(1, total + 1)
        was_struck, _ = struck(work, at, error)
        after, now = contents(db), db.epoch
        assert now in (epoch, epoch + 1), at
        assert was_struck or now == epoch + 1
        assert (after == before) == (now == epoch), at
        check(db)
        counts["after" if now > epoch else "before"] += 1
        if now > epoch:
            undo()
    return counts


@pytest.mark.parametrize("places", [60, pytest.param(3000, marks=pytest.mark.soak)])
def test_a_batch_that_is_struck_is_done_or_undone(tmp_path: Path, places: int) -> None:
    rng, batches = Random(places), Batches(1)
    db = create(tmp_path / "db", snapshot_epochs=7)
    for _ in range(4):
        db.apply(batches.one(db))
    batch: dict[str, Any] = {}

    def renew() -> None:
        batch.clear()
        batch.update(batches.one(db))

    renew()
    counts = strike_all(db, lambda: db.apply(batch), places, rng, renew)
    assert all(counts.values())
    before = contents(db)
    db.close()
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert contents(db) == before
        check(db)
