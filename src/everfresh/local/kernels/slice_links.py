"""The compiled loops of slice indexes: entries with the same slice key as doubly linked chains.

`heads[group]` is the first slot of a group's chain, `nexts` and `prevs` link slots, `groups[slot]` is the
group that a slot stands in; -1 ends a chain and marks a slot that stands in none. `n[group]` is the length of
a chain: the first head of a fresh group is not read. Linking and unlinking are O(1) per slot (the thesis,
section 4.2.2; doubly linked lists by pool index).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit

Ints = NDArray[np.int64]
Links = NDArray[np.int32]


@njit(cache=True, error_model="numpy")
def link(heads: Links, nexts: Links, prevs: Links, groups: Links, n: Ints, of: Ints, slots: Ints) -> None:
    """Put each of `slots`, which stand in no chain, at the head of the chain of its group `of[i]`."""
    for i in range(slots.size):
        slot = slots[i]
        group = of[i]
        first = heads[group] if n[group] > 0 else -1
        nexts[slot] = first
        prevs[slot] = -1
        if first >= 0:
            prevs[first] = slot
        heads[group] = slot
        groups[slot] = group
        n[group] += 1


@njit(cache=True, error_model="numpy")
def unlink(heads: Links, nexts: Links, prevs: Links, groups: Links, n: Ints, slots: Ints, left: Ints) -> int:
    """Take `slots` out of their chains; those in none are passed over. `left`: the groups now without slots,
    and how many."""
    count = 0
    for i in range(slots.size):
        slot = slots[i]
        group = groups[slot]
        if group < 0:
            continue
        groups[slot] = -1
        before, after = prevs[slot], nexts[slot]
        if before >= 0:
            nexts[before] = after
        else:
            heads[group] = after
        if after >= 0:
            prevs[after] = before
        n[group] -= 1
        if n[group] == 0:
            left[count] = group
            count += 1
    return count


@njit(cache=True, error_model="numpy")
def count(n: Ints, groups: Ints) -> int:
    """How many slots the chains of `groups` have together; -1 is no group."""
    total = 0
    for i in range(groups.size):
        if groups[i] >= 0:
            total += n[groups[i]]
    return total


@njit(cache=True, error_model="numpy")
def fill(heads: Links, nexts: Links, groups: Ints, at: Ints, slots: Ints) -> None:
    """The pairs of row number and slot of the chains of `groups`, row by row, each chain in its order."""
    done = 0
    for i in range(groups.size):
        if groups[i] < 0:
            continue
        slot = heads[groups[i]]
        while slot >= 0:
            at[done] = i
            slots[done] = slot
            done += 1
            slot = nexts[slot]
