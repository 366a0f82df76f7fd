"""The methods of maintenance over a sequence of batches.

    baseline       joins where old chunks are kept, results to where view chunks are kept
    differential   Algorithm 1: joins where they cost least
    reassign       Algorithms 1 to 3: view chunks and array chunks are kept where they are needed
    auto           plans with each, costs each in full, takes the cheapest

A planner keeps where chunks and view chunks are, and the scores of the last batches. Algorithm 1 is run with
several weights of all that is sent; the cheapest of these plans and the baseline is taken.

Invariant: chunks move only to workers that hold a replica, or that their delta is sent to at a charge.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from everfresh.arrays.plan.catalog import Ints
from everfresh.arrays.upkeep.plans import Costs, MaintenancePlan, costed
from everfresh.arrays.upkeep.stages import (
    Scores,
    array_chunks,
    baseline,
    chunk_masks,
    differential,
    found,
    view_chunks,
)
from everfresh.arrays.upkeep.update import Update
from everfresh.errors import Code, EverfreshError

METHODS = ("baseline", "differential", "reassign", "auto")


@dataclass(frozen=True)
class PlannerOptions:
    """How plans are made.

    `window` past batches count when chunks move, each half of the one after it. `balance` is the weight of
    the current batch against the past ones where `auto` chooses between plans that cost as much now, `spare`
    how much of the batch's average a worker may take over, `most` the cells that it may keep against a mean.
    """

    method: str = "auto"
    costs: Costs = field(default_factory=Costs)
    window: int = 5
    decay: float = 0.5
    weights: tuple[float, ...] = (0.0, 0.03, 0.1)
    spare: float = 1.05
    most: float = 1.5
    balance: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no method '{self.method}'",
                hint="methods are: " + ", ".join(METHODS),
            )


class Planner:
    """Plans of one view's maintenance; it knows where chunks are."""

    def __init__(self, options: PlannerOptions, home: Ints, view_home: Ints) -> None:
        self.options = options
        self.home, self.view_home = np.array(home, np.int64), np.array(view_home, np.int64)
        self._past: deque[Scores] = deque(maxlen=options.window + 1)

    def step(self, update: Update, stored: Ints | None = None) -> MaintenancePlan:
        """The plan of a batch, after which chunks are kept where it says; `stored` has cells by chunk."""
        of = update.moved(self.home, self.view_home)
        plans = self.plans(of, stored)
        chosen = min(plans, key=lambda plan: (plan.makespan, plan.moved, self._apart(plan)))
        if self.options.method == "auto":
            near = [p for p in plans if p.makespan <= chosen.makespan * (1 + 1e-9)]
            chosen = min(
                near,
                key=lambda p: self.options.balance * p.moved + (1 - self.options.balance) * self._apart(p),
            )
        self.view_home = np.array(chosen.view_home)
        for chunk, worker in chosen.home.items():
            self.home[chunk] = worker
        return chosen

    def plans(self, of: Update, stored: Ints | None = None) -> list[MaintenancePlan]:
        """The plans that a method may choose from."""
        options = self.options
        first = costed("baseline", of, options.costs, baseline(of), of.view_home)
        if options.method == "baseline":
            return [first]
        self._past.appendleft(Scores.of(of))
        plans = [first] if options.method == "auto" else []
        joins = [differential(of, options.costs, seed=options.seed, small=small) for small in options.weights]
        some = [("differential", each.worker) for each in joins]
        if options.method != "differential":
            some.append(("baseline", first.worker))
        for name, worker in some:
            if options.method != "reassign" and name != "baseline":
                plans.append(costed(name, of, options.costs, worker, of.view_home))
            if options.method != "differential":
                plans.append(self._reassigned(of, worker, stored))
        if options.method == "differential":
            plans.append(first)
        return plans

    def _reassigned(self, of: Update, worker: Ints, stored: Ints | None) -> MaintenancePlan:
        """Algorithms 2 and 3 behind a plan of joins."""
        options = self.options
        before = costed("reassign", of, options.costs, worker, of.view_home)
        results = found(of, worker)
        network, cpu = before.network.copy(), before.cpu.copy()
        remote = of.view_home[results.view] != results.source
        np.subtract.at(network, results.source[remote], results.cells[remote] * options.costs.t_ntwk)
        np.subtract.at(cpu, of.view_home[results.view], results.work * options.costs.t_cpu)
        homes, _ = view_chunks(
            results, of.view_home, of.view_size, network, cpu, options.costs, seed=options.seed, small=0.1
        )
        count = max(len(self.home), int(of.chunk.max(initial=-1)) + 1)
        masks, size, new = chunk_masks(of, worker, count)
        many = (masks & (masks - 1)) != 0
        room = np.full(of.workers, options.spare * float(size[many].sum()) / of.workers)
        if stored is not None:
            held = np.bincount(self.home[: len(stored)], stored, of.workers)
            room = np.minimum(room, np.maximum(0.0, options.most * held.mean() - held))
        scores = Scores.window(list(self._past), options.decay)
        chosen = array_chunks(scores, size, masks, self.home, homes, room, new)
        return costed("reassign", of, options.costs, worker, homes, chosen)

    def _apart(self, plan: MaintenancePlan) -> float:
        """How much of the past would have been sent: scores of chunks that are not where view chunks are."""
        if not self._past:
            return 0.0
        home = self.home.copy()
        for chunk, worker in plan.home.items():
            home[chunk] = worker
        scores = Scores.window(list(self._past), self.options.decay)
        return float(scores.score[home[scores.chunk] != plan.view_home[scores.view]].sum())
