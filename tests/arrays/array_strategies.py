"""Random shapes and cells, for the properties of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
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
)

small = st.integers(-3, 3)
ranges = st.tuples(small, small).map(lambda pair: (min(pair), max(pair)))
distances = st.one_of(st.integers(0, 3), st.sampled_from([0.5, 1.5, 2.5, 5**0.5]))


def simple(ndim: int, bounded: bool = False) -> st.SearchStrategy[Shape]:
    """Shapes that are not combined."""
    free = ranges if bounded else st.one_of(ranges, st.just((None, None)))
    balls: list[Any] = [st.builds(kind, distances) for kind in (L1, L2, TVD, Linf)]
    return st.one_of(
        st.just(L0()),
        *balls,
        *([] if bounded else [st.builds(Hamming, st.integers(0, ndim))]),
        st.builds(EMD, st.integers(0, 3)),
        st.builds(Cuboid, st.tuples(*[free] * ndim)),
        st.tuples(distances, distances).map(lambda r: Ring(min(r), max(r))),
        st.builds(Ellipse, st.tuples(*[st.sampled_from([0.5, 1, 2, 2.5])] * ndim)),
        st.lists(st.tuples(*[small] * ndim), min_size=1, max_size=6).map(offsets_of),
    )


def shapes(ndim: int, bounded: bool = False) -> st.SearchStrategy[Shape]:
    """All shapes of so many dimensions."""

    def combined(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            pairs.map(lambda p: p[0] | p[1]),
            pairs.map(lambda p: p[0] - p[1]),
            pairs.map(lambda p: p[0] & p[1]),
            inner.map(Shape.with_center),
            inner.map(Shape.without_center),
        )

    return st.recursive(simple(ndim, bounded), combined, max_leaves=3)


@st.composite
def cells(draw: Any, ndim: int, most: int = 25) -> Any:
    """Coordinates of a few cells, some of them several times."""
    count = draw(st.integers(0, most))
    reach = draw(st.sampled_from([2, 5, 40]))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    return rng.integers(-reach, reach + 1, (ndim, count))
