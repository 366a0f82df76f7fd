"""The coordinator of a view group: plan, fence, work, commit; and taking over from one that died.

"Epochs" in docs/design/key-value.md. The order is plan (head) - fences - rounds - prepared rows - commit
(head) - resolve. What a successor finds open it does again with the recorded cut. It ends when somebody else
has taken over, or a partition was split: then a successor goes on. Invariants: only the newest term writes
the head and view rows; an epoch is committed only when all managers have prepared it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everfresh.kv.protocol.calls import (
    Clear,
    Ends,
    Fence,
    Get,
    Idle,
    Machine,
    Put,
    Receive,
    Send,
    Slice,
    Tracked,
    bases,
    slices,
)
from everfresh.kv.protocol.head import HEADS, Head
from everfresh.kv.protocol.messages import (
    ALL,
    Committed,
    Load,
    Loaded,
    Protections,
    Ready,
    Restore,
    Stopped,
    Work,
)
from everfresh.kv.store import (
    ABSENT,
    ANY,
    START,
    Conflict,
    Cut,
    LogDiverged,
    Partition,
    PartitionClosed,
    Position,
    Refused,
)

COLLECT_EVERY = 4
"""Tombstones go every so many epochs: a read that began before begins again."""


@dataclass(frozen=True, slots=True)
class How:
    """How a group is kept: what of its strategy its coordinator needs."""

    batch: int = 0
    """An epoch takes at most so many entries of a log; 0: all that there are."""
    chunks: bool = False
    """The base is read as small snapshots, and not as one."""
    tracks: bool = False
    """Of changes only the keys are told; records are read anew."""
    parallel: bool = False
    """The logs are followed while the base is read for the first time."""
    born: int = 0
    """The birth of the group, should its head be lost."""


def coordinate(
    me: str,
    group: str,
    managers: Sequence[str],
    tables: Sequence[str],
    protect: Protections = ALL,
    collect_every: int = COLLECT_EVERY,
    version: int = 1,
    how: How | None = None,
    identity: int = 0,
) -> Machine:
    """The coordinator; ends when it is no longer the one."""
    term = _Term(me, group, managers, tables, protect, collect_every, version, how or How(), identity)
    try:
        try:
            yield from term.run()
        except LogDiverged:
            yield from term.begin_again()
    except (Conflict, Refused, PartitionClosed):
        return


class _Term:
    def __init__(
        self,
        me: str,
        group: str,
        managers: Sequence[str],
        tables: Sequence[str],
        protect: Protections,
        collect_every: int,
        version: int,
        how: How,
        identity: int,
    ) -> None:
        self.identity = identity
        self.me, self.group, self.managers, self.tables = me, group, tuple(managers), tuple(tables)
        self.protect, self.collect_every, self.version_of_views = protect, collect_every, version
        self.how = how
        self.head, self.version = Head(), ABSENT

    def run(self) -> Machine:
        row = yield Get(HEADS.name, self.group.encode())
        if row is not None:
            self.head, self.version = Head.from_bytes(row.value), row.version
        yield from self._write(self.head.taken())
        if self.head.open is not None and not self.protect.recorded_offsets:
            self.head = replace(self.head, open=None)
        ends = yield Ends()
        self._check(ends)
        if self.head.again:
            yield from self._clear(ends)
        # An epoch that is open goes on from the cut before it; what it has prepared must be prepared again.
        if self.how.parallel and self.head.loading and self.head.open is None:
            yield from self._load(ends)
            ends = yield Ends()
            self._check(ends)
        base = bases(ends, self.tables, self.head.cut, self.how.chunks)
        restore = Restore(
            self.head.term,
            self.head.committed,
            self.me,
            base,
            self.head.version,
            self.how.tracks,
            self.managers,
            self.identity,
        )
        for manager in self.managers:
            yield Send(manager, restore)
        yield from self._all(self.head.committed)
        while True:
            yield from self._epoch()

    def _load(self, ends: Sequence[tuple[Partition, Position]]) -> Machine:
        """A parallel transition: the view begins where the managers say that they have come to."""
        base = bases(ends, self.tables, self.head.cut, self.how.chunks)
        for manager in self.managers:
            yield Send(manager, Load(self.head.term, self.me, base, self.managers))
        waiting = set(self.managers)
        reached = {partition.id: end for partition, end in ends if not partition.open}
        while waiting:
            message = yield Receive()
            if isinstance(message, Loaded) and message.term == self.head.term and message.manager in waiting:
                waiting.discard(message.manager)
                reached |= message.reached.at
        yield from self._write(replace(self.head, cut=Cut(reached)))

    def _clear(self, ends: Sequence[tuple[Partition, Position]]) -> Machine:
        """Nobody has seen a row of what is to be made anew: remove what was there before."""
        yield from self._fence(ends, self.head.committed)
        yield Clear(self.group)

    def _fence(self, ends: Sequence[tuple[Partition, Position]], epoch: int) -> Machine:
        """Refuse from now on what earlier terms and epochs do. A fence that knows a later term is somebody
        else's, or the head has lost it: then that of another who has the head is not written over."""
        try:
            for partition, _ in ends:
                if partition.open:
                    yield Fence(partition.id, self.group, self.head.term, epoch)
        except Refused as error:
            if not self.head.lives:
                raise
            raise LogDiverged("the head has lost the term that a fence has") from error

    def begin_again(self) -> Machine:
        """The store has lost what was seen of it: show nothing until a successor has made the views anew."""
        ends = yield Ends()
        cut = Cut({partition.id: end for partition, end in ends})
        yield from self._write(self.head.begun_again(cut, _lives(ends), self.how.born))

    def _check(self, ends: Sequence[tuple[Partition, Position]]) -> None:
        """Whether the logs have what is committed and what is planned, and whoever has view rows has all of
        them. That entries are not others with the same offsets is found where a log is read."""
        if not self.protect.log_ids:
            return
        if not self.head.lives and not self.head.version and _lives(ends):
            raise LogDiverged("the head itself was lost, or there is none yet")
        cuts = [self.head.cut] if self.head.open is None else [self.head.cut, self.head.open.cut]
        for partition, end in ends:
            if self.head.lives.get(partition.id, partition.life) != partition.life:
                raise LogDiverged(f"partition {partition.id} is served by another")
            for at in (cut.at[partition.id] for cut in cuts if partition.id in cut.at):
                if end.offset < at.offset or (end.offset == at.offset and end.id != at.id):
                    raise LogDiverged(f"partition {partition.id} has lost entries")

    def _write(self, head: Head) -> Machine:
        expect = self.version if self.protect.head_condition else ANY
        self.version = yield Put(HEADS.name, self.group.encode(), head.to_bytes(), expect)
        self.head = head

    def _all(self, epoch: int) -> Machine:
        """Wait until all managers are ready."""
        waiting = set(self.managers)
        while waiting:
            message = yield Receive()
            if isinstance(message, Stopped) and message.term == self.head.term:
                raise LogDiverged if message.lost else Refused
            if isinstance(message, Ready) and (message.term, message.epoch) == (self.head.term, epoch):
                waiting.discard(message.manager)

    def _cut(self, ends: list[tuple[Partition, Position]]) -> Machine:
        """Up to where the next epoch goes."""
        if not self.how.batch:
            return Cut({partition.id: end for partition, end in ends})
        at, starts, waiting = dict(self.head.cut.at), dict[int, Position](), set[int]()
        for partition, end in ends:
            starts.update(dict.fromkeys(partition.children, end))
            if partition.id in waiting:  # its parent's log comes first
                waiting.update(partition.children)
                continue
            after = at.get(partition.id, starts.get(partition.id, START))
            if end.offset - after.offset <= self.how.batch:
                at[partition.id] = end
                continue
            upto = Position(after.offset + self.how.batch, b"")
            entries = yield Slice(partition.id, after, upto)
            at[partition.id] = entries[-1].position
            waiting.update(partition.children)
        return Cut(at)

    def _epoch(self) -> Machine:
        ends: list[tuple[Partition, Position]] = yield Ends()
        self._check(ends)
        if self.head.open is None:
            cut = yield from self._cut(ends)
            if cut == self.head.cut and self.head.version >= self.version_of_views:
                yield Idle()
                return
            yield from self._write(self.head.planned(cut, _lives(ends)))
        opened = self.head.open
        assert opened is not None
        yield from self._fence(ends, opened.epoch)
        work: tuple[Slice | Tracked, ...] = slices(ends, self.head.cut, opened.cut)
        if self.how.tracks:
            work = tuple(
                Tracked(s.partition, s.after, s.upto, s.root, self.tables, not self.how.chunks) for s in work
            )
        for manager in self.managers:
            yield Send(manager, Work(self.head.term, opened.epoch, self.me, work))
        yield from self._all(opened.epoch)
        yield from self._write(self.head.done(self.version_of_views))
        if self.head.committed % self.collect_every == 0 and self.protect.gc_floor:
            yield from self._write(replace(self.head, gc_floor=self.head.committed))
        for manager in self.managers:
            floor = self.head.gc_floor if self.protect.gc_floor else self.head.committed
            yield Send(manager, Committed(self.head.term, self.head.committed, floor))


def _lives(ends: Sequence[tuple[Partition, Position]]) -> dict[int, str]:
    """By which lives partitions are served, where that may change."""
    return {partition.id: partition.life for partition, _ in ends if partition.life}
