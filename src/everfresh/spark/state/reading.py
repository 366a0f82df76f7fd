"""Reading the units: what tasks do for a DataFrame over a table or view, and the driver for its own unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from everfresh.delta.bags import WEIGHT, expand, net, subtract
from everfresh.distributed.plan.tags import Replicated
from everfresh.errors import EverfreshError
from everfresh.spark.jobs.job import Base, World
from everfresh.spark.jobs.programs import placement_of
from everfresh.spark.jobs.tasks import freeze
from everfresh.spark.session.failures import TaskError
from everfresh.spark.sql.forms import held
from everfresh.spark.state.chain import open_for_reading, read_segment
from everfresh.spark.state.table_content import TableContent, tables_in
from everfresh.state import unpack_table
from everfresh.types import arrow_schema
from everfresh.types.exchange import arrow_of

Batches = Iterable[pa.RecordBatch]


def read_block(
    world: World, bases: tuple[Base, ...], name: str, at: int | None, chunk: int, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """The rows of a table or view that this worker has, at the version `bases` names or (a view) at an
    earlier epoch."""
    # The worker is what the anchor's row says: inside a union a task's number is not the partition's.
    workers = [int(worker) for batch in batches for worker in batch.column("id").to_pylist()]
    for worker in workers:
        try:
            rows = rows_of(world, bases[worker], name, at)
            found = world.catalog.relation(name)
            assert found is not None
            rows = held(rows, found[1])
        except EverfreshError as error:
            raise TaskError(error) from error
        yield from rows.to_batches(max_chunksize=chunk)
    freeze()


def given_block(packed: bytes, chunk: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows that the driver had."""
    for _ in batches:
        pass
    yield from unpack_table(packed).to_batches(max_chunksize=chunk)


def rows_of(world: World, base: Base, name: str, at: int | None, among: pa.Table | None = None) -> pa.Table:
    """The rows of a table or view in one unit, each as often as it is there; of a table `among` has values of
    some columns: at least the rows that have them."""
    held = tables_in(open_for_reading(base, world))
    if name not in world.catalog.tables:
        return _view_rows(held, world, base, name, at)
    rows, counts = held.table(world, name).rows(among=among)
    return expand(rows.append_column(WEIGHT, pa.array(counts)))


def _view_rows(held: TableContent, world: World, base: Base, name: str, at: int | None) -> pa.Table:
    store = held.map(world, name)
    # A view that always has one row has it on the worker that owns the empty key; what every worker has
    # counts once.
    first = held.number <= 0
    everywhere = not store.compiled.reevaluated and isinstance(
        placement_of(world.catalog).maps[store.target.name], Replicated
    )
    mine = first or not (store.view.always or everywhere)
    columns = store.view.columns
    none = [arrow_of([], column.type) for column in columns]  # Arrow has no empty structs of UUIDs
    table = expand(store.rows()) if mine else pa.Table.from_arrays(none, schema=arrow_schema(columns))
    if at is None:
        return table
    section = f"changes/{world.ids[name]}"
    later = [read_segment(world, base.unit, link) for link in base.since(at)]
    changes = [unpack_table(sealed.sections[section]) for sealed in later if section in sealed.sections]
    return subtract(table, net(pa.concat_tables(changes))) if changes else table
