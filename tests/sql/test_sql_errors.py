"""What is refused: the code, the construct that is named, and the place."""

# ruff: noqa: E501  (tables of SQL, one statement per line)

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_support import bind_all, bind_one

from everfresh.errors import Code, EverfreshError

S, U, N, TY, E, V, A = (
    Code.SYNTAX, Code.UNSUPPORTED, Code.NOT_FOUND, Code.TYPE, Code.EXISTS, Code.VALUE, Code.ARGUMENT,
)  # fmt: skip

# text, code, a part of the message, column on line 1
BAD: list[tuple[str, str, str, int]] = [
    ("SELEC 1", S, "SELEC", 1),
    ("SELECT 1 1", S, "'1'", 10),
    ("SELECT (1", S, ") expected", 9),
    ("SELECT 'abc", S, "'abc", 8),
    ("SELECT i FROM t WHERE", S, "WHERE", 17),
    ("SELECT", S, "no columns", 1),
    ("INSERT INTO k VALUES (1,,2)", S, "missing", 25),
    ("CREATE TABLE x (a)", S, "'a' has no type", 17),
    ("CREATE TABLE x (a INT) WITH (retain)", S, "name = value", 30),
    ("SELECT x FROM t", N, "'x'", 8),
    ("SELECT t.x FROM t", N, "'x'", 10),
    ("SELECT u.i FROM t", N, "'u'", 8),
    ("SELECT i FROM orders", N, "'orders'", 15),
    ("SELECT * EXCLUDE (zz) FROM t", N, "'zz'", 19),
    ("SELECT foo(i) FROM t", N, "function 'foo'", 8),
    ("SELECT k + 1, i AS k FROM t", N, "'k'", 8),
    ("SELECT *", N, "FROM", 8),
    ("DROP TABLE nothing", N, "'nothing'", 12),
    ("DROP TABLE v", N, "is a view", 12),
    ("INSERT INTO k (a, z) VALUES (1, 2)", N, "'z'", 19),
    ("INSERT INTO k VALUES (a, 'b', 1)", N, "'a'", 23),
    ("UPDATE t SET zz = 1", N, "'zz'", 14),
    ("EXPLAIN t", N, "view 't'", 1),
    ("SELECT i, sum(d) FROM t", TY, "'i' must appear in GROUP BY", 8),
    ("SELECT sum(d) + i FROM t GROUP BY ALL", TY, "'i' must appear in GROUP BY", 17),
    ("SELECT i + d FROM t GROUP BY i", TY, "'d' must appear in GROUP BY", 12),
    ("SELECT i FROM t GROUP BY i + 1", TY, "'i' must appear in GROUP BY", 8),
    ("SELECT i FROM t HAVING i > 1", TY, "'i' must appear in GROUP BY", 8),
    ("SELECT i FROM t WHERE sum(i) > 1", TY, "WHERE cannot contain the aggregate sum", 23),
    ("SELECT i FROM t GROUP BY sum(i)", TY, "GROUP BY cannot contain the aggregate sum", 26),
    ("SELECT sum(sum(i)) FROM t", TY, "inside the aggregate sum", 12),
    ("SELECT sum(i) FILTER (WHERE count(*) > 1) FROM t", TY, "inside FILTER", 29),
    ("SELECT sum(s) FROM t", TY, "sum(VARCHAR)", 8),
    ("SELECT count(i, d) FROM t", TY, "count(INTEGER, DOUBLE)", 8),
    ("SELECT i + s FROM t", TY, "VARCHAR", 8),
    ("SELECT upper(i + dt) FROM t WHERE dt + ts = 1", TY, "TIMESTAMP", 35),
    ("SELECT i FROM t ORDER BY 'a'", TY, "constant", 26),
    ("SELECT i FROM t ORDER BY 2", V, "out of range", 26),
    ("SELECT i FROM t GROUP BY 0", V, "out of range", 26),
    ("SELECT i FROM t LIMIT -1", V, "negative", 24),
    ("INSERT INTO k VALUES (1, 'x')", V, "2 values for 3 columns", 23),
    ("CREATE MATERIALIZED VIEW w (a) AS SELECT 1, 2", V, "1 column names for 2", 29),
    ("CREATE TABLE x (a INT, A INT)", E, "declared twice", 24),
    ("CREATE TABLE x (a INT PRIMARY KEY, PRIMARY KEY (a))", E, "more than one primary key", 49),
    ("INSERT INTO k (a, A, b) VALUES (1, 2, 3)", E, "listed twice", 19),
    ("UPDATE t SET i = 1, I = 2", E, "assigned twice", 21),
    ("ALTER TABLE t ADD COLUMN I INT", E, "already", 26),
    ("INSERT OR REPLACE INTO t (i) VALUES (1)", A, "primary key", 24),
    ("INSERT INTO k VALUES (1, 'x', 2) ON CONFLICT (a) DO NOTHING", A, "not the primary key", 47),
    ("CREATE TABLE x (a INT) WITH (retian = false)", A, "'retian'", 1),
    ("CREATE TABLE x (a INT) WITH (retain = 3)", A, "true or false", 1),
    ("CREATE VIEW w WITH (strategy = 'auto') AS SELECT 1", A, "'strategy'", 1),
    ("CREATE VIEW w (a INT) AS SELECT 1", S, "names alone", 16),
    ("PIVOT t ON i", U, "PIVOT without its values", 12),
    ("PIVOT t ON s IN ('a', s) USING sum(i)", U, "no constant", 23),
    ("PIVOT t ON s IN ('a') USING upper(s)", TY, "aggregates", 29),
    ("SELECT * FROM t UNPIVOT ((a, c) FOR n IN ((i, d), i))", TY, "not 1", 27),
    ("SELECT * FROM t UNPIVOT (v FOR n IN (i, nope))", N, "nope", 41),
    ("SELECT approx_top_k(i, 2) FROM t", U, "aggregate APPROX_TOP_K", 8),
    ("SELECT avg(dt) FROM t", U, "avg(DATE)", 8),
    ("CREATE MATERIALIZED VIEW w AS SELECT now() AS n FROM t", U, "NOW", 38),
    ("CREATE VIEW w AS SELECT today() AS n", U, "CURRENT_DATE", 25),
    ("SELECT random() FROM t", U, "RANDOM", 8),
    ("CREATE MATERIALIZED VIEW w AS SELECT i, random() AS r FROM t", U, "RANDOM", 41),
    ("CREATE VIEW w AS SELECT i FROM t WHERE dt = CURRENT_DATE", U, "CURRENT_DATE", 45),
    ("SELECT i, current_time FROM t", U, "CURRENT_TIME", 11),
    ("SELECT uuid() FROM t", U, "UUID", 8),
    ("SELECT strftime(dt, s) FROM t", U, "strftime with a format", 8),
    ("SELECT s::bit FROM t", U, "BIT", 8),
    ("SELECT s[1:2] FROM t", U, "a slice of a text", 10),
    ("SELECT i < 2 < 3 FROM t", U, "chain of comparisons", 8),
    ("SELECT date_trunc(s, dt) FROM t", U, "DATE_TRUNC", 8),
    ("SELECT dt + INTERVAL '1.5 days' FROM t", U, "INTERVAL '1.5", 8),
    ("SELECT i FROM main.t", U, "main.t", 15),
    ("SELECT i FROM glob(s)", U, "table function", 15),
    ("SELECT DISTINCT i FROM t ORDER BY d", U, "SELECT DISTINCT", 35),
    ("SELECT i FROM t LIMIT 50%", U, "PERCENT", 17),
    ("SELECT * REPLACE (i + 1 AS x) FROM t", N, "column 'x' in '*'", 19),
    ("SELECT * RENAME (x AS y) FROM t", N, "column 'x' in '*'", 18),
    ("SELECT * LIKE 'zz%' FROM t", N, "nothing is left", 8),
    ("SELECT COLUMNS('zz') FROM t", N, "finds no column", 8),
    ("SELECT COLUMNS('(') FROM t", S, "regular expression", 8),
    ("SELECT COLUMNS('i') + COLUMNS('b') FROM t", U, "several different COLUMNS", 8),
    ("SELECT i FROM t EXCEPT BY NAME SELECT i FROM t", U, "EXCEPT BY NAME", 32),
    ("SELECT i FROM t POSITIONAL JOIN k", U, "POSITIONAL JOIN", 17),
    ("CREATE TABLE x (a INT UNIQUE)", U, "UNIQUE", 17),
    ("CREATE TABLE x (a INT, CHECK (z > 1))", N, "'z'", 31),
    ("CREATE TABLE x (a INT, CHECK (a > (SELECT 1)))", U, "subquery", 35),
    ("CREATE TABLE x (a INT, CHECK (SUM(a) > 1))", TY, "aggregate", 31),
    ("CREATE TABLE x (a INT CHECK (a > random()))", U, "RANDOM", 34),
    ("CREATE TABLE x (a INT, CONSTRAINT c CHECK (a > 1), CONSTRAINT C CHECK (a > 2))", E, "'c'", 1),
    ("CREATE TABLE x (a INT, b INT AS (c), c INT AS (b))", "dependency", "b, c", 1),
    ("CREATE TABLE x (a INT, b INT AS (a) UNIQUE)", U, "UNIQUE of a generated", 24),
    ("CREATE TABLE x (a INT, b INT AS (a) NOT NULL)", U, "NOT NULL", 24),
    ("CREATE TABLE x (a INT, b AS (a), PRIMARY KEY (b))", U, "primary key", 14),
    ("CREATE TABLE x (b AS (1))", S, "not generated", 14),
    ("CREATE TABLE x (a INT, b AS (NULL))", TY, "type", 24),
    ("CREATE TABLE x (a INT, b AS (now()))", U, "NOW", 30),
    ("ALTER TABLE t ADD COLUMN c AS (i + 1)", U, "generated", 26),
    ("ALTER TABLE t ADD CHECK (z > 1)", N, "'z'", 26),
    ("ALTER TABLE t ADD CHECK (i > 1", S, "')'", 31),
    ("ALTER TABLE t ADD CHECK ()", S, "expression", 26),
    ("ALTER TABLE t DROP CONSTRAINT c", N, "'c'", 31),
    ("CREATE TABLE x (a INT DEFAULT b)", N, "column 'b'", 31),
    ("CREATE TABLE x (a INT DEFAULT random())", U, "RANDOM", 31),
    ("CREATE TABLE x (a INT DEFAULT (SELECT 1))", U, "subquery in DEFAULT", 31),
    ("CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES k (a))", U, "FOREIGN KEY", 37),
    ("CREATE TABLE x (a INT REFERENCES k (a))", U, "REFERENCES", 17),
    ("CREATE TABLE x (a UHUGEINT)", U, "type UINT128", 17),
    ("CREATE TABLE x (a INT[3])", U, "type INT[3]", 17),
    ("CREATE TABLE x (a BIT)", U, "type BIT", 17),
    ("CREATE TABLE x (a INTERVAL)", U, "type INTERVAL", 17),
    ("CREATE TABLE x (a DECIMAL(50,1))", TY, "DECIMAL(50,1)", 17),
    ("CREATE TABLE x AS SELECT INTERVAL '1 day' AS i", U, "type INTERVAL", 19),
    ("CREATE TABLE x (a, a) AS SELECT 1, 2", E, "declared twice", 20),
    ("CREATE TEMP TABLE x (a INT)", U, "TEMPORARY", 1),
    ("CREATE INDEX x ON t (i)", U, "CREATE INDEX", 1),
    ("DROP SCHEMA x", U, "DROP SCHEMA", 1),
    ("DROP TABLE t, k", U, "several", 1),
    ("ALTER TABLE t RENAME TO", S, "name", 24),
    ("ALTER TABLE t ALTER i TYPE BIGINT", U, "type of a column", 23),
    ("ALTER TABLE x RENAME TO u", N, "'x'", 13),
    ("ALTER VIEW t RENAME TO u", N, "not a view", 12),
    ("ALTER INDEX t RENAME TO u", U, "ALTER INDEX", 1),
    ("ALTER TABLE v ADD COLUMN c INT", U, "view 'v'", 13),
    ("INSERT INTO v VALUES (1, 2)", U, "view 'v'", 13),
    ("ALTER TABLE t ADD COLUMN c TIMESTAMP DEFAULT now()", U, "NOW", 46),
    ("INSERT INTO k BY NAME SELECT 1 AS a", U, "BY NAME", 13),
    ("DELETE FROM t RETURNING count(*)", U, "aggregate in RETURNING", 15),
    ("DELETE FROM t RETURNING (SELECT 1)", U, "subquery in RETURNING", 15),
    ("UPDATE t SET (i, b) = (1, 2, 3)", V, "3 values for 2", 15),
    ("MERGE INTO k USING t ON true WHEN NOT MATCHED THEN INSERT VALUES (1)", V, "1 values for 3", 67),
    ("MERGE INTO v USING t ON true WHEN MATCHED THEN DELETE", U, "view 'v'", 12),
    ("COPY t TO 'x.csv' (NULLSTR 'x')", U, "NULLSTR", 6),
    ("COPY t TO 'x.csv' (FORMAT xml)", U, "format 'xml'", 1),
    ("COPY t FROM 'x' (FORMAT json)", U, "format 'json'", 1),
    ("BEGIN", U, "BEGIN", 1),
    ("SAVEPOINT a", U, "SAVEPOINT", 1),
    ("VACUUM", U, "VACUUM", 1),
    ("EXPLAIN ANALYZE DELETE FROM t", U, "ANALYZE", 1),
    ("SHOW DATABASES", U, "SHOW DATABASES", 1),
]


