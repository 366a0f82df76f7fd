"""A folder that somebody else has made, or can write: nothing in it is ever run.

A pickle that makes a file when it is loaded stands in the place of every file of a database, and of every
section of those that are sealed (with a digest that fits), and in the inbox while tasks run. Catches: a
loader that runs what it reads, and damage that is anything but an `EverfreshError`.
"""

from __future__ import annotations

import io
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_spark import FakeSession, install

import everfresh as ef
from everfresh import linalg as la
from everfresh.errors import Code
from everfresh.spark.jobs.job import Job
from everfresh.state import open_sealed, seal, unpack_arrays
from everfresh.state.files import _PREFIX, MAGIC

_NUMBER = re.compile(r"[0-9a-f]{32}|[0-9]+")
Connect = Callable[[Path], ef.Database]
DDL = """
CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, v BIGINT);
CREATE TABLE u (g VARCHAR, n BIGINT);
CREATE MATERIALIZED VIEW w AS SELECT t.g, SUM(n) AS s FROM t JOIN u ON t.g = u.g GROUP BY t.g;
CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS c, MAX(v) AS m FROM t;
"""


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    marker = tmp_path / "marker"
    pickle.loads(pickle.dumps(Evil(marker)))
    assert marker.exists(), "it is evil"
    marker.unlink()
    yield marker
    assert not marker.exists(), "something in the folder was run"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


@pytest.fixture(params=["local", "spark"])
def connect(request: pytest.FixtureRequest) -> Connect:
    options = ef.Options(workers=2, durable=False, inline_bytes=0)
    if request.param == "local":
        return lambda path: ef.connect(path, engine="local", options=options)
    session = request.getfixturevalue("session")
    return lambda path: ef.connect(path, engine="spark", spark=session, options=options)


def make(db: ef.Database, stream: Path) -> None:
    """Tables, views of all kinds, matrices, a snapshot, a log behind it, a stream."""
    db.sql(DDL)
    db.apply(t=[(k, f"g{k % 3}", k) for k in range(20)], u=[(f"g{g}", g) for g in range(3)])
    numbers = np.random.default_rng(1)
    db.create_matrix("X", numbers.standard_normal((6, 3)))
    db.create_matrix("Y", numbers.standard_normal((6, 1)))
    options = la.ViewOptions(distribute=1)
    db.create_matrix_view("b", "beta := inv(X' X) X' Y; Z := X X';", options=options)
    if db._engine.name == "local":
        (stream / "monday.csv").write_text("k,g,v\n100,g0,7\n")
        db.stream("t", stream, name="feed", available_now=True).wait()
    db._engine.snapshot()
    db.apply(t=[(200, "g1", 5)])


def use(db: ef.Database, stream: Path) -> None:
    """Read, verify and change everything."""
    for table in db.tables.values():
        table.to_arrow()
    for view in db.views.values():
        view.to_arrow()
        view.changes(db.epoch - 1)
        if db._engine.name == "local":  # what runs Spark's tasks here knows no SQL
            view.verify()
    for matrix in db.matrices.values():
        matrix.read()
    for matrix_view in db.matrix_views.values():
        matrix_view.read("beta")
        matrix_view.verify()
    db.apply(t=[(300, "g2", 9)])
    if db._engine.name == "local":
        db.stream("t", stream, name="feed", available_now=True).wait()
    db._engine.snapshot()


def plants(data: bytes, marker: Path) -> Iterator[tuple[str, bytes]]:
    """What could stand in the place of a file."""
    evil = pickle.dumps(Evil(marker))
    yield "the file", evil
    yield "nothing", b""
    if data.startswith(b"\x93NUMPY"):
        file = io.BytesIO()
        np.save(file, np.array([[Evil(marker)]], object), allow_pickle=True)
        yield "an array of objects", file.getvalue()
    if data.startswith(MAGIC):
        _, _, label, _, length = _PREFIX.unpack_from(data)
        kind = data[_PREFIX.size : _PREFIX.size + label].decode()
        sealed = open_sealed(data[:length], kind)
        yield "no header", seal(kind, {}, sealed.sections) + data[length:]
        for name in sealed.sections:
            sections = {n: evil if n == name else bytes(s) for n, s in sealed.sections.items()}
            yield f"section {name}", seal(kind, sealed.header, sections) + data[length:]


