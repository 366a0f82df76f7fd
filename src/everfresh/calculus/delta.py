"""The delta of a query (section 2.2.3): one table, one line per operator.

Lifts and Exists follow the revised rule of section 3.4.2: old and new are computed only where the body
changes, by its domain (`everfresh.calculus.domain_extraction`).

`delta(Q, names)` is the change of Q when the relations `names` change by `ΔR`, read against the state
*before* the change: `Q(D + ΔD) = Q(D) + delta(Q)(D, ΔD)`. With several names it is the simultaneous delta
with all cross terms. An operator without a rule raises; it never silently has delta zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from everfresh.calculus.domain_extraction import restriction
from everfresh.calculus.nodes import (
    ONE,
    ZERO,
    Bind,
    Cond,
    Each,
    Exists,
    Lift,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    maps_read,
    product,
    relations,
    union,
)

Names = Collection[str]


def delta(query: Query, names: Names) -> Query:
    """The change of `query` under changes of the relations `names`.

    >>> from everfresh.expr import Var
    >>> from everfresh.types import BIGINT
    >>> x, y, z = (Var(name, BIGINT, False) for name in "xyz")
    >>> print(delta(Sum((x,), Prod((Rel("R", (x, y)), Rel("S", (y, z))))), {"R", "S"}))
    Sum_[x](ΔR(x, y) * S(y, z) + R(x, y) * ΔS(y, z) + ΔR(x, y) * ΔS(y, z))
    """
    rule = RULES.get(type(query))
    if rule is None:
        raise TypeError(f"there is no delta rule for {type(query).__name__}")
    return rule(query, names)


def _rel(q: Rel, names: Names) -> Query:
    if q.delta:
        raise ValueError(f"the delta of the change Δ{q.name} is not defined")
    return replace(q, delta=True) if q.name in names else ZERO


def _prod(q: Prod, names: Names) -> Query:
    first = next((i for i, f in enumerate(q.factors) if not _still(f, names)), None)
    if first is None:
        return ZERO
    if first > 0:
        return product(*q.factors[:first], delta(product(*q.factors[first:]), names))
    head, tail = q.factors[0], product(*q.factors[1:]) if len(q.factors) > 1 else ONE
    d_head, d_tail = delta(head, names), delta(tail, names)
    terms = []
    if d_head != ZERO:
        terms.append(product(d_head, tail))
    if d_tail != ZERO:
        terms.append(product(head, d_tail))
    if d_head != ZERO and d_tail != ZERO:
        terms.append(product(d_head, d_tail))
    return union(*terms) if terms else ZERO


def _still(q: Query, names: Names) -> bool:
    """Whether a query reads relations alone, and none of `names`."""
    return set(names).isdisjoint(relations(q)) and not relations(q, delta=True) and not maps_read(q)


def _plus(q: Plus, names: Names) -> Query:
    terms = [d for t in q.terms if (d := delta(t, names)) != ZERO]
    return union(*terms) if terms else ZERO


def _neg(q: Neg, names: Names) -> Query:
    d = delta(q.body, names)
    return ZERO if d == ZERO else Neg(d)


def _sum(q: Sum, names: Names) -> Query:
    d = delta(q.body, names)
    return ZERO if d == ZERO else Sum(q.group, d)


def _of_body(q: Lift | Exists, names: Names) -> Query:
    d = delta(q.body, names)
    where = ZERO if d == ZERO else restriction(q.body, d)
    if where == ZERO:
        return ZERO
    change = union(replace(q, body=union(q.body, d)), Neg(q))
    return change if where == ONE else product(where, change)


def _zero(_q: Query, _names: Names) -> Query:
    return ZERO


RULES: dict[type[Query], Callable[[Any, Names], Query]] = {
    Rel: _rel,  # Δ R(x)     = ΔR(x), or 0 for a relation that does not change
    Prod: _prod,  # Δ (A * B)  = ΔA * B + A * ΔB + ΔA * ΔB
    Plus: _plus,  # Δ (A + B)  = ΔA + ΔB
    Neg: _neg,  # Δ (-A)     = -ΔA
    Sum: _sum,  # Δ Sum(A)   = Sum(ΔA)
    Lift: _of_body,  # Δ (x := A) = dom(ΔA) * ((x := A + ΔA) - (x := A))
    Exists: _of_body,  # Δ Exists(A) = dom(ΔA) * (Exists(A + ΔA) - Exists(A))
    Cond: _zero,
    Value: _zero,
    Bind: _zero,
    Each: _zero,
}
