"""Databases in object stores, on a session that runs its tasks here: in memory, in a folder behind the same
interface, and on a file system without a conditional put. The last test runs on Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import fault_workload
import numpy as np
import pytest
from fake_spark import FakeSession, install
from test_spark_compaction import DDL, OPTIONS, compaction, send

import everfresh as ef
import everfresh.linalg as la
from everfresh.state import InjectedFault, Store, store_of
from everfresh.testing.oracle import assert_same


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


@pytest.fixture(params=["memory", "obstore+file", "arrow+file"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return place(request.param, tmp_path)


@pytest.fixture(params=["memory", "obstore+file"])
def exclusive(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return place(request.param, tmp_path)


def place(kind: str, folder: Path) -> str:
    if kind != "arrow+file":
        pytest.importorskip("obstore")
    return f"memory://{uuid.uuid4().hex}" if kind == "memory" else f"{kind}://{folder}/db"


def connect(session: FakeSession, root: str, read_only: bool = False, **changes: Any) -> ef.Database:
    options = OPTIONS.with_(single_writer=root.startswith("arrow+"), **changes)
    return ef.connect(root, engine="spark", spark=session, read_only=read_only, options=options)  # type: ignore[arg-type]


def check(session: FakeSession, root: str, batches: int) -> None:
    """The database equals that of the local engine, from caches and from files alone, for all who ask."""
    with ef.connect(engine="local") as expected:
        expected.sql(DDL)
        send(expected, range(batches))
        for read_only in (False, True):
            session.forget()
            with connect(session, root, read_only) as db:
                assert db.epoch == expected.epoch
                for name in expected.views:
                    assert_same(expected.view(name).to_arrow(), db.view(name).to_arrow())
                for name in expected.tables:
                    assert_same(expected.table(name).to_arrow(), db.table(name).to_arrow())


@pytest.mark.parametrize("inline_bytes", [0, 1 << 15])
def test_a_database_in_a_store(session: FakeSession, root: str, inline_bytes: int) -> None:
    with connect(session, root, inline_bytes=inline_bytes) as db:
        db.sql(DDL)
        with connect(session, root, read_only=True) as reader:
            for number in range(8):
                send(db, range(number, number + 1))
                compaction(db).wait()
                assert reader.epoch == db.epoch
                session.forget()
                assert_same(db.view("many").to_arrow(), db.view("many").to_spark().toArrow())
        assert db._engine._ledger.timeline.snapshot_epoch > 3
        before = db.view("few").to_arrow(at=db.epoch - 1)
        send(db, range(8, 9))
        assert_same(before, db.view("few").to_arrow(at=db.epoch - 2))
        assert db.view("few").changes(since=db.epoch - 1).num_rows
        db.sql("CREATE MATERIALIZED VIEW late AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
        db.sql("ALTER TABLE t ADD COLUMN z BIGINT DEFAULT 7")
        db.sql("DROP VIEW late")
    session.forget()
    with connect(session, root) as db:
        send(db, range(9))  # sent again
        assert db.table("t").to_arrow().column("z").to_pylist() == [7] * db.table("t").to_arrow().num_rows
        store: Store = db._engine.folder.store
        files = {name.removeprefix("parts/") for name in store.names("parts")}
        assert files == db._engine._ledger.referenced()
        assert len(store.names("snaps")) == 1


def test_a_database_is_what_it_was(session: FakeSession, root: str) -> None:
    with connect(session, root) as db:
        db.sql(DDL)
        send(db, range(7))
    check(session, root, 7)


def test_a_writer_that_is_overtaken_stops(session: FakeSession, exclusive: str) -> None:
    with connect(session, exclusive, snapshot_epochs=1000, history=0) as first:
        first.sql(DDL)
        send(first, range(3))
        with connect(session, exclusive, snapshot_epochs=1000, history=0) as second:
            send(second, range(3, 5))
            for attempt in (lambda: send(first, range(3, 4)), lambda: first._engine.snapshot()):
                with pytest.raises(ef.EverfreshError) as caught:
                    attempt()
                assert caught.value.code == ef.Code.FENCED
            assert store_of(exclusive).names("snaps") == []
            send(second, range(5, 6))
            second._engine.snapshot()
            send(second, range(6, 7))
            with pytest.raises(ef.EverfreshError):
                first._engine._ledger.collect()
            second._engine._ledger.collect()
            session.forget()
            with pytest.raises(ef.EverfreshError) as caught:  # what it needs is gone, and that is why
                send(first, range(7, 8))
            assert caught.value.code == ef.Code.FENCED
    check(session, exclusive, 7)


def test_of_two_writers_one_has_the_epoch(session: FakeSession, exclusive: str) -> None:
    with connect(session, exclusive) as first:
        first.sql(DDL)
        send(first, range(2))
        with connect(session, exclusive) as second:
            with pytest.raises(ef.EverfreshError) as caught:
                send(first, range(2, 3))  # is committed, and learns that its term has ended
            assert caught.value.code == ef.Code.FENCED
            with pytest.raises(ef.EverfreshError) as caught:
                second.apply(t=[(1000, "a", 1)])
            assert caught.value.code == ef.Code.FENCED
            assert "committed by another writer" in str(caught.value)
    with connect(session, exclusive) as db:
        send(db, range(4))
    check(session, exclusive, 4)


@pytest.mark.parametrize("point", ["after-collect", "before-commit", "mid-commit", "after-commit"])
def test_a_driver_that_fails(session: FakeSession, root: str, point: str) -> None:
    with connect(session, root) as db:
        db.sql(DDL)
        send(db, range(2))
    with connect(session, root, fault=f"{point}:raise:*:1") as db, pytest.raises(InjectedFault):
        send(db, range(2, 3))
    with connect(session, root) as db:
        send(db, range(5))
    check(session, root, 5)


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        ("obstore+file", "mid-commit"),
        ("obstore+file", "mid-snapshot"),
        ("obstore+file", "mid-gc"),
        ("arrow+file", "mid-snapshot"),
    ],
)
def test_a_driver_that_is_killed(session: FakeSession, tmp_path: Path, kind: str, point: str) -> None:
    root = place(kind, tmp_path)
    with connect(session, root, snapshot_epochs=1000) as db:
        db.sql(DDL)
    child = Path(__file__).with_name("compaction_child.py")
    command = [sys.executable, str(child), root, "12", f"{point}:kill"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    session.forget()
    with connect(session, root) as db:
        send(db, range(12))
    check(session, root, 12)


def test_damage_is_refused(session: FakeSession, root: str) -> None:
    with connect(session, root, inline_bytes=0, snapshot_epochs=1000) as db:
        db.sql(DDL)
        send(db, range(3))
    store = store_of(root)
    victim = next(name for name in reversed(store.names("parts")) if "-maps-" in name)
    whole = store.read(victim)
    for data in (whole[: len(whole) // 2], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:], None):
        store.remove(victim) if data is None else store.replace(victim, data)
        session.forget()
        with connect(session, root) as db, pytest.raises(ef.EverfreshError) as caught:
            db.view("many").to_arrow()
        assert caught.value.code == ef.Code.DAMAGED
        assert victim in str(caught.value)
    store.replace(victim, whole)
    check(session, root, 3)


def test_what_is_refused(session: FakeSession, root: str) -> None:
    with pytest.raises(ef.EverfreshError) as caught:
        connect(session, root, read_only=True)
    assert caught.value.code == ef.Code.NOT_FOUND
    with pytest.raises(ef.EverfreshError, match="not a local path"):
        ef.connect(root, engine="local")
    with connect(session, root) as db:
        db.sql(DDL)
        send(db, range(1))
    store = store_of(root)
    store.remove("FORMAT")
    with pytest.raises(ef.EverfreshError, match="is not empty"):
        connect(session, root)


def test_matrices_in_a_store(session: FakeSession, root: str) -> None:
    """Blocks of matrices are files that go through the store, and those that nothing names go."""
    numbers = np.random.default_rng(3)
    a = numbers.standard_normal((6, 6)) / 6
    with connect(session, root, snapshot_epochs=3, snapshots="now") as db:
        db.sql(DDL)
        db.create_matrix("A", a)
        db.create_matrix_view(
            "square", "B := A A;", strategy="reevaluate", options=la.ViewOptions(distribute=1)
        )
        for number in range(7):
            row = numbers.standard_normal(6) / 6
            db.apply(A=la.RowUpdate(number % 6, row))
            a[number % 6] = row
            send(db, range(number, number + 1))
        store: Store = db._engine.folder.store
        assert 0 < len([n for n in store.names("matrices") if "/rows-" in n]) <= 2 * 2 * 3
    for read_only in (False, True):
        session.forget()
        with connect(session, root, read_only) as db:
            np.testing.assert_allclose(db.matrix("A").to_numpy(), a)
            np.testing.assert_allclose(db.view("square").to_numpy(), a @ a)  # type: ignore[attr-defined]
    assert not any(name.endswith(".tmp") for name in store.names("matrices"))


def test_a_place_without_a_conditional_put_is_refused(session: FakeSession, tmp_path: Path) -> None:
    root = f"arrow+file://{tmp_path}/db"
    with pytest.raises(ef.EverfreshError, match="cannot hold off a second writer") as caught:
        ef.connect(root, engine="spark", spark=session)  # type: ignore[arg-type]
    assert caught.value.code == ef.Code.UNSUPPORTED
    assert "single_writer" in str(caught.value.hint)


def test_a_file_url_is_a_path(session: FakeSession, tmp_path: Path) -> None:
    with connect(session, f"file://{tmp_path}/db") as db:
        db.sql(DDL)
        assert db._engine.folder.path == tmp_path / "db"
    assert (tmp_path / "db" / "WRITER").exists()


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["obstore+file", "arrow+file"])
def test_on_spark(spark: Any, tmp_path: Path, kind: str) -> None:
    root, batches = place(kind, tmp_path), fault_workload.BATCHES
    options = ef.Options(snapshot_epochs=4, single_writer=True, fault="mid-write:exit:1:1", inline_bytes=0)
    with ef.connect(root, spark=spark, options=options) as db:
        db.sql(fault_workload.DDL)
        fault_workload.send(db, batches)
        assert fault_workload.contents(db) == fault_workload.expected(batches)
        assert db.view("w").verify().num_rows == 0
        assert db.view("w").to_spark().count() == db.view("w").to_arrow().num_rows
        with pytest.raises(ef.EverfreshError, match="streams are kept in a folder") as caught:
            db.stream("t", tmp_path)
        assert caught.value.code == ef.Code.UNSUPPORTED
    assert store_of(root).names("snaps")
    fault_workload.forget_caches(spark)
    with ef.connect(root, spark=spark, options=ef.Options(single_writer=True)) as db:
        fault_workload.send(db, batches)
        assert db.epoch == fault_workload.DDL_EPOCHS + len(batches)
        assert fault_workload.contents(db) == fault_workload.expected(batches)
        assert db.view("v").verify().num_rows == db.view("w").verify().num_rows == 0
