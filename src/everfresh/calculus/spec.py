"""What each stage of the compiler may contain: one table, checked between stages.

| stage | relations | changes | maps |
|---|---|---|---|
| query: a view's definition | yes | no | no |
| delta: its change | yes | yes | no |
| statement: what a trigger runs | derived ones, or those that are kept | yes | yes |

Every stage also requires closed binding patterns (no input variables), value terms of one arity (at most one
value under a lift), sums whose terms have the same outputs, and that a variable a `Sum` sums over is not
bound outside of it: names are local where they look local, so rules may rename them without knowing the
context. A violation is a compiler bug and raises `SpecError`, never a user's mistake.
"""

from __future__ import annotations

from dataclasses import dataclass

from everfresh.calculus.binding import inputs, outputs
from everfresh.calculus.nodes import Exists, Lift, MapRef, Plus, Prod, Query, Rel, Sum, Value, arity


class SpecError(AssertionError):
    """An expression that its stage does not allow."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What may stand in an expression of one stage."""

    name: str
    relations: bool
    deltas: bool
    maps: bool


QUERY = Stage("query", relations=True, deltas=False, maps=False)
DELTA = Stage("delta", relations=True, deltas=True, maps=False)
STATEMENT = Stage("statement", relations=True, deltas=True, maps=True)


def check(query: Query, stage: Stage) -> Query:
    """`query` itself, or a `SpecError` that names what `stage` does not allow."""
    unbound = inputs(query)
    if unbound:
        raise SpecError(f"{', '.join(v.name for v in unbound)} not bound in {query}")
    _check(query, stage, arity(query), frozenset())
    return query


def _check(query: Query, stage: Stage, k: int, bound: frozenset[str]) -> None:
    """Check a part whose weights have arity `k`, where the variables `bound` come from outside."""
    match query:
        case Rel(name, _, delta) if not (stage.deltas if delta else stage.relations):
            raise SpecError(f"{'Δ' if delta else ''}{name} may not stand in a {stage.name}")
        case MapRef(name) if not stage.maps:
            raise SpecError(f"map {name} may not stand in a {stage.name}")
        case MapRef(_, _, components) if len(components) not in (1, k + 1):
            raise SpecError(f"{query} has {len(components) - 1} values beside terms with {k}")
        case Value(items) if len(items) != k:
            raise SpecError(f"{query} has {len(items)} values beside terms with {k}")
        case Plus(terms) if len({_names(t) - bound for t in terms}) > 1:
            raise SpecError(f"terms with different outputs in {query}")
        case Sum(group, body) if hidden := (_names(body) - {v.name for v in group}) & bound:
            raise SpecError(f"{', '.join(sorted(hidden))} is summed over and bound outside of {query}")
        case Lift(_, body) if arity(body) > 1:
            raise SpecError(f"the lifted query has {arity(body)} values in {query}")
    for child in (c for c in query.children if isinstance(c, Query)):
        _check(child, stage, arity(child) if isinstance(query, Lift | Exists) else k, bound)
        if isinstance(query, Prod):
            bound |= _names(child)


def _names(query: Query) -> frozenset[str]:
    return frozenset(v.name for v in outputs(query))
