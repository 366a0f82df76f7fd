"""Batches that queue are committed together: one write and one sync, and still every batch by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everfresh as ef
from everfresh.epochs.queue import ROWS
from everfresh.local.engine import LocalEngine
from everfresh.local.state import Changing
from everfresh.program import Applied, Batch, Part
from everfresh.state import InjectedFault
from everfresh.state import log as log_module
from everfresh.state.frames import FRAME_BYTES
from everfresh.testing.engine.suite_base import refused
from everfresh.testing.oracle import assert_rows, assert_same

TABLES = "CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x BIGINT)"
VIEWS = {
    "v": "SELECT g, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY g",
    "top": "SELECT g, MAX(x) AS x FROM t GROUP BY g",
    "pairs": "SELECT COUNT(*) AS n FROM t a JOIN t b ON a.g = b.g",
}


def create(path: Path, options: ef.Options | None = None) -> ef.Database:
    db = ef.connect(path, engine="local", options=options)
    db.sql(TABLES)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


class Gate:
    """Holds the first sync back until `others` batches wait, and counts all."""

    def __init__(self, db: ef.Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self.others = 0
        self.entered = threading.Event()
        sync, waiting = log_module._sync_data, db._queue._waiting

        def counted(fd: int) -> None:
            self.syncs += 1
            self.entered.set()
            while self.others and len(waiting) < self.others:
                time.sleep(0.001)
            self.others = 0
            sync(fd)

        monkeypatch.setattr(log_module, "_sync_data", counted)


def together(db: ef.Database, monkeypatch: pytest.MonkeyPatch, calls: list[Callable[[], Any]]) -> list[Any]:
    """The results of calls that queue behind a batch which is being synced; all of them are one group."""
    gate = Gate(db, monkeypatch)
    gate.others = len(calls)
    results: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            results[number] = calls[number]()
        except Exception as error:
            results[number] = error

    first = threading.Thread(target=db.apply, args=({"t": [(-1, "first", 0)]},))
    first.start()
    gate.entered.wait(60)
    threads = []
    for number in range(len(calls)):
        threads.append(threading.Thread(target=run, args=(number,)))
        threads[-1].start()
        while len(db._queue._waiting) <= number and gate.others:
            time.sleep(0.001)
    for thread in (first, *threads):
        thread.join()
    assert gate.syncs == 2, "one for the first, one for the group"
    return results


def test_a_group_is_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with create(tmp_path / "db") as db, ef.connect(engine="local") as twin:
        start = db.epoch + 1
        told: list[Any] = []
        db.view("v").on_change(lambda change: told.append(change["_epoch"][0].as_py()))
        calls = [lambda i=i: db.apply({"t": [(i, "ab"[i % 2], i)]}, key=f"k{i}") for i in range(6)]
        assert together(db, monkeypatch, calls) == [start + 1 + i for i in range(6)]
        assert told == list(range(start, start + 7)), "listeners hear of every epoch, in order"
        twin.sql(TABLES)
        for name, query in VIEWS.items():
            twin.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        twin.apply(t=[(-1, "first", 0)])
        for i in range(6):
            twin.apply(t=[(i, "ab"[i % 2], i)])
        for name in VIEWS:
            assert_same(twin.view(name).to_arrow(), db.view(name).to_arrow(), name)
            assert_same(twin.view(name).changes(), db.view(name).changes(), name)
            assert db.view(name).verify().num_rows == 0
        before = {name: db.view(name).changes() for name in VIEWS}
    with ef.connect(tmp_path / "db", engine="local") as db:
        for name, changes in before.items():
            assert_same(changes, db.view(name).changes(), name)
        assert [db.apply({"t": [(i, "z", 0)]}, key=f"k{i}") for i in range(6)] == list(
            range(start + 1, start + 7)
        )


def test_a_refused_batch_is_refused_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with create(tmp_path / "db") as db:
        start = db.epoch + 1
        calls = [
            lambda: db.apply(t=[(1, "a", 1)]),
            lambda: db.apply(t=[(1, "a", 2)]),  # taken by the batch before
            lambda: db.apply(t=ef.Delta(deletes=[{"k": 1}], inserts=[(1, "b", 3)])),
            lambda: db.apply(t=ef.Delta(deletes=[{"k": 9}])),
            lambda: db.apply(t=[(2, "b", 4)]),
        ]
        found = together(db, monkeypatch, calls)
        assert [r if isinstance(r, int) else r.code for r in found] == [
            start + 1,
            ef.Code.DUPLICATE_KEY,
            start + 2,
            ef.Code.MISSING_ROW,
            start + 3,
        ]
        assert_rows(db.view("v"), ("first", 0, 1), ("b", 7, 2))
        assert db.view("pairs").verify().num_rows == 0
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert db.epoch == start + 3
        assert_rows(db.view("v"), ("first", 0, 1), ("b", 7, 2))
        assert_rows(db.view("top"), ("first", 0), ("b", 4))


def test_one_key_twice_in_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with create(tmp_path / "db") as db:
        start = db.epoch + 1
        calls = [
            lambda: db.apply({"t": [(7, "x", 1), (7, "y", 1)]}, key="bad"),
            lambda: db.apply({"t": [(1, "a", 1)]}, key="load"),
            lambda: db.apply({"t": [(1, "a", 1)]}, key="load"),
            lambda: db.apply({"t": [(7, "x", 1)]}, key="bad"),
        ]
        gate_free = [r if isinstance(r, int) else r.code for r in together_loosely(db, calls)]
        assert gate_free[1] == gate_free[2]
        assert gate_free[0] == ef.Code.DUPLICATE_KEY
        assert isinstance(gate_free[3], int)
        assert db.epoch == start + 1
        assert_rows(db.sql("SELECT COUNT(*) AS n FROM t"), (2,))


def together_loosely(db: ef.Database, calls: list[Callable[[], Any]]) -> list[Any]:
    """The same, holding the lock instead of a sync: groups may need several syncs."""
    results: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            results[number] = calls[number]()
        except Exception as error:
            results[number] = error

    threads = []
    with db._lock:
        for number in range(len(calls)):
            threads.append(threading.Thread(target=run, args=(number,)))
            threads[-1].start()
            while len(db._queue._waiting) <= number:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("compile", ["off", "now"])
def test_a_group_that_cannot_be_written_is_taken_back(tmp_path: Path, compile: str) -> None:
    create(tmp_path / "db").close()
    options = ef.Options(fault="mid-commit:raise:*:1", compile=compile)
    with ef.connect(tmp_path / "db", engine="local", options=options) as db:
        start = db.epoch
        calls = [lambda i=i: db.apply({"t": [(i, "a", i)]}, key=f"k{i}") for i in range(4)]
        found = together_loosely(db, calls)
        assert all(isinstance(result, InjectedFault) for result in found)
        assert db.epoch == start
        assert_rows(db.view("v"))
        assert_rows(db.table("t"))
        assert together_loosely(db, calls) == [start + 1 + i for i in range(4)]
        assert_rows(db.view("v"), ("a", 6, 4))
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert db.epoch == start + 4
        assert_rows(db.view("top"), ("a", 3))
        assert all(db.view(name).verify().num_rows == 0 for name in VIEWS)


def test_a_table_that_is_altered_meanwhile(tmp_path: Path) -> None:
    with create(tmp_path / "db") as db:
        results: list[Any] = []

        def run() -> None:
            try:
                results.append(db.apply(t=[(1, "a", 1)]))
            except ef.EverfreshError as error:
                results.append(error.code)

        with db._lock:
            thread = threading.Thread(target=run)
            thread.start()
            while not db._queue._waiting:
                time.sleep(0.001)
            db.sql("ALTER TABLE t ADD COLUMN y BIGINT")
        thread.join()
        assert results == [ef.Code.DEPENDENCY]
        assert_rows(db.table("t"))


def test_a_group_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with create(tmp_path / "db") as db:
        groups: list[int] = []
        commit = db._queue._commit
        monkeypatch.setattr(db._queue, "_commit", lambda group: (groups.append(len(group)), commit(group)))
        half = ROWS // 2
        rows = [
            pa.table({"k": keys, "g": [str(k) for k in keys], "x": [1] * half})
            for keys in (list(range(i * half, (i + 1) * half)) for i in range(3))
        ]
        assert together_loosely(db, [lambda r=r: db.apply(t=r) for r in rows]) == [5, 6, 7]
        assert groups == [2, 1]
        assert_rows(db.view("pairs"), (3 * half,))


def batch(number: int) -> Batch:
    rows = pa.table(
        {"k": [number], "g": ["ab"[number % 2]], "x": [number]}, schema=pa.schema(
            [pa.field("k", pa.int64(), False), ("g", pa.string()), ("x", pa.int64())]
        )
    )  # fmt: skip
    return Batch((Part("t", "insert", rows, "test"),), key=f"b{number}")


def test_a_group_that_was_cut_short_leaves_whole_epochs(tmp_path: Path) -> None:
    with create(tmp_path / "db") as db:
        engine = db._engine
        assert isinstance(engine, LocalEngine)
        start = db.epoch
        (file,) = (tmp_path / "db" / "log").glob("*.log")
        ends = [os.path.getsize(file)]
        results = engine.apply_all([batch(i) for i in range(4)])
        assert results == [Applied(start + 1 + i, rows=1) for i in range(4)]
        for epoch in range(start + 1, start + 5):
            record = engine._folder.commits.read(epoch)  # type: ignore[union-attr]
            assert record is not None
            ends.append(ends[-1] + FRAME_BYTES + len(record))
        assert ends[-1] == os.path.getsize(file)
    for whole, end in enumerate(ends):
        for cut in {end, min(end + 7, ends[-1]), min(end + 300, ends[-1])}:
            copy = tmp_path / f"cut-{cut}"
            shutil.copytree(tmp_path / "db", copy)
            os.truncate(copy / "log" / file.name, cut)
            (copy / "REACHED").unlink()  # as if the process had been killed on the way there
            with ef.connect(copy, engine="local") as db:
                assert db.epoch == start + whole
                assert len(db.table("t")) == whole
                assert all(db.view(name).verify().num_rows == 0 for name in VIEWS)
                assert db.apply({"t": [(3, "b", 3)]}, key="b3") == start + min(whole + 1, 4)
            shutil.rmtree(copy)


_CHILD = """
import sys, threading
import everfresh as ef
with ef.connect(sys.argv[1], engine="local", options=ef.Options(snapshot_epochs=50)) as db:
    done = len(db.table("t"))
    print("ready", flush=True)
    lock = threading.Lock()
    def work(me):
        for i in range(10**6):
            key = f"{done}-{me}-{i}"
            epoch = db.apply({"t": [(hash((done, me, i)), "abc"[i % 3], 1)]}, key=key)
            with lock:
                print(key, epoch, flush=True)
    for me in range(4):
        threading.Thread(target=work, args=(me,), daemon=True).start()
    threading.Event().wait()
