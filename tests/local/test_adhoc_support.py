"""What the tests of ad hoc queries share: plans as DuckDB SQL, random plans and tables, the comparison."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from everfresh.expr import Call, Case, Cast, Const, Expr, Var, build
from everfresh.local.adhoc import execute
from everfresh.sql import plan as p
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
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


# -- random plans -------------------------------------------------------------------------------------------


class Plans:
    """Random plans over `TABLES`, with subqueries that mention any plan around them."""

    def __init__(self, seed: int, nesting: int = 2, everything: bool = False) -> None:
        self.rng = random.Random(seed)
        self.nesting = nesting
        self.everything = everything  # also what DuckDB has not
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def pick(self, *makers: Callable[[], Any]) -> Any:
        return self.rng.choice(makers)()

    def top(self) -> p.Plan:
        """A plan whose columns are few and named; half of them are large expressions over a small plan."""
        if self.rng.random() < 0.5:
            plan = self.plan((), self.rng.choice([0, 0, 1]))
            types = [BOOLEAN, BOOLEAN, self.type(), self.type()]
            return p.Project(plan, tuple((self.name(), self.expr(t, plan.variables, 3)) for t in types))
        plan = self.plan((), 3)
        chosen = self.rng.sample(plan.variables, min(3, len(plan.variables)))
        items = [(self.name(), v) for v in chosen]
        items += [
            (self.name(), self.expr(self.type(), plan.variables, 2)) for _ in range(self.rng.randint(0, 2))
        ]
        return p.Project(plan, tuple(items))

    def type(self) -> SqlType:
        return self.rng.choice([BIGINT, BIGINT, BIGINT, VARCHAR, DOUBLE, MONEY, BOOLEAN])

    # -- operators

    def plan(self, outer: Sequence[Var], depth: int) -> p.Plan:
        """A plan; `outer` are the variables of the plans around it."""
        if depth <= 0:
            return self.scan()
        again = lambda: self.plan(outer, depth - 1)  # noqa: E731
        return self.pick(  # type: ignore[no-any-return]
            self.scan,
            lambda: self.filter(again(), outer),
            lambda: self.filter(again(), outer),
            lambda: self.filter(again(), outer),
            lambda: self.join(again(), self.plan(outer, depth - 2), outer),
            lambda: self.filter(self.join(again(), self.scan(), outer, "inner"), outer),
            lambda: self.aggregate(again(), outer, self.rng.random() < 0.7),
            lambda: self.project(again(), outer),
            lambda: p.Distinct(self.narrow(again())),
            lambda: self.set_operation(again(), self.plan(outer, depth - 1)),
            lambda: self.limit(again()),
            lambda: self.window(again(), outer),
        )

    def scan(self) -> p.Plan:
        table = self.rng.choice(list(TABLES))
        return p.Scan(table, table, tuple(Var(self.name(), c.type, True) for c in TABLES[table].columns))

    def filter(self, plan: p.Plan, outer: Sequence[Var]) -> p.Plan:
        parts = [self.correlation(plan.variables, outer)] if outer and self.rng.random() < 0.7 else []
        parts += [
            self.condition([*plan.variables, *outer], 2)
            for _ in range(self.rng.randint(0 if parts else 1, 2))
        ]
        return p.Filter(plan, build.conjunction(parts))

    def correlation(self, own: Sequence[Var], outer: Sequence[Var]) -> Expr:
        """An equality of an own and an outer variable, mostly."""
        pairs = [(x, y) for x in own for y in outer if x.type == y.type]
        if not pairs:
            return self.condition([*own, *outer], 1)
        return build.call(self.rng.choice(["=", "=", "=", "is_not_distinct", "<"]), *self.rng.choice(pairs))

    def join(self, left: p.Plan, right: p.Plan, outer: Sequence[Var], kind: str | None = None) -> p.Plan:
        kind = kind or self.rng.choice(["inner", "left", "left", "right", "full"])
        parts = [self.correlation(right.variables, left.variables)] if self.rng.random() < 0.8 else []
        if self.rng.random() < 0.4:  # DuckDB has no correlation in ON of outer joins
            free = kind == "inner" or self.everything
            seen = [*left.variables, *right.variables, *(outer if free else ())]
            parts.append(self.condition(seen, 1, plain=not free))
        return p.Join(kind, left, right, build.conjunction(parts) if parts else None)

    def aggregate(self, plan: p.Plan, outer: Sequence[Var], grouped: bool) -> p.Plan:
        keys = [
            (self.name(), v)
            for v in self.rng.sample(plan.variables, self.rng.randint(1, min(2, len(plan.variables))))
        ]
        calls = [(self.name(), self.call(plan.variables)) for _ in range(self.rng.randint(1, 3))]
        return p.Aggregate(plan, tuple(keys) if grouped else (), tuple(calls), grouped)

    def call(self, variables: Sequence[Var], fns: Sequence[str] = ()) -> p.AggregateCall:
        fn = self.rng.choice(
            list(fns)
            or [
                "count",
                "count",
                "sum",
                "sum",
                "avg",
                "min",
                "max",
                "min",
                "max",
                "stddev_samp",
                "stddev_pop",
                "var_samp",
                "var_pop",
                "bool_and",
                "bool_or",
            ]
        )
        kept = self.condition(variables, 1, plain=True) if self.rng.random() < 0.25 else None
        distinct = fn in ("count", "sum", "avg") and self.rng.random() < 0.3
        if fn == "count" and not distinct and self.rng.random() < 0.5:
            return p.AggregateCall("count", (), False, kept)
        if fn == "count" and distinct and self.rng.random() < 0.3 and len(variables) > 1:
            return p.AggregateCall("count", tuple(self.rng.sample(variables, 2)), True, kept)
        return p.AggregateCall(fn, (self.argument(fn, variables),), distinct, kept)

    def argument(self, fn: str, variables: Sequence[Var]) -> Expr:
        if fn in ("bool_and", "bool_or"):
            return self.condition(variables, 1, plain=True)
        wanted = [v for v in variables if fn in ("count", "min", "max") or v.type.is_numeric]
        return self.rng.choice(wanted) if wanted else self.expr(BIGINT, variables, 1, plain=True)

    def project(self, plan: p.Plan, outer: Sequence[Var]) -> p.Plan:
        seen = [*plan.variables, *outer]
        made = [(self.name(), self.expr(self.type(), seen, 2)) for _ in range(self.rng.randint(1, 2))]
        kept = [
            (self.name(), v)
            for v in self.rng.sample(plan.variables, self.rng.randint(0, min(2, len(plan.variables))))
        ]
        return p.Project(plan, tuple(made + kept))

    def narrow(self, plan: p.Plan, types: Sequence[SqlType] | None = None) -> p.Plan:
        """Few columns, so that rows repeat; of given types if there are."""
        if types is None:
            chosen = self.rng.sample(plan.variables, min(2, len(plan.variables)))
            return p.Project(plan, tuple((self.name(), v) for v in chosen))
        return p.Project(
            plan, tuple((self.name(), self.expr(t, plan.variables, 1, plain=True)) for t in types)
        )

    def set_operation(self, left: p.Plan, right: p.Plan) -> p.Plan:
        left = self.narrow(left)
        op = self.rng.choice(["union", "intersect", "except"])
        return p.SetOperation(
            op, self.rng.random() < 0.5, left, self.narrow(right, [v.type for v in left.variables])
        )

    def limit(self, plan: p.Plan, count: int | None = None) -> p.Plan:
        order = self.rng.sample(plan.variables, len(plan.variables))
        keys = tuple((v, self.rng.random() < 0.5, self.rng.random() < 0.3) for v in order)
        return p.Limit(p.Sort(plan, keys), count or self.rng.randint(0, 4), self.rng.choice([0, 0, 1]))

    def window(self, plan: p.Plan, outer: Sequence[Var]) -> p.Plan:
        return p.Window(
            plan, tuple((self.name(), self.over(plan.variables)) for _ in range(self.rng.randint(1, 2)))
        )

    def over(self, variables: Sequence[Var]) -> p.WindowCall:
        fn = self.rng.choice(
            [
                "row_number",
                "rank",
                "dense_rank",
                "lag",
                "lead",
                "first_value",
                "last_value",
                "sum",
                "sum",
                "count",
                "avg",
                "min",
                "max",
                "var_pop",
                "stddev_samp",
            ]
        )
        by = tuple(self.rng.sample(variables, self.rng.randint(0, min(1, len(variables)))))
        keys = self.rng.sample(variables, self.rng.randint(0, min(2, len(variables))))
        order = tuple((v, self.rng.random() < 0.6, self.rng.random() < 0.3) for v in keys)
        frame: Any = None
        if self.rng.random() < 0.5 or fn in ("first_value", "last_value"):
            low, high = sorted(self.rng.choices([-2, -1, 0, 1, 2], k=2))
            frame = ("rows", self.rng.choice([None, low]), self.rng.choice([None, high]))
        if fn in ("row_number", "rank", "dense_rank"):
            return p.WindowCall(fn, (), by, order, None, BIGINT)
        arg = self.argument(
            fn
            if fn in ("min", "max")
            else "sum"
            if fn in ("sum", "avg", "var_pop", "stddev_samp")
            else "count",
            variables,
        )
        if fn in ("lag", "lead"):
            away = (Const(self.rng.choice([0, 1, 2, -1]), BIGINT),) if self.rng.random() < 0.5 else ()
            return p.WindowCall(fn, (arg, *away), by, order, None, arg.type)
        if fn in ("first_value", "last_value"):
            return p.WindowCall(fn, (arg,), by, order, frame, arg.type)
        if (
            frame is None
            and len(order) == 1
            and order[0][0].type in (BIGINT, MONEY)
            and self.rng.random() < 0.7
        ):
            unit = 100 if order[0][0].type == MONEY else 1
            low, high = sorted(self.rng.choices([-2, -1, 0, 1, 2], k=2))
            frame = ("range", self.rng.choice([None, low * unit]), self.rng.choice([None, high * unit]))
        return p.WindowCall(fn, (arg,), by, order, frame, p.AggregateCall(fn, (arg,)).type)

    # -- expressions

    def constant(self, type_: SqlType) -> Expr:
        value = self.rng.choice(VALUES.get(type_, [None, 0, 1, 100]))
        if isinstance(value, Decimal):
            value = int(value * 100)
        return Const(value, type_)

    def expr(self, type_: SqlType, seen: Sequence[Var], depth: int, plain: bool = False) -> Expr:
        """An expression of a type; `plain`: without subqueries."""
        if type_ == BOOLEAN:
            return self.condition(seen, depth, plain)
        same = [v for v in seen if v.type == type_]
        roll = self.rng.random()
        if same and (depth <= 0 or roll < 0.5):
            return self.rng.choice(same)
        if depth <= 0 or roll < 0.6:
            return self.constant(type_)
        if roll < 0.75 and not plain and self.nesting > 0:
            return self.scalar(type_, seen)
        if roll < 0.85:
            value = build.case(
                [(self.condition(seen, depth - 1, plain), self.expr(type_, seen, depth - 1, plain))],
                self.expr(type_, seen, depth - 1, plain),
            )
            return value if value.type == type_ else build.cast(value, type_)
        if type_ == BIGINT:
            return Call(self.rng.choice("+-"), tuple(self.expr(type_, seen, depth - 1, plain) for _ in "ab"))
        return Call("coalesce", tuple(self.expr(type_, seen, depth - 1, plain) for _ in "ab"))

    def condition(self, seen: Sequence[Var], depth: int, plain: bool = False) -> Expr:
        roll = self.rng.random()
        if depth > 0 and roll < 0.25:
            return Call(
                self.rng.choice(["and", "or"]), tuple(self.condition(seen, depth - 1, plain) for _ in "ab")
            )
        if depth > 0 and roll < 0.32:
            return Call("not", (self.condition(seen, depth - 1, plain),))
        if not plain and self.nesting > 0 and roll < 0.6:
            return self.question(seen)
        type_ = self.rng.choice([BIGINT, BIGINT, VARCHAR, DOUBLE, MONEY])
        if roll > 0.9:
            return Call("is_null", (self.expr(type_, seen, depth - 1, plain),))
        op = self.rng.choice(["=", "=", "=", "<>", "<", "<=", ">", ">=", "is_distinct", "is_not_distinct"])
        return Call(op, tuple(self.expr(type_, seen, depth - 1, plain) for _ in "ab"))

    def inner(self, seen: Sequence[Var]) -> p.Plan:
        """A plan for a subquery, mostly correlated."""
        self.nesting -= 1
        plan = self.plan(seen, self.rng.choice([1, 2, 2, 3]))
        plan = self.filter(plan, seen) if self.rng.random() < 0.7 else plan
        self.nesting += 1
        return plan

    def scalar(self, type_: SqlType, seen: Sequence[Var]) -> Expr:
        plan = self.inner(seen)
        self.nesting, kept = 0, self.nesting
        if self.rng.random() < 0.3:
            one: p.Plan = p.Project(
                self.limit(plan, 1), ((self.name(), self.expr(type_, plan.variables, 1)),)
            )
        else:
            plan = self.aggregate(plan, (), False)
            one = p.Project(plan, ((self.name(), self.expr(type_, plan.variables, 1)),))
        self.nesting = kept
        return p.ScalarSubquery(one)

    def question(self, seen: Sequence[Var]) -> Expr:
        several = self.rng.random() < 0.15  # which DuckDB has only without correlation
        plan = self.inner(() if several and not self.everything else seen)
        if not several and self.rng.random() < 0.4:
            return p.ExistsSubquery(plan)
        columns = self.rng.sample(plan.variables, min(2 if several else 1, len(plan.variables)))
        args = tuple(self.expr(v.type, seen, 1, plain=True) for v in columns)
        all_ = self.rng.random() < 0.5
        op = (
            ("<>" if all_ else "=")
            if len(args) > 1
            else self.rng.choice(["=", "=", "=", "<>", "<>", "<", "<=", ">", ">="])
        )
        return p.QuantifiedSubquery(args, op, all_, p.Project(plan, tuple((self.name(), v) for v in columns)))


def same(plan: p.Plan, oracle: DuckOracle, query: str | None = None, chunk: int = 3) -> None:
    """Fail unless everfresh and DuckDB agree on a plan; DuckDB's own failures raise `duckdb.Error`."""
    query = query or sql(plan)
    expected = oracle.query(query)
    assert_same(expected, run(plan, oracle, chunk), f"{query}\n{plan}\n")


__all__ = ["DATE", "MONEY", "TABLES", "Plans", "oracle_of", "random_rows", "run", "same", "sql", "text"]
