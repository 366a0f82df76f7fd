"""What runs in tasks: route, base, maps, results, whole. Each is a generator over Arrow batches for
`mapInArrow`.

A batch is one job. The *base* block of worker w owns the table rows of w: it resolves the batch against
them and runs what follows from their change alone. After an exchange the *maps* block of each worker runs the
statements on its maps, after another the *results* block adds what came for its results. Where every task may
read the whole batch, the *whole* block does all of it in one stage: its part of the tables, and its part of
the maps by the whole change. The *route* block stands in front only when rows come as a Spark DataFrame. What
the driver gathers comes with the job's answer.

A task drains its input (else its process is not used again), never raises for what a batch can cause (an
exception ends the process and its warm state: such errors travel as rows), and is a function of its unit's
version and of the multiset of its input rows. What goes through an exchange holds no times, process numbers
or other things that a retry would not repeat.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from everfresh.delta import read_rows
from everfresh.delta.bags import WEIGHT
from everfresh.distributed.execute import Journal, Site
from everfresh.distributed.routing import owners
from everfresh.distributed.wire import Held, entries_table, entries_values
from everfresh.errors import EverfreshError
from everfresh.expr import Vector
from everfresh.local.mapstore import MapStore
from everfresh.local.pool import Values
from everfresh.local.state import LocalState
from everfresh.local.strings import Interner
from everfresh.local.table import Net, Table
from everfresh.program import Part
from everfresh.spark import observe
from everfresh.spark.adaptive import refilled
from everfresh.spark.distribute import done, given, given_whole, handed_on, ran, received
from everfresh.spark.jobs import (
    AGAIN,
    CONTROL,
    DATA,
    ERROR,
    GATHERED,
    PROPERTY,
    ROWS,
    Job,
    PartSpec,
    World,
    pack_control,
    pack_error,
)
from everfresh.spark.programs import incremental, placement_of
from everfresh.spark.stages import MAPS, RESULTS
from everfresh.spark.stages import ROWS as ROWS_STAGE
from everfresh.spark.units import (
    Unit,
    bring_to,
    map_image,
    next_tag,
    seal_segment,
    table_image,
    write_segment,
    write_snapshot,
)
from everfresh.state import crash, pack_table, unpack_table
from everfresh.types import TableSchema, arrow_schema

Batches = Iterable[pa.RecordBatch]
Message = tuple[int, int, bytes]
_SCHEMA = pa.schema([("to", pa.int32()), ("kind", pa.int32()), ("payload", pa.binary())])
_EMIT_BYTES = 4 << 20
FILLING = ("load", "refill")
"""Jobs that run a view's program with all rows of its tables: a new view's, or one that is filled anew."""
_frozen = 0


# -- the frame around every task -------------------------------------------------------------------


def _worker() -> int:
    return int(TaskContext.get().partitionId())


def _job(root: str) -> Job:
    nonce = TaskContext.get().getLocalProperty(PROPERTY)
    return Job.read(Path(root) / "inbox" / nonce)


def _drain(batches: Batches) -> list[tuple[int, bytes]]:
    """All messages of an exchange, in an order that does not depend on how they arrived; an anchor's rows
    are none."""
    observe.begin()
    found: list[tuple[int, bytes]] = []
    for batch in batches:
        if "kind" not in batch.schema.names:
            continue
        found.extend(zip(batch.column("kind").to_pylist(), batch.column("payload").to_pylist(), strict=True))
    return sorted(found)


def _emit(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as batches of up to a few megabytes: each crosses to the JVM by itself."""
    some: list[Message] = []
    size = 0
    for message in messages:
        some.append(message)
        size += len(message[2])
        if size > _EMIT_BYTES:
            yield _emitted(some)
            some, size = [], 0
    if some:
        yield _emitted(some)


