"""The nodes of the calculus: AGCA (section 2.2 of the thesis) over Q^k.

A query maps tuples over its output variables to weights: a count `n` and k values. Products pass bindings
from left to right. Variables, tuples and groups are compared by *identity*: NULL is NULL, NaN is NaN. SQL's
`=` is a condition, which lowering guards against NULL.

| text | node | weight of a tuple |
|---|---|---|
| `R(x, y)`, `ΔR(x, y)` | `Rel` | m in every component, m the multiplicity in the table or in its change |
| `R(2: x, 7: y)` | `Rel` | the same of a projection: only the columns at places 2 and 7 are read |
| `M[x](0, 2)` | `MapRef` | the named components of the map's entry, 0 being its count, `_` zero |
| `[x < y]` | `Cond` | 1 where the condition is TRUE, else 0 |
| `⟨x, x * y⟩` | `Value` | count 1 and these values |
| `(x := y + 1)` | `Bind` | 1 on the tuple that gives x this value |
| `Each_[x, y](l1, l2)` | `Each` | of each tuple, how often it is a row of the lists, side by side |
| `Q1 * Q2`, `Q1 + Q2`, `-Q` | `Prod`, `Plus`, `Neg` | the ring; `1` is the empty product, `0` the empty sum |
| `Sum_[x](Q)` | `Sum` | the sum over all other variables |
| `(x :=: Q)`, `(x :=! Q)` | `Lift` | 1 where Q's value is x; grouped, or closed (always one row) |
| `Exists(Q)` | `Exists` | 1 where n != 0 |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from everfresh.expr.nodes import Expr, Var, substitute
from everfresh.rewrite import Node, node, remembered


class Query(Node):
    """An expression of the calculus."""

    def __str__(self) -> str:
        from everfresh.calculus.text import to_text

        return to_text(self)


@node
class Rel(Query):
    """A base relation, or (`delta`) the change of one in the current batch."""

    name: str
    vars: tuple[Var, ...]
    delta: bool = False
    columns: tuple[int, ...] | None = None
    """The places, in ascending order, of the columns that the variables stand for, where not all are read;
    rows that agree on them count together. None: all columns of the relation."""

    @property
    def places(self) -> Sequence[int]:
        """The place in the relation of the column that each variable stands for."""
        return range(len(self.vars)) if self.columns is None else self.columns

    def within(self, places: Iterable[int]) -> tuple[int, ...] | None:
        """Where among the variables those of the columns at `places` stand; None if not all are read."""
        if self.columns is None:
            return tuple(places)
        at = {place: i for i, place in enumerate(self.columns)}
        found = [at.get(place) for place in places]
        return None if None in found else tuple(found)  # type: ignore[arg-type]

    def names(self, places: Iterable[int]) -> frozenset[str] | None:
        """The names of the variables of the columns at `places`; None if not all are read."""
        found = self.within(places)
        return None if found is None else frozenset(self.vars[i].name for i in found)

    def at(self) -> dict[int, Var]:
        """The variables by the places of the columns that they stand for."""
        return dict(zip(self.places, self.vars, strict=True))

    def over(self, name: str, places: Sequence[int]) -> Rel:
        """The same of a relation that has the columns at `places` of this one, as far as they are read.

        >>> from everfresh.types import BIGINT
        >>> x, y = Var("x", BIGINT), Var("y", BIGINT)
        >>> str(Rel("t", (x, y), True, (2, 5)).over("s", (5, 7)))
        'Δs(0: y)'
        """
        known = self.at()
        left = [(i, known[place]) for i, place in enumerate(places) if place in known]
        columns = None if len(left) == len(places) else tuple(i for i, _ in left)
        return Rel(name, tuple(var for _, var in left), self.delta, columns)


@node
class MapRef(Query):
    """A materialized map read at its keys; `components[i]` is the stored component that serves as
    component i, -1 that it is zero."""

    name: str
    keys: tuple[Var, ...]
    components: tuple[int, ...] = (0,)


@node
class Prod(Query):
    """A product, evaluated from left to right; the empty product is 1."""

    factors: tuple[Query, ...]


@node
class Plus(Query):
    """A sum of queries with the same output variables; the empty sum is 0."""

    terms: tuple[Query, ...]


@node
class Neg(Query):
    """The additive inverse."""

    body: Query


@node
class Sum(Query):
    """The aggregate over all variables but `group`."""

    group: tuple[Var, ...]
    body: Query


@node
class Cond(Query):
    """A condition as a 0/1 weight: 1 exactly where it is TRUE."""

    condition: Expr


@node
class Value(Query):
    """A vector of values as a weight with count 1; no item is ever NULL."""

    items: tuple[Expr, ...]


@node
class Bind(Query):
    """`var := expr`: binds a variable to a scalar, or compares by identity if it is bound already."""

    var: Var
    expr: Expr


@node
class Each(Query):
    """A tuple for each place in the longest of some lists: what each list has there, NULL behind its end.

    Variables that are bound already are compared by identity. A list that is NULL is empty.
    """

    vars: tuple[Var, ...]
    lists: tuple[Expr, ...]


@node
class Lift(Query):
    """`var := body`: the value of a query becomes a column.

    Grouped: a row for each tuple of `body` with n != 0. Closed (`closed`): the body has no output variables
    of its own and there is always one row, with value 0 over nothing. The delta rule is the same for both.
    """

    var: Var
    body: Query
    closed: bool = False


@node
class Exists(Query):
    """1 for each tuple of `body` with n != 0."""

    body: Query


ONE = Prod(())
ZERO = Plus(())


def product(*factors: Query) -> Query:
    """The product of `factors`, flattened."""
    flat: list[Query] = []
    for factor in factors:
        flat.extend(factor.factors if isinstance(factor, Prod) else (factor,))
    return flat[0] if len(flat) == 1 else Prod(tuple(flat))


def union(*terms: Query) -> Query:
    """The sum of `terms`, flattened."""
    flat: list[Query] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, Plus) else (term,))
    return flat[0] if len(flat) == 1 else Plus(tuple(flat))


def relations(query: Query, *, delta: bool = False) -> tuple[str, ...]:
    """The names of the base relations (or of the changes) in a query, each once, in order."""
    return _relations(query)[delta]


@remembered
def _relations(query: Query) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = [n for n in query.walk() if isinstance(n, Rel)]
    bases, changes = (dict.fromkeys(n.name for n in found if n.delta == delta) for delta in (False, True))
    return tuple(bases), tuple(changes)


@remembered
def maps_read(query: Query) -> frozenset[str]:
    """The names of the maps that a query reads."""
    return frozenset(n.name for n in query.walk() if isinstance(n, MapRef))


@remembered
def arity(query: Query) -> int:
    """k: how many values a weight of this query carries beside its count."""
    match query:
        case Value(items):
            return len(items)
        case MapRef(_, _, components):
            return len(components) - 1
        case Lift() | Exists():
            return 0
        case _:
            return max((arity(child) for child in query.children if isinstance(child, Query)), default=0)


@remembered
def degree(query: Query) -> float:
    """The degree of a flat query as a polynomial over the base relations (section 2.3): the most relations
    in one product after products are multiplied out; minus infinity for the polynomial 0."""
    match query:
        case Rel(_, _, delta):
            return 0 if delta else 1
        case Prod(factors):
            return sum(map(degree, factors))
        case Plus(terms):
            return max(map(degree, terms), default=float("-inf"))
        case Neg(body) | Sum(_, body):
            return degree(body)
        case _:
            return 0


def rename(query: Query, by: dict[str, Var]) -> Query:
    """`query` with variables renamed throughout."""

    def visit(item: object) -> object:
        if isinstance(item, Var):
            return by.get(item.name, item)
        if isinstance(item, Expr):
            return substitute(item, dict(by))
        return item.map_children(visit)  # type: ignore[attr-defined]

    return visit(query)  # type: ignore[return-value]
