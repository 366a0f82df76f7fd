"""Cells counted by the zone that they lie in, in one pass.

The sides of a query's boxes cut space into *zones*: along each dimension the cells below the first side,
those between two of them, those from the last side on. All cells of a zone are asked for, or none.

A row of `tallies` has the cells of a zone, then the least index of them in each dimension, then the greatest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import kernel_of, njit

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@njit(cache=True)
def tally(
    coords: Ints, sides: Ints, starts: Ints, strides: Ints, asked: Bools, tallies: Any, held: Any
) -> int:
    """Add the cells, a column each, to the tallies, and say of each in `held` whether it is asked for; how
    many are. The sides of dimension k are those from `starts[k]` on, in ascending order."""
    ndim, total = coords.shape[0], 0
    for i in range(coords.shape[1]):
        zone = 0
        for k in range(ndim):
            for j in range(starts[k], starts[k + 1]):
                if coords[k, i] >= sides[j]:
                    zone += strides[k]
        held[i] = asked[zone]
        total += asked[zone]
        tallies[zone, 0] += 1
        for k in range(ndim):
            x = coords[k, i]
            tallies[zone, 1 + k] = min(tallies[zone, 1 + k], x)
            tallies[zone, 1 + ndim + k] = max(tallies[zone, 1 + ndim + k], x)
    return total


def by_whole_arrays(
    coords: Ints, sides: Ints, starts: Ints, strides: Ints, asked: Bools, tallies: Any, held: Any
) -> int:
    """The same without a loop over cells: what runs until the loop is compiled."""
    ndim, rows = coords.shape
    if not rows:
        return 0
    zone = np.zeros(rows, np.int64)
    for k in range(ndim):
        zone += strides[k] * np.searchsorted(sides[starts[k] : starts[k + 1]], coords[k], "right")
    held[:] = asked[zone]
    order = np.argsort(zone, kind="stable")
    found, first, count = np.unique(zone[order], return_index=True, return_counts=True)
    tallies[found, 0] += count
    for k in range(ndim):
        column = coords[k][order]
        least, most = tallies[:, 1 + k], tallies[:, 1 + ndim + k]
        least[found] = np.minimum(least[found], np.minimum.reduceat(column, first))
        most[found] = np.maximum(most[found], np.maximum.reduceat(column, first))
    return int(np.count_nonzero(held))


kernel_of(tally).run_by(by_whole_arrays)
