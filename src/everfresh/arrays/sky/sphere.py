"""Points on the sphere: unit vectors, zones, and the pairs within a radius.

Candidates come from zones of declination and a window in right ascension of half width
`asin(sin r / cos dec)`, the whole circle where a pole is within the radius; a window over 0/360 is two.
What counts is the exact test: the squared chord between unit vectors is at most 4 sin^2(r/2). An angle from
the dot product would be off by 2 % at 0.01 arcsec, where the chord has all its digits.

Few points are matched by NumPy, so that a first call never waits for Numba; both ways find the same pairs.

Invariant: `neighbors` equals `brute_force`, which tests every pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.errors import Code, EverfreshError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FEW = 4_000_000
"""Up to so many pairs of points NumPy is fast enough, whatever the radius."""
_LEAST = 5 / 3600
"""Zones are at least so high, in degrees."""


@dataclass(frozen=True, eq=False)
class Sky:
    """Points in degrees, right ascension in 0..360, with a row of other numbers for each bound."""

    ra: Floats
    dec: Floats
    bounded: Floats

    @staticmethod
    def of(ra: Any, dec: Any, bounded: Sequence[Any] = (), what: str = "points") -> Sky:
        """Points that are checked."""
        a, d = _writable(ra), _writable(dec)
        if not _plain(a, 0.0, np.nextafter(360.0, 0.0)) or not _plain(d, -90.0, 90.0):
            bad = np.flatnonzero(~np.isfinite(a) | ~(np.abs(d) <= 90.0))
            if len(bad):
                row = int(bad[0])
                name, value = ("ra", a[row]) if not np.isfinite(a[row]) else ("dec", d[row])
                raise EverfreshError(
                    Code.VALUE,
                    f"{name} = {value} is no place on the sky",
                    place=f"{what}, row {row}",
                    hint="coordinates are in degrees, -90 <= dec <= 90; leave out rows without a position",
                )
            a = np.mod(a, 360.0)
            a[a >= 360.0] = 0.0  # the remainder of a tiny negative number
        rows = np.array([np.array(b, np.float64) for b in bounded], np.float64).reshape(len(bounded), len(a))
        return Sky(a, d, rows)

    def __len__(self) -> int:
        return len(self.ra)

    def vectors(self) -> Floats:
        """Unit vectors, a row for each axis."""
        a, d = np.deg2rad(self.ra), np.deg2rad(self.dec)
        cosine = np.cos(d)
        return np.stack([cosine * np.cos(a), cosine * np.sin(a), np.sin(d)])


def _writable(values: Any) -> Floats:
    """Values as compiled loops take them."""
    found = np.ascontiguousarray(values, np.float64)
    return found if found.flags.writeable else found.copy()


def _plain(values: Floats, least: float, most: float) -> bool:
    """Whether all values lie between these; a NaN does not."""
    return not len(values) or bool(values.min() >= least and values.max() <= most)


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Pairs of rows, and their separation in arcseconds."""

    left: Ints
    right: Ints
    separation: Floats


def limit_of(radius: float) -> float:
    """The squared chord of a radius in degrees."""
    return float(4 * np.sin(np.deg2rad(radius) / 2) ** 2)


def separations(chords: Floats) -> Floats:
    """Arcseconds of squared chords."""
    found: Floats = np.rad2deg(2 * np.arcsin(np.minimum(1.0, np.sqrt(chords) / 2))) * 3600
    return found


def neighbors(
    left: Sky, right: Sky, radius: float, bounds: Sequence[tuple[float, float]] = (), best: bool = False
) -> Neighbors:
    """All pairs within a radius in degrees whose bounded numbers differ, right minus left, within `bounds`;
    or of each left point the nearest only, of equal ones that with the lower row. In no certain order.

    >>> found = neighbors(Sky.of([359.9999], [0]), Sky.of([0.0001, 1], [0, 0]), 1 / 3600)
    >>> found.left.tolist(), found.right.tolist(), found.separation.round(6).tolist()
    ([0], [0], [0.72])
    """
    pairs = _candidates(left, right, radius)
    assert pairs is not None
    return _kept(left, right, pairs, radius, bounds, best)


