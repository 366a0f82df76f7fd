"""Four small tables full of NULLs and duplicates, in the catalog, as physical rows and in DuckDB."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
from sql_support import DictCatalog

from everfresh import types as ty
from everfresh.types import Column, TableSchema

R = TableSchema("r", (Column("a", ty.INTEGER), Column("b", ty.INTEGER), Column("c", ty.VARCHAR)))
S = TableSchema("s", (Column("b", ty.BIGINT), Column("d", ty.DECIMAL(9, 2)), Column("e", ty.DATE)))
U = TableSchema(
    "u", (Column("a", ty.SMALLINT), Column("c", ty.VARCHAR), Column("f", ty.DOUBLE), Column("g", ty.BOOLEAN))
)
K = TableSchema(
    "k",
    (Column("id", ty.INTEGER, False), Column("a", ty.INTEGER), Column("name", ty.VARCHAR, False)),
    ("id",),
)
V = (Column("a", ty.INTEGER), Column("total", ty.HUGEINT))  # a view over r


def _date(day: int) -> dt.date:
    return dt.date(2024, 1, day)


ROWS: dict[str, list[tuple[Any, ...]]] = {
    "r": [
        (1, 10, "x"), (1, 20, "y"), (2, 10, None), (2, None, "x"), (3, 30, "z"), (None, 10, "x"),
        (None, None, None), (1, 10, "x"), (4, 40, "w"),
    ],
    "s": [
        (10, Decimal("1.50"), _date(1)), (10, Decimal("2.25"), _date(2)), (20, None, _date(2)),
        (None, Decimal("7.00"), None), (50, Decimal("-1.00"), _date(9)), (30, Decimal("1.50"), _date(3)),
    ],
    "u": [
        (1, "x", 0.5, True), (2, "q", None, False), (None, "x", 2.5, None), (3, None, -1.0, True),
        (7, "z", 8.0, False),
    ],
    "k": [(1, 1, "one"), (2, 1, "two"), (3, None, "three"), (4, 4, "four")],
}  # fmt: skip
SCHEMAS = {schema.name: schema for schema in (R, S, U, K)}
CATALOG = DictCatalog(dict(SCHEMAS), {"v": V})
_VIEW = "SELECT a, sum(b) AS total FROM r GROUP BY a"


def physical() -> dict[str, list[tuple[Any, ...]]]:
    """The tables as plans see them."""
    tables = {name: [_physical(SCHEMAS[name], row) for row in rows] for name, rows in ROWS.items()}
    return {**tables, "v": connect().execute("SELECT * FROM v").fetchall()}


def _physical(schema: TableSchema, row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(ty.to_physical(v, c.type) for v, c in zip(row, schema.columns, strict=True))


def connect() -> duckdb.DuckDBPyConnection:
    """The tables in DuckDB."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
    for name, schema in SCHEMAS.items():
        con.execute(schema.ddl)
        marks = ", ".join("?" * len(schema.columns))
        con.executemany(f"INSERT INTO {name} VALUES ({marks})", ROWS[name])
    con.execute(f"CREATE VIEW v AS {_VIEW}")
    return con
