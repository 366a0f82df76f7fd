"""Shapes: cells by count, rows against the definition, text both ways, pictures."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from array_strategies import shapes
from hypothesis import given
from hypothesis import strategies as st

from everfresh.arrays.shape import (
    EMD,
    L0,
    L1,
    L2,
    TVD,
    Cuboid,
    Ellipse,
    Hamming,
    Linf,
    Ring,
    Shape,
    offsets_of,
    parse,
)
from everfresh.errors import EverfreshError

COUNTS: list[tuple[Shape, int, int]] = [
    (L0(), 2, 1),  # Figure 3 of the paper on similarity joins, for 3 in two dimensions
    (L1(3), 2, 25),
    (L2(3), 2, 29),
    (Linf(3), 2, 49),
    (EMD(3), 2, 25),
    (TVD(1), 2, 13),
    (L1(1).without_center(), 2, 4),  # the workloads of the paper
    (Linf(1).without_center(), 3, 26),
    (L2(4), 2, 49),
    (L1(1), 2, 5),  # the cross of the paper on array views, with its centre
    (L1(2), 2, 13),
    (L2(2), 2, 13),
    (L2(5**0.5), 2, 21),
    (L1(1), 4, 9),
    (Cuboid(((-3, 3), (-3, 3), (-60, -1))), 3, 7 * 7 * 60),
    (Ring(1, 2), 2, 12),
    (Ring(0, 2), 2, 13),
    (Ellipse((1, 3)), 2, 9),
    (offsets_of([(0, 1), (0, 2), (2, 0)]), 2, 3),
    (L1(1) | Linf(1), 2, 9),
    (Linf(1) - L1(1), 2, 4),
    (Linf(2) & L1(2), 2, 13),
    (L1(1).without_center().with_center(), 2, 5),
    (Hamming(1) & Cuboid(((-4, 4), (-2, 2))), 2, 13),
]


@pytest.mark.parametrize(("shape", "ndim", "count"), COUNTS, ids=[f"{s}/{d}" for s, d, _ in COUNTS])
def test_cells_by_count(shape: Shape, ndim: int, count: int) -> None:
    assert shape.cells(ndim) == count


def _grid(ndim: int, reach: int = 8) -> Any:
    axes = np.meshgrid(*[np.arange(-reach, reach + 1)] * ndim, indexing="ij")
    return np.stack([axis.ravel() for axis in axes])


@given(st.data(), st.integers(1, 3))
def test_rows_hold_what_the_definition_tells(data: st.DataObject, ndim: int) -> None:
    shape = data.draw(shapes(ndim, bounded=True))
    grid = _grid(ndim)
    want = grid[:, shape.contains(grid)]
    assert np.array_equal(shape.offsets(ndim), want)
    last = data.draw(st.integers(0, ndim - 1))
    rows = shape.rows(ndim, last)
    assert rows.cells == want.shape[1] == shape.cells(ndim)
    others = [k for k in range(ndim) if k != last]
    found = {
        (*prefix, s)
        for prefix, lo, hi in zip(rows.prefix.T.tolist(), rows.lo, rows.hi, strict=True)
        for s in range(lo, hi + 1)
    }
    assert found == set(map(tuple, want[[*others, last]].T.tolist()))


@given(st.data(), st.integers(1, 3))
def test_offsets_lie_within_the_bounds(data: st.DataObject, ndim: int) -> None:
    shape = data.draw(shapes(ndim))
    grid = _grid(ndim, 5)
    inside = grid[:, shape.contains(grid)]
    for row, (lo, hi) in zip(inside, shape.bounds(ndim), strict=True):
        assert lo is None or hi is None or ((lo <= row) & (row <= hi)).all()


@given(st.data(), st.integers(1, 3))
def test_parts_are_disjoint_and_whole(data: st.DataObject, ndim: int) -> None:
    shape = data.draw(shapes(ndim))
    grid = _grid(ndim, 4)
    held = sum(part.contains(grid).astype(int) for part in shape.parts(ndim))
    assert np.array_equal(held, shape.contains(grid).astype(int))


@given(st.data(), st.integers(1, 3))
def test_shapes_print_and_parse(data: st.DataObject, ndim: int) -> None:
    shape = data.draw(shapes(ndim))
    assert parse(str(shape)) == shape
    assert parse(str(shape).lower()) == shape


NO_SHAPES = """L1|L3(1)|L1(-1)|L1(x)|[1:0]|[]|{}|{(1, 2), 3}|RING(1)|RING(2, 1)|ELLIPSE(0, 1)|HAMMING(1.5)|
L1(1) UNION|L1(1) L2(2)|[0] UNION [0, 0]|(L1(1)"""


@pytest.mark.parametrize("text", NO_SHAPES.split("|"))
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(EverfreshError):
        parse(text)


def test_a_shape_of_other_dimensions_is_refused() -> None:
    with pytest.raises(EverfreshError, match="has 3 dimensions, and 2 are needed"):
        Cuboid(((0, 1),) * 3).rows(2)


def test_a_shape_without_bound_has_no_cells() -> None:
    with pytest.raises(EverfreshError, match="no bound"):
        Hamming(1).cells(2)


@pytest.mark.parametrize(("shape", "ndim"), [(L1(2), 2), (Hamming(1), 2), (Linf(1), 3), (Ring(1, 2), 1)])
def test_pictures_have_a_square_for_each_cell(shape: Shape, ndim: int) -> None:
    picture = ElementTree.fromstring(shape.svg(ndim))
    full = [r for r in picture.iter("{http://www.w3.org/2000/svg}rect") if r.get("fill") == "#3b6ea5"]
    cut = shape & Cuboid(((-5, 5),) * ndim)
    assert len(full) == cut.cells(ndim)


class _Axes:
    """Stands for those of matplotlib."""

    def __init__(self) -> None:
        self.calls: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **_: self.calls.__setitem__(name, args)


def test_shapes_are_drawn_on_axes() -> None:
    axes = _Axes()
    assert Linf(1).plot(3, axes) is axes
    assert axes.calls["imshow"][0].sum() == 27
    assert axes.calls["plot"] == ([5], [1])
    assert axes.calls["set_title"] == ("LINF(1)",)


def test_a_shape_of_many_dimensions_is_not_drawn() -> None:
    with pytest.raises(EverfreshError, match="is not drawn"):
        L1(1).svg(4)
