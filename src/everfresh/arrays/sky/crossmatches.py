"""Crossmatch: which sources of two catalogs are the same place on the sky. No database, no set-up.

A similarity join of points on the sphere (the paper on similarity joins, section 1, its first use): exact to
the last digit of the separation, with the poles and the seam at 0/360 inside, and with windows on any other
column, which may lie to one side only. `pairs_of` is the core that works on any two parts of catalogs.

Invariant: the rows of the result are those of an exact great-circle join, in the order of the left rows, then
of the separation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from everfresh.arrays.sky.sources import Points, column_of, common_base, read_points, write_table
from everfresh.arrays.sky.sphere import Neighbors, Sky, neighbors
from everfresh.errors import Code, EverfreshError

How = Literal["inner", "left", "anti", "outer"]
Find = Literal["all", "best"]
Name = str | tuple[str, str]
Within = Mapping[Name, tuple[float | None, float | None]]
SIDES = ("left", "right")


@dataclass(frozen=True)
class Asked:
    """What is asked for, checked: the radius in arcseconds, bounds by the names of columns, and the names of
    the coordinates."""

    radius: float
    how: How
    find: Find
    limits: Mapping[Name, tuple[float, float]]
    coordinates: tuple[Name, Name]

    def names(self, side: int) -> list[str]:
        """The columns of a side that are needed: right ascension, declination, and those with bounds."""
        return [name if isinstance(name, str) else name[side] for name in (*self.coordinates, *self.limits)]

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """The bounds, in the order of the names."""
        return list(self.limits.values())


def is_frame(data: Any) -> bool:
    """Whether something is a DataFrame of Spark."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "mapInArrow")


def shown_as(name: str, side: int, others: Sequence[str], taken: Sequence[str]) -> str:
    """What a column is called in the result."""
    return f"{name}_{SIDES[side]}" if name in others or name in taken else name


def crossmatch(
    left: Any,
    right: Any,
    radius_arcsec: float = 1.0,
    *,
    how: How = "inner",
    find: Find = "all",
    within: Within | None = None,
    ra: Name = "ra",
    dec: Name = "dec",
    left_columns: Sequence[str] | None = None,
    right_columns: Sequence[str] | None = None,
    spark: Any = None,
    into: str | os.PathLike[str] | None = None,
) -> Any:
    """Pairs of rows of two catalogs within a radius, as an Arrow table; as a Spark DataFrame if a side is
    one, or if a session is given as `spark`. With `into`, the name of a folder that is new or empty, they are
    written there as Parquet files, by Spark's tasks themselves, and the call returns how many there are.

    The result has `left_row`, `right_row` (counted from 0), `separation` in arcseconds, then the chosen
    columns; a name on both sides gets `_left` and `_right` behind it. Rows of Spark have no number: there the
    result has `separation` and the chosen columns, all columns of a side where none are chosen.

    - `how`: "inner" pairs only; "left" also left rows without a partner; "outer" those of both sides; "anti"
      only left rows without a partner. What is missing is NULL.
    - `find`: "all" pairs, or for each left row the "best", which is the nearest.
    - `within`: bounds on right minus left of other numeric columns, both included, None for no bound. A row
      where the column is NULL has no partner.
    - `ra`, `dec` (degrees) and the names in `within`: one name, or a pair (left, right).

    >>> stars = {"ra": [10.0, 359.9999], "dec": [20.0, -5.0], "name": ["a", "b"]}
    >>> seen = {"ra": [0.0001, 10.0002], "dec": [-5.0, 20.0], "mjd": [59000.0, 59010.0]}
    >>> found = crossmatch(stars, seen, 2, left_columns=["name"])
    >>> [(row["name"], row["right_row"], round(row["separation"], 3)) for row in found.to_pylist()]
    [('a', 1, 0.677), ('b', 0, 0.717)]
    """
    if hasattr(radius_arcsec, "to_value"):  # a Quantity of astropy
        radius_arcsec = radius_arcsec.to_value("arcsec")
    checked_match(radius_arcsec, how, find)
    asked = Asked(float(radius_arcsec), how, find, checked_limits(within or {}), (ra, dec))
    folder = None if into is None else _new_folder(into)
    if spark is not None or is_frame(left) or is_frame(right):
        from everfresh.arrays.sky.spark.frames import matched

        return matched(left, right, asked, (left_columns, right_columns), spark, folder)
    columns = [list(left_columns or ()), list(right_columns or ())]
    sides = []
    for k, data in enumerate((left, right)):
        what = SIDES[k]
        names = asked.names(k)
        sides.append(read_points(data, [*names, *columns[k]], what))
    a, b = sides
    bases = [common_base(a, b, _of_sides(name)) for name in asked.limits]
    sky_a, sky_b = (_sky(points, asked.names(k), bases) for k, points in enumerate(sides))
    found = pairs_of(sky_a, sky_b, asked.radius, asked.bounds, find)
    left_rows, right_rows, separation = _joined(found, len(a), len(b), how)
    table = {"left_row": left_rows, "right_row": right_rows, "separation": separation}
    for k, (points, rows) in enumerate(((a, left_rows), (b, right_rows))):
        for name in columns[k]:
            table[shown_as(name, k, columns[1 - k], tuple(table)[:3])] = points.taken(name, rows)
    result = pa.Table.from_arrays(list(table.values()), list(table))
    if folder is None:
        return result
    write_table(result, folder / "part-00000.parquet")
    return result.num_rows


