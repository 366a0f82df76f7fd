"""The programs of views in tasks: maps, results, whole; generators over Arrow batches for `mapInArrow`.

A batch is one job. What follows from the change of a worker's rows alone is done by its base block
(`everfresh.spark.tables`). After an exchange the *maps* block of each worker runs the statements on its maps,
after another the *results* block adds what came for its results. Where every task may read the whole batch,
the *whole* block does all of it in one stage: its part of the tables, and its part of the maps by the whole
change. What the driver gathers comes with the job's answer.

A task drains its input (else its process is not used again), never raises for what a batch can cause (an
exception ends the process and its warm state: such errors travel as rows), and is a function of its unit's
version and of the multiset of its input rows. What goes through an exchange holds no times, process numbers
or other things that a retry would not repeat.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from everfresh.delta.feeds import signed_rows
from everfresh.distributed.execute import Journal, Site
from everfresh.distributed.filling import filled
from everfresh.distributed.wire import Held, entries_values
from everfresh.errors import EverfreshError
from everfresh.local.arena import give_back
from everfresh.local.behind import waiting
from everfresh.program import Part
from everfresh.spark import observe
from everfresh.spark.adaptive import contents
from everfresh.spark.distribute import done, given_whole, handed_on, images, ran, received
from everfresh.spark.jobs import (
    AGAIN,
    CONTROL,
    DATA,
    ERROR,
    GATHERED,
    Job,
    Message,
    pack_error,
)
from everfresh.spark.programs import incremental
from everfresh.spark.stages import MAPS, RESULTS
from everfresh.spark.tables import bound, change_tables, open_base, own_part, read_whole, resolved, targets
from everfresh.spark.tasks import (
    Batches,
    Behind,
    claimed_worker,
    drain,
    emit,
    finish,
    freeze,
    job_of,
    worker_number,
)
from everfresh.spark.units import (
    Unit,
    bring_to,
    map_image,
)
from everfresh.state import crash, pack_table, unpack_table

FILLING = ("load", "refill")
"""Jobs that run a view's program with all rows of its tables: a new view's, or one that is filled anew."""


# -- maps and results: the entries of the views ------------------------------------------------------


def maps_block(root: str, last: bool, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Run the statements of what the base blocks sent on the maps of this worker, publish each view's change,
    and (unless this block is the `last`) send on what belongs to results."""
    yield from _program_block(root, "maps", last, batches)


