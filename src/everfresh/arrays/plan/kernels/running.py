"""Loops of the simulation: transfers without a schedule, and the joins of one worker.

Invariant: nothing starts before what it waits for, and no link end carries more than one byte a byte's time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]


@njit(cache=True)
def crowded(begin: Array, target: Array, size: Array) -> tuple[Array, Array]:
    """Start and arrival of each send, in bytes' time, where each worker sends its chunks one after the other.

    Worker i sends begin[i] .. begin[i + 1] - 1 in that order, and waits for nobody; those that send to the
    same worker at a time share what it can take.
    """
    workers = begin.shape[0] - 1
    start, end = np.zeros(size.shape[0]), np.zeros(size.shape[0])
    at = begin[:-1].copy()
    left = np.zeros(workers)
    taking = np.zeros(workers, np.int64)
    now = 0.0
    for i in range(workers):
        if at[i] < begin[i + 1]:
            left[i] = size[at[i]]
            taking[target[at[i]]] += 1
    while True:
        step, busy = np.inf, False
        for i in range(workers):
            if at[i] < begin[i + 1]:
                busy = True
                step = min(step, left[i] * taking[target[at[i]]])
        if not busy:
            return start, end
        now += step
        done = np.zeros(workers, np.bool_)
        for i in range(workers):
            if at[i] < begin[i + 1]:
                takes = taking[target[at[i]]]
                done[i] = left[i] * takes <= step
                left[i] = 0.0 if done[i] else left[i] - step / takes
        for i in range(workers):
            if done[i]:
                end[at[i]] = now
                taking[target[at[i]]] -= 1
                at[i] += 1
                if at[i] < begin[i + 1]:
                    start[at[i]] = now
                    left[i] = size[at[i]]
                    taking[target[at[i]]] += 1


@njit(cache=True)
def joined(
    ready: Array, reading: Array, lasting: Array, threads: int
) -> tuple[float, float, Array, Array, Array]:
    """The joins of one worker, in order: its disk reads for one after the other, each takes a free thread.

    `ready` is when the remote chunk is there, `reading` what the disk takes for it, `lasting` the join. Gives
    what the disk took, what threads waited for reads, what each is busy, and start and end of each join.
    """
    count = ready.shape[0]
    free, busy = np.zeros(threads), np.zeros(threads)
    start, end = np.empty(count), np.empty(count)
    disk = took = waited = 0.0
    for k in range(count):
        there = ready[k]
        if reading[k] > 0:
            disk = max(disk, there) + reading[k]
            took += reading[k]
            there = disk
        t = 0
        for other in range(1, threads):
            if free[other] < free[t]:
                t = other
        begin = max(there, free[t])
        waited += max(0.0, there - max(free[t], ready[k]))
        start[k], end[k] = begin, begin + lasting[k]
        free[t] = end[k]
        busy[t] += lasting[k]
    return took, waited, busy, start, end
