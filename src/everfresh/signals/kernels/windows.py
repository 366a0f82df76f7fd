"""Windows of samples and the way back (sections 7.4.4 and 7.4.6 of the thesis).

Window k of a group holds the absolute indices from `k * hop - size` up to, not including, `k * hop`.
Samples of a group are a line without gaps that ends before index `next_`; `first_` is where its present
stretch began, `last_` the last index that had a sample, `k_` the first window that is not decided.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]
LOW = -(1 << 62)


@compiled
def find(
    slots: Array,
    offsets: Array,
    index: Array,
    values: Array,
    progress: Array,
    size: int,
    hop: int,
    zero: bool,
    dry: bool,
    first_: Array,
    next_: Array,
    last_: Array,
    k_: Array,
    head: Array,
    arena: Array,
    extra: Array,
    cuts: Array,
    which: Array,
    at: Array,
    lead: Array,
    count: Array,
) -> int:
    """Add samples to the lines and list the windows that are full or decided: group by group, in order of k,
    as places in the arena. A dry run counts windows into `cuts` and what lines grow by into `extra`."""
    total = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        first, nxt, last, k = first_[slot], next_[slot], last_[slot], k_[slot]
        off, hi = head[slot, 0], head[slot, 3]
        grown = 0
        cuts[g] = total
        i, end = offsets[g], offsets[g + 1]
        while i < end:
            n = index[i]
            if last == LOW:
                first = nxt = n
                k = max(k, n // hop + 1) if zero else max(k, -((-n - size) // hop))
            elif n > nxt:
                gap = n - nxt
                if zero:
                    while k * hop <= n and last >= k * hop - size:
                        if not dry:
                            here = max(k * hop - size, first)
                            which[total], lead[total] = k, here - (k * hop - size)
                            at[total] = off + hi - (nxt - here)
                            count[total] = min(k * hop, nxt) - here
                        total += 1
                        k += 1
                    k = max(k, n // hop + 1)
                    if gap >= size:
                        first = nxt = n
                    else:
                        if not dry:
                            for c in range(values.shape[0]):
                                for j in range(gap):
                                    arena[c, off + hi + j] = 0.0
                        grown += gap
                        hi += gap
                        nxt = n
                else:
                    first = nxt = n
                    k = max(k, -((-n - size) // hop))
            m = end - i
            if index[end - 1] - n != m - 1:
                m = 1
                while index[i + m] == n + m:
                    m += 1
            if not dry:
                for c in range(values.shape[0]):
                    line, given = arena[c][off + hi : off + hi + m], values[c][i : i + m]
                    for j in range(m):
                        line[j] = given[j]
            hi += m
            grown += m
            nxt = n + m
            last = nxt - 1
            i += m
            while k * hop <= nxt:
                if not dry:
                    here = max(k * hop - size, first)
                    which[total], lead[total] = k, here - (k * hop - size)
                    at[total] = off + hi - (nxt - here)
                    count[total] = k * hop - here
                total += 1
                k += 1
        p = progress[g]
        if zero and last != LOW:
            while k * hop <= p and last >= k * hop - size:
                if not dry:
                    here = max(k * hop - size, first)
                    which[total], lead[total] = k, here - (k * hop - size)
                    at[total] = off + hi - (nxt - here)
                    count[total] = min(k * hop, nxt) - here
                total += 1
                k += 1
        extra[g] = grown
        if not dry:
            k = max(k, p // hop + 1)
            first_[slot], next_[slot], last_[slot], k_[slot] = first, nxt, last, k
            head[slot, 3] = hi
    cuts[slots.shape[0]] = total
    return total


@compiled
def forget(slots: Array, size: int, hop: int, first_: Array, next_: Array, k_: Array, head: Array) -> None:
    """Drop what no window to come has in it."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        keep = next_[slot] - max(k_[slot] * hop - size, first_[slot])
        lo = head[slot, 3] - max(keep, 0)
        head[slot, 2] = max(head[slot, 2], lo)


