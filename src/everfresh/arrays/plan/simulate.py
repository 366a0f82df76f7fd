"""How a plan would run: transfers, reads and joins that overlap, with and without schedule and caching.

The evaluation of the paper on similarity joins (sections 4.1 and 5.2) as a simulation under the cost model. A
worker has one thread that sends, one disk and some threads that join. With the schedule, links are busy as
its slots say; without, every worker sends its chunks in their order and waits for nobody, so senders crowd at
a receiver. Without caching, every join reads its local chunks again. A join starts when its chunks are there
and a thread is free. Invariant: no run is shorter than the busiest link end, disk or set of threads allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from everfresh.arrays.plan.access import accesses
from everfresh.arrays.plan.algorithms import Assignment
from everfresh.arrays.plan.catalog import Ints
from everfresh.arrays.plan.plan import Plan

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """What a simulated run took, in seconds; tuples have an entry per worker."""

    makespan: float
    finish: tuple[float, ...]
    network: tuple[float, ...]
    """When the last chunk arrives."""
    receive: tuple[float, ...]
    """The sum over received chunks of the time they are under way: it grows where senders crowd."""
    disk: tuple[float, ...]
    compute: tuple[float, ...]
    """Time of all threads in joins."""
    waiting: tuple[float, ...]
    """Time of all threads waiting for reads."""
    thread_spread: float
    """The busiest thread of all workers over their mean."""
    reads: int
    overlap: float
    """The share of join time that falls before the worker's last chunk has arrived."""

    @property
    def slowest_over_fastest(self) -> float:
        """How much later the last worker is done than the first."""
        first = min(self.finish)
        return max(self.finish) / first if first else float("inf") if max(self.finish) else 1.0


def simulate(plan: Plan, *, schedule: bool = True, caching: bool = True) -> Run:
    """Run a plan under its cost model.

    >>> from everfresh.arrays.plan import Chunks, CostModel, PlanOptions, Reach, plan_join
    >>> row = Chunks.of([[1], [4]], [[2], [4]], cells=[2, 1], start=[1], length=[2], home=[0, 1])
    >>> plan = plan_join(row, Reach.box([-2], [-1]), 2, options=PlanOptions(cost=CostModel(1.0, 0.0, 1.0)))
    >>> simulate(plan).makespan  # a byte comes, then joins over three cells and over four
    8.0
    """
    cost, problem = plan.options.cost, plan.problem
    order, arrived, receive = _transfers(plan, schedule)
    joins = Assignment(plan.first, plan.second, plan.ways, plan.node, plan.send[order], plan.target[order])
    access = accesses(problem, joins, joins.chunk, joins.target, plan.options.budget)
    run = access.order
    first, second, node = plan.first[run], plan.second[run], plan.node[run]
    there = np.zeros(len(problem.cells) * problem.workers)
    there[joins.chunk * problem.workers + joins.target] = arrived
    ready = np.maximum(there[first * problem.workers + node], there[second * problem.workers + node]).astype(
        np.float64
    )
    reading, reads = _reads(
        plan, first, second, node, access.join[access.load], access.chunk[access.load], caching
    )
    lasting: Floats = ((problem.cells[first] + problem.cells[second]) * cost.t_cpu).astype(np.float64)
    return _joins(
        plan, node, ready * cost.t_ntwk, reading * cost.t_disk, lasting, receive * cost.t_ntwk, reads
    )


def _transfers(plan: Plan, schedule: bool) -> tuple[Ints, Floats, Floats]:
    """Sends in the order of arrival at each target, when they arrive, and each worker's time of receiving."""
    from everfresh.arrays.plan.kernels.running import crowded

    size = plan.problem.bytes[plan.send]
    if schedule:
        return (
            np.arange(len(size), dtype=np.int64),
            plan.arrival.astype(np.float64),
            plan.links.sum(axis=0).astype(np.float64),
        )
    source = plan.source
    leaving = np.lexsort((plan.target, plan.send, source))
    begin = np.searchsorted(source[leaving], np.arange(plan.problem.workers + 1))
    start, end = crowded(begin, plan.target[leaving], size[leaving])
    arrived, under_way = np.empty(len(size)), np.empty(len(size))
    arrived[leaving], under_way[leaving] = end, end - start
    receive = np.bincount(plan.target, under_way, plan.problem.workers).astype(np.float64)
    order: Ints = np.lexsort((np.arange(len(size)), arrived, plan.target)).astype(np.int64)
    return order, arrived[order], receive


def _reads(
    plan: Plan, first: Ints, second: Ints, node: Ints, step: Ints, chunk: Ints, caching: bool
) -> tuple[Floats, int]:
    """Bytes that the disk reads for each join, and how many chunks that are in all."""
    problem = plan.problem
    if caching:
        return np.bincount(step, problem.bytes[chunk], len(first)).astype(np.float64), len(step)
    mine, other = problem.home[first] == node, (problem.home[second] == node) & (first != second)
    return (
        problem.bytes[first] * mine.astype(np.float64) + problem.bytes[second] * other,
        int(mine.sum() + other.sum()),
    )


def _joins(
    plan: Plan, node: Ints, ready: Floats, reading: Floats, lasting: Floats, receive: Floats, reads: int
) -> Run:
    from everfresh.arrays.plan.kernels.running import joined

    finish, disk, waiting, network = [], [], [], []
    threads = np.zeros((plan.problem.workers, plan.options.cost.threads))
    early = 0.0
    for k in range(plan.problem.workers):
        mine = node == k
        took, waited, threads[k], start, end = joined(
            ready[mine], reading[mine], lasting[mine], plan.options.cost.threads
        )
        last = float(ready[mine].max(initial=0.0))
        early += float(np.maximum(np.minimum(end, last) - start, 0).sum())
        finish.append(max(float(end.max(initial=0.0)), last))
        disk.append(float(took))
        waiting.append(float(waited))
        network.append(last)
    total = float(threads.sum())
    return Run(
        max(finish),
        tuple(finish),
        tuple(network),
        tuple(receive.tolist()),
        tuple(disk),
        tuple(threads.sum(axis=1).tolist()),
        tuple(waiting),
        float(threads.max() / threads.mean()) if total else 1.0,
        reads,
        early / total if total else 0.0,
    )