def test_nothing_in_a_folder_is_run(connect: Connect, tmp_path: Path, marker: Path) -> None:
    made, copy, stream = tmp_path / "made", tmp_path / "copy", tmp_path / "stream"
    stream.mkdir()
    with connect(made) as db:
        make(db, stream)
    files = sorted(p.relative_to(made) for p in made.rglob("*") if p.is_file())
    assert len({file.parts[0] for file in files}) >= 4, "not the folder that was to be tried"
    refused, seen = 0, set()
    for file in files:
        for what, data in plants((made / file).read_bytes(), marker):
            alike = (_NUMBER.sub("", file.as_posix()), _NUMBER.sub("", what))
            if what != "the file" and alike in seen:
                continue  # the same section of another worker, or of another epoch
            seen.add(alike)
            shutil.copytree(made, copy)
            (copy / file).write_bytes(data)
            try:
                with connect(copy) as db:
                    use(db, stream)
            except ef.EverfreshError:
                refused += 1
            except Exception as error:
                raise AssertionError(f"{what} in the place of {file} raised {error!r}") from error
            assert not marker.exists(), f"{what} in the place of {file} was run"
            shutil.rmtree(copy)
    assert refused >= len(files) // 2


@pytest.mark.parametrize("how", ["file", "sealed", "gone"])
def test_a_task_takes_only_what_the_driver_left(
    session: FakeSession, tmp_path: Path, marker: Path, how: str
) -> None:
    options = ef.Options(workers=2, durable=False)
    inbox = tmp_path / "db" / "inbox"
    planted = 0

    def plant() -> None:
        nonlocal planted
        for path in inbox.glob("*"):
            data = path.read_bytes()
            forms = [data for _, data in plants(data, marker)]
            if how == "gone":
                path.unlink()
            elif how == "file" or len(forms) > 1:
                path.write_bytes(forms[0 if how == "file" else -1])
            planted += 1

    with ef.connect(tmp_path / "db", engine="spark", spark=session, options=options) as db:  # type: ignore[arg-type]
        db.sql(DDL)
        db.create_matrix("X", np.eye(4))
        db.create_matrix_view("b", "Z := X X';", options=la.ViewOptions(distribute=1))
        db.apply(t=[(1, "g1", 2)], u=[("g1", 3)])
        before = db.epoch
        for change in (
            lambda: db.apply(t=[(2, "g1", 4)]),
            lambda: db.sql("CREATE MATERIALIZED VIEW late AS SELECT SUM(n) AS n FROM u"),
            lambda: db.sql("ALTER TABLE t ADD COLUMN z BIGINT DEFAULT 1"),
            lambda: db.create_matrix_view("c", "Q := X X' X;", options=la.ViewOptions(distribute=1)),
            lambda: db._engine.snapshot(),
        ):
            session.forget()
            session.before_task = plant
            with pytest.raises(ef.EverfreshError) as refused:
                change()
            assert refused.value.code == Code.DAMAGED
            session.before_task = lambda: None
            assert db.epoch == before
        assert planted
        db.apply(t=[(2, "g1", 4)])
        assert db.view("w").to_pylist() == [{"g": "g1", "s": 6}]
        assert db.view("total").to_pylist() == [{"c": 2, "m": 4}]


def test_bytes_are_never_taken_for_objects() -> None:
    text = b'[["a","|O",[1],0]]'
    packed = len(text).to_bytes(8, "little") + text
    with pytest.raises(ef.EverfreshError, match="objects") as refused:
        unpack_arrays(packed.ljust(128, b"\1"))
    assert refused.value.code == Code.DAMAGED


@pytest.mark.spark
def test_workers_take_only_what_the_driver_left(
    spark: Any, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in processes of Spark, which are told the digest by a property of the job."""
    write = Job.write

    def planted(job: Job) -> str:
        told = write(job)
        for path in (tmp_path / "db" / "inbox").glob("*"):
            path.write_bytes([data for _, data in plants(path.read_bytes(), marker)][-1])
        return told

    with ef.connect(tmp_path / "db", spark=spark) as db:
        db.sql(DDL)
        db.apply(t=[(1, "g1", 2)], u=[("g1", 3)])
        with monkeypatch.context() as patched:
            patched.setattr(Job, "write", planted)
            with pytest.raises(ef.EverfreshError) as refused:
                db.apply(t=[(2, "g1", 4)])
        assert refused.value.code == Code.DAMAGED
        db.apply(t=[(2, "g1", 4)])
        assert db.view("w").to_pylist() == [{"g": "g1", "s": 6}]
        assert all(view.verify().num_rows == 0 for view in db.views.values())
