"""What a batch was on Spark: its jobs and stages, what was exchanged, time per block and per worker, skew.

Tasks count the rows that arrive from an exchange and say so with what they did to their unit. Everything else
Spark knows: each job carries a tag, and its stages and tasks are looked up in the status store of a classic
session when somebody asks (`db.statistics()["last batch"]`, or the logger at DEBUG), so that a batch pays for
a tag alone. A session of Spark Connect shows what the tasks said.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everfresh.program import Applied
from everfresh.spark.jobs.stages import HOMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("everfresh.batches")
_BLOCKS = {
    "whole": ("whole",),
    "change": ("maps",),
    **{home: HOMES[: stage + 1] for stage, home in enumerate(HOMES)},
}
"""The last blocks of each kind of job, one stage each; what stands before them reads what was given."""
BEFORE = "given"
_ALL = 2**31 - 1
_KEPT = 100  # batches that are looked back at
_AGAIN = 0.2  # seconds between attempts to end a job

# -- in tasks --------------------------------------------------------------------------------------

_arrived = 0


def begin() -> None:
    """Nothing has arrived."""
    global _arrived  # noqa: PLW0603 - a worker process runs one task at a time
    _arrived = 0


def arrive(rows: int) -> None:
    """Rows came from an exchange."""
    global _arrived  # noqa: PLW0603 - a worker process runs one task at a time
    _arrived += rows


def arrived() -> dict[str, int]:
    """How many came since this was asked, for a control row; nothing that a retry would not repeat."""
    rows = _arrived
    begin()
    return {"arrived": rows} if rows else {}


# -- on the driver ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RanStage:
    """A stage that ran: milliseconds of each task, by its number, and what it wrote for others."""

    block: str
    ms: Mapping[int, int]
    messages: int
    bytes: int

    @property
    def skew(self) -> float:
        """The longest task over the mean of all."""
        return skew(list(self.ms.values()))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        ms = {str(worker): spent for worker, spent in sorted(self.ms.items())}
        return {"block": self.block, "ms": ms, "skew": round(self.skew, 2), "bytes": self.bytes}


def skew(values: Sequence[float]) -> float:
    """The largest over the mean; 1 where there is nothing.

    >>> skew([1, 1, 4])
    2.0
    """
    total = sum(values)
    return max(values) * len(values) / total if total else 1.0


class Ended(Exception):
    """A job that was not begun, because the work that it belongs to was ended on purpose."""


@dataclass
class Observer:
    """Marks the jobs of one database on one session, and looks up what they were."""

    session: SparkSession
    _jobs: list[tuple[str, str]] = field(default_factory=list)
    _running: list[str] = field(default_factory=list)
    _last: dict[str, Any] = field(default_factory=dict)
    before: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """What the tasks of the last batches said, the newest last."""

    cancelled: bool = False
    """Whether the jobs of this batch were ended on purpose: then they are not run again."""

    def __post_init__(self) -> None:
        classic = getattr(self.session, "_jsparkSession", None) is not None
        self._context = self.session.sparkContext if classic else None

    @contextmanager
    def job(self, nonce: str, kind: str) -> Iterator[None]:
        """Mark what runs inside as a job of this kind."""
        tag = f"everfresh-{nonce}"
        self._jobs.append((tag, kind))
        if self._context is not None:
            add, remove = self._context.addJobTag, self._context.removeJobTag
        else:
            add, remove = self.session.addTag, self.session.removeTag
        self._running.append(tag)  # first: whoever cancels looks at it after saying so
        try:
            if self.cancelled:
                raise Ended("the work that this job belongs to was ended")
            add(tag)
            try:
                yield
            finally:
                remove(tag)
        finally:
            self._running.remove(tag)

    def batch(self) -> None:
        """A batch begins, or another piece of work."""
        self._jobs.clear()
        self.cancelled = False

    def cancel(self) -> None:
        """End the jobs that have begun since `batch`, and let no other begin."""
        self.cancelled = True
        tags = tuple(self._running)
        self._end(tags)
        if tags:
            thread = threading.Thread(target=self._insist, args=(tags,), name="everfresh-cancel", daemon=True)
            thread.start()

    def _insist(self, tags: Sequence[str]) -> None:
        """Until none of these jobs runs: Spark does not know of one that is still being planned."""
        while any(tag in self._running for tag in tags):
            time.sleep(_AGAIN)
            with suppress(Exception):  # the session may be gone
                self._end(tags)

    def _end(self, tags: Sequence[str]) -> None:
        for tag in tags:
            if self._context is not None:
                self._context.cancelJobsWithTag(tag)
            else:
                self.session.interruptTag(tag)

    def tasks(self) -> tuple[int, int]:
        """How many tasks of these jobs are done, and how many there are; (0, 0) if that is not known."""
        done = total = 0
        if self._context is not None:
            tracker, java = self._context.statusTracker(), self._context._jsc.sc().statusTracker()
            for tag, _ in list(self._jobs):
                infos = [tracker.getJobInfo(job) for job in java.getJobIdsForTag(tag)]
                ids = {stage for info in infos if info is not None for stage in info.stageIds}
                for stage in filter(None, map(tracker.getStageInfo, ids)):
                    done, total = done + stage.numCompletedTasks, total + stage.numTasks
        return done, total

    def told(self, applied: Applied) -> Applied:
        """What a batch did, with what its tasks said of what arrived."""
        units = {n: u for n, u in applied.notes.items() if isinstance(u, dict)}
        rows = {name: unit["arrived"] for name, unit in units.items() if "arrived" in unit}
        self._last = {**applied.notes, "exchanged": {"rows": sum(rows.values())}}
        self.before.append(self._last)
        if rows:
            self._last["exchanged"]["skew"] = round(_worst(rows), 2)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s", summary(applied.epoch, applied.rows, self.last()))
        return replace(applied, notes=self._last)

    def last(self) -> dict[str, Any]:
        """Everything that is known of the last batch."""
        found = dict(self._last)
        if self._context is None or not self._jobs:
            return found
        jobs, stages = self._looked_up()
        found["jobs"], found["stages"] = jobs, len(stages)
        found["blocks"] = [stage.to_json() for stage in stages]
        sent = {"messages": sum(s.messages for s in stages), "bytes": sum(s.bytes for s in stages)}
        found["exchanged"] = {**found.get("exchanged", {}), **sent}
        return found

    def _looked_up(self) -> tuple[int, list[RanStage]]:
        """How many jobs ran, and their stages in order."""
        assert self._context is not None
        java = self._context._jsc.sc()
        java.listenerBus().waitUntilEmpty()  # events are told after a job has ended
        store, tracker = java.statusStore(), self._context.statusTracker()
        count, found = 0, []
        for tag, kind in self._jobs:
            jobs = sorted(java.statusTracker().getJobIdsForTag(tag))
            count += len(jobs)
            infos = [tracker.getJobInfo(job) for job in jobs]
            ids = sorted({stage for info in infos if info is not None for stage in info.stageIds})
            ran = [stage for stage in map(store.lastStageAttempt, ids) if stage.numCompleteTasks()]
            names = _BLOCKS.get(kind, (kind,))
            names = (BEFORE,) * (len(ran) - len(names)) + names[-len(ran) :] if ran else ()
            found += [_stage(store, stage, name) for stage, name in zip(ran, names, strict=True)]
        return count, found


def _stage(store: Any, stage: Any, block: str) -> RanStage:
    tasks = store.taskList(stage.stageId(), stage.attemptId(), _ALL)
    spent = {}
    for i in range(tasks.size()):
        task = tasks.apply(i)
        if task.duration().isDefined():
            spent[task.partitionId()] = task.duration().get()
    return RanStage(block, spent, stage.shuffleWriteRecords(), stage.shuffleWriteBytes())


def _worst(rows: Mapping[str, int]) -> float:
    """The largest skew of units of one role; `rows` are by `role/worker`."""
    roles: dict[str, list[float]] = {}
    for unit, count in rows.items():
        roles.setdefault(unit.partition("/")[0], []).append(count)
    return max(map(skew, roles.values()))


def summary(epoch: int, rows: int, known: Mapping[str, Any]) -> str:
    """A batch in one line.

    >>> blocks = [{"block": "whole", "ms": {"0": 7, "1": 9}, "skew": 1.12, "bytes": 0}]
    >>> summary(7, 1000, {"jobs": 1, "stages": 1, "exchanged": {"rows": 5, "bytes": 0}, "blocks": blocks})
    'epoch 7: 1000 rows, 1 jobs, 1 stages, 5 rows and 0 bytes exchanged; whole 9 ms (skew 1.12)'
    """
    sent = known.get("exchanged", {})
    parts = [f"epoch {epoch}: {rows} rows"]
    if "jobs" in known:
        parts.append(f"{known['jobs']} jobs, {known['stages']} stages")
    parts.append(f"{sent.get('rows', 0)} rows and {sent.get('bytes', 0)} bytes exchanged")
    blocks = [f"{b['block']} {max(b['ms'].values())} ms (skew {b['skew']})" for b in known.get("blocks", ())]
    return "; ".join([", ".join(parts), *blocks])
