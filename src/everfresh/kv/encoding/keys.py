"""Keys as bytes that compare as their values do: column by column, NULL first.

"Rows" in docs/design/key-value.md. Integers are big-endian with the sign flipped, floats by their bits, text
and other values without a fixed size are escaped (a zero byte becomes two) and ended. Values are physical
ones (`everfresh.types`). Invariant: `a < b` exactly if `encode(a) < encode(b)`, and `decode` is its inverse.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from everfresh.types import NAN, SqlType

_NULL, _VALUE = b"\x00", b"\x01"
_END = b"\x00\x00"
_DOUBLE = struct.Struct(">Q")
_SIGN = 1 << 63
_WORD = (1 << 64) - 1


def width(type_: SqlType) -> int:
    """How many bytes an integer of this type takes."""
    if type_.is_wide:
        return 17  # DECIMAL(38) and HUGEINT: 128 bits and a sign
    if type_.name in ("DATE", "INTEGER"):
        return 4
    return {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2}.get(type_.name, 8)


def encode(values: Sequence[Any], types: Sequence[SqlType]) -> bytes:
    """A key."""
    return b"".join(_encoded(value, type_) for value, type_ in zip(values, types, strict=True))


def _encoded(value: Any, type_: SqlType) -> bytes:
    if value is None:
        return _NULL
    if type_.is_float:
        bits = struct.unpack(">Q", struct.pack(">d", value))[0]
        return _VALUE + _DOUBLE.pack(bits ^ _WORD if bits & _SIGN else bits | _SIGN)
    if type_.name == "VARCHAR":
        text: bytes = value.encode()
        return _VALUE + text.replace(b"\x00", b"\x00\xff") + _END
    if type_.name == "INTERVAL":
        return _VALUE + b"".join((part + _SIGN).to_bytes(8, "big") for part in value)
    if type_.name == "BOOLEAN":
        return _VALUE + bytes([value])
    size = width(type_)
    flipped: int = value + (1 << (8 * size - 1))
    return _VALUE + flipped.to_bytes(size, "big")


def decode(key: bytes, types: Sequence[SqlType]) -> tuple[Any, ...]:
    """The values of a key."""
    values, at = [], 0
    for type_ in types:
        value, at = _decoded(key, at, type_)
        values.append(value)
    if at != len(key):
        raise ValueError(f"a key has {len(key) - at} bytes too many")
    return tuple(values)


def _decoded(key: bytes, at: int, type_: SqlType) -> tuple[Any, int]:
    there, at = key[at : at + 1] == _VALUE, at + 1
    if not there:
        return None, at
    if type_.is_float:
        bits = _DOUBLE.unpack_from(key, at)[0]
        value = struct.unpack(">d", _DOUBLE.pack(bits ^ _SIGN if bits & _SIGN else bits ^ _WORD))[0]
        return (NAN if value != value else value), at + 8
    if type_.name == "VARCHAR":
        end = key.index(b"\x00", at)
        while key[end + 1 : end + 2] == b"\xff":
            end = key.index(b"\x00", end + 1)
        return key[at:end].replace(b"\x00\xff", b"\x00").decode(), end + 2
    if type_.name == "INTERVAL":
        parts = (key[at + 8 * i : at + 8 * i + 8] for i in range(3))
        return tuple(int.from_bytes(part, "big") - _SIGN for part in parts), at + 24
    if type_.name == "BOOLEAN":
        return bool(key[at]), at + 1
    size = width(type_)
    return int.from_bytes(key[at : at + size], "big") - (1 << (8 * size - 1)), at + size


def after(prefix: bytes) -> bytes | None:
    """The least key above all that begin with this; None if there is none.

    >>> after(b"a"), after(b"a\\xff"), after(b"\\xff")
    (b'b', b'b', None)
    """
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
