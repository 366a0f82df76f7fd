"""Vectors from and to Arrow, without a Python object per value for every type of at most 64 bits.

A decimal128 is two little-endian 64-bit words: for 18 digits or fewer the low word is the value. Invariant:
`vector_from_arrow(vector_to_arrow(v), v.type)` has the values of `v`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.expr.column import Array, Vector, canonical_floats, dtype_of, object_array
from everfresh.types import VARCHAR, SqlType, to_arrow
from everfresh.types.exchange import arrow_of, physical

_WORD = (1 << 64) - 1


def vector_from_arrow(array: pa.Array | pa.ChunkedArray, type_: SqlType) -> Vector:
    """A column of `type_` from Arrow data; raises Code.VALUE if it does not fit the type."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        if isinstance(array, pa.ChunkedArray):  # strings beyond 2 GiB stay in several chunks
            array = pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in array.chunks])
    if pa.types.is_dictionary(array.type) and (
        not type_.is_text or type_.is_coded or array.dictionary.null_count
    ):
        array = array.dictionary_decode()  # a NULL may be a NULL code or the code of a NULL
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if isinstance(array.type, pa.BaseExtensionType) and not type_.is_coded:
        array = array.storage
    if type_.name == "ENUM":
        return _labels(array, valid, type_)
    if type_.is_text and not type_.is_coded:
        return _strings(array, valid, type_)
    target = to_arrow(type_)
    if array.type != target:
        try:
            array = array.cast(target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            message = f"a column of {array.type} does not fit {type_}: {error}"
            raise EverfreshError(Code.VALUE, message) from None
    if type_.is_coded:
        return Vector.from_pylist(physical(array, type_), type_)
    return Vector(type_, _values(array, valid, type_), valid)


def _labels(array: pa.Array, valid: Array | None, type_: SqlType) -> Vector:
    """The places of labels, whatever their places are in the array's own dictionary."""
    texts = _strings(array, valid, VARCHAR)
    assert texts.dictionary is not None
    places = {label: i for i, label in enumerate(type_.names)}
    known = np.array([places.get(text, -1) for text in texts.dictionary.tolist()], dtype=np.int64)
    values = known[texts.values]
    if valid is not None:
        values[~valid] = 0
    if (values < 0).any():
        label = texts.dictionary[texts.values[int(np.argmin(values))]]
        raise EverfreshError(Code.VALUE, f"'{label}' is no label of {type_}")
    return Vector(type_, values, valid)


def _strings(array: pa.Array, valid: Array | None, type_: SqlType) -> Vector:
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    elif len(array.dictionary.unique()) < len(array.dictionary):
        array = array.dictionary_decode().dictionary_encode()
    values = array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    dictionary = array.dictionary.to_numpy(zero_copy_only=False).astype(object)
    return Vector(type_, values, valid, dictionary if len(dictionary) else object_array([""], 1))


def _values(array: pa.Array, valid: Array | None, type_: SqlType) -> Array:
    name = type_.name
    if name in ("DECIMAL", "HUGEINT"):
        return _words(array, valid, type_.is_wide)
    if name == "NULL":
        return np.zeros(len(array), dtype=np.int64)
    if name == "INTERVAL":
        found = array.to_pylist()
        spans = ((0, 0, 0) if v is None else (v.months, v.days, v.nanoseconds // 1000) for v in found)
        return object_array(spans, len(array))
    if name == "DATE":
        array = array.view(pa.int32())
    elif name in ("TIME", "TIMESTAMP", "TIMESTAMPTZ"):
        array = array.view(pa.int64())
    elif name == "UBIGINT":
        return _unsigned(array, valid)
    if valid is not None:
        array = array.fill_null(False if name == "BOOLEAN" else 0)
    values: Array = array.to_numpy(zero_copy_only=False).astype(dtype_of(type_))
    return canonical_floats(values) if type_.is_float else values


def _unsigned(array: pa.Array, valid: Array | None) -> Array:
    """64-bit integers without a sign as Python's."""
    values: Array = (array if valid is None else array.fill_null(0)).to_numpy(zero_copy_only=False)
    return values.astype(object)


def _words(array: pa.Array, valid: Array | None, wide: bool) -> Array:
    rows, offset = len(array), array.offset
    buffer = array.buffers()[1]
    if rows == 0 or buffer is None:
        return np.zeros(rows, dtype=object if wide else np.int64)
    words = np.frombuffer(buffer, dtype=np.int64)[2 * offset : 2 * (offset + rows)].reshape(-1, 2)
    low, high = words[:, 0].copy(), words[:, 1]
    if valid is not None:  # what a NULL slot holds is undefined in Arrow
        low[~valid] = 0
        high = np.where(valid, high, 0)
    if not wide:
        return low
    if np.array_equal(high, low >> 63):
        return low.astype(object)
    return (high.astype(object) << 64) + low.view(np.uint64).astype(object)  # type: ignore[no-any-return]


def vector_to_arrow(vector: Vector) -> pa.Array:
    """The column as Arrow data of the type that `everfresh.types.to_arrow` names."""
    type_, target = vector.type, to_arrow(vector.type)
    values = np.ascontiguousarray(vector.values)
    mask = None if vector.valid is None else ~np.ascontiguousarray(vector.valid)
    match type_.name:
        case _ if type_.is_coded:
            return _coded(vector)
        case "VARCHAR" | "JSON":
            assert vector.dictionary is not None
            codes = pa.array(values, mask=mask)
            strings = pa.array(vector.dictionary, type=pa.string())
            texts = pa.DictionaryArray.from_arrays(codes, strings).dictionary_decode()
            return texts if type_.name == "VARCHAR" else pa.ExtensionArray.from_storage(target, texts)
        case "DECIMAL" | "HUGEINT":
            return _decimals(values, mask, vector, target)
        case "NULL":
            return pa.nulls(len(vector))
        case "INTERVAL":
            return _intervals(vector, target)
        case "DATE":
            return pa.array(values.astype(np.int32), mask=mask).view(target)
        case "TIME" | "TIMESTAMP" | "TIMESTAMPTZ":
            return pa.array(values, mask=mask).view(target)
        case "UBIGINT":
            return pa.array(values.astype(np.uint64), mask=mask)
        case "ENUM":
            codes = pa.array(values, mask=mask).cast(target.index_type)
            return pa.DictionaryArray.from_arrays(codes, pa.array(type_.names, pa.string()))
        case _:
            return pa.array(values, mask=mask).cast(target)


def _coded(vector: Vector) -> pa.Array:
    """Values that are held as codes: each distinct one is decoded once."""
    assert vector.dictionary is not None
    valid = vector.valid  # what stands for NULL need not be a code
    used = np.unique(vector.values if valid is None else vector.values[valid])
    found = arrow_of(vector.dictionary[used].tolist(), vector.type)
    places = np.searchsorted(used, vector.values)
    return found.take(pa.array(places, mask=None if valid is None else ~np.ascontiguousarray(valid)))


def _intervals(vector: Vector, target: pa.DataType) -> pa.Array:
    spans = [None if v is None else (v[0], v[1], v[2] * 1000) for v in vector.to_pylist()]
    if any(span is not None and not -(1 << 63) <= span[2] < 1 << 63 for span in spans):
        raise EverfreshError(Code.OVERFLOW, "an INTERVAL with over 292 years of time has no Arrow form")
    return pa.array(spans, type=target)


def _decimals(values: Array, mask: Array | None, vector: Vector, target: pa.DataType) -> pa.Array:
    rows = len(values)
    words = np.empty((rows, 2), dtype=np.int64)
    if values.dtype == object:
        with contextlib.suppress(
            OverflowError
        ):  # most values fit one word, where no one is looked at by itself
            values = values.astype(np.int64)
    if values.dtype == object:
        limit = 10**38
        if any(not -limit < v < limit for v in values.tolist()):
            raise EverfreshError(Code.OVERFLOW, f"a {vector.type} with more than 38 digits has no Arrow form")
        words[:, 0] = np.array([v & _WORD for v in values.tolist()], dtype=np.uint64).view(np.int64)
        words[:, 1] = np.array([v >> 64 for v in values.tolist()], dtype=np.int64)
    else:
        words[:, 0], words[:, 1] = values, values >> 63
    bitmap: Any = None
    if mask is not None:
        bitmap = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
    return pa.Array.from_buffers(target, rows, [bitmap, pa.py_buffer(words.tobytes())])
