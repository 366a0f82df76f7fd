"""The pairs of two sides of a crossmatch, and what a change of either does to them.

A change concerns the left points that come or go, and those near a right point that comes or goes (for
`outer` the right ones likewise): their rows before and after are found in the indexes, and what differs is
the change. All rows are kept as codes of slots, put in order when they are read.

Invariant: the rows are those of `everfresh.arrays.crossmatch` over the points that are there; two points at
equal separation are told apart by their slots, the earlier one first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.arrays.matching.index import Index, Run
from everfresh.arrays.sky.sphere import Sky, separations
from everfresh.delta.bags import WEIGHT
from everfresh.errors import Code, EverfreshError
from everfresh.types import DOUBLE, Column

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NONE = -1
SEPARATION = "separation"


@dataclass(frozen=True)
class Side:
    """A relation that is matched: the columns of the place, of bounded numbers, and those that are shown."""

    relation: str
    ra: str
    dec: str
    bounded: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def used(self) -> list[str]:
        """The columns that are read, each once."""
        return list(dict.fromkeys([self.ra, self.dec, *self.bounded, *(c.name for c in self.columns)]))

    def points(self, rows: pa.Table) -> tuple[Floats, Floats, list[Floats], list[Any]]:
        """Rows as places, bounded numbers and columns."""
        what = f"'{self.relation}'"
        sky = Sky.of(
            _numbers(rows, self.ra), _numbers(rows, self.dec), [_numbers(rows, n) for n in self.bounded], what
        )
        return sky.ra, sky.dec, list(sky.bounded), [rows.column(c.name) for c in self.columns]


def _numbers(rows: pa.Table, name: str) -> Floats:
    return np.asarray(rows.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


@dataclass(frozen=True)
class Definition:
    """What is matched, and which rows are shown."""

    name: str
    left: Side
    right: Side
    radius_arcsec: float
    bounds: tuple[tuple[float, float], ...]
    how: str
    find: str

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the view."""
        left = [c.name for c in self.left.columns]
        right = [c.name for c in self.right.columns]
        found = []
        for names, side, may_lack, suffix in (
            (right, self.left, self.how == "outer", "_left"),
            (left, self.right, self.how != "inner", "_right"),
        ):
            for c in side.columns:
                shown = c.name + suffix if c.name in names or c.name == SEPARATION else c.name
                found.append(Column(shown, c.type, c.nullable or may_lack))
        return (*found, Column(SEPARATION, DOUBLE, self.how != "inner"))


Rows = tuple[Ints, Ints, Floats]
"""Left slots, right slots, -1 for none, and separations."""


