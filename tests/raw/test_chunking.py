"""Query-driven chunking: equal to Algorithm 1 word by word, whatever the batches; and Figure 3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from everfresh.local.jit.kernel import kernel_of
from everfresh.raw.boxes import Box, near, overlapping, tight
from everfresh.raw.chunking import Cut, Cutting
from everfresh.raw.kernels import zones

Cell = tuple[int, int]
cells = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=25)
corner = st.tuples(st.integers(0, 9), st.integers(0, 9))
boxes = st.tuples(corner, corner).map(
    lambda two: Box(tuple(map(min, *two)), tuple(map(max, *two)))  # type: ignore[arg-type]
)


@dataclass
class Literal:
    """Algorithm 1, line by line, over all cells at once."""

    cells: list[Cell]
    query: Box
    min_cells: int

    def split(self) -> tuple[list[Cell], list[Cell]] | None:
        asked = [c for c in self.cells if self._in(c)]
        if len(self.cells) < self.min_cells and asked:
            return None
        found, least = None, float("inf")
        for k in range(2):
            for first in (self.query.lo[k], self.query.hi[k] + 1):
                below = [c for c in self.cells if c[k] < first]
                above = [c for c in self.cells if c[k] >= first]
                if below and above:
                    volume = _box(below).volume + _box(above).volume
                    if volume < least:
                        found, least = (below, above), volume
        return found

    def _in(self, cell: Cell) -> bool:
        return all(a <= x <= b for a, x, b in zip(self.query.lo, cell, self.query.hi, strict=True))


def _box(some: list[Cell]) -> Box:
    return tight(np.array(some).T)


@given(cells, boxes, st.integers(0, 30), st.integers(1, 9), st.booleans())
def test_equals_the_algorithm_of_the_document(
    some: list[Cell], query: Box, min_cells: int, batch: int, known: bool
) -> None:
    cutting = Cutting([query], _box(some) if known else None)
    for begin in range(0, len(some), batch):
        cutting.add(np.array(some[begin : begin + batch]).T)
    halves = cutting.halves(min_cells)
    expected = Literal(some, query, min_cells).split()
    assert (halves is None) == (expected is None)
    if halves is not None and expected is not None:
        for side, half in zip((halves.below, halves.above), expected, strict=True):
            assert (side.cells, side.box) == (len(half), _box(half))
        assert halves.below.box is not None
        assert halves.above.box is not None
        assert halves.below.box.met(halves.above.box) is None
        inside = [Literal(half, query, 0) for half in expected]
        assert sum(any(one._in(c) for c in one.cells) for one in inside) <= 1, "a query stays on one side"


def test_figure_3() -> None:
    """Q1 cuts the one chunk; of its halves Q2 cuts the lower one, since the upper has fewer than 5 cells and
    one of them is asked for; Q3 cuts a chunk of fewer than 5 cells, since none of them is."""
    upper, lower = [(1, 2), (1, 6), (2, 4), (2, 8)], [(6, 1), (7, 2), (7, 3), (8, 6), (9, 6), (9, 7)]
    first = Cutting([Box((3, 3), (9, 9))])
    first.add(np.array(upper + lower).T)
    halves = first.halves(5)
    assert halves is not None
    assert halves.cut == Cut(0, 3)
    assert (halves.below.cells, halves.above.cells) == (4, 6)
    second = Box((2, 4), (8, 9))
    four = Cutting([second], halves.below.box)
    four.add(np.array(upper).T)
    assert four.asked
    assert four.halves(5) is None
    six = Cutting([second], halves.above.box)
    six.add(np.array(lower).T)
    parts = six.halves(5)
    assert parts is not None
    assert parts.cut == Cut(1, 4)
    third = Cutting([Box((5, 3), (6, 9))], parts.below.box)
    third.add(np.array([(6, 1), (7, 2), (7, 3)]).T)
    assert not third.asked
    assert third.halves(5) is not None


@given(st.lists(boxes, max_size=8), st.lists(boxes, max_size=8), st.integers(-2, 2), st.integers(0, 3))
def test_near_boxes_are_those_that_an_offset_joins(
    left: list[Box], right: list[Box], low: int, wide: int
) -> None:
    def columns(some: list[Box]) -> tuple[np.ndarray, np.ndarray]:
        shape = (len(some), 2)
        lo, hi = (
            np.array([getattr(b, side) for b in some], np.int64).reshape(shape) for side in ("lo", "hi")
        )
        return lo, hi

    bounds = [(low, low + wide), (None, None)]
    p, q = near(columns(left), columns(right), bounds)
    expected = {
        (i, j)
        for i, a in enumerate(left)
        for j, b in enumerate(right)
        if a.lo[0] + low <= b.hi[0] and b.lo[0] <= a.hi[0] + low + wide
    }
    assert set(zip(p.tolist(), q.tolist(), strict=True)) == expected
    for box in left:
        lo, hi = columns(right)
        assert overlapping(lo, hi, box).tolist() == [box.met(b) is not None for b in right]


places = st.lists(st.tuples(st.integers(-3, 12), st.integers(-3, 12)), max_size=40)


@given(st.lists(boxes, min_size=1, max_size=4), st.one_of(st.none(), boxes), places, st.integers(1, 9))
def test_zones_count_what_sides_one_by_one_do(
    query: list[Box], within: Box | None, some: list[Cell], batch: int
) -> None:
    """The compiled loop, the same by whole arrays, and each side of each cut by itself."""
    if within is not None:
        some = [c for c in some if all(a <= x <= b for a, x, b in zip(within.lo, c, within.hi, strict=True))]
    one, other, slow = (Cutting(query, within) for _ in range(3))
    slow._zones = None
    assert other._zones is not None
    other._zones.tally = zones.by_whole_arrays
    one._zones.tally = kernel_of(zones.tally).py_func  # type: ignore[union-attr]
    for begin in range(0, len(some), batch):
        coords = np.array(some[begin : begin + batch], np.int64).T
        inside = [each.add(coords).tolist() for each in (one, other, slow)]
        assert inside[0] == inside[1] == inside[2]
    assert one.told(2).tolist() == other.told(2).tolist() == slow.told(2).tolist()
    assert one.cuts == slow.cuts


def test_a_query_of_very_many_boxes_goes_side_by_side() -> None:
    query = [Box((3 * k, 3 * k), (3 * k + 1, 3 * k + 1)) for k in range(40)]
    cutting = Cutting(query)
    assert cutting._zones is None
    assert cutting.add(np.array([[0, 2, 7], [1, 2, 8]])).tolist() == [True, False, False]
    assert (cutting.asked, cutting.whole.cells) == (1, 3)
