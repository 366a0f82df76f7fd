"""A catalog made of dictionaries, a tiny interpreter of plans, and the same data in DuckDB."""

# ruff: noqa: E501  (tables of SQL, one statement per line)

from __future__ import annotations

import datetime as dt
import functools
from decimal import Decimal
from typing import Any

import duckdb

from everfresh import types as ty
from everfresh.expr import evaluate
from everfresh.sql import Statement, parse_and_bind
from everfresh.sql import plan as p
from everfresh.types import Column, TableSchema

T = TableSchema(
    "t",
    (
        Column("b", ty.BOOLEAN), Column("ti", ty.TINYINT), Column("si", ty.SMALLINT), Column("i", ty.INTEGER),
        Column("bi", ty.BIGINT), Column("h", ty.HUGEINT), Column("r", ty.REAL), Column("d", ty.DOUBLE),
        Column("dc", ty.DECIMAL(15, 2)), Column("s", ty.VARCHAR), Column("dt", ty.DATE), Column("ts", ty.TIMESTAMP),
        Column("My Col", ty.INTEGER), Column("MixEd", ty.INTEGER),
    ),
)  # fmt: skip
K = TableSchema(
    "k",
    (Column("a", ty.INTEGER, False), Column("b", ty.VARCHAR, False), Column("v", ty.DECIMAL(10, 2))),
    ("a", "b"),
)
V = (Column("g", ty.INTEGER), Column("total", ty.HUGEINT))

ROWS: list[tuple[Any, ...]] = [
    (True, 1, 10, 1, 100, 10**20, 1.5, 2.5, Decimal("1.25"), "apple", dt.date(2020, 1, 31), dt.datetime(2020, 1, 31, 12, 30), 1, 7),
    (False, -1, 20, 2, -200, -5, -0.25, 0.0, Decimal("-3.50"), "Banana", dt.date(1999, 12, 31), dt.datetime(1999, 12, 31), 2, 8),
    (None, None, None, None, None, None, None, None, None, None, None, None, None, None),
    (True, 3, -30, 1, 0, 0, 2.0, 1e10, Decimal("100.00"), "a%b_c", dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 23, 59, 59, 5), 3, 9),
    (False, 1, 10, 2, 100, 1, 1.5, 2.5, Decimal("1.25"), "apple", dt.date(2020, 1, 31), dt.datetime(2020, 1, 31, 12, 30), 1, 7),
    (None, 0, 5, 3, 7, 12, 0.5, -7.5, Decimal("0.01"), "", dt.date(1970, 1, 1), dt.datetime(1970, 1, 1), None, 0),
]  # fmt: skip


class DictCatalog:
    """The catalog protocol over dictionaries."""

    def __init__(
        self, tables: dict[str, TableSchema] | None = None, views: dict[str, tuple[Column, ...]] | None = None
    ):
        self.tables = {"t": T, "k": K} if tables is None else tables
        self.views = {"v": V} if views is None else views

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        table = self.table(name)
        if table is not None:
            return "table", table.columns
        found = next((c for n, c in self.views.items() if n.lower() == name.lower()), None)
        return None if found is None else ("view", found)

    def table(self, name: str) -> TableSchema | None:
        return next((s for n, s in self.tables.items() if n.lower() == name.lower()), None)

    def names(self) -> list[str]:
        return [*self.tables, *self.views]


def bind_one(text: str, catalog: Any = None, dialect: str = "duckdb") -> Any:
    (statement,) = bind_all(text, catalog, dialect)
    return statement


def bind_all(text: str, catalog: Any = None, dialect: str = "duckdb") -> list[Statement]:
    return list(parse_and_bind(text, catalog or DictCatalog(), dialect))


# -- plans -----------------------------------------------------------------------------------------------------

PHYSICAL = {
    "t": [
        {c.name: ty.to_physical(v, c.type) for c, v in zip(T.columns, row, strict=True)} for row in ROWS
    ]
}  # fmt: skip
Row = dict[str, Any]


def interpret(plan: p.Plan, tables: dict[str, list[Row]] | None = None) -> list[Row]:
    """The rows of a plan, by definition."""
    tables = PHYSICAL if tables is None else tables
    rows = [interpret(child, tables) for child in plan.inputs]
    match plan:
        case p.Single():
            return [{}]
        case p.Scan():
            columns = [c.name for c in T.columns]
            return [
                {v.name: r[c] for v, c in zip(plan.vars, columns, strict=True)} for r in tables[plan.table]
            ]
        case p.Filter():
            return [r for r in rows[0] if evaluate(plan.condition, r) is True]
        case p.Project():
            return [{n: evaluate(e, r) for n, e in plan.items} for r in rows[0]]
        case p.Distinct():
            return [dict(pairs) for pairs in dict.fromkeys(tuple(r.items()) for r in rows[0])]
        case p.Limit():
            return rows[0][plan.offset :][: plan.count]
        case p.Sort():
            return _sorted(plan, rows[0])
        case p.Aggregate():
            return _aggregated(plan, rows[0])
    raise AssertionError(plan)


def _sorted(plan: p.Sort, rows: list[Row]) -> list[Row]:
    def compare(a: Row, b: Row) -> int:
        for expr, ascending, nulls_first in plan.keys:
            x, y = evaluate(expr, a), evaluate(expr, b)
            if x == y:
                continue
            if x is None or y is None:
                return -1 if (x is None) == nulls_first else 1
            return -1 if (x < y) == ascending else 1
        return 0

    return sorted(rows, key=functools.cmp_to_key(compare))


def _aggregated(plan: p.Aggregate, rows: list[Row]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {} if plan.grouped else {(): []}
    for row in rows:
        groups.setdefault(tuple(evaluate(e, row) for _, e in plan.keys), []).append(row)
    names = [n for n, _ in plan.keys]
    return [
        dict(zip(names, key, strict=True)) | {n: _aggregate(call, members) for n, call in plan.aggregates}
        for key, members in groups.items()
    ]


def _aggregate(call: p.AggregateCall, rows: list[Row]) -> Any:
    kept = [r for r in rows if call.filter is None or evaluate(call.filter, r) is True]
    if not call.args:
        return len(kept)
    values = [v for r in kept if (v := evaluate(call.args[0], r)) is not None]
    if call.fn == "count":
        return len(values)
    if not values:
        return None
    if call.fn == "sum":
        return sum(values)
    of = call.args[0].type
    return sum(values) / len(values) / (10**of.scale if of.name == "DECIMAL" else 1)


def logical(plan: p.Plan) -> list[tuple[Any, ...]]:
    """The rows of a plan as a user sees them."""
    columns = plan.columns
    return [tuple(ty.to_logical(r[c.name], c.type) for c in columns) for r in interpret(plan)]


# -- DuckDB ----------------------------------------------------------------------------------------------------


def connect() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    body = ", ".join(f'"{c.name}" {c.type}' for c in T.columns)
    con.execute(f"CREATE TABLE t ({body})")
    con.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(T.columns))})", ROWS)
    con.execute("CREATE TABLE k (a INTEGER, b VARCHAR, v DECIMAL(10,2), PRIMARY KEY (a, b))")
    return con


def duck_type(type_: Any) -> str:
    """DuckDB's name of a type, in ours."""
    return {"FLOAT": "REAL", '"NULL"': "NULL"}.get(str(type_), str(type_))
