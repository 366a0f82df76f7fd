"""Plans as text and back: every golden plan, random queries, and names and strings that are hard to read."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from golden import PLANS, read
from small_tables import CATALOG, SCHEMAS
from sql_support import DictCatalog, bind_one

from everfresh.errors import EverfreshError
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.plan_text import OPERATORS, parse_plan
from everfresh.testing.random_sql.grammar import Queries
from everfresh.types import BIGINT, VARCHAR, Column, TableSchema


def round_trip(plan: p.Plan) -> None:
    tables = {n.table: n for n in plan.walk() if isinstance(n, p.Scan)}
    schemas = {t: tuple(Column(v.name, v.type, v.nullable) for v in s.vars) for t, s in tables.items()}
    assert parse_plan(str(plan), schemas) == plan
    assert str(plan).split()[0] in OPERATORS


@pytest.mark.parametrize("statement", [statement for statement, _ in read(PLANS)])
def test_golden_plans(statement: str) -> None:
    round_trip(bind_one(statement, CATALOG).plan)


_KINDS = {"VARCHAR": "text", "DATE": "date", "BOOLEAN": "truth"}
_COLUMNS = {
    name: tuple((c.name, _KINDS.get(c.type.name, "number")) for c in schema.columns)
    for name, schema in SCHEMAS.items()
}


@pytest.mark.parametrize("block", range(10))
def test_random_plans(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        try:
            query = Queries(Random(seed), Counter(), _COLUMNS, {}).view()[0].sql()
            plan = bind_one(query, CATALOG).plan
        except EverfreshError:
            continue
        round_trip(plan)


ODD = DictCatalog(
    {
        "o d": TableSchema(
            "o d", (Column("a\nb", BIGINT), Column("select", VARCHAR), Column("CASE", BIGINT, False)), ()
        )
    }
)


@pytest.mark.parametrize(
    "query",
    [
        'SELECT "a\nb" AS "x = y", "CASE" FROM "o d" AS "it\'s" WHERE "select" = \'two\n  lines\'',
        'SELECT "select", count(*) FILTER (WHERE "CASE" > 1) AS "all:" FROM "o d" GROUP BY "select"',
        'SELECT sum("CASE") OVER (PARTITION BY "select" ORDER BY "CASE" ROWS 2 PRECEDING) AS s FROM "o d"',
        'SELECT "CASE" AS "scalar#1" FROM (SELECT "CASE", "a\nb" AS "scalar#1" FROM "o d") AS q '
        'WHERE "scalar#1" > (SELECT max("a\nb") FROM "o d" WHERE "CASE" = "scalar#1")',
        'SELECT lag("CASE", 2, 7) OVER (ORDER BY "CASE" DESC NULLS FIRST) AS s FROM "o d"',
        'SELECT "CASE" FROM "o d" WHERE "CASE" IN '
        '(SELECT "a\nb" FROM "o d" AS u WHERE u."select" = \' any#1:\')',
        'SELECT "CASE" FROM "o d" AS t WHERE ("CASE", "select") NOT IN (SELECT "a\nb", "select" FROM "o d") '
        'OR EXISTS (SELECT 1 FROM "o d" AS u WHERE u."CASE" > '
        '(SELECT max("a\nb") FROM "o d" WHERE t."CASE" = 1))',
    ],
)
def test_odd_names(query: str) -> None:
    round_trip(bind_one(query, ODD).plan)


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(ValueError, match="not a line of a plan: 'Nothing x'"):
        parse_plan("Nothing x", {})
    with pytest.raises(EverfreshError, match="the text should end here"):
        parse_plan("Limit 3 OFFSET 1 more\n  Single", {})
