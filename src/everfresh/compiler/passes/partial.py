"""Partial evaluation: constant expressions are folded, and conditions that are known vanish or decide.

`[TRUE]` is 1, `[FALSE]` and `[NULL]` are 0, and `[a AND b]` is `[a] * [b]`, since a condition counts where
it is TRUE.
"""

from __future__ import annotations

from everfresh.calculus import ONE, ZERO, Bind, Cond, Prod, Query, Value
from everfresh.expr import FOLD, Call, Const
from everfresh.rewrite import Rule, RuleSet, rewrite


def _cond(q: Cond) -> Query | None:
    condition = rewrite(q.condition, FOLD)
    if isinstance(condition, Const):
        return ONE if condition.value is True else ZERO
    if isinstance(condition, Call) and condition.op == "and":
        return Prod(tuple(Cond(arg) for arg in condition.args))
    return Cond(condition)


def _bind(q: Bind) -> Query | None:
    return Bind(q.var, rewrite(q.expr, FOLD))


def _value(q: Value) -> Query | None:
    return Value(tuple(rewrite(item, FOLD) for item in q.items))


PARTIAL = RuleSet(
    (
        Rule("fold condition", (Cond,), _cond),
        Rule("fold binding", (Bind,), _bind),
        Rule("fold value", (Value,), _value),
    )
)
