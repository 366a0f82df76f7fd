"""A view manager: one worker's part of each epoch of a view group.

"Epochs" in docs/design/key-value.md. It reads its partitions' slices, condenses them, sends contributions and
a token to every manager, and when it has everything from everybody changes its maps and prepares the rows
that changed. Maps live in memory: after a crash they are made anew from the base as it was at the committed
cut. Invariant: when it says it is ready for an epoch, its maps are those of that epoch's cut, and its rows of
the epoch are in the store.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from everfresh.kv.protocol.calls import (
    BaseAt,
    Collect,
    Machine,
    Place,
    Prepare,
    Receive,
    Resolve,
    Send,
    Slice,
    Tracked,
)
from everfresh.kv.protocol.dataflow import EVERYONE, At, Contribution, Dataflow, ViewRow
from everfresh.kv.protocol.loading import load
from everfresh.kv.protocol.messages import (
    ALL,
    Committed,
    Inbox,
    Load,
    Loaded,
    Protections,
    Ready,
    Restore,
    Stopped,
    Token,
    Update,
    Work,
)
from everfresh.kv.protocol.timeline import Change, condense
from everfresh.kv.store import Cut, LogDiverged, PartitionClosed, Position, Refused


def owners(key: Hashable, managers: Sequence[str]) -> Sequence[str]:
    """The managers that have a key of the maps: one, but for what is everyone's."""
    if key == EVERYONE:
        return managers
    place = key.worker if isinstance(key, At) else crc32(repr(key).encode())
    return (managers[place % len(managers)],)


def manage(
    me: str, group: str, managers: Sequence[str], dataflow: Dataflow, protect: Protections = ALL
) -> Machine:
    """A manager; it never ends by itself."""
    manager = _Manager(me, group, managers, dataflow, protect)
    while True:
        message = yield Receive()
        try:
            yield from manager.take(message)
        except (Refused, PartitionClosed, LogDiverged) as error:
            order, manager.open = manager.order, None
            if order is not None:
                yield Send(order.coordinator, Stopped(order.term, isinstance(error, LogDiverged)))


