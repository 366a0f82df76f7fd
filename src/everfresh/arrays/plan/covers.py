"""Covers of the transfer graph, by name: which sends bring every remote pair together.

Section 4.3 of the paper on similarity joins: BHVC (Algorithm 1) and HVC by one greedy loop, MBH, and OPT-VC,
the least sum of bytes, by minimum cut. `least_maximum` is the program of Eq. (7), the least of the largest
bytes into or out of a worker, by an integer program: an oracle for small graphs. Invariant: every cover has
an end of every edge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from everfresh.arrays.plan.catalog import Ints, Mask
from everfresh.arrays.plan.graph import TransferGraph
from everfresh.errors import Code, EverfreshError

SMALL = 400
"""The most vertices for which the integer program is tried."""
_LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class CoverOptions:
    """How a balanced cover weighs: receivers against senders, and in what form penalties count."""

    r: float = 0.5
    """1 balances what workers receive only, 0 what they send only."""
    penalty: str = "share"
    """`share` of the bytes placed so far; `printed`: the amount itself; `literal`: see `PENALTIES`."""
    minimal: bool = True
    """Drop sends that no pair needs."""

    def __post_init__(self) -> None:
        if not 0 <= self.r <= 1:
            raise EverfreshError(Code.ARGUMENT, f"r is {self.r}, but lies between 0 and 1", place="r")
        if self.penalty not in PENALTIES:
            raise EverfreshError(
                Code.ARGUMENT, f"there is no penalty '{self.penalty}'", place="penalty",
                hint="penalties are: " + ", ".join(PENALTIES),
            )  # fmt: skip


PENALTIES: Mapping[str, int] = {"share": 1, "printed": 2, "literal": 3}
"""Name -> code. `literal` is Algorithm 1 to the letter: what a worker sends is counted where it goes, as what
it receives, so r is without effect; and of equal keys the first is taken, by HVC too. Only so do the figures
of the document come out. It does not level what workers send."""


def bhvc(graph: TransferGraph, options: CoverOptions) -> Mask:
    """Algorithm 1: the greedy cover with penalties for workers that send or receive much already."""
    chosen = _greedy(graph, options, PENALTIES[options.penalty])
    return minimal(graph, chosen) if options.minimal else chosen


def hvc(graph: TransferGraph, options: CoverOptions) -> Mask:
    """Clarkson's greedy cover: least cost per edge first."""
    return _greedy(graph, options, 0)


def hvc_minimal(graph: TransferGraph, options: CoverOptions) -> Mask:
    """HVC without the sends that no pair needs."""
    return minimal(graph, _greedy(graph, options, 0))


def mbh(graph: TransferGraph, _options: CoverOptions) -> Mask:
    """Pair by pair, in their order, the smaller chunk of a pair that is not covered yet."""
    from everfresh.arrays.plan.kernels.covers import smaller_ends

    return np.asarray(smaller_ends(graph.cost, graph.first, graph.second))


def _greedy(graph: TransferGraph, options: CoverOptions, penalty: int) -> Mask:
    from everfresh.arrays.plan.kernels.covers import greedy

    start, adjacent = graph.adjacency
    ends = graph.source, graph.target
    how = options.r, penalty, options.penalty == "literal"
    return np.asarray(greedy(graph.cost, *ends, start, adjacent, graph.workers, *how))


def minimal(graph: TransferGraph, chosen: Mask) -> Mask:
    """The cover without redundant vertices: one pass, the costliest first."""
    from everfresh.arrays.plan.kernels.covers import without_redundant

    start, adjacent = graph.adjacency
    some = np.flatnonzero(chosen)
    order = some[np.argsort(-graph.cost[some], kind="stable")]
    return np.asarray(without_redundant(chosen, order, start, adjacent))


