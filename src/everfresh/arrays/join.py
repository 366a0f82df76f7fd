"""Cells that match by a shape: counts, pairs, and aggregates of the cells of chunk pairs.

Prepares what the compiled loop reads (`kernels.match`): the shape's parts, each as row intervals along the
dimension that makes them longest, and cells as sorted 64-bit keys, row-major in that order of dimensions and
padded by the reach. Dimensions in which a part has no bound are left out of its keys, and what else the part
asks for is tested pair by pair. Little work is done by NumPy, so that a small join never waits for Numba.

Invariant: (a, b) is found iff `b - a` is in the shape, as often as the two sides hold it, where `a` is the
left cell after mapping; the order is not fixed. `brute_force` is the slow twin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.arrays.kernels.match import AUTO, COUNT, FOLD, PAIRS
from everfresh.arrays.shape import Cuboid, Offsets, Rows, Shape
from everfresh.errors import Code, EverfreshError

Ints = NDArray[np.int64]
Pairs = tuple[Ints, Ints]
"""Positions of matching cells: left, right."""
_WIDE = 1 << 62
_FEW = 200_000
"""Up to so many steps of the sweep NumPy is fast enough, however cold the kernels are."""
_MANY = 1 << 16
"""From so many keys on they are sorted by digits."""
_SINGLES = 4096
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of one or more chunks, one after the other; `starts` says where each begins, and the end."""

    coords: Ints
    starts: Ints

    @staticmethod
    def of(coords: Any, starts: Any = None) -> Cells:
        """Cells of one chunk unless `starts` says otherwise; a row for each dimension."""
        found = np.ascontiguousarray(coords, np.int64)
        if found.ndim != 2 or not len(found):
            raise EverfreshError(Code.ARGUMENT, "coordinates have a row for each dimension")
        ends = [0, found.shape[1]] if starts is None else starts
        return Cells(found, np.asarray(ends, np.int64))

    def __len__(self) -> int:
        return int(self.coords.shape[1])


@dataclass(frozen=True, eq=False)
class Folded:
    """Aggregates per left cell of the values of its matches that are not NULL; where `count` is 0 the others
    mean nothing."""

    count: Ints
    sum: NDArray[Any]
    min: NDArray[Any]
    max: NDArray[Any]


def counted(left: Cells, right: Cells, shape: Shape, pairs: Pairs | None = None, *, how: int = AUTO) -> Ints:
    """How many right cells match each left cell, over these pairs of chunks, or over all.

    >>> from everfresh.arrays.shape import L1
    >>> a = Cells.of([[1, 1, 2, 5], [1, 2, 2, 5]])
    >>> counted(a, a, L1(1)).tolist()
    [2, 3, 2, 1]
    """
    counts = np.zeros(len(left), np.int64)
    for part in _parts(left, right, shape, pairs, how):
        if part.test is None:
            counts += part.counted()
        else:
            for li, _ in part.blocks():
                counts += np.bincount(li, minlength=len(left))
    return counts


def total(left: Cells, right: Cells, shape: Shape, pairs: Pairs | None = None) -> int:
    """How many matches there are in all."""
    return int(counted(left, right, shape, pairs).sum())


def matched(left: Cells, right: Cells, shape: Shape, pairs: Pairs | None = None, *, how: int = AUTO) -> Pairs:
    """All matches: positions of left and of right cells, in no certain order."""
    found = [block for part in _parts(left, right, shape, pairs, how) for block in part.blocks()]
    empty = np.empty(0, np.int64)
    return (
        np.concatenate([empty, *(li for li, _ in found)]),
        np.concatenate([empty, *(ri for _, ri in found)]),
    )


