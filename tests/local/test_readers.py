"""Readers beside a running batch: they see the last committed epoch, whole, and do not wait for the batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import everfresh as ef
from everfresh.local.latch import Latch, Turn
from everfresh.testing.oracle import assert_rows, assert_same
from everfresh.testing.strikes import struck

TABLES = (
    "CREATE TABLE bag (k BIGINT, g VARCHAR, x DOUBLE); "
    "CREATE TABLE item (k BIGINT PRIMARY KEY, g VARCHAR, p DECIMAL(9,2))"
)
VIEWS = {
    "flat": "SELECT k, x * 2 AS y FROM bag WHERE x > 2",
    "grouped": "SELECT g, COUNT(*) AS n, SUM(x) AS x FROM bag GROUP BY g",
    "joined": "SELECT i.g, SUM(p) AS p, COUNT(*) AS n FROM bag JOIN item i ON bag.k = i.k GROUP BY i.g",
    "outer_": "SELECT item.k, COUNT(bag.k) AS n FROM item LEFT JOIN bag ON bag.k = item.k GROUP BY item.k",
    "extremes": "SELECT g, MIN(x) AS a, MAX(k) AS b FROM bag GROUP BY g",
    "top": "SELECT MAX(p) AS p FROM item",
    "above": "SELECT k FROM bag WHERE x > (SELECT AVG(x) FROM bag)",
    "first_": "SELECT k, p FROM item ORDER BY p DESC, k LIMIT 3",
    "ranked": "SELECT k, SUM(p) OVER (PARTITION BY g ORDER BY k) AS r FROM item",
    "named": "SELECT g || '!' AS name, COUNT(*) AS n FROM item GROUP BY g",
    "on_view": "SELECT SUM(n) AS n FROM grouped",
}
AGAIN = "WITH (strategy = 're-evaluate') AS SELECT g, COUNT(*) AS n FROM item GROUP BY g"


def create(db: ef.Database) -> None:
    db.sql(TABLES)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.sql(f"CREATE MATERIALIZED VIEW again {AGAIN}")


def batches(seed: int, count: int) -> Iterator[dict[str, Any]]:
    rng = Random(seed)
    bag: list[Any] = []
    items: dict[int, Any] = {}
    for _ in range(count):
        new = [
            (rng.randrange(9), rng.choice("abc"), rng.choice([None, 0.5, 3.5]))
            for _ in range(rng.randrange(3, 9))
        ]
        rng.shuffle(bag)
        gone, bag = bag[: len(bag) // 2], [*bag[len(bag) // 2 :], *new]
        keys = rng.sample(range(12), 5)
        drop = [k for k in keys if k in items]
        add = [(k, rng.choice("abcd"), rng.randrange(100)) for k in keys if rng.random() < 0.8]
        for k in drop:
            del items[k]
        items.update({row[0]: row for row in add})
        yield {
            "bag": ef.Delta(inserts=new, deletes=gone),
            "item": ef.Delta(deletes=[{"k": k} for k in drop], inserts=add),
        }


def state(db: ef.Database) -> dict[str, pa.Table]:
    return {name: relation.to_arrow() for name, relation in {**db.tables, **db.views}.items()}


def is_state(found: pa.Table, expected: pa.Table) -> bool:
    try:
        assert_same(expected, found, "")
    except AssertionError:
        return False
    return True


@contextmanager
def at_every_breath(db: ef.Database, busy: threading.Event) -> Iterator[list[int]]:
    """While `busy`, the writer waits wherever it could give way until a reader has come."""
    latch: Latch = db._engine._state.latch  # type: ignore[attr-defined]
    breathe, breaths = Turn.breathe, [0]

    def wait_and_breathe(turn: Turn) -> None:
        while busy.is_set() and latch.tail is turn:
            time.sleep(0.0002)
        breaths[0] += 1
        breathe(turn)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Turn, "breathe", wait_and_breathe)
        yield breaths


@pytest.mark.parametrize(
    ("name", "compile"),
    [*((name, "off") for name in ("bag", "item", *VIEWS, "again")), ("grouped", "now"), ("joined", "now")],
)
def test_what_is_read_at_every_point_of_a_batch(name: str, compile: str) -> None:
    with ef.connect(engine="local", options=ef.Options(compile=compile)) as db:
        create(db)
        *first, last = batches(1, 6)
        for batch in first:
            db.apply(batch)
        before, epoch = state(db)[name], db.epoch
        busy = threading.Event()
        busy.set()
        with at_every_breath(db, busy) as breaths:
            writer = threading.Thread(target=db.apply, args=(last,))
            writer.start()
            found: list[pa.Table] = []
            while writer.is_alive():
                found.append(db.sql(f"SELECT * FROM {name}").to_arrow())  # type: ignore[union-attr]
                if db.epoch > epoch:
                    break
            busy.clear()
            writer.join()
        assert breaths[0] > 10
        assert len(found) > 10
        after = state(db)[name]
        assert not is_state(before, after), "the batch shows nothing"
        assert all(is_state(rows, before) for rows in found[:-2])
        assert all(is_state(rows, before) or is_state(rows, after) for rows in found[-2:])


def test_a_batch_that_fails_was_never_seen() -> None:
    with ef.connect(engine="local") as db:
        create(db)
        db.sql("CREATE MATERIALIZED VIEW bad AS SELECT SUM(100 // k) AS n FROM item")
        for batch in batches(4, 4):
            batch["item"] = ef.Delta(inserts=[])
            db.apply(batch)
        db.apply(item=[(5, "a", 10)])
        before = state(db)
        busy, errors = threading.Event(), []
        busy.set()

        def write() -> None:
            try:
                db.apply(bag=[(5, "z", 9.5)], item=[(0, "a", 3)])
            except ef.EverfreshError as error:
                errors.append(error.code)

        with at_every_breath(db, busy):
            writer = threading.Thread(target=write)
            writer.start()
            while writer.is_alive():
                assert_same(before["grouped"], db.view("grouped").to_arrow(), "grouped")
                assert_same(before["bag"], db.table("bag").to_arrow(), "bag")
            busy.clear()
            writer.join()
        assert errors == [ef.Code.DIVISION_BY_ZERO]
        for name, rows in state(db).items():
            assert_same(before[name], rows, name)


@contextmanager
def held_in_the_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Commits stop between the write and the sync while the block runs."""
    entered, released = threading.Event(), threading.Event()

    def gate(*args: Any, **kwargs: Any) -> None:
        entered.set()
        released.wait(60)

    monkeypatch.setattr("everfresh.state.log.crash", gate)
    yield entered
    released.set()


