"""Crossmatches of DataFrames: planned here, run by tasks.

Both sides are looked through once for how their points are spread (`survey`), the sphere is cut into parts
with about as many rows each (`everfresh.arrays.sky.parts`), and rows travel to the parts that they are at
home in, or near: margins are computed row by row, and nothing is prepared beforehand. What travels is Arrow
data, a piece for each part. A part is a partition of the result.

Invariant: the rows of the result are those of `everfresh.arrays.crossmatch` of the same tables.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everfresh.arrays.sky.crossmatches import SIDES, Asked, is_frame, shown_as
from everfresh.arrays.sky.parts import Parts, cut
from everfresh.arrays.sky.sources import files_of, read_points
from everfresh.arrays.sky.spark.tasks import ROUTED, SURVEYED, Match, Route, match_part, route, survey
from everfresh.arrays.sky.sphere import Sky
from everfresh.errors import Code, EverfreshError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART_BYTES, _FEWEST, _MOST = 48 << 20, 10_000, 400_000
"""What the rows of a part should come to, and the bounds of their number."""
_NUMBER, _OTHER = 8, 40
"""Bytes of a value of a column, about."""


@dataclass(frozen=True)
class _Side:
    """A side: its DataFrame with the columns that are needed under names of our own, and the fields of those
    that were chosen."""

    frame: DataFrame
    fields: tuple[Any, ...]
    row_bytes: float


def matched(
    left: Any, right: Any, asked: Asked, chosen: tuple[Sequence[str] | None, ...], session: Any
) -> DataFrame:
    """The crossmatch of two sides, at least one of which is a DataFrame, or that are given a session."""
    from pyspark.sql.types import DoubleType, StructField, StructType

    if session is None:
        session = (left if is_frame(left) else right).sparkSession
    sides = [_side(data, k, asked, chosen[k], session) for k, data in enumerate((left, right))]
    parts = _parts(sides, asked)
    names = [[field.name for field in side.fields] for side in sides]
    fields = [StructField("separation", DoubleType())]
    for k, side in enumerate(sides):
        fields += [
            StructField(shown_as(f.name, k, names[1 - k], ("separation",)), f.dataType) for f in side.fields
        ]
    routed = [
        side.frame.mapInArrow(partial(route, Route(parts, k, margin_of(asked, k), len(asked.limits))), ROUTED)
        for k, side in enumerate(sides)
    ]
    schema = StructType(fields)
    bounds, arrow = tuple(asked.bounds), _arrow(schema, session)
    job = Match(asked.radius / 3600, asked.how, asked.find, bounds, arrow, len(names[0]))
    together = routed[0].unionAll(routed[1]).repartitionById(len(parts), "part")
    return together.mapInArrow(partial(match_part, job), schema)


def margin_of(asked: Asked, side: int) -> float:
    """How far beyond its home a row of a side is needed, in degrees.

    A left row finds its partners where it is at home. For "outer" a right row has to know at home too whether
    it has one, and if that is the best one of a left row, all others that this left row might prefer.
    """
    outer = asked.how == "outer"
    if side == 0:
        return asked.radius / 3600 if outer else 0.0
    return asked.radius / 3600 * (2 if outer and asked.find == "best" else 1)


def _parts(sides: Sequence[_Side], asked: Asked) -> Parts:
    samples, weights = [], []
    for k, side in enumerate(sides):
        found = side.frame.select("ra", "dec").mapInArrow(survey, SURVEYED).toArrow()
        bad = next((text for text in found.column("bad").to_pylist() if text), None)
        if bad is not None:
            raise EverfreshError(
                Code.VALUE,
                f"{bad} is no place on the sky",
                place=SIDES[k],
                hint="coordinates are in degrees, -90 <= dec <= 90; leave out rows without a position",
            )
        ra, dec, weight = (found.column(n).to_numpy() for n in ("ra", "dec", "weight"))
        samples.append(Sky.of(ra, dec))
        weights.append(np.asarray(weight, np.float64))
    row_bytes = max(side.row_bytes for side in sides)
    target = float(np.clip(_PART_BYTES / row_bytes, _FEWEST, _MOST))
    dealt = {"outer": (), "inner": (0, 1) if asked.find == "all" else (0,)}.get(asked.how, (0,))
    margin = max(margin_of(asked, side) for side in (0, 1))
    return cut((samples[0], samples[1]), (weights[0], weights[1]), target, margin, dealt)


def _side(data: Any, k: int, asked: Asked, chosen: Sequence[str] | None, session: SparkSession) -> _Side:
    from pyspark.sql import functions as f
    from pyspark.sql.types import NumericType

    what, needed = SIDES[k], asked.names(k)
    frame = _frame(data, None if chosen is None else [*needed, *chosen], what, session)
    known = {field.name: field for field in frame.schema.fields}
    if len(known) < len(frame.schema.fields):
        raise EverfreshError(
            Code.ARGUMENT, "two columns have the same name", place=what, hint="rename one: withColumnRenamed"
        )
    if chosen is None:
        chosen = () if k == 1 and asked.how == "anti" else tuple(known)
    chosen = tuple(dict.fromkeys(chosen))
    for name in [*needed, *chosen]:
        if name not in known:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no column '{name}'",
                place=what,
                hint="columns are: " + ", ".join(known),
            )
    for name in needed:
        if not isinstance(known[name].dataType, NumericType):
            kind = known[name].dataType.simpleString()
            raise EverfreshError(
                Code.TYPE,
                f"column '{name}' is {kind}, not numbers",
                place=what,
                hint="cast it to DOUBLE: dates to days, for example",
            )
    ours = ["ra", "dec", *(f"bound{n}" for n in range(len(asked.limits)))]
    columns = [f.col(_quoted(n)).cast("double").alias(o) for n, o in zip(needed, ours, strict=True)]
    columns += [f.col(_quoted(n)).alias(f"column{i}") for i, n in enumerate(chosen)]
    fields = tuple(known[name] for name in chosen)
    numbers = len(needed) + sum(isinstance(field.dataType, NumericType) for field in fields)
    row_bytes = _NUMBER * (numbers + 2) + _OTHER * (len(needed) + len(fields) - numbers)
    return _Side(frame.select(*columns), fields, row_bytes)


def _frame(data: Any, names: Sequence[str] | None, what: str, session: SparkSession) -> DataFrame:
    """Data of any kind as a DataFrame."""
    if is_frame(data):
        given: DataFrame = data
        return given
    if isinstance(data, (str, os.PathLike)):
        if "://" in str(data):
            return session.read.option("recursiveFileLookup", "true").parquet(str(data))
        return session.read.parquet(
            *[f"file://{Path(file).resolve()}" for file in files_of(Path(data), what)]
        )
    return session.createDataFrame(read_points(data, names, what).table)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _arrow(schema: Any, session: SparkSession) -> Any:
    """What Spark expects the result to be in Arrow's types."""
    return session.createDataFrame([], schema).toArrow().schema
