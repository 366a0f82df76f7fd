"""What tasks do in a crossmatch: look through points, send rows to parts, match a part.

Rows travel as Arrow data, one value for the rows of one part, so that Spark handles few large values. A task
holds the rows of one part, and of the pairs some millions at a time.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.arrays.sky.parts import Parts
from everfresh.arrays.sky.sphere import Neighbors, Sky, in_blocks
from everfresh.errors import EverfreshError
from everfresh.spark.jobs.tasks import freeze
from everfresh.spark.session.failures import TaskError

SURVEYED = "side int, ra double, dec double, weight double, bad string"
ROUTED = "part int, side int, data binary"
_SAMPLE = 4096
"""Points of a partition that stand for all of it."""
_SEED = 0x5EED_0F_5_4A9
"""Chosen, so that it is nobody else's: a sample that goes with the data would be none."""
_HELD = 16 << 20
"""Bytes of rows that are routed together."""
_ROWS = 1 << 16
"""Rows of the result that go to Spark together."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Route:
    """How the rows of a side travel. For an outer join they know whether they are at home; with their numbers
    all parts agree which of two that are equally near is the best."""

    parts: Parts
    side: int
    margin: float
    bounds: int
    outer: bool = False
    numbered: bool = False
    folder: str | None = None
    """Where rows are laid down, so that only their places travel through Spark."""


@dataclass(frozen=True)
class Match:
    """What is to be found in a part; `schema` is that of the result, whose first
    column is the separation, followed by so many of the left side."""

    radius: float
    how: str
    find: str
    bounds: tuple[tuple[float, float], ...]
    schema: pa.Schema
    lefts: int
    folder: str | None = None


def survey(side: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Some of the points of a partition with what each stands for, or what is wrong with one of them."""
    rng = np.random.default_rng(_SEED)
    kept, marks, count = np.empty((2, 0)), np.empty(0), 0
    for batch in batches:
        ra, dec = (np.asarray(column.to_numpy(zero_copy_only=False), np.float64) for column in batch.columns)
        bad = np.flatnonzero(~np.isfinite(ra) | ~(np.abs(dec) <= 90.0))
        if len(bad):
            row = bad[0]
            text = f"ra = {ra[row]}" if not np.isfinite(ra[row]) else f"dec = {dec[row]}"
            yield _surveyed(side, np.zeros((2, 1)), 0.0, text)
            return
        count += len(ra)
        kept = np.concatenate([kept, np.stack([ra, dec])], axis=1)  # those with the least marks stay
        marks = np.concatenate([marks, rng.random(len(ra))])
        if len(marks) > _SAMPLE:
            least = np.argpartition(marks, _SAMPLE)[:_SAMPLE]
            kept, marks = kept[:, least], marks[least]
    if count:
        yield _surveyed(side, kept, count / len(marks), None)
    freeze()


def _surveyed(side: int, points: Any, weight: float, bad: str | None) -> pa.RecordBatch:
    count = points.shape[1]
    columns = [pa.array(np.full(count, side, np.int32)), pa.array(points[0]), pa.array(points[1])]
    columns += [pa.array(np.full(count, weight)), pa.array([bad] * count, pa.string())]
    return pa.record_batch(columns, ["side", "ra", "dec", "weight", "bad"])


# -- rows to parts ---------------------------------------------------------------------------------------


