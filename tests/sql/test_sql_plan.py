"""Statements to plans: golden text, DuckDB's types and names, and DuckDB's results."""

# ruff: noqa: E501  (tables of SQL, one statement per line)

from __future__ import annotations

import math
import random
from typing import Any

import duckdb
import pytest
from sql_support import bind_one, connect, duck_type, logical

from everfresh.sql import Select
from everfresh.sql.queries.clauses import distinct_names

CON = connect()

# Each is run in DuckDB and here: same names, same types, same rows. Rows are compared in order if there is ORDER BY.
QUERIES = """
SELECT * FROM t
SELECT t.* FROM t
SELECT x.* FROM t AS x
SELECT * EXCLUDE (i, "My Col", MIXED) FROM t
SELECT t.* EXCLUDE (b) FROM t
SELECT I, T.i, "I" AS q, mixed, "my col" FROM t
SELECT i+1, i - 1, i*2, i/2, i//2, i%2, -i, -(i+1), ((i)) FROM t
SELECT bi + i, si + ti, i * 1.5, dc * 2, dc + dc, dc * dc, dc / 2, r + d, h + 1, ti + 1 FROM t
SELECT i = 1, i <> 1, i != 1, i < 1, i <= 1, i > 1, i >= 1, s = 'apple', dt < '2020-01-01', ts >= '2020-01-01' FROM t
SELECT b AND i > 1 AND b, b OR b AND i = 1, (b OR b) AND i = 1, NOT b, NOT b OR b FROM t
SELECT i IN (1, 2), i NOT IN (1, NULL), s IN ('apple', 'x'), NOT i IN (3), dc IN (1, 1.25) FROM t
SELECT i BETWEEN 1 AND 2, i NOT BETWEEN 1 AND 2, dt BETWEEN '2000-01-01' AND DATE '2021-01-01' FROM t
SELECT s IS NULL, s IS NOT NULL, s ISNULL, s NOTNULL, NOT s IS NULL, b IS TRUE, b IS NOT TRUE, b IS FALSE, b IS UNKNOWN FROM t
SELECT i IS DISTINCT FROM 1, i IS NOT DISTINCT FROM NULL FROM t
SELECT s LIKE 'a%', s NOT LIKE 'a%', s ILIKE 'b%', s NOT ILIKE 'b%', s LIKE '%!%%' ESCAPE '!' FROM t
SELECT CASE WHEN i > 1 THEN 'big' WHEN i = 1 THEN 'one' END, CASE i WHEN 1 THEN 1.5 ELSE 0 END, IF(b, 1, 2) FROM t
SELECT CAST(i AS BIGINT), i::bigint, i::DOUBLE, i::varchar, dc::int, d::decimal(12,1), '12'::smallint, b::int, ts::date FROM t
SELECT CAST(i AS text), i::tinyint, i::hugeint, i::real, i::float, i::boolean, i::numeric(9,3) FROM t
SELECT DATE '2020-01-01', TIMESTAMP '2020-01-01 10:00:00', 'it''s', 1.50, .5, 1e3, 100000000000, TRUE, NULL, 1_000 FROM t
SELECT -1, - 1, -1.50, -9223372036854775808, -(1), - -1, 99999999999999999999, 2147483648, -2147483648 FROM t
SELECT extract(year FROM dt), EXTRACT(month FROM ts), year(dt), month(dt), day(dt), quarter(dt), date_part('day', ts) FROM t
SELECT hour(ts), minute(ts), second(ts), dayofweek(dt), dayofyear(dt), week(dt), isodow(dt) FROM t
SELECT date_trunc('month', dt), date_trunc('HOUR', ts), date_trunc('year', ts) FROM t
SELECT dt + 1, dt - 1, dt - dt, dt + INTERVAL 1 MONTH, ts - INTERVAL 2 days, dt + INTERVAL 3 hours FROM t
SELECT substring(s, 1, 2), substr(s, 2), substring(s FROM 2 FOR 2), left(s, 2), right(s, 2) FROM t
SELECT upper(s), LOWER(s), lcase(s), length(s), len(s), reverse(s), replace(s, 'a', 'x'), repeat(s, 2) FROM t
SELECT trim(s), ltrim(s), rtrim(s, 'e'), trim(both 'a' FROM s), trim(leading 'a' FROM s), lpad(s, 3, 'x'), rpad(s, 7, '.') FROM t
SELECT s || '!', s || i, concat(s, i), strpos(s, 'p'), instr(s, 'p'), position('a' IN s), starts_with(s, 'a'), s ^@ 'a' FROM t
SELECT contains(s, 'an'), ends_with(s, 'e'), prefix(s, 'a'), suffix(s, 'e') FROM t
SELECT abs(i), sign(d), round(d), round(d, 1), floor(d), ceil(d), ceiling(d), trunc(d), round(dc, 1) FROM t
SELECT power(i, 2), pow(i, 2), i ^ 2, i ** 2, exp(i), mod(i, 2), sqrt(abs(d)), ln(i), log10(i), log2(i), log(i) FROM t
SELECT coalesce(i, 0), ifnull(i, 1), nullif(i, 1), greatest(i, 2), least(i, 2, si) FROM t
SELECT i AS a, a + 1 AS b2, a * b2 FROM t
SELECT i AS k FROM t WHERE k > 1
SELECT i FROM t WHERE b AND s LIKE 'a%'
SELECT i FROM t WHERE i
SELECT sum(i), count(*), count(i), avg(i), sum(dc), avg(dc), sum(d), avg(r), sum(b), sum(h), count() FROM t
SELECT sum(r), sum(ti), sum(si), sum(bi), avg(d), avg(h), sum(NULL), avg(NULL), count(NULL) FROM t
SELECT sum(i + 1), sum(i) + 1, sum(i) / count(*), avg(i) FILTER (WHERE b), mean(i), count(*) FILTER (WHERE i > 1) FROM t
SELECT i, sum(d) FROM t GROUP BY i
SELECT i AS k, sum(d) FROM t GROUP BY k
SELECT i % 2 AS k, count(*) FROM t GROUP BY 1
SELECT i + 1, (i + 1) * 2, sum(d) FROM t GROUP BY i + 1
SELECT i, b, sum(d), count(*) FROM t GROUP BY ALL
SELECT 'a', count(*) FROM t GROUP BY ALL
SELECT count(*) FROM t GROUP BY i
SELECT count(*) FROM t GROUP BY ()
SELECT i, count(*) FROM t GROUP BY i, 1, I
SELECT i, sum(dc) AS total FROM t GROUP BY i HAVING total > 1
SELECT i FROM t GROUP BY i HAVING count(*) > 1 AND i > 0
SELECT count(*) FROM t HAVING count(*) > 100
SELECT 1 FROM t HAVING count(*) > 1
SELECT count(*) FROM t WHERE false
SELECT sum(i) FROM t WHERE i > 100 GROUP BY b
SELECT DISTINCT i FROM t
SELECT DISTINCT i, b FROM t ORDER BY i, b
SELECT DISTINCT i % 2 AS k FROM t ORDER BY k DESC
SELECT i, d FROM t ORDER BY i, d DESC, bi
SELECT i FROM t ORDER BY i DESC NULLS FIRST, d LIMIT 3
SELECT i FROM t ORDER BY d NULLS FIRST, bi LIMIT 2 OFFSET 1
SELECT -i AS i FROM t ORDER BY i, d
SELECT -i AS i FROM t ORDER BY i + 0, d
SELECT i, sum(d) FROM t GROUP BY i ORDER BY sum(d) DESC
SELECT i, sum(d) AS k FROM t GROUP BY i ORDER BY i + k
SELECT i FROM t GROUP BY i ORDER BY count(*), 1
SELECT i, s FROM t ORDER BY ALL
SELECT i FROM t ORDER BY 1 LIMIT 1 + 1
SELECT 1, 'a', 1 + 1
SELECT count(*)
SELECT sum(2) WHERE false
SELECT a, c FROM t AS x (a, c)
SELECT x.i FROM t x
FROM t SELECT i
FROM t
SELECT q: i + 1 FROM t
SELECT sum(t.i + 1), count(t.i) FROM t
SELECT "My Col" + 1, sum("My Col") FROM t GROUP BY ALL
SELECT i + 1 BETWEEN 1 AND 2 + 1, i = 1 IS TRUE, -2 ^ 2, 2 ^ 3 ^ 2, s || 1 + 2, 7 % 4 * 2, NOT i = 1, b = (NOT b) FROM t
SELECT dt + INTERVAL '1 month 2 days', ts + INTERVAL (i) DAY, ts - INTERVAL 1 year + INTERVAL '90' SECOND AS x FROM t
SELECT CASE WHEN b THEN i END + 1, coalesce(s, 'none') || '.', (i = 1) = b FROM t
""".strip().splitlines()
# DuckDB names an interval by how its amount was quoted, which sqlglot does not keep
UNNAMED = ("INTERVAL '", "INTERVAL (")