@pytest.mark.parametrize(("text", "code", "named", "column"), BAD, ids=[b[0] for b in BAD])
def test_bad_statement(text: str, code: str, named: str, column: int) -> None:
    with pytest.raises(EverfreshError) as caught:
        bind_all(text)
    error = caught.value
    assert (error.code, named in error.message, error.place) == (code, True, f"line 1, column {column}"), str(
        error
    )
    assert "\x1b" not in str(error)


def test_places_are_of_the_script() -> None:
    with pytest.raises(EverfreshError) as caught:
        bind_all("SELECT i FROM t;\n\n  SELECT i,\n    nope\n  FROM t")
    assert caught.value.place == "line 4, column 5"


def test_hints() -> None:
    with pytest.raises(EverfreshError, match="did you mean 'MixEd'"):
        bind_one("SELECT mixd FROM t")
    with pytest.raises(EverfreshError, match="did you mean 'substring'"):
        bind_one("SELECT substrin(s, 1) FROM t")
    with pytest.raises(EverfreshError, match="did you mean 'spark'"):
        bind_one("SELECT 1", dialect="sparc")
    with pytest.raises(EverfreshError, match="did you mean 'retain'"):
        bind_one("CREATE TABLE x (a INT) WITH (retian = false)")


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(EverfreshError):
        bind_one("ALTER TABLE t SET (x = 3) garbage")
    assert caplog.records == []


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(EverfreshError):
        bind_one("SELECT " + "(" * 5000 + "1" + ")" * 5000)
    with pytest.raises(EverfreshError):
        bind_one("SELECT " + "-" * 1 + " + ".join(["i"] * 20000) + " FROM t")


