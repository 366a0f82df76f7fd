"""What is the same for all stores on servers: many processes write them, and none of them has a lock.

"Stores on servers" in docs/design/key-value.md. An adapter has one call that writes: all of its writes or
none, each if its row has the version that is expected, and only if the partition is open, has the owner's
term, and the group's fence is at an epoch. All of the protocol of views is made of this and reading.
Invariant: between what `prepare` reads and what it writes nobody else has written the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from everfresh.errors import Code, EverfreshError
from everfresh.kv import split
from everfresh.kv.store.embedded import token
from everfresh.kv.store.protocol import (
    ABSENT,
    ANY,
    NOBODY,
    Caps,
    Client,
    Conflict,
    Expect,
    Op,
    Partition,
    PartitionClosed,
    Prepared,
    Refused,
    Row,
    StoredTable,
)

T = TypeVar("T")


class AnswerLost(Exception):
    """A write may have been done, or not."""


class Fenced(NamedTuple):
    """Where a fence must be for a write to be done."""

    group: str
    term: int
    epoch: int


class ServedStore:
    """The calls of a store that follow from reading rows and one conditional write."""

    caps: Caps

    # -- what an adapter has -----------------------------------------------------------------------

    def _apply(
        self, partition: int, ops: Sequence[Op], client: Client, term: int = 0, fence: Fenced | None = None
    ) -> int:
        """Write at most `caps.most` rows of one partition, all or none."""
        raise NotImplementedError

    def _routing(self) -> list[Partition]:
        """The partitions as they were last seen."""
        raise NotImplementedError

    def _look(self) -> None:
        """See what partitions there are."""
        raise NotImplementedError

    def _by_name(self, *, anew: bool = False) -> Mapping[str, tuple[int, StoredTable]]:
        """The tables with their numbers, as they were last seen or as they are now."""
        raise NotImplementedError

    def multi_get(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows, in the order of the keys."""
        raise NotImplementedError

    # -- tables ------------------------------------------------------------------------------------

    def _known(self, table: str) -> tuple[int, StoredTable]:
        """The number of a table, and what it is."""
        found = self._by_name().get(table) or self._by_name(anew=True).get(table)
        if found is None:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"the store has no table '{table}'",
                hint="tables are: " + ", ".join(sorted(self._by_name())),
            )
        return found

    def _is_there(self, table: StoredTable) -> bool:
        """Whether the store has just this table; an error if it has another of the name."""
        found = self._by_name(anew=True).get(table.name)
        if found is not None and found[1] != table:
            raise EverfreshError(
                Code.EXISTS, f"the store has another table '{table.name}'", hint="drop it first"
            )
        return found is not None

    def tables(self) -> Mapping[str, StoredTable]:
        """The tables by name."""
        return {name: table for name, (_, table) in self._by_name(anew=True).items()}

    # -- rows --------------------------------------------------------------------------------------

    def partition_of(self, table: str, key: bytes) -> Partition:
        """The open partition that has a key."""
        return routed(self._routing(), key)

    def get(self, table: str, key: bytes) -> Row | None:
        """One row."""
        return self.multi_get(table, [key])[0]

    def put(
        self, table: str, key: bytes, value: bytes, *, expect: Expect = ANY, client: Client = NOBODY
    ) -> int:
        """Write a row; returns its version."""
        return self._one(Op(table, key, value, expect), client)

    def delete(self, table: str, key: bytes, *, expect: Expect = ANY, client: Client = NOBODY) -> int:
        """Remove a row; returns the version of the write."""
        return self._one(Op(table, key, None, expect), client)

    def _one(self, op: Op, client: Client) -> int:
        while True:
            try:
                return self._written(routed(self._routing(), op.key).id, [op], client)
            except PartitionClosed:
                self._look()  # it was split meanwhile

    def _written(self, partition: int, ops: Sequence[Op], client: Client, term: int = 0) -> int:
        try:
            return self._apply(partition, ops, client, term)
        except AnswerLost as error:
            raise EverfreshError(
                Code.ENVIRONMENT,
                "the answer to a write was lost: it may have been done",
                hint="was_ours(store, table, key, client) says whether the row's last write was this one",
            ) from error

    def write(self, partition: int, ops: Sequence[Op], *, client: Client = NOBODY, term: int = 0) -> int:
        """All of these writes or none; returns the version of the last."""
        if len(ops) > self.caps.most:
            raise EverfreshError(
                Code.ARGUMENT,
                f"this store takes {self.caps.most} writes at once, and not {len(ops)}",
                hint="write several batches: each is whole or not there",
            )
        at = next((p for p in self._routing() if p.id == partition), None)
        for op in ops:
            self._known(op.table)
            if at is None or not at.lo <= token(op.key) < at.hi:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"a key of table '{op.table}' does not belong to partition {partition}",
                    hint="a batch has keys of one partition: see partition_of",
                )
        return self._written(partition, ops, client, term)

    # -- the protocol of views ---------------------------------------------------------------------

    def prepare(
        self, partition: int, table: str, group: str, term: int, epoch: int, rows: Sequence[Prepared]
    ) -> None:
        """Write the states of an epoch beside the committed ones."""
        self._known(table)
        fence = Fenced(group, term, epoch)
        for some in _pieces(rows, self.caps.most):
            values = dict(some)

            def change(key: bytes, states: split.States, values: Any = values) -> bytes | None:
                if states and states[-1].epoch > epoch:
                    raise Refused
                return split.pack(split.prepared(states, epoch, values[key]))

            self._change(partition, table, list(values), change, fence)

    def resolve(self, partition: int, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Leave of split rows only their newest state, if it is of an epoch up to this."""

        def change(key: bytes, states: split.States) -> bytes | None:
            return split.pack(split.resolved(states, epoch)) if states else None

        for some in _pieces(keys, self.caps.most):
            self._change(partition, table, some, change)

    def collect(self, partition: int, table: str, epoch: int, keys: Sequence[bytes]) -> None:
        """Remove rows that are nothing but absence since an epoch up to this."""

        def change(key: bytes, states: split.States) -> bytes | None:
            return split.pack(states) if states and not split.is_tombstone(states, epoch) else None

        for some in _pieces(keys, self.caps.most):
            self._change(partition, table, some, change)

    def _change(
        self,
        partition: int,
        table: str,
        keys: Sequence[bytes],
        change: Callable[[bytes, split.States], bytes | None],
        fence: Fenced | None = None,
    ) -> None:
        """Write what rows become, as often as it takes to have read what is written over."""
        while True:
            ops = []
            for key, row in zip(keys, self.multi_get(table, keys), strict=True):
                old = None if row is None else row.value
                new = change(key, split.unpack(old))
                if new != old:
                    ops.append(Op(table, key, new, ABSENT if row is None else row.version))
            try:
                if ops or fence is not None:
                    self._apply(partition, ops, NOBODY, fence=fence)
                return
            except (Conflict, AnswerLost):
                continue  # whatever was done is read

    # -- what a store may not have -----------------------------------------------------------------

    def _unsupported(self, what: str, hint: str) -> EverfreshError:
        return EverfreshError(Code.UNSUPPORTED, f"this store has no {what}", hint=hint)


def routed(partitions: Sequence[Partition], key: bytes) -> Partition:
    """The open partition that has a key."""
    at = token(key)
    return next(p for p in partitions if p.open and p.lo <= at < p.hi)


def _pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Items in pieces of a size; one without any if there are none."""
    for start in range(0, max(1, len(items)), size):
        yield items[start : start + size]