def route(how: Route, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, as pieces for the parts that need them."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = (context.partitionId() if context is not None else 0) << 40  # unlike those of other tasks
    with Laid(how.folder) as laid:
        for rows in together(batches):
            there, cuts, sent = placed(how, rows, number)
            pieces = (sent.slice(b, e - b) for b, e in pairwise(cuts.tolist()))
            data = [laid.put(piece) if how.folder else _written(piece) for piece in pieces]
            sides = pa.array(np.full(len(there), how.side), pa.int32())
            columns = [pa.array(there, pa.int32()), sides, pa.array(data, pa.binary())]
            yield pa.record_batch(columns, ["part", "side", "data"])
            number += rows.num_rows
    freeze()


class Laid:
    """The pieces of a task in an Arrow file of its own, each a record batch that is read where it lies."""

    def __init__(self, folder: str | None) -> None:
        self.folder, self.name, self.count = folder, f"{uuid.uuid4().hex}.arrow", 0
        self._writer: Any = None

    def put(self, piece: pa.Table) -> bytes:
        """Write a piece; returns its place."""
        assert self.folder is not None
        if self._writer is None:
            self._writer = pa.ipc.new_file(os.path.join(self.folder, self.name), piece.schema)
        self._writer.write_table(piece.combine_chunks())
        self.count += 1
        return f"{self.name} {self.count - 1}".encode()

    def __enter__(self) -> Laid:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()


class _Pieces:
    """Pieces from their bytes, or from where they were laid: each file is opened once."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._files: dict[str, Any] = {}

    def table(self, values: Iterable[pa.BinaryScalar]) -> pa.Table | None:
        """Pieces as one table; None if there is none."""
        found = [self._found(value.as_buffer()) for value in values]
        return pa.concat_tables(found).combine_chunks() if found else None

    def _found(self, data: pa.Buffer) -> pa.Table:
        if self._folder is None:
            return pa.ipc.open_stream(data).read_all()
        name, at = data.to_pybytes().decode().split(" ")
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = pa.ipc.open_file(pa.memory_map(os.path.join(self._folder, name)))
        return pa.Table.from_batches([file.get_batch(int(at))])


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches as tables of some size."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(some.nbytes for some in held) >= _HELD:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def placed(how: Route, rows: pa.Table, first: int) -> tuple[Ints, Ints, pa.Table]:
    """Rows by the parts that need them: the parts, where the rows of each begin and the last one's end, and
    the rows."""
    numbers = np.arange(first, first + rows.num_rows)
    sky = _sky(rows, how.bounds)
    home = None
    if how.margin > 0 or how.side == 1:
        row, part, home = how.parts.placed(sky, how.margin, how.side, numbers)
    else:
        row, part = how.parts.homes(sky, how.side, numbers)
    small: NDArray[Any] = (
        part.astype(np.uint16) if len(how.parts) <= 1 << 16 else part
    )  # which are sorted by their digits
    order = np.argsort(small, kind="stable")
    row, part = row[order], part[order]
    if how.numbered:
        rows = rows.append_column("number", pa.array(numbers))
    sent = rows.combine_chunks().take(pa.array(row))
    if how.outer and home is not None:
        sent = sent.append_column("home", pa.array(home[order]))
    begins = np.flatnonzero(np.append(len(part) > 0, part[1:] != part[:-1])[: len(part)])
    return part[begins], np.append(begins, len(part)), sent.combine_chunks()


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _sky(rows: pa.Table, bounds: int) -> Sky:
    columns = [rows.column(n).to_numpy() for n in ("ra", "dec", *(f"bound{n}" for n in range(bounds)))]
    try:
        return Sky.of(columns[0], columns[1], columns[2:])
    except EverfreshError as error:
        raise TaskError(error) from error


# -- a part ----------------------------------------------------------------------------------------------


def match_part(job: Match, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The result's rows of the parts that came to a task."""
    waiting: dict[int, tuple[list[pa.BinaryScalar], list[pa.BinaryScalar]]] = {}
    for batch in batches:
        parts, sides, data = batch.columns
        for part, side, value in zip(parts.to_pylist(), sides.to_pylist(), data, strict=True):
            waiting.setdefault(part, ([], []))[side].append(value)
    pieces = _Pieces(job.folder)
    for part in sorted(waiting):
        left, right = (pieces.table(some) for some in waiting.pop(part))
        yield from _matched(job, left, right)
    freeze()


def _matched(job: Match, left: pa.Table | None, right: pa.Table | None) -> Iterator[pa.RecordBatch]:
    ours = [_ordered(side, len(job.bounds)) for side in (left, right)]
    (a, at_home, lefts), (b, right_home, rights) = ours
    partnered = np.zeros(len(a), np.bool_), np.zeros(len(b), np.bool_)
    for _, found in in_blocks(a, b, job.radius, job.bounds, job.find == "best"):
        partnered[0][found.left] = partnered[1][found.right] = True
        if job.how != "anti":
            yield from _rows(job, lefts, rights, _in_order(found, at_home))
    if job.how != "inner":
        alone = np.flatnonzero(at_home & ~partnered[0])
        yield from _rows(job, lefts, rights, Neighbors(alone, np.full(len(alone), -1), np.zeros(len(alone))))
    if job.how == "outer":
        alone = np.flatnonzero(right_home & ~partnered[1])
        yield from _rows(job, lefts, rights, Neighbors(np.full(len(alone), -1), alone, np.zeros(len(alone))))


def _in_order(found: Neighbors, at_home: NDArray[np.bool_]) -> Neighbors:
    kept = np.flatnonzero(at_home[found.left])
    order = kept[np.argsort(found.left[kept], kind="stable")]
    return Neighbors(found.left[order], found.right[order], found.separation[order])


def _ordered(side: pa.Table | None, bounds: int) -> tuple[Sky, NDArray[np.bool_], list[Any]]:
    """The points of a side by their numbers, so that of two that are equally near the same one is the best
    everywhere; which are at home; and the columns of the result."""
    if side is None:
        return Sky.of([], [], [[] for _ in range(bounds)]), np.empty(0, np.bool_), []
    if "number" in side.column_names:
        side = side.take(pa.array(np.argsort(side.column("number").to_numpy(), kind="stable")))
    columns = [side.column(n) for n in side.column_names if n.startswith("column")]
    known = "home" in side.column_names
    home = side.column("home").to_numpy() if known else np.ones(side.num_rows, np.bool_)
    return _sky(side, bounds), home, columns


def _rows(job: Match, lefts: list[Any], rights: list[Any], found: Neighbors) -> Iterator[pa.RecordBatch]:
    """Rows of the result; -1 is no row."""
    fields = list(job.schema)[1:]
    split = (fields[: job.lefts], fields[job.lefts :])
    for begin in range(0, len(found.left), _ROWS):
        some = slice(begin, begin + _ROWS)
        i, j = found.left[some], found.right[some]
        columns = [pa.array(found.separation[some], mask=(i < 0) | (j < 0))]
        for columns_of, rows, wanted in ((lefts, i, split[0]), (rights, j, split[1])):
            places = pa.array(rows, mask=rows < 0)
            for k, field in enumerate(wanted):
                if not columns_of:
                    columns.append(pa.nulls(len(rows), field.type))
                    continue
                taken = columns_of[k].take(places)
                columns.append(taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken)
        yield pa.RecordBatch.from_arrays(columns, names=job.schema.names)
