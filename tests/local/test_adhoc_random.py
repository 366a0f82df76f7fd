"""Random plans over the tables of `test_adhoc_support`, with subqueries that mention any plan around them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from test_adhoc_support import MONEY, TABLES, VALUES

from everfresh.expr import Call, Const, Expr, Var, build
from everfresh.sql.logical import plan as p
from everfresh.types import BIGINT, BOOLEAN, DOUBLE, VARCHAR, SqlType


class Plans:
    """A generator of plans."""

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
