"""One partition of an embedded store: rows, log, fences and split states over an ordered space.

"Store" in docs/design/key-value.md. A call holds the partition's lock: this is what makes conditional
writes, dense offsets and snapshots exact. Keys of the space: `r` table key: a row; `l` offset: an entry;
`f` group: a fence; `b`, `e`: the positions before the first and after the last entry. Invariant: each change
is one `apply` of rows, entries and `e` together.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import RLock
from typing import NamedTuple

from everfresh.kv import split
from everfresh.kv.store.protocol import (
    ANY,
    NOBODY,
    START,
    Chunk,
    Client,
    Conflict,
    Entry,
    LogDiverged,
    LogTrimmed,
    Op,
    PartitionClosed,
    Position,
    Prepared,
    Refused,
    Row,
    StoredTable,
)
from everfresh.kv.store.space import Space, View

_U64 = struct.Struct(">Q")
_END = struct.Struct(">Q8sQ")
_FENCE = struct.Struct(">QQ")
_ENTRY = struct.Struct(">8sIQiiiI")
BATCH = 1024
"""How many rows a scan reads at a time."""

Tables = Mapping[str, tuple[int, StoredTable]]


def row_key(table: int, key: bytes) -> bytes:
    """Where a row lies in the space."""
    return b"r" + table.to_bytes(4, "big") + key


def _after(prefix: bytes) -> bytes:
    """The first key after all that begin with a prefix."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


def row_range(table: int, lo: bytes | None, hi: bytes | None) -> tuple[bytes, bytes]:
    """Where the rows of keys from `lo` to before `hi` lie."""
    first = row_key(table, b"")
    return first + (lo or b""), _after(first) if hi is None else first + hi


def row_of(value: bytes | None) -> Row | None:
    """A row as `planned` packs it."""
    return None if value is None else Row(value[_U64.size :], _U64.unpack_from(value)[0])


def get(view: View, table: int, key: bytes) -> Row | None:
    """One row as a view of the space has it."""
    return row_of(view.get(row_key(table, key)))


def scan(
    view: View, table: int, lo: bytes | None, hi: bytes | None, size: int = BATCH
) -> Iterator[list[tuple[bytes, Row]]]:
    """Rows as a view of the space has them, in batches."""
    at, end = row_range(table, lo, hi)
    while True:
        found = view.range(at, end, size)
        if found:
            yield [(key[5:], Row(value[_U64.size :], _U64.unpack_from(value)[0])) for key, value in found]
        if len(found) < size:
            return
        at = found[-1][0] + b"\0"


class Planned(NamedTuple):
    """What a batch of writes does: rows and entries by where they lie, and what the partition is after it."""

    rows: dict[bytes, bytes | None]
    entries: list[tuple[bytes, bytes]]
    end: Position
    writes: int
    version: int
    """Of the last write."""


def needed(ops: Sequence[Op], tables: Tables) -> list[bytes]:
    """Where the rows lie that `planned` has to know: those with a condition, or with a before-image."""
    places: dict[bytes, None] = {}
    for op in ops:
        number, table = tables[op.table]
        if op.expect is not ANY or (table.logged and table.before_images):
            places[row_key(number, op.key)] = None
    return list(places)


def planned(
    ops: Sequence[Op],
    tables: Tables,
    found: Mapping[bytes, bytes | None],
    end: Position,
    writes: int,
    client: Client = NOBODY,
) -> Planned:
    """What these writes do, one after the other, to a partition with this end of its log and so many writes
    of tables without one. Raises `Conflict`."""
    written: dict[bytes, bytes | None] = {}
    entries: list[tuple[bytes, bytes]] = []
    (offset, id_), version = end, 0
    ids = os.urandom(8 * len(ops))
    for i, op in enumerate(ops):
        number, table = tables[op.table]
        place = row_key(number, op.key)
        before = written[place] if place in written else found.get(place)
        if op.expect is not ANY:
            actual = 0 if before is None else _U64.unpack_from(before)[0]
            if actual != op.expect:
                raise Conflict(op.table, op.key, actual)
        if table.logged:
            offset += 1
            version, id_ = offset, ids[8 * i : 8 * i + 8]
            image = before[_U64.size :] if before is not None and table.before_images else None
            packed = _pack_entry(number, id_, op, image, client)
            entries.append((b"l" + _U64.pack(version), packed))
        else:
            writes += 1
            version = writes
        written[place] = None if op.value is None else _U64.pack(version) + op.value
    return Planned(written, entries, Position(offset, id_), writes, version)


