"""The order in which a product is evaluated, and what has to be kept on the way.

Bindings flow from left to right, but factors commute wherever they are bound: each next atom is one that
shares a variable with what is bound already, entries that are fully bound come first of all, conditions and
bindings follow as soon as their variables are there. So a product is never crossed where it is joined.
Values come after the conditions and bindings that stand before them, which may guard them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from everfresh.calculus import Bind, Cond, MapRef, Neg, Plus, Prod, Query, Rel, Sum, Value, inputs, outputs
from everfresh.expr import Var

Needs = Callable[[Rel], Sequence[int] | None]
"""The columns of a relation that must be bound before it can be read; None: none of them."""


@dataclass(frozen=True, slots=True)
class Step:
    """A factor, and the variables that something after it reads."""

    factor: Query
    keep: frozenset[str]


@dataclass(frozen=True, slots=True)
class Term:
    """A signed product in the order of its evaluation."""

    sign: int
    steps: tuple[Step, ...]


def atom_vars(factor: Query) -> tuple[Var, ...]:
    """The variables of an atom by position."""
    match factor:
        case Rel(_, vars_):
            return vars_
        case MapRef(_, keys):
            return keys
        case Sum(group):
            return group
    raise TypeError(f"{type(factor).__name__} is no atom")


def products(query: Query, sign: int = 1) -> Iterable[tuple[int, tuple[Query, ...]]]:
    """The signed products that a statement is a sum of."""
    match query:
        case Plus(terms):
            for term in terms:
                yield from products(term, sign)
        case Neg(body):
            yield from products(body, -sign)
        case Sum(_, body):
            yield from products(body, sign)
        case Prod(factors):
            yield sign, factors
        case _:
            yield sign, (query,)


def ordered(
    query: Query, keys: Sequence[Var], needs: Needs, lead: Callable[[Sequence[Query]], int] | None = None
) -> tuple[Term, ...]:
    """The terms of a statement for a map with these keys; `lead` chooses the atom that a term starts from,
    else it is the first change."""
    names = frozenset(v.name for v in keys)
    return tuple(
        Term(sign, _kept(_order(factors, needs, lead or _first), names)) for sign, factors in products(query)
    )


def _first(atoms: Sequence[Query]) -> int:
    changes = [i for i, atom in enumerate(atoms) if isinstance(atom, Rel) and atom.delta]
    return changes[0] if changes else 0


def _order(factors: Sequence[Query], needs: Needs, lead: Callable[[Sequence[Query]], int]) -> list[Query]:
    atoms = [f for f in factors if isinstance(f, Rel | MapRef | Sum)]
    scalars = [f for f in factors if not isinstance(f, Rel | MapRef | Sum)]
    if strange := [f for f in scalars if not isinstance(f, Cond | Bind | Value)]:
        raise TypeError(f"{type(strange[0]).__name__} is no factor of a statement")
    bound: set[str] = set()
    done: list[Query] = []
    left = list(atoms)
    while True:
        _emit_scalars(scalars, bound, done)
        if not left:
            break
        ready = [a for a in left if _ready(a, bound, needs)]
        if not ready:
            raise TypeError(f"{left[0]} is read before its keys are bound")
        if len(left) == len(atoms) and len(ready) == len(left):
            chosen = left[lead(left)]
        else:
            chosen = max(ready, key=lambda a: _shared(a, bound))  # the first of the best
        left.remove(chosen)
        done.append(chosen)
        bound |= {v.name for v in outputs(chosen)}
    if scalars:
        raise TypeError(f"variables of {scalars[0]} are not bound")
    return done


def _shared(atom: Query, bound: set[str]) -> int:
    """2: nothing new, 1: joined, 0: crossed."""
    names = {v.name for v in outputs(atom)}
    return 2 if names <= bound else 1 if names & bound else 0


def _ready(atom: Query, bound: set[str], needs: Needs) -> bool:
    wanted = needs(atom) if isinstance(atom, Rel) else None
    return wanted is None or all(atom_vars(atom)[i].name in bound for i in wanted)


def _emit_scalars(scalars: list[Query], bound: set[str], done: list[Query]) -> None:
    """Move what is bound from `scalars` to `done`."""
    moved = True
    while moved:
        moved = False
        for place, factor in enumerate(scalars):
            if {v.name for v in inputs(factor)} <= bound and (place == 0 or not isinstance(factor, Value)):
                done.append(scalars.pop(place))
                bound |= {v.name for v in outputs(factor)}
                moved = True
                break


def _kept(factors: Sequence[Query], keys: frozenset[str]) -> tuple[Step, ...]:
    steps: list[Step] = []
    keep = keys
    for factor in reversed(factors):
        steps.append(Step(factor, keep))
        if isinstance(factor, Rel | MapRef | Sum):
            keep |= {v.name for v in atom_vars(factor)}
        else:
            keep |= {v.name for v in (*inputs(factor), *outputs(factor))}
    return tuple(reversed(steps))
