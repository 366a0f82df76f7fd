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
def members(ids: Array, attributes: Array, lo: Array, hi: Array, starts: Array, out: Array) -> None:
    """The views of each cell, of views that are conjunctions; with an empty `out` only how many there are."""
    for cell in range(ids.shape[1]):
        at = starts[cell] if out.shape[0] else 0
        begin = at
        for view in range(lo.shape[1]):
            inside = True
            for leaf in range(attributes.shape[0]):
                of = ids[attributes[leaf], cell]
                if of < lo[leaf, view] or of >= hi[leaf, view]:
                    inside = False
                    break
            if inside:
                if out.shape[0]:
                    out[at] = view
                at += 1
        if not out.shape[0]:
            starts[cell + 1] = at - begin


@_compiled
def route(
    groups: Array, cells: Array, values: Array, starts: Array, views: Array, out_view: Array,
    out_group: Array, out: Array, stamps: Array, slots: Array,
) -> int:  # fmt: skip
    """Rows in the order of their groups to the views of their cells, added up by view and group; how many
    sums there are."""
    count = 0
    for row in range(groups.shape[0]):
        group = groups[row]
        for i in range(starts[cells[row]], starts[cells[row] + 1]):
            view = views[i]
            if stamps[view] != group:
                stamps[view] = group
                slots[view] = count
                out_view[count] = view
                out_group[count] = group
                count += 1
            slot = slots[view]
            for c in range(values.shape[0]):
                out[c, slot] += values[c, row]
    return count
