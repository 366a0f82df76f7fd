"""Loops over the chunks of a link and over the accesses of a worker.

The paper on similarity joins, section 4.4 (chunk order) and 4.5 (which local chunk leaves memory). Invariant:
an order names every chunk of its link once; after an access the cached bytes are within the budget unless
what is in use alone exceeds it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from everfresh.arrays.plan.kernels.heap import drop_top, sift_up

Array = np.ndarray[Any, Any]


@njit(cache=True)
def sharing_order(
    links: Array, begin: Array, group: Array, members: Array, sends: Array, by_degree: Array
) -> Array:
    """Positions of sends, link by link: next is the one that shares most local partners with the last.

    Link l has sends links[l] .. links[l + 1] - 1. Send s has the groups group[begin[s] : begin[s + 1]], a
    group being a local partner on one link; group g has sends[members[g] : members[g + 1]]. `by_degree` has
    each link's sends by falling number of partners.
    """
    count = begin.shape[0] - 1
    order = np.empty(count, np.int64)
    sent = np.zeros(count, np.bool_)
    shared = np.zeros(count, np.int64)
    touched = np.empty(count, np.int64)
    for link in range(links.shape[0] - 1):
        fallback = links[link]
        last = -1
        for at in range(links[link], links[link + 1]):
            best, many = -1, 0
            if last >= 0:
                for k in range(begin[last], begin[last + 1]):
                    for m in range(members[group[k]], members[group[k] + 1]):
                        s = sends[m]
                        if not sent[s]:
                            if shared[s] == 0:
                                touched[many] = s
                                many += 1
                            shared[s] += 1
            for k in range(many):
                s = touched[k]
                if best < 0 or shared[s] > shared[best]:
                    best = s
                elif shared[s] == shared[best]:
                    more = (begin[s + 1] - begin[s]) - (begin[best + 1] - begin[best])
                    if more > 0 or (more == 0 and s < best):
                        best = s
            for k in range(many):
                shared[touched[k]] = 0
            if best < 0:
                while sent[by_degree[fallback]]:
                    fallback += 1
                best = by_degree[fallback]
            order[at] = best
            sent[best] = True
            last = best
    return order


@njit(cache=True)
def replay(
    node: Array, begin: Array, local: Array, following: Array, anchor: Array, size: Array, budget: int
) -> tuple[Array, Array, Array, Array, int]:
    """Accesses of all workers in order, with furthest-in-future eviction.

    Event v of worker node[v] uses the local chunks local[begin[v] : begin[v + 1]] (-1: none needed);
    following[e] is the next event that uses the chunk of entry e; anchor[v] is a chunk that stays throughout
    the event, its first entry, or -1. Gives the entries in order, and actions: before which place in that
    order, which chunk, whether it is loaded (else it leaves).
    """
    entries = local.shape[0]
    order = np.empty(entries, np.int64)
    place, chunk = np.empty(2 * entries, np.int64), np.empty(2 * entries, np.int64)
    load = np.empty(2 * entries, np.bool_)
    cached = np.zeros(size.shape[0], np.bool_)
    use = np.zeros(size.shape[0], np.int64)
    keys = np.empty(2 * entries + 2)
    seconds, ids = np.empty(2 * entries + 2, np.int64), np.empty(2 * entries + 2, np.int64)
    heap, used, actions, at, worker = 0, 0, 0, 0, -1
    for v in range(node.shape[0]):
        if node[v] != worker:
            worker = node[v]
            cached[:] = False
            heap = used = 0
        fixed = at
        for e in range(begin[v], begin[v + 1]):  # the anchor, then what is there already
            if local[e] < 0 or cached[local[e]] or local[e] == anchor[v]:
                order[at] = e
                at += 1
        for e in range(begin[v], begin[v + 1]):
            if not (local[e] < 0 or cached[local[e]] or local[e] == anchor[v]):
                order[at] = e
                at += 1
        for k in range(fixed, at):
            e = order[k]
            c = local[e]
            if c < 0:
                continue
            need = 0 if cached[c] else size[c]
            aside = False
            while used + need > budget and heap > 0:
                x, key = ids[0], keys[0]
                heap = drop_top(keys, seconds, ids, heap)
                if not cached[x] or -key != use[x] or x == c:
                    continue
                if x == anchor[v]:
                    aside = True
                    continue
                cached[x] = False
                used -= size[x]
                place[actions], chunk[actions], load[actions] = k, x, False
                actions += 1
            if aside:
                a = anchor[v]
                keys[heap], seconds[heap], ids[heap] = -float(use[a]), -size[a], a
                sift_up(keys, seconds, ids, heap)
                heap += 1
            if not cached[c]:
                cached[c] = True
                used += size[c]
                place[actions], chunk[actions], load[actions] = k, c, True
                actions += 1
            use[c] = following[e]
            keys[heap], seconds[heap], ids[heap] = -float(use[c]), -size[c], c
            sift_up(keys, seconds, ids, heap)
            heap += 1
    return order, place, chunk, load, actions
