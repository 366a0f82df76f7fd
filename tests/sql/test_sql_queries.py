"""Whole queries against DuckDB: column names, types, NULLability and rows."""

from __future__ import annotations

from pathlib import Path

import plan_check
import plan_interpreter
import pytest
from small_tables import CATALOG, connect, physical
from sql_support import bind_one, duck_type, same_rows

from everfresh.sql import Select
from everfresh.sql.queries.clauses import distinct_names

CON = connect()
TABLES = physical()
QUERIES = [
    line
    for line in (Path(__file__).parent / "queries.sql").read_text().splitlines()
    if line.strip() and not line.startswith("--")
]


@pytest.mark.parametrize("query", QUERIES)
def test_query_equals_duckdb(query: str) -> None:
    described = CON.execute(f"DESCRIBE {query}").fetchall()
    rows = CON.execute(query).fetchall()
    statement = bind_one(query, CATALOG)
    assert isinstance(statement, Select)
    columns = statement.plan.columns
    assert [str(c.type) for c in columns] == [duck_type(r[1]) for r in described]
    if "INTERVAL" not in query:  # named by how its amount was quoted, which sqlglot does not keep
        assert [c.name for c in columns] == distinct_names([r[0] for r in described])
    found = plan_interpreter.logical(statement.plan, TABLES)
    same_rows(found, rows, ordered="--ordered" in query)
    for column, values in zip(columns, zip(*found, strict=True), strict=False):
        assert column.nullable or None not in values, column
    plan_check.check(statement.plan)
    assert str(statement.plan)