def folded(
    left: Cells,
    right: Cells,
    shape: Shape,
    values: NDArray[Any],
    valid: NDArray[np.bool_] | None = None,
    pairs: Pairs | None = None,
    *,
    how: int = AUTO,
) -> Folded:
    """COUNT, SUM, MIN and MAX of a value of the right cells over the matches of each left cell.

    `values` are 64-bit integers, whose sums must fit 64 bits, or doubles, summed with compensation.

    >>> from everfresh.arrays.shape import Linf
    >>> a = Cells.of([[1, 2, 4]])
    >>> found = folded(a, a, Linf(1), np.array([10, 20, 40]))
    >>> found.count.tolist(), found.sum.tolist(), found.max.tolist()
    ([2, 2, 1], [30, 30, 40], [20, 20, 40])
    """
    kind = np.float64 if values.dtype.kind == "f" else np.int64
    column = np.ascontiguousarray(values, kind)
    there = np.ones(len(right), np.bool_) if valid is None else np.ascontiguousarray(valid)
    counts, folds = np.zeros(len(left), np.int64), np.zeros((4, len(left)), kind)
    for part in _parts(left, right, shape, pairs, how):
        part.fold(column, there, counts, folds)
    total = folds[0]
    if kind is np.float64:
        with np.errstate(invalid="ignore"):
            total = np.where(np.isfinite(folds[0]), folds[0] + folds[1], folds[0])
    return Folded(counts, total, folds[2], folds[3])


