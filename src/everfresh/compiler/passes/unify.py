"""Unification of bindings (section 3.2.1): `x := y` makes x and y one variable; a binding that nobody reads
is dropped.

Both variables are compared by identity, so no NULL guard is needed here: SQL's `=` is a condition, never a
binding.
"""

from __future__ import annotations

from everfresh.calculus import Bind, Prod, Query, Sum, hidden, inputs, outputs, rename
from everfresh.expr import Var
from everfresh.rewrite import Rule, RuleSet


def _factors(q: Sum) -> tuple[Query, ...]:
    return q.body.factors if isinstance(q.body, Prod) else (q.body,)


def _equal_variables(q: Sum) -> Query | None:
    group = {v.name for v in q.group}
    factors = _factors(q)
    for i, factor in enumerate(factors):
        if not (isinstance(factor, Bind) and isinstance(factor.expr, Var)):
            continue
        x, y = factor.var, factor.expr
        rest = factors[:i] + factors[i + 1 :]
        bound = {v.name for f in rest for v in outputs(f)}
        if y.name in group or y.name not in bound or x.name in bound or (x.of, x.null) != (y.of, y.null):
            continue
        if any({x.name, y.name} & hidden(f) for f in rest):
            continue  # renaming would mix it with a variable of an inner aggregate
        return Sum(q.group, rename(Prod(rest), {y.name: x}))
    return None


def _dead_binding(q: Sum) -> Query | None:
    factors = _factors(q)
    used = {v.name for v in q.group} | {v.name for f in factors for v in inputs(f)}
    for i, factor in enumerate(factors):
        others = {v.name for f in factors[:i] + factors[i + 1 :] for v in outputs(f)}
        if isinstance(factor, Bind) and factor.var.name not in used | others:
            return Sum(q.group, Prod(factors[:i] + factors[i + 1 :]))
    return None


UNIFY = RuleSet(
    (
        Rule("equal variables", (Sum,), _equal_variables),
        Rule("dead binding", (Sum,), _dead_binding),
    )
)

__all__ = ["UNIFY", "rename"]
