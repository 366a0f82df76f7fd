"""A toy domain's part on Spark: counters by name, kept by the workers that own them.

Its job has two stages: the first cuts what the driver gives by owner, the second adds it to the worker's
unit, whose segments hold the counters as they are after a step, and what came for them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import everfresh as ef
from everfresh.spark.jobs.job import DATA, Message, World
from everfresh.spark.jobs.plans import Plan, Stage, Step, Task, unit_stage
from everfresh.spark.state.chain import Unit
from everfresh.spark.state.content import Role, register


class Counters:
    """The counters of one worker."""

    def __init__(self, name: str, world: World, settle: Callable[[], None]) -> None:
        self.counts: dict[str, int] = {}
        self.reclaimed = 0

    def sync(self, world: World) -> None:
        pass

    def replay(self, world: World, sections: Mapping[str, Any]) -> None:
        self.counts.update(json.loads(bytes(sections["after"])))

    def sections(self, world: World) -> dict[str, bytes]:
        return {"counts": json.dumps(self.counts, sort_keys=True).encode()}

    def load(self, world: World, sections: Mapping[str, Any]) -> None:
        self.counts = json.loads(bytes(sections["counts"]))

    def reclaim(self, world: World, *, now: bool = False) -> None:
        self.reclaimed += 1

    @property
    def nbytes(self) -> int:
        return 64 * len(self.counts)


COUNTERS = Role("counter", Counters)
register(COUNTERS)


def owner(name: str, workers: int) -> int:
    """The worker that has a counter."""
    return sum(name.encode()) % workers


def cut(task: Task) -> Iterator[Message]:
    """Each worker reads its share of what is given, and sends it to the owners."""
    given = json.loads(bytes(task.job.pieces["given"]))
    for name, more in given[task.worker :: task.job.world.workers]:
        yield owner(name, task.job.world.workers), DATA, json.dumps([name, more]).encode()


def add(unit: Unit, task: Task) -> Step:
    """Add what came to the counters; none may fall below nothing."""
    content = unit.content
    assert isinstance(content, Counters)
    came: Counter[str] = Counter()
    for payload in task.take():
        name, more = json.loads(payload)
        came[name] += more
    before = {name: content.counts.get(name) for name in came}
    unit.record(lambda: restore(content.counts, before), lambda: None)
    for name, more in sorted(came.items()):
        content.counts[name] = content.counts.get(name, 0) + more
        if content.counts[name] < 0:
            raise ef.EverfreshError(ef.Code.VALUE, f"the counter '{name}' falls below nothing")
    if not came:
        return Step()
    after = json.dumps({name: content.counts[name] for name in came}, sort_keys=True).encode()
    return Step({"after": after, "changes": json.dumps(sorted(came.items())).encode()}, rows=len(came))


def restore(counts: dict[str, int], before: Mapping[str, int | None]) -> None:
    """Take a step back."""
    for name, count in before.items():
        counts.pop(name, None)
        if count is not None:
            counts[name] = count


COUNT = Plan("count", (Stage("cut", cut), unit_stage("add", COUNTERS, add)))