def _candidates(left: Sky, right: Sky, radius: float, most: int | None = None) -> tuple[Ints, Ints] | None:
    """Pairs that may be within the radius; None if there are more than `most`."""
    if len(left) == 0 or len(right) == 0:
        none = np.empty(0, np.int64)
        return none, none
    if len(left) * len(right) <= _FEW:
        return _by_numpy(left, right, radius)
    return _by_kernel(left, right, radius, most)


def _kept(
    left: Sky,
    right: Sky,
    pairs: tuple[Ints, Ints],
    radius: float,
    bounds: Sequence[tuple[float, float]],
    best: bool,
) -> Neighbors:
    found = _tested(left, right, *pairs, limit_of(radius), np.array(bounds).reshape(len(bounds), 2))
    i, j, chords = _nearest(*found) if best else found
    return Neighbors(i, j, separations(chords))


def in_blocks(
    left: Sky,
    right: Sky,
    radius: float,
    bounds: Sequence[tuple[float, float]] = (),
    best: bool = False,
    most: int = 1 << 22,
) -> Iterator[tuple[range, Neighbors]]:
    """`neighbors` of some left rows after the others, with at most `most` candidates at a time if more than
    one row has them; rows of the left side are counted from its beginning."""
    waiting = [range(len(left))] if len(left) else []
    while waiting:
        rows = waiting.pop()
        some = slice(rows.start, rows.stop)
        block = left if len(rows) == len(left) else Sky(left.ra[some], left.dec[some], left.bounded[:, some])
        pairs = _candidates(block, right, radius, most if len(rows) > 1 else None)
        if pairs is None:
            middle = (rows.start + rows.stop) // 2
            waiting += [range(middle, rows.stop), range(rows.start, middle)]
            continue
        found = _kept(block, right, pairs, radius, bounds, best)
        yield rows, Neighbors(found.left + rows.start, found.right, found.separation)


def brute_force(
    left: Sky, right: Sky, radius: float, bounds: Sequence[tuple[float, float]] = ()
) -> Neighbors:
    """The slow twin: every pair is tested."""
    i, j = (axis.ravel() for axis in np.indices((len(left), len(right))))
    i, j, chords = _tested(left, right, i, j, limit_of(radius), np.array(bounds).reshape(len(bounds), 2))
    return Neighbors(i, j, separations(chords))


def _vectors(points: Sky, rows: Ints) -> Floats:
    """The unit vectors of some points: each is computed once where most are asked for."""
    if 2 * len(rows) < len(points):
        return Sky(points.ra[rows], points.dec[rows], points.bounded[:0]).vectors()
    return points.vectors()[:, rows]


def _tested(
    left: Sky, right: Sky, i: Ints, j: Ints, limit: float, bounds: Floats
) -> tuple[Ints, Ints, Floats]:
    """Those of the pairs that are near enough and within the bounds, and their squared chords."""
    step = _vectors(right, j) - _vectors(left, i)
    chords = step[0] * step[0] + step[1] * step[1] + step[2] * step[2]
    keep = chords <= limit
    for k, (least, most) in enumerate(bounds):
        with np.errstate(invalid="ignore"):
            difference = right.bounded[k][j] - left.bounded[k][i]
        keep &= (least <= difference) & (difference <= most)
    return i[keep], j[keep], chords[keep]


def window(dec: Floats, radius: float) -> tuple[float, Floats]:
    """Half the height and half the widths, in degrees, of windows that hold all that is within the radius of
    points at these declinations; the width is 361 where the whole circle is."""
    reach = radius * (1 + 1e-9) + 1e-11
    with np.errstate(invalid="ignore", divide="ignore"):
        width = np.rad2deg(np.arcsin(np.sin(np.deg2rad(radius)) / np.cos(np.deg2rad(dec))))
    whole = ~(np.abs(dec) + radius < 90 - 1e-9) | ~(width < 180)
    return reach, np.where(whole, 361.0, width * (1 + 1e-9) + 1e-11)


