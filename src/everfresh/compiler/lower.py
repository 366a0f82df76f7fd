"""Lowering: from a bound SQL plan to the calculus, and to how the view's rows are read off its map.

Rows of a table become `Sum_[columns](R(...) * [condition] * (column := expr))`, a bag keyed by its columns.
A grouped query becomes `Sum_[keys](R(...) * [condition] * (key := expr) * ⟨components⟩)`; each aggregate is
an expression over the components (the table in section 1.4 of the notes on SQL):

| aggregate | components | value |
|---|---|---|
| COUNT(*) | the count itself | n |
| COUNT(x) | nx | nx |
| SUM(x) exact | nx, sx | NULL if nx = 0 else sx |
| SUM(x) float | nx, sx over finite x, counts of NaN, inf, -inf | by IEEE rules from the counts |
| AVG(x) | as SUM | DOUBLE(sum) / nx |

FILTER makes the argument NULL where its condition is not TRUE. A component is shared by all aggregates that
need it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from everfresh.algebra import Kind
from everfresh.calculus import Bind, Cond, Query, Rel, Sum, Value, product
from everfresh.compiler.equalities import unified
from everfresh.expr import Const, Expr, Var, build, substitute
from everfresh.program import View, component
from everfresh.sql import plan as p
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    MAX_DIGITS,
    NULL,
    Column,
    SqlType,
)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A view in the calculus: its map's definition and kinds, and how rows are read off the map."""

    query: Query
    keys: tuple[Var, ...]
    kinds: tuple[Kind, ...]
    view: View


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a select-project plan: factors of a product, and each column as an expression over its
    variables."""

    factors: tuple[Query, ...]
    columns: dict[str, Expr]


def lower(name: str, plan: p.Plan) -> Lowered:
    """The calculus form of a view's plan; raises `NotFlat` if it is not a query over one table."""
    if any(isinstance(n, p.Subquery) for n in plan.walk()):
        raise NotFlat("a subquery")
    outputs: dict[str, Expr] = {c.name: Var(c.name, c.type, c.nullable) for c in plan.columns}
    having: list[Expr] = []
    node = plan
    columns = plan.columns
    aggregate = next((n for n in plan.walk() if isinstance(n, p.Aggregate)), None)
    if aggregate is None:
        return _lower_rows(name, plan)
    while node is not aggregate:
        match node:
            case p.Project(child, items):
                outputs = {k: substitute(e, dict(items)) for k, e in outputs.items()}
                having = [substitute(e, dict(items)) for e in having]
                node = child
            case p.Filter(child, condition):
                having.append(condition)
                node = child
            case _:
                raise _refuse(node)
    return _lower_aggregate(name, aggregate, columns, tuple(outputs.values()), having)


class NotFlat(Exception):
    """A query that has no flat form over one table; says what stands in the way."""


_CONSTRUCTS = {
    "Sort": "ORDER BY",
    "Limit": "LIMIT",
    "Distinct": "DISTINCT over an aggregate",
    "Single": "a query without FROM",
    "Aggregate": "an aggregate over an aggregate",
    "Join": "an outer join",
    "SetOperation": "a set operation",
    "Window": "a window function",
}


def _refuse(node: p.Plan) -> NotFlat:
    name = type(node).__name__
    return NotFlat(_CONSTRUCTS.get(name, name))


def _rows(plan: p.Plan) -> _Rows:
    match plan:
        case p.Scan(table, _, vars_):
            return _Rows((Rel(table, vars_),), {v.name: v for v in vars_})
        case p.Filter(child, condition):
            rows = _rows(child)
            return _Rows((*rows.factors, Cond(substitute(condition, rows.columns))), rows.columns)
        case p.Project(child, items):
            rows = _rows(child)
            return _Rows(rows.factors, {name: substitute(e, rows.columns) for name, e in items})
        case p.Join("inner", left, right, on):
            a, b = _rows(left), _rows(right)
            columns = {**a.columns, **b.columns}
            conditions = (Cond(substitute(on, columns)),) if on is not None else ()
            return _Rows((*a.factors, *b.factors, *conditions), columns)
        case _:
            raise _refuse(plan)


@dataclass
class _Keys:
    """The key variables of a map: each distinct expression once, columns under their own name."""

    taken: set[str]
    binds: list[Query] = field(default_factory=list)
    by_expr: dict[Expr, Var] = field(default_factory=dict)

    def add(self, name: str, expr: Expr) -> Var:
        if expr not in self.by_expr:
            if isinstance(expr, Var):
                self.by_expr[expr] = expr
            else:
                fresh, i = name, 1
                while fresh in self.taken:
                    fresh, i = f"{name}_{i}", i + 1
                self.taken.add(fresh)
                var = Var(fresh, expr.type, expr.nullable)
                self.by_expr[expr] = var
                self.binds.append(Bind(var, expr))
        return self.by_expr[expr]


def _unified(plan: p.Plan) -> _Rows:
    rows = _rows(plan)
    relations = [f for f in rows.factors if isinstance(f, Rel)]
    if len(relations) < 2:
        return rows
    ordered = (*relations, *(f for f in rows.factors if not isinstance(f, Rel)))
    return _Rows(*unified(ordered, rows.columns))


