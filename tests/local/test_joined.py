"""Joins maintained by maps: equal to the reference evaluator and to DuckDB, and touching only what changes.

Catches: a cross term too many or too few when two tables change in one batch, the quadratic term of a
self-join, NULLs that join, a slice that does not follow its map, an auxiliary map that drifts unseen.
"""

from __future__ import annotations

from random import Random

import pytest

import everfresh as ef
from everfresh.calculus import Database, degree, evaluate
from everfresh.expr import Made
from everfresh.local.batch.recompute import relation
from everfresh.testing.oracle import DuckOracle, assert_same

DDL = """
CREATE TABLE r (a INTEGER, b INTEGER);
CREATE TABLE s (b INTEGER, c INTEGER NOT NULL);
CREATE TABLE t (c INTEGER, d DECIMAL(9,2), e VARCHAR);
"""
VIEWS = {
    "two": "SELECT r.a, SUM(s.c) AS x, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "chain": "SELECT r.a, t.e, SUM(t.d) AS x FROM r, s, t "
    "WHERE r.b = s.b AND s.c = t.c AND t.d > 1 GROUP BY r.a, t.e",
    "bag": "SELECT r.a, t.d + 1 AS x FROM r JOIN s USING (b) JOIN t USING (c)",
    "both_sides": "SELECT SUM(r.a * t.d) AS x, AVG(s.c) AS y FROM r JOIN s ON r.b = s.b JOIN t ON t.c = s.c",
    "itself": "SELECT x.a, COUNT(*) AS n FROM r x JOIN r y ON x.b = y.b GROUP BY x.a",
    "thrice": "SELECT COUNT(*) AS n FROM r x JOIN r y ON x.b = y.b JOIN r z ON y.a = z.b",
    "less": "SELECT r.a, s.c FROM r JOIN s ON r.b < s.b",
    "crossed": "SELECT r.a, COUNT(*) AS n FROM r, t GROUP BY r.a",
    "triangle": "SELECT COUNT(*) AS n FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c AND t.d = r.a",
    "distinct": "SELECT DISTINCT r.a, s.c FROM r JOIN s ON r.b = s.b",
    "having": "SELECT s.c, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY s.c HAVING COUNT(*) > 1",
    "constants": "SELECT r.a FROM r JOIN s ON r.b = s.b AND s.c = 2 WHERE r.a IS NOT NULL AND 1 = 1",
}


def rows(random: Random, table: str) -> tuple[object, ...]:
    key = random.choice([None, 1, 2, 3])
    if table == "r":
        return (random.choice([None, 1, 2]), key)
    if table == "s":
        return (key, random.choice([1, 2, 3]))
    from decimal import Decimal

    return (key, random.choice([None, Decimal("1.00"), Decimal("2.50")]), random.choice([None, "x", "y"]))


def histories(seed: int, batches: int):
    random = Random(seed)
    live: dict[str, list[tuple[object, ...]]] = {"r": [], "s": [], "t": []}
    for number in range(batches):
        batch = {}
        for table in random.sample(list(live), random.randrange(1, 4)):
            go = [row for row in live[table] if random.random() < (1 if number == batches - 2 else 0.4)]
            for row in go:
                live[table].remove(row)
            come = [rows(random, table) for _ in range(random.randrange(5))]
            live[table] += come
            batch[table] = (come, go)
        yield batch


def check_maps(db: ef.Database) -> None:
    """Every map, also those beside the views, equals its definition by the reference evaluator."""
    engine = db._engine
    tables = {n: relation(t.schema, *t.rows()) for n, t in engine._state.tables.items()}
    for name, store in engine._state.stores().items():
        expected = {
            key: weight[0]
            for key, weight in evaluate(store.target.definition, Database(tables=tables)).items()
            if weight[0]
        }
        slots = store.pool.live()
        vectors = list(store.codec.vectors(store.pool.keys_at(slots)).values())
        keys = list(zip(*(v.to_pylist() for v in vectors), strict=True)) if vectors else [()] * len(slots)
        actual = dict(zip(keys, store.pool.gather(slots).n.tolist(), strict=True))
        assert actual == expected, name


