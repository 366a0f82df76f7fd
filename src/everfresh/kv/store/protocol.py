"""What a key-value store is to everfresh: the protocol, the capabilities, what its calls give and raise.

Chapter 4.1.1 of the thesis on key-value views, and "Store" in docs/design/key-value.md. Keys and values are
bytes; `everfresh.kv.encoding` makes them. Rows lie in partitions, each of which orders its own writes: the
writes of logged tables get dense offsets from 1, and an entry of the log each. Invariants, which
`everfresh.testing.kv_store_suite` checks: a row and its entry are written together or not at all; the rows of
a partition are what its entries up to `log_end` leave; an id tells apart two entries that got one offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from everfresh.types import TableSchema

Group = str
"""A view group: views that are maintained together and commit together."""


@dataclass(frozen=True, slots=True)
class Caps:
    """What a store can do; what it cannot do it refuses, naming the capability."""

    log: Literal["entry", "none"] = "entry"
    before_images: bool = True
    snapshot: Literal["store", "partition", "none"] = "store"
    batch: Literal["partition", "row"] = "partition"
    scan: Literal["ordered", "per_partition"] = "ordered"
    fenced: bool = True
    durable: bool = True
    splits: bool = True
    most: int = 0
    """How many writes a batch takes; 0: any number."""
    loses: bool = False
    """Whether a failover may lose writes that were acknowledged; `Partition.life` is another one then."""


class Position(NamedTuple):
    """A place in a partition's log: after the entry with this offset and id."""

    offset: int
    id: bytes


START = Position(0, bytes(8))
"""Before the first entry."""


class Row(NamedTuple):
    """A row as it is stored: `version` changes with every write, and in a logged table is the write's
    offset."""

    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of the store: the tokens `lo` to `hi - 1`, its owner, and the owner's term. One that was split
    is closed: it takes no writes, and its log goes on in those of its children, after its last offset."""

    id: int
    lo: int
    hi: int
    owner: str = ""
    term: int = 1
    children: tuple[int, ...] = ()
    life: str = ""
    """Of a store that may lose what it acknowledged: changes whenever this partition may have."""

    @property
    def open(self) -> bool:
        """Whether it takes writes."""
        return not self.children


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table of a store: its schema, whether its writes are logged, and with before-images or without."""

    schema: TableSchema
    logged: bool = True
    before_images: bool = True

    @property
    def name(self) -> str:
        """The table's name."""
        return self.schema.name


class Entry(NamedTuple):
    """One write of a logged table: None is an absent row. `before` is None too where the table keeps no
    before-images."""

    offset: int
    id: bytes
    table: str
    key: bytes
    before: bytes | None
    after: bytes | None
    client: bytes = b""
    client_seq: int = 0

    @property
    def position(self) -> Position:
        """The place after it."""
        return Position(self.offset, self.id)


class _Any:
    """No condition."""


ANY = _Any()
ABSENT = 0
"""The row must not be there: no write has this version."""

Expect = _Any | int


