"""Which chunks have to meet: chunk pairs from the reach of a shape and a mapping, in bulk.

A left chunk's box is carried into the right array's space by the mapping, widened by the reach of the shape,
and cut into the right array's chunks by floor division; those that exist are looked up in one sorted column
of keys, for all left chunks at once (the paper on similarity joins, section 4.3; `docs/design/arrays.md`).
Then the tight boxes decide, the chunk offsets of the shape if given, and an exact test if given. Nothing is
quadratic in the number of chunks.

Invariant: no pair with matching cells is left out. Pairs of a self-join are unordered, p <= q, with the
directions in which they are evaluated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from everfresh.arrays.plan.catalog import Chunks, Ints, Mask, frozen
from everfresh.arrays.plan.place import mixed
from everfresh.errors import Code, EverfreshError

Boxes = tuple[Ints, Ints]
"""The least and the greatest indices of boxes, one row per box."""
Image = Callable[[Ints, Ints], Boxes]
"""A mapping of boxes of the left array to boxes of the right one that hold the images of their cells."""
Overlaps = Callable[[Boxes, Boxes], Mask]
"""Row by row: whether an offset of the shape leads from the first box (mapped) into the second."""

FORWARD, BACKWARD = 1, 2
"""Directions of a pair: its first chunk in the left role, its second chunk in the left role."""


@dataclass(frozen=True)
class Reach:
    """How far a shape reaches, as boxes of offsets, one bound per dimension of the right array.

    `boxes` together hold all offsets; None for a bound means any index. `offsets` are the chunk offsets of
    the shape, which are known where both arrays have the same chunks and the mapping is the identity.
    `overlaps` is an exact test of boxes. All three only ever remove pairs.

    >>> Reach.box((-1, -1), (1, 1)).boxes
    (((-1, -1), (1, 1)),)
    """

    boxes: tuple[tuple[tuple[int | None, ...], tuple[int | None, ...]], ...]
    offsets: frozenset[tuple[int, ...]] | None = None
    overlaps: Overlaps | None = None

    def __post_init__(self) -> None:
        sizes = {len(bound) for box in self.boxes for bound in box}
        if len(sizes) != 1:
            raise EverfreshError(Code.ARGUMENT, "the boxes of a reach differ in dimensions", place="boxes")
        for lo, hi in self.boxes:
            for a, b in zip(lo, hi, strict=True):
                if (a is None) != (b is None) or (a is not None and b is not None and a > b):
                    raise EverfreshError(Code.ARGUMENT, f"no offset is in {a} .. {b}", place="boxes")

    @staticmethod
    def box(
        lo: Sequence[int | None],
        hi: Sequence[int | None],
        offsets: frozenset[tuple[int, ...]] | None = None,
        overlaps: Overlaps | None = None,
    ) -> Reach:
        """One box of offsets."""
        return Reach(((tuple(lo), tuple(hi)),), offsets, overlaps)

    @property
    def dimensions(self) -> int:
        """Of the right array."""
        return len(self.boxes[0][0])


def chunk_offsets(cells: Ints, length: Sequence[int]) -> frozenset[tuple[int, ...]]:
    """The chunk offsets that a set of cell offsets leads to, where both arrays have chunks of `length`.

    An offset s carries a chunk onto chunks s // c and (s + c - 1) // c of a dimension: one or two.

    >>> sorted(chunk_offsets(np.array([[-112], [1]]), [112]))
    [(-1,), (0,), (1,)]
    """
    c = np.array(length, np.int64)
    low, high = cells // c, (cells + c - 1) // c
    found: set[tuple[int, ...]] = set()
    for sides in itertools.product((False, True), repeat=len(c)):
        corner = np.where(np.array(sides), high, low)
        found.update(tuple(row) for row in np.unique(corner, axis=0).tolist())
    return frozenset(found)


def affine(terms: Sequence[tuple[int, int, int]]) -> Image:
    """The mapping that gives each right dimension `a * left[dimension] + b` for its (dimension, a, b).

    >>> lo, hi = affine([(1, -2, 10)])(np.array([[0, 1]]), np.array([[0, 3]]))
    >>> lo.tolist(), hi.tolist()
    ([[4]], [[8]])
    """
    at, a, b = (np.array(column, np.int64) for column in zip(*terms, strict=True))

    def image(lo: Ints, hi: Ints) -> Boxes:
        one, other = lo[:, at] * a + b, hi[:, at] * a + b
        return np.minimum(one, other), np.maximum(one, other)

    return image


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be joined: chunks, each one object whatever its role, and pairs of them.

    Chunks of the left array come first; a self-join has them once. `ways` holds the directions of a pair.
    """

    workers: int
    cells: Ints
    bytes: Ints
    home: Ints
    key: npt.NDArray[np.uint64]  # a hash of the chunk's place
    rank: Ints  # the chunk's place along a space-filling curve
    first: Ints
    second: Ints
    ways: Ints

    @property
    def work(self) -> Ints:
        """Candidate cell pairs of each chunk pair, over its directions."""
        return self.cells[self.first] * self.cells[self.second] * ((self.ways & 1) + (self.ways >> 1))


