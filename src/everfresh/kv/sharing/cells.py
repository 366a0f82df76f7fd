"""Cells: the attributes' values cut at all constants of all views, and what a change of the core means to
each view.

Section 5.1.2 of the thesis on key-value views, with disjoint cells: a row is in one interval of each
attribute, so it is counted once. Modes: `standard` looks at all rows for each view; `single` adds up the rows
of each part by cell and then each part for each view; `double` adds up all parts by cell first; `auto` takes
the cheapest (`cost`). Where cells are few and regions are boxes, a view is 2^d corners of a prefix sum;
otherwise cells are routed to the views that have them (`routing`). Invariant: all modes give what `plain`
gives.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal

import numpy as np

from everfresh.expr import Vector
from everfresh.kv.sharing import cost
from everfresh.kv.sharing.kernels import loops
from everfresh.kv.sharing.routing import VIEWS, Router, in_order
from everfresh.kv.sharing.template import Range, Shape, Template, holds

Array = np.ndarray[Any, Any]
Mode = Literal["auto", "standard", "single", "double"]
MODES: tuple[Mode, ...] = ("auto", "standard", "single", "double")
MAX_CELLS = 10_000_000
_EXACT = 2.0**62


@dataclass(frozen=True, slots=True)
class Part:
    """Changes of the core: for each row the intervals of its attributes, its group, and the change of its
    count and sums (`values[c, row]`)."""

    ids: Array
    groups: Array
    values: Array

    def __len__(self) -> int:
        return len(self.groups)


@dataclass(frozen=True, slots=True)
class Sums:
    """By how much the count and the sums of views' groups change."""

    views: Array
    groups: Array
    values: Array

    def __len__(self) -> int:
        return len(self.views)


