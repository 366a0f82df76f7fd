"""What a shape is: a set of offsets, cut into row intervals for kernels and into parts for planning.

Invariant: the row intervals of a shape are disjoint and hold exactly the offsets that `contains` tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import Node

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bounds = tuple[tuple[int | None, int | None], ...]
"""The least and the greatest offset in each dimension; None where any is in the shape."""
Runs = tuple[tuple[int, int], ...]
"""Disjoint ranges of offsets in ascending order, both ends included."""
FAR = 1 << 62
"""An end of a run that has none."""
_MOST_ROWS = 5_000_000
SLACK = 1e-12
"""That L2(sqrt(5)) holds the cell at that distance."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A shape cut into runs along dimension `last`; `prefix` has the offsets in the others, row by row."""

    prefix: Ints  # (dimensions - 1, rows)
    lo: Ints
    hi: Ints
    last: int

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def cells(self) -> int:
        """How many offsets there are."""
        return int((self.hi - self.lo + 1).sum())


class Shape(Node):
    """A set of offsets. Build it with the classes below and `|`, `&`, `-`, or from text by `parse`.

    >>> from everfresh.arrays.shape import L1, Cuboid
    >>> print(L1(1).without_center() | Cuboid(((-60, -1), (0, 0))))
    L1(1) WITHOUT CENTER UNION [-60:-1, 0]
    """

    @property
    def ndim(self) -> int | None:
        """How many dimensions it has; None if it fits any number."""
        return None

    def bounds(self, ndim: int) -> Bounds:
        """The tight box of a simple shape; of combined ones perhaps a wider one."""
        raise NotImplementedError

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """The offsets in the last dimension behind these offsets in the others."""
        raise NotImplementedError

    def contains(self, offsets: Ints) -> Bools:
        """Which offsets, one per column, are in the shape: its definition, and the slow twin of `rows`."""
        raise NotImplementedError

    def permuted(self, order: Sequence[int]) -> Shape:
        """The shape with its dimensions in another order."""
        raise NotImplementedError

    def parts(self, ndim: int) -> tuple[Shape, ...]:
        """Disjoint shapes that make up this one; those without bounds in different dimensions are apart."""
        return (self,)

    # -- what follows from these -----------------------------------------------------------------------

    def check_ndim(self, ndim: int) -> None:
        """Raise if the shape is one of other dimensions."""
        if self.ndim is not None and self.ndim != ndim:
            raise EverfreshError(
                Code.ARGUMENT,
                f"the shape {self} has {self.ndim} dimensions, and {ndim} are needed",
                hint="a shape has the dimensions of the right array",
            )

    def is_bounded(self, ndim: int) -> bool:
        """Whether it has finitely many offsets."""
        return all(lo is not None and hi is not None for lo, hi in self.bounds(ndim))

    def box(self, ndim: int) -> tuple[tuple[int, int], ...]:
        """The least and the greatest offset in each dimension; raises where there is no bound."""
        self.check_ndim(ndim)
        found = []
        for lo, hi in self.bounds(ndim):
            if lo is None or hi is None:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"the shape {self} has no bound",
                    hint="intersect it with a cuboid such as [-100:100, -100:100]",
                )
            found.append((lo, hi))
        return tuple(found)

    def rows(self, ndim: int, last: int | None = None) -> Rows:
        """The row intervals along dimension `last`, the last one unless given.

        >>> from everfresh.arrays.shape import L1
        >>> rows = L1(1).rows(2)
        >>> rows.prefix.tolist(), rows.lo.tolist(), rows.hi.tolist()
        ([[-1, 0, 1]], [0, -1, 0], [0, 1, 0])
        """
        self.check_ndim(ndim)
        at = ndim - 1 if last is None else last
        others = [k for k in range(ndim) if k != at]
        shape = self if at == ndim - 1 else self.permuted([*others, at])
        box = shape.box(ndim)
        if math.prod(max(0, hi - lo + 1) for lo, hi in box[:-1]) > _MOST_ROWS:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"the shape {self} has more than {_MOST_ROWS} rows",
                hint="use a smaller one, or coarser cells",
            )
        found = [
            (*prefix, lo, hi)
            for prefix in product(*(range(lo, hi + 1) for lo, hi in box[:-1]))
            for lo, hi in shape.runs(prefix)
        ]
        table = np.array(found, np.int64).reshape(-1, ndim + 1).T
        return Rows(np.ascontiguousarray(table[:-2]), table[-2].copy(), table[-1].copy(), at)

    def offsets(self, ndim: int) -> Ints:
        """All offsets in row-major order, one per column."""
        rows = self.rows(ndim)
        lengths = rows.hi - rows.lo + 1
        starts = np.cumsum(lengths) - lengths
        last = np.arange(int(lengths.sum())) - np.repeat(starts - rows.lo, lengths)
        return np.vstack([np.repeat(rows.prefix, lengths, axis=1), last])

    def cells(self, ndim: int) -> int:
        """How many offsets there are."""
        return self.rows(ndim).cells

    def without_center(self) -> Shape:
        """The shape without the offset 0."""
        from everfresh.arrays.shape.combined import WithoutCenter

        return WithoutCenter(self)

    def with_center(self) -> Shape:
        """The shape and the offset 0."""
        from everfresh.arrays.shape.combined import WithCenter

        return WithCenter(self)

    def __or__(self, other: Shape) -> Shape:
        from everfresh.arrays.shape.combined import Union

        return Union(self, other)

    def __sub__(self, other: Shape) -> Shape:
        from everfresh.arrays.shape.combined import Difference

        return Difference(self, other)

    def __and__(self, other: Shape) -> Shape:
        from everfresh.arrays.shape.combined import Intersection

        return Intersection(self, other)

    def __str__(self) -> str:
        from everfresh.arrays.shape.text import text_of

        return text_of(self)

    def svg(self, ndim: int = 2) -> str:
        """The shape as a picture; of more than two dimensions, one panel for each offset in the first."""
        from everfresh.arrays.shape.picture import svg_of

        return svg_of(self, ndim)

    def plot(self, ndim: int = 2, axes: Any = None) -> Any:
        """The shape drawn by matplotlib, on `axes` if given; returns the axes."""
        from everfresh.arrays.shape.picture import plot

        return plot(self, ndim, axes)


# -- runs --------------------------------------------------------------------------------------------------


def merged(runs: Iterable[tuple[int, int]]) -> Runs:
    """Ranges as disjoint ones, as long as can be.

    >>> merged([(3, 5), (0, 1), (2, 2), (9, 9)])
    ((0, 5), (9, 9))
    """
    found: list[tuple[int, int]] = []
    for lo, hi in sorted(runs):
        if found and lo <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], hi))
        else:
            found.append((lo, hi))
    return tuple(found)


def minus(runs: Runs, less: Runs) -> Runs:
    """The ranges without what is in others.

    >>> minus(((0, 9),), ((2, 3), (9, 12)))
    ((0, 1), (4, 8))
    """
    found: list[tuple[int, int]] = []
    for lo, hi in runs:
        at = lo
        for a, b in less:
            if b < at or a > hi:
                continue
            if a > at:
                found.append((at, a - 1))
            at = b + 1
        if at <= hi:
            found.append((at, hi))
    return tuple(found)
