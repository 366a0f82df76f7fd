"""Ad hoc queries, bound from SQL, against DuckDB: every construct over small tables full of NULLs."""

# ruff: noqa: E501  (tables of SQL, one query per line)

from __future__ import annotations

import datetime as dt
import itertools
import random
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.local.adhoc import execute
from everfresh.sql import parse_and_bind
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.types import BIGINT, DATE, DECIMAL, DOUBLE, HUGEINT, INTEGER, VARCHAR, Column, TableSchema

SCHEMAS = {
    "r": TableSchema("r", (Column("a", BIGINT), Column("b", BIGINT), Column("s", VARCHAR))),
    "t": TableSchema("t", (Column("c", BIGINT), Column("d", DECIMAL(8, 2)), Column("e", VARCHAR))),
    "u": TableSchema(
        "u", (Column("f", INTEGER), Column("g", DOUBLE), Column("h", DATE), Column("w", HUGEINT))
    ),
}
VALUES: dict[str, list[Any]] = {
    "BIGINT": [None, 0, 1, 2, 3, -1],
    "INTEGER": [None, 0, 1, 2, 3],
    "VARCHAR": [None, "", "a", "b", "ab", "ä", "Z"],
    "DECIMAL": [None, Decimal("0.00"), Decimal("1.00"), Decimal("-2.50"), Decimal("99.99")],
    "DOUBLE": [None, 0.0, 0.5, 1.0, 2.25, -1.5, 1e10],
    "DATE": [None, dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 3, 1)],
    "HUGEINT": [None, 0, 1, 2, 10**25, -(10**25)],
}


class Catalog:
    """The tables above."""

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        found = self.table(name)
        return None if found is None else ("table", found.columns)

    def table(self, name: str) -> TableSchema | None:
        return SCHEMAS.get(name.lower())

    def names(self) -> list[str]:
        return list(SCHEMAS)

    @property
    def types(self) -> dict[str, Any]:
        return {}

    @property
    def plain(self) -> dict[str, Any]:
        return {}