def _height(radius: float) -> float:
    return max(radius, _LEAST)


def _by_numpy(left: Sky, right: Sky, radius: float) -> tuple[Ints, Ints]:
    """Candidates, by NumPy."""
    height = _height(radius)
    zones = np.floor((right.dec + 90) / height)
    order = np.lexsort((right.ra, zones))
    keys = zones[order] * 1000 + right.ra[order]
    reach, width = window(left.dec, radius)
    lowest = np.floor((left.dec - reach + 90) / height)
    highest = np.floor((left.dec + reach + 90) / height)
    whole = width >= 361.0
    width = np.where(whole, width, width + 1e-7)  # keys have eight digits behind the point
    rows, begins, ends = [], [], []
    for step in range(int((highest - lowest).max()) + 1):
        zone = lowest + step
        for turn in (-1, 0, 1):
            some = np.flatnonzero((zone <= highest) & (zone >= 0) & (~whole | (turn == 0)))
            least = np.maximum(left.ra[some] + 360 * turn - width[some], -1.0)
            most = np.minimum(left.ra[some] + 360 * turn + width[some], 361.0)
            base = zone[some] * 1000
            begin, end = np.searchsorted(keys, base + least), np.searchsorted(keys, base + most, "right")
            keep = end > begin
            rows.append(some[keep])
            begins.append(begin[keep])
            ends.append(end[keep])
    row, begin, end = (np.concatenate(part) for part in (rows, begins, ends))
    lengths = end - begin
    starts = np.cumsum(lengths) - lengths
    i = np.repeat(row, lengths)
    return i, order[np.arange(int(lengths.sum())) + np.repeat(begin - starts, lengths)]


def _by_kernel(left: Sky, right: Sky, radius: float, most: int | None) -> tuple[Ints, Ints] | None:
    """Candidates, by the compiled loop, unless there are more than `most`; the smaller side is sorted."""
    from everfresh.arrays.kernels import sphere

    turned = len(left) < len(right)
    one, other = (right, left) if turned else (left, right)
    height = _height(radius)
    zones = np.floor((other.dec + 90) / height).astype(np.int64)
    order = np.argsort(other.ra)
    lowest = int(zones.min())
    if int(zones.max()) - lowest < 1 << 16:  # sorted by their digits
        order = order[np.argsort((zones[order] - lowest).astype(np.uint16), kind="stable")]
    else:
        order = order[np.argsort(zones[order], kind="stable")]
    begins = np.searchsorted(zones[order], np.arange(int(180 / height) + 3)).astype(np.int64)
    sorted_ra, sorted_dec = other.ra[order], other.dec[order]
    room = max(len(one), 1024)
    while True:
        found = np.empty((2, room), np.int64)
        count = sphere.candidates.native(
            one.ra, one.dec, begins, sorted_ra, sorted_dec, height, float(radius), found
        )
        if count <= room:
            break
        if most is not None and count > most:
            return None
        room = count
    i, j = found[0, :count], order[found[1, :count]]
    return (j, i) if turned else (i, j)


def _nearest(i: Ints, j: Ints, chords: Floats) -> tuple[Ints, Ints, Floats]:
    """Of each left row the nearest right one, of equal ones that with the lower row."""
    if not len(i):
        return i, j, chords
    single = np.bincount(i)[i] == 1  # most have one partner, and need not be sorted
    alone, others = np.flatnonzero(single), np.flatnonzero(~single)
    order = others[np.lexsort((j[others], chords[others], i[others]))]
    first = np.ones(len(order), np.bool_)
    first[1:] = i[order][1:] != i[order][:-1]
    kept = np.concatenate([alone, order[first]])
    return i[kept], j[kept], chords[kept]
