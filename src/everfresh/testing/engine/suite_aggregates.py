"""Aggregates beyond sums and extremes, and window functions of places: after every batch a view equals the
same query of DuckDB's.

Numbers have large means beside small spreads, groups come and go, NULLs are in every column, and every ORDER
BY that decides a value is by columns that no two rows share.
"""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from everfresh.database import Database
from everfresh.delta.changes import Delta
from everfresh.testing.engine.suite_base import SuiteBase
from everfresh.testing.oracle import DuckOracle, assert_same

TABLE = "CREATE TABLE r (id BIGINT PRIMARY KEY, g INT, x DOUBLE, y DOUBLE, i INT, s VARCHAR, b BOOLEAN)"
_SPREADS = (
    "stddev(x)", "var_pop(y)", "VARIANCE(x) FILTER (WHERE b)", "stddev_pop(DISTINCT y)", "covar_pop(y, x)",
    "COVAR_SAMP(y, i)", "corr(y, x)", "regr_slope(y, x)", "regr_intercept(y, x)", "regr_r2(y, x)",
    "CAST(regr_count(y, x) AS BIGINT)", "regr_avgx(y, x)", "regr_avgy(y, x)", "regr_sxx(y, x)",
    "regr_syy(y, x)", "regr_sxy(y, x)", "corr(i, x) FILTER (WHERE i > 2)", "sem(i)", "fsum(i)",
    "favg(i)", "count_if(b)", "mad(i)", "entropy(i)", "kurtosis(i)", "kurtosis_pop(x)", "skewness(x)",
)  # fmt: skip
_OF_ALL = (
    "string_agg(s, '-' ORDER BY s DESC)", "string_agg(DISTINCT s, '' ORDER BY s)", "first(i ORDER BY id)",
    "last(s ORDER BY i NULLS FIRST, id)", "any_value(i ORDER BY id DESC)", "listagg(s, ', ' ORDER BY id)",
    "string_agg(i, ',' ORDER BY id) FILTER (WHERE b)", "median(i)", "median(s)", "quantile_disc(i, 0.3)",
    "arg_min(s, id)", "max_by(i, id)", "bit_xor(i)", "product(i)", "median(b)",
    "list(s ORDER BY id)", "array_agg(DISTINCT i ORDER BY i DESC NULLS FIRST) FILTER (WHERE b)",
    "histogram(i)", "arg_min(s, id, 2)", "max_by(i, id, 3) FILTER (WHERE b)", "min(i, 2)", "max(s, 3)",
    "quantile_disc(i, [0.2, 0.8])", "quantile_cont(i, [0.5, 0.1])", "list({'a': i, 'b': [s]} ORDER BY id)",
)  # fmt: skip
_IN_ORDER = (
    "first(i ORDER BY id)", "last(s ORDER BY i NULLS FIRST, id)", "any_value(i ORDER BY x DESC, id)",
    "arg_min(s, id)", "max_by(i, id) FILTER (WHERE b)", "median(i)", "median(s)", "median(b)",
    "quantile_disc(s, 0.3)", "quantile_cont(x, 0.7) FILTER (WHERE i > 0)", "quantile_cont(i, [0.5, 0.1])",
    "min(x)",
)  # fmt: skip
"""What is read off ordered indexes: beside the others it would be recomputed with them."""
_PLACES = (
    "ntile(3) OVER (ORDER BY id)", "ntile(2) OVER (PARTITION BY g ORDER BY id DESC)",
    "percent_rank() OVER (PARTITION BY g ORDER BY i)", "cume_dist() OVER (ORDER BY i DESC)",
    "nth_value(s, 2) OVER (PARTITION BY g ORDER BY id)",
    "nth_value(s, i) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
    "covar_pop(y, x) OVER (PARTITION BY g)", "stddev(x) OVER (PARTITION BY g ORDER BY id)",
)  # fmt: skip


def _named(exprs: tuple[str, ...]) -> str:
    return ", ".join(f"{expr} AS c{i}" for i, expr in enumerate(exprs))


VIEWS = {
    "spreads": f"SELECT g, {_named(_SPREADS)} FROM r GROUP BY g",
    "of_all": f"SELECT g, COUNT(*) AS n, {_named(_OF_ALL)} FROM r GROUP BY g",
    "in_order": f"SELECT g, {_named(_IN_ORDER)} FROM r GROUP BY g",
    "places": f"SELECT id, {_named(_PLACES)} FROM r",
    "over_all_rows": f"SELECT COUNT(*) AS n, SUM(i) AS t, {_named((*_OF_ALL, *_SPREADS))} FROM r WHERE g < 2",
}


