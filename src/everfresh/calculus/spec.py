"""What each stage of the compiler may contain: one table, checked between stages.

| stage | relations | changes | maps |
|---|---|---|---|
| query: a view's definition | yes | no | no |
| delta: its change | yes | yes | no |
| statement: what a trigger runs | no | yes | yes |

Every stage also requires closed binding patterns (no input variables), value terms of one arity, and sums whose terms
have the same outputs. A violation is a compiler bug and raises `SpecError`, never a user's mistake.
"""

from __future__ import annotations

from dataclasses import dataclass

from everfresh.calculus.binding import inputs, outputs
from everfresh.calculus.nodes import Exists, Lift, MapRef, Plus, Query, Rel, Value, arity


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
STATEMENT = Stage("statement", relations=False, deltas=True, maps=True)


def check(query: Query, stage: Stage) -> Query:
    """`query` itself, or a `SpecError` that names what `stage` does not allow."""
    for node in query.walk():
        match node:
            case Rel(name, _, delta) if not (stage.deltas if delta else stage.relations):
                raise SpecError(f"{'Δ' if delta else ''}{name} may not stand in a {stage.name}: {query}")
            case MapRef(name) if not stage.maps:
                raise SpecError(f"map {name} may not stand in a {stage.name}: {query}")
            case Plus(terms) if len({frozenset(v.name for v in outputs(t)) for t in terms}) > 1:
                raise SpecError(f"terms with different outputs in {node}")
    unbound = inputs(query)
    if unbound:
        raise SpecError(f"{', '.join(v.name for v in unbound)} not bound in {query}")
    _one_arity(query, arity(query))
    return query


def _one_arity(query: Query, k: int) -> None:
    for child in query.children:
        match child:
            case Value(items) if len(items) != k:
                raise SpecError(f"{child} has {len(items)} values beside terms with {k}")
            case Lift(_, body) | Exists(body):
                _one_arity(body, arity(body))
            case Query():
                _one_arity(child, k)
