"""A plan carried out in this process: logical workers, each with the chunks that the catalog says.

What leaves a worker is packed, counted and unpacked as it is between processes, so that the figures are those
of a cluster. Invariant: `Measured` equals what the plan says (`Measured.check`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from everfresh.arrays.chunk import Chunk
from everfresh.arrays.execute.catalog import Catalog
from everfresh.arrays.execute.wire import packed, unpacked
from everfresh.arrays.execute.worker import Batch, Reads, run_worker
from everfresh.arrays.plan import Plan

Ints = Any


@dataclass(frozen=True, eq=False)
class Measured:
    """What running a plan has come to; `links[i, j]` are the bytes from worker i to worker j, the others have
    an entry per worker. `sent` counts chunks."""

    links: Ints
    sent: Ints
    reads: Ints
    bytes_read: Ints
    joins: Ints
    seconds: Ints = field(default_factory=lambda: np.zeros(0))
    """Of each worker's joins, where they are measured: on Spark in the last stage of a query, since what goes
    through an exchange has to repeat itself."""
    rows_moved: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rows that each worker sent on, for groups and result chunks."""
    receive: Ints = field(default_factory=lambda: np.zeros(0))
    """Seconds until a worker had all chunks that it was sent, from when its task began; on Spark."""
    began: Ints = field(default_factory=lambda: np.zeros(0))
    """When each worker's joins began, by the clock on the wall."""
    threads: dict[int, str] = field(default_factory=dict)
    """Which thread (host and process) each worker's joins ran in."""

    @staticmethod
    def none(workers: int) -> Measured:
        """Nothing yet."""

        def zeros() -> Ints:
            return np.zeros(workers, np.int64)

        links = np.zeros((workers, workers), np.int64)
        return Measured(
            links,
            zeros(),
            zeros(),
            zeros(),
            zeros(),
            np.zeros(workers),
            zeros(),
            np.zeros(workers),
            np.zeros(workers),
        )

    @property
    def bytes_moved(self) -> int:
        """Over all links."""
        return int(self.links.sum())

    def add_reads(self, worker: int, reads: Reads) -> None:
        """Take up what a worker has read and joined."""
        self.reads[worker] += reads.count
        self.bytes_read[worker] += reads.bytes
        self.joins[worker] += reads.joins

    def add_times(self, worker: int, told: Mapping[str, Any]) -> None:
        """Take up what a worker says of its times, if it does."""
        if "thread" in told:
            self.seconds[worker], self.receive[worker] = told["seconds"], told["receive"]
            self.began[worker], self.threads[worker] = told["began"], told["thread"]

    @property
    def thread_spread(self) -> float:
        """The busiest thread's joins over the mean of all threads; 1 if none were measured."""
        busy: dict[str, float] = {}
        for worker, thread in self.threads.items():
            busy[thread] = busy.get(thread, 0.0) + float(self.seconds[worker])
        mean = sum(busy.values()) / max(1, len(busy))
        return max(busy.values()) / mean if mean else 1.0

    @property
    def overlap(self) -> float:
        """The share of join time that falls before the last worker has its chunks. A worker of Spark joins
        when it has all of them: this is that others join meanwhile."""
        total = float(self.seconds.sum())
        early = np.clip(self.began.max(initial=0.0) - self.began, 0, self.seconds)
        return float(early.sum()) / total if total and self.threads else 0.0

    def check(self, plan: Plan) -> None:
        """Raise unless this is what the plan says."""
        joins = np.bincount(plan.node, minlength=plan.problem.workers)
        pairs = (
            ("bytes of the links", self.links, plan.links),
            ("reads", self.reads, plan.reads),
            ("bytes read", self.bytes_read, plan.bytes_read),
            ("joins", self.joins, joins),
        )
        for what, found, planned in pairs:
            if not np.array_equal(found, planned):
                raise AssertionError(f"{what}: {found.tolist()} where the plan has {planned.tolist()}")

    def text(self, plan: Plan) -> str:
        """Measured beside planned."""
        lines = [
            f"measured: {self.bytes_moved:,} bytes moved (planned {plan.bytes_moved:,}), "
            f"{int(self.reads.sum()):,} reads (planned {int(plan.reads.sum()):,}), "
            f"{int(self.joins.sum()):,} joins (planned {len(plan.first):,})",
            f"rows moved for groups and results: {int(self.rows_moved.sum()):,}",
        ]
        lines += [
            f"  worker {k}: in {int(self.links[:, k].sum()):,} ({int(plan.links[:, k].sum()):,} planned), "
            f"out {int(self.links[k].sum()):,} ({int(plan.links[k].sum()):,}), "
            f"reads {int(self.reads[k]):,} ({int(plan.reads[k]):,})"
            + (f", received in {self.receive[k]:.3f} s" if self.receive.any() else "")
            + (f", joins in {self.seconds[k]:.3f} s" if self.seconds.any() else "")
            for k in range(len(self.links))
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, eq=False)
class Positions:
    """Which chunk stands at a position of a plan: the left array's first, then the right one's."""

    left: Catalog
    right: Catalog | None

    def of(self, position: int) -> tuple[bool, int]:
        """Whether it is the right array's, and the number of the chunk."""
        if position < len(self.left):
            return False, int(self.left.number[position])
        assert self.right is not None
        return True, int(self.right.number[position - len(self.left)])


def run_local(
    plan: Plan,
    positions: Positions,
    left: Mapping[int, Chunk],
    right: Mapping[int, Chunk] | None,
    join: Callable[[int, Batch], None],
) -> Measured:
    """Carry a plan out: `join` is given each worker's batches of chunk pairs."""
    measured = Measured.none(plan.problem.workers)
    ndims = positions.left.schema.ndim, positions.right.schema.ndim if positions.right is not None else 0

    def chunk(position: int) -> Chunk:
        second, number = positions.of(position)
        return (right if second and right is not None else left)[number]

    arrived: list[dict[int, Chunk]] = [{} for _ in range(plan.problem.workers)]
    for position, source, target in zip(
        plan.send.tolist(), plan.source.tolist(), plan.target.tolist(), strict=True
    ):
        kept = chunk(position)
        data = packed(kept.table)
        measured.links[source, target] += len(data)
        measured.sent[source] += 1
        arrived[target][position] = Chunk(unpacked(data, kept.table.schema), ndims[positions.of(position)[0]])
    for k in range(plan.problem.workers):
        part, started = plan.worker(k), perf_counter()
        given = plan.problem.bytes, plan.options.budget
        reads = run_worker(part, *given, chunk, arrived[k], partial(join, k))
        measured.seconds[k] = perf_counter() - started
        measured.add_reads(k, reads)
    return measured
