"""Chunk pairs: none that has matching cells is left out, none is there that the boxes exclude."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_support import arrays, chunks_of, reaches

from everfresh.arrays.plan import Chunks, Reach, affine, chunk_offsets, problem
from everfresh.arrays.plan.pairs import ordered_pairs
from everfresh.errors import Code, EverfreshError


def brute(left: Chunks, right: Chunks, reach: Reach, image=None) -> list[tuple[int, int]]:
    """Every pair of chunks whose boxes meet after one is mapped and widened."""
    lo, hi = (left.lo, left.hi) if image is None else image(left.lo, left.hi)
    found = []
    for p, q in itertools.product(range(len(left)), range(len(right))):
        for box in reach.boxes:
            if all(
                a is None or (lo[p, d] + a <= right.hi[q, d] and hi[p, d] + b >= right.lo[q, d])
                for d, (a, b) in enumerate(zip(*box, strict=True))
            ):
                found.append((p, q))
                break
    return found


@given(st.data())
def test_pairs_of_two_arrays_are_those_whose_widened_boxes_meet(data: st.DataObject) -> None:
    dims = data.draw(st.integers(1, 3))
    left = chunks_of(data.draw(arrays(dims)), (0,) * dims, (2,) * dims)
    right = chunks_of(data.draw(arrays(dims)), (-3,) * dims, (4,) * dims)
    reach = data.draw(reaches(dims))
    p, q = ordered_pairs(left, right, reach)
    assert list(zip(p.tolist(), q.tolist(), strict=True)) == brute(left, right, reach)


@given(st.data())
def test_a_union_of_boxes_has_each_pair_once(data: st.DataObject) -> None:
    array = chunks_of(data.draw(arrays(2)), (0, 0), (3, 2))
    reach = Reach((*data.draw(reaches(2)).boxes, *data.draw(reaches(2)).boxes))
    p, q = ordered_pairs(array, array, reach)
    assert list(zip(p.tolist(), q.tolist(), strict=True)) == brute(array, array, reach)


@given(st.data())
def test_a_self_join_has_each_unordered_pair_once_with_its_directions(data: st.DataObject) -> None:
    dims = data.draw(st.integers(1, 3))
    array = chunks_of(data.draw(arrays(dims)), (0,) * dims, (3,) * dims)
    reach = data.draw(reaches(dims))
    found = problem(array, reach, 1)
    expected: dict[tuple[int, int], int] = {}
    for p, q in brute(array, array, reach):
        expected[min(p, q), max(p, q)] = expected.get((min(p, q), max(p, q)), 0) | (1 if p <= q else 2)
    pairs = zip(found.first.tolist(), found.second.tolist(), strict=True)
    assert dict(zip(pairs, found.ways.tolist(), strict=True)) == expected


@given(st.data())
def test_no_pair_with_matching_cells_is_left_out_under_a_mapping(data: st.DataObject) -> None:
    """Cells decide here: b - M(a) in the shape."""
    left, right = data.draw(arrays(2)), data.draw(arrays(2))
    terms = [
        (
            data.draw(st.integers(0, 1)),
            data.draw(st.sampled_from([-2, -1, 1, 3])),
            data.draw(st.integers(-5, 5)),
        )
        for _ in range(2)
    ]
    reach = data.draw(reaches(2, free=False))
    ((lo, hi),) = reach.boxes
    one, other = chunks_of(left, (0, 0), (3, 2)), chunks_of(right, (-1, 2), (2, 5))
    p, q = ordered_pairs(one, other, reach, affine(terms))
    found = set(zip(p.tolist(), q.tolist(), strict=True))
    places = [{tuple(c): k for k, c in enumerate(chunks.coords.tolist())} for chunks in (one, other)]
    for a, b in itertools.product(left.tolist(), right.tolist()):
        offset = [b[d] - (m * a[at] + c) for d, (at, m, c) in enumerate(terms)]
        if all(lo[d] <= offset[d] <= hi[d] for d in range(2)):
            i = places[0][a[0] // 3, a[1] // 2]
            j = places[1][(b[0] + 1) // 2, (b[1] - 2) // 5]
            assert (i, j) in found


@given(st.integers(1, 9), st.integers(-40, 40))
def test_chunk_offsets_are_those_that_cells_lead_to(length: int, step: int) -> None:
    led = {((x + step) // length,) for x in range(length)}
    assert chunk_offsets(np.array([[step]]), [length]) == led


@pytest.mark.parametrize(
    ("steps", "offsets"),
    [(range(-60, 0), {-1, 0}), ([-112], {-1}), ([1], {0, 1}), ([-113, -112], {-2, -1})],
)
def test_chunk_offsets_of_windows(steps: range, offsets: set[int]) -> None:
    found = chunk_offsets(np.array([[s] for s in steps]), [112])
    assert found == {(o,) for o in offsets}


def test_a_cross_reaches_no_diagonal_neighbour() -> None:
    cross = np.array([[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0]])
    grid = np.array(list(itertools.product(range(6), range(6))))
    array = chunks_of(grid, (0, 0), (2, 2))
    reach = Reach.box((-1, -1), (1, 1), offsets=chunk_offsets(cross, (2, 2)))
    p, q = ordered_pairs(array, array, reach)
    steps = np.abs(array.coords[q] - array.coords[p]).sum(axis=1)
    assert steps.max() == 1
    assert len(p) == 9 + 24


def test_the_exact_test_gets_mapped_boxes() -> None:
    left = chunks_of(np.array([[0], [5]]), (0,), (1,))
    right = chunks_of(np.array([[10], [15]]), (0,), (1,))
    seen = []

    def overlaps(a, b):
        seen.append((a, b))
        return b[0][:, 0] == 15

    reach = Reach.box([-9], [9], overlaps=overlaps)
    p, q = ordered_pairs(left, right, reach, affine([(0, 1, 10)]))
    assert (p.tolist(), q.tolist()) == ([0, 1], [1, 1])
    assert seen[0][0][0][:, 0].tolist() == [10, 10, 15, 15]


def test_a_wide_window_goes_over_ranges_not_steps() -> None:
    """A window of a thousand chunks costs one range look-up for each chunk."""
    line = chunks_of(np.arange(0, 4000, 4)[:, None], (0,), (4,))
    found = problem(line, Reach.box([-(10**9)], [10**9]), 1)
    assert len(found.first) == 1000 * 1001 // 2


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: Chunks.of([[1]], [[0]], cells=[1], start=[0], length=[2]), "lo, hi"),
        (lambda: Chunks.of([[1]], [[2]], cells=[1], start=[0], length=[2]), "lo, hi"),
        (lambda: Chunks.of([[1]], [[1]], cells=[0], start=[0], length=[2]), "cells"),
        (lambda: Chunks.of([[1]], [[1]], cells=[1, 2], start=[0], length=[2]), "lo, hi, cells, bytes, home"),
        (lambda: Chunks.of([[1]], [[1]], cells=["x"], start=[0], length=[2]), "lo, hi, cells, bytes, home"),
        (lambda: Chunks.of([[1]], [[1]], cells=[1], start=[0], length=[0]), "length"),
        (lambda: Reach.box([2], [1]), "boxes"),
        (lambda: Reach.box([None], [1]), "boxes"),
        (lambda: problem(chunks_of(np.array([[1]]), (0,), (2,)), Reach.box([0, 0], [0, 0]), 1), "reach"),
        (lambda: problem(chunks_of(np.array([[1]]), (0,), (2,)), Reach.box([0], [0]), 0), "workers"),
        (
            lambda: problem(
                chunks_of(np.array([[1]]), (0,), (2,)),
                Reach.box([0], [0], offsets=frozenset([(0,)])),
                1,
                chunks_of(np.array([[1]]), (0,), (3,)),
            ),
            "offsets",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, place: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        call()
    assert caught.value.code == Code.ARGUMENT
    assert caught.value.place == place
