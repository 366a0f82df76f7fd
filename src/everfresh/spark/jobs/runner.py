"""Running jobs: how a plan is run, and what must come back.

A job of a plan (`everfresh.spark.jobs.plans`) ends with a control row from every unit of the plan's roles, or
with errors; what the driver gathers comes with the answers. Plans whose tasks need no DataFrame of a user's
are built once: a batch reaches their tasks as a job property.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.spark.jobs.claims import forget
from everfresh.spark.jobs.job import (
    AGAIN,
    CONTROL,
    ERROR,
    EXCHANGE,
    GATHERED,
    PROPERTY,
    Job,
    read_error,
    unpack_control,
)
from everfresh.spark.jobs.plans import Plan, stage_block
from everfresh.spark.jobs.snapshots import snapshot_block
from everfresh.spark.session.failures import translated
from everfresh.spark.session.observe import Observer
from everfresh.spark.state.artifacts import leave_again
from everfresh.spark.state.content import role_name, role_of, worker_of
from everfresh.state import StateFolder, crash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("everfresh")
_ATTEMPTS = 3

Controls = list[tuple[dict[str, Any], Any]]


class Again(Exception):
    """A batch that was to be applied in one stage must be run in stages, for this reason."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What comes back from a job: what was done to units, and what the driver gathers."""

    controls: Controls
    gathered: list[bytes]


class Runner:
    """Runs the jobs of one database on one session."""

    def __init__(self, session: SparkSession, folder: StateFolder, options: Options) -> None:
        self._spark = session
        self._folder = folder
        self._root = folder.root
        self.workers = folder.workers
        self._options = options
        self._frames: dict[str, DataFrame] = {}
        self.observer = Observer(session)

    def run(self, job: Job, plan: Plan, source: DataFrame | None = None) -> Answers:
        """Run a job and return what its tasks answered; an error that one reported is raised. `source` has
        messages that are routed to the first stage."""

        def frame(told: str) -> DataFrame:
            found = self._frame(plan, source)
            # The property must be set on the session that owns the plan.
            found.sparkSession.conf.set(PROPERTY, told)
            return found

        claims = source is None and len(plan.stages) == 1
        told = replace(job, roles=(*plan.roles, *plan.reads))
        rows = self._collected(told, plan.name, frame, self.observer, claims)
        crash("after-collect", self._options.fault, scratch=self._folder.scratch)
        self.raise_errors(rows)
        again = sorted(bytes(row["payload"]) for row in rows if row["kind"] == AGAIN)
        if again:
            raise Again(again[0].decode())
        controls = _controls(rows)
        _check(job, controls, [f"{role}/{w}" for role in plan.roles for w in range(self.workers)])
        return Answers(controls, sorted(row["payload"] for row in rows if row["kind"] == GATHERED))

    def snapshot(self, job: Job, workers: Sequence[int], tasks: int, observer: Observer) -> dict[str, str]:
        """Write the units of a job of some of these workers, as many as tasks, to files: the name of each.
        Whoever has a worker's units writes them. Batches may run meanwhile."""
        anchor = self._spark.range(0, tasks, 1, tasks)
        roles = tuple({role_name(unit): role_of(unit) for unit in job.bases}.values())

        def plan(told: str) -> DataFrame:
            write = partial(snapshot_block, self._root, told, roles, tuple(workers))
            return anchor.mapInArrow(write, EXCHANGE)

        rows = self._collected(job, "snapshot", plan, observer, claims=True)
        self.raise_errors(rows)
        controls = _controls(rows)
        written = {worker_of(header["unit"]) for header, _ in controls}
        if len(written) != tasks:
            raise RuntimeError(f"job {job.nonce} answered for {sorted(written)}, not {tasks} workers")
        _check(job, controls, [unit for unit in job.bases if worker_of(unit) in written])
        return {header["unit"]: header["snapshot"] for header, _ in controls}

    def _collected(
        self,
        job: Job,
        kind: str,
        plan: Callable[[str], DataFrame],
        observer: Observer,
        claims: bool,
    ) -> Sequence[Any]:
        """The rows of a job, which is run again if it fails."""
        told = job.write()
        try:
            for attempt in range(1, _ATTEMPTS + 1):
                found = plan(told)
                try:
                    with translated(), observer.job(job.nonce, kind):
                        rows: Sequence[Any] = found.collect()
                    return rows
                except EverfreshError as error:  # the batch is at fault, and would be again
                    raise self._explained(error) from error
                except Exception as error:
                    if attempt == _ATTEMPTS or observer.cancelled:
                        raise
                    _log.warning("job %s failed and is run again: %s", job.nonce, str(error).splitlines()[0])
        finally:
            job.remove()
            if claims:
                forget(job, self.workers)
        raise AssertionError("unreachable")

    def raise_errors(self, rows: Sequence[Any]) -> None:
        """Raise the error that a task reported, if one did."""
        errors = sorted(bytes(row["payload"]) for row in rows if row["kind"] == ERROR)
        if errors:
            raise self._explained(read_error(errors[0]))

    def _explained(self, error: EverfreshError) -> EverfreshError:
        """The error of a task, unless it comes of another writer."""
        if error.code == Code.DAMAGED:
            leave_again(self._root)
            self._folder.check_writer()  # what one that was overtaken misses, the other has removed
        return error

    def _frame(self, plan: Plan, source: DataFrame | None) -> DataFrame:
        if source is not None:
            return self._then(source, plan, 0)
        if plan.name not in self._frames:
            anchor = self._spark.range(0, self.workers, 1, self.workers)
            last = len(plan.stages) == 1
            first = anchor.mapInArrow(partial(stage_block, self._root, plan.stages[0], last, last), EXCHANGE)
            self._frames[plan.name] = self._then(first, plan, 1)
        frame = self._frames[plan.name]
        # A plan with an exchange keeps its shuffle output: collected again, it would hand out the rows of the
        # batch before.
        return frame if len(plan.stages) == 1 else frame.select("*")

    def _then(self, before: DataFrame, plan: Plan, done: int) -> DataFrame:
        """The stages of a plan that are left, each after an exchange."""
        for at in range(done, len(plan.stages)):
            run = partial(stage_block, self._root, plan.stages[at], at == len(plan.stages) - 1, False)
            before = before.repartitionById(self.workers, "to").mapInArrow(run, EXCHANGE)
        return before


def _controls(rows: Sequence[Any]) -> Controls:
    return [unpack_control(bytes(row["payload"])) for row in rows if row["kind"] == CONTROL]


def _check(job: Job, controls: Controls, expected: Iterable[str]) -> None:
    """Every unit answered exactly once, for this job, from the version it was given."""
    answered, expected = sorted(header["unit"] for header, _ in controls), sorted(expected)
    good = answered == expected and all(
        header["nonce"] == job.nonce and header["tag_in"] == job.bases[header["unit"]].version[1]
        for header, _ in controls
    )
    if not good:
        raise RuntimeError(f"job {job.nonce} answered for {answered} where {expected} were asked")
