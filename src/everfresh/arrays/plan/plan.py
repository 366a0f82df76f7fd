"""A plan of a similarity join: an immutable value, what each worker sends, receives, reads and joins.

The three components of the paper on similarity joins (section 4.2, Figure 6): transfer graph, transfer
schedule, data access plan. `planner` makes it, `text` prints and parses it, `explain` tells what it costs.
Invariant, checked when one is made: both chunks of a join are at its worker, kept or sent; a chunk is sent
from where it is kept, once to a worker; the slots carry exactly the bytes of the sends.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from everfresh.arrays.plan.algorithms import PlanOptions
from everfresh.arrays.plan.catalog import Ints, Mask
from everfresh.arrays.plan.pairs import Problem
from everfresh.arrays.plan.schedule import Slot, matrix
from everfresh.errors import Code, EverfreshError


@dataclass(frozen=True, eq=False)
class WorkerPlan:
    """What one worker does: joins in order, and what it reads or lets go before the join at `step`."""

    worker: int
    send_chunk: Ints  # in the order of leaving, link by link
    send_to: Ints
    receive_chunk: Ints  # in the order of arrival
    receive_from: Ints
    first: Ints
    second: Ints
    ways: Ints
    step: Ints
    chunk: Ints
    load: Mask


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan of one join; joins and sends are in the order in which workers run and receive them."""

    options: PlanOptions
    problem: Problem
    first: Ints
    second: Ints
    ways: Ints
    node: Ints
    send: Ints  # chunks, by (target, arrival)
    target: Ints
    arrival: Ints  # in bytes' time since the start
    slots: tuple[Slot, ...]
    step: Ints  # before the join at this position ...
    chunk: Ints  # ... this local chunk ...
    load: Mask  # ... is read, or else leaves

    def __post_init__(self) -> None:
        for name in ("first", "second", "ways", "node", "send", "target", "arrival", "step", "chunk", "load"):
            getattr(self, name).setflags(write=False)
        problem, workers = self.problem, self.problem.workers
        there = np.zeros((len(problem.cells), workers), bool)
        there[np.arange(len(problem.cells)), problem.home] = True
        if there[self.send, self.target].any():
            raise _wrong("a chunk is sent to where it is kept")
        there[self.send, self.target] = True
        if np.count_nonzero(there) != len(problem.cells) + len(self.send):
            raise _wrong("a chunk is sent to a worker twice")
        if not (there[self.first, self.node] & there[self.second, self.node]).all():
            raise _wrong("a chunk of a join is not at its worker")
        carried = np.zeros((workers, workers), np.int64)
        for slot in self.slots:
            for link in slot.links:
                carried[link] += slot.length
        if (carried != self.links).any():
            raise _wrong("the slots do not carry the bytes of the sends")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<Plan {self.options.algorithm}: {self.problem.workers} workers, "
            f"{len(self.problem.cells)} chunks, "
            f"{len(self.first)} joins, {len(self.send)} sends, {self.bytes_moved} bytes>"
        )

    # -- figures -------------------------------------------------------------------------------------

    @property
    def source(self) -> Ints:
        """The worker that keeps each sent chunk."""
        return self.problem.home[self.send]

    @cached_property
    def links(self) -> Ints:
        """Bytes from each worker to each other one."""
        return matrix(self.problem.workers, self.source, self.target, self.problem.bytes[self.send])

    @property
    def bytes_moved(self) -> int:
        """The sum over all links."""
        return int(self.problem.bytes[self.send].sum())

    @property
    def busiest_end(self) -> int:
        """The most bytes into or out of one worker: the least length of a schedule."""
        return int(max(self.links.sum(axis=0).max(), self.links.sum(axis=1).max()))

    @property
    def length(self) -> int:
        """The length of the schedule, in bytes' time."""
        return sum(slot.length for slot in self.slots)

    @cached_property
    def work(self) -> Ints:
        """Candidate cell pairs of each join."""
        ways = (self.ways & 1) + (self.ways >> 1)
        return self.problem.cells[self.first] * self.problem.cells[self.second] * ways

    @cached_property
    def load_of_workers(self) -> Ints:
        """Candidate cell pairs of each worker."""
        return self._per_worker(self.work)

    @cached_property
    def cells_of_workers(self) -> Ints:
        """Cells that each worker's joins go over: those of both chunks."""
        return self._per_worker(self.problem.cells[self.first] + self.problem.cells[self.second])

    @cached_property
    def reads(self) -> Ints:
        """How many local chunks each worker reads."""
        return np.bincount(self.node[self.step[self.load]], minlength=self.problem.workers).astype(np.int64)

    @cached_property
    def bytes_read(self) -> Ints:
        """Bytes of local chunks that each worker reads."""
        found = np.zeros(self.problem.workers, np.int64)
        np.add.at(found, self.node[self.step[self.load]], self.problem.bytes[self.chunk[self.load]])
        return found

    @property
    def makespan(self) -> float:
        """Seconds under the cost model."""
        return self.options.cost.makespan(
            self.length, int(self.bytes_read.max()), int(self.cells_of_workers.max())
        )

    @property
    def spread(self) -> float:
        """The largest load over the mean."""
        mean = float(self.load_of_workers.mean())
        return float(self.load_of_workers.max()) / mean if mean else 1.0

    def _per_worker(self, values: Ints) -> Ints:
        found = np.zeros(self.problem.workers, np.int64)
        np.add.at(found, self.node, values)
        return found

    # -- parts ---------------------------------------------------------------------------------------

    def worker(self, k: int) -> WorkerPlan:
        """The part of worker k, positions counted from its own first join."""
        if not 0 <= k < self.problem.workers:
            raise EverfreshError(Code.ARGUMENT, f"there is no worker {k}", place="worker")
        joins, mine = np.flatnonzero(self.node == k), self.target == k
        begin = int(joins[0]) if len(joins) else 0
        out = np.flatnonzero(self.source == k)
        out = out[np.argsort(self.arrival[out], kind="stable")]
        acts = np.flatnonzero(self.node[self.step] == k)
        return WorkerPlan(
            k,
            self.send[out],
            self.target[out],
            self.send[mine],
            self.source[mine],
            self.first[joins],
            self.second[joins],
            self.ways[joins],
            self.step[acts] - begin,
            self.chunk[acts],
            self.load[acts],
        )

    def to_text(self) -> str:
        """The plan as text that `from_text` reads."""
        from everfresh.arrays.plan.text import print_plan

        return print_plan(self)

    @staticmethod
    def from_text(text: str) -> Plan:
        """The plan that `to_text` printed."""
        from everfresh.arrays.plan.text import parse_plan

        return parse_plan(text)

    def to_json(self) -> str:
        """The plan as JSON that `from_json` reads: columns, by name."""
        from everfresh.arrays.plan.text import plan_to_json

        return plan_to_json(self)

    @staticmethod
    def from_json(text: str) -> Plan:
        """The plan that `to_json` wrote."""
        from everfresh.arrays.plan.text import plan_from_json

        return plan_from_json(text)


def _same(a: object, b: object) -> bool:
    if isinstance(a, Problem) and isinstance(b, Problem):
        return all(_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return a == b


def _wrong(message: str) -> EverfreshError:
    return EverfreshError(Code.ARGUMENT, message, place="plan")