@pytest.mark.parametrize("seed", range(6))
def test_joins_follow_their_tables(seed: int) -> None:
    oracle = DuckOracle()
    with ef.connect(engine="local") as db:
        db.sql(DDL)
        for schema in db.catalog.tables.values():
            oracle.create(schema)
        for number, (name, query) in enumerate(VIEWS.items()):
            if number % 2 == 0:
                db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
        for number, batch in enumerate(histories(seed, 8)):
            db.apply({t: ef.Delta(inserts=come, deletes=go) for t, (come, go) in batch.items()})
            for table, (come, go) in batch.items():
                oracle.apply(table, come, go)
            if number == 3:
                for name, query in VIEWS.items():
                    if f"v_{name}" not in db.views:
                        db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
            for view in db.views:
                actual = db.view(view).to_arrow()
                expected = oracle.query(VIEWS[view.removeprefix("v_")]).cast(actual.schema)
                assert_same(expected, actual, f"{view} after batch {number} of seed {seed}")
            check_maps(db)
        assert all(
            "incremental" in db.view(v).explain() and not db.catalog.views[v].compiled.reevaluated
            for v in db.views
        )
        assert all(db.view(v).verify().num_rows == 0 for v in db.views)
    oracle.close()


def test_the_maps_of_the_thesis() -> None:
    """Example 2.1.2: R(A,B) * S(B,C) * T(C,D) grouped by B keeps M_ST(B), M_RS(B,C), M_R(B), M_T(C),
    M_S(B,C)."""
    with ef.connect(engine="local") as db:
        db.sql(
            "CREATE TABLE r (a INTEGER NOT NULL, b INTEGER NOT NULL);"
            "CREATE TABLE s (b INTEGER NOT NULL, c INTEGER NOT NULL);"
            "CREATE TABLE t (c INTEGER NOT NULL, d INTEGER NOT NULL)"
        )
        db.sql(
            "CREATE MATERIALIZED VIEW q AS SELECT r.b, COUNT(*) AS n FROM r, s, t "
            "WHERE r.b = s.b AND s.c = t.c GROUP BY r.b"
        )
        maps = db.catalog.views["q"].compiled.program.maps
        assert [(m.name, [v.name for v in m.keys]) for m in maps] == [
            ("q", ["b"]),
            (Made("q#1"), ["b"]),
            (Made("q#2"), ["b"]),
            (Made("q#3"), ["c"]),
            (Made("q#4"), ["b", "c"]),
            (Made("q#5"), ["b", "c"]),
        ]
        assert [degree(m.definition) for m in maps] == [3, 2, 1, 1, 2, 1]


def test_a_batch_touches_what_it_changes() -> None:
    """The entries that statements look at do not grow with the tables."""
    seen = []
    for size in (100, 1000):
        with ef.connect(engine="local") as db:
            db.sql(DDL)
            db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['chain']}")
            db.apply(
                r=[(i % 7, i) for i in range(size)],
                s=[(i, i) for i in range(size)],
                t=[(i, 2, "x") for i in range(size)],
            )
            db.apply(r=[(1, 5)], s=ef.Delta(deletes=[(6, 6)]), t=[(8, 3, "y")])
            seen.append(db._engine._state.visited)
    assert seen[0] == seen[1]
    assert sum(seen[0].values()) > 0


def test_joins_survive_reopening_and_snapshots(tmp_path) -> None:
    options = ef.Options(snapshot_epochs=3)
    with ef.connect(tmp_path / "db", engine="local", options=options) as db:
        db.sql(DDL)
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
        history = list(histories(3, 10))
        for batch in history[:6]:
            db.apply({t: ef.Delta(inserts=come, deletes=go) for t, (come, go) in batch.items()})
    with ef.connect(tmp_path / "db", engine="local", options=options) as db:
        check_maps(db)
        for batch in history[6:]:
            db.apply({t: ef.Delta(inserts=come, deletes=go) for t, (come, go) in batch.items()})
        check_maps(db)
        db.sql("ALTER TABLE t ADD COLUMN f INTEGER")
        db.apply(t=[(1, 2, "x", 7)], r=[(1, 1)], s=[(1, 1)])
        check_maps(db)
        db.sql("DROP MATERIALIZED VIEW v_chain")
        check_maps(db)
        kept = {m.name for view in db.catalog.views.values() for m in view.compiled.program.maps}
        assert db._engine._state.stores().keys() == kept  # those that others share live on
        assert all(db.view(v).verify().num_rows == 0 for v in db.views)


def test_a_refused_batch_leaves_maps_and_slices_as_they_were() -> None:
    with ef.connect(engine="local") as db:
        db.sql(DDL)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT r.a, 10 // s.c AS x FROM r JOIN s ON r.b = s.b")
        db.apply(r=[(1, 1)], s=[(1, 2)])
        before = db.view("v").to_pylist()
        with pytest.raises(ef.EverfreshError) as caught:
            db.apply(r=[(2, 1)], s=[(1, 0)])
        assert caught.value.code == ef.Code.DIVISION_BY_ZERO
        assert db.view("v").to_pylist() == before
        check_maps(db)
        db.apply(r=[(2, 1)])
        assert len(db.view("v")) == 2
        check_maps(db)
