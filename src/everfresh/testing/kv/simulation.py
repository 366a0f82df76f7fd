"""A scheduler that owns the network and the clock, and drives the protocol of views through faults.

"Fault tests" in docs/design/key-value.md. Coordinators, managers, writers and readers are generators; each of
their store calls, sends and receives is one step, and a seeded choice says whose is next. Messages are
delayed, reordered and duplicated; managers and coordinators crash before or after a store call, or pause and
go on as zombies beside their successors; partitions split. Invariant: a seed gives one history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from everfresh.kv import split
from everfresh.kv.protocol.calls import Idle, Machine, Prepare, Put, Receive, Send, perform
from everfresh.kv.protocol.coordinator import How, coordinate
from everfresh.kv.protocol.dataflow import Dataflow
from everfresh.kv.protocol.head import HEADS, Head
from everfresh.kv.protocol.manager import manage
from everfresh.kv.protocol.messages import ALL, Protections
from everfresh.kv.protocol.reading import BeingMade, read_view
from everfresh.kv.store import (
    Conflict,
    Cut,
    EmbeddedStore,
    Op,
    PartitionClosed,
    Refused,
    StoredTable,
    memory_store,
)
from everfresh.testing.kv.flows import VIEW
from everfresh.testing.kv.histories import Commit, Read
from everfresh.types import VARCHAR, Column, TableSchema

GROUP = "g"
Write = tuple[str, bytes, "bytes | None"]
"""What a writer does: table, key, value; None deletes."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How much goes wrong."""

    most: int = 3
    often: float = 0.02
    duplicates: float = 0.15
    kinds: tuple[str, ...] = (
        "crash manager",
        "crash coordinator",
        "pause manager",
        "pause coordinator",
        "zombie manager",
        "split",
    )
    slow_readers: float = 0.0
    """How often a reader that could go on does not."""
    slow_writers: float = 0.7


@dataclass(frozen=True, slots=True)
class Off:
    """What of the store's part of the protocol is switched off."""

    split_states: bool = False
    fence: bool = False


NOTHING = Off()
SOME = Faults()


class Stuck(Exception):
    """The simulation did not come to an end."""


@dataclass
class Outcome:
    """What happened."""

    reads: list[Read] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    logs: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)
    times: dict[tuple[str, bytes], list[int]] = field(default_factory=dict)
    """When each version of a record was acknowledged."""
    steps: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass
class _Actor:
    name: str
    machine: Machine
    wants: Any = None
    paused: int = 0


