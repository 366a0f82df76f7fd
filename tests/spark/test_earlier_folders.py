"""Folders of an earlier release open: made when matrices were not yet a domain of epochs.

`folders/*.tar.xz` hold a snapshot in the middle of a history of a table, two views, a matrix, a view of it
and, on Spark, another in blocks.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_spark import install

import everfresh as ef
import everfresh.linalg as la
from everfresh.testing.oracle import assert_rows

FOLDERS = Path(__file__).parent.parent / "epochs" / "folders"
A = np.array([[1.0, 3.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_folder_of_an_earlier_release(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str, read_only: bool
) -> None:
    session: Any = install(monkeypatch) if engine == "spark" else None
    path, options = tmp_path / "db", ef.Options(workers=2, durable=False, snapshots="now")

    def check(db: ef.Database, a: np.ndarray[Any, Any], g0: int) -> None:
        assert_rows(db.view("v"), ("g0", g0), ("g1", 8), ("g2", 15))
        np.testing.assert_allclose(db.matrix("A").to_numpy(), a)
        np.testing.assert_allclose(db.view("sq").to_numpy(), a @ a)  # type: ignore[attr-defined]
        if engine == "spark":
            np.testing.assert_allclose(db.view("far").to_numpy(), a @ a.T)  # type: ignore[attr-defined]

    with tarfile.open(FOLDERS / f"{engine}.tar.xz") as packed:
        packed.extractall(path, filter="data")
    with ef.connect(path, engine=engine, spark=session, read_only=read_only, options=options) as db:
        last = db.epoch
        check(db, A, 55)
        assert_rows(db.view("top"), (9, 40))
        if read_only:
            return
        db.apply(t=[(100, "g0", 5)], A=la.EntryUpdate(2, 2, 2.0))
        db._engine.snapshot()
    if session is not None:
        session.forget()
    with ef.connect(path, engine=engine, spark=session, options=options) as db:
        assert db.epoch == last + 1
        check(db, A + np.diag([0.0, 0.0, 1.0]), 60)
        assert_rows(db.view("top"), (10, 40))
