"""Tables that are not retained: their views equal those over a table that keeps its rows, nothing reads what
is not there, and the folder brings back what had passed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import everfresh as ef
from everfresh.testing.engine.suite_base import refused
from everfresh.testing.oracle import assert_rows, assert_same

COLUMNS = "(k BIGINT, g VARCHAR, x DOUBLE, p DECIMAL(9,2))"
VIEWS = {
    "flat": "SELECT k, x * 2 AS y FROM s WHERE x > 2",
    "grouped": "SELECT g, COUNT(*) AS n, SUM(x) AS x, AVG(p) AS p FROM s GROUP BY g",
    "joined": "SELECT d.f, SUM(s.p) AS p FROM s JOIN d ON s.g = d.g GROUP BY d.f",
    "itself": "SELECT a.k, COUNT(*) AS n FROM s a JOIN s b ON a.k = b.k GROUP BY a.k",
    "outer_": "SELECT d.g, COUNT(s.k) AS n FROM d LEFT JOIN s ON s.g = d.g GROUP BY d.g",
    "extremes": "SELECT g, MIN(x) AS a, MAX(p) AS b FROM s GROUP BY g",
    "differing": "SELECT COUNT(DISTINCT k) AS n FROM s",
    "above": "SELECT k FROM s WHERE x > (SELECT AVG(x) FROM s)",
    "first_": "SELECT k, p FROM s ORDER BY p DESC, k LIMIT 3",
    "ranked": "SELECT k, SUM(p) OVER (PARTITION BY g ORDER BY k, x, p) AS r FROM s",
    "on_view": "SELECT SUM(n) AS n FROM grouped",
}


def create(db: ef.Database, options: str = " WITH (retain = false)") -> None:
    db.sql(f"CREATE TABLE s {COLUMNS}{options}; CREATE TABLE d (g VARCHAR PRIMARY KEY, f BIGINT)")
    db.apply(d=[("a", 1), ("b", 2)])
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def batches(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Inserts and deletes of rows that are there, and some changes of `d`."""
    rng = Random(seed)
    there: list[tuple[Any, ...]] = []
    known = {"a", "b"}
    for _ in range(count):
        new = [
            (
                rng.randrange(6),
                rng.choice(["a", "b", "c", None]),
                rng.choice([None, 0.5, 2.5, 7.25]),
                rng.randrange(99),
            )
            for _ in range(rng.randrange(1, 8))
        ]
        rng.shuffle(there)
        gone, there = there[: len(there) // 3], [*there[len(there) // 3 :], *new]
        batch: dict[str, Any] = {"s": ef.Delta(inserts=new, deletes=gone)}
        if rng.random() < 0.3:
            name = rng.choice("abc")
            known ^= {name}
            batch["d"] = ef.Delta(inserts=[(name, 3)]) if name in known else ef.Delta(deletes=[{"g": name}])
        yield batch


def assert_like(db: ef.Database, twin: ef.Database) -> None:
    for name in VIEWS:
        assert_same(twin.view(name).to_arrow(), db.view(name).to_arrow(), name)


@pytest.mark.parametrize("seed", range(3))
def test_views_are_those_over_a_table_that_keeps_its_rows(seed: int) -> None:
    with ef.connect(engine="local") as db, ef.connect(engine="local") as twin:
        create(db)
        create(twin, "")
        for batch in batches(seed, 15):
            assert db.apply(batch) == twin.apply(batch)
            assert_like(db, twin)
        assert_same(twin.view("grouped").changes(), db.view("grouped").changes(), "changes")
        assert len(db._engine._state.tables["s"].pool) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("snapshot_epochs", [400, 4])
def test_the_folder_is_opened_again(tmp_path: Path, snapshot_epochs: int) -> None:
    options = ef.Options(snapshot_epochs=snapshot_epochs)
    with ef.connect(engine="local") as twin:
        create(twin, "")
        with ef.connect(tmp_path / "db", engine="local") as db:
            create(db)
        for number, batch in enumerate(batches(9, 12)):
            with ef.connect(tmp_path / "db", engine="local", options=options) as db:
                db.apply(batch, key=f"b{number}")
                twin.apply(batch)
                assert_like(db, twin)
        with ef.connect(tmp_path / "db", engine="local", read_only=True) as reader:
            assert_like(reader, twin)
        with ef.connect(tmp_path / "db", engine="local") as db:
            with refused(ef.Code.UNSUPPORTED, "too late", "'s'", "before its first batch"):
                db.sql("CREATE MATERIALIZED VIEW late AS SELECT k FROM s")
            assert "WITH (retain = false)" in db.catalog.tables["s"].ddl


_CHILD = """
import sys
import everfresh as ef
with ef.connect(sys.argv[1], engine="local", options=ef.Options(snapshot_epochs=7)) as db:
    first = db.view("n").to_pylist()[0]["n"]
    print("ready", flush=True)
    for i in range(first, 100000):
        db.apply(s=[(i, "abc"[i % 3])])
        print(i + 1, flush=True)
"""


def test_kill_9(tmp_path: Path) -> None:
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql("CREATE TABLE s (k BIGINT, g VARCHAR) WITH (retain = false)")
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n, SUM(k) AS k FROM s")
        db.sql("CREATE MATERIALIZED VIEW g AS SELECT g, COUNT(*) AS n FROM s GROUP BY g")
    said = 0
    for wait in (3, 40, 25):
        command = [sys.executable, "-c", _CHILD, str(tmp_path / "db")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            for _ in range(wait):
                said = int(child.stdout.readline())
            child.kill()
            rest = child.stdout.read().split("\n")
            said = max([said, *(int(text) for text in rest[:-1])])
        with ef.connect(tmp_path / "db", engine="local") as db:
            n = db.epoch - 3
            assert n in (said, said + 1)
            assert_rows(db.view("n"), (n, n * (n - 1) // 2))
            assert_rows(db.view("g"), *(("abc"[i], len(range(i, n, 3))) for i in range(3)))


def test_what_needs_the_rows_is_refused() -> None:
    with ef.connect(engine="local") as db:
        create(db)
        join = "SELECT d.f, s.k FROM s JOIN d ON s.g = d.g"
        for strategy in ("re-evaluate", "first-order"):
            with refused(ef.Code.UNSUPPORTED, "rows of 's'", "not kept", strategy):
                db.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {join}")
        db.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'first-order-projected') AS {join}")
        db.apply(s=[(1, "a", 1.0, 5), (2, "b", 3.0, 7)])
        before = db.epoch
        for call in (
            lambda: db.sql("SELECT * FROM s"),
            lambda: db.sql("SELECT COUNT(*) FROM d JOIN s ON s.g = d.g"),
            lambda: db.sql("INSERT INTO d SELECT g, k FROM s"),
            lambda: db.sql("DELETE FROM s WHERE k = 1"),
            lambda: db.sql("UPDATE s SET k = 1"),
            lambda: db.table("s").to_arrow(),
            lambda: db.view("grouped").verify(),
            lambda: db.view("on_view").verify(),
        ):
            with refused(ef.Code.UNSUPPORTED, "rows of 's' are not kept", "hint"):
                call()
        with refused(ef.Code.ARGUMENT, "no primary key"):
            db.apply(s=ef.Delta(updates=[(1, "a", 1.0, 5)]))
        with refused(ef.Code.ARGUMENT, "no primary key"):
            db.apply(s=ef.Delta(deletes=[{"k": 1}]))
        with refused(ef.Code.ARGUMENT, "needs a primary key"):
            db.sql("INSERT OR IGNORE INTO s VALUES (1, 'a', 1.0, 5)")
        with refused(ef.Code.UNSUPPORTED, "too late"):
            db.sql("CREATE OR REPLACE MATERIALIZED VIEW flat AS SELECT k FROM s")
        assert db.epoch == before
        assert_rows(db.view("flat"), (2, 6.0))


def test_deviations_of_doubles_need_no_rows() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE s (x DOUBLE) WITH (retain = false)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT STDDEV(x) AS d FROM s")
        db.apply(s=[(1e200,), (1.0,), (3.0,)])
        db.apply(s=ef.Delta(deletes=[(1e200,)]))
        assert db.view("v").fetchall() == [(2.0**0.5,)]


@pytest.mark.parametrize(
    ("text", "why"), [("(k BIGINT PRIMARY KEY)", "PRIMARY KEY"), ("(k BIGINT, PRIMARY KEY (k))", "checked")]
)
def test_a_key_is_refused(text: str, why: str) -> None:
    with ef.connect(engine="local") as db, refused(ef.Code.UNSUPPORTED, why, "not kept"):
        db.sql(f"CREATE TABLE s {text} WITH (retain = false)")


def test_a_static_table_keeps_its_rows() -> None:
    with ef.connect(engine="local") as db, refused(ef.Code.UNSUPPORTED, "STATIC"):
        db.sql("CREATE STATIC TABLE s (k BIGINT) WITH (retain = false)")


def test_columns_come_and_go_after_rows_have_passed() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE s (k BIGINT, x BIGINT) WITH (retain = false)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s")
        db.apply(s=[(1, 2)])
        db.sql("ALTER TABLE s ADD COLUMN y VARCHAR DEFAULT 'a'")
        db.apply(s=[(2, 3, "b")])
        db.sql("ALTER TABLE s DROP COLUMN x")
        db.apply(s=ef.Delta(inserts=[(3, "c")], deletes=[(1, "a")]))
        assert_rows(db.view("v"), (2,), (3,))
        with refused(ef.Code.UNSUPPORTED, "too late"):
            db.sql("CREATE MATERIALIZED VIEW late AS SELECT y FROM s")
        db.sql("DROP TABLE s CASCADE; CREATE TABLE s (k BIGINT) WITH (retain = false)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s")
        db.apply(s=[(7,)])
        assert_rows(db.view("v"), (7,))


def test_a_delete_that_comes_first_is_settled_by_its_row() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE s (k BIGINT) WITH (retain = false)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s")
        db.apply(s=ef.Delta(deletes=[(1,)]))
        with refused(ef.Code.MISSING_ROW, "more often than they came"):
            db.view("v").to_arrow()
        db.apply(s=[(1,), (1,)])
        assert_rows(db.view("v"), (1,))


def test_a_refused_batch_has_not_passed(tmp_path: Path) -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE s (k BIGINT) WITH (retain = false); CREATE TABLE t (k BIGINT PRIMARY KEY)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(100 // k) AS n FROM s")
        with refused(ef.Code.DIVISION_BY_ZERO):
            db.apply(s=[(0,)])
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM s")
        db.apply(s=[(5,)])
        assert_rows(db.view("w"), (1,))


def test_strings_of_rows_that_have_passed_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everfresh.local.store.reclaim._LEAST", 100)
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE s (k VARCHAR, g VARCHAR) WITH (retain = false)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM s GROUP BY g")
        state = db._engine._state  # type: ignore[attr-defined]
        state.reclaim(now=True)
        for i in range(30):
            db.apply(s=[(f"key {i} {j}", f"group {j % 3}") for j in range(50)])
            assert len(state.interner) <= 400
        assert db.statistics()["strings"]["distinct"] == 3
        assert_rows(db.view("v"), *((f"group {j}", 30 * len(range(j, 50, 3))) for j in range(3)))


def test_explain_says_it() -> None:
    with ef.connect(engine="local") as db:
        create(db)
        view = db.view("joined")
        assert "s: not retained" in view.explain()
        assert '"not retained": [\n    "s"\n  ]' in view.explain("json")
        assert 'xlabel="not retained"' in view.explain("dot")
        assert "not retained" not in db.view("on_view").explain()
        assert db.statistics()["tables"]["s"]["rows"] == "not retained"


@pytest.mark.parametrize(
    "text", ["WITH (retain = false)", "WITH (RETAIN FALSE)", "WITH (retain false)", "WITH (Retain = FALSE)"]
)
def test_spellings(text: str) -> None:
    with ef.connect(engine="local") as db:
        db.sql(f"CREATE TABLE s (k BIGINT) {text}")
        assert not db.catalog.tables["s"].retained
        db.sql(f"CREATE TABLE t (k BIGINT) {text.replace('FALSE', 'true').replace('false', 'true')}")
        assert db.catalog.tables["t"].retained
