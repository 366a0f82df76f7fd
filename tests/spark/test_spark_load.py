"""Filling a view on Spark: progress, and what is left when it is ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.spark.jobs.job import EXCHANGE

pytestmark = pytest.mark.spark

VIEW = "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS s FROM t GROUP BY k"


@pytest.fixture
def db(spark: Any, tmp_path: Path) -> Any:
    options = ef.Options(workers=2, durable=False, inline_bytes=1)  # every segment is a file
    with ef.connect(tmp_path / "db", engine="spark", spark=spark, options=options) as found:
        found.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT NOT NULL, x BIGINT NOT NULL)")
        found.apply(t=[(i, i % 7, i) for i in range(1000)])
        yield found


def slowly(batches: Iterable[Any]) -> Iterator[Any]:
    """All batches, after a long time."""
    rows = list(batches)
    time.sleep(600)
    yield from rows


def files(path: Path) -> set[str]:
    """What state there is, and descriptors of jobs; what was compiled stays for the next attempt."""
    return {str(file.relative_to(path)) for part in ("parts", "inbox") for file in (path / part).rglob("*")
            if file.is_file() and (part == "parts" or "-" not in file.name)}  # fmt: skip


def test_progress_counts_tasks(db: Any) -> None:
    told: list[tuple[str, int, int]] = []
    threads: set[threading.Thread] = set()

    def tell(what: str, done: int, total: int) -> None:
        told.append((what, done, total))
        threads.add(threading.current_thread())

    db.on_progress(tell)
    db.sql(VIEW)
    assert {what for what, _, _ in told} == {"compiling v", "loading v"}
    told = [one for one in told if one[0] == "loading v"]
    assert told[0][1] == 0
    assert told[-1][1] == told[-1][2]
    assert [done / total for _, done, total in told] == sorted(done / total for _, done, total in told)
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("how", [KeyboardInterrupt, RuntimeError])
def test_a_load_that_is_ended_leaves_nothing(db: Any, tmp_path: Path, spark: Any, how: Any) -> None:
    before, epoch = files(tmp_path / "db"), db.epoch
    work = db._engine._runner._frame

    def slow(*args: Any) -> Any:
        """The same plan, with a long wait behind what it does."""
        return work(*args).mapInArrow(slowly, EXCHANGE)

    db._engine._runner._frame = slow

    def tell(what: str, done: int, total: int) -> None:
        if total > 1:  # tasks are known: the job runs
            time.sleep(1.0)
            raise how("enough")

    db.on_progress(tell)
    with pytest.raises(how, match="enough"):
        db.sql(VIEW)
    db._engine._runner._frame = work
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert files(tmp_path / "db") == before
    assert db.epoch == epoch
    assert not db.views
    db.on_progress(None)
    db.sql(VIEW)
    assert sum(row["s"] for row in db.view("v").to_pylist()) == sum(range(1000))
    assert db.view("v").verify().num_rows == 0