JOINS = [
    "SELECT * FROM r {kind} JOIN t ON a = c",
    "SELECT * FROM r {kind} JOIN t ON a = c AND b > 0",
    "SELECT * FROM r {kind} JOIN t ON a = c AND d > 0",
    "SELECT * FROM r {kind} JOIN t ON a = c AND b < d",
    "SELECT * FROM r {kind} JOIN t ON a < c",
    "SELECT * FROM r {kind} JOIN t ON a = c AND s = e",
    "SELECT * FROM r {kind} JOIN t ON a IS NOT DISTINCT FROM c",
    "SELECT * FROM r {kind} JOIN t ON s = e OR a = c",
    "SELECT * FROM r {kind} JOIN t ON TRUE",
    "SELECT * FROM r {kind} JOIN t ON FALSE",
    "SELECT * FROM r {kind} JOIN t ON a + 1 = c",
    "SELECT a, f FROM r {kind} JOIN u ON a = f",
    "SELECT a, c, f FROM r {kind} JOIN t ON a = c {kind} JOIN u ON c = f",
    "SELECT a, c, f FROM r {kind} JOIN (t {kind} JOIN u ON c = f) ON a = c",
    "SELECT count(*), count(a), count(c), sum(d) FROM r {kind} JOIN t ON a = c AND d <> 1",
    "SELECT * FROM r {kind} JOIN t ON a = c WHERE e IS NULL",
    "SELECT x.a AS p, y.a AS q FROM r x {kind} JOIN r y ON x.a = y.b AND x.s IS NOT NULL",
]
PLAIN = [
    "SELECT 1 AS one, 'x' AS x",
    "SELECT 1 AS one WHERE 1 = 2",
    "SELECT * FROM r, t, u WHERE a = c AND c = f",
    "SELECT * FROM r, t, u WHERE a = c AND b = f AND g > 0",
    "SELECT a, c, f FROM r, t, u WHERE a + c = f",
    "SELECT a, c FROM r, t",
    "SELECT a, c FROM r, t WHERE (a = c AND b = 1) OR (a = c AND b = 2)",
    "SELECT a, c FROM r CROSS JOIN t WHERE a IS NOT DISTINCT FROM c",
    "SELECT * FROM r JOIN t ON a = c JOIN u ON f = a AND g = 0.5",
    "SELECT x.a FROM r x, r y, r z WHERE x.a = y.b AND y.a = z.b",
    "SELECT a FROM r WHERE a // 2 = 1 AND b <> 0",
    "SELECT a, b, 6 // b AS q FROM r WHERE b <> 0 AND 6 // b > 1",
    "SELECT a, c FROM r, t WHERE b <> 0 AND a = c AND 6 // b > 1",
    "SELECT DISTINCT a FROM r",
    "SELECT DISTINCT a, b FROM r",
    "SELECT DISTINCT s FROM r",
    "SELECT DISTINCT g FROM u",
    "SELECT DISTINCT w FROM u",
    "SELECT DISTINCT a, c FROM r LEFT JOIN t ON a = c",
    "SELECT a, b FROM r ORDER BY ALL LIMIT 3",
    "SELECT a, b, s FROM r ORDER BY a DESC, b NULLS FIRST, s LIMIT 3 OFFSET 1",
    "SELECT a, b, s FROM r ORDER BY s DESC NULLS FIRST, a, b LIMIT 4",
    "SELECT g, f FROM u ORDER BY g DESC, f, h, w LIMIT 4",
    "SELECT w FROM u ORDER BY w LIMIT 4",
    "SELECT h FROM u ORDER BY h DESC LIMIT 2 OFFSET 2",
    "SELECT a FROM r LIMIT 0",
    "WITH q AS (SELECT a, count(*) AS n FROM r GROUP BY a) SELECT x.a, y.n FROM q x, q y WHERE x.n = y.n",
    "WITH q(x) AS (SELECT c FROM t WHERE d > 0), p AS (SELECT x FROM q WHERE x > 0) SELECT p.x AS y, q.x AS z FROM p, q",
    "SELECT * FROM (SELECT a, b FROM r WHERE b > 0) v, (SELECT c FROM t) w WHERE v.a = w.c",
]
SETS = [
    f"SELECT a FROM r {op} SELECT c FROM t"
    for op in ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
]
SETS += [
    f"SELECT a, s FROM r {op} SELECT c, e FROM t"
    for op in ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
]
SETS += [f"SELECT a FROM r {op} SELECT d FROM t" for op in ("UNION", "INTERSECT ALL", "EXCEPT")]
SETS += [
    "SELECT a FROM r UNION ALL SELECT c FROM t EXCEPT ALL SELECT f FROM u",
    "SELECT a FROM r UNION (SELECT c FROM t INTERSECT SELECT f FROM u)",
    "SELECT count(*) FROM (SELECT a FROM r EXCEPT SELECT c FROM t)",
    "SELECT a FROM r UNION SELECT c FROM t ORDER BY 1 LIMIT 3",
]
CALLS = [
    "count(*)",
    "count({})",
    "sum({})",
    "avg({})",
    "min({})",
    "max({})",
    "count(DISTINCT {})",
    "sum(DISTINCT {})",
    "avg(DISTINCT {})",
    "stddev_samp({})",
    "stddev_pop({})",
    "var_samp({})",
    "var_pop({})",
    "bool_and({} > 0)",
    "bool_or({} > 0)",
    "sum({}) FILTER (WHERE a > 0)",
    "count(DISTINCT {}) FILTER (WHERE b IS NOT NULL)",
]
AGGREGATES = [
    f"SELECT {call.format(arg)} AS v FROM {of}{where}"
    for call in CALLS
    for arg, of, where in (
        ("b", "r", ""),
        ("d", "t, r", ""),
        ("g", "u, r", " WHERE f = a"),
        ("b", "r", " WHERE FALSE"),
        ("w", "u, r", " WHERE f = a"),
    )
    if not (arg == "w" and ("std" in call or "var" in call))
]
AGGREGATES += [
    f"SELECT a, {call.format(arg)} AS v FROM {of} GROUP BY a"
    for call in CALLS
    for arg, of in (("b", "r"), ("d", "r, t"), ("g", "r, u"))
]
AGGREGATES += [
    "SELECT min(s), max(s), min(a + b), max(b) FROM r",
    "SELECT a, min(s), max(s) FROM r GROUP BY a",
    "SELECT min(h), max(h), min(w), max(w), min(g), max(g) FROM u",
    "SELECT count(DISTINCT (a, b)) FROM r",
    "SELECT s, count(DISTINCT (a, b)) FROM r GROUP BY s",
    "SELECT a, b, count(*) FROM r GROUP BY a, b HAVING count(*) > 1",
    "SELECT a + b AS k, sum(a) FROM r GROUP BY a + b",
    "SELECT sum(n) FROM (SELECT a, count(*) AS n FROM r GROUP BY a)",
    "SELECT a FROM r GROUP BY a",
    "SELECT count(*) FROM r HAVING count(*) > 100",
    "SELECT g, count(*) FROM u GROUP BY g",
    "SELECT w, h, count(*) FROM u GROUP BY w, h",
    "SELECT sum(a > 0) FROM r",
    "SELECT count(NULL), sum(NULL), avg(NULL), bool_or(NULL) FROM r",
    "SELECT s, sum(d) FROM r LEFT JOIN t ON a = c GROUP BY s HAVING sum(d) > 0 OR s IS NULL",
    "SELECT a, sum(b) FROM r WHERE b > 0 GROUP BY a ORDER BY a LIMIT 2",
    "SELECT sum(b * b) AS x, avg(b + 0.5) AS y FROM r",
]
FRAMES = [
    "",
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
]
WINDOWS = [
    f"SELECT a, b, s, {call} OVER ({by} ORDER BY b, a, s {frame}) AS v FROM r"
    for call in (
        "sum(b)",
        "min(s)",
        "count(*)",
        "avg(a)",
        "max(a)",
        "first_value(b)",
        "last_value(b)",
        "var_pop(b)",
        "bool_or(b > 0)",
    )
    for by, frame in itertools.product(["", "PARTITION BY a"], FRAMES)
]
WINDOWS += [
    f"SELECT a, b, s, {call} OVER (PARTITION BY s ORDER BY b {way}) AS v FROM r"
    for call in ("sum(a)", "count(a)", "rank()", "dense_rank()", "min(a)", "max(b)", "count(*)")
    for way in (
        "",
        "DESC",
        "NULLS FIRST",
        "DESC NULLS FIRST",
        "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
        "DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
        "RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    )
]
WINDOWS += [
    f"SELECT a, b, s, {call} OVER (PARTITION BY a ORDER BY b, a, s) AS v FROM r"
    for call in (
        "row_number()",
        "lag(b)",
        "lead(b)",
        "lag(b, 2)",
        "lead(s, 1, 'x')",
        "lag(b, 1, -7)",
        "lag(b, 0)",
    )
]
WINDOWS += [
    f"SELECT f, g, {call} OVER () AS v FROM u"
    for call in ("sum(g)", "avg(f)", "count(*)", "max(h)", "min(w)", "sum(w)", "stddev_samp(g)")
]
WINDOWS += [
    "SELECT f, g, h, w, sum(g) OVER (ORDER BY f, g, h, w ROWS 1 PRECEDING) AS v FROM u",
    "SELECT a, sum(b) AS x, sum(sum(b)) OVER (ORDER BY a) AS y FROM r GROUP BY a",
    "SELECT * FROM (SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b DESC) AS k FROM r) WHERE k = 1",
    "SELECT c, d, sum(d) OVER (ORDER BY d RANGE BETWEEN 1.5 PRECEDING AND CURRENT ROW) AS v FROM t",
]
PREDICATES = [
    "a IN (SELECT c FROM t{})",
    "a NOT IN (SELECT c FROM t{})",
    "EXISTS (SELECT * FROM t{})",
    "NOT EXISTS (SELECT * FROM t{})",
]
PREDICATES += [
    f"a {op} {q} (SELECT c FROM t{{}})" for op in ("=", "<>", "<", "<=", ">", ">=") for q in ("ANY", "ALL")
]
WHERES = [
    "",
    " WHERE FALSE",
    " WHERE c IS NOT NULL",
    " WHERE s = e",
    " WHERE s = e AND d > b",
    " WHERE d < b",
    " WHERE e IS NOT DISTINCT FROM s AND c > 0",
]
SUBQUERIES = [f"SELECT a, b, s, {q.format(w)} AS v FROM r" for q in PREDICATES for w in WHERES]
SUBQUERIES += [f"SELECT a, b FROM r WHERE {q.format(w)}" for q in PREDICATES for w in WHERES[::3]]
SUBQUERIES += [
    f"SELECT a, b FROM r WHERE NOT ({q.format(w)}) OR b = 1" for q in PREDICATES[:6] for w in WHERES[::2]
]
SUBQUERIES += [
    f"SELECT a, b, s, (SELECT {x} FROM t{w}) AS v FROM r"
    for x in (
        "count(*)",
        "sum(d)",
        "max(e)",
        "count(*) + a",
        "sum(d + b)",
        "avg(c) FILTER (WHERE d > 0)",
        "count(DISTINCT c)",
    )
    for w in WHERES
]
SUBQUERIES += [
    "SELECT a, (SELECT count(*) FROM t WHERE c = a GROUP BY c) AS v FROM r",
    "SELECT a, (SELECT sum(d) FROM t WHERE c = a HAVING count(*) > 1) AS v FROM r",
    "SELECT a, (SELECT d FROM t WHERE c = a ORDER BY d, e LIMIT 1) AS v FROM r",
    "SELECT a, (SELECT d FROM t WHERE c >= a ORDER BY d DESC, e LIMIT 1 OFFSET 1) AS v FROM r",
    "SELECT a, (SELECT max(x) FROM (SELECT DISTINCT c + a AS x FROM t)) AS v FROM r",
    "SELECT a, (SELECT count(*) FROM (SELECT c FROM t WHERE c = a UNION ALL SELECT f FROM u WHERE f = b)) AS v FROM r",
    "SELECT a, (SELECT count(*) FROM (SELECT c FROM t WHERE c > a EXCEPT SELECT f FROM u)) AS v FROM r",
    "SELECT a, (SELECT count(*) FROM (SELECT c FROM t INTERSECT ALL SELECT f FROM u WHERE f <> a)) AS v FROM r",
    "SELECT a, (SELECT count(f) FROM t LEFT JOIN u ON c = f AND d > 0 WHERE c <= a) AS v FROM r",
    "SELECT a, (SELECT sum(n) FROM (SELECT c, count(*) AS n FROM t WHERE d <> a GROUP BY c)) AS v FROM r",
    "SELECT a, (SELECT sum(k) FROM (SELECT row_number() OVER (ORDER BY c, d, e) AS k, c FROM t WHERE e = s) WHERE c = a) AS v FROM r",
    "SELECT a, EXISTS (SELECT 1 FROM t WHERE c = a AND EXISTS (SELECT 1 FROM u WHERE f = c AND f <> b)) AS v FROM r",
    "SELECT a, (SELECT sum(d) FROM t WHERE d > (SELECT avg(g) FROM u WHERE f = a AND f <= c)) AS v FROM r",
    "SELECT a FROM r WHERE b > (SELECT avg(b) FROM r x WHERE x.a = r.a)",
    "SELECT a, (SELECT max(c) FROM t) - (SELECT min(c) FROM t WHERE c > a) AS v FROM r",
    "SELECT a, CASE WHEN EXISTS (SELECT 1 FROM t WHERE c = a) THEN (SELECT max(d) FROM t WHERE c = a) ELSE b END AS v FROM r",
    "SELECT a, count(*) FROM r GROUP BY a HAVING count(*) >= (SELECT count(*) FROM t WHERE c = a)",
    "SELECT a, sum((SELECT count(*) FROM t WHERE c = b)) AS v FROM r GROUP BY a",
    "SELECT a, b FROM r ORDER BY (SELECT count(*) FROM t WHERE c = a), a, b, s LIMIT 3",
    "SELECT a, c FROM r JOIN t ON a = c AND EXISTS (SELECT 1 FROM u WHERE f = a AND f = c)",
    "SELECT a, c FROM r JOIN t ON d > (SELECT avg(g) FROM u)",
    "SELECT (a, b) IN (SELECT c, f FROM t, u) AS v, a, b FROM r",
    "SELECT (a, s) NOT IN (SELECT c, e FROM t) AS v, a, s FROM r",
    "SELECT a, s FROM r WHERE (a, s) IN (SELECT c, e FROM t)",
    "SELECT a FROM r WHERE a IN (SELECT c FROM t UNION SELECT f FROM u)",
    "SELECT a FROM r WHERE a IN (SELECT c FROM t WHERE d IN (SELECT f FROM u WHERE f = a))",
    "SELECT (SELECT 1) AS x, (SELECT NULL) IS NULL AS y, (SELECT a FROM r WHERE FALSE) AS z",
    "SELECT a FROM r WHERE (SELECT count(*) FROM t WHERE c = a) = 0",
    "SELECT a, b FROM r WHERE a = (SELECT max(a) FROM r) AND b NOT IN (SELECT b FROM r WHERE a IS NULL)",
]
QUERIES = (
    [q.format(kind=kind) for q in JOINS for kind in ("INNER", "LEFT", "RIGHT", "FULL")]
    + PLAIN
    + SETS
    + AGGREGATES
    + WINDOWS
    + SUBQUERIES
)


def rows_of(rng: random.Random, schema: TableSchema, most: int) -> list[tuple[Any, ...]]:
    few = {c.name: rng.sample(VALUES[c.type.name], min(4, len(VALUES[c.type.name]))) for c in schema.columns}
    return [tuple(rng.choice(few[c.name]) for c in schema.columns) for _ in range(most)]


def oracle_of(rows: dict[str, list[tuple[Any, ...]]]) -> DuckOracle:
    oracle = DuckOracle()
    for name, schema in SCHEMAS.items():
        oracle.create(schema)
        oracle.apply(name, rows[name])
    return oracle


@cache
def database(seed: int) -> DuckOracle:
    """A few rows per table; the first one has none at all in one of them."""
    rng = random.Random(seed)
    most = {name: (0 if seed == 0 and name == "t" else rng.randint(5, 9)) for name in SCHEMAS}
    return oracle_of({name: rows_of(rng, schema, most[name]) for name, schema in SCHEMAS.items()})


def check(query: str, oracle: DuckOracle, chunk: int = 3) -> None:
    (statement,) = parse_and_bind(query, Catalog())
    try:
        expected = oracle.query(query)
    except duckdb.NotImplementedException:
        pytest.skip("not in DuckDB")
    assert_same(expected, execute(statement.plan, oracle.table, chunk=chunk), query)


@pytest.mark.parametrize("query", QUERIES)
def test_agrees_with_duckdb(query: str) -> None:
    for seed in range(2):
        check(query, database(seed))


@st.composite
def data(draw: Any) -> dict[str, list[tuple[Any, ...]]]:
    return {
        name: draw(
            st.lists(st.tuples(*(st.sampled_from(VALUES[c.type.name]) for c in schema.columns)), max_size=7)
        )
        for name, schema in SCHEMAS.items()
    }


@given(data(), st.lists(st.sampled_from(QUERIES), min_size=8, max_size=8), st.sampled_from([1, 3, 1000]))
def test_agrees_on_any_data(rows: dict[str, list[tuple[Any, ...]]], queries: list[str], chunk: int) -> None:
    oracle = oracle_of(rows)
    try:
        for query in queries:
            check(query, oracle, chunk)
    finally:
        oracle.close()
