"""Plans as Spark SQL against DuckDB, over small tables full of NULLs, duplicates and NaN, and over TPC-H.

Where ties are broken by all columns, which DuckDB does not promise, the local executor is the reference.
"""

# ruff: noqa: E501  (one query per line)

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from everfresh import types as ty
from everfresh.datasets import tpch
from everfresh.errors import Code, EverfreshError
from everfresh.local.adhoc import execute
from everfresh.spark.session.failures import translated
from everfresh.spark.session.sessions import own
from everfresh.spark.sql.text import plan_sql, spark_type
from everfresh.sql import CreateTable, parse_and_bind
from everfresh.sql.logical import plan as p
from everfresh.types import Column, TableSchema
from everfresh.workloads import WORKLOADS, Query

pytestmark = pytest.mark.spark

NAN, INF = math.nan, math.inf
D = Decimal


def _day(day: int) -> dt.date:
    return dt.date(2024, 1, day)


def _time(day: int, hour: int) -> dt.datetime:
    return dt.datetime(2024, 1, day, hour, 30)


_SCHEMAS = {
    "r": {"a": ty.INTEGER, "b": ty.INTEGER, "c": ty.VARCHAR},
    "s": {"b": ty.BIGINT, "d": ty.DECIMAL(9, 2), "e": ty.DATE, "t": ty.TIMESTAMP},
    "u": {"a": ty.SMALLINT, "c": ty.VARCHAR, "f": ty.DOUBLE, "g": ty.BOOLEAN, "x": ty.REAL},
    "k": {"id": ty.INTEGER, "a": ty.INTEGER, "name": ty.VARCHAR, "h": ty.HUGEINT, "w": ty.DECIMAL(38, 10)},
    "none": {"a": ty.INTEGER, "m": ty.DECIMAL(9, 2)},
}
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "r": [
        (1, 10, "x"), (1, 20, "y"), (2, 10, None), (2, None, "x"), (3, 30, "z"), (None, 10, "x"),
        (None, None, None), (1, 10, "x"), (4, 40, "w"),
    ],
    "s": [
        (10, D("1.50"), _day(1), _time(1, 5)), (10, D("2.25"), _day(2), _time(1, 6)), (20, None, _day(2), None),
        (None, D("7.00"), None, _time(2, 5)), (50, D("-1.00"), _day(9), _time(9, 0)), (30, D("1.50"), _day(3), _time(1, 5)),
    ],
    "u": [
        (1, "x", 0.5, True, NAN), (2, "q", None, False, INF), (None, "x", 2.5, None, 1.5), (3, None, -1.0, True, None),
        (7, "z", 8.0, False, -INF), (7, "z", NAN, False, 0.0), (1, "x", NAN, True, NAN),
    ],
    "k": [
        (1, 1, "one", 10**30, D("12345678901234567890123456.0123456789")), (2, 1, "two", -(10**30), D("-0.0000000001")),
        (3, None, "three", 7, None), (4, 4, "four", None, D("0.5")),
    ],
    "none": [],
}  # fmt: skip
SCHEMAS = {
    name: TableSchema(
        name, tuple(Column(c, t, c != "id") for c, t in columns.items()), ("id",) if "id" in columns else ()
    )
    for name, columns in _SCHEMAS.items()
}

