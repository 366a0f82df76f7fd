"""Random queries against DuckDB: we bind them all, with its columns and its rows."""

from __future__ import annotations

from collections import Counter
from random import Random

import plan_check
import plan_interpreter
import pytest
from small_tables import CATALOG, SCHEMAS, connect, physical
from sql_support import bind_one, duck_type, same_rows

from everfresh.sql.queries.clauses import distinct_names
from everfresh.testing.random_sql.grammar import Queries
from everfresh.types import SqlType

CON = connect()
TABLES = physical()
SEEDS = range(150)


def _kind(type_: SqlType) -> str:
    return {"VARCHAR": "text", "DATE": "date", "BOOLEAN": "truth"}.get(type_.name, "number")


COLUMNS = {name: tuple((c.name, _kind(c.type)) for c in schema.columns) for name, schema in SCHEMAS.items()}
VIEWS = {"v": (("a", "number"), ("total", "number"))}


@pytest.mark.parametrize("block", range(5))
def test_random_queries_equal_duckdb(block: int) -> None:
    for seed in SEEDS[block::5]:
        query = Queries(Random(seed), Counter(), COLUMNS, VIEWS).view()[0].sql()
        described = CON.execute(f"DESCRIBE {query}").fetchall()
        rows = CON.execute(query).fetchall()
        plan = bind_one(query, CATALOG).plan
        plan_check.check(plan)
        assert [str(c.type) for c in plan.columns] == [duck_type(r[1]) for r in described], query
        assert [c.name for c in plan.columns] == distinct_names([r[0] for r in described]), query
        same_rows(plan_interpreter.logical(plan, TABLES), rows, ordered=False)
