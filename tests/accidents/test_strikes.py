"""Exceptions that strike at any instruction: afterwards the database is at the epoch before or the one after,
and every view equals its recomputation."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import CodeType
from typing import Any

import pytest

import everfresh as ef
from everfresh.local.sections import InSections
from everfresh.local.state import LocalState
from everfresh.sources.spark import SparkStream
from everfresh.testing.strikes import Strike, Struck, signalled, struck

VIEWS = {
    "z": "SELECT g, COUNT(DISTINCT x) AS d, MAX(k) AS m FROM t GROUP BY g",
    "v": "SELECT a.g, COUNT(*) AS n, SUM(b.x) AS s FROM t a JOIN t b ON a.g = b.g AND a.x <= b.x GROUP BY 1",
    "w": "SELECT k, RANK() OVER (PARTITION BY g ORDER BY x) AS r FROM t",
    "first_": "SELECT k, s FROM t ORDER BY s DESC, k LIMIT 3",
    "names": "SELECT s || '!' AS s, COUNT(*) AS n FROM b GROUP BY s",
    "above": "SELECT SUM(n) AS n FROM names",
}


def create(path: Path | None, **options: Any) -> ef.Database:
    options = {"durable": False, "compile": "off", "threads": 1, **options}
    db = ef.connect(path, engine="local", options=ef.Options(**options))
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, x BIGINT, s VARCHAR, kept VARCHAR)")
    db.sql("CREATE TABLE b (s VARCHAR, x BIGINT)")
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


class Batches:
    """Random changes of the tables, each by itself."""

    def __init__(self, seed: int) -> None:
        self._rng, self._next = Random(seed), 0

    def one(self, db: ef.Database) -> dict[str, Any]:
        rng = self._rng
        rows = db.table("t").to_arrow().to_pylist()
        gone = rng.sample(rows, len(rows) // 3)
        self._next += 10
        new = [
            (key, rng.randrange(4), rng.randrange(9), f"s{rng.randrange(9)}", f"a string of {key}")
            for key in range(self._next, self._next + 6)
        ]
        bag = [(f"b{rng.randrange(5)}", 1) for _ in range(4)]
        return {"t": ef.Delta(inserts=new, deletes=[{"k": r["k"]} for r in gone]), "b": bag}


def contents(db: ef.Database) -> dict[str, list[Any]]:
    found = {**db.tables, **db.views}
    return {n: sorted(map(repr, r.to_arrow().to_pylist())) for n, r in found.items()}


def is_lost(db: ef.Database) -> bool:
    """Whether the database refuses everything: it had no folder to be read again from."""
    try:
        return db.epoch < 0
    except ef.EverfreshError as error:
        return error.code == ef.Code.INTERRUPTED


def check(db: ef.Database) -> None:
    for view in db.views.values():
        assert view.verify().num_rows == 0, view.name


def strike_all(
    db: ef.Database,
    work: Callable[[], Any],
    places: int,
    rng: Random,
    undo: Callable[[], Any],
) -> dict[str, int]:
    """Strike `work` at some places, each from the same state; whether it was committed is counted."""
    counts = {"before": 0, "after": 0}
    db_epoch = db.epoch
    _, total = struck(work)
    assert db.epoch == db_epoch + 1
    undo()
    for _ in range(places):
        before, epoch = contents(db), db.epoch
        late = rng.random() < 0.4  # where it is committed, and after that
        at = total - rng.randrange(total // 20) if late else rng.randrange(1, total + 1)
        was_struck, _ = struck(work, at)
        after, now = contents(db), db.epoch
        assert now in (epoch, epoch + 1), at
        assert was_struck or now == epoch + 1
        assert (after == before) == (now == epoch), at
        check(db)
        counts["after" if now > epoch else "before"] += 1
        if now > epoch:
            undo()
    return counts


@pytest.mark.parametrize(
    ("places", "compile"),
    [
        (25, "off"),
        pytest.param(2000, "off", marks=pytest.mark.soak),
        pytest.param(1000, "now", marks=pytest.mark.soak),
    ],
)
def test_a_batch_that_is_struck_is_done_or_undone(tmp_path: Path, places: int, compile: str) -> None:
    rng, batches = Random(places), Batches(1)
    db = create(tmp_path / "db", snapshot_epochs=7, compile=compile)
    for _ in range(8):
        db.apply(batches.one(db))
    batch: dict[str, Any] = {}

    def renew() -> None:
        batch.clear()
        batch.update(batches.one(db))

    renew()
    counts = strike_all(db, lambda: db.apply(batch), places, rng, renew)
    assert all(counts.values())
    before = contents(db)
    db.close()
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert contents(db) == before
        check(db)


@pytest.mark.parametrize("places", [20, pytest.param(1500, marks=pytest.mark.soak)])
def test_without_a_folder_it_is_right_or_refuses(places: int) -> None:
    """Only what strikes while a table or map is being changed is beyond repair."""
    rng, batches = Random(places), Batches(2)
    made, lost = create(None), 0
    for number in range(places):
        before, epoch = contents(made), made.epoch
        batch = batches.one(made)
        struck(lambda made=made, batch=batch: made.apply(batch), rng.randrange(1, 11000))
        if is_lost(made):
            lost += 1
            made = create(None)
            continue
        after, now = contents(made), made.epoch
        assert now in (epoch, epoch + 1), number
        assert (after == before) == (now == epoch), number
        check(made)
    assert lost < places // 2


@pytest.mark.parametrize("places", [16, pytest.param(800, marks=pytest.mark.soak)])
def test_ctrl_c_is_exact_without_a_folder_too(places: int) -> None:
    """A signal waits for a moment in which the batch can be undone; a handler of the user's decides."""
    rng, batches = Random(places), Batches(3)
    db, counts = create(None), {True: 0, False: 0}

    def handler(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    batch = batches.one(db)
    _, most = struck(lambda batch=batch: db.apply(batch))
    before_handler = signal.signal(signal.SIGINT, handler)
    try:
        for number in range(places):
            before, epoch = contents(db), db.epoch
            batch = batches.one(db)
            interrupted = signalled(lambda batch=batch: db.apply(batch), rng.randrange(1, 3 * most // 2))
            after, now = contents(db), db.epoch
            assert now in (epoch, epoch + 1), number
            assert interrupted or now == epoch + 1
            assert (after == before) == (now == epoch), number
            assert signal.getsignal(signal.SIGINT) is handler
            check(db)
            counts[now > epoch] += 1
    finally:
        signal.signal(signal.SIGINT, before_handler)
    assert all(counts.values())


def test_a_view_that_is_struck_while_it_is_made_is_there_or_not(tmp_path: Path) -> None:
    rng, batches = Random(4), Batches(4)
    query = "SELECT t.g, b.s, COUNT(*) AS n, MIN(t.kept) AS m FROM t JOIN b ON t.s = b.s GROUP BY t.g, b.s"
    with create(tmp_path / "db") as db:
        for _ in range(3):
            db.apply(batches.one(db))
        counts = strike_all(
            db,
            lambda: db.sql(f"CREATE MATERIALIZED VIEW made AS {query}"),
            6,
            rng,
            lambda: db.sql("DROP VIEW made"),
        )
        assert sum(counts.values()) == 6


def test_reading_that_is_struck_changes_nothing(tmp_path: Path) -> None:
    rng, batches = Random(5), Batches(5)
    for path in (None, tmp_path / "db"):
        with create(path) as db:
            for _ in range(3):
                db.apply(batches.one(db))
            for _ in range(6):
                before, epoch = contents(db), db.epoch
                name = rng.choice(list(VIEWS))
                struck(lambda name=name: db.view(name).to_arrow(), rng.randrange(1, 300))
                struck(lambda name=name: db.sql(f"SELECT * FROM {name}"), rng.randrange(1, 3000))
                assert (contents(db), db.epoch) == (before, epoch)
                db.apply(batches.one(db))
                check(db)


@pytest.mark.parametrize("kind", ["snapshot", "close"])
def test_a_snapshot_or_a_close_that_is_struck(tmp_path: Path, kind: str) -> None:
    rng, batches = Random(6), Batches(6)
    db = create(tmp_path / "db")
    for _ in range(6):
        db.apply(batches.one(db))
        before, epoch = contents(db), db.epoch
        if kind == "snapshot":
            struck(db._engine.snapshot, rng.randrange(1, 1500))  # type: ignore[attr-defined]
        else:
            struck(db.close, rng.randrange(1, 60))
            db.close()
            db = ef.connect(tmp_path / "db", engine="local", options=ef.Options(durable=False))
        assert (contents(db), db.epoch) == (before, epoch)
        check(db)
    db.close()


def test_readers_beside_batches_are_no_accident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader at work, and one that was interrupted, are told apart: nothing is made anew for the first."""
    mended: list[object] = []
    monkeypatch.setattr(InSections, "_mend", mended.append)
    monkeypatch.setattr(LocalState, "mend", mended.append)
    stop = threading.Event()
    with create(tmp_path / "db") as db:

        def read() -> None:
            while not stop.is_set():
                db.view("names").to_arrow()

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(60):
            db.apply({"b": [(f"b{number % 7}", 1)]})
        stop.set()
        for thread in threads:
            thread.join()
        assert not mended
        check(db)


# What strikes inside of a callback of a weak reference is swallowed there by Python.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("where", "strikes"),
    [
        ("memory", 60),
        ("folder", 60),
        pytest.param("memory", 2000, marks=pytest.mark.soak),
        pytest.param("folder", 2000, marks=pytest.mark.soak),
    ],
)
def test_threads_that_are_struck(tmp_path: Path, where: str, strikes: int) -> None:
    """An exception sent to a thread that writes, or to one that reads beside it, ends nobody else's work."""
    rng = Random(7)
    path = tmp_path / "db" if where == "folder" else None
    db = create(path)
    numbers = iter(range(1_000_000))

    def write() -> None:
        db.apply({"b": [(f"b{next(numbers) % 7}", 1)] * 3})

    def read() -> None:
        view = db.view("names").to_arrow()
        assert sum(view.column("n").to_pylist()) % 3 == 0

    failed = strike_threads((write, write, read, read), rng, strikes, 0.01, lasting=where == "folder")
    assert not failed
    if where == "memory" and is_lost(db):
        return
    check(db)
    assert len(db.table("b")) % 3 == 0
    db.close()


def strike_threads(
    tasks: Sequence[Callable[[], None]], rng: Random, strikes: int, pause: float, lasting: bool
) -> list[BaseException]:
    """Run tasks again and again, each in a thread, and strike the threads at random moments up to a pause
    apart; what was raised but for strikes, and for batches that were interrupted together with another's.
    Unless the database is `lasting`, a thread that is told that it was interrupted ends."""
    stop = threading.Event()
    failed: list[BaseException] = []
    exposed: set[int] = set()  # threads that may be struck: each once, until it says so again

    def attempts(what: Callable[[], None]) -> None:
        ident = threading.get_ident()
        while not stop.is_set():
            try:
                exposed.add(ident)
                what()
            except Struck:
                continue
            except ef.EverfreshError as error:
                if error.code != ef.Code.INTERRUPTED:
                    failed.append(error)
                if not lasting:
                    return withdraw(ident)
            except BaseException as error:
                failed.append(error)
                return withdraw(ident)
        return withdraw(ident)

    def withdraw(ident: int) -> None:
        """Wait for a strike that is on its way, so that it strikes here and not after the end."""
        for _ in range(1_000):
            with suppress(KeyError):
                return exposed.remove(ident)
            time.sleep(0.001)
        return None

    def work(what: Callable[[], None]) -> None:
        while True:
            try:
                return attempts(what)
            except Struck:  # between two attempts; the next strike waits until the thread is exposed again
                continue

    threads = [threading.Thread(target=work, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for _ in range(strikes):
        time.sleep(rng.random() * pause)
        ident = rng.choice(threads).ident
        assert ident is not None
        with suppress(KeyError):
            exposed.remove(ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Struck))
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return failed


@pytest.mark.parametrize("rounds", [5, pytest.param(500, marks=pytest.mark.soak)])
def test_a_stream_whose_thread_is_struck_goes_on_after_its_last_batch(tmp_path: Path, rounds: int) -> None:
    rng, inbox = Random(8), tmp_path / "inbox"
    inbox.mkdir()
    with create(tmp_path / "db") as db:
        for number in range(rounds):
            for part in range(3):
                (inbox / f"{number}-{part}.csv").write_text(f"s,x\na{number},{part}\n")
            started = struck_thread(lambda: db.stream("b", inbox, available_now=True).wait(), rng)
            assert started
            until_read(db, inbox)
            assert len(db.table("b")) == 3 * (number + 1)
            check(db)


def until_read(db: ef.Database, inbox: Path) -> None:
    """Read what is left of a folder."""
    while True:
        try:
            return db.stream("b", inbox, available_now=True).wait()
        except ef.EverfreshError as error:
            assert error.code == ef.Code.STREAM  # noqa: PT017 - the strike of the round, told late


def struck_thread(work: Callable[[], Any], rng: Random, sparing: Sequence[CodeType] = ()) -> bool:
    """Run `work`, and strike a thread that it starts at some place, though not in the code that is spared."""
    strike = Strike(rng.randrange(1, 4000), raise_struck)
    strike._known.update(dict.fromkeys(sparing, False))
    threading.settrace(strike)
    try:
        work()
    except ef.EverfreshError as error:
        return error.code == ef.Code.STREAM
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    return True


def raise_struck() -> None:
    raise Struck


@pytest.mark.spark
def test_on_spark_the_ledger_is_read_again(tmp_path: Path, spark: Any) -> None:
    """What strikes between the record of an epoch and what the driver knows of it."""
    rng = Random(9)
    with ef.connect(tmp_path / "db", spark=spark) as db:
        db.sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT SUM(k) AS s FROM t"
        )
        ledger = db._engine._ledger  # type: ignore[attr-defined]
        commit = ledger.commit
        counts = [0, 0]
        for number in range(6):
            epoch, rows = db.epoch, len(db.table("t"))

            def struck_commit(*args: Any, **named: Any) -> int:
                if struck(lambda: commit(*args, **named), rng.randrange(1, 160))[0]:
                    raise Struck
                return ledger.epoch  # type: ignore[no-any-return]

            ledger.commit = struck_commit
            with suppress(Struck):
                db.apply(t=[(number,)])
            ledger.commit = commit
            done = db.epoch - epoch
            assert done in (0, 1)
            counts[done] += 1
            assert len(db.table("t")) == rows + done
            assert db.view("v").verify().num_rows == 0
        assert db.apply(t=[(100,)]) == db.epoch


@pytest.mark.spark
@pytest.mark.parametrize("places", [6, pytest.param(1500, marks=pytest.mark.soak)])
def test_on_spark_a_batch_that_is_struck_is_done_or_undone(tmp_path: Path, spark: Any, places: int) -> None:
    """Anywhere in the driver: while rows are read, while a job runs, while its answers are taken."""
    rng, batches = Random(places), Batches(places)
    with create_on_spark(tmp_path / "db", spark) as db:
        db.apply(batches.one(db))
        batch = batches.one(db)
        _, total = struck(lambda: db.apply(batch))
        counts = [0, 0]
        for number in range(places):
            before, epoch = contents(db), db.epoch
            batch = batches.one(db)
            early = number % 2 == 0  # before the job, in any case
            at = rng.randrange(1, 400) if early else rng.randrange(1, total + 1)
            if number == 1:
                at = 100 * total  # never: how many places there are depends on how long a job takes
            was_struck, _ = struck(lambda batch=batch: db.apply(batch), at)  # type: ignore[misc]
            after, done = contents(db), db.epoch - epoch
            assert done in (0, 1), (number, at)
            assert was_struck or done == 1
            assert was_struck or not early
            assert (after == before) == (done == 0), (number, at)
            counts[done] += 1
            if number % 5 == 4:
                check(db)
        assert all(counts)
        check(db)
        before = contents(db)
    with ef.connect(tmp_path / "db", spark=spark) as db:
        assert contents(db) == before
        check(db)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("strikes", [8, pytest.param(1000, marks=pytest.mark.soak)])
def test_on_spark_threads_that_are_struck(tmp_path: Path, spark: Any, strikes: int) -> None:
    """Batches that commit together, and readers beside them: a strike ends nobody else's work."""
    with create_on_spark(tmp_path / "db", spark) as db:
        numbers = iter(range(1_000_000))

        def write() -> None:
            db.apply({"b": [(f"b{next(numbers) % 7}", 1)] * 3})

        def read() -> None:
            assert sum(db.view("names").to_arrow().column("n").to_pylist()) % 3 == 0

        failed = strike_threads((write, write, read), Random(7), strikes, 0.3, lasting=True)
        assert not failed
        check(db)
        assert len(db.table("b")) % 3 == 0


@pytest.mark.soak
@pytest.mark.spark
def test_on_spark_a_stream_whose_thread_is_struck(tmp_path: Path, spark: Any) -> None:
    """What turns a strike into an error that Spark is told of is spared: Spark would wait for good."""
    rng, inbox, answers = Random(8), tmp_path / "inbox", SparkStream._batch.__code__
    inbox.mkdir()
    with create_on_spark(tmp_path / "db", spark) as db:
        for number in range(30):
            for part in range(2):
                (inbox / f"{number}-{part}.csv").write_text(f"s,x\na{number},{part}\n")
            assert struck_thread(lambda: db.stream("b", inbox, available_now=True).wait(), rng, [answers])
            until_read(db, inbox)
            assert len(db.table("b")) == 2 * (number + 1)
        check(db)


def create_on_spark(path: Path, spark: Any) -> ef.Database:
    db = ef.connect(path, spark=spark)
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, x BIGINT, s VARCHAR, kept VARCHAR)")
    db.sql("CREATE TABLE b (s VARCHAR, x BIGINT)")
    for name in ("z", "v", "names"):
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    return db


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_on_spark_a_forked_child_is_refused(tmp_path: Path, spark: Any) -> None:
    with ef.connect(tmp_path / "db", spark=spark) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY)")
        pid = os.fork()
        if pid == 0:
            code = 1
            with suppress(BaseException):
                try:
                    db.apply(t=[(1,)])
                except ef.EverfreshError as error:
                    code = 0 if error.code == ef.Code.CLOSED else 2
                db.close()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert db.apply(t=[(2,)]) == 2
