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
from everfresh.sql.logical.row_calls import ORDERED, WHOLE, SortKey
from everfresh.sql.queries.composed import COMPOSED, TREES, of_each, several
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LIST,
    NULL,
    REAL,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    coding,
)

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
    exp.GroupConcat: "string_agg",
    exp.ArrayAgg: "list",
    exp.First: "first",
    exp.Last: "last",
    exp.AnyValue: "any_value",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    **TREES,
}
_BY_NAME = {  # those that sqlglot does not know
    "mean": "avg", "every": "bool_and", "quantile": "quantile_disc", "argmin": "arg_min", "argmax": "arg_max",
    "min_by": "arg_min", "max_by": "arg_max", "arbitrary": "any_value", "array_agg": "list",
    "listagg": "string_agg",
    "kahan_sum": "fsum", "sumkahan": "fsum", "geometric_mean": "geomean",
    **{name: name for name in (*WHOLE, *COMPOSED)},
}  # fmt: skip
_FRACTIONS = {"quantile_cont", "quantile_disc", "approx_quantile"}
_NUMBERED = {"min", "max", "arg_min", "arg_max"}
"""What takes a number of values as its last argument, and gives a LIST then."""
_MOST = 1_000_000
"""As many as DuckDB gives of them, less one."""
_INDIFFERENT = {"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "arg_min", "arg_max"}  # to DISTINCT

_WIDENED: dict[str, dict[SqlType, SqlType]] = {  # the types that a function takes by widening them
    "sum": {BOOLEAN: INTEGER, NULL: INTEGER, REAL: DOUBLE},
    "avg": {NULL: INTEGER, REAL: DOUBLE},
    "bool_and": {NULL: BOOLEAN},
    "bool_or": {NULL: BOOLEAN},
    "median": {REAL: DOUBLE, DATE: TIMESTAMP},
    "quantile_cont": {REAL: DOUBLE, DATE: TIMESTAMP},
    "product": {NULL: DOUBLE, REAL: DOUBLE},
    "count_if": {NULL: BOOLEAN},
    "list": {NULL: INTEGER},
    **{fn: {NULL: DOUBLE, REAL: DOUBLE} for fn in ("stddev_samp", "stddev_pop", "var_samp", "var_pop")},
}


def aggregate_name(node: Any) -> str | None:
    """The aggregate function that a tree calls, if the language has it."""
    if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.AnyValue):
        return "any_value"  # as sqlglot reads ANY_VALUE(x)
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
    node = node.this if isinstance(node, exp.IgnoreNulls) else node
    number = _number(inside, node, fn)
    args, distinct, order = arguments(inside, node, fn, number is not None)
    condition = None if where is None else filtering.condition(where)
    if distinct and len(args) > 1 and not _is_row(node):
        known = [build.call("not", build.call("is_null", a)) for a in args]
        condition = build.conjunction(known if condition is None else [condition, *known])
    parts = [*args, *(e for e, _, _ in order)]
    if _is_outer(binder, [*parts, condition] if condition is not None else parts):
        raise source.unsupported("an aggregate of the outer query inside a subquery", node)
    if not binder.aggregates:
        raise source.error(
            Code.TYPE,
            f"{binder.clause} cannot contain the aggregate {fn}",
            node,
            hint="use HAVING" if binder.clause == "WHERE" else None,
        )
    if number is not None:
        return several(fn, args, number, distinct, condition)
    if fn in _FRACTIONS and len(args) == 2 and args[1].type.name == "LIST":
        fractions = [Const(f, DOUBLE) for f in _elements(args[1])]
        fn = "quantile_disc" if fn == "approx_quantile" else fn
        return of_each(fn, args[0], fractions, distinct, condition)
    if fn in COMPOSED:
        return COMPOSED[fn](args, distinct, condition)
    if fn in ORDERED and not order:  # any of the values would do
        return AggregateCall("max" if fn == "last" else "min", tuple(args), False, condition)
    return AggregateCall(fn, tuple(args), distinct, condition, order)


def _is_row(node: Any) -> bool:
    """Whether it is COUNT(DISTINCT (x, y)), which counts rows with NULLs, not COUNT(DISTINCT x, y)."""
    return isinstance(node.this.expressions[0], exp.Tuple)


_PARTS = ("this", "expression", "quantile", "separator")
"""Where trees of aggregates have their arguments, in order."""


