"""Lists taken apart: a row for each value of a list, several lists side by side.

`spread` is what UNNEST means to every engine. The rows of a row are as many as its longest list has values;
shorter lists are padded with NULL, and a list that is NULL has none. A list is taken apart once, however many
rows hold it, and a range of integers is counted, never written down.

>>> from everfresh.expr.nodes import Var
>>> from everfresh.types import BIGINT, LIST, coding
>>> codes = [coding.from_elements(values, LIST(BIGINT)) for values in ([7, 8], [])]
>>> held = Vector.from_pylist([*codes, None], LIST(BIGINT))
>>> index, (each,) = spread([Var("l", LIST(BIGINT))], {"l": held}, 3)
>>> index.tolist(), each.to_pylist()
([0, 0], [7, 8])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.column import Array, Vector
from everfresh.expr.library.lists import LONGEST, too_long
from everfresh.expr.nodes import Call, Const, Expr, Var
from everfresh.expr.scalar import evaluate
from everfresh.expr.vector import evaluate_vector
from everfresh.types import BIGINT, coding

_MOST = 1 << 27
"""The most rows that lists become at once."""


def element(name: str, of: Expr) -> Var:
    """The variable of the values of a list."""
    return Var(name, of.type.inner[0], True)


def each(lists: Sequence[Expr], env: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of one row, by definition: the twin of `spread`."""
    found = [evaluate(e, env) for e in lists]
    parts = (() if v is None else coding.elements(v, e.type) for v, e in zip(found, lists, strict=True))
    return zip_longest(*parts)


def spread(lists: Sequence[Expr], columns: Mapping[str, Vector], rows: int) -> tuple[Array, list[Vector]]:
    """Of each new row the row that it comes from, and the values of each list."""
    parts = [_counted(e, columns, rows) or _listed(e, columns, rows) for e in lists]
    counts = np.maximum.reduce([part.counts for part in parts])
    total = int(counts.sum())
    if total > _MOST:
        raise EverfreshError(
            Code.OVERFLOW,
            f"lists of {total} values in all are more than {_MOST} rows",
            hint="give the ranges nearer bounds, or apply fewer rows at once",
        )
    index = np.repeat(np.arange(rows), counts)
    place = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return index, [part.values(index, place) for part in parts]


@dataclass(frozen=True, slots=True)
class _Listed:
    """Lists as slices of all values of the different ones."""

    counts: Array
    starts: Array
    all: Vector

    def values(self, index: Array, place: Array) -> Vector:
        there = place < self.counts[index]
        if not len(self.all):
            return Vector.nulls(self.all.type, len(index)).contiguous()
        found = self.all.take(np.where(there, self.starts[index] + place, 0))
        return found.with_valid(there if found.valid is None else there & found.valid)


@dataclass(frozen=True, slots=True)
class _Counted:
    """Ranges of integers."""

    counts: Array
    starts: Array
    steps: Array

    def values(self, index: Array, place: Array) -> Vector:
        there = place < self.counts[index]
        found = self.starts[index] + np.where(there, place, 0) * self.steps[index]
        return Vector(BIGINT, found).with_valid(there)


def _listed(expr: Expr, columns: Mapping[str, Vector], rows: int) -> _Listed:
    lists = evaluate_vector(expr, columns, rows)
    assert lists.dictionary is not None
    used, code = np.unique(lists.values, return_inverse=True)
    taken = [coding.elements(text, expr.type) if text else [] for text in lists.dictionary[used].tolist()]
    lengths = np.array([len(values) for values in taken], dtype=np.int64)
    first = np.cumsum(lengths) - lengths
    counts = lengths[code] if rows else np.zeros(0, np.int64)
    if lists.valid is not None:
        counts = np.where(lists.valid, counts, 0)
    starts = first[code] if rows else np.zeros(0, np.int64)
    held = Vector.from_pylist([value for values in taken for value in values], expr.type.inner[0])
    return _Listed(counts, starts, held)


def _counted(expr: Expr, columns: Mapping[str, Vector], rows: int) -> _Counted | None:
    """A call of RANGE or GENERATE_SERIES over integers; None for anything else."""
    if not isinstance(expr, Call) or expr.op not in ("range", "generate_series"):
        return None
    if any(arg.type != BIGINT for arg in expr.args):
        return None
    zero, one = Const(0, BIGINT), Const(1, BIGINT)
    args = (zero, *expr.args, one) if len(expr.args) == 1 else (*expr.args, one)[:3]
    start, stop, step = (evaluate_vector(arg, columns, rows) for arg in args)
    there = np.ones(rows, np.bool_)
    for vector in (start, stop, step):
        there &= True if vector.valid is None else vector.valid
    if (there & (step.values == 0)).any():
        raise _at(np.flatnonzero(there & (step.values == 0))[0], _zero_step())
    by = np.where(there, step.values, 1)
    far = (stop.values.astype(np.float64) - start.values) / by
    if (there & (far > LONGEST)).any():
        row = np.flatnonzero(there & (far > LONGEST))[0]
        raise _at(row, too_long(int(far[row])))
    there &= far >= 0
    distance = np.where(there, stop.values - start.values, 0)
    counts = distance // by if expr.op == "generate_series" else -(-distance // by)
    counts = np.where(there, counts + (expr.op == "generate_series"), 0)
    return _Counted(counts, start.values, by)


def _zero_step() -> EverfreshError:
    return EverfreshError(Code.VALUE, "the step of a range is not zero")


def _at(row: int, error: EverfreshError) -> EverfreshError:
    error.row = int(row)  # type: ignore[attr-defined]
    return error
