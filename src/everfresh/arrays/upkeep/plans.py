"""What a plan of maintenance decides, and what it costs.

The terms of Eq. (1) of the paper for one batch. Network, by sender: an object that goes to a worker goes
there once, from where it is kept; a worker sends what it found for a view chunk in one message, as many cells
as the objects that it found them for; a view chunk that moves is sent as it is. Joins, by worker: the sizes
of both objects of each pair. Network and joins overlap, so the longer one of the busiest worker counts.

Invariant: a plan names a worker for each pair and each view chunk, and its costs are never less than total
work divided by workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.arrays.plan.catalog import Ints
from everfresh.arrays.upkeep.update import Update

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """The time that a cell takes to be sent, and to be joined."""

    t_ntwk: float = 4.0
    t_cpu: float = 1.0

    @property
    def ratio(self) -> float:
        """How much longer it takes to send a cell than to join it."""
        return self.t_ntwk / self.t_cpu


@dataclass(frozen=True, eq=False)
class MaintenancePlan:
    """Where pairs are joined, and where view chunks and chunks of the array are kept from then on."""

    method: str
    worker: Ints
    """Of each pair."""
    view_home: Ints
    home: dict[int, int]
    """The chunks that are kept elsewhere from now on, by their numbers."""
    network: Floats
    cpu: Floats
    moved: int
    """Cells that are sent between workers, what moves of the view among them."""
    view_moved: int

    @property
    def makespan(self) -> float:
        """What the busiest worker takes."""
        return float(max(self.network.max(initial=0.0), self.cpu.max(initial=0.0)))

    def __str__(self) -> str:
        ends = ", ".join(f"{n:g} network {c:g} joins" for n, c in zip(self.network, self.cpu, strict=True))
        kept = f"{len(self.home)} chunks kept elsewhere" if self.home else "chunks stay"
        return f"{self.method}: makespan {self.makespan:g} ({ends}); {self.moved} cells sent; {kept}"


def replicas(of: Update, worker: Ints) -> NDArray[np.uint64]:
    """The workers that have an object while the batch is joined, as bits: where it is kept, and where pairs
    of it are joined."""
    masks = np.left_shift(np.uint64(1), of.home.astype(np.uint64))
    for objects in (of.first, of.second):
        np.bitwise_or.at(masks, objects, np.left_shift(np.uint64(1), worker.astype(np.uint64)))
    return masks


def messages(of: Update, worker: Ints) -> tuple[Ints, Ints, Ints]:
    """What workers find for view chunks: worker, view chunk, cells; once for each object that they find it
    for."""
    at = worker[of.pair]
    codes = np.unique((at * len(of.view_home) + of.view) * max(1, len(of.size)) + of.side)
    some, side = np.divmod(codes, max(1, len(of.size)))
    groups, inverse = np.unique(some, return_inverse=True)
    cells = np.bincount(inverse, of.size[side], len(groups)).astype(np.int64)
    return groups // max(1, len(of.view_home)), groups % max(1, len(of.view_home)), cells


def costed(
    method: str, of: Update, costs: Costs, worker: Ints, view_home: Ints, home: dict[int, int] | None = None
) -> MaintenancePlan:
    """A plan with its costs."""
    network, cpu = np.zeros(of.workers), np.zeros(of.workers)
    masks = replicas(of, worker)
    moved = 0
    for target in range(of.workers):
        there = ((masks >> np.uint64(target)) & np.uint64(1)).astype(np.bool_) & (of.home != target)
        network += np.bincount(of.home[there], of.size[there], of.workers) * costs.t_ntwk
        moved += int(of.size[there].sum())
    np.add.at(cpu, worker, of.work * costs.t_cpu)
    source, view, cells = messages(of, worker)
    remote = view_home[view] != source
    np.add.at(network, source[remote], cells[remote] * costs.t_ntwk)
    np.add.at(cpu, view_home[view], cells * costs.t_cpu)
    moving = view_home != of.view_home
    np.add.at(network, of.view_home[moving], of.view_size[moving] * costs.t_ntwk)
    extra = _meeting(of, masks, home or {})
    for source_at, size in extra:
        network[source_at] += size * costs.t_ntwk
        moved += size
    moved += int(cells[remote].sum()) + int(of.view_size[moving].sum())
    view_moved = int(of.view_size[moving].sum())
    return MaintenancePlan(method, worker, view_home, home or {}, network, cpu, moved, view_moved)


def _meeting(of: Update, masks: Any, home: dict[int, int]) -> list[tuple[int, int]]:
    """A chunk and its delta meet where the chunk is kept from now on: sends of those that are not there."""
    if not home:
        return []
    chosen = np.array(list(home), np.int64)
    target = np.full(int(max(of.chunk.max(initial=0), chosen.max())) + 1, -1, np.int64)
    target[chosen] = list(home.values())
    to = target[of.chunk]
    away = (to >= 0) & ((masks >> np.maximum(to, 0).astype(np.uint64)) & np.uint64(1) == 0)
    return [(int(of.home[k]), int(of.size[k])) for k in np.flatnonzero(away)]
