"""Views of arrays in a database: the suite of domains, statements, views of views."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.testing.domain_suite import DomainSuite
from everfresh.testing.engine.suite_base import refused

NEAR = "a AS x SIMILARITY JOIN a AS y ON (x.i = y.i) AND (x.j = y.j) WITH SHAPE LINF(1)"


class ArrayViewSuite(DomainSuite):
    """A self-join, a join of two arrays, operators behind, and a view of a view."""

    kills = 2
    strikes = 12
    strikes_at_ends = 4

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **{"options": self.options(), **kwargs})

    def make(self, db: ef.Database) -> None:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY)")
        db.sql(
            "CREATE ARRAY a <v: INT, u: VARCHAR> [i=1,20,4; j=-5,5,3]; CREATE ARRAY b <w: DOUBLE> [i=0,30,7]"
        )
        db.sql(
            f"CREATE ARRAY VIEW near AS SELECT COUNT(*) AS n, SUM(y.v) AS s, MIN(y.u) AS u FROM {NEAR} "
            "GROUP BY x.i, x.j"
        )
        db.sql(
            "CREATE ARRAY VIEW other [i=1,20,9] AS SELECT AVG(b.w) AS m, MAX(b.w - a.v) AS d FROM a "
            "SIMILARITY JOIN b ON b.i = a.i WITH SHAPE [-2:0] GROUP BY a.i"
        )
        db.sql("CREATE ARRAY VIEW rough AS REGRID(FILTER(near, n > 1), 2, 2, SUM(n) AS n)")
        db.sql(
            "CREATE ARRAY VIEW again AS SELECT MAX(r.n) AS most FROM near AS x SIMILARITY JOIN rough AS r "
            "ON (r.i = x.i AND r.j = x.j) WITH SHAPE L1(1) GROUP BY x.j"
        )

    def remake(self, db: ef.Database, name: str) -> None:
        found = db._engine.objects.find("a")
        if found is None:
            db.sql(f'CREATE ARRAY "{name}" <v: INT> [i=1,2,1]')
        else:
            db.sql(f'CREATE ARRAY VIEW "{name}" AS PROJECT(a, v)')

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        there = [tuple(row.values()) for row in db.array("a").to_pylist()]
        gone = rng.sample(there, min(len(there), rng.randrange(5)))
        new = [
            (rng.randrange(1, 21), rng.randrange(-5, 6), rng.randrange(3), rng.choice(["x", "", None]))
            for _ in range(3 + rng.randrange(6))
        ]
        return {
            "a": ef.Delta(inserts=new, deletes=gone),
            "b": [(rng.randrange(31), rng.random()) for _ in range(2)],
            "t": [(db.epoch,)],
        }

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        return [
            {"t": [(1000,)], "a": [(21, 0, 1, "outside")]},
            {"a": [(1, 1, 1, "x")], "near": [(1, 1, 1, 1, "x")]},
            {"b": [(1, 1.0)], "a": ef.Delta(deletes=[(1, 1, 9, "not there")])},
        ]


class TestArrayViews(ArrayViewSuite):
    """On the local engine."""


@pytest.fixture
def db() -> Any:
    with ef.connect(engine="local") as db:
        db.sql("CREATE ARRAY a <r: INT, s: INT> [i=1,6,2; j=1,8,2]")
        db.apply(a=[(1, 2, 2, 5), (1, 3, 6, 3), (1, 6, 1, 1), (3, 1, 1, 1), (6, 5, 1, 1), (5, 7, 1, 1)])
        yield db


EXAMPLE = (
    "CREATE ARRAY VIEW v AS SELECT COUNT(*) AS cnt FROM a A1 SIMILARITY JOIN a A2 "
    "ON (A1.i = A2.i) AND (A1.j = A2.j) WITH SHAPE L1(1) GROUP BY A1.i, A1.j"
)


def test_example_1_and_2_of_the_document(db: ef.Database) -> None:
    """Figure 1: eight join cells, two view cells with a count of 2; eleven cells that seven new ones reach,
    in all eight chunks of the view."""
    db.sql(EXAMPLE)
    view = db.view("v")
    rows = view.to_pylist()
    assert sum(row["cnt"] for row in rows) == 8
    assert [(row["i"], row["j"]) for row in rows if row["cnt"] == 2] == [(1, 2), (1, 3)]
    heard: list[Any] = []
    view.on_change(heard.append)
    new = [(2, 1), (2, 3), (1, 5), (4, 2), (4, 4), (5, 4), (5, 6)]
    epoch = db.apply(a=[(i, j, 0, 0) for i, j in new])
    change = heard[0]
    reached = {(row["i"], row["j"]) for row in change.to_pylist()}
    assert reached == {*new, (1, 3), (1, 6), (3, 1), (5, 7)}
    assert len(reached) == 11
    assert len(db.array_views["v"].value.chunks) == 8
    assert sorted(map(str, view.to_arrow(at=epoch - 1).to_pylist())) == sorted(map(str, rows))
    assert view.verify().num_rows == 0


def test_statements(db: ef.Database) -> None:
    db.sql(EXAMPLE)
    assert db.sql("SHOW ARRAY VIEWS").fetchall() == [("v",)]
    assert db.sql("SHOW ARRAYS").fetchall() == [("a",)]
    assert db.sql("DESCRIBE v")["column_name"] == ["i", "j", "cnt"]
    assert db.sql("SELECT SUM(cnt) AS n FROM v").fetchall() == [(8,)]
    assert len(db.sql("FILTER(v, cnt > 1)").fetchall()) == 2  # type: ignore[union-attr]
    assert "d0 x 0 before + 0 x d0" in str(db.sql("EXPLAIN v"))
    assert '"stages"' in db.explain("v", "json")
    assert repr(db.view("v")).startswith("<array view v [i=1,6,2; j=1,8,2]: 6 cells in")
    assert db.array_views["v"].reads == ("a",)
    assert db.array_views["v"].definition.startswith("CREATE ARRAY VIEW v AS SELECT COUNT(*)")
    found = db.statistics()["array"] if "array" in db.statistics() else db._domain("array").statistics()
    assert found["v"]["cells"] == 6
    epoch = db.epoch
    wrong: list[tuple[str, str, tuple[str, ...]]] = [
        (EXAMPLE, ef.Code.EXISTS, ("'v'",)),
        ("DROP ARRAY a", ef.Code.DEPENDENCY, ("v",)),
        ("DROP ARRAY v", ef.Code.NOT_FOUND, ("array view",)),
        ("DROP ARRAY VIEW a", ef.Code.NOT_FOUND, ("array",)),
        ("DROP ARRAY VIEW nope", ef.Code.NOT_FOUND, ("nope",)),
        (EXAMPLE.replace("VIEW v", "VIEW w").replace("a A2", "nope A2"), ef.Code.NOT_FOUND, ("nope",)),
        ("CREATE ARRAY VIEW w [i=1,3,2; j=1,8,2] AS PROJECT(a, r)", ef.Code.ARGUMENT, ("do not hold",)),
    ]
    for statement, code, said in wrong:
        with refused(code, *said):
            db.sql(statement)
    with refused(ef.Code.ARGUMENT, "is a view", "a"):
        db.apply(v=[(1, 1, 1)])
    assert db.epoch == epoch
    assert db.sql("DROP ARRAY VIEW IF EXISTS nope") == epoch
    db.sql("DROP ARRAY VIEW v")
    assert not db.array_views
    db.sql("CREATE ARRAY view <x: INT> [i=1,2,1]")
    assert "view" in db.arrays


def test_a_folder_gives_views_back(tmp_path: Path) -> None:
    """From the log and from a snapshot, sums and extremes to the last bit, wide numbers and words too."""
    for every in (1000, 1):
        path = tmp_path / str(every)
        options = ef.Options(durable=False, snapshot_epochs=every)
        rng = random.Random(4)
        with ef.connect(path, engine="local", options=options) as db:
            db.sql("CREATE ARRAY a <w: DECIMAL(30,0), d: DOUBLE, t: VARCHAR> [i=1,9,2]")
            db.sql(
                "CREATE ARRAY VIEW v AS SELECT SUM(y.w) AS w, AVG(y.d) AS d, MAX(y.t) AS t FROM a AS x "
                "SIMILARITY JOIN a AS y ON x.i = y.i WITH SHAPE [-1:1] GROUP BY x.i"
            )
            for _ in range(5):
                db.apply(
                    a=[(rng.randrange(1, 10), 10**29, rng.random(), rng.choice("abc")) for _ in range(3)]
                )
            expected = db.view("v").to_pylist()
        with ef.connect(path, engine="local", options=options) as db:
            assert db.view("v").to_pylist() == expected
            db.apply(a=[(5, 1, 0.5, "z")])
            assert db.view("v").verify().num_rows == 0
