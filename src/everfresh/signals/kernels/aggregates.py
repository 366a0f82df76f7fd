"""Aggregates over windows that overlap, without subtraction: van Herk's and Gil and Werman's blocks.

A window is at most two parts of blocks of its own size, which begin at absolute multiples: what is left of
one block, folded from its end, and the beginning of the next, folded from its start. So each sample is
folded three times however much windows overlap, an error does not outlive its window, nor does a NaN, and
bits do not depend on where a batch was cut.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled, compiled_here

Array = np.ndarray[Any, Any]


@compiled
def _fold(code: int, a: float, b: float) -> float:
    if code == 0:
        return a + b
    if a != a or b != b:
        return a + b
    if code == 1:
        return b if b < a else a
    return b if b > a else a


@compiled
def fold(
    cuts: Array, which: Array, at: Array, lead: Array, count: Array, size: int, hop: int, code: int,
    line: Array, out: Array,
) -> None:  # fmt: skip
    """Fold each window; `code`: 0 the sum, 1 the least, 2 the greatest."""
    suffix = np.empty(size, line.dtype)
    for g in range(cuts.shape[0] - 1):
        moved, block, done = np.int64(0), np.int64(0), np.int64(-1)
        have_suffix = have_prefix = False
        prefix = line.dtype.type(0.0)
        for w in range(cuts[g], cuts[g + 1]):
            stop = which[w] * hop
            start = stop - size
            low = start + lead[w]
            high = low + count[w]
            shift = at[w] - low
            edge = (stop - 1) // size * size
            if w == cuts[g] or shift != moved or edge != block:
                have_suffix = have_prefix = False
            moved, block = shift, edge
            if not have_prefix:
                prefix = line[edge + shift] if low <= edge < high else line.dtype.type(0.0)
                done = edge + 1
                have_prefix = True
            for i in range(done, stop):
                x = line[i + shift] if low <= i < high else line.dtype.type(0.0)
                prefix = _fold(code, prefix, x)
            done = max(done, stop)
            if start == edge:
                out[w] = prefix
                continue
            if not have_suffix:
                i = edge - 1
                suffix[size - 1] = line[i + shift] if low <= i < high else line.dtype.type(0.0)
                for i in range(edge - 2, start - 1, -1):
                    x = line[i + shift] if low <= i < high else line.dtype.type(0.0)
                    j = i - edge + size
                    suffix[j] = _fold(code, x, suffix[j + 1])
                have_suffix = True
            out[w] = _fold(code, suffix[start - edge + size], prefix)


@cache
def user_fold(
    accumulate: Callable[..., Any], combine: Callable[..., Any] | None, result: Callable[..., Any] | None
) -> Callable[..., None]:
    """A user's aggregate over windows: by blocks if states can be combined, else from the samples."""
    add = compiled_here(accumulate)
    join = compiled_here(accumulate if combine is None else combine)
    has_result, blocks = result is not None, combine is not None
    final = compiled_here(accumulate if result is None else result)
    finish = compiled_here(_finish(final, has_result))

    @compiled_here
    def run(
        which: Array, at: Array, lead: Array, count: Array, size: int, hop: int, init: float, line: Array,
        out: Array,
    ) -> None:  # fmt: skip
        nothing = line.dtype.type(0.0)
        for w in range(which.shape[0]):
            stop = which[w] * hop
            start = stop - size
            low = start + lead[w]
            high = low + count[w]
            shift = at[w] - low
            edge = (stop - 1) // size * size if blocks else start
            state = init
            for i in range(edge, stop):
                state = add(state, line[i + shift] if low <= i < high else nothing)
            if blocks and start < edge:
                other = init
                for i in range(start, edge):
                    other = add(other, line[i + shift] if low <= i < high else nothing)
                state = join(other, state)
            out[w] = finish(state)

    found: Callable[..., None] = run
    return found


def _finish(final: Callable[..., Any], has_result: bool) -> Callable[..., Any]:
    if has_result:
        return lambda state: final(state)
    return lambda state: state
