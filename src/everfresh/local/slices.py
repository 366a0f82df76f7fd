"""Slice indexes: the entries of a map, or the rows of a change, that agree on some columns.

A persistent slice belongs to a map and follows its pool: entries enter when they are created and leave when
they go. A passing one is built over the rows of a change for one statement. Both answer the same question,
`probe`, for a whole batch of keys at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.local.codec import Codec
from everfresh.types import Column

Ints = NDArray[np.int64]


class Slice:
    """Slots by the words of some columns."""

    def __init__(self, columns: Sequence[Column], codec: Codec) -> None:
        self.names = tuple(c.name for c in columns)
        self._source = codec
        self._codec = Codec(columns, codec.interner)
        self._slots: dict[bytes, set[int]] = {}

    def _keys(self, words: Ints) -> list[bytes]:
        rows = np.ascontiguousarray(self._source.project(words, self._codec).T)
        return [row.tobytes() for row in rows]

    def add(self, slots: Ints, words: Ints) -> None:
        """Enter some slots with the words of their entries."""
        for key, slot in zip(self._keys(words), slots.tolist(), strict=True):
            self._slots.setdefault(key, set()).add(slot)

    def remove(self, slots: Ints, words: Ints) -> None:
        """Take some slots out."""
        for key, slot in zip(self._keys(words), slots.tolist(), strict=True):
            found = self._slots.get(key)
            if found is not None:  # two steps of a batch may both let an entry go
                found.discard(slot)
                if not found:
                    del self._slots[key]

    def probe(self, vectors: Sequence[Vector], rows: int) -> tuple[Ints, Ints]:
        """For each row of `vectors` the slots that agree with it: pairs of row number and slot, in a
        fixed order."""
        able = np.arange(rows)
        for column, vector in zip(self._codec.columns, vectors, strict=True):
            if not column.nullable and vector.valid is not None:  # NULL is in no entry of this column
                able = able[vector.valid[able]]
        vectors = [vector.take(able) for vector in vectors]
        words = np.ascontiguousarray(self._codec.encode_vectors(vectors, len(able)).T)
        at: list[int] = []
        slots: list[int] = []
        for row, key in zip(able.tolist(), words, strict=True):
            found = self._slots.get(key.tobytes())
            if found:
                at.extend([row] * len(found))
                slots.extend(sorted(found))
        return np.array(at, np.int64), np.array(slots, np.int64)


def every_pair(rows: int, slots: Ints) -> tuple[Ints, Ints]:
    """All pairs of a row number and a slot: a join without a shared column."""
    return np.repeat(np.arange(rows), len(slots)), np.tile(slots, rows)
