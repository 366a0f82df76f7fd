"""Columns of values as key words of a pool, and back.

A column is one int64 word (two for wide integers: high and low); strings are interned codes, doubles their
canonical bits; after all columns comes one null-mask word per 63 nullable columns, where bit i says that the
i-th nullable column is NULL (its word is then 0). Invariant: two rows are identical in SQL's sense (NULL is
NULL, NaN is NaN) exactly when their words are equal; but for the strings that are only `kept`, whose words
are those of `texts.Texts`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.local.input.incoming import BySchema, ColumnForm, exported_rows, one_batch
from everfresh.local.kernels import incoming as incoming_kernels
from everfresh.local.store.components import wide_from_int64, wide_from_python, wide_to_python
from everfresh.local.store.kept_strings import Texts
from everfresh.local.store.strings import Alive, Interner
from everfresh.types import Column, SqlType

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
_MASK_BITS = 63


class Codec:
    """How rows of `columns` stand in a pool; strings go through `interner`."""

    def __init__(
        self,
        columns: Sequence[Column],
        interner: Interner,
        texts: Texts | None = None,
        kept: Collection[str] = (),
    ) -> None:
        self.columns = tuple(columns)
        self.interner = interner
        self.texts = texts if texts is not None else Texts()
        self._parts: dict[tuple[str, ...], Codec] = {}
        self._positions: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._rows: dict[tuple[str, ...], Ints] = {}
        self._first: dict[str, int] = {}
        at = 0
        for column in self.columns:
            self._first[column.name] = at
            at += 2 if column.type.is_wide else 1
        nullable = [c.name for c in self.columns if c.nullable]
        self._null_bit = {name: (at + i // _MASK_BITS, i % _MASK_BITS) for i, name in enumerate(nullable)}
        self._places = {
            c.name: (tuple(range(first, first + (2 if c.type.is_wide else 1))), self._null_bit.get(c.name))
            for c, first in zip(self.columns, self._first.values(), strict=True)
        }
        self._masks = at
        self.keep_only(kept)
        self.words = at + -(-len(nullable) // _MASK_BITS)
        self.huge = [self._first[c.name] for c in self.columns if c.type.name == "HUGEINT"]
        """The positions of the high words of columns whose integers may have no Arrow form."""

    def keep_only(self, names: Collection[str]) -> None:
        """Say which VARCHAR columns nothing reads: their strings are in `texts` from now on."""
        self.kept = frozenset(names)
        self._forms = BySchema(self._form)
        self._given = BySchema(self._part_of)
        texts = [c for c in self.columns if c.type.is_text]
        self.kept_words = [self._first[c.name] for c in texts if c.name in self.kept]
        """The positions of their words."""
        self.codes = [self._first[c.name] for c in texts if c.name not in self.kept]
        """The positions of words that are codes of strings."""

    def positions(self, names: Sequence[str]) -> tuple[int, ...]:
        """The word positions of some columns, which must not be nullable."""
        key = tuple(names)
        found = self._positions.get(key)
        if found is None:
            found = self._positions[key] = tuple(
                first + i
                for c, first in zip(self.columns, self._first.values(), strict=True)
                if c.name in key
                for i in range(2 if c.type.is_wide else 1)
            )
        return found

    def rows(self, names: Sequence[str]) -> Ints:
        """The same as an array, for kernels."""
        key = tuple(names)
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = np.array(self.positions(key), np.int64)
        return found

    # -- encode ------------------------------------------------------------------------------------

    def encode(self, table: pa.Table) -> Ints:
        """The words of the rows of an Arrow table with exactly these columns."""
        out = self._blank(table.num_rows)
        if not table.num_rows:
            return out
        form = self._forms.of(table.schema)
        address, held = exported_rows(table)
        form.fill(address, out, self.interner, self.texts)
        del held
        if form.others:
            batch = one_batch(table)
            for column, source in form.others:
                self._store_array(out, column, batch.column(source))
        return out

    def _form(self, schema: pa.Schema) -> ColumnForm:
        places = [(c, self._first[c.name], self._null_bit.get(c.name)) for c in self.columns]
        return ColumnForm(places, schema, self.kept)

    def _store_array(self, out: Ints, column: Column, array: pa.Array) -> None:
        """One column, whatever its Arrow type is."""
        if column.type.name != "VARCHAR":
            vector = Vector.from_arrow(array, column.type)
            if column.type.is_text:
                self._store(out, column, encoded(vector, column.type, self.interner)[0], vector.valid)
            else:
                self._store_vector(out, column, vector)
            return
        valid = array.is_valid().to_numpy(False) if array.null_count else None
        if pa.types.is_dictionary(array.type):
            self._store(out, column, self._of_dictionary(array, column.name in self.kept), valid)
            return
        array = array.cast(pa.large_string())
        kept = column.name in self.kept
        words = self.texts.keep(array) if kept else self.interner.intern(array)
        self._store(out, column, words, valid)

    def _of_dictionary(self, array: pa.DictionaryArray, kept: bool) -> Ints:
        """The words of strings, each looked up once. Of those that are only kept each has its own, unless the
        string itself is the word."""
        words = self.texts.keep(array.dictionary) if kept else self.interner.intern(array.dictionary)
        if kept and (words < 0).any():
            self.texts.release(words)
            return self.texts.keep(array.dictionary_decode())
        if not len(words):
            return np.zeros(len(array), np.int64)  # every string is NULL
        indices = array.indices.fill_null(0) if array.null_count else array.indices
        chosen: Ints = words[indices.to_numpy()]
        return chosen

    def _blank(self, rows: int) -> Ints:
        """Room for words, with no column NULL yet."""
        out = np.empty((self.words, rows), np.int64)
        out[self._masks :] = 0
        return out

    def encode_vectors(self, vectors: Sequence[Vector], rows: int) -> Ints:
        """The words of rows given as vectors, in the order of the columns."""
        out = self._blank(rows)
        for column, vector in zip(self.columns, vectors, strict=True):
            if column.name in self.kept:
                words = self.texts.keep(vector.to_arrow())
                self._store(out, column, words, vector.valid)
            elif vector.dictionary is not None:
                (words,) = encoded(vector, column.type, self.interner)
                self._store(out, column, words, vector.valid)
            else:
                self._store_vector(out, column, vector)
        return out

    def given(self, schema: pa.Schema) -> Given:
        """The columns that tables of an Arrow schema have."""
        return self._given.of(schema)

    def _part_of(self, schema: pa.Schema) -> Given:
        part = self.part(schema.names)
        words, nulls = [], []
        for column in part.columns:
            at, source = self._first[column.name], part._first[column.name]
            words += [(source + i, at + i) for i in range(2 if column.type.is_wide else 1)]
            if column.nullable:
                nulls.append((*part._null_bit[column.name], *self._null_bit[column.name]))
        return Given(part, np.array(words, np.int64).reshape(-1, 2), np.array(nulls, np.int64).reshape(-1, 4))

    def replace(self, words: Ints, table: pa.Table) -> Ints:
        """`words` with the columns of `table` put over them."""
        part = self.given(table.schema)
        return part.over(words, part.codec.encode(table))

    def part(self, names: Sequence[str]) -> Codec:
        """The codec of some of the columns, in the order in which they are here."""
        key = tuple(names)
        found = self._parts.get(key)
        if found is None or found.kept != self.kept.intersection(key):
            columns = [c for c in self.columns if c.name in key]
            found = self._parts[key] = Codec(columns, self.interner, self.texts, self.kept.intersection(key))
        return found

    def _store_vector(self, out: Ints, column: Column, vector: Vector) -> None:
        first = self._first[column.name]
        if column.type.is_wide:
            out[first], out[first + 1] = wide_from_python([v or 0 for v in vector.to_pylist()])
            self._nulls(out, column, vector.valid)
        else:
            self._store(out, column, to_word(vector.values, column.type), vector.valid)

    def _store(self, out: Ints, column: Column, words: Ints, valid: Mask | None) -> None:
        out[self._first[column.name]] = words if valid is None else np.where(valid, words, 0)
        self._nulls(out, column, valid)

    def _nulls(self, out: Ints, column: Column, valid: Mask | None) -> None:
        if valid is not None and not valid.all():
            row, bit = self._null_bit[column.name]
            out[row] |= (~valid).astype(np.int64) << bit

    # -- decode ------------------------------------------------------------------------------------

    def decode(self, words: Ints, names: Collection[str] | None = None) -> pa.Table:
        """Rows as an Arrow table, of all columns or of `names`."""
        arrays, fields = [], []
        for column in self.columns:
            if names is not None and column.name not in names:
                continue
            if column.name in self.kept:
                array = self.texts.decode(words[self._first[column.name]], self.valid(words, column))
            elif column.type.name == "VARCHAR":
                array = self.interner.decode(words[self._first[column.name]])
            else:
                array = self.vector(words, column).to_arrow()
            arrays.append(array)
            fields.append(pa.field(column.name, array.type, column.nullable))
        if not arrays:
            return pa.table({}).slice(0)
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def vectors(self, words: Ints, names: Collection[str] | None = None) -> dict[str, Vector]:
        """Rows as vectors by column name."""
        return {c.name: self.vector(words, c) for c in self.columns if names is None or c.name in names}

    def vector(self, words: Ints, column: Column) -> Vector:
        """One column of some rows."""
        first = self._first[column.name]
        width = 2 if column.type.is_wide else 1
        valid = self.valid(words, column)
        if column.name in self.kept:
            return Vector.from_arrow(self.texts.decode(words[first], valid), column.type)
        return decoded(column.type, [words[first + i] for i in range(width)], valid, self.interner)

    def places(self, column: Column) -> tuple[tuple[int, ...], tuple[int, int] | None]:
        """The words of a column, and the word and bit that say that it is NULL, if it may be."""
        return self._places[self._read(column)]

    def column_words(self, words: Ints, column: Column) -> tuple[Ints, Mask | None]:
        """The value words of one column of some rows (two if it is wide), and where it is not NULL."""
        first = self._first[self._read(column)]
        return words[first : first + (2 if column.type.is_wide else 1)], self.valid(words, column)

    def _read(self, column: Column) -> str:
        if column.name in self.kept:
            raise TypeError(f"column '{column.name}' is read by its words, but its strings are only kept")
        return column.name

    def valid(self, words: Ints, column: Column) -> Mask | None:
        """Where a column of some rows is not NULL; None: everywhere."""
        if not column.nullable:
            return None
        row, bit = self._null_bit[column.name]
        null = (words[row] >> bit) & 1
        return (null == 0) if null.any() else None

    def project(self, words: Ints, to: Codec) -> Ints:
        """The words of some rows in the layout of a codec of fewer of the same columns; strings that are only
        kept here are interned."""
        out = np.zeros((to.words, words.shape[1]), np.int64)
        for column in to.columns:
            source, target = self._first[column.name], to._first[column.name]
            for i in range(2 if column.type.is_wide else 1):
                out[target + i] = words[source + i]
            if column.name in self.kept:
                texts = self.texts.decode(words[source], self.valid(words, column))
                out[target] = to.interner.intern(texts)
            if column.nullable:
                row, bit = self._null_bit[column.name]
                target_row, target_bit = to._null_bit[column.name]
                out[target_row] |= ((words[row] >> bit) & 1) << target_bit
        return out

    def mark(self, words: Ints, alive: Alive) -> None:
        """Say of the strings of some rows that they are used."""
        for at in self.codes:
            alive[words[at]] = True

    def remap_strings(self, remap: Ints, words: Ints) -> None:
        """Rewrite string codes in place, after they were given anew."""
        for at in self.codes:
            words[at] = remap[words[at]]


@dataclass(frozen=True, slots=True)
class Given:
    """Some columns of a codec: their own, and where their words and bits for NULL go among all of them."""

    codec: Codec
    words: Ints
    nulls: Ints

    def over(self, words: Ints, given: Ints) -> Ints:
        """`words` of all columns with those `given` put over them."""
        out = words.copy()
        incoming_kernels.put_over(given, self.words, self.nulls, out)
        return out


def decoded(type_: SqlType, words: Sequence[Ints], valid: Mask | None, interner: Interner) -> Vector:
    """A column from its words (two if it is wide), which are 0 where it is not valid."""
    rows = len(words[0])
    if type_.is_text:
        codes, inverse = np.unique(words[0], return_inverse=True)
        strings = np.array(interner.strings(codes), dtype=object)
        if len(codes) and codes[0] == 0:
            strings[0] = ""
        return Vector(type_, inverse.astype(np.int64), valid, strings)
    if type_.is_wide:
        if (words[0] == words[1] >> 63).all():  # the values are in the low words
            return Vector(type_, words[1].astype(object), valid)
        values = np.array(wide_to_python(words[0], words[1]) or [0], dtype=object)
        return Vector(type_, values[:rows], valid)
    return Vector(type_, from_word(words[0], type_), valid)


def encoded(vector: Vector, type_: SqlType, interner: Interner) -> tuple[Ints, ...]:
    """The inverse: the words of a column, read as one of `type_`."""
    if vector.dictionary is not None:
        codes = interner.intern(pa.array(vector.dictionary, pa.string()))
        # A dictionary may be empty when every row is NULL.
        words = codes[vector.values] if len(codes) else np.zeros(len(vector), np.int64)
    elif type_.is_wide:
        return _wide(vector.values.tolist())
    else:
        words = to_word(vector.values, type_)
    return (words if vector.valid is None else np.where(vector.valid, words, 0),)


def to_word(values: NDArray[np.generic], type_: SqlType) -> Ints:
    """The int64 word of each value; floats by their canonical bits."""
    if type_.is_float:
        wide = values.astype(np.float64) + 0.0
        wide[np.isnan(wide)] = np.nan
        return wide.view(np.int64)
    return values.astype(np.int64, copy=False)


def from_word(words: Ints, type_: SqlType) -> NDArray[np.generic]:
    """The inverse of `to_word`."""
    if type_.name == "DOUBLE":
        return np.ascontiguousarray(words).view(np.float64)
    if type_.name == "REAL":
        return np.ascontiguousarray(words).view(np.float64).astype(np.float32)
    if type_.name == "BOOLEAN":
        return np.asarray(words != 0)
    return words


def wide_words(vector: Vector) -> tuple[Ints, Ints]:
    """High and low words of a vector of exact values."""
    if vector.values.dtype == object:
        return _wide(vector.values.tolist())
    return wide_from_int64(vector.values.astype(np.int64, copy=False))


def _wide(values: list[int]) -> tuple[Ints, Ints]:
    """High and low words of Python's integers, most of which fit one word."""
    try:
        return wide_from_int64(np.array(values, np.int64))
    except OverflowError:
        return wide_from_python([int(value) for value in values])
