"""The plain twins of the compiled loops: no heap, no index, every step by looking at everything.

Slow, and close to the words of the documents; the tests hold the loops to them. Invariant: the same results,
ties included; the twin of a greedy cover with shares, where the loop's heap is only near, is near as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from everfresh.arrays.plan.catalog import Ints, Mask
from everfresh.arrays.plan.graph import TransferGraph


def greedy(graph: TransferGraph, r: float, penalty: int, in_order: bool) -> Mask:
    """Algorithm 1: look at every vertex for the least key, as often as one is selected.

    Penalties are numbered as in `covers`: 0 none, 1 shares, 2 amounts, 3 amounts into the target only.
    """
    count, workers = len(graph.cost), graph.workers
    edges = set(zip(graph.first.tolist(), graph.second.tolist(), strict=True))
    weight = graph.cost.astype(float).tolist()
    cost, source, target = graph.cost.tolist(), graph.source.tolist(), graph.target.tolist()
    recv, send = [0] * workers, [0] * workers
    chosen = np.zeros(count, bool)
    while edges:
        degree = [0] * count
        for a, b in edges:
            degree[a] += 1
            degree[b] += 1
        keys = {}
        for v in range(count):
            if degree[v]:
                sent = recv[target[v]] if penalty == 3 else send[source[v]]
                f = workers * (r * recv[target[v]] + (1.0 - r) * sent)
                placed = sum(recv)
                if penalty == 0 or placed == 0:
                    f = 0.0
                elif penalty == 1:
                    f /= placed
                keys[v] = (weight[v] + cost[v] * f) / degree[v] if f else weight[v] / degree[v]
        best = min(keys, key=lambda v: (keys[v], 0 if in_order else cost[v], v))
        for edge in [edge for edge in edges if best in edge]:
            edges.remove(edge)
            weight[edge[0] + edge[1] - best] -= keys[best]
        recv[target[best]] += cost[best]
        send[source[best]] += cost[best]
        chosen[best] = True
    return chosen


def without_redundant(graph: TransferGraph, chosen: Mask) -> Mask:
    """Take the costliest vertex first; drop it if the others still cover all edges."""
    kept = chosen.copy()
    for v in sorted(np.flatnonzero(chosen).tolist(), key=lambda v: (-int(graph.cost[v]), v)):
        kept[v] = False
        if not (kept[graph.first] | kept[graph.second]).all():
            kept[v] = True
    return kept


def smaller_ends(graph: TransferGraph) -> Mask:
    """MBH: the smaller chunk of each pair that is not covered yet."""
    chosen: set[int] = set()
    for a, b in zip(graph.first.tolist(), graph.second.tolist(), strict=True):
        if not chosen & {a, b}:
            chosen.add(min(a, b, key=lambda v: (int(graph.cost[v]), v != a)))
    mask = np.zeros(len(graph.cost), bool)
    mask[list(chosen)] = True
    return mask


def deal(one: Ints, other: Ints, work: Ints, load: Ints) -> Ints:
    """The lighter of two workers, pair by pair."""
    now = load.tolist()
    where = []
    for a, b, w in zip(one.tolist(), other.tolist(), work.tolist(), strict=True):
        best = min(a, b, key=lambda k: (now[k], k))
        now[best] += w
        where.append(best)
    return np.array(where, np.int64)


def sharing_order(links: Ints, partners: Sequence[set[int]]) -> list[int]:
    """The order of sends on their links, by comparing the partners of every two."""
    order: list[int] = []
    for link in sorted(set(links.tolist())):
        left = set(np.flatnonzero(links == link).tolist())
        last: set[int] = set()
        while left:
            best = min(left, key=lambda s: (-len(partners[s] & last), -len(partners[s]), s))
            left.remove(best)
            order.append(best)
            last = partners[best]
    return order


def replay(
    events: Sequence[tuple[int, Sequence[int], int]], size: Sequence[int], budget: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int, bool]]]:
    """Accesses of events (worker, chunks, anchor or -1): (event, chunk) in order; (place, chunk, read?)."""
    order: list[tuple[int, int]] = []
    acts: list[tuple[int, int, bool]] = []
    cached: set[int] = set()
    for v, (worker, chunks, anchor) in enumerate(events):
        if v and events[v - 1][0] != worker:
            cached = set()
        soon = [c for c in chunks if c < 0 or c in cached or c == anchor]
        for c in soon + [c for c in chunks if c not in soon]:
            order.append((v, c))
            if c < 0:
                continue
            if c in cached:
                need = 0
            else:
                need = size[c]
            while sum(size[x] for x in cached) + need > budget and cached - {c, anchor}:
                place = len(order) - 1
                gone = max(cached - {c, anchor}, key=lambda x: (_next_use(events, order, v, x), size[x], -x))
                cached.remove(gone)
                acts.append((place, gone, False))
            if c not in cached:
                cached.add(c)
                acts.append((len(order) - 1, c, True))
    return order, acts


def _next_use(
    events: Sequence[tuple[int, Sequence[int], int]], order: list[tuple[int, int]], v: int, chunk: int
) -> int:
    """The event that uses a chunk next: this one if its turn in it is still to come."""
    if chunk in events[v][1] and (v, chunk) not in order:
        return v
    later = (w for w in range(v + 1, len(events)) if chunk in events[w][1])
    return next(later, len(events) + 1)


def crowded(queues: Sequence[Sequence[tuple[int, int]]]) -> list[list[tuple[Fraction, Fraction]]]:
    """Exact (start, arrival) of each worker's sends (target, size), senders to one target sharing it."""
    at = [0] * len(queues)
    left = [Fraction(queue[0][1]) if queue else Fraction(0) for queue in queues]
    times: list[list[tuple[Fraction, Fraction]]] = [[] for _ in queues]
    started, now = [Fraction(0)] * len(queues), Fraction(0)
    while busy := [i for i, queue in enumerate(queues) if at[i] < len(queue)]:
        takes = {i: sum(queues[k][at[k]][0] == queues[i][at[i]][0] for k in busy) for i in busy}
        step = min(left[i] * takes[i] for i in busy)
        now += step
        for i in busy:
            left[i] -= step / takes[i]
            if not left[i]:
                times[i].append((started[i], now))
                at[i] += 1
                started[i] = now
                left[i] = Fraction(queues[i][at[i]][1]) if at[i] < len(queues[i]) else Fraction(0)
    return times
