"""Small batches in DataFrames: their rows are laid down as files first, and every task reads them there.

Routing the rows of a DataFrame takes an exchange for its rows, and another for what follows from them. A
batch that every task may read whole takes one stage. So a job of one stage writes the rows of each partition,
checked against the table, to a file in the inbox, and the batch goes on as one in files: no row passes the
driver. What is too large for that is routed, and computed twice; which tables get such batches is remembered.

A file is named by the task that says it is done: an attempt that nobody waits for leaves one that nobody
reads. Its name has the digest of its rows, and a file that has other rows is not read either.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

import pyarrow as pa

from everfresh.delta import read_rows
from everfresh.errors import EverfreshError
from everfresh.spark.jobs.job import ERROR, ROWS, Message, PartSpec, World, pack_error
from everfresh.spark.jobs.messages import refused
from everfresh.spark.jobs.tasks import Batches, emit, freeze
from everfresh.sql.constraints import filled
from everfresh.state import pack_table, unpack_table
from everfresh.types import arrow_schema, no_rows

LAID_OPS = ("insert", "delete")


@dataclass(frozen=True, slots=True)
class LaidRows:
    """Rows of a DataFrame in files of the inbox, as Arrow of the table's types."""

    files: tuple[str, ...]
    column_names: tuple[str, ...]
    size: int
    num_rows: int


def lay_block(
    world: World, index: int, spec: PartSpec, limit: int, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one partition of a DataFrame, checked against the table, to a file; none if they have
    more bytes than the limit."""
    schema = world.catalog.tables[spec.table]
    tables: list[pa.Table] = []
    size = 0
    for batch in batches:  # to the end: else the process is not used again
        size += batch.nbytes
        if size <= limit:
            tables.append(pa.Table.from_batches([batch]))
    message: Message | None = None
    try:
        if size > limit:
            message = 0, ROWS, _said(index, None, size, 0)
        elif tables:
            given = pa.concat_tables(tables)
            read = read_rows(given, schema, what=spec.what, op=spec.op)  # type: ignore[arg-type]
            rows = filled(schema, cast("pa.Table", read))
            packed = pack_table(rows)
            name = f"inbox/{uuid.uuid4().hex}.{sha256(packed).hexdigest()}.rows"
            world.store.replace(name, packed, durable=False)
            message = 0, ROWS, _said(index, name, rows.nbytes, rows.num_rows)
    except EverfreshError as error:
        message = 0, ERROR, pack_error(error.to_dict())
    yield from emit([message] if message is not None else [])
    freeze()


def _said(index: int, file: str | None, size: int, rows: int) -> bytes:
    return json.dumps([index, file, size, rows]).encode()


def laid_rows(columns: Mapping[int, tuple[str, ...]], answers: list[bytes]) -> dict[int, LaidRows]:
    """What tasks said of the parts with these columns; a part too large has no files, but its size."""
    found = {index: LaidRows((), names, 0, 0) for index, names in columns.items()}
    for index, file, size, rows in sorted(json.loads(answer) for answer in answers):
        had = found[index]
        files = (*had.files, file) if file is not None else had.files
        found[index] = LaidRows(files, had.column_names, had.size + size, had.num_rows + rows)
    return found


def read_laid(world: World, spec: PartSpec) -> pa.Table:
    """All rows of a part that was laid down."""
    found = [_read(world, file) for file in spec.laid or ()]
    if not found:
        return no_rows(arrow_schema(world.catalog.tables[spec.table].columns))
    return found[0] if len(found) == 1 else pa.concat_tables(found).combine_chunks()


def _read(world: World, file: str) -> pa.Table:
    data = world.store.view(file)
    if sha256(data).hexdigest() != file.split(".")[-2]:
        raise refused(file, "its rows are not those that a task left")
    return unpack_table(data)


def removed(world: World, rows: LaidRows) -> None:
    """Remove the files of a batch that is over."""
    for file in rows.files:
        world.store.remove(file)