def pairs_of(
    left: Sky, right: Sky, radius_arcsec: float, bounds: Sequence[tuple[float, float]], find: Find
) -> Neighbors:
    """The pairs of two sets of points, by left row, separation and right row: what a worker runs on parts."""
    found = neighbors(left, right, radius_arcsec / 3600, bounds, find == "best")
    order = np.lexsort((found.right, found.separation, found.left))
    return Neighbors(found.left[order], found.right[order], found.separation[order])


def _joined(found: Neighbors, lefts: int, rights: int, how: How) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Pairs, and what has no partner, as columns."""
    lonely_left = np.ones(lefts, np.bool_)
    lonely_left[found.left] = False
    if how == "inner":
        return column_of(found.left), column_of(found.right), column_of(found.separation)
    alone = np.flatnonzero(lonely_left)
    kept = slice(0, 0) if how == "anti" else slice(None)
    left = np.concatenate([found.left[kept], alone])
    right = np.concatenate([found.right[kept], np.zeros(len(alone), np.int64)])
    apart = np.concatenate([found.separation[kept], np.zeros(len(alone))])
    paired = np.arange(len(left)) < len(left) - len(alone)
    order = np.argsort(left, kind="stable")
    columns = [
        column_of(left[order]),
        column_of(right[order], paired[order]),
        column_of(apart[order], paired[order]),
    ]
    if how == "outer":
        lonely_right = np.ones(rights, np.bool_)
        lonely_right[found.right] = False
        others = np.flatnonzero(lonely_right)
        more = [pa.nulls(len(others), pa.int64()), column_of(others), pa.nulls(len(others), pa.float64())]
        columns = [pa.concat_arrays(pair) for pair in zip(columns, more, strict=True)]
    return columns[0], columns[1], columns[2]


# -- arguments ---------------------------------------------------------------------------------------------


def _of_sides(name: Name) -> tuple[str, str]:
    return (name, name) if isinstance(name, str) else name


def _sky(points: Points, names: Sequence[str], bases: Sequence[int]) -> Sky:
    ra, dec = (points.numbers(name) for name in names[:2])
    others = [points.numbers(name, base) for name, base in zip(names[2:], bases, strict=True)]
    return Sky.of(ra, dec, others, points.what)


def _new_folder(into: str | os.PathLike[str]) -> Path:
    """The folder that the result is written to."""
    folder = Path(into)
    if "://" in str(into) or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise EverfreshError(
            Code.EXISTS if folder.exists() else Code.ARGUMENT,
            f"'{into}' is no new or empty folder of a file system",
            place="into",
            hint="of a Spark DataFrame found.write.parquet(...) writes anywhere",
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def checked_match(radius: float, how: str, find: str) -> None:
    """Raise unless this is a crossmatch."""
    if isinstance(radius, bool) or not isinstance(radius, Real) or not 0 <= radius <= 180 * 3600:
        raise EverfreshError(
            Code.ARGUMENT,
            f"a radius of {radius} arcseconds is none on the sphere",
            place="radius_arcsec",
            hint="give a number from 0 to 648000; a degree is 3600 arcseconds",
        )
    for value, known, place in ((how, get_args(How), "how"), (find, get_args(Find), "find")):
        if value not in known:
            raise EverfreshError(
                Code.ARGUMENT, f"'{value}' is not known", place=place, hint="one of: " + ", ".join(known)
            )


def checked_limits(within: Within) -> dict[Name, tuple[float, float]]:
    """Bounds as numbers."""
    found: dict[Name, tuple[float, float]] = {}
    for name, bounds in within.items():
        try:
            low, high = bounds
            least = -np.inf if low is None else float(low)
            most = np.inf if high is None else float(high)
        except (TypeError, ValueError):
            least, most = 1.0, 0.0
        if not least <= most:
            raise EverfreshError(
                Code.ARGUMENT,
                f"{bounds} bounds nothing",
                place=f"within, {name}",
                hint="give (least, greatest) of right minus left: {'mjd': (-30, 0)} is the month before",
            )
        found[name] = least, most
    return found
