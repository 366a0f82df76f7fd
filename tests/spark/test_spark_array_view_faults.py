"""Array views on Spark itself: workers that die in the middle of a batch leave the last epoch, no trace."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from fault_workload import forget_caches

import everfresh as ef

pytestmark = pytest.mark.spark

VIEW = (
    "CREATE ARRAY VIEW near WITH (maintenance = 'reassign') AS SELECT COUNT(*) AS n, MIN(y.v) AS v "
    "FROM a AS x SIMILARITY JOIN a AS y ON (x.i = y.i) AND (x.j = y.j) WITH SHAPE LINF(1) GROUP BY x.i, x.j"
)


def batches(count: int) -> list[ef.Delta]:
    """Cells that come, some of which go again."""
    rng = random.Random(5)
    found, there = [], list[Any]()
    for _ in range(count):
        gone = rng.sample(there, min(len(there), 5))
        new = [(rng.randrange(1, 15), rng.randrange(1, 15), rng.randrange(9)) for _ in range(15)]
        for cell in gone:
            there.remove(cell)
        there += new
        found.append(ef.Delta(inserts=new, deletes=gone))
    return found


def rows(db: ef.Database) -> list[str]:
    found = [*db.array("a").to_arrow().to_pylist(), *db.view("near").to_arrow().to_pylist()]
    return sorted(map(repr, found))


def wanted(given: list[ef.Delta]) -> list[str]:
    with ef.connect(engine="local") as db:
        db.sql("CREATE ARRAY a <v: INT> [i=1,14,3; j=1,14,3]")
        db.sql(VIEW)
        for one in given:
            db.apply(a=one)
        return rows(db)


@pytest.mark.parametrize(
    "point",
    [
        "opened",
        pytest.param("after-apply", marks=pytest.mark.soak),
        "after-write",
        pytest.param("before-yield", marks=pytest.mark.soak),
    ],
)
def test_a_worker_that_is_killed(spark: Any, tmp_path: Path, point: str) -> None:
    """Once: its task is run again. Again and again: the batch fails, the last epoch is read, and the batch is
    sent again, counted once."""
    given = batches(3)
    plain = ef.Options(durable=False, inline_bytes=0)
    with ef.connect(tmp_path / "db", spark=spark, options=plain) as db:
        db.sql("CREATE ARRAY a <v: INT> [i=1,14,3; j=1,14,3]")
        db.sql(VIEW)
        db.apply(a=given[0], key="0")
    with ef.connect(tmp_path / "db", spark=spark, options=plain.with_(fault=f"{point}:exit:1:1")) as db:
        epoch = db.apply(a=given[1], key="1")
        assert rows(db) == wanted(given[:2])
    hopeless = plain.with_(fault=f"{point}:exit:0:100")
    with (
        ef.connect(tmp_path / "db", spark=spark, options=hopeless) as db,
        pytest.raises(Exception, match=r"\w"),  # Spark's own
    ):
        db.apply(a=given[2], key="2")
    forget_caches(spark)
    with ef.connect(tmp_path / "db", spark=spark, options=plain) as db:
        assert db.epoch == epoch
        assert rows(db) == wanted(given[:2])
        assert db.apply(a=given[1], key="1") == epoch
        last = db.apply(a=given[2], key="2")
        assert last == epoch + 1
        assert db.apply(a=given[2], key="2") == last
        assert rows(db) == wanted(given)
        assert db.view("near").verify().num_rows == 0
        assert db.array("a").verify().num_rows == 0
