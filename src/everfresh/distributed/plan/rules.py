"""Fewer rounds of communication in one statement: section 5.3.1.

`PUSH` are the rules of Figure 5.2, from left to right, `SIMPLIFY` those of Figure 5.3 with what follows for
things that are everywhere. The search tries orders of the atoms and pushes transformers down, one step at a
time, simplifies after each, and goes back to the cheapest query it has seen: fewest rounds, then fewest
exchanges (of what maps were read for, then of all), then least on the driver, then least that every worker
does alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, permutations

from everfresh.calculus import MapRef, Plus, Prod, Query, Rel, Sum, outputs
from everfresh.distributed.plan.annotate import annotated
from everfresh.distributed.plan.located import (
    AtomTag,
    Move,
    NotWellFormed,
    changes,
    is_scalar,
    moves,
    parts,
    rounds,
    tag_of,
)
from everfresh.distributed.plan.tags import LOCAL, REPLICATED, Dist, Local, Replicated, Tag
from everfresh.expr import Var
from everfresh.rewrite import remembered

_STATES = 60  # queries that a search looks at
_ORDERS = 24  # orders of atoms that it starts from


@dataclass(frozen=True, slots=True)
class LocationRule:
    """A named rewriting of one node; None where it does not apply."""

    name: str
    apply: Callable[[Move, AtomTag], Query | None]


def _through_product(q: Move, where: AtomTag) -> Query | None:
    if not isinstance(q.body, Prod):
        return None
    made: list[Query] = []
    for factor in q.body.factors:
        if is_scalar(factor):
            made.append(factor)
        elif isinstance(q.to, Dist) and not _has(factor, q.to.columns):
            if tag_of(factor, where) != REPLICATED:
                return None
            made.append(factor)
        else:
            made.append(Move(q.to, factor))
    return Prod(tuple(made))


def _through_union(q: Move, where: AtomTag) -> Query | None:
    return Plus(tuple(Move(q.to, term) for term in q.body.terms)) if isinstance(q.body, Plus) else None


def _through_sum(q: Move, where: AtomTag) -> Query | None:
    return Sum(q.body.group, Move(q.to, q.body.body)) if isinstance(q.body, Sum) else None


def _through_scalar(q: Move, where: AtomTag) -> Query | None:
    return q.body if is_scalar(q.body) else None


def _there_already(q: Move, where: AtomTag) -> Query | None:
    return q.body if tag_of(q.body, where) == q.to else None


def _last_counts(q: Move, where: AtomTag) -> Query | None:
    """Repart∘Repart, Repart∘Scatter, Gather∘Repart, Gather∘Scatter, and Scatter∘Gather, which is a Repart."""
    return Move(q.to, q.body.body) if isinstance(q.body, Move) else None


def _everywhere(q: Move, where: AtomTag) -> Query | None:
    """A stored operand that is on every worker need not be cut for a join with one that is."""
    stored = isinstance(q.body, Rel | MapRef) and not changes(q.body)
    return q.body if isinstance(q.to, Dist) and stored and tag_of(q.body, where) == REPLICATED else None


def _shared_work(q: Move, where: AtomTag) -> Query | None:
    """What all workers know, for the driver: each computes a part of it, from a part of the change."""
    if q.to != LOCAL or not isinstance(q.body, Sum) or not isinstance(q.body.body, Prod):
        return None
    factors = q.body.body.factors
    if tag_of(q.body, where) != REPLICATED:
        return None
    for i, factor in enumerate(factors):
        if isinstance(factor, Rel) and factor.delta:
            # Keys stand in front of all columns; of some columns it is not known which are keys.
            by = factor.vars[:1] if factor.columns is None else factor.vars
            part = Move(Dist(tuple(v.name for v in by)), factor)
            return Move(q.to, Sum(q.body.group, Prod((*factors[:i], part, *factors[i + 1 :]))))
    return None


PUSH = (
    LocationRule("through a join", _through_product),
    LocationRule("through a union", _through_union),
    LocationRule("through an aggregate", _through_sum),
    LocationRule("through a scalar", _through_scalar),
    LocationRule("share the work", _shared_work),
)
SIMPLIFY = (
    LocationRule("it is there already", _there_already),
    LocationRule("the last move counts", _last_counts),
    LocationRule("it is everywhere", _everywhere),
)


def optimised(factors: Sequence[Query], group: Sequence[Var], to: Tag, where: AtomTag) -> Query:
    """The cheapest well-formed form of a product summed to `group`, at `to`."""
    ticket = count()
    heap: list[tuple[tuple[int, ...], int, Query]] = []
    seen: set[Query] = set()

    def offer(query: Query) -> None:
        if query not in seen:
            seen.add(query)
            try:
                heapq.heappush(heap, (_cost(query, where), next(ticket), query))
            except NotWellFormed:
                return

    for order in _orders(factors, where):
        try:
            offer(_simplified(annotated(factors, group, to, where, order), where))
        except NotWellFormed:
            continue
        if heap and not any(heap[0][0][:4]):
            break
    if not heap:
        raise NotWellFormed(f"no way to evaluate {Prod(tuple(factors))} where its maps are")
    best = heap[0]
    for _ in range(_STATES):
        if not heap or (not any(best[0][:5]) and not best[0][6]):
            break
        popped = heapq.heappop(heap)
        best = min(best, popped)
        for other in _pushed(popped[2], where):
            offer(_simplified(other, where))
    return _cut(min([best, *heap[:1]])[2], where)


def _cut(query: Query, where: AtomTag) -> Query:
    """A change that is everywhere, joined with what is not: each worker joins its own part of it, if the
    change shows whose it is."""
    query = query.map_children(lambda c: _cut(c, where) if isinstance(c, Query) else c)
    if not isinstance(query, Prod) or not isinstance(tag := tag_of(query, where), Dist):
        return query
    return Prod(
        tuple(
            Move(tag, f)
            if isinstance(f, Rel) and f.delta and tag_of(f, where) == REPLICATED and _has(f, tag.columns)
            else f
            for f in query.factors
        )
    )


def _orders(factors: Sequence[Query], where: AtomTag) -> Iterator[tuple[int, ...]]:
    """Orders of the atoms: those that lie together one after the other, groups in all orders."""
    atoms = [i for i, f in enumerate(factors) if not is_scalar(f)]
    yield tuple(atoms)
    groups: dict[object, list[int]] = {}
    for i in atoms:
        try:
            groups.setdefault(tag_of(factors[i], where), []).append(i)
        except NotWellFormed:
            groups.setdefault(i, []).append(i)
    anywhere = groups.pop(REPLICATED, [])
    for number, order in enumerate(permutations(groups.values())):
        if number == _ORDERS:
            return
        yield tuple([i for some in order for i in some] + anywhere)
        yield tuple(anywhere + [i for some in order for i in some])


def _cost(query: Query, where: AtomTag) -> tuple[int, ...]:
    """What is made as small as can be, the first first."""
    tag_of(query, where)
    on = {Local: 0, Replicated: 0}
    for n in parts(query):
        if isinstance(n, Sum):
            kind = type(tag_of(n.body, where))
            if kind in on:
                on[kind] += _atoms(n.body)
    return *rounds(query, where), _rows_moved(query), *on.values()


def _is_small(query: Query) -> bool:
    """Whether what is moved is a change as it is, or summed: never rows of a join one by one."""
    return isinstance(query, Sum) or (isinstance(query, Rel) and query.delta)


@remembered
def _rows_moved(query: Query) -> int:
    """How many transformers move rows of a join one by one."""
    return sum(isinstance(n, Move) and not _is_small(n.body) for n in parts(query))


@remembered
def _atoms(query: Query) -> int:
    """How many atoms are joined."""
    return sum(isinstance(n, Rel | MapRef | Move) for n in parts(query))


def _pushed(query: Query, where: AtomTag) -> Iterable[Query]:
    """The queries that one rule of `PUSH` makes, at one place."""
    return _anywhere(query, PUSH, where)


def _simplified(query: Query, where: AtomTag) -> Query:
    """The fixpoint of `SIMPLIFY`: each of its rules leaves fewer transformers."""
    while True:
        found = next(iter(_anywhere(query, SIMPLIFY, where)), None)
        if found is None:
            return query
        query = found


def _anywhere(query: Query, rules: Sequence[LocationRule], where: AtomTag) -> Iterator[Query]:
    if isinstance(query, Move):
        for rule in rules:
            try:
                made = rule.apply(query, where)
            except NotWellFormed:
                continue
            if made is not None:
                yield made
    children = query.children
    for i, child in enumerate(children):
        if isinstance(child, Query) and moves(child):
            for made in _anywhere(child, rules, where):
                yield query.with_children((*children[:i], made, *children[i + 1 :]))


def _has(query: Query, columns: Sequence[str]) -> bool:
    return set(columns) <= {v.name for v in outputs(query)}
