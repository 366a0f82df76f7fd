"""Tuples of arrays as joins of views read them: some chunks of an array, or cells of a batch.

A source of a view is looked up by the tight boxes of its chunks: those that may have partners of some cells
are found without looking at any other cell.

Invariant: `near` leaves out no chunk that has a matching cell; `Boxes.changed` is `Boxes.of` the new array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.arrays.cells import Array
from everfresh.arrays.chunk import coordinates
from everfresh.arrays.join import Cells, Pairs
from everfresh.arrays.mapping import Mapping
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.shape import Shape
from everfresh.expr.arrow import vector_from_arrow
from everfresh.expr.column import Vector
from everfresh.expr.nodes import Expr, Var
from everfresh.local.adhoc import execute
from everfresh.sql.logical.plan import Project, Scan
from everfresh.types import no_rows

_WIDE = 1 << 62
_BLOCK = 1 << 22
_ROWS = "\0rows"


class Tuples:
    """Tuples of one source, chunk by chunk: `starts` says where each chunk begins, and the end."""

    def __init__(self, table: pa.Table, ndim: int, starts: Ints, scan: Scan) -> None:
        self.table, self.ndim, self.starts, self.scan = table, ndim, starts, scan
        self._vectors: dict[Expr, Vector] = {}

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows

    @cached_property
    def coords(self) -> Ints:
        """Coordinates: a row for each dimension."""
        return coordinates(self.table, self.ndim)

    @cached_property
    def cells(self) -> Cells:
        """Where the tuples are."""
        return Cells.of(self.coords, self.starts)

    def image(self, mapping: Mapping) -> Cells:
        """Where they lie in the next source."""
        return Cells.of(mapping.cells(self.coords), self.starts)

    def vector(self, expr: Expr) -> Vector:
        """The values of an expression of this source's columns."""
        if expr not in self._vectors:
            self._vectors[expr] = vector_of(expr, self.scan, self.table)
        return self._vectors[expr]

    def filtered(self, conditions: Sequence[Expr]) -> Tuples:
        """Those for which all conditions are TRUE."""
        if not conditions or not len(self):
            return self
        keep = np.ones(len(self), np.bool_)
        for condition in conditions:
            keep &= truth(self.vector(condition))
        if keep.all():
            return self
        starts = np.concatenate(([0], np.cumsum(keep)))[self.starts]
        return Tuples(self.table.filter(pa.array(keep)), self.ndim, starts, self.scan)

    def compact(self) -> Tuples:
        """Without the chunks of which nothing is left."""
        there = np.diff(self.starts) > 0
        if there.all():
            return self
        starts = np.append(self.starts[:-1][there], len(self))
        return Tuples(self.table, self.ndim, starts, self.scan)

    def chunks(self, some: Ints) -> Tuples:
        """Those of some chunks, in this order."""
        ends = zip(self.starts[some], self.starts[some + 1], strict=True)
        rows = np.concatenate([np.arange(a, b) for a, b in ends])
        starts = np.concatenate(([0], np.cumsum(np.diff(self.starts)[some])))
        return Tuples(self.table.take(rows), self.ndim, starts, self.scan)

    def boxes(self) -> tuple[Ints, Ints]:
        """The tight boxes of the chunks, none of which is empty."""
        first = self.starts[:-1]
        return np.minimum.reduceat(self.coords, first, axis=1), np.maximum.reduceat(
            self.coords, first, axis=1
        )


def vector_of(expr: Expr, scan: Scan, table: pa.Table) -> Vector:
    """The values of an expression over rows that stand for the columns of a scan."""
    if isinstance(expr, Var):
        place = [v.name for v in scan.vars].index(expr.name)
        return vector_from_arrow(table.column(place), expr.type)
    plan = Project(Scan(_ROWS, _ROWS, scan.vars), (("value", expr),))
    return vector_from_arrow(execute(plan, {_ROWS: table}.__getitem__).column(0), expr.type)


def truth(vector: Vector) -> NDArray[np.bool_]:
    """Where a condition is TRUE."""
    found = np.asarray(vector.values, np.bool_)
    return found if vector.valid is None else found & vector.valid


def batch(table: pa.Table, schema: ArraySchema, scan: Scan) -> Tuples:
    """Cells of a batch, sorted by chunks."""
    numbers = schema.chunk_ids(coordinates(table, schema.ndim))
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1]))) if len(order) else order
    return Tuples(table.take(order), schema.ndim, np.append(starts, len(order)), scan)


