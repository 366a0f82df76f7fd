"""Which worker owns a row: a stable hash of its key values.

The hash depends on values alone (never on interned codes, processes or versions of Python): it is written
into a database's FORMAT as `ef1`, and changing it would move every row. NULL is a value like any other,
floats hash by their canonical bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.local.store.codec import to_word, wide_words

_MIX = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0x5851F42D4C957F2D)


def owners(vectors: Sequence[Vector], rows: int, workers: int) -> NDArray[np.int64]:
    """The worker of each row, by the values in `vectors`; rows without key columns all belong to worker 0."""
    state = np.zeros(rows, np.uint64)
    with np.errstate(over="ignore"):
        for vector in vectors:
            words = _words(vector)
            if vector.valid is not None:
                words = np.where(vector.valid, words, _NULL)
            state = _mix(state * _MIX + words)
    return (state % np.uint64(workers)).astype(np.int64)


def _words(vector: Vector) -> NDArray[np.uint64]:
    if vector.dictionary is not None:
        hashes = np.array([_string(text) for text in vector.dictionary] or [0], np.uint64)
        return hashes[vector.values] if len(vector.values) else np.zeros(0, np.uint64)
    if vector.type.is_wide:
        high, low = wide_words(vector)
        return low.view(np.uint64) + _mix(high.view(np.uint64)) * _MIX
    return np.ascontiguousarray(to_word(vector.values, vector.type)).view(np.uint64)


def _string(text: str) -> int:
    data = text.encode()
    return zlib.crc32(data) | zlib.crc32(data, 0x9E3779B9) << 32


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
