"""Array views on Spark: what workers keep, join and send equals the query from scratch and the plan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
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
        (
            rng.randrange(1, 21),
            rng.randrange(-5, 6),
            rng.choice([None, 1, 2, 7]),
            rng.choice(["x", "", None, "b"]),
        )
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
        assert sorted(map(repr, there)) == sorted(
            repr(tuple(row.values())) for row in db.array("a").to_pylist()
        )


SHAPES = ["L1(1)", "LINF(1)", "LINF(1) WITHOUT CENTER", "[-2:0, 0:1]", "[*, 0:0]", "L0"]
AGGREGATES = [
    "COUNT(*) AS n",
    "SUM(y.v) AS s, AVG(y.w) AS m, MIN(y.u) AS least, MAX(x.w) AS own",
    "SUM(x.v * y.v) AS s, MIN(x.v - y.v) AS d, COUNT(*) FILTER (WHERE y.v > 1) AS big",
    "SUM(y.d) AS s, AVG(y.d) AS m, MAX(y.t) AS last",
]
ATTRIBUTES = "v: INT, w: DOUBLE, u: VARCHAR, d: DECIMAL(30,2), t: DATE"


def any_cells(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    def one() -> tuple[Any, ...]:
        w = rng.choice([None, 0.1, -2.5, 1e17, float("nan"), float("inf")])
        d = rng.choice([None, Decimal(10**25), Decimal("-0.25")])
        t = rng.choice([None, date(2026, 11, 19), date(1969, 1, 2)])
        at = rng.randrange(1, 9), rng.randrange(-3, 4)
        return (*at, rng.choice([None, 1, -7]), w, rng.choice(["x", "", None]), d, t)

    return [one() for _ in range(count)]


@pytest.mark.parametrize("seed", range(8))
def test_shapes_aggregates_and_chains(session: FakeSession, seed: int) -> None:
    """Self-joins, joins of two arrays, chains of three, by any dimensions, with conditions: as on the local
    engine, batch after batch, now and as they were."""
    rng = random.Random(seed)
    shape, items = SHAPES[seed % len(SHAPES)], AGGREGATES[seed % len(AGGREGATES)]
    right = rng.choice("ab")
    on = "(x.i = y.i) AND (x.j = y.j)"
    chain = seed % 4 == 3
    more = f" SIMILARITY JOIN b AS z ON {on.replace('y.', 'z.').replace('x.', 'y.')} WITH SHAPE L1(1)"
    where = rng.choice(["", "WHERE x.v > 0", "WHERE x.v >= y.v"])
    having = rng.choice(["", " HAVING COUNT(*) > 1"])
    box, group = rng.choice([("", "x.i, x.j"), (" [j=-3,3,3]", "y.j"), ("", "x.i, y.j")])
    method = rng.choice(["baseline", "differential", "reassign", "auto"])
    text = (
        f"CREATE ARRAY VIEW w{box} WITH (maintenance = '{method}') AS SELECT {items} FROM a AS x "
        f"SIMILARITY JOIN {right} AS y ON {on} WITH SHAPE {shape}{more if chain else ''} {where} "
        f"GROUP BY {group}{having}"
    )
    with connect(session, workers=rng.randint(1, 5)) as db, ef.connect(engine="local") as local:
        there: dict[str, list[Any]] = {"a": any_cells(rng, 12), "b": any_cells(rng, 12)}
        for one in (db, local):
            for name, chunks in (("a", "3;2"), ("b", "3;2" if seed % 2 else "4;4")):
                i, j = chunks.split(";")
                one.sql(f"CREATE ARRAY {name} <{ATTRIBUTES}> [i=1,8,{i}; j=-3,3,{j}]")
            one.apply(there)
            one.sql(text)
        for _ in range(3):
            changes = {}
            for name, rows in there.items():
                gone = rng.sample(rows, min(len(rows), rng.randrange(8)))
                new = any_cells(rng, rng.randrange(8)) + gone[:1]
                for cell in gone:
                    rows.remove(cell)
                rows += new
                changes[name] = ef.Delta(inserts=new, deletes=gone)
            assert db.apply(changes) == local.apply(changes)
            measured(db)
            for at in (None, db.epoch - 1):
                found, wanted = (one.view("w").to_arrow(at=at) for one in (db, local))
                assert bag(found) == bag(wanted), text
            found, wanted = (one.view("w").changes(db.epoch - 1) for one in (db, local))
            assert bag(found) == bag(wanted), text


def bag(table: Any) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_views_of_views_and_operators(db: ef.Database) -> None:
    """Operators behind a join, a view of views, SQL over them: all move in one epoch."""
    rng = random.Random(5)
    db.sql("CREATE ARRAY a <v: INT, u: VARCHAR> [i=1,20,4; j=-5,5,3]")
    there = cells(rng, 20)
    db.apply(a=there)
    db.sql(f"CREATE ARRAY VIEW near AS SELECT COUNT(*) AS n, MAX(y.v) AS m FROM {NEAR} GROUP BY x.i, x.j")
    db.sql("CREATE ARRAY VIEW rough AS REGRID(FILTER(near, n > 1), 2, 2, SUM(n) AS n)")
    db.sql("CREATE ARRAY VIEW smooth [i=1,20,7; j=-5,5,5] AS APPLY(PROJECT(near, m), AVG(m) AS m, L1(1))")
    db.sql(
        "CREATE ARRAY VIEW again AS SELECT MAX(r.n) AS most, COUNT(*) AS c FROM near AS x SIMILARITY JOIN "
        "rough AS r ON (r.i = x.i AND r.j = x.j) WITH SHAPE LINF(2) GROUP BY x.j"
    )
    db.sql(
        "CREATE ARRAY VIEW both AS SELECT COUNT(*) AS c, SUM(o.n) AS s FROM a AS x SIMILARITY JOIN near AS y "
        "ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(1) SIMILARITY JOIN near AS o "
        "ON (o.i = y.i AND o.j = y.j) WITH SHAPE L1(1) GROUP BY x.i"
    )
    for _ in range(4):
        db.apply(a=batch(rng, there))
        for name, view in db.array_views.items():
            assert view.verify().num_rows == 0, name
        measured(db)
    assert "rough" in db.statistics()["array"] if "array" in db.statistics() else True
    assert db._domain("array").statistics()["rough"]["reads"] == ["near"]
    for name in db.array_views:
        assert str(db.sql(f"EXPLAIN {name}")).startswith("CREATE ARRAY VIEW")
    assert "auxiliary view" in db.explain("both")
    picture = db.array_views["near"].svg("n")
    assert [f"worker {worker}: " in picture for worker in range(4)] == [True, True, True, False]
    db._drop("a", cascade=True)
    assert not db.array_views
    assert not db._domain("array").kept_of


def test_chunks_move_to_where_they_are_needed(session: FakeSession, tmp_path: Path) -> None:
    """Batches at one place again and again: chunks move, and the folder, its past and its snapshot know."""
    for every in (1000, 1):
        path = tmp_path / str(every)
        options = {"workers": 4, "snapshot_epochs": every}
        rng = random.Random(3)
        with connect(session, path, **options) as db:
            db.sql("CREATE ARRAY a <v: INT> [i=1,40,2; j=1,40,2]")
            db.sql(
                "CREATE ARRAY VIEW near WITH (maintenance = 'reassign') AS SELECT COUNT(*) AS n, "
                f"MIN(y.v) AS v FROM {NEAR.replace('LINF(1)', 'LINF(2)')} GROUP BY x.i, x.j"
            )
            there: list[Any] = []
            moved, past = 0, {}
            for _ in range(6):
                gone = rng.sample(there, len(there) // 4)
                new = [(rng.randrange(8, 20), rng.randrange(8, 20), rng.randrange(9)) for _ in range(20)]
                there = [cell for cell in there if cell not in gone] + new
                db.apply(a=ef.Delta(inserts=new, deletes=all_of(gone, db)))
                measured(db)
                moved += len(db._domain("array").measured["near", 1].plan.moved)
                past[db.epoch] = bag(db.array("a").to_arrow()), bag(db.view("near").to_arrow())
                there = [tuple(row.values()) for row in db.array("a").to_pylist()]
            assert moved > 0
            both = db.array("a"), db.view("near")
            assert not any(one.verify().num_rows for one in both)
            for epoch, rows in past.items():
                found = (bag(one.to_arrow(at=epoch)) for one in both)
                assert tuple(found) == rows
        with connect(session, path, **options) as db:
            assert (bag(db.array("a").to_arrow()), bag(db.view("near").to_arrow())) == past[db.epoch]
            db.apply(a=[(10, 10, 5), (1, 1, 1)])
            assert not any(one.verify().num_rows for one in (db.array("a"), db.view("near")))


def all_of(cells: list[Any], db: ef.Database) -> list[Any]:
    """Every tuple that is equal to one of these, as often as it is there."""
    there = [tuple(row.values()) for row in db.array("a").to_pylist()]
    return [cell for cell in there if cell in set(cells)]


def test_costs_are_measured_or_given(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """From many cells on, once, by jobs that send bytes as batches do; or an option says it."""
    from everfresh.arrays.spark.views import domain as spark_views

    monkeypatch.setattr(spark_views, "MANY", 10)
    view = f"CREATE ARRAY VIEW near AS SELECT COUNT(*) AS n FROM {NEAR} GROUP BY x.i, x.j"
    for given in (None, 40.0):
        with connect(session, array_costs=given) as db:
            db.sql("CREATE ARRAY a <v: INT, u: VARCHAR> [i=1,20,4; j=-5,5,3]")
            db.apply(a=cells(random.Random(1), 30))
            db.sql(view)
            before = session.jobs
            domain = db._domain("array")
            costs = domain.costs
            assert costs.t_ntwk > 0
            assert costs.t_cpu > 0
            assert session.jobs == before  # measured before, if at all
            assert (costs.ratio == 40.0) == (given is not None)
            db.apply(a=cells(random.Random(2), 30))
            assert domain.planner("near", 1).options.costs == costs
            assert "a cell that is sent takes" in db.explain("near")
            assert db.view("near").verify().num_rows == 0


@pytest.mark.spark
def test_batches_of_dataframes(spark: Any) -> None:
    """Cells that tasks lay down change arrays that nobody follows, and those that views follow."""
    with ef.connect(spark=spark, options=ef.Options(workers=2, durable=False)) as db:
        for name in "ab":
            db.sql(f"CREATE ARRAY {name} <v: BIGINT> [i=1,20,4; j=-5,5,3]")
        db.sql(f"CREATE ARRAY VIEW near AS SELECT COUNT(*) AS n, MIN(y.v) AS m FROM {NEAR} GROUP BY x.i, x.j")
        rows = [(i, j, i * j) for i in range(1, 9) for j in range(-3, 3)]
        frame = spark.createDataFrame(rows, "i: long, j: long, v: long")
        db.apply(a=frame, b=frame)
        assert len(db.array("b")) == len(rows)
        assert db.view("near").verify().num_rows == 0
        db.apply(a=ef.Delta(deletes=spark.createDataFrame(rows[:7], "i: long, j: long, v: long")))
        assert len(db.array("a")) == len(rows) - 7
        assert db.view("near").verify().num_rows == 0
        measured(db)
