"""Aggregates over rows with group numbers: exact for exact types, by the engine's own sums for DOUBLE.

Each function gets the rows that count (FILTER and DISTINCT applied, NULLs dropped) and gives one value per
group, NULL for a group without any. Invariant: the result does not depend on the order of the rows, but for
the last bit of a DOUBLE.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector
from everfresh.expr.column import object_array
from everfresh.local.adhoc.frame import Ints, Mask, take
from everfresh.local.adhoc.keys import Groups, Words, codes, known
from everfresh.local.adhoc.ordered_aggregates import FUNCTIONS as WHOLE
from everfresh.local.kernels import pool_values
from everfresh.local.store.codec import wide_words
from everfresh.local.store.components import float_total, wide_to_python
from everfresh.local.store.pool import Layout, Values
from everfresh.sql.logical.row_calls import KEEPING, PAIRS
from everfresh.types import BIGINT, DOUBLE, NULL, SqlType

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Input:
    """The arguments of a function `fn` on some rows, the group of each row, and how many groups there are;
    of a function that sees its rows in an order, the keys of that."""

    fn: str
    args: Sequence[Vector]
    type: SqlType
    groups: Ints
    count: int
    order: tuple[tuple[Vector, bool, bool], ...] = ()

    def filter(self, keep: Mask) -> Input:
        """Some of the rows."""
        if keep.all():
            return self
        order = tuple((vector.filter(keep), up, first) for vector, up, first in self.order)
        args = [arg.filter(keep) for arg in self.args]
        return replace(self, args=args, groups=self.groups[keep], order=order)

    @property
    def sizes(self) -> Ints:
        """The number of rows of each group."""
        return np.bincount(self.groups, minlength=self.count).astype(np.int64)


def aggregate(rows: Input, distinct: bool, kept: Mask | None, words: Words) -> Vector:
    """The value of each group over the rows that FILTER keeps, each value once if `distinct`."""
    if kept is not None:
        rows = rows.filter(kept)
    # Of a row value none is left out: it is not NULL even if its parts are.
    if (len(rows.args) == 1 or rows.fn in WHOLE or rows.fn in PAIRS) and rows.fn not in KEEPING:
        rows = rows.filter(known(rows.args, len(rows.groups)))
    if distinct:
        keys = [*rows.args, Vector(BIGINT, rows.groups)]
        first = np.zeros(len(rows.groups), np.bool_)
        first[Groups(words.of(keys, len(rows.groups))).first()] = True
        rows = rows.filter(first)
    if rows.fn != "count" and rows.args[0].type == NULL:
        return Vector.nulls(rows.type, rows.count).contiguous()
    return (WHOLE.get(rows.fn) or FUNCTIONS[rows.fn])(rows)


# -- sums ----------------------------------------------------------------------------------------------------


def exact_sums(values: NDArray, groups: Ints, count: int) -> list[int]:
    """The sum of each group as a Python integer, whatever its size."""
    if values.dtype == object:
        sums = object_array([0] * count, count)
        np.add.at(sums, groups, values)
        return list(sums)
    high, low = wide_words(Vector(BIGINT, values))
    total, failed = _added(Kind.WIDE, groups, count, np.array([high, low]), np.zeros((0, len(groups))))
    assert not failed, "sums of fewer than 2**63 64-bit integers fit 128 bits"
    return wide_to_python(total.ints[0], total.ints[1])


def _added(kind: Kind, groups: Ints, count: int, ints: Ints, floats: Floats) -> tuple[Values, bool]:
    """The sums of one component by group, and whether one has left what it can hold."""
    total = Values.zeros(Layout((kind,)), count)
    kinds, nothing = np.array([kind], np.int64), np.zeros(len(groups), np.int64)
    places = np.ascontiguousarray(groups)
    failed = pool_values.accumulate(total.n, total.ints, total.floats, kinds, places, nothing, ints, floats)
    return total, bool(failed)


def float_sums(values: Floats, groups: Ints, count: int) -> Floats:
    """The sum of each group, rounded once; infinities and NaN follow IEEE."""
    finite = np.isfinite(values)
    deltas = np.zeros((3, len(groups)))
    deltas[0] = np.where(finite, values, 0.0)
    total, failed = _added(Kind.FLOAT, groups, count, np.zeros((0, len(groups)), np.int64), deltas)
    out = _exact_float_sums(deltas[0], groups, count) if failed else float_total(total.floats)
    if not finite.all():
        special = np.zeros(count)
        with np.errstate(invalid="ignore"):
            np.add.at(special, groups[~finite], values[~finite])
        out = np.where(special == 0, out, special)
    return out


def _exact_float_sums(values: Floats, groups: Ints, count: int) -> Floats:
    """The same for finite values whose sum overflows on the way, and perhaps in the end."""
    exact, unit = integers(values)
    return np.array([quotient(x, unit) for x in exact_sums(exact, groups, count)], np.float64)


def integers(values: Floats) -> tuple[NDArray, int]:
    """Doubles as exact integers in units of 1 / `unit`; 0 for NaN and infinities."""
    ratios = [x.as_integer_ratio() if math.isfinite(x) else (0, 1) for x in values.tolist()]
    unit = max((below for _, below in ratios), default=1)
    return object_array((above * (unit // below) for above, below in ratios), len(ratios)), unit


def quotient(above: int, below: int) -> float:
    """The double nearest to a fraction."""
    try:
        return above / below
    except OverflowError:
        return math.inf if above > 0 else -math.inf


def bounded(sums: Sequence[int], type_: SqlType) -> list[int]:
    """The sums, if the type of the result holds them."""
    low, high = type_.bounds
    if any(not low <= x <= high for x in sums):
        raise EverfreshError(Code.OVERFLOW, f"a sum is outside {type_}")
    return list(sums)


def _values(rows: Input) -> NDArray:
    """The argument as integers or doubles."""
    arg = rows.args[0]
    if arg.type.is_float:
        return arg.values.astype(np.float64)
    return arg.values if arg.values.dtype == object else arg.values.astype(np.int64)


def _sum(rows: Input) -> Vector:
    some = rows.sizes > 0
    if rows.type.is_float:
        return Vector(DOUBLE, float_sums(_values(rows), rows.groups, rows.count)).with_valid(some)
    sums = bounded(exact_sums(_values(rows), rows.groups, rows.count), rows.type)
    return Vector(rows.type, object_array(sums, rows.count)).with_valid(some)


def _avg(rows: Input) -> Vector:
    n = rows.sizes
    of = rows.args[0].type
    if of.is_float:
        sums = float_sums(_values(rows), rows.groups, rows.count)
    else:  # the unscaled sum as a double, divided by the count and the scale, as DuckDB does
        sums = np.array([float(x) for x in exact_sums(_values(rows), rows.groups, rows.count)])
    return Vector(DOUBLE, average(sums, n, of)).with_valid(n > 0)


def average(sums: Floats, n: Ints, of: SqlType) -> Floats:
    """Sums of values of a type over their numbers; 0 where there are none."""
    out: Floats = sums / (np.maximum(n, 1) * float(10**of.scale)) + 0.0
    return out


# -- variance ------------------------------------------------------------------------------------------------


def variance(n: int, s1: int, s2: int, unit: int, *, sample: bool) -> float:
    """The variance of n values in units of 1 / `unit`, from the exact sums of them and of their squares."""
    return quotient(max(n * s2 - s1 * s1, 0), n * (n - 1 if sample else n) * unit * unit)


def _variances(rows: Input, *, sample: bool) -> Floats:
    of, n = rows.args[0].type, rows.sizes
    values = _values(rows)
    least = 2 if sample else 1
    if not of.is_float:
        s1 = exact_sums(values, rows.groups, rows.count)
        small = values.dtype != object and (not len(values) or np.abs(values).max() < 1 << 31)
        wide = values if small else values.astype(object)
        s2 = exact_sums(wide * wide, rows.groups, rows.count)
        found = (
            variance(k, a, b, 10**of.scale, sample=sample) if k >= least else 0.0
            for k, a, b in zip(n.tolist(), s1, s2, strict=True)
        )
        return np.fromiter(found, np.float64, rows.count)
    return np.maximum(_moments(rows, values, values), 0.0) / np.maximum(n - 1 if sample else n, 1)


def _moments(rows: Input, x: Floats, y: Floats) -> Floats:
    """The sum of the products of what values are off their means, of each group; NaN where a product of two
    of them is not finite."""
    n = np.maximum(rows.sizes, 1)
    with np.errstate(all="ignore"):  # two passes: the means, then the products of what is left of each value
        rests = [v - (float_sums(v, rows.groups, rows.count) / n)[rows.groups] for v in (x, y)]
        odd = [float_sums(rest, rows.groups, rows.count) for rest in rests]
        out = float_sums(rests[0] * rests[1], rows.groups, rows.count) - odd[0] * odd[1] / n
        out[rows.groups[~np.isfinite(x * y)]] = np.nan
    return out


def _covariance(*, sample: bool) -> Callable[[Input], Vector]:
    def run(rows: Input) -> Vector:
        x, y = (_numbers(arg) for arg in rows.args)
        n = rows.sizes
        made = _moments(rows, x, y) / np.maximum(n - 1 if sample else n, 1)
        return Vector(DOUBLE, canonical(made)).with_valid(n >= (2 if sample else 1))

    return run


def _numbers(arg: Vector) -> Floats:
    if arg.type.is_float:
        return arg.values.astype(np.float64)
    made: Floats = arg.values.astype(np.float64) / float(10**arg.type.scale)
    return made


def _spread(*, sample: bool, root: bool) -> Callable[[Input], Vector]:
    def run(rows: Input) -> Vector:
        found = _variances(rows, sample=sample)
        with np.errstate(invalid="ignore"):
            made = np.sqrt(found) if root else found
        return Vector(DOUBLE, canonical(made)).with_valid(rows.sizes >= (2 if sample else 1))

    return run


def canonical(values: Floats) -> Floats:
    """The same doubles with one NaN."""
    out = values + 0.0
    out[np.isnan(out)] = np.nan
    return out


# -- the others ----------------------------------------------------------------------------------------------


def _count(rows: Input) -> Vector:
    return Vector(BIGINT, rows.sizes)


def _extreme(largest: bool) -> Callable[[Input], Vector]:
    def run(rows: Input) -> Vector:
        code = codes(rows.args[0])
        if largest:
            code = ~code
        best = np.full(rows.count, np.iinfo(np.int64).max)
        np.minimum.at(best, rows.groups, code)
        where = np.full(rows.count, -1, np.int64)
        hit = np.flatnonzero(code == best[rows.groups])
        where[rows.groups[hit]] = hit
        return take(rows.args[0], where)

    return run


SPREADS = {
    "stddev_samp": (True, True),
    "stddev_pop": (False, True),
    "var_samp": (True, False),
    "var_pop": (False, False),
}
"""Whether over n - 1, and whether the root of it."""

FUNCTIONS: dict[str, Callable[[Input], Vector]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(False),
    "max": _extreme(True),
    "bool_and": _extreme(False),
    "bool_or": _extreme(True),
    **{name: _spread(sample=sample, root=root) for name, (sample, root) in SPREADS.items()},
    "covar_pop": _covariance(sample=False),
    "covar_samp": _covariance(sample=True),
}
