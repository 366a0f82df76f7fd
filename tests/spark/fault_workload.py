"""What the fault tests on Spark share: a small database, its batches, and what must hold after any fault."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import everfresh as ef
from everfresh.state import Commit

DDL = """
CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x DECIMAL(9,2));
CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g;
CREATE MATERIALIZED VIEW w AS SELECT k, g, x FROM t WHERE x > 3;
"""
"""`v` is on the driver, `w` with the workers. Of the batches below, those that only insert take one stage."""
DDL_EPOCHS = 3
BATCHES = [
    ef.Delta(inserts=[(i, "abc"[i % 3], i) for i in range(20)]),
    ef.Delta(
        inserts=[(i, "abcd"[i % 4], i) for i in range(20, 40)], deletes=[{"k": i} for i in range(0, 20, 2)]
    ),
    ef.Delta(updates=[{"k": i, "g": "z"} for i in range(1, 20, 2)]),
]


def more_batches(count: int) -> list[ef.Delta]:
    """As many batches as wanted: each inserts ten rows, deletes five and changes one of the batch before."""
    found = []
    for number in range(count):
        new = [(i, "abcd"[i % 4], i) for i in range(number * 10, number * 10 + 10)]
        before = range(number * 10 - 10, number * 10) if number else range(0)
        found.append(
            ef.Delta(
                inserts=new,
                deletes=[{"k": i} for i in before[:5]],
                updates=[{"k": i, "g": "z"} for i in before[5:6]],
            )
        )
    return found


def expected(batches: list[ef.Delta]) -> Counter[tuple[str, int, int]]:
    """The rows of the view after some batches, computed anew."""
    rows: dict[int, tuple[str, int]] = {}
    for batch in batches:
        for row in batch.deletes or []:
            del rows[row["k"]]
        for row in batch.updates or []:
            rows[row["k"]] = (row["g"], rows[row["k"]][1])
        for k, g, x in batch.inserts or []:
            rows[k] = (g, x)
    groups = {g for g, _ in rows.values()}
    return Counter(
        (g, sum(x for h, x in rows.values() if h == g), sum(h == g for h, _ in rows.values())) for g in groups
    )


def contents(db: ef.Database) -> Counter[tuple[str, int, int]]:
    """The rows of the view."""
    return Counter((r["g"], int(r["s"]), r["n"]) for r in db.view("v").to_pylist())


def send(db: ef.Database, batches: list[ef.Delta], first: int = 0) -> None:
    """Send batches, each under its key."""
    for number, batch in enumerate(batches, first):
        db.apply(t=batch, key=f"batch-{number}")


def assert_exact(path: Path, spark: Any, batches: list[ef.Delta]) -> None:
    """From files alone: every batch is one epoch, in its order, and the view is that of its table."""
    forget_caches(spark)
    with ef.connect(path, spark=spark) as db:
        assert db.epoch == DDL_EPOCHS + len(batches)
        assert contents(db) == expected(batches)
        assert db.view("v").verify().num_rows == 0
        assert db.view("w").verify().num_rows == 0
    keys: list[str] = []
    parent = ""
    for epoch, file in enumerate(sorted((path / "commits").iterdir()), 1):
        commit = Commit.decode(file.read_bytes(), str(file))
        assert (commit.epoch, commit.parent) == (epoch, parent)
        parent = commit.digest
        keys += commit.keys
    assert keys == [f"batch-{number}" for number in range(len(batches))]
    assert not list(path.rglob("*.tmp"))


def forget_caches(spark: Any) -> None:
    """Every Python process forgets its units, as if it were new: those of the workers, and this one."""
    from everfresh.spark.state import chain as here

    here._CACHE.clear()

    def forget(batches: Any) -> Any:
        from everfresh.spark.state import chain

        for batch in batches:
            chain._CACHE.clear()
            yield batch

    for _ in range(4):  # enough tasks that every process gets one
        spark.range(0, 16, 1, 8).mapInArrow(forget, "id long").collect()