class _Manager:
    def __init__(
        self, me: str, group: str, managers: Sequence[str], dataflow: Dataflow, protect: Protections
    ) -> None:
        self.me, self.group, self.managers = me, group, tuple(managers)
        self.dataflow, self.protect = dataflow, protect
        self.inbox = Inbox(protect)
        self.term, self.epoch, self.round = 0, -1, 0
        self.open: Restore | Work | None = None
        self.order: Restore | Work | None = None
        """What it was told to do last."""
        self.maps: Any = dataflow.blank(self._place, len(self.managers))
        self.written: dict[int, list[ViewRow]] = {}
        """Rows that were prepared, by epoch, until they are resolved."""
        self.gone: list[ViewRow] = []
        self.base: dict[tuple[str, bytes], bytes] = {}
        """Records as they are, where only their keys are told (the Delta view of the thesis)."""
        self.loaded: dict[int, tuple[list[Change], Position]] = {}
        """By partition its base and of where, between a load and the restore that follows."""
        self.load_term = 0
        self.first: dict[tuple[str, bytes], ViewRow] = {}
        """Rows of views that nobody has seen yet, until the first epoch writes them."""

    def take(self, message: Any) -> Machine:
        match message:
            case Update() | Token():
                self.inbox.take(message)
            case Load() if message.term > max(self.term, self.load_term):
                yield from self._load(message)
            case Restore() if message.term > self.term:
                yield from self._restore(message)
            case Work() if (
                message.term == self.term and message.epoch == self.epoch + 1 and self.open is None
            ):
                yield from self._work(message)
            case Committed() if message.term == self.term:
                yield from self._tidy(message)
        while self.open is not None:
            given = self.inbox.ready(self.open.epoch, self.round)
            if given is None:
                return
            self.round += 1
            if self.round < self.dataflow.rounds:
                yield from self._send(self.open, self.dataflow.forward(self.maps, given))
            else:
                yield from self._finish(self.open, self.dataflow.apply(self.maps, given))

    @property
    def _place(self) -> int:
        return self.managers.index(self.me)

    def _mine(self, part: BaseAt | Slice | Tracked) -> bool:
        return self.managers[part.root % len(self.managers)] == self.me

    def _restore(self, restore: Restore) -> Machine:
        self.term, self.epoch, self.open, self.order = restore.term, -1, None, restore
        self.managers = restore.managers or self.managers
        if restore.identity != self.dataflow.identity:
            raise Refused("it does not have the definitions that there are")
        if self.protect.maps_at_epoch:
            self.maps = self.dataflow.blank(self._place, len(self.managers))
        self.inbox.begin(restore.term, self.managers)
        self.written.clear()
        self.gone.clear()
        self.base.clear()
        changes: list[Change] = []
        for base in restore.bases:
            if self._mine(base):
                changes += yield from self._base(base)
        self.loaded.clear()
        if restore.tracks:
            self.base = {(c.table, c.key): c.after for c in changes if c.after is not None}
        yield from self._begin(restore, changes)

    def _base(self, base: BaseAt) -> Machine:
        """The base of a partition at a cut: what was loaded, if that is of the cut, and else what is read."""
        held = self.loaded.get(base.partition)
        if held is not None and held[1] == base.logs[-1][1]:
            return held[0]
        rows = yield base
        return [Change(table, key, None, value) for table, key, value in rows]

    def _load(self, order: Load) -> Machine:
        """Have the base in memory, of whatever positions; a restore names those that count, so that another
        incarnation that has loaded others sends the same."""
        self.load_term, self.managers = order.term, order.managers or self.managers
        self.loaded.clear()
        for base in order.bases:
            if self._mine(base):
                self.loaded[base.partition] = yield from load(base, protect=self.protect.chunk_positions)
        reached = Cut({partition: position for partition, (_, position) in self.loaded.items()})
        yield Send(order.coordinator, Loaded(order.term, self.me, reached))

    def _work(self, work: Work) -> Machine:
        self.order = work
        entries, rows = [], dict[tuple[str, bytes], bytes | None]()
        for part in work.slices:
            if self._mine(part):
                found = yield part
                if isinstance(part, Tracked):
                    rows |= {(table, key): value for table, key, value in found}
                else:
                    entries += found
        changes = condense(entries, self.dataflow.tables, self.protect.keep_first)
        yield from self._begin(work, [*changes, *self._tracked(rows)])

    def _tracked(self, rows: Mapping[tuple[str, bytes], bytes | None]) -> list[Change]:
        """What has become of records, from what they were."""
        changes = []
        for place, value in sorted(rows.items()):
            before = self.base.pop(place, None)
            if value is not None:
                self.base[place] = value
            if before != value:
                changes.append(Change(*place, before, value))
        return changes

    def _begin(self, order: Restore | Work, changes: Sequence[Change]) -> Machine:
        self.round = 0
        yield from self._send(order, self.dataflow.route(changes, len(self.managers)))
        self.open = order

    def _send(self, order: Restore | Work, contributions: Sequence[Contribution]) -> Machine:
        counts = dict.fromkeys(self.managers, 0)
        for contribution in contributions:
            for to in owners(contribution.key, self.managers):
                yield Send(to, Update(order.term, order.epoch, self.me, counts[to], contribution, self.round))
                counts[to] += 1
        for to, count in counts.items():
            yield Send(to, Token(order.term, order.epoch, self.me, count, self.round))

    def _finish(self, order: Restore | Work, rows: Sequence[ViewRow]) -> Machine:
        changed = {(row.table, row.key): row for row in rows}
        if isinstance(order, Restore):
            fresh = (row for row in rows if self.dataflow.is_new(row, order.version))
            self.first = {(row.table, row.key): row for row in fresh}
        else:
            rows = list({**self.first, **changed}.values())
            self.first = {}
            for (partition, table), some in (yield from self._placed(rows)).items():
                pairs = tuple((row.key, row.value) for row in some)
                yield Prepare(partition, table, self.group, order.term, order.epoch, pairs)
            self.written[order.epoch] = list(rows)
        self.open, self.epoch = None, order.epoch
        yield Send(order.coordinator, Ready(order.term, order.epoch, self.me))

    def _placed(self, rows: Iterable[ViewRow]) -> Machine:
        """Rows by partition and table."""
        by_table: dict[str, list[ViewRow]] = {}
        for row in rows:
            by_table.setdefault(row.table, []).append(row)
        placed: dict[tuple[int, str], list[ViewRow]] = {}
        for table, some in by_table.items():
            at = yield Place(table, tuple(row.key for row in some))
            for partition, row in zip(at, some, strict=True):
                placed.setdefault((partition, table), []).append(row)
        return placed

    def _tidy(self, committed: Committed) -> Machine:
        """Resolve what is committed for an epoch and longer, so that a scan has that long, and collect."""
        ready = [epoch for epoch in self.written if epoch < committed.epoch]
        for epoch in sorted(ready):
            rows = self.written.pop(epoch)
            yield from self._each(Resolve, epoch, rows)
            self.gone += [row for row in rows if row.value is None]
        if self.gone and committed.gc_floor == committed.epoch:
            yield from self._each(Collect, committed.gc_floor, self.gone)
            self.gone.clear()

    def _each(self, call: type[Resolve | Collect], epoch: int, rows: Sequence[ViewRow]) -> Machine:
        """Resolve or collect rows, wherever they are by now: doing it twice changes nothing."""
        while True:
            try:
                for (partition, table), some in (yield from self._placed(rows)).items():
                    yield call(partition, table, epoch, tuple(row.key for row in some))
            except PartitionClosed:
                continue
            return