@pytest.mark.parametrize("query", QUERIES)
def test_query_equals_duckdb(query: str) -> None:
    expected = CON.sql(query)
    rows = expected.fetchall() if expected is not None else None
    statement = bind_one(query)
    assert isinstance(statement, Select)
    described = CON.execute(f"DESCRIBE {query}").fetchall()
    columns = statement.plan.columns
    assert [str(c.type) for c in columns] == [duck_type(r[1]) for r in described]
    if not any(u in query for u in UNNAMED):
        assert [c.name for c in columns] == distinct_names([r[0] for r in described])
    found = logical(statement.plan)
    rows = CON.execute(query).fetchall() if rows is None else rows
    if "ORDER BY" not in query:
        found, rows = sorted(found, key=repr), sorted(rows, key=repr)
    assert len(found) == len(rows)
    for mine, theirs in zip(found, rows, strict=True):
        assert all(_same(a, b) for a, b in zip(mine, theirs, strict=True)), (mine, theirs)
    for column, values in zip(columns, zip(*found, strict=True), strict=False):
        assert column.nullable or None not in values, column


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6) or (math.isnan(a) and math.isnan(b))
    return a == b and type(a) is type(b)


GOLDEN = [
    (
        "SELECT i, d FROM t WHERE i > 1",
        """
        Project i, d
          Filter i > 1
            Scan t (b, ti, si, i, bi, h, r, d, dc, s, dt, ts, "My Col", MixEd)
        """,
    ),
    (
        "SELECT g, total * 2 AS twice FROM v AS w",
        """
        Project g, twice = total * 2::HUGEINT
          Scan v AS w (g, total)
        """,
    ),
    (
        "SELECT g % 2 AS parity, SUM(total), AVG(total) + 1 AS x FROM v GROUP BY parity HAVING COUNT(*) > 1",
        """
        Project parity, "sum(total)" = sum_1, x = avg_1 + 1.0e0
          Filter count_1 > 1::BIGINT
            Aggregate by [parity = g % 2]: sum_1 = sum(total), avg_1 = avg(total), count_1 = count(*)
              Scan v (g, total)
        """,
    ),
    (
        "SELECT COUNT(*) AS n FROM v",
        """
        Project n = count_1
          Aggregate all: count_1 = count(*)
            Scan v (g, total)
        """,
    ),
    (
        "SELECT DISTINCT g FROM v ORDER BY g DESC LIMIT 3 OFFSET 1",
        """
        Limit 3 OFFSET 1
          Sort g DESC NULLS LAST
            Distinct
              Project g
                Scan v (g, total)
        """,
    ),
    (
        "SELECT g FROM v ORDER BY total",
        """
        Project g
          Sort _order1 ASC NULLS LAST
            Project g, _order1 = total
              Scan v (g, total)
        """,
    ),
    ("SELECT 1 AS one", "\nProject one = 1\n  Single\n"),
    (
        "SELECT g, g, total AS g_1 FROM v",
        """
        Project g, g_1 = g, g_1_1 = total
          Scan v (g, total)
        """,
    ),
    (
        "SELECT SUM(total) FILTER (WHERE g = 1) AS a, SUM(total) FILTER (WHERE g = 1) + 1 AS b FROM v",
        """
        Project a = sum_1, b = sum_1 + 1::HUGEINT
          Aggregate all: sum_1 = sum(total) FILTER (WHERE g = 1)
            Scan v (g, total)
        """,
    ),
]