def test_the_log_is_written_beside_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ef.connect(tmp_path / "db", engine="local", options=ef.Options(history=1000)) as db:
        create(db)
        db.apply(bag=[(1, "a", 5.0)])
    with ef.connect(tmp_path / "db", engine="local", options=ef.Options(history=1000)) as db:
        epoch = db.epoch
        writer = threading.Thread(target=db.apply, args=({"bag": [(2, "b", 7.0)]},))
        with held_in_the_log(monkeypatch) as entered:
            writer.start()
            entered.wait(60)
            assert_rows(db.view("flat"), (1, 10.0))
            assert_rows(db.table("bag"), (1, "a", 5.0))
            assert_rows(db.sql("SELECT COUNT(*) AS n FROM bag JOIN grouped ON bag.g = grouped.g"), (1,))
            assert db.view("flat").changes(since=epoch).num_rows == 0
            assert db.view("flat").changes().num_rows == 1
            assert_rows(db.view("flat").to_arrow(at=epoch - 1))
            assert "flat" in db.view("flat").explain()
            assert_rows(db.sql("SHOW TABLES"), ("bag",), ("item",))
            assert db.epoch == epoch
            assert writer.is_alive(), "a reader waited for the batch"
        writer.join()
        assert_rows(db.view("flat"), (1, 10.0), (2, 14.0))
        assert db.epoch == epoch + 1


def test_all_changes_while_history_moves_on() -> None:
    with ef.connect(engine="local", options=ef.Options(history=3)) as db:
        db.sql("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        errors: list[BaseException] = []
        stop = threading.Event()

        def reader() -> None:
            try:
                while not stop.is_set():
                    epochs = db.view("v").changes()["_epoch"].to_pylist()
                    assert len(epochs) <= 3
                    assert epochs == list(range(epochs[0], epochs[0] + len(epochs))) if epochs else True
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=reader)
        thread.start()
        for i in range(300):
            db.apply(t=[(i,)])
        stop.set()
        thread.join()
        assert not errors


def test_a_new_view_is_filled_beside_readers() -> None:
    with ef.connect(engine="local") as db:
        create(db)
        for batch in batches(5, 3):
            db.apply(batch)
        before, epoch, read = state(db), db.epoch, []

        def look(what: str, done: int, total: int) -> None:
            def reader() -> None:
                assert db.epoch == epoch
                for name, rows in state(db).items():
                    assert_same(before[name], rows, name)
                read.append(what)

            thread = threading.Thread(target=reader)
            thread.start()
            thread.join(60)

        db.on_progress(look)
        db.sql("CREATE MATERIALIZED VIEW late AS SELECT bag.k, COUNT(*) AS n FROM bag, item GROUP BY bag.k")
        assert read
        assert db.view("late").verify().num_rows == 0


