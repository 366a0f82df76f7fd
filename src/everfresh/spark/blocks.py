"""What runs in tasks: route, base, maps, read, snapshot. Each is a generator over Arrow batches for
`mapInArrow`.

A batch is one job. The *base* block of worker w owns the table rows of w: it resolves the batch against
them, computes what each statement adds to its map, aggregates that by key and sends it to the key's worker.
After one exchange the *maps* block of each worker adds what it got and publishes the change of its part of
each view. The *route* block stands in front only when rows come as a Spark DataFrame.

A task drains its input (else its process is not used again), never raises for what a batch can cause (an
exception ends the process and its warm state: such errors travel as rows), and is a function of its unit's
version and of the multiset of its input rows. What goes through an exchange holds no times, process numbers
or other things that a retry would not repeat.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from everfresh.delta import read_rows
from everfresh.delta.bags import WEIGHT, expand, net, subtract
from everfresh.distributed.routing import owners
from everfresh.distributed.tags import Replicated
from everfresh.distributed.wire import entries_table, entries_values
from everfresh.errors import EverfreshError
from everfresh.expr import Vector
from everfresh.local.columnar import FlatPlan, run, to_words
from everfresh.local.mapstore import MapStore
from everfresh.local.pool import Pool, Values
from everfresh.local.strings import Interner
from everfresh.local.table import Net, Table
from everfresh.program import Part
from everfresh.spark import observe
from everfresh.spark.distribute import given, handed_on, images, published, received, sent, site_of
from everfresh.spark.failures import TaskError
from everfresh.spark.jobs import (
    CONTROL,
    DATA,
    ERROR,
    PROPERTY,
    ROWS,
    Base,
    Job,
    PartSpec,
    World,
    pack_control,
    pack_error,
)
from everfresh.spark.programs import batch_program, incremental, load_program, placement_of, results_of
from everfresh.spark.stages import MAPS, RESULTS
from everfresh.spark.units import (
    Unit,
    bring_to,
    map_image,
    next_tag,
    open_for_reading,
    read_segment,
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
    for to, kind, payload in messages:
        yield pa.RecordBatch.from_arrays(
            [pa.array([to], pa.int32()), pa.array([kind], pa.int32()), pa.array([payload], pa.binary())],
            schema=_SCHEMA,
        )


def _freeze() -> None:
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
    _freeze()


def split(rows: pa.Table, schema: TableSchema, workers: int) -> Iterator[tuple[int, pa.Table, Any]]:
    """Rows cut by the worker that owns them: by primary key, or by the whole row; with their positions."""
    names = [n for n in schema.names if n in (schema.key or schema.names)]
    vectors = [Vector.from_arrow(rows.column(n), schema.column(n).type) for n in names]
    to = owners(vectors, rows.num_rows, workers)
    for worker in range(workers):
        index = np.flatnonzero(to == worker)
        if len(index):
            yield worker, rows.take(pa.array(index)), index


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
    _freeze()


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
    _freeze()


def _targets(job: Job, worker: int, last: bool) -> Iterable[int]:
    """Whom an error is told: every worker, so that none changes its maps; or just the driver."""
    return (worker,) if last else range(job.world.workers)


def _open_base(job: Job, worker: int) -> tuple[Unit, str]:
    unit, how = bring_to(job.bases[f"base/{worker}"], job.world)
    crash("opened", job.world.fault, worker, job.world.inbox)
    return unit, how


def _apply_batch(job: Job, worker: int, rows: list[bytes]) -> Iterator[Message]:
    world = job.world
    unit, _ = _open_base(job, worker)
    parts: dict[str, list[Part]] = {}
    for index, spec in enumerate(job.parts):
        part = _part(job, index, spec, worker, rows)
        if part is not None:
            parts.setdefault(spec.table, []).append(part)
    nets = {name: unit.table(world, name).resolve(of) for name, of in parts.items()}
    nets = {name: change for name, change in nets.items() if len(change)}
    deltas = list(_deltas(job, unit, worker, nets))
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
    yield worker, CONTROL, _finish(job, unit, tag_in, sections, changed)
    yield from deltas


def _changed(job: Job) -> set[str]:
    return {part.table for part in job.parts}


def _deltas(job: Job, unit: Unit, worker: int, nets: Mapping[str, Net]) -> Iterator[Message]:
    """What follows from the changes of this worker's rows, for the maps."""
    world = job.world
    if not world.joins:
        for name, change in nets.items():
            yield from _to_maps(world, unit.table(world, name), change)
    elif nets:
        program = batch_program(world.catalog, _changed(job))
        yield from sent(world, worker, program, given(program, {n: unit.table(world, n) for n in nets}, nets))


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
        op = "delete" if spec.op == "delete_key" else spec.op
        given = [read_rows(file, schema, what=spec.what, op=op) for file in spec.files]  # type: ignore[arg-type]
        table = pa.concat_tables(given).combine_chunks()
        mine = [
            (piece, index) for to, piece, index in split(table, schema, job.world.workers) if to == worker
        ]
        return spec.part(*mine[0]) if mine else None
    piece = job.piece(index, worker)
    if piece is None:
        return None
    return spec.part(piece.drop_columns(["_row"]), piece.column("_row").to_numpy())


