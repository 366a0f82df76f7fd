"""Query-driven chunking: how the boxes of a file become smaller where queries look (Algorithm 1, `004`).

A piece of a file that a query meets is cut in two along one side of the query, where that leaves the least
volume; once per query and piece. A piece with few cells is left alone if the query has one of them.

What the document leaves open is settled so: a lower bound b cuts into x < b and x >= b, an upper bound b
into x <= b and x > b; a side that leaves no cell on one side cuts nothing; volume counts the cells that a
tight box has room for; of equal volumes the lower dimension counts, then the lower bound. A box that
a query asks for lies on one side of each of its bounds, so its cells stay in one of both pieces.

Cells are looked at in batches, in any order, and not kept. They are counted by zones (`kernels.zones`), from
which every side of every cut follows; where a query has so many boxes that there are too many zones, side by
side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from everfresh.raw.boxes import Box, Ints, Mask, held, tight
from everfresh.raw.kernels import zones


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


class Zones:
    """Cells that go by, counted by where they lie beside the sides of boxes that are asked for; a side is the
    first index behind it."""

    MOST = 1 << 12

    def __init__(self, query: Sequence[Box], sides: Sequence[Sequence[int]], within: Box | None) -> None:
        self.ndim = len(sides)
        shape = tuple(len(each) + 1 for each in sides)
        self._sides = np.array([x for each in sides for x in each], np.int64)
        self._starts = np.cumsum([0, *map(len, sides)], dtype=np.int64)
        self._strides = np.array([math.prod(shape[k + 1 :]) for k in range(self.ndim)], np.int64)
        first = [
            within.lo[k] if within is not None else (each[0] - 1 if each else 0)
            for k, each in enumerate(sides)
        ]
        some = [np.array([first[k], *each], np.int64) for k, each in enumerate(sides)]
        self.places: Ints = np.indices(shape).reshape(self.ndim, -1)
        """How many sides of each dimension are at or below the cells of a zone."""
        self._asked = held(
            query, np.array([column[at] for column, at in zip(some, self.places, strict=True)])
        )
        self.tally: Callable[..., int] | None = None
        """What counts in the place of the compiled loop."""
        self._tallies = np.empty((math.prod(shape), 1 + 2 * self.ndim), np.int64)
        self.forget()

    @staticmethod
    def of(query: Sequence[Box], within: Box | None) -> Zones | None:
        """The zones of these boxes in a box; None where there are too many to be worth it."""
        if not query:
            return None
        sides = [
            sorted(
                {
                    side
                    for box in query
                    for side in (box.lo[k], box.hi[k] + 1)
                    if within is None or within.lo[k] < side <= within.hi[k]
                }
            )
            for k in range(len(query[0].lo))
        ]
        return Zones(query, sides, within) if math.prod(len(s) + 1 for s in sides) <= Zones.MOST else None

    def add(self, coords: Ints) -> Mask:
        """More cells; which of them are asked for."""
        found = np.empty(coords.shape[1], np.bool_)
        given = (np.ascontiguousarray(coords), self._sides, self._starts, self._strides, self._asked)
        (self.tally or zones.tally)(*given, self._tallies, found)
        self.news = True
        return found

    def place(self, cut: Cut) -> int:
        """The number of a cut among the sides of its dimension."""
        begin, end = self._starts[cut.dimension : cut.dimension + 2]
        return int(np.searchsorted(self._sides[begin:end], cut.first))

    def tallied(self) -> Iterator[tuple[list[int], Side]]:
        """The zones with cells, by their places, and what they have."""
        for zone in np.flatnonzero(self._tallies[:, 0]).tolist():
            cells, *corners = self._tallies[zone].tolist()
            box = Box(tuple(corners[: self.ndim]), tuple(corners[self.ndim :]))
            yield self.places[:, zone].tolist(), Side(cells, cells if self._asked[zone] else 0, box)

    def forget(self) -> None:
        """Begin anew."""
        limits = np.iinfo(np.int64)
        self._tallies[:, 0] = 0
        self._tallies[:, 1 : 1 + self.ndim] = limits.max
        self._tallies[:, 1 + self.ndim :] = limits.min
        self.news = False


class Cutting:
    """A piece that a query meets, while its cells go by. A query may ask for several boxes: the sides of all
    of them are tried.

    >>> found = Cutting([Box((3,), (4,))])
    >>> found.add(np.array([[1, 2, 3, 9]])).tolist()
    [False, False, True, False]
    >>> halves = found.halves(min_cells=0)
    >>> halves.cut, halves.below.box, halves.above.box
    (Cut(dimension=0, first=5), Box(lo=(1,), hi=(3,)), Box(lo=(9,), hi=(9,)))
    """

    def __init__(self, query: Sequence[Box], within: Box | None = None, cuts: bool = True) -> None:
        self.query = tuple(query)
        self._whole = Side()
        self._sides = {
            cut: (Side(), Side())
            for cut in dict.fromkeys(cut for box in self.query if cuts for cut in cuts_of(box))
            if within is None or within.lo[cut.dimension] < cut.first <= within.hi[cut.dimension]
        }
        self._zones = Zones.of(self.query, within)

    @property
    def cuts(self) -> bool:
        """Whether a side of the query goes through the piece at all."""
        return bool(self._sides)

    @property
    def whole(self) -> Side:
        """All cells."""
        self._settle()
        return self._whole

    @property
    def asked(self) -> int:
        """Cells that the query asks for."""
        return self.whole.asked

    def add(self, coords: Ints) -> Mask:
        """More cells of the piece, a column each; which of them the query asks for."""
        if self._zones is not None:
            return self._zones.add(coords)
        inside = held(self.query, coords)
        self._whole.add(coords, inside)
        for cut, (below, above) in self._sides.items():
            low = cut.below(coords)
            below.add(coords[:, low], inside[low])
            above.add(coords[:, ~low], inside[~low])
        return inside

    def _settle(self) -> None:
        """Tell the sides of what has been counted by zones."""
        if self._zones is None or not self._zones.news:
            return
        places = {cut: self._zones.place(cut) for cut in self._sides}
        for at, found in self._zones.tallied():
            self._whole.join(found)
            for cut, both in self._sides.items():
                both[at[cut.dimension] > places[cut]].join(found)
        self._zones.forget()

    def told(self, ndim: int) -> Ints:
        """What was found, as numbers: for whoever made the same cutting elsewhere."""
        sides = self._all()
        return np.array([side.to_row(ndim) for side in sides], np.int64)

    def hear(self, told: Ints) -> None:
        """Cells that were looked at elsewhere."""
        for side, row in zip(self._all(), told.tolist(), strict=True):
            side.join(Side.of_row(row))

    def _all(self) -> list[Side]:
        return [self.whole, *(side for both in self._sides.values() for side in both)]

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
