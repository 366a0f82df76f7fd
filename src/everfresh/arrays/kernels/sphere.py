"""Candidates on the sphere: for each point those of the other side in a window around it.

One side is sorted by zone of declination, then by right ascension; for each point of the other side the
zones within the radius are searched for the beginning of the window and walked to its end.
`everfresh.arrays.sky.sphere` has the window's width and the exact test.

Invariant: the window is wider than the radius, never narrower, and a pair is found once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(cache=True)
def candidates(
    ra: Floats,
    dec: Floats,
    zones: Ints,
    sorted_ra: Floats,
    sorted_dec: Floats,
    height: float,
    radius: float,
    found: Ints,
) -> int:
    """Pairs of positions into `found`; how many there are, which may be more than there is room for.

    `zones[z]` is where zone z begins among the sorted points; zones are `height` degrees high.
    """
    count = 0
    last = zones.size - 2
    sine = np.sin(np.deg2rad(radius))
    reach = radius * (1 + 1e-9) + 1e-11
    for i in range(dec.size):
        d = dec[i]
        low = max(0, int(np.floor((d - reach + 90.0) / height)))
        high = min(last, int(np.floor((d + reach + 90.0) / height)))
        width = -1.0
        for zone in range(low, high + 1):
            start, stop = zones[zone], zones[zone + 1]
            if start == stop:
                continue
            if width < 0.0:  # most points have nothing near, and need none
                width = 361.0
                if abs(d) + radius < 90.0 - 1e-9:
                    width = np.rad2deg(np.arcsin(min(1.0, sine / np.cos(np.deg2rad(d))))) * (1 + 1e-9) + 1e-11
            for turn in range(-1, 2):
                least, greatest = ra[i] + 360.0 * turn - width, ra[i] + 360.0 * turn + width
                if width >= 180.0:
                    if turn != 0:
                        continue
                    least, greatest = -1.0, 361.0
                elif greatest < 0.0 or least > 360.0:
                    continue
                a, b = start, stop
                while a < b:
                    middle = (a + b) >> 1
                    if sorted_ra[middle] < least:
                        a = middle + 1
                    else:
                        b = middle
                while a < stop and sorted_ra[a] <= greatest:
                    if abs(sorted_dec[a] - d) <= reach:
                        if count < found.shape[1]:
                            found[0, count] = i
                            found[1, count] = a
                        count += 1
                    a += 1
    return count


@njit(cache=True)
def leaves(
    dec: Floats, ra: Floats, axis: Ints, cut: Floats, children: Ints, box: Floats, found: Ints, edge: Ints
) -> int:
    """The leaf of a tree of cuts that each point is in; axis 0 is declination, -1 a leaf. The points that are
    not within the box of their leaf go to `edge`; how many they are."""
    count = 0
    for i in range(dec.size):
        d, r = dec[i], ra[i]
        node = 0
        while axis[node] >= 0:
            place = d if axis[node] == 0 else r
            node = children[node, 1] if place >= cut[node] else children[node, 0]
        found[i] = node
        if not (box[0, node] < d < box[1, node] and box[2, node] < r < box[3, node]):
            edge[count] = i
            count += 1
    return count