"""


def test_kill_9_between_batches_that_queue(tmp_path: Path) -> None:
    create(tmp_path / "db").close()
    acknowledged: dict[str, int] = {}
    for wait in (5, 60, 150):
        command = [sys.executable, "-c", _CHILD, str(tmp_path / "db")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            lines = [child.stdout.readline() for _ in range(wait)]
            child.kill()
            lines += child.stdout.read().splitlines(keepends=True)
        acknowledged.update({k: int(e) for k, e in (x.split() for x in lines if x.endswith("\n"))})
        with ef.connect(tmp_path / "db", engine="local") as db:
            assert len(set(acknowledged.values())) == len(acknowledged), "each has an epoch of its own"
            assert max(acknowledged.values()) <= db.epoch
            assert db.epoch - 4 == len(db.table("t"))
            for key, epoch in acknowledged.items():
                assert db.apply({"t": [(0, "again", 0)]}, key=key) == epoch
            assert all(db.view(name).verify().num_rows == 0 for name in VIEWS)


def test_readers_beside_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that one batch of a group brings and the next one takes away, with strings that nothing reads."""
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, note VARCHAR, x BIGINT); CREATE TABLE b (g VARCHAR)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS x, COUNT(*) AS n FROM t")
        db.apply(t=[(1, "a note that is long", 1), (2, "another note", 2)], b=[("x",), ("x",), ("y",)])
        engine = db._engine
        held = threading.Event()
        monkeypatch.setattr(log_module, "crash", lambda *args, **kwargs: held.wait(60))
        before = {name: db.table(name).to_arrow() for name in ("t", "b")}
        long = "a note that is longer still"
        calls = [
            lambda: db.apply(t=[(3, long, 3)], b=[("z",)]),
            lambda: db.apply(t=ef.Delta(deletes=[(3, long, 3)]), b=ef.Delta(deletes=[("z",), ("x",)])),
            lambda: db.apply(t=ef.Delta(deletes=[(1, "a note that is long", 1)], inserts=[(1, "new", 9)])),
            lambda: db.apply(t=ef.Delta(deletes=[(1, "new", 9)], inserts=[(5, "a note that is long", 1)])),
        ]
        group = threading.Thread(target=together_loosely, args=(db, calls))
        group.start()
        while len(engine._state.running) < 4:  # type: ignore[attr-defined]
            time.sleep(0.001)
        for name, rows in before.items():
            assert_same(rows, db.table(name).to_arrow(), name)
        assert_rows(db.view("v"), (3, 2))
        assert group.is_alive(), "a reader waited for the group"
        held.set()
        group.join()
        assert_rows(db.table("t"), (2, "another note", 2), (5, "a note that is long", 1))
        assert_rows(db.table("b"), ("x",), ("y",))
        assert db.view("v").verify().num_rows == 0


