"""Queries with location transformers, and when they are well formed (section 5.2).

`Move(to, Q)` is Repart, Scatter, Gather or Broadcast, by where Q is and where it goes; a replicated Q is only
filtered. All other operators work on what lies together: a union needs one tag, a join one tag or operands
that are everywhere, partial sums are anywhere unless groups lie together. `tag_of` is the spec: it gives the
tag of a query, or raises `NotWellFormed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from everfresh.calculus import Bind, Cond, Each, MapRef, Neg, Plus, Prod, Query, Rel, Sum, Value
from everfresh.calculus.binding import Pattern, binding, outputs, pattern
from everfresh.distributed.plan.tags import LOCAL, RANDOM, REPLICATED, Dist, Local, Replicated, Tag, summed
from everfresh.expr import Var
from everfresh.rewrite import node, remembered


class AtomTag(Protocol):
    """Where an atom's entries are, over the names of its variables."""

    known: dict[Query, Tag | None]
    """The tags of queries that were asked for before."""

    def __call__(self, atom: Rel | MapRef, /) -> Tag:
        """The tag of an atom."""

    def needs(self, atom: Rel) -> set[str]:
        """The variables that must be bound before a relation is read."""


class NotWellFormed(TypeError):
    """Operands that do not lie together."""


@node
class Move(Query):
    """A location transformer: the result of `body`, at `to`."""

    to: Tag
    body: Query


@binding.register
def _(query: Move) -> Pattern:
    return pattern(query.body)


def parts(query: Query) -> Iterator[Query]:
    """The query and all queries in it, those above first, without the expressions in them."""
    left = [query]
    while left:
        found = left.pop()
        yield found
        if not isinstance(found, Rel | MapRef) and not is_scalar(found):
            left.extend(c for c in found.children[::-1] if isinstance(c, Query))


@remembered
def atoms(query: Query) -> tuple[Rel | MapRef, ...]:
    """The atoms of a query, in their order."""
    return tuple(n for n in parts(query) if isinstance(n, Rel | MapRef))


@remembered
def moves(query: Query) -> bool:
    """Whether a transformer is in a query."""
    return any(isinstance(n, Move) for n in parts(query))


def is_scalar(query: Query) -> bool:
    """Whether a factor has no location: its value is known wherever its variables are."""
    return isinstance(query, Cond | Bind | Each | Value)


@remembered
def changes(query: Query) -> bool:
    """Whether a query reads a change (or what was derived from one): only that may travel."""
    return any(isinstance(n, Rel) and n.delta for n in parts(query))


def equal_names(factors: Iterable[Query]) -> dict[str, str]:
    """Variables that `(x := y)` makes equal, each with one name for all of them."""
    names: dict[str, str] = {}
    for factor in factors:
        if isinstance(factor, Bind) and isinstance(factor.expr, Var):
            a, b = (names.get(v.name, v.name) for v in (factor.var, factor.expr))
            if factor.var.type == factor.expr.type and a != b:
                names = {n: b if to == a else to for n, to in names.items()} | {a: b}
    return names


def joined(a: Tag | None, b: Tag | None) -> Tag | None:
    """The tag of a join; None is everywhere, the driver included."""
    if a is None or b is None or a == b:
        if a == RANDOM and b == RANDOM:
            raise NotWellFormed("a join of two things that are anywhere")
        return b if a is None else a
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Replicated) and not isinstance(other, Local):
            return other
    raise NotWellFormed(f"a join of {a} and {b}")


def under(tag: Tag | None, names: dict[str, str]) -> Tag | None:
    """A tag with equal variables under one name."""
    return Dist(tuple(names.get(c, c) for c in tag.columns)) if isinstance(tag, Dist) else tag


def grouped(tag: Tag | None, names: dict[str, str], group: Iterable[str]) -> Tag | None:
    """The tag of an aggregate, its columns named as in the group where an equal one is there."""
    if not isinstance(tag, Dist):
        return tag
    group = tuple(group)
    back = {names.get(name, name): name for name in reversed(group)}
    return summed(Dist(tuple(back.get(c, c) for c in tag.columns)), group)


def tag_of(query: Query, where: AtomTag) -> Tag | None:
    """Where the result of a query is; None for what is everywhere. Raises if it is not well formed."""
    if query not in where.known:
        where.known[query] = _tag(query, where)
    return where.known[query]


def _tag(query: Query, where: AtomTag) -> Tag | None:
    match query:
        case Rel() | MapRef():
            return where(query)
        case Move(to, body):
            tag = tag_of(body, where)
            if isinstance(to, Dist) and not set(to.columns) <= {v.name for v in outputs(body)}:
                raise NotWellFormed(f"{to} names no columns of what is moved")
            if tag is None:
                raise NotWellFormed("what is everywhere cannot be moved")
            return to
        case Prod(factors):
            names = equal_names(factors)
            found: Tag | None = None
            for factor in factors:
                if not is_scalar(factor):
                    found = joined(found, under(tag_of(factor, where), names))
            return found
        case Plus(terms):
            tags = {tag_of(term, where) for term in terms}
            if len(tags) > 1:
                raise NotWellFormed(f"a union of {' and '.join(map(str, tags))}")
            return next(iter(tags), None)
        case Neg(body):
            return tag_of(body, where)
        case Sum(group, body):
            return _sum_tag(body, tuple(v.name for v in group), where)
    if is_scalar(query):
        return None
    raise NotWellFormed(f"{type(query).__name__} is in no statement")


def _sum_tag(body: Query, group: tuple[str, ...], where: AtomTag) -> Tag | None:
    match body:
        case Neg(inner):
            return _sum_tag(inner, group, where)
        case Plus(terms):
            tags = {_sum_tag(term, group, where) for term in terms}
            if len(tags) > 1:
                raise NotWellFormed(f"a union of {' and '.join(map(str, tags))}")
            return next(iter(tags), None)
        case Prod(factors):
            return grouped(tag_of(body, where), equal_names(factors), group)
    return grouped(tag_of(body, where), {}, group)


def rounds(query: Query, where: AtomTag) -> tuple[int, int, int, int]:
    """What a query costs: `(maps that travel, rounds of communication one after the other, exchanges of what
    was read off maps, exchanges)`: a bare change can travel before any map is read."""
    maps = late = total = 0

    def depth(q: Query) -> int:
        nonlocal maps, late, total
        below = max((depth(c) for c in q.children if isinstance(c, Query) and moves(c)), default=0)
        if not isinstance(q, Move):
            return below
        cost = weight_of(tag_of(q.body, where), q.to)
        if cost and not changes(q.body):
            maps += 1
        if cost and q.to != LOCAL and any(_stored(n) for n in parts(q.body)):
            late += 1
        total += cost
        return below + cost

    deepest = depth(query)
    return maps, deepest, late, total


def _stored(query: object) -> bool:
    return isinstance(query, MapRef) or (isinstance(query, Rel) and not query.delta)


def weight_of(source: Tag | None, to: Tag) -> int:
    """The rounds that a move takes: what is everywhere is only filtered, and what the driver sends takes a
    job of its own."""
    if source == to or source is None:
        return 0
    if isinstance(source, Replicated):
        return 0 if to != LOCAL else 1
    return 2 if isinstance(source, Local) else 1


__all__ = [
    "LOCAL",
    "REPLICATED",
    "AtomTag",
    "Move",
    "NotWellFormed",
    "changes",
    "equal_names",
    "grouped",
    "is_scalar",
    "joined",
    "rounds",
    "tag_of",
    "under",
    "weight_of",
]
