"""Snapshots beside batches, on a session that runs its tasks here: a batch is committed whatever a snapshot
does, and whatever becomes of the snapshot, the state is exactly the committed epochs."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fake_spark import FakeSession, install

import everfresh as ef
from everfresh.spark.state.compaction import Compaction
from everfresh.state import SnapshotStore
from everfresh.testing.oracle import assert_same

DDL = """
CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x DECIMAL(9,2));
CREATE TABLE u (g VARCHAR, y BIGINT NOT NULL);
CREATE MATERIALIZED VIEW few AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g;
CREATE MATERIALIZED VIEW many AS SELECT k, g, x FROM t WHERE x > 3;
CREATE MATERIALIZED VIEW joined AS SELECT t.k, SUM(u.y) AS y FROM t JOIN u ON t.g = u.g GROUP BY t.k;
"""
VIEWS = ("few", "many", "joined")
OPTIONS = ef.Options(workers=3, durable=False, snapshot_epochs=3, history=2)
POINTS = (
    "opening-snapshot",
    "mid-snapshot",
    "between-snapshots",
    "before-manifest",
    "after-manifest",
    "mid-gc",
)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


def batch(number: int) -> dict[str, Any]:
    rows = [(10 * number + k, f"g{k % 4}", Decimal(k)) for k in range(10)]
    gone = [{"k": 10 * number - 10 + k} for k in range(0, 10, 3)] if number else []
    return {"t": ef.Delta(inserts=rows, deletes=gone), "u": [(f"g{number % 5}", number)]}


def connect(session: FakeSession, path: Path, **changes: Any) -> ef.Database:
    return ef.connect(path, engine="spark", spark=session, options=OPTIONS.with_(**changes))  # type: ignore[arg-type]


def compaction(db: ef.Database) -> Compaction:
    found: Compaction = db._engine.compaction
    return found


def send(db: ef.Database, numbers: range) -> None:
    for number in numbers:
        db.apply(batch(number), key=f"batch-{number}")


def check(session: FakeSession, path: Path, batches: int, *statements: str) -> None:
    """The database equals that of the local engine, from caches and from files alone."""
    with ef.connect(engine="local") as expected:
        expected.sql(DDL)
        send(expected, range(batches))
        for statement in statements:
            expected.sql(statement)
        for _ in range(2):
            with connect(session, path) as db:
                assert db.epoch == expected.epoch
                for name in expected.views:
                    assert_same(expected.view(name).to_arrow(), db.view(name).to_arrow())
                for name in expected.tables:
                    assert_same(expected.table(name).to_arrow(), db.table(name).to_arrow())
            session.forget()


@contextmanager
def held(session: FakeSession, tasks: int) -> Iterator[tuple[threading.Event, Callable[[], None]]]:
    """Snapshots stop before their task of that number, counted from 1: whether one has, and what lets it go
    on."""
    reached, go, seen = threading.Event(), threading.Event(), [0]

    def before() -> None:
        if threading.current_thread().name != "everfresh-snapshot":
            return
        seen[0] += 1
        if seen[0] == tasks:
            reached.set()
            assert go.wait(60)

    session.before_task = before
    try:
        yield reached, go.set
    finally:
        go.set()
        session.before_task = lambda: None


def named_files(db: ef.Database) -> set[str]:
    return db._engine._ledger.referenced()


@pytest.mark.parametrize("task", [1, 2, 3])
@pytest.mark.parametrize("meanwhile", [1, 4])
def test_batches_are_committed_while_a_snapshot_is_taken(
    session: FakeSession, tmp_path: Path, task: int, meanwhile: int
) -> None:
    with connect(session, tmp_path) as db:
        with held(session, task) as (reached, go):
            db.sql(DDL)
            assert reached.wait(60)
            begun = db.epoch
            send(db, range(meanwhile))
            assert db.epoch == begun + meanwhile
            assert compaction(db).running
            assert not list((tmp_path / "snaps").glob("0*"))
            go()
        compaction(db).wait()
        (manifest,) = (tmp_path / "snaps").glob("0*")
        assert int(manifest.name) == begun + meanwhile
    check(session, tmp_path, meanwhile)


def test_what_a_manifest_names_stays(
    session: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are committed while the manifest is written: what the history of its epoch needs it names, and
    a process that is behind goes by it."""
    with connect(session, tmp_path, inline_bytes=0, history=1, snapshot_epochs=1000) as db:
        db.sql(DDL)
        send(db, range(3))
        write = SnapshotStore.write

        def late(self: Any, *arguments: Any) -> None:
            write(self, *arguments)
            send(db, range(3, 8))

        with monkeypatch.context() as patched:
            patched.setattr(SnapshotStore, "write", late)
            db._engine.snapshot()
        assert db.epoch == 5 + 8
    with connect(session, tmp_path) as db:
        assert all((tmp_path / "parts" / file).exists() for file in named_files(db))
    check(session, tmp_path, 8)