def problem(
    left: Chunks, reach: Reach, workers: int, right: Chunks | None = None, image: Image | None = None
) -> Problem:
    """The chunk pairs of a join of two arrays, or of one with itself if there is no `right`.

    >>> row = Chunks.of([[1], [4]], [[2], [4]], cells=[2, 1], start=[1], length=[2], home=[0, 1])
    >>> found = problem(row, Reach.box([-2], [-1]), workers=2)
    >>> found.first.tolist(), found.second.tolist(), found.ways.tolist()
    ([0, 0], [0, 1], [1, 2])
    """
    other = left if right is None else right
    homes = left.home.max(initial=-1), other.home.max(initial=-1)
    if workers < 1 or max(homes) >= workers:
        raise EverfreshError(
            Code.ARGUMENT, f"chunks are kept by more workers than {workers}", place="workers",
            hint="place the chunks over as many workers as the plan is for",
        )  # fmt: skip
    return problem_of(left, right, *ordered_pairs(left, other, reach, image), workers)


def problem_of(left: Chunks, right: Chunks | None, p: Ints, q: Ints, workers: int) -> Problem:
    """The problem of known ordered pairs: left chunks `p`, right chunks `q`."""
    from everfresh.arrays.plan.place import hilbert

    if right is None:
        first, second, ways = _unordered(p, q, len(left))
        parts = [left]
    else:
        first, second, ways = p, q + len(left), np.full(len(p), FORWARD)
        parts = [left, right]
    rank = np.empty(sum(map(len, parts)), np.int64)
    curve = np.concatenate([hilbert(part.coords) for part in parts])
    rank[np.argsort(curve, kind="stable")] = np.arange(len(rank))
    key = np.concatenate([mixed(part.coords) for part in parts])
    key.setflags(write=False)
    cells, size, home = (
        frozen(np.concatenate(columns))
        for columns in zip(*((part.cells, part.bytes, part.home) for part in parts), strict=True)
    )
    return Problem(workers, cells, size, home, key, frozen(rank), frozen(first), frozen(second), frozen(ways))


def ordered_pairs(left: Chunks, right: Chunks, reach: Reach, image: Image | None = None) -> tuple[Ints, Ints]:
    """Left chunks and the right chunks that they may match, in the order of the left, then of the right."""
    same = image is None and left.length == right.length and left.start == right.start
    if reach.dimensions != right.dimensions or (image is None and left.dimensions != right.dimensions):
        raise EverfreshError(
            Code.ARGUMENT, "the dimensions of the shape are not those of the right array", place="reach",
            hint="without a mapping, both arrays and the shape have the same dimensions",
        )  # fmt: skip
    if reach.offsets is not None and not same:
        raise EverfreshError(
            Code.ARGUMENT, "chunk offsets need equal chunks and the identity as mapping", place="offsets"
        )
    lo, hi = (left.lo, left.hi) if image is None else image(left.lo, left.hi)
    found = [_near((lo, hi), right, box) for box in reach.boxes]
    p, q = found[0]
    if len(found) > 1:
        keys = np.unique(np.concatenate([a * len(right) + b for a, b in found]))
    else:
        keys = np.sort(p * len(right) + q)
    p, q = keys // max(len(right), 1), keys % max(len(right), 1)
    if reach.offsets is not None:
        keep = _member(right.coords[q] - left.coords[p], reach.offsets)
        p, q = p[keep], q[keep]
    if reach.overlaps is not None and len(p):
        keep = reach.overlaps((lo[p], hi[p]), (right.lo[q], right.hi[q]))
        p, q = p[keep], q[keep]
    return p, q


def landed_pairs(owner: Ints, boxes: Boxes, right: Chunks, reach: Reach) -> tuple[Ints, Ints]:
    """The same for left chunks that are known by several boxes each: `owner` says whose a box is."""
    found = [_near(boxes, right, box) for box in reach.boxes]
    empty = np.empty(0, np.int64)
    p = np.concatenate([empty, *(owner[a] for a, _ in found)])
    q = np.concatenate([empty, *(b for _, b in found)])
    keys = np.unique(p * max(len(right), 1) + q)
    return keys // max(len(right), 1), keys % max(len(right), 1)


