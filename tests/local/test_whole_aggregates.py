"""Aggregates that need all values of a group: their views equal DuckDB's answers after every batch, and where
DuckDB takes any of several values, the least."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pytest

import everfresh as ef
from everfresh.testing.engine.suite_aggregates import ASKED, TABLE

COLUMNS = "g INTEGER, i INTEGER, m DECIMAL(9,2), d DOUBLE, s VARCHAR, b BOOLEAN, h HUGEINT, day DATE"
AGGREGATES = [
    "MEDIAN(i)", "MEDIAN(d)", "QUANTILE_CONT(i, 0.25)", "QUANTILE_CONT(d, 1)", "QUANTILE_DISC(i, 0.5)",
    "QUANTILE_DISC(m, 0.75)", "QUANTILE_DISC(s, 0.3)", "QUANTILE_DISC(day, 0)", "PRODUCT(d)", "BIT_AND(i)",
    "BIT_OR(h)", "BIT_XOR(i)", "MIN_BY(i, d)", "ARG_MAX(i + 1, s)", "MEDIAN(i) FILTER (WHERE i > 1)",
    "MEDIAN(DISTINCT i)", "MODE(s)", "MEDIAN(i) + 1, SUM(i), COUNT(*)",
    "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY i)", "MEDIAN(m)", "QUANTILE_CONT(m, 0.3)", "MEDIAN(day)",
    "QUANTILE_CONT(CAST(m AS DECIMAL(30,2)), 0.7)", "QUANTILE_CONT(day, 0.9)", "MEDIAN(s)",
    "STRING_AGG(s, '+' ORDER BY s) FILTER (WHERE i > 0)", "FIRST(i ORDER BY d DESC)",
    "LIST(i ORDER BY d)", "ARRAY_AGG(DISTINCT s ORDER BY s DESC)", "HISTOGRAM(m)", "HISTOGRAM(b)",
    "LIST(h ORDER BY h NULLS FIRST) FILTER (WHERE i > 0)", "ARG_MIN(i, d, 2)", "MAX_BY(s, d, 3)",
    "MIN(m, 2)", "MAX(DISTINCT i, 2)", "QUANTILE_CONT(d, [0.2, 0.9])", "QUANTILE_DISC(day, [0.5])",
    "MAD(i)", "MAD(m)", "MAD(d)", "LIST([i, NULL] ORDER BY i)[1], LEN(LIST(s))",
]  # fmt: skip
SHAPES = [
    "SELECT g, {} FROM t GROUP BY g",
    "SELECT {} FROM t",
    "SELECT g % 2 AS k, {} FROM t WHERE i IS NOT NULL GROUP BY g % 2 HAVING COUNT(*) > 1",
    "SELECT x.g, n FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g) x JOIN "
    "(SELECT g, {} FROM t GROUP BY g) y ON x.g = y.g",
]


def batches() -> Iterator[tuple[list[Any], list[Any]]]:
    """Rows that come and go; texts and doubles are unique, so that no extreme is there twice."""
    random, live, count = Random(5), list[Any](), 0

    def maybe(value: Any) -> Any:
        return None if random.random() < 0.2 else value

    for batch in range(12):
        gone = [row for row in live if random.random() < (1.0 if batch == 9 else 0.25)]
        live = [row for row in live if row not in gone]
        come = []
        for _ in range(random.randrange(6)):
            count += 1
            number, letter = random.randrange(-3, 6), random.choice("abcd")
            row = (
                random.randrange(4),
                number,
                Decimal(random.randrange(9)) / 4,
                count / 8,
                f"{letter}{count}",
            )
            day = dt.date(2024, 1, random.randrange(1, 29))
            come.append(tuple(map(maybe, (*row, True, random.randrange(2**70), day))))
        live += come
        yield come, gone


@pytest.mark.parametrize("shape", SHAPES, ids=["grouped", "all", "having", "joined"])
def test_views_follow_their_table(shape: str) -> None:
    duck = duckdb.connect()
    duck.execute(f"CREATE TABLE t ({COLUMNS})")
    with ef.connect(engine="local") as db:
        db.sql(f"CREATE TABLE t ({COLUMNS})")
        chosen = [a for a in AGGREGATES if shape is not SHAPES[0] or a != "MODE(s)"]
        for k, aggregate in enumerate(chosen):
            db.sql(f"CREATE MATERIALIZED VIEW v{k} AS {shape.format(aggregate)}")
        live: list[Any] = []
        for come, gone in batches():
            db.apply(t=ef.Delta(inserts=come, deletes=gone))
            live = [row for row in live if row not in gone] + come
            duck.execute("DELETE FROM t")
            if live:
                duck.executemany(f"INSERT INTO t VALUES ({', '.join('?' * 8)})", live)
            for k, aggregate in enumerate(chosen):
                if aggregate == "MODE(s)":
                    continue
                wanted = duck.execute(shape.format(aggregate)).fetchall()
                got = [tuple(row) for row in db.view(f"v{k}").fetchall()]
                assert sorted(map(repr, got)) == sorted(map(repr, wanted)), aggregate
        for k in range(len(chosen)):
            assert db.view(f"v{k}").verify().num_rows == 0
    duck.close()


def test_of_several_the_least_is_taken() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (k INTEGER, s VARCHAR)")
        query = "SELECT 1 AS one, MODE(s) AS m, ARG_MIN(s, k) AS a FROM t GROUP BY one"
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        for rows in ([(1, "b"), (2, "c"), (2, "c"), (1, "b")], [(1, "a"), (1, "a")]):
            db.apply(t=rows)
        assert db.view("v").fetchall() == [(1, "a", "a")]
        db.sql("DELETE FROM t WHERE s = 'a'")
        assert db.view("v").fetchall() == [(1, "b", "b")]


def test_grouped_ones_are_kept_by_partitions() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (g INTEGER, i INTEGER)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, MEDIAN(i) AS m FROM t GROUP BY g")
        assert db.view("v").explain().startswith("Incremental")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n, MEDIAN(i) AS m FROM t")
        assert db.view("w").explain().startswith("Incremental")
        assert db.view("w").fetchall() == [(0, None)]
        db.apply(t=[(1, 3), (2, 5)])
        db.apply(t=ef.Delta(deletes=[(1, 3)]))
        assert db.view("w").fetchall() == [(1, 5.0)]
        db.apply(t=ef.Delta(deletes=[(2, 5)]))
        assert db.view("w").fetchall() == [(0, None)]


def test_those_that_rows_ask_for_are_kept_incrementally() -> None:
    with ef.connect(engine="local") as db:
        db.sql(TABLE)
        for name, query in ASKED.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            assert db.view(name).explain().startswith("Incremental"), name


def test_without_an_order_the_least_or_the_values_in_their_order() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (g INTEGER, s VARCHAR)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, ANY_VALUE(s) AS a, FIRST(s) AS f, LAST(s) AS l, "
               "STRING_AGG(s) AS every, APPROX_COUNT_DISTINCT(s) AS n FROM t GROUP BY g")  # fmt: skip
        db.apply(t=[(1, "c"), (1, "a"), (1, None), (2, None), (1, "c")])
        assert sorted(db.view("v").fetchall()) == [
            (1, "a", "a", "c", "a,c,c", 2),
            (2, None, None, None, None, 0),
        ]
        db.apply(t=ef.Delta(deletes=[(1, "a")]))
        assert sorted(db.view("v").fetchall())[0] == (1, "c", "c", "c", "c,c", 1)


def test_lists_without_an_order_and_what_is_told_of_all_values() -> None:
    duck = duckdb.connect()
    rows = [(1, 2.5), (1, -1.0), (1, None), (1, 2.5), (1, 8.0), (2, 4.0), (3, None), (4, 1.0), (4, 1.0)]
    shapes = "KURTOSIS(x), KURTOSIS_POP(x), SKEWNESS(x), MAD(x), ENTROPY(x), SKEWNESS(DISTINCT x)"
    with ef.connect(engine="local") as db:
        for run in (duck.execute, db.sql):
            run("CREATE TABLE t (g INTEGER, x DOUBLE)")
        duck.executemany("INSERT INTO t VALUES (?, ?)", rows)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, LIST(x) AS l, HISTOGRAM(x) AS h FROM t GROUP BY g")
        db.sql(f"CREATE MATERIALIZED VIEW w AS SELECT g, {shapes} FROM t GROUP BY g")
        db.sql("CREATE MATERIALIZED VIEW a AS SELECT APPROX_QUANTILE(x, 0.5) AS a FROM t")
        db.apply(t=[(1, 1e200), (1, float("inf")), *rows])
        assert all(x != x for x in sorted(db.view("w").fetchall())[0][1:4])  # beyond a double
        db.apply(t=ef.Delta(deletes=[(1, 1e200), (1, float("inf"))]))
        assert sorted(db.view("v").fetchall()) == [
            (1, [-1.0, 2.5, 2.5, 8.0, None], {-1.0: 1, 2.5: 2, 8.0: 1}),
            (2, [4.0], {4.0: 1}),
            (3, [None], None),
            (4, [1.0, 1.0], {1.0: 2}),
        ]
        wanted = sorted(duck.execute(f"SELECT g, {shapes} FROM t GROUP BY g").fetchall())
        for mine, its in zip(sorted(db.view("w").fetchall()), wanted, strict=True):
            assert [x is None for x in mine] == [x is None for x in its]
            assert [x or 0 for x in mine] == pytest.approx([x or 0 for x in its], rel=1e-12)
        assert db.view("a").fetchall() == [(2.5,)]
    duck.close()


def test_columns_are_called_as_in_duckdb() -> None:
    calls = [
        "LIST(i ORDER BY i DESC, s NULLS FIRST)", "array_agg(DISTINCT i)", "QUANTILE_CONT(i, [0.5])",
        "listagg(s, ',' ORDER BY s)", "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY i)", "max_by(s, i, 2)",
        "MIN(i, 1+1)", "ANY_VALUE(i ORDER BY s DESC)", "group_concat(s)", "string_agg(DISTINCT s, '-')",
        "histogram(i) FILTER (WHERE i > 1)", "approx_quantile(i, 0.5)", "quantile((i), 0.5)",
    ]  # fmt: skip
    duck = duckdb.connect()
    with ef.connect(engine="local") as db:
        for run in (duck.execute, db.sql):
            run("CREATE TABLE t (i INTEGER, s VARCHAR)")
        query = f"SELECT {', '.join(calls)} FROM t"
        wanted = [column[0] for column in duck.execute(query).description]
        assert db.sql(query).to_arrow().column_names == wanted
    duck.close()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT QUANTILE_CONT(s, 0.5) FROM t", "there is no aggregate quantile_cont"),
        ("SELECT CORR(s, i) FROM t", "there is no aggregate corr"),
        ("SELECT COUNT_IF(i) FROM t", "COUNT_IF takes one BOOLEAN"),
        ("SELECT STRING_AGG(s, s) FROM t", "the separator of STRING_AGG is a constant text"),
        (
            "SELECT STRING_AGG(DISTINCT s, ',' ORDER BY i) FROM t",
            "with DISTINCT, ORDER BY inside an aggregate",
        ),
        (
            "SELECT NTILE(0) OVER (ORDER BY i) FROM (VALUES (1)) v(i)",
            "NTILE divides rows into one part or more",
        ),
        ("SELECT NTILE(d) OVER (ORDER BY i) FROM t", "the number of ntile is a whole number"),
        ("SELECT NTH_VALUE(i) OVER (ORDER BY i) FROM t", "."),
        ("SELECT MIN(i, i) FROM t", "the number of values of MIN is a constant whole number"),
        ("SELECT ARG_MAX(i, d, 0) FROM t", "the number of values of ARG_MAX is from 1 to 999999"),
        ("SELECT ARG_MIN(DISTINCT i, d, 2) FROM t", "DISTINCT in ARG_MIN with a number of values"),
        ("SELECT QUANTILE_DISC(i, [0.5, NULL]) FROM t", "the fraction of a quantile is a constant"),
        ("SELECT HISTOGRAM(i, [1]) FROM t", "HISTOGRAM takes one value"),
        ("SELECT MAD(day) FROM t", "there is no aggregate mad"),
        ("SELECT APPROX_QUANTILE(s, 0.5) FROM t", "there is no aggregate approx_quantile"),
        (
            "SELECT BITSTRING_AGG(i) FROM t",
            "the aggregate BITSTRING_AGG, which gives a BIT, is not supported",
        ),
        ("SELECT LIST(i) OVER () FROM t", "LIST OVER is not supported"),
        ("SELECT CORR(d, i) OVER () FROM t", "CORR OVER is not supported"),
        ("SELECT QUANTILE_CONT(i, 2) FROM t", "the fraction of a quantile is a constant from 0 to 1"),
        ("SELECT QUANTILE_DISC(i, i) FROM t", "the fraction of a quantile is a constant from 0 to 1"),
        ("SELECT BIT_AND(d) FROM t", "there is no aggregate bit_and"),
        ("SELECT MEDIAN(i) OVER (PARTITION BY g) FROM t", "MEDIAN OVER is not supported"),
    ],
)
def test_what_is_refused(query: str, says: str) -> None:
    with ef.connect(engine="local") as db:
        db.sql(f"CREATE TABLE t ({COLUMNS})")
        with pytest.raises(ef.EverfreshError, match=says):
            db.sql(query)
