"""Columns of a statement in progress: as words, as values, or both, converted when asked for.

Joins and map keys work on words and never decode them; conditions and values work on vectors. Invariant:
`words` are 0 where `valid` is False, so two cells are identical in SQL's sense exactly when their words and
their validity agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.local.store.codec import Codec, decoded, encoded
from everfresh.local.store.components import wide_from_int64
from everfresh.local.store.strings import Interner
from everfresh.types import Column, SqlType

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Cells:
    """One column of some rows."""

    __slots__ = ("_vector", "_words", "interner", "type", "valid")

    def __init__(
        self,
        type_: SqlType,
        interner: Interner,
        words: tuple[Ints, ...] | None,
        valid: Mask | None,
        vector: Vector | None = None,
    ) -> None:
        self.type, self.interner, self.valid = type_, interner, valid
        self._words, self._vector = words, vector

    @staticmethod
    def of(vector: Vector, interner: Interner) -> Cells:
        """A column of values."""
        return Cells(vector.type, interner, None, vector.valid, vector)

    @property
    def words(self) -> tuple[Ints, ...]:
        """The words of each row: one array, or high and low."""
        if self._words is None:
            assert self._vector is not None
            self._words = encoded(self._vector, self.type, self.interner)
        return self._words

    @property
    def vector(self) -> Vector:
        """The values."""
        if self._vector is None:
            assert self._words is not None
            self._vector = decoded(self.type, self._words, self.valid, self.interner)
        return self._vector

    def to_arrow(self) -> pa.Array:
        """The values as Arrow data."""
        if self._vector is None and self.type.name == "VARCHAR":
            return self.interner.decode(self.words[0])
        return self.vector.to_arrow()

    def take(self, index: Ints | Mask) -> Cells:
        """Some of the rows."""
        valid = None if self.valid is None else self.valid[index]
        if self._words is not None:
            return Cells(self.type, self.interner, tuple(w[index] for w in self._words), valid)
        assert self._vector is not None
        return Cells(self.type, self.interner, None, valid, self._vector.take(index))

    def words_as(self, type_: SqlType) -> tuple[Ints, ...]:
        """The words of the same values in a column of `type_`, which is of the same kind but may be wider."""
        words = self.words
        if type_.is_wide and len(words) == 1:
            return wide_from_int64(words[0])
        return words if type_.is_wide or len(words) == 1 else words[1:]


def same(a: Cells, b: Cells) -> Mask:
    """Where two columns are identical: NULL is NULL, NaN is NaN."""
    type_ = a.type if a.type.is_wide else b.type
    out: Mask = np.logical_and.reduce(
        [x == y for x, y in zip(a.words_as(type_), b.words_as(type_), strict=True)]
    )
    if a.valid is not None or b.valid is not None:
        out &= (True if a.valid is None else a.valid) == (True if b.valid is None else b.valid)
    return out


def column_cells(codec: Codec, column: Column, words: Sequence[Ints] | Ints) -> Cells:
    """A column of rows given as the words of their codec."""
    places, null = codec.places(column)
    valid = None
    if null is not None:
        bits = (words[null[0]] >> null[1]) & 1
        valid = bits == 0 if bits.any() else None
    return Cells(column.type, codec.interner, tuple(words[p] for p in places), valid)


def assemble(codec: Codec, cells: Sequence[Cells], rows: int) -> tuple[Ints, Ints | None]:
    """The words of rows whose columns are `cells`, in the layout of `codec`.

    A NULL in a column that has none cannot be written: then only the other rows, and which they are.
    """
    able: Mask | None = None
    for column, cell in zip(codec.columns, cells, strict=True):
        if not column.nullable and cell.valid is not None and not cell.valid.all():
            able = cell.valid if able is None else able & cell.valid
    index = None if able is None else np.flatnonzero(able)
    if index is not None:
        cells, rows = [cell.take(index) for cell in cells], len(index)
    out = np.zeros((codec.words, rows), np.int64)
    for column, cell in zip(codec.columns, cells, strict=True):
        places, null = codec.places(column)
        for place, words in zip(places, cell.words_as(column.type), strict=True):
            out[place] = words
        if null is not None and cell.valid is not None:
            out[null[0]] |= (~cell.valid).astype(np.int64) << null[1]
    return out, index


class VectorsOf(Mapping[str, Vector]):
    """Cells by name as the vectors that expressions read, converted when one is read."""

    __slots__ = ("_cells",)

    def __init__(self, cells: Mapping[str, Cells]) -> None:
        self._cells = cells

    def __getitem__(self, name: str) -> Vector:
        return self._cells[name].vector

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)
