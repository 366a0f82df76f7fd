"""Which conditions on a subquery become intervals, and with which relation."""

from __future__ import annotations

import pytest
from compiler_support import catalog_of

from everfresh.compiler import compile_view
from everfresh.program import Intervals
from everfresh.sql import parse_and_bind

TABLES = [
    "CREATE TABLE t (x BIGINT NOT NULL, y BIGINT NOT NULL, n BIGINT, d DOUBLE NOT NULL,"
    " p DECIMAL(9,2) NOT NULL)"
]


def intervals(query: str) -> list[str]:
    catalog = catalog_of(*TABLES)
    (statement,) = parse_and_bind(f"CREATE MATERIALIZED VIEW v AS {query}", catalog)
    program = compile_view("v", statement.plan, joins=True).program
    assert (
        not any(s.strategy == "re-evaluated" for t in program.triggers for s in t.statements)
        or "b.d" in query
    )
    return [f"{r.op} {r.having}" for r in program.relations if isinstance(r, Intervals)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT x FROM t a WHERE (SELECT count(*) FROM t b WHERE b.x > a.x) < 10", ["> #0 < 10::BIGINT"]),
        (
            "SELECT x FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE a.p < b.p)",
            ["> NOT #0 > 0::BIGINT"],
        ),
        (
            "SELECT sum(x) AS s FROM t a"
            " WHERE (SELECT sum(y) FROM t) > (SELECT 2 * sum(b.y) FROM t b WHERE b.x <= a.x)",
            None,
        ),
    ],
)
def test_a_running_sum(query: str, expected: list[str] | None) -> None:
    found = intervals(query)
    assert len(found) == 1
    assert expected is None or found == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM t a WHERE (SELECT count(*) FROM t b WHERE b.n > a.n) < 10",  # NULLs
        "SELECT x FROM t a WHERE (SELECT count(*) FROM t b WHERE b.d > a.d) < 10",  # no next double
        "SELECT x FROM t a WHERE (SELECT count(*) FROM t b WHERE b.x > a.x) < a.y",  # of the row
        "SELECT x, (SELECT count(*) FROM t b WHERE b.x > a.x) AS c FROM t a",  # shown
        "SELECT x FROM t a WHERE (SELECT count(*) FROM t b WHERE b.x > a.x AND b.y > a.y) < 10",  # two ties
    ],
)
def test_others(query: str) -> None:
    assert intervals(query) == []
