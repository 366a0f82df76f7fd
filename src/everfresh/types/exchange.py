"""Coded values from and to Arrow: the one place where nested columns are taken apart and put together.

`physical` and `arrow_of` are inverse to each other: a list of physical values, None for NULL, and an Arrow
array of the type that `to_arrow` names. What an Arrow array has behind a NULL is not looked at.

>>> array = pa.array([[1, None], None, []], pa.list_(pa.int32()))
>>> found = physical(array, LIST(SqlType("INTEGER")))
>>> found[1], arrow_of(found, LIST(SqlType("INTEGER"))) == array
(None, True)
"""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.types import coding
from everfresh.types.sqltype import LIST, SqlType


def physical(array: pa.Array, type_: SqlType) -> list[Any]:
    """The physical values of an Arrow array that has exactly the Arrow type of a SQL type."""
    match type_.name:
        case "LIST" | "MAP":
            return _lists(array, type_)
        case "STRUCT":
            parts = [physical(array.field(i), t) for i, t in enumerate(type_.inner)]
            rows = zip(*parts, strict=True)
            return [
                coding.from_fields(row, type_) if valid else None
                for row, valid in zip(rows, _valid(array), strict=True)
            ]
        case "BLOB":
            return [None if v is None else v.decode("latin-1") for v in array.to_pylist()]
        case "UUID":
            storage = array.storage if isinstance(array, pa.ExtensionArray) else array
            return [None if v is None else str(uuid.UUID(bytes=v)) for v in storage.to_pylist()]
        case "JSON":
            return (array.storage if isinstance(array, pa.ExtensionArray) else array).to_pylist()  # type: ignore[no-any-return]
        case "DECIMAL" | "HUGEINT":
            with decimal.localcontext(prec=80):
                return [None if v is None else int(v.scaleb(type_.scale)) for v in array.to_pylist()]
        case "REAL" | "DOUBLE":
            return [v if v is None or v == v else coding.NAN for v in array.to_pylist()]
        case "DATE":
            return array.view(pa.int32()).to_pylist()  # type: ignore[no-any-return]
        case "TIME" | "TIMESTAMP" | "TIMESTAMPTZ":
            return array.view(pa.int64()).to_pylist()  # type: ignore[no-any-return]
        case "ENUM":
            places = {label: i for i, label in enumerate(type_.names)}
            return [None if v is None else places[v] for v in array.to_pylist()]
        case _:
            return array.to_pylist()  # type: ignore[no-any-return]


def _valid(array: pa.Array) -> list[bool]:
    return array.is_valid().to_pylist()  # type: ignore[no-any-return]


def _lists(array: pa.Array, type_: SqlType) -> list[Any]:
    offsets = array.offsets.to_pylist()
    inner = coding.entry_type(type_) if type_.name == "MAP" else type_.inner[0]
    if type_.name == "MAP":
        keys, items = physical(array.keys, type_.inner[0]), physical(array.items, type_.inner[1])
        below: list[Any] = [coding.from_fields(pair, inner) for pair in zip(keys, items, strict=True)]
    else:
        below = physical(array.values, inner)
    spans = zip(pairwise(offsets), _valid(array), strict=True)
    made = LIST(inner)
    return [coding.from_elements(below[a:b], made) if valid else None for (a, b), valid in spans]


def arrow_of(values: Sequence[Any], type_: SqlType) -> pa.Array:
    """Physical values as an Arrow array of the type that `to_arrow` names."""
    from everfresh.types import to_arrow

    target = to_arrow(type_)
    match type_.name:
        case "LIST" | "MAP":
            return _arrow_lists(values, type_, target)
        case "STRUCT":
            rows = [None if v is None else coding.fields(v, type_) for v in values]
            parts = [
                arrow_of([None if row is None else row[i] for row in rows], t)
                for i, t in enumerate(type_.inner)
            ]
            mask = pa.array([row is None for row in rows], pa.bool_())
            return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
        case "BLOB":
            return pa.array([None if v is None else v.encode("latin-1") for v in values], target)
        case "UUID":
            storage = [None if v is None else uuid.UUID(v).bytes for v in values]
            return pa.ExtensionArray.from_storage(target, pa.array(storage, pa.binary(16)))
        case "JSON":
            return pa.ExtensionArray.from_storage(target, pa.array(values, pa.string()))
        case "DECIMAL" | "HUGEINT":
            return _arrow_decimals(values, type_, target)
        case "DATE":
            return pa.array(values, pa.int32()).view(target)
        case "TIME" | "TIMESTAMP" | "TIMESTAMPTZ":
            return pa.array(values, pa.int64()).view(target)
        case "ENUM":
            codes = pa.array(values, target.index_type)
            return pa.DictionaryArray.from_arrays(codes, pa.array(type_.names, pa.string()))
        case _:
            return pa.array(values, target)


def _arrow_decimals(values: Sequence[Any], type_: SqlType, target: pa.DataType) -> pa.Array:
    words = np.zeros((len(values), 2), np.uint64)
    for i, value in enumerate(values):
        if value is not None:
            words[i] = value & coding.WORD, value >> 64 & coding.WORD
    valid = np.array([value is not None for value in values], np.bool_)
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(target, len(values), [bitmap, pa.py_buffer(words.tobytes())])


def _arrow_lists(values: Sequence[Any], type_: SqlType, target: pa.DataType) -> pa.Array:
    offsets, below, end = [0], [], 0
    inner = coding.entry_type(type_) if type_.name == "MAP" else type_.inner[0]
    made = LIST(inner)
    for value in values:
        found = [] if value is None else coding.elements(value, made)
        below += found
        end += len(found)
        offsets.append(end)
    bounds, mask = pa.array(offsets, pa.int32()), pa.array([v is None for v in values], pa.bool_())
    if type_.name == "LIST":
        return pa.ListArray.from_arrays(bounds, arrow_of(below, inner), type=target, mask=mask)
    pairs = [coding.fields(pair, inner) for pair in below]
    keys, items = (arrow_of([pair[i] for pair in pairs], type_.inner[i]) for i in (0, 1))
    if any(value is None for value in values):
        bounds = pa.array(
            [None if v is None else o for v, o in zip([*values, 0], offsets, strict=True)], pa.int32()
        )
    return pa.MapArray.from_arrays(bounds, keys, items)


def coded(array: pa.Array | pa.ChunkedArray, type_: SqlType) -> pa.Array:
    """The codes of a column of a coded type, as texts that Arrow can compare, group and sort."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    found = [text for chunk in chunks for text in physical(chunk, type_)]
    return pa.array(found, pa.large_string())