def tuples_of(array: Array, scan: Scan, chunks: Sequence[int] | None = None) -> Tuples:
    """The tuples of an array, or of some of its chunks."""
    if chunks is None:
        known = array.table
        return Tuples(known, array.schema.ndim, np.array([0, known.num_rows], np.int64), scan)
    return laid([array.chunks[c].table for c in chunks], array.schema, scan)


def laid(tables: Sequence[pa.Table], schema: ArraySchema, scan: Scan) -> Tuples:
    """The tuples of chunks, one after the other."""
    starts = np.cumsum([0, *(t.num_rows for t in tables)])
    table = pa.concat_tables(tables).combine_chunks() if tables else no_rows(schema.arrow)
    return Tuples(table, schema.ndim, starts, scan)


# -- chunks and their boxes ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Boxes:
    """The chunks of a source: their numbers in ascending order, their tight boxes, and boxes that hold their
    images in the next source."""

    ids: Ints
    lo: Ints
    hi: Ints
    image_lo: Ints
    image_hi: Ints

    @staticmethod
    def of(array: Array, mapping: Mapping | None, chunks: Sequence[int] | None = None) -> Boxes:
        """Those of an array, or of some of its chunks."""
        ids = np.array(sorted(array.chunks if chunks is None else chunks), np.int64)
        ndim = array.schema.ndim
        lo, hi = np.empty((ndim, len(ids)), np.int64), np.empty((ndim, len(ids)), np.int64)
        image_lo = image_hi = np.empty((0, len(ids)), np.int64)
        if mapping is not None:
            image_lo, image_hi = (np.empty((mapping.outputs, len(ids)), np.int64) for _ in range(2))
        for k, number in enumerate(ids.tolist()):
            chunk = array.chunks[number]
            lo[:, k], hi[:, k] = chunk.box
            if mapping is not None and not mapping.keeps_order:
                images = mapping.cells(chunk.coords)
                image_lo[:, k], image_hi[:, k] = images.min(axis=1), images.max(axis=1)
        if mapping is not None and mapping.keeps_order and len(ids):
            image_lo, image_hi = mapping.image(lo, hi)
        return Boxes(ids, lo, hi, image_lo, image_hi)

    def changed(self, array: Array, touched: Ints, mapping: Mapping | None) -> Boxes:
        """Those of the array after some chunks have changed."""
        there = [int(c) for c in touched if int(c) in array.chunks]
        new = Boxes.of(array, mapping, there)
        keep = ~np.isin(self.ids, touched)
        ids = np.concatenate([self.ids[keep], new.ids])
        order = np.argsort(ids, kind="stable")
        rows = [
            np.concatenate([a[:, keep], b], axis=1)[:, order]
            for a, b in zip(self._rows(), new._rows(), strict=True)
        ]
        return Boxes(ids[order], *rows)

    def _rows(self) -> tuple[Ints, Ints, Ints, Ints]:
        return self.lo, self.hi, self.image_lo, self.image_hi


def near(lo: Ints, hi: Ints, other_lo: Ints, other_hi: Ints, shape: Shape) -> Pairs:
    """The pairs of boxes of images and of boxes that cells may match in, as positions."""
    ndim = len(lo)
    if not lo.shape[1] or not other_lo.shape[1]:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    found: list[Ints] = []
    step = max(1, _BLOCK // other_lo.shape[1])
    bounds = [part.bounds(ndim) for part in shape.parts(ndim)]
    for begin in range(0, lo.shape[1], step):
        some = slice(begin, begin + step)
        met: Any = None
        for part in bounds:
            touch: Any = None
            for k, (low, high) in enumerate(part):
                if low is None and high is None:
                    continue
                least = lo[k, some] + (-_WIDE if low is None else low)
                most = hi[k, some] + (_WIDE if high is None else high)
                one = (least[:, None] <= other_hi[k]) & (other_lo[k] <= most[:, None])
                touch = one if touch is None else touch & one
            if touch is None:
                touch = np.ones((lo[0, some].shape[0], other_lo.shape[1]), np.bool_)
            met = touch if met is None else met | touch
        p, q = np.nonzero(met)
        found.append(np.stack([p + begin, q]))
    p, q = np.concatenate(found, axis=1)
    return p, q