ASKED = {
    "lists": "SELECT id, (SELECT LIST(s ORDER BY id) FROM r b WHERE b.g = a.g AND b.id < a.id) AS l FROM r a",
    "sizes": "SELECT id, (SELECT COUNT(*) + LEN(COALESCE(LIST(s), [])) FROM r b WHERE b.g > a.g) n FROM r a",
    "above": "SELECT id FROM r a WHERE x > (SELECT MEDIAN(x) FROM r b WHERE b.g = a.g) AND i IN (SELECT "
    "QUANTILE_DISC(i, 0.6) FROM r)",
    "gated": "SELECT id, (SELECT COUNT(s) + COALESCE(MAX(LEN(s)), 50) + COALESCE(MEDIAN(i), -1) FROM r b "
    "WHERE a.b) AS n, (SELECT HISTOGRAM(b) FROM r) AS h FROM r a",
    "outside": "SELECT id, (SELECT LIST(i + a.i ORDER BY id) FROM r b WHERE b.g = a.g) AS l, (SELECT "
    "ARG_MAX(s, id) FROM r b WHERE b.i = a.i HAVING COUNT(*) > 1) AS m FROM r a",
    "beside": "SELECT id, t.* FROM r a LEFT JOIN LATERAL (SELECT LIST(id ORDER BY id) AS l, MEDIAN(i) AS m "
    "FROM r b WHERE b.g = a.g) t ON TRUE",
}
"""Aggregates of all values as answers to each row."""


class AggregateSuite(SuiteBase):
    """Variances of doubles, regressions, aggregates of all values, functions of places."""

    aggregate_batches = 8

    def test_views_of_aggregates_follow_their_table(self, db: Database) -> None:
        db.sql(TABLE)
        oracle = DuckOracle()
        oracle.create(db.catalog.tables["r"])
        for name in list(VIEWS)[:2]:
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        for number, (come, go) in enumerate(_history(self.aggregate_batches)):
            db.apply(r=Delta(inserts=come, deletes=go))
            oracle.apply("r", come, go)
            if number == self.aggregate_batches // 2:
                for name in list(VIEWS)[2:]:
                    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
            for name in db.views:
                rows = db.view(name).to_arrow()
                assert_same(oracle.query(VIEWS[name]).cast(rows.schema), rows, f"{name} after {number}", 1e-7)
        for name in db.views:
            assert db.view(name).explain().startswith("Incremental")
            assert db.view(name).verify().num_rows == 0
        oracle.close()

    def test_rows_ask_for_aggregates_of_all_values(self, db: Database) -> None:
        db.sql(TABLE)
        oracle = DuckOracle()
        oracle.create(db.catalog.tables["r"])
        for name, query in ASKED.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for number, (come, go) in enumerate(_history(self.aggregate_batches)):
            db.apply(r=Delta(inserts=come, deletes=go))
            oracle.apply("r", come, go)
            for name, query in ASKED.items():
                rows = db.view(name).to_arrow()
                assert_same(oracle.query(query).cast(rows.schema), rows, f"{name} after {number}", 1e-9)
        oracle.close()

    def test_what_is_deleted_leaves_no_residue_in_a_variance(self, db: Database) -> None:
        db.sql("CREATE TABLE t (x DOUBLE); CREATE MATERIALIZED VIEW v AS SELECT var_pop(x) AS v FROM t")
        db.apply(t=[(1.25,), (2.5,)])
        for far in (1e12, -3e14, 1e200, float("inf"), float("nan")):
            db.apply(t=[(far,), (far / 3,)])
            db.apply(t=Delta(deletes=[(far,), (far / 3,)]))
            assert db.view("v").to_pylist() == [{"v": 0.390625}]


def _history(batches: int) -> list[tuple[list[Any], list[Any]]]:
    """Batches of rows that come and go, the same each time."""
    random, there, key = Random(23), list[Any](), 0
    history = []

    def maybe(value: Any) -> Any:
        return None if random.random() < 0.15 else value

    for number in range(batches):
        go = [row for row in there if random.random() < (1.0 if number == batches - 2 else 0.3)]
        come: list[Any] = []
        for _ in range(random.randrange(3, 8)):
            key += 1
            x = random.choice([1e6, -3.5]) + random.randrange(40) / 8
            row = (x, x * 2 + random.random(), random.randrange(-2, 7), random.choice("aäbz") + str(key))
            come.append((key, random.choice([None, 0, 1, 2]), *map(maybe, row), maybe(random.random() < 0.5)))
        there = [*(Counter(there) - Counter(go)).elements(), *come]
        history.append((come, go))
    return history