class PartitionCore:
    """The rows and the log of one partition."""

    def __init__(self, space: Space, tables: Callable[[], Tables], closed: bool = False) -> None:
        self.space = space
        self.lock = RLock()
        self.closed = closed
        self._tables = tables
        self._end, self._writes = START, 0
        self._base = START
        end, base = space.get(b"e"), space.get(b"b")
        if end is not None:
            offset, id_, self._writes = _END.unpack(end)
            self._end = Position(offset, id_)
        if base is not None:
            self._base = Position(*_END.unpack(base)[:2])

    # -- writing -----------------------------------------------------------------------------------

    def write(self, ops: Sequence[Op], client: Client = NOBODY) -> int:
        """All of these writes or none; the version of the last."""
        with self.lock:
            self._check_open()
            return self._write(ops, client)

    def _check_open(self) -> None:
        if self.closed:
            raise PartitionClosed

    def _write(self, ops: Sequence[Op], client: Client) -> int:
        plan = planned(ops, self._tables(), self._befores(ops), self._end, self._writes, client)
        end = (b"e", _END.pack(*plan.end, plan.writes))
        self.space.apply([*plan.rows.items(), *plan.entries, end])
        self._end, self._writes = plan.end, plan.writes
        return plan.version

    def _befores(self, ops: Sequence[Op]) -> dict[bytes, bytes | None]:
        """The rows that these writes need to know."""
        places = needed(ops, self._tables())
        if len(places) == 1:
            return {places[0]: self.space.get(places[0])}
        return dict(zip(places, self.space.multi_get(places), strict=True))

    # -- reading -----------------------------------------------------------------------------------

    def multi_get(self, table: int, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows."""
        return [row_of(value) for value in self.space.multi_get([row_key(table, key) for key in keys])]

    def scan_chunks(self, table: int, lo: bytes | None, hi: bytes | None, size: int) -> Iterator[Chunk]:
        """The rows as small snapshots, each with the end of the log when it was read."""
        first, end = row_range(table, lo, hi)
        at, low = first, lo or b""
        while True:
            with self.lock:
                found = self.space.range(at, end, size)
                position = self._end
            rows = tuple((key[5:], Row(v[_U64.size :], _U64.unpack_from(v)[0])) for key, v in found)
            if len(found) < size:
                yield Chunk(low, hi, position, rows)
                return
            at = found[-1][0] + b"\0"
            yield Chunk(low, at[5:], position, rows)
            low = at[5:]

    # -- the log -----------------------------------------------------------------------------------

    @property
    def end(self) -> Position:
        """The position of the last entry."""
        return self._end

    def log(self, after: Position, limit: int) -> list[Entry]:
        """The entries that follow a position."""
        return unpacked(self.packed_log(after, limit), self.names)

    @property
    def names(self) -> dict[int, str]:
        """The tables by the numbers that entries have."""
        return {number: name for name, (number, _) in self._tables().items()}

    def packed_log(self, after: Position, limit: int) -> list[tuple[bytes, bytes]]:
        """The entries that follow a position, as they are stored: `unpacked` reads them."""
        with self.lock:
            if after.offset < self._base.offset:
                raise LogTrimmed
            self._check_position(after)
            lo, hi = b"l" + _U64.pack(after.offset + 1), b"m"
            if not self.space.pins:
                return self.space.range(lo, hi, limit)
            pin = self.space.pin()
        found = pin.range(lo, hi, limit)  # while others write
        pin.close()
        return found

    def _check_position(self, at: Position) -> None:
        if at.offset == self._base.offset:
            known = self._base.id
        else:
            found = self.space.get(b"l" + _U64.pack(at.offset))
            known = found[:8] if found is not None else b""
        if known != at.id:
            raise LogDiverged

    def entry(self, offset: int) -> Entry | None:
        """The entry with an offset."""
        found = self.space.get(b"l" + _U64.pack(offset))
        return None if found is None else unpack_entry(offset, found, self.names)

    def trim(self, upto: int) -> None:
        """Forget the entries up to and with an offset."""
        with self.lock:
            upto = min(upto, self._end.offset)
            if upto <= self._base.offset:
                return
            last = self.space.get(b"l" + _U64.pack(upto))
            assert last is not None
            base = Position(upto, last[:8])
            # The base first: after a crash in between, entries that nobody may ask for are still there.
            self.space.apply([(b"b", _END.pack(*base, 0))])
            self._base = base
            self.space.drop(b"l" + _U64.pack(0), b"l" + _U64.pack(upto + 1))

    # -- the protocol of views ---------------------------------------------------------------------

    def fence(self, group: str, term: int, epoch: int) -> None:
        """Refuse what writers of the group do with an earlier (term, epoch) from now on."""
        with self.lock:
            self._check_open()
            if self._fence(group) > (term, epoch):
                raise Refused
            self.space.apply([(b"f" + group.encode(), _FENCE.pack(term, epoch))])

    def _fence(self, group: str) -> tuple[int, int]:
        found = self.space.get(b"f" + group.encode())
        return (0, 0) if found is None else _FENCE.unpack(found)

    def prepare(self, table: str, group: str, term: int, epoch: int, rows: Sequence[Prepared]) -> None:
        """Write the states of an epoch beside the committed ones."""
        with self.lock:
            self._check_open()
            if self._fence(group) != (term, epoch):
                raise Refused
            old = self._states(table, [key for key, _ in rows])
            if any(states and states[-1].epoch > epoch for states in old):
                raise Refused
            ops = [
                Op(table, key, split.pack(split.prepared(states, epoch, value)))
                for (key, value), states in zip(rows, old, strict=True)
            ]
            self._write(ops, NOBODY)

    def resolve(self, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Leave of split rows only the newest state, if it is of an epoch up to this."""
        with self.lock:
            self._check_open()
            ops = []
            for key, states in zip(keys, self._states(table, keys), strict=True):
                new = split.resolved(states, epoch)
                if new != states:
                    ops.append(Op(table, key, split.pack(new)))
            self._write(ops, NOBODY)

    def collect(self, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Remove rows that are nothing but absence since an epoch up to this."""
        with self.lock:
            self._check_open()
            states = self._states(table, keys)
            gone = [k for k, s in zip(keys, states, strict=True) if split.is_tombstone(s, epoch)]
            self._write([Op(table, key, None) for key in gone], NOBODY)

    def _states(self, table: str, keys: Sequence[bytes]) -> list[split.States]:
        rows = self.multi_get(self._tables()[table][0], keys)
        return [split.unpack(row.value if row is not None else None) for row in rows]

    # -- splitting ---------------------------------------------------------------------------------

    def copy_to(self, child: Space, belongs: Callable[[bytes], bool]) -> None:
        """Give another space the rows that belong there, the fences, and a log that goes on from here."""
        writes: list[tuple[bytes, bytes | None]] = [
            (b"e", _END.pack(*self._end, self._writes)),
            (b"b", _END.pack(*self._end, 0)),
            *self.space.range(b"f", b"g", 1 << 30),
        ]
        at = b"r"
        while True:
            found = self.space.range(at, b"s", BATCH)
            writes += [pair for pair in found if belongs(pair[0][1:])]
            child.apply(writes)
            if len(found) < BATCH:
                child.flush()
                return
            at, writes = found[-1][0] + b"\0", []


def _pack_entry(table: int, id_: bytes, op: Op, before: bytes | None, client: Client) -> bytes:
    old, new = -1 if before is None else len(before), -1 if op.value is None else len(op.value)
    head = _ENTRY.pack(id_, table, client.seq, len(op.key), old, new, len(client.name))
    return b"".join((head, op.key, before or b"", op.value or b"", client.name))


def unpacked(found: Sequence[tuple[bytes, bytes]], names: Mapping[int, str]) -> list[Entry]:
    """The entries of a log as it is stored."""
    return [unpack_entry(_U64.unpack_from(key, 1)[0], value, names) for key, value in found]


def unpack_entry(offset: int, data: bytes, names: Mapping[int, str]) -> Entry:
    """An entry as it is stored."""
    id_, table, seq, key, before, after, name = _ENTRY.unpack_from(data)
    at = _ENTRY.size
    end = at + key
    old = None if before < 0 else data[end : end + before]
    if old is not None:
        end += before
    new = None if after < 0 else data[end : end + after]
    who = data[len(data) - name :] if name else b""
    return Entry(offset, id_, names.get(table, ""), data[at : at + key], old, new, who, seq)
