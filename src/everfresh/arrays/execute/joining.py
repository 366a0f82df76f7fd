"""A join of two arrays as the planner reads it, and as the kernels do: reach and image, then pairs of cells.

The reach is that of the shape's parts; where both arrays have equal chunks and cells stay where they are, the
chunk offsets of the shape cut the pairs further (section 4.3 of the paper on similarity joins). Mappings that
keep no order are known by the boxes in which the cells of each left chunk land, which whoever has the cells
finds by `landed`. Invariant: no pair of chunks with matching cells is left out, and the cells found over the
pairs of a plan are those of the join, each once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.arrays.chunk import Chunk
from everfresh.arrays.execute.catalog import Catalog
from everfresh.arrays.execute.worker import Batch
from everfresh.arrays.join import Cells, Pairs, counted, matched
from everfresh.arrays.mapping import Affine
from everfresh.arrays.mapping import Mapping as CellMapping
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.partners import cells_of
from everfresh.arrays.plan import Chunks, Plan, PlanOptions, Problem, Reach, chunk_offsets, plan_problem
from everfresh.arrays.plan.pairs import landed_pairs, ordered_pairs, problem_of
from everfresh.arrays.shape import Shape
from everfresh.errors import EverfreshError

BLOCK = 1 << 21
"""Matches that are held at a time, unless one pair of chunks has more."""
_OFFSETS = 1 << 16
"""Up to so many cells of a shape its chunk offsets are found by enumeration."""
Landed = tuple[Ints, Ints, Ints]
"""Boxes in which cells of left chunks land: the chunk's number, and the first and last index of each box, a
row for each dimension."""


@dataclass(frozen=True)
class JoinSpec:
    """Which cells join: (a, b) if `b - mapping(a)` is in the shape. `same` says that both sides are one
    array, whose chunks are one object in either role."""

    left: ArraySchema
    right: ArraySchema
    mapping: CellMapping
    shape: Shape
    same: bool = False
    centers: bool = False
    """Whether a left cell counts once, however many tuples it holds."""

    @cached_property
    def identity(self) -> bool:
        """Whether left cells stay where they are."""
        return isinstance(self.mapping, Affine) and (
            self.mapping.is_identity and self.left.ndim == self.right.ndim == self.mapping.outputs
        )

    @cached_property
    def reach(self) -> Reach | None:
        """How far the shape reaches; None for a shape without cells."""
        ndim = self.right.ndim
        boxes = [part.bounds(ndim) for part in self.shape.parts(ndim)]
        boxes = [b for b in boxes if all(lo is None or hi is None or lo <= hi for lo, hi in b)]
        if not boxes:
            return None
        ends = tuple((tuple(_low(b)), tuple(_high(b))) for b in boxes)
        return Reach(ends, self._offsets())

    def _offsets(self) -> frozenset[tuple[int, ...]] | None:
        left, right = self.left, self.right
        equal = (left.lengths == right.lengths).all() and (left.lo == right.lo).all() if self.identity else 0
        if not equal or not self.shape.is_bounded(right.ndim):
            return None
        try:
            if self.shape.cells(right.ndim) > _OFFSETS:
                return None
        except EverfreshError:  # too many to list
            return None
        return chunk_offsets(self.shape.offsets(right.ndim).T, right.lengths.tolist())

    # -- the plan ------------------------------------------------------------------------------------------

    def problem(
        self, left: Catalog, right: Catalog | None, workers: int, landed: Landed | None = None
    ) -> Problem:
        """The chunk pairs; `right` is None if both sides are one array."""
        a, b = left.chunks(), None if right is None else right.chunks()
        other = a if b is None else b
        if self.reach is None or landed is None or not len(a) or not len(other):
            return problem_of(a, b, *self.chunk_pairs(a, other), workers)
        owner, lo, hi = landed
        p, q = landed_pairs(left.places(owner), (lo.T, hi.T), other, self.reach)
        return problem_of(a, b, p, q, workers)

    def chunk_pairs(self, left: Chunks, right: Chunks) -> tuple[Ints, Ints]:
        """Left chunks and the right chunks that they may match, by their boxes: all, if the mapping keeps no
        order."""
        if self.reach is None or not len(left) or not len(right):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if not self.mapping.keeps_order:
            return np.repeat(np.arange(len(left)), len(right)), np.tile(np.arange(len(right)), len(left))
        return ordered_pairs(left, right, self.reach, None if self.identity else self._image)

    def _image(self, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
        """Boxes carried by the mapping, a row for each."""
        low, high = self.mapping.image(lo.T, hi.T)
        return low.T, high.T

    def landed(self, chunk: Chunk) -> tuple[Ints, Ints]:
        """The boxes of the right chunks in which cells of a left chunk land."""
        images = self.mapping.cells(chunk.coords)
        places: Ints = np.unique(self.right.chunk_places(images), axis=1)
        first = np.add(self.right.lo[:, None], places * self.right.lengths[:, None], dtype=np.int64)
        return first, np.add(first, self.right.lengths[:, None] - 1, dtype=np.int64)

    # -- cells ---------------------------------------------------------------------------------------------

    def sides(self, batch: Batch) -> tuple[list[int], list[int], Cells, Cells, Pairs]:
        """The chunks of a batch as the kernel reads them: positions of both sides, their cells, pairs."""
        if self.same and self.identity:
            every = np.unique(np.concatenate([batch.left, batch.right]))
            cells = cells_of([batch.chunks[k] for k in every.tolist()])
            pairs = np.searchsorted(every, batch.left), np.searchsorted(every, batch.right)
            return every.tolist(), every.tolist(), cells, cells, pairs
        a, b = np.unique(batch.left), np.unique(batch.right)
        mapping = None if self.identity else self.mapping
        left = cells_of([batch.chunks[k] for k in a.tolist()], mapping)
        right = cells_of([batch.chunks[k] for k in b.tolist()])
        pairs = np.searchsorted(a, batch.left), np.searchsorted(b, batch.right)
        return a.tolist(), b.tolist(), left, right, pairs

    def counts(self, batch: Batch) -> Iterator[tuple[int, Ints]]:
        """How many matches each cell of each left chunk has: no pair is made."""
        at, _, left, right, pairs = self.sides(batch)
        found = counted(left, right, self.shape, pairs)
        for position in np.unique(pairs[0]).tolist():
            yield at[position], found[left.starts[position] : left.starts[position + 1]]

    def matches(self, batch: Batch, block: int = BLOCK) -> Iterator[Pairs]:
        """Positions of matching cells in the chunks of both sides, put one after the other by `sides`."""
        _, _, left, right, pairs = self.sides(batch)
        yield from self._blocks(left, right, pairs, block)

    def _blocks(self, left: Cells, right: Cells, pairs: Pairs, block: int) -> Iterator[Pairs]:
        first, second = pairs
        sizes = np.diff(left.starts)[first] * np.diff(right.starts)[second]
        if len(first) > 1 and sizes.sum() > block:
            count = int(counted(left, right, self.shape, pairs).sum())
            if count > block:
                middle = min(max(1, int(np.searchsorted(np.cumsum(sizes), sizes.sum() // 2))), len(first) - 1)
                yield from self._blocks(left, right, (first[:middle], second[:middle]), block)
                yield from self._blocks(left, right, (first[middle:], second[middle:]), block)
                return
            if not count:
                return
        yield matched(left, right, self.shape, pairs)

    def rows(self, batch: Batch, block: int = BLOCK) -> Iterator[pa.Table]:
        """The matching pairs as rows, block by block: the left columns, then the right ones, by number."""
        at, to, left, right, pairs = self.sides(batch)
        a = pa.concat_tables([batch.chunks[k].table for k in at])
        b = a if to is at else pa.concat_tables([batch.chunks[k].table for k in to])
        once = _first_tuples(left.coords) if self.centers else None
        for i, j in self._blocks(left, right, pairs, block):
            if once is not None:
                i, j = i[once[i]], j[once[i]]
            columns = [*a.take(i).columns, *b.take(j).columns]
            yield pa.Table.from_arrays(columns, [str(k) for k in range(len(columns))])


def _first_tuples(coords: Ints) -> NDArray[np.bool_]:
    """Of sorted cells, chunk by chunk, those that are not of the cell before."""
    found = np.ones(coords.shape[1], np.bool_)
    found[1:] = (coords[:, 1:] != coords[:, :-1]).any(axis=0)
    return found


def _low(bounds: tuple[tuple[int | None, int | None], ...]) -> Iterator[int | None]:
    return (lo if hi is not None else None for lo, hi in bounds)


def _high(bounds: tuple[tuple[int | None, int | None], ...]) -> Iterator[int | None]:
    return (hi if lo is not None else None for lo, hi in bounds)


def prepared(
    spec: JoinSpec,
    left: Catalog,
    right: Catalog | None,
    workers: int,
    options: PlanOptions | None = None,
    landed: Landed | None = None,
) -> Plan:
    """The plan of a join, from catalogs whose chunks are at `workers` workers."""
    return plan_problem(spec.problem(left, right, workers, landed), options)


def landed_of(spec: JoinSpec, chunks: Mapping[int, Chunk]) -> Landed:
    """Where the cells of chunks land, chunk by chunk."""
    owner, lows, highs = [np.empty(0, np.int64)], [], []
    empty = np.empty((spec.right.ndim, 0), np.int64)
    for number, chunk in chunks.items():
        lo, hi = spec.landed(chunk)
        owner.append(np.full(lo.shape[1], number, np.int64))
        lows.append(lo)
        highs.append(hi)
    return (
        np.concatenate(owner),
        np.concatenate([empty, *lows], axis=1),
        np.concatenate([empty, *highs], axis=1),
    )
