"""Mappings: images of boxes hold the images of cells, text both ways, Example 2, refusals."""

from __future__ import annotations

from typing import Any

import mapping_functions as functions
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.arrays.join import Cells, matched
from everfresh.arrays.mapping import (
    Affine,
    Mapping,
    check_mapping,
    dimensions,
    function,
    identity,
    parse_mapping,
    reduced,
)
from everfresh.arrays.shape import Cuboid
from everfresh.errors import EverfreshError

affine = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-3, 3), st.integers(-5, 5)), min_size=1, max_size=3
).map(lambda terms: Affine(tuple(terms)))
mappings: st.SearchStrategy[Mapping] = st.one_of(
    affine, st.just(identity(2)), st.just(function(functions.mirrored, 2, 2, ordered=True))
)


@given(mappings, st.lists(st.tuples(*[st.integers(-9, 9)] * 2), min_size=1, max_size=9))
def test_images_of_boxes_hold_those_of_cells(mapping: Mapping, cells: Any) -> None:
    coords = np.array(cells, np.int64).T
    box = coords.min(axis=1, keepdims=True), coords.max(axis=1, keepdims=True)
    lo, hi = mapping.image(*box)
    found = mapping.cells(coords)
    assert ((lo <= found) & (found <= hi)).all()
    corners = mapping.cells(np.hstack(box))
    assert mapping.keeps_order
    assert corners.shape == (mapping.outputs, 2)


@given(mappings)
def test_mappings_print_and_parse(mapping: Mapping) -> None:
    assert parse_mapping(str(mapping)) == mapping


def test_functions_by_name() -> None:
    mapping = function(functions.scattered, 2, 2)
    assert str(mapping) == "mapping_functions:scattered/2/2"
    assert parse_mapping(str(mapping)) == mapping
    assert mapping.cells(np.array([[1], [2]])).tolist() == [[7919 % 11], [2 * 7919 % 11]]
    with pytest.raises(EverfreshError, match="not known from its corners"):
        mapping.image(np.zeros((2, 1), np.int64), np.ones((2, 1), np.int64))


def test_functions_that_are_not_registered_are_refused() -> None:
    with pytest.raises(EverfreshError, match="cannot be imported"):
        function(lambda coords: coords, 1, 1)
    with pytest.raises(EverfreshError, match="no function 'none'"):
        parse_mapping("mapping_functions:none/1/1")
    with pytest.raises(EverfreshError, match="no function 'number'"):
        parse_mapping("mapping_functions:number/1/1")
    with pytest.raises(EverfreshError, match="no function 'f'"):
        parse_mapping("no_such_module:f/1/1")
    with pytest.raises(EverfreshError, match="whole numbers"):
        function(functions.wrong, 1, 1).cells(np.ones((1, 1), np.int64))


@pytest.mark.parametrize("text", ["()", "(y0)", "(x0 + )", "(x0", "(2*x)"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(EverfreshError):
        parse_mapping(text)


def test_dimensions_must_fit() -> None:
    check_mapping(dimensions(1), 2, 1)
    with pytest.raises(EverfreshError, match="the arrays have 1 and 1"):
        check_mapping(dimensions(1), 1, 1)


def test_example_2_of_the_paper() -> None:
    """A 2-D array with a 1-D one, k = j or k = j + 1: five cells, and j from 1 to 3."""
    alpha = np.array([(1, 1), (3, 1), (3, 2), (2, 3), (4, 3), (1, 4)]).T
    beta = np.array([[1, 3]])
    mapping, shape = dimensions(1), Cuboid(((0, 1),))
    i, j = matched(Cells.of(mapping.cells(alpha)), Cells.of(beta), shape)
    found = {(*alpha[:, a].tolist(), int(beta[0, b])) for a, b in zip(i, j, strict=True)}
    assert found == {(1, 1, 1), (3, 1, 1), (2, 3, 3), (4, 3, 3), (3, 2, 3)}
    box = (np.array([1, 1]), np.array([4, 4])), (np.array([1]), np.array([3]))
    ranges = reduced(mapping, shape.bounds(1), *box)
    assert ranges is not None
    assert [r.tolist() for r in ranges] == [[1, 1], [4, 3]]


@given(
    st.integers(-3, 3).filter(bool), st.integers(-5, 5), st.tuples(*[st.integers(-4, 4)] * 2),
    st.integers(-20, 20), st.integers(0, 20), st.integers(-20, 20), st.integers(0, 20),
)  # fmt: skip
def test_reduced_ranges_equal_brute_force(
    a: int, b: int, offsets: tuple[int, int], left: int, width: int, right: int, more: int
) -> None:
    low, high = min(offsets), max(offsets)
    reached = [
        x
        for x in range(left, left + width + 1)
        if any(right <= a * x + b + s <= right + more for s in range(low, high + 1))
    ]
    one = lambda x: np.array([x], np.int64)  # noqa: E731
    found = reduced(
        Affine(((0, a, b),)), [(low, high)], (one(left), one(left + width)), (one(right), one(right + more))
    )
    if reached:
        assert found is not None
        assert (found[0][0], found[1][0]) == (reached[0], reached[-1])
    if found is None:
        assert not reached
