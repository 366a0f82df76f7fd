"""Random queries against DuckDB: what it answers, we bind, with its columns and its rows."""

from __future__ import annotations

import duckdb
import plan_check
import plan_interpreter
import pytest
from random_queries import random_query
from small_tables import CATALOG, connect, physical
from sql_support import bind_one, duck_type, same_rows

from everfresh.sql.clauses import distinct_names

CON = connect()
TABLES = physical()
SEEDS = range(150)


@pytest.mark.parametrize("block", range(5))
def test_random_queries_equal_duckdb(block: int) -> None:
    agreed = 0
    for seed in SEEDS[block::5]:
        query = random_query(seed)
        try:
            described = CON.execute(f"DESCRIBE {query}").fetchall()
            rows = CON.execute(query).fetchall()
        except duckdb.Error:
            continue  # GROUP BY a constant, ...
        plan = bind_one(query, CATALOG).plan
        plan_check.check(plan)
        assert [str(c.type) for c in plan.columns] == [duck_type(r[1]) for r in described], query
        assert [c.name for c in plan.columns] == distinct_names([r[0] for r in described]), query
        same_rows(plan_interpreter.logical(plan, TABLES), rows, ordered=False)
        agreed += 1
    assert agreed > len(SEEDS[block::5]) * 0.8
