"""Messages between processes: a length, then a tree of plain values as JSON, then its bytes.

Rows of bytes travel as one Arrow batch: entries of a log, rows that are prepared, the base. Only the classes
in `CLASSES` are made from a message; nothing in one is ever executed. Invariant: `unpack(pack(x)) == x`.
"""

from __future__ import annotations

import datetime as dt
import json
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.kv.protocol import calls, dataflow, messages
from everfresh.kv.protocol.timeline import Change
from everfresh.kv.store import (
    ANY,
    Chunk,
    Client,
    Conflict,
    Cut,
    Entry,
    LogDiverged,
    LogTrimmed,
    Op,
    Partition,
    PartitionClosed,
    Position,
    Refused,
    Row,
    StoredTable,
)
from everfresh.kv.store.protocol import Caps
from everfresh.types import Column, SqlType, TableSchema

MOST = 1 << 30
"""Longer messages are refused."""
_LENGTH = struct.Struct(">II")
_ROWS = 32
"""From how many rows on they are an Arrow batch."""

CLASSES: dict[str, type] = {
    c.__name__: c
    for c in (
        Caps, Chunk, Client, Column, Cut, Entry, Op, Partition, Position, Row, SqlType, StoredTable,
        TableSchema, calls.BaseAt, calls.Clear, calls.Collect, calls.Ends, calls.Fence, calls.Follow,
        calls.Get, calls.Lives, calls.Place, calls.Prepare, calls.Put, calls.ReadChunk, calls.Resolve,
        calls.Scan, calls.Slice, calls.Tracked, Change, dataflow.At, dataflow.Contribution,
        messages.Committed, messages.Load, messages.Loaded, messages.Ready, messages.Restore,
        messages.Stopped, messages.Token, messages.Update, messages.Work,
    )
}  # fmt: skip
ERRORS: dict[str, type[Exception]] = {
    e.__name__: e for e in (Conflict, Refused, PartitionClosed, LogTrimmed, LogDiverged)
}


