"""Answers of subqueries: the rows of a plan for all outer combinations, looked up for the rows that ask.

`x op ANY S` is decided by counting, as SQL defines it: the members for which the comparison is true, and
those for which it is not false. `op ALL` is the negation of the opposite comparison with ANY. Equality of
rows is counted for each pattern of NULLs on either side by itself, so that everything is a hash lookup.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from everfresh.expr import Vector, concat
from everfresh.local.adhoc.frame import Frame, Ints, Mask, take
from everfresh.local.adhoc.keys import Groups, Words, codes
from everfresh.sql.logical.subqueries import gives_several
from everfresh.types import BIGINT, BOOLEAN

Verdict = tuple[Mask, Mask]  # the rows on which a comparison is true, and on which it is false

_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_ORDER: dict[str, Callable[[Ints, Ints], NDArray[np.bool_]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class SubqueryAnswers:
    """The rows of a subquery for each of `count` outer combinations; for the only one if they carry none."""

    def __init__(self, frame: Frame, count: int, words: Words) -> None:
        self._frame, self._count, self._words = frame, count, words
        d = frame.d
        self._d = np.zeros(frame.rows, np.int64) if d is None else d
        self._sizes = np.bincount(self._d, minlength=count).astype(np.int64)

    def exists(self, ids: Ints) -> Vector:
        """EXISTS for the combination of each asking row."""
        return Vector(BOOLEAN, self._sizes[ids] > 0)

    def scalar(self, column: str, ids: Ints) -> Vector:
        """The only value for each asking row, NULL if there is none; several are an error."""
        if (self._sizes > 1).any():
            raise gives_several()
        where = np.full(self._count, -1, np.int64)
        where[self._d] = np.arange(self._frame.rows)
        return take(self._frame[column], where[ids])

    # -- ANY and ALL ----------------------------------------------------------------------------------------

    def quantified(
        self, args: Sequence[Vector], op: str, all_: bool, members: Sequence[Vector], ids: Ints
    ) -> Vector:
        """`args op ANY (members)`, or `op ALL`, for each asking row."""
        asked = _OPPOSITE[op] if all_ else op
        if asked in _ORDER:
            true, false = self._ordered(args[0], asked, members[0], ids)
        else:
            true, false = self._alike(args, asked, members, ids)
        return Vector(BOOLEAN, false if all_ else true).with_valid(true | false)

    def _alike(self, args: Sequence[Vector], op: str, members: Sequence[Vector], ids: Ints) -> Verdict:
        equal, perhaps = self._equal(args, members, ids)
        n = self._sizes[ids]
        if op == "=":
            return equal > 0, equal + perhaps == 0
        return n - equal - perhaps > 0, n == equal

    def _equal(self, args: Sequence[Vector], members: Sequence[Vector], ids: Ints) -> tuple[Ints, Ints]:
        """How many members are equal to each asking row, and of how many that is unknown."""
        equal, perhaps = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
        asking, asked = _patterns(args, len(ids)), _patterns(members, len(self._d))
        for there in np.unique(asked).tolist():
            chosen = np.flatnonzero(asked == there)
            for here in np.unique(asking).tolist():
                rows = np.flatnonzero(asking == here)
                both = [i for i in range(len(args)) if not (here | there) >> i & 1]
                groups = Groups(self._key([members[i].take(chosen) for i in both], self._d[chosen]))
                found = groups.find(self._key([args[i].take(rows) for i in both], ids[rows]))
                counts = np.where(found < 0, 0, groups.sizes[found])
                (perhaps if here | there else equal)[rows] += counts
        return equal, perhaps

    def _key(self, vectors: list[Vector], ids: Ints) -> Ints:
        return self._words.of([*vectors, Vector(BIGINT, ids)], len(ids))

    def _ordered(self, x: Vector, op: str, column: Vector, ids: Ints) -> Verdict:
        """Against the largest or the smallest member: one comparison decides."""
        code = codes(concat([column, x]))
        members, asking = code[: len(column)], code[len(column) :]
        keep = np.ones(len(column), np.bool_) if column.valid is None else column.valid
        unknown = np.bincount(self._d[~keep], minlength=self._count)[ids]
        largest = op in ("<", "<=")
        worst = np.iinfo(np.int64).min if largest else np.iinfo(np.int64).max
        best = np.full(self._count, worst)
        (np.maximum if largest else np.minimum).at(best, self._d[keep], members[keep])
        n = self._sizes[ids]
        here = np.ones(len(ids), np.bool_) if x.valid is None else x.valid
        holds = here & (n > unknown) & _ORDER[op](asking, best[ids])
        return holds, (n == 0) | (here & (unknown == 0) & ~holds)


def _patterns(vectors: Sequence[Vector], rows: int) -> Ints:
    """Which of the vectors are NULL, as bits."""
    out = np.zeros(rows, np.int64)
    for i, vector in enumerate(vectors):
        if vector.valid is not None:
            out |= (~vector.valid).astype(np.int64) << i
    return out