def _table_after(table: Table, change: Net) -> bytes:
    if table.schema.key:
        order = np.argsort(
            change.weights > 0, kind="stable"
        )  # what goes first, so that a key is free for what comes
        words = np.ascontiguousarray(change.words[:, order])
        return table_image(table, words, np.maximum(change.weights[order], 0))
    return table_image(table, change.words, table.pool.gather(table.pool.find(change.words)).n)


def _to_maps(world: World, table: Table, change: Net) -> Iterator[Message]:
    """What the statements of a table add to the maps of its views, aggregated by key and cut by the key's
    owner."""
    names = table.schema.names
    for view in world.catalog.views_on(table.schema.name):
        store = MapStore(view.compiled, Interner())
        for plan in store.plans(table.schema.name):
            vectors = table.codec.vectors(change.words, plan.columns(names))
            try:
                yield from _send(world, store, plan, names, vectors, change.weights)
            except EverfreshError as error:
                row = getattr(error, "row", None)
                place = f"view '{view.name}'"
                if row is not None:
                    place += f", row {table.codec.decode(change.words[:, row : row + 1]).to_pylist()[0]}"
                raise error.at(place) from error


def _send(
    world: World,
    store: MapStore,
    plan: FlatPlan,
    names: tuple[str, ...],
    vectors: dict[str, Vector],
    weights: Any,
) -> Iterator[Message]:
    words, values = to_words(run(plan, names, vectors, weights), store.codec, store.layout)
    merged = Pool(store.codec.words, store.layout)
    slots = merged.add(words, values).slots
    if not len(slots):
        return
    yield from _to_owners(world, store, merged.keys_at(slots), merged.gather(slots))


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


def _finish(job: Job, unit: Unit, tag_in: str, sections: dict[str, bytes], rows: int, **extra: Any) -> bytes:
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
    crash("mid-write", world.fault, _worker(), world.inbox)
    file = write_segment(world, unit.name, world.epoch, tag, data)
    crash("after-write", world.fault, _worker(), world.inbox)
    return pack_control({**header, "tag": tag, "file": file, "bytes": len(data)})


def _load_view(job: Job, worker: int, _rows: list[bytes]) -> Iterator[Message]:
    """The first contents of a new view, from the rows this worker has."""
    world = job.world
    unit, _ = _open_base(job, worker)
    compiled = world.catalog.views[job.view or ""].compiled
    store = MapStore(compiled, Interner())
    plan = store.load_plan() if not world.joins else None
    yield (
        worker,
        CONTROL,
        pack_control(
            {
                "unit": unit.name,
                "nonce": job.nonce,
                "tag_in": unit.version[1],
                "tag": unit.version[1],
                "file": None,
                "rows": 0,
            }
        ),
    )
    if world.joins:
        tables = {n: unit.table(world, n) for n in compiled.bases}
        nets = {n: _all_rows(table) for n, table in tables.items()}
        program = load_program(world.catalog, job.view or "")
        yield from sent(world, worker, program, given(program, tables, nets))
    if plan is None:
        return
    table = unit.table(world, plan.terms[0].relation)
    names = table.schema.names
    for slots in table.chunks():
        vectors = table.codec.vectors(table.pool.keys_at(slots), plan.columns(names))
        yield from _send(world, store, plan, names, vectors, table.pool.gather(slots).n)


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
    "alter": _alter_table,
    "snapshot": _snapshot,
}


# -- maps: the entries of the views ----------------------------------------------------------------


def maps_block(root: str, last: bool, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Add what the base blocks sent to the maps of this worker, publish each view's change, and (unless this
    block is the `last`) send on what belongs to results."""
    job = _job(root)
    worker = _worker()
    started = time.perf_counter()
    messages = _drain(batches)
    errors = [payload for kind, payload in messages if kind == ERROR]
    out: list[Message] = [(worker, CONTROL, payload) for kind, payload in messages if kind == CONTROL]
    try:
        if errors:
            out = [(to, ERROR, errors[0]) for to in _targets(job, worker, last)]
        elif job.world.joins and _by_program(job):
            out += _run_program(job, worker, "maps", messages, started, last)
        else:
            out.append((worker, CONTROL, _apply_maps(job, worker, messages, started)))
    except EverfreshError as error:
        out = [(to, ERROR, pack_error(error.to_dict())) for to in _targets(job, worker, last)]
    yield from _emit(out)
    _freeze()


def results_block(root: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Add what the maps blocks sent to the results of this worker."""
    job = _job(root)
    worker = _worker()
    started = time.perf_counter()
    messages = _drain(batches)
    errors = [payload for kind, payload in messages if kind == ERROR]
    out: list[Message] = [(worker, CONTROL, payload) for kind, payload in messages if kind == CONTROL]
    try:
        if errors:
            out = [(worker, ERROR, errors[0])]
        else:
            out += _run_program(job, worker, "results", messages, started, True)
    except EverfreshError as error:
        out = [(worker, ERROR, pack_error(error.to_dict()))]
    yield from _emit(out)
    _freeze()


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
        if change.num_rows and job.kind in ("batch", "replace"):
            sections[f"changes/{identity}"] = pack_table(change)
    spent = round((time.perf_counter() - started) * 1000, 1)
    payload = _finish(job, unit, tag_in, sections, rows, how=how, ms=spent)
    crash("before-yield", world.fault, worker, world.inbox)
    return payload


