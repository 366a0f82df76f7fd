"""Which variables an expression or a plan takes from outside, and conditions taken apart into conjuncts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from everfresh.expr import Call, Expr, Var, build
from everfresh.rewrite import Node
from everfresh.sql import plan as p

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


def conjuncts(condition: Expr | None) -> list[Expr]:
    """The conditions that AND joins; what all arms of an OR have in common is one of them.

    >>> from everfresh.types import INTEGER
    >>> a, b, c = (build.call("=", Var(n, INTEGER), build.literal(1)) for n in "abc")
    >>> [str(c) for c in conjuncts(build.call("or", build.call("and", a, b), build.call("and", a, c)))]
    ['a = 1', 'b = 1 OR c = 1']
    """
    if condition is None:
        return []
    if isinstance(condition, Call) and condition.op == "and":
        return [c for arg in condition.args for c in conjuncts(arg)]
    if isinstance(condition, Call) and condition.op == "or" and not has_subquery(condition):
        arms = [conjuncts(arg) for arg in condition.args]
        shared = [c for c in dict.fromkeys(arms[0]) if all(c in arm for arm in arms[1:])]
        if shared:
            rest = [[c for c in arm if c not in shared] for arm in arms]
            left = [build.disjunction([build.conjunction(arm) for arm in rest])] if all(rest) else []
            return shared + left
    return [condition]
