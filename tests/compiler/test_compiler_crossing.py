"""Which products change only where a threshold is crossed, which relations are the first rows of a bag."""

from __future__ import annotations

import pytest

from everfresh.calculus import Prod, Sum
from everfresh.compiler import Catalog, CompiledView, Ordered, crossing, top_of
from everfresh.program import Partitions
from everfresh.sql import parse_and_bind

TABLES = "CREATE TABLE t (g VARCHAR, s VARCHAR, x INTEGER, d DOUBLE)", "CREATE TABLE u (x BIGINT, s VARCHAR)"


def compiled(query: str) -> CompiledView:
    catalog = Catalog(joins=True)
    for text in (*TABLES, f"CREATE MATERIALIZED VIEW v AS {query}"):
        (statement,) = parse_and_bind(text, catalog)
        catalog, _ = catalog.execute(statement)
    return catalog.views["v"].compiled


def crossed(query: str) -> list[str]:
    """The comparisons, `value op limit`, of recognised products, and the relation that changes."""
    program = compiled(query).program
    found = []
    for trigger in program.triggers:
        for statement in trigger.statements:
            if not isinstance(statement.expr, Sum) or not isinstance(statement.expr.body, Prod):
                continue
            group = {v.name for v in statement.expr.group}
            one = crossing(statement.expr.body.factors, group, Ordered.of(program))
            if one is not None:
                assert statement.strategy == "incremental"
                said = ", ".join(f"{c.op} {c.limit}" for c in one.range.comparisons)
                found.append(f"{one.change.name}: {one.range.value} {said}")
    return found


def test_a_comparison_with_a_global_aggregate() -> None:
    assert crossed("SELECT count(*) FROM t WHERE d > (SELECT avg(d) FROM t)") == ["v$0: d > v0"]


def test_the_sides_may_be_the_other_way_round() -> None:
    assert crossed("SELECT s FROM t WHERE (SELECT max(s) FROM u) > s") == ["v$0: s < v0"]


def test_both_ends_of_a_range_may_move() -> None:
    query = "SELECT count(*) FROM t, (SELECT min(x) AS a, max(x) AS b FROM u) q WHERE x > a AND x < b"
    assert crossed(query) == ["v$0: x > min_1_1, < max_1_1"]


def test_a_group_that_is_compared() -> None:
    (found,) = crossed("SELECT g FROM t GROUP BY g HAVING sum(d) >= (SELECT 0.5 * sum(d) FROM t)")
    assert " >= " in found


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM t WHERE d = (SELECT max(d) FROM t)",  # found by equality
        "SELECT s, m FROM t, (SELECT max(d) AS m FROM t) q WHERE d < m",  # shown as well
        "SELECT s FROM t WHERE d < (SELECT max(x) + t.x FROM u)",  # not of the change alone
        "SELECT s FROM t WHERE d < (SELECT max(x) FROM u WHERE u.s = t.s)",  # a threshold for each key
        "SELECT a.s FROM t a, t b WHERE a.d < b.d",  # no threshold
    ],
)
def test_others(query: str) -> None:
    assert crossed(query) == []


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("SELECT x, s FROM t ORDER BY s DESC LIMIT 3", (3, 0)),
        ("SELECT x, s FROM t ORDER BY s DESC, x NULLS FIRST LIMIT 3 OFFSET 7", (3, 7)),
        ("SELECT x + 1 AS y, s AS a, s AS b FROM t ORDER BY x * 2 LIMIT 1", (1, 0)),
        ("SELECT x FROM t ORDER BY x OFFSET 2", None),
        ("SELECT x, row_number() OVER (ORDER BY x, s, g, d) AS k FROM t", None),
    ],
)
def test_first_rows(query: str, shown: tuple[int, int] | None) -> None:
    (relation,) = [r for r in compiled(query).program.relations if isinstance(r, Partitions)]
    top = top_of(relation)
    assert (None if top is None else (top.limit, top.offset)) == shown
    if top is not None:  # the order is total
        assert sorted(place for place, _, _ in top.keys) == list(range(len(top.keys)))
        assert set(top.columns) <= set(range(len(top.keys)))