# Each line is run in DuckDB and in Spark. Rows are compared in order where a line ends in --ordered.
QUERIES = """
SELECT k.id, t.d FROM k, LATERAL (SELECT d FROM s WHERE s.b = k.a * 10) t
SELECT r.a, t.n, t.m FROM r, (SELECT count(*) AS n, max(f) AS m FROM u WHERE u.a = r.a) t
SELECT r.b, t.d FROM r LEFT JOIN LATERAL (SELECT d FROM s WHERE s.b <= r.b ORDER BY d DESC NULLS LAST, e LIMIT 1) t ON true
SELECT r.a, t.x, v.c FROM r CROSS JOIN LATERAL (SELECT r.a + r.b AS x) t LEFT JOIN LATERAL (SELECT DISTINCT c FROM u WHERE u.a < t.x) v ON v.c <> r.c
SELECT k.id, t.q FROM k JOIN LATERAL (SELECT b AS q FROM s WHERE s.b > k.id EXCEPT SELECT k.a) t ON t.q IS NOT NULL
SELECT id FROM k WHERE EXISTS (SELECT 1 FROM u, LATERAL (SELECT u.a + k.id AS z) t WHERE t.z > 4)
SELECT k.id, t.n FROM k, LATERAL (SELECT u.g, count(*) AS n, row_number() OVER (ORDER BY u.g NULLS FIRST) AS rn FROM u LEFT JOIN r ON r.a = k.a AND r.c = u.c GROUP BY u.g) t WHERE t.rn = 1
SELECT a.id, t.x, w.y FROM k a FULL JOIN k b ON a.a = b.id, LATERAL (SELECT a.id + b.id AS x) t, LATERAL (VALUES (t.x), (b.a)) w(y)
SELECT * FROM r, s
SELECT r.*, s.d FROM r JOIN s ON r.b = s.b AND d > 1.5
SELECT * FROM r LEFT JOIN s ON r.b = s.b AND r.a = 1
SELECT * FROM r LEFT JOIN s ON r.b < s.b
SELECT * FROM r LEFT JOIN s ON false
SELECT * FROM r RIGHT JOIN s ON r.b = s.b AND d > 2
SELECT * FROM r FULL JOIN s ON r.b = s.b AND r.a = 2
SELECT b, r.b, s.b, c, d FROM r FULL JOIN s USING (b)
SELECT a, count(*), sum(f) FROM r FULL JOIN u USING (a) WHERE f < 5 OR f IS NULL GROUP BY a
SELECT x.a, y.b FROM r AS x, r AS y WHERE x.b = y.b AND x.c <> y.c
SELECT * FROM r JOIN s ON r.b IS NOT DISTINCT FROM s.b
SELECT x.a, y.f, y.x FROM u x JOIN u y ON x.f = y.f OR x.x = y.x
SELECT count(*) FROM r, s LEFT JOIN k ON s.b = k.id, u
SELECT * FROM r LEFT JOIN none ON r.a = none.a
SELECT * FROM none FULL JOIN (SELECT 1 AS one) ON true
SELECT k.name, count(r.a), count(*) FROM k LEFT JOIN r ON k.a = r.a GROUP BY k.name
SELECT x.n, y.m FROM (SELECT a, count(*) AS n FROM r GROUP BY a) x JOIN (SELECT a, max(f) AS m FROM u GROUP BY a) y ON x.a = y.a
SELECT a FROM (SELECT a, b FROM r ORDER BY b DESC, a LIMIT 4 OFFSET 1)
SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v, (SELECT 3 AS z)
WITH q AS (SELECT a, sum(b) AS t FROM r GROUP BY a) SELECT a FROM q WHERE t = (SELECT max(t) FROM q)
SELECT a FROM r UNION SELECT a FROM u
SELECT a, NULL FROM r UNION ALL SELECT NULL, c FROM u
SELECT f FROM u UNION SELECT x FROM u UNION SELECT f * -0.0e0 FROM u WHERE f > 0
SELECT f, x FROM u INTERSECT SELECT x, f FROM u
SELECT c, x FROM u INTERSECT ALL SELECT c, x FROM u WHERE g
SELECT f FROM u EXCEPT SELECT x FROM u
SELECT a, b FROM r EXCEPT ALL SELECT a, b FROM r WHERE c = 'x' AND b IS NOT NULL
SELECT a AS x, c FROM r UNION SELECT a, c AS z FROM u ORDER BY z, 1 DESC LIMIT 4 --ordered
(SELECT a FROM r ORDER BY a LIMIT 2) UNION ALL (SELECT a FROM u ORDER BY a DESC LIMIT 1)
SELECT a FROM r EXCEPT (SELECT a FROM u EXCEPT SELECT id FROM k)
SELECT NULL AS n UNION SELECT NULL EXCEPT SELECT NULL
SELECT count(*) FROM (SELECT to_days(30) AS i UNION SELECT to_months(1) UNION SELECT NULL)
SELECT count(*) FROM (SELECT to_days(30) AS i INTERSECT SELECT to_months(1))
SELECT count(*) FROM (SELECT t - TIMESTAMP '2024-01-01 00:00:00' AS i FROM s EXCEPT ALL SELECT to_minutes(330))
SELECT count(*) FROM (SELECT to_days(30) AS i UNION ALL SELECT to_months(1)) GROUP BY i
SELECT DISTINCT f, x FROM u
SELECT DISTINCT f * 0 AS z, NULL AS n FROM u
SELECT min(a), max(c), min(f), max(f), min(x), max(x), min(g), max(g), bool_and(g), bool_or(g), min(NULL) FROM u
SELECT min(h), max(h), min(w), max(w), sum(h), avg(w), sum(w) FROM k
SELECT c, min(b), max(b), count(DISTINCT a), sum(DISTINCT b), avg(DISTINCT b), max(DISTINCT a) FROM r GROUP BY c
SELECT count(DISTINCT (a, b)), count(DISTINCT (a, c)) FILTER (WHERE b = 10 OR b IS NULL), count(DISTINCT a) FILTER (WHERE b > 10) FROM r
SELECT count(DISTINCT f), count(DISTINCT x), sum(DISTINCT f) FILTER (WHERE f < 9) FROM u
SELECT count(DISTINCT t - TIMESTAMP '2024-01-01 00:00:00'), max(t - TIMESTAMP '2024-01-01 00:00:00')::VARCHAR, min(e), max(t) FROM s
SELECT a, stddev(b), stddev_pop(b), variance(b), var_pop(b) FROM r GROUP BY a
SELECT stddev(d), var_pop(d), var_samp(DISTINCT b), stddev(NULL), var_pop(b) FILTER (WHERE b > 100) FROM s
SELECT c, bool_and(g), bool_or(g) FILTER (WHERE f < 1), sum(g) FROM u GROUP BY c
SELECT max(a), count(*), sum(m), avg(m), bool_or(a = 1), var_pop(a) FROM none
SELECT a, count(*) FROM none GROUP BY a
SELECT count(*) FROM none GROUP BY () HAVING max(a) IS NULL
SELECT a FROM r GROUP BY a ORDER BY max(b) DESC NULLS LAST, a LIMIT 3 --ordered
SELECT a, (SELECT max(b) FROM s), (SELECT NULL), (SELECT b FROM s ORDER BY d DESC, b LIMIT 1) FROM r
SELECT a, (SELECT sum(d) FROM s WHERE s.b = r.b), (SELECT count(*) FROM s WHERE s.b = r.b) FROM r
SELECT a, (SELECT count(*) FROM s WHERE s.b = r.b GROUP BY s.b), (SELECT avg(d) FROM s WHERE s.b < r.b) FROM r
SELECT id, (SELECT name FROM k AS o WHERE o.id = k.a) FROM k
SELECT f, (SELECT count(*) FROM u AS o WHERE o.f = u.f), (SELECT count(*) FROM u AS o WHERE o.x IS NOT DISTINCT FROM u.x) FROM u
SELECT a FROM r WHERE b > (SELECT avg(b) FROM r AS o WHERE o.a = r.a) OR b = (SELECT max(b) FROM r)
SELECT a, CASE WHEN b > (SELECT avg(b) FROM r) THEN 'big' ELSE (SELECT min(c) FROM u WHERE u.a = r.a) END FROM r
SELECT sum((SELECT max(a) FROM u WHERE u.c = r.c)), count(*) FILTER (WHERE (SELECT count(*) FROM k WHERE k.a = r.a) > 0) FROM r
SELECT a, sum(b) FROM r GROUP BY a HAVING sum(b) > (SELECT count(*) FROM u WHERE u.a = r.a)
SELECT (SELECT max(a) FROM u WHERE u.c = r.c) AS m, count(*) FROM r GROUP BY m
SELECT a, b FROM r ORDER BY (SELECT count(*) FROM s WHERE s.b = r.b), a, b --ordered
SELECT a FROM r JOIN s ON r.b = (SELECT max(x.b) FROM r AS x WHERE x.b = s.b)
SELECT k.id, u.a FROM k LEFT JOIN u ON u.a = (SELECT min(a) FROM r WHERE r.a = k.a)
SELECT r.a, r.c, u.a, u.x FROM r LEFT JOIN u ON r.c = u.c AND EXISTS (SELECT 1 FROM k WHERE k.a = u.a AND k.id < r.b)
SELECT k.id, s.b, s.d FROM k RIGHT JOIN s ON k.id * 10 = s.b AND s.d IN (SELECT d FROM s AS o WHERE o.b = k.id * 10)
SELECT a, (SELECT (SELECT max(d) FROM s WHERE s.b = r.b) FROM k WHERE k.id = 1) FROM r
SELECT a, (SELECT count(*) FROM u WHERE u.a = r.a AND u.a >= (SELECT min(a) FROM u AS w WHERE w.c = r.c)) FROM r
SELECT (SELECT r.a + count(*) FROM s), (SELECT sum(r.a + s.b) FROM s), (SELECT count(*) FROM s GROUP BY r.a) FROM r
SELECT a, (SELECT e FROM s WHERE s.b = r.b ORDER BY e DESC LIMIT 1), (SELECT e FROM s WHERE s.b <= r.b ORDER BY e, d LIMIT 1 OFFSET 1) FROM r
SELECT (SELECT count(*) FROM (SELECT d FROM s WHERE s.b >= r.b ORDER BY d LIMIT 2) y WHERE y.d > r.a) FROM r
SELECT (SELECT count(*) FROM (SELECT DISTINCT x FROM u WHERE u.a = r.a) z), (SELECT count(*) FROM (SELECT a FROM u WHERE u.c = r.c UNION SELECT id FROM k WHERE k.a = r.a) z) FROM r
SELECT (SELECT count(*) FROM (SELECT a FROM u WHERE u.c = r.c EXCEPT SELECT id FROM k WHERE k.a = r.a) z), (SELECT count(*) FROM (SELECT a FROM u WHERE u.c = r.c INTERSECT ALL SELECT a FROM u WHERE u.a >= r.a) z) FROM r
SELECT (SELECT sum(y.b) FROM (SELECT b, rank() OVER (PARTITION BY x.c ORDER BY x.b) AS p FROM r x WHERE x.a = r.a) y WHERE p <= 1) FROM r
SELECT (SELECT count(y.id) * 100 + count(*) FROM u x LEFT JOIN k y ON x.a = y.id AND y.a = r.a WHERE x.c = 'x') FROM r
SELECT (SELECT count(x.f) * 100 + count(y.id) FROM (SELECT * FROM u WHERE u.c = r.c) x FULL JOIN (SELECT * FROM k WHERE k.a = r.a) y ON x.a = y.id) FROM r
SELECT (SELECT count(x.a) * 100 + count(y.id) FROM u x RIGHT JOIN (SELECT * FROM k WHERE k.id < r.b) y ON x.a = y.id AND x.c = r.c) FROM r
SELECT a, (SELECT m FROM none WHERE none.a = r.a), (SELECT sum(m) FROM none WHERE none.a = r.a), (SELECT count(*) FROM none), a IN (SELECT a FROM none), a NOT IN (SELECT a FROM none) FROM r
SELECT (SELECT 1 UNION SELECT 1), (SELECT 1 EXCEPT SELECT 1), (SELECT a FROM k WHERE id = 1 UNION ALL SELECT id FROM k WHERE id > 9)
SELECT a, EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND d > 2), NOT EXISTS (SELECT 1 FROM u WHERE u.a = r.a), EXISTS (SELECT 1 FROM none) FROM r
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND NOT EXISTS (SELECT 1 FROM u WHERE u.a = r.a AND u.a < s.b / 20))
SELECT a FROM r WHERE EXISTS (SELECT count(*) FROM u WHERE u.a = r.a) AND NOT EXISTS (SELECT a FROM u GROUP BY a HAVING count(*) > 5)
SELECT a FROM r WHERE a IN (SELECT a FROM u) OR b IN (SELECT d * 10 FROM s)
SELECT a FROM r WHERE a NOT IN (SELECT a FROM u)
SELECT a FROM r WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)
SELECT a, a IN (SELECT a FROM u), a NOT IN (SELECT a FROM u), NOT (a IN (SELECT a FROM u WHERE u.c = r.c)), a IN (SELECT a FROM u) IS NULL FROM r
SELECT a, b = ANY (SELECT b FROM s), b <> ANY (SELECT b FROM s), b < ANY (SELECT b FROM s), b <> ANY (SELECT b FROM s WHERE b = 10) FROM r
SELECT a, b = ALL (SELECT b FROM s WHERE b = 10), b <> ALL (SELECT b FROM s), b < ALL (SELECT b FROM s), b >= ALL (SELECT b FROM s WHERE b IS NOT NULL) FROM r
SELECT b > ALL (SELECT b FROM s WHERE s.b < r.b), b <= ALL (SELECT b FROM s WHERE false), b > ANY (SELECT b FROM s WHERE false), NOT b >= ANY (SELECT b FROM s WHERE s.b > r.a * 10) FROM r
SELECT f IN (SELECT x FROM u), f > ALL (SELECT x FROM u WHERE x IS NOT NULL), x < ANY (SELECT f FROM u), f = ALL (SELECT x FROM u AS o WHERE o.a = u.a) FROM u
SELECT to_days(30) IN (SELECT to_months(1)), to_days(30) < ANY (SELECT to_months(1)), (1, to_days(30)) IN (SELECT 1, to_months(1)), to_days(3) <> ALL (SELECT to_months(1))
SELECT a, c, (a, c) IN (SELECT a, c FROM u), (a, c) NOT IN (SELECT a, c FROM u), (a, c) <> ANY (SELECT a, c FROM u WHERE a = 1), (a, c) = ALL (SELECT a, c FROM u WHERE a = 1) FROM r
SELECT (3, 2) NOT IN (SELECT 1, NULL), (1, 2) NOT IN (SELECT 1, NULL), (1, 2) IN (SELECT a, a FROM none), NULL IN (SELECT NULL)
SELECT a, count(*), sum(b) IN (SELECT b FROM s) FROM r GROUP BY a HAVING a IN (SELECT a FROM u) OR count(*) IN (SELECT id FROM k)
SELECT a FROM r WHERE b IN (SELECT b FROM s WHERE s.b = r.b ORDER BY d LIMIT 1)
SELECT r.a FROM r JOIN u ON r.a = u.a AND u.c IN (SELECT c FROM r)
SELECT count(*) FILTER (WHERE a IN (SELECT a FROM u)), sum(CASE WHEN EXISTS (SELECT 1 FROM k WHERE k.a = r.a) THEN b END) FROM r
SELECT a FROM r WHERE NOT (a IN (SELECT a FROM u) AND b > ALL (SELECT b FROM s WHERE s.b = r.b))
SELECT (SELECT max(id) FROM k WHERE k.a = r.a) IN (SELECT a FROM u WHERE u.c = r.c), b = ANY (SELECT s.b FROM s WHERE s.d < (SELECT max(x.d) FROM s AS x WHERE x.b = r.b)) FROM r
SELECT a, b, sum(b) OVER (), count(*) OVER (PARTITION BY a), avg(b) OVER (PARTITION BY c) FROM r
SELECT id, row_number() OVER (ORDER BY id), rank() OVER (ORDER BY a), dense_rank() OVER (ORDER BY a DESC), rank() OVER () FROM k
SELECT id, lag(name) OVER (ORDER BY id), lead(id, 2) OVER (ORDER BY id), lag(id, 1, 0) OVER (ORDER BY id DESC), lag(name, 1, 'none') OVER (PARTITION BY a ORDER BY id) FROM k
SELECT id, lag(id, -1) OVER (ORDER BY id), lag(id, 0) OVER (ORDER BY id), lead(id, NULL) OVER (ORDER BY id), lag(id, id, -1) OVER (ORDER BY id) FROM k
SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b), dense_rank() OVER (ORDER BY a NULLS FIRST), sum(a) OVER (ORDER BY b), min(a) OVER (ORDER BY b DESC) FROM r
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), max(a) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), sum(id) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING), count(*) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING) FROM k
SELECT b, sum(b) OVER (ORDER BY b RANGE BETWEEN 10 PRECEDING AND CURRENT ROW), count(*) OVER (ORDER BY b DESC RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING), count(*) OVER (ORDER BY b RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) FROM r
SELECT d, count(*) OVER (ORDER BY d RANGE BETWEEN 1 PRECEDING AND 0.75 FOLLOWING), count(*) OVER (ORDER BY e RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW), count(*) OVER (ORDER BY t DESC RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND INTERVAL 1 DAY FOLLOWING) FROM s
SELECT h, count(*) OVER (ORDER BY h RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING), rank() OVER (ORDER BY w DESC NULLS FIRST), sum(w) OVER (ORDER BY id) FROM k
SELECT f, rank() OVER (ORDER BY f), count(*) OVER (PARTITION BY x), min(f) OVER (PARTITION BY c), sum(f) OVER (ORDER BY f), bool_and(g) OVER (PARTITION BY c) FROM u
SELECT id, first_value(name) OVER (ORDER BY id), last_value(name) OVER (ORDER BY id), last_value(name) OVER (PARTITION BY a ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM k
SELECT id, stddev(id) OVER (ORDER BY id), var_pop(id) OVER (ORDER BY id ROWS 1 PRECEDING), max(to_days(id)) OVER ()::VARCHAR, sum(NULL) OVER () FROM k
SELECT id FROM k QUALIFY row_number() OVER (PARTITION BY a ORDER BY id) = 1 ORDER BY id --ordered
SELECT a, sum(b), sum(sum(b)) OVER (ORDER BY a), rank() OVER (ORDER BY sum(b) DESC) FROM r GROUP BY a
SELECT b, sum(b) FILTER (WHERE a > 1) OVER (ORDER BY b), count(*) FILTER (WHERE a = 1) OVER () FROM r
SELECT id, sum((SELECT count(*) FROM r WHERE r.a = k.id)) OVER (ORDER BY id), rank() OVER (ORDER BY id) IN (SELECT a FROM u) FROM k
SELECT c, (SELECT count(*) FROM r AS x WHERE x.c = r.c AND x.a > ALL (SELECT a FROM u WHERE u.c = x.c)) AS n FROM r GROUP BY c HAVING count(*) >= (SELECT min(id) FROM k)
SELECT a, b FROM r WHERE b IN (SELECT b FROM s WHERE d > (SELECT avg(d) FROM s) OR EXISTS (SELECT 1 FROM u WHERE u.a = r.a AND u.a < s.d))
SELECT o.a, o.n FROM (SELECT a, count(*) AS n FROM r GROUP BY a) o WHERE o.n = (SELECT max(n) FROM (SELECT a, count(*) AS n FROM r GROUP BY a) i WHERE i.a >= o.a)
SELECT count(*) FROM (SELECT a, sum(f) AS f FROM u GROUP BY a) q WHERE EXISTS (SELECT 1 FROM u WHERE u.a < q.f) AND q.f <> ALL (SELECT a FROM u WHERE u.a > q.f)
"""
LOCAL = """
SELECT row_number() OVER (PARTITION BY a ORDER BY b), lag(c) OVER (ORDER BY a), lead(b, 2, 0) OVER (PARTITION BY c ORDER BY a DESC) FROM r
SELECT first_value(c) OVER (PARTITION BY a ORDER BY b), last_value(b) OVER (ORDER BY a), first_value(b) OVER (ORDER BY a ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING), last_value(c) OVER (ORDER BY b RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING) FROM r
SELECT lag(b, a, b) OVER (PARTITION BY c ORDER BY a), lead(c, a - 2) OVER (ORDER BY a), lag(a, 3000000000, 7) OVER (ORDER BY a), lag(NULL) OVER () FROM r
SELECT sum(b) OVER (ORDER BY a ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING), sum(b) OVER (ROWS BETWEEN 3000000000 PRECEDING AND CURRENT ROW), sum(b) OVER (ROWS BETWEEN 5 FOLLOWING AND 3 FOLLOWING) FROM r
SELECT row_number() OVER (ORDER BY g), lag(f) OVER (ORDER BY c), var_pop(x) OVER (PARTITION BY a) FROM u
SELECT (SELECT sum(p) FROM (SELECT row_number() OVER (ORDER BY x.b) AS p, x.c FROM r x WHERE x.a = r.a) y WHERE y.c = r.c) FROM r
SELECT (a, c) IN (SELECT a, c FROM u WHERE u.a >= r.a), (a, c) <> ANY (SELECT a, c FROM u WHERE u.c = r.c), (a, (SELECT max(x.c) FROM r AS x WHERE x.a = r.a)) IN (SELECT a, c FROM u WHERE u.a = r.a) FROM r
"""


