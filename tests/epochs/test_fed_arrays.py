"""Arrays whose cells are the rows of a table, a SQL view or another object: the suite of domains."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.testing.domain_suite import DomainSuite
from everfresh.testing.engine.suite_base import refused

POINTS = (
    "SELECT CAST(FLOOR(ra) AS BIGINT) AS i, CAST(FLOOR(dec) AS BIGINT) AS j, mag FROM seen WHERE mag < 20"
)


def made(db: ef.Database, over: bool = True) -> None:
    """A table, points of it, an array of them, a view of it, a copy of the view, and SQL over that."""
    db.sql("CREATE TABLE seen (k BIGINT PRIMARY KEY, ra DOUBLE, dec DOUBLE, mag DOUBLE)")
    db.sql(f"CREATE MATERIALIZED VIEW points AS {POINTS}")
    db.sql("CREATE ARRAY sky <mag: DOUBLE> [i=0,9,4; j=0,9,3] FROM points")
    db.sql(
        "CREATE ARRAY VIEW near AS SELECT COUNT(*) AS n, MIN(y.mag) AS mag FROM sky AS x SIMILARITY JOIN "
        "sky AS y ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(1) GROUP BY x.i, x.j"
    )
    db.sql("CREATE UNIQUE ARRAY copy <N: BIGINT> [j=0,9,5; i=0,9,5] FROM near")
    if over:
        db.sql("CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS c FROM copy GROUP BY n")


def changed(db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
    there = [row["k"] for row in db.table("seen").to_pylist()]
    gone = rng.sample(there, min(len(there), rng.randrange(4)))
    first = 1 + max(there, default=0)
    new = [
        (first + k, rng.random() * 9, rng.random() * 9, rng.choice([18.0, 19.5, 25.0]))
        for k in range(2 + rng.randrange(4))
    ]
    return {"seen": ef.Delta(inserts=new, deletes=[{"k": k} for k in gone] or None)}


class FedArraySuite(DomainSuite):
    """One batch moves all of them in one epoch."""

    kills = 1
    strikes = 8
    over = True
    """Whether SQL views may follow what follows SQL views."""

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **{"options": self.options(), **kwargs})

    def make(self, db: ef.Database) -> None:
        made(db, self.over)

    def remake(self, db: ef.Database, name: str) -> None:
        if db.catalog.resolve("seen") is None:
            db.sql("CREATE TABLE seen (k BIGINT PRIMARY KEY, ra DOUBLE, dec DOUBLE, mag DOUBLE)")
        db.sql(f'CREATE ARRAY "{name}" <mag: DOUBLE> [k=0,1000000,10] FROM seen')

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        return changed(db, rng)

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        return [
            {"seen": [(10**5, 11.0, 1.0, 1.0)]},
            {"seen": [(10**5, None, 1.0, 1.0)]},
            {"sky": [(1, 1, 1.0)]},
        ]


class TestFedArrays(FedArraySuite):
    """On the local engine."""


@pytest.fixture
def db() -> Iterator[ef.Database]:
    with ef.connect(engine="local") as db:
        made(db)
        yield db


def test_all_move_in_one_epoch(db: ef.Database) -> None:
    epoch = db.apply(
        seen=[(1, 1.5, 2.5, 18.0), (2, 1.9, 2.1, 19.0), (3, 2.1, 2.0, 30.0), (4, 2.1, 2.0, 17.0)]
    )
    assert db.array("sky").to_pylist() == [
        {"i": 1, "j": 2, "mag": 18.0}, {"i": 1, "j": 2, "mag": 19.0}, {"i": 2, "j": 2, "mag": 17.0}
    ]  # fmt: skip
    assert db.sql("SELECT n, c FROM sizes ORDER BY n").fetchall() == [(3, 1), (6, 1)]
    assert db.sql("UPDATE seen SET mag = 25 WHERE k = 1") == epoch + 1
    assert db.sql("SELECT n, c FROM sizes ORDER BY n").fetchall() == [(2, 2)]
    assert len(db.array("sky").changes(epoch)) == 1
    for name in ("sky", "copy"):
        assert db.array(name).verify().num_rows == 0
    assert "FROM points" in str(db._domain("array").statement_of("sky"))


def test_mistakes(db: ef.Database) -> None:
    db.sql("CREATE TABLE plain (k BIGINT PRIMARY KEY)")
    epoch = db.epoch
    wrong: list[tuple[str, str, tuple[str, ...]]] = [
        ("CREATE ARRAY a <mag: DOUBLE> [i=0,9,3] FROM nope", ef.Code.NOT_FOUND, ("nope",)),
        ("CREATE ARRAY a <mag: DOUBLE> [i=0,9,3] FROM plain", ef.Code.NOT_FOUND, ("no column 'i'",)),
        ("CREATE ARRAY sky <mag: DOUBLE> [i=0,9,3; j=0,9,3] FROM points", ef.Code.EXISTS, ("sky",)),
        ("DROP VIEW points", ef.Code.DEPENDENCY, ("sky",)),
        ("DROP TABLE seen", ef.Code.DEPENDENCY, ("points",)),
        ("DROP ARRAY sky", ef.Code.DEPENDENCY, ("sky",)),
    ]
    for statement, code, said in wrong:
        with refused(code, *said):
            db.sql(statement)
    with refused(ef.Code.ARGUMENT, "rows of 'points'"):
        db.apply(sky=[(1, 1, 1.0)])
    assert db.epoch == epoch
    db.sql("DROP MATERIALIZED VIEW points CASCADE")
    assert not db.arrays
    assert not db._domain("array").sources
