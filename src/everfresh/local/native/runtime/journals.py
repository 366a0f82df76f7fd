"""What one call for many views has left in their contexts, taken out of all of them at once.

Kernels, since a microsecond of Python for each of some thousand views is as much as all else that a row
costs. A *context* is given by its address; the block of a pool lies at the same place in each (`layout`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit
from everfresh.local.native.runtime.memory import ld, ld8, ldf

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@njit(cache=True)
def words_at(contexts: Ints, place: int, out: Ints) -> None:
    """The word at one place of each context."""
    for i in range(contexts.size):
        out[i] = ld(contexts[i], place)


@njit(cache=True)
def taken(
    contexts: Ints,
    place: int,
    ends: Ints,
    slots: Ints,
    created: Flags,
    old_n: Ints,
    old_ints: Ints,
    old_floats: Floats,
    words: Ints,
    n: Ints,
    ints: Ints,
    floats: Floats,
) -> None:
    """The journals of a pool of each context, those of context `i` up to `ends[i]`: slots, which are new, and
    the values before; then the words and values that the entries have now."""
    at = 0
    for i in range(contexts.size):
        pool = contexts[i] + 8 * place
        stride, journal = ld(pool, 1), ld(pool, 17)
        for j in range(ends[i] - at):
            slot = ld(ld(pool, 12), j)
            slots[at] = slot
            created[at] = ld8(ld(pool, 13), j) != 0
            old_n[at] = ld(ld(pool, 14), j)
            n[at] = ld(ld(pool, 6), slot)
            for k in range(old_ints.shape[0]):
                old_ints[k, at] = ld(ld(pool, 15), k * journal + j)
                ints[k, at] = ld(ld(pool, 7), k * stride + slot)
            for k in range(old_floats.shape[0]):
                old_floats[k, at] = ldf(ld(pool, 16), k * journal + j)
                floats[k, at] = ldf(ld(pool, 8), k * stride + slot)
            for k in range(words.shape[0]):
                words[k, at] = ld(ld(pool, 0), k * stride + slot)
            at += 1