class Tables:
    """The catalog protocol over schemas."""

    def __init__(self, schemas: dict[str, TableSchema]) -> None:
        self._schemas = schemas

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        found = self.table(name)
        return None if found is None else ("table", found.columns)

    def table(self, name: str) -> TableSchema | None:
        return self._schemas.get(name.lower())

    def names(self) -> list[str]:
        return list(self._schemas)

    @property
    def plain(self) -> dict[str, Any]:
        return {}

    @property
    def types(self) -> dict[str, Any]:
        return {}


def arrow(schema: TableSchema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema.arrow)]
    return pa.table(columns, schema=schema.arrow)


def read_by(session: Any, schema: TableSchema, rows: pa.Table) -> None:
    declared = ", ".join(f"`{c.name}` {spark_type(c.type)}" for c in schema.columns)
    session.createDataFrame(rows, declared).createOrReplaceTempView(viewed(schema.name))


def viewed(table: str) -> str:
    return f"plan_{table}"


def bound(sql: str, schemas: dict[str, TableSchema] = SCHEMAS) -> p.Plan:
    (statement,) = parse_and_bind(sql, Tables(schemas))
    plan: p.Plan = statement.plan  # type: ignore[union-attr]
    return plan


def ask(session: Any, plan: p.Plan) -> list[tuple[Any, ...]]:
    with translated():
        frame = session.sql(plan_sql(plan, viewed))
        assert frame.columns == [c.name for c in plan.columns]
        return physical(frame.collect(), plan)


