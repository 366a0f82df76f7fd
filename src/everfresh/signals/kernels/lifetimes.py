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
    cuts: Array,
    a: Array,
    b: Array,
) -> int:
    """For each row on the left that the right side has passed: its place, and that of the latest row on the
    right that starts no later. The right keeps its latest row."""
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
            i += 1
        while j + 1 < right[slot, 3] and right_at[0, other + j + 1] <= known_left[g] and i >= left[slot, 3]:
            j += 1
        left[slot, 2], right[slot, 2] = i, j
    cuts[slots.shape[0]] = n
    return n
