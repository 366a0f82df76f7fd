"""What follows external arrays: views, arrays, functions; equal to what is in the files after a refresh."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fake_spark import install
from raw_files import WRITERS, csv, parquet
from test_external_arrays import SHAPE, loaded, rows

import everfresh as ef
from everfresh.errors import Code, EverfreshError
from everfresh.raw.verbs import domain_of

VIEW = "CREATE ARRAY VIEW near AS APPLY(a, SUM(v) AS s, L1(1))"
SQL = "CREATE MATERIALIZED VIEW sums AS SELECT i, SUM(v) AS s, COUNT(*) AS n FROM a GROUP BY i"


def create(db: ef.Database, folder: Path) -> None:
    db.sql(f"CREATE EXTERNAL ARRAY a <v: INT> {SHAPE} FROM '{folder}' (i = x, j = y)")


def bag(table: pa.Table) -> list[Any]:
    return sorted(map(str, table.to_pylist()))


def wanted(present: dict[str, pa.Table], text: str) -> list[Any]:
    """What a query gives over the same cells, loaded."""
    with ef.connect(engine="local") as db:
        db.sql(f"CREATE ARRAY a <v: INT> {SHAPE}")
        if present:
            db.apply(a=loaded(list(present.values())))
        return bag(db.sql(text).to_arrow())  # type: ignore[union-attr]


class Folder:
    """Files that come, change and go."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.random = path, np.random.default_rng(seed)
        self.present: dict[str, pa.Table] = {}
        path.mkdir()
        for _ in range(3):
            self.come()

    def _write(self, name: str) -> None:
        table = rows(self.random, int(self.random.integers(1, 30)))
        writer = WRITERS[sorted(WRITERS)[int(self.random.integers(len(WRITERS)))]]
        for found in self.path.glob(f"{name}.*"):
            if found.is_dir():
                for inside in sorted(found.rglob("*"), reverse=True):
                    inside.rmdir() if inside.is_dir() else inside.unlink()
                found.rmdir()
            else:
                found.unlink()
        writer(self.path / name, table)
        self.present[name] = table

    def come(self) -> None:
        self._write(f"n{self.random.integers(10**9)}")

    def change(self) -> None:
        self._write(str(self.random.choice(sorted(self.present))))

    def step(self) -> None:
        for _ in range(int(self.random.integers(1, 4))):
            [self.come, self.change, self.change][int(self.random.integers(3))]()


@pytest.mark.parametrize("seed", range(3))
def test_views_are_what_they_are_over_loaded_cells(tmp_path: Path, seed: int) -> None:
    folder = Folder(tmp_path / "files", seed)
    with ef.connect(tmp_path / "db", engine="local") as db:
        create(db, folder.path)
        db.sql(SQL)
        db.sql(VIEW)
    for round_ in range(4):
        with ef.connect(tmp_path / "db", engine="local") as db:
            folder.step()
            before = db.epoch
            assert db.array("a").refresh() == before + 1, "one epoch"  # type: ignore[attr-defined]
            cells = wanted(folder.present, "SELECT i, j, v FROM a")
            assert bag(db.sql("SELECT * FROM a").to_arrow()) == cells  # type: ignore[union-attr]
            assert bag(db.array("a_cells").to_arrow()) == cells
            assert bag(db.view("sums").to_arrow()) == wanted(folder.present, SQL.partition(" AS ")[2])
            assert bag(db.view("near").to_arrow()) == wanted(folder.present, VIEW.partition(" AS ")[2])
            for held in (db.view("sums"), db.array_views["near"], db.array("a_cells"), db.array("a")):
                assert not held.verify().num_rows
            kept = list((tmp_path / "db" / "external").iterdir())
            assert len(kept) == len(set(domain_of(db).kept_names["a"].values()))
            if round_ == 2:
                db._engine.snapshot()  # type: ignore[attr-defined]


def test_on_spark_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path / "files", 5)
    session, options = install(monkeypatch), ef.Options(workers=2, durable=False)
    with ef.connect(tmp_path / "db", engine="spark", spark=session, options=options) as db:
        create(db, folder.path)
        db.array("a").follow("b")  # type: ignore[attr-defined]
    for _ in range(2):
        with ef.connect(tmp_path / "db", engine="spark", spark=session, options=options) as db:
            folder.step()
            db.sql("REFRESH a")
            cells = wanted(folder.present, "SELECT i, j, v FROM a")
            assert bag(db.array("b").to_arrow()) == cells
            assert bag(db.array("a").to_arrow()) == cells
            assert db.array("b").verify().num_rows == 0
            with pytest.raises(EverfreshError, match="the cells of 'b' are the rows of 'a'"):
                db.apply(b=[(1, 1, 1)])


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_arrays_that_are_created_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """CREATE ARRAY ... FROM: attributes by name, chunks of its own; what does not fit changes nothing."""
    folder = Folder(tmp_path / "files", 7)
    given: dict[str, Any] = {"engine": engine, "options": ef.Options(workers=2, durable=False)}
    if engine == "spark":
        given["spark"] = install(monkeypatch)
    with ef.connect(**given) as db:
        create(db, folder.path)
        epoch = db.epoch
        for wrong, said in (
            (f"<nope: INT> {SHAPE}", "'a' has no column 'nope'"),
            ("<v: BIGINT> [i=100000,100001,1; j=0,40,4]", "outside of 100000..100001"),
        ):
            with pytest.raises(EverfreshError, match=said):
                db.sql(f"CREATE ARRAY b {wrong} FROM a")
        assert db.epoch == epoch
        with pytest.raises(EverfreshError, match="nobody follows"):
            db.array("a").changes()
        shape = SHAPE.replace(",10", ",9")
        db.sql(f"CREATE ARRAY b <V: BIGINT> {shape} WITH (placement = 'hilbert') FROM A")
        made = db.epoch
        assert db.sql(f"CREATE ARRAY IF NOT EXISTS b <v: BIGINT> {shape} FROM a") == made
        for _ in range(3):
            cells = wanted(folder.present, "SELECT i, j, v FROM a")
            assert bag(db.array("b").to_arrow().rename_columns(["i", "j", "v"])) == cells
            assert db.array("b").verify().num_rows == 0
            folder.step()
            db.sql("REFRESH a")