def _by_program(job: Job) -> bool:
    """Whether the maps' part of a job is a block of a program, and not the change of a re-evaluated view."""
    if job.kind == "load":
        return not job.world.catalog.views[job.view or ""].compiled.reevaluated
    return job.kind == "batch"


def _run_program(
    job: Job, worker: int, role: str, messages: list[tuple[int, bytes]], started: float, last: bool
) -> list[Message]:
    """The block of a distributed program that changes this worker's maps, or its results."""
    world = job.world
    unit, how = bring_to(job.bases[f"{role}/{worker}"], world)
    payloads = [payload for kind, payload in messages if kind == DATA]
    tag_in = unit.version[1]
    unit.begin()
    if job.kind == "load":
        program = load_program(world.catalog, job.view or "")
        state = unit.state_of(world, incremental(world.catalog, job.view))
    else:
        program, state = batch_program(world.catalog, _changed(job)), unit.state(world)
    stage = RESULTS if role == "results" else MAPS
    journal, held = received(world, unit, state, worker, program, stage, payloads)
    unit.record(journal.rollback, journal.commit)
    crash("mid-apply", world.fault, worker, world.inbox)
    sections, rows = images(world, state, journal), 0
    for view in state.catalog.views:
        change = published(state, journal, view, site_of(world, state, worker))
        if change is not None and change.num_rows:
            rows += change.num_rows
            if job.kind == "batch":
                sections[f"changes/{world.ids[view]}"] = pack_table(change)
    if job.kind == "load" and (role == "results") == (job.view in results_of(world.catalog)):
        state.maps[job.view or ""].rows()  # an aggregate outside its type is found now, not at the first read
    # What goes through an exchange holds nothing that a retry would not repeat.
    spent = {"how": how, "ms": round((time.perf_counter() - started) * 1000, 1)} if last else {}
    out = [(worker, CONTROL, _finish(job, unit, tag_in, sections, rows, **spent))]
    crash("before-yield", world.fault, worker, world.inbox)
    return out if last else [*out, *handed_on(world, worker, program, stage, held)]


# -- reading ---------------------------------------------------------------------------------------


def read_block(
    world: World, bases: tuple[Base, ...], name: str, at: int | None, chunk: int, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """The rows of a table or view that this worker has, at the version `bases` names or (a view) at an
    earlier epoch."""
    # The worker is what the anchor's row says: inside a union a task's number is not the partition's.
    workers = [int(worker) for batch in batches for worker in batch.column("id").to_pylist()]
    for worker in workers:
        yield from _read(world, bases[worker], name, at).to_batches(max_chunksize=chunk)
    _freeze()


def _read(world: World, base: Base, name: str, at: int | None) -> pa.Table:
    try:
        unit = open_for_reading(base, world)
        if name not in world.catalog.tables:
            return _view_rows(unit, world, base, name, at)
        rows, counts = unit.table(world, name).rows()
        return expand(rows.append_column(WEIGHT, pa.array(counts)))
    except EverfreshError as error:
        raise TaskError(error) from error


def _view_rows(unit: Unit, world: World, base: Base, name: str, at: int | None) -> pa.Table:
    store = unit.map(world, name)
    # A view that always has one row has it on the worker that owns the empty key.
    mine = not store.view.always or base.unit.endswith("/0")
    if world.joins and not store.compiled.reevaluated:
        everywhere = isinstance(placement_of(world.catalog).maps[store.target.name], Replicated)
        mine = mine and (not everywhere or base.unit.endswith("/0"))
    table = expand(store.rows()) if mine else store.no_change().drop_columns([WEIGHT])
    if at is None:
        return table
    section = f"changes/{world.ids[name]}"
    later = [read_segment(world, base.unit, link) for link in base.since(at)]
    changes = [unpack_table(sealed.sections[section]) for sealed in later if section in sealed.sections]
    return subtract(table, net(pa.concat_tables(changes))) if changes else table