class Simulation:
    """One history."""

    def __init__(
        self,
        seed: int,
        flow: Dataflow,
        writes: Sequence[Sequence[Write]],
        *,
        managers: int = 2,
        partitions: int = 2,
        readers: int = 2,
        protect: Protections = ALL,
        off: Off = NOTHING,
        faults: Faults = SOME,
        loads: bool = False,
        how: How | None = None,
    ) -> None:
        """With `loads` some of the writes are there before the view is made."""
        self.how = how
        self.random, self.flow, self.protect, self.off, self.faults = Random(seed), flow, protect, off, faults
        self.store: EmbeddedStore = memory_store(partitions=partitions)
        self.store.create_table(HEADS)
        for name in (*flow.tables, VIEW):
            schema = TableSchema(name, (Column("k", VARCHAR), Column("v", VARCHAR)), ("k",))
            self.store.create_table(StoredTable(schema, logged=name != VIEW))
        self.outcome = Outcome()
        self.actors: dict[str, _Actor] = {}
        self.pool: list[tuple[str, Any, int]] = []
        self.managers = tuple(f"m{i}" for i in range(managers))
        self.coordinators = 0
        left = [list(of) for of in writes]
        if loads:
            for of in left:
                for table, key, value in of[: len(of) // 2]:
                    self._store(Op(table, key, value))
                del of[: len(of) // 2]
            ends = {p.id: self.store.log_end(p.id) for p in self.store.partitions()}
            self.store.put(HEADS.name, GROUP.encode(), Head(cut=Cut(ends)).to_bytes())
        for name in self.managers:
            self._start(name, manage(name, GROUP, self.managers, flow, protect))
        self._succeed()
        for i, of in enumerate(left):
            self._start(f"w{i}", self._writer(of))
        for i in range(readers):
            self._start(f"r{i}", self._reader(f"r{i}"))

    # -- actors ------------------------------------------------------------------------------------

    def _start(self, name: str, machine: Machine) -> None:
        self.actors[name] = _Actor(name, machine)
        self._go_on(self.actors[name], lambda: next(machine))

    def _go_on(self, actor: _Actor, how: Callable[[], Any]) -> None:
        try:
            actor.wants = how()
        except StopIteration:
            if self.actors.get(actor.name) is actor:
                del self.actors[actor.name]

    def _succeed(self) -> None:
        """A new coordinator, whatever becomes of the one before."""
        self.coordinators += 1
        name = f"c{self.coordinators}"
        machine = coordinate(
            name,
            GROUP,
            self.managers,
            self.flow.tables,
            self.protect,
            2,
            how=self.how,
            identity=self.flow.identity,
        )
        self._start(name, machine)

    @property
    def _newest(self) -> str:
        return f"c{self.coordinators}"

    def _writer(self, writes: Sequence[Write]) -> Machine:
        for table, key, value in writes:
            yield Op(table, key, value)
            self.outcome.times.setdefault((table, key), []).append(self.outcome.steps)

    def _reader(self, name: str) -> Machine:
        while True:
            yield from self._read(name)

    def _read(self, name: str) -> Machine:
        begin = self.outcome.steps
        while True:
            try:
                rows, epoch = yield from read_view(GROUP, VIEW, limit=1, protect=self.protect)
                break
            except BeingMade:
                yield Idle()
        self.outcome.reads.append(Read(tuple(sorted(rows)), begin, self.outcome.steps, name, epoch))

    # -- steps -------------------------------------------------------------------------------------

    def run(self, most: int = 60_000) -> Outcome:
        """Until everything is written, maintained and read."""
        while any(name.startswith("w") for name in self.actors):
            self._step(most)
            if len(self.outcome.faults) < self.faults.most and self.random.random() < self.faults.often:
                self._fault()
        for name in [n for n in self.actors if n.startswith("r")]:
            del self.actors[name]
        for actor in self.actors.values():
            actor.paused = 0
        while not self._quiet():
            if not any(name.startswith("c") for name in self.actors):
                self._succeed()
            self._step(most)
        self._start("last", self._read("last"))
        while "last" in self.actors:
            self._step(most)
        self._logs()
        return self.outcome

    def _quiet(self) -> bool:
        row = self.store.get(HEADS.name, GROUP.encode())
        if row is None:
            return False
        head = Head.from_bytes(row.value)
        return (head.open is None and not head.loading) and all(
            head.cut.at.get(p.id) == self.store.log_end(p.id) for p in self.store.partitions()
        )

    def _step(self, most: int) -> None:
        self.outcome.steps += 1
        if self.outcome.steps > most:
            raise Stuck(f"after {most} steps, with {self.outcome.faults}")
        runnable: list[tuple[_Actor, int]] = []
        for actor in self.actors.values():
            if actor.paused:
                actor.paused -= 1
            elif isinstance(actor.wants, Receive):
                runnable += [(actor, i) for i, (to, _, _) in enumerate(self.pool) if to == actor.name][:8]
            else:
                runnable.append((actor, -1))
        if not runnable:
            if not any(a.paused for a in self.actors.values()):
                self._succeed()
            return
        actor, message = self.random.choice(runnable)
        if isinstance(actor.wants, Op) and self.random.random() < self.faults.slow_writers:
            return  # writers take their time, so that there are epochs between their writes
        if actor.name.startswith("r") and self.random.random() < self.faults.slow_readers:
            return
        self._do(actor, message)

    def _do(self, actor: _Actor, message: int) -> None:
        wants, machine = actor.wants, actor.machine
        if isinstance(wants, Receive):
            _, what, left = self.pool[message]
            if left and self.random.random() < self.faults.duplicates:
                self.pool[message] = (actor.name, what, left - 1)
            else:
                del self.pool[message]
            self._go_on(actor, lambda: machine.send(what))
        elif isinstance(wants, Send):
            # Anywhere in the pool: receivers take from its front.
            self.pool.insert(self.random.randint(0, len(self.pool)), (wants.to, wants.message, 2))
            self._go_on(actor, lambda: next(machine))
        elif isinstance(wants, Idle):
            self._go_on(actor, lambda: next(machine))
        else:
            try:
                result = self._store(wants)
            except (Conflict, Refused, PartitionClosed) as error:
                raised = error
                self._go_on(actor, lambda: machine.throw(raised))
            else:
                self._go_on(actor, lambda: machine.send(result))

    def _store(self, call: Any) -> Any:
        match call:
            case Op(table, key, value):
                if value is None:
                    return self.store.delete(table, key)
                return self.store.put(table, key, value)
            case Prepare() if self.off != NOTHING:
                return self._lax(call)
            case Put(table, _, value) if table == HEADS.name:
                version = perform(self.store, call)
                head = Head.from_bytes(value)
                if head.open is None and all(c.epoch != head.committed for c in self.outcome.commits):
                    at = {p: position.offset for p, position in head.cut.at.items()}
                    self.outcome.commits.append(Commit(head.committed, at))
                return version
        return perform(self.store, call)

    def _lax(self, call: Prepare) -> None:
        """`prepare` without some of its protection."""
        if self.off.fence:
            ops = []
            for key, value in call.rows:
                row = self.store.get(call.table, key)
                states = split.unpack(None if row is None else row.value)
                epoch = max([call.epoch, *(s.epoch for s in states)])
                ops.append(Op(call.table, key, split.pack(split.prepared(states, epoch, value))))
        else:
            perform(self.store, call)  # refuses zombies
            ops = [
                Op(call.table, key, None if value is None else split.pack([split.State(0, value)]))
                for key, value in call.rows
            ]
        self.store.write(call.partition, ops)

    # -- faults ------------------------------------------------------------------------------------

    def _fault(self) -> None:
        kind = self.random.choice(self.faults.kinds)
        name = self._newest if "coordinator" in kind else self.random.choice(self.managers)
        if kind == "zombie manager" and not isinstance(self.actors[name].wants, Prepare):
            return  # what it can still do is what it was about to write
        self.outcome.faults.append(f"{kind} at step {self.outcome.steps}")
        if kind == "split":
            self.store.split(self.random.choice([p.id for p in self.store.partitions() if p.open]))
            return
        actor = self.actors.get(name)
        if kind.startswith("pause"):
            if actor is not None:
                actor.paused = self.random.choice([50, 150, 300])
            if kind == "pause manager" and self.random.random() < 0.5:
                return
        elif kind == "zombie manager" and actor is not None:
            self._replace(actor)
        elif actor is not None:
            self._crash(actor)
        self._succeed()

    def _replace(self, actor: _Actor) -> None:
        """A manager is taken for dead and started anew, and goes on with what it was at later."""
        del self.actors[actor.name]
        name = actor.name
        actor.name, actor.paused = f"{name} at {self.outcome.steps}", self.random.choice([100, 200, 300])
        self.actors[actor.name] = actor
        self._start(name, manage(name, GROUP, self.managers, self.flow, self.protect))

    def _crash(self, actor: _Actor) -> None:
        wants = actor.wants
        if not isinstance(wants, (Send, Receive, Idle)) and self.random.random() < 0.5:
            try:
                self._store(wants)  # it was done, and nobody hears of it
            except (Conflict, Refused, PartitionClosed):
                self.outcome.faults[-1] += ", its last call refused"
        del self.actors[actor.name]
        if actor.name in self.managers:
            self._start(actor.name, manage(actor.name, GROUP, self.managers, self.flow, self.protect))

    def _logs(self) -> None:
        """The logs and commits as the witness wants them: each log counted from its own first entry."""
        starts: dict[int, int] = {}
        for partition in self.store.partitions():
            first, end = starts.get(partition.id, 0), self.store.log_end(partition.id).offset
            found = (self.store.entry(partition.id, n) for n in range(first + 1, end + 1))
            self.outcome.logs[partition.id] = [((e.table, e.key), e.after) for e in found if e is not None]
            starts.update(dict.fromkeys(partition.children, end))
        self.outcome.commits = [
            Commit(c.epoch, {p: at - starts.get(p, 0) for p, at in sorted(c.offsets.items())})
            for c in self.outcome.commits
        ]
