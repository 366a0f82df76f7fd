"""Stages and plans: what a domain runs in the tasks of a job, and how stages follow each other.

A *stage* is a function of a task: of the worker that it serves and of what came for it. It is registered by
putting it into a *plan*: some stages one after the other, with an exchange between each two. Claims, retries,
messages and the check of the answers are the same for all of them; tables' stages are in
`everfresh.spark.jobs.table_plans`. A stage changes units of its roles by steps and answers with a control row
for each; `unit_stage` makes one of a function of a unit and its inputs.

A task drains its input (else its process is not used again), never raises for what a batch can cause (an
exception ends the process and its warm state: such errors travel as rows), and is a function of its units'
versions and of the multiset of its input rows. What goes through an exchange holds no times, process numbers
or other things that a retry would not repeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.errors import EverfreshError
from everfresh.spark.jobs.job import CONTROL, DATA, ERROR, GATHERED, Job, Message, pack_error
from everfresh.spark.jobs.tasks import (
    Batches,
    claimed_worker,
    drain,
    emit,
    finish,
    freeze,
    job_of,
    worker_number,
)
from everfresh.spark.state.chain import Unit, bring_to
from everfresh.spark.state.content import Role, register
from everfresh.state import crash

if TYPE_CHECKING:
    from everfresh.spark.state.content import Section


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a job: the worker that it serves, and the messages that came for it, sorted."""

    job: Job
    worker: int
    last: bool
    """Whether it is of the last stage."""
    messages: list[tuple[int, bytes]] = field(default_factory=list)
    started: float = 0.0
    """By the clock of the process, before anything was taken in."""
    there: float = 0.0
    """The same, when all that came for it was there."""

    def take(self, kind: int = DATA) -> list[bytes]:
        """What the messages of a kind say; all messages are let go of."""
        found = [payload for of, payload in self.messages if of == kind]
        self.messages.clear()
        return found


@dataclass(frozen=True, slots=True)
class Stage:
    """What tasks do, by a name. `run` is a function of a module: Spark hands it out by its name."""

    name: str
    run: Callable[[Task], Iterable[Message]]
    roles: tuple[Role, ...] = ()
    """Each worker answers for its unit of each of them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Stages, with an exchange between each two."""

    name: str
    stages: tuple[Stage, ...]
    reads: tuple[str, ...] = ()
    """Roles of units that its tasks read, and do not answer for."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the units that it changes."""
        return tuple(role.name for stage in self.stages for role in stage.roles)


def stage_block(
    root: str, stage: Stage, last: bool, alone: bool, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """A stage in a task, over the Arrow batches of `mapInArrow`. If it is `alone`, no exchange stands before
    it, and a task may serve any worker."""
    register(*stage.roles)
    job = job_of(root)
    worker = claimed_worker(job) if alone else worker_number()
    started = time.perf_counter()
    messages = drain(batches)
    errors = [payload for kind, payload in messages if kind == ERROR]
    out: list[Message] = [(worker, k, payload) for k, payload in messages if k in (CONTROL, GATHERED)]
    try:
        if errors:
            out = refusing(job, worker, last, errors[0])
        else:
            out += stage.run(Task(job, worker, last, messages, started, time.perf_counter()))
    except EverfreshError as error:
        out = refusing(job, worker, last, pack_error(error.to_dict()))
    yield from emit(out)
    freeze()


def refusing(job: Job, worker: int, last: bool, error: bytes) -> list[Message]:
    """Whom an error is told: every worker, so that none goes on; or just the driver."""
    return [(to, ERROR, error) for to in ((worker,) if last else range(job.world.workers))]


# -- a stage that is one step of a unit ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """What a stage did to a unit: the sections of its segment, none if nothing; and what it sends on."""

    sections: Mapping[str, Section] = field(default_factory=dict)
    outputs: Iterable[Message] = ()
    rows: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the driver is told besides; the same in every attempt, unless the stage is the last."""


Work = Callable[[Unit, Task], Step]


def unit_stage(name: str, role: Role, work: Work) -> Stage:
    """A stage that is one step of each worker's unit of a role.

    `work` gets the unit at the version that the job names, and changes its content; it says how each change
    is taken back and made final (`Unit.record`). If it refuses, what it has recorded is taken back.
    """
    return Stage(name, partial(_stepped, role.name, work), (role,))


def _stepped(role: str, work: Work, task: Task) -> Iterator[Message]:
    job, worker = task.job, task.worker
    world = job.world
    unit, _ = bring_to(job.bases[f"{role}/{worker}"], world)
    crash("opened", world.fault, worker, world.inbox)
    tag_in = unit.version[1]
    unit.begin()
    try:
        step = work(unit, task)
        outputs = list(step.outputs)
    except EverfreshError:
        unit.take_back()
        raise
    crash("after-apply", world.fault, worker, world.inbox)
    control = finish(job, unit, tag_in, step.sections, step.rows, **step.notes)
    crash("before-yield", world.fault, worker, world.inbox)
    yield worker, CONTROL, control
    yield from outputs
