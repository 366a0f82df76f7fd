"""Domain extraction (section 3.4.2, Figure 3.5): where the change of a query can be at all.

`domain(ΔQ)` has weight 1 on a finite set of tuples over some output variables of ΔQ; every tuple at which ΔQ
is not zero agrees with one of them. So `domain(ΔQ) * ΔQ = ΔQ`, and under a lift, whose delta computes old and
new, only the tuples of the domain need be looked at. Any superset is right, a subset would be silently wrong.

| query | its domain |
|---|---|
| `ΔR(x)` | `Exists(ΔR(x))`: also where a row goes |
| `A * B` | the join of both domains, and conditions and bindings over variables that these bind |
| `A + B` | the *union* of the tuples, each side projected on the variables common to both |
| `-A`, `Exists(A)`, `(x :=: A)` | that of A |
| `Sum_[x](A)` | that of A, projected on x; the weights are made 1 before and after |
| anything else | no restriction, `1`: relations, maps, values; a closed lift, which always has a row |

Invariants: a domain has no inputs and reads only changes, never a relation or a map, so it means the same
before and after the batch; and it computes nothing that can fail, since it is evaluated on rows that the
query may leave out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from everfresh.calculus.binding import hidden, inputs, outputs
from everfresh.calculus.nodes import (
    ONE,
    ZERO,
    Bind,
    Cond,
    Exists,
    Lift,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    product,
    rename,
    union,
)
from everfresh.expr.names import Made
from everfresh.expr.nodes import Var
from everfresh.expr.total import total


def domain(query: Query) -> Query:
    """The domain of `query`, the change of some query; `1` if it is not restricted, `0` if it is empty.

    >>> from everfresh.expr import Var
    >>> from everfresh.types import BIGINT
    >>> a, b, c = (Var(name, BIGINT, False) for name in "abc")
    >>> print(domain(Sum((a,), Prod((Rel("R", (a, b), delta=True), Rel("S", (b, c)))))))
    Exists(Sum_[a](Exists(ΔR(a, b))))
    """
    match query:
        case Rel(_, _, True):
            return Exists(query)
        case Prod(factors):
            return _join(factors)
        case Plus(terms):
            return _union([domain(term) for term in terms])
        case Neg(body) | Exists(body) | Lift(_, body, False):
            return domain(body)
        case Sum(group, body):
            return _project(domain(body), {v.name for v in group})
        case _:
            return ONE


def restriction(body: Query, change: Query) -> Query:
    """The domain of `change`, the change of `body`, on those variables that may be bound before both.

    A name that is also summed over inside may not: it would be another variable there.
    """
    free = {v.name for v in outputs(body)} - hidden(body) - hidden(change)
    return _project(_apart(domain(change), free), free)


def _join(factors: Sequence[Query]) -> Query:
    flat = [part for factor in factors for part in _flattened(factor)]
    parts = [d for f in flat if not isinstance(f, Cond | Bind) and (d := domain(f)) != ONE]
    if ZERO in parts:
        return ZERO
    bound = {v.name for part in parts for v in outputs(part)}
    scalars = [f for f in flat if isinstance(f, Bind | Cond) and _total(f)]
    while ready := [f for f in scalars if {v.name for v in inputs(f)} <= bound]:
        parts += ready
        bound |= {v.name for f in ready for v in outputs(f)}
        scalars = [f for f in scalars if f not in ready]
    return product(*parts) if bound else ONE


def _flattened(query: Query) -> Iterable[Query]:
    if isinstance(query, Prod):
        for factor in query.factors:
            yield from _flattened(factor)
    else:
        yield query


def _total(factor: Bind | Cond) -> bool:
    """Whether a condition or a binding has a value on every row; a constant condition is none."""
    expr = factor.condition if isinstance(factor, Cond) else factor.expr
    if isinstance(factor, Cond) and not inputs(factor):
        return False
    return total(expr)


def _union(domains: Sequence[Query]) -> Query:
    """The tuples of all, over the variables that all bind."""
    some = [d for d in domains if d != ZERO]
    if not some:
        return ZERO
    if len(some) == 1:
        return some[0]
    common = set.intersection(*({v.name for v in outputs(d)} for d in some))
    if not common:
        return ONE
    parts = dict.fromkeys(_project(_apart(d, common), common) for d in some)
    return Exists(union(*parts)) if len(parts) > 1 else next(iter(parts))


def _project(query: Query, names: Collection[str]) -> Query:
    """A domain over those of its variables that are in `names`."""
    found = outputs(query)
    kept = tuple(v for v in found if v.name in names)
    if query == ZERO or len(kept) == len(found):
        return query
    return Exists(Sum(kept, query)) if kept else ONE


def _apart(query: Query, names: Collection[str]) -> Query:
    """`query` with outputs that are not in `names` renamed: the context may bind these, a projection
    may not."""
    taken = {n.name for n in query.walk() if isinstance(n, Var)} | set(names)
    by: dict[str, Var] = {}
    for var in outputs(query):
        if var.name not in names:
            fresh = Made(f"{var.name}~")
            while fresh in taken:
                fresh = Made(f"{fresh}~")
            taken.add(fresh)
            by[var.name] = Var(fresh, var.of, var.null)
    return rename(query, by) if by else query
