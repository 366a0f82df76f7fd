"""Reading signal views: their rows, late rows, and where they are not what their tables give.

Tasks read the units where they are and hand rows over as Arrow in messages. Earlier epochs and changes are in
the segments. To be verified a view needs the rows of its tables with the owners of the groups: a job of two
stages, as that of an epoch, that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.delta.bags import WEIGHT, net, split, subtract
from everfresh.errors import EverfreshError
from everfresh.signals.domain.bases import Groups
from everfresh.signals.domain.view import ViewState
from everfresh.signals.spark.content import CHANGES, GroupContent, Kept
from everfresh.signals.spark.shipping import Arrived, Shipment, ship_all, shipments
from everfresh.spark.jobs.job import DATA, EXCHANGE, Base, World, cut
from everfresh.spark.jobs.job import ROWS as ROW_MESSAGE
from everfresh.spark.jobs.tasks import Batches, drain, emit, worker_number
from everfresh.spark.session.failures import TaskError, translated
from everfresh.spark.sql.text import spark_schema
from everfresh.spark.state.chain import open_for_reading, read_segment
from everfresh.spark.state.content import Role, register
from everfresh.state import pack_table, unpack_table
from everfresh.types import Column, no_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK = 1 << 16


def collected(
    session: SparkSession,
    role: Role,
    version: tuple[World, tuple[Base, ...]],
    view: tuple[str, str],
    late: int | None = None,
    at: int | None = None,
) -> list[pa.Table]:
    """What the workers have of a view, given its name and identity, in the order of workers: its rows, or
    those that a reading left out."""
    world, bases = version
    read = partial(read_block, role, world.left(), bases, view, late, at)
    workers = len(bases)
    with translated():
        found = session.range(0, workers, 1, workers).mapInArrow(read, EXCHANGE).toArrow()
    rows = zip(found.column("to").to_pylist(), found.column("payload"), strict=True)
    return [unpack_table(payload.as_buffer()) for _, payload in sorted(rows, key=lambda row: row[0])]


def frame_of(
    session: SparkSession,
    role: Role,
    version: tuple[World, tuple[Base, ...]],
    view: tuple[str, str],
    columns: Sequence[Column],
    at: int | None,
) -> DataFrame:
    """The rows of a view as SQL has them, as a DataFrame, fixed now."""
    world, bases = version
    read = partial(frame_block, role, world.left(), bases, view, at)
    schema = spark_schema(columns)
    return session.range(0, len(bases), 1, len(bases)).mapInArrow(read, schema)


def checked(
    session: SparkSession,
    role: Role,
    version: tuple[World, tuple[Base, ...]],
    view: tuple[str, str],
    pieces: Mapping[str, Any],
    ships: Sequence[Shipment],
) -> list[pa.Table]:
    """Where a view differs from a run over its tables, with `_weight`, by worker."""
    world, bases = version
    workers, left = len(bases), world.left()
    send = partial(_send_block, left, dict(pieces))
    check = partial(_check_block, role, left, bases, view, tuple(ships))
    with translated():
        sent = session.range(0, workers, 1, workers).mapInArrow(send, EXCHANGE)
        found = sent.repartitionById(workers, "to").mapInArrow(check, EXCHANGE).toArrow()
    return [unpack_table(payload.as_buffer()) for payload in found.column("payload")]


# -- in tasks --------------------------------------------------------------------------------------------


def read_block(
    role: Role,
    world: World,
    bases: tuple[Base, ...],
    view: tuple[str, str],
    late: int | None,
    at: int | None,
    batches: Batches,
) -> Iterator[pa.RecordBatch]:
    """What the worker of a task has of a view."""
    for worker in _workers(batches):
        try:
            kept = _opened(role, world, bases[worker], view)
            table = late_of(kept, late) if late is not None else rows_of(world, bases[worker], kept, at)
        except EverfreshError as error:
            raise TaskError(error) from error
        yield from emit((worker, ROW_MESSAGE, pack_table(piece)) for piece in cut(table.combine_chunks()))


def late_of(kept: Kept, number: int) -> pa.Table:
    """The rows of a reading that one worker has left out."""
    source = kept.state.sources[number]
    nothing = pa.schema([kept.state.schemas[source.reading.table].field(n) for n in source.needed])
    return pa.concat_tables([no_rows(nothing), *source.late.tables])


def frame_block(
    role: Role, world: World, bases: tuple[Base, ...], view: tuple[str, str], at: int | None, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """The rows that the worker of a task has, as SQL has them."""
    for worker in _workers(batches):
        try:
            kept = _opened(role, world, bases[worker], view)
            rows = kept.state.form.relational(rows_of(world, bases[worker], kept, at))
        except EverfreshError as error:
            raise TaskError(error) from error
        yield from rows.combine_chunks().to_batches(max_chunksize=_CHUNK)


def _workers(batches: Batches) -> list[int]:
    return [int(worker) for batch in batches for worker in batch.column("id").to_pylist()]


def _opened(role: Role, world: World, base: Base, view: tuple[str, str]) -> Kept:
    register(role)
    content = open_for_reading(base, world).content
    assert isinstance(content, GroupContent)
    return content.views[view[0]]


def rows_of(world: World, base: Base, kept: Kept, at: int | None) -> pa.Table:
    """The rows of one worker, now or at an earlier epoch."""
    rows, form = kept.state.rows, kept.state.form
    later = [] if at is None else [rows for _, rows in changes_of(world, [base], kept.identity, at)]
    if not later:
        return rows
    change, weights = split(pa.concat_tables(later))
    gone = net(form.binary(change).append_column(WEIGHT, weights))
    return form.of_binary(subtract(form.binary(rows), gone))


def changes_of(world: World, bases: Iterable[Base], identity: str, since: int) -> list[tuple[int, pa.Table]]:
    """The changes in the epochs after `since`, in parts, from the segments of units."""
    parts = []
    for base in bases:
        for link in base.since(since):
            sections: Mapping[str, Any] = read_segment(world, base.unit, link).sections
            if CHANGES + identity in sections:
                parts.append((link.epoch, unpack_table(sections[CHANGES + identity])))
    return parts


def _send_block(world: World, pieces: Mapping[str, Any], batches: Batches) -> Iterator[pa.RecordBatch]:
    for worker in _workers(batches):
        try:
            yield from emit(ship_all(world, pieces, worker))
        except EverfreshError as error:
            raise TaskError(error) from error


def _check_block(
    role: Role,
    world: World,
    bases: tuple[Base, ...],
    view: tuple[str, str],
    ships: tuple[Shipment, ...],
    batches: Batches,
) -> Iterator[pa.RecordBatch]:
    worker = worker_number()
    arrived = Arrived.of(ships, [payload for kind, payload in drain(batches) if kind == DATA])
    try:
        state = _opened(role, world, bases[worker], view).state
        found = state.verify(partial(_held, state, arrived))
    except EverfreshError as error:
        raise TaskError(error) from error
    yield from emit([(worker, ROW_MESSAGE, pack_table(found))])


def _held(view: ViewState, arrived: Arrived, table: str, groups: Groups | None) -> pa.Table:
    (ship,) = shipments(view, [table], "rows")
    rows = arrived.table(ship)
    return no_rows(view.schemas[table]) if rows is None else rows.drop_columns([WEIGHT])
