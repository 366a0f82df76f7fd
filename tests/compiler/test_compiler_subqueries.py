"""Subqueries, set operations and outer joins as views: what an expression is over nothing, and how often a
row comes, equal DuckDB after every batch, maintained incrementally.
"""

from __future__ import annotations

import random

import pytest
from sql_check import check, random_batches

TABLES = [
    "CREATE TABLE r (a INTEGER, b INTEGER)",
    "CREATE TABLE s (b INTEGER, c INTEGER)",
    "CREATE TABLE u (c INTEGER NOT NULL, d INTEGER NOT NULL)",
]
ROWS = {"r": [(None, 0, 1, 2)] * 2, "s": [(None, 0, 1, 2)] * 2, "u": [(0, 1, 2)] * 2}

N = "(SELECT count(*) FROM s WHERE s.b = r.b)"
COUNT_BUG = {
    "compared with zero": f"SELECT a FROM r WHERE 0 = {N}",
    "as a value": f"SELECT a, {N} AS n FROM r",
    "of a column": "SELECT a, (SELECT count(c) FROM s WHERE s.b = r.b) AS n FROM r",
    "in arithmetic": f"SELECT a FROM r WHERE a >= {N} - 1",
    "with a sum": "SELECT a, (SELECT count(*) + coalesce(sum(c), 7) FROM s WHERE s.b = r.b) AS n FROM r",
    "a sum is NULL": "SELECT a, (SELECT sum(c) FROM s WHERE s.b = r.b) AS n FROM r",
    "a sum that is tested": "SELECT a FROM r WHERE (SELECT sum(c) FROM s WHERE s.b = r.b) IS NULL",
    "under a HAVING": "SELECT a, (SELECT count(*) FROM s WHERE s.b = r.b HAVING count(*) <> 1) AS n FROM r",
    "HAVING over nothing": "SELECT a FROM r WHERE "
    "(SELECT count(*) FROM s WHERE s.b = r.b HAVING count(*) > 0) IS NULL",
    "not by equality": "SELECT a FROM r WHERE 1 > (SELECT count(*) FROM s WHERE s.b < r.b)",
    "both": "SELECT a FROM r WHERE 1 >= (SELECT count(*) FROM s WHERE s.b = r.b AND s.c > r.a)",
    "in a CASE": f"SELECT a, CASE WHEN {N} = 0 THEN 'none' ELSE 'some' END AS n FROM r",
    "in an OR": f"SELECT a FROM r WHERE a = 1 OR {N} = 0",
    "negated": f"SELECT a FROM r WHERE NOT {N} > 0",
    "distinct": "SELECT a, (SELECT count(DISTINCT c) FROM s WHERE s.b = r.b) AS n FROM r",
    "of a join": "SELECT a, (SELECT count(*) FROM s, u WHERE s.b = r.b AND s.c = u.c) AS n FROM r",
    "nested": "SELECT a FROM r WHERE 0 = (SELECT count(*) FROM s WHERE s.b = r.b AND 0 = "
    "(SELECT count(*) FROM u WHERE u.c = s.c))",
    "two levels out": "SELECT a FROM r WHERE 0 = (SELECT count(*) FROM s WHERE s.b = r.b AND 0 < "
    "(SELECT count(*) FROM u WHERE u.c = r.a))",
    "in an aggregate's argument": f"SELECT sum({N}) AS n FROM r",
    "as a key": f"SELECT {N} AS n, count(*) AS m FROM r GROUP BY n",
    "after GROUP BY": f"SELECT b, count(*) AS m FROM r GROUP BY b HAVING 0 = {N}",
    "uncorrelated": "SELECT a, (SELECT count(*) FROM s) AS n FROM r",
    "an outer column in the argument": "SELECT a, (SELECT sum(c + r.a) FROM s WHERE s.b = r.b) AS n FROM r",
    "in the argument alone": "SELECT a, (SELECT sum(c * r.a) FROM s) AS n FROM r",
    "in MIN": "SELECT a, (SELECT min(c - r.a) FROM s WHERE s.b = r.b) AS n FROM r",
    "in DISTINCT": "SELECT a, (SELECT count(DISTINCT c * r.a) FROM s WHERE s.b = r.b) AS n FROM r",
    "in FILTER": "SELECT a, (SELECT count(*) FILTER (WHERE c > r.a) FROM s WHERE s.b = r.b) AS n FROM r",
    "in WHERE": "SELECT a FROM r WHERE a < (SELECT sum(c + r.a) FROM s WHERE s.b = r.b)",
    "min is NULL": "SELECT a, (SELECT min(c) FROM s WHERE s.b = r.b) AS n FROM r",
    "bool_and is NULL": "SELECT a, (SELECT bool_and(c > 0) FROM s WHERE s.b = r.b) AS n FROM r",
}
SETS = {
    "union": "SELECT a FROM r UNION SELECT b FROM s",
    "union all": "SELECT a FROM r UNION ALL SELECT b FROM s",
    "intersect": "SELECT a, b FROM r INTERSECT SELECT b, c FROM s",
    "intersect all": "SELECT a FROM r INTERSECT ALL SELECT b FROM s",
    "except": "SELECT a, b FROM r EXCEPT SELECT b, c FROM s",
    "except all": "SELECT a FROM r EXCEPT ALL SELECT b FROM s",
    "of itself": "SELECT a FROM r EXCEPT ALL SELECT a FROM r WHERE b = 1",
    "nested": "(SELECT a FROM r EXCEPT ALL SELECT b FROM s) UNION ALL "
    "(SELECT c FROM u INTERSECT ALL SELECT a FROM r)",
    "aggregated": "SELECT a, count(*) AS n FROM (SELECT a FROM r EXCEPT ALL SELECT b FROM s) AS x GROUP BY a",
    "joined": "SELECT x.a, u.d FROM (SELECT a FROM r INTERSECT ALL SELECT b FROM s) AS x JOIN u ON x.a = u.c",
    "in a subquery": "SELECT c FROM u WHERE d IN (SELECT a FROM r EXCEPT ALL SELECT b FROM s)",
    "distinct": "SELECT DISTINCT a, b FROM r",
    "distinct of a join": "SELECT DISTINCT r.a FROM r JOIN s ON r.b = s.b",
}
JOINS = {
    "left": "SELECT a, r.b, s.b AS sb, c FROM r LEFT JOIN s ON r.b = s.b",
    "left, more than equality": "SELECT a, r.b, s.b AS sb, c FROM r LEFT JOIN s ON r.b = s.b AND r.a < s.c",
    "left, condition on the left": "SELECT a, r.b, s.b AS sb, c FROM r LEFT JOIN s ON r.b = s.b AND r.a = 1",
    "left, no equality": "SELECT a, r.b, s.b AS sb, c FROM r LEFT JOIN s ON r.a < s.c",
    "right": "SELECT r.a, s.b AS sb, s.c FROM r RIGHT JOIN s ON r.b = s.b",
    "full": "SELECT r.a, r.b AS rb, s.b AS sb, s.c FROM r FULL JOIN s ON r.b = s.b",
    "counted": "SELECT r.a, count(s.c) AS n, count(*) AS m FROM r LEFT JOIN s ON r.b = s.b GROUP BY r.a",
    "anti": "SELECT a FROM r LEFT JOIN s ON r.b = s.b WHERE s.b IS NULL",
    "chain": "SELECT r.a, s.c, u.d FROM r LEFT JOIN s ON r.b = s.b LEFT JOIN u ON s.c = u.c",
    "semi": "SELECT a FROM r SEMI JOIN s ON r.b = s.b",
    "not exists": "SELECT a FROM r ANTI JOIN s ON r.b = s.b",
}
LATERAL = {
    "rows": "SELECT a, t.c FROM r, LATERAL (SELECT c FROM s WHERE s.b = r.b) AS t",
    "left, without the keyword": "SELECT a, t.c FROM r LEFT JOIN (SELECT c FROM s WHERE s.b = r.b) AS t "
    "ON t.c > r.a",
    "always one row": "SELECT a, t.n, t.m FROM r, (SELECT count(*) AS n, sum(c) AS m FROM s "
    "WHERE s.b < r.b) AS t",
    "first rows": "SELECT a, t.c FROM r LEFT JOIN LATERAL "
    "(SELECT c FROM s WHERE s.b = r.b ORDER BY c DESC LIMIT 1) AS t ON true",
    "of each other": "SELECT a, v.d FROM r, LATERAL (SELECT r.a + r.b AS x) AS t, "
    "LATERAL (SELECT DISTINCT d FROM u WHERE u.c < t.x) AS v",
    "a set operation": "SELECT a, t.x FROM r, LATERAL (SELECT c AS x FROM s WHERE s.b = r.b "
    "EXCEPT SELECT r.a) AS t",
    "groups": "SELECT a, t.b, t.n FROM r, LATERAL (SELECT s.b, count(*) AS n FROM s "
    "WHERE s.c >= r.a GROUP BY s.b) AS t",
    "in a subquery": "SELECT a FROM r WHERE EXISTS "
    "(SELECT 1 FROM s, LATERAL (SELECT s.c + r.a AS x) AS t WHERE t.x > 2 AND s.b = r.b)",
    "around a subquery": "SELECT a, t.m FROM r, LATERAL (SELECT (SELECT max(c) FROM s WHERE s.b "
    "= r.b) AS m) AS t",
    "of a full join": "SELECT r.a, s.c, t.n FROM r FULL JOIN s ON r.b = s.b, "
    "LATERAL (SELECT count(*) AS n FROM u WHERE u.c = s.c OR u.d = r.a) AS t",
    "asks what is padded alone": "SELECT r.a, t.d FROM r FULL JOIN s ON r.b = s.b, "
    "LATERAL (SELECT d FROM u WHERE 1 <> r.a OR r.a IS NULL) AS t",
    "a condition of the left alone": "SELECT s.c, t.d FROM r FULL JOIN s ON r.b = s.b, "
    "LATERAL (SELECT d FROM u WHERE 1 <> r.a) AS t",
}
BELOW = {
    "an order": "SELECT a, rank() OVER (ORDER BY (SELECT max(c) FROM s WHERE s.b = "
    "r.b) NULLS FIRST) AS n FROM r",
    "an argument": f"SELECT a, sum({N}) OVER (PARTITION BY b) AS n FROM r",
    "a partition": f"SELECT a, count(*) OVER (PARTITION BY {N}) AS n FROM r",
    "first rows": f"SELECT a FROM r ORDER BY {N} DESC, a NULLS LAST LIMIT 2",
    "in a subquery": "SELECT a, (SELECT c FROM s WHERE s.b = r.b ORDER BY "
    "(SELECT count(*) FROM u WHERE u.c = s.c) DESC, c NULLS LAST LIMIT 1) AS n FROM r",
    "a median": f"SELECT b, median({N}) AS n FROM r GROUP BY b",
    "rows not in": "SELECT a FROM r WHERE (a, b, a, b, a + 1) NOT IN (SELECT b, c, c, b, c + 1 FROM s)",
    "rows in": "SELECT a, (a, b, a, b, a) IN (SELECT b, c, b, c, b FROM s) AS n FROM r",
    "rows without NULLs": "SELECT c, (c, d, c, d, c) NOT IN (SELECT d, c, d, c, d FROM u) AS n FROM u",
    "rows all": "SELECT a, (a, 1, 1, 1, 1) = ALL (SELECT b, c, 1, 1, 1 FROM s WHERE c < 2) AS n FROM r",
    "rows any": "SELECT a, (a, b, a, b, a) <> ANY (SELECT b, b, b, b, c FROM s) AS n FROM r",
}


@pytest.mark.parametrize(
    "queries",
    [COUNT_BUG, SETS, JOINS, LATERAL, BELOW],
    ids=["count bug", "sets", "joins", "lateral", "asked below"],
)
def test_views(queries: dict[str, str]) -> None:
    for seed in range(2):
        check(TABLES, list(queries.values()), random_batches(random.Random(seed), ROWS, 6))
