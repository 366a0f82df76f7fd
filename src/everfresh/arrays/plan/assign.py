"""Where a pair is computed: computation-to-node assignment by max-flow, with binary search on the limit L.

Section 4.3.3 of the paper on similarity joins. A pair inside one worker stays there; an edge covered once is
computed where the sent chunk goes; an edge covered twice is open and has two candidates. Open pairs of the
same two workers are one vertex of the flow network, so its size depends on the workers only. Invariant: an
open pair goes to one of its two candidates; with `pairs`, no worker has more than the least possible number.
"""

from __future__ import annotations

import numpy as np

from everfresh.arrays.plan.catalog import Ints, Mask
from everfresh.arrays.plan.graph import TransferGraph
from everfresh.arrays.plan.pairs import Problem
from everfresh.errors import Code, EverfreshError

BALANCES = ("cells", "pairs")
_ROOM = 1 << 30


def nodes_of_pairs(problem: Problem, graph: TransferGraph, chosen: Mask, balance: str) -> Ints:
    """The worker of each pair, given the selected vertices of the transfer graph."""
    node = problem.home[problem.first].copy()
    once, other = chosen[graph.first], chosen[graph.second]
    if not (once | other).all():
        raise AssertionError("a pair is not covered")
    node[graph.pair] = np.where(once, graph.target[graph.first], graph.target[graph.second])
    twice = np.flatnonzero(once & other)
    work = problem.work if balance == "cells" else np.ones(len(node), np.int64)
    closed = np.ones(len(node), bool)
    closed[graph.pair[twice]] = False
    load = np.bincount(node[closed], work[closed], problem.workers).astype(np.int64)
    ends = graph.target[graph.first[twice]], graph.target[graph.second[twice]]
    pairs = graph.pair[twice]
    node[pairs] = assign_open(load, *ends, problem.work[pairs], balance)
    return node


def assign_open(already: Ints, one: Ints, other: Ints, work: Ints, balance: str = "cells") -> Ints:
    """The worker of each open pair: one of its two candidates, so that workers are loaded alike.

    `cells` deals pairs in descending work to the lighter candidate; `pairs` counts them, as the document.

    >>> load = np.array([5, 4, 5])  # Figure 7: open are (8, 10), (8, 9), (6, 8), (9, 11)
    >>> ends = np.array([0, 1, 1, 1]), np.array([1, 2, 2, 2])
    >>> where = assign_open(load, *ends, np.ones(4, np.int64), "pairs")
    >>> np.bincount(where, minlength=3).tolist()
    [1, 2, 1]
    """
    from everfresh.arrays.plan.kernels.covers import deal

    order = np.argsort(-work, kind="stable")
    where = np.empty(len(one), np.int64)
    if balance == "cells":
        where[order] = deal(one[order], other[order], work[order], already.copy())
        return where
    if balance != "pairs":
        raise EverfreshError(
            Code.ARGUMENT, f"nothing balances by '{balance}'", place="balance", hint="by cells or by pairs"
        )
    low, high = np.minimum(one, other), np.maximum(one, other)
    groups, which = np.unique(low * len(already) + high, return_inverse=True)
    amounts = np.bincount(which, minlength=len(groups))
    _, quota = least_limit(already, groups // len(already), groups % len(already), amounts)
    left = np.stack([quota, amounts - quota], axis=1).tolist()
    load = [0] * len(already)
    for k in order.tolist():
        room, ends = left[which[k]], (int(low[k]), int(high[k]))
        side = 0 if not room[1] or (room[0] and load[ends[0]] <= load[ends[1]]) else 1
        room[side] -= 1
        load[ends[side]] += int(work[k])
        where[k] = ends[side]
    return where


def least_limit(already: Ints, one: Ints, other: Ints, amounts: Ints) -> tuple[int, Ints]:
    """The least L so that all groups fit below it, and how much of each group its first worker gets."""
    low, high = int(already.max(initial=0)), int(already.sum() + amounts.sum())
    while low < high:
        middle = (low + high) // 2
        if _fits(already, one, other, amounts, middle) is None:
            low = middle + 1
        else:
            high = middle
    share = _fits(already, one, other, amounts, low)
    assert share is not None
    return low, share


def _fits(already: Ints, one: Ints, other: Ints, amounts: Ints, limit: int) -> Ints | None:
    """A full flow: source -> groups -> their two workers -> sink; None if there is none under the limit."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    groups, workers, total = len(amounts), len(already), int(amounts.sum())
    if not total:
        return np.zeros(groups, np.int64)
    source, sink = groups + workers, groups + workers + 1
    each = np.arange(groups)
    tail = np.concatenate([np.full(groups, source), each, each, groups + np.arange(workers)])
    head = np.concatenate([each, groups + one, groups + other, np.full(workers, sink)])
    room = np.minimum(limit - already, total)
    capacity = np.concatenate([amounts, amounts, amounts, room]).astype(np.int32)
    network = csr_array((capacity, (tail, head)), shape=(sink + 1, sink + 1))
    found = maximum_flow(network, source, sink)
    if found.flow_value < total:
        return None
    return np.asarray(found.flow[each, groups + one], np.int64)


def least_load(already: Ints, one: Ints, other: Ints, work: Ints) -> float:
    """A bound: the least largest load if the work of open pairs could be split at will."""
    low, high = np.minimum(one, other), np.maximum(one, other)
    groups, which = np.unique(low * len(already) + high, return_inverse=True)
    amounts = np.bincount(which, work, len(groups))
    scale = max(1.0, float(already.sum() + amounts.sum()) / _ROOM)
    ends = groups // len(already), groups % len(already)
    limit, _ = least_limit(
        np.floor(already / scale).astype(np.int64), *ends, np.floor(amounts / scale).astype(np.int64)
    )
    return float(max(limit * scale, already.max(initial=0)))
