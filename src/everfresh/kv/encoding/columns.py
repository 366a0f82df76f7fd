"""Many rows at once as columns: what stands at the same place in each is read by whole arrays.

"Rows" in docs/design/key-value.md. Rows with the same NULLs have their columns of fixed size at the same
places; so have keys of integers. Everything else is read value by value, and only if it is asked for.
Invariant: the columns are those of `RowCodec.decode`, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector
from everfresh.kv.encoding import keys
from everfresh.kv.encoding.rows import FORMAT, RowCodec, fixed_width
from everfresh.types import SqlType

Array = np.ndarray[Any, Any]
Pair = tuple[bytes, bytes]


def columns(codec: RowCodec, pairs: Sequence[Pair], names: Sequence[str]) -> pa.Table:
    """Some columns of rows, as an Arrow table."""
    schema = codec.schema
    places = [schema.names.index(name) for name in names]
    found = _keys(codec, pairs, places) | _values(codec, pairs, [i for i in places if i in codec.rest])
    arrays = [
        # An interval is stored as Arrow has it, in nanoseconds, and not as the engines do.
        pa.array(found[i].to_pylist(), schema.arrow.field(schema.names[i]).type)
        if schema.columns[i].type.name == "INTERVAL"
        else found[i].to_arrow()
        for i in places
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema([schema.arrow.field(name) for name in names]))


# -- keys ------------------------------------------------------------------------------------------------


def _keys(codec: RowCodec, pairs: Sequence[Pair], places: Sequence[int]) -> dict[int, Vector]:
    types = [codec.schema.columns[i].type for i in codec.key]
    if all(_is_word(type_) for type_ in types):
        size = sum(1 + keys.width(type_) for type_ in types)
        if all(len(key) == size for key, _ in pairs):  # one with a NULL is shorter
            return _integers(codec, b"".join([key for key, _ in pairs]), size)
    rows = [codec.decode_key(key) for key, _ in pairs]
    return {
        i: Vector.from_pylist([row[n] for row in rows], types[n])
        for n, i in enumerate(codec.key)
        if i in places
    }


def _integers(codec: RowCodec, joined: bytes, size: int) -> dict[int, Vector]:
    cube, at, found = np.frombuffer(joined, np.uint8).reshape(-1, size), 0, {}
    for i in codec.key:
        type_ = codec.schema.columns[i].type
        width = keys.width(type_)
        taken = cube[:, at + 1 : at + 1 + width].copy()
        taken[:, 0] ^= 0x80  # the sign was turned, so that keys order
        found[i] = Vector(type_, _words(taken, width))
        at += 1 + width
    return found


def _words(taken: Array, width: int) -> Array:
    words: Array = np.ascontiguousarray(taken).view(f">i{width}").reshape(-1).astype(np.int64)
    return words


def _is_word(type_: SqlType) -> bool:
    """Whether the physical form is an integer of at most 64 bits."""
    return (type_.is_exact and not type_.is_wide) or type_.name in ("DATE", "TIMESTAMP")


# -- values ----------------------------------------------------------------------------------------------


def _values(codec: RowCodec, pairs: Sequence[Pair], places: Sequence[int]) -> dict[int, Vector]:
    """By the NULLs that rows have: all rows of one kind at once."""
    if not places:
        return {}
    head = 1 + (len(codec.rest) + 7) // 8
    kinds: dict[bytes, list[int]] = {}
    for row, (_, value) in enumerate(pairs):
        kinds.setdefault(value[:head], []).append(row)
    if any(kind[0] != FORMAT for kind in kinds):
        raise EverfreshError(Code.FORMAT, f"a row of '{codec.schema.name}' has another format")
    parts: list[tuple[list[int], dict[int, Vector]]] = []
    for kind, rows in kinds.items():
        nulls = int.from_bytes(kind[1:], "big")
        there = [i for n, i in enumerate(codec.rest) if not nulls >> n & 1]
        parts.append((rows, _alike(codec, [pairs[row][1] for row in rows], head, there, places)))
    if not parts:
        return {i: Vector.from_pylist([], codec.schema.columns[i].type) for i in places}
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
    return {i: _joined([of[i] for _, of in parts], codec.schema.columns[i].type).take(order) for i in places}


def _alike(
    codec: RowCodec, values: Sequence[bytes], head: int, there: Sequence[int], places: Sequence[int]
) -> dict[int, Vector]:
    types = [c.type for c in codec.schema.columns]
    fixed = [i for i in there if types[i].name != "VARCHAR"]
    size = sum(fixed_width(types[i]) for i in fixed)
    joined = b"".join([value[head : head + size] for value in values])
    cube = np.frombuffer(joined, np.uint8).reshape(len(values), size)
    found = {i: Vector.nulls(types[i], len(values)) for i in places if i not in there}
    at = 0
    for i in fixed:
        width = fixed_width(types[i])
        if i in places:
            found[i] = _fixed(types[i], cube[:, at : at + width], width, codec, i)
        at += width
    texts = [i for i in there if types[i].name == "VARCHAR"]
    if any(i in places for i in texts):
        listed = [codec.texts(value, head + size, len(texts)) for value in values]
        for n, i in enumerate(texts):
            if i in places:
                found[i] = Vector.from_pylist([row[n] for row in listed], types[i])
    return found


def _fixed(type_: SqlType, taken: Array, width: int, codec: RowCodec, place: int) -> Vector:
    if _is_word(type_):
        return Vector(type_, _words(taken, width))
    return Vector.from_pylist([codec.unfixed(bytes(row), place) for row in taken], type_)


def _joined(vectors: Sequence[Vector], type_: SqlType) -> Vector:
    return Vector.from_pylist([value for vector in vectors for value in vector.to_pylist()], type_)


__all__ = ["columns"]
