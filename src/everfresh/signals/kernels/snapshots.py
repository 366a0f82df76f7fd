"""Aggregates over events that are valid at one time: cut at every start and end, constant in between.

Each stretch is computed from the events that are valid in it, in order of start: no sum is carried on, so it
neither drifts nor depends on when events came.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]
LOW = -(1 << 62)
SUM, COUNT, MEAN, MIN, MAX = 0, 1, 2, 3, 4


@compiled
def _of(op: int, active: Array, many: int, values: Array, first: int) -> float:
    found: float = values[first + active[0]]
    for x in range(1, many):
        value = values[first + active[x]]
        if op == MIN:
            found = value if value < found or value != value else found
        elif op == MAX:
            found = value if value > found or value != value else found
        else:
            found += value
    if op == COUNT:
        return float(many)
    return found / many if op == MEAN else found


@compiled
def stretches(
    slots: Array,
    known: Array,
    op: int,
    times: Array,
    at: Array,
    values: Array,
    numbers: Array,
    opened: Array,
    active: Array,
    cuts: Array,
    start: Array,
    end: Array,
    out: Array,
) -> int:
    """The stretches that end before all is known. `opened` has the start of one that has not ended; events
    that are over leave their lines."""
    n = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        cuts[g] = n
        off, lo, hi = times[slot, 0], times[slot, 2], times[slot, 3]
        first = values[slot, 0] + values[slot, 2] - lo
        b = opened[slot]
        i, many = lo, 0
        while True:
            while b > LOW and i < hi and at[0, off + i] <= b:
                active[many] = i
                many += 1
                i += 1
            kept = 0
            for x in range(many):
                if at[1, off + active[x]] > b:
                    active[kept] = active[x]
                    kept += 1
            many = kept
            if many == 0:
                if i < hi and at[0, off + i] <= known[g]:
                    b = at[0, off + i]
                    continue
                b = LOW
                break
            upto = at[0, off + i] if i < hi else 1 << 62
            for x in range(many):
                upto = min(upto, at[1, off + active[x]])
            if upto > known[g]:
                break
            start[n], end[n] = b, upto
            out[n] = _of(op, active, many, numbers[0], first)
            n += 1
            b = upto
        opened[slot] = b
        place = hi  # what is valid, or comes, moves to the end of the line
        for j in range(hi - 1, i - 1, -1):
            place -= 1
            at[0, off + place], at[1, off + place] = at[0, off + j], at[1, off + j]
            numbers[0, first + place] = numbers[0, first + j]
        for x in range(many - 1, -1, -1):
            place -= 1
            j = active[x]
            at[0, off + place], at[1, off + place] = at[0, off + j], at[1, off + j]
            numbers[0, first + place] = numbers[0, first + j]
        times[slot, 2] = place
        values[slot, 2] += place - lo
    cuts[slots.shape[0]] = n
    return n


@compiled
def soonest(slots: Array, times: Array, at: Array, never: int, out: Array) -> None:
    """The first end among the events of each line."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        found = never
        for i in range(times[slot, 2], times[slot, 3]):
            found = min(found, at[1, times[slot, 0] + i])
        out[g] = found