def _number(binder: Binder, node: Any, fn: str) -> int | None:
    """How many values MIN(x, n) and its like give, a constant; None where they give one."""
    tree = node.args.get("count")
    if fn not in _NUMBERED or tree is None:
        return None
    given = binder.bind(tree)
    whole = given.type.is_integer or given.type in (NULL, VARCHAR)
    if not whole or free_variables(given):
        raise binder.source.error(
            Code.TYPE, f"the number of values of {fn.upper()} is a constant whole number", tree
        )
    number = evaluate(build.cast(given, BIGINT), {})
    if number is None or not 0 < number < _MOST:
        message = f"the number of values of {fn.upper()} is from 1 to {_MOST - 1}"
        raise binder.source.error(Code.VALUE, message, tree)
    return int(number)


def arguments(
    binder: Binder, node: Any, fn: str, numbered: bool = False
) -> tuple[list[Expr], bool, tuple[SortKey, ...]]:
    """The arguments of an aggregate, whether it is DISTINCT, and its ORDER BY."""
    source = binder.source
    trees = list(node.expressions)
    if not isinstance(node, exp.Anonymous):
        trees = [*(node.args.get(part) for part in _PARTS), *trees]
    trees = [t for t in trees if t is not None]
    if not numbered and (node.args.get("count") or (fn in ("min", "max") and len(trees) > 1)):
        raise source.unsupported(f"{fn.upper()} with a number of values", node)
    sorting: list[Any] = []
    for i, tree in enumerate(trees):
        if isinstance(tree, exp.Order):
            trees[i], sorting = tree.this, tree.expressions
    if fn == "string_agg" and len(trees) == 1:
        trees.append(exp.Literal.string(","))
    rest: list[Any] = []
    if len(trees) > 1 and isinstance(trees[0], exp.Distinct):  # DISTINCT is of the first
        trees, rest = trees[:1], trees[1:]
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
    args = [binder.bind(tree) for tree in (*trees, *rest)]
    args = [build.cast(a, widened[a.type]) if a.type in widened else a for a in args]
    if fn in _FRACTIONS and len(args) == 2:
        args[1] = _fraction(binder, args[1], node)
    if fn == "string_agg":
        args = [
            args[0] if args[0].type == VARCHAR else build.cast(args[0], VARCHAR),
            _separator(binder, args[1], node),
        ]
    order = tuple(sort_key(binder, one) for one in sorting) if fn in ORDERED else ()
    distinct = distinct and (numbered or fn not in _INDIFFERENT)
    if distinct and numbered and len(args) > 1:
        raise source.unsupported(f"DISTINCT in {fn.upper()} with a number of values", node)
    if distinct and any(e not in args for e, _, _ in order):
        message = "with DISTINCT, ORDER BY inside an aggregate is by its argument"
        raise source.error(Code.TYPE, message, node)
    if fn in ("string_agg", "list") and not order:
        order = ((args[0], True, False),)
    return args, distinct, order


def sort_key(binder: Binder, ordered: Any) -> SortKey:
    """One part of an ORDER BY inside a call or a window."""
    from everfresh.sql.queries.clauses import refuse_clauses

    refuse_clauses(binder.source, ordered, {"this", "desc", "nulls_first"})
    return binder.bind(ordered.this), not ordered.args.get("desc"), bool(ordered.args.get("nulls_first"))


def _separator(binder: Binder, given: Expr, node: Any) -> Expr:
    """What STRING_AGG puts between values: a constant."""
    if free_variables(given) or given.type not in (VARCHAR, NULL):
        raise binder.source.error(Code.TYPE, "the separator of STRING_AGG is a constant text", node)
    return Const(evaluate(build.cast(given, VARCHAR), {}), VARCHAR)


def _fraction(binder: Binder, given: Expr, node: Any) -> Expr:
    """The fraction of a quantile, or a LIST of fractions: constants from 0 to 1."""
    of = LIST(DOUBLE) if given.type.name == "LIST" else DOUBLE
    value = None if free_variables(given) else evaluate(build.cast(given, of), {})
    fractions = [value] if of == DOUBLE else [] if value is None else coding.elements(value, of)
    if value is None or any(f is None or not 0 <= f <= 1 for f in fractions):
        raise binder.source.error(Code.VALUE, "the fraction of a quantile is a constant from 0 to 1", node)
    return Const(value, of)


def _elements(given: Expr) -> list[float]:
    """The values of a constant LIST of doubles."""
    assert isinstance(given, Const)
    return coding.elements(given.value, given.of)


def _is_outer(binder: Binder, parts: list[Expr]) -> bool:
    """Whether all columns in the arguments are of queries around this one: SQL aggregates there."""
    if binder.scope.outer is None:
        return False
    names = [v.name for part in parts for v in free_variables(part)]
    return bool(names) and not any(binder.scope.owns(n) for n in names)
