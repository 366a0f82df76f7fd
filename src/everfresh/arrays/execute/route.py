"""Whose rows are whose: groups by a hash of their keys, cells by the worker of their chunk.

Invariant: equal keys have one owner, whoever asks, in any process; NULL is a key like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.arrays.chunk import codes_of, coordinates
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.plan.place import mixed

_NOTHING = -0x61C8864680B583EB
Parts = Iterator[tuple[int, pa.Table]]


def parts(table: pa.Table, owners: Ints) -> Parts:
    """Rows by their owner."""
    if not table.num_rows:
        return
    order = np.argsort(owners, kind="stable")
    rows, owners = table.take(order), owners[order]
    starts = np.flatnonzero(np.concatenate(([True], owners[1:] != owners[:-1])))
    for a, b in zip(starts, np.append(starts[1:], len(owners)), strict=True):
        yield int(owners[a]), rows.slice(a, b - a)


def by_keys(table: pa.Table, keys: int, workers: int) -> Ints:
    """The owner of each row by its first `keys` columns.

    >>> rows = pa.table({"i": [1, 2, 1], "s": ["x", None, "x"]})
    >>> a, b, c = by_keys(rows, 2, 64).tolist()
    >>> a == c, a == b
    (True, False)
    """
    codes = np.empty((table.num_rows, max(keys, 1)), np.int64)
    codes[:] = 0
    for k in range(keys):
        codes[:, k] = _codes(table.column(k))
    return (mixed(codes) % np.uint64(workers)).astype(np.int64)


def _codes(column: pa.ChunkedArray) -> Ints:
    """A number for each value: the same wherever the value is met."""
    if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        whole = pc.fill_null(column.cast(pa.int64()), _NOTHING)  # whether there are NULLs beside it or not
        return np.asarray(whole.to_numpy(), np.int64)
    coded = pc.dictionary_encode(codes_of(column).combine_chunks())
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    numbers = np.array([crc32(repr(v).encode()) for v in coded.dictionary.to_pylist()] + [-1], np.int64)
    index = pc.fill_null(coded.indices, len(numbers) - 1)
    found: Ints = numbers[np.asarray(index)]
    return found


@dataclass(frozen=True, eq=False)
class ChunkOwners:
    """Who keeps the chunks of a result: where the left chunks that they lie along were joined, as far as the
    result has all dimensions of the left array; else a hash says it.

    `dims[k]` is the result's dimension that is the left array's k-th; none if it lacks one. `chunk` and
    `worker` say it of left chunks, by ascending number.
    """

    result: ArraySchema
    workers: int
    left: ArraySchema | None = None
    dims: tuple[int, ...] = ()
    chunk: Ints | None = None
    worker: Ints | None = None

    def of(self, numbers: Ints) -> Ints:
        """The worker of each of these chunks of the result."""
        places = np.array([self.result.chunk_place(int(n)) for n in numbers], np.int64)
        places = places.reshape(-1, self.result.ndim)
        hashed = (mixed(places) % np.uint64(self.workers)).astype(np.int64)
        if self.left is None or self.chunk is None or self.worker is None or not len(self.chunk):
            return hashed
        first = self.result.lo[:, None] + places.T * self.result.lengths[:, None]
        along = np.clip(first[list(self.dims)], self.left.lo[:, None], self.left.hi[:, None])
        along = self.left.chunk_ids(along)
        at = np.minimum(np.searchsorted(self.chunk, along), len(self.chunk) - 1)
        return np.where(self.chunk[at] == along, self.worker[at], hashed).astype(np.int64)

    def rows(self, table: pa.Table) -> Ints:
        """The worker of each row of the result."""
        coords = coordinates(table, self.result.ndim)
        self.result.check_inside(coords)
        numbers, which = np.unique(self.result.chunk_ids(coords), return_inverse=True)
        return self.of(numbers)[which]
