"""The MK tree: a set of keys, in few intervals where they follow each other."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from everfresh.kv.encoding import keys
from everfresh.kv.tracking import MKTree, steps
from everfresh.types import BIGINT, VARCHAR, Column, TableSchema


@given(
    rows=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(-4, 9) | st.sampled_from([2**63 - 1, -(2**63)]))
    ),
    asked=st.tuples(st.sampled_from("ab"), st.integers(-5, 10)),
    buffer=st.sampled_from([1, 3, 100]),
)
def test_it_is_a_set_in_order(rows: Any, asked: Any, buffer: int) -> None:
    types = [VARCHAR, BIGINT]
    tree, expected = MKTree(steps=True, buffer=buffer), set[bytes]()
    for row in rows:
        expected.add(keys.encode(row, types))
        tree.add(keys.encode(row, types))
        assert keys.encode(row, types) in tree
    assert (keys.encode(asked, types) in tree) == (keys.encode(asked, types) in expected)
    assert list(tree) == sorted(expected)
    runs = sum(1 for row in {*rows} if (row[0], row[1] - 1) not in rows)
    assert tree.intervals == runs


@given(added=st.lists(st.binary(max_size=3)), asked=st.binary(max_size=3), buffer=st.sampled_from([1, 2, 50]))
def test_keys_without_neighbours_are_points(added: list[bytes], asked: bytes, buffer: int) -> None:
    tree = MKTree(steps=False, buffer=buffer)
    for key in added:
        tree.add(key)
    assert (asked in tree) == (asked in added)
    assert list(tree) == sorted({*added})


def test_all_of_a_table_is_one_interval() -> None:
    order = list(range(-500, 500))
    Random(1).shuffle(order)
    tree = MKTree(steps=True, buffer=64)
    for n in order:
        tree.add(keys.encode([n], [BIGINT]))
    assert tree.intervals == 1
    schema = TableSchema("t", (Column("a", BIGINT), Column("b", VARCHAR)), ("a", "b"))
    assert not steps(schema)
