"""The sphere cut into parts with about as many points each, for matching one part after the other.

A tree of cuts along declination and right ascension, made from a sample of the points (a k-d tree): where
there are many points the parts are small, so that no part is much larger than another however crowded the
sky. A point is *at home* in one part, and is *near* those that its margin reaches: the parts that overlap its
window of declination and right ascension. A part that holds too many points and is no wider than the margin
cannot be cut with profit: the points of one side are *dealt* to several parts that have the same place.

Invariants: every point is at home in one part, and near that part too. If two points are within the margin of
each other, each is near the other's part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everfresh.arrays.sky.sphere import Sky, window

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
DEC, RA = 0, 1
_WIDE = 8.0
"""A part is cut if both halves stay wider than this many margins."""
_DEPTH = 40
_POLAR = 89.0
"""Beyond this declination windows are too wide to be judged by that of their leaf."""
_MANY = 1 << 14
"""From so many points on the tree is walked by the compiled loop."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The tree: per node the axis and the place of its cut and its two children; axis -1 is a leaf. A leaf
    has `pieces` parts from `first` on, to which the points of side `dealt` (0 left, 1 right) are dealt; `box`
    has the least and greatest declination, then right ascension, of each node."""

    axis: Ints
    cut: Floats
    children: Ints
    first: Ints
    pieces: Ints
    dealt: Ints
    box: Floats

    def __len__(self) -> int:
        return int(self.pieces.sum())

    def homes(self, points: Sky, side: int, numbers: Ints) -> tuple[Ints, Ints]:
        """Rows of points and the parts in which they are at home. Where its side is dealt, a point's number
        says to which part; the points of the other side are in all of them."""
        return self._pieces(self._leaves(points, 0.0)[0], side, numbers)

    def near(self, points: Sky, margin: float, side: int, numbers: Ints) -> tuple[Ints, Ints]:
        """Rows of points and the parts that a margin in degrees around them reaches, each once."""
        rows, parts, _ = self.placed(points, margin, side, numbers)
        return rows, parts

    def placed(self, points: Sky, margin: float, side: int, numbers: Ints) -> tuple[Ints, Ints, Flags]:
        """`near`, and whether each row is at home there."""
        homes, edge = self._leaves(points, margin)
        some = Sky(points.ra[edge], points.dec[edge], points.bounded[:0])
        rows, reached = self._reached(some, margin)
        away = reached != homes[edge][rows]
        row = np.concatenate([np.arange(len(points)), edge[rows[away]]])
        leaf = np.concatenate([homes, reached[away]])
        home = np.arange(len(row)) < len(points)
        which, parts = self._pieces(leaf, side, numbers if len(row) == len(points) else numbers[row])
        return row[which], parts, home[which]

    def _leaves(self, points: Sky, margin: float) -> tuple[Ints, Ints]:
        """The leaf that each point is in, and the points from which the margin may reach another."""
        box, nodes = self._inner(margin), np.zeros(len(points), np.int64)
        if len(points) > _MANY:
            from everfresh.arrays.kernels import sphere

            edge = np.empty(len(points), np.int64)
            tree = self.axis, self.cut, self.children
            count = sphere.leaves.native(points.dec, points.ra, *tree, box, nodes, edge)
            return nodes, edge[:count]
        while True:
            inside = np.flatnonzero(self.axis[nodes] >= 0)
            if not len(inside):
                break
            at = nodes[inside]
            place = np.where(self.axis[at] == DEC, points.dec[inside], points.ra[inside])
            nodes[inside] = self.children[at, (place >= self.cut[at]).astype(np.int64)]
        lo_dec, hi_dec, lo_ra, hi_ra = box[:, nodes]
        inner = (points.dec > lo_dec) & (points.dec < hi_dec) & (points.ra > lo_ra) & (points.ra < hi_ra)
        return nodes, np.flatnonzero(~inner)

    def _inner(self, margin: float) -> Floats:
        """Of each node the box from which the margin does not reach beyond the node."""
        least, most, west, east = self.box
        reach, width = window(np.minimum(np.maximum(np.abs(least), np.abs(most)), _POLAR), margin)
        lo, hi = np.maximum(least + reach, -_POLAR), np.minimum(most - reach, _POLAR)
        whole = (west <= 0) & (east >= 360)
        left, right = np.where(whole, -1.0, west + width), np.where(whole, 361.0, east - width)
        return np.ascontiguousarray(np.stack([lo, hi, left, right]))

    def _reached(self, points: Sky, margin: float) -> tuple[Ints, Ints]:
        """Rows of points and the leaves that a margin around them reaches, each once."""
        rows, lo, hi = _windows(points, margin)
        nodes = np.zeros(len(rows), np.int64)
        done: list[tuple[Ints, Ints]] = []
        while len(rows):
            leaf = self.axis[nodes] < 0
            done.append((rows[leaf], nodes[leaf]))
            rows, lo, hi, nodes = rows[~leaf], lo[:, ~leaf], hi[:, ~leaf], nodes[~leaf]
            axis, cut = self.axis[nodes], self.cut[nodes]
            which = np.arange(len(rows))
            below, above = lo[axis, which] < cut, hi[axis, which] >= cut
            nodes = np.concatenate([self.children[nodes[below], 0], self.children[nodes[above], 1]])
            rows = np.concatenate([rows[below], rows[above]])
            lo = np.concatenate([lo[:, below], lo[:, above]], axis=1)
            hi = np.concatenate([hi[:, below], hi[:, above]], axis=1)
        row = np.concatenate([r for r, _ in done]) if done else np.empty(0, np.int64)
        node = np.concatenate([n for _, n in done]) if done else np.empty(0, np.int64)
        keys = np.unique(row * len(self.axis) + node)  # a window over the seam may reach a part twice
        return keys // len(self.axis), keys % len(self.axis)

    def _pieces(self, leaves: Ints, side: int, numbers: Ints) -> tuple[Ints, Ints]:
        """The parts of points in leaves: which of the points, and the part."""
        if self.pieces.max() <= 1:
            return np.arange(len(leaves)), self.first[leaves]
        pieces = self.pieces[leaves]
        dealt = (self.dealt[leaves] == side) | (pieces == 1)
        some, where = np.flatnonzero(dealt), leaves[dealt]
        mine = self.first[where] + _mixed(numbers[some]) % self.pieces[where]
        others, nodes, pieces = np.flatnonzero(~dealt), leaves[~dealt], pieces[~dealt]
        starts = np.cumsum(pieces) - pieces
        each = np.arange(int(pieces.sum())) - np.repeat(starts, pieces) + np.repeat(self.first[nodes], pieces)
        return np.concatenate([some, np.repeat(others, pieces)]), np.concatenate([mine, each])


def cut(
    samples: tuple[Sky, Sky],
    weights: tuple[Floats, Floats],
    target: float,
    margin: float,
    dealt: tuple[int, ...] = (0,),
) -> Parts:
    """Parts with about `target` points of both sides together. `dealt` are the sides whose points may be
    dealt where a part cannot be cut; the one with more points is.

    >>> sky = Sky.of(np.linspace(0, 359, 1000), np.linspace(-80, 80, 1000))
    >>> ones = np.ones(1000)
    >>> len(cut((sky, sky), (ones, ones), 600, 0.001))
    4
    """
    dec = np.concatenate([sky.dec for sky in samples])
    ra = np.concatenate([sky.ra for sky in samples])
    side = np.repeat(np.arange(2), [len(sky) for sky in samples])
    weight = np.concatenate(weights)
    grown = _Growing(np.stack([dec, ra]), side, weight, target, margin, dealt)
    grown.grow(np.arange(len(dec)), np.array([-90.0, 0.0]), np.array([90.0, 360.0]), 0)
    nodes = grown.nodes
    many = np.array([node.pieces for node in nodes], np.int64)
    return Parts(
        np.array([node.axis for node in nodes], np.int64),
        np.array([node.cut for node in nodes], np.float64),
        np.array([node.children for node in nodes], np.int64),
        np.cumsum(many) - many,
        many,
        np.array([node.dealt for node in nodes], np.int64),
        np.array([node.box for node in nodes], np.float64).T,
    )


@dataclass(slots=True)
class _Node:
    axis: int = -1
    cut: float = 0.0
    children: tuple[int, int] = (0, 0)
    pieces: int = 0
    dealt: int = 0
    box: tuple[float, ...] = (-90.0, 90.0, 0.0, 360.0)


class _Growing:
    """The tree while it is made."""

    def __init__(
        self, places: Floats, side: Ints, weight: Floats, target: float, margin: float, dealt: tuple[int, ...]
    ) -> None:
        self.places, self.side, self.weight = places, side, weight
        self.target, self.margin, self.dealt = max(target, 1.0), margin, dealt
        self.nodes: list[_Node] = []

    def grow(self, rows: Ints, lo: Floats, hi: Floats, depth: int) -> int:
        """Make the node of these sample points in this box; its number."""
        number = len(self.nodes)
        node = _Node(box=(lo[DEC], hi[DEC], lo[RA], hi[RA]))
        self.nodes.append(node)
        total = float(self.weight[rows].sum())
        found = self._cut(rows, lo, hi) if total > self.target and depth < _DEPTH else None
        if found is None:
            node.pieces = 1
            if total > 2 * self.target and self.dealt:
                mine = [float(self.weight[rows][self.side[rows] == side].sum()) for side in (0, 1)]
                node.dealt = max(self.dealt, key=lambda side: mine[side])
                node.pieces = max(1, int(np.ceil(mine[node.dealt] / self.target)))
            return number
        node.axis, node.cut = found
        below = self.places[node.axis][rows] < node.cut
        middle_lo, middle_hi = lo.copy(), hi.copy()
        middle_hi[node.axis] = middle_lo[node.axis] = node.cut
        left = self.grow(rows[below], lo, middle_hi, depth + 1)
        node.children = left, self.grow(rows[~below], middle_lo, hi, depth + 1)
        return number

    def _cut(self, rows: Ints, lo: Floats, hi: Floats) -> tuple[int, float] | None:
        """Where a box is cut: at the middle of its points, along its longer side; None if that cannot be."""
        nearest = 0.0 if lo[DEC] <= 0 <= hi[DEC] else min(abs(lo[DEC]), abs(hi[DEC]))
        scale = (1.0, float(np.cos(np.deg2rad(nearest))))
        sides = [(float(hi[k] - lo[k]) * scale[k], k) for k in (DEC, RA)]
        for _, axis in sorted(sides, reverse=True):
            place = _middle(self.places[axis][rows], self.weight[rows])
            least = _WIDE * self.margin
            widths = min(place - lo[axis], hi[axis] - place) * scale[axis] if place is not None else -1.0
            if place is not None and widths > least:
                return axis, place
        return None


def _middle(values: Floats, weights: Floats) -> float | None:
    """A cut with about half of the weight on each side; None if all values are the same."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    if not len(ordered) or ordered[0] == ordered[-1]:
        return None
    place = float(ordered[np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)])
    return place if place > ordered[0] else float(ordered[np.searchsorted(ordered, place, "right")])


def _windows(points: Sky, margin: float) -> tuple[Ints, Floats, Floats]:
    """Rows, and the least and greatest declination and right ascension of windows around them: one for most
    points, two for those whose window goes over the seam."""
    reach, width = window(points.dec, margin)
    rows = np.arange(len(points))
    found = [(rows, points.ra - width, points.ra + width)]
    for turn in (-360.0, 360.0):
        beyond = (points.ra - width < 0) if turn > 0 else (points.ra + width >= 360)
        over = np.flatnonzero(beyond & (width < 361))
        found.append((over, points.ra[over] + turn - width[over], points.ra[over] + turn + width[over]))
    row = np.concatenate([r for r, _, _ in found])
    lo = np.stack([points.dec[row] - reach, np.concatenate([low for _, low, _ in found])])
    hi = np.stack([points.dec[row] + reach, np.concatenate([high for _, _, high in found])])
    return row, lo, hi


def _mixed(numbers: Ints) -> Ints:
    """Numbers whose remainders look random."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    found: Ints = (mixed >> np.uint64(33)).astype(np.int64)
    return found
