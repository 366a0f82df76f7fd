"""Query-driven chunking: how the boxes of a file become smaller where queries look (Algorithm 1, `004`).

A piece of a file that a query meets is cut in two along one side of the query, where that leaves the least
volume; once per query and piece. A piece with few cells is left alone if the query has one of them.

What the document leaves open is settled so: a lower bound b cuts into x < b and x >= b, an upper bound b
into x <= b and x > b; a side that leaves no cell on one side cuts nothing; volume counts the cells that a
tight box has room for; of equal volumes the lower dimension counts, then the lower bound. A box that
a query asks for lies on one side of each of its bounds, so its cells stay in one of both pieces.

Cells are looked at in batches, in any order, and not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from everfresh.raw.boxes import Box, Ints, Mask, held, tight


@dataclass(frozen=True, slots=True, order=True)
class Cut:
    """Cells with an index below `first` in a dimension go to one side, the others to the other."""

    dimension: int
    first: int

    def below(self, coords: Ints) -> Mask:
        """Which cells go to the first side."""
        found: Mask = coords[self.dimension] < self.first
        return found


def cuts_of(query: Box) -> tuple[Cut, ...]:
    """The sides of a query, the lower bound of each dimension before the upper one.

    >>> cuts_of(Box((1, 2), (5, 4)))[2:]
    (Cut(dimension=1, first=2), Cut(dimension=1, first=5))
    """
    return tuple(
        cut
        for k, (lo, hi) in enumerate(zip(query.lo, query.hi, strict=True))
        for cut in (Cut(k, lo), Cut(k, hi + 1))
    )


class Side:
    """The cells of one side of a cut: how many, how many of them are asked for, and their tight box."""

    def __init__(self, cells: int = 0, asked: int = 0, box: Box | None = None) -> None:
        self.cells, self.asked, self.box = cells, asked, box

    def add(self, coords: Ints, inside: Mask) -> None:
        """More cells, and which of them are asked for."""
        if coords.shape[1]:
            self.join(Side(coords.shape[1], int(np.count_nonzero(inside)), tight(coords)))

    def join(self, other: Side) -> None:
        """The cells of another side as well."""
        if other.box is not None:
            self.cells += other.cells
            self.asked += other.asked
            self.box = other.box if self.box is None else self.box.hull(other.box)

    def to_row(self, ndim: int) -> list[int]:
        """As numbers."""
        box = [*self.box.lo, *self.box.hi] if self.box is not None else [0] * (2 * ndim)
        return [self.cells, self.asked, *box]

    @staticmethod
    def of_row(row: Sequence[int]) -> Side:
        """The inverse of `to_row`."""
        if not row[0]:
            return Side()
        middle = 2 + (len(row) - 2) // 2
        return Side(row[0], row[1], Box(tuple(row[2:middle]), tuple(row[middle:])))


@dataclass(frozen=True)
class Halves:
    """A cut and what it leaves on both sides."""

    cut: Cut
    below: Side
    above: Side


class Cutting:
    """A piece that a query meets, while its cells go by. A query may ask for several boxes: the sides of all
    of them are tried.

    >>> found = Cutting([Box((3,), (4,))])
    >>> found.add(np.array([[1, 2, 3, 9]]))
    >>> halves = found.halves(min_cells=0)
    >>> halves.cut, halves.below.box, halves.above.box
    (Cut(dimension=0, first=5), Box(lo=(1,), hi=(3,)), Box(lo=(9,), hi=(9,)))
    """

    def __init__(self, query: Sequence[Box], within: Box | None = None, cuts: bool = True) -> None:
        self.query = tuple(query)
        self.whole = Side()
        self._sides = {
            cut: (Side(), Side())
            for cut in dict.fromkeys(cut for box in self.query if cuts for cut in cuts_of(box))
            if within is None or within.lo[cut.dimension] < cut.first <= within.hi[cut.dimension]
        }

    @property
    def cuts(self) -> bool:
        """Whether a side of the query goes through the piece at all."""
        return bool(self._sides)

    @property
    def asked(self) -> int:
        """Cells that the query asks for."""
        return self.whole.asked

    def add(self, coords: Ints) -> None:
        """More cells of the piece, a column each."""
        inside = held(self.query, coords)
        self.whole.add(coords, inside)
        for cut, (below, above) in self._sides.items():
            low = cut.below(coords)
            below.add(coords[:, low], inside[low])
            above.add(coords[:, ~low], inside[~low])

    def told(self, ndim: int) -> Ints:
        """What was found, as numbers: for whoever made the same cutting elsewhere."""
        sides = [self.whole, *(side for both in self._sides.values() for side in both)]
        return np.array([side.to_row(ndim) for side in sides], np.int64)

    def hear(self, told: Ints) -> None:
        """Cells that were looked at elsewhere."""
        sides = [self.whole, *(side for both in self._sides.values() for side in both)]
        for side, row in zip(sides, told.tolist(), strict=True):
            side.join(Side.of_row(row))

    def halves(self, min_cells: int) -> Halves | None:
        """What the piece becomes; None where it stays as it is."""
        if self.whole.cells < min_cells and self.asked:
            return None
        best: Halves | None = None
        least = -1
        for cut, (below, above) in self._sides.items():
            if below.box is None or above.box is None:
                continue
            volume = below.box.volume + above.box.volume
            if best is None or volume < least:
                best, least = Halves(cut, below, above), volume
        return best
