"""Operations on lifetimes: what two signals share, the latest event of another, sessions.

Rows that wait are lines by group: starts, ends and values side by side, in order of start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]
LOW = -(1 << 62)


@compiled
def shared(
    slots: Array,
    known_left: Array,
    known_right: Array,
    dry: bool,
    left: Array,
    left_at: Array,
    right: Array,
    right_at: Array,
    cuts: Array,
    start: Array,
    end: Array,
    a: Array,
    b: Array,
) -> int:
    """Intersections of lifetimes that begin before both sides are known. `left_at` and `right_at` have starts
    and ends; rows stay while something that begins later could still meet them. Places are within lines."""
    n = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        cuts[g] = n
        off, last_i = left[slot, 0], left[slot, 3]
        other, last_j = right[slot, 0], right[slot, 3]
        i, j = left[slot, 2], right[slot, 2]
        known = min(known_left[g], known_right[g])
        while i < last_i and j < last_j:
            s = max(left_at[0, off + i], right_at[0, other + j])
            e = min(left_at[1, off + i], right_at[1, other + j])
            if s >= known:
                break
            if s < e:
                if not dry:
                    start[n], end[n], a[n], b[n] = s, e, i - left[slot, 2], j - right[slot, 2]
                n += 1
            if left_at[1, off + i] <= right_at[1, other + j]:
                i += 1
            else:
                j += 1
    cuts[slots.shape[0]] = n
    return n


@compiled
def passed(
    slots: Array,
    known_left: Array,
    known_right: Array,
    left: Array,
    left_at: Array,
    right: Array,
    right_at: Array,
) -> None:
    """Drop what has been met, or cannot be met any more."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        off, other = left[slot, 0], right[slot, 0]
        i, j = left[slot, 2], right[slot, 2]
        known = min(known_left[g], known_right[g])
        while i < left[slot, 3] and j < right[slot, 3]:
            if max(left_at[0, off + i], right_at[0, other + j]) >= known:
                break
            if left_at[1, off + i] <= right_at[1, other + j]:
                i += 1
            else:
                j += 1
        while i < left[slot, 3] and left_at[1, off + i] <= known_right[g] and j >= right[slot, 3]:
            i += 1
        while j < right[slot, 3] and right_at[1, other + j] <= known_left[g] and i >= left[slot, 3]:
            j += 1
        left[slot, 2], right[slot, 2] = i, j


@compiled
def latest(
    slots: Array,
    known_left: Array,
    known_right: Array,
    left: Array,
    left_at: Array,
    right: Array,
    right_at: Array,
    outer: bool,
    cuts: Array,
    a: Array,
    b: Array,
) -> int:
    """For each row on the left that the right side has passed: its place, and that of the latest row on the
    right that starts no later; -1 where there is none, if rows without one are asked for. The right keeps its
    latest row."""
    n = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        cuts[g] = n
        off, other = left[slot, 0], right[slot, 0]
        i, j = left[slot, 2], right[slot, 2]
        first_i, first_j = i, j
        while i < left[slot, 3] and left_at[0, off + i] < known_right[g]:
            while j + 1 < right[slot, 3] and right_at[0, other + j + 1] <= left_at[0, off + i]:
                j += 1
            if j < right[slot, 3] and right_at[0, other + j] <= left_at[0, off + i]:
                a[n], b[n] = i - first_i, j - first_j
                n += 1
            elif outer:
                a[n], b[n] = i - first_i, -1
                n += 1
            i += 1
        while j + 1 < right[slot, 3] and right_at[0, other + j + 1] <= known_left[g] and i >= left[slot, 3]:
            j += 1
        left[slot, 2], right[slot, 2] = i, j
    cuts[slots.shape[0]] = n
    return n


@compiled
def merged(
    slots: Array,
    known_left: Array,
    known_right: Array,
    left: Array,
    left_at: Array,
    right: Array,
    right_at: Array,
    cuts: Array,
    side: Array,
    place: Array,
) -> int:
    """The rows of both sides that start before both are known, in order of start: which side, and the place
    in its arena. They are dropped."""
    n = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        cuts[g] = n
        off, other = left[slot, 0], right[slot, 0]
        i, j = left[slot, 2], right[slot, 2]
        known = min(known_left[g], known_right[g])
        while True:
            from_left = i < left[slot, 3] and left_at[0, off + i] < known
            from_right = j < right[slot, 3] and right_at[0, other + j] < known
            if from_left and (not from_right or left_at[0, off + i] <= right_at[0, other + j]):
                side[n], place[n] = 0, off + i
                i += 1
            elif from_right:
                side[n], place[n] = 1, other + j
                j += 1
            else:
                break
            n += 1
        left[slot, 2], right[slot, 2] = i, j
    cuts[slots.shape[0]] = n
    return n


@compiled
def uncovered(
    slots: Array,
    known_right: Array,
    known_left: Array,
    dry: bool,
    left: Array,
    left_at: Array,
    right: Array,
    right_at: Array,
    cuts: Array,
    start: Array,
    end: Array,
    place: Array,
) -> int:
    """The parts of the lifetimes on the left that no event on the right covers, of events whose ends the
    right side has passed; `place` is in the arena. They are dropped, and what on the right can cover nothing
    more, unless the run is `dry`."""
    n = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        cuts[g] = n
        off, other = left[slot, 0], right[slot, 0]
        i, j = left[slot, 2], right[slot, 2]
        while i < left[slot, 3] and left_at[1, off + i] <= known_right[g]:
            at, stop = left_at[0, off + i], left_at[1, off + i]
            while j < right[slot, 3] and right_at[1, other + j] <= at:
                j += 1
            k = j
            while at < stop:
                upto = stop
                if k < right[slot, 3] and right_at[0, other + k] < stop:
                    upto = right_at[0, other + k]
                if at < upto:
                    if not dry:
                        start[n], end[n], place[n] = at, upto, off + i
                    n += 1
                if upto == stop:
                    break
                at = max(at, right_at[1, other + k])
                k += 1
            i += 1
        if not dry:
            first = left_at[0, off + i] if i < left[slot, 3] else known_left[g]
            while j < right[slot, 3] and right_at[1, other + j] <= first:
                j += 1
            left[slot, 2], right[slot, 2] = i, j
    cuts[slots.shape[0]] = n
    return n
