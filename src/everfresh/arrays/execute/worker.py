"""One worker's part of a plan: local chunks are read and let go as its data access plan says, and joined.

Section 4.5 of the paper on similarity joins. Joins come in the plan's order and are handed over in batches of
chunk pairs, since a call of the kernel for each pair would cost more than most pairs do. A batch ends before
the chunks that it still refers to would exceed the memory budget by more than `SLACK` bytes. Invariant: every
join of the part is handed over once; reads are those of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from everfresh.arrays.chunk import Chunk
from everfresh.arrays.model import Ints
from everfresh.arrays.plan.catalog import Ints as Columns
from everfresh.arrays.plan.pairs import BACKWARD, FORWARD
from everfresh.arrays.plan.plan import WorkerPlan

SLACK = 1 << 20
_CELLS = 1 << 22
"""Candidate cells of a batch: both chunks of its pairs, added up."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Chunk pairs that are joined together: ordered pairs of positions, left role first; `chunks` has the
    chunks of all positions in them."""

    left: Ints
    right: Ints
    chunks: Mapping[int, Chunk]


@dataclass(slots=True)
class Reads:
    """What a worker has read of its own chunks, and held at most; `batches` were handed over."""

    count: int = 0
    bytes: int = 0
    most: int = 0
    batches: int = 0
    joins: int = 0
    _held: int = field(default=0, repr=False)


def run_worker(
    part: WorkerPlan,
    sizes: Columns,
    budget: int | None,
    local: Callable[[int], Chunk],
    remote: Mapping[int, Chunk],
    join: Callable[[Batch], None],
) -> Reads:
    """Do one worker's part: `local` reads a chunk that the worker keeps, `remote` has what it was sent, and
    `join` is given the joins. Chunks are known by their positions in the plan, `sizes` are their bytes."""
    reads = Reads()
    held: dict[int, Chunk] = {}
    leaving = 0  # bytes of chunks that were let go, and that the batch refers to
    pairs: list[tuple[int, int]] = []
    used: dict[int, Chunk] = {}
    cells = 0

    def hand_over() -> None:
        nonlocal leaving, cells
        if pairs:
            both = np.array(pairs, np.int64).T
            join(Batch(both[0], both[1], dict(used)))
            reads.batches += 1
        pairs.clear()
        used.clear()
        leaving = cells = 0

    act = 0
    for at in range(len(part.first)):
        while act < len(part.step) and part.step[act] <= at:
            chunk = int(part.chunk[act])
            if part.load[act]:
                held[chunk] = local(chunk)
                reads.count += 1
                reads.bytes += int(sizes[chunk])
                reads._held += int(sizes[chunk])
                reads.most = max(reads.most, reads._held)
            else:
                gone = held.pop(chunk)
                reads._held -= int(sizes[chunk])
                if chunk in used and used[chunk] is gone:
                    leaving += int(sizes[chunk])
            act += 1
        if budget is not None and leaving > SLACK:
            hand_over()
        p, q, ways = int(part.first[at]), int(part.second[at]), int(part.ways[at])
        for chunk in (p, q):
            if chunk not in used:
                used[chunk] = held[chunk] if chunk in held else remote[chunk]
        cells += len(used[p]) + len(used[q])
        if ways & FORWARD:
            pairs.append((p, q))
        if ways & BACKWARD:
            pairs.append((q, p))
        reads.joins += 1
        if cells > _CELLS:
            hand_over()
    hand_over()
    return reads
