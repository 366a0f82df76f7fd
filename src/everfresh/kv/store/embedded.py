"""A store of spaces in this process: tables, partitions by the hash of the key, splits and moves.

"Store" in docs/design/key-value.md. One space holds what the store knows of itself, each partition has one of
its own. A key's token is a hash of 16 bits; a partition has a range of tokens, the same for all tables.
Invariants: the open partitions have every token once; what a split made counts when the one write of the
store's own space names it.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from threading import RLock
from typing import Any
from zlib import crc32

from everfresh.errors import Code, EverfreshError
from everfresh.kv.store import partition as core
from everfresh.kv.store.partition import PartitionCore
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
    PartitionClosed,
    Position,
    Prepared,
    Row,
    StoredTable,
)
from everfresh.kv.store.space import Space, View
from everfresh.types import Column, TableSchema, parse_type

TOKENS = 1 << 16
_MANIFEST = b"store"
_FORMAT = 1


def token(key: bytes) -> int:
    """Where a key belongs, of all partitions."""
    return crc32(key) & (TOKENS - 1)


class EmbeddedStore:
    """A store in this process."""

    caps = Caps()

    def __init__(
        self,
        meta: Space,
        open_space: Callable[[int], Space],
        drop_space: Callable[[int], None],
        partitions: int,
        owner: str = "",
    ) -> None:
        self._meta, self._open_space = meta, open_space
        self._lock = RLock()
        self._tables: dict[str, tuple[int, StoredTable]] = {}
        self._shown: tuple[Any, dict[str, StoredTable]] = (None, {})
        self._partitions: dict[int, Partition] = {}
        self._next = [1, 1]
        found = meta.get(_MANIFEST)
        if found is None:
            bounds = [TOKENS * i // partitions for i in range(partitions + 1)]
            self._partitions = {
                i + 1: Partition(i + 1, bounds[i], bounds[i + 1], owner) for i in range(partitions)
            }
            self._next = [1, partitions + 1]
            self._save()
        else:
            self._load(json.loads(found))
        drop_space(self._next[1])  # what a split left that did not come to its end
        drop_space(self._next[1] + 1)
        self._cores = {
            i: PartitionCore(open_space(i), lambda: self._tables, closed=not p.open)
            for i, p in self._partitions.items()
        }

    def _save(self) -> None:
        self._meta.apply([(_MANIFEST, json.dumps(self._manifest()).encode())])

    def _manifest(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "next": self._next,
            "tables": [[number, table_json(table)] for number, table in self._tables.values()],
            "partitions": [
                [p.id, p.lo, p.hi, p.owner, p.term, list(p.children)] for p in self._partitions.values()
            ],
        }

    def _load(self, manifest: Mapping[str, Any]) -> None:
        if manifest["format"] != _FORMAT:
            raise EverfreshError(
                Code.FORMAT, f"the store has format {manifest['format']}, this release reads {_FORMAT}"
            )
        self._next = manifest["next"]
        for number, data in manifest["tables"]:
            table = table_of(data)
            self._tables[table.name] = (number, table)
        for id_, lo, hi, owner, term, children in manifest["partitions"]:
            self._partitions[id_] = Partition(id_, lo, hi, owner, term, tuple(children))

    # -- tables and partitions ---------------------------------------------------------------------

    def create_table(self, table: StoredTable) -> None:
        """Make a table; nothing happens if it is there just so."""
        with self._lock:
            found = self._tables.get(table.name)
            if found is not None and found[1] != table:
                raise EverfreshError(
                    Code.EXISTS, f"the store has another table '{table.name}'", hint="drop it first"
                )
            if found is None:
                self._tables = {**self._tables, table.name: (self._next[0], table)}
                self._next[0] += 1
                self._save()

    def drop_table(self, name: str) -> None:
        """Remove a table and its rows."""
        with self._lock:
            number = self._number(name)
            self._tables = {n: t for n, t in self._tables.items() if n != name}
            self._save()
            for part in self._cores.values():
                part.space.drop(*core.row_range(number, None, None))

    def tables(self) -> Mapping[str, StoredTable]:
        """The tables by name."""
        of, shown = self._shown
        if of is not self._tables:
            of = self._tables
            shown = {name: table for name, (_, table) in of.items()}
            self._shown = of, shown
        return shown

    def _number(self, name: str) -> int:
        if name not in self._tables:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"the store has no table '{name}'",
                hint="tables are: " + ", ".join(sorted(self._tables)),
            )
        return self._tables[name][0]

    def partitions(self) -> list[Partition]:
        """All partitions, parents before their children."""
        return list(self._partitions.values())

    def partition_of(self, table: str, key: bytes) -> Partition:
        """The open partition that has a key."""
        at = token(key)
        return next(p for p in self._partitions.values() if p.open and p.lo <= at < p.hi)

    def _routed(self, key: bytes) -> PartitionCore:
        return self._cores[self.partition_of("", key).id]

    # -- rows --------------------------------------------------------------------------------------

    def get(self, table: str, key: bytes) -> Row | None:
        """One row."""
        return core.get(self._routed(key).space, self._number(table), key)

    def multi_get(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows, in the order of the keys."""
        number = self._number(table)
        places: dict[int, list[int]] = {}
        for i, key in enumerate(keys):
            places.setdefault(self.partition_of(table, key).id, []).append(i)
        found: list[Row | None] = [None] * len(keys)
        for id_, at in places.items():
            rows = self._cores[id_].multi_get(number, [keys[i] for i in at])
            for i, row in zip(at, rows, strict=True):
                found[i] = row
        return found

    def put(
        self, table: str, key: bytes, value: bytes, *, expect: Expect = ANY, client: Client = NOBODY
    ) -> int:
        """Write a row; returns its version."""
        return self._one(Op(table, key, value, expect), client)

    def delete(self, table: str, key: bytes, *, expect: Expect = ANY, client: Client = NOBODY) -> int:
        """Remove a row; returns the version of the write."""
        return self._one(Op(table, key, None, expect), client)

    def _one(self, op: Op, client: Client) -> int:
        self._number(op.table)
        while True:
            try:
                return self._routed(op.key).write([op], client)
            except PartitionClosed:
                continue  # it was split meanwhile

    def write(self, partition: int, ops: Sequence[Op], *, client: Client = NOBODY, term: int = 0) -> int:
        """All of these writes or none; returns the version of the last."""
        at = self._partitions[partition]
        for op in ops:
            self._number(op.table)
            if not at.lo <= token(op.key) < at.hi:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"a key of table '{op.table}' does not belong to partition {partition}",
                    hint="a batch has keys of one partition: see partition_of",
                )
        part = self._cores[partition]
        with part.lock:
            if term and term != self._partitions[partition].term:
                raise PartitionClosed
            return part.write(ops, client)

    def scan(
        self, table: str, lo: bytes | None = None, hi: bytes | None = None
    ) -> Iterator[list[tuple[bytes, Row]]]:
        """The rows from `lo` to before `hi`, in batches, in the order of the keys."""
        open_ = [self._cores[p.id].space for p in self.partitions() if p.open]
        return _merged(open_, self._number(table), lo, hi)

    def scan_chunks(
        self,
        partition: int,
        table: str,
        lo: bytes | None = None,
        hi: bytes | None = None,
        *,
        size: int = core.BATCH,
    ) -> Iterator[Chunk]:
        """The rows of one partition as small snapshots."""
        return self._cores[partition].scan_chunks(self._number(table), lo, hi, size)

    def snapshot(self, partitions: Sequence[int] | None = None) -> EmbeddedSnapshot:
        """The store (or these partitions) as it is now, exact with the log."""
        with self._lock, ExitStack() as stack:
            asked = [p.id for p in self.partitions() if p.open] if partitions is None else partitions
            for id_ in asked:
                stack.enter_context(self._cores[id_].lock)
            pins = {id_: self._cores[id_].space.pin() for id_ in asked}
            positions = {id_: self._cores[id_].end for id_ in asked}
            ranges = {id_: self._partitions[id_] for id_ in asked}
        return EmbeddedSnapshot(self._number, ranges, pins, positions)

    # -- the log -----------------------------------------------------------------------------------

    def log(self, partition: int, after: Position, limit: int = core.BATCH) -> list[Entry]:
        """The entries that follow a position."""
        return self._cores[partition].log(after, limit)

    def packed_log(
        self, partition: int, after: Position, limit: int
    ) -> tuple[dict[int, str], list[tuple[bytes, bytes]]]:
        """The same as it is stored, with the names of the tables: what an owner sends to its readers."""
        part = self._cores[partition]
        return part.names, part.packed_log(after, limit)

    def entry(self, partition: int, offset: int) -> Entry | None:
        """The entry with an offset."""
        return self._cores[partition].entry(offset)

    def log_end(self, partition: int) -> Position:
        """The position of the last entry."""
        return self._cores[partition].end

    def log_trim(self, partition: int, upto: int) -> None:
        """Forget the entries up to and with an offset."""
        self._cores[partition].trim(upto)

    # -- the protocol of views ---------------------------------------------------------------------

    def fence(self, partition: int, group: str, term: int, epoch: int) -> None:
        """Refuse what writers of the group do with an earlier (term, epoch) from now on."""
        self._cores[partition].fence(group, term, epoch)

    def prepare(
        self, partition: int, table: str, group: str, term: int, epoch: int, rows: Sequence[Prepared]
    ) -> None:
        """Write the states of an epoch beside the committed ones."""
        self._cores[partition].prepare(table, group, term, epoch, rows)

    def resolve(self, partition: int, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Leave of split rows only their newest state, if it is of an epoch up to this."""
        self._cores[partition].resolve(table, epoch, keys)

    def collect(self, partition: int, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Remove rows that are nothing but absence since an epoch up to this."""
        self._cores[partition].collect(table, epoch, keys)

    # -- splits and moves --------------------------------------------------------------------------

    def split(self, partition: int) -> tuple[int, int]:
        """Divide a partition; returns its children."""
        with self._lock, self._cores[partition].lock:
            parent, part = self._partitions[partition], self._cores[partition]
            if not parent.open:
                raise PartitionClosed
            if parent.hi - parent.lo < 2:
                raise EverfreshError(
                    Code.ARGUMENT, f"partition {partition} has one token and cannot be split"
                )
            middle = (parent.lo + parent.hi) // 2
            first, second = self._next[1], self._next[1] + 1
            children = {
                first: Partition(first, parent.lo, middle, parent.owner),
                second: Partition(second, middle, parent.hi, parent.owner),
            }
            for id_, child in children.items():
                space = self._open_space(id_)
                part.copy_to(space, lambda key, c=child: c.lo <= token(key[4:]) < c.hi)  # type: ignore[misc]
                self._cores[id_] = PartitionCore(space, lambda: self._tables)
            self._next[1] += 2
            self._partitions = {
                **self._partitions,
                partition: replace(parent, children=(first, second)),
                **children,
            }
            self._save()
            part.closed = True
            return first, second

    def move(self, partition: int, owner: str) -> int:
        """Give a partition to another owner; returns the new term."""
        with self._lock, self._cores[partition].lock:
            found = self._partitions[partition]
            if not found.open:
                raise PartitionClosed
            moved = replace(found, owner=owner, term=found.term + 1)
            self._partitions = {**self._partitions, partition: moved}
            self._save()
            return moved.term

    def close(self) -> None:
        """Release everything."""
        for part in self._cores.values():
            part.space.close()
        self._meta.close()


class EmbeddedSnapshot:
    """The partitions of a store at one moment."""

    def __init__(
        self,
        number: Callable[[str], int],
        ranges: Mapping[int, Partition],
        pins: Mapping[int, View],
        positions: Mapping[int, Position],
    ) -> None:
        self.positions = positions
        self._number, self._ranges, self._pins = number, ranges, pins

    def get(self, table: str, key: bytes) -> Row | None:
        """One row; None too if its partition is not part of this."""
        at, number = token(key), self._number(table)
        for id_, p in self._ranges.items():
            if p.lo <= at < p.hi:
                return core.get(self._pins[id_], number, key)
        return None

    def multi_get(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows, in the order of the keys."""
        return [self.get(table, key) for key in keys]

    def scan(
        self, table: str, lo: bytes | None = None, hi: bytes | None = None
    ) -> Iterator[list[tuple[bytes, Row]]]:
        """The rows from `lo` to before `hi`, in batches, in the order of the keys."""
        return _merged(list(self._pins.values()), self._number(table), lo, hi)

    def close(self) -> None:
        """Let the store forget the moment."""
        for pin in self._pins.values():
            pin.close()


def _merged(
    views: Sequence[View], table: int, lo: bytes | None, hi: bytes | None
) -> Iterator[list[tuple[bytes, Row]]]:
    parts = [(pair for batch in core.scan(view, table, lo, hi) for pair in batch) for view in views]
    return in_batches(heapq.merge(*parts, key=lambda pair: pair[0]))


def in_batches(pairs: Iterable[tuple[bytes, Row]]) -> Iterator[list[tuple[bytes, Row]]]:
    """Rows in batches, as a scan gives them."""
    batch: list[tuple[bytes, Row]] = []
    for pair in pairs:
        batch.append(pair)
        if len(batch) == core.BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def table_json(table: StoredTable) -> dict[str, Any]:
    """A table as plain data."""
    return {
        "name": table.name,
        "columns": [[c.name, str(c.type), c.nullable] for c in table.schema.columns],
        "key": list(table.schema.key),
        "logged": table.logged,
        "before_images": table.before_images,
    }


def table_of(data: Mapping[str, Any]) -> StoredTable:
    """The inverse of `table_json`."""
    columns = tuple(Column(name, parse_type(type_), nullable) for name, type_, nullable in data["columns"])
    schema = TableSchema(data["name"], columns, tuple(data["key"]))
    return StoredTable(schema, data["logged"], data["before_images"])
