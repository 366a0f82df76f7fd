"""What a view keeps of each of its cells, and how changes of it add up.

A cell of a view is a group of pairs. Of a group are kept the number of its pairs, and for each value that is
aggregated, as far as it is asked for, how many there are that are not NULL, their sum, the least and the
greatest. Sums of doubles are kept in two words, so that what comes and goes leaves next to nothing; sums
of whole numbers that leave 64 bits become Python's. A change is of the same form: counts and sums with signs,
the extremes of what came, and apart from them the extremes of what went.

    rows                    pairs
    n<k>, s<k>, e<k>        values of argument k: how many, their sum, and its second word
    lo<k>, hi<k>            the least and the greatest
    neg<k>, blo<k>, bhi<k>  in changes alone: how many went, the least and the greatest of them
    big<k>                  in changes alone: how large what came and went is, signs left out

Invariant: adding up changes in any order and in any groups gives the same, but for the last digits of
doubles. Where `n` is 0 the others mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Values = NDArray[Any]
Columns = dict[str, Values]
_SAFE = float(1 << 62)
ROWS = "rows"


def _least(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)


def _greatest(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else max(a, b)


_OBJECT_LEAST = np.frompyfunc(_least, 2, 1)
_OBJECT_GREATEST = np.frompyfunc(_greatest, 2, 1)


@dataclass(frozen=True, eq=False)
class Changes:
    """Changes of groups: ascending keys, each once, and the columns."""

    keys: Ints
    columns: Columns

    def __len__(self) -> int:
        return len(self.keys)


def nothing(values: Values, greatest: bool) -> Any:
    """What stands for the extreme of no values of this kind."""
    if values.dtype.kind == "O":
        return None
    if values.dtype.kind == "f":
        return values.dtype.type(-np.inf if greatest else np.nan)  # NaN is the greatest double
    bounds = np.iinfo(values.dtype)
    return bounds.min if greatest else bounds.max


def least(a: Values, b: Values) -> Values:
    """The lesser of each two, NaN the greatest."""
    if a.dtype.kind == "O" or b.dtype.kind == "O":
        return np.asarray(_OBJECT_LEAST(a, b), object)
    return np.fmin(a, b) if a.dtype.kind == "f" else np.minimum(a, b)


def greatest(a: Values, b: Values) -> Values:
    """The greater of each two, NaN the greatest."""
    if a.dtype.kind == "O" or b.dtype.kind == "O":
        return np.asarray(_OBJECT_GREATEST(a, b), object)
    return np.maximum(a, b)


def two_sum(a: Values, b: Values) -> tuple[Values, Values]:
    """The rounded sum of doubles, and what rounding took away."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = a + b
        back = total - a
        error = (a - (total - back)) + (b - back)
    return total, np.where(np.isfinite(error), error, 0.0)


def added(s: Values, e: Values, t: Values, f: Values) -> tuple[Values, Values]:
    """Sums in two words, added."""
    total, error = two_sum(s, t)
    return two_sum(total, error + e + f)


def plus(a: Values, b: Values) -> Values:
    """Whole numbers added; Python's where 64 bits might not do."""
    if a.dtype.kind != "O" and b.dtype.kind != "O":
        if _most(a) + _most(b) < _SAFE:
            return a + b
        a, b = a.astype(object), b.astype(object)
    found: Values = a + b
    return found


def _most(a: Values) -> float:
    return max(abs(float(a.max())), abs(float(a.min()))) if len(a) else 0.0


# -- changes ---------------------------------------------------------------------------------------------


def combined(parts: Sequence[Changes]) -> Changes | None:
    """Changes in any order, with keys more than once, added up; None if there are none.

    >>> one = Changes(np.array([7, 3, 7]), {ROWS: np.array([1, 1, -2])})
    >>> found = combined([one])
    >>> found.keys.tolist(), found.columns[ROWS].tolist()
    ([3, 7], [1, -1])
    """
    parts = [part for part in parts if len(part)]
    if not parts:
        return None
    keys = np.concatenate([part.keys for part in parts])
    names = list(parts[0].columns)
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in names}
    steps = np.diff(keys)
    if (steps < 0).any():
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        columns = {name: column[order] for name, column in columns.items()}
        steps = np.diff(keys)
    elif (steps > 0).all():
        return Changes(keys, columns)
    starts = np.flatnonzero(np.concatenate(([True], steps > 0)))
    doubles = {f"s{name[1:]}" for name in names if name[0] == "e"}
    plain = [name for name in names if name[0] != "e" and name not in doubles]
    found = {name: _folded(name, columns[name], starts) for name in plain} | _sums(columns, starts)
    return Changes(keys[starts], {name: found[name] for name in names})


def _folded(name: str, column: Values, starts: Ints) -> Values:
    if name.startswith(("lo", "blo")):
        if column.dtype.kind == "O":
            return np.asarray(_OBJECT_LEAST.reduceat(column, starts), object)
        return (np.fmin if column.dtype.kind == "f" else np.minimum).reduceat(column, starts)
    if name.startswith(("hi", "bhi")):
        if column.dtype.kind == "O":
            return np.asarray(_OBJECT_GREATEST.reduceat(column, starts), object)
        return np.maximum.reduceat(column, starts)
    if name[0] == "s" and column.dtype.kind == "i" and float(np.abs(column.astype(float)).sum()) >= _SAFE:
        column = column.astype(object)
    found: Values = np.add.reduceat(column, starts)
    return found


def _sums(columns: Columns, starts: Ints) -> Columns:
    """Sums of doubles, by halves: neighbours in a group are added until one is left."""
    found: Columns = {}
    for name in columns:
        if name[0] == "e":
            other = f"s{name[1:]}"
            found[other], found[name] = doubled(columns[other], columns[name], starts)
    return found


def doubled(s: Values, e: Values, starts: Ints) -> tuple[Values, Values]:
    """Sums in two words of the groups that begin at `starts`.

    >>> s, e = doubled(np.array([1e20, 1.0, -1e20, 2.0]), np.zeros(4), np.array([0, 3]))
    >>> (s + e).tolist()
    [1.0, 2.0]
    """
    group = np.zeros(len(s), np.int64)
    group[starts[1:]] = 1
    group = np.cumsum(group)
    while len(s) > len(starts):
        rank = np.arange(len(s)) - np.flatnonzero(np.concatenate(([True], np.diff(group) > 0)))[group]
        first = np.flatnonzero(rank % 2 == 0)
        paired = (first + 1 < len(s)) & (group[np.minimum(first + 1, len(s) - 1)] == group[first])
        one, other = first[paired], first[paired] + 1
        a, b = s[first], e[first]
        a[paired], b[paired] = added(s[one], e[one], s[other], e[other])
        s, e, group = a, b, group[first]
    return s, e


def went_and_came(weight: int, name: str, values: Values, valid: NDArray[np.bool_] | None) -> Columns:
    """One change for each value that came (or went, with a weight below 0) as extremes; `name` is the number
    of the argument."""
    there = np.ones(len(values), np.bool_) if valid is None else valid
    found: Columns = {}
    for end, is_greatest in (("lo", False), ("hi", True)):
        empty = nothing(values, is_greatest)
        shown = values.copy() if valid is None else _where(there, values, empty)
        none = np.full(len(values), empty, values.dtype)
        found[f"{end}{name}"] = shown if weight > 0 else none
        found[f"b{end}{name}"] = none if weight > 0 else shown
    return found


def _where(mask: NDArray[np.bool_], values: Values, other: Any) -> Values:
    found = values.copy()
    found[~mask] = other
    return found
