"""Strings and memory that nothing uses any more: freed in time, and nothing else.

Mutations that these catch: a holder of codes that is not asked (a table, a map, a slice over strings that are
only kept, an index over computed strings, a change that nobody has asked for yet), a label or a constant in
compiled code that outlives its code, a pool that shrinks under a slice, looking too often or never.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everfresh as ef
from everfresh.local.committed import Committed
from everfresh.local.engine import LocalEngine
from everfresh.local.order import range_join as ranges
from everfresh.local.order.value_index import Band
from everfresh.local.state import LocalState
from everfresh.local.store import reclaim, strings
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.reclaim import CodeHolders, renumber
from everfresh.local.store.table import Table
from everfresh.testing.oracle import DuckOracle, assert_same

TABLES = (
    "CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, s VARCHAR, note VARCHAR); "
    "CREATE TABLE u (s VARCHAR, x BIGINT)"
)
VIEWS = {
    "grouped": "SELECT s, COUNT(*) AS n FROM t GROUP BY s",
    "ends": "SELECT g, MIN(s) AS a, MAX(s) AS b FROM t GROUP BY g",
    "distinct_": "SELECT DISTINCT g, s FROM t",
    "like_": "SELECT k, s FROM t WHERE s LIKE 'a%b%'",
    "constant": "SELECT k, CASE WHEN s = 'ab' THEN 'yes it is' ELSE 'no' END AS c FROM t WHERE g <> 'b'",
    "joined": "SELECT t.k, u.x FROM t JOIN u ON t.s = u.s",
    "outer_": "SELECT u.s, COUNT(t.k) AS n FROM u LEFT JOIN t ON t.s = u.s GROUP BY u.s",
    "windowed": "SELECT k, ROW_NUMBER() OVER (PARTITION BY g ORDER BY s, k) AS r FROM t",
    "first_": "SELECT s, k FROM t ORDER BY s, k LIMIT 3",
    "computed": "SELECT upper(s) || '!' AS loud, COUNT(*) AS n FROM t GROUP BY upper(s) || '!'",
    "above": "SELECT a.k, COUNT(*) AS n FROM t a JOIN u b ON upper(b.s) < a.s GROUP BY a.k",
    "least": "SELECT k FROM t WHERE s > (SELECT MIN(s) FROM u)",
    "on_view": "SELECT MAX(a) AS a FROM ends",
    "again": "SELECT g, MAX(s) AS s FROM t GROUP BY g",
}
COMPILED = ["grouped", "constant", "like_", "joined", "ends"]
WORDS = st.sampled_from(["", "a", "ab", "abab", "aab and b", "B", "ä longer string than a word", "zzzzzzzzz"])
ROWS = st.tuples(st.integers(0, 7), WORDS, st.one_of(st.none(), WORDS), WORDS)
BATCHES = st.lists(
    st.tuples(
        st.lists(ROWS, max_size=5),
        st.lists(st.tuples(WORDS, st.integers(0, 9)), max_size=4),
        st.integers(0, 9),
    ),
    min_size=2,
    max_size=7,
)


def state_of(db: ef.Database) -> LocalState:
    state: LocalState = db._engine._state  # type: ignore[attr-defined]
    return state


def made(*views: str, history: int = 100, compile: str = "off", path: Path | None = None) -> ef.Database:
    options = ef.Options(history=history, compile=compile, durable=False)
    db = ef.connect(path, engine="local", options=options)
    db.sql(TABLES)
    for name in views or VIEWS:
        how = "WITH (strategy = 're-evaluate') " if name == "again" else ""
        db.sql(f"CREATE MATERIALIZED VIEW {name} {how}AS {VIEWS[name]}")
    state_of(db).upkeep.always = True
    return db


def deltas(batches: list[Any]) -> Iterator[dict[str, ef.Delta]]:
    """Changes that tables allow: a row of `t` whose key is there is an update, or takes its place."""
    items: dict[int, Any] = {}
    bag: list[Any] = []
    for rows, others, pick in batches:
        come = {row[0]: row for row in rows}
        gone = [row for key, row in items.items() if key in come or (key + pick) % 4 == 0]
        items = {key: row for key, row in items.items() if row not in gone} | come
        leaves, bag = bag[: pick % (len(bag) + 1)], [*bag[pick % (len(bag) + 1) :], *others]
        yield {
            "t": ef.Delta(inserts=[*come.values()], deletes=gone),
            "u": ef.Delta(inserts=others, deletes=leaves),
        }


@pytest.fixture(scope="module", params=["off", "now"])
def shared(request: pytest.FixtureRequest) -> Iterator[tuple[ef.Database, DuckOracle]]:
    """One database for all examples: making its views takes longer than they do."""
    chosen = COMPILED if request.param == "now" else [*VIEWS]
    with closing(made(*chosen, compile=request.param)) as db, closing(DuckOracle()) as oracle:
        for table in ("t", "u"):
            oracle.create(db._engine.catalog.tables[table])
        yield db, oracle


@settings(deadline=None)
@given(BATCHES)
def test_views_are_those_of_duckdb_when_strings_are_freed_after_every_batch(
    shared: tuple[ef.Database, DuckOracle], batches: list[Any]
) -> None:
    db, oracle = shared
    db.sql("DELETE FROM t; DELETE FROM u")
    for table in ("t", "u"):
        oracle.create(oracle.tables[table])
    past: list[tuple[int, dict[str, pa.Table]]] = []
    views = [name for name in VIEWS if name in db._engine.catalog.views]
    for batch in deltas(batches):
        epoch = db.apply(batch)
        for table, delta in batch.items():
            oracle.apply(table, delta.inserts, delta.deletes)
        oracle.create_view("ends", VIEWS["ends"])
        found = {name: db.view(name).to_arrow() for name in views}
        for name, rows in found.items():
            assert_same(oracle.query(VIEWS[name]), rows, name)
        oracle.drop_views()
        past.append((epoch, found))
    for epoch, found in past:
        for name, rows in found.items():
            assert_same(rows, db.view(name).to_arrow(at=epoch), name)


def known(state: LocalState) -> set[str | None]:
    """All strings that are interned."""
    codes = [code for code in range(1, state.interner.top + 1) if state.interner._at.bounds[2 * code] >= 0]
    return set(state.interner.strings(np.array(codes, np.int64)))


def rows(numbers: range, word: str = "some text number") -> pa.Table:
    texts = [f"{word} {i}" for i in numbers]
    return pa.table(
        {"k": [*numbers], "g": ["g"] * len(texts), "s": texts, "note": [f"note on {t}" for t in texts]}
    )


def test_strings_live_as_long_as_somebody_can_read_them() -> None:
    with closing(made("grouped", "computed", history=2)) as db:
        state = state_of(db)
        db.apply(t=rows(range(2)))
        both = {"some text number 0", "some text number 1", "SOME TEXT NUMBER 0!", "SOME TEXT NUMBER 1!"}
        assert known(state) == both
        epoch = db.apply(t=ef.Delta(deletes=rows(range(1)).select(["k"])))
        assert known(state) == both  # the changes of views that brought them and took them away
        db.apply(u=[("other", 1)])
        assert known(state) == {*both, "other"}
        db.apply(u=[("other", 2)])
        assert db.view("grouped").changes(since=epoch).num_rows == 0
        assert known(state) == {"some text number 1", "SOME TEXT NUMBER 1!", "other"}
        db.sql("DROP TABLE t CASCADE")
        assert known(state) == {"other"}
        db.sql("ALTER TABLE u ADD COLUMN y VARCHAR DEFAULT 'new'; ALTER TABLE u DROP COLUMN s")
        assert known(state) == {"new"}
        assert db.statistics()["strings"]["distinct"] == 1


SOLE = {
    "table": (Table, "SELECT s FROM u"),
    "map": (EntryStore, "SELECT s FROM passed"),
    "past": (Committed, None),
}


@pytest.mark.parametrize("what", SOLE)
def test_a_holder_that_is_left_out_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that alone holds a string, and is not asked: the string is freed, and reading it raises."""
    kind, query = SOLE[what]
    with closing(made("grouped")) as db:
        db.sql("CREATE TABLE stream (s VARCHAR) WITH (retain = false)")
        db.sql("CREATE MATERIALIZED VIEW passed AS SELECT s, COUNT(*) AS n FROM stream GROUP BY s")
        state_of(db).upkeep.always = False
        epoch = db.epoch
        db.apply({"stream": [("passing",)], "u": [("only here", 1)], "t": rows(range(3))})
        db.apply(t=ef.Delta(deletes=rows(range(3)).select(["k"])))

        def read() -> Any:
            return db.sql(query).to_pylist() if query else db.view("grouped").changes(since=epoch).to_pylist()

        if query:
            db.view("passed").changes()  # which holds them no more
        state_of(db).reclaim(now=True)
        monkeypatch.setattr(kind, "mark", lambda self, alive: None)
        state_of(db).reclaim(now=True)
        with pytest.raises(IndexError):
            read()


