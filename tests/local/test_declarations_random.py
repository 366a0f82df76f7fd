"""CHECK and generated columns against DuckDB: random statements and batches, same verdicts, same rows.

Mutations that it catches: a generated column that an update, an upsert or a batch leaves as it was; a CHECK
that refuses NULL.
"""

from __future__ import annotations

import random

import duckdb
import pytest

import everfresh as ef
from everfresh.testing.oracle import assert_rows

_TABLE = """CREATE TABLE t (k BIGINT PRIMARY KEY, late AS (total * 2), a INTEGER CHECK (a <> 3), s VARCHAR,
    total INTEGER AS (a + b), b INTEGER, name VARCHAR AS (s || '/' || total),
    CONSTRAINT near CHECK (a + b < 12))"""
_VIEWS = {
    "v": "SELECT late, COUNT(*) AS n, SUM(a) AS s FROM t GROUP BY late",
    "w": "SELECT x.k, y.name FROM t AS x JOIN t AS y ON x.total = y.b",
}


def _value(rng: random.Random, most: int) -> str:
    return "NULL" if rng.random() < 0.15 else str(rng.randrange(most))


def _row(rng: random.Random) -> str:
    word = rng.choice(["NULL", "'x'", "'y'"])
    return f"({rng.randrange(12)}, {_value(rng, 8)}, {word}, {_value(rng, 8)})"


def _statement(rng: random.Random) -> str:
    rows = ", ".join(
        {row.split(",")[0]: row for row in (_row(rng) for _ in range(rng.choice([1, 1, 3])))}.values()
    )
    where = rng.choice(["late > 8", "k % 3 = 1", "name LIKE 'x%'", "total IS NULL", "k = 5"])
    return rng.choice(
        [
            f"INSERT INTO t VALUES {rows}",
            f"INSERT INTO t VALUES {rows} ON CONFLICT DO UPDATE SET a = excluded.a",
            f"INSERT INTO t VALUES {rows} ON CONFLICT DO NOTHING",
            f"UPDATE t SET a = {_value(rng, 8)} WHERE {where}",
            f"UPDATE t SET b = late - total, s = name WHERE {where}",
            f"DELETE FROM t WHERE {where}",
        ]
    )


@pytest.mark.parametrize("seed", range(6))
def test_statements(seed: int) -> None:
    rng, mirror = random.Random(seed), duckdb.connect()
    refused = 0
    with ef.connect(engine="local") as db:
        db.sql(_TABLE)
        mirror.execute(_TABLE)
        for name, query in _VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for _ in range(60):
            text = _statement(rng)
            try:
                mirror.execute(text)
            except duckdb.ConstraintException:
                refused += 1
                with pytest.raises(ef.EverfreshError) as caught:
                    db.sql(text)
                assert caught.value.code in (ef.Code.CHECK, ef.Code.DUPLICATE_KEY), text
            else:
                db.sql(text)
            assert_rows(db.table("t"), *mirror.execute("FROM t").fetchall())
        for name, query in _VIEWS.items():
            assert_rows(db.view(name), *mirror.execute(query).fetchall())
    assert refused


@pytest.mark.parametrize("size", [1, 7, 100])
def test_batches(size: int) -> None:
    rng, mirror = random.Random(size), duckdb.connect()
    with ef.connect(engine="local") as db:
        db.sql(_TABLE)
        mirror.execute(_TABLE)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {_VIEWS['v']}")
        known: dict[int, tuple[int | None, str | None, int | None]] = {}
        refused = 0
        for _ in range(max(12, 200 // size)):
            then = dict(known)
            delta: dict[str, dict[int, dict[str, object]]] = {"inserts": {}, "updates": {}, "deletes": {}}
            for k in rng.sample(range(400), size):
                a, b = (
                    rng.choice([None, 1, 2, 4, 5] if rng.random() > 0.2 / size else [3, 11]) for _ in range(2)
                )
                if k not in known:
                    then[k] = a, "x", b
                    delta["inserts"][k] = {"k": k, "a": a, "s": "x", "b": b}
                elif rng.random() < 0.6:
                    then[k] = a, known[k][1], known[k][2]
                    delta["updates"][k] = {"k": k, "a": a}
                else:
                    del then[k]
                    delta["deletes"][k] = {"k": k}
            change = ef.Delta(**{op: list(rows.values()) for op, rows in delta.items() if rows})
            if all(a != 3 and (a is None or b is None or a + b < 12) for a, _, b in then.values()):
                known = then
                db.apply(t=change)
            else:
                refused += 1
                with pytest.raises(ef.EverfreshError) as caught:
                    db.apply(t=change)
                assert caught.value.code == ef.Code.CHECK
        assert known
        assert refused
        rows = [(k, *row) for k, row in known.items()]
        mirror.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        assert_rows(db.table("t"), *mirror.execute("FROM t").fetchall())
        assert_rows(db.view("v"), *mirror.execute(_VIEWS["v"]).fetchall())
