"""Vectors: columns of physical values with a validity mask.

Layout: BOOLEAN bool_; integers and DECIMAL of up to 18 digits, DATE and TIMESTAMP int64; HUGEINT and wider
DECIMAL an object array of Python ints; REAL float32, DOUBLE float64; INTERVAL an object array of tuples;
types held as texts int64 codes into `dictionary`, so that a function of strings runs once per distinct value.

Invariants: where `valid` is False the value is the zero of its layout. A dictionary has no value twice and at
least one. Floats are canonical: one NaN, no -0.0. Arrays are never written to after construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.types import SqlType

Array = np.ndarray[Any, Any]


def dtype_of(type_: SqlType) -> np.dtype[Any]:
    """The NumPy type of a vector of `type_`."""
    if type_.is_wide or type_.name == "INTERVAL":
        return np.dtype(object)
    special = {"BOOLEAN": np.dtype(np.bool_), "REAL": np.dtype(np.float32), "DOUBLE": np.dtype(np.float64)}
    return special.get(type_.name, np.dtype(np.int64))


def zero_of(type_: SqlType) -> Any:
    """What stands in the place of a NULL."""
    return (0, 0, 0) if type_.name == "INTERVAL" else dtype_of(type_).type(0) if not type_.is_wide else 0


def object_array(values: Iterable[Any], rows: int) -> Array:
    """An object array; NumPy itself would make a matrix of a list of tuples."""
    out = np.empty(rows, dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def canonical_floats(values: Array) -> Array:
    """The same floats with one NaN and no -0.0."""
    out: Array = values + values.dtype.type(0)
    nan = out != out
    if nan.any():
        out[nan] = np.nan
    return out


def is_constant(values: Array) -> bool:
    """Whether an array is one value repeated without being stored repeatedly."""
    return len(values) > 0 and values.strides == (0,)


@dataclass(frozen=True, eq=False, slots=True)
class Vector:
    """A column of physical values.

    >>> from everfresh.types import VARCHAR
    >>> v = Vector.from_pylist(["a", None, "a"], VARCHAR)
    >>> v.to_pylist(), v.dictionary.tolist()
    (['a', None, 'a'], ['a'])
    """

    type: SqlType
    values: Array
    valid: Array | None = None  # a mask, or None: no NULLs
    dictionary: Array | None = None  # of types held as texts

    def __len__(self) -> int:
        return len(self.values)

    @staticmethod
    def from_arrow(array: pa.Array | pa.ChunkedArray, type_: SqlType) -> Vector:
        """A column of `type_` from Arrow data; raises Code.VALUE if it does not fit the type."""
        from everfresh.expr.arrow import vector_from_arrow

        return vector_from_arrow(array, type_)

    def to_arrow(self) -> pa.Array:
        """The column as Arrow data of the type that `everfresh.types.to_arrow` names."""
        from everfresh.expr.arrow import vector_to_arrow

        return vector_to_arrow(self)

    @staticmethod
    def from_pylist(values: Sequence[Any], type_: SqlType) -> Vector:
        """A column from physical Python values, None for NULL."""
        rows = len(values)
        missing = [value is None for value in values]
        valid = ~np.array(missing, dtype=np.bool_) if any(missing) else None
        if type_.is_text:
            return _encode(values, valid, type_)
        zero = zero_of(type_)
        filled = values if valid is None else [zero if value is None else value for value in values]
        dtype = dtype_of(type_)
        made = object_array(filled, rows) if dtype.hasobject else np.array(filled, dtype=dtype)
        return Vector(type_, canonical_floats(made) if type_.is_float else made, valid)

    @staticmethod
    def constant(value: Any, type_: SqlType, rows: int) -> Vector:
        """`rows` times one physical value, stored once (the array has stride 0)."""
        one = Vector.from_pylist([value], type_)
        valid = None if one.valid is None else np.broadcast_to(one.valid, rows)
        return Vector(type_, np.broadcast_to(one.values, rows), valid, one.dictionary)

    @staticmethod
    def nulls(type_: SqlType, rows: int) -> Vector:
        """`rows` times NULL."""
        return Vector.constant(None, type_, rows)

    def to_pylist(self) -> list[Any]:
        """Physical Python values, None for NULL."""
        values = self.values if self.dictionary is None else self.dictionary[self.values]
        found: list[Any] = values.tolist()
        if self.valid is None:
            return found
        return [value if ok else None for value, ok in zip(found, self.valid.tolist(), strict=True)]

    def __getitem__(self, row: int) -> Any:
        """The physical value of one row, None for NULL."""
        return self.take(np.array([row])).to_pylist()[0]

    def take(self, indices: Array) -> Vector:
        """The rows at `indices`; the dictionary stays as it is."""
        return Vector(
            self.type,
            self.values[indices],
            None if self.valid is None else self.valid[indices],
            self.dictionary,
        )

    def filter(self, mask: Array) -> Vector:
        """The rows where `mask` is True."""
        return self.take(mask)

    @property
    def is_constant(self) -> bool:
        """Whether it is one value repeated, as `Vector.constant` makes it."""
        return is_constant(self.values) and (self.valid is None or is_constant(self.valid))

    def contiguous(self) -> Vector:
        """The same column with every row stored."""
        valid = None if self.valid is None else np.ascontiguousarray(self.valid)
        return Vector(self.type, np.ascontiguousarray(self.values), valid, self.dictionary)

    def with_valid(self, valid: Array | None) -> Vector:
        """The same column with another mask, zeros where it is False."""
        if valid is None or valid.all():
            return Vector(self.type, self.values, None, self.dictionary)
        values = self.values.copy()
        if self.type.name == "INTERVAL":
            values[~valid] = object_array([(0, 0, 0)] * int((~valid).sum()), int((~valid).sum()))
        else:
            values[~valid] = 0
        return Vector(self.type, values, valid, self.dictionary)


def _encode(values: Sequence[Any], valid: Array | None, type_: SqlType) -> Vector:
    codes: dict[str, int] = {}
    out = [0 if value is None else codes.setdefault(value, len(codes)) for value in values]
    dictionary = object_array(codes or [""], max(1, len(codes)))
    return Vector(type_, np.array(out, dtype=np.int64), valid, dictionary)


def merge_dictionaries(vectors: Sequence[Vector]) -> tuple[list[Array], Array]:
    """The codes of vectors of texts in one common dictionary, and that dictionary."""
    first = vectors[0].dictionary
    assert first is not None
    if all(vector.dictionary is first for vector in vectors):
        return [vector.values for vector in vectors], first
    codes: dict[str, int] = {}
    out = []
    for vector in vectors:
        assert vector.dictionary is not None
        recode = [codes.setdefault(s, len(codes)) for s in vector.dictionary.tolist()]
        values = np.array(recode, dtype=np.int64)[vector.values]
        if vector.valid is not None:
            values[~vector.valid] = 0  # the zero of the layout is code 0, whatever that now is
        out.append(values)
    return out, object_array(codes, len(codes))


def concat(vectors: Sequence[Vector]) -> Vector:
    """One vector after the other; all of one type, at least one."""
    if len(vectors) == 1:
        return vectors[0]
    type_ = vectors[0].type
    valid = None
    if any(vector.valid is not None for vector in vectors):
        masks = [np.ones(len(v), dtype=np.bool_) if v.valid is None else v.valid for v in vectors]
        valid = np.concatenate(masks)
    if not type_.is_text:
        return Vector(type_, np.concatenate([vector.values for vector in vectors]), valid)
    codes, dictionary = merge_dictionaries(vectors)
    return Vector(type_, np.concatenate(codes), valid, dictionary)
