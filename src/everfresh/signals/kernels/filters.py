"""Digital filters over the samples of each group (section 7.4.5 of the thesis).

Every output is one sum in one order, from the newest sample to the oldest, whether it is computed alone or
among many; so bits do not depend on where a batch was cut. History is samples, never a partial sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]
LOW = -(1 << 62)
BLOCK = 512
"""Outputs that are computed together: they stay in the cache while taps go by."""
FEW = 6
"""So few outputs are computed one by one."""


@compiled
def room(
    slots: Array, offsets: Array, index: Array, taps: int, zero: bool, next_: Array, extra: Array
) -> None:
    """How much the line of each group grows: by its samples, and by zeros for beats that are missing."""
    for g in range(slots.shape[0]):
        n = offsets[g + 1] - offsets[g]
        before = next_[slots[g]]
        for i in range(offsets[g], offsets[g + 1]):
            gap = index[i] - before
            if zero and before != LOW and gap > 0 and gap < taps - 1:
                n += gap
            before = index[i] + 1
        extra[g] = n


@compiled
def _block(line: Array, p: int, have: int, b: Array, out: Array) -> None:
    """`out[j] = sum b[i] line[p + j - i]` over the `have + j` samples before, in the order of i."""
    m, taps = out.shape[0], b.shape[0]
    for j in range(m):
        out[j] = 0.0
    i = 0
    full = min(taps, have + 1)
    while i + 8 <= full:
        b0, b1, b2, b3 = b[i], b[i + 1], b[i + 2], b[i + 3]
        b4, b5, b6, b7 = b[i + 4], b[i + 5], b[i + 6], b[i + 7]
        h0, h1 = line[p - i : p - i + m], line[p - i - 1 : p - i - 1 + m]
        h2, h3 = line[p - i - 2 : p - i - 2 + m], line[p - i - 3 : p - i - 3 + m]
        h4, h5 = line[p - i - 4 : p - i - 4 + m], line[p - i - 5 : p - i - 5 + m]
        h6, h7 = line[p - i - 6 : p - i - 6 + m], line[p - i - 7 : p - i - 7 + m]
        for j in range(m):
            s = out[j] + b0 * h0[j]
            s = s + b1 * h1[j]
            s = s + b2 * h2[j]
            s = s + b3 * h3[j]
            s = s + b4 * h4[j]
            s = s + b5 * h5[j]
            s = s + b6 * h6[j]
            out[j] = s + b7 * h7[j]
        i += 8
    while i < full:
        bi = b[i]
        h = line[p - i : p - i + m]
        for j in range(m):
            out[j] = out[j] + bi * h[j]
        i += 1
    while i < taps and i - have < m:
        bi = b[i]
        for j in range(i - have, m):
            out[j] = out[j] + bi * line[p + j - i]
        i += 1


@compiled
def fir(
    slots: Array,
    offsets: Array,
    index: Array,
    values: Array,
    b: Array,
    zero: bool,
    next_: Array,
    head: Array,
    arena: Array,
    ok: Array,
    out: Array,
) -> None:
    """The outputs of each group at its samples; `ok` says which there are if gaps clear the history."""
    taps = b.shape[0]
    width = values.shape[0]
    nothing = out.dtype.type(0.0)
    for g in range(slots.shape[0]):
        slot = slots[g]
        i, last = offsets[g], offsets[g + 1]
        if i == last:
            continue
        off, lo, hi = head[slot, 0], head[slot, 2], head[slot, 3]
        before = next_[slot]
        while i < last:
            gap = index[i] - before if before != LOW else 0
            if gap > 0:
                if zero and gap < taps - 1:
                    for c in range(width):
                        for j in range(gap):
                            arena[c, off + hi + j] = 0.0
                    hi += gap
                else:
                    lo = hi
            stop = i + 1
            while stop < last and index[stop] == index[stop - 1] + 1:
                stop += 1
            m = stop - i
            have = hi - lo
            for c in range(width):
                line = arena[c]
                p = off + hi
                for j in range(m):
                    line[p + j] = values[c, i + j]
                for j in range(m if m < FEW else 0):
                    s = nothing
                    for t in range(min(taps, have + j + 1)):
                        s = s + b[t] * line[p + j - t]
                    out[c, i + j] = s
                for j in range(m if m < FEW else 0, m, BLOCK):
                    size = min(BLOCK, m - j)
                    _block(line, p + j, have + j, b, out[c, i + j : i + j + size])
            if not zero:
                for j in range(m):
                    ok[i + j] = have + j + 1 >= taps
            hi += m
            before = index[stop - 1] + 1
            i = stop
        next_[slot] = before
        head[slot, 2], head[slot, 3] = max(lo, hi - (taps - 1)), hi


@compiled
def _advance(z: Array, x: Any, b: Array, a: Array) -> Any:
    """One step of direct form II transposed."""
    m = z.shape[0] - 1
    y = b[0] * x + z[0]
    for i in range(m):
        z[i] = (b[i + 1] * x + z[i + 1]) - a[i + 1] * y
    return y


@compiled
def _jump(z: Array, sections: Array, steps: int, powers: Array) -> None:
    """Many steps without input, by powers of the matrix of one: bit by bit of their number."""
    n = z.shape[0] * z.shape[1]
    flat = np.empty(n, z.dtype)
    for s in range(z.shape[0]):
        for i in range(z.shape[1]):
            flat[s * z.shape[1] + i] = z[s, i]
    k = 0
    while steps > 0:
        if steps & 1:
            new = np.zeros(n, z.dtype)
            for i in range(n):
                for j in range(n):
                    new[i] += powers[k, i, j] * flat[j]
            flat = new
        steps >>= 1
        k += 1
    for s in range(z.shape[0]):
        for i in range(z.shape[1]):
            z[s, i] = flat[s * z.shape[1] + i]


@compiled
def recursive(
    slots: Array,
    offsets: Array,
    index: Array,
    values: Array,
    b: Array,
    a: Array,
    powers: Array,
    longest: int,
    idle: int,
    zero: bool,
    next_: Array,
    state: Array,
    out: Array,
) -> None:
    """A cascade of sections, each of direct form II transposed; `state[slot, c, section]` ends in a zero."""
    nothing = state.dtype.type(0.0)
    for g in range(slots.shape[0]):
        slot = slots[g]
        if offsets[g] == offsets[g + 1]:
            continue
        before = next_[slot]
        for c in range(values.shape[0]):
            z = state[slot, c]
            expected = before
            for i in range(offsets[g], offsets[g + 1]):
                gap = index[i] - expected if expected != LOW else 0
                if gap > 0:
                    if not zero or gap >= idle:
                        z[:] = 0.0
                    elif gap > longest:
                        _jump(z, b, gap, powers)
                    else:
                        for _ in range(gap):
                            y = nothing
                            for s in range(z.shape[0]):
                                y = _advance(z[s], y, b[s], a[s])
                y = values[c, i]
                for s in range(z.shape[0]):
                    y = _advance(z[s], y, b[s], a[s])
                out[c, i] = y
                expected = index[i] + 1
        next_[slot] = index[offsets[g + 1] - 1] + 1
