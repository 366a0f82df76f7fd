"""A catalog made of dictionaries, and the same data in DuckDB."""

# ruff: noqa: E501  (tables of SQL, one statement per line)

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import duckdb
import plan_interpreter

from everfresh import types as ty
from everfresh.errors import EverfreshError
from everfresh.sql import Statement, parse_and_bind
from everfresh.sql.logical import plan as p
from everfresh.testing.letter_case import recased
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

    plain: Mapping[str, Any] = MappingProxyType({})
    types: Mapping[str, Any] = MappingProxyType({})

    def other(self, name: str) -> tuple[str, str] | None:
        return None

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
    """The statements of a text, after a look that it means the same in lower and in upper case."""
    catalog = catalog or DictCatalog()
    meant = _meaning(text, catalog, dialect)
    for change in (str.lower, str.upper):
        assert _meaning(recased(text, change), catalog, dialect) == meant, change
    return list(parse_and_bind(text, catalog, dialect))


def _meaning(text: str, catalog: Any, dialect: str) -> str:
    """Statements or the refusal of a text, in lower case: names are spelled as in the text."""
    try:
        return "\n".join(repr(s) for s in parse_and_bind(text, catalog, dialect)).lower()
    except EverfreshError as error:
        return f"{error.code} {error.place} {error.message}".lower()


# -- plans -----------------------------------------------------------------------------------------------------

PHYSICAL = {
    "t": [
        tuple(ty.to_physical(v, c.type) for c, v in zip(T.columns, row, strict=True)) for row in ROWS
    ]
}  # fmt: skip


def logical(plan: p.Plan) -> list[tuple[Any, ...]]:
    """The rows of a plan as a user sees them."""
    return plan_interpreter.logical(plan, PHYSICAL)


def physical_rows(plan: p.Plan) -> list[dict[str, Any]]:
    """The rows of a plan as it computes them."""
    return plan_interpreter.interpret(plan, PHYSICAL)


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


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same, floats nearly."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6) or (math.isnan(a) and math.isnan(b))
    return a == b and type(a) is type(b)


def same_rows(mine: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]], ordered: bool) -> None:
    """Assert that two results are equal, as lists or as bags."""
    if not ordered:
        mine, theirs = (sorted(rows, key=_sortable) for rows in (mine, theirs))
    assert len(mine) == len(theirs), (mine, theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert all(same(x, y) for x, y in zip(a, b, strict=True)), (a, b)


def _sortable(row: tuple[Any, ...]) -> str:
    return repr(tuple(f"{v:.6g}" if isinstance(v, float) else v for v in row))
