"""The rows of the tables in tasks: the stage that has them, and those that route rows to it.

The *rows* stage of worker w owns the table rows of w: it resolves the batch against them and runs what
follows from their change alone. The *route* block stands in front only when rows come as a Spark DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa

from everfresh.delta import read_rows
from everfresh.delta.bags import WEIGHT, in_order
from everfresh.delta.parquet import read_exact
from everfresh.distributed.plan.programs import tables_of
from everfresh.distributed.worker.execute import Site
from everfresh.distributed.worker.routing import owners
from everfresh.distributed.worker.wire import Held, entries_table
from everfresh.errors import EverfreshError
from everfresh.expr import Vector
from everfresh.local.state import LocalState
from everfresh.local.store.map_store import MapStore
from everfresh.local.store.pool import Values
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Net, Table, TableUndo
from everfresh.program import Part
from everfresh.spark.input.laying import read_laid
from everfresh.spark.jobs.exchange import given, handed_on, ran
from everfresh.spark.jobs.job import (
    CONTROL,
    DATA,
    ERROR,
    ROWS,
    Job,
    Message,
    PartSpec,
    World,
    cut,
    pack_control,
    pack_error,
)
from everfresh.spark.jobs.plans import Task
from everfresh.spark.jobs.programs import incremental, placement_of
from everfresh.spark.jobs.stages import ROWS as ROWS_STAGE
from everfresh.spark.jobs.tasks import (
    Batches,
    Behind,
    emit,
    finish,
    freeze,
)
from everfresh.spark.overflow import reached
from everfresh.spark.session import observe
from everfresh.spark.sql.forms import from_held
from everfresh.spark.state.chain import Unit, bring_to, next_tag, write_snapshot
from everfresh.spark.state.rowlog import row_sections
from everfresh.spark.state.table_content import tables_in
from everfresh.sql.constraints import filled
from everfresh.state import crash, pack_table, unpack_table
from everfresh.types import TableSchema, arrow_schema

# -- route: rows of a DataFrame to the workers that own them ---------------------------------------


def route_block(world: World, index: int, spec: PartSpec, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Check the rows of one partition of a DataFrame against the table, and cut them by owner."""
    schema = world.catalog.tables[spec.table]
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    messages: list[Message] = []
    try:
        if tables:
            op = "delete" if spec.op == "delete_key" else "insert" if spec.op == "upsert" else spec.op
            read = read_rows(pa.concat_tables(tables), schema, what=spec.what, op=op)  # type: ignore[arg-type]
            rows = filled(schema, cast("pa.Table", read)) if spec.op not in ("update", "delete_key") else read
            head = index.to_bytes(4, "big")
            for worker, own, _ in split(rows, schema, world.workers):
                messages += ((worker, ROWS, head + pack_table(piece)) for piece in cut(own))
    except EverfreshError as error:
        messages = [(worker, ERROR, pack_error(error.to_dict())) for worker in range(world.workers)]
    yield from emit(messages)
    freeze()


def split(
    rows: pa.Table, schema: TableSchema, workers: int, only: int | None = None
) -> Iterator[tuple[int, pa.Table, Any]]:
    """Rows cut by the worker that owns them: by primary key, or by the whole row; with their positions. Those
    of all workers, or of one."""
    names = [n for n in schema.names if n in (schema.key or schema.names)]
    vectors = [Vector.from_arrow(rows.column(n), schema.column(n).type) for n in names]
    to = owners(vectors, rows.num_rows, workers)
    for worker in range(workers) if only is None else (only,):
        index = np.flatnonzero(to == worker)
        if len(index):
            yield worker, rows.take(pa.array(index)) if len(index) < len(to) else rows, index