class Cells:
    """The intervals of the attributes of a template, and the views' ranges in them."""

    def __init__(self, shape: Shape, attributes: int, views: Sequence[Sequence[Range]]) -> None:
        self.shape, self.views = shape, [tuple(ranges) for ranges in views]
        self.leaves = _leaves(shape)
        found: list[set[Any]] = [set() for _ in range(attributes)]
        for ranges in self.views:
            for attribute, bounds in zip(self.leaves, ranges, strict=True):
                found[attribute].update(b for b in bounds if b is not None)
        self.bounds = [sorted(of) for of in found]
        place = [{bound: i + 1 for i, bound in enumerate(of)} for of in self.bounds]
        size = (len(self.leaves), len(self.views))
        self.lo, self.hi = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for v, ranges in enumerate(self.views):
            for i, (attribute, (lo, hi)) in enumerate(zip(self.leaves, ranges, strict=True)):
                self.lo[i, v] = 0 if lo is None else place[attribute][lo]
                self.hi[i, v] = len(self.bounds[attribute]) + 1 if hi is None else place[attribute][hi]
        self.sizes = tuple(len(of) + 1 for of in self.bounds)
        self.conjunctive = shape[0] == "in" or (shape[0] == "and" and all(s[0] == "in" for s in shape[1:]))

    @staticmethod
    def of(template: Template, views: Sequence[Sequence[Range]]) -> Cells:
        """The cells of a template's views."""
        return Cells(template.shape, len(template.attributes), views)

    # -- rows --------------------------------------------------------------------------------------

    def ids(self, columns: Sequence[Vector]) -> Array:
        """The interval of each attribute on each row, -1 where it is NULL."""
        rows = len(columns[0]) if columns else 0
        out = np.empty((len(self.bounds), rows), np.int64)
        for i, (column, bounds) in enumerate(zip(columns, self.bounds, strict=True)):
            out[i] = _intervals(column, bounds)
            if column.valid is not None:
                out[i][~column.valid] = -1
        return out

    def changes(self, parts: Sequence[Part], groups: int, mode: Mode = "double") -> Sums:
        """What the changes of the core are to the views."""
        parts = [part for part in parts if len(part)]
        if not parts or not self.views:
            return _nothing(parts)
        if sum(float(np.abs(part.values.astype(np.float64)).sum()) for part in parts) >= _EXACT or any(
            part.values.dtype == object for part in parts
        ):
            return _net(self.plain(parts))
        if mode == "auto":
            mode = cost.choice(self._batch(parts, groups), cost.measured())
        if mode == "standard":
            return self._standard(_joined(parts), groups)
        if mode == "single":
            return _net([self._shared(part, groups) for part in parts])
        return self._shared(_joined(parts), groups)

    def plain(self, parts: Sequence[Part]) -> list[Sums]:
        """Row by row and view by view, in numbers of any size: the slow twin."""
        width = len(parts[0].values)
        found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0] * width)
        for part in parts:
            for row, cell in enumerate(part.ids.T.tolist()):
                for view in range(len(self.views)):
                    if self._inside(cell, view):
                        of = found[view, int(part.groups[row])]
                        for c in range(width):
                            of[c] += int(part.values[c, row])
        kept = sorted((place, of) for place, of in found.items() if any(of))
        values = np.array([of for _, of in kept], object).reshape(len(kept), width).T
        views, groups = (np.array([place[i] for place, _ in kept], np.int64) for i in (0, 1))
        return [Sums(views, groups, values)]

    def _inside(self, cell: Sequence[int], view: int) -> bool:
        bounds = list(zip(self.lo[:, view].tolist(), self.hi[:, view].tolist(), strict=True))
        return holds(self.shape, bounds, [None if at < 0 else at for at in cell])

    # -- modes -------------------------------------------------------------------------------------

    def _standard(self, part: Part, groups: int) -> Sums:
        out = np.zeros((len(part.values), groups), np.int64)
        seen, touched = np.zeros(groups, np.bool_), np.empty(groups, np.int64)
        found = []
        attributes = np.array(self.leaves, np.int64)
        for view in range(len(self.views)):
            if self.conjunctive:
                lo, hi = self.lo[:, view].copy(), self.hi[:, view].copy()
                n = loops.alone(part.ids, attributes, lo, hi, part.groups, part.values, out, seen, touched)
                at = np.sort(touched[:n])
            else:
                keep = self._members(part.ids, slice(view, view + 1))[0]
                loops.accumulate(np.where(keep, part.groups, -1), part.values, out)
                at = np.unique(part.groups[keep])
            values = out[:, at]
            out[:, at], seen[at] = 0, False
            kept = values.any(axis=0)
            found.append(Sums(np.full(int(kept.sum()), view), at[kept], values[:, kept]))
        return _joined_sums(found)

    def _batch(self, parts: Sequence[Part], groups: int) -> cost.Batch:
        """What the cost of changes depends on."""
        rows = sum(map(len, parts))
        return cost.Batch(
            rows=rows,
            workers=len(parts),
            width=len(parts[0].values),
            groups=min(groups, rows),
            views=len(self.views),
            sizes=tuple(self.sizes[i] for i in sorted(set(self.leaves))),
            share=self._share,
            boxes=self.conjunctive,
        )

    @cached_property
    def _share(self) -> float:
        """How much of all cells a view has, in the mean."""
        if not self.conjunctive:
            return 0.5
        lo, hi = self._boxes
        of = [(hi[i] - lo[i]) / self.sizes[i] for i in set(self.leaves)]
        return float(np.prod(of, axis=0).mean())

    def _shared(self, part: Part, groups: int) -> Sums:
        batch = self._batch([part], groups)
        cells = groups * float(np.prod([float(n) for n in self.sizes]))
        if self.conjunctive and cells <= MAX_CELLS and cost.dense(batch) <= cost.routed(batch):
            return self._prefixed(part, groups)
        return self._routed(part)

    def _prefixed(self, part: Part, groups: int) -> Sums:
        """Boxes as corners of a prefix sum over dense cells."""
        codes = part.groups.copy()
        missing = np.zeros(len(codes), np.bool_)
        for i, (ids, size) in enumerate(zip(part.ids, self.sizes, strict=True)):
            codes = codes * size + np.maximum(ids, 0)
            if i in self.leaves:
                missing |= ids < 0
        codes[missing] = -1
        width = len(part.values)
        dense = np.zeros((width, groups * int(np.prod(self.sizes))), np.int64)
        loops.accumulate(codes, part.values, dense)
        cube = dense.reshape(width, groups, *self.sizes)
        padded = np.zeros((width, groups, *(n + 1 for n in self.sizes)), np.int64)
        padded[(slice(None), slice(None), *(slice(1, None) for _ in self.sizes))] = cube
        for axis in range(2, padded.ndim):
            np.cumsum(padded, axis=axis, out=padded)
        lo, hi = self._boxes
        total = np.zeros((width, groups, len(self.views)), np.int64)
        for corner in product((0, 1), repeat=len(self.sizes)):
            at = tuple(hi[i] if up else lo[i] for i, up in enumerate(corner))
            picked = padded[(slice(None), slice(None), *at)]
            total += picked if (len(corner) - sum(corner)) % 2 == 0 else -picked
        groups_of, views_of = np.nonzero(total.any(axis=0))
        return Sums(views_of, groups_of, total[:, groups_of, views_of])

    @cached_property
    def _boxes(self) -> tuple[Array, Array]:
        """The views' ranges by attribute; empty where they exclude each other."""
        d, n = len(self.bounds), len(self.views)
        lo = np.zeros((d, n), np.int64)
        hi = np.tile(np.array(self.sizes, np.int64)[:, None], (1, n))
        for leaf, attribute in enumerate(self.leaves):
            lo[attribute] = np.maximum(lo[attribute], self.lo[leaf])
            hi[attribute] = np.minimum(hi[attribute], self.hi[leaf])
        return lo, np.maximum(lo, hi)

    def _routed(self, part: Part) -> Sums:
        """Each cell that occurs to the views that have it."""
        kept = np.ones(len(part), np.bool_)
        for i, any_view in self._covered if self.conjunctive else ():
            kept &= any_view[part.ids[i] + 1]
        rows = (part.ids, part.groups, part.values)
        if not kept.all():
            rows = (part.ids[:, kept], part.groups[kept], part.values[:, kept])
        ids, groups, values = in_order(*rows, self.sizes)
        found = [
            Sums(views + begin, of, sums)
            for begin, router in self._routers
            for views, of, sums in router.routed(ids, groups, values)
        ]
        return _joined_sums(found) if found else _nothing([part])

    @cached_property
    def _routers(self) -> list[tuple[int, Router]]:
        """Routers of the views, some at a time, with the first of each."""
        lo, hi = self._boxes if self.conjunctive else (self.lo, self.hi)
        return [
            (
                at,
                Router(
                    self.shape,
                    self.leaves,
                    self.sizes,
                    lo[:, at : at + VIEWS],
                    hi[:, at : at + VIEWS],
                    self.conjunctive,
                ),
            )
            for at in range(0, len(self.views), VIEWS)
        ]

    @cached_property
    def _covered(self) -> list[tuple[int, Array]]:
        """For each attribute that is compared, whether any view has an interval; NULL comes first."""
        lo, hi = self._boxes
        found = []
        for i in sorted(set(self.leaves)):
            size = self.sizes[i]
            change = np.bincount(lo[i], minlength=size + 1) - np.bincount(hi[i], minlength=size + 1)
            found.append((i, np.r_[False, np.cumsum(change)[:size] > 0]))
        return found

    def _members(self, ids: Array, views: slice) -> Array:
        """Whether a view has a cell, `[view, cell]`, for regions of any shape."""
        leaf = iter(range(len(self.leaves)))

        def inside(shape: Shape) -> Array:
            if shape[0] == "in":
                i, at = next(leaf), ids[shape[1]]
                found: Array = (self.lo[i, views][:, None] <= at) & (at < self.hi[i, views][:, None])
                return found & (at >= 0)
            parts = [inside(part) for part in shape[1:]]
            both = np.logical_and if shape[0] == "and" else np.logical_or
            reduced: Array = both.reduce(parts)
            return reduced

        return inside(self.shape)


