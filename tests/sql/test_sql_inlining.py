"""Views in place of their names: plans keep their invariants, their columns, and their rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from plan_check import check

from everfresh.compiler import Catalog
from everfresh.local import adhoc
from everfresh.sql import parse_and_bind
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.inlining import inlined
from everfresh.testing.oracle import assert_same

TABLE = "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, v BIGINT NOT NULL)"
VIEWS = {
    "swapped": "SELECT g AS v, v AS g, k FROM t WHERE v > (SELECT AVG(v) FROM t u WHERE u.g = t.g)",
    "first": "SELECT g, COUNT(*) AS n FROM swapped GROUP BY g ORDER BY n DESC LIMIT 2",
    "twice": "SELECT x.g, x.n, y.n AS m FROM first x LEFT JOIN first y ON x.n = y.g"
    " UNION ALL SELECT k, k, v FROM swapped WHERE k IN (SELECT n FROM first)",
    "kinds": "SELECT DISTINCT n, g > 1 AS n_1 FROM first ORDER BY n",
    "ranked": "SELECT s.k, ROW_NUMBER() OVER (PARTITION BY s.v ORDER BY s.k) AS r FROM swapped s",
    "none": "SELECT COUNT(*) AS n, (SELECT MAX(r) FROM ranked) AS r FROM twice WHERE g < 0",
}
ROWS = pa.table(
    {
        "k": pa.array(range(20), pa.int64()),
        "g": pa.array([None if k % 7 == 0 else k % 3 for k in range(20)], pa.int64()),
        "v": pa.array([k * k % 11 for k in range(20)], pa.int64()),
    }
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    catalog = Catalog(joins=True)
    for text in (TABLE, *(f"CREATE MATERIALIZED VIEW {n} AS {q}" for n, q in VIEWS.items())):
        for statement in parse_and_bind(text, catalog):
            catalog, _ = catalog.execute(statement)
    return catalog


@pytest.mark.parametrize("name", VIEWS)
def test_the_same_rows_of_tables_alone(catalog: Catalog, name: str) -> None:
    plans = {n: view.compiled.plan for n, view in catalog.views.items()}

    def rows(source: str) -> pa.Table:
        return ROWS if source == "t" else adhoc.execute(plans[source], rows)

    plan = inlined(plans[name], plans)
    check(plan)
    assert {n.table for n in plan.walk() if isinstance(n, p.Scan)} == {"t"}
    assert plan.columns == catalog.views[name].columns
    expected = adhoc.execute(plans[name], rows)
    assert expected.num_rows
    assert_same(expected, adhoc.execute(plan, rows))


def test_a_plan_over_tables_is_itself(catalog: Catalog) -> None:
    plan = catalog.views["swapped"].compiled.plan
    assert inlined(plan, {"other": plan}) is plan
