"""Keys to slots, and the rows of a batch by group: a stable counting sort over the groups of the batch.

Invariant: rows of a group keep their order, so a batch that came in order of time is in order of time in each
of its groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]


@compiled
def find_slots(keys: Array, table: Array, known: Array, count: int, out: Array) -> int:
    """The slot of each key, by open addressing; a key that is new gets the next slot. How many there are."""
    mask = table.shape[0] - 1
    for i in range(keys.shape[0]):
        key = keys[i]
        h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        at = np.int64((h ^ (h >> np.uint64(32))) & np.uint64(mask))
        while True:
            slot = table[at]
            if slot < 0:
                table[at] = count
                known[count] = key
                out[i] = count
                count += 1
                break
            if known[slot] == key:
                out[i] = slot
                break
            at = (at + 1) & mask
    return count


@compiled
def rebuild(known: Array, count: int, table: Array) -> None:
    """Fill an empty table with the keys that are known."""
    mask = table.shape[0] - 1
    for slot in range(count):
        h = np.uint64(known[slot]) * np.uint64(0x9E3779B97F4A7C15)
        at = np.int64((h ^ (h >> np.uint64(32))) & np.uint64(mask))
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = slot


@compiled
def positions(slots: Array, where: Array, found: Array, count: int) -> int:
    """Give each slot that has none a position among the groups of the batch; `where` is -1 elsewhere."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        if where[slot] < 0:
            where[slot] = count
            found[count] = slot
            count += 1
    return count


@compiled
def arrange(slots: Array, where: Array, offsets: Array, order: Array) -> None:
    """Rows in the order of their groups: `order[offsets[g]:offsets[g + 1]]` are those of group g."""
    for i in range(slots.shape[0]):
        offsets[where[slots[i]] + 1] += 1
    for g in range(offsets.shape[0] - 1):
        offsets[g + 1] += offsets[g]
    for i in range(slots.shape[0]):
        g = where[slots[i]]
        order[offsets[g]] = i
        offsets[g] += 1
    for g in range(offsets.shape[0] - 1, 0, -1):
        offsets[g] = offsets[g - 1]
    offsets[0] = 0


@compiled
def lay(slots: Array, offsets: Array, rows: Array, to: Array, out: Array) -> None:
    """The run of each group to where `to` has it."""
    for g in range(slots.shape[0]):
        a, n = offsets[g], offsets[g + 1] - offsets[g]
        if n > 0:
            place = to[slots[g]]
            source, target = rows[a : a + n], out[place : place + n]
            for i in range(n):
                target[i] = source[i]


@compiled
def lay_frames(slots: Array, offsets: Array, frames: Array, to: Array, out: Array) -> None:
    """The same of rows that are arrays."""
    for g in range(slots.shape[0]):
        place = to[slots[g]] - offsets[g]
        for i in range(offsets[g], offsets[g + 1]):
            source, target = frames[i], out[place + i]
            for j in range(source.shape[0]):
                target[j] = source[j]


@compiled
def clear(found: Array, count: int, where: Array) -> None:
    """Leave `where` as it was."""
    for g in range(count):
        where[found[g]] = -1


@compiled
def is_ordered(offsets: Array, start: Array) -> bool:
    """Whether starts do not fall within a group."""
    for g in range(offsets.shape[0] - 1):
        for i in range(offsets[g] + 1, offsets[g + 1]):
            if start[i] < start[i - 1]:
                return False
    return True


@compiled
def admit(slots: Array, offsets: Array, start: Array, end: Array, last: Array, ended: Array) -> int:
    """Check that events of a group do not overlap and remember the last one; the row that does, or -1."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        a, b = offsets[g], offsets[g + 1]
        before = ended[slot]
        for i in range(a, b):
            if start[i] < before:
                return i
            before = end[i]
        if b > a:
            last[slot] = start[b - 1]
            ended[slot] = before
    return -1


@compiled
def latest_ends(offsets: Array, end: Array) -> None:
    """Each end becomes the latest of its group up to there."""
    for g in range(offsets.shape[0] - 1):
        for i in range(offsets[g] + 1, offsets[g + 1]):
            end[i] = max(end[i], end[i - 1])
