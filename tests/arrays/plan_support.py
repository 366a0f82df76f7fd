"""Random catalogs and problems for the tests of the planner."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from everfresh.arrays.plan import Chunks, Problem, Reach, problem


def chunks_of(points: np.ndarray, start: tuple[int, ...], length: tuple[int, ...]) -> Chunks:
    """The catalog of an array with these cells, in row-major order of its chunks."""
    places = (points - np.array(start)) // np.array(length)
    coords, which, cells = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    lo = np.stack([points[which.ravel() == k].min(axis=0) for k in range(len(coords))])
    hi = np.stack([points[which.ravel() == k].max(axis=0) for k in range(len(coords))])
    return Chunks.of(lo, hi, cells=cells, start=start, length=length)


@st.composite
def arrays(draw: st.DrawFn, dims: int, most: int = 40, span: int = 12) -> np.ndarray:
    """Distinct cells."""
    cell = st.tuples(*[st.integers(-span, span)] * dims)
    return np.array(sorted(draw(st.sets(cell, min_size=1, max_size=most))), np.int64)


@st.composite
def reaches(draw: st.DrawFn, dims: int, free: bool = True) -> Reach:
    bounds = []
    for _ in range(dims):
        a, b = sorted((draw(st.integers(-4, 4)), draw(st.integers(-4, 4))))
        bounds.append((None, None) if free and draw(st.integers(0, 5)) == 0 else (a, b))
    return Reach.box([a for a, _ in bounds], [b for _, b in bounds])


@st.composite
def problems(draw: st.DrawFn, most: int = 40, workers: int = 5) -> Problem:
    """Joins of an array with itself or with another one, chunks at random workers."""
    dims = draw(st.integers(1, 3))
    count = draw(st.integers(1, workers))
    length = tuple(draw(st.integers(1, 5)) for _ in range(dims))
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        found = chunks_of(draw(arrays(dims, most)), (0,) * dims, length)
        weight = draw(st.lists(st.integers(1, 9), min_size=len(found), max_size=len(found)))
        homes = draw(st.lists(st.integers(0, count - 1), min_size=len(found), max_size=len(found)))
        parts.append(
            Chunks.of(
                found.lo, found.hi, cells=weight, bytes=np.array(weight) * 7, start=found.start,
                length=length, home=homes,
            )
        )  # fmt: skip
    return problem(parts[0], draw(reaches(dims)), count, *parts[1:])


def random_problem(seed: int, chunks: int = 60, workers: int = 4, dims: int = 2) -> Problem:
    """A self-join of many chunks with skewed sizes, for what needs some size."""
    random = np.random.default_rng(seed)
    side = int(np.ceil(chunks ** (1 / dims) * 1.3))
    grid = np.stack(np.meshgrid(*[np.arange(side)] * dims), axis=-1).reshape(-1, dims)
    coords = np.sort(random.choice(len(grid), chunks, replace=False))
    lo = grid[coords] * 10
    cells = np.ceil(random.lognormal(3, 1.2, chunks)).astype(np.int64)
    placed = Chunks.of(
        lo, lo + 9, cells=cells, start=(0,) * dims, length=(10,) * dims,
        home=random.integers(0, workers, chunks),
    )  # fmt: skip
    return problem(placed, Reach.box([-1] * dims, [1] * dims), workers)
