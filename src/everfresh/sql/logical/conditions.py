"""Conditions taken apart into conjuncts."""

from __future__ import annotations

from everfresh.expr import Call, Expr, build
from everfresh.sql.logical.subqueries import has_subquery


def conjuncts(condition: Expr | None) -> list[Expr]:
    """The conditions that AND joins; what all arms of an OR have in common is one of them.

    >>> from everfresh.expr import Var
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