def _emitted(messages: list[Message]) -> pa.RecordBatch:
    to, kinds, payloads = zip(*messages, strict=True)
    columns = [pa.array(to, pa.int32()), pa.array(kinds, pa.int32()), pa.array(payloads, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def freeze() -> None:
    """A worker collects all garbage after every task: keep it from walking modules and kernels, which
    never change."""
    global _frozen  # noqa: PLW0603 - one counter per process
    if _frozen < 2:
        _frozen += 1
        gc.collect()
        gc.freeze()


# -- route: rows of a DataFrame to the workers that own them ---------------------------------------


def route_block(world: World, index: int, spec: PartSpec, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Check the rows of one partition of a DataFrame against the table, and cut them by owner."""
    schema = world.catalog.tables[spec.table]
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    messages: list[Message] = []
    try:
        if tables:
            op = "delete" if spec.op == "delete_key" else "insert" if spec.op == "upsert" else spec.op
            rows = read_rows(pa.concat_tables(tables), schema, what=spec.what, op=op)  # type: ignore[arg-type]
            for worker, piece, _ in split(rows, schema, world.workers):
                messages.append((worker, ROWS, index.to_bytes(4, "big") + pack_table(piece)))
    except EverfreshError as error:
        messages = [(worker, ERROR, pack_error(error.to_dict())) for worker in range(world.workers)]
    yield from _emit(messages)
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
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in rows.column_names]))
        values = Values.zeros(store.layout, rows.num_rows)
        values.n[:] = rows.column(WEIGHT).to_numpy()
        words = store.codec.encode(rows.drop_columns([WEIGHT]).cast(arrow_schema(store.codec.columns)))
        messages = list(_to_owners(world, store, words, values))
    yield from _emit(messages)
    freeze()


# -- base: the rows of the tables ------------------------------------------------------------------


def base_block(root: str, last: bool, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Change the tables of this worker and send what follows from it to the maps (unless this block is
    the `last`)."""
    job = _job(root)
    worker = _worker()
    messages = _drain(batches)
    try:
        errors = [payload for kind, payload in messages if kind == ERROR]
        if errors:
            out: list[Message] = [(to, ERROR, errors[0]) for to in _targets(job, worker, last)]
        else:
            out = list(_BASE[job.kind](job, worker, [payload for kind, payload in messages if kind == ROWS]))
    except EverfreshError as error:
        out = [(to, ERROR, pack_error(error.to_dict())) for to in _targets(job, worker, last)]
    yield from _emit(out)
    freeze()


def _targets(job: Job, worker: int, last: bool) -> Iterable[int]:
    """Whom an error is told: every worker, so that none changes its maps; or just the driver."""
    return (worker,) if last else range(job.world.workers)


def _open_base(job: Job, worker: int) -> tuple[Unit, str]:
    unit, how = bring_to(job.bases[f"base/{worker}"], job.world)
    crash("opened", job.world.fault, worker, job.world.inbox)
    return unit, how


def _apply_batch(job: Job, worker: int, rows: list[bytes]) -> Iterator[Message]:
    parts: dict[str, list[Part]] = {}
    for index, spec in enumerate(job.parts):
        part = _part(job, index, spec, worker, rows)
        if part is not None:
            parts.setdefault(spec.table, []).append(part)
    unit, how = _open_base(job, worker)
    nets = _resolved(job, unit, parts)
    out: list[Message] = []
    program = job.program
    if nets and program is not None:
        tables = {n: unit.table(job.world, n) for n in nets}
        out = list(_from_rows(job, unit, given(program, tables, nets)))
    yield worker, CONTROL, _change_tables(job, unit, worker, nets, how=how)
    yield from out


def _resolved(job: Job, unit: Unit, parts: Mapping[str, list[Part]]) -> dict[str, Net]:
    nets = {name: unit.table(job.world, name).resolve(of) for name, of in parts.items()}
    return {name: change for name, change in nets.items() if len(change)}


def _from_rows(job: Job, unit: Unit, held: Mapping[str, Held]) -> Iterator[Message]:
    """What follows from the changes of this worker's rows alone."""
    program = job.program
    assert program is not None
    site = unit.blank(job.world)
    _, known = ran(site, program.blocks[ROWS_STAGE], held)
    yield from handed_on(job.world, site, program, ROWS_STAGE, known)


def _change_tables(job: Job, unit: Unit, worker: int, nets: Mapping[str, Net], **notes: Any) -> bytes:
    """Change the rows of a worker's tables: what was done, as a control row."""
    world = job.world
    tag_in = unit.version[1]
    sections: dict[str, bytes] = {}
    changed = 0
    unit.begin()
    for name, change in sorted(nets.items()):
        table = unit.table(world, name)
        applied = table.apply(change)
        unit.record(_bound(table.rollback, applied), _bound(table.commit, applied))
        crash("mid-apply", world.fault, worker, world.inbox)
        sections[f"table/{world.ids[name]}"] = _table_after(table, change)
        changed += int(np.abs(change.weights).sum())
    crash("after-apply", world.fault, worker, world.inbox)
    sizes = {world.ids[name]: len(unit.table(world, name).pool) for name in nets}
    return finish(job, unit, tag_in, sections, changed, sizes=sizes, **notes)


def _bound(fn: Callable[[Any], None], value: Any) -> Callable[[], None]:
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
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
        return spec.part(table.take(order))
    if spec.files:
        mine = next(split(_read_files(spec, schema), schema, job.world.workers, worker), None)
        return spec.part(*mine[1:]) if mine is not None else None
    piece = job.piece(index, worker)
    if piece is None:
        return None
    return spec.part(piece.drop_columns(["_row"]), piece.column("_row").to_numpy())


def _read_files(spec: PartSpec, schema: TableSchema) -> pa.Table:
    op = "delete" if spec.op == "delete_key" else spec.op
    found = [read_rows(file, schema, what=spec.what, op=op) for file in spec.files]  # type: ignore[arg-type]
    return found[0] if len(found) == 1 else pa.concat_tables(found).combine_chunks()


def _table_after(table: Table, change: Net) -> bytes:
    if table.schema.key:
        order = np.argsort(
            change.weights > 0, kind="stable"
        )  # what goes first, so that a key is free for what comes
        words = np.ascontiguousarray(change.words[:, order])
        return table_image(table, words, np.maximum(change.weights[order], 0))
    return table_image(table, change.words, table.pool.gather(table.pool.find(change.words)).n)


def _to_owners(world: World, store: MapStore, words: Any, values: Values) -> Iterator[Message]:
    """Entries of a map's change cut by the worker that owns their key."""
    table = entries_table(store.codec, words, values)
    to = owners(list(store.codec.vectors(words).values()), len(values), world.workers)
    head = world.ids[store.view.name].encode()
    for worker in range(world.workers):
        index = np.flatnonzero(to == worker)
        if len(index):
            payload = len(head).to_bytes(2, "big") + head + pack_table(table.take(pa.array(index)))
            yield worker, DATA, payload


def finish(job: Job, unit: Unit, tag_in: str, sections: dict[str, bytes], rows: int, **extra: Any) -> bytes:
    """End a step: seal its segment, keep it small or write it, and say what was done."""
    world = job.world
    header: dict[str, Any] = {"unit": unit.name, "nonce": job.nonce, "tag_in": tag_in, "rows": rows, **extra}
    header.update(observe.arrived())
    if not sections:
        unit.dirty = False
        return pack_control({**header, "tag": tag_in, "file": None})
    data, tag = seal_segment(unit.name, world.epoch, tag_in, sections)
    unit.end(world.epoch, tag)
    if len(data) <= world.inline_bytes:
        return pack_control({**header, "tag": tag, "file": None, "bytes": len(data)}, data)
    crash("mid-write", world.fault, unit.number, world.inbox)
    file = write_segment(world, unit.name, world.epoch, tag, data)
    crash("after-write", world.fault, unit.number, world.inbox)
    return pack_control({**header, "tag": tag, "file": file, "bytes": len(data)})


def _load_view(job: Job, worker: int, _rows: list[bytes]) -> Iterator[Message]:
    """The first contents of a new view, from the rows this worker has."""
    world, program = job.world, job.program
    assert program is not None
    unit, _ = _open_base(job, worker)
    tag = unit.version[1]
    nothing = {"unit": unit.name, "nonce": job.nonce, "tag_in": tag, "tag": tag, "file": None, "rows": 0}
    yield worker, CONTROL, pack_control(nothing)
    tables = {n: unit.table(world, n) for n in world.catalog.views[job.view or ""].compiled.bases}
    nets = {n: _all_rows(table) for n, table in tables.items()}
    site = Site(
        LocalState.blank(incremental(world.catalog, job.view), unit.interner),
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
    """The table with a column added or dropped: the unit is written anew, and its chain starts there."""
    assert job.alter is not None
    old_world, (old, new, default) = job.world, job.alter
    unit, _ = _open_base(job, worker)
    tag_in = unit.version[1]
    table = unit.table(old_world, old.name)
    vector = Vector.constant(default.value, default.type, 1) if default is not None else None
    unit.begin()
    unit.tables[old_world.ids[old.name]] = table.altered(new, vector)
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


def _snapshot(job: Job, worker: int, _rows: list[bytes]) -> Iterator[Message]:
    """The units of this worker as files."""
    for name in [unit for unit in job.bases if unit.endswith(f"/{worker}")]:
        unit, _ = bring_to(job.bases[name], job.world)
        file = write_snapshot(unit, job.world, unit.version)
        crash("mid-snapshot", job.world.fault, worker, job.world.inbox)
        header = {
            "unit": name,
            "nonce": job.nonce,
            "tag_in": unit.version[1],
            "tag": unit.version[1],
            "snapshot": file,
        }
        yield worker, CONTROL, pack_control(header)


_BASE: dict[str, Callable[[Job, int, list[bytes]], Iterator[Message]]] = {
    "batch": _apply_batch,
    "load": _load_view,
    "refill": _load_view,
    "alter": _alter_table,
    "snapshot": _snapshot,
}


# -- maps and results: the entries of the views ------------------------------------------------------


def maps_block(root: str, last: bool, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Run the statements of what the base blocks sent on the maps of this worker, publish each view's change,
    and (unless this block is the `last`) send on what belongs to results."""
    yield from _program_block(root, "maps", last, batches)


def results_block(root: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Add what the maps blocks sent to the results of this worker."""
    yield from _program_block(root, "results", True, batches)


def _program_block(root: str, role: str, last: bool, batches: Batches) -> Iterator[pa.RecordBatch]:
    job = _job(root)
    worker = _worker()
    started = time.perf_counter()
    messages = _drain(batches)
    errors = [payload for kind, payload in messages if kind == ERROR]
    out: list[Message] = [
        (worker, kind, payload) for kind, payload in messages if kind in (CONTROL, GATHERED)
    ]
    try:
        if errors:
            out = [(to, ERROR, errors[0]) for to in _targets(job, worker, last)]
        elif job.form is None:
            out.append((worker, CONTROL, _apply_maps(job, worker, messages, started)))
        else:
            out += _run_program(job, worker, role, messages, started, last)
    except EverfreshError as error:
        out = [(to, ERROR, pack_error(error.to_dict())) for to in _targets(job, worker, last)]
    yield from _emit(out)
    freeze()


def _apply_maps(job: Job, worker: int, messages: list[tuple[int, bytes]], started: float) -> bytes:
    world = job.world
    unit, how = bring_to(job.bases[f"maps/{worker}"], world)
    pieces: dict[str, list[pa.Table]] = {}
    for kind, payload in messages:
        if kind == DATA:
            size = int.from_bytes(payload[:2], "big")
            pieces.setdefault(payload[2 : 2 + size].decode(), []).append(unpack_table(payload[2 + size :]))
    tag_in = unit.version[1]
    sections: dict[str, bytes] = {}
    rows = 0
    unit.begin()
    for identity, tables in sorted(pieces.items()):
        store = unit.map(world, identity.rsplit("@", 1)[0])
        observe.arrive(sum(table.num_rows for table in tables))
        words, values = entries_values(store.codec, store.layout, pa.concat_tables(tables).combine_chunks())
        touched = store.add_words(words, values)
        unit.record(_bound(store.pool.rollback, touched), _bound(store.pool.commit, touched))
        crash("mid-apply", world.fault, worker, world.inbox)
        after = store.pool.gather(touched.slots)
        sections[f"map/{identity}"] = map_image(store, store.pool.keys_at(touched.slots), after)
        change = store.published(touched)
        rows += change.num_rows
        if change.num_rows and job.kind == "replace":
            sections[f"changes/{identity}"] = pack_table(change)
    spent = round((time.perf_counter() - started) * 1000, 1)
    payload = finish(job, unit, tag_in, sections, rows, how=how, ms=spent)
    crash("before-yield", world.fault, worker, world.inbox)
    return payload


def _run_program(
    job: Job, worker: int, role: str, messages: list[tuple[int, bytes]], started: float, last: bool
) -> list[Message]:
    """The block of a distributed program that changes this worker's maps, or its results."""
    world, program = job.world, job.program
    assert program is not None
    unit, how = bring_to(job.bases[f"{role}/{worker}"], world)
    payloads = [payload for kind, payload in messages if kind == DATA]
    stage = RESULTS if role == "results" else MAPS
    site = site_of(job, unit)
    control, held = step(
        job, unit, site, lambda: received(site, program, stage, payloads), started if last else None, how
    )
    return [(worker, CONTROL, control), *handed_on(world, site, program, stage, held)]


def site_of(job: Job, unit: Unit) -> Site:
    """Where the blocks of a job run in a unit: among all maps, or those of a view alone that is filled."""
    if job.kind == "refill":
        unit.forget()
    if job.kind in FILLING:
        return unit.site_of(job.world, incremental(job.world.catalog, job.view))
    return unit.site(job.world)


def step(
    job: Job,
    unit: Unit,
    site: Site,
    run: Callable[[], tuple[Journal, dict[str, Held]]],
    started: float | None,
    how: str,
) -> tuple[bytes, dict[str, Held]]:
    """A block as one step of a unit: its control row, and all temporaries that are known now."""
    world = job.world
    tag_in = unit.version[1]
    unit.begin()
    try:
        journal, held = refilled(site, run) if job.kind == "refill" else run()
    except BaseException:
        unit.unchanged()
        raise
    crash("mid-apply", world.fault, site.number, world.inbox)
    try:
        sections, rows = done(world, site, journal, job.kind != "load")
        if job.kind in FILLING:
            site.state.maps[job.view or ""].rows()  # an aggregate outside its type is found now
    except EverfreshError:
        journal.rollback()
        unit.unchanged()
        raise
    unit.record(journal.rollback, journal.commit)
    # What goes through an exchange holds nothing that a retry would not repeat.
    notes: dict[str, Any] = {}
    if started is not None:
        notes = {"how": how, "ms": round((time.perf_counter() - started) * 1000, 1)}
    control = finish(job, unit, tag_in, sections, rows, **notes)
    crash("before-yield", world.fault, site.number, world.inbox)
    return control, held


# -- whole: everything in one stage ------------------------------------------------------------------


def whole_block(root: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Read the whole batch; change this worker's part of the tables, and its maps by all of it.

    Nobody has checked the other workers' rows: a batch that any task refuses is refused, and what the others
    did to their caches is taken back when they are asked for the version before.
    """
    job = _job(root)
    worker = _worker()
    _drain(batches)
    try:
        out = list(_apply_whole(job, worker))
    except EverfreshError as error:
        out = [(worker, ERROR, pack_error(error.to_dict()))]
    yield from _emit(out)
    freeze()


def _apply_whole(job: Job, worker: int) -> Iterator[Message]:
    started = time.perf_counter()
    world, program = job.world, job.program
    assert program is not None
    rows: dict[str, list[tuple[pa.Table, int]]] = {}
    parts: dict[str, list[Part]] = {}
    for index, spec in enumerate(job.parts):
        schema = world.catalog.tables[spec.table]
        table = _read_files(spec, schema) if spec.files else job.piece(index)
        assert table is not None
        rows.setdefault(spec.table, []).append((table, -1 if spec.op == "delete" else 1))
        for _, piece, numbers in split(table, schema, world.workers, worker):
            parts.setdefault(spec.table, []).append(spec.part(piece, numbers))
    base, how = _open_base(job, worker)
    nets = _resolved(job, base, parts)
    yield worker, CONTROL, _change_tables(job, base, worker, nets, how=how)
    unit, how = bring_to(job.bases[f"maps/{worker}"], world)
    site = unit.site(world)
    try:
        control, held = step(
            job,
            unit,
            site,
            lambda: ran(site, program.blocks[0], given_whole(program, rows, unit.interner)),
            started,
            how,
        )
    except (ArithmeticError, LookupError, ValueError, TypeError, AssertionError):
        # Rows that some other task refuses may be none that maps can take: in stages they never get here.
        yield worker, AGAIN, traceback.format_exc().encode()
        return
    yield worker, CONTROL, control
    yield from handed_on(world, site, program, 0, held)
