"""Stores: the protocol, and the adapters in memory and on RocksDB.

>>> from everfresh.types import BIGINT, Column, TableSchema
>>> store = memory_store(partitions=2)
>>> store.create_table(StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",))))
>>> store.put("t", b"a", b"1"), store.get("t", b"a")
(1, Row(value=b'1', version=1))
"""

from __future__ import annotations

import shutil
from pathlib import Path

from everfresh.kv.store.embedded import EmbeddedStore
from everfresh.kv.store.protocol import (
    ABSENT,
    ANY,
    NOBODY,
    START,
    Caps,
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
    Snapshot,
    Store,
    StoredTable,
    was_ours,
)
from everfresh.kv.store.space import MemorySpace

__all__ = [
    "ABSENT",
    "ANY",
    "NOBODY",
    "START",
    "Caps",
    "Chunk",
    "Client",
    "Conflict",
    "Cut",
    "EmbeddedStore",
    "Entry",
    "LogDiverged",
    "LogTrimmed",
    "Op",
    "Partition",
    "PartitionClosed",
    "Position",
    "Refused",
    "Row",
    "Snapshot",
    "Store",
    "StoredTable",
    "memory_store",
    "rocks_store",
    "was_ours",
]


class _Memory(EmbeddedStore):
    caps = Caps(durable=False)


def memory_store(*, partitions: int = 1) -> EmbeddedStore:
    """A store in memory, for tests and simulations."""
    return _Memory(MemorySpace(), lambda id_: MemorySpace(), lambda id_: None, partitions)


def rocks_store(path: str | Path, *, partitions: int = 1, sync: bool = False) -> EmbeddedStore:
    """A store in a folder, on RocksDB; `partitions` counts when it is made. With `sync` every write is on
    disk when it returns; without, it survives the end of the process and not a power cut."""
    from everfresh.kv.store.rocks import RocksSpace

    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)

    def drop(id_: int) -> None:
        shutil.rmtree(folder / f"p{id_}", ignore_errors=True)

    meta = RocksSpace(folder / "meta", sync=True)
    return EmbeddedStore(meta, lambda id_: RocksSpace(folder / f"p{id_}", sync=sync), drop, partitions)
