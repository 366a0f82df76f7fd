"""SQL views over objects of other domains: they follow them in the same epoch, in whatever order things read
one another, and are there again after everything that the suite of domains does to a database."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from counters import Counters, Create, Grow
from hypothesis import given
from hypothesis import strategies as st

import everfresh as ef
from everfresh.database import connected, domains_of
from everfresh.delta.bags import difference
from everfresh.testing.domain_suite import DomainSuite
from everfresh.testing.engine.suite_base import refused

VIEWS = {
    "by_i": "SELECT i, SUM(v) AS s, COUNT(*) AS n, MAX(u) AS u FROM a GROUP BY i",
    "joined": "SELECT t.g, a.j, SUM(a.v) AS s FROM a JOIN t ON a.v = t.k GROUP BY t.g, a.j",
    "first": "SELECT j, v, ROW_NUMBER() OVER (PARTITION BY j ORDER BY v, i, u) AS r FROM a",
    "counted": "SELECT n, COUNT(*) AS c FROM count GROUP BY n",
    "crossed": "SELECT joined.g, SUM(count.n) AS n FROM joined, count GROUP BY joined.g",
    "last": "SELECT count.n - again.n AS d, COUNT(*) AS c FROM count, again GROUP BY count.n - again.n",
}
"""`count` counts rows of `joined`, `again` those of `crossed`: tables, an array, views, a counter, views, a
counter, a view."""


class Followed(DomainSuite):
    """Views over an array and counters, which read views that read them."""

    tolerance = 0
    kills = 1
    strikes = 8
    strikes_at_ends = 4

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        options = kwargs.get("options", self.options())
        domains = (*domains_of(options), Counters(options.history))
        return connected(path, "local", None, kwargs.get("read_only", False), options, domains)

    def make(self, db: ef.Database) -> None:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR)")
        db.sql("CREATE ARRAY a <v: INT, u: VARCHAR> [i=1,8,2; j=1,8,3]")
        db.apply(a=[(1, 1, 0, "x"), (2, 2, 1, None)])
        for name, text in VIEWS.items():
            reader = {"counted": ("count", "joined"), "last": ("again", "crossed")}.get(name)
            if reader is not None:
                db._define("counter", Create(reader[0], (reader[1],)))
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")

    def remake(self, db: ef.Database, name: str) -> None:
        db.sql(f'CREATE ARRAY "{name}" <v: INT> [i=1,2,1]')

    def names(self, db: ef.Database) -> list[str]:
        return [*super().names(db), *db.views]

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        there = [tuple(row.values()) for row in db.array("a").to_pylist()]
        gone = rng.sample(there, min(len(there), rng.randrange(4)))
        words = ["x", "", None, "it's"]
        new = [
            (rng.randrange(1, 9), rng.randrange(1, 9), rng.randrange(6), rng.choice(words))
            for _ in range(1 + rng.randrange(5))
        ]
        known = {row["k"]: row["g"] for row in db.table("t").to_arrow().to_pylist()}
        keys = rng.sample(range(6), 2)
        rows = ef.Delta(
            inserts=[(k, rng.choice(["p", "q"])) for k in keys],
            deletes=[(k, known[k]) for k in keys if k in known],
        )
        # The counter changes in each batch, so that it has a change of its own as well.
        batch: dict[str, Any] = {"count": Grow(1), "a": ef.Delta(inserts=new, deletes=gone), "t": rows}
        return {name: batch[name] for name in batch if name == "a" or rng.random() < 0.8}

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        right = {"a": [(1, 1, 0, "right")]}
        return [
            {**right, "t": [(None, "p")]},
            {"t": [(50, "p")], "a": [(9, 1, 0, "outside")]},
            {**right, "count": Grow(2_000_000)},
        ]

    def check(self, db: ef.Database) -> None:
        """By recomputation, by what is asked ad hoc of the objects themselves, and by the tables that follow
        them."""
        super().check(db)
        for name, text in VIEWS.items():
            found = difference(db.sql(text).to_arrow(), db.view(name).to_arrow())
            assert found.num_rows == 0, f"{name}:\n{found}"


class TestViewsOverObjects(Followed):
    """In a database of the local engine."""

    def test_what_is_read_cannot_go(self, db: ef.Database) -> None:
        with refused(ef.Code.DEPENDENCY, "by_i", "joined"):
            db.array("a").drop()
        with refused(ef.Code.DEPENDENCY, "crossed"):
            db.sql("DROP MATERIALIZED VIEW joined")
        db.sql("DROP MATERIALIZED VIEW by_i")
        db.sql("DROP MATERIALIZED VIEW joined CASCADE")
        assert list(db.views) == ["first"]
        assert self.names(db) == ["a", "first"]
        db.apply(a=[(3, 3, 3, "x")])
        db.sql("DROP ARRAY a CASCADE")
        assert (list(db.views), list(db.arrays), list(db.tables)) == ([], [], ["t"])
        assert not any(schema.follows for schema in db.catalog.tables.values())


@pytest.fixture
def db() -> Iterator[ef.Database]:
    with ef.connect(engine="local") as db:
        db.sql("CREATE ARRAY a <v: INT, u: DOUBLE> [i=1,8,2; j=1,8,2]")
        db.apply(a=[(1, 1, 5, 0.5), (1, 2, 7, None), (2, 2, 3, 1.5)])
        yield db


def test_a_view_follows_an_array(db: ef.Database) -> None:
    heard: list[pa.Table] = []
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT I, SUM(v) AS s FROM A GROUP BY i")
    db.view("w").on_change(heard.append)
    epoch = db.epoch
    assert db.view("w").to_pylist() == [{"i": 1, "s": 12}, {"i": 2, "s": 3}]
    assert db.apply(a=ef.Delta(inserts=[(2, 3, 10, 1.0)], deletes=[(1, 1, 5, 0.5)])) == epoch + 1
    assert sorted(row["s"] for row in db.view("w").to_pylist()) == [7, 13]
    changes = [(r["i"], r["s"], r["_weight"]) for r in heard[0].to_pylist()]
    assert sorted(changes) == [(1, 7, 1), (1, 12, -1), (2, 3, -1), (2, 13, 1)]
    assert db.view("w").to_arrow(at=epoch).num_rows == 2
    db.sql("SELECT i, j, v INTO copy FROM a")  # an array that comes with its cells
    db.sql("CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS n FROM copy")
    assert db.view("c").to_pylist() == [{"n": 3}]


def test_nobody_sees_the_table_that_follows(db: ef.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT i, SUM(v) AS s FROM a GROUP BY i")
    epoch = db.epoch
    assert list(db.tables) == []
    assert db.sql("SHOW TABLES").fetchall() == []
    assert "0 tables, 1 views" in repr(db)
    for statement, code in (
        ("INSERT INTO a VALUES (1, 1, 1, 1)", ef.Code.UNSUPPORTED),
        ("UPDATE a SET v = 1", ef.Code.UNSUPPORTED),
        ("DELETE FROM a", ef.Code.UNSUPPORTED),
        ("DROP TABLE a", ef.Code.NOT_FOUND),
        ("DROP TABLE IF EXISTS a", ef.Code.NOT_FOUND),
        ("ALTER TABLE a ADD COLUMN z INT", ef.Code.UNSUPPORTED),
        ("ALTER TABLE a RENAME TO b", ef.Code.NOT_FOUND),
        ("ALTER VIEW w RENAME TO a", ef.Code.EXISTS),
        ("CREATE OR REPLACE TABLE a (i INT)", ef.Code.EXISTS),
        ("CREATE MATERIALIZED VIEW a AS SELECT 1 AS x", ef.Code.EXISTS),
        ("CREATE TABLE b (i INT) WITH (follows = true)", ef.Code.UNSUPPORTED),
        ("CREATE MATERIALIZED VIEW b AS SELECT nothing FROM a", ef.Code.NOT_FOUND),
        ("CREATE ARRAY a <v: INT> [i=1,8,2]", ef.Code.EXISTS),
    ):
        with refused(code):
            db.sql(statement)
    with refused(ef.Code.NOT_FOUND):
        db.table("a")
    assert db.epoch == epoch
    assert "array" in db.explain("a").lower()
    assert db.sql("DESCRIBE a")["column_name"] == ["i", "j", "v", "u"]


def test_what_no_view_reads_is_not_kept(db: ef.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT SUM(v) AS s FROM a")
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT SUM(u) AS s FROM a")
    assert list(db.catalog.tables) == ["a"]
    db.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS w AS SELECT 1 AS s")
    db.sql("DROP MATERIALIZED VIEW w")
    assert list(db.catalog.tables) == []
    db.apply(a=ef.Delta(deletes=[(1, 1, 5, 0.5)]))
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT SUM(v) AS s FROM a")
    assert db.view("w").to_pylist() == [{"s": 10}]


def test_a_table_that_was_left_without_its_view_is_made_anew(db: ef.Database) -> None:
    """As a process leaves it that is killed between the epochs of CREATE VIEW."""
    following = db._statements.following
    with db._lock:
        (view,) = ef.sql.parse_and_bind(
            "CREATE MATERIALIZED VIEW w AS SELECT SUM(v) AS s FROM a", _readable(db), "duckdb"
        )
        following._make(db._engine, view)
    assert list(db.catalog.tables) == ["a"]
    db.apply(a=ef.Delta(deletes=[(1, 1, 5, 0.5)]))
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT SUM(v) AS s FROM a")
    assert db.view("w").to_pylist() == [{"s": 10}]
    assert db.view("w").verify().num_rows == 0


def _readable(db: ef.Database) -> Any:
    from everfresh.statements.run import _Readable

    return _Readable(db._engine)


def test_views_over_matrices_and_their_views() -> None:
    with ef.connect(engine="local") as db:
        rng = np.random.default_rng(0)
        db.create_matrix("A", np.eye(3))
        db.create_matrix_view("B", "B := A A;")
        db.sql("CREATE TABLE pts (k BIGINT PRIMARY KEY, x DOUBLE)")
        ones = ef.linalg.columns("pts", index="k", values=[1, "x"])
        db.create_matrix_view("gram", "G := X' X;", inputs={"X": ones})
        total = "SELECT SUM(b.c0 + gram.c0) AS s FROM b JOIN gram USING (row)"
        db.sql(f"CREATE MATERIALIZED VIEW trace AS {total}")
        db.sql("CREATE MATERIALIZED VIEW big AS SELECT A.row, A.c1 FROM A WHERE A.c1 > 0.5")
        for turn in range(8):
            i, j = rng.integers(0, 3, 2)
            db.apply(A=ef.linalg.EntryUpdate(int(i), int(j), float(rng.normal())), pts=[(turn, float(turn))])
            for name in ("trace", "big"):
                assert db.view(name).verify().num_rows == 0
            want = db.sql(total).fetchall()
            assert db.view("trace").to_arrow().column("s")[0].as_py() == pytest.approx(want[0][0])


@given(st.data())
def test_random_batches_equal_recomputation(data: st.DataObject) -> None:
    """Of inserts, deletes and inserts again, several in one batch, and nothing at all."""
    with Followed().connect() as db:
        suite = Followed()
        suite.make(db)
        rng = random.Random(data.draw(st.integers(0, 1 << 30)))
        for _ in range(data.draw(st.integers(1, 3))):
            db.apply(suite.change(db, rng) if rng.random() < 0.9 else {})
        suite.check(db)
