"""The content of a chunk: sorted cells in columns, and how it changes.

Section 2.1 of the paper on similarity joins: cells lie in row-major order, each attribute in a column of its
own. A cell with several tuples has a row for each.

Invariant: rows are sorted by their coordinates, and rows of one cell by when they came; a change is judged by
its net effect, as a bag: a batch that deletes what is not there, or that leaves two tuples in a cell of a
UNIQUE array, changes nothing. `Chunk.decode(c.encode())` has the rows of `c`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.arrays.model import ArraySchema, Ints
from everfresh.errors import Code, EverfreshError
from everfresh.expr.arrow import vector_from_arrow
from everfresh.expr.column import Vector
from everfresh.state import pack_table, unpack_table
from everfresh.types import SqlType, from_arrow
from everfresh.types.exchange import coded

_MOST = 1 << 62


@dataclass(frozen=True, eq=False)
class Chunk:
    """The cells of one chunk: the columns of its dimensions, then of its attributes."""

    table: pa.Table
    ndim: int

    @staticmethod
    def of(table: pa.Table, ndim: int) -> Chunk:
        """A chunk of rows in any order.

        >>> chunk = Chunk.of(pa.table({"i": [2, 1], "v": [5, 7]}), 1)
        >>> chunk.table.to_pydict(), [x.tolist() for x in chunk.box]
        ({'i': [1, 2], 'v': [7, 5]}, [[1], [2]])
        """
        made = Chunk(table.combine_chunks(), ndim)
        coords = made.coords
        if is_sorted(coords):
            return made
        return Chunk(made.table.take(np.lexsort(coords[::-1])), ndim)

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows

    @cached_property
    def coords(self) -> Ints:
        """The coordinates: a row for each dimension, a column for each tuple."""
        return coordinates(self.table, self.ndim)

    @cached_property
    def box(self) -> tuple[Ints, Ints]:
        """The least and the greatest index in each dimension: the tight box of what is there."""
        if not len(self):
            raise EverfreshError(Code.ARGUMENT, "an empty chunk has no box")
        return self.coords.min(axis=1), self.coords.max(axis=1)

    @property
    def nbytes(self) -> int:
        """The size of the columns."""
        size: int = self.table.nbytes
        return size

    def vector(self, name: str, type_: SqlType) -> Vector:
        """A column to compute with."""
        return vector_from_arrow(self.table.column(name), type_)

    def encode(self) -> bytes:
        """The chunk as bytes: the content of a unit."""
        return pack_table(self.table)

    @staticmethod
    def decode(data: bytes, ndim: int) -> Chunk:
        """The inverse of `encode`."""
        return Chunk(unpack_table(data), ndim)

    def changed(self, schema: ArraySchema, inserts: pa.Table, deletes: pa.Table) -> Chunk:
        """The chunk after a batch of whole rows; raises if the batch does not fit what is there.

        >>> from everfresh.arrays.model import Dimension
        >>> from everfresh.types import BIGINT, Column
        >>> a = ArraySchema("a", (Dimension("i", 1, 8, 2),), (Column("v", BIGINT),))
        >>> rows = lambda *cells: pa.Table.from_pylist([dict(i=i, v=v) for i, v in cells], schema=a.arrow)
        >>> Chunk.of(rows((1, 5), (1, 5)), 1).changed(a, rows((2, 6)), rows((1, 5))).table.to_pydict()
        {'i': [1, 2], 'v': [5, 6]}
        """
        if not deletes.num_rows:
            after = Chunk.of(pa.concat_tables([self.table, inserts]), self.ndim)
        else:
            rows = pa.concat_tables([self.table, inserts, deletes]).combine_chunks()
            weights = np.ones(rows.num_rows, np.int64)
            weights[rows.num_rows - deletes.num_rows :] = -1
            after = Chunk.of(rows.take(_netted(rows, weights, schema.name)), self.ndim)
        if schema.unique:
            check_unique(after.coords, schema)
        return after


def exchanged(schema: ArraySchema, chunk: Chunk, came: pa.Table, went: pa.Table) -> Chunk:
    """A chunk of an array with one tuple to a cell after cells that went, known by their places alone, and
    that came; nothing is checked.

    >>> from everfresh.arrays.model import Dimension
    >>> from everfresh.types import BIGINT, Column
    >>> a = ArraySchema("a", (Dimension("i", 1, 8, 4),), (Column("v", BIGINT),), True)
    >>> rows = lambda *cells: pa.Table.from_pylist([dict(i=i, v=v) for i, v in cells], schema=a.arrow)
    >>> exchanged(a, Chunk(rows((1, 5), (3, 6)), 1), rows((1, 7), (2, 8)), rows((1, 5))).table.to_pydict()
    {'i': [1, 2, 3], 'v': [7, 8, 6]}
    """
    if math.prod(schema.lengths.tolist()) >= _MOST:  # places do not fit one number
        return chunk.changed(schema, came, went)
    old, gone, new = (_places(schema, table) for table in (chunk.table, went, came))
    keep = ~np.isin(old, gone)
    rows = pa.concat_tables([chunk.table.filter(pa.array(keep)), came])
    order = np.argsort(np.concatenate([old[keep], new]), kind="stable")
    return Chunk(rows.take(order).combine_chunks(), schema.ndim)


def _places(schema: ArraySchema, table: pa.Table) -> Ints:
    """Where cells of one chunk lie in it, row-major."""
    coords = coordinates(table, schema.ndim)
    inside = (coords - schema.lo[:, None]) % schema.lengths[:, None]
    found = inside[0]
    for k in range(1, schema.ndim):
        found = found * schema.lengths[k] + inside[k]
    return np.asarray(found, np.int64)


def coordinates(table: pa.Table, ndim: int, into: Ints | None = None) -> Ints:
    """The first `ndim` columns as one array with a row for each, in the place of `into` if that is given."""
    found = np.empty((ndim, table.num_rows), np.int64) if into is None else into
    for k in range(ndim):
        found[k] = table.column(k).to_numpy()
    return found


def is_sorted(coords: Ints) -> bool:
    """Whether cells lie in row-major order."""
    if coords.shape[1] < 2:
        return True
    decided = np.zeros(coords.shape[1] - 1, np.bool_)
    for row in coords:
        step = np.diff(row)
        if (step[~decided] < 0).any():
            return False
        decided |= step > 0
    return True


def check_unique(coords: Ints, schema: ArraySchema) -> None:
    """Raise if sorted cells of a UNIQUE array hold more than one tuple."""
    same = (coords[:, 1:] == coords[:, :-1]).all(axis=0)
    if same.any():
        cell = ", ".join(map(str, coords[:, int(np.flatnonzero(same)[0])]))
        raise EverfreshError(
            Code.DUPLICATE_KEY,
            f"cell [{cell}] of the UNIQUE array '{schema.name}' would hold more than one tuple",
            hint="delete the old tuple in the same batch, or create the array without UNIQUE",
        )


def _netted(rows: pa.Table, weights: Ints, name: str) -> Ints:
    """Which rows are left when equal ones are added up, in their order; deletes have weight -1."""
    codes = np.empty((rows.num_columns, rows.num_rows), np.int64)
    for k, column in enumerate(rows.columns):
        codes[k] = _codes(column)
    order = np.lexsort((-weights, *codes))
    sorted_codes, sorted_weights = codes[:, order], weights[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (sorted_codes[:, 1:] != sorted_codes[:, :-1]).any(axis=0)
    starts = np.flatnonzero(first)
    totals = np.add.reduceat(sorted_weights, starts)
    if (totals < 0).any():
        row = order[starts[int(np.flatnonzero(totals < 0)[0])]]
        shown = ", ".join(f"{n} = {rows.column(n)[int(row)].as_py()}" for n in rows.column_names)
        raise EverfreshError(
            Code.MISSING_ROW,
            f"a tuple to delete is not in array '{name}': {shown}",
            hint="a delete names all dimensions and attributes of a tuple that is there",
        )
    run = np.cumsum(first) - 1
    rank = np.arange(len(order)) - starts[run]
    return np.sort(order[rank < totals[run]])


def codes_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose equal values are the same to Arrow: 0.0 and -0.0 are one, nested values their codes."""
    kind = from_arrow(column.type)
    if pa.types.is_floating(column.type):
        return pc.add(column, pa.scalar(0.0, column.type))
    if pa.types.is_interval(column.type):
        return pa.chunked_array([pa.array([str(span) for span in column.to_pylist()], pa.string())])
    if kind is not None and (
        pa.types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType)
    ):
        return pa.chunked_array([coded(column, kind)])
    return column


def _codes(column: pa.ChunkedArray) -> Ints:
    """Equal numbers for equal values; NULLs are equal, and so are NaNs."""
    if pa.types.is_int64(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(), np.int64)
    array = codes_of(column).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    found = pc.dictionary_encode(array, null_encoding="encode").indices
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
