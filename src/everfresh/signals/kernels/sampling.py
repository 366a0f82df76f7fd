"""Events to samples: references of lifetimes, and the beats between references (sections 7.4.1 and 7.4.2 of
the thesis, made exact in docs/design/signals.md).

An index is that of a beat: beat k is at `k * period + offset`. Differences of times are taken in whole
numbers before they become doubles, so that nanoseconds since 1970 are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]
LOW = -(1 << 62)
END = 1 << 62


@compiled
def expand(
    slots: Array,
    offsets: Array,
    start: Array,
    end: Array,
    values: Array,
    progress: Array,
    period: int,
    offset: int,
    refs: bool,
    most: int,
    dry: bool,
    a_: Array,
    b_: Array,
    pos_: Array,
    held: Array,
    cuts: Array,
    at: Array,
    out: Array,
) -> int:
    """What is known of lifetimes: their beats, or their references (start, beats, last tick). A dry run
    counts into `cuts`; a group with too many beats gives -1 - its position."""
    width = out.shape[0]
    total = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        first, last = offsets[g], offsets[g + 1]
        a, b, pos = a_[slot], b_[slot], pos_[slot]
        cuts[g] = total
        for i in range(first - 1, last):
            if i >= first:
                a, b = start[i], end[i]
                pos = a
            elif b == LOW:
                continue
            stop = b if i + 1 < last else min(b, progress[g])
            if pos >= stop:
                continue
            if refs and pos == a:
                if not dry:
                    at[total] = a
                    for c in range(width):
                        out[c, total] = values[c, i] if i >= first else held[slot, c]
                total += 1
                pos = a + 1
            k = -((offset - pos) // period)
            n = -((offset - stop) // period) - k
            if n > most:
                return -1 - g
            if n > 0:
                if not dry:
                    for j in range(n):
                        at[total + j] = (k + j) * period + offset if refs else k + j
                    for c in range(width):
                        v = values[c, i] if i >= first else held[slot, c]
                        for j in range(n):
                            out[c, total + j] = v
                total += n
            final = b - 1
            if refs and final > a and final < stop and final >= pos and (final - offset) % period != 0:
                if not dry:
                    at[total] = final
                    for c in range(width):
                        out[c, total] = values[c, i] if i >= first else held[slot, c]
                total += 1
            pos = stop
        if not dry:
            if last > first:
                for c in range(held.shape[1]):
                    held[slot, c] = values[c, last - 1]
            if b != LOW and pos >= b:
                b = LOW
            a_[slot], b_[slot], pos_[slot] = a, b, pos
    cuts[slots.shape[0]] = total
    return total


@compiled
def count_beats(
    slots: Array,
    offsets: Array,
    at: Array,
    progress: Array,
    period: int,
    offset: int,
    window: int,
    causal: bool,
    most: int,
    below: Array,
    r_: Array,
    next_: Array,
    cuts: Array,
) -> int:
    """How many beats each group gets; `below` takes the last beat at or before each reference."""
    total = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        cuts[g] = total
        r, nxt = r_[slot], next_[slot]
        for i in range(offsets[g], offsets[g + 1]):
            s = at[i]
            k = (s - offset) // period
            below[i] = k
            on = 1 if k * period + offset == s else 0
            if r != LOW:
                if causal:
                    until = min(k - on, (r + window - offset) // period)
                    n = until - nxt + 1
                elif s - r <= window:
                    n = k - on - nxt + 1
                else:
                    n = 0
                if n > most:
                    return -1 - i
                if n > 0:
                    total += n
            total += on
            r, nxt = s, k + 1
        if causal and r != LOW:
            until = min(-((offset - progress[g]) // period) - 1, (r + window - offset) // period)
            if until >= nxt:
                total += until - nxt + 1
    cuts[slots.shape[0]] = total
    return total


@compiled
def fill_beats(
    slots: Array,
    offsets: Array,
    at: Array,
    values: Array,
    progress: Array,
    period: int,
    offset: int,
    window: int,
    causal: bool,
    order: int,
    constant: float,
    below: Array,
    r_: Array,
    q_: Array,
    next_: Array,
    rv: Array,
    qv: Array,
    index: Array,
    out: Array,
) -> None:
    """Beats on references, and those between two that are near enough. `order`: 0 a constant, 1 the last
    value, 2 the nearer one, 3 a line, 4 a parabola."""
    width = out.shape[0]
    n = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        first, last = offsets[g], offsets[g + 1]
        r, q, nxt = r_[slot], q_[slot], next_[slot]
        for i in range(first, last):
            s = at[i]
            k = below[i]
            on = 1 if k * period + offset == s else 0
            if r != LOW:
                if causal:
                    until = min(k - on, (r + window - offset) // period)
                elif s - r <= window:
                    until = k - on
                else:
                    until = nxt - 1
                m = until - nxt + 1
                if m > 0:
                    for j in range(m):
                        index[n + j] = nxt + j
                    for c in range(width):
                        v = rv[slot, c] if i == first else values[c, i - 1]
                        w = values[c, i]
                        if order == 3 or (order == 4 and (q == LOW or s - q > window)):
                            slope = (w - v) / np.float64(s - r)
                            t0 = nxt * period + offset - r
                            for j in range(m):
                                out[c, n + j] = slope * np.float64(t0 + j * period) + v
                        elif order == 4:
                            u = (
                                qv[slot, c]
                                if i == first
                                else (rv[slot, c] if i == first + 1 else values[c, i - 2])
                            )
                            rq, sq, sr = np.float64(r - q), np.float64(s - q), np.float64(s - r)
                            for j in range(m):
                                t = (nxt + j) * period + offset
                                tq, tr, ts = np.float64(t - q), np.float64(t - r), np.float64(t - s)
                                first_ = u * ((tr * ts) / (rq * sq))
                                second = v * (-(tq * ts) / (rq * sr))
                                third = w * ((tq * tr) / (sq * sr))
                                out[c, n + j] = (first_ + second) + third
                        elif order == 2:
                            for j in range(m):
                                t = (nxt + j) * period + offset
                                out[c, n + j] = v if (t - r) < (s - t) else w
                        elif order == 1:
                            for j in range(m):
                                out[c, n + j] = v
                        else:
                            for j in range(m):
                                out[c, n + j] = constant
                    n += m
            if on == 1:
                index[n] = k
                for c in range(width):
                    out[c, n] = values[c, i]
                n += 1
            q, r, nxt = r, s, k + 1
        if last > first:
            for c in range(width):
                if last - first > 1:
                    qv[slot, c] = values[c, last - 2]
                else:
                    qv[slot, c] = rv[slot, c]
                rv[slot, c] = values[c, last - 1]
        if causal and r != LOW:
            until = min(-((offset - progress[g]) // period) - 1, (r + window - offset) // period)
            for k in range(nxt, until + 1):
                index[n] = k
                for c in range(width):
                    out[c, n] = rv[slot, c]
                n += 1
            nxt = max(nxt, until + 1)
        r_[slot], q_[slot], next_[slot] = r, q, nxt


@compiled
def gaps(
    slots: Array,
    offsets: Array,
    at: Array,
    period: int,
    offset: int,
    window: int,
    below: Array,
    r_: Array,
    row: Array,
    index: Array,
) -> int:
    """The beats that a user's policy fills, with the row of the reference behind each (for a beat on a
    reference -1 - its row); as `count_beats` has counted."""
    n = 0
    for g in range(slots.shape[0]):
        r = r_[slots[g]]
        for i in range(offsets[g], offsets[g + 1]):
            s = at[i]
            on = 1 if below[i] * period + offset == s else 0
            if r != LOW and s - r <= window:
                for k in range((r - offset) // period + 1, below[i] - on + 1):
                    index[n], row[n] = k, i
                    n += 1
            if on == 1:
                index[n], row[n] = below[i], -1 - i
                n += 1
            r = s
    return n


@compiled
def references(
    slots: Array,
    offsets: Array,
    at: Array,
    values: Array,
    r_: Array,
    q_: Array,
    rv: Array,
    qv: Array,
    r: Array,
    q: Array,
    of_r: Array,
    of_q: Array,
) -> None:
    """The reference before each, and the one before that, with their values; the last two are remembered."""
    width = values.shape[0]
    for g in range(slots.shape[0]):
        slot = slots[g]
        for i in range(offsets[g], offsets[g + 1]):
            r[i], q[i] = r_[slot], q_[slot]
            for c in range(width):
                of_r[c, i], of_q[c, i] = rv[slot, c], qv[slot, c]
                qv[slot, c], rv[slot, c] = rv[slot, c], values[c, i]
            q_[slot], r_[slot] = r_[slot], at[i]


@compiled
def known_until(
    slots: Array,
    progress: Array,
    period: int,
    offset: int,
    window: int,
    waits: bool,
    r_: Array,
    out: Array,
) -> None:
    """The least index of which it is not yet known whether it has a sample."""
    for g in range(slots.shape[0]):
        p, r = progress[g], r_[slots[g]]
        if p >= END:
            out[g] = END
        else:
            if waits and r != LOW and p <= r + window:
                p = r + 1
            out[g] = -((offset - p) // period)