# -- values ----------------------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    """A message.

    >>> unpack(pack([(1, b"x"), Position(3, b"12345678"), {"a": None}]))
    [(1, b'x'), Position(offset=3, id=b'12345678'), {'a': None}]
    """
    parts: list[bytes] = []
    tree = json.dumps(_packed(value, parts), separators=(",", ":")).encode()
    sizes = struct.pack(f">{len(parts)}I", *map(len, parts))
    return b"".join((_LENGTH.pack(len(tree), len(parts)), sizes, tree, *parts))


def _packed(value: Any, parts: list[bytes]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        parts.append(value)
        return {"b": len(parts) - 1}
    if value is ANY:
        return {"any": 1}
    if isinstance(value, pa.Table):
        parts.append(table_bytes(value))
        return {"a": len(parts) - 1}
    name = type(value).__name__
    if name in _TEXTS:
        return {"x": name, "v": str(value)}
    if CLASSES.get(name) is type(value):
        names = [f.name for f in fields(value)] if is_dataclass(value) else list(_fields(value))
        return {"c": name, "v": [_packed(getattr(value, n), parts) for n in names]}
    if type(value) in (list, tuple):  # a named one has a meaning that would be lost
        rows = _arrow(value) if len(value) >= _ROWS else None
        if rows is not None:
            kind, data = rows
            parts.append(data)
            return {"r": kind, "b": len(parts) - 1, "l": isinstance(value, list)}
        listed = [_packed(item, parts) for item in value]
        return listed if isinstance(value, list) else {"t": listed}
    if isinstance(value, dict):
        return {"d": [[_packed(k, parts), _packed(v, parts)] for k, v in value.items()]}
    raise TypeError(f"a {name} does not travel")


def _fields(value: Any) -> Sequence[str]:
    """Those of a named tuple."""
    found: Sequence[str] = value._fields
    return found


def unpack(data: bytes) -> Any:
    """The value of a message."""
    size, count = _LENGTH.unpack_from(data)
    at = _LENGTH.size
    sizes = struct.unpack_from(f">{count}I", data, at)
    at += 4 * count
    tree = json.loads(data[at : at + size])
    at += size
    parts = []
    for n in sizes:
        parts.append(data[at : at + n])
        at += n
    return _unpacked(tree, parts)


def _unpacked(tree: Any, parts: Sequence[bytes]) -> Any:
    if isinstance(tree, list):
        return [_unpacked(item, parts) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "r" in tree:
        rows = _rows(tree["r"], parts[tree["b"]])
        return rows if tree["l"] else tuple(rows)
    if "a" in tree:
        return bytes_table(parts[tree["a"]])
    if "b" in tree:
        return parts[tree["b"]]
    if "t" in tree:
        return tuple(_unpacked(item, parts) for item in tree["t"])
    if "d" in tree:
        return {_unpacked(k, parts): _unpacked(v, parts) for k, v in tree["d"]}
    if "any" in tree:
        return ANY
    if "x" in tree:
        return _TEXTS[tree["x"]](tree["v"])
    return CLASSES[tree["c"]](*(_unpacked(item, parts) for item in tree["v"]))


# -- rows ------------------------------------------------------------------------------------------------

_TEXTS: dict[str, Callable[[str], Any]] = {
    "Decimal": Decimal,
    "date": dt.date.fromisoformat,
    "datetime": dt.datetime.fromisoformat,
}
"""Values of columns that a text says exactly."""
_TYPES = {int: pa.int64(), str: pa.string(), bytes: pa.binary()}
_EXPECT = Op._fields.index("expect")


def _arrow(rows: Sequence[Any]) -> tuple[str, bytes] | None:
    """Entries, writes, bytes, or tuples of one form, as an Arrow batch."""
    columns: list[Sequence[Any]]
    kind = type(rows[0]).__name__
    if any(type(row) is not type(rows[0]) for row in rows):
        return None
    if kind == "bytes":
        columns = [rows]
    elif kind in ("Entry", "Op", "Change"):
        columns = list(zip(*rows, strict=True))
        if kind == "Op":
            columns[_EXPECT] = [None if expect is ANY else expect for expect in columns[_EXPECT]]
    elif kind == "tuple" and rows[0]:
        if any(len(row) != len(rows[0]) for row in rows):
            return None
        columns = list(zip(*rows, strict=True))
    else:
        return None
    arrays = []
    for column in columns:
        types = {*map(type, column)} - {type(None)}
        if len(types) > 1 or not types <= _TYPES.keys():
            return None
        try:
            arrays.append(pa.array(column, _TYPES[types.pop()] if types else pa.binary()))
        except (pa.ArrowInvalid, OverflowError):  # a number of more than 64 bits
            return None
    batch = pa.RecordBatch.from_arrays(arrays, [str(i) for i in range(len(arrays))])
    return kind, table_bytes(pa.Table.from_batches([batch]))


def _rows(kind: str, data: bytes) -> list[Any]:
    columns = [_listed(column) for column in bytes_table(data).columns]
    if kind == "bytes":
        return columns[0]
    if kind == "Op":
        columns[_EXPECT] = [ANY if expect is None else expect for expect in columns[_EXPECT]]
    listed = zip(*columns, strict=True)
    return list(map(CLASSES[kind]._make, listed)) if kind != "tuple" else list(listed)  # type: ignore[attr-defined]


def _listed(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; bytes are cut out of one piece."""
    if column.type != pa.binary() or column.null_count or column.num_chunks != 1:
        found: list[Any] = column.to_pylist()
        return found
    _, offsets, data = column.chunk(0).buffers()
    ends = memoryview(offsets).cast("i")[: len(column) + 1].tolist()
    joined = data.to_pybytes() if data is not None else b""
    return [joined[a:b] for a, b in pairwise(ends)]


def table_bytes(table: pa.Table) -> bytes:
    """An Arrow table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def bytes_table(data: bytes) -> pa.Table:
    """The inverse of `table_bytes`."""
    return pa.ipc.open_stream(data).read_all()


# -- errors ----------------------------------------------------------------------------------------------


def packed_error(error: Exception) -> dict[str, Any]:
    """An error as a value."""
    if isinstance(error, EverfreshError):
        what = {"message": error.message, "place": error.place, "hint": error.hint}
        return {"error": "EverfreshError", "code": str(error.code), **what}
    if isinstance(error, Conflict):
        return {"error": "Conflict", "table": error.table, "key": error.key, "actual": error.actual}
    return {"error": type(error).__name__, "message": str(error)}


def raised(data: dict[str, Any]) -> Exception:
    """The error that a value stands for."""
    name = data["error"]
    if name == "EverfreshError":
        return EverfreshError(data["code"], data["message"], place=data["place"], hint=data["hint"])
    if name == "Conflict":
        return Conflict(data["table"], data["key"], data["actual"])
    if name in ERRORS:
        return ERRORS[name](data["message"])
    return EverfreshError(Code.ENVIRONMENT, f"the store's owner failed: {name}: {data['message']}")


# -- sockets ---------------------------------------------------------------------------------------------


def send(to: socket.socket, data: bytes) -> None:
    """Send a message."""
    to.sendall(struct.pack(">Q", len(data)) + data)


def receive(of: socket.socket) -> bytes | None:
    """The next message; None when the other side is gone."""
    head = _exactly(of, 8)
    if head is None:
        return None
    (size,) = struct.unpack(">Q", head)
    if size > MOST:
        raise EverfreshError(Code.ARGUMENT, f"a message of {size} bytes is too long")
    return _exactly(of, size)


def _exactly(of: socket.socket, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        part = of.recv(min(1 << 20, size - len(found)))
        if not part:
            return None
        found += part
    return bytes(found)
