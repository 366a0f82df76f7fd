"""The array model: named integer dimensions cut into chunks, and typed attributes.

Section 2.1 of the paper on similarity joins. An array is a function from cells, places with an integer index
in each dimension, to tuples of attributes; only cells that hold data are stored. A cell may hold several
tuples unless the array is UNIQUE. Chunks are regular: all of one shape, aligned with the dimensions, numbered
row-major, also where they are empty.

Invariant: a coordinate belongs to one chunk, by floor division; `ddl` reads back as the same schema
(`everfresh.arrays.aql`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.errors import Code, EverfreshError
from everfresh.expr.tokens import quote_name
from everfresh.types import BIGINT, Column, TableSchema

Ints = NDArray[np.int64]
_MOST = 1 << 62
"""Chunks of an array, and indices of a dimension: what is counted in 64 bits with room to spare."""


@dataclass(frozen=True)
class Dimension:
    """A dimension: its name, its first and last index, and how many of them a chunk has.

    >>> print(Dimension("i", 1, 8, 2))
    i=1,8,2
    """

    name: str
    lo: int
    hi: int
    chunk: int

    def __post_init__(self) -> None:
        what = f"dimension '{self.name}'"
        if self.hi < self.lo:
            raise _bad(
                f"{what} ends at {self.hi}, before it begins at {self.lo}", "write name=first,last,chunk"
            )
        if self.chunk < 1:
            raise _bad(f"{what} has chunks of {self.chunk} indices", "a chunk has at least one index")
        if not (self.lo > -_MOST and self.hi < _MOST):
            raise _bad(f"{what} leaves the range of 62 bits", "scale the coordinates down")

    def __str__(self) -> str:
        return f"{quote_name(self.name)}={self.lo},{self.hi},{self.chunk}"

    @property
    def chunks(self) -> int:
        """How many chunks lie side by side."""
        return (self.hi - self.lo) // self.chunk + 1


@dataclass(frozen=True)
class ArraySchema:
    """An array's name, dimensions and attributes, and whether a cell holds at most one tuple.

    >>> a = ArraySchema("a", (Dimension("i", 1, 8, 2), Dimension("j", 1, 8, 2)), (Column("v", BIGINT),))
    >>> print(a.ddl)
    CREATE ARRAY a <v: BIGINT> [i=1,8,2; j=1,8,2]
    >>> a.chunk_ids(np.array([[1, 3, 8], [1, 4, 8]])).tolist()
    [0, 5, 15]
    """

    name: str
    dimensions: tuple[Dimension, ...]
    attributes: tuple[Column, ...] = ()
    unique: bool = False

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise _bad(f"array '{self.name}' has no dimension", "write [i=1,100,10]")
        seen: set[str] = set()
        for name in self.names:
            if name.lower() in seen:
                raise EverfreshError(
                    Code.EXISTS,
                    f"array '{self.name}' has two dimensions or attributes called '{name}'",
                    hint="names differ by more than upper and lower case",
                )
            seen.add(name.lower())
        total = 1
        for dimension in self.dimensions:
            total *= dimension.chunks
        if total >= _MOST:
            raise _bad(f"array '{self.name}' has {total} chunks", "use longer chunks")

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.dimensions)

    @cached_property
    def dimension_names(self) -> tuple[str, ...]:
        """The names of the dimensions, in order."""
        return tuple(d.name for d in self.dimensions)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions, then of the attributes."""
        return self.dimension_names + tuple(a.name for a in self.attributes)

    def position(self, name: str) -> int:
        """Which dimension is called `name`, in whatever case."""
        lower = [d.lower() for d in self.dimension_names]
        if name.lower() not in lower:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"array '{self.name}' has no dimension '{name}'",
                hint="dimensions are: " + ", ".join(self.dimension_names),
            )
        return lower.index(name.lower())

    @property
    def columns(self) -> tuple[Column, ...]:
        """The array as a relation: a column for each dimension, then for each attribute."""
        return tuple(Column(d.name, BIGINT, False) for d in self.dimensions) + self.attributes

    @cached_property
    def table(self) -> TableSchema:
        """The relation of the array's cells."""
        return TableSchema(self.name, self.columns)

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the array's cells."""
        return self.table.arrow

    @property
    def ddl(self) -> str:
        """The statement that creates the array."""
        attributes = ", ".join(
            f"{quote_name(a.name)}: {a.type}{'' if a.nullable else ' NOT NULL'}" for a in self.attributes
        )
        unique = "UNIQUE " if self.unique else ""
        return f"CREATE {unique}ARRAY {quote_name(self.name)} <{attributes}> {self.box_text}"

    @property
    def box_text(self) -> str:
        """The dimensions as they are written."""
        return "[" + "; ".join(map(str, self.dimensions)) + "]"

    # -- chunks --------------------------------------------------------------------------------------

    @cached_property
    def lo(self) -> Ints:
        """The first index of each dimension."""
        return np.array([d.lo for d in self.dimensions], np.int64)

    @cached_property
    def hi(self) -> Ints:
        """The last index of each dimension."""
        return np.array([d.hi for d in self.dimensions], np.int64)

    @cached_property
    def lengths(self) -> Ints:
        """The indices of a chunk in each dimension."""
        return np.array([d.chunk for d in self.dimensions], np.int64)

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """How many chunks lie side by side in each dimension."""
        return tuple(d.chunks for d in self.dimensions)

    @cached_property
    def _strides(self) -> Ints:
        strides = np.ones(self.ndim, np.int64)
        for k in range(self.ndim - 2, -1, -1):
            strides[k] = strides[k + 1] * self.grid[k + 1]
        return strides

    def chunk_places(self, coords: Ints) -> Ints:
        """In which chunk of each dimension cells lie; a row for each dimension, in both."""
        return (coords - self.lo[:, None]) // self.lengths[:, None]

    def chunk_ids(self, coords: Ints) -> Ints:
        """The number of the chunk of each cell, whose coordinates are inside of the array."""
        return self._strides @ self.chunk_places(coords)

    def chunk_place(self, chunk: int) -> tuple[int, ...]:
        """Where a chunk stands among the chunks, counted from 0 in each dimension."""
        return tuple(
            int(chunk // stride % size) for stride, size in zip(self._strides, self.grid, strict=True)
        )

    def chunk_id(self, place: Sequence[int]) -> int:
        """The inverse of `chunk_place`."""
        return int(sum(int(p) * int(s) for p, s in zip(place, self._strides, strict=True)))

    def chunk_box(self, chunk: int) -> tuple[Ints, Ints]:
        """The first and the last index of a chunk in each dimension."""
        first = self.lo + np.array(self.chunk_place(chunk), np.int64) * self.lengths
        return first, np.minimum(first + self.lengths - 1, self.hi)

    def check_inside(self, coords: Ints) -> None:
        """Raise for the first cell that lies outside."""
        outside = (coords < self.lo[:, None]) | (coords > self.hi[:, None])
        if outside.any():
            row = int(np.flatnonzero(outside.any(axis=0))[0])
            k = int(np.flatnonzero(outside[:, row])[0])
            dimension = self.dimensions[k]
            raise EverfreshError(
                Code.VALUE,
                f"{dimension.name} = {coords[k, row]} is outside of {dimension.lo}..{dimension.hi}",
                place=f"array '{self.name}', row {row}",
                hint="leave the cell out, or create the array with a wider range",
            )


def _bad(message: str, hint: str) -> EverfreshError:
    return EverfreshError(Code.ARGUMENT, message, hint=hint)
