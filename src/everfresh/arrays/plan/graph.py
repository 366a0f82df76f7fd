"""The transfer graph: which chunk may be sent where, and which pairs each send serves.

Section 4.3 of the paper on similarity joins. Vertex (p, j): chunk p, kept by another worker, is sent to j;
its cost is the bytes of p. An edge for every pair whose chunks are kept by different workers joins the two
ways to bring them together. The graph falls apart by pairs of workers and every part is bipartite. Invariant:
vertices are in the order of (chunk, target), edges in the order of pairs; a local pair has no edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from everfresh.arrays.plan.catalog import Ints, frozen
from everfresh.arrays.plan.pairs import Problem


@dataclass(frozen=True, eq=False)
class TransferGraph:
    """Vertices (chunk, source, target, cost) and edges (first, second; the pair they are for)."""

    workers: int
    chunk: Ints
    source: Ints
    target: Ints
    cost: Ints
    first: Ints
    second: Ints
    pair: Ints

    @cached_property
    def adjacency(self) -> tuple[Ints, Ints]:
        """Where each vertex's neighbours begin, and the neighbours."""
        from everfresh.arrays.plan.kernels.covers import adjacency

        start, adjacent = np.zeros(len(self.cost) + 1, np.int64), np.empty(2 * len(self.first), np.int64)
        adjacency(self.first, self.second, start, adjacent)
        return start, adjacent


def transfer_graph(problem: Problem) -> TransferGraph:
    """The transfer graph of the pairs of a problem."""
    at, to = problem.home[problem.first], problem.home[problem.second]
    pair = np.flatnonzero(at != to)
    one = problem.first[pair] * problem.workers + to[pair]
    other = problem.second[pair] * problem.workers + at[pair]
    there = np.zeros(len(problem.cells) * problem.workers, bool)
    there[one] = True
    there[other] = True
    codes = np.flatnonzero(there)
    number = np.cumsum(there) - 1
    chunk = codes // problem.workers
    return TransferGraph(
        problem.workers,
        frozen(chunk),
        frozen(problem.home[chunk]),
        frozen(codes % problem.workers),
        frozen(problem.bytes[chunk]),
        frozen(number[one]),
        frozen(number[other]),
        frozen(pair),
    )
