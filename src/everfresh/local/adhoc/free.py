"""Which variables an expression or a plan takes from outside, and conditions taken apart into conjuncts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from everfresh.expr import Expr, Var
from everfresh.rewrite import Node
from everfresh.sql import plan as p
from everfresh.sql.conditions import conjuncts

__all__ = ["Names", "conjuncts", "free", "has_subquery", "names", "subqueries"]

Names = frozenset[str]


@lru_cache(maxsize=4096)
def names(node: Node) -> Names:
    """The variables that stand free in an expression, those of its subqueries included."""
    if isinstance(node, Var):
        return frozenset((node.name,))
    if isinstance(node, p.Plan):
        return free(node)
    return frozenset().union(*map(names, node.children))


@lru_cache(maxsize=4096)
def free(plan: p.Plan) -> Names:
    """The variables of outer plans that a plan mentions."""
    if isinstance(plan, p.Scan):
        return frozenset()
    inside = {v.name for child in plan.inputs for v in child.variables}
    own = frozenset().union(*(names(c) for c in plan.children if not isinstance(c, p.Plan))) - inside
    return own.union(*map(free, plan.inputs))


def subqueries(expr: Expr) -> Iterator[p.Subquery]:
    """The outermost subqueries in an expression."""
    if isinstance(expr, p.Subquery):
        yield expr
        return
    for child in expr.children:
        assert isinstance(child, Expr)
        yield from subqueries(child)


def has_subquery(expr: Expr) -> bool:
    """Whether an expression asks a plan."""
    return next(subqueries(expr), None) is not None
