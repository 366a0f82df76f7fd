"""Sessions of a run: Spark as a user would tune it, with room for the data, and what its jobs were.

A session is started as everfresh starts its own; adaptive execution
and whole-stage code generation are on, as Spark has them, for what runs beside everfresh.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Protocol

from everfresh.bench.tpch_spark.plan import Plan


class Machine(Protocol):
    """What a session of a run is started with."""

    @property
    def workers(self) -> int:
        """Cores of the session."""

    @property
    def memory(self) -> str:
        """Of the JVM."""


@contextmanager
def started(plan: Machine, master: str = "", **settings: str) -> Iterator[Any]:
    """A session; one that is there already (in tests) is used and left."""
    from pyspark.sql import SparkSession

    from everfresh.spark.session.sessions import start

    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    asked = {
        "spark.driver.memory": plan.memory,
        "spark.sql.shuffle.partitions": str(2 * plan.workers),
        "spark.sql.session.timeZone": "UTC",
    }
    session = start(master or f"local[{plan.workers},4]", {**asked, **settings})
    try:
        yield session
    finally:
        session.stop()


def options(plan: Plan, **changes: Any) -> Any:
    """The options of a database: joins are asked for as long as that is an option."""
    import everfresh as ef

    known = {field.name for field in fields(ef.Options)}
    joins = {"joins": True} if "joins" in known else {}
    return ef.Options(workers=plan.workers).with_(**joins, **changes)


@dataclass(frozen=True, slots=True)
class Counted:
    """One call: how long it took, and what Spark ran for it."""

    seconds: float
    jobs: int
    stages: int
    shuffled: int
    """Bytes written for exchanges."""


def counted(session: Any, fn: Callable[[], Any]) -> Counted:
    """Time a call and count the jobs of its thread, the stages that ran, and what they wrote for others."""
    context = session.sparkContext
    group = f"everfresh-bench-{uuid.uuid4().hex}"
    context.setJobGroup(group, "everfresh bench")
    try:
        started = time.perf_counter()
        fn()
        took = time.perf_counter() - started
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    java = context._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    tracker, store = context.statusTracker(), java.statusStore()
    jobs = tracker.getJobIdsForGroup(group)
    ids = {stage for job in jobs if (info := tracker.getJobInfo(job)) is not None for stage in info.stageIds}
    ran = [stage for stage in map(store.lastStageAttempt, ids) if stage.numCompleteTasks()]
    return Counted(took, len(jobs), len(ran), sum(stage.shuffleWriteBytes() for stage in ran))


def recompute(session: Any, text: str) -> None:
    """Run a query to its end; its rows are made and not kept."""
    session.sql(text).write.format("noop").mode("overwrite").save()
