"""The programs of views in tasks: the stages of maps, and that of a batch that is read whole.

A batch is one job. What follows from the change of a worker's rows alone is done by the rows' stage
(`everfresh.spark.jobs.row_tasks`). After an exchange the *maps* stage of each worker runs the statements on
its maps, after each further one a *later* stage those on the maps of its level. Where every task may read the
whole batch, the *whole* stage does all of it: its part of the tables, and its part of the maps by the whole
change. What the driver gathers comes with the job's answer.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from everfresh.delta.feeds import signed_rows
from everfresh.distributed.worker.execute import Journal, Site
from everfresh.distributed.worker.filling import filled
from everfresh.distributed.worker.wire import Held, entries_values
from everfresh.errors import EverfreshError
from everfresh.local.jit.background import waiting
from everfresh.local.store.arena import give_back
from everfresh.program import Part
from everfresh.spark.adaptive import contents
from everfresh.spark.jobs.exchange import done, given_whole, handed_on, images, ran, received
from everfresh.spark.jobs.job import (
    AGAIN,
    CONTROL,
    Job,
    Message,
)
from everfresh.spark.jobs.plans import Task
from everfresh.spark.jobs.programs import incremental
from everfresh.spark.jobs.row_tasks import (
    bound,
    change_tables,
    open_base,
    own_part,
    read_whole,
    resolved,
)
from everfresh.spark.jobs.stages import MAPS as MAPS_STAGE
from everfresh.spark.jobs.tasks import (
    Behind,
    finish,
)
from everfresh.spark.session import observe
from everfresh.spark.state.chain import Unit, bring_to
from everfresh.spark.state.table_content import map_image, tables_in
from everfresh.state import crash, pack_table, unpack_table

FILLING = ("load", "refill")
"""Jobs that run a view's program with all rows of its tables: a new view's, or one that is filled anew."""


# -- maps: the entries of the views -------------------------------------------------------------------


def maps_stage(task: Task) -> Iterator[Message]:
    """Run the statements of what came from the rows on the maps of this worker, publish each view's change,
    and send on what belongs to other maps."""
    yield from _run_program(task, "maps", MAPS_STAGE) if task.job.form is not None else _apply_maps(task)


def later_stage(level: int, role: str, task: Task) -> Iterator[Message]:
    """The same for what came from the stage before, on the maps of this worker that are on this level."""
    yield from _run_program(task, role, level)


def _apply_maps(task: Task) -> Iterator[Message]:
    """Add the change of a view that is computed anew to the entries of this worker."""
    job, worker = task.job, task.worker
    world = job.world
    unit, how = bring_to(job.bases[f"maps/{worker}"], world)
    pieces: dict[str, list[pa.Table]] = {}
    for payload in task.take():
        size = int.from_bytes(payload[:2], "big")
        pieces.setdefault(payload[2 : 2 + size].decode(), []).append(unpack_table(payload[2 + size :]))
    tag_in = unit.version[1]
    sections: dict[str, bytes] = {}
    rows, held = 0, tables_in(unit)
    unit.begin()
    for identity, tables in sorted(pieces.items()):
        store = held.map(world, identity.rsplit("@", 1)[0])
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
    spent = round((time.perf_counter() - task.started) * 1000, 1)
    payload = finish(job, unit, tag_in, sections, rows, how=how, ms=spent)
    crash("before-yield", world.fault, worker, world.inbox)
    yield worker, CONTROL, payload


def _run_program(task: Task, role: str, stage: int) -> Iterator[Message]:
    """The block of a distributed program that changes this worker's maps of a level."""
    job = task.job
    world, program = job.world, job.program
    assert program is not None
    unit, how = bring_to(job.bases[f"{role}/{task.worker}"], world)
    payloads, started = task.take(), task.started if task.last else None
    site = site_of(job, unit)
    control, held = step(job, unit, site, lambda: received(site, program, stage, payloads), started, how)
    yield task.worker, CONTROL, control
    yield from handed_on(world, site, program, stage, held)
    if job.kind in FILLING:
        give_back()


def site_of(job: Job, unit: Unit) -> Site:
    """Where the blocks of a job run in a unit: among all maps, or those of a view alone that is filled."""
    held = tables_in(unit)
    if job.kind in FILLING:
        held.forget()
        return held.site_of(job.world, incremental(job.world.catalog, job.view))
    return held.site(job.world)


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
        site.state.check_empty(site.state.wiring, journal)
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


def whole_stage(task: Task) -> Iterator[Message]:
    """Read the whole batch; change this worker's part of the tables, and its maps by all of it.

    Nobody has checked the other workers' rows: a batch that any task refuses is refused, and what the others
    did to their caches is taken back when they are asked for the version before.
    """
    job, worker, started = task.job, task.worker, task.started
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
    content = tables_in(unit)
    site = content.site(job.world)
    try:
        control, held = step(
            job,
            unit,
            site,
            lambda: ran(site, program.blocks[0], given_whole(program, rows, content.interner)),
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
