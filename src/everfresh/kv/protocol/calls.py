"""What a protocol's generator asks for: calls of the store, sending, receiving.

Invariant: each store call here is one call of the store, or reads only what nobody changes; between two of
them anything may happen.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from everfresh.kv.protocol.tracked import tracked_rows
from everfresh.kv.store import START, Cut, Partition, Position, Row, Store
from everfresh.kv.store.protocol import ANY, Expect

Machine = Generator[Any, Any, Any]
"""A part of the protocol: yields calls, is sent their results, and is thrown what they raise."""


@dataclass(frozen=True, slots=True)
class Get:
    """The row of a key: `Row | None`."""

    table: str
    key: bytes


@dataclass(frozen=True, slots=True)
class Put:
    """Write a row: its version. Raises `Conflict`."""

    table: str
    key: bytes
    value: bytes
    expect: Expect = ANY


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows that follow a key: `list[(key, Row)]`, at most `limit`; fewer are all that there are."""

    table: str
    lo: bytes
    limit: int


@dataclass(frozen=True, slots=True)
class Ends:
    """All partitions with the ends of their logs: `list[(Partition, Position)]`, parents first."""


@dataclass(frozen=True, slots=True)
class Lives:
    """By which life each partition is served: `dict[int, str]`; another one may have lost writes."""


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove all rows of a view table."""

    table: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Fence a partition. Raises `Refused`."""

    partition: int
    group: str
    term: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Prepare:
    """Write an epoch's states of rows of one partition. Raises `Refused`."""

    partition: int
    table: str
    group: str
    term: int
    epoch: int
    rows: tuple[tuple[bytes, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Resolve:
    """Leave the newest state of rows of one partition."""

    partition: int
    table: str
    epoch: int
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Collect:
    """Remove rows of one partition that are nothing but absence."""

    partition: int
    table: str
    epoch: int
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """The entries of one log after one position up to another: `list[Entry]`. `root` is the partition that
    this one came from by splits: whoever reads it reads all that came from it, so that the entries of a
    record are read by one manager, in order."""

    partition: int
    after: Position
    upto: Position
    root: int = 0


@dataclass(frozen=True, slots=True)
class Tracked:
    """The records that a slice of a log touches, as they are at its end: `(table, key, value | None)`."""

    partition: int
    after: Position
    upto: Position
    root: int
    tables: tuple[str, ...]
    snapshot: bool
    """Read them of one snapshot, and not while others write."""


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """The rows of a partition that follow a key, at most `size`: `Chunk`."""

    partition: int
    table: str
    lo: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Follow:
    """All that is in a log after a position by now: `list[Entry]`."""

    partition: int
    after: Position


@dataclass(frozen=True, slots=True)
class BaseAt:
    """The rows of a partition's base tables as they were at a cut: `list[(table, key, value)]`.

    `partitions` are an open partition and those it came from, with the positions of the cut in their logs.
    """

    partition: int
    tables: tuple[str, ...]
    logs: tuple[tuple[int, Position], ...] = field(default=())
    root: int = 0
    chunks: bool = False
    """Read it as small snapshots, one after the other, and not as one."""


@dataclass(frozen=True, slots=True)
class Place:
    """The open partition that has each of these keys: `list[int]`."""

    table: str
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message; it may arrive late, more than once, or never if the receiver dies."""

    to: str
    message: Any


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for a message."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do now: go on when there may be something."""


def perform(store: Store, call: Any) -> Any:
    """Do a store call; a store that another process owns lets that one do it."""
    does: Callable[[Any], Any] | None = getattr(store, "perform", None)
    if does is not None:
        return does(call)
    match call:
        case Get(table, key):
            return store.get(table, key)
        case Put(table, key, value, expect):
            return store.put(table, key, value, expect=expect)
        case Scan(table, lo, limit):
            return _first(store, table, lo, limit)
        case Ends():
            return _ends(store)
        case Lives():
            return {p.id: p.life for p in store.partitions() if p.life}
        case Clear(table):
            return _clear(store, table)
        case Fence(partition, group, term, epoch):
            return store.fence(partition, group, term, epoch)
        case Prepare(partition, table, group, term, epoch, rows):
            return store.prepare(partition, table, group, term, epoch, rows)
        case Resolve(partition, table, epoch, keys):
            return store.resolve(partition, table, epoch, keys)
        case Collect(partition, table, epoch, keys):
            return store.collect(partition, table, epoch, keys)
        case Slice(partition, after, upto):
            return store.log(partition, after, upto.offset - after.offset)
        case Tracked(partition, after, upto, _, tables, snapshot):
            return tracked_rows(store, partition, tables, after, upto, snapshot)
        case ReadChunk(partition, table, lo, size):
            return next(iter(store.scan_chunks(partition, table, lo, None, size=size)))
        case Follow(partition, after):
            return store.log(partition, after, store.log_end(partition).offset - after.offset)
        case BaseAt(partition, tables, logs, _, chunks):
            chunks = chunks or store.caps.snapshot == "none"
            return (base_by_chunks if chunks else _base_at)(store, partition, tables, logs)
        case Place(table, keys):
            return [store.partition_of(table, key).id for key in keys]
    raise TypeError(call)


def _ends(store: Store) -> list[tuple[Partition, Position]]:
    asks: Callable[[], Any] | None = getattr(store, "ends", None)  # all at once, where a call is a request
    return asks() if asks is not None else [(p, store.log_end(p.id)) for p in store.partitions()]


def _clear(store: Store, table: str) -> None:
    for batch in store.scan(table):
        for key, _ in batch:
            store.delete(table, key)


def _first(store: Store, table: str, lo: bytes, limit: int) -> list[tuple[bytes, Row]]:
    found: list[tuple[bytes, Row]] = []
    for batch in store.scan(table, lo):
        found += batch[: limit - len(found)]
        if len(found) >= limit:
            break
    return found


def _base_at(
    store: Store, partition: int, tables: Sequence[str], logs: Sequence[tuple[int, Position]]
) -> list[tuple[str, bytes, bytes]]:
    """A snapshot of now, in which every row that was written since has its first before-image again.

    The partition may have been split since it was asked for: it has the keys that its descendants have now.
    """
    snapshot = store.snapshot([partition])
    try:
        rows: dict[tuple[str, bytes], bytes | None] = {
            (table, key): row.value
            for table in tables
            for batch in snapshot.scan(table)
            for key, row in batch
        }
        ends = {id_: snapshot.positions.get(id_, store.log_end(id_)) for id_, _ in logs}
    finally:
        snapshot.close()
    return _undone(store, partition, tables, logs, ends, rows)


def base_by_chunks(
    store: Store, partition: int, tables: Sequence[str], logs: Sequence[tuple[int, Position]], size: int = 256
) -> list[tuple[str, bytes, bytes]]:
    """The same from a scan beside which others write. A row may be of any moment since the cut: the first
    entry after the cut has, as its before-image, what the row was at the cut. The logs are read after the
    scan, so no row is of an entry that is not seen."""
    rows: dict[tuple[str, bytes], bytes | None] = {
        (table, key): row.value
        for table in tables
        for chunk in store.scan_chunks(partition, table, size=size)
        for key, row in chunk.rows
    }
    ends = {id_: store.log_end(id_) for id_, _ in logs}
    return _undone(store, partition, tables, logs, ends, rows)


def _undone(
    store: Store,
    partition: int,
    tables: Sequence[str],
    logs: Sequence[tuple[int, Position]],
    ends: Mapping[int, Position],
    rows: dict[tuple[str, bytes], bytes | None],
) -> list[tuple[str, bytes, bytes]]:
    """Rows with what was written since taken back: the first before-image of each is what it was."""
    undone: set[tuple[str, bytes]] = set()
    for id_, after in logs:
        for entry in store.log(id_, after, ends[id_].offset - after.offset):
            place = (entry.table, entry.key)
            if entry.table not in tables or place in undone:
                continue
            if id_ == partition or _had(store, partition, entry.table, entry.key):
                undone.add(place)
                rows[place] = entry.before
    return [(table, key, value) for (table, key), value in sorted(rows.items()) if value is not None]


def _had(store: Store, partition: int, table: str, key: bytes) -> bool:
    """Whether a key belongs to a partition, or did before that was split."""
    inside, every = {store.partition_of(table, key).id}, store.partitions()
    for part in reversed(every):  # parents come before their children
        if inside & {*part.children}:
            inside.add(part.id)
    return partition in inside


def slices(ends: Sequence[tuple[Any, Position]], before: Cut, upto: Cut) -> tuple[Slice, ...]:
    """The slices of all logs between two cuts; a partition that came by a split begins where its parent
    ended."""
    found = []
    starts: dict[int, Position] = {}
    roots: dict[int, int] = {}
    for partition, end in ends:
        root = roots.setdefault(partition.id, partition.id)
        roots.update(dict.fromkeys(partition.children, root))
        after = before.at.get(partition.id, starts.get(partition.id, START))
        last = upto.at.get(partition.id, after)
        if last.offset > after.offset:
            found.append(Slice(partition.id, after, last, root))
        starts.update(dict.fromkeys(partition.children, end))
    return tuple(found)


def bases(
    ends: Sequence[tuple[Any, Position]], tables: Sequence[str], cut: Cut, chunks: bool = False
) -> tuple[BaseAt, ...]:
    """How to read the base at a cut: for each open partition its own log and those of its ancestors."""
    lines: dict[int, tuple[tuple[int, Position], ...]] = {}
    starts: dict[int, Position] = {}
    found = []
    for partition, end in ends:
        own = (partition.id, cut.at.get(partition.id, starts.get(partition.id, START)))
        line = (*lines.get(partition.id, ()), own)
        lines.update(dict.fromkeys(partition.children, line))
        starts.update(dict.fromkeys(partition.children, end))
        if partition.open:
            found.append(BaseAt(partition.id, tuple(tables), line, line[0][0], chunks))
    return tuple(found)
