"""Epochs that were acknowledged and are gone: never without a word."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import everfresh as ef
from everfresh.options import Options
from everfresh.state import Commit, StateFolder, reached, store_of


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def newest(folder: Path) -> Path:
    return sorted(folder.iterdir())[-1]


HOW: dict[str, Callable[[Path], None]] = {"deleted": os.remove, "cut": cut, "flipped": flip}


@pytest.mark.parametrize("epochs", [3, 10, 16])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("durable", [True, False])
def test_a_log_that_lost_epochs_is_refused(tmp_path: Path, how: str, epochs: int, durable: bool) -> None:
    path = tmp_path / "db"
    with ef.connect(path, engine="local", options=Options(snapshot_epochs=10, durable=durable)) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY)")
        for i in range(epochs - 1):
            db.apply(t=[(i,)])
        if newest(path / "log").stat().st_size == 0:
            db.apply(t=[(-1,)])
    HOW[how](newest(path / "log"))
    before = sorted((p.relative_to(path), p.stat().st_size) for p in path.rglob("*"))
    for read_only in (True, False):
        with pytest.raises(ef.EverfreshError) as error:
            ef.connect(path, engine="local", read_only=read_only)
        assert error.value.code == ef.Code.DAMAGED
    after = sorted((p.relative_to(path), p.stat().st_size) for p in path.rglob("*"))
    assert after == before  # nothing was cut off or moved away


def test_who_accepts_the_loss_goes_on(tmp_path: Path) -> None:
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY)")
        db.apply(t=[(1,)])
    cut(newest(tmp_path / "db" / "log"))
    with pytest.raises(ef.EverfreshError, match="remove its file REACHED"):
        ef.connect(tmp_path / "db", engine="local")
    (tmp_path / "db" / "REACHED").unlink()
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert db.epoch < 2


def test_what_was_never_acknowledged_is_cut_off(tmp_path: Path) -> None:
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY)")
        db.apply(t=[(1,)])
        shutil.copytree(tmp_path / "db", tmp_path / "killed")
        db.apply(t=[(2,)])
        whole = newest(tmp_path / "db" / "log").read_bytes()
    log = newest(tmp_path / "killed" / "log")
    for size in (log.stat().st_size + 1, len(whole) - 1):  # a third record that is not whole
        log.write_bytes(whole[:size])
        with ef.connect(tmp_path / "killed", engine="local", read_only=True) as db:
            assert db.epoch == 2
    with ef.connect(tmp_path / "killed", engine="local") as db:
        assert (db.epoch, len(db.table("t"))) == (2, 1)


def test_the_mark_moves_while_a_database_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(reached.time, "monotonic", lambda: now[0])
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT)")
        seen = []
        for i in range(6):
            now[0] += reached.SECONDS / 2
            db.apply(t=[(i,)])
            shutil.copytree(tmp_path / "db", tmp_path / "copy")
            seen.append(reached.Reached(store_of(str(tmp_path / "copy")), True).epoch)
            shutil.rmtree(tmp_path / "copy")
        assert seen == [1, 3, 3, 5, 5, 7]


def test_without_durable_it_counts_until_the_machine_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ef.connect(tmp_path / "db", engine="local", options=Options(durable=False)) as db:
        db.sql("CREATE TABLE t (k BIGINT)")
        db.apply(t=[(1,)])
    cut(newest(tmp_path / "db" / "log"))
    with pytest.raises(ef.EverfreshError):
        ef.connect(tmp_path / "db", engine="local")
    monkeypatch.setattr(reached, "_boot", lambda: "another")
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert db.epoch == 1


@pytest.mark.parametrize("how", ["deleted", "cut"])
@pytest.mark.parametrize("place", ["folder", "store"])
def test_records_of_the_spark_engine_that_are_lost(tmp_path: Path, how: str, place: str) -> None:
    root = str(tmp_path / "db") if place == "folder" else f"arrow+file://{tmp_path}/db"
    options = Options(single_writer=True)

    def opened(read_only: bool) -> StateFolder:
        return StateFolder.open(root, engine="spark", workers=1, options=options, read_only=read_only)

    folder, parent = opened(read_only=False), ""
    for epoch in (1, 2, 3):
        record = Commit(epoch, parent)
        assert folder.commits.create(epoch, record.encode())
        parent = record.digest
    folder.close()
    opened(read_only=False).close()
    if place == "store" and how == "cut":
        return  # a store has whole files: one that is cut short fails its digest
    HOW[how](tmp_path / "db" / "commits" / "0000000003")
    for read_only in (True, False):
        with pytest.raises(ef.EverfreshError) as error:
            opened(read_only)
        assert error.value.code == ef.Code.DAMAGED