def _normal(text: str) -> str:
    """Plan text without the spelling of casts and types, which belongs to the text form of expressions."""
    lines = [line for line in text.splitlines() if line.strip()]
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[indent:] for line in lines)


@pytest.mark.parametrize(("query", "expected"), GOLDEN)
def test_golden(query: str, expected: str) -> None:
    assert _normal(str(bind_one(query).plan)) == _normal(expected)


# -- random expressions: few parentheses, so that precedence is tested too -------------------------------------

ATOMS = {
    "number": ["i", "bi", "si", "ti", "dc", "t.i", "1", "2", "1.5", "-1", "-i", "0.25"],
    "text": ["s", "'a'", "'apple'", "upper(s)", "s || 'x'", "substr(s, 1, 2)"],
    "truth": ["b", "i = 1", "b IS NULL", "NOT b", "i > 1"],
}
FORMS = {
    "number": [
        "{number} + {number}", "{number} - {number}", "{number} * {number}", "{number} / {number}", "({number})",
        "- {number}", "CASE WHEN {truth} THEN {number} ELSE {number} END", "coalesce({number}, {number})", "abs({number})",
        "length({text})", "{number}::bigint", "nullif({number}, {number})", "greatest({number}, {number})", "year(dt)",
    ],
    "text": [
        "{text} || {text}", "coalesce({text}, {text})", "CASE WHEN {truth} THEN {text} END", "lower({text})",
        "{number}::varchar", "replace({text}, 'a', {text})",
    ],
    "truth": [
        "{number} = {number}", "{number} <> {number}", "{number} < {number}", "{truth} AND {truth}", "{truth} OR {truth}",
        "NOT {truth}", "{number} BETWEEN {number} AND {number}", "{number} NOT BETWEEN {number} AND {number}",
        "{number} IN ({number}, {number})", "{number} NOT IN ({number})", "{text} LIKE 'a%'", "{text} NOT ILIKE {text}",
        "{truth} IS NULL", "{truth} IS NOT TRUE", "{number} IS DISTINCT FROM {number}", "({truth})", "dt < '2020-01-31'",
        "ts >= dt",
    ],
}  # fmt: skip


def _text(rng: random.Random, kind: str, depth: int) -> str:
    if depth == 0:
        return rng.choice(ATOMS[kind])
    form = rng.choice(FORMS[kind])
    for part in ("number", "text", "truth"):
        while "{" + part + "}" in form:
            form = form.replace("{" + part + "}", _text(rng, part, depth - 1), 1)
    return form


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions_equal_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    agreed = 0
    for _ in range(40):
        query = f"SELECT {_text(rng, rng.choice(list(FORMS)), rng.choice([1, 2, 2, 3]))} FROM t"
        try:
            (described,) = CON.execute(f"DESCRIBE {query}").fetchall()
            rows = CON.execute(query).fetchall()
        except duckdb.Error:
            continue  # types that do not mix, chained comparisons, overflow: DuckDB refuses
        plan = bind_one(query).plan
        (column,) = plan.columns
        assert str(column.type) == duck_type(described[1]), query
        assert column.name == described[0], query
        for (mine,), (theirs,) in zip(logical(plan), rows, strict=True):
            assert _same(mine, theirs), query
        agreed += 1
    assert agreed > 20
