"""Polynomial expansion (section 3.2.2): products distribute over sums, so that a query is a sum of products.

Not among `PASSES`: an expanded query is longer, and only the viewlet transform asks for it.

>>> from everfresh.calculus import Plus, Prod, Rel
>>> from everfresh.expr import Var
>>> from everfresh.types import BIGINT
>>> x = Var("x", BIGINT, False)
>>> print(expand(Prod((Rel("R", (x,)), Plus((Rel("S", (x,)), Rel("T", (x,))))))))
R(x) * S(x) + R(x) * T(x)
"""

from __future__ import annotations

from everfresh.calculus import Neg, Plus, Prod, Query, product, union
from everfresh.compiler.passes.identities import IDENTITIES
from everfresh.rewrite import Rule, RuleSet, rewrite


def _distribute(q: Prod) -> Query | None:
    for index, factor in enumerate(q.factors):
        if isinstance(factor, Plus):
            before, after = q.factors[:index], q.factors[index + 1 :]
            return union(*(product(*before, term, *after) for term in factor.terms))
    return None


def _negate(q: Neg) -> Query | None:
    return union(*(Neg(term) for term in q.body.terms)) if isinstance(q.body, Plus) else None


EXPAND = RuleSet((Rule("distribute", (Prod,), _distribute), Rule("negate terms", (Neg,), _negate)))
_ALL = EXPAND + IDENTITIES


def expand(query: Query) -> Query:
    """`query` with its products multiplied out; under an aggregate the sum stays inside it."""
    return rewrite(query, _ALL)
