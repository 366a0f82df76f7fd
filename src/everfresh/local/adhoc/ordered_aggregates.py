"""Aggregates that need the values of a group in their order, or all of them: no sum of them would do.

Each gets the rows that count, none of their arguments NULL (but for FIRST, LAST and LIST), and gives one
value per group. Invariant: the result does not depend on the order in which the rows came: of values that are
as frequent the least is the mode, of rows with the same extreme the least argument is taken, and rows that
tie in an ORDER BY are in the order of their arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everfresh.expr import Vector
from everfresh.expr.column import object_array
from everfresh.expr.library.quantiles import between
from everfresh.local.adhoc.frame import Ints, take
from everfresh.local.adhoc.keys import codes, sort_index
from everfresh.types import BIGINT, DOUBLE, HUGEINT, VARCHAR, canonical_float, coding

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
    value = rows.args[0]
    found = _Sorted.of(rows, value)
    place = np.ceil(found.sizes * _fraction(rows)).astype(np.int64) - 1
    return take(value, found.at(np.clip(place, 0, np.maximum(found.sizes - 1, 0))))


def _quantile_cont(rows: Input) -> Vector:
    """The value at the fraction of the way from the least to the greatest, between two of them by the
    distance; of text and truth, where nothing is between, the lower one."""
    value = rows.args[0]
    if value.type.name in ("VARCHAR", "BOOLEAN"):
        return _quantile_disc(rows)
    found = _Sorted.of(rows, value)
    place = np.maximum(found.sizes - 1, 0) * _fraction(rows)
    low = np.floor(place).astype(np.int64)
    high = np.ceil(place).astype(np.int64)
    ends = [take(value, found.at(at)).to_pylist() for at in (low, high)]
    of = value.type if value.type.name in ("DECIMAL", "TIMESTAMP") else DOUBLE
    pairs = zip(*ends, (place - low).tolist(), strict=True)
    return Vector.from_pylist([None if x is None else between(of, x, y, part) for x, y, part in pairs], of)


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


def _in_order(rows: Input) -> Ints:
    """The rows by group, and in each by the keys of the order and the argument."""
    keys = [(Vector(BIGINT, rows.groups), True, False), *rows.order, (rows.args[0], True, False)]
    return sort_index(keys, len(rows.groups))


def _list(rows: Input) -> Vector:
    order, sizes = _in_order(rows), rows.sizes
    values = rows.args[0].take(order).to_pylist()
    ends = np.cumsum(sizes)
    made = [
        coding.from_elements(values[start:end], rows.type) if end > start else None
        for start, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True)
    ]
    return Vector.from_pylist(made, rows.type)


def _string_agg(rows: Input) -> Vector:
    order, sizes = _in_order(rows), rows.sizes
    texts = rows.args[0].take(order).to_pylist()
    separator = rows.args[1].to_pylist()[0] if len(texts) else ""
    made: list[str | None] = []
    start = 0
    for size in sizes.tolist():
        made.append(separator.join(texts[start : start + size]) if size else None)
        start += size
    return Vector.from_pylist(made, VARCHAR)


def _at_end(last: bool) -> Callable[[Input], Vector]:
    """FIRST, LAST and ANY_VALUE: the value of the first or the last row."""

    def run(rows: Input) -> Vector:
        order, sizes = _in_order(rows), rows.sizes
        ends = np.cumsum(sizes)
        some = sizes > 0
        where = np.full(rows.count, -1, np.int64)
        where[some] = order[(ends - 1 if last else ends - sizes)[some]]
        return take(rows.args[0], where)

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
    "string_agg": _string_agg,
    "list": _list,
    "first": _at_end(last=False),
    "last": _at_end(last=True),
    "any_value": _at_end(last=False),
}
