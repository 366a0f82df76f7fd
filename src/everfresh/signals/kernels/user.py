"""Kernels around functions that a user gave."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from everfresh.signals.kernels.compiled import compiled_here

Array = np.ndarray[Any, Any]
LOW = -(1 << 62)


@cache
def filter_kernel(function: Callable[..., Any]) -> Callable[..., None]:
    """A filter by a function of two arrays, the newest inputs and the newest outputs, oldest first."""
    compute = function if isinstance(function, numba.core.dispatcher.Dispatcher) else compiled_here(function)

    @compiled_here
    def run(
        slots: Array,
        offsets: Array,
        index: Array,
        values: Array,
        longest: int,
        zero: bool,
        next_: Array,
        count_: Array,
        inputs: Array,
        outputs: Array,
        ok: Array,
        out: Array,
    ) -> None:
        forward, backward = inputs.shape[2], outputs.shape[2]
        for g in range(slots.shape[0]):
            slot = slots[g]
            for i in range(offsets[g], offsets[g + 1]):
                before, n = next_[slot], index[i]
                gap = n - before if before != LOW else 0
                if gap > 0 and (not zero or gap > longest):
                    inputs[slot] = 0.0
                    outputs[slot] = 0.0
                    count_[slot] = 0
                missing = gap if zero and gap <= longest else 0
                if backward == 0:
                    missing = min(missing, forward - 1)
                for step in range(missing + 1):
                    count_[slot] += 1
                    full = zero or count_[slot] >= forward
                    for c in range(values.shape[0]):
                        fw, bw = inputs[slot, c], outputs[slot, c]
                        for j in range(forward - 1):
                            fw[j] = fw[j + 1]
                        fw[forward - 1] = values[c, i] if step == missing else 0.0
                        if full:
                            y = compute(fw, bw)
                            for j in range(backward - 1):
                                bw[j] = bw[j + 1]
                            if backward > 0:
                                bw[backward - 1] = y
                            if step == missing:
                                out[c, i] = y
                    if step == missing:
                        ok[i] = full
                next_[slot] = n + 1

    found: Callable[..., None] = run
    return found


@cache
def folding(
    accumulate: Callable[..., Any], deaccumulate: Callable[..., Any], result: Callable[..., Any] | None
) -> tuple[Callable[[Array], Array], Callable[[Array, Array, Array], Array]]:
    """What a state gives, and states after samples left and others came, oldest first."""
    add, take = compiled_here(accumulate), compiled_here(deaccumulate)

    @compiled_here
    def run(before: Array, old: Array, new: Array, out: Array) -> None:
        for row in range(before.shape[0]):
            state = before[row, 0]
            for i in range(old.shape[1]):
                state = take(state, old[row, i])
            for i in range(new.shape[1]):
                state = add(state, new[row, i])
            out[row, 0] = state

    def states(before: Array, old: Array, new: Array) -> Array:
        out = np.empty_like(before)
        run(before, old, new, out)
        return out

    if result is None:
        return lambda values: values, states
    final = compiled_here(result)

    @compiled_here
    def finish(values: Array, out: Array) -> None:
        for c in range(values.shape[0]):
            for i in range(values.shape[1]):
                out[c, i] = final(values[c, i])

    def results(values: Array) -> Array:
        out = np.empty_like(values)
        finish(values, out)
        return out

    return results, states
