"""A store that another process owns, reached over its socket.

Each call is one request; protocol calls (`calls`) are done by the owner, so that reading the base or a log
slice is one request too. A connection belongs to one thread at a time. Invariant: as the store that the owner
has, but for snapshots, which stay with the owner.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.kv.process import wire
from everfresh.kv.protocol.calls import Slice
from everfresh.kv.store.partition import unpacked
from everfresh.kv.store.protocol import (
    ANY,
    NOBODY,
    Caps,
    Chunk,
    Client,
    Entry,
    Expect,
    Op,
    Partition,
    Position,
    Prepared,
    Row,
    StoredTable,
)

BATCH = 1024


class RemoteStore:
    """A connection to the owner of a store."""

    def __init__(self, path: str | Path, *, timeout: float | None = 60.0) -> None:
        self.path = str(path)
        self._lock = Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(self.path)
        except OSError as error:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"nobody serves a store at {self.path}",
                hint="start it with `everfresh kv serve`",
            ) from error
        self.caps: Caps = self.ask("caps")

    def ask(self, call: str, *args: Any, **how: Any) -> Any:
        """One request."""
        with self._lock:
            try:
                wire.send(self._socket, wire.pack([call, args, how]))
                data = wire.receive(self._socket)
            except OSError as error:
                self._socket.close()  # what comes later would answer another question
                raise EverfreshError(
                    Code.CLOSED, f"the store at {self.path} does not answer: {error}"
                ) from error
        if data is None:
            raise EverfreshError(Code.CLOSED, f"the store at {self.path} was closed")
        answer = wire.unpack(data)
        if isinstance(answer, dict) and "error" in answer:
            raise wire.raised(answer)
        return answer["answer"]

    # -- reads and protocol calls that the owner does ----------------------------------------------

    def perform(self, call: Any) -> Any:
        """A protocol call."""
        if type(call) is Slice:
            limit = call.upto.offset - call.after.offset
            found = self.ask("packed_log", call.partition, call.after, limit)
            if found is not None:
                return unpacked(found[1], found[0])
        return self.ask("perform", call)

    def read(self, view: str) -> pa.Table:
        """A view's rows, of one epoch."""
        return wire.bytes_table(self.ask("read", view))

    def read_row(self, view: str, *key: Any) -> dict[str, Any] | None:
        """A view's row by its key."""
        try:
            found = self.ask("read_row", view, *key)
        except TypeError:  # a value that only Arrow can say
            found = self.ask("read_row", view, arrow=wire.table_bytes(_table(key)))
        row: dict[str, Any] | None
        row = wire.bytes_table(found).to_pylist()[0] if isinstance(found, bytes) else found
        return row

    # -- the store ---------------------------------------------------------------------------------

    def create_table(self, table: StoredTable) -> None:
        """Make a table; nothing happens if it is there just so."""
        self.ask("create_table", table)

    def drop_table(self, name: str) -> None:
        """Remove a table and its rows."""
        self.ask("drop_table", name)

    def tables(self) -> Mapping[str, StoredTable]:
        """The tables by name."""
        found: dict[str, StoredTable] = self.ask("tables")
        return found

    def partitions(self) -> list[Partition]:
        """All partitions, parents before their children."""
        found: list[Partition] = self.ask("partitions")
        return found

    def partition_of(self, table: str, key: bytes) -> Partition:
        """The open partition that has a key."""
        found: Partition = self.ask("partition_of", table, key)
        return found

    def get(self, table: str, key: bytes) -> Row | None:
        """One row."""
        found: Row | None = self.ask("get", table, key)
        return found

    def multi_get(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows, in the order of the keys."""
        found: list[Row | None] = self.ask("multi_get", table, list(keys))
        return found

    def put(
        self, table: str, key: bytes, value: bytes, *, expect: Expect = ANY, client: Client = NOBODY
    ) -> int:
        """Write a row; returns its version."""
        return int(self.ask("put", table, key, value, expect=expect, client=client))

    def delete(self, table: str, key: bytes, *, expect: Expect = ANY, client: Client = NOBODY) -> int:
        """Remove a row; returns the version of the write."""
        return int(self.ask("delete", table, key, expect=expect, client=client))

    def write(self, partition: int, ops: Sequence[Op], *, client: Client = NOBODY, term: int = 0) -> int:
        """All of these writes or none; returns the version of the last."""
        return int(self.ask("write", partition, list(ops), client=client, term=term))

    def scan(
        self, table: str, lo: bytes | None = None, hi: bytes | None = None
    ) -> Iterator[list[tuple[bytes, Row]]]:
        """The rows from `lo` to before `hi`, in batches, in the order of the keys."""
        at = lo or b""
        while True:
            found: list[tuple[bytes, Row]] = self.ask("scan", table, at, hi, BATCH)
            if found:
                yield found
            if len(found) < BATCH:
                return
            at = found[-1][0] + b"\0"

    def scan_chunks(
        self,
        partition: int,
        table: str,
        lo: bytes | None = None,
        hi: bytes | None = None,
        *,
        size: int = BATCH,
    ) -> Iterator[Chunk]:
        """The rows of one partition as small snapshots."""
        at = lo
        while True:
            chunk: Chunk = self.ask("chunk", partition, table, at, hi, size)
            yield chunk
            if chunk.hi == hi:
                return
            at = chunk.hi

    def snapshot(self, partitions: Sequence[int] | None = None) -> Any:
        """Snapshots stay with the owner."""
        raise EverfreshError(
            Code.UNSUPPORTED, "a snapshot cannot be held from outside the owner", hint="scan it in chunks"
        )

    def log(self, partition: int, after: Position, limit: int = BATCH) -> list[Entry]:
        """The entries that follow a position."""
        found: list[Entry] = self.ask("log", partition, after, limit)
        return found

    def entry(self, partition: int, offset: int) -> Entry | None:
        """The entry with an offset."""
        found: Entry | None = self.ask("entry", partition, offset)
        return found

    def log_end(self, partition: int) -> Position:
        """The position of the last entry."""
        found: Position = self.ask("log_end", partition)
        return found

    def log_trim(self, partition: int, upto: int) -> None:
        """Forget the entries up to and with an offset."""
        self.ask("log_trim", partition, upto)

    def fence(self, partition: int, group: str, term: int, epoch: int) -> None:
        """Refuse what writers of the group do with an earlier (term, epoch) from now on."""
        self.ask("fence", partition, group, term, epoch)

    def prepare(
        self, partition: int, table: str, group: str, term: int, epoch: int, rows: Sequence[Prepared]
    ) -> None:
        """Write the states of an epoch beside the committed ones."""
        self.ask("prepare", partition, table, group, term, epoch, list(rows))

    def resolve(self, partition: int, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Leave of split rows only their newest state, if it is of an epoch up to this."""
        self.ask("resolve", partition, table, epoch, list(keys))

    def collect(self, partition: int, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Remove rows that are nothing but absence since an epoch up to this."""
        self.ask("collect", partition, table, epoch, list(keys))

    def split(self, partition: int) -> tuple[int, int]:
        """Divide a partition; returns its children."""
        first, second = self.ask("split", partition)
        return first, second

    def move(self, partition: int, owner: str) -> int:
        """Give a partition to another owner; returns the new term."""
        return int(self.ask("move", partition, owner))

    def close(self) -> None:
        """End the connection; the store stays."""
        self._socket.close()


def _table(key: Sequence[Any]) -> pa.Table:
    return pa.table({str(i): [value] for i, value in enumerate(key)}) if key else pa.table({"": [0]})


__all__ = ["RemoteStore"]
