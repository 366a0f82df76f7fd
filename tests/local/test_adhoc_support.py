"""What the tests of ad hoc queries share: plans as DuckDB SQL, random tables, the comparison."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from everfresh.expr import Call, Case, Cast, Const, Expr, Var
from everfresh.local.adhoc import execute
from everfresh.sql.logical import plan as p
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    NAN,
    VARCHAR,
    Column,
    SqlType,
    TableSchema,
    to_logical,
)

MONEY = DECIMAL(6, 2)
TABLES = {
    name: TableSchema(
        name,
        (
            Column("a", BIGINT),
            Column("b", BIGINT),
            Column("s", VARCHAR),
            Column("x", DOUBLE),
            Column("m", MONEY),
        ),
    )
    for name in ("r", "t", "u")
}
VALUES: dict[SqlType, list[Any]] = {
    BIGINT: [None, 0, 1, 2, 3, -1],
    VARCHAR: [None, "", "a", "b", "ab", "ä", "Z"],
    DOUBLE: [None, 0.0, 0.5, 1.0, 2.25, -1.5, 1e10, NAN, float("inf")],
    MONEY: [None, Decimal("0.00"), Decimal("1.00"), Decimal("-2.50"), Decimal("99.99")],
    BOOLEAN: [None, True, False],
}


def random_rows(rng: random.Random, schema: TableSchema, most: int = 8) -> list[tuple[Any, ...]]:
    """A few rows with many NULLs and repetitions."""
    few = {c.name: rng.sample(VALUES[c.type], min(4, len(VALUES[c.type]))) for c in schema.columns}
    return [tuple(rng.choice(few[c.name]) for c in schema.columns) for _ in range(rng.randint(0, most))]


def oracle_of(
    tables: dict[str, Sequence[tuple[Any, ...]]], schemas: dict[str, TableSchema] = TABLES
) -> DuckOracle:
    """DuckDB with these rows."""
    oracle = DuckOracle()
    for name, rows in tables.items():
        oracle.create(schemas[name])
        oracle.apply(name, rows)
    return oracle


def run(plan: p.Plan, oracle: DuckOracle, chunk: int = 3) -> pa.Table:
    """The plan over the oracle's tables, by everfresh."""
    return execute(plan, oracle.table, chunk=chunk)


# -- plans as SQL -------------------------------------------------------------------------------------------


def sql(plan: p.Plan) -> str:
    """The query that a plan means; names are unique, so nothing needs to be qualified."""
    match plan:
        case p.Single():
            return f"SELECT 0 AS one{id(plan)}"
        case p.Scan(table, _, vars_):
            pairs = zip(TABLES[table].columns, vars_, strict=True)
            return f"SELECT {', '.join(f'{c.name} AS {v.name}' for c, v in pairs)} FROM {table}"
        case p.Filter(child, condition):
            return f"SELECT * FROM ({sql(child)}) WHERE {text(condition)}"
        case p.Project(child, items):
            return f"SELECT {', '.join(f'{text(e)} AS {n}' for n, e in items)} FROM ({sql(child)})"
        case p.Join(kind, left, right, condition):
            on = "TRUE" if condition is None else text(condition)
            return f"SELECT * FROM ({sql(left)}) {kind} JOIN ({sql(right)}) ON {on}"
        case p.Aggregate(child, keys, calls, grouped):
            items = ", ".join(f"{text(e)} AS {n}" for n, e in (*keys, *calls))
            by = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if grouped else ""
            return f"SELECT {items} FROM ({sql(child)}){by}"
        case p.SetOperation(op, all_, left, right):
            return f"SELECT * FROM (({sql(left)}) {op}{' ALL' if all_ else ''} ({sql(right)}))"
        case p.Distinct(child):
            return f"SELECT DISTINCT * FROM ({sql(child)})"
        case p.Limit(p.Sort(child, keys), count, offset):
            cut = ("" if count is None else f" LIMIT {count}") + (f" OFFSET {offset}" if offset else "")
            return f"SELECT * FROM ({sql(child)}) ORDER BY {', '.join(map(_order, keys))}{cut}"
        case p.Window(child, items):
            calls = ", ".join(f"{_window(c, child)} AS {n}" for n, c in items)
            return f"SELECT *, {calls} FROM ({sql(child)})"
    raise AssertionError(plan)