def brute_force(left: Ints, right: Ints, shape: Shape) -> Pairs:
    """The slow twin: every cell with every cell, by the definition of the shape."""
    n, m = left.shape[1], right.shape[1]
    found: list[Pairs] = []
    step = max(1, _BLOCK // max(m, 1))
    for begin in range(0, n, step):
        some = left[:, begin : begin + step]
        offsets = (right[:, None, :] - some[:, :, None]).reshape(len(left), -1)
        hits = np.flatnonzero(shape.contains(offsets))
        found.append((begin + hits // max(m, 1), hits % max(m, 1)))
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *(f[0] for f in found)]), np.concatenate([empty, *(f[1] for f in found)])


# -- parts of a join -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Side:
    """One side as the kernel reads it; `order` says which cell stands at a position."""

    keys: Ints
    coords: Ints
    starts: Ints
    boxes: Ints
    order: Ints | None

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the shape with both sides prepared for it."""

    left: _Side
    right: _Side
    first: Ints
    second: Ints
    lo: Ints
    hi: Ints
    reach: Ints
    singles: Ints
    how: int
    test: tuple[Shape, Ints, Ints] | None  # what pairs must fulfil besides, and the coordinates

    @property
    def _is_small(self) -> bool:
        """Whether NumPy does it sooner than Numba is loaded."""
        if self.how != AUTO or len(self.first) * max(1, len(self.lo)) > 64:
            return False
        sizes = np.diff(self.left.starts)[self.first] + np.diff(self.right.starts)[self.second]
        return int(sizes.sum()) * max(1, len(self.lo)) <= _FEW

    def _run(self, mode: int, counts: Ints, found: Ints, values: Any, valid: Any, folds: Any) -> int:
        from everfresh.arrays.kernels import match

        a, b = self.left, self.right
        done: int = match.match.native(
            mode, self.how, a.keys, a.coords, a.starts, a.boxes, b.keys, b.coords, b.starts, b.boxes,
            self.first, self.second, self.lo, self.hi, self.reach, self.singles, counts, found, values,
            valid, folds,
        )  # fmt: skip
        return done

    def _slices(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """By NumPy: left positions, and the ranges of right positions that they match."""
        for p, q in zip(self.first, self.second, strict=True):
            at, end = self.left.starts[p], self.left.starts[p + 1]
            base, stop = self.right.starts[q], self.right.starts[q + 1]
            a, b = self.left.keys[at:end], self.right.keys[base:stop]
            for lo, hi in zip(self.lo, self.hi, strict=True):
                begins = np.searchsorted(b, a + lo, "left")
                ends = np.searchsorted(b, a + hi, "right")
                yield np.arange(at, end), begins + base, ends + base

    def counted(self) -> Ints:
        """Matches per left cell, in the order in which cells were given."""
        counts = np.zeros(len(self.left), np.int64)
        if self._is_small:
            for i, begins, ends in self._slices():
                counts[i] += ends - begins
        else:
            none = np.zeros((4, 0))
            self._run(COUNT, counts, np.empty((2, 0), np.int64), none[0], np.zeros(0, np.bool_), none)
        return _in_order(counts, self.left)

    def blocks(self) -> Iterator[Pairs]:
        """The matches, block by block."""
        for li, ri in self._found():
            i = li if self.left.order is None else self.left.order[li]
            j = ri if self.right.order is None else self.right.order[ri]
            if self.test is not None:
                shape, left, right = self.test
                keep = shape.contains(right[:, j] - left[:, i])
                i, j = i[keep], j[keep]
            yield i, j

    def _found(self) -> Iterator[Pairs]:
        if self._is_small:
            for i, begins, ends in self._slices():
                lengths = ends - begins
                starts = np.cumsum(lengths) - lengths
                yield (
                    np.repeat(i, lengths),
                    np.arange(int(lengths.sum())) + np.repeat(begins - starts, lengths),
                )
            return
        counts, none = np.zeros(len(self.left), np.int64), np.zeros((4, 0))
        nothing = none[0], np.zeros(0, np.bool_), none
        self._run(COUNT, counts, np.empty((2, 0), np.int64), *nothing)
        found = np.empty((2, int(counts.sum())), np.int64)
        self._run(PAIRS, counts, found, *nothing)
        yield found[0], found[1]

    def fold(self, values: Any, valid: Any, counts: Ints, folds: Any) -> None:
        """Add the matches' values to aggregates, in the order in which cells were given."""
        if self.test is not None or self._is_small:
            for i, j in self.blocks():
                keep = valid[j]
                _fold_pairs(i[keep], values[j[keep]], counts, folds)
            return
        right = self.right.order
        columns = (values, valid) if right is None else (values[right], valid[right])
        order = self.left.order
        some = counts if order is None else counts[order]
        part = folds if order is None else np.ascontiguousarray(folds[:, order])
        self._run(FOLD, some, np.empty((2, 0), np.int64), *columns, part)
        if order is not None:
            counts[order] = some
            folds[:, order] = part


def _fold_pairs(i: Ints, values: Any, counts: Ints, folds: Any) -> None:
    """The same for matches that were found already; sums are compensated, match by match."""
    order = np.argsort(i, kind="stable")
    i, values = i[order], values[order]
    starts = np.flatnonzero(np.concatenate(([True], i[1:] != i[:-1]))) if len(i) else i
    at = i[starts]
    rank = np.arange(len(i)) - np.repeat(starts, np.diff(np.append(starts, len(i))))
    fresh = at[counts[at] == 0]
    chosen = starts[counts[at] == 0]
    folds[2, fresh] = folds[3, fresh] = values[chosen]
    np.minimum.at(folds[2], i, values)
    np.maximum.at(folds[3], i, values)
    with np.errstate(invalid="ignore"):
        for k in range(int(rank.max(initial=-1)) + 1):
            some = rank == k
            where, v = i[some], values[some]
            total = folds[0, where]
            added = total + v
            back = added - total
            folds[1, where] += (total - (added - back)) + (v - back)
            folds[0, where] = added
    np.add.at(counts, i, 1)


def _in_order(values: Ints, side: _Side) -> Ints:
    if side.order is None:
        return values
    found = np.empty_like(values)
    found[side.order] = values
    return found


def _parts(left: Cells, right: Cells, shape: Shape, pairs: Pairs | None, how: int) -> Iterator[_Part]:
    ndim = len(right.coords)
    if len(left.coords) != ndim:
        raise EverfreshError(
            Code.ARGUMENT,
            f"cells of {len(left.coords)} dimensions are not matched with cells of {ndim}",
            hint="map the left cells to the dimensions of the right array first",
        )
    shape.check_ndim(ndim)
    if not len(left) or not len(right):
        return
    if pairs is None:
        one = np.zeros(1, np.int64)
        same = left is right
        left = Cells.of(left.coords)
        right = left if same else Cells.of(right.coords)
        pairs = one, one
    first, second = (np.ascontiguousarray(side, np.int64) for side in pairs)
    for part in shape.parts(ndim):
        bounded = [k for k, (lo, hi) in enumerate(part.bounds(ndim)) if lo is not None and hi is not None]
        if len(bounded) == ndim:
            test = None
            core: Shape = part
            sides = left, right
        else:  # a key of the other dimensions, and a test of the rest
            half = any((lo is None) != (hi is None) for lo, hi in part.bounds(ndim))
            said = isinstance(part, Cuboid) and not half  # the key says all of it
            test = None if said else (part, left.coords, right.coords)
            core = Cuboid(tuple(part.bounds(ndim)[k] for k in bounded) or ((0, 0),))
            projected = _projected(left, bounded)
            sides = projected, projected if right is left else _projected(right, bounded)
        yield _prepared(*sides, core, first, second, how, test)


def _projected(cells: Cells, kept: list[int]) -> Cells:
    coords = cells.coords[kept] if kept else np.zeros((1, len(cells)), np.int64)
    return Cells(np.ascontiguousarray(coords), cells.starts)


def _prepared(
    left: Cells,
    right: Cells,
    shape: Shape,
    first: Ints,
    second: Ints,
    how: int,
    test: Any,
    tried: bool = False,
) -> _Part:
    ndim = len(left.coords)
    llo, lhi = left.coords.min(axis=1), left.coords.max(axis=1)
    rlo, rhi = right.coords.min(axis=1), right.coords.max(axis=1)
    within = tuple((int(a), int(b)) for a, b in zip(rlo - lhi, rhi - llo, strict=True))
    reach = shape.box(ndim)
    if any(lo < a or hi > b for (lo, hi), (a, b) in zip(shape.box(ndim), within, strict=True)) and not (
        isinstance(shape, Offsets)
    ):
        if any(lo > b or hi < a for (lo, hi), (a, b) in zip(shape.box(ndim), within, strict=True)):
            shape, first, second = Cuboid(((0, 0),) * ndim), first[:0], second[:0]  # out of reach
        else:
            shape = shape & Cuboid(within)
    rows, order = best_rows(shape, ndim)
    low = np.append(rows.prefix.min(axis=1, initial=_WIDE), rows.lo.min(initial=_WIDE))
    high = np.append(rows.prefix.max(axis=1, initial=-_WIDE), rows.hi.max(initial=-_WIDE))
    if not len(rows):
        low, high = np.zeros(ndim, np.int64), np.zeros(ndim, np.int64)
    begins = [min(int(llo[k]) + int(x), int(rlo[k])) for k, x in zip(order, low, strict=True)]
    ends = [max(int(lhi[k]) + int(x), int(rhi[k])) for k, x in zip(order, high, strict=True)]
    widths = [end - begin + 1 for begin, end in zip(begins, ends, strict=True)]
    if math.prod(widths) >= _WIDE:
        if not tried:
            nearer = _drawn_together(left, right, reach)
            return _prepared(*nearer, shape, first, second, how, test, True)
        raise EverfreshError(
            Code.UNSUPPORTED,
            "the indices of these cells do not fit one 64-bit key",
            hint="join fewer chunks at a time, or use coarser cells",
        )
    frame_lo, extents = np.array(begins, np.int64), np.array(widths, np.int64)
    strides = np.ones(ndim, np.int64)
    strides[:-1] = np.cumprod(extents[:0:-1])[::-1]
    base = strides[:-1] @ rows.prefix
    lo, hi = base + rows.lo, base + rows.hi
    by_key = np.argsort(lo, kind="stable")
    lo, hi = np.ascontiguousarray(lo[by_key]), np.ascontiguousarray(hi[by_key])
    singles = np.empty(0, np.int64)
    if float((rows.hi.astype(np.float64) - rows.lo + 1).sum()) <= _SINGLES:
        singles = np.concatenate([np.arange(a, b + 1) for a, b in zip(lo, hi, strict=True)] or [singles])
    framed = _Frame(order, frame_lo, strides, math.prod(extents.tolist()), len(first) > 1)
    one = _side(left, framed)
    other = one if right is left else _side(right, framed)
    return _Part(one, other, first, second, lo, hi, np.stack([low, high]), singles, how, test)


def _drawn_together(left: Cells, right: Cells, reach: Sequence[tuple[int, int]]) -> tuple[Cells, Cells]:
    """Cells with the same matches, where no gap between indices is longer than what is just out of reach.

    >>> from everfresh.arrays.shape import Linf
    >>> a = Cells.of([[-(1 << 61), 5, 1 << 61]])
    >>> _drawn_together(a, a, Linf(2).box(1))[0].coords.tolist()
    [[0, 3, 6]]
    """
    both: list[list[Ints]] = [[], []]
    for k, (lo, hi) in enumerate(reach):
        sides = left.coords[k], right.coords[k]
        known = np.unique(np.concatenate(sides))
        words = known.view(np.uint64)
        steps = np.minimum(words[1:] - words[:-1], np.uint64(min(max(abs(lo), abs(hi)) + 1, _WIDE)))
        if float(steps.sum(dtype=np.float64)) >= _WIDE:
            return left, right
        places = np.concatenate([np.zeros(1, np.int64), np.cumsum(steps).astype(np.int64)])
        for found, side in zip(both, sides, strict=True):
            found.append(places[np.searchsorted(known, side)])
    one = Cells(np.array(both[0]), left.starts)
    return one, one if right is left else Cells(np.array(both[1]), right.starts)


@dataclass(frozen=True, eq=False)
class _Frame:
    """How coordinates become keys: the order of dimensions, where they begin, what a step adds to a key, and
    above all keys; and whether coordinates are asked for besides."""

    order: list[int]
    lo: Ints
    strides: Ints
    end: int
    cutting: bool


def _side(cells: Cells, frame: _Frame) -> _Side:
    keys = cells.coords[frame.order[-1]] - frame.strides @ frame.lo
    for k, at in enumerate(frame.order[:-1]):
        keys += cells.coords[at] * frame.strides[k]
    moved: Ints | None = None
    breaks = keys[1:] < keys[:-1]
    breaks[cells.starts[(cells.starts > 0) & (cells.starts < len(keys))] - 1] = False
    if breaks.any():
        keys, moved = _sorted(keys, cells.starts, frame.end)
    starts = np.ascontiguousarray(cells.starts)
    if not frame.cutting:  # one pair: nothing is gained by looking at boxes
        return _Side(keys, np.zeros((0, len(keys)), np.int64), starts, np.zeros((2, 0, 1), np.int64), moved)
    coords = cells.coords[frame.order]
    coords = np.ascontiguousarray(coords if moved is None else coords[:, moved])
    some = starts[:-1] < starts[1:]
    boxes = np.zeros((2, len(coords), len(some)), np.int64)
    if some.any():
        first = starts[:-1][some]
        boxes[0][:, some] = np.minimum.reduceat(coords, first, axis=1)
        boxes[1][:, some] = np.maximum.reduceat(coords, first, axis=1)
    return _Side(keys, coords, starts, boxes, moved)


def _sorted(keys: Ints, starts: Ints, end: int) -> Pairs:
    """Keys sorted chunk by chunk, and where each was."""
    if len(starts) == 2:
        if len(keys) > _MANY:
            from everfresh.arrays.kernels import radix

            return radix.argsort.native(keys, end.bit_length())  # type: ignore[no-any-return]
        moved = np.argsort(keys, kind="stable")
    else:
        chunk = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        if (len(starts) - 1) * end < _WIDE:  # chunk and key are one number
            moved = _sorted(keys + chunk * end, np.array([0, len(keys)]), (len(starts) - 1) * end)[1]
        else:
            moved = np.lexsort((keys, chunk))
    return keys[moved], moved


@lru_cache(maxsize=256)
def best_rows(shape: Shape, ndim: int) -> tuple[Rows, list[int]]:
    """The shape's row intervals along the dimension that makes them few, and the order of dimensions for it:
    a window in time that is wide in no other dimension is swept along time.

    >>> from everfresh.arrays.shape import Cuboid
    >>> rows, order = best_rows(Cuboid(((-60, -1), (-3, 3), (-3, 3))), 3)
    >>> len(rows), order
    (49, [1, 2, 0])
    """
    rows = shape.rows(ndim)
    order = list(range(ndim))
    lengths = [hi - lo + 1 for lo, hi in shape.box(ndim)]
    longest = max(range(ndim), key=lambda k: (lengths[k], k))
    if longest != ndim - 1:
        others = shape.rows(ndim, longest)
        if 2 * len(others) <= len(rows):
            return others, [k for k in order if k != longest] + [longest]
    return rows, order
