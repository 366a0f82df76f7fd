"""Vertex covers of a transfer graph: the loops over vertices and edges.

The paper on similarity joins, section 4.3 (HVC; BHVC, Algorithm 1); `docs/design/arrays.md` settles what its
pseudo-code leaves open. A heap holds a key per vertex that may be stale: a key is computed again when it
comes to the top, and goes back if it grew. Keys never fall where penalties only grow, so there the heap
finds the least key exactly. Invariant: what is returned covers every edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from everfresh.arrays.plan.kernels.heap import drop_top, heapify, sift_down

Array = np.ndarray[Any, Any]
NONE, SHARE, PRINTED, LITERAL = 0, 1, 2, 3
"""Penalties: none (HVC), as a share of what was placed, as amounts, as amounts into the target only."""


@njit(cache=True)
def adjacency(first: Array, second: Array, start: Array, adjacent: Array) -> None:
    """Fill `start` and `adjacent`: the neighbours of each vertex, in the order of the edges."""
    for e in range(first.shape[0]):
        start[first[e] + 1] += 1
        start[second[e] + 1] += 1
    for v in range(1, start.shape[0]):
        start[v] += start[v - 1]
    at = start.copy()
    for e in range(first.shape[0]):
        a, b = first[e], second[e]
        adjacent[at[a]] = b
        at[a] += 1
        adjacent[at[b]] = a
        at[b] += 1


@njit(inline="always")
def _key(
    w: float, c: int, deg: int, into: int, out: int, placed: int, workers: int, r: float, penalty: int
) -> float:
    if penalty == NONE or placed == 0:
        return w / deg
    f = workers * (r * into + (1.0 - r) * out)
    if penalty == SHARE:
        f /= placed
    return (w + c * f) / deg


@njit(cache=True)
def greedy(
    cost: Array,
    source: Array,
    target: Array,
    start: Array,
    adjacent: Array,
    workers: int,
    r: float,
    penalty: int,
    in_order: bool,
) -> Array:
    """HVC and BHVC: select the vertex with the least key, cover its edges, until none is left.

    Of vertices with one key the cheapest is selected, then the first; `in_order`, the first.
    """
    count = cost.shape[0]
    weight = cost.astype(np.float64)
    degree = start[1:] - start[:-1]
    chosen = np.zeros(count, np.bool_)
    into, out = np.zeros(workers, np.int64), np.zeros(workers, np.int64)
    keys, seconds, ids = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
    size = 0
    for v in range(count):
        if degree[v] > 0:
            keys[size], seconds[size], ids[size] = weight[v] / degree[v], 0 if in_order else cost[v], v
            size += 1
    heapify(keys, seconds, ids, size)
    placed = 0
    while size > 0:
        v = ids[0]
        if degree[v] == 0:
            size = drop_top(keys, seconds, ids, size)
            continue
        i, j, c = source[v], target[v], cost[v]
        other = into[j] if penalty == LITERAL else out[i]
        key = _key(weight[v], c, degree[v], into[j], other, placed, workers, r, penalty)
        if key > keys[0]:
            keys[0] = key
            sift_down(keys, seconds, ids, size, 0)
            continue
        chosen[v] = True
        for at in range(start[v], start[v + 1]):
            u = adjacent[at]
            if not chosen[u]:
                weight[u] -= key
                degree[u] -= 1
        degree[v] = 0
        into[j] += c
        out[i] += c
        placed += c
        size = drop_top(keys, seconds, ids, size)
    return chosen


@njit(cache=True)
def smaller_ends(cost: Array, first: Array, second: Array) -> Array:
    """MBH: edge by edge, one that is not covered yet selects its cheaper end, the first if they are alike."""
    chosen = np.zeros(cost.shape[0], np.bool_)
    for e in range(first.shape[0]):
        a, b = first[e], second[e]
        if not chosen[a] and not chosen[b]:
            chosen[a if cost[a] <= cost[b] else b] = True
    return chosen


@njit(cache=True)
def without_redundant(chosen: Array, order: Array, start: Array, adjacent: Array) -> Array:
    """Drop, in the given order, each selected vertex all of whose neighbours are selected."""
    kept = chosen.copy()
    for k in range(order.shape[0]):
        v = order[k]
        needed = False
        for at in range(start[v], start[v + 1]):
            if not kept[adjacent[at]]:
                needed = True
                break
        if not needed:
            kept[v] = False
    return kept


@njit(cache=True)
def deal(one: Array, other: Array, work: Array, load: Array) -> Array:
    """Give each open pair, in the given order, to the less loaded of its two workers (the lower if alike)."""
    where = np.empty(one.shape[0], np.int64)
    for k in range(one.shape[0]):
        a, b = one[k], other[k]
        if load[b] < load[a] or (load[b] == load[a] and b < a):
            a = b
        load[a] += work[k]
        where[k] = a
    return where
