"""Rows as integers: words that say which rows are the same, and codes that say which comes first.

Two rows have the same words exactly when they are identical in SQL's sense: NULL is NULL, NaN is NaN, and 30
days are a month. Codes of one call compare as SQL compares the values. Grouping and hash joins go through
`Pool`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.expr.library.dates import interval_order
from everfresh.local.adhoc.frame import Ints, Mask
from everfresh.local.store.codec import to_word
from everfresh.local.store.components import wide_from_python
from everfresh.local.store.pool import Layout, Pool, Values
from everfresh.local.store.strings import Interner
from everfresh.types import DOUBLE

Floats = NDArray[np.float64]


class Words:
    """Identity words that are comparable between all calls of one object."""

    def __init__(self) -> None:
        self._interner = Interner()
        self._codes: dict[int, tuple[object, Ints]] = {}

    def of(self, vectors: Sequence[Vector], rows: int) -> Ints:
        """The words of each row, `[words, rows]`."""
        out: list[Ints] = []
        nulls = np.zeros(rows, np.int64)
        for i, vector in enumerate(vectors):
            out += self._column(vector)
            if vector.valid is not None:
                nulls |= (~vector.valid).astype(np.int64) << (i % 63)
            if i % 63 == 62 or i == len(vectors) - 1:
                out.append(nulls)
                nulls = np.zeros(rows, np.int64)
        return np.array(out, np.int64) if out else np.zeros((0, rows), np.int64)

    def _column(self, vector: Vector) -> list[Ints]:
        if vector.type.is_text:
            words = self._strings(vector)
            return [words if vector.valid is None else np.where(vector.valid, words, 0)]
        if vector.type.name == "INTERVAL":
            return list(wide_from_python([interval_order(v) for v in vector.values.tolist()]))
        if vector.type.is_wide:
            return list(wide_from_python([int(v) for v in vector.values.tolist()]))
        return [to_word(vector.values, vector.type)]

    def _strings(self, vector: Vector) -> Ints:
        dictionary = vector.dictionary
        assert dictionary is not None
        found = self._codes.get(id(dictionary))
        if found is None:  # the dictionary is kept, so that its id stays its own
            codes = self._interner.intern(pa.array(dictionary, pa.string()))
            found = self._codes[id(dictionary)] = (dictionary, codes)
        return found[1][vector.values]


def known(vectors: Sequence[Vector], rows: int) -> Mask:
    """The rows on which no vector is NULL."""
    out = np.ones(rows, np.bool_)
    for vector in vectors:
        if vector.valid is not None:
            out &= vector.valid
    return out


class Groups:
    """The distinct columns of `words`, numbered in order of first appearance."""

    def __init__(self, words: Ints) -> None:
        self._pool = Pool(len(words), Layout())
        ones = Values(
            np.ones(words.shape[1], np.int64),
            np.empty((0, words.shape[1]), np.int64),
            np.empty((0, words.shape[1])),
        )
        self._pool.commit(self._pool.add(words, ones))
        self.count = len(self._pool)
        self.of_rows = self.find(words)
        self.sizes: Ints = self._pool.gather(np.arange(self.count)).n

    def find(self, words: Ints) -> Ints:
        """The group of each column of `words`, -1 if there is none."""
        if not len(words):  # all rows are one group
            return np.full(words.shape[1], 0 if self.count else -1, np.int64)
        return self._pool.find(words)

    def first(self) -> Ints:
        """The first row of each group."""
        out = np.empty(self.count, np.int64)
        out[self.of_rows[::-1]] = np.arange(len(self.of_rows))[::-1]
        return out


def within(groups: Ints) -> Ints:
    """The place of each row among the rows of its group, from 0."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    sizes = np.diff(np.r_[begins, len(ordered)])
    out = np.empty(len(groups), np.int64)
    out[order] = np.arange(len(groups)) - np.repeat(begins, sizes)
    return out


# -- order ---------------------------------------------------------------------------------------------------


def codes(vector: Vector) -> Ints:
    """Integers in the order of the values; what stands for NULL means nothing."""
    name = vector.type.name
    if vector.type.is_text:
        return _string_codes(vector)
    if vector.type.is_float:
        return _float_codes(vector.values.astype(np.float64))
    if vector.values.dtype == object:
        values = vector.values.tolist()
        exact = [interval_order(v) for v in values] if name == "INTERVAL" else values
        ranks = {v: i for i, v in enumerate(sorted(set(exact)))}
        return np.array([ranks[v] for v in exact], np.int64)
    return vector.values.astype(np.int64, copy=False)


def _string_codes(vector: Vector) -> Ints:
    """Ranks among the strings that occur; Arrow sorts by bytes, which is by code point."""
    assert vector.dictionary is not None
    used, inverse = np.unique(vector.values, return_inverse=True)
    strings = pa.array(vector.dictionary[used], pa.string())
    ranks = np.empty(len(used), np.int64)
    ranks[pc.sort_indices(strings).to_numpy()] = np.arange(len(used))
    return ranks[inverse.reshape(-1)]


def _float_codes(values: Floats) -> Ints:
    """The bits of a float, made to go up with it; NaN (positive, canonical) comes above infinity."""
    bits = to_word(values, DOUBLE)
    return np.where(bits < 0, ~bits ^ np.int64(-1 << 63), bits)


def sort_index(keys: Sequence[tuple[Vector, bool, bool]], rows: int) -> Ints:
    """The rows in order of `(vector, ascending, nulls first)`, ties as they stand."""
    columns: list[Ints] = []
    for vector, ascending, nulls_first in keys:
        code = codes(vector)
        code = code if ascending else ~code
        if vector.valid is not None:
            columns.append((vector.valid if nulls_first else ~vector.valid).astype(np.int64))
            code = np.where(vector.valid, code, 0)
        columns.append(code)
    if not columns:
        return np.arange(rows)
    return np.lexsort(columns[::-1]).astype(np.int64)