def test_a_change_is_that_of_its_files(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    csv(files / "0", pa.table({"x": [1, 1, 2], "y": [1, 1, 1], "v": [5, 5, 6]}))
    csv(files / "1", pa.table({"x": [3], "y": [1], "v": [7]}))
    with ef.connect(engine="local") as db:
        create(db, files)
        with pytest.raises(EverfreshError, match="nobody follows"):
            db.array("a").changes()
        told: list[pa.Table] = []
        stop = db.array("a").on_change(told.append)
        assert db.array("a").on_change(told.append) is not None
        csv(files / "0", pa.table({"x": [1, 2, 2], "y": [1, 1, 1], "v": [5, 6, 6]}))
        csv(files / "2", pa.table({"x": [9], "y": [9], "v": [9]}))
        (files / "1.csv").unlink()
        epoch = db.array("a").refresh()  # type: ignore[attr-defined]
        stop()
        change = sorted((r["i"], r["v"], r["_weight"]) for r in told[0].to_pylist())
        assert change == [(1, 5, -1), (2, 6, 1), (3, 7, -1), (9, 9, 1)]
        found = db.array("a").changes(epoch - 1)
        assert sorted((r["i"], r["v"], r["_weight"]) for r in found.to_pylist()) == change
        assert db.sql("REFRESH a") == epoch, "nothing has changed"
        db.array("a").follow("b")  # type: ignore[attr-defined]
        with pytest.raises(EverfreshError):
            db.array("a").drop()
        with pytest.raises(EverfreshError, match="follow"):
            db.sql(f"CREATE ARRAY c <v: INT> {SHAPE} WITH (follows = 'a')")


def test_a_view_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "files", 1)
    with ef.connect(engine="local") as db:
        create(db, folder.path)
        for wrong in ("CREATE ARRAY VIEW w AS APPLY(a, SUM(u) AS s, L1(1))", "CREATE ARRAY VIEW a AS a"):
            with pytest.raises(EverfreshError):
                db.sql(wrong)
        assert list(db.arrays) == ["a"]


def test_cells_that_are_not_kept_any_more(tmp_path: Path) -> None:
    """What has gone cannot be told: the refresh is refused, and nothing has changed."""
    files = tmp_path / "files"
    files.mkdir()
    parquet(files / "0", pa.table({"x": [1], "y": [1.0], "v": [5]}))
    with ef.connect(tmp_path / "db", engine="local") as db:
        create(db, files)
        db.sql(SQL)
        epoch = db.epoch
        for kept in (tmp_path / "db" / "external").iterdir():
            kept.write_bytes(b"damaged")
        parquet(files / "0", pa.table({"x": [2], "y": [1.0], "v": [5]}))
        with pytest.raises(EverfreshError) as caught:
            db.sql("REFRESH a")
        assert caught.value.code == Code.DAMAGED
        assert "0.parquet" in str(caught.value)
        assert db.epoch == epoch
        assert db.view("sums").to_pylist() == [{"i": 1, "s": 5, "n": 1}]


def test_watching_sees_files_come(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = tmp_path / "files"
    files.mkdir()
    csv(files / "0", pa.table({"x": [1], "y": [1], "v": [5]}))
    with ef.connect(engine="local") as db:
        create(db, files)
        come = threading.Event()
        db.array("a").on_change(lambda _: come.set())
        stop = db.array("a").watch(0.02)  # type: ignore[attr-defined]
        csv(tmp_path / "new", pa.table({"x": [9], "y": [9], "v": [9]})).rename(files / "1.csv")
        assert come.wait(60)
        stop()
        assert len(db.array("a")) == 2
        db.array("a").watch(0.02)  # type: ignore[attr-defined]
        with pytest.raises(EverfreshError):
            db.array("a").watch(0)  # type: ignore[attr-defined]
    assert not domain_of_watches(db)


def domain_of_watches(db: ef.Database) -> Any:
    return db._engine.objects.domains["raw"].domain.watches  # type: ignore[union-attr]
