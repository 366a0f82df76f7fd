"""Chunks that have to meet, and their cells as joins read them: what a worker does with the chunks it holds.

A left chunk is carried into the right array by the mapping: by the corners of its tight box where the mapping
keeps order, else by its cells, as the boxes of the right chunks in which they land. Widened by the bounds of
each part of the shape, what overlaps the tight box of a right chunk is a pair. This looks at every two chunks
and suits what one process holds; plans for many workers are made from a catalog (`everfresh.arrays.plan`).

Invariant: no pair of chunks with matching cells is left out, so that joining the pairs is joining the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from everfresh.arrays.chunk import Chunk
from everfresh.arrays.join import Cells, Pairs
from everfresh.arrays.mapping import Mapping
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.shape import Shape

_WIDE = 1 << 62
_BLOCK = 1 << 20


def cells_of(chunks: Sequence[Chunk], mapping: Mapping | None = None) -> Cells:
    """The cells of chunks, at least one, one chunk after the other; where the mapping takes them, if any."""
    starts = np.cumsum([0, *map(len, chunks)])
    coords = np.concatenate([chunk.coords for chunk in chunks], axis=1)
    return Cells.of(coords if mapping is None else mapping.cells(coords), starts)


def partners(
    left: Sequence[Chunk], right: Sequence[Chunk], schema: ArraySchema, mapping: Mapping, shape: Shape
) -> Pairs:
    """The pairs of chunks that may have matching cells, as positions; `schema` is the right array's.

    >>> import pyarrow as pa
    >>> from everfresh.arrays.mapping import identity
    >>> from everfresh.arrays.model import Dimension
    >>> from everfresh.arrays.shape import Linf
    >>> chunks = [Chunk.of(pa.table({"i": cells}), 1) for cells in ([1, 2], [3], [8])]
    >>> a = ArraySchema("a", (Dimension("i", 1, 8, 2),))
    >>> [side.tolist() for side in partners(chunks, chunks, a, identity(1), Linf(1))]
    [[0, 0, 1, 1, 2], [0, 1, 0, 1, 2]]
    """
    if not left or not right:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rlo, rhi = (np.stack(side, axis=1) for side in zip(*(c.box for c in right), strict=True))
    owner, lo, hi = _images(left, schema, mapping)
    met = np.zeros((len(left), len(right)), np.bool_)
    step = max(1, _BLOCK // len(right))
    for part in shape.parts(schema.ndim):
        bounds = part.bounds(schema.ndim)
        low = np.array([-_WIDE if a is None else a for a, _ in bounds], np.int64)[:, None]
        high = np.array([_WIDE if b is None else b for _, b in bounds], np.int64)[:, None]
        for begin in range(0, len(owner), step):
            some = slice(begin, begin + step)
            touch = _overlap(lo[:, some] + low, hi[:, some] + high, rlo, rhi)
            np.logical_or.at(met, owner[some], touch)
    p, q = np.nonzero(met)
    return p, q


def _images(left: Sequence[Chunk], schema: ArraySchema, mapping: Mapping) -> tuple[Ints, Ints, Ints]:
    """Boxes that hold the images of the left cells, and whose chunk each is of."""
    if mapping.keeps_order:
        boxes = zip(*(chunk.box for chunk in left), strict=True)
        least, greatest = (np.stack(side, axis=1) for side in boxes)
        lo, hi = mapping.image(least, greatest)
        return np.arange(len(left)), lo, hi
    found: list[tuple[Ints, Ints]] = []
    for p, chunk in enumerate(left):
        images = mapping.cells(chunk.coords)
        landed = np.unique(schema.chunk_places(images), axis=1)
        found.append((np.full(landed.shape[1], p, np.int64), landed))
    owner = np.concatenate([p for p, _ in found])
    places: Ints = np.concatenate([at for _, at in found], axis=1)
    first = np.add(schema.lo[:, None], places * schema.lengths[:, None], dtype=np.int64)
    last = np.add(first, schema.lengths[:, None] - 1, dtype=np.int64)
    return owner, first, last


def _overlap(lo: Ints, hi: Ints, rlo: Ints, rhi: Ints) -> NDArray[np.bool_]:
    """Which boxes overlap which: a row for each of the first, a column for each of the second."""
    found = np.ones((lo.shape[1], rlo.shape[1]), np.bool_)
    for a, b, c, d in zip(lo, hi, rlo, rhi, strict=True):
        found &= (a[:, None] <= d) & (c <= b[:, None])
    return found
