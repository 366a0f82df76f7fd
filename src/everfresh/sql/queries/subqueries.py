"""Subqueries in expressions: scalar ones, EXISTS, IN, ANY and ALL; and row values, which IN compares.

A subquery is bound with the binder of the expression around it as its `outer`, so that columns it does not
have become variables of the query around. As in DuckDB, a row value equals another by identity (NULL is
NULL), but a subquery's rows by SQL's `=` of each column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import build, coerce
from everfresh.expr.nodes import Expr
from everfresh.sql.logical.limits import fixed
from everfresh.sql.logical.plan import (
    AggregateCall,
    ExistsSubquery,
    Plan,
    QuantifiedSubquery,
    ScalarSubquery,
    WindowCall,
    projected,
)

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder
    from everfresh.sql.queries.clauses import Query


def _bound(binder: Binder, tree: Any) -> Query:
    context = binder.scope.context
    if context is None:
        raise binder.source.unsupported(
            f"a subquery in {binder.clause}", tree, hint="queries and views may have subqueries"
        )
    return context.bind(tree, binder)


def scalar(binder: Binder, tree: Any) -> Expr:
    """(SELECT ...) as a value."""
    query = _bound(binder, tree)
    if len(query.names) != 1:
        raise binder.source.error(
            Code.TYPE, f"a subquery as a value has one column, not {len(query.names)}", tree
        )
    return ScalarSubquery(fixed(query.plan))


def exists(binder: Binder, node: Any) -> Expr:
    """EXISTS (SELECT ...)."""
    return ExistsSubquery(_bound(binder, node.this).plan)


# -- IN, ANY, ALL ----------------------------------------------------------------------------------------


def in_query(node: Any) -> Any:
    """The query of IN (query), or None if it is a list."""
    if node.args.get("query") is not None:
        return node.args["query"]
    items = node.expressions
    return items[0] if len(items) == 1 and isinstance(items[0], exp.Values) else None


def quantifier(node: Any) -> Any:
    """The ANY or ALL on the right of a comparison, or None."""
    return node.expression if isinstance(node.expression, (exp.Any, exp.All)) else None


def compared(binder: Binder, node: Any, op: str) -> Expr:
    """x op ANY (query), x op ALL (query)."""
    which = quantifier(node)
    query = which.this
    if not isinstance(query, (exp.Query, exp.Values)):
        word = "ALL" if isinstance(which, exp.All) else "ANY"
        raise binder.source.unsupported(f"{word} of a list", node, hint="use IN (...)")
    return quantified(binder, node.this, op, isinstance(which, exp.All), query)


def quantified(binder: Binder, left: Any, op: str, every: bool, tree: Any) -> Expr:
    """`left op ANY (tree)`, or ALL; both sides in the type in which they are compared."""
    source = binder.source
    args = [binder.bind(a) for a in row(left) or [left]]
    query = _bound(binder, tree)
    if len(query.names) != len(args):
        plural = "" if len(args) == 1 else "s"
        raise source.error(
            Code.TYPE,
            f"the subquery must have {len(args)} column{plural} here, not {len(query.names)}",
            tree,
        )
    if len(args) > 1 and op not in ("=", "<>"):
        raise source.unsupported(f"a row value under {op} ANY or ALL", left)
    plan = fixed(query.plan)
    context = binder.scope.context
    assert context is not None
    made, items = [], []
    for arg, var in zip(args, plan.variables, strict=True):
        to = coerce.comparable([arg, var], False)
        if to is None:
            raise source.error(
                Code.TYPE,
                f"cannot compare {arg.type} with {var.type} of the subquery",
                left,
                hint="cast one of them explicitly",
            )
        made.append(build.implicit(arg, to))
        name = var.name if var.type == to else context.names.fresh(var.name)
        items.append((name, build.cast(var, to)))
    return QuantifiedSubquery(tuple(made), op, every, projected(plan, items))


# -- row values ------------------------------------------------------------------------------------------


def row(node: Any) -> list[Any] | None:
    """The parts of a row value (a, b), or None for anything else."""
    return list(node.expressions) if isinstance(node, exp.Tuple) and len(node.expressions) > 1 else None


def equal_rows(binder: Binder, left: Any, right: Any) -> Expr:
    """(a, b) = (c, d)."""
    mine, theirs = row(left), row(right)
    if mine is None or theirs is None or len(mine) != len(theirs):
        raise binder.source.error(Code.TYPE, "a row value is compared with one of as many columns", left)
    pairs = zip(mine, theirs, strict=True)
    return build.conjunction(
        [build.call("is_not_distinct", binder.bind(a), binder.bind(b)) for a, b in pairs]
    )


def rows_in(binder: Binder, node: Any) -> Expr:
    """(a, b) IN ((c, d), ...)."""
    return build.disjunction([equal_rows(binder, node.this, item) for item in node.expressions])


def no_aggregate_inside(binder: Binder, node: Any, expr: Expr) -> Expr:
    """An expression for a name of the query around; refuses what that query has yet to compute."""
    kinds = {AggregateCall: "an aggregate", WindowCall: "a window function"}
    own: list[Any] = [expr]
    while own:
        part = own.pop()
        if type(part) in kinds:
            raise binder.source.unsupported(f"{kinds[type(part)]} of the outer query inside a subquery", node)
        own += [c for c in part.children if not isinstance(c, Plan)]
    return expr