def test_an_index_over_computed_strings_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys are labels of strings that stand in no row: a string that comes again has its label."""
    monkeypatch.setattr(ranges, "LONG", 1)
    with closing(made("above")) as db:
        db.apply(u=[(word, i) for i, word in enumerate(["a", "ab", "abc", "b", "bc"])])
        for i, word in enumerate(["AAA", "ABC", "B", "ABCD", "ZZ", "A", "ABC"]):
            db.apply(t=[(i, "g", word, None)])
            assert db.view("above").verify().num_rows == 0
        followers = [f for store in state_of(db).stores().values() for f in store._followers.values()]
        assert any(isinstance(f, Band) and f._type.name == "VARCHAR" for f in followers)
        assert {"ABC", "BC"} <= known(state_of(db))


def window(db: ef.Database, batches: int, size: int) -> Iterator[dict[str, Any]]:
    """A table that always has so many rows, of new text each time; what there is after each batch."""
    state_of(db).upkeep.always = False
    for i in range(batches):
        come = rows(range(i * size, (i + 1) * size), "unique text of the row")
        gone = rows(range((i - 1) * size, i * size)).select(["k"]) if i else []
        db.apply(t=ef.Delta(inserts=come, deletes=gone))
        yield db.statistics()


def test_a_sliding_window_of_unique_strings_is_flat() -> None:
    with closing(made("grouped", "distinct_", history=1)) as db:
        sizes = []
        for found in window(db, 40, 2500):
            sizes.append(found["strings"]["bytes"] + sum(found["tables"]["t"].values()) - 2500)
            assert state_of(db).interner.top <= 16_000
            assert found["strings"]["distinct"] <= 5001
        assert max(sizes[20:]) <= max(sizes[5:20])
        db.sql("DELETE FROM t; INSERT INTO u VALUES ('x', 1)")
        found = db.statistics()
        assert found["strings"] == {"distinct": 1, "bytes": found["strings"]["bytes"]}
        assert found["strings"]["bytes"] < min(sizes) // 4
        assert found["tables"]["t"]["bytes"] < 20_000


@pytest.mark.soak
def test_ten_million_rows_of_new_text_take_no_memory(tmp_path: Path) -> None:
    """The same for an hour's worth of rows, in a folder, with the memory of the process."""
    size, sizes = 10_000, list[float]()
    options = ef.Options(history=2, compile="off", durable=False)
    with closing(ef.connect(tmp_path / "db", engine="local", options=options)) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR, note VARCHAR)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
        before: pa.Table | None = None
        for i in range(1001):
            keys = pa.array(np.arange(i * size, (i + 1) * size))
            text = pc.binary_join_element_wise(
                "a session, its address and its text:", keys.cast(pa.string()), " "
            )
            rows = pa.table({"k": keys, "s": text, "note": text})
            db.apply(t=ef.Delta(inserts=rows, deletes=before.select(["k"]) if before is not None else []))
            before = rows
            if i % 100 == 0:
                assert db.statistics()["strings"]["distinct"] <= 4 * size
                sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20)
        assert db.view("v").verify().num_rows == 0
    assert max(sizes[3:]) < max(sizes[:3]) + 60


