"""Windows that begin with the first sample of each group: indices less the group's *phase*, which is its
first index modulo the hop, so that windows of all groups end at multiples of the hop.

A group begins anew after a pause of `idle` beats, with a phase of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]
LOW = -(1 << 62)


@compiled
def align(
    slots: Array, offsets: Array, index: Array, hop: int, idle: int, last_: Array, phase_: Array, out: Array
) -> None:
    """Indices less the phases of their groups, which are remembered."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        last, phase = last_[slot], phase_[slot]
        for i in range(offsets[g], offsets[g + 1]):
            n = index[i]
            gap = n - last - 1 if last != LOW else 0
            if last == LOW or (gap > 0 and gap >= idle):
                phase = n % hop
            out[i] = n - phase
            last = n
        last_[slot], phase_[slot] = last, phase


@compiled
def phases(
    slots: Array,
    cuts: Array,
    before: Array,
    offsets: Array,
    index: Array,
    aligned: Array,
    phase_: Array,
    out: Array,
) -> None:
    """The phase of each thing that was made of samples: that of the last sample whose aligned index is less
    than `before`. The last phase of a group is remembered."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        phase = phase_[slot]
        i, last = offsets[g], offsets[g + 1]
        for j in range(cuts[g], cuts[g + 1]):
            while i < last and aligned[i] < before[j]:
                phase = index[i] - aligned[i]
                i += 1
            out[j] = phase
        if last > offsets[g]:
            phase_[slot] = index[last - 1] - aligned[last - 1]