def change_block(world: World, view: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Send the change of a re-evaluated view, rows with `_weight`, to the workers that own its rows."""
    store = MapStore(world.catalog.views[view].compiled, Interner())
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    messages: list[Message] = []
    if tables:
        rows = pa.concat_tables(tables)
        # A plan may give its rows in another order when it is computed again.
        rows = rows.take(in_order(rows))
        values = Values.zeros(store.layout, rows.num_rows)
        values.n[:] = rows.column(WEIGHT).to_numpy()
        values_held = from_held(rows.drop_columns([WEIGHT]), store.codec.columns)
        words = store.codec.encode(values_held.cast(arrow_schema(store.codec.columns)))
        messages = list(_to_owners(world, store, words, values))
    yield from emit(messages)
    freeze()


# -- the rows of the tables -----------------------------------------------------------------------


def rows_stage(task: Task) -> Iterator[Message]:
    """Change the tables of this worker, and send what follows from it to the maps."""
    yield from _KINDS[task.job.kind](task.job, task.worker, task.take(ROWS))


def open_base(job: Job, worker: int) -> tuple[Unit, str]:
    """The worker's tables at the version that the job names, and how they were had."""
    unit, how = bring_to(job.bases[f"base/{worker}"], job.world)
    crash("opened", job.world.fault, worker, job.world.inbox)
    return unit, how


def _apply_batch(job: Job, worker: int, rows: list[bytes]) -> Iterator[Message]:
    parts: dict[str, list[Part]] = {}
    for index, spec in enumerate(job.parts):
        part = _part(job, index, spec, worker, rows)
        if part is not None:
            parts.setdefault(spec.table, []).append(part)
    unit, _ = open_base(job, worker)
    nets = resolved(job, unit, parts)
    out: list[Message] = []
    program = job.program
    if nets and program is not None:
        tables = {n: tables_in(unit).table(job.world, n) for n in nets}
        try:
            out = list(_from_rows(job, unit, given(program, tables, nets)))
        except BaseException:
            _discard(job, unit, nets)
            raise
    yield worker, CONTROL, change_tables(job, unit, worker, nets, parts)
    yield from out


def resolved(job: Job, unit: Unit, parts: Mapping[str, list[Part]]) -> dict[str, Net]:
    """The net changes of a worker's tables."""
    nets: dict[str, Net] = {}
    try:
        for name, of in parts.items():
            nets[name] = tables_in(unit).table(job.world, name).resolve(of)
    except BaseException:
        _discard(job, unit, nets)
        raise
    _discard(job, unit, {name: change for name, change in nets.items() if not len(change)})
    return {name: change for name, change in nets.items() if len(change)}


def _discard(job: Job, unit: Unit, nets: Mapping[str, Net]) -> None:
    """Forget changes that were not applied."""
    for name, change in nets.items():
        tables_in(unit).table(job.world, name).discard(change)


def _from_rows(job: Job, unit: Unit, held: Mapping[str, Held]) -> Iterator[Message]:
    """What follows from the changes of this worker's rows alone."""
    program = job.program
    assert program is not None
    site = tables_in(unit).blank(job.world)
    _, known = ran(site, program.blocks[ROWS_STAGE], held)
    yield from handed_on(job.world, site, program, ROWS_STAGE, known)


def change_tables(
    job: Job,
    unit: Unit,
    worker: int,
    nets: Mapping[str, Net],
    parts: Mapping[str, list[Part]],
    behind: Behind | None = None,
    **notes: Any,
) -> bytes:
    """Change the rows of a worker's tables by what came of the parts of a batch: what was done, as a control
    row. The segment may be written `behind`."""
    world = job.world
    tag_in = unit.version[1]
    sections: dict[str, bytes] = {}
    changed, held = 0, tables_in(unit)
    unit.begin()
    for name, change in sorted(nets.items()):
        table = held.table(world, name)
        if name in job.published:
            rows = table.codec.decode(change.words).append_column(WEIGHT, pa.array(change.weights))
            sections[f"changes/{world.ids[name]}"] = pack_table(rows)
        applied = table.apply(change)
        unit.record(partial(_taken_back, table, change, applied), partial(table.commit, applied))
        crash("mid-apply", world.fault, worker, world.inbox)
        sections.update(row_sections(world.ids[name], table, change, parts[name]))
        changed += int(np.abs(change.weights).sum())
    crash("after-apply", world.fault, worker, world.inbox)
    sizes = {world.ids[name]: len(held.table(world, name).pool) for name in nets}
    reach = reached({name: held.table(world, name) for name in nets}, nets)
    return finish(job, unit, tag_in, sections, changed, behind, sizes=sizes, reach=reach, **notes)


def _taken_back(table: Table, change: Net, applied: TableUndo) -> None:
    table.rollback(applied)
    table.discard(change)


def bound(fn: Callable[[Any], None], value: Any) -> Callable[[], None]:
    """A call for later."""
    return lambda: fn(value)


def _part(job: Job, index: int, spec: PartSpec, worker: int, rows: list[bytes]) -> Part | None:
    """This worker's rows of one part of the batch, wherever they come from."""
    schema = job.world.catalog.tables[spec.table]
    if spec.exchanged:
        head = index.to_bytes(4, "big")
        pieces = [unpack_table(payload[4:]) for payload in rows if payload[:4] == head]
        if not pieces:
            return None
        table = pa.concat_tables(pieces).combine_chunks()
        observe.arrive(table.num_rows)
        # A DataFrame may give its rows in another order when it is computed again.
        return spec.part(table.take(in_order(table)))
    if spec.laid is not None or spec.files:
        return own_part(spec, read_whole(job, index, spec), schema, job.world.workers, worker)
    piece = job.piece(index, worker)
    if piece is None:
        return None
    return spec.part(piece.drop_columns(["_row"]), piece.column("_row").to_numpy())


def own_part(spec: PartSpec, rows: pa.Table, schema: TableSchema, workers: int, worker: int) -> Part | None:
    """The rows of a worker among all of a part; those of a DataFrame have no numbers."""
    mine = next(split(rows, schema, workers, worker), None)
    return spec.part(mine[1], None if spec.laid is not None else mine[2]) if mine is not None else None


def read_whole(job: Job, index: int, spec: PartSpec) -> pa.Table:
    """All rows of a part that every task may read."""
    if spec.laid is not None:
        return read_laid(job.world, spec)
    if spec.files:
        return _read_files(spec, job.world.catalog.tables[spec.table])
    rows = job.piece(index)
    assert rows is not None
    return rows


def _read_files(spec: PartSpec, schema: TableSchema) -> pa.Table:
    op: Any = "delete" if spec.op == "delete_key" else spec.op
    exact = read_exact(spec.files, schema, spec.what, op) if spec.op in ("insert", "delete") else None
    if exact is not None:
        return exact
    found = [cast("pa.Table", read_rows(file, schema, what=spec.what, op=op)) for file in spec.files]
    rows = found[0] if len(found) == 1 else pa.concat_tables(found).combine_chunks()
    return filled(schema, rows) if spec.op not in ("update", "delete_key") else rows


def _to_owners(world: World, store: MapStore, words: Any, values: Values) -> Iterator[Message]:
    """Entries of a map's change cut by the worker that owns their key."""
    table = entries_table(store.codec, words, values)
    to = owners(list(store.codec.vectors(words).values()), len(values), world.workers)
    head = world.ids[store.view.name].encode()
    for worker in range(world.workers):
        index = np.flatnonzero(to == worker)
        if len(index):
            for piece in cut(table.take(pa.array(index))):
                yield worker, DATA, len(head).to_bytes(2, "big") + head + pack_table(piece)


def _load_view(job: Job, worker: int, _rows: list[bytes]) -> Iterator[Message]:
    """The first contents of a new view, from the rows this worker has."""
    world, program = job.world, job.program
    assert program is not None
    unit, _ = open_base(job, worker)
    tag = unit.version[1]
    nothing = {"unit": unit.name, "nonce": job.nonce, "tag_in": tag, "tag": tag, "file": None, "rows": 0}
    yield worker, CONTROL, pack_control(nothing)
    held = tables_in(unit)
    tables = {n: held.table(world, n) for n in tables_of(world.catalog, job.view or "")}
    nets = {n: _all_rows(table) for n, table in tables.items()}
    site = Site(
        LocalState.blank(incremental(world.catalog, job.view), held.interner),
        worker,
        world.workers,
        placement_of(world.catalog),
    )
    _, known = ran(site, program.blocks[ROWS_STAGE], given(program, tables, nets))
    yield from handed_on(world, site, program, ROWS_STAGE, known)


def _all_rows(table: Table) -> Net:
    slots = table.pool.live()
    return Net(table.pool.keys_at(slots), table.pool.gather(slots).n)


def _alter_table(job: Job, worker: int, _rows: list[bytes]) -> Iterator[Message]:
    """The table with a column added, dropped or renamed: the unit is written anew, its chain starts there."""
    assert job.alter is not None
    old_world, (old, new, default) = job.world, job.alter
    unit, _ = open_base(job, worker)
    tag_in = unit.version[1]
    held = tables_in(unit)
    table = held.table(old_world, old.name)
    vector = Vector.constant(default.value, default.type, 1) if default is not None else None
    unit.begin()
    renamed = len(old.names) == len(new.names) and old.names != new.names
    known = table.declared(new) if renamed else table.altered(new, vector)
    held.tables[old_world.ids[old.name]] = known
    tag = next_tag(tag_in, f"{new.ddl} {default}".encode())
    file = write_snapshot(unit, old_world, (old_world.epoch, tag))
    unit.dirty = True  # the unit is of the new catalog: it is read back from its snapshot
    yield (
        worker,
        CONTROL,
        pack_control(
            {
                "unit": unit.name,
                "nonce": job.nonce,
                "tag_in": tag_in,
                "tag": tag,
                "snapshot": file,
                "file": None,
                "rows": 0,
            }
        ),
    )


_KINDS: dict[str, Callable[[Job, int, list[bytes]], Iterator[Message]]] = {
    "batch": _apply_batch,
    "load": _load_view,
    "refill": _load_view,
    "alter": _alter_table,
}
