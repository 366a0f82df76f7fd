"""Balls of distances: shapes for any number of dimensions, but for `Differs`, which is a part of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np

from everfresh.arrays.shape.base import FAR, SLACK, Bools, Bounds, Ints, Runs, Shape
from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import node


def _same(lo: int | None, hi: int | None, ndim: int) -> Bounds:
    return ((lo, hi),) * ndim


class Symmetric(Shape):
    """A shape that is the same in every order of its dimensions."""

    def permuted(self, order: Sequence[int]) -> Shape:
        """Itself."""
        return self


def check_distance(name: str, value: float) -> None:
    """Raise unless it is a distance."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 40:
        raise EverfreshError(
            Code.ARGUMENT, f"{name}({value}) has no distance", hint="a distance is a number from 0 on"
        )


@node
class L0(Symmetric):
    """The centre alone."""

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return _same(0, 0, ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        return () if any(prefix) else ((0, 0),)

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = np.logical_and.reduce(offsets == 0, axis=0)
        return found


@node
class L1(Symmetric):
    """The sum of the distances in all dimensions is at most e."""

    e: float

    def check(self) -> None:
        """As in `Node`."""
        check_distance("L1", self.e)

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return _same(-int(self.e), int(self.e), ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        left = int(self.e) - sum(map(abs, prefix))
        return ((-left, left),) if left >= 0 else ()

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = np.abs(offsets).sum(axis=0) <= self.e
        return found


@node
class L2(Symmetric):
    """The Euclidean distance is at most e."""

    e: float

    def check(self) -> None:
        """As in `Node`."""
        check_distance("L2", self.e)

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        reach = math.isqrt(square(self.e))
        return _same(-reach, reach, ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        left = square(self.e) - sum(s * s for s in prefix)
        if left < 0:
            return ()
        reach = math.isqrt(left)
        return ((-reach, reach),)

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = (offsets * offsets).sum(axis=0) <= square(self.e)
        return found


def square(distance: float) -> int:
    """The greatest sum of squares within a distance."""
    return math.floor(Fraction(distance) ** 2 * Fraction(1 + SLACK))


@node
class Linf(Symmetric):
    """The distance in every dimension is at most e."""

    e: float

    def check(self) -> None:
        """As in `Node`."""
        check_distance("LINF", self.e)

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return _same(-int(self.e), int(self.e), ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        return ((-int(self.e), int(self.e)),) if all(abs(s) <= self.e for s in prefix) else ()

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = np.logical_and.reduce(np.abs(offsets) <= self.e, axis=0)
        return found


@node
class TVD(L1):
    """Half of the L1 distance is at most e."""

    def check(self) -> None:
        """As in `Node`."""
        check_distance("TVD", self.e)

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return L1(int(2 * self.e)).bounds(ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        return L1(int(2 * self.e)).runs(prefix)

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        return L1(int(2 * self.e)).contains(offsets)


@node
class Hamming(Symmetric):
    """At most e dimensions differ."""

    e: int

    def check(self) -> None:
        """As in `Node`."""
        check_distance("HAMMING", self.e)
        if self.e != int(self.e):
            raise EverfreshError(
                Code.ARGUMENT, f"HAMMING({self.e}) counts dimensions", hint="write a whole number"
            )

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return _same(None, None, ndim) if self.e else _same(0, 0, ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        free = self.e - sum(1 for s in prefix if s)
        return () if free < 0 else ((-FAR, FAR),) if free else ((0, 0),)

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = (offsets != 0).sum(axis=0) <= self.e
        return found

    def parts(self, ndim: int) -> tuple[Shape, ...]:
        """One for each set of dimensions that differ."""
        sizes = range(min(int(self.e), ndim) + 1)
        sets = (set(chosen) for size in sizes for chosen in combinations(range(ndim), size))
        return tuple(Differs(tuple(k in chosen for k in range(ndim))) for chosen in sets)


@node
class Differs(Shape):
    """Exactly some dimensions differ: a part of Hamming."""

    which: tuple[bool, ...]

    @property
    def ndim(self) -> int:
        """As in `Shape`."""
        return len(self.which)

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return tuple((None, None) if differs else (0, 0) for differs in self.which)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        if any(bool(s) != differs for s, differs in zip(prefix, self.which, strict=False)):
            return ()
        return ((-FAR, -1), (1, FAR)) if self.which[-1] else ((0, 0),)

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = ((offsets != 0) == np.array(self.which)[:, None]).all(axis=0)
        return found

    def permuted(self, order: Sequence[int]) -> Shape:
        """As in `Shape`."""
        return Differs(tuple(self.which[k] for k in order))


@node
class EMD(Shape):
    """The earth mover's distance is at most e: earlier dimensions weigh more."""

    e: float

    def check(self) -> None:
        """As in `Node`."""
        check_distance("EMD", self.e)

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return _same(-int(self.e), int(self.e), ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        left, carried = int(self.e), 0
        for s in prefix:
            carried += s
            left -= abs(carried)
        return ((-carried - left, -carried + left),) if left >= 0 else ()

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = np.abs(np.cumsum(offsets, axis=0)).sum(axis=0) <= self.e
        return found

    def permuted(self, order: Sequence[int]) -> Shape:
        """As in `Shape`."""
        from everfresh.arrays.shape.sets import offsets_of

        return offsets_of(self.offsets(len(order))[list(order)].T)
