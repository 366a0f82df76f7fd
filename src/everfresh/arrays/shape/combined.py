"""Unions, differences and intersections of shapes; shapes with and without their centre."""

from __future__ import annotations

from collections.abc import Sequence

from everfresh.arrays.shape.base import FAR, Bools, Bounds, Ints, Runs, Shape, merged, minus
from everfresh.arrays.shape.norms import L0
from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import node


def _common(a: int | None, b: int | None) -> int | None:
    return a if b is None else b


@node
class _Pair(Shape):
    left: Shape
    right: Shape

    def check(self) -> None:
        """As in `Node`."""
        a, b = self.left.ndim, self.right.ndim
        if a is not None and b is not None and a != b:
            raise EverfreshError(
                Code.ARGUMENT,
                f"{self.left} has {a} dimensions, {self.right} has {b}",
                hint="only shapes of equal dimensions are combined",
            )

    @property
    def ndim(self) -> int | None:
        """As in `Shape`."""
        return _common(self.left.ndim, self.right.ndim)

    def permuted(self, order: Sequence[int]) -> Shape:
        """As in `Shape`."""
        return type(self)(self.left.permuted(order), self.right.permuted(order))


@node
class Union(_Pair):
    """What is in one of two shapes, or in both."""

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        pairs = zip(self.left.bounds(ndim), self.right.bounds(ndim), strict=True)
        return tuple(
            (None, None) if a is None or b is None or c is None or d is None else (min(a, c), max(b, d))
            for (a, b), (c, d) in pairs
        )

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        return merged([*self.left.runs(prefix), *self.right.runs(prefix)])

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = self.left.contains(offsets) | self.right.contains(offsets)
        return found

    def parts(self, ndim: int) -> tuple[Shape, ...]:
        """As in `Shape`."""
        if self.is_bounded(ndim):
            return (self,)
        rest = tuple(Difference(part, self.left) for part in self.right.parts(ndim))
        return self.left.parts(ndim) + rest


@node
class Difference(_Pair):
    """What is in the first of two shapes and not in the second."""

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return self.left.bounds(ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        return minus(self.left.runs(prefix), self.right.runs(prefix))

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = self.left.contains(offsets) & ~self.right.contains(offsets)
        return found

    def parts(self, ndim: int) -> tuple[Shape, ...]:
        """As in `Shape`."""
        return _each(self, ndim)


@node
class Intersection(_Pair):
    """What is in both of two shapes."""

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        pairs = zip(self.left.bounds(ndim), self.right.bounds(ndim), strict=True)
        found: list[tuple[int | None, int | None]] = []
        for (a, b), (c, d) in pairs:
            if a is None or b is None:
                found.append((c, d))
            elif c is None or d is None:
                found.append((a, b))
            else:
                found.append((max(a, c), min(b, d)))
        return tuple(found)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        right = self.right.runs(prefix)
        return minus(self.left.runs(prefix), minus(((-FAR, FAR),), right))

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        found: Bools = self.left.contains(offsets) & self.right.contains(offsets)
        return found

    def parts(self, ndim: int) -> tuple[Shape, ...]:
        """As in `Shape`."""
        return _each(self, ndim)


def _each(shape: Difference | Intersection, ndim: int) -> tuple[Shape, ...]:
    if shape.is_bounded(ndim):
        return (shape,)
    return tuple(type(shape)(part, shape.right) for part in shape.left.parts(ndim))


@node
class _Centered(Shape):
    of: Shape

    @property
    def ndim(self) -> int | None:
        """As in `Shape`."""
        return self.of.ndim

    @property
    def plain(self) -> Shape:
        """The same by union or difference."""
        raise NotImplementedError

    def bounds(self, ndim: int) -> Bounds:
        """As in `Shape`."""
        return self.plain.bounds(ndim)

    def runs(self, prefix: tuple[int, ...]) -> Runs:
        """As in `Shape`."""
        return self.plain.runs(prefix)

    def contains(self, offsets: Ints) -> Bools:
        """As in `Shape`."""
        return self.plain.contains(offsets)

    def parts(self, ndim: int) -> tuple[Shape, ...]:
        """As in `Shape`."""
        return (self,) if self.is_bounded(ndim) else self.plain.parts(ndim)

    def permuted(self, order: Sequence[int]) -> Shape:
        """As in `Shape`."""
        return type(self)(self.of.permuted(order))


@node
class WithoutCenter(_Centered):
    """A shape without the offset 0."""

    @property
    def plain(self) -> Shape:
        """As in `_Centered`."""
        return Difference(self.of, L0())


@node
class WithCenter(_Centered):
    """A shape and the offset 0."""

    @property
    def plain(self) -> Shape:
        """As in `_Centered`."""
        return Union(self.of, L0())
