"""Shapes: sets of offsets between cells that are similar (the paper on similarity joins, section 3).

A cell b of the right array joins a cell a of the left one if `b - M(a)` is in the shape, where M is the
mapping. Norms fit any number of dimensions, other shapes have theirs. Distances are those of Figure 3 of the
paper, and defined here where its prose is not definite:

- `L0` is the centre alone; `L1(e)`, `L2(e)`, `Linf(e)` are balls of the norms.
- `Hamming(e)`: at most e dimensions differ, by any amount.
- `TVD(e)`, total variation, is half of L1: `L1(2 e)`.
- `EMD(e)`, the earth mover's distance of two histograms with the indices of a cell as their bars: what is
  carried over each border, |s1| + |s1 + s2| + ... + |s1 + ... + sd|, is at most e. So earlier
  dimensions weigh more.
- `Ring(r1, r2)`: r1 <= L2 <= r2. `Ellipse(a1, ..., ad)`: (s1/a1)^2 + ... + (sd/ad)^2 <= 1.

For kernels a shape is cut into *row intervals*: runs of offsets along one dimension (`Rows`). For planning it
has `bounds`, where None is any offset at all, and `parts` that tell such shapes apart.

Invariants: nodes are immutable; `parse(str(s)) == s`; the row intervals of a shape are disjoint and hold
exactly the offsets that `contains` tells.
"""

from everfresh.arrays.shape.base import Rows, Shape
from everfresh.arrays.shape.combined import Difference, Intersection, Union, WithCenter, WithoutCenter
from everfresh.arrays.shape.norms import EMD, L0, L1, L2, TVD, Hamming, Linf
from everfresh.arrays.shape.sets import Cuboid, Ellipse, Offsets, Ring, offsets_of
from everfresh.arrays.shape.text import parse_shape as parse

__all__ = [
    "EMD",
    "L0",
    "L1",
    "L2",
    "TVD",
    "Cuboid",
    "Difference",
    "Ellipse",
    "Hamming",
    "Intersection",
    "Linf",
    "Offsets",
    "Ring",
    "Rows",
    "Shape",
    "Union",
    "WithCenter",
    "WithoutCenter",
    "offsets_of",
    "parse",
]
