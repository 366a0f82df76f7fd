"""Arrays in a database: the suite of domains, statements, and arrays beside tables."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everfresh as ef
from everfresh.testing.domain_suite import DomainSuite
from everfresh.testing.engine.suite_base import refused


class ArraySuite(DomainSuite):
    """One array with several tuples in a cell, and one that is UNIQUE."""

    tolerance = 0

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **{"options": self.options(), **kwargs})

    def make(self, db: ef.Database) -> None:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY)")
        db.sql("CREATE ARRAY a <v: INT, u: VARCHAR> [i=1,20,4; j=-5,5,3]")
        db.sql("CREATE UNIQUE ARRAY once <x: DOUBLE> [n=0,99,10] WITH (placement = 'hilbert')")

    def remake(self, db: ef.Database, name: str) -> None:
        db.sql(f'CREATE ARRAY "{name}" <v: INT> [i=1,2,1]')

    def cells(self, rng: random.Random, count: int) -> list[tuple[Any, ...]]:
        words = ["x", "", None]
        return [
            (rng.randrange(1, 21), rng.randrange(-5, 6), rng.randrange(3), rng.choice(words))
            for _ in range(count)
        ]

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        there = [tuple(row.values()) for row in db.array("a").to_pylist()]
        gone = rng.sample(there, min(len(there), rng.randrange(5)))
        free = sorted(set(range(100)) - {row["n"] for row in db.array("once").to_pylist()})
        return {
            "a": ef.Delta(inserts=self.cells(rng, 1 + rng.randrange(6)), deletes=gone),
            "once": [(n, rng.random()) for n in rng.sample(free, 2)],
            "t": [(db.epoch,)],
        }

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        return [
            {"t": [(1000,)], "a": [(21, 0, 1, "outside")]},
            {"t": [(1000,)], "a": ef.Delta(deletes=[(1, 1, 9, "not there")])},
            {"t": [(1000,)], "once": [(5, 1.0), (5, 2.0)]},
            {"t": [(1000,)], "a": [(1, 1, "no number", "x")]},
            {"t": [(None,)], "a": [(1, 1, 1, "x")]},
        ]


class TestArrays(ArraySuite):
    """On the local engine."""


@pytest.fixture
def db() -> Any:
    with ef.connect(engine="local") as db:
        db.sql("CREATE ARRAY a <v: INT, u: DOUBLE> [i=1,8,2; j=1,8,2]")
        yield db


def test_random_cells_against_a_bag(db: ef.Database) -> None:
    rng, bag = random.Random(3), Counter[tuple[Any, ...]]()
    for size in (1, 7, 300):
        for _ in range(5):
            new = [
                (rng.randrange(1, 9), rng.randrange(1, 9), rng.randrange(4), rng.choice([0.5, None]))
                for _ in range(size)
            ]
            gone = rng.sample(sorted(bag.elements(), key=repr), min(bag.total(), size // 2))
            db.apply(a=ef.Delta(inserts=new, deletes=gone))
            bag.update(new)
            bag.subtract(gone)
            found = Counter(tuple(row.values()) for row in db.array("a").to_pylist())
            assert found == +bag
            coords = [row[:2] for row in found]
            assert all(1 <= i <= 8 and 1 <= j <= 8 for i, j in coords)


def test_statements(db: ef.Database) -> None:
    epoch = db.epoch
    dense = np.ma.masked_less(np.arange(64.0).reshape(8, 8), 60)
    db.sql(
        "CREATE ARRAY d <x: DOUBLE> [i=1,8,2; j=1,8,2]; CREATE TABLE names (i BIGINT PRIMARY KEY, s VARCHAR)"
    )
    db.apply(
        d=dense,
        a=[(1, 1, 5, 0.5), (1, 2, 7, None), (2, 2, 3, 1.5), (8, 8, 1, 9.0)],
        names=[(1, "one"), (8, "eight")],
    )
    assert db.epoch == epoch + 3
    assert db.sql("SHOW ARRAYS").fetchall() == [("a",), ("d",)]
    around = db.sql("apply(A, COUNT(*) AS n, L1(1))")
    assert [row[2] for row in around] == [2, 3, 2, 1]
    pairs = db.sql(
        "SELECT x.i, x.j, COUNT(*) AS n FROM a AS x SIMILARITY JOIN a AS y ON (y.i = x.i AND y.j = x.j) "
        "WITH SHAPE LINF(1) WITHOUT CENTER WHERE y.v > 4 GROUP BY x.i, x.j"
    )
    assert sorted(row[2] for row in pairs) == [1, 1, 2]
    # SQL reads arrays as tables, beside tables; names in any case.
    assert db.sql("SELECT s, SUM(v) AS v FROM A JOIN names USING (i) GROUP BY s ORDER BY s").fetchall() == [
        ("eight", 1),
        ("one", 12),
    ]
    assert db.sql("DESCRIBE a")["column_name"] == ["i", "j", "v", "u"]
    db.sql("SELECT i, j, v INTO small [i=1,8,4; j=1,8,4] FROM a WHERE v > 3 AND i < 3")
    assert db.array("small").schema.ddl == "CREATE ARRAY small <v: INTEGER> [i=1,8,4; j=1,8,4]"
    assert len(db.array("small")) == 2
    assert "4 cells in" in str(db.sql("EXPLAIN A"))
    assert repr(db.arrays["d"]).startswith("<array d [i=1,8,2; j=1,8,2]: 4 cells")
    assert db.sql("DROP ARRAY IF EXISTS nothing") == db.epoch
    assert db.sql("CREATE ARRAY IF NOT EXISTS A <other: INT> [k=1,2,1]") == db.epoch
    assert db.array("a").schema.dimension_names == ("i", "j")
    assert db.sql("CREATE ARRAY IF NOT EXISTS fresh <v: INT> [k=1,2,1]") == db.epoch
    assert len(db.array("fresh")) == 0
    db.sql("DROP ARRAY IF EXISTS fresh")
    assert db.sql("SELECT i, COUNT(*) AS n FROM FILTER(a, a.v > 3) GROUP BY i").fetchall() == [(1, 2)]
    db.sql("DROP ARRAY d")
    db.array("small").drop()
    assert list(db.arrays) == ["a"]


def test_mistakes(db: ef.Database) -> None:
    db.apply(a=[(1, 1, 5, 0.5)])
    db.sql("CREATE TABLE t (k BIGINT)")
    epoch = db.epoch
    wrong: list[tuple[str, str, tuple[str, ...]]] = [
        ("CREATE ARRAY t <v: INT> [i=1,8,2]", ef.Code.EXISTS, ("'t'",)),
        ("CREATE ARRAY IF NOT EXISTS t <v: INT> [i=1,8,2]", ef.Code.EXISTS, ("'t'",)),
        ("CREATE TABLE a (k BIGINT)", ef.Code.EXISTS, ("'a'",)),
        ("CREATE ARRAY b <v: INT> [i=8,1,2]", ef.Code.ARGUMENT, ("ends at 1",)),
        ("CREATE ARRAY b <v: NOTHING> [i=1,8,2]", ef.Code.UNSUPPORTED, ("nothing",)),
        ("DROP ARRAY b", ef.Code.NOT_FOUND, ("'b'",)),
        ("APPLY(a, SUM(v) AS s, [1:2])", ef.Code.ARGUMENT, ("dimension",)),
        ("APPLY(b, SUM(v) AS s, L1(1))", ef.Code.NOT_FOUND, ("b",)),
        ("SELECT v INTO a FROM a", ef.Code.EXISTS, ("'a'",)),
    ]
    for statement, code, said in wrong:
        with refused(code, *said):
            db.sql(statement)
    with refused(ef.Code.UNSUPPORTED, "key", "insert"):
        db.apply(a=ef.Delta(updates=[{"i": 1, "j": 1, "v": 3}]))
    with refused(ef.Code.NOT_FOUND, "no array 'nope'", "arrays are: a"):
        db.array("nope")
    assert db.epoch == epoch
    assert len(db.array("a")) == 1


def test_views_of_matrices_are_read_by_sql() -> None:
    """Whatever lives in epochs is a relation."""
    with ef.connect(engine="local") as db:
        db.create_matrix("A", np.eye(2) * 3)
        db.create_matrix_view("B", "B := A A;")
        assert db.sql("SELECT row, c1 FROM b ORDER BY row").fetchall() == [(0, 0.0), (1, 9.0)]
        assert db.sql("SELECT COUNT(*) AS n FROM A").fetchall() == [(2,)]
