"""What the rows of a batch come as, and how the batch is run.

| rows | who reads them |
|---|---|
| Arrow | the driver has them: in pieces, one for each worker, or whole for every task |
| `FileRows` | tasks read Parquet files, and keep their part |
| `LaidRows` | rows of a DataFrame in files of the inbox: the same |
| `SparkRows` | a DataFrame: an exchange brings each row to its owner |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.delta import SparkRows, read_rows
from everfresh.delta.feeds import CHANGE_TYPE, has_full_images, is_feed
from everfresh.delta.files import find_parquet
from everfresh.delta.rows import match_columns
from everfresh.options import Options
from everfresh.program import Batch, Part
from everfresh.spark.input.feeds import check_pairs_in
from everfresh.spark.input.laying import LAID_OPS, LaidRows
from everfresh.spark.input.scans import FileRows, scanned
from everfresh.spark.jobs.job import STAGED, WHOLE, PartSpec, World
from everfresh.spark.jobs.plans import Plan
from everfresh.spark.jobs.row_tasks import split
from everfresh.spark.jobs.table_plans import BY_STAGES, ROWS_ONLY, WHOLE_BATCH
from everfresh.sql.constraints import filled
from everfresh.state import pack_table
from everfresh.types import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FEED_BYTES = 4 << 20  # of files of changes that the driver reads, to see if one stage is enough


@dataclass(frozen=True, slots=True)
class Chosen:
    """How a batch is run: by which plan, which form of program, in how many stages."""

    plan: Plan
    form: str | None
    stages: int


def read_given(
    data: Any, schema: TableSchema, what: str, op: Any, options: Options, scan: Callable[[str], DataFrame]
) -> Any:
    """Rows as they will travel: Arrow on the driver, a DataFrame, or the names of files that tasks read.
    `scan` makes a DataFrame of files that are too large for every task to read."""
    rows = _read_given(data, schema, what, op, options, scan)
    return filled(schema, rows) if isinstance(rows, pa.Table) and op != "update" else rows


def _read_given(
    data: Any, schema: TableSchema, what: str, op: Any, options: Options, scan: Callable[[str], DataFrame]
) -> Any:
    found = find_parquet(data, what)
    if found is None:
        rows = read_rows(data, schema, what=what, op=op)
        files = None
        if isinstance(rows, SparkRows) and op in LAID_OPS:
            files = scanned(rows, schema, options.read_bytes)
        return files or _paired(rows, schema, what)
    path = str(Path(data).expanduser().absolute())
    if found.size > options.read_bytes:
        return _paired(read_rows(scan(path), schema, what=what, op=op), schema, what)
    chosen = match_columns(found.names, schema, what=what, op=op)
    names = tuple(column.name for column, index in chosen if index is not None)
    if not is_feed(found.names, schema):
        return FileRows((path,), names, found.size, found.rows)
    # Whether updates have both images is seen in all of the rows only.
    if not schema.key or found.size <= min(_FEED_BYTES, options.whole_bytes):
        return read_rows(data, schema, what=what, op=op)
    return FileRows((path,), (*names, CHANGE_TYPE), found.size, found.rows)


def _paired(rows: Any, schema: TableSchema, what: str) -> Any:
    """The rows, if they are no feed in a DataFrame whose updates lack images that they need."""
    if isinstance(rows, SparkRows) and not schema.key:
        check_pairs_in(rows, schema, what)
    return rows


def frames_of(batch: Batch) -> dict[int, SparkRows]:
    """The parts of a batch that are in DataFrames."""
    return {i: part.rows for i, part in enumerate(batch.parts) if isinstance(part.rows, SparkRows)}


def chosen_for(world: World, batch: Batch, programs: bool, most: int | None) -> Chosen:
    """How a batch is run: in one stage if every task may read all of it (so many bytes, at most), else in as
    many as the program has. None: no task may."""
    frames = bool(frames_of(batch))
    if not programs:
        return Chosen(ROWS_ONLY, None, 1 + frames)
    changed = frozenset(part.table for part in batch.parts)
    if most is not None and _readable(world, batch, most) and takes_one_stage(world, changed):
        return Chosen(WHOLE_BATCH, WHOLE, 1)
    program = world.program(STAGED, changed)
    assert program is not None
    return Chosen(BY_STAGES[program.stages - 1], STAGED, program.stages + frames)


def takes_one_stage(world: World, changed: frozenset[str]) -> bool:
    """Whether a batch that every task reads takes one stage."""
    program = world.program(WHOLE, changed)
    return program is not None and bool(program.maps)


def _readable(world: World, batch: Batch, most: int) -> bool:
    """Whether every task may read all of a batch, and its rows are the change that they make."""
    size = 0
    for part in batch.parts:
        if part.op not in ("insert", "delete", "change") or isinstance(part.rows, SparkRows):
            return False
        size += part.rows.size if isinstance(part.rows, FileRows | LaidRows) else part.rows.nbytes
    feeds = [part for part in batch.parts if part.op == "change"]
    return size <= most and all(
        not isinstance(feed.rows, FileRows) and has_full_images(feed.rows, world.catalog.tables[feed.table])
        for feed in feeds
    )


def handed_out(world: World, batch: Batch, chosen: Chosen) -> tuple[list[PartSpec], dict[str, bytes]]:
    """What tasks are told of each part, and the rows that the driver has, packed for them."""
    specs: list[PartSpec] = []
    pieces: dict[str, bytes] = {}
    for index, part in enumerate(batch.parts):
        spec = PartSpec(part.table, part.op, part.what, (), conflict=part.conflict)
        if isinstance(part.rows, SparkRows):
            spec = replace(spec, exchanged=True)
        elif isinstance(part.rows, FileRows):
            spec = replace(spec, files=part.rows.paths)
        elif isinstance(part.rows, LaidRows):
            spec = replace(spec, laid=part.rows.files)
        elif chosen.plan is WHOLE_BATCH:
            pieces[f"{index}"] = pack_table(part.rows)
        else:
            pieces.update(_cut(world, index, part))
        specs.append(spec)
    return specs, pieces


def _cut(world: World, index: int, part: Part) -> dict[str, bytes]:
    """The rows of a part by worker, with their places among all."""
    schema = world.catalog.tables[part.table]
    return {
        f"{index}/{worker}": pack_table(rows.append_column("_row", pa.array(numbers)))
        for worker, rows, numbers in split(part.rows, schema, world.workers)
    }
