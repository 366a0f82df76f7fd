"""Changes of the core to the views that have their cells, by bit vectors: one bit a view.

Section 5.1.1 of the thesis on key-value views. For every interval of an attribute one vector says whose range
has it; the vectors of a row's intervals, joined as the views' conditions are, have a bit for each view that
the row is of. Rows of one group follow each other, so that a view's sum of a group is finished when the group
is. Invariant: what `routed` gives is what `Cells.plain` gives, in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from everfresh.kv.sharing.kernels import loops
from everfresh.kv.sharing.template import Shape

Array = np.ndarray[Any, Any]
VIEWS = 1 << 14
"""Of so many views at a time: vectors of more would not fit where they are fast."""
_WORDS = 1 << 22
_OUT = 1 << 26
_EXACT = 2.0**62
Found = tuple[Array, Array, Array]
"""Views, groups, and the change of their count and sums (`values[c, i]`)."""


class Router:
    """The vectors of some views: `lo` and `hi` by leaf of their shape, and by attribute where it is a
    conjunction."""

    def __init__(
        self, shape: Shape, leaves: Sequence[int], sizes: Sequence[int], lo: Array, hi: Array, boxes: bool
    ) -> None:
        self.shape, self.leaves, self.boxes, self.views = shape, list(leaves), boxes, lo.shape[1]
        of = sorted(set(leaves)) if boxes else self.leaves
        self.attributes = of
        words = (self.views + 63) // 64
        self.firsts, self.tables = [], []
        at = 0
        for i, attribute in enumerate(of):
            place = attribute if boxes else i
            table = np.zeros((sizes[attribute] + 1, words), np.uint64)  # the first is that of NULL
            loops.vectors(np.ascontiguousarray(lo[place]), np.ascontiguousarray(hi[place]), table)
            self.firsts.append(at)
            self.tables.append(table)
            at += len(table)
        self.table = np.concatenate(self.tables)

    def routed(self, ids: Array, groups: Array, values: Array) -> Iterator[Found]:
        """What rows are to the views; rows of one group follow each other."""
        if self.boxes:
            at = np.array([ids[a] + 1 + first for a, first in zip(self.attributes, self.firsts, strict=True)])
            yield from self._routed(np.ascontiguousarray(at), groups, values, self.table)
            return
        most = max(1, _WORDS // self.table.shape[1])
        begin = 0
        while begin < len(groups):
            end = min(begin + most, len(groups))
            if end < len(groups):  # a group is not divided
                end = int(np.searchsorted(groups, groups[end], side="left"))
                if end <= begin:
                    end = int(np.searchsorted(groups, groups[begin], side="right"))
            table = self._vectors(self.shape, iter(range(len(self.leaves))), ids[:, begin:end])
            at = np.arange(end - begin)[None, :]
            yield from self._routed(at, groups[begin:end], values[:, begin:end], table)
            begin = end

    def _vectors(self, shape: Shape, leaf: Iterator[int], ids: Array) -> Array:
        """The vector of each row."""
        if shape[0] == "in":
            found: Array = self.tables[next(leaf)][ids[shape[1]] + 1]
            return found
        parts = [self._vectors(part, leaf, ids) for part in shape[1:]]
        both = np.bitwise_and if shape[0] == "and" else np.bitwise_or
        reduced: Array = both.reduce(parts)
        return reduced

    def _routed(self, at: Array, groups: Array, values: Array, table: Array) -> Iterator[Found]:
        stamps, slots = np.full(self.views, -1), np.zeros(self.views, np.int64)
        values, begin = np.ascontiguousarray(values), 0
        different = int((np.diff(groups) != 0).sum()) + 1 if len(groups) else 0
        room = max(self.views, min(_OUT, self.views * different))  # what is not written takes no memory
        while begin < len(groups):
            views, of = np.empty(room, np.int64), np.empty(room, np.int64)
            out = np.empty((len(values), room), np.int64)
            begin, n = loops.route(begin, at, groups, values, table, stamps, slots, views, of, out)
            yield views[:n], of[:n], out[:, :n]


def in_order(ids: Array, groups: Array, values: Array, sizes: Sequence[int]) -> tuple[Array, Array, Array]:
    """Rows by group, those of one cell added up."""
    cells = float(np.prod([float(n + 1) for n in sizes]))
    if cells * (float(groups.max(initial=0)) + 1) >= _EXACT:
        order = np.argsort(groups, kind="stable")
        return ids[:, order], groups[order], values[:, order]
    code = groups
    for column, size in zip(ids, sizes, strict=True):
        code = code * (size + 1) + (column + 1)
    order = np.argsort(code, kind="stable")
    code = code[order]
    begins = np.flatnonzero(np.r_[True, code[1:] != code[:-1]]) if len(code) else order
    if len(begins) == len(order):
        return ids[:, order], groups[order], values[:, order]
    first = order[begins]
    return ids[:, first], groups[first], np.add.reduceat(values[:, order], begins, axis=1)


__all__ = ["VIEWS", "Found", "Router", "in_order"]
