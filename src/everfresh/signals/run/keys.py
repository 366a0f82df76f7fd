"""Keys of groups and their slots: a slot for each key in the order in which keys first came.

Whole numbers go through a hash table of our own; other keys, and keys of several columns, are made distinct
by Arrow first. NULL is a key like others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.signals.run.flow import Array


class Keys:
    """The slots of keys. `types` are those of the key columns; no columns: one group."""

    def __init__(self, types: tuple[pa.DataType, ...]) -> None:
        self.types = types
        self._whole = len(types) == 1 and pa.types.is_integer(types[0])
        self._table = np.full(1024, -1, np.int64)
        self._known = np.zeros(512, np.int64)
        self._count = 0 if types else 1
        self._slots: dict[tuple[Any, ...], int] = {}
        self._null = -1

    def __len__(self) -> int:
        return self._count + (self._null >= 0)

    def slots(self, columns: list[pa.Array], rows: int) -> Array:
        """The slot of each row, new ones for keys that are new."""
        if not self.types:
            return np.zeros(rows, np.int64)
        if self._whole and columns[0].null_count == 0:
            return self._of_numbers(_numbers(columns[0]))
        return self._of_values(columns, rows)

    def _of_numbers(self, keys: Array) -> Array:
        from everfresh.signals.kernels import grouping

        out = np.empty(len(keys), np.int64)
        for start in range(0, len(keys), 1 << 16):
            part = slice(start, start + (1 << 16))
            need = self._count + len(keys[part])
            if need > len(self._known):
                known = np.zeros(2 * need, np.int64)
                known[: self._count] = self._known[: self._count]
                self._known = known
            if 2 * need > len(self._table):
                self._table = np.full(1 << int(4 * need - 1).bit_length(), -1, np.int64)
                grouping.rebuild(self._known, self._count, self._table)
            self._count = grouping.find_slots(keys[part], self._table, self._known, self._count, out[part])
        if self._null >= 0:  # NULL has a slot between those of numbers
            out += out >= self._null
        return out

    def _of_values(self, columns: list[pa.Array], rows: int) -> Array:
        if self._whole:
            return self._with_null(columns[0])
        codes, distinct = _distinct(columns)
        found = np.empty(len(distinct), np.int64)
        for i, key in enumerate(distinct):
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = self._count
                self._count += 1
            found[i] = slot
        out: Array = found[codes]
        return out

    def _with_null(self, column: pa.Array) -> Array:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        out = np.empty(len(column), np.int64)
        numbers = self._of_numbers(_numbers(column.drop_null()))
        if self._null < 0:
            self._null = self._count
        out[valid], out[~valid] = numbers, self._null
        return out

    def columns(self, slots: Array, counts: Array | None = None) -> list[pa.Array]:
        """The keys of slots, each as often as `counts` has it."""
        if not self.types:
            return []
        if self._whole:
            null = self._null
            mask = slots == null if null >= 0 else None
            known = self._known[slots - (slots > null) if null >= 0 else slots]
            if counts is not None:
                known, mask = np.repeat(known, counts), None if mask is None else np.repeat(mask, counts)
            return [pa.array(known, pa.int64(), mask=mask).cast(self.types[0])]
        keys = list(self._slots)
        used, codes = np.unique(slots, return_inverse=True)
        codes = codes if counts is None else np.repeat(codes, counts)
        found = [keys[slot] for slot in used.tolist()]
        return [
            pa.array([key[i] for key in found], type_).take(pa.array(codes))
            for i, type_ in enumerate(self.types)
        ]

    def names(self, slots: Array) -> list[Any]:
        """Keys as people read them: one value, or a tuple."""
        columns = [column.to_pylist() for column in self.columns(slots)]
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(slots)
        return [row[0] if len(row) == 1 else row for row in rows]

    def forget(self, count: int) -> None:
        """Take back the newest slots, down to so many."""
        if count == len(self):
            return
        everything = self.columns(np.arange(count))
        self.__dict__.update(Keys._of(everything, self.types).__dict__)

    def encode(self) -> pa.Table:
        """The keys in the order of their slots."""
        columns = self.columns(np.arange(len(self)))
        return pa.table({f"k{i}": column for i, column in enumerate(columns)})

    @staticmethod
    def decode(table: pa.Table) -> Keys:
        """The inverse of `encode`."""
        return Keys._of([column.combine_chunks() for column in table.columns], tuple(table.schema.types))

    @staticmethod
    def _of(columns: list[pa.Array], types: tuple[pa.DataType, ...]) -> Keys:
        found = Keys(types)
        if not types:
            return found
        rows, cuts = len(columns[0]), [0]
        if found._whole and columns[0].null_count:  # which has its place among the numbers
            null = columns[0].is_null().to_pylist().index(True)
            cuts += [null, null + 1]
        for start, stop in zip(cuts, [*cuts[1:], rows], strict=True):
            found.slots([column[start:stop] for column in columns], stop - start)
        return found

    @property
    def bytes(self) -> int:
        """Memory it takes, but for keys that are Python values."""
        return self._table.nbytes + self._known.nbytes


def _numbers(column: pa.Array) -> Array:
    found: Array = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _distinct(columns: list[pa.Array]) -> tuple[Array, list[tuple[Any, ...]]]:
    """Which of the distinct keys each row has, and these in the order of their first rows."""
    codes = np.zeros(len(columns[0]), np.int64)
    parts = []
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        parts.append(encoded.dictionary.to_pylist())
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    by_first = np.argsort(first)
    rank[by_first] = np.arange(len(first))
    distinct = []
    for code in codes[first[by_first]].tolist():
        key: list[Any] = []
        for values in reversed(parts):
            code, rest = divmod(code, len(values))
            key.append(values[rest])
        distinct.append(tuple(reversed(key)))
    return rank[inverse], distinct
