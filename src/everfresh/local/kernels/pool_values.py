"""The compiled loops of the values of a pool: adding to counts and components, reading them, rounding them.

A component is one int64, a 128-bit integer as a signed high and an unsigned low word, or a cascade of three
doubles: a sum, its rounding errors, and theirs. Overflow is judged where it happens, and the rest is added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.hashing import Floats, Ints
from everfresh.local.kernels.primitives import ONE, rounded_sum, two_sum

# -- adding ----------------------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def _add_checked(target: Ints, slots: Ints, delta: Ints) -> int:
    """target[slots] += delta; negative if one addition overflowed."""
    bad = 0
    for i in range(slots.size):
        a = target[slots[i]]
        b = delta[i]
        s = np.int64(np.uint64(a) + np.uint64(b))
        bad |= (a ^ s) & (b ^ s)
        target[slots[i]] = s
    return int(bad)


@njit(forceinline=True, cache=True)
def _add_wide(high: Ints, low: Ints, slots: Ints, delta_high: Ints, delta_low: Ints) -> int:
    """The same for two-word integers: carry from the low word, overflow judged in the high one."""
    bad = 0
    for i in range(slots.size):
        slot = slots[i]
        x = np.uint64(low[slot])
        y = x + np.uint64(delta_low[i])
        a = high[slot]
        b = delta_high[i]
        s = np.uint64(a) + np.uint64(b)
        if y < x:
            s += ONE
        bad |= (a ^ np.int64(s)) & (b ^ np.int64(s))
        low[slot] = np.int64(y)
        high[slot] = np.int64(s)
    return int(bad)


@njit(forceinline=True, cache=True)
def _add_cascade(s: Floats, c: Floats, cc: Floats, slots: Ints, ds: Floats, dc: Floats, dcc: Floats) -> int:
    """The three-term cascade, level by level; negative if a sum left the finite range (for good)."""
    bad = 0
    for i in range(slots.size):
        slot = slots[i]
        t, error = two_sum(s[slot], ds[i])
        u, first = two_sum(c[slot], dc[i])
        u, second = two_sum(u, error)
        s[slot] = t
        c[slot] = u
        cc[slot] += dcc[i] + (first + second)
        if not np.isfinite(t):
            bad = -1
    return int(bad)


@njit(cache=True)
def accumulate(
    n: Ints,
    ints: Ints,
    floats: Floats,
    kinds: Ints,
    slots: Ints,
    delta_n: Ints,
    delta_ints: Ints,
    delta_floats: Floats,
) -> int:
    """Add the deltas at `slots`, in order. Returns 0, or 1 for an overflow of n, or 2 + its component."""
    failed = 0
    if _add_checked(n, slots, delta_n) < 0:
        failed = 1
    row, float_row = 0, 0
    for component in range(kinds.size):
        if kinds[component] == 0:
            bad = _add_checked(ints[row], slots, delta_ints[row])
            row += 1
        elif kinds[component] == 1:
            bad = _add_wide(ints[row], ints[row + 1], slots, delta_ints[row], delta_ints[row + 1])
            row += 2
        else:
            f, d = float_row, delta_floats
            bad = _add_cascade(floats[f], floats[f + 1], floats[f + 2], slots, d[f], d[f + 1], d[f + 2])
            float_row += 3
        if bad < 0 and failed == 0:
            failed = 2 + component
    return failed


# -- reading ---------------------------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def _fetch(matrix: Any, slots: Ints, top: int, out: Any) -> None:
    for j in range(matrix.shape[0]):
        row = matrix[j]
        target = out[j]
        for i in range(slots.size):
            slot = slots[i]
            target[i] = row[slot] if 0 <= slot < top else 0


@njit(cache=True)
def gather(matrix: Any, slots: Ints, top: int, out: Any) -> None:
    """out[:, i] = matrix[:, slots[i]], or zeros where `slots[i]` is no slot."""
    _fetch(matrix, slots, top, out)


@njit(cache=True)
def gather_values(
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
    top: int,
    out_n: Ints,
    out_ints: Ints,
    out_floats: Floats,
) -> None:
    """n and all components at `slots`, zeros where there is no slot."""
    for i in range(slots.size):
        slot = slots[i]
        out_n[i] = n[slot] if 0 <= slot < top else 0
    _fetch(ints, slots, top, out_ints)
    _fetch(floats, slots, top, out_floats)


@njit(cache=True)
def gather_entries(
    keys: Ints,
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
    top: int,
    out: Ints,
    out_n: Ints,
    out_ints: Ints,
    out_floats: Floats,
) -> None:
    """The words, n and all components at `slots`, zeros where there is no slot."""
    _fetch(keys, slots, top, out)
    gather_values(n, ints, floats, slots, top, out_n, out_ints, out_floats)


# -- rounding --------------------------------------------------------------------------------------


@njit(cache=True)
def cascade_total(floats: Floats, out: Floats) -> None:
    """The exact sum of the three terms of each column, rounded once, half to even."""
    for i in range(out.size):
        out[i] = rounded_sum(floats[0, i], floats[1, i], floats[2, i])
