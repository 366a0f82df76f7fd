"""Rows of typed columns as a key and a value: format byte, NULL bitmap, columns of fixed size, the others.

"Rows" in docs/design/key-value.md. A table without a key gets one of all its columns. Values are physical
ones. Invariant: `decode(*encode(row)) == row`, whatever the types.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.kv.encoding import keys
from everfresh.types import SqlType, TableSchema, canonical_float, to_logical, to_physical

FORMAT = 1
_SIZE = struct.Struct(">I")


class RowCodec:
    """Rows of one table as bytes and back."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        key = schema.key or schema.names
        self.key = tuple(schema.names.index(name) for name in key)
        self.rest = tuple(i for i in range(len(schema.names)) if i not in self.key)
        self._types = [c.type for c in schema.columns]
        self._key_types = [self._types[i] for i in self.key]

    def encode_key(self, values: Sequence[Any]) -> bytes:
        """The key of a row, from the values of the key's columns."""
        if len(values) != len(self.key):
            raise EverfreshError(
                Code.ARGUMENT,
                f"a key of '{self.schema.name}' has {len(self.key)} values, and not {len(values)}",
                hint="its columns are: " + ", ".join(self.schema.names[i] for i in self.key),
            )
        return keys.encode(values, self._key_types)

    def decode_key(self, key: bytes) -> tuple[Any, ...]:
        """The values of the key's columns."""
        return tuple(keys.decode(key, self._key_types))

    def encode(self, row: Sequence[Any]) -> tuple[bytes, bytes]:
        """The key and the value of a row."""
        return self.encode_key([row[i] for i in self.key]), self._value([row[i] for i in self.rest])

    def _value(self, values: Sequence[Any]) -> bytes:
        nulls = sum(1 << i for i, value in enumerate(values) if value is None)
        fixed, variable = [], []
        for i, value in zip(self.rest, values, strict=True):
            if value is None:
                continue
            if self._types[i].name == "VARCHAR":
                text = value.encode()
                variable += [_SIZE.pack(len(text)), text]
            else:
                fixed.append(_fixed(value, self._types[i]))
        bitmap = nulls.to_bytes((len(values) + 7) // 8, "big")
        return b"".join((bytes([FORMAT]), bitmap, *fixed, *variable))

    def decode(self, key: bytes, value: bytes) -> tuple[Any, ...]:
        """The row of a key and a value."""
        if value[0] != FORMAT:
            raise EverfreshError(Code.FORMAT, f"a row of '{self.schema.name}' has format {value[0]}")
        row: list[Any] = [None] * len(self._types)
        for i, found in zip(self.key, keys.decode(key, self._key_types), strict=True):
            row[i] = found
        at = 1 + (len(self.rest) + 7) // 8
        nulls = int.from_bytes(value[1:at], "big")
        there = [i for place, i in enumerate(self.rest) if not nulls >> place & 1]
        for i in there:
            if self._types[i].name != "VARCHAR":
                row[i], at = _unfixed(value, at, self._types[i])
        texts = [i for i in there if self._types[i].name == "VARCHAR"]
        for i, text in zip(texts, self.texts(value, at, len(texts)), strict=True):
            row[i] = text
        return tuple(row)

    @staticmethod
    def texts(value: bytes, at: int, count: int) -> list[str]:
        """The texts of a value, from where they begin."""
        found = []
        for _ in range(count):
            size = _SIZE.unpack_from(value, at)[0]
            at += _SIZE.size
            found.append(value[at : at + size].decode())
            at += size
        return found

    def unfixed(self, value: bytes, place: int) -> Any:
        """The value of a column of fixed size, from its bytes."""
        return _unfixed(value, 0, self._types[place])[0]

    # -- Arrow -------------------------------------------------------------------------------------

    def physical(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Rows of an Arrow table as physical values."""
        columns = [
            [None if v is None else to_physical(v, type_) for v in column.to_pylist()]
            for column, type_ in zip(rows.columns, self._types, strict=True)
        ]
        return list(zip(*columns, strict=True))

    def arrow(self, rows: Iterable[Sequence[Any]]) -> pa.Table:
        """Physical values as an Arrow table of the schema."""
        listed = list(rows)
        arrays = [
            pa.array([None if row[i] is None else to_logical(row[i], type_) for row in listed], field.type)
            for i, (type_, field) in enumerate(zip(self._types, self.schema.arrow, strict=True))
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema.arrow)


def fixed_width(type_: SqlType) -> int:
    """How many bytes a value that is not a text takes."""
    return 24 if type_.name == "INTERVAL" else 8 if type_.is_float else keys.width(type_)


def _fixed(value: Any, type_: SqlType) -> bytes:
    if type_.is_float:
        return struct.pack(">d", value)
    if type_.name == "INTERVAL":
        return struct.pack(">3q", *value)
    return int(value).to_bytes(keys.width(type_), "big", signed=True)


def _unfixed(value: bytes, at: int, type_: SqlType) -> tuple[Any, int]:
    if type_.is_float:
        return canonical_float(struct.unpack_from(">d", value, at)[0]), at + 8
    if type_.name == "INTERVAL":
        return struct.unpack_from(">3q", value, at), at + 24
    size = keys.width(type_)
    found = int.from_bytes(value[at : at + size], "big", signed=True)
    return (bool(found) if type_.name == "BOOLEAN" else found), at + size
