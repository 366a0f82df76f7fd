"""The join graph of a product (sections 3.1.2 and 3.6.1): atoms are hyperedges over their variables.

`components` is query decomposition: atoms that share no unbound variable, directly or through others, are
materialized apart. `core` is the test for cycles of Graham, Yu and Ozsoyoglu. `splits` is the rule for cyclic
queries: a component whose variables close a cycle through its key is kept as single atoms. Its map would
hold the paths between the ends of an edge, O(N^2) of them for a triangle, where the edges are O(N).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from everfresh.calculus import Query, inputs, outputs

Q = TypeVar("Q", bound=Query)


def edge(factor: Query) -> frozenset[str]:
    """The variables of a factor, read or bound."""
    return frozenset(v.name for v in (*inputs(factor), *outputs(factor)))


def components(atoms: Sequence[Q], bound: Collection[str] = (), links: Iterable[Query] = ()) -> list[list[Q]]:
    """The atoms in connected parts, in their order; a bound variable connects nothing.

    `links` are further factors that connect atoms (a binding computed from two of them and read by a third)
    and are themselves in no part.

    >>> from everfresh.calculus import Rel
    >>> from everfresh.expr import Var
    >>> from everfresh.types import BIGINT
    >>> a, b, c, d = (Var(name, BIGINT, False) for name in "abcd")
    >>> chain = [Rel("R", (a, b)), Rel("S", (b, c)), Rel("T", (c, d))]
    >>> [" * ".join(map(str, part)) for part in components(chain, {"c"})]
    ['R(a, b) * S(b, c)', 'T(c, d)']
    """
    groups = [(edge(atom) - set(bound), [index]) for index, atom in enumerate(atoms)]
    groups += [(edge(link) - set(bound), []) for link in links]
    merged: list[tuple[frozenset[str], list[int]]] = []
    for names, members in groups:
        touching = [g for g in merged if g[0] & names]
        merged = [g for g in merged if not g[0] & names]
        all_names = names.union(*(g[0] for g in touching))
        merged.append((all_names, members + [i for g in touching for i in g[1]]))
    found = sorted(sorted(members) for _, members in merged if members)
    return [[atoms[i] for i in members] for members in found]


def core(edges: Iterable[Collection[str]]) -> frozenset[frozenset[str]]:
    """What is left of a hypergraph when variables of one edge only, and edges inside of others, are removed
    in turn: its cycles. The order does not matter."""
    left = [frozenset(e) for e in edges]
    while True:
        counts = Counter(name for e in left for name in e)
        smaller = {frozenset(name for name in e if counts[name] > 1) for e in left}
        kept = [e for e in smaller if e and not any(e < other for other in smaller)]
        if set(kept) == set(left) and len(kept) == len(left):
            return frozenset(kept)
        left = kept


def splits(atoms: Sequence[Query], keys: Collection[str]) -> bool:
    """Whether the component closes a cycle through its key, so that its atoms are kept as single maps.

    A component that is a cycle itself, and looked up inside one of its atoms, is materialized as one.

    `keys` are the variables by which a reader looks it up: those that the change and the rest of the product
    bind. Variables that only the result groups by are no lookup.

    >>> from everfresh.calculus import Rel
    >>> from everfresh.expr import Var
    >>> from everfresh.types import BIGINT
    >>> a, b, c = (Var(name, BIGINT, False) for name in "abc")
    >>> splits([Rel("S", (b, c)), Rel("T", (c, a))], {"a", "b"})  # ΔR(a, b) of a triangle
    True
    >>> splits([Rel("S", (b, c)), Rel("T", (c, a))], {"b"})  # ΔR(b) of a chain
    False
    """
    inside = [edge(atom) for atom in atoms]
    return core([*inside, frozenset(keys)]) != core(inside)