class Op(NamedTuple):
    """One write: `value` None deletes; `expect` is ANY, ABSENT, or the version that the row must have."""

    table: str
    key: bytes
    value: bytes | None
    expect: Expect = ANY


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a partition's keys from `lo` to before `hi` (None: to the end), all as of one position of its
    log."""

    lo: bytes
    hi: bytes | None
    position: Position
    rows: tuple[tuple[bytes, Row], ...]


class Conflict(Exception):
    """A conditional write found another version; `actual` is 0 if the row is not there."""

    def __init__(self, table: str, key: bytes, actual: int) -> None:
        super().__init__(f"{table}: the row {key.hex()} has version {actual}")
        self.table, self.key, self.actual = table, key, actual


class LogDiverged(Exception):
    """The log has other entries than those that were read from it: acknowledged writes were lost, and their
    offsets used again."""


class LogTrimmed(Exception):
    """Entries were asked for that the log no longer has."""


class Refused(Exception):
    """A fence refused a writer of an earlier term or epoch."""


class PartitionClosed(Exception):
    """The partition was split, or belongs to another owner by now: look its key up again."""


class Snapshot(Protocol):
    """The store at one moment: `positions` says up to where in each partition's log."""

    positions: Mapping[int, Position]

    def get(self, table: str, key: bytes) -> Row | None:
        """One row."""
        ...

    def multi_get(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows, in the order of the keys."""
        ...

    def scan(
        self, table: str, lo: bytes | None = None, hi: bytes | None = None
    ) -> Iterator[list[tuple[bytes, Row]]]:
        """The rows from `lo` to before `hi`, in batches, in the order of the keys."""
        ...

    def close(self) -> None:
        """Let the store forget the moment."""
        ...


class Store(Protocol):
    """A key-value store. What is not in `caps` raises `EverfreshError` with the code `unsupported`."""

    caps: Caps

    def create_table(self, table: StoredTable) -> None:
        """Make a table; nothing happens if it is there just so."""
        ...

    def drop_table(self, name: str) -> None:
        """Remove a table and its rows; its entries stay in the log."""
        ...

    def tables(self) -> Mapping[str, StoredTable]:
        """The tables by name."""
        ...

    def partitions(self) -> list[Partition]:
        """All partitions, parents before their children; those that are closed too."""
        ...

    def partition_of(self, table: str, key: bytes) -> Partition:
        """The open partition that has a key."""
        ...

    def get(self, table: str, key: bytes) -> Row | None:
        """One row."""
        ...

    def multi_get(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows, in the order of the keys; no moment is common to them."""
        ...

    def put(self, table: str, key: bytes, value: bytes, *, expect: Expect = ANY, client: Client = ...) -> int:
        """Write a row; returns its version."""
        ...

    def delete(self, table: str, key: bytes, *, expect: Expect = ANY, client: Client = ...) -> int:
        """Remove a row; returns the version of the write."""
        ...

    def write(self, partition: int, ops: Sequence[Op], *, client: Client = ..., term: int = ...) -> int:
        """All of these writes or none (`caps.batch`); returns the version of the last. With a term, only if
        it is that of the partition's owner."""
        ...

    def scan(
        self, table: str, lo: bytes | None = None, hi: bytes | None = None
    ) -> Iterator[list[tuple[bytes, Row]]]:
        """The rows from `lo` to before `hi`, in batches: each row as it is when its batch is read."""
        ...

    def scan_chunks(
        self,
        partition: int,
        table: str,
        lo: bytes | None = None,
        hi: bytes | None = None,
        *,
        size: int = ...,
    ) -> Iterator[Chunk]:
        """The rows of one partition as small snapshots: each chunk is exact with the log at its position."""
        ...

    def snapshot(self, partitions: Sequence[int] | None = None) -> Snapshot:
        """The store (or these partitions) as it is now, exact with the log."""
        ...

    def log(self, partition: int, after: Position, limit: int = ...) -> list[Entry]:
        """The entries that follow a position. Raises `LogDiverged` if the log does not have that position."""
        ...

    def entry(self, partition: int, offset: int) -> Entry | None:
        """The entry with an offset; None if the log does not have it."""
        ...

    def log_end(self, partition: int) -> Position:
        """The position of the last entry."""
        ...

    def log_trim(self, partition: int, upto: int) -> None:
        """Forget the entries up to and with an offset."""
        ...

    def fence(self, partition: int, group: Group, term: int, epoch: int) -> None:
        """From now on refuse what writers of the group do with an earlier (term, epoch); raises `Refused` if
        there is a later fence already."""
        ...

    def prepare(
        self, partition: int, table: str, group: Group, term: int, epoch: int, rows: Sequence[Prepared]
    ) -> None:
        """Write the states of an epoch beside those that are committed; `Refused` unless the fence is at this
        (term, epoch). Doing it again changes nothing."""
        ...

    def resolve(self, partition: int, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Leave of split rows only their newest state, if that is of an epoch up to `epoch`, which is
        committed."""
        ...

    def collect(self, partition: int, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Remove rows whose only state is absence since an epoch up to `epoch`."""
        ...

    def split(self, partition: int) -> tuple[int, int]:
        """Divide a partition; returns its children. Rows and fences are the parent's; whoever has read its
        log to the end reads on in theirs from the same position."""
        ...

    def move(self, partition: int, owner: str) -> int:
        """Give a partition to another owner; returns the new term. Writes of the old term are refused."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class Client(NamedTuple):
    """Who writes, and the number of the write: a retry has the same, so that a lost answer can be settled."""

    name: bytes = b""
    seq: int = 0


NOBODY = Client()

Prepared = tuple[bytes, bytes | None]
"""A key and its new state; None: the row goes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Positions in the logs of several partitions: a state of the store's base tables."""

    at: Mapping[int, Position] = field(default_factory=dict)

    def of(self, partition: int) -> Position:
        """The position in one log; its start if it is not named."""
        return self.at.get(partition, START)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {str(p): [at.offset, at.id.hex()] for p, at in sorted(self.at.items())}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Cut:
        """The inverse of `to_json`.

        >>> Cut.from_json(Cut({3: Position(7, b"12345678")}).to_json()).of(3)
        Position(offset=7, id=b'12345678')
        """
        return Cut({int(p): Position(offset, bytes.fromhex(id_)) for p, (offset, id_) in data.items()})


def was_ours(store: Store, table: str, key: bytes, client: Client) -> bool:
    """Whether the last write of a row that is there is this client's, in a logged table: how it settles a put
    whose answer was lost. A later write of another client hides it."""
    row = store.get(table, key)
    partition: Partition | None = store.partition_of(table, key)
    every = {p.id: p for p in store.partitions()}
    while row is not None and partition is not None:
        entry = store.entry(partition.id, row.version)
        if entry is not None:
            return (entry.client, entry.client_seq) == (client.name, client.seq)
        partition = next((p for p in every.values() if partition.id in p.children), None)
    return False
