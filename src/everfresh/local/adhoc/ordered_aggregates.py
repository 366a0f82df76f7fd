"""Aggregates that need the values of a group in their order, or all of them: no sum of them would do.

Each gets the rows that count, none of their arguments NULL, and gives one value per group. Invariant: the
result does not depend on the order of the rows: of values that are as frequent the least is the mode, of rows
with the same extreme the least argument is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everfresh.expr import Vector
from everfresh.expr.column import object_array
from everfresh.local.adhoc.frame import Ints, take
from everfresh.local.adhoc.keys import codes
from everfresh.types import DOUBLE, HUGEINT, canonical_float

if TYPE_CHECKING:
    from everfresh.local.adhoc.aggregate import Input


@dataclass(frozen=True)
class _Sorted:
    """Rows by group, and in each by one or more arguments: their places, and where groups begin."""

    order: Ints
    starts: Ints
    sizes: Ints

    @staticmethod
    def of(rows: Input, *by: Vector) -> _Sorted:
        order = np.lexsort((*(codes(arg) for arg in reversed(by)), rows.groups)).astype(np.int64)
        sizes = rows.sizes
        return _Sorted(order, np.cumsum(sizes) - sizes, sizes)

    def at(self, offset: Ints) -> Ints:
        """The place of a row of each group, -1 for groups without any."""
        where = np.full(len(self.sizes), -1, np.int64)
        some = np.flatnonzero(self.sizes)
        where[some] = self.order[self.starts[some] + offset[some]]
        return where


def _first(rows: Input) -> Vector:
    """ARG_MIN, ARG_MAX: the argument where the other is least or greatest."""
    value, by = rows.args
    found = _Sorted.of(rows, by, value)
    if rows.fn == "arg_min":
        return take(value, found.at(np.zeros(rows.count, np.int64)))
    code, groups = codes(by)[found.order], rows.groups[found.order]
    fresh = np.ones(len(code), np.bool_)
    fresh[1:] = (code[1:] != code[:-1]) | (groups[1:] != groups[:-1])
    last = np.zeros(rows.count, np.int64)
    begins = np.flatnonzero(fresh)
    last[groups[begins]] = begins  # the last run of equal values of each group
    return take(value, found.at(last - found.starts))


def _mode(rows: Input) -> Vector:
    """The most frequent value."""
    (value,) = rows.args
    found = _Sorted.of(rows, value)
    code, groups = codes(value)[found.order], rows.groups[found.order]
    fresh = np.ones(len(code), np.bool_)
    fresh[1:] = (code[1:] != code[:-1]) | (groups[1:] != groups[:-1])
    begins = np.flatnonzero(fresh)
    lengths = np.diff(np.append(begins, len(code)))
    ranked = np.lexsort((begins, -lengths, groups[begins]))
    own = groups[begins][ranked]
    lead = np.ones(len(own), np.bool_)
    lead[1:] = own[1:] != own[:-1]
    offset = np.zeros(rows.count, np.int64)
    chosen = ranked[lead]
    offset[own[lead]] = begins[chosen] - found.starts[own[lead]]
    return take(value, found.at(offset))


def _quantile_disc(rows: Input) -> Vector:
    """The first value that at least the fraction of all are not greater than."""
    value, _ = rows.args
    found = _Sorted.of(rows, value)
    place = np.ceil(found.sizes * _fraction(rows)).astype(np.int64) - 1
    return take(value, found.at(np.clip(place, 0, np.maximum(found.sizes - 1, 0))))


def _quantile_cont(rows: Input) -> Vector:
    """The value at the fraction of the way from the least to the greatest, between two of them by the
    distance."""
    value = rows.args[0]
    found = _Sorted.of(rows, value)
    place = np.maximum(found.sizes - 1, 0) * _fraction(rows)
    low = np.floor(place).astype(np.int64)
    high = np.ceil(place).astype(np.int64)
    a, b = (_doubles(take(value, found.at(at))) for at in (low, high))
    with np.errstate(invalid="ignore"):
        out = np.where(low == high, a, a + (b - a) * (place - low)) + 0.0
    out[np.isnan(out)] = np.nan
    return Vector(DOUBLE, out).with_valid(found.sizes > 0)


def _doubles(vector: Vector) -> Any:
    return np.array([0.0 if v is None else float(v) for v in vector.to_pylist()], np.float64)


def _fraction(rows: Input) -> float:
    """The second argument, which is a constant; half, where there is none."""
    return float(rows.args[1].values[0]) if len(rows.args) > 1 and len(rows.groups) else 0.5


def _product(rows: Input) -> Vector:
    found = _Sorted.of(rows, rows.args[0])
    values = rows.args[0].values.astype(np.float64)[found.order]
    out = np.ones(rows.count)
    with np.errstate(all="ignore"):
        np.multiply.at(out, rows.groups[found.order], values)
    made = np.array([canonical_float(x) for x in out.tolist()], np.float64)
    return Vector(DOUBLE, made).with_valid(found.sizes > 0)


def _bits(fn: Callable[[int, int], int]) -> Callable[[Input], Vector]:
    def run(rows: Input) -> Vector:
        totals: dict[int, int] = {}
        for group, value in zip(rows.groups.tolist(), rows.args[0].values.tolist(), strict=True):
            totals[group] = fn(totals[group], value) if group in totals else value
        made = [totals.get(group, 0) for group in range(rows.count)]
        wide = rows.type == HUGEINT
        values = object_array(made, rows.count) if wide else np.array(made, np.int64)
        return Vector(rows.type, values).with_valid(rows.sizes > 0)

    return run


FUNCTIONS: dict[str, Callable[[Input], Vector]] = {
    "median": _quantile_cont,
    "quantile_cont": _quantile_cont,
    "quantile_disc": _quantile_disc,
    "mode": _mode,
    "arg_min": _first,
    "arg_max": _first,
    "product": _product,
    "bit_and": _bits(lambda a, b: a & b),
    "bit_or": _bits(lambda a, b: a | b),
    "bit_xor": _bits(lambda a, b: a ^ b),
}