def test_long_conditions_are_not_deep() -> None:
    text = " OR ".join(f"i = {k}" for k in range(400))
    assert bind_one(f"SELECT i FROM t WHERE {text}").plan


FRAGMENTS = [
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "DISTINCT", "*", "t", "i", "s", "d", "v", ",", "(",
    ")", "1", "'a'", "1.5", "+", "-", "/", "=", "<", "AND", "OR", "NOT", "IS NULL", "IN", "BETWEEN", "LIKE", "CASE", "WHEN",
    "THEN", "ELSE", "END", "CAST", "AS", "INT", "::", "sum", "count", "(*)", "INTERVAL", "DATE", "EXTRACT", "year", "FILTER",
    "OVER", "INSERT INTO", "VALUES", "k", "CREATE", "TABLE", "STATIC", "MATERIALIZED", "VIEW", "WITH", "PRIMARY KEY", "DROP",
    "ALTER", "ADD", "COLUMN", "UPDATE", "SET", "DELETE", "ON CONFLICT", "DO", "NOTHING", "excluded", ".", "COPY", "EXPLAIN",
    "SHOW", "TABLES", ";", "JOIN", "UNION", "LEFT", "FULL", "CROSS", "NATURAL", "ON", "INTERSECT", "EXCEPT", "EXISTS",
    "(SELECT i FROM t)", "(SELECT", "OVER (", "PARTITION BY", "ROWS", "BETWEEN", "PRECEDING", "rank()", "lag", "max", "QUALIFY",
    "WINDOW", "w", "AS (", "LATERAL", "x", "VALUES (1)", "(i, d)", "stddev", "count(DISTINCT", "t AS y", "(VALUES (1))", "EXCLUDE", "NULL", "TRUE", "\"", "'", "--", "/*", "$$", "?", ":", "[", "]", "{",
    "}", "@", "#", "é", "\x00", "DESCRIBE", "USING", "ALL", "ANY", "trim", "substring", "NULLS FIRST", "DESC", "OFFSET", "%",
]  # fmt: skip
STARTS = ["SELECT", "SELECT i FROM t", "INSERT INTO k", "CREATE TABLE x", "CREATE MATERIALIZED VIEW w AS SELECT",
          "UPDATE t SET", "DELETE FROM t WHERE", "ALTER TABLE t", "COPY t FROM", "SELECT i FROM t ORDER BY", "SELECT * FROM t x JOIN",
          "WITH w AS (SELECT i FROM t) SELECT", "SELECT i FROM t WHERE i IN (SELECT", "SELECT sum(i) OVER (",
          "SELECT i FROM t UNION", "SELECT (SELECT", ""]  # fmt: skip


def _check(text: str, dialect: str) -> None:
    """Bind a script; any other exception than EverfreshError fails the test."""
    error = None
    try:
        for statement in bind_all(text, dialect=dialect):
            str(getattr(statement, "plan", ""))
    except EverfreshError as caught:
        error = caught
    assert error is None or (str(error) and (error.place or error.code in (Code.SYNTAX, Code.ARGUMENT)))


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(FRAGMENTS), max_size=12),
    st.sampled_from(["duckdb", "duckdb", "duckdb", "spark", "postgres", "mysql"]),
)
def test_fragments_raise_only_everfresh_errors(start: str, parts: list[str], dialect: str) -> None:
    _check(" ".join([start, *parts]), dialect)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_text_raises_only_everfresh_errors(text: str) -> None:
    _check(text, "duckdb")