class Match:
    """The state of a crossmatch view."""

    def __init__(self, of: Definition, left: pa.Table, right: pa.Table) -> None:
        self.of = of
        radius = of.radius_arcsec / 3600
        self.sides = tuple(Index(side.columns, len(of.bounds), radius) for side in (of.left, of.right))
        for index, side, rows in zip(self.sides, (of.left, of.right), (left, right), strict=True):
            if rows.num_rows:
                index.add(*side.points(rows))
        self._known = self.scratch()
        self._pending: list[tuple[Rows, Rows]] = []

    # -- pairs -------------------------------------------------------------------------------------

    def pairs(self, slots: Ints, from_left: bool = True) -> Rows:
        """The pairs of some points of a side."""
        one, other = self.sides if from_left else self.sides[::-1]
        i, found, chords = other.near(one.ra.values[slots], one.dec.values[slots])
        mine = slots[i]
        left, right = (mine, found) if from_left else (found, mine)
        keep = np.ones(len(left), np.bool_)
        for k, (least, most) in enumerate(self.of.bounds):
            with np.errstate(invalid="ignore"):
                difference = self.sides[1].bounded[k].values[right] - self.sides[0].bounded[k].values[left]
            keep &= (least <= difference) & (difference <= most)
        return left[keep], right[keep], separations(chords[keep])

    def _shown(self, lefts: Ints, rights: Ints) -> Rows:
        """The rows of some left points, and for `outer` those of right points without a partner."""
        how = self.of.how
        lefts = lefts[self.sides[0].alive.values[lefts]]
        left, right, apart = self.pairs(lefts)
        alone = np.setdiff1d(lefts, left)
        if self.of.find == "best" and len(left):
            order = np.lexsort((right, apart, left))
            left, right, apart = left[order], right[order], apart[order]
            first = np.concatenate(([True], left[1:] != left[:-1]))
            left, right, apart = left[first], right[first], apart[first]
        if how == "anti":
            left, right, apart = left[:0], right[:0], apart[:0]
        parts = [(left, right, apart)]
        if how != "inner":
            parts.append((alone, np.full(len(alone), NONE), np.zeros(len(alone))))
        if how == "outer":
            parts.append(self._lonely(rights))
        return _joined(parts)

    def _lonely(self, rights: Ints) -> Rows:
        """The right points among these that no row has."""
        rights = rights[self.sides[1].alive.values[rights]]
        left, right, _ = self.pairs(rights, False)
        if self.of.find == "best":  # a right point is lonely unless it is somebody's nearest
            lefts = np.unique(left)
            found_left, found, apart = self.pairs(lefts)
            order = np.lexsort((found, apart, found_left))
            found_left, found = found_left[order], found[order]
            right = (
                found[np.concatenate(([True], found_left[1:] != found_left[:-1]))] if len(found) else found
            )
        alone = np.setdiff1d(rights, right)
        return np.full(len(alone), NONE), alone, np.zeros(len(alone))

    def scratch(self) -> Rows:
        """All rows, from the points."""
        return self._shown(self.sides[0].live(), self.sides[1].live())

    # -- changes -----------------------------------------------------------------------------------

    def step(self, changes: Mapping[int, pa.Table]) -> tuple[pa.Table, Any]:
        """Points of the sides (0, 1) come and go, by their `_weight`; the rows that changed, and what takes
        it back."""
        marks = [index.mark() for index in self.sides]
        gone = [np.empty(0, np.int64), np.empty(0, np.int64)]
        came = [np.empty(0, np.int64), np.empty(0, np.int64)]
        pending = list(self._pending)

        def undo() -> None:
            self._pending = pending
            for index, mark, slots in zip(self.sides, marks, gone, strict=True):
                index.back(mark, slots)

        try:
            sides = (self.of.left, self.of.right)
            for k, table in changes.items():
                rows = _repeated(table, -1)
                if rows.num_rows:
                    gone[k] = self.sides[k].remove(*sides[k].points(rows))
            for k, slots in enumerate(gone):  # what is before is found before anything went
                self.sides[k].alive.values[slots] = True
            added = {k: sides[k].points(_repeated(table, 1)) for k, table in changes.items()}
            before_lefts, before_rights = self._concerned(gone, added)
            before = self._shown(before_lefts, before_rights)
            for k, slots in enumerate(gone):
                self.sides[k].alive.values[slots] = False
            for k, points in added.items():
                if len(points[0]):
                    came[k] = self.sides[k].add(*points)
            lefts = np.union1d(before_lefts, came[0])
            rights = np.union1d(before_rights, came[1])
            after = self._shown(lefts, rights)
        except LookupError:
            undo()
            raise EverfreshError(
                Code.MISSING_ROW, "a point to delete is not there", place=f"crossmatch view '{self.of.name}'"
            ) from None
        except BaseException:
            undo()
            raise
        went, came_rows = _apart(before, after)
        self._pending = [*pending, (went, came_rows)]
        return self._change(went, came_rows), undo

    def _concerned(self, gone: Sequence[Ints], added: Mapping[int, Any]) -> tuple[Ints, Ints]:
        """The left and the right points whose rows may change, of those that were there before."""
        found = []
        for k in (0, 1):
            other = 1 - k
            index = self.sides[k]
            parts = [gone[k]]
            places = [(self.sides[other].ra.values[gone[other]], self.sides[other].dec.values[gone[other]])]
            if other in added:
                places.append(added[other][:2])
            for ra, dec in places:
                if len(ra):
                    parts.append(np.unique(index.near(ra, dec)[1]))
            found.append(np.unique(np.concatenate(parts)))
        lefts, rights = found
        if self.of.how == "outer" and self.of.find == "best":
            # who was a left point's nearest, or becomes so, may be near none of the points that changed
            rights = np.union1d(rights, self.pairs(lefts)[1])
            if 0 in added and len(added[0][0]):
                rights = np.union1d(rights, np.unique(self.sides[1].near(*added[0][:2])[1]))
        return lefts, rights

    # -- rows --------------------------------------------------------------------------------------

    def _change(self, went: Rows, came: Rows) -> pa.Table:
        table = self.table(_joined([went, came]))
        weights = np.concatenate([np.full(len(went[0]), -1), np.full(len(came[0]), 1)])
        return table.append_column(
            pa.field(WEIGHT, pa.int64(), nullable=False), pa.array(weights, pa.int64())
        )

    def table(self, rows: Rows) -> pa.Table:
        """Rows of slots as they are shown."""
        left, right, apart = rows
        columns = [self.sides[0].arrow(k, left) for k in range(len(self.of.left.columns))]
        columns += [self.sides[1].arrow(k, right) for k in range(len(self.of.right.columns))]
        paired = (left != NONE) & (right != NONE)
        columns.append(pa.array(apart, mask=~paired))
        from everfresh.types import arrow_schema

        return pa.Table.from_arrays(columns, schema=arrow_schema(self.of.columns))

    def rows(self) -> pa.Table:
        """All rows, by left slot and separation."""
        left, right, apart = self._all()
        order = np.lexsort((right, apart, left))
        return self.table((left[order], right[order], apart[order]))

    def _all(self) -> Rows:
        if self._pending:
            went = _joined([w for w, _ in self._pending])
            came = _joined([c for _, c in self._pending])
            self._known = _without(_joined([self._known, came]), went)
            self._pending = []
        return self._known

    def reclaim(self) -> None:
        """Use the slots of points that went again, if they are many; nothing can be taken back any more."""
        due = [index.due for index in self.sides]
        if not any(due):
            return
        slots = list(self._all()[:2])
        for k in (0, 1):
            if due[k]:
                moved = self.sides[k].reclaim()
                slots[k] = np.where(slots[k] == NONE, NONE, moved[slots[k]])
        self._known = slots[0], slots[1], self._known[2]

    def __len__(self) -> int:
        return len(self._known[0]) + sum(len(c[0]) - len(w[0]) for w, c in self._pending)