def test_what_is_looked_at_is_in_proportion_to_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all text is new, the table only grows, or it is large and little of it changes."""
    looked = []
    collect = reclaim.Upkeep.collect

    def counted(self: Any, interner: Any, held: CodeHolders) -> None:
        looked.append(held.words)
        collect(self, interner, held)

    monkeypatch.setattr(reclaim.Upkeep, "collect", counted)
    monkeypatch.setattr(LocalEngine, "statistics", lambda self: {})
    with closing(made("grouped", history=1)) as db:
        for _ in window(db, 20, 2000):
            pass
        assert 0 < len(looked) < 20
        assert sum(looked) < 8 * 40_000
        looked.clear()
        for i in range(1, 31):
            db.apply(t=rows(range(i * 100_000, i * 100_000 + 2000)))
        assert sum(looked) < 8 * 60_000
        looked.clear()
        for i in range(400):
            db.apply(t=ef.Delta(updates=[(100_000 + i, "g", f"changed to {i}", "")]))
        assert not looked


@pytest.mark.parametrize("compile", ["off", "now"])
def test_pools_and_slices_shrink_with_their_entries(compile: str, tmp_path: Path) -> None:
    """Compiled code goes on with the slices that are made anew."""
    path = tmp_path / "db"
    with closing(made("joined", "ends", history=1, compile=compile, path=path)) as db:
        state = state_of(db)
        db.apply(t=rows(range(20_000)), u=[(f"some text number {i}", i) for i in range(20_000)])
        large = db.statistics()
        db.sql("DELETE FROM t WHERE k >= 40; DELETE FROM u WHERE x >= 40")
        small = db.statistics()
        for kind in ("tables", "views", "maps beside them"):
            for name, before in large[kind].items():
                assert small[kind][name]["bytes"] < max(before["bytes"] // 20, 70_000), name
                assert small[kind][name]["slice_bytes"] <= before["slice_bytes"] // 20, name
        db.apply(t=rows(range(50, 60)), u=[("some text number 52", 1)])
        assert db.view("joined").verify().num_rows == db.view("ends").verify().num_rows == 0
        assert len(db.view("joined").to_arrow()) == 41
        renumber(state.interner, state.holders())
        db.apply(t=ef.Delta(deletes=rows(range(30, 40)).select(["k"])), u=[("some text number 53", 1)])
        assert db.view("joined").verify().num_rows == db.view("ends").verify().num_rows == 0
    with closing(ef.connect(path, engine="local")) as db:
        assert db.statistics()["strings"]["distinct"] < 100


def test_codes_are_given_anew_when_few_of_very_many_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reclaim, "_MANY", 64)
    with closing(made("grouped", "windowed")) as db:
        epoch = db.apply(t=rows(range(2000)))
        before = db.view("grouped").to_arrow()
        db.sql("DELETE FROM t WHERE k < 1990")
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW grouped AS " + VIEWS["grouped"])
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW windowed AS " + VIEWS["windowed"])
        assert state_of(db).interner.top < 64
        assert db.view("grouped").verify().num_rows == db.view("windowed").verify().num_rows == 0
        db.apply(t=rows(range(5)))
        assert db.view("grouped").verify().num_rows == db.view("windowed").verify().num_rows == 0
        assert (before.num_rows, epoch) == (2000, epoch)


def test_readers_beside_batches_that_free_strings() -> None:
    with closing(made("grouped", "ends", history=5)) as db:
        done, failed = threading.Event(), list[BaseException]()

        def read() -> None:
            try:
                while not done.is_set():
                    total = sum(db.view("grouped").to_arrow().column("n").to_pylist())
                    assert total in (0, 200)
                    db.view("ends").changes()
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for i in range(40):
            come, gone = (
                rows(range(i * 200, i * 200 + 200)),
                rows(range(i * 200 - 200, i * 200)).select(["k"]),
            )
            db.apply(t=ef.Delta(inserts=come, deletes=gone if i else []))
        done.set()
        for thread in threads:
            thread.join()
        assert not failed


def test_an_interrupt_while_strings_are_freed_leaves_everything_right(
    request: pytest.FixtureRequest,
) -> None:
    """At one line after the other, of all modules that take part. A shell may have started this process with
    interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    files = {Path(module.__file__ or "").name for module in (strings, reclaim)}
    files |= {"ranking.py", "entries.py", "atoms.py", "pool.py", "table.py", "texts.py", "state.py"}
    with closing(made("grouped", "ends", "first_", history=1)) as db:
        state, random = state_of(db), Random(3)
        state.upkeep.always = False
        interrupted = 0
        for line in range(0, 400, 7):
            left = [line]

            def trace(frame: Any, event: str, arg: Any, left: list[int] = left) -> Any:
                if Path(frame.f_code.co_filename).name in files:
                    left[0] -= event == "line"
                    if left[0] == 0:
                        signal.raise_signal(signal.SIGINT)
                return trace

            start = line * 10
            db.apply(t=rows(range(start, start + random.randrange(1, 9))), u=[(f"other {start}", 1)])
            db.sql(f"DELETE FROM t WHERE k < {start - 20}; DELETE FROM u")
            sys.settrace(trace)
            try:
                state.reclaim(now=True)
                if line % 2:
                    renumber(state.interner, state.holders())
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                sys.settrace(None)
            for name in ("grouped", "ends", "first_"):
                assert db.view(name).verify().num_rows == 0
        assert interrupted > 20
