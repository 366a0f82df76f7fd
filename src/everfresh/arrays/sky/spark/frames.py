"""Crossmatches of DataFrames: planned here, run by tasks.

Both sides are looked through once for how their points are spread (`survey`), the sphere is cut into parts
with about as many rows each (`everfresh.arrays.sky.parts`), and rows travel to the parts that they are at
home in, or near: margins are computed row by row, and nothing is prepared beforehand. What travels is Arrow
data, a piece for each part. A part is a partition of the result.

Invariant: the rows of the result are those of `everfresh.arrays.crossmatch` of the same tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.arrays.sky.crossmatches import SIDES, Asked, is_frame, shown_as
from everfresh.arrays.sky.parts import Parts, cut
from everfresh.arrays.sky.sources import files_of, read_points
from everfresh.arrays.sky.spark.files import Column, Files, Split, over_files, unfinished_in, written
from everfresh.arrays.sky.spark.tasks import ROUTED, SURVEYED, Match, Route, match_part, route, survey
from everfresh.arrays.sky.sphere import Sky
from everfresh.errors import Code, EverfreshError
from everfresh.spark.input.scans import local_files
from everfresh.spark.session import sessions
from everfresh.spark.session.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART_BYTES, _FEWEST, _MOST = 48 << 20, 10_000, 400_000
"""What the rows of a part should come to, and the bounds of their number."""
_TOGETHER, _ROUNDS = 8, 4
"""So many parts at most are one task's if there are tasks enough for each core to run this many."""
_NUMBER, _OTHER = 8, 40
"""Bytes of a value of a column, about."""


@dataclass(frozen=True)
class _Side:
    """A side, its needed columns under names of our own: a DataFrame of them, or files that tasks read; and
    the fields of the columns that were chosen."""

    session: SparkSession
    fields: tuple[Any, ...]
    row_bytes: float
    frame: DataFrame | None = None
    splits: tuple[Split, ...] = ()
    columns: tuple[Column, ...] = ()

    def mapped(self, stage: Any, schema: str, only: Sequence[str] = ()) -> DataFrame:
        """What a stage gives for the rows, or for `only` some columns of them."""
        if self.frame is not None:
            frame = self.frame.select(*only) if only else self.frame
            return frame.mapInArrow(stage, schema)
        columns = tuple(c for c in self.columns if not only or c.name in only)
        count = max(1, len(self.splits))
        numbers = self.session.range(0, len(self.splits), 1, count)
        return numbers.mapInArrow(partial(over_files, self.splits, columns, stage), schema)


def matched(
    left: Any,
    right: Any,
    asked: Asked,
    chosen: tuple[Sequence[str] | None, ...],
    session: Any,
    into: Path | None = None,
) -> Any:
    """The crossmatch of two sides, at least one of which is a DataFrame, or that are given a session; what is
    written `into` a folder is counted."""
    from pyspark.sql.types import DoubleType, StructField, StructType

    if session is None:
        session = (left if is_frame(left) else right).sparkSession
    sides = [_side(data, k, asked, chosen[k], session) for k, data in enumerate((left, right))]
    names = [[field.name for field in side.fields] for side in sides]
    fields = [StructField("separation", DoubleType())]
    for k, side in enumerate(sides):
        fields += [
            StructField(shown_as(f.name, k, names[1 - k], ("separation",)), f.dataType) for f in side.fields
        ]
    schema = StructType(fields)
    if into is None:
        arrow = _arrow(schema, session)
        both, job = _routed(sides, _parts(sides, asked), asked, arrow)
        return both.mapInArrow(partial(match_part, job), schema)
    arrow = _written_as(schema)
    with unfinished_in(into) as unfinished, _quiet(sides, session) as quiet:
        parts = _parts(quiet, asked)
        both, job = _routed(quiet, parts, asked, arrow, str(unfinished), _tasks(len(parts), session))
        return written(both, partial(match_part, job), arrow, unfinished)


