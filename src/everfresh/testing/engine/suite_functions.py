"""Functions in views: as columns, in conditions, as keys, in aggregates, with lambdas and what they use.

After every batch a view equals the same query of DuckDB's, and what the engine answers when it is asked anew.
"""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

from random import Random
from typing import Any

from everfresh.database import Database
from everfresh.delta.changes import Delta
from everfresh.testing.engine.suite_base import SuiteBase
from everfresh.testing.oracle import DuckOracle, assert_same

TABLE = "CREATE TABLE f (id BIGINT PRIMARY KEY, i INT, s VARCHAR, t TIMESTAMP, d DOUBLE, l INT[])"
_COLUMNS = (
    "hex(s)", "hex(i)", "to_base64(encode(s))", "url_encode(s)", "sha1(s)", "strip_accents(s)",
    "to_base(id, 7)", "damerau_levenshtein(s, 'abc')", "jaro_winkler_similarity(s, 'abd')",
    "regexp_extract_all(s, '[a-z]')", "regexp_split_to_array(s, 'b')",
    "regexp_extract(s, '(\\w)(\\w)', ['one', 'two']).two",
    "format('{:>4}|{:05d}|{:.1f}', s, i, d)", "printf('%d %s', i, s)", "strftime(t, '%d.%m.%Y %H:%M %a %j')",
    "strptime(strftime(t, '%Y/%m/%d'), '%Y/%m/%d')", "try_strptime(s, '%d')", "date_part(['year', 'dow'], t)",
    "epoch_us(t::TIME)", "julian(t)", "to_timestamp(i)", "cbrt(d)", "fmod(i, 3)", "list_grade_up(l)",
    "list_median(l)", "list_string_agg(l)", "list_histogram(l)", "list_select(l, [2, 1])", "l && [1, 2]",
    "list_transform(l, lambda x: x * 2 + i)", "list_filter(l, lambda x, n: x > n OR x IS NULL)",
    "list_reduce(l, lambda a, b: coalesce(a, 0) + coalesce(b, 0), 100)", "[x + n for x, n in l if x > 0]",
    "list_transform(l, lambda x: list_transform(l, lambda y: x - y))", "struct_insert({'a': i}, b := s).b",
    "list_transform(string_split(s, 'b'), lambda s: upper(s))",
    "map_concat(MAP {'a': i}, MAP {coalesce(s, 'z'): id::INT})",
)  # fmt: skip
VIEWS = {
    "of_rows": "SELECT id, " + ", ".join(f"{expr} AS c{n}" for n, expr in enumerate(_COLUMNS)) + " FROM f",
    "of_groups": "SELECT strftime(t, '%Y-%m') AS month, list_filter(l, lambda x: x > 1) AS l, COUNT(*) AS n, "
    "MAX(list_transform(l, lambda x: x + i)) AS most, SUM(list_reduce(l, lambda a, b: a + b, 0)) AS total "
    "FROM f WHERE len(list_filter(l, lambda x: x = i)) = 0 OR s LIKE 'a%' GROUP BY ALL",
    "of_pairs": "SELECT a.id AS a, b.id AS b, list_transform(a.l, lambda x: x + b.i) AS l FROM f a JOIN f b "
    "ON list_sort(a.l) = list_sort(b.l) AND a.id < b.id",
}  # fmt: skip


class FunctionSuite(SuiteBase):
    """Functions beyond arithmetic."""

    function_batches = 6

    def test_views_of_functions_follow_their_table(self, db: Database) -> None:
        db.sql(TABLE)
        oracle = DuckOracle()
        oracle.create(db.catalog.tables["f"])
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for number, (come, go) in enumerate(_history(self.function_batches)):
            db.apply(f=Delta(inserts=come, deletes=go))
            oracle.apply("f", come, go)
            for name in db.views:
                rows = db.view(name).to_arrow()
                assert_same(
                    oracle.query(VIEWS[name]).cast(rows.schema), rows, f"{name} after {number}", 1e-12
                )
        for name in db.views:
            assert db.view(name).explain().startswith("Incremental")
            assert db.view(name).verify().num_rows == 0
        oracle.close()


def _history(batches: int) -> list[tuple[list[Any], list[Any]]]:
    """Batches of rows that come and go, the same each time."""
    import datetime as dt

    random, there, key = Random(31), list[Any](), 0
    history = []

    def maybe(value: Any) -> Any:
        return None if random.random() < 0.15 else value

    for number in range(batches):
        go = [row for row in there if random.random() < (1.0 if number == batches - 2 else 0.3)]
        come: list[Any] = []
        for _ in range((1, 7, 3, 12)[number % 4]):
            key += 1
            at = dt.datetime(2024, 2, 27) + dt.timedelta(hours=random.randrange(300), microseconds=key)
            values = [maybe(random.randrange(-2, 5)) for _ in range(random.randrange(4))]
            text = random.choice(["abc", "äb", "", "b", "7", "ab/é b"])
            row = (random.randrange(-3, 40), text, at, random.randrange(-40, 40) / 8, values)
            come.append((key, *map(maybe, row)))
        there = [row for row in there if row not in go] + come
        history.append((come, go))
    return history