@compiled
def gather(arena: Array, at: Array, lead: Array, count: Array, out: Array) -> None:
    """The windows of one component as rows; what is not there is zero."""
    size = out.shape[1]
    for w in range(at.shape[0]):
        row = out[w]
        before, n = lead[w], count[w]
        for j in range(before):
            row[j] = 0.0
        line = arena[at[w] : at[w] + n]
        part = row[before : before + n]
        for j in range(n):
            part[j] = line[j]
        for j in range(before + n, size):
            row[j] = 0.0


@compiled
def count_back(
    slots: Array,
    cuts: Array,
    which: Array,
    progress: Array,
    size: int,
    hop: int,
    base_: Array,
    end_: Array,
    extra: Array,
    out: Array,
) -> int:
    """How many samples each group's windows make final, and what its accumulators grow by."""
    total = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        out[g] = total
        base, end = base_[slot], end_[slot]
        grown = 0
        for w in range(cuts[g], cuts[g + 1]):
            start, stop = which[w] * hop - size, which[w] * hop
            if start >= end:
                total += end - base
                base = end = start
            elif start > base:
                total += start - base
                base = start
            grown += stop - end
            end = stop
        extra[g] = grown
        final = progress[g] * hop - size
        if final > base:
            total += min(final, end) - base
    out[slots.shape[0]] = total
    return total


@compiled
def _emit(
    n: int, to: int, base: int, off: int, lo: int, arena: Array, normalize: bool, index: Array, out: Array
) -> None:
    for j in range(n):
        index[to + j] = base + j
    line = arena[0][off + lo : off + lo + n]
    if normalize:
        weights = arena[1][off + lo : off + lo + n]
        for j in range(n):
            out[to + j] = line[j] / weights[j].real if weights[j].real > 1e-10 else line[j]
    else:
        part = out[to : to + n]
        for j in range(n):
            part[j] = line[j]


@compiled
def add_back(
    group: Array,
    which: Array,
    frames: Array,
    taper: Array,
    hop: int,
    agg: int,
    slots: Array,
    base_: Array,
    end_: Array,
    head: Array,
    arena: Array,
    cursor: Array,
    index: Array,
    out: Array,
) -> None:
    """Merge windows into the accumulators of their groups; samples that no later window can reach go out.
    `agg`: 0 the sum, 1 the largest, 2 the least, 3 the last."""
    size = frames.shape[1]
    normalize = arena.shape[0] > 1
    for w in range(which.shape[0]):
        g = group[w]
        slot = slots[g]
        off, lo, hi = head[slot, 0], head[slot, 2], head[slot, 3]
        base, end = base_[slot], end_[slot]
        start = which[w] * hop - size
        n = end - base if start >= end else max(start - base, 0)
        if n > 0:
            _emit(n, cursor[g], base, off, lo, arena, normalize, index, out)
            cursor[g] += n
            lo += n
            base += n
        if start >= end:
            base = end = start
        old = end - start
        p = off + hi - old
        row = frames[w]
        line = arena[0][p : p + size]
        if agg == 0:
            for j in range(old):
                line[j] = line[j] + row[j]
        elif agg == 1:
            for j in range(old):
                line[j] = row[j] if row[j].real > line[j].real else line[j]
        elif agg == 2:
            for j in range(old):
                line[j] = row[j] if row[j].real < line[j].real else line[j]
        else:
            for j in range(old):
                line[j] = row[j]
        for j in range(old, size):
            line[j] = row[j]
        if normalize:
            weights = arena[1][p : p + size]
            for j in range(old):
                weights[j] = weights[j] + taper[j]
            for j in range(old, size):
                weights[j] = taper[j]
        hi += size - old
        base_[slot], end_[slot] = base, start + size
        head[slot, 2], head[slot, 3] = lo, hi


@compiled
def flush(
    slots: Array,
    progress: Array,
    size: int,
    hop: int,
    base_: Array,
    end_: Array,
    head: Array,
    arena: Array,
    cursor: Array,
    index: Array,
    out: Array,
) -> None:
    """Samples that no window to come can reach go out."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        base, end = base_[slot], end_[slot]
        final = min(progress[g] * hop - size, end)
        n = final - base
        if n > 0:
            _emit(n, cursor[g], base, head[slot, 0], head[slot, 2], arena, arena.shape[0] > 1, index, out)
            head[slot, 2] += n
            base_[slot] = final