def _tasks(parts: int, session: SparkSession) -> int:
    """The tasks that match parts: more than one each where there are many, since a task has a price."""
    return max(-(-parts // _TOGETHER), min(parts, _ROUNDS * sessions.parallelism(session)))


@contextmanager
def _quiet(sides: Sequence[_Side], session: SparkSession) -> Iterator[Sequence[_Side]]:
    """Sides that are files, on a session without what makes small plans slow (adaptive execution, generated
    code); sides with DataFrames as they are."""
    if any(side.frame is not None for side in sides):
        yield sides
        return
    ours = sessions.own(session)
    try:
        yield [replace(side, session=ours) for side in sides]
    finally:
        sessions.disown(ours)


def _routed(
    sides: Sequence[_Side],
    parts: Parts,
    asked: Asked,
    schema: Any,
    folder: str | None = None,
    tasks: int | None = None,
) -> tuple[DataFrame, Match]:
    """The rows of both sides with the parts that need them, or with a folder their places in it, for so many
    tasks; and what is to be done with them."""
    outer = asked.how == "outer"
    told = len(asked.limits), outer, outer and asked.find == "best", folder
    routes = [Route(parts, k, margin_of(asked, k), *told) for k in (0, 1)]
    found = [side.mapped(partial(route, routes[k]), ROUTED) for k, side in enumerate(sides)]
    lefts, bounds = len(sides[0].fields), tuple(asked.bounds)
    job = Match(asked.radius / 3600, asked.how, asked.find, bounds, schema, lefts, folder)
    both = found[0].unionAll(found[1])
    return (both.repartitionById(len(parts), "part") if tasks is None else _dealt(both, tasks)), job


def _dealt(routed: DataFrame, tasks: int) -> DataFrame:
    """Rows by their parts to so many tasks; neighbours go to different ones, where crowds are shared."""
    from pyspark.sql import functions as f

    return routed.repartitionById(tasks, f.col("part") % tasks)


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
    looked = [side.mapped(partial(survey, k), SURVEYED, ("ra", "dec")) for k, side in enumerate(sides)]
    with translated():
        both = looked[0].unionAll(looked[1]).toArrow()
    for k in (0, 1):
        found = both.filter(pc.equal(both.column("side"), k))
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
    what, needed = SIDES[k], asked.names(k)
    files = _files(data, what)
    wanted = None if chosen is None else [*needed, *chosen]
    if files is not None and not files.plain(wanted or files.schema.names):
        files = None
    frame = _frame(data, wanted, what, session) if files is None else None
    given = frame.schema.fields if frame is not None else []
    given = _spark_fields(files) if files is not None else given
    known = {field.name: field for field in given}
    if len(known) < len(given):
        raise EverfreshError(
            Code.ARGUMENT, "two columns have the same name", place=what, hint="rename one: withColumnRenamed"
        )
    if chosen is None:
        chosen = () if k == 1 and asked.how == "anti" else tuple(known)
    chosen = tuple(dict.fromkeys(chosen))
    _check(known, needed, chosen, what)
    ours = ["ra", "dec", *(f"bound{n}" for n in range(len(asked.limits)))]
    fields = tuple(known[name] for name in chosen)
    numbers = len(needed) + sum(_is_number(field) for field in fields)
    row_bytes = _NUMBER * (numbers + 2) + _OTHER * (len(needed) + len(fields) - numbers)
    if files is not None:
        columns = [Column(n, o, pa.float64()) for n, o in zip(needed, ours, strict=True)]
        columns += [Column(n, f"column{i}", files.schema.field(n).type) for i, n in enumerate(chosen)]
        return _Side(
            session,
            fields,
            row_bytes,
            None,
            tuple(files.splits(sessions.parallelism(session))),
            tuple(columns),
        )
    from pyspark.sql import functions as f

    assert frame is not None
    selected = [f.col(_quoted(n)).cast("double").alias(o) for n, o in zip(needed, ours, strict=True)]
    selected += [f.col(_quoted(n)).alias(f"column{i}") for i, n in enumerate(chosen)]
    return _Side(session, fields, row_bytes, frame.select(*selected))


def _check(known: Mapping[str, Any], needed: Sequence[str], chosen: Sequence[str], what: str) -> None:
    """Raise unless all columns are there, and the needed ones hold numbers."""
    for name in [*needed, *chosen]:
        if name not in known:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no column '{name}'",
                place=what,
                hint="columns are: " + ", ".join(known),
            )
    for name in needed:
        if not _is_number(known[name]):
            kind = known[name].dataType.simpleString()
            raise EverfreshError(
                Code.TYPE,
                f"column '{name}' is {kind}, not numbers",
                place=what,
                hint="cast it to DOUBLE: dates to days, for example",
            )


def _is_number(field: Any) -> bool:
    from pyspark.sql.types import NumericType

    return isinstance(field.dataType, NumericType)


def _files(data: Any, what: str) -> Files | None:
    """The files of data that are nothing but local Parquet files."""
    if is_frame(data):
        paths = local_files(data)
        found = Files.of(paths, what) if paths else None
        same = found is not None and [(x.name, x.dataType) for x in _spark_fields(found)] == [
            (x.name, x.dataType) for x in data.schema.fields
        ]
        return found if same else None
    if isinstance(data, (str, os.PathLike)) and "://" not in str(data):
        return Files.of(files_of(Path(data), what), what)
    return None


def _spark_fields(files: Files) -> list[Any]:
    """The columns of files as Spark has them, of those that mean the same to it."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField

    return [
        StructField(field.name, from_arrow_type(field.type))
        for field in files.schema
        if files.plain([field.name])
    ]


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


def _written_as(schema: Any) -> Any:
    """A schema in Arrow's types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _arrow(schema: Any, session: SparkSession) -> Any:
    """What Spark expects the result to be in Arrow's types."""
    return session.createDataFrame([], schema).toArrow().schema
