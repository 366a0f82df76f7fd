"""The three algorithms of the paper's section 4, as loops.

Each goes through what it decides in a given order and takes the worker that leaves the least maximum of
network and joins over all workers. `literal` is the form as printed; without it the trip of results to their
view chunks counts as well, and a small multiple of all that is sent decides between workers that tie.

Invariant: of equal workers the one that sends least is taken, then the lowest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(cache=True)
def joins(
    sequence: Ints,
    first: Ints,
    second: Ints,
    size: Ints,
    home: Ints,
    begins: Ints,
    view: Ints,
    side: Ints,
    view_home: Ints,
    masks: Ints,
    partial: Ints,
    network: Floats,
    cpu: Floats,
    times: Floats,
    literal: bool,
    worker: Ints,
    trace: Floats,
) -> None:
    """Algorithm 1: where each pair is joined. `masks` and `partial` hold as bits which workers have an
    object, and results for a view chunk; `times` are T_ntwk, T_cpu and s; `trace` has the last costs."""
    workers = network.size
    t_ntwk, t_cpu, small = times[0], times[1], times[2]
    for at in range(sequence.size):
        n = sequence[at]
        p, q = first[n], second[n]
        work = (size[p] + size[q]) * t_cpu
        best, best_sent, chosen = np.inf, np.inf, 0
        for j in range(workers):
            bit = 1 << j
            sent_p, sent_q = 0.0, 0.0
            if masks[p] & bit == 0:
                sent_p = size[p] * t_ntwk
            if p != q and masks[q] & bit == 0:
                sent_q = size[q] * t_ntwk
            results = 0.0
            if not literal:
                for t in range(begins[n], begins[n + 1]):
                    if view_home[view[t]] != j and partial[view[t]] & bit == 0:
                        results += size[side[t]] * t_ntwk
            top = 0.0
            for k in range(workers):
                net, busy = network[k], cpu[k]
                if k == home[p]:
                    net += sent_p
                if k == home[q]:
                    net += sent_q
                if k == j:
                    net += results
                    busy += work
                top = max(top, net, busy)
            sent = sent_p + sent_q + results
            value = top + small * sent
            trace[j] = value
            if value < best or (value == best and sent < best_sent):
                best, best_sent, chosen = value, sent, j
        bit = 1 << chosen
        if masks[p] & bit == 0:
            network[home[p]] += size[p] * t_ntwk
            masks[p] |= bit
        if masks[q] & bit == 0:
            network[home[q]] += size[q] * t_ntwk
            masks[q] |= bit
        if not literal:
            for t in range(begins[n], begins[n + 1]):
                if view_home[view[t]] != chosen and partial[view[t]] & bit == 0:
                    network[chosen] += size[side[t]] * t_ntwk
                    partial[view[t]] |= bit
        cpu[chosen] += work
        worker[n] = chosen


@njit(cache=True)
def views(
    sequence: Ints,
    begins: Ints,
    source: Ints,
    result: Ints,
    work: Ints,
    view_home: Ints,
    view_size: Ints,
    network: Floats,
    cpu: Floats,
    times: Floats,
    chosen: Ints,
    trace: Floats,
) -> None:
    """Algorithm 2: where each view chunk is merged and kept. Results for view chunk v are those from
    `begins[v]` on: where each is, its cells, and what merging it takes; a chunk that moves is sent too."""
    workers = network.size
    t_ntwk, t_cpu, small = times[0], times[1], times[2]
    more = np.zeros(workers)
    for at in range(sequence.size):
        v = sequence[at]
        best, best_sent, dest = np.inf, np.inf, view_home[v]
        for j in range(workers):
            more[:] = 0.0
            busy = 0.0
            for t in range(begins[v], begins[v + 1]):
                if source[t] != j:
                    more[source[t]] += result[t] * t_ntwk
                busy += work[t] * t_cpu
            if j != view_home[v]:
                more[view_home[v]] += view_size[v] * t_ntwk
            top, sent = 0.0, 0.0
            for k in range(workers):
                top = max(top, network[k] + more[k], cpu[k] + (busy if k == j else 0.0))
                sent += more[k]
            value = top + small * sent
            trace[j] = value
            if value < best or (value == best and sent < best_sent):
                best, best_sent, dest = value, sent, j
        for t in range(begins[v], begins[v + 1]):
            if source[t] != dest:
                network[source[t]] += result[t] * t_ntwk
            cpu[dest] += work[t] * t_cpu
        if dest != view_home[v]:
            network[view_home[v]] += view_size[v] * t_ntwk
        chosen[v] = dest


@njit(cache=True)
def chunks(
    chunk: Ints, view: Ints, size: Ints, masks: Ints, view_home: Ints, room: Floats, chosen: Ints, best: Ints
) -> None:
    """Algorithm 3: where chunks are kept, pairs of a chunk and a view chunk in the order of their scores.
    `chosen` has -1 for chunks that are not placed, `best` the view chunk of the best score."""
    for at in range(chunk.size):
        a, v = chunk[at], view[at]
        if best[a] < 0:
            best[a] = v
        if chosen[a] >= 0:
            continue
        j = view_home[v]
        if masks[a] & (1 << j) != 0 and room[j] >= size[a]:
            room[j] -= size[a]
            chosen[a] = j
