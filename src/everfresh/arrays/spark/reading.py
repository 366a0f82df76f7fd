"""Reading arrays: rows of a version, rows of an earlier epoch, and what is not where the catalog says.

Tasks read the units where they are and hand rows over as Arrow in messages, so that every type arrives as it
was. Changes are read from the segments, as those of views are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.arrays.model import ArraySchema
from everfresh.arrays.spark.content import CAME, LEFT, TOOK, WENT, ChunkContent, Held, schema_of
from everfresh.delta.bags import net, subtract, weigh
from everfresh.errors import EverfreshError
from everfresh.spark.jobs.job import EXCHANGE, ROWS, Base, World, cut
from everfresh.spark.jobs.tasks import Batches, emit
from everfresh.spark.session.failures import TaskError, translated
from everfresh.spark.sql.text import spark_schema
from everfresh.spark.state.chain import open_for_reading, read_segment
from everfresh.state import pack_table, unpack_table
from everfresh.types import no_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK = 1 << 16
Expected = Mapping[int, int]
"""How many cells the catalog says that chunks have, by number."""


def collected(
    session: SparkSession,
    world: World,
    bases: tuple[Base, ...],
    array: tuple[str, str],
    at: int | None = None,
    expected: tuple[Expected, ...] | None = None,
    only: tuple[frozenset[int], ...] | None = None,
) -> pa.Table:
    """The rows of an array, given its identity and DDL, in no certain order; with `expected`, those of chunks
    that are not as it says; with `only`, those of these chunks of each worker."""
    read = partial(read_block, world.left(), bases, array, at, expected, only)
    workers = len(bases)
    with translated():
        found = session.range(0, workers, 1, workers).mapInArrow(read, EXCHANGE).toArrow()
    tables = [unpack_table(payload.as_buffer()) for payload in found.column("payload")]
    return pa.concat_tables([no_rows(schema_of(array[1]).arrow), *tables])


def frame_of(
    session: SparkSession, world: World, bases: tuple[Base, ...], array: tuple[str, str], at: int | None
) -> DataFrame:
    """The rows of an array as a DataFrame, fixed now."""
    read = partial(frame_block, world.left(), bases, array, at)
    schema = spark_schema(schema_of(array[1]).columns)
    return session.range(0, len(bases), 1, len(bases)).mapInArrow(read, schema)


def frame_block(
    world: World, bases: tuple[Base, ...], array: tuple[str, str], at: int | None, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """The rows that the worker of a task has, as they are."""
    identity, schema = array[0], schema_of(array[1])
    for worker in [int(w) for batch in batches for w in batch.column("id").to_pylist()]:
        try:
            rows = rows_of(world, bases[worker], identity, schema, at)
        except EverfreshError as error:
            raise TaskError(error) from error
        yield from rows.combine_chunks().to_batches(max_chunksize=_CHUNK)


def read_block(
    world: World,
    bases: tuple[Base, ...],
    array: tuple[str, str],
    at: int | None,
    expected: tuple[Expected, ...] | None,
    only: tuple[frozenset[int], ...] | None,
    batches: Batches,
) -> Iterator[pa.RecordBatch]:
    """The rows that the worker of a task has."""
    identity, schema = array[0], schema_of(array[1])
    for worker in [int(w) for batch in batches for w in batch.column("id").to_pylist()]:
        try:
            if expected is not None:
                rows = misplaced(world, bases[worker], identity, schema, expected[worker])
            elif only is not None:
                held = chunks_of(world, bases[worker], identity)
                rows = _every(schema, (held[n].table for n in sorted(only[worker])))
            else:
                rows = rows_of(world, bases[worker], identity, schema, at)
        except EverfreshError as error:
            raise TaskError(error) from error
        yield from emit((worker, ROWS, pack_table(piece)) for piece in cut(rows))


def chunks_of(world: World, base: Base, identity: str) -> Held:
    """The chunks of an array that one worker has."""
    content = open_for_reading(base, world).content
    assert isinstance(content, ChunkContent)
    return content.array(identity)


def rows_of(world: World, base: Base, identity: str, schema: ArraySchema, at: int | None) -> pa.Table:
    """The rows of one worker, now or at an earlier epoch."""
    rows = _every(schema, (chunk.table for chunk in chunks_of(world, base, identity).values()))
    if at is None:
        return rows
    later = [table for _, table in changes_of(world, [base], identity, schema, at, moved=True)]
    return subtract(rows, net(pa.concat_tables(later))) if later else rows


def misplaced(world: World, base: Base, identity: str, schema: ArraySchema, expected: Expected) -> pa.Table:
    """The rows of chunks that the catalog does not have here, or has otherwise."""
    held = chunks_of(world, base, identity)
    missing = sorted(expected.keys() - held.keys())
    if missing:
        raise AssertionError(f"chunk {missing[0]} of {identity} is not where the catalog says")
    wrong = [
        chunk.table
        for number, chunk in held.items()
        if expected.get(number) != len(chunk) or (schema.chunk_ids(chunk.coords) != number).any()
    ]
    return _every(schema, wrong)


def changes_of(
    world: World,
    bases: Iterable[Base],
    identity: str,
    schema: ArraySchema,
    since: int,
    moved: bool = False,
) -> list[tuple[int, pa.Table]]:
    """The changes in the epochs after `since`, in parts, from the segments of units; if asked for with the
    chunks that moved between them."""
    parts = []
    kinds = ((CAME, 1), (WENT, -1), *(((TOOK, 1), (LEFT, -1)) if moved else ()))
    for base in bases:
        for link in base.since(since):
            sections: Mapping[str, Any] = read_segment(world, base.unit, link).sections
            both = [
                weigh(unpack_table(sections[kind + identity]), sign)
                for kind, sign in kinds
                if kind + identity in sections
            ]
            if both:
                parts.append((link.epoch, net(pa.concat_tables(both))))
    return parts


def _every(schema: ArraySchema, tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([no_rows(schema.arrow), *tables])
