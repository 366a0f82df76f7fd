"""Backups of a database that is being written: whole and equal, or not there."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import everfresh as ef
from everfresh.errors import Code, EverfreshError
from everfresh.state.backup import UNFINISHED
from everfresh.state.faults import InjectedFault

VIEW = "CREATE MATERIALIZED VIEW s AS SELECT k % 7 AS g, SUM(v) AS v, COUNT(*) AS n FROM t GROUP BY ALL"


def _made(path: Path | None, **options: object) -> ef.Database:
    db = ef.connect(path, engine="local", options=ef.Options(durable=False, **options))
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
    db.sql(VIEW)
    return db


def _state(db: ef.Database) -> tuple[int, list[tuple[object, ...]], list[tuple[object, ...]]]:
    return db.epoch, sorted(db.table("t").fetchall()), sorted(db.view("s").fetchall())


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_backup_is_the_database_at_its_epoch(in_memory: bool, tmp_path: Path) -> None:
    with _made(None if in_memory else tmp_path / "db", snapshot_epochs=5, history=3) as db:
        for k in range(12):
            db.apply({"t": [(k, k * k)]}, key=f"load-{k}")
        epoch = db.backup(tmp_path / "copy")
        expected = _state(db)
        assert epoch == expected[0]
        assert db.sql(f"BACKUP TO '{tmp_path / 'second'}'") == epoch
        db.apply(t=ef.Delta(deletes=[(3,)]))
        assert _state(db)[0] == epoch + 1
    for name in ("copy", "second"):
        with ef.connect(tmp_path / name, engine="local") as copy:
            assert _state(copy) == expected
            assert not copy.view("s").verify().num_rows
            assert copy.apply({"t": [(3, 9)]}, key="load-3") < epoch  # keys are kept
            assert copy.view("s").to_arrow(at=epoch - 1).num_rows
            assert copy.apply(t=[(100, 1)]) == epoch + 1
            assert not copy.view("s").verify().num_rows
    assert not list(tmp_path.glob(f"*{UNFINISHED}"))


def test_writers_go_on_while_copies_are_made(tmp_path: Path) -> None:
    with _made(tmp_path / "db", snapshot_epochs=4, history=2) as db:
        db.apply(t=[(0, 0)])
        stop = threading.Event()

        def write() -> None:
            k = 1
            while not stop.is_set():
                db.apply(t=[(k, 1)])
                k += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            epochs = [db.backup(tmp_path / f"copy{i}") for i in range(6)]
        finally:
            stop.set()
            thread.join()
        assert epochs == sorted(epochs)
        assert db.epoch >= epochs[-1]
    for i, epoch in enumerate(epochs):
        with ef.connect(tmp_path / f"copy{i}", engine="local", read_only=True) as copy:
            assert copy.epoch == epoch
            assert len(copy.table("t")) == epoch - 2  # a row for each epoch after the first two
            assert sum(n for _, _, n in copy.view("s").fetchall()) == epoch - 2


def test_what_is_not_finished_is_no_database(tmp_path: Path) -> None:
    with _made(tmp_path / "db", fault="mid-backup:raise") as db:
        db.apply(t=[(1, 1)])
        with pytest.raises(InjectedFault):
            db.backup(tmp_path / "copy")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["db"]
        assert db.apply(t=[(2, 2)]) == 4


CHILD = """
import sys
import everfresh as ef
with ef.connect(sys.argv[1], engine="local", options=ef.Options(fault="mid-backup:kill")) as db:
    db.backup(sys.argv[2])
"""


def test_a_backup_that_was_killed_is_seen_and_made_again(tmp_path: Path) -> None:
    with _made(tmp_path / "db") as db:
        db.apply(t=[(1, 1), (2, 2)])
        expected = _state(db)
    done = subprocess.run([sys.executable, "-c", CHILD, tmp_path / "db", tmp_path / "copy"], check=False)
    assert done.returncode == -signal.SIGKILL
    left = tmp_path / f"copy{UNFINISHED}"
    assert left.exists()
    assert not (tmp_path / "copy").exists()
    with pytest.raises(EverfreshError) as caught:
        ef.connect(left, engine="local")
    assert caught.value.code == Code.FORMAT
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert _state(db) == expected
        db.backup(tmp_path / "copy")
    assert not left.exists()
    with ef.connect(tmp_path / "copy", engine="local") as copy:
        assert _state(copy) == expected


def test_a_place_that_is_taken_is_refused(tmp_path: Path) -> None:
    with _made(tmp_path / "db") as db:
        for place in (tmp_path / "db", tmp_path):
            with pytest.raises(EverfreshError) as caught:
                db.backup(place)
            assert caught.value.code == Code.EXISTS
        with pytest.raises(EverfreshError) as caught:
            db.sql("BACKUP TO 's3://bucket/x'")
        assert caught.value.code == Code.UNSUPPORTED
        for text in ("BACKUP", "BACKUP TO", "BACKUP TO x", "BACKUP 'x'", "BACKUP TO 'x' 'y'", "BACKUP TO ''"):
            with pytest.raises(EverfreshError) as caught:
                db.sql(text)
            assert caught.value.code == Code.SYNTAX
        (tmp_path / "empty").mkdir()
        assert db.backup(tmp_path / "empty") == 2


def test_a_reader_backs_up_what_it_sees(tmp_path: Path) -> None:
    with _made(tmp_path / "db") as db:
        db.apply(t=[(1, 1)])
        with ef.connect(tmp_path / "db", engine="local", read_only=True) as reader:
            assert reader.backup(tmp_path / "copy") == 3
            with pytest.raises(EverfreshError):
                reader.sql("DELETE FROM t")
