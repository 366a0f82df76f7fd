"""Faults in tasks and in the driver: whatever fails, the state is exactly the committed epochs.

A task that raises or dies is run again by Spark in another process, which finds a clean cache or rebuilds;
what it wrote before is a file that nobody names, or the very file its retry writes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_workload import BATCHES, DDL, DDL_EPOCHS, assert_exact, contents, expected, forget_caches, send

import everfresh as ef
from everfresh.state import InjectedFault

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "point", ["opened", "mid-apply", "after-apply", "mid-write", "after-write", "before-yield"]
)
@pytest.mark.parametrize("kind", ["raise", "exit"])
def test_a_task_that_fails_is_run_again(spark, tmp_path: Path, point: str, kind: str) -> None:
    options = ef.Options(fault=f"{point}:{kind}:1:2", inline_bytes=0)
    with ef.connect(tmp_path / "db", spark=spark, options=options) as db:
        db.sql(DDL)
        send(db, BATCHES)
        assert contents(db) == expected(BATCHES)
        assert db.epoch == DDL_EPOCHS + len(BATCHES)
        assert db.view("v").verify().num_rows == 0
    assert_exact(tmp_path / "db", spark, BATCHES)  # with no fault


@pytest.mark.parametrize("point", ["after-collect", "before-commit", "mid-commit"])
def test_a_driver_that_fails_before_the_commit_leaves_nothing(spark, tmp_path: Path, point: str) -> None:
    with ef.connect(tmp_path / "db", spark=spark) as db:
        db.sql(DDL)
        db.apply(t=BATCHES[0], key="batch-0")
    with ef.connect(tmp_path / "db", spark=spark, options=ef.Options(fault=f"{point}:raise:*:1")) as db:
        with pytest.raises(InjectedFault):
            db.apply(t=BATCHES[1], key="batch-1")
        assert db.epoch == DDL_EPOCHS + 1
        assert contents(db) == expected(BATCHES[:1])
        send(db, BATCHES)  # sent again, whole: what is there is not applied twice
        assert contents(db) == expected(BATCHES)
        assert db.epoch == DDL_EPOCHS + len(BATCHES)


def test_a_batch_committed_without_an_answer_is_not_applied_twice(spark, tmp_path: Path) -> None:
    with ef.connect(tmp_path / "db", spark=spark) as db:
        db.sql(DDL)
    options = ef.Options(fault="after-commit:raise:*:1")
    with ef.connect(tmp_path / "db", spark=spark, options=options) as db, pytest.raises(InjectedFault):
        db.apply(t=BATCHES[0], key="batch-0")
    with ef.connect(tmp_path / "db", spark=spark) as db:
        assert db.apply(t=BATCHES[0], key="batch-0") == DDL_EPOCHS + 1
        assert contents(db) == expected(BATCHES[:1])


def test_a_refused_batch_leaves_no_trace_in_the_workers(spark) -> None:
    with ef.connect(spark=spark) as db:
        db.sql(DDL)
        send(db, BATCHES)
        before = contents(db)
        for _ in range(3):  # whichever process serves it, its cache has taken the step back
            with pytest.raises(ef.EverfreshError, match="already in 't'"):
                db.apply(t=[(100, "a", 1), (25, "a", 1)])
            assert contents(db) == before
        db.apply(t=[(100, "a", 1)])
        assert contents(db) == expected([*BATCHES, ef.Delta(inserts=[(100, "a", 1)])])


def test_batches_go_on_beside_a_snapshot_that_is_slow_or_given_up(spark, tmp_path: Path) -> None:
    options = ef.Options(fault="opening-snapshot:sleep=600:1:1", snapshot_epochs=DDL_EPOCHS + 1)
    with ef.connect(tmp_path / "db", spark=spark, options=options) as db:
        compaction = db._engine.compaction
        db.sql(DDL)
        send(db, BATCHES[:1])  # from here on worker 1 sleeps over its snapshot
        assert compaction.running
        send(db, BATCHES)
        assert contents(db) == expected(BATCHES)
        assert compaction.running
        compaction._observer.cancel()
        compaction.wait()
        assert not (tmp_path / "db" / "snaps").exists()
        db.apply(t=[(100, "a", 1)], key=f"batch-{len(BATCHES)}")
        compaction.wait()
        assert list((tmp_path / "db" / "snaps").iterdir())
    assert_exact(tmp_path / "db", spark, [*BATCHES, ef.Delta(inserts=[(100, "a", 1)])])


@pytest.mark.parametrize("kind", ["raise", "exit"])
def test_a_task_that_fails_in_a_snapshot_is_run_again(spark, tmp_path: Path, kind: str) -> None:
    options = ef.Options(fault=f"mid-snapshot:{kind}:1:2", snapshot_epochs=2)
    with ef.connect(tmp_path / "db", spark=spark, options=options) as db:
        db.sql(DDL)
        send(db, BATCHES)
        assert contents(db) == expected(BATCHES)
    assert list((tmp_path / "db" / "snaps").iterdir())
    assert_exact(tmp_path / "db", spark, BATCHES)


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete", "swap"])
def test_a_damaged_segment_is_refused(spark, tmp_path: Path, damage: str) -> None:
    with ef.connect(tmp_path / "db", spark=spark, options=ef.Options(inline_bytes=0)) as db:
        db.sql(DDL)
        send(db, BATCHES)
    segments = sorted((tmp_path / "db" / "parts").glob("*/*-maps-*.seg"))
    victim = segments[-1]
    data = victim.read_bytes()
    if damage == "truncate":
        victim.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        victim.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elif damage == "delete":
        victim.unlink()
    else:
        victim.write_bytes(segments[0].read_bytes())
    # A new identity for the database: no process has its units in a cache.
    moved = tmp_path / "moved"
    (tmp_path / "db").rename(moved)
    forget_caches(spark)
    with ef.connect(moved, spark=spark) as db, pytest.raises(ef.EverfreshError) as caught:
        db.view("w").to_arrow()
    assert caught.value.code == ef.Code.DAMAGED
    assert "seg" in str(caught.value)
    assert "from its tables" in str(caught.value.hint)
    # The way that the hint names.
    with (
        ef.connect(moved, spark=spark, read_only=True) as old,
        ef.connect(tmp_path / "new", spark=spark) as new,
    ):
        new.sql(DDL)
        new.apply({name: table.to_spark() for name, table in old.tables.items()})
        assert contents(new) == expected(BATCHES)
