"""Nodes: structural equality, cached hashes, children, pickling.

What each test catches: a hash that takes 1, 1.0 and TRUE for one constant (then `done` of the driver mixes
them up); a hash that survives pickling into another process (then equal nodes are unequal on Spark
workers); `map_children` that copies unchanged trees (then `is` tests never stop a pass).
"""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.calculus import Bind, Plus, Prod, Rel, Sum, Value
from everfresh.expr import Case, Const, Var, build
from everfresh.rewrite import Node, node, remembered
from everfresh.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, VARCHAR


@node
class Leaf(Node):
    value: object


@node
class Other(Node):
    value: object


@node
class Tree(Node):
    name: str
    left: Node
    rest: tuple[object, ...] = ()


TREES = st.recursive(
    st.builds(Leaf, st.integers(0, 3)),
    lambda inner: st.builds(
        Tree, st.sampled_from("ab"), inner, st.lists(inner | st.integers(0, 2), max_size=3).map(tuple)
    ),
    max_leaves=8,
)


def rebuilt(tree: Node) -> Node:
    """An equal tree that shares no node with `tree`."""
    if isinstance(tree, Leaf):
        return Leaf(tree.value)
    assert isinstance(tree, Tree)
    rest = tuple(rebuilt(item) if isinstance(item, Node) else item for item in tree.rest)
    return Tree(tree.name, rebuilt(tree.left), rest)


def plain(tree: object) -> object:
    """A tree as nested tuples, the model of equality."""
    if isinstance(tree, Leaf):
        return ("leaf", tree.value)
    if isinstance(tree, Tree):
        return ("tree", tree.name, plain(tree.left), tuple(map(plain, tree.rest)))
    return tree


@given(TREES, TREES)
def test_equality_is_structural(a: Node, b: Node) -> None:
    assert (a == b) == (plain(a) == plain(b))
    assert a == rebuilt(a)
    assert hash(a) == hash(rebuilt(a))
    assert (a != rebuilt(a)) is False


def test_class_is_part_of_equality() -> None:
    assert Leaf(1) != Other(1)
    assert Leaf(1) != 1
    assert {Leaf(1): "x"}.get(Other(1)) is None  # type: ignore[call-overload]


CONSTANTS = [
    Const(1, INTEGER),
    Const(1, BIGINT),
    Const(True, BOOLEAN),
    Const(1.0, DOUBLE),
    Const("1", VARCHAR),
    Const(0, INTEGER),
    Const(0.0, DOUBLE),
    Const(False, BOOLEAN),
    Const(math.nan, DOUBLE),
    Const(math.inf, DOUBLE),
    Const(-math.inf, DOUBLE),
    Const(None, INTEGER),
    Const(None, BIGINT),
    Const("", VARCHAR),
    Const("nan", VARCHAR),
]


def test_constants_that_python_takes_for_equal_differ() -> None:
    for i, a in enumerate(CONSTANTS):
        for j, b in enumerate(CONSTANTS):
            assert (a == b) == (i == j), (a, b)
    assert len(set(CONSTANTS)) == len(CONSTANTS)


def test_nan_equals_nan() -> None:
    assert Const(float("nan"), DOUBLE) == Const(math.nan, DOUBLE)
    assert hash(Const(float("nan"), DOUBLE)) == hash(Const(math.nan, DOUBLE))
    assert Value((Const(float("nan"), DOUBLE),)) == Value((Const(math.nan, DOUBLE),))


def test_nodes_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Leaf(1).value = 2  # type: ignore[misc]


# -- children ------------------------------------------------------------------------------------------


def test_children_are_found_in_nested_tuples() -> None:
    x = Var("x", BIGINT)
    case = Case(
        ((build.call("=", x, Const(1, BIGINT)), Const(2, BIGINT)), (Const(True, BOOLEAN), x)),
        Const(0, BIGINT),
    )
    conditions = [case.arms[0][0], case.arms[0][1], case.arms[1][0], case.arms[1][1], case.default]
    assert list(case.children) == conditions
    assert case.with_children(tuple(conditions)) == case
    changed = case.with_children((*conditions[:-1], Const(9, BIGINT)))
    assert changed.default == Const(9, BIGINT)
    assert changed.arms == case.arms


@given(TREES)
def test_with_children_and_map_children(tree: Node) -> None:
    assert tree.with_children(tree.children) == tree
    assert tree.map_children(lambda child: child) is tree
    # An equal but other child is a change: identity, not equality, decides.
    copied = tree.map_children(rebuilt)
    assert copied == tree
    assert (copied is tree) == (not tree.children)


@given(TREES)
def test_walk_is_parents_first(tree: Node) -> None:
    found = list(tree.walk())
    assert found[0] is tree
    assert len(found) == 1 + sum(len(list(child.walk())) for child in tree.children)


def test_every_kind_of_node_takes_its_own_children_back() -> None:
    x = Var("x", BIGINT)
    for n in (
        Const(1, INTEGER),
        Const(math.nan, DOUBLE),
        x,
        Bind(x, Const(1, BIGINT)),
        Sum((x,), Rel("R", (x,))),
        Prod(()),
    ):
        assert n.with_children(n.children) == n


# -- pickling ------------------------------------------------------------------------------------------

QUERY = Sum((Var("x", BIGINT),), Plus((
    Prod((Rel("R", (Var("x", BIGINT), Var("s", VARCHAR))), Bind(Var("y", DOUBLE), Const(math.nan, DOUBLE)))),
    Prod((Rel("R", (Var("x", BIGINT), Var("s", VARCHAR))), Bind(Var("y", DOUBLE), Const(1.0, DOUBLE)))),
)))  # fmt: skip


def test_pickle_and_copy() -> None:
    for n in (QUERY, *CONSTANTS):
        for again in (pickle.loads(pickle.dumps(n)), copy.copy(n), copy.deepcopy(n)):
            assert again == n
            assert hash(again) == hash(n)
            assert n in {again}


def test_pickle_into_another_process() -> None:
    """String hashes are salted per process: a pickled hash would make equal nodes unequal."""
    code = (
        "import pickle, sys\n"
        "nodes = pickle.loads(sys.stdin.buffer.read())\n"
        "again = pickle.loads(pickle.dumps(nodes))\n"
        "fresh = [type(n)(**{f: getattr(n, f) for f in n.__dataclass_fields__}) for n in nodes]\n"
        "assert nodes == fresh == again and len(set(nodes) | set(fresh)) == len(nodes), 'hash'\n"
        "sys.stdout.buffer.write(pickle.dumps(nodes))\n"
    )
    nodes = [QUERY, *CONSTANTS]
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code], input=pickle.dumps(nodes), capture_output=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip
        back = pickle.loads(done.stdout)
        assert back == nodes
        assert set(back) == set(nodes)


def test_what_is_remembered_of_a_node_is_asked_once_and_not_pickled() -> None:
    asked: list[Node] = []

    @remembered
    def many(node: Node) -> int:
        asked.append(node)
        return len(list(node.walk()))

    before = len(pickle.dumps(QUERY))
    assert many(QUERY) == many(QUERY) == len(list(QUERY.walk()))
    assert asked == [QUERY]
    assert len(pickle.dumps(QUERY)) == before
    assert many(pickle.loads(pickle.dumps(QUERY))) == many(QUERY)
    assert len(asked) == 2
