"""Cells in DataFrames: tasks lay them down by chunk, and the workers of the chunks take them from there.

A job of one stage looks through the DataFrame: each task checks its rows against the array, splits them by
chunk, and leaves them in a sealed file of the inbox, with a section for each run of chunks. The driver hears
how many cells came to each chunk, which is what it places new chunks by, and never sees a cell. The batch
then tells each worker the files; it reads the sections with chunks of its own.

A file is named by the task that says it is done, and known by its digest: an attempt that nobody waits for
leaves one that nobody reads. Files go when nothing refers to the change any more. Invariant: the same cells
as `read_cells` of the collected rows, in some order.
"""

from __future__ import annotations

import json
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.cells import read_cells, split
from everfresh.arrays.chunk import coordinates
from everfresh.arrays.model import ArraySchema
from everfresh.arrays.spark.content import schema_of
from everfresh.delta import SparkRows
from everfresh.errors import EverfreshError
from everfresh.spark.input.routing import selected
from everfresh.spark.jobs.job import ERROR, EXCHANGE, ROWS, Message, World, pack_error
from everfresh.spark.jobs.messages import taken, written
from everfresh.spark.jobs.runner import Runner
from everfresh.spark.jobs.tasks import Batches, emit, freeze
from everfresh.spark.session.failures import translated
from everfresh.state import Store, pack_arrays, pack_table, unpack_arrays, unpack_table
from everfresh.types import no_rows

KIND, CELLS = "cells", "cells"
_SECTION = 64 << 10
"""Bytes of a section, about: small chunks share one."""
_HELD = 64 << 20
"""Bytes of rows that a task holds before it writes them to a file."""

File = tuple[str, str]
"""A file of the inbox, and what its readers are told of it."""


@dataclass(frozen=True, eq=False)
class LaidCells:
    """Cells in files of the inbox: how many are in which chunk."""

    files: tuple[File, ...]
    cells: Mapping[int, int]
    num_rows: int


def lay(runner: Runner, world: World, rows: SparkRows, schema: ArraySchema) -> LaidCells:
    """Lay the cells of a DataFrame down; they go when nobody holds what this returns."""
    block = partial(lay_block, world.left(), schema.ddl)
    found = selected(rows).mapInArrow(block, EXCHANGE)
    with translated(), runner.observer.job(uuid.uuid4().hex, "lay"):
        answers: Sequence[Any] = found.collect()
    told = [unpack_arrays(bytes(row["payload"])) for row in answers if row["kind"] == ROWS]
    files = tuple(tuple(json.loads(bytes(one["file"]).decode())) for one in told)
    cells: dict[int, int] = {}
    for one in told:
        for number, count in zip(one["number"].tolist(), one["count"].tolist(), strict=True):
            cells[number] = cells.get(number, 0) + count
    laid = LaidCells(files, cells, sum(cells.values()))
    weakref.finalize(laid, remove_laid, world.store, files)
    runner.raise_errors(answers)
    return laid


def remove_laid(store: Store, files: Iterable[File]) -> None:
    """Remove files that nobody reads any more."""
    for name, _ in files:
        store.remove(name)


def lay_block(world: World, ddl: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Write the rows of one partition of a DataFrame to files, checked against the array."""
    schema = schema_of(ddl)
    messages: list[Message] = []
    held: list[pa.RecordBatch] = []
    try:
        for batch in batches:
            held.append(batch)
            if sum(some.nbytes for some in held) >= _HELD:
                messages.append(_laid(world, schema, pa.Table.from_batches(held)))
                held = []
        if held:
            messages.append(_laid(world, schema, pa.Table.from_batches(held)))
    except EverfreshError as error:
        messages.append((0, ERROR, pack_error(error.to_dict())))
        for _ in batches:  # to the end: else the process is not used again
            pass
    yield from emit(messages)
    freeze()


def _laid(world: World, schema: ArraySchema, given: pa.Table) -> Message:
    """Rows in a file; what the driver is told of it."""
    chunks = split(read_cells(given, schema), schema)
    about: dict[str, Any] = {
        "file": np.frombuffer(json.dumps(lay_chunks(world, chunks)).encode(), np.uint8),
        "number": np.array(list(chunks), np.int64),
        "count": np.array([rows.num_rows for rows in chunks.values()], np.int64),
    }
    return 0, ROWS, pack_arrays(about)


def lay_chunks(world: World, chunks: Mapping[int, pa.Table]) -> File:
    """Cells by the number of their chunk in a file of the inbox."""
    sections: dict[str, bytes] = {}
    numbers: list[list[int]] = []
    for some in _runs(chunks):
        sections[f"{CELLS}/{len(numbers)}"] = pack_table(pa.concat_tables([chunks[n] for n in some]))
        numbers.append(some)
    data, told = written(KIND, {"numbers": numbers}, sections)
    name = f"inbox/{uuid.uuid4().hex}.cells"
    world.store.replace(name, data, durable=False)
    return name, told


def _runs(chunks: Mapping[int, pa.Table]) -> Iterator[list[int]]:
    """Numbers of chunks that share a section."""
    run: list[int] = []
    size = 0
    for number in sorted(chunks):
        run.append(number)
        size += chunks[number].nbytes
        if size >= _SECTION:
            yield run
            run, size = [], 0
    if run:
        yield run


def read_laid(root: str, files: Iterable[File], schema: ArraySchema, mine: Iterable[int] | None) -> pa.Table:
    """The cells of some chunks, or of all."""
    wanted = None if mine is None else np.array(sorted(mine), np.int64)
    tables = [no_rows(schema.arrow)]
    for name, told in files:
        message = taken(root, name, KIND, told)
        for at, numbers in enumerate(message.header["numbers"]):
            some = np.isin(numbers, wanted) if wanted is not None else np.ones(len(numbers), np.bool_)
            if not some.any():
                continue
            rows = unpack_table(bytes(message.sections[f"{CELLS}/{at}"]))  # the file goes, the chunks stay
            if wanted is not None and not some.all():
                keep = np.isin(schema.chunk_ids(coordinates(rows, schema.ndim)), wanted)
                rows = rows.filter(pa.array(keep))
            tables.append(rows)
    return pa.concat_tables(tables).combine_chunks()
