"""Join graphs: components, acyclicity against its definition by join trees, and which components split."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from everfresh.calculus import Bind, Rel
from everfresh.compiler.viewlet.join_graph import components, core, edge, splits
from everfresh.expr import Var, build
from everfresh.types import BIGINT


def var(name: str) -> Var:
    return Var(name, BIGINT, False)


def atoms(text: str) -> list[Rel]:
    """`"ab bc"`: atoms over variables of one letter."""
    return [Rel(f"R{i}", tuple(map(var, word))) for i, word in enumerate(text.split())]


def shown(parts: list[list[Rel]]) -> str:
    return " | ".join(" ".join("".join(v.name for v in atom.vars) for atom in part) for part in parts)


@pytest.mark.parametrize(
    ("text", "bound", "expected"),
    [
        ("ab bc cd", "", "ab bc cd"),
        ("ab bc cd", "b", "ab | bc cd"),
        ("ab bc cd", "bc", "ab | bc | cd"),
        ("ab cd", "", "ab | cd"),
        ("ab cd bc", "", "ab cd bc"),  # joined by a later atom
        ("ab cd bc", "ad", "ab cd bc"),
        ("xab xcd xef", "x", "xab | xcd | xef"),
        ("xab xcd xef", "", "xab xcd xef"),
        ("ab bc ca", "ab", "ab | bc ca"),
        ("", "", ""),
        ("ab", "ab", "ab"),
    ],
)
def test_components(text: str, bound: str, expected: str) -> None:
    assert shown(components(atoms(text), set(bound))) == expected


def test_bindings_connect_what_they_read_and_bind() -> None:
    link = Bind(var("e"), build.call("+", var("a"), var("c")))
    assert shown(components(atoms("ab cd ef"), (), [link])) == "ab cd ef"
    assert shown(components(atoms("ab cd ef"), {"e"}, [link])) == "ab cd | ef"
    assert shown(components(atoms("ab cd ef"), {"a", "c"}, [link])) == "ab | cd | ef"
    assert edge(link) == {"a", "c", "e"}


ACYCLIC = {
    "chain": "ab bc cd de",
    "star": "xa xb xc xd",
    "star with its centre": "abcd aw bx cy dz",
    "snowflake": "abc ad be dx dy ez",
    "covered triangle": "ab bc ca abc",
    "disconnected": "ab cd",
    "repeated": "ab ab ba",
    "one": "abc",
    "empty": "",
}
CYCLIC = {
    "triangle": "ab bc ca",
    "four-cycle": "ab bc cd da",
    "clique": "ab ac ad bc bd cd",
    "hyper": "abx bcx cax",
    "triangle in a star": "xa xb xc ab yz",
    "Q5": "ck ko os sk kr",
}


@pytest.mark.parametrize("name", ACYCLIC)
def test_acyclic(name: str) -> None:
    assert not core(map(set, ACYCLIC[name].split()))


@pytest.mark.parametrize("name", CYCLIC)
def test_cyclic(name: str) -> None:
    assert core(map(set, CYCLIC[name].split()))


def has_join_tree(edges: list[frozenset[str]]) -> bool:
    """The definition: a tree of the edges in which every variable's edges are connected."""
    n = len(edges)
    if n < 2:
        return True
    # a tree is given by a parent of a smaller index in some order; all parents of all orders are too many, so
    # all functions to parents are tried, and those that are trees and connect every variable count
    for parents in product(range(n), repeat=n - 1):
        links = [(child, parent) for child, parent in enumerate(parents, 1) if child != parent]
        if len(links) < n - 1 or not connected(set(range(n)), links):
            continue
        holders = [{i for i, e in enumerate(edges) if v in e} for v in frozenset().union(*edges)]
        if all(connected(h, [(a, b) for a, b in links if a in h and b in h]) for h in holders):
            return True
    return False


def connected(nodes: set[int], links: list[tuple[int, int]]) -> bool:
    found = {min(nodes)}
    for _ in nodes:
        for a, b in links:
            if a in found or b in found:
                found |= {a, b}
    return found == nodes


def test_acyclicity_is_that_of_join_trees() -> None:
    random = Random(1)
    seen = {True: 0, False: 0}
    for _ in range(300):
        edges = [frozenset(random.sample("abcde", random.randint(1, 3))) for _ in range(random.randint(1, 5))]
        expected = has_join_tree(edges)
        seen[expected] += 1
        assert (not core(edges)) == expected, edges
    assert min(seen.values()) > 20


@pytest.mark.parametrize(
    ("component", "keys", "expected"),
    [
        ("bc ca", "ab", True),  # a triangle: the two-paths under an edge
        ("bc cd da", "ab", True),  # a four-cycle
        ("bc cd", "bd", True),
        ("bc cd", "b", False),  # a chain, from its end
        ("bc cd de", "b", False),
        ("bc cd", "c", False),
        ("xb xc xd", "x", False),  # a star, from one arm
        ("xb xc", "bc", True),  # the centre of a star is no lookup by its arms
        ("abc ad be", "a", False),  # a snowflake
        ("abc ad be", "ab", False),  # keys inside one atom
        ("bc", "bc", False),  # a single atom is itself
        ("bc ca ab", "a", False),  # the component is a cycle itself: it is what is worth keeping
        ("bc ca ab", "ab", False),
        ("xy yz zx zb", "xb", True),  # a cycle, and another through the key
        ("xy yz zx zb", "b", False),
        ("bc ca", "abz", True),  # keys of others do not matter
        ("bc ca", "", False),
    ],
)
def test_splits(component: str, keys: str, expected: bool) -> None:
    assert splits(atoms(component), set(keys)) is expected