def _keys_over(rows: _Rows) -> _Keys:
    return _Keys({v.name for f in rows.factors if isinstance(f, Rel) for v in f.vars})


def _lower_rows(name: str, plan: p.Plan) -> Lowered:
    distinct = isinstance(plan, p.Distinct)
    rows = _unified(plan.input if isinstance(plan, p.Distinct) else plan)
    keys = _keys_over(rows)
    outputs = tuple(keys.add(column, expr) for column, expr in rows.columns.items())
    group = tuple(keys.by_expr.values())
    query = Sum(group, product(*rows.factors, *keys.binds))
    return Lowered(query, group, (), View(name, name, plan.columns, outputs, bag=not distinct))


@dataclass
class _Components:
    """The components of a map's value: each distinct one once."""

    items: list[tuple[Kind, Expr]] = field(default_factory=list)

    def add(self, kind: Kind, expr: Expr) -> int:
        if (kind, expr) not in self.items:
            self.items.append((kind, expr))
        return self.items.index((kind, expr)) + 1


def _lower_aggregate(
    name: str, node: p.Aggregate, columns: tuple[Column, ...], outputs: tuple[Expr, ...], having: list[Expr]
) -> Lowered:
    rows = _unified(node.input)
    keys = _keys_over(rows)
    components = _Components()
    values: dict[str, Expr] = {}
    for key_name, expr in node.keys:
        values[key_name] = keys.add(key_name, substitute(expr, rows.columns))
    for agg_name, call in node.aggregates:
        values[agg_name] = _aggregate(call, rows, components, sure=node.grouped)
    group = tuple(dict.fromkeys(keys.by_expr.values()))
    factors: list[Query] = [*rows.factors, *keys.binds]
    if components.items:
        factors.append(Value(tuple(expr for _, expr in components.items)))
    view = View(
        name,
        name,
        columns,
        tuple(substitute(e, values) for e in outputs),
        having=substitute(build.conjunction(having), values) if having else None,
        always=not node.grouped,
    )
    return Lowered(Sum(group, product(*factors)), group, tuple(kind for kind, _ in components.items), view)


def _aggregate(call: p.AggregateCall, rows: _Rows, components: _Components, *, sure: bool) -> Expr:
    """The aggregate's value over components; `sure` if a group is never empty."""
    filter_ = substitute(call.filter, rows.columns) if call.filter is not None else None
    if call.distinct:
        raise NotFlat(f"{call.fn.upper()}(DISTINCT ...)")
    if call.fn not in ("count", "sum", "avg"):
        raise NotFlat(f"the aggregate {call.fn.upper()}")
    count = Var(component(0), BIGINT, False)
    if not call.args:
        return (
            count
            if filter_ is None
            else _var(components.add(Kind.COUNT, build.call("truth", filter_)), BIGINT)
        )
    x = substitute(call.args[0], rows.columns)
    if x.type == NULL:
        x = Const(None, INTEGER)
    if filter_ is not None:
        x = build.case([(filter_, x)], Const(None, x.type))
    n = _var(components.add(Kind.COUNT, build.call("not_null01", x)), BIGINT) if x.nullable else count
    if call.fn == "count":
        return n
    total, scale = (
        _float_sum(x, components) if x.type.is_float else _exact_sum(x, components, average=call.fn == "avg")
    )
    if call.fn == "avg":
        divisor = build.cast(n, DOUBLE)
        if scale:
            divisor = build.call("*", divisor, Const(float(10**scale), DOUBLE))
        total = build.call("/", build.cast(total, DOUBLE), divisor)
    if sure and n is count:
        return total
    return build.case([(build.call("=", n, Const(0, BIGINT)), Const(None, total.type))], total)


def _var(index: int, type_: SqlType) -> Var:
    return Var(component(index), type_, False)


def _exact_sum(x: Expr, components: _Components, *, average: bool) -> tuple[Expr, int]:
    if x.type == BOOLEAN:
        return _var(components.add(Kind.COUNT, build.call("truth", x)), HUGEINT), 0
    index = components.add(Kind.WIDE, build.call("if_null_zero", x) if x.nullable else x)
    scale = x.type.scale
    if x.type.is_integer:
        return _var(index, HUGEINT), 0
    if average:  # AVG divides the unscaled sum, as DuckDB does
        return Var(component(index, unscaled=True), HUGEINT, False), scale
    return _var(index, DECIMAL(MAX_DIGITS, scale)), scale


def _float_sum(x: Expr, components: _Components) -> tuple[Expr, int]:
    x = build.cast(x, DOUBLE)
    total = _var(components.add(Kind.FLOAT, build.call("finite_or_zero", x)), DOUBLE)
    nan, plus, minus = (
        build.call(">", _var(components.add(Kind.COUNT, build.call(fn, x)), BIGINT), Const(0, BIGINT))
        for fn in ("is_nan01", "is_pinf01", "is_ninf01")
    )
    value = build.case(
        [
            (build.disjunction([nan, build.call("and", plus, minus)]), Const(float("nan"), DOUBLE)),
            (plus, Const(float("inf"), DOUBLE)),
            (minus, Const(float("-inf"), DOUBLE)),
        ],
        total,
    )
    return value, 0