def opt_vc(graph: TransferGraph, _options: CoverOptions) -> Mask:
    """The cover of least cost: a minimum cut for each pair of workers.

    Exact while the costs between two workers, over their greatest common divisor, sum up to less than 2^31;
    beyond that costs are divided further and rounded up.
    """
    chosen = np.zeros(len(graph.cost), bool)
    at, to = graph.source[graph.first], graph.target[graph.first]
    parts = np.minimum(at, to) * graph.workers + np.maximum(at, to)
    order = np.argsort(parts, kind="stable")
    ends = np.flatnonzero(np.diff(parts[order], append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        edges = order[begin:end]
        begin = end
        one, other = graph.first[edges], graph.second[edges]
        turned = graph.source[one] > graph.target[one]
        _cut(graph, np.where(turned, other, one), np.where(turned, one, other), chosen)
    return chosen


def _cut(graph: TransferGraph, lefts: Ints, rights: Ints, chosen: Mask) -> None:
    """Select a cover of least cost of one bipartite part: its left ends cut off, its right ends reached."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    left, a = np.unique(lefts, return_inverse=True)
    right, b = np.unique(rights, return_inverse=True)
    cost = np.concatenate([graph.cost[left], graph.cost[right]])
    cost = cost // max(int(np.gcd.reduce(cost)), 1)
    total = int(cost.sum())
    if total >= _LARGEST:
        cost = -(-cost // (total // (_LARGEST // 2) + 1))
    here, there = len(left), len(right)
    source, sink = here + there, here + there + 1
    free = np.full(len(a), min(int(cost.sum()) + 1, _LARGEST))
    tail = np.concatenate([np.full(here, source), a, here + np.arange(there)])
    head = np.concatenate([np.arange(here), here + b, np.full(there, sink)])
    capacity = np.concatenate([cost[:here], free, cost[here:]]).astype(np.int32)
    network = csr_array((capacity, (tail, head)), shape=(sink + 1, sink + 1))
    residual = network - maximum_flow(network, source, sink).flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = np.zeros(sink + 1, bool)
    reached[breadth_first_order(residual, source, return_predecessors=False)] = True
    chosen[left[~reached[:here]]] = True
    chosen[right[reached[here : here + there]]] = True


def least_maximum(graph: TransferGraph, _options: CoverOptions) -> Mask:
    """Eq. (7): the least of the largest bytes into or out of a worker, exactly; small graphs only."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    count, edges = len(graph.cost), len(graph.first)
    if count > SMALL:
        raise EverfreshError(
            Code.UNSUPPORTED, f"the integer program is for at most {SMALL} vertices, here are {count}",
            place="algorithm", hint="bhvc comes close to it and plans 200,000 chunks in seconds",
        )  # fmt: skip
    if not count:
        return np.zeros(0, bool)
    ones = np.ones(edges)
    rows = np.arange(edges)
    covers = csr_array(
        (np.tile(ones, 2), (np.tile(rows, 2), np.concatenate([graph.first, graph.second]))),
        shape=(edges, count + 1),
    )
    scale = float(max(graph.cost.max(), 1))
    sums = np.zeros((2 * graph.workers, count + 1))
    sums[graph.source, np.arange(count)] = graph.cost / scale
    sums[graph.workers + graph.target, np.arange(count)] = graph.cost / scale
    sums[:, count] = -1
    # as a tie-break, and too small to change the maximum, the sum of bytes
    tiny = 1e-7 / max(float(graph.cost.sum()), 1.0)
    objective = np.append(graph.cost * tiny, 1.0)
    solved = milp(
        objective,
        constraints=[LinearConstraint(covers, lb=1), LinearConstraint(sums, ub=0)],
        integrality=np.append(np.ones(count), 0),
        bounds=Bounds(0, np.append(np.ones(count), np.inf)),
        options={"mip_rel_gap": 0.0},
    )
    if solved.x is None:
        raise EverfreshError(Code.UNSUPPORTED, f"the integer program was not solved: {solved.message}")
    return np.asarray(solved.x[:count] > 0.5)


COVERS: Mapping[str, Callable[[TransferGraph, CoverOptions], Mask]] = {
    "bhvc": bhvc,
    "hvc": hvc,
    "hvc-minimal": hvc_minimal,
    "mbh": mbh,
    "opt-vc": opt_vc,
    "min-max": least_maximum,
}
"""Name -> rule: a mask of the vertices to send."""