def results_block(root: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Add what the maps blocks sent to the results of this worker."""
    yield from _program_block(root, "results", True, batches)


def _program_block(root: str, role: str, last: bool, batches: Batches) -> Iterator[pa.RecordBatch]:
    job = job_of(root)
    worker = worker_number()
    started = time.perf_counter()
    messages = drain(batches)
    errors = [payload for kind, payload in messages if kind == ERROR]
    out: list[Message] = [
        (worker, kind, payload) for kind, payload in messages if kind in (CONTROL, GATHERED)
    ]
    try:
        if errors:
            out = [(to, ERROR, errors[0]) for to in targets(job, worker, last)]
        elif job.form is None:
            out.append((worker, CONTROL, _apply_maps(job, worker, messages, started)))
        else:
            out += _run_program(job, worker, role, messages, started, last)
    except EverfreshError as error:
        out = [(to, ERROR, pack_error(error.to_dict())) for to in targets(job, worker, last)]
    yield from emit(out)
    freeze()
    if job.kind in FILLING:
        give_back()


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
        unit.record(bound(store.pool.rollback, touched), bound(store.pool.commit, touched))
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
    messages.clear()  # those that are read go
    stage = RESULTS if role == "results" else MAPS
    site = site_of(job, unit)
    control, held = step(
        job, unit, site, lambda: received(site, program, stage, payloads), started if last else None, how
    )
    return [(worker, CONTROL, control), *handed_on(world, site, program, stage, held)]


def site_of(job: Job, unit: Unit) -> Site:
    """Where the blocks of a job run in a unit: among all maps, or those of a view alone that is filled."""
    if job.kind in FILLING:
        unit.forget()
        return unit.site_of(job.world, incremental(job.world.catalog, job.view))
    return unit.site(job.world)


def step(
    job: Job,
    unit: Unit,
    site: Site,
    run: Callable[[], tuple[Journal, dict[str, Held]]],
    started: float | None,
    how: str,
    behind: Behind | None = None,
) -> tuple[bytes, dict[str, Held]]:
    """A block as one step of a unit: its control row, and all temporaries that are known now. The segment may
    be written `behind`."""
    world = job.world
    tag_in = unit.version[1]
    unit.begin()
    try:
        journal, held = _filled(job, site, run) if job.kind in FILLING else run()
    except BaseException:
        unit.unchanged()
        raise
    crash("mid-apply", world.fault, site.number, world.inbox)
    try:
        sections, rows = (
            done(world, site, journal) if job.kind != "load" else (images(world, site, journal), 0)
        )
        if job.kind in FILLING:
            rows = site.state.maps[job.view or ""].count()  # an aggregate outside its type is found now
    except EverfreshError:
        journal.rollback()
        unit.unchanged()
        raise
    unit.record(journal.rollback, journal.commit)
    # What goes through an exchange holds nothing that a retry would not repeat.
    notes: dict[str, Any] = {}
    if started is not None:
        notes = {"how": how, "ms": round((time.perf_counter() - started) * 1000, 1)}
        ran_as = {"compiled": journal.compiled, "interpreted": journal.interpreted}
        notes["statements"] = {**ran_as, "compiling": waiting(generated=True)}
    control = finish(job, unit, tag_in, sections, rows, behind, **notes)
    crash("before-yield", world.fault, site.number, world.inbox)
    return control, held


def _filled(
    job: Job, site: Site, run: Callable[[], tuple[Journal, dict[str, Held]]]
) -> tuple[Journal, dict[str, Held]]:
    out = contents(site) if job.kind == "refill" else {}
    return filled(site, job.view or "", run, out)


# -- whole: everything in one stage ------------------------------------------------------------------


def whole_block(root: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Read the whole batch; change this worker's part of the tables, and its maps by all of it.

    Nobody has checked the other workers' rows: a batch that any task refuses is refused, and what the others
    did to their caches is taken back when they are asked for the version before.
    """
    job = job_of(root)
    worker = claimed_worker(job)
    drain(batches)
    try:
        out = list(_apply_whole(job, worker))
    except EverfreshError as error:
        out = [(worker, ERROR, pack_error(error.to_dict()))]
    yield from emit(out)
    freeze()


def _apply_whole(job: Job, worker: int) -> Iterator[Message]:
    started = time.perf_counter()
    world = job.world
    rows: dict[str, list[tuple[pa.Table, int]]] = {}
    parts: dict[str, list[Part]] = {}
    for index, spec in enumerate(job.parts):
        schema = world.catalog.tables[spec.table]
        table = read_whole(job, index, spec)
        signed = rows.setdefault(spec.table, [])
        if spec.op == "change":
            signed += signed_rows(table, schema)
        else:
            signed.append((table, -1 if spec.op == "delete" else 1))
        part = own_part(spec, table, schema, world.workers, worker)
        if part is not None:
            parts.setdefault(spec.table, []).append(part)
    base, how = open_base(job, worker)
    nets = resolved(job, base, parts)
    with Behind() as behind:  # what becomes of the tables is written while the maps change
        yield worker, CONTROL, change_tables(job, base, worker, nets, parts, behind, how=how)
        yield from _change_maps(job, worker, rows, started, behind)


def _change_maps(
    job: Job, worker: int, rows: dict[str, list[tuple[pa.Table, int]]], started: float, behind: Behind
) -> Iterator[Message]:
    """The maps of this worker by the whole change, of all workers' rows."""
    program = job.program
    assert program is not None
    unit, how = bring_to(job.bases[f"maps/{worker}"], job.world)
    site = unit.site(job.world)
    try:
        control, held = step(
            job,
            unit,
            site,
            lambda: ran(site, program.blocks[0], given_whole(program, rows, unit.interner)),
            started,
            how,
            behind,
        )
    except (ArithmeticError, LookupError, ValueError, TypeError, AssertionError):
        # Rows that some other task refuses may be none that maps can take: in stages they never get here.
        yield worker, AGAIN, traceback.format_exc().encode()
        return
    yield worker, CONTROL, control
    yield from handed_on(job.world, site, program, 0, held)
