"""Stores: the protocol, and the adapters in memory, on RocksDB, on Redis Cluster and on etcd.

>>> from everfresh.types import BIGINT, Column, TableSchema
>>> store = memory_store(partitions=2)
>>> store.create_table(StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",))))
>>> store.put("t", b"a", b"1"), store.get("t", b"a")
(1, Row(value=b'1', version=1))
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from everfresh.errors import Code, EverfreshError
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

if TYPE_CHECKING:
    from everfresh.kv.store.etcd import EtcdStore
    from everfresh.kv.store.redis import RedisStore

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
    "etcd_store",
    "memory_store",
    "open_store",
    "redis_store",
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
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise EverfreshError(
            Code.ENVIRONMENT,
            f"'{folder}' is no folder for a store: {problem.strerror or problem}",
            hint="a folder that is there, or one that can be made",
        ) from None

    def drop(id_: int) -> None:
        shutil.rmtree(folder / f"p{id_}", ignore_errors=True)

    meta = RocksSpace(folder / "meta", sync=True)
    return EmbeddedStore(meta, lambda id_: RocksSpace(folder / f"p{id_}", sync=sync), drop, partitions)


def etcd_store(members: Sequence[str], name: str = "store", *, partitions: int = 1) -> EtcdStore:
    """A store in etcd, whose members are `host:port`, below a name; `partitions` counts when it is made. For
    small tables; what it has acknowledged no single failure loses."""
    from everfresh.kv.store.etcd import EtcdStore

    return EtcdStore(members, name, partitions)


def redis_store(
    nodes: Sequence[str], name: str = "store", *, partitions: int = 16, wait: int = 0
) -> RedisStore:
    """A store in a Redis Cluster, of which some nodes are `host:port`, below a name; `partitions` counts when
    it is made: take several times as many as there are masters. A failover may lose what was acknowledged
    (`caps.loses`); views notice, and are made anew. With `wait` every write waits so many milliseconds for a
    replica to have it: less is lost."""
    from everfresh.kv.store.redis import RedisStore

    return RedisStore(nodes, name, partitions, wait=wait)


def open_store(where: str, *, partitions: int = 1, sync: bool = False) -> Store:
    """A store by where it is: a folder (RocksDB), `redis://host:port,host:port/name` or
    `etcd://host:port,host:port/name`."""
    kind, found, rest = where.partition("://")
    if not found:
        return rocks_store(where, partitions=partitions, sync=sync)
    hosts, _, name = rest.partition("/")
    makers: dict[str, Callable[..., Store]] = {"redis": redis_store, "etcd": etcd_store}
    if kind not in makers or not hosts:
        raise EverfreshError(
            Code.ARGUMENT,
            f"'{where}' is no place of a store",
            hint="a folder, redis://host:port,host:port/name or etcd://host:port,host:port/name",
        )
    return makers[kind](hosts.split(","), name or "store", partitions=partitions)
