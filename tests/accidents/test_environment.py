"""What the system refuses: an `EverfreshError` with what helps, nothing half done, and no line per batch."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.state import log, snapshots
from everfresh.testing.oracle import assert_rows


def full(*arguments: Any, **named: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def after_a_part(fd: int, views: list[memoryview]) -> int:
    """A write that gets half of its bytes onto a disk that is then full."""
    os.write(fd, bytes(views[0])[: views[0].nbytes // 2])
    return full()  # type: ignore[no-any-return]


@pytest.mark.parametrize("failing", ["write", "half a write", "sync"])
def test_a_batch_that_finds_the_disk_full_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(k) AS s FROM t")
        db.apply(t=[(1,)])
        with monkeypatch.context() as patch:
            if failing == "sync":
                patch.setattr(log, "_sync_data", full)
            else:
                patch.setattr(os, "writev", full if failing == "write" else after_a_part)
            for change in (lambda: db.apply(t=[(2,)]), lambda: db.sql("CREATE TABLE u (k BIGINT)")):
                with pytest.raises(ef.EverfreshError, match=r"No space left|cannot be taken back") as error:
                    change()
                assert error.value.code == ef.Code.ENVIRONMENT
                assert error.value.hint
            assert db.epoch == 3
            assert_rows(db.view("v"), (1,))
        assert db.apply(t=[(4,)]) == 4
        assert_rows(db.view("v"), (5,))
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert_rows(db.view("v"), (5,))
        assert list(db.tables) == ["t"]


def test_a_snapshot_that_fails_is_tried_again_ever_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ef.connect(tmp_path / "db", engine="local", options=ef.Options(snapshot_epochs=3)) as db:
        db.sql("CREATE TABLE t (k BIGINT)")
        with monkeypatch.context() as patch, caplog.at_level(logging.INFO, "everfresh"):
            patch.setattr(snapshots, "replace_file", full)
            for i in range(40):
                db.apply(t=[(i,)])
        assert [record.levelname for record in caplog.records] == ["WARNING"] * len(caplog.records)
        assert len(caplog.records) == 6  # at epochs 3, 4, 6, 10, 18, 34
        assert all(record.exc_info is None for record in caplog.records)
        assert all("\n" not in record.getMessage() for record in caplog.records)
        for i in range(40):
            db.apply(t=[(i,)])
        assert list((tmp_path / "db" / "snaps").iterdir())


def test_a_snapshot_that_was_asked_for_says_why_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT)")
        monkeypatch.setattr(snapshots, "replace_file", full)
        with pytest.raises(ef.EverfreshError, match="no snapshot could be taken"):
            db._engine.snapshot()  # type: ignore[attr-defined]
        assert db.apply(t=[(1,)]) == 2


def in_no_folder(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "db"


PLACES: dict[str, Callable[[Path], Path]] = {
    "not a folder": in_no_folder,
    "no such file system": lambda folder: Path("/proc/x.ef"),
    "too long": lambda folder: folder / ("x" * 300),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("read_only", [False, True])
def test_places_that_cannot_hold_a_database(tmp_path: Path, place: str, read_only: bool) -> None:
    path = PLACES[place](tmp_path)
    with pytest.raises(ef.EverfreshError) as error:
        ef.connect(path, engine="local", read_only=read_only)
    assert error.value.hint
    assert error.value.code in (ef.Code.ENVIRONMENT, ef.Code.NOT_FOUND, ef.Code.FORMAT)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir(mode=0o500)
    with pytest.raises(ef.EverfreshError, match="Permission denied") as error:
        ef.connect(tmp_path / "db", engine="local")
    assert error.value.code == ef.Code.ENVIRONMENT


def test_the_place_of_a_streams_error_names_the_file(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.csv").write_text("k,s\n1,x\n1,y\n")
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR)")
        with pytest.raises(ef.EverfreshError) as error:
            db.stream("t", inbox).process_all()
        assert error.value.code == ef.Code.DUPLICATE_KEY
        assert (error.value.place or "").startswith(f"stream 't', file '{inbox / 'a.csv'}'")