def _leaves(shape: Shape) -> list[int]:
    if shape[0] == "in":
        return [shape[1]]
    return [attribute for part in shape[1:] for attribute in _leaves(part)]


def _intervals(column: Vector, bounds: Sequence[Any]) -> Array:
    """How many bounds each value is at or above."""
    if column.dictionary is not None:
        above = np.array([_at(value, bounds) for value in column.dictionary.tolist()], np.int64)
        return above[column.values]
    if column.values.dtype == object:
        return np.array([_at(value, bounds) for value in column.values.tolist()], np.int64)
    limits = np.array(bounds, np.float64 if column.type.is_float else np.int64)
    return np.searchsorted(limits, column.values, side="right").astype(np.int64)


def _at(value: Any, bounds: Sequence[Any]) -> int:
    return bisect_right(bounds, value)


def _joined(parts: Sequence[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    return Part(
        np.concatenate([part.ids for part in parts], axis=1),
        np.concatenate([part.groups for part in parts]),
        np.concatenate([part.values for part in parts], axis=1),
    )


def _nothing(parts: Sequence[Part]) -> Sums:
    none, width = np.zeros(0, np.int64), len(parts[0].values) if parts else 1
    return Sums(none, none, np.zeros((width, 0), np.int64))


def _joined_sums(found: Sequence[Sums]) -> Sums:
    if len(found) < 2:
        return found[0] if found else _nothing([])
    return Sums(
        np.concatenate([sums.views for sums in found]),
        np.concatenate([sums.groups for sums in found]),
        np.concatenate([sums.values for sums in found], axis=1),
    )


def _net(found: Sequence[Sums]) -> Sums:
    """Added up by view and group."""
    every = _joined_sums(found)
    if not len(every):
        return every
    order = np.lexsort((every.groups, every.views))
    views, groups = every.views[order], every.groups[order]
    begins = np.flatnonzero(np.r_[True, (np.diff(views) != 0) | (np.diff(groups) != 0)])
    values = np.add.reduceat(every.values[:, order], begins, axis=1)
    kept = (values != 0).any(axis=0)
    return Sums(views[begins][kept], groups[begins][kept], values[:, kept])


class Totals:
    """The count and the sums of each view's groups.

    >>> totals = Totals(1)
    >>> one = Sums(np.array([0]), np.array([7]), np.array([[2]]))
    >>> totals.add(one).tolist(), totals.add(one).tolist()
    ([[2]], [[4]])
    """

    def __init__(self, width: int) -> None:
        self._places = np.zeros(0, np.int64)
        self._values = np.zeros((width, 0), np.int64)
        self._most = 0.0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, sums: Sums) -> Array:
        """Add changes, one for each view and group; what there is then (`values[c, i]`)."""
        if not len(sums):
            return sums.values
        self._most += float(np.abs(sums.values.astype(np.float64)).sum())
        if self._most >= _EXACT and self._values.dtype != object:
            self._values = self._values.astype(object)
        places = (sums.views << 40) | sums.groups
        at = np.searchsorted(self._places, places)
        there = np.zeros(len(places), np.bool_)
        if len(self._places):
            there = self._places[np.minimum(at, len(self._places) - 1)] == places
        now = sums.values.astype(self._values.dtype)
        now[:, there] += self._values[:, at[there]]
        self._values[:, at[there]] = now[:, there]
        new = np.flatnonzero(~there)
        if len(new):
            new = new[np.argsort(places[new])]
            self._places = np.insert(self._places, at[new], places[new])
            self._values = np.insert(self._values, at[new], now[:, new], axis=1)
        gone = (now == 0).all(axis=0)
        if gone.any():
            keep = (self._values != 0).any(axis=0)
            self._places, self._values = self._places[keep], self._values[:, keep]
        return now
