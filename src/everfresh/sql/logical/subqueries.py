"""Subqueries in expressions: which there are, what they and plans take from outside, and their answers in
their place.

Whoever unnests (the lowering to the calculus, plans run once, Spark SQL) asks for the outermost subqueries of
an expression, computes them for all outer combinations that they mention, and puts a reference to the answer
where each stood.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Expr, Var
from everfresh.rewrite import Node
from everfresh.sql.logical import plan as p

Names = frozenset[str]
SEVERAL = "a subquery used as a value gives more than one row"


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
    if isinstance(plan, p.Scan | p.Given):
        return frozenset()
    inside = {v.name for child in plan.inputs for v in child.variables}
    own = frozenset().union(*(names(c) for c in plan.children if not isinstance(c, p.Plan))) - inside
    if isinstance(plan, p.Join):
        return own | free(plan.left) | (free(plan.right) - lateral(plan))
    return own.union(*map(free, plan.inputs))


def lateral(plan: p.Join) -> Names:
    """The variables of the left side of a join that its right side mentions: it is lateral if there are."""
    found = free(plan.right)
    return found and found & {v.name for v in plan.left.variables}


def subqueries(expr: Expr) -> Iterator[p.Subquery]:
    """The outermost subqueries in an expression, in order; equal ones as often as they stand there."""
    if isinstance(expr, p.Subquery):
        yield expr
        return
    for child in expr.children:
        if isinstance(child, Expr):
            yield from subqueries(child)


def gives_several() -> EverfreshError:
    """The error of a scalar subquery with several rows."""
    return EverfreshError(Code.VALUE, SEVERAL, hint="use an aggregate, or IN")


def has_subquery(expr: Expr) -> bool:
    """Whether an expression asks a plan."""
    return next(subqueries(expr), None) is not None


def answered(expr: Expr, answers: Mapping[Expr, Expr]) -> Expr:
    """An expression with the answers of its outermost subqueries in their place.

    >>> from everfresh.expr import build
    >>> from everfresh.types import BOOLEAN
    >>> asked = p.ExistsSubquery(p.Single())
    >>> both = build.call("or", asked, build.call("not", asked))
    >>> print(answered(both, {asked: Var("a", BOOLEAN)}))
    a OR NOT a
    """
    if isinstance(expr, p.Subquery):
        return answers[expr]
    return expr.map_children(lambda child: answered(child, answers))
