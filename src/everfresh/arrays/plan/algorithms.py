"""Ways to plan a join, by name: which pair is computed where, and which chunks are sent for it.

Those by a cover of the transfer graph (section 4.3 of the paper on similarity joins), and its competitors
(appendix B): the structural join (the right chunk goes to the left one), MapReduce (units go to hashed
workers), shuffle join (units go where most of their bytes are, then level the load). A unit is a left chunk
with all right chunks that it pairs with. Invariant: every direction of every pair is computed once, at a
worker that keeps or is sent both chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from everfresh.arrays.plan.assign import BALANCES, nodes_of_pairs
from everfresh.arrays.plan.catalog import Ints, Mask
from everfresh.arrays.plan.cost import CostModel
from everfresh.arrays.plan.covers import COVERS, CoverOptions
from everfresh.arrays.plan.graph import TransferGraph, transfer_graph
from everfresh.arrays.plan.pairs import BACKWARD, FORWARD, Problem
from everfresh.errors import Code, EverfreshError

CHUNK_ORDERS = ("curve", "sharing")
ROUNDS = 200
"""How often the shuffle join tries to move a unit."""


@dataclass(frozen=True)
class PlanOptions:
    """How a join is planned."""

    algorithm: str = "bhvc"
    cover: CoverOptions = field(default_factory=CoverOptions)
    balance: str = "cells"
    """What the assignment of open pairs balances: candidate `cells` or the number of `pairs`."""
    budget: int | None = None
    """Bytes of local chunks that a worker keeps in memory; None for all."""
    chunk_order: str = "curve"
    """The chunks of a link: along a space-filling `curve`, or `sharing` local partners, as the document."""
    rounds: int | None = None
    """Into how many rounds the schedule is cut; None for one if all fits into memory, else more."""
    cost: CostModel = field(default_factory=CostModel)

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise EverfreshError(
                Code.NOT_FOUND, f"there is no algorithm '{self.algorithm}'", place="algorithm",
                hint="algorithms are: " + ", ".join(ALGORITHMS),
            )  # fmt: skip
        if self.balance not in BALANCES or (self.budget is not None and self.budget < 0):
            raise EverfreshError(
                Code.ARGUMENT, "a plan balances cells or pairs, under a budget of at least 0 bytes",
                place="balance, budget",
            )  # fmt: skip
        if self.chunk_order not in CHUNK_ORDERS or (self.rounds is not None and self.rounds < 1):
            raise EverfreshError(
                Code.ARGUMENT, "chunks go along a curve or by sharing, in at least one round",
                place="chunk_order, rounds",
            )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Assignment:
    """Joins (first, second, ways, node), each pair at most once per node, and sends (chunk, target)."""

    first: Ints
    second: Ints
    ways: Ints
    node: Ints
    chunk: Ints
    target: Ints


@dataclass(frozen=True)
class Algorithm:
    """A way to plan, what it does in words, and the rule."""

    summary: str
    run: Callable[[Problem, PlanOptions], Assignment]


def _by_cover(name: str) -> Callable[[Problem, PlanOptions], Assignment]:
    def run(problem: Problem, options: PlanOptions) -> Assignment:
        graph = transfer_graph(problem)
        return by_cover(problem, graph, COVERS[name](graph, options.cover), options.balance)

    return run


def by_cover(problem: Problem, graph: TransferGraph, chosen: Mask, balance: str) -> Assignment:
    """Pairs and sends from the selected vertices of the transfer graph."""
    node = nodes_of_pairs(problem, graph, chosen, balance)
    sends = graph.chunk[chosen], graph.target[chosen]
    return Assignment(problem.first, problem.second, problem.ways, node, *sends)


def _directions(problem: Problem) -> tuple[Ints, Ints, Ints]:
    """Every direction of every pair by itself: the pair, its left chunk, and the direction."""
    there, back = np.flatnonzero(problem.ways & FORWARD), np.flatnonzero(problem.ways & BACKWARD)
    pair = np.concatenate([there, back])
    left = np.concatenate([problem.first[there], problem.second[back]])
    return pair, left, np.repeat([FORWARD, BACKWARD], [len(there), len(back)])


def _units(problem: Problem, once: bool) -> tuple[Ints, Ints, Ints]:
    """Pairs by units: (pair, the unit's chunk, direction); with `once`, a pair belongs to its first chunk."""
    if once:
        return np.arange(len(problem.first)), problem.first, problem.ways
    return _directions(problem)


def _gathered(problem: Problem, pair: Ints, ways: Ints, node: Ints) -> Assignment:
    """Directions of a pair at one worker together, and the sends that they need."""
    codes, which = np.unique(pair * problem.workers + node, return_inverse=True)
    both = np.bincount(which, ways, len(codes)).astype(np.int64)
    pair, node = codes // problem.workers, codes % problem.workers
    first, second = problem.first[pair], problem.second[pair]
    ends, to = np.concatenate([first, second]), np.tile(node, 2)
    away = problem.home[ends] != to
    sends = np.unique(ends[away] * problem.workers + to[away])
    return Assignment(first, second, both, node, sends // problem.workers, sends % problem.workers)


def _struct(once: bool) -> Callable[[Problem, PlanOptions], Assignment]:
    def run(problem: Problem, _options: PlanOptions) -> Assignment:
        pair, left, ways = _units(problem, once)
        return _gathered(problem, pair, ways, problem.home[left])

    return run


def _map_reduce(once: bool) -> Callable[[Problem, PlanOptions], Assignment]:
    def run(problem: Problem, _options: PlanOptions) -> Assignment:
        pair, left, ways = _units(problem, once)
        node = (problem.key[left] % np.uint64(problem.workers)).astype(np.int64)
        return _gathered(problem, pair, ways, node)

    return run


def _shuffle(problem: Problem, options: PlanOptions) -> Assignment:
    """Units to the worker with most of their bytes, then to the least loaded one while that helps."""
    pair, left, ways = _directions(problem)
    right = problem.first[pair] + problem.second[pair] - left
    units, which = np.unique(left, return_inverse=True)
    held = np.zeros((len(units), problem.workers))
    other = right != left
    np.add.at(held, (which[other], problem.home[right[other]]), problem.bytes[right[other]])
    held[np.arange(len(units)), problem.home[units]] += problem.bytes[units]
    node = np.argmax(held, axis=1)
    cells = np.bincount(which, problem.cells[left] + problem.cells[right], len(units))
    away = held.sum(axis=1, keepdims=True) - held
    cpu = cells * options.cost.t_cpu / options.cost.threads
    _level(node, away * options.cost.t_ntwk, cpu, problem.workers)
    return _gathered(problem, pair, ways, node[which])


def _level(node: Ints, network: np.ndarray, cpu: np.ndarray, workers: int) -> None:
    """Move units, bounded in rounds, while the longest of network and computation gets shorter."""
    if not len(node):
        return
    units = np.arange(len(node))
    into = np.bincount(node, network[units, node], workers)
    busy = np.bincount(node, cpu, workers)
    for _ in range(ROUNDS):
        load = np.maximum(into, busy)
        most, least = int(np.argmax(load)), int(np.argmin(load))
        some = np.flatnonzero(node == most)
        if not len(some):
            return
        longest = np.maximum(
            np.maximum(into[most] - network[some, most], busy[most] - cpu[some]),
            np.maximum(into[least] + network[some, least], busy[least] + cpu[some]),
        )
        best = int(np.argmin(longest))
        if longest[best] >= load[most]:
            return
        unit = some[best]
        into[most] -= network[unit, most]
        busy[most] -= cpu[unit]
        into[least] += network[unit, least]
        busy[least] += cpu[unit]
        node[unit] = least


ALGORITHMS: Mapping[str, Algorithm] = {
    "bhvc": Algorithm("balanced heuristic vertex cover (Algorithm 1)", _by_cover("bhvc")),
    "hvc": Algorithm("Clarkson's heuristic vertex cover", _by_cover("hvc")),
    "hvc-minimal": Algorithm("the same without redundant sends", _by_cover("hvc-minimal")),
    "mbh": Algorithm("the smaller chunk of each pair", _by_cover("mbh")),
    "opt-vc": Algorithm("the least sum of bytes, by minimum cut", _by_cover("opt-vc")),
    "min-max": Algorithm("the least largest bytes of a worker, by integer program", _by_cover("min-max")),
    "struct": Algorithm("right chunks go to the left ones", _struct(once=False)),
    "struct-once": Algorithm("the same, each pair of a self-join once", _struct(once=True)),
    "mr": Algorithm("a left chunk and its partners go to a hashed worker", _map_reduce(once=False)),
    "mr-once": Algorithm("the same, each pair of a self-join once", _map_reduce(once=True)),
    "shuffle": Algorithm("a left chunk and its partners go where most of them are", _shuffle),
}
"""Name -> algorithm."""
