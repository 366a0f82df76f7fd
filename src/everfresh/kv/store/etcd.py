"""A store in etcd: every write is a transaction, and every state of it can be read for a while.

"Stores on servers" in docs/design/key-value.md. Below the store's name: `m` what tables there are; `s` and a
number: a partition, with the ends of its log; `r` table key: a row; `l` partition offset: an entry; `f`
partition group: a fence; `h`: a revision that somebody reads. A partition is a range of hashed tokens, and
its rows lie among all others of their table: so a scan is ordered, and a split moves nothing. Invariants:
whatever changes a partition writes its `s`, on the condition that it is as it was read; a transaction whose
answer was lost is settled by the marks that `s` keeps of the last writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from everfresh.errors import Code, EverfreshError
from everfresh.kv.store import etcd_gateway as gateway
from everfresh.kv.store import partition as core
from everfresh.kv.store.embedded import TOKENS, table_json, table_of, token
from everfresh.kv.store.etcd_gateway import Compacted, Event, Gateway, KeyValue, Request
from everfresh.kv.store.protocol import (
    START,
    Caps,
    Chunk,
    Client,
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
from everfresh.kv.store.served import AnswerLost, Fenced, ServedStore

MOST = 60
"""Rows of a batch: with an entry for each these are 120 writes, and a transaction takes 128."""
_READS = 100
_MARKS = 16
"""So many writes of a partition later, a lost answer cannot be settled any more."""
_HELD = 60
"""For so many seconds a snapshot keeps its revision from being compacted."""


@dataclass(frozen=True)
class _Part:
    """A partition as etcd has it."""

    partition: Partition
    end: Position = START
    base: Position = START
    writes: int = 0
    marks: tuple[str, ...] = ()
    mod: int = 0

    def to_bytes(self) -> bytes:
        p = self.partition
        ends = [[at.offset, at.id.hex()] for at in (self.end, self.base)]
        data = [p.id, p.lo, p.hi, p.owner, p.term, list(p.children), *ends, self.writes, list(self.marks)]
        return json.dumps(data).encode()

    @staticmethod
    def of(found: KeyValue) -> _Part:
        id_, lo, hi, owner, term, children, end, base, writes, marks = json.loads(found.value)
        last, first = (Position(offset, bytes.fromhex(mark)) for offset, mark in (end, base))
        partition = Partition(id_, lo, hi, owner, term, tuple(children))
        return _Part(partition, last, first, writes, tuple(marks), found.mod)


class _Tables:
    """What tables there are, as of a revision."""

    def __init__(self, found: KeyValue) -> None:
        data = json.loads(found.value)
        self.mod, self.next = found.mod, data["next"]
        self.by_name = {t.name: (n, t) for n, t in ((n, table_of(d)) for n, d in data["tables"])}
        self.names = {n: t.name for n, t in self.by_name.values()}


def _manifest(tables: Mapping[str, tuple[int, StoredTable]], next_: Sequence[int]) -> bytes:
    listed = [[number, table_json(table)] for number, table in tables.values()]
    return json.dumps({"next": list(next_), "tables": listed}).encode()


class EtcdStore(ServedStore):
    """A store below a name in a cluster of etcd."""

    caps = Caps(most=MOST)

    def __init__(
        self, members: Sequence[str], name: str, partitions: int = 1, *, patience: float = 30.0
    ) -> None:
        self.gateway = Gateway(members, patience=patience)
        self._root = b"everfresh/" + name.encode() + b"\0"
        self._turn = threading.Lock()
        """Writers in this process take turns: those of others are found out by conditions."""
        self._holds: set[int] = set()
        (found,) = self._read([gateway.get(self._at(b"m"))])
        if not found:
            self._make(partitions)
        self._refresh()

    def _at(self, kind: bytes, *parts: int, tail: bytes = b"") -> bytes:
        width = {b"r": 4, b"l": 4, b"f": 4, b"s": 4}
        at = self._root + kind
        for i, part in enumerate(parts):
            at += part.to_bytes(width.get(kind, 8) if i == 0 else 8, "big")
        return at + tail

    @property
    def rows_prefix(self) -> bytes:
        """How the keys of all rows begin, for who reads `watch`."""
        return self._at(b"r")

    def _space(self, key: bytes) -> bytes:
        """Where a row of `planned` lies."""
        return self._root + key

    def _make(self, partitions: int) -> None:
        bounds = [TOKENS * i // partitions for i in range(partitions + 1)]
        parts = [_Part(Partition(i + 1, bounds[i], bounds[i + 1])) for i in range(partitions)]
        if partitions >= _READS:
            raise EverfreshError(Code.ARGUMENT, f"{partitions} partitions are too many for etcd")
        writes = [gateway.put(self._at(b"m"), _manifest({}, [1, partitions + 1]))]
        writes += [gateway.put(self._at(b"s", p.partition.id), p.to_bytes()) for p in parts]
        try:
            self.gateway.transact([gateway.unchanged(self._at(b"m"), 0)], writes)
        except AnswerLost:
            (found,) = self._read([gateway.get(self._at(b"m"))])
            if not found:
                self._make(partitions)

    def _read(self, requests: Sequence[Request]) -> list[list[KeyValue]]:
        return self.gateway.read(requests)[1]

    def _refresh(self) -> None:
        manifest, parts = self._read([gateway.get(self._at(b"m")), self._all_parts()])
        self._tables = _Tables(manifest[0])
        self._partitions = [_Part.of(p).partition for p in parts]

    def _all_parts(self, revision: int = 0) -> Request:
        return gateway.get(self._at(b"s"), self._at(b"t"), revision=revision)

    _look = _refresh

    # -- tables and partitions ---------------------------------------------------------------------

    def create_table(self, table: StoredTable) -> None:
        """Make a table; nothing happens if it is there just so."""
        while True:
            if self._is_there(table):
                return
            known = self._tables
            number, partition = known.next
            tables = {**known.by_name, table.name: (number, table)}
            self._change_tables(_manifest(tables, [number + 1, partition]), [])

    def drop_table(self, name: str) -> None:
        """Remove a table and its rows."""
        while True:
            self._refresh()
            number, _ = self._known(name)
            left = {n: t for n, t in self._tables.by_name.items() if n != name}
            rows = gateway.delete(self._at(b"r", number), self._at(b"r", number + 1))
            if self._change_tables(_manifest(left, self._tables.next), [rows]):
                return

    def _change_tables(self, manifest: bytes, others: Sequence[Request]) -> bool:
        """Write what tables there are, if nobody has since it was read; whether it was written."""
        place = self._at(b"m")
        try:
            done = self.gateway.transact(
                [gateway.unchanged(place, self._tables.mod)], [gateway.put(place, manifest), *others]
            )
        except AnswerLost:
            done = False
        self._refresh()
        return done or _manifest(self._tables.by_name, self._tables.next) == manifest

    def _by_name(self, *, anew: bool = False) -> Mapping[str, tuple[int, StoredTable]]:
        if anew:
            (found,) = self._read([gateway.get(self._at(b"m"))])
            if found[0].mod != self._tables.mod:
                self._tables = _Tables(found[0])
        return self._tables.by_name

    def partitions(self) -> list[Partition]:
        """All partitions, parents before their children."""
        self._refresh()
        return list(self._partitions)

    def _routing(self) -> list[Partition]:
        return self._partitions

    def _part(self, partition: int, others: Sequence[Request] = ()) -> tuple[_Part, list[list[KeyValue]]]:
        """A partition with what else is read at the same revision."""
        part, *found = self._read([gateway.get(self._at(b"s", partition)), *others])
        return _Part.of(part[0]), found

    # -- rows --------------------------------------------------------------------------------------

    def multi_get(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows, in the order of the keys."""
        return self._rows(table, keys)

    def _rows(self, table: str, keys: Sequence[bytes], revision: int = 0) -> list[Row | None]:
        number, _ = self._known(table)
        found: list[Row | None] = []
        for start in range(0, len(keys), _READS):
            places = [self._at(b"r", number, tail=key) for key in keys[start : start + _READS]]
            rows = self._read([gateway.get(place, revision=revision) for place in places])
            found += [core.row_of(row[0].value) if row else None for row in rows]
        return found

    def scan(
        self, table: str, lo: bytes | None = None, hi: bytes | None = None
    ) -> Iterator[list[tuple[bytes, Row]]]:
        """The rows from `lo` to before `hi`, in batches, in the order of the keys."""
        return self._scan(table, lo, hi, 0)

    def _scan(
        self, table: str, lo: bytes | None, hi: bytes | None, revision: int
    ) -> Iterator[list[tuple[bytes, Row]]]:
        number, _ = self._known(table)
        at, end = (self._space(place) for place in core.row_range(number, lo, hi))
        while True:
            (found,) = self._read([gateway.get(at, end, core.BATCH, revision)])
            if found:
                yield [self._pair(kv) for kv in found]
            if len(found) < core.BATCH:
                return
            at = found[-1].key + b"\0"

    def _pair(self, found: KeyValue) -> tuple[bytes, Row]:
        row = core.row_of(found.value)
        assert row is not None
        return found.key[len(self._root) + 5 :], row

    def scan_chunks(
        self,
        partition: int,
        table: str,
        lo: bytes | None = None,
        hi: bytes | None = None,
        *,
        size: int = core.BATCH,
    ) -> Iterator[Chunk]:
        """The rows of one partition as small snapshots: of so many rows of the table those that are its."""
        number, _ = self._known(table)
        at, end = (self._space(place) for place in core.row_range(number, lo, hi))
        low = lo or b""
        while True:
            part, (found,) = self._part(partition, [gateway.get(at, end, size)])
            p = part.partition
            pairs = (self._pair(kv) for kv in found)
            rows = tuple(pair for pair in pairs if p.lo <= token(pair[0]) < p.hi)
            last = len(found) < size
            at = end if last else found[-1].key + b"\0"
            upto = hi if last else at[len(self._root) + 5 :]
            yield Chunk(low, upto, part.end, rows)
            if last:
                return
            low = upto or b""

    # -- writing -----------------------------------------------------------------------------------

    def _apply(
        self, partition: int, ops: Sequence[Op], client: Client, term: int = 0, fence: Fenced | None = None
    ) -> int:
        """Write rows and entries of one partition, all or none."""
        while True:
            for op in ops:
                self._known(op.table)
            tables = self._tables
            places = core.needed(ops, tables.by_name)
            reads = [gateway.get(self._space(place)) for place in places]
            if fence is not None:
                reads.append(self._fence_of(partition, fence.group))
            with self._turn:
                part, found = self._part(partition, [gateway.get(self._at(b"m"), keys_only=True), *reads])
                if found[0][0].mod == tables.mod:
                    _check(part, term, fence, found[-1])
                    rows = dict(zip(places, (f[0].value if f else None for f in found[1:]), strict=False))
                    plan = core.planned(ops, tables.by_name, rows, part.end, part.writes, client)
                    if self._write(part, plan):
                        return plan.version
                    continue
            self._refresh()

    def _write(self, part: _Part, plan: core.Planned) -> bool:
        writes = [
            gateway.delete(self._space(k)) if v is None else gateway.put(self._space(k), v)
            for k, v in plan.rows.items()
        ]
        id_ = part.partition.id
        writes += [gateway.put(self._at(b"l", id_, tail=k[1:]), v) for k, v in plan.entries]
        return self._commit(replace(part, end=plan.end, writes=plan.writes), writes)

    def _commit(self, part: _Part, writes: Sequence[Request]) -> bool:
        """Write these and what the partition is with them, if nobody has written it since it was read."""
        id_, mark = part.partition.id, os.urandom(6).hex()
        place, marks = self._at(b"s", id_), (*part.marks, mark)[-_MARKS:]
        state = replace(part, marks=marks).to_bytes()
        holds = [gateway.unchanged(place, part.mod), gateway.unchanged(self._at(b"m"), self._tables.mod)]
        try:
            return self.gateway.transact(holds, [gateway.put(place, state), *writes])
        except AnswerLost:
            return self._was_done(part, mark)

    def _was_done(self, part: _Part, mark: str) -> bool:
        """Whether a transaction with this mark was done that was to change a partition from what it was. It
        may still be on its way: so what it expects is written over before the answer is no."""
        place = self._at(b"s", part.partition.id)
        while True:
            now, _ = self._part(part.partition.id)
            if mark in now.marks:
                return True
            if now.mod == part.mod:
                touched = replace(now, marks=(*now.marks, os.urandom(6).hex())[-_MARKS:])
                with contextlib.suppress(AnswerLost):
                    self.gateway.transact(
                        [gateway.unchanged(place, now.mod)], [gateway.put(place, touched.to_bytes())]
                    )
                continue
            if len(now.marks) < _MARKS or (part.marks and part.marks[-1] in now.marks):
                return False  # the marks of all writes since are there, and this one's is not
            raise EverfreshError(
                Code.ENVIRONMENT,
                "the answer to a write was lost, and others wrote so much since that it cannot be settled",
                hint="read the row: it may have been written",
            )

    # -- the log -----------------------------------------------------------------------------------

    def log(self, partition: int, after: Position, limit: int = core.BATCH) -> list[Entry]:
        """The entries that follow a position."""
        first, end = self._at(b"l", partition, after.offset), self._at(b"l", partition + 1)
        part, (found,) = self._part(partition, [gateway.get(first, end, limit + 1)])
        if after.offset < part.base.offset:
            raise LogTrimmed
        entries = [self._entry(kv) for kv in found]
        known = part.base if after.offset == part.base.offset else None
        if known is None and entries and entries[0].offset == after.offset:
            known = entries[0].position
        if known != after:
            raise LogDiverged(f"partition {partition} has other entries than were read from it")
        return [e for e in entries if e.offset > after.offset][:limit]

    def _entry(self, found: KeyValue) -> Entry:
        offset = int.from_bytes(found.key[-8:], "big")
        return core.unpack_entry(offset, found.value, self._tables.names)

    def entry(self, partition: int, offset: int) -> Entry | None:
        """The entry with an offset."""
        (found,) = self._read([gateway.get(self._at(b"l", partition, offset))])
        return self._entry(found[0]) if found else None

    def log_end(self, partition: int) -> Position:
        """The position of the last entry."""
        return self._part(partition)[0].end

    def log_trim(self, partition: int, upto: int) -> None:
        """Forget the entries up to and with an offset."""
        while True:
            with self._turn:
                part, _ = self._part(partition)
                last = self.entry(partition, min(upto, part.end.offset))
                if last is None or last.offset <= part.base.offset:
                    return
                gone = gateway.delete(
                    self._at(b"l", partition, 0), self._at(b"l", partition, last.offset + 1)
                )
                if self._commit(replace(part, base=last.position), [gone]):
                    return
            self._refresh()

    # -- fences ------------------------------------------------------------------------------------

    def _fence_of(self, partition: int, group: str) -> Request:
        return gateway.get(self._at(b"f", partition, tail=group.encode()))

    def fence(self, partition: int, group: str, term: int, epoch: int) -> None:
        """Refuse what writers of the group do with an earlier (term, epoch) from now on."""
        while True:
            with self._turn:
                part, (found,) = self._part(partition, [self._fence_of(partition, group)])
                if not part.partition.open:
                    raise PartitionClosed
                if found and _at_fence(found[0]) > (term, epoch):
                    raise Refused
                place = self._at(b"f", partition, tail=group.encode())
                if self._commit(part, [gateway.put(place, json.dumps([term, epoch]).encode())]):
                    return
            self._refresh()

    # -- splits and moves --------------------------------------------------------------------------

    def split(self, partition: int) -> tuple[int, int]:
        """Divide a partition; returns its children."""
        while True:
            self._refresh()
            fences = gateway.get(self._at(b"f", partition), self._at(b"f", partition + 1))
            with self._turn:
                part, (found,) = self._part(partition, [fences])
                p, (number, first) = part.partition, self._tables.next
                if not p.open:
                    raise PartitionClosed
                if p.hi - p.lo < 2 or len(found) > _READS // 2:
                    why = "has one token" if p.hi - p.lo < 2 else f"has {len(found)} fences"
                    raise EverfreshError(Code.ARGUMENT, f"partition {partition} {why} and cannot be split")
                middle, ids = (p.lo + p.hi) // 2, (first, first + 1)
                halves = ((p.lo, middle), (middle, p.hi))
                writes = [gateway.put(self._at(b"m"), _manifest(self._tables.by_name, [number, first + 2]))]
                for id_, (lo, hi) in zip(ids, halves, strict=True):
                    child = _Part(Partition(id_, lo, hi, p.owner), part.end, part.end, part.writes)
                    writes.append(gateway.put(self._at(b"s", id_), child.to_bytes()))
                    writes += [
                        gateway.put(self._at(b"f", id_, tail=kv.key[len(self._root) + 5 :]), kv.value)
                        for kv in found
                    ]
                done = self._commit(replace(part, partition=replace(p, children=ids)), writes)
            self._refresh()
            if done:
                return ids

    def move(self, partition: int, owner: str) -> int:
        """Give a partition to another owner; returns the new term."""
        while True:
            with self._turn:
                part, _ = self._part(partition)
                if not part.partition.open:
                    raise PartitionClosed
                moved = replace(part.partition, owner=owner, term=part.partition.term + 1)
                done = self._commit(replace(part, partition=moved), [])
            self._refresh()
            if done:
                return moved.term

    # -- revisions ---------------------------------------------------------------------------------

    def snapshot(self, partitions: Sequence[int] | None = None) -> EtcdSnapshot:
        """The store (or these partitions) as it is now: a revision, kept for a while from being compacted."""
        lease = int(self.gateway.ask("/v3/lease/grant", {"TTL": _HELD})["ID"])
        revision, _ = self.gateway.read([gateway.get(self._at(b"m"), keys_only=True)])
        hold = gateway.put(self._at(b"h", lease), str(revision).encode(), lease)
        self.gateway.ask("/v3/kv/txn", {"success": [hold]})
        (found,) = self._read([self._all_parts(revision)])
        parts = [_Part.of(kv) for kv in found]
        if partitions is None:
            parts = [part for part in parts if part.partition.open]
        else:
            parts = [part for part in parts if part.partition.id in partitions]
        return EtcdSnapshot(self, revision, lease, parts)

    def revision(self) -> int:
        """The revision that etcd is at."""
        return self.gateway.read([gateway.get(self._at(b"m"), keys_only=True)])[0]

    def compact(self) -> int:
        """Let etcd forget the revisions before this moment, but those that a snapshot reads; returns the
        first that is kept."""
        revision, (holds,) = self.gateway.read([gateway.get(self._at(b"h"), self._at(b"i"))])
        kept = min([revision, *(int(hold.value) for hold in holds)])
        with contextlib.suppress(Compacted):  # somebody else has come further
            self.gateway.ask("/v3/kv/compaction", {"revision": kept, "physical": True})
        return kept

    def watch(self, revision: int) -> Iterator[list[Event] | None]:
        """All writes of the store since a revision, as etcd's global log tells them, with what was there
        before each. Raises `LogTrimmed` if they were compacted."""
        end = self._root[:-1] + b"\1"
        try:
            yield from self.gateway.watch(self._root, end, revision + 1)
        except Compacted as error:
            raise LogTrimmed from error

    def close(self) -> None:
        """End the connections."""
        self.gateway.close()


