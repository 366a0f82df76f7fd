"""Binding calls of aggregate functions: which there are, their arguments, DISTINCT and FILTER."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import build, evaluate
from everfresh.expr.nodes import Const, Expr
from everfresh.sql.logical.plan import AggregateCall
from everfresh.sql.logical.renaming import free_variables
from everfresh.sql.logical.row_calls import WHOLE
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
    exp.Median: "median",
    exp.Mode: "mode",
    exp.PercentileCont: "quantile_cont",
    exp.PercentileDisc: "quantile_disc",
    exp.Quantile: "quantile_disc",
    exp.ArgMin: "arg_min",
    exp.ArgMax: "arg_max",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
}
_BY_NAME = {  # those that sqlglot does not know
    "mean": "avg", "every": "bool_and", "quantile": "quantile_disc", "argmin": "arg_min", "argmax": "arg_max",
    "min_by": "arg_min", "max_by": "arg_max", **{name: name for name in WHOLE},
}  # fmt: skip
_FRACTIONS = {"quantile_cont", "quantile_disc"}
_INDIFFERENT = {"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "arg_min", "arg_max"}  # to DISTINCT

_WIDENED: dict[str, dict[SqlType, SqlType]] = {  # the types that a function takes by widening them
    "sum": {BOOLEAN: INTEGER, NULL: INTEGER, REAL: DOUBLE},
    "avg": {NULL: INTEGER, REAL: DOUBLE},
    "bool_and": {NULL: BOOLEAN},
    "bool_or": {NULL: BOOLEAN},
    "median": {REAL: DOUBLE},
    "quantile_cont": {REAL: DOUBLE},
    "product": {NULL: DOUBLE, REAL: DOUBLE},
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
    if fn in WHOLE and not isinstance(node, exp.Anonymous):
        trees = [node.this, node.args.get("expression") or node.args.get("quantile"), *node.expressions]
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
    if fn in _FRACTIONS and len(args) == 2:
        args[1] = _fraction(binder, args[1], node)
    return args, distinct and fn not in _INDIFFERENT


def _fraction(binder: Binder, given: Expr, node: Any) -> Expr:
    """The fraction of a quantile: a constant from 0 to 1."""
    value = None if free_variables(given) else evaluate(build.cast(given, DOUBLE), {})
    if value is None or not 0 <= value <= 1:
        raise binder.source.error(Code.VALUE, "the fraction of a quantile is a constant from 0 to 1", node)
    return Const(value, DOUBLE)


def _is_outer(binder: Binder, parts: list[Expr]) -> bool:
    """Whether all columns in the arguments are of queries around this one: SQL aggregates there."""
    if binder.scope.outer is None:
        return False
    names = [v.name for part in parts for v in free_variables(part)]
    return bool(names) and not any(binder.scope.owns(n) for n in names)