def physical(rows: Any, plan: p.Plan) -> list[tuple[Any, ...]]:
    return [tuple(ty.to_physical(v, c.type) for v, c in zip(row, plan.columns, strict=True)) for row in rows]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b) or math.isclose(a, b, rel_tol=1e-9)
    return repr(a) == repr(b)


def check(got: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]], *, in_order: bool) -> None:
    if not in_order:
        got, wanted = (
            sorted(rows, key=lambda row: [repr(round(v, 6) if isinstance(v, float) else v) for v in row])
            for rows in (got, wanted)
        )
    assert len(got) == len(wanted)
    assert [(a, b) for a, b in zip(got, wanted, strict=True) if not all(map(same, a, b))] == []


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    ours = own(spark)
    for name, schema in SCHEMAS.items():
        read_by(ours, schema, arrow(schema, ROWS[name]))
    return ours


@pytest.fixture(scope="module")
def duck() -> Any:
    con = duckdb.connect()
    con.execute("SET threads=1")
    for name, schema in SCHEMAS.items():
        con.execute(schema.ddl)
        if ROWS[name]:
            con.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(schema.columns))})", ROWS[name])
    return con


@pytest.mark.parametrize("sql", QUERIES.strip().splitlines())
def test_rows_are_those_of_duckdb(session: Any, duck: Any, sql: str) -> None:
    plan = bound(sql)
    wanted = physical(duck.execute(sql).fetchall(), plan)
    check(ask(session, plan), wanted, in_order=sql.endswith("--ordered"))


