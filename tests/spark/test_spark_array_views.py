"""Array views on Spark: what workers keep, join and send equals the query from scratch and the plan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_spark import FakeSession, install

import everfresh as ef

NEAR = "a AS x SIMILARITY JOIN a AS y ON (x.i = y.i) AND (x.j = y.j) WITH SHAPE LINF(1)"


def connect(session: Any, path: Any = None, **options: Any) -> ef.Database:
    chosen = ef.Options(workers=3, durable=False, snapshots="now").with_(**options)
    return ef.connect(path, engine="spark", spark=session, options=chosen)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


@pytest.fixture
def db(session: FakeSession) -> Iterator[ef.Database]:
    with connect(session) as db:
        yield db


def cells(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    return [
        (rng.randrange(1, 21), rng.randrange(-5, 6), rng.choice([None, 1, 2, 7]), rng.choice(["x", "", None, "b"]))
        for _ in range(count)
    ]


def batch(rng: random.Random, there: list[tuple[Any, ...]], most: int = 12) -> ef.Delta:
    """Random cells that come and go; `there` becomes what is there then."""
    gone = rng.sample(there, min(len(there), rng.randrange(most)))
    new = cells(rng, 1 + rng.randrange(most))
    for cell in gone:
        there.remove(cell)
    there += new
    return ef.Delta(inserts=new, deletes=gone)


def measured(db: ef.Database, *views: str) -> None:
    """What workers sent of chunks is what was planned, to the byte."""
    domain = db._domain("array")
    for (view, at), found in domain.measured.items():
        if not views or view in views:
            assert found.links.tolist() == found.plan.links.tolist(), (view, at)


@pytest.mark.parametrize("workers", [1, 3, 8])
@pytest.mark.parametrize("method", ["baseline", "differential", "reassign", "auto"])
def test_views_equal_the_query_after_every_batch(session: FakeSession, method: str, workers: int) -> None:
    rng = random.Random(f"{method} {workers}")
    placement = rng.choice(["round-robin", "hash", "hilbert"])
    with connect(session, workers=workers) as db:
        db.sql(f"CREATE ARRAY a <v: INT, u: VARCHAR> [i=1,20,4; j=-5,5,3] WITH (placement = '{placement}')")
        there = cells(rng, 30)
        db.apply(a=there)
        db.sql(
            f"CREATE ARRAY VIEW near WITH (placement = '{placement}', maintenance = '{method}') AS "
            f"SELECT COUNT(*) AS n, SUM(y.v) AS s, MIN(y.u) AS u, MAX(y.v) AS m FROM {NEAR} GROUP BY x.i, x.j"
        )
        view = db.view("near")
        assert view.verify().num_rows == 0
        for _ in range(4):
            before = session.jobs
            db.apply(a=batch(rng, there))
            assert session.jobs - before <= 2  # one more where an extreme went
            assert view.verify().num_rows == 0
            assert db.array("a").verify().num_rows == 0
            measured(db)
        assert sorted(map(repr, there)) == sorted(repr(tuple(row.values())) for row in db.array("a").to_pylist())