def test_many_threads_without_a_folder() -> None:
    with ef.connect(engine="local") as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['v']}")
        epochs: list[int] = []

        def work(me: int) -> None:
            for i in range(20):
                epochs.append(db.apply(t=[(me * 100 + i, "ab"[i % 2], 1)]))

        threads = [threading.Thread(target=work, args=(me,)) for me in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(epochs) == list(range(3, 103))
        assert_rows(db.view("v"), ("a", 50, 50), ("b", 50, 50))
        assert db.view("v").verify().num_rows == 0
        with refused(ef.Code.CLOSED):
            db.close()
            db.apply(t=[(1, "a", 1)])


@pytest.mark.parametrize("where", ["folder", "memory"])
def test_batches_are_taken_back_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """If taking back the last batch of a group is struck before it began, those before it wait for it."""
    path = tmp_path / "db" if where == "folder" else None
    with ef.connect(path, engine="local", options=ef.Options(durable=False, compile="off")) as db:
        db.sql("CREATE TABLE b (s VARCHAR, x BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW names AS SELECT s || '!' AS s, COUNT(*) AS n FROM b GROUP BY s")
        db.sql("CREATE MATERIALIZED VIEW above AS SELECT SUM(n) AS n FROM names")
        db.apply(b=[("one", 1)] * 3)
        engine = db._engine
        assert isinstance(engine, LocalEngine)
        right, struck = Changing._take_back, list[Changing]()

        def strike(self: Changing, error: BaseException) -> None:
            if not struck:
                struck.append(self)
                raise RuntimeError("struck")
            right(self, error)

        def fail(drafts: Any) -> None:
            raise RuntimeError("no commit")

        rows = pa.table({"s": ["one", "two", "two"], "x": [1, 2, 3]})
        batches = [Batch((Part("b", "insert", rows, "b"),)) for _ in range(2)]
        with monkeypatch.context() as patch:
            patch.setattr(Changing, "_take_back", strike)
            patch.setattr(engine, "_commit", fail)
            with pytest.raises(RuntimeError, match="struck"):
                engine.apply_all(batches)
        assert struck
        for name in ("names", "above"):
            assert db.view(name).verify().num_rows == 0
        assert_rows(db.view("above"), (3,))
        db.apply(b=[("two", 1)])
        assert_rows(db.view("above"), (4,))