class EtcdSnapshot:
    """The store at a revision."""

    def __init__(self, store: EtcdStore, revision: int, lease: int, parts: Sequence[_Part]) -> None:
        self._store, self.revision, self._lease = store, revision, lease
        self._partitions = [part.partition for part in parts]
        self.positions: Mapping[int, Position] = {part.partition.id: part.end for part in parts}

    def _has(self, key: bytes) -> bool:
        at = token(key)
        return any(p.lo <= at < p.hi for p in self._partitions)

    def get(self, table: str, key: bytes) -> Row | None:
        """One row; None too if its partition is not part of this."""
        return self.multi_get(table, [key])[0]

    def multi_get(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows, in the order of the keys."""
        try:
            rows = self._store._rows(table, keys, self.revision)
        except Compacted as error:
            raise self._gone() from error
        return [row if self._has(key) else None for key, row in zip(keys, rows, strict=True)]

    def scan(
        self, table: str, lo: bytes | None = None, hi: bytes | None = None
    ) -> Iterator[list[tuple[bytes, Row]]]:
        """The rows from `lo` to before `hi`, in batches, in the order of the keys."""
        try:
            for batch in self._store._scan(table, lo, hi, self.revision):
                rows = [pair for pair in batch if self._has(pair[0])]
                if rows:
                    yield rows
        except Compacted as error:
            raise self._gone() from error

    def _gone(self) -> EverfreshError:
        return EverfreshError(
            Code.HISTORY,
            f"etcd no longer has revision {self.revision}",
            hint=f"a snapshot is kept for {_HELD} s: read it faster, or scan in chunks",
        )

    def close(self) -> None:
        """Let the store forget the moment."""
        self._store.gateway.ask("/v3/lease/revoke", {"ID": self._lease})


def _at_fence(found: KeyValue) -> tuple[int, int]:
    term, epoch = json.loads(found.value)
    return term, epoch


def _check(part: _Part, term: int, fence: Fenced | None, found: Sequence[KeyValue]) -> None:
    """Whether a write may be done."""
    if not part.partition.open or (term and term != part.partition.term):
        raise PartitionClosed
    if fence is not None and (not found or _at_fence(found[0]) != (fence.term, fence.epoch)):
        raise Refused


__all__ = ["EtcdStore"]