def test_units_are_written_as_different_epochs_left_them(session: FakeSession, tmp_path: Path) -> None:
    """Between the tasks of a snapshot batches go on: caches are at, behind and ahead of what it asks for."""
    with connect(session, tmp_path, snapshot_epochs=6) as db:
        db.sql(DDL)
        for task in (1, 2, 3):
            with held(session, task) as (reached, go):
                before = 10 * (task - 1)
                send(db, range(before, before + 6))
                assert reached.wait(60)
                send(db, range(before + 6, before + 10))
                go()
            compaction(db).wait()
            epochs = {base.snapshot.epoch for base in db._engine._ledger.bases.values() if base.snapshot}
            assert len(epochs) > 1
    check(session, tmp_path, 30)


def test_statements_beside_a_snapshot(session: FakeSession, tmp_path: Path) -> None:
    statements = (
        "ALTER TABLE t ADD COLUMN z BIGINT DEFAULT 7",
        "DROP VIEW many",
        "CREATE MATERIALIZED VIEW many AS SELECT k, z FROM t",
        "CREATE MATERIALIZED VIEW more AS SELECT g, COUNT(*) AS n FROM u GROUP BY g",
        "DROP VIEW few",
    )
    for task in (1, 2, 3):
        path = tmp_path / f"db-{task}"
        with connect(session, path, snapshot_epochs=6) as db:
            db.sql(DDL)
            with held(session, task) as (reached, go):
                send(db, range(2))
                assert reached.wait(60)
                for statement in statements:
                    db.sql(statement)
                go()
            compaction(db).wait()
            assert list((path / "snaps").glob("0*"))
            files = [base.snapshot.file for base in db._engine._ledger.bases.values() if base.snapshot]
            assert len(files) == 3 * OPTIONS.workers + 1
            assert all((path / "parts" / file).exists() for file in files)
        check(session, path, 2, *statements)


def test_what_a_snapshot_replaces_goes_after_the_next_commit(session: FakeSession, tmp_path: Path) -> None:
    def files() -> set[str]:
        parts = tmp_path / "parts"
        return {str(path.relative_to(parts)) for path in parts.glob("*/*")}

    with connect(session, tmp_path, inline_bytes=0, history=0, snapshot_epochs=8) as db:
        db.sql(DDL)
        send(db, range(2))
        session.forget()
        frame = db.view("many").to_spark()
        rows = db.view("many").to_arrow()
        send(db, range(2, 3))
        compaction(db).wait()  # has replaced all that the frame needs
        assert not files() <= named_files(db)
        session.forget()
        assert_same(rows, frame.toArrow().cast(rows.schema))
        send(db, range(3, 4))
        compaction(db).wait()
        assert files() == named_files(db)
        assert len(list((tmp_path / "snaps").iterdir())) == 1
        assert {int(path.name) for path in (tmp_path / "commits").iterdir()} == {9}
    check(session, tmp_path, 4)