def _repeated(table: pa.Table, sign: int) -> pa.Table:
    weights = table.column(WEIGHT).to_numpy() * sign
    rows = np.repeat(np.arange(len(weights)), np.maximum(weights, 0))
    return table.drop_columns([WEIGHT]).take(rows)


def _joined(parts: Sequence[Rows]) -> Rows:
    left, right, apart = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return left, right, apart


def _codes(rows: Rows) -> Ints:
    return (rows[0] + 1) << 31 | (rows[1] + 1)


def _apart(before: Rows, after: Rows) -> tuple[Rows, Rows]:
    """The rows that went, and those that came."""
    one, other = _codes(before), _codes(after)
    gone, new = ~np.isin(one, other), ~np.isin(other, one)
    return (before[0][gone], before[1][gone], before[2][gone]), (after[0][new], after[1][new], after[2][new])


def _without(rows: Rows, went: Rows) -> Rows:
    """Rows of which each code is there once more than it went, or as often."""
    codes, lost = _codes(rows), _codes(went)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    unique, counts = np.unique(lost, return_counts=True)
    at = np.searchsorted(unique, ordered)
    safe = np.minimum(at, max(0, len(unique) - 1))
    times = (
        np.where(unique[safe] == ordered, counts[safe], 0)
        if len(unique)
        else np.zeros(len(ordered), np.int64)
    )
    keep = order[rank >= times]
    return rows[0][keep], rows[1][keep], rows[2][keep]


__all__ = ["Definition", "Index", "Match", "Run", "Side"]
