"""Binding calls of aggregate functions: which there are, their arguments, DISTINCT and FILTER."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import build
from everfresh.expr.nodes import Expr
from everfresh.sql.logical.plan import AggregateCall
from everfresh.sql.logical.renaming import free_variables
from everfresh.types import BOOLEAN, DOUBLE, INTEGER, NULL, REAL, SqlType

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder

AGGREGATES: dict[type[Any], str] = {
    exp.Sum: "sum",
    exp.Count: "count",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
}
_BY_NAME = {"mean": "avg", "every": "bool_and"}  # those that sqlglot does not know
_INDIFFERENT = {"min", "max", "bool_and", "bool_or"}  # to DISTINCT

_WIDENED: dict[str, dict[SqlType, SqlType]] = {  # the types that a function takes by widening them
    "sum": {BOOLEAN: INTEGER, NULL: INTEGER, REAL: DOUBLE},
    "avg": {NULL: INTEGER, REAL: DOUBLE},
    "bool_and": {NULL: BOOLEAN},
    "bool_or": {NULL: BOOLEAN},
    **{fn: {NULL: DOUBLE, REAL: DOUBLE} for fn in ("stddev_samp", "stddev_pop", "var_samp", "var_pop")},
}


def aggregate_name(node: Any) -> str | None:
    """The aggregate function that a tree calls, if the language has it."""
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        return _BY_NAME.get(node.this.lower())
    return AGGREGATES.get(type(node))


def calls_aggregate(tree: Any) -> bool:
    """Whether a tree calls an aggregate over the rows of its own query: subqueries and OVER do not count."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, (exp.Query, exp.Values)):
            continue
        if isinstance(node, exp.Window):
            head = node.this.this if isinstance(node.this, exp.Filter) else node.this
            pending += [p for p in node.iter_expressions() if p is not node.this]
            pending += list(head.iter_expressions()) if isinstance(head, exp.Expr) else []
            continue
        if aggregate_name(node) is not None:
            return True
        pending += list(node.iter_expressions())
    return False


def bind_aggregate(binder: Binder, node: Any, fn: str, where: Any = None) -> Expr:
    """A call of an aggregate function, with its FILTER if there is one."""
    source = binder.source
    if binder.within:
        raise source.error(Code.TYPE, f"aggregate {fn} cannot stand inside {binder.within}", node)
    inside, filtering = (replace(binder, within=w) for w in (f"the aggregate {fn}", "FILTER"))
    args, distinct = arguments(inside, node, fn)
    condition = None if where is None else filtering.condition(where)
    if distinct and len(args) > 1 and not _is_row(node):
        known = [build.call("not", build.call("is_null", a)) for a in args]
        condition = build.conjunction(known if condition is None else [condition, *known])
    if _is_outer(binder, [*args, condition] if condition is not None else args):
        raise source.unsupported("an aggregate of the outer query inside a subquery", node)
    if not binder.aggregates:
        raise source.error(
            Code.TYPE,
            f"{binder.clause} cannot contain the aggregate {fn}",
            node,
            hint="use HAVING" if binder.clause == "WHERE" else None,
        )
    return AggregateCall(fn, tuple(args), distinct, condition)


def _is_row(node: Any) -> bool:
    """Whether it is COUNT(DISTINCT (x, y)), which counts rows with NULLs, not COUNT(DISTINCT x, y)."""
    return isinstance(node.this.expressions[0], exp.Tuple)


def arguments(binder: Binder, node: Any, fn: str) -> tuple[list[Expr], bool]:
    """The arguments of an aggregate, and whether it is DISTINCT."""
    source = binder.source
    trees = list(node.expressions) if isinstance(node, exp.Anonymous) else [node.this, *node.expressions]
    trees = [t for t in trees if t is not None]
    if node.args.get("count") or (fn in ("min", "max") and len(trees) > 1):
        raise source.unsupported(f"{fn.upper()} with a number of values", node)
    if any(isinstance(t, exp.Order) for t in trees):
        raise source.unsupported("ORDER BY inside an aggregate", node)
    distinct = len(trees) == 1 and isinstance(trees[0], exp.Distinct)
    if distinct:
        if trees[0].args.get("on"):
            raise source.unsupported("DISTINCT ON inside an aggregate", node)
        trees = list(trees[0].expressions)
        if fn == "count" and len(trees) == 1 and isinstance(trees[0], exp.Tuple):
            trees = list(trees[0].expressions)
    elif fn == "count" and len(trees) == 1 and isinstance(trees[0], exp.Star):
        if any(trees[0].args.values()):
            raise source.unsupported("EXCLUDE, REPLACE or RENAME in COUNT(*)", node)
        trees = []
    widened = _WIDENED.get(fn, {})
    args = [binder.bind(tree) for tree in trees]
    args = [build.cast(a, widened[a.type]) if a.type in widened else a for a in args]
    return args, distinct and fn not in _INDIFFERENT


def _is_outer(binder: Binder, parts: list[Expr]) -> bool:
    """Whether all columns in the arguments are of queries around this one: SQL aggregates there."""
    if binder.scope.outer is None:
        return False
    names = [v.name for part in parts for v in free_variables(part)]
    return bool(names) and not any(binder.scope.owns(n) for n in names)
