"""What CREATE, DROP and ALTER leave as it was is taken over: a batch after one costs what it did before."""

from __future__ import annotations

from random import Random

import pytest

import everfresh as ef

TABLES = "CREATE TABLE t (k BIGINT PRIMARY KEY, g INT, x INT); CREATE TABLE u (g INT, y INT)"
VIEWS = [
    "SELECT g, SUM(x) AS s FROM t GROUP BY g",
    "SELECT t.k, u.y FROM t JOIN u ON t.g = u.g",
    "SELECT g, MAX(x) AS m FROM t GROUP BY g HAVING COUNT(*) > 1",
    "SELECT u.y, SUM(t.x) AS s FROM t JOIN u ON t.g = u.g GROUP BY u.y",
    "SELECT k FROM t WHERE x > (SELECT AVG(y) FROM u)",
    "SELECT k, RANK() OVER (PARTITION BY g ORDER BY x) AS r FROM t",
    "SELECT t.k, u.y FROM t LEFT JOIN u ON t.g = u.g AND t.x < u.y",
]


def wiring(db: ef.Database):
    return db._engine._state.wiring  # type: ignore[attr-defined]


def fill(db: ef.Database, rng: Random, start: int) -> None:
    rows = [(start + i, rng.randrange(5), rng.choice([None, *range(9)])) for i in range(12)]
    db.apply(t=rows, u=[{"g": rng.randrange(5), "y": rng.randrange(9)} for _ in range(4)])


def test_a_new_view_leaves_the_others_as_they_were():
    with ef.connect(engine="local", options=ef.Options(compile="off")) as db:
        db.sql(TABLES)
        for i, query in enumerate(VIEWS[:3]):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        fill(db, Random(1), 0)
        before = wiring(db)
        statements, tables = before.statements("t"), dict(before.tables)
        db.sql("CREATE MATERIALIZED VIEW other AS SELECT COUNT(*) AS n FROM u")
        fill(db, Random(2), 100)
        after = wiring(db)
        assert after is not before
        assert after.kept == {"v0", "v1", "v2"}
        assert all(a is b for a, b in zip(after.statements("t"), statements, strict=True))
        assert all(after.tables[name] is rows for name, rows in tables.items())  # with their slices
        assert after.units[: len(before.units)] == before.units


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("DROP MATERIALIZED VIEW v2", {"v0", "v1"}),  # v2 and the unit behind it go
        ("ALTER TABLE u ADD COLUMN z INT", {"v0", "v2"}),
        ("CREATE MATERIALIZED VIEW w AS SELECT s FROM v0", {"v1", "v2"}),  # v0 is read now
        ("CREATE OR REPLACE MATERIALIZED VIEW v0 AS SELECT g FROM t", {"v1", "v2"}),
    ],
)
def test_what_is_touched_is_made_anew(statement: str, kept: set[str]):
    with ef.connect(engine="local", options=ef.Options(compile="off")) as db:
        db.sql(TABLES)
        for i, query in enumerate(VIEWS[:3]):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        fill(db, Random(1), 0)
        assert wiring(db)
        db.sql(statement)
        fill(db, Random(2), 100)
        assert wiring(db).kept <= kept
        assert not [name for name in db.views if db.view(name).verify().num_rows]


@pytest.mark.parametrize("compile_", ["off", "now"])
def test_views_come_and_go_between_batches(compile_: str):
    rng = Random(7)
    rounds = 40 if compile_ == "off" else 5
    with ef.connect(engine="local", options=ef.Options(compile=compile_)) as db:
        db.sql(TABLES)
        number = 0
        for turn in range(rounds):
            if db.views and rng.random() < 0.35:
                name = rng.choice(list(db.views))
                db.sql(f"DROP MATERIALIZED VIEW {name} CASCADE")
            elif rng.random() < 0.9:
                query = rng.choice(VIEWS if compile_ == "off" else VIEWS[:2])
                db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
                number += 1
                if rng.random() < 0.3:
                    db.sql(
                        f"CREATE MATERIALIZED VIEW over{number} AS SELECT COUNT(*) AS n FROM v{number - 1}"
                    )
            elif compile_ == "off":
                db.sql(f"ALTER TABLE u ADD COLUMN extra{turn} INT")
            fill(db, rng, 100 * turn)
            if turn % 3 == 0:
                db.sql("DELETE FROM t WHERE k % 4 = 1")
            assert not [name for name in db.views if db.view(name).verify().num_rows], turn
