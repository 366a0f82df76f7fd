"""Catalogs like those of the Palomar Transient Factory: what a survey telescope sees, night by night.

The setting of the paper on similarity joins (section 5): dimensions time, ra and dec, chunks of (112, 100,
50), density below one in a million, and heavy skew around what the telescope points at. Time is the number of
the exposure; 112 exposures are about a night, so one chunk of time is one night. A night sees some fields of
the sky, most of them again the night after; season and place decide which, weather takes some. Cells of
different nights meet, since part of them are the same stars with a jitter of a cell.

Invariant: the same seed gives the same nights, whatever nights are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from everfresh.errors import Code, EverfreshError

Ints = npt.NDArray[np.int64]

DIMENSIONS = ("time", "ra", "dec")
START = (1, 1, 1)
LENGTH = (112, 100, 50)
"""Indices of a chunk; a cell is 12.96 arcseconds wide in ra and dec."""
SKY = (1000, 1000)
"""Chunks of the sky in ra and dec: 100,000 by 50,000 cells."""

FIELDS, STARS, STAR_SHARE = 400, 200, 0.3


@dataclass(frozen=True, eq=False)
class Chunks:
    """What a catalog says of its chunks: their places, tight boxes and cells, in row-major order."""

    coords: Ints
    lo: Ints
    hi: Ints
    cells: Ints

    def __len__(self) -> int:
        return len(self.cells)


def chunks(nights: int, *, first: int = 0, seed: int = 1, scale: float = 1.0, heavy: bool = False) -> Chunks:
    """The chunks of `nights` nights from night `first` on, about 110 a night, without making their cells.

    `scale` multiplies the cells; `heavy` lets single chunks have some thousand times the cells of others.
    Boxes are drawn as the least and greatest of as many uniform positions as the chunk has cells.

    >>> some = chunks(3)
    >>> some.coords.shape == (len(some), 3), bool((some.lo <= some.hi).all())
    (True, True)
    """
    coords, cells = _seen(nights, first, seed, scale, heavy)
    random = np.random.default_rng((seed, first, 1))
    length, start = np.array(LENGTH), np.array(START)
    least = 1 - random.random(coords.shape) ** (1 / cells[:, None])
    rest = 1 - random.random(coords.shape) ** (1 / np.maximum(cells[:, None] - 1, 1))
    most = np.where(cells[:, None] == 1, least, 1 - (1 - least) * rest)
    corner = coords * length + start
    lo = corner + np.floor(least * length).astype(np.int64)
    hi = corner + np.minimum(np.floor(most * length), length - 1).astype(np.int64)
    return Chunks(coords, lo, np.maximum(lo, hi), cells)


def cells(
    nights: int, *, first: int = 0, seed: int = 1, scale: float = 1.0, heavy: bool = False
) -> dict[str, npt.NDArray[np.generic]]:
    """The cells of these nights: columns `time`, `ra`, `dec` (integers) and `mag`, chunk by chunk.

    >>> some = cells(2, scale=0.01)
    >>> sorted(some), len(some["ra"]) == len(some["mag"])
    (['dec', 'mag', 'ra', 'time'], True)
    """
    coords, count = _seen(nights, first, seed, scale, heavy)
    random = np.random.default_rng((seed, first, 2))
    total = int(count.sum())
    inside = [random.integers(0, length, total) for length in LENGTH]
    star = np.flatnonzero(random.random(total) < STAR_SHARE)
    sky = np.repeat(coords[:, 1] * SKY[1] + coords[:, 2], count)[star]
    which = _mix(sky * STARS + random.integers(0, STARS, len(star)), seed)
    for d, draw in ((1, which >> np.uint64(33)), (2, which & np.uint64(0x7FFFFFFF))):
        at = (draw % np.uint64(LENGTH[d])).astype(np.int64) + random.integers(0, 2, len(star))
        inside[d][star] = np.minimum(at, LENGTH[d] - 1)
    found: dict[str, npt.NDArray[np.generic]] = {
        name: np.repeat(coords[:, d] * LENGTH[d] + START[d], count) + inside[d]
        for d, name in enumerate(DIMENSIONS)
    }
    found["mag"] = random.normal(19.0, 1.5, total).astype(np.float32)
    return found


def _seen(nights: int, first: int, seed: int, scale: float, heavy: bool) -> tuple[Ints, Ints]:
    """Chunks with cells, in row-major order, and how many cells each has."""
    if nights < 1 or first < 0 or not scale > 0:
        raise EverfreshError(
            Code.ARGUMENT, "a catalog has at least one night and a scale above 0", place="nights, scale"
        )
    random = np.random.default_rng((seed, 0))
    dec = np.clip(random.normal(33, 12, FIELDS), -25, 80)
    ra = random.uniform(0, 360, FIELDS)
    bright = random.lognormal(0, 1, FIELDS)
    wide = random.integers(3, 5, FIELDS)
    places, weights = [], []
    for night, fields in zip(range(first + nights), _pointing(ra, dec, seed), strict=False):
        if night < first:
            continue
        draw = np.random.default_rng((seed, night, 3))
        for field in fields.tolist():
            across = (int(ra[field] / 360 * SKY[0]) + np.arange(wide[field])) % SKY[0]
            up = np.minimum(int((dec[field] + 90) / 180 * SKY[1]) + np.arange(4), SKY[1] - 1)
            grid = np.array(np.meshgrid([night], across, up, indexing="ij")).reshape(3, -1).T
            places.append(grid)
            spread = draw.lognormal(0, 0.8, len(grid)) * (draw.lognormal(0, 1.5, len(grid)) if heavy else 1.0)
            weights.append(300 * scale * bright[field] * spread)
    if not places:
        return np.empty((0, 3), np.int64), np.empty(0, np.int64)
    coords, which = np.unique(np.concatenate(places), axis=0, return_inverse=True)
    count = np.bincount(which.ravel(), np.concatenate(weights))
    return coords.astype(np.int64), np.maximum(np.rint(count), 1).astype(np.int64)


def _pointing(
    ra: npt.NDArray[np.float64], dec: npt.NDArray[np.float64], seed: int
) -> Iterator[npt.NDArray[np.int64]]:
    """The fields of each night, from night 0 on."""
    before = np.empty(0, np.int64)
    night = 0
    while True:
        random = np.random.default_rng((seed, night, 4))
        count = min(int(random.poisson(9)), len(ra))
        kept = before[random.random(len(before)) < 0.6][:count]
        away = np.abs((ra - night + 180) % 360 - 180)
        weight = np.exp(-((away / 40) ** 2) - ((dec - 33) / 15) ** 2)
        weight[kept] = 0
        new = random.choice(len(ra), count - len(kept), replace=False, p=weight / weight.sum())
        before = np.concatenate([kept, new]).astype(np.int64)
        clear = random.random() >= 0.15
        yield before if clear else before[: (len(before) + 3) // 4]
        night += 1


def _mix(values: Ints, seed: int) -> npt.NDArray[np.uint64]:
    """A 64-bit hash: where a star stands, the same every night."""
    with np.errstate(over="ignore"):
        key = values.astype(np.uint64) + np.uint64(seed + 1) * np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
