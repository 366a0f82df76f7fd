"""Functions over frames of sorted rows: prefix sums for what adds up, a table of powers of two for extremes.

Sums are exact in between: doubles become integers over one power of two, so a value that has left the frame
leaves no trace. Cost: O(n log n) for n rows, whatever the frames are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.expr.column import object_array
from everfresh.local.adhoc.aggregate import SPREADS, average, bounded, canonical, integers, quotient, variance
from everfresh.local.adhoc.frame import Ints, take
from everfresh.local.adhoc.keys import codes, known
from everfresh.types import BIGINT, DOUBLE, SqlType

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class WindowFrames:
    """The frame of each row: places `low <= place < high`."""

    low: Ints
    high: Ints

    def sums(self, values: Array) -> Array:
        """The sum of each frame; integers are added without ever wrapping."""
        if values.dtype != object and len(values) and int(np.abs(values).max()) * len(values) >= 1 << 62:
            values = values.astype(object)
        if not len(values):
            return values
        total = np.concatenate([np.zeros(1, values.dtype), np.add.accumulate(values)])
        out: Array = total[self.high] - total[self.low]
        return out


def _numbers(vector: Vector) -> tuple[Array, int]:
    """The values as integers in units of 1 / `unit`; 0 for NULL, NaN and infinities."""
    if not vector.type.is_float:
        values = vector.values if vector.values.dtype == object else vector.values.astype(np.int64)
        return values, 10**vector.type.scale
    return integers(vector.values.astype(np.float64))


def _specials(frames: WindowFrames, vector: Vector) -> NDArray[np.float64]:
    """The sum of the infinities and NaNs of each frame; 0 where there are none."""
    if not vector.type.is_float:
        return np.zeros(len(vector))
    tests = (vector.values != vector.values, vector.values == math.inf, vector.values == -math.inf)
    nan, plus, minus = (frames.sums(test.astype(np.int64)) > 0 for test in tests)
    return np.select([nan | (plus & minus), plus, minus], [math.nan, math.inf, -math.inf], 0.0)


def _doubles(frames: WindowFrames, vector: Vector) -> NDArray[np.float64]:
    """The sum of each frame as a double; of a DECIMAL, without its scale."""
    values, unit = _numbers(vector)
    below = unit if vector.type.is_float else 1
    sums = np.array([quotient(int(x), below) for x in frames.sums(values)], np.float64)
    special = _specials(frames, vector)
    return np.where(special == 0, sums, special)


def _size(frames: WindowFrames, args: Sequence[Vector]) -> Ints:
    return frames.sums(known(args, len(frames.low)).astype(np.int64))


def _count(frames: WindowFrames, args: Sequence[Vector], _: SqlType) -> Vector:
    return Vector(BIGINT, _size(frames, args))


def _sum(frames: WindowFrames, args: Sequence[Vector], type_: SqlType) -> Vector:
    some = _size(frames, args) > 0
    if type_.is_float:
        return Vector(DOUBLE, _doubles(frames, args[0])).with_valid(some)
    sums = bounded([int(x) for x in frames.sums(_numbers(args[0])[0])], type_)
    return Vector(type_, object_array(sums, len(sums))).with_valid(some)


def _avg(frames: WindowFrames, args: Sequence[Vector], _: SqlType) -> Vector:
    n = _size(frames, args)
    return Vector(DOUBLE, average(_doubles(frames, args[0]), n, args[0].type)).with_valid(n > 0)


def _spread(sample: bool, root: bool) -> Callable[[WindowFrames, Sequence[Vector], SqlType], Vector]:
    least = 2 if sample else 1

    def run(frames: WindowFrames, args: Sequence[Vector], _: SqlType) -> Vector:
        values, unit = _numbers(args[0])
        exact = values.astype(object)
        n = _size(frames, args)
        s1, s2 = frames.sums(exact), frames.sums(exact * exact)
        found = np.array(
            [
                variance(k, a, b, unit, sample=sample) if k >= least else 0.0
                for k, a, b in zip(n.tolist(), s1.tolist(), s2.tolist(), strict=True)
            ],
            np.float64,
        )
        found = np.where(_specials(frames, args[0]) == 0, found, np.nan)
        return Vector(DOUBLE, canonical(np.sqrt(found) if root else found)).with_valid(n >= least)

    return run


def _extreme(largest: bool) -> Callable[[WindowFrames, Sequence[Vector], SqlType], Vector]:
    def run(frames: WindowFrames, args: Sequence[Vector], _: SqlType) -> Vector:
        code = codes(args[0])
        code = ~code if largest else code
        place = np.arange(len(code))
        # Ranks, NULLs above all: so the smallest of a frame is NULL only if all are.
        valid = np.ones(len(code), np.bool_) if args[0].valid is None else args[0].valid
        by_rank = np.lexsort((place, code, ~valid))
        rank = np.empty(len(code), np.int64)
        rank[by_rank] = place
        best = _smallest(frames, rank)
        return take(args[0], np.where(best < 0, -1, by_rank[best]) if len(code) else best)

    return run


def _smallest(frames: WindowFrames, values: Ints) -> Ints:
    """The smallest value of each frame, -1 if it is empty; two runs of a power of two cover a frame."""
    size = frames.high - frames.low
    out = np.full(len(size), -1, np.int64)
    level, width = values, 1
    while width <= (int(size.max()) if len(size) else 0):
        rows = np.flatnonzero((size >= width) & (size < 2 * width))
        out[rows] = np.minimum(level[frames.low[rows]], level[frames.high[rows] - width])
        level = np.minimum(level[:-width], level[width:]) if len(level) > width else level
        width *= 2
    return out


def _at_end(last: bool) -> Callable[[WindowFrames, Sequence[Vector], SqlType], Vector]:
    def run(frames: WindowFrames, args: Sequence[Vector], _: SqlType) -> Vector:
        place = frames.high - 1 if last else frames.low
        return take(args[0], np.where(frames.high > frames.low, place, -1))

    return run


def _nth(frames: WindowFrames, args: Sequence[Vector], _: SqlType) -> Vector:
    value, number = args
    by = np.clip(number.values, 0, len(frames.low) + 1)  # no frame is longer
    place = frames.low + by - 1
    inside = (by > 0) & (place < frames.high) & known([number], len(by))
    return take(value, np.where(inside, place, -1))


def _covariance(sample: bool) -> Callable[[WindowFrames, Sequence[Vector], SqlType], Vector]:
    least = 2 if sample else 1

    def run(frames: WindowFrames, args: Sequence[Vector], _: SqlType) -> Vector:
        there = known(args, len(frames.low))
        both = [Vector(DOUBLE, np.where(there, _plain(arg), 0.0)) for arg in args]
        (y, below), (x, under) = map(_numbers, both)
        n = frames.sums(there.astype(np.int64))
        products, sy, sx = (frames.sums(v.astype(object)) for v in (y * x, y, x))
        found = [
            quotient(int(k * p - a * b), k * (k - 1 if sample else k) * below * under) if k >= least else 0.0
            for k, p, a, b in zip(n.tolist(), products, sy, sx, strict=True)
        ]
        with np.errstate(all="ignore"):
            odd = frames.sums((~np.isfinite(both[0].values * both[1].values)).astype(np.int64))
        return Vector(DOUBLE, canonical(np.where(odd > 0, np.nan, found))).with_valid(n >= least)

    return run


def _plain(vector: Vector) -> Array:
    """Numbers as doubles."""
    values: Array = vector.values.astype(np.float64)
    return values if vector.type.is_float else values / float(10**vector.type.scale)


OVER: dict[str, Callable[[WindowFrames, Sequence[Vector], SqlType], Vector]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(False),
    "max": _extreme(True),
    "bool_and": _extreme(False),
    "bool_or": _extreme(True),
    "first_value": _at_end(False),
    "last_value": _at_end(True),
    "nth_value": _nth,
    "covar_pop": _covariance(False),
    "covar_samp": _covariance(True),
    **{name: _spread(sample, root) for name, (sample, root) in SPREADS.items()},
}
