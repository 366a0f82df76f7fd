"""Joins in time: each merges the waiting rows of two sides, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]


@compiled
def most(slots: Array, left: Array, right: Array) -> int:
    """No more pairs than this."""
    total = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        total += min(left[slot, 3] - left[slot, 2], right[slot, 3] - right[slot, 2])
    return total


@compiled
def merge(
    slots: Array,
    known_left: Array,
    known_right: Array,
    left: Array,
    left_at: Array,
    right: Array,
    right_at: Array,
    left_values: Array,
    right_values: Array,
    cuts: Array,
    index: Array,
    a: Array,
    b: Array,
) -> int:
    """Pairs with equal indices, as places of their values; rows that no partner can come for are dropped."""
    n = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        cuts[g] = n
        i, last_i = left[slot, 0] + left[slot, 2], left[slot, 0] + left[slot, 3]
        j, last_j = right[slot, 0] + right[slot, 2], right[slot, 0] + right[slot, 3]
        to_a = left_values[slot, 0] + left_values[slot, 2] - i
        to_b = right_values[slot, 0] + right_values[slot, 2] - j
        while i < last_i and j < last_j:
            x, y = left_at[i], right_at[j]
            if x == y:
                index[n], a[n], b[n] = x, i + to_a, j + to_b
                n += 1
                i += 1
                j += 1
            elif x < y:
                i += 1
            else:
                j += 1
        while i < last_i and left_at[i] < known_right[g]:
            i += 1
        while j < last_j and right_at[j] < known_left[g]:
            j += 1
        left[slot, 2] = i - left[slot, 0]
        right[slot, 2] = j - right[slot, 0]
    cuts[slots.shape[0]] = n
    return n
