"""Trees as plain data: equal when they are read back, and nothing else can be read.

Catches: a class that could be named without being known, a field that holds what its annotation does not
allow, damage that is no `EverfreshError`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.errors import Code, EverfreshError
from everfresh.rewrite.packing import Packing


class Color(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Leaf:
    text: str
    number: int
    value: Any
    color: Color = Color.RED


@dataclass(frozen=True)
class Branch:
    parts: tuple[Leaf | Branch, ...]
    names: frozenset[str]
    known: Mapping[str, Leaf]
    pair: tuple[str, int] | None = None
    other: Branch | None = None
    flag: bool = False
    size: float = 0.0


class Text(str):
    """No plain string."""


PACKING = Packing(Leaf, Branch)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
LEAVES = st.builds(
    Leaf, st.text(), st.integers(), SCALARS | st.tuples(st.integers(), st.integers()), st.sampled_from(Color)
)


def branches(below: Any) -> Any:
    return st.builds(
        Branch,
        st.lists(below, max_size=3).map(tuple),
        st.frozensets(st.text(max_size=3), max_size=3),
        st.dictionaries(st.text(max_size=3), LEAVES, max_size=2),
        st.none() | st.tuples(st.text(), st.integers()),
        st.none(),
        st.booleans(),
        st.floats(allow_nan=False),
    )


TREES = st.recursive(branches(LEAVES), branches, max_leaves=6)


@given(TREES)
def test_a_tree_is_read_back(tree: Branch) -> None:
    text = json.dumps(PACKING.packed(tree))
    found = PACKING.unpacked(json.loads(text), Branch)
    assert found == tree
    assert json.dumps(PACKING.packed(found)) == text  # in which 1 is not True, and 0.0 not -0.0


def test_what_is_shared_stays_shared() -> None:
    leaf = Leaf("a", 1, math.inf)
    rows = PACKING.packed(Branch((leaf, leaf), frozenset(), {"a": leaf}))
    assert [row[0] for row in rows] == ["Leaf", "Branch"]
    found = PACKING.unpacked(rows, Branch)
    assert found.parts[0] is found.parts[1] is found.known["a"]


def test_a_tree_may_be_deeper_than_the_stack() -> None:
    tree = Branch((), frozenset(), {})
    for _ in range(5000):
        tree = Branch((tree,), frozenset(), {})
    rows = PACKING.packed(tree)
    assert len(rows) == 5001
    assert PACKING.packed(PACKING.unpacked(rows, Branch)) == rows


@given(TREES, st.integers())
def test_other_data_is_refused(tree: Branch, seed: int) -> None:
    """A tree with something else in some place gives a tree of the same kind, or is refused."""
    rng = Random(seed)
    rows = json.loads(json.dumps(PACKING.packed(tree)))
    place: Any = rows
    while isinstance(place, list) and place:
        at = rng.randrange(len(place))
        if not isinstance(place[at], list) or rng.random() < 0.3:
            place[at] = rng.choice([None, -1, 0, 10**9, 1.5, "Leaf", "os.system", True, [], [["Leaf"]], {}])
            break
        place = place[at]
    found, code = None, None
    try:
        found = PACKING.unpacked(rows, Branch)
    except EverfreshError as error:
        code = error.code
    if found is None:
        assert code == Code.DAMAGED
    else:
        assert PACKING.unpacked(PACKING.packed(found), Branch) == found


@pytest.mark.parametrize(
    "rows",
    [
        [],
        {},
        None,
        [["Leaf", "a", 1, None, "RED"]],
        [["Path", "/"]],
        [["__class__"]],
        [["Branch", [0], [], [], None, None, False, 0.0]],
        [["Leaf", "a", 1, None, "RED"], ["Branch", [-1], [], [], None, None, False, 0.0]],
        [["Leaf", "a", 1, None, "__class__"], ["Branch", [0], [], [], None, None, False, 0.0]],
    ],
)
def test_only_known_classes_are_made(rows: Any) -> None:
    with pytest.raises(EverfreshError) as refused:
        PACKING.unpacked(rows, Branch)
    assert refused.value.code == Code.DAMAGED


@pytest.mark.parametrize("leaf", [Leaf(Text("a"), 1, None), Leaf("a", True, None), Leaf("a", 1, b"")])
def test_what_could_not_be_read_is_not_written(leaf: Leaf) -> None:
    with pytest.raises(TypeError):
        PACKING.packed(leaf)


def test_a_class_that_is_not_known_is_not_written() -> None:
    with pytest.raises(TypeError, match="Branch is no class that is packed"):
        Packing(Leaf).packed(Branch((), frozenset(), {}))
    with pytest.raises(TypeError, match="Leaf is no class that is packed"):
        Packing(Branch).packed(Branch((), frozenset(), {}))