@pytest.mark.parametrize("point", POINTS)
def test_a_snapshot_that_fails_harms_no_batch(
    session: FakeSession, tmp_path: Path, point: str, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(session, tmp_path, fault=f"{point}:raise:*:3", inline_bytes=0) as db:
        db.sql(DDL)
        for number in range(12):
            send(db, range(number, number + 1))
            compaction(db).wait()
        assert "tried again later" in caplog.text
        assert db._engine._ledger.timeline.snapshot_epoch > db.epoch - 2 * OPTIONS.snapshot_epochs
        assert all((tmp_path / "parts" / file).exists() for file in named_files(db))
    check(session, tmp_path, 12)


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_is_killed_in_a_snapshot(session: FakeSession, tmp_path: Path, point: str) -> None:
    child = Path(__file__).with_name("compaction_child.py")
    with connect(session, tmp_path / "db", snapshot_epochs=1000) as db:
        db.sql(DDL)
    session.forget()
    command = [sys.executable, str(child), str(tmp_path / "db"), "12", f"{point}:kill"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with connect(session, tmp_path / "db") as db:
        send(db, range(12))  # those that are there are not applied twice
        compaction(db).wait()
        files = [path for path in (tmp_path / "db" / "parts").glob("*/*") if path.suffix == ".tmp"]
        assert not files
    check(session, tmp_path / "db", 12)


def test_closing_waits_for_a_snapshot(session: FakeSession, tmp_path: Path) -> None:
    db = connect(session, tmp_path)
    with held(session, 2) as (reached, go):
        db.sql(DDL)
        assert reached.wait(60)
        closing = threading.Thread(target=db.close)
        closing.start()
        assert not list((tmp_path / "snaps").glob("0*"))
        go()
        closing.join(60)
    assert list((tmp_path / "snaps").glob("0*"))
    check(session, tmp_path, 0)


def test_a_snapshot_that_is_given_up_is_taken_later(
    session: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(session, tmp_path) as db:
        with held(session, 1) as (reached, go):
            db.sql(DDL)
            assert reached.wait(60)
            thread = compaction(db)._thread
            assert thread is not None

            def interrupted(timeout: float | None = None) -> None:
                if timeout is None:
                    raise KeyboardInterrupt
                go()
                threading.Thread.join(thread, timeout)

            monkeypatch.setattr(thread, "join", interrupted)
            with pytest.raises(KeyboardInterrupt):
                compaction(db).wait()
        assert not compaction(db).running
        assert not list((tmp_path / "snaps").glob("0*"))
        send(db, range(1))
        compaction(db).wait()
        assert list((tmp_path / "snaps").glob("0*"))
    check(session, tmp_path, 1)


def test_a_load_that_is_given_up_leaves_the_files_of_a_snapshot(session: FakeSession, tmp_path: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with connect(session, tmp_path, snapshot_epochs=6) as db:
        db.sql(DDL)
        with held(session, 3) as (reached, go):
            send(db, range(1))
            assert reached.wait(60)
            written = set((tmp_path / "parts").glob("*/c-*.snap"))
            assert written
            db.on_progress(stop)
            with pytest.raises(KeyboardInterrupt):
                db.sql("CREATE MATERIALIZED VIEW late AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
            db.on_progress(None)
            assert all(path.exists() for path in written)
            go()
        compaction(db).wait()
        assert list((tmp_path / "snaps").glob("0*"))
    check(session, tmp_path, 1)


def test_a_snapshot_that_is_asked_for_is_taken_at_once(session: FakeSession, tmp_path: Path) -> None:
    with connect(session, tmp_path, snapshot_epochs=1000) as db:
        db.sql(DDL)
        send(db, range(3))
        jobs = session.jobs
        db._engine.snapshot()
        assert session.jobs == jobs + 1
        assert (tmp_path / "snaps" / f"{db.epoch:010d}").exists()
        assert not compaction(db).running
    check(session, tmp_path, 3)


def test_the_option_is_checked() -> None:
    with pytest.raises(ef.EverfreshError, match="option snapshots"):
        ef.Options(snapshots="never")


def test_a_reader_follows_across_snapshots(session: FakeSession, tmp_path: Path) -> None:
    """It starts from the newest snapshot once there is one: the files before it go."""
    with connect(session, tmp_path, snapshots="now", history=1) as db:
        db.sql(DDL)
        send(db, range(1))
        with ef.connect(tmp_path, engine="spark", spark=session, read_only=True) as reader:  # type: ignore[arg-type]
            compiled = reader.catalog
            for number in range(1, 12):
                db.apply(batch(number))
                session.forget()  # what is read comes from files
                for view in VIEWS:
                    assert_same(reader.view(view).to_arrow(), db.view(view).to_arrow(), f"{view}, {number}")
            assert reader.catalog is compiled  # nothing was compiled again