def test_a_query_sees_one_epoch() -> None:
    """Every batch moves an amount from one table to the other: no query may see half of it."""
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (k BIGINT PRIMARY KEY, x BIGINT); CREATE TABLE b (x BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW sa AS SELECT SUM(x) AS s, COUNT(*) AS n FROM a")
        db.sql("CREATE MATERIALIZED VIEW sb AS SELECT SUM(x) AS s, COUNT(*) AS n FROM b")
        db.apply(a=[(0, 0)], b=[(0,)])
        wrong: list[Any] = []
        seen: set[int] = set()
        stop = threading.Event()

        def reader() -> None:
            query = (
                "SELECT sa.s + sb.s, sa.n - sb.n, (SELECT SUM(x) FROM a) - sa.s, "
                "(SELECT COUNT(*) FROM b) - sb.n, sa.n FROM sa, sb"
            )
            while not stop.is_set():
                row = list(db.sql(query).to_pylist()[0].values())  # type: ignore[union-attr]
                if row[:4] != [0, 0, 0, 0]:
                    wrong.append(row)
                seen.add(int(row[4]))
                changes = db.view("sa").changes().to_pylist()
                count = sum(c["_weight"] * c["n"] for c in changes)
                if count < row[4]:
                    wrong.append((row, count))

        threads = [threading.Thread(target=reader) for _ in range(2)]
        for thread in threads:
            thread.start()
        rng = Random(1)
        for i in range(1, 60):
            moved = [(i * 1000 + j, rng.randrange(100)) for j in range(rng.choice([1, 40]))]
            db.apply(a=moved, b=[(-x,) for _, x in moved])
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong
        assert len(seen) > 1, "the readers came too late"


def test_ddl_beside_queries() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS a FROM t")
        db.apply(t=[(1,), (2,)])
        errors: list[BaseException] = []
        stop = threading.Event()

        def reader() -> None:
            try:
                while not stop.is_set():
                    rows = db.sql("SELECT * FROM t").to_pylist()  # type: ignore[union-attr]
                    assert sorted(row["a"] for row in rows) == [1, 2]
                    assert db.view("v").to_pylist() == [{"a": 3}]
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=reader)
        thread.start()
        for _ in range(10):
            db.sql("ALTER TABLE t ADD COLUMN b BIGINT DEFAULT 7")
            db.sql("CREATE MATERIALIZED VIEW w AS SELECT b FROM t; DROP VIEW w")
            db.sql("ALTER TABLE t DROP COLUMN b")
        stop.set()
        thread.join()
        assert not errors


# -- the latch -----------------------------------------------------------------------------------------------


def queued(latch: Latch) -> int:
    """How many have asked for a turn and wait."""
    found, turn = 0, latch.tail
    while turn is not None and turn._before is not None:
        found, turn = found + 1, turn._before
    return found


def test_all_that_wait_are_served_when_the_writer_breathes() -> None:
    latch, served = Latch(), []

    def reader(number: int) -> None:
        turn = Turn(latch)
        with turn.lock:
            turn.come()
            served.append(number)

    threads = [threading.Thread(target=reader, args=(i,)) for i in range(5)]
    turn = Turn(latch)
    with turn.lock:
        turn.come()
        for thread in threads:
            thread.start()
        while queued(latch) < 5:
            time.sleep(0.001)
        assert served == []
        turn.breathe()
        assert sorted(served) == [0, 1, 2, 3, 4]
        assert latch.tail is turn
    for thread in threads:
        thread.join()


def test_a_writer_is_not_kept_out_by_readers() -> None:
    latch, stop = Latch(), threading.Event()
    at_work: list[int] = []

    def reader() -> None:
        while not stop.is_set():
            turn = Turn(latch)
            with turn.lock:
                turn.come()
                at_work.append(1)
                assert len(at_work) == 1
                at_work.pop()

    threads = [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        turn = Turn(latch)
        with turn.lock:
            turn.come()
            assert not at_work
            turn.breathe()
            assert not at_work
    stop.set()
    for thread in threads:
        thread.join()


def test_whoever_gives_up_lets_nobody_in_before_their_turn() -> None:
    latch, order = Latch(), []
    first, second, third = Turn(latch), Turn(latch), Turn(latch)

    def late() -> None:
        with third.lock:
            third.come()
            order.append("third")

    with first.lock:
        first.come()
        with second.lock:  # asks, and is struck while it waits
            second._before, latch.tail = latch.tail, second
        thread = threading.Thread(target=late)
        thread.start()
        while third._before is None:
            time.sleep(0.001)
        order.append("first")
    thread.join()
    assert order == ["first", "third"]


def test_a_writer_that_is_struck_while_it_breathes_ends_its_turn() -> None:
    """Wherever it strikes, what comes out is the strike, and whoever comes next has a turn."""

    def other(latch: Latch, served: threading.Event) -> None:
        turn = Turn(latch)
        with turn.lock:
            turn.come()
        served.set()

    def breathe(latch: Latch) -> None:
        served = threading.Event()
        thread = threading.Thread(target=other, args=(latch, served))
        turn = Turn(latch)
        try:
            with turn.lock:
                turn.come()
                thread.start()
                while latch.tail is turn:
                    time.sleep(0.0001)
                turn.breathe()
                assert served.is_set()
        finally:
            if thread.ident is not None:
                thread.join(30)
                assert served.is_set()

    _, places = struck(lambda: breathe(Latch()))
    strikes = 0
    for at in range(1, places + 1):
        latch = Latch()
        strikes += struck(lambda latch=latch: breathe(latch), at)[0]  # type: ignore[misc]
        last = threading.Thread(target=other, args=(latch, threading.Event()), daemon=True)
        last.start()
        last.join(30)
        assert not last.is_alive(), at
    assert strikes > places // 2
