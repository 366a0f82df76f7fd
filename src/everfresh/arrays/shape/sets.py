"""Cuboids, rings, ellipses, and sets of offsets one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from everfresh.arrays.shape.base import FAR, SLACK, Bools, Bounds, Ints, Rows, Runs, Shape, minus
from everfresh.arrays.shape.norms import L2, Symmetric, check_distance, square
from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import node


@node
class Cuboid(Shape):
    """A range of offsets in each dimension, both ends included; (None, None) is any offset.

    >>> print(Cuboid(((-3, 3), (-3, 3), (-60, -1))))
    [-3:3, -3:3, -60:-1]
    """

    ranges: Bounds

    def check(self) -> None:
        """As in `Node`."""
        for lo, hi in self.ranges:
            if (lo is None) != (hi is None) or (lo is not None and hi is not None and lo > hi):
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"no offset is in {lo}:{hi}",
                    hint="write first:last, or * for any offset",
                )
        if not self.ranges:
            raise EverfreshError(Code.ARGUMENT, "a cuboid needs a range for each dimension", hint="[-1:1]")

    @property
    def ndim(self) -> int:
        """As in `Shape`."""
        return len(self.ranges)

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return self.ranges

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        for s, (lo, hi) in zip(prefix, self.ranges, strict=False):
            if lo is not None and hi is not None and not lo <= s <= hi:
                return ()
        lo, hi = self.ranges[-1]
        return ((-FAR if lo is None else lo, FAR if hi is None else hi),)

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found = np.ones(offsets.shape[1], np.bool_)
        for row, (lo, hi) in zip(offsets, self.ranges, strict=True):
            if lo is not None:
                found &= (lo <= row) & (row <= hi)
        return found

    def permuted(self, order: Sequence[int]) -> Shape:
        """As in `Shape`."""
        return Cuboid(tuple(self.ranges[k] for k in order))


@node
class Ring(Symmetric):
    """The Euclidean distance is at least `inner` and at most `outer`."""

    inner: float
    outer: float

    def check(self) -> None:
        """As in `Node`."""
        check_distance("RING", self.inner)
        check_distance("RING", self.outer)
        if self.inner > self.outer:
            raise EverfreshError(
                Code.ARGUMENT,
                f"RING({self.inner}, {self.outer}) is empty",
                hint="the inner radius comes first",
            )

    @property
    def _least(self) -> int:
        return math.ceil(Fraction(self.inner) ** 2 * Fraction(1 - SLACK))

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return L2(self.outer).bounds(ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        whole = L2(self.outer).runs(prefix)
        hole = self._least - 1 - sum(s * s for s in prefix)
        if not whole or hole < 0:
            return whole
        reach = math.isqrt(hole)
        return minus(whole, ((-reach, reach),))

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        squares = (offsets * offsets).sum(axis=0)
        found: Bools = (squares >= self._least) & (squares <= square(self.outer))
        return found


@node
class Ellipse(Shape):
    """The ellipse with these half axes, one per dimension."""

    axes: tuple[float, ...]

    def check(self) -> None:
        """As in `Node`."""
        for axis in self.axes:
            check_distance("ELLIPSE", axis)
        if not self.axes or min(self.axes) <= 0:
            raise EverfreshError(
                Code.ARGUMENT, "an ellipse has a half axis above 0 for each dimension", hint="ELLIPSE(3, 1)"
            )

    @property
    def ndim(self) -> int:
        """As in `Shape`."""
        return len(self.axes)

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        reaches = [math.floor(a * (1 + SLACK)) for a in self.axes]
        return tuple((-reach, reach) for reach in reaches)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        before = 0.0
        for s, axis in zip(prefix, self.axes, strict=False):
            before += (s / axis) * (s / axis)
        axis = self.axes[-1]
        reach = math.ceil(axis * math.sqrt(max(0.0, 1 + SLACK - before)))
        while reach >= 0 and before + (reach / axis) * (reach / axis) > 1 + SLACK:
            reach -= 1
        return ((-reach, reach),) if reach >= 0 else ()

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        total = np.zeros(offsets.shape[1])
        for row, axis in zip(offsets, self.axes, strict=True):
            total += (row / axis) * (row / axis)
        found: Bools = total <= 1 + SLACK
        return found

    def permuted(self, order: Sequence[int]) -> Shape:
        """As in `Shape`."""
        return Ellipse(tuple(self.axes[k] for k in order))


@node
class Offsets(Shape):
    """A set of offsets, in row-major order.

    >>> print(Offsets(((0, 1), (2, 0))), Offsets(((0,), (1,))).cells(1))
    {(0, 1), (2, 0)} 2
    """

    members: tuple[tuple[int, ...], ...]

    def check(self) -> None:
        """As in `Node`."""
        if not self.members or len({len(m) for m in self.members}) != 1 or not self.members[0]:
            raise EverfreshError(
                Code.ARGUMENT,
                "a set of offsets has at least one, and all are of the same dimensions",
                hint="{(0, 1), (2, 0)}",
            )
        if list(self.members) != sorted(set(self.members)):
            raise EverfreshError(
                Code.ARGUMENT, "offsets are given once each, in order", hint="use arrays.offsets([...])"
            )
        rows: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for *prefix, s in self.members:
            runs = rows.setdefault(tuple(prefix), [])
            if runs and runs[-1][1] == s - 1:
                runs[-1] = (runs[-1][0], s)
            else:
                runs.append((s, s))
        object.__setattr__(self, "_runs", rows)

    @property
    def ndim(self) -> int:
        """As in `Shape`."""
        return len(self.members[0])

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return tuple((min(column), max(column)) for column in zip(*self.members, strict=True))

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        return tuple(self._runs.get(prefix, ()))  # type: ignore[attr-defined]

    def rows(self, ndim: int, last: int | None = None) -> Rows:
        """See Shape; only rows that are there are visited."""
        self.check_ndim(ndim)
        at = ndim - 1 if last is None else last
        if at != ndim - 1:
            found = self.permuted([*(k for k in range(ndim) if k != at), at]).rows(ndim)
            return Rows(found.prefix, found.lo, found.hi, at)
        table = [(*p, lo, hi) for p, runs in sorted(self._runs.items()) for lo, hi in runs]  # type: ignore[attr-defined]
        columns = np.array(table, np.int64).reshape(-1, ndim + 1).T
        return Rows(np.ascontiguousarray(columns[:-2]), columns[-2].copy(), columns[-1].copy(), at)

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        known = set(self.members)
        return np.array([tuple(column) in known for column in offsets.T.tolist()], np.bool_)

    def permuted(self, order: Sequence[int]) -> Shape:
        """As in `Shape`."""
        return offsets_of([tuple(m[k] for k in order) for m in self.members])


def offsets_of(members: Iterable[Any]) -> Offsets:
    """The set of these offsets, in whatever order they come; numbers are offsets of one dimension.

    >>> print(offsets_of([(1, 0), (0, 1), (1, 0)]), offsets_of([0, 1]))
    {(0, 1), (1, 0)} {(0), (1)}
    """
    found = {tuple(map(int, m)) if np.ndim(m) else (int(m),) for m in members}
    return Offsets(tuple(sorted(found)))
