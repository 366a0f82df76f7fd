"""The loops over rows and cells. `everfresh.kv.sharing.cells` says what they mean and has their slow twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]


def _compiled(function: Kernel) -> Kernel:
    made: Kernel = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return made


@_compiled
def accumulate(codes: Array, values: Array, out: Array) -> None:
    """Add each row's values to its cell."""
    for row in range(codes.shape[0]):
        code = codes[row]
        if code >= 0:
            for c in range(values.shape[0]):
                out[c, code] += values[c, row]


@_compiled
def alone(
    ids: Array, attributes: Array, lo: Array, hi: Array, groups: Array, values: Array, out: Array,
    seen: Array, touched: Array,
) -> int:  # fmt: skip
    """One view by itself: add the rows that are in all of its ranges to their groups; how many groups are
    `touched`."""
    count = 0
    for row in range(groups.shape[0]):
        inside = True
        for leaf in range(attributes.shape[0]):
            at = ids[attributes[leaf], row]
            if at < lo[leaf] or at >= hi[leaf]:
                inside = False
                break
        if inside:
            group = groups[row]
            if not seen[group]:
                seen[group] = True
                touched[count] = group
                count += 1
            for c in range(values.shape[0]):
                out[c, group] += values[c, row]
    return count


@_compiled
def vectors(lo: Array, hi: Array, out: Array) -> None:
    """The views of each interval as bits: those whose range has it. The interval `i` is in row `i + 1`."""
    for view in range(lo.shape[0]):
        bit = np.uint64(1) << np.uint64(view & 63)
        for interval in range(lo[view], hi[view]):
            out[interval + 1, view >> 6] |= bit


_PLACE = np.zeros(64, np.int64)
_DE_BRUIJN = 0x03F79D71B4CB0A89
for _i in range(64):
    _PLACE[((_DE_BRUIJN << _i) & (1 << 64) - 1) >> 58] = _i
_MULTIPLIER = np.uint64(_DE_BRUIJN)


@_compiled
def route(
    begin: int, at: Array, groups: Array, values: Array, vectors: Array, stamps: Array, slots: Array,
    out_view: Array, out_group: Array, out: Array,
) -> tuple[int, int]:  # fmt: skip
    """Rows from `begin` on to the views of all of their vectors, added up by view and group; group by group,
    as long as there is room for all views of one. Up to which row it came, and how many sums there are."""
    row, count, views = begin, 0, stamps.shape[0]
    while row < groups.shape[0] and out_view.shape[0] - count >= views:
        group, first = groups[row], count
        while row < groups.shape[0] and groups[row] == group:
            for word in range(vectors.shape[1]):
                bits = vectors[at[0, row], word]
                for a in range(1, at.shape[0]):
                    bits &= vectors[at[a, row], word]
                while bits != 0:
                    rest = bits & (bits - np.uint64(1))
                    place = _PLACE[((bits ^ rest) * _MULTIPLIER) >> np.uint64(58)]
                    bits = rest
                    view = (word << 6) + place
                    slot = slots[view]
                    if stamps[view] == group and slot >= first:
                        for c in range(values.shape[0]):
                            out[c, slot] += values[c, row]
                    else:
                        stamps[view], slots[view] = group, count
                        out_view[count], out_group[count] = view, group
                        for c in range(values.shape[0]):
                            out[c, count] = values[c, row]
                        count += 1
            row += 1
        kept = first
        for i in range(first, count):  # what comes to nothing goes
            some = False
            for c in range(values.shape[0]):
                some = some or out[c, i] != 0
            if some:
                if kept != i:
                    out_view[kept], out_group[kept] = out_view[i], out_group[i]
                    for c in range(values.shape[0]):
                        out[c, kept] = out[c, i]
                kept += 1
        count = kept
    return row, count
