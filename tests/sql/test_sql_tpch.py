"""The 22 queries of TPC-H: DuckDB's columns for the texts as they are, its rows on tiny random data.

The data are so small that the interpreter's nested loops end; for them some constants are replaced, so that
few nations, regions and dates are enough for every query to find rows.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import duckdb
import plan_check
import plan_interpreter
import pytest
from sql_support import DictCatalog, bind_one, duck_type, same_rows

from everfresh import types as ty
from everfresh.datasets import tpch
from everfresh.types import TableSchema
from everfresh.workloads import WORKLOADS

TEXTS = {query.name: query.text for query in WORKLOADS["tpch"].queries}
SCHEMAS: dict[str, TableSchema] = {
    name: bind_one(ddl, DictCatalog({}, {})).schema for name, ddl in tpch.TABLES.items()
}
CATALOG = DictCatalog(SCHEMAS, {})
SEEDS = (17, 33)


def connect() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("SET threads = 1")
    for ddl in tpch.TABLES.values():
        con.execute(ddl)
    return con


def columns(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[str, str]]:
    return [(name, duck_type(type_)) for name, type_, *_ in con.execute(f"DESCRIBE {query}").fetchall()]


CON = connect()


@pytest.mark.parametrize("name", TEXTS)
def test_columns_equal_duckdb(name: str) -> None:
    plan = bind_one(TEXTS[name], CATALOG).plan
    plan_check.check(plan)
    assert [(c.name, str(c.type)) for c in plan.columns] == columns(CON, TEXTS[name])


# -- rows ------------------------------------------------------------------------------------------------

REPLACED = {
    "EUROPE": "ASIA", "AMERICA": "ASIA", "BRAZIL": "FRANCE", "CANADA": "FRANCE", "SAUDI ARABIA": "FRANCE",
    "> 300": "> 30", "'Brand#12'": "'Brand#23'", "'Brand#34'": "'Brand#23'", "p_size = 15": "p_size < 15",
    "('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')": "('MED BOX')", "0.0001": "0.4",
    "date '1993-07-01'": "date '1994-01-01'", "date '1993-10-01'": "date '1994-01-01'",
    "date '1995-09-01'": "date '1996-01-01'", "date '1995-03-15'": "date '1995-06-01'",
}  # fmt: skip


def changed(text: str) -> str:
    for old, new in REPLACED.items():
        text = text.replace(old, new)
    return text


def tiny(seed: int) -> dict[str, list[tuple[Any, ...]]]:
    """A few rows of each table, by its own small domains."""
    rng = random.Random(seed)
    pick = rng.choice

    def money() -> Decimal:
        return Decimal(rng.randint(-50, 9999)) / 100

    def day() -> dt.date:
        days = [(1994, 1, 5), (1994, 2, 1), (1994, 3, 1), (1995, 7, 1), (1996, 1, 20)]
        return dt.date(*pick(days))

    def phone() -> str:
        return pick(["13-1", "31-2", "99-3"])

    suppliers, customers, parts, orders = range(1, 4), range(1, 4), range(1, 3), range(1, 5)
    pairs = [(p, s) for p in parts for s in suppliers]
    lines = []
    for i in range(8):
        p, s = pick(pairs)
        lines.append(
            (pick(orders), p, s, i + 1, Decimal(rng.randint(1, 20)), money(), Decimal(pick(["0.06", "0.05"])),
             Decimal("0.02"), pick(["R", "N"]), pick(["O", "F"]), day(), day(), day(), "DELIVER IN PERSON",
             pick(["AIR", "MAIL"]), "c")
        )  # fmt: skip
    return {
        "region": [(1, "ASIA", "c")],
        "nation": [(1, "FRANCE", 1, "c"), (2, "GERMANY", 1, "c")],
        "supplier": [
            (s, f"s{s}", "a", rng.randint(1, 2), phone(), money(), pick(["Customer Complaints", "good"]))
            for s in suppliers
        ],
        "customer": [
            (c, f"c{c}", "a", rng.randint(1, 2), phone(), money(), "BUILDING", "c") for c in customers
        ],
        "part": [
            (p, pick(["forest green", "red"]), "m", pick(["Brand#23", "Brand#45"]),
             pick(["ECONOMY ANODIZED STEEL", "PROMO BRASS"]), pick([3, 9]), "MED BOX", money(), "c")
            for p in parts
        ],
        "partsupp": [(p, s, rng.randint(1, 30), money(), "c") for p, s in pairs],
        "orders": [
            (o, pick([1, 1, 2]), pick(["F", "O"]), money(), day(), pick(["1-URGENT", "5-LOW"]), "k", 0,
             pick(["special x requests", "c"]))
            for o in orders
        ],
        "lineitem": lines,
    }  # fmt: skip


@pytest.fixture(scope="module")
def databases() -> list[tuple[duckdb.DuckDBPyConnection, dict[str, list[tuple[Any, ...]]]]]:
    made = []
    for seed in SEEDS:
        con, tables = connect(), {}
        for name, rows in tiny(seed).items():
            types = [c.type for c in SCHEMAS[name].columns]
            con.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(types))})", rows)
            tables[name] = [
                tuple(ty.to_physical(v, t) for v, t in zip(row, types, strict=True)) for row in rows
            ]
        made.append((con, tables))
    return made


@pytest.mark.parametrize("name", TEXTS)
def test_rows_equal_duckdb(name: str, databases: Any) -> None:
    text = changed(TEXTS[name])
    plan = bind_one(text, CATALOG).plan
    seen = 0
    for con, tables in databases:
        expected = con.execute(text).fetchall()
        same_rows(plan_interpreter.logical(plan, tables), expected, ordered=False)
        seen += any(value is not None for row in expected for value in row)
    assert seen, "no seed gives the query rows"