def _near(
    boxes: Boxes, right: Chunks, reach: tuple[tuple[int | None, ...], tuple[int | None, ...]]
) -> tuple[Ints, Ints]:
    """Rows of `boxes` and right chunks whose tight boxes meet after widening, without order.

    Coordinates are replaced by their ranks among those that exist, so that a bound of None is a range like
    any other and keys are small. The dimensions without bounds, or the widest one, come last in the key:
    there, one range of the sorted keys has all partners; over the others' ranks we go one by one.
    """
    rows, dims = len(boxes[0]), right.dimensions
    first, last, sizes, ranks = [], [], [], []
    for d in range(dims):
        values, rank = np.unique(right.coords[:, d], return_inverse=True)
        a, b = reach[0][d], reach[1][d]
        if a is None or b is None:
            first.append(np.zeros(rows, np.int64))
            last.append(np.full(rows, len(values)))
        else:
            low = (boxes[0][:, d] + a - right.start[d]) // right.length[d]
            high = (boxes[1][:, d] + b - right.start[d]) // right.length[d]
            first.append(np.searchsorted(values, low, "left"))
            last.append(np.searchsorted(values, high, "right"))
        sizes.append(len(values))
        ranks.append(rank.astype(np.int64))
    free = [d for d in range(dims) if reach[0][d] is None]
    widths = [int(np.max(last[d] - first[d], initial=0)) for d in range(dims)]
    tail = free or [int(np.argmax(widths))]
    head = [d for d in range(dims) if d not in tail]
    if rows == 0 or min(sizes) == 0 or min(widths) < 1:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys, order, strides = _keys(ranks, sizes, head + tail)
    span = int(np.prod([sizes[d] for d in tail]))
    ps, qs = [], []
    for step in itertools.product(*(range(widths[d]) for d in head)):
        inside = np.ones(rows, bool)
        prefix = np.zeros(rows, np.int64)
        for d, k in zip(head, step, strict=True):
            inside &= first[d] + k < last[d]
            prefix += (first[d] + k) * strides[d]
        some = np.flatnonzero(inside)
        low = prefix[some] + (0 if free else first[tail[0]][some])
        high = prefix[some] + (span if free else last[tail[0]][some])
        begin, end = np.searchsorted(keys, low), np.searchsorted(keys, high)
        count = np.maximum(end - begin, 0)
        p = np.repeat(some, count)
        at = np.arange(len(p)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)
        q = order[at]
        keep = _meet(boxes, right, reach, p, q)
        ps.append(p[keep])
        qs.append(q[keep])
    return np.concatenate(ps), np.concatenate(qs)


def _keys(ranks: list[Ints], sizes: list[int], dims: list[int]) -> tuple[Ints, Ints, dict[int, int]]:
    """Sorted keys of chunks, the chunks in that order, and what one step of a dimension adds to a key."""
    stride, strides = 1, {}
    for d in reversed(dims):
        strides[d] = stride
        stride *= sizes[d]
    if stride >= 1 << 63:
        raise EverfreshError(
            Code.UNSUPPORTED, "the chunks of this array have too many different places for a 64-bit key",
            place="chunks", hint="use longer chunks",
        )  # fmt: skip
    key = sum((ranks[d] * strides[d] for d in dims), start=np.zeros(len(ranks[0]), np.int64))
    order = np.argsort(key, kind="stable")
    return key[order], order.astype(np.int64), strides


def _meet(
    boxes: Boxes,
    right: Chunks,
    reach: tuple[tuple[int | None, ...], tuple[int | None, ...]],
    p: Ints,
    q: Ints,
) -> Mask:
    """Whether the tight box of p, widened, meets that of q."""
    keep = np.ones(len(p), bool)
    for d, (a, b) in enumerate(zip(*reach, strict=True)):
        if a is not None and b is not None:
            keep &= boxes[0][:, d][p] + a <= right.hi[:, d][q]
            keep &= boxes[1][:, d][p] + b >= right.lo[:, d][q]
    return keep


def _member(steps: Ints, offsets: frozenset[tuple[int, ...]]) -> Mask:
    """Whether each row is one of the offsets."""
    if not offsets:
        return np.zeros(len(steps), bool)
    known = np.array(sorted(offsets), np.int64)
    low, high = known.min(axis=0), known.max(axis=0)
    table = np.zeros(tuple(high - low + 1), bool)
    table[tuple((known - low).T)] = True
    inside = ((steps >= low) & (steps <= high)).all(axis=1)
    found = np.zeros(len(steps), bool)
    found[inside] = table[tuple((steps[inside] - low).T)]
    return found


def _unordered(p: Ints, q: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Ordered pairs of one array as unordered ones with their directions."""
    back = p > q
    codes = np.sort((np.where(back, q * count + p, p * count + q) << 1) | back)
    keys = codes >> 1
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else keys
    ways = np.add.reduceat(np.where(codes & 1, BACKWARD, FORWARD), begins) if len(keys) else keys
    keys = keys[begins]
    return keys // max(count, 1), keys % max(count, 1), ways