@pytest.mark.parametrize("sql", LOCAL.strip().splitlines())
def test_rows_are_those_of_the_local_executor(session: Any, sql: str) -> None:
    plan = bound(sql)
    table = execute(plan, lambda name: arrow(SCHEMAS[name], ROWS[name]))
    check(ask(session, plan), physical(zip(*table.to_pydict().values(), strict=True), plan), in_order=False)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT b FROM s WHERE s.b = r.b) FROM r",
        "SELECT a FROM r WHERE a = 1 AND b = (SELECT b FROM s)",
    ],
)
def test_a_value_of_several_rows_raises(session: Any, sql: str) -> None:
    with pytest.raises(EverfreshError, match="more than one row") as caught:
        ask(session, bound(sql))
    assert caught.value.code == Code.VALUE


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM r WHERE a = 3 AND b > (SELECT b FROM s WHERE s.b = r.b)",
        "SELECT a FROM r WHERE a = 9 AND b = (SELECT b FROM s)",
        "SELECT (SELECT a FROM r) FROM none",
    ],
)
def test_no_row_that_needs_it_no_error(session: Any, sql: str) -> None:
    assert ask(session, bound(sql)) == []


@pytest.mark.parametrize(
    "inner", ["SELECT a, sum(f) AS f FROM u GROUP BY a", "SELECT a, f FROM u ORDER BY a LIMIT 3"]
)
def test_what_may_differ_is_computed_once(session: Any, inner: str) -> None:
    plan = bound(f"SELECT * FROM ({inner}) q WHERE EXISTS (SELECT 1 FROM r WHERE r.a < q.f)")
    executed = session.sql(plan_sql(plan, viewed))._jdf.queryExecution().executedPlan().toString()
    assert "ReusedExchange" in executed


