"""Identities of the ring: flat products and sums, no zeros, no ones, no nested aggregates.

>>> from everfresh.calculus import Prod, Rel, Plus, Sum, ONE
>>> from everfresh.expr import Var
>>> from everfresh.rewrite import rewrite
>>> from everfresh.types import BIGINT
>>> x, y = Var("x", BIGINT, False), Var("y", BIGINT, False)
>>> print(rewrite(Sum((x,), Sum((x, y), Prod((ONE, Prod((Rel("R", (x, y)), ONE)))))), IDENTITIES))
Sum_[x](R(x, y))
"""

from __future__ import annotations

from everfresh.calculus import ONE, ZERO, Exists, Lift, Neg, Plus, Prod, Query, Sum, outputs
from everfresh.rewrite import Rule, RuleSet


def _prod(q: Prod) -> Query | None:
    factors: list[Query] = []
    negative = False
    for factor in q.factors:
        if factor == ZERO:
            return ZERO
        if isinstance(factor, Neg):
            negative, factor = not negative, factor.body
        factors.extend(factor.factors if isinstance(factor, Prod) else (factor,))
    flat: Query = factors[0] if len(factors) == 1 else Prod(tuple(factors))
    return Neg(flat) if negative else flat


def _plus(q: Plus) -> Query | None:
    terms: list[Query] = []
    for term in q.terms:
        terms.extend(term.terms if isinstance(term, Plus) else (term,))
    return terms[0] if len(terms) == 1 else Plus(tuple(terms))


def _neg(q: Neg) -> Query | None:
    if q.body == ZERO:
        return ZERO
    return q.body.body if isinstance(q.body, Neg) else None


def _sum(q: Sum) -> Query | None:
    match q.body:
        case body if body == ZERO:
            return ZERO
        case Neg(inner):
            return Neg(Sum(q.group, inner))
        case Sum(_, inner):
            return Sum(q.group, inner)
        case body if {v.name for v in outputs(body)} == {v.name for v in q.group} and body != ONE:
            return body if tuple(v.name for v in outputs(body)) == tuple(v.name for v in q.group) else None
    return None


def _empty(q: Exists | Lift) -> Query | None:
    """Nothing exists in nothing; only a closed lift has a row over it."""
    return ZERO if q.body == ZERO and not (isinstance(q, Lift) and q.closed) else None


IDENTITIES = RuleSet(
    (
        Rule("flatten product", (Prod,), _prod),
        Rule("flatten sum", (Plus,), _plus),
        Rule("negation", (Neg,), _neg),
        Rule("aggregate", (Sum,), _sum),
        Rule("nothing", (Exists, Lift), _empty),
    )
)