def _order(key: tuple[Expr, bool, bool]) -> str:
    return f"{text(key[0])} {'ASC' if key[1] else 'DESC'} NULLS {'FIRST' if key[2] else 'LAST'}"


def _window(call: p.WindowCall, child: p.Plan) -> str:
    order = [_order(key) for key in call.order]
    if call.fn in ("row_number", "lag", "lead") or (call.frame is not None and call.frame[0] == "rows"):
        order += [f"{v.name} ASC NULLS LAST" for v in child.variables]  # ties are broken by all columns
    parts = [f"PARTITION BY {', '.join(map(text, call.partition))}"] if call.partition else []
    parts += [f"ORDER BY {', '.join(order)}"] if order else []
    if call.frame is not None:
        mode, start, end = call.frame
        parts.append(f"{mode} BETWEEN {_bound(start, 'PRECEDING')} AND {_bound(end, 'FOLLOWING')}")
    args = ", ".join(map(text, call.args)) or ("*" if call.fn == "count" else "")
    return f"{call.fn}({args}) OVER ({' '.join(parts)})"


def _bound(offset: int | None, side: str) -> str:
    if offset is None:
        return f"UNBOUNDED {side}"
    return "CURRENT ROW" if offset == 0 else f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def text(expr: Expr) -> str:
    """An expression as SQL."""
    match expr:
        case Var(name):
            return name
        case Const(value, type_):
            if value is None:
                return f"CAST(NULL AS {type_})"
            shown = f"'{value}'" if type_ in (VARCHAR, DOUBLE) else str(to_logical(value, type_))
            return f"CAST({shown} AS {type_})"
        case Cast(arg, to):
            return f"CAST({text(arg)} AS {to})"
        case Case(arms, default):
            return (
                f"CASE {' '.join(f'WHEN {text(c)} THEN {text(v)}' for c, v in arms)} ELSE {text(default)} END"
            )
        case Call(op, args):
            return _call(op, [text(a) for a in args])
        case p.AggregateCall(fn, args, distinct, filter_):
            inside = ", ".join(map(text, args)) or "*"
            inside = f"({inside})" if len(args) > 1 else inside
            where = "" if filter_ is None else f" FILTER (WHERE {text(filter_)})"
            return f"{fn}({'DISTINCT ' if distinct else ''}{inside}){where}"
        case p.ScalarSubquery(plan):
            return f"({sql(plan)})"
        case p.ExistsSubquery(plan):
            return f"EXISTS ({sql(plan)})"
        case p.QuantifiedSubquery(args, op, all_, plan):
            if len(args) > 1:
                return f"(({', '.join(map(text, args))}) {'NOT IN' if all_ else 'IN'} ({sql(plan)}))"
            return f"({text(args[0])} {op} {'ALL' if all_ else 'ANY'} ({sql(plan)}))"
    raise AssertionError(expr)


def _call(op: str, args: list[str]) -> str:
    infix = {"is_distinct": "IS DISTINCT FROM", "is_not_distinct": "IS NOT DISTINCT FROM"}
    if op in ("and", "or"):
        return f"({f' {op.upper()} '.join(args)})"
    if op == "is_null":
        return f"({args[0]} IS NULL)"
    if op == "not":
        return f"(NOT {args[0]})"
    if len(args) == 2 and (op in infix or not op.isalpha()):
        return f"({args[0]} {infix.get(op, op)} {args[1]})"
    return f"{op}({', '.join(args)})"


def same(plan: p.Plan, oracle: DuckOracle, query: str | None = None, chunk: int = 3) -> None:
    """Fail unless everfresh and DuckDB agree on a plan; DuckDB's own failures raise `duckdb.Error`."""
    query = query or sql(plan)
    expected = oracle.query(query)
    assert_same(expected, run(plan, oracle, chunk), f"{query}\n{plan}\n")
