"""Boxes of cells: where a file, a piece of one, or a query lies in the space of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bound = tuple[int | None, int | None]
_WIDE = 1 << 62
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class Box:
    """The cells from `lo` to `hi`, both included, in each dimension.

    >>> Box((1, 2), (5, 4)).met(Box((5, 1), (9, 3)))
    Box(lo=(5, 2), hi=(5, 3))
    """

    lo: tuple[int, ...]
    hi: tuple[int, ...]

    @staticmethod
    def of(lo: Sequence[int] | Ints, hi: Sequence[int] | Ints) -> Box:
        """A box with these corners."""
        return Box(tuple(int(x) for x in lo), tuple(int(x) for x in hi))

    def met(self, other: Box) -> Box | None:
        """The cells that are in both boxes; None where there are none."""
        lo = tuple(map(max, self.lo, other.lo))
        hi = tuple(map(min, self.hi, other.hi))
        return Box(lo, hi) if all(a <= b for a, b in zip(lo, hi, strict=True)) else None

    def hull(self, other: Box) -> Box:
        """The least box that holds both."""
        return Box(tuple(map(min, self.lo, other.lo)), tuple(map(max, self.hi, other.hi)))

    def widened(self, bounds: Sequence[Bound]) -> Box:
        """The cells that offsets within these bounds lead to; None for a bound means any index."""
        lo = tuple(-_WIDE if a is None else x + a for x, (a, _) in zip(self.lo, bounds, strict=True))
        hi = tuple(_WIDE if b is None else x + b for x, (_, b) in zip(self.hi, bounds, strict=True))
        return Box(lo, hi)

    @property
    def volume(self) -> int:
        """How many cells there is room for."""
        total = 1
        for a, b in zip(self.lo, self.hi, strict=True):
            total *= b - a + 1
        return total

    def holds(self, coords: Ints) -> Mask:
        """Which cells, a column each, are inside."""
        found = np.ones(coords.shape[1], np.bool_)
        for lo, hi, row in zip(self.lo, self.hi, coords, strict=True):
            found &= row >= lo
            found &= row <= hi
        return found

    def __str__(self) -> str:
        return " x ".join(f"{a}..{b}" for a, b in zip(self.lo, self.hi, strict=True))


def held(boxes: Sequence[Box], coords: Ints) -> Mask:
    """Which cells are in one of the boxes."""
    found = np.zeros(coords.shape[1], np.bool_)
    for box in boxes:
        found |= box.holds(coords)
    return found


def tight(coords: Ints) -> Box:
    """The least box that holds these cells, at least one, a column each."""
    return Box.of(coords.min(axis=1), coords.max(axis=1))


def overlapping(lo: Ints, hi: Ints, box: Box) -> Mask:
    """Which of the boxes, a row each, have room for a cell of `box`."""
    found = (lo <= np.array(box.hi, np.int64)) & (hi >= np.array(box.lo, np.int64))
    return np.asarray(found.all(axis=1), np.bool_)


def near(left: tuple[Ints, Ints], right: tuple[Ints, Ints], bounds: Sequence[Bound]) -> tuple[Ints, Ints]:
    """The pairs of boxes, a row each, in which an offset within the bounds can lead from left to right.

    >>> row = np.array([[1], [4], [9]]), np.array([[2], [4], [9]])
    >>> [side.tolist() for side in near(row, row, [(-2, 0)])]
    [[0, 1, 1, 2], [0, 0, 1, 2]]
    """
    low = np.array([-_WIDE if a is None else a for a, _ in bounds], np.int64)
    high = np.array([_WIDE if b is None else b for _, b in bounds], np.int64)
    found_p, found_q = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    step = max(1, _BLOCK // max(1, len(right[0])))
    for begin in range(0, len(left[0]), step):
        some = slice(begin, begin + step)
        lo, hi = left[0][some] + low, left[1][some] + high
        touch = np.ones((len(lo), len(right[0])), np.bool_)
        for k in range(lo.shape[1]):
            touch &= (lo[:, k, None] <= right[1][:, k]) & (right[0][:, k] <= hi[:, k, None])
        p, q = np.nonzero(touch)
        found_p.append(p + begin)
        found_q.append(q)
    return np.concatenate(found_p), np.concatenate(found_q)
