"""The ways in which a map can be filled, and what each of them would cost.

A map equals its definition, so that can be evaluated. But it also equals what its own triggers make of it:
if a relation L comes last, all others being there, the statement on L's change adds what the map holds,

    M[b, x] = R(b, x) * S(b, y) * [y > x]      filled as      ΔR(b, x) * S1[b, y](0) * [y > x]   with ΔR = R

and reads the maps that the program keeps, by ordered indexes and sums over ranges, as it will in every batch.
So filling costs no more than maintaining. Products that read L as it was before, when it had no rows, are
left out (`without`); products of the definition that do not read L at all are left to the next relation.

Invariant: the terms of a plan add up to the definition over the tables and relations as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from everfresh.calculus import (
    ZERO,
    Exists,
    Lift,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    outputs,
    relations,
    union,
)
from everfresh.local.interpret.join_order import Step, Term, atom_vars
from everfresh.program import MapDef, Program

Fanout = Callable[[Query, Sequence[int]], float]
"""About how many rows or entries of an atom agree on the columns at some places."""


@dataclass(frozen=True, slots=True)
class Way:
    """A part of what a map holds: an expression in which the change of `last` stands for all of its rows;
    without `last`, the definition or what is left of it."""

    expr: Query
    last: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What can be done next, and what of the definition is left after it."""

    way: Way
    left: Query


class Unclear(Exception):
    """An expression reads a map of which only a part would be there."""


def without(query: Query, gone: AbstractSet[str], definition: Callable[[str], Query]) -> Query:
    """What is left of a query if these relations have no rows, `ZERO` if nothing is.

    >>> r, s = Rel("R", ()), Rel("S", ())
    >>> str(without(Plus((Prod((r, s)), s)), {"R"}, {}.__getitem__))
    'S()'
    """
    match query:
        case Rel(name, _, delta):
            return ZERO if name in gone and not delta else query
        case MapRef(name):
            whole = definition(name)
            rest = without(whole, gone, definition)
            if rest == ZERO:
                return ZERO
            if rest != whole:
                raise Unclear(name)
            return query
        case Prod(factors):
            parts = tuple(without(f, gone, definition) for f in factors)
            return ZERO if ZERO in parts else Prod(parts)
        case Plus(terms):
            kept = [part for t in terms if (part := without(t, gone, definition)) != ZERO]
            return union(*kept) if kept else ZERO
        case Neg(body):
            rest = without(body, gone, definition)
            return ZERO if rest == ZERO else Neg(rest)
        case Sum(group, body):
            rest = without(body, gone, definition)
            return ZERO if rest == ZERO else Sum(group, rest)
        case Lift() | Exists():
            if not gone.isdisjoint(relations(query)):
                raise Unclear("a value of what is not there")
            return query
        case _:
            return query


def choices(
    target: MapDef[Query], left: Query, gone: AbstractSet[str], program: Program[Query], able: Collection[str]
) -> list[Choice]:
    """What can be done for what is left of a map's definition after some relations had their turn. `able` are
    the maps that statements may read, as they are filled."""
    found = [Choice(Way(left), ZERO)]
    for last in relations(left):
        trigger = program.trigger(last)
        exprs = [s.expr for s in trigger.statements if s.target == target.name] if trigger else []
        if not exprs or any(s.op != "+=" for s in trigger.statements if s.target == target.name):  # type: ignore[union-attr]
            continue
        expr = union(*exprs)
        if any(n.name not in able for n in expr.walk() if isinstance(n, MapRef)):
            continue
        try:
            made, rest = (
                without(q, {*gone, last}, lambda n: program.map(n).definition) for q in (expr, left)
            )
        except Unclear:
            continue
        found.append(Choice(Way(made, last), rest))
    return found


def cost(terms: Sequence[Term], fanout: Fanout) -> float:
    """About how many rows are visited."""
    return sum(_cost(term.many or (term,), fanout) for term in terms)


def _cost(terms: Sequence[Term], fanout: Fanout) -> float:
    return sum(_rows(term.steps, fanout)[1] for term in terms)


def _rows(steps: Sequence[Step], fanout: Fanout) -> tuple[float, float]:
    """How many rows a product has, and how many are visited on the way."""
    rows, visited = 1.0, 0.0
    bound: set[str] = set()
    for step in steps:
        factor = step.factor
        if isinstance(factor, Rel | MapRef | Sum):
            names = [v.name for v in atom_vars(factor)]
            met = [i for i, name in enumerate(names) if name in bound]
            if isinstance(factor, Sum):
                parts = [_rows(term.steps, fanout) for term in step.inner]
                visited += sum(part[1] for part in parts)
                entries = sum(part[0] for part in parts)
                found = 1.0 if len(met) == len(names) else entries**0.5 if met else entries
            else:
                found = fanout(factor, met)
            rows *= min(found, 1.0) if step.summed else found
            visited += rows
        bound |= {v.name for v in outputs(factor)}
    return rows, visited