def test_a_table_is_asked_for_once() -> None:
    asked: list[str] = []

    def source(name: str) -> str:
        asked.append(name)
        return name

    plan_sql(bound("SELECT x.a FROM r x, r y WHERE x.a IN (SELECT a FROM r)"), source)
    assert asked == ["r"]


# -- TPC-H ---------------------------------------------------------------------------------------------------

TPCH = WORKLOADS["tpch"].queries


@pytest.fixture(scope="module")
def trade(session: Any) -> Any:
    con = duckdb.connect()
    schemas: dict[str, TableSchema] = {}
    for name, rows in tpch.read(0.001).items():
        (statement,) = parse_and_bind(tpch.TABLES[name], Tables({}))
        assert isinstance(statement, CreateTable)
        schemas[name] = statement.schema
        read_by(session, statement.schema, rows)
        con.execute(tpch.TABLES[name])
        con.register("incoming", rows)
        con.execute(f"INSERT INTO {name} SELECT * FROM incoming")
        con.unregister("incoming")
    return con, schemas


@pytest.mark.parametrize("query", TPCH, ids=lambda query: query.name)
def test_tpch_is_that_of_duckdb(session: Any, trade: Any, query: Query) -> None:
    con, schemas = trade
    plan = bound(query.text, schemas)
    check(ask(session, plan), physical(con.execute(query.text).fetchall(), plan), in_order=True)
