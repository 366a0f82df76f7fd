"""A view group in this process: its coordinator and managers, driven until there is nothing to do.

The same generators that the simulation drives, with the store called directly. Invariant: after `run` the
head's cut is the end of every log, unless somebody wrote meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from everfresh.errors import Code, EverfreshError
from everfresh.kv.protocol.calls import Idle, Machine, Receive, Send, Slice, Tracked, perform
from everfresh.kv.protocol.coordinator import How, coordinate
from everfresh.kv.protocol.dataflow import Dataflow
from everfresh.kv.protocol.manager import manage
from everfresh.kv.store import Conflict, LogDiverged, LogTrimmed, PartitionClosed, Refused, Store

_TERMS = 20
_COORDINATOR = "coordinator"
MANAGERS = ("manager",)


class Kept(Protocol):
    """A view group that is kept fresh."""

    taken: int
    held: int

    @property
    def settled(self) -> bool:
        """Whether what earlier terms still send is refused by now."""
        ...

    def run(self) -> None:
        """Do what there is to do."""
        ...

    def change(self, flow: Any) -> None:
        """Go on with other views, in a new term."""
        ...


class Group:
    """One view group."""

    settled = True

    def __init__(
        self,
        store: Store,
        name: str,
        flow: Dataflow,
        how: How | None = None,
        managers: Sequence[str] = MANAGERS,
    ) -> None:
        self.store, self.name, self.flow, self.how = store, name, flow, how or How()
        self.managers = tuple(managers)
        self.taken = self.held = 0
        """How many entries of logs were taken, and how many by the last slice."""
        self._machines: dict[str, tuple[Machine, Any]] = {}
        self._mail: dict[str, deque[Any]] = {}
        self._begin()

    def _begin(self) -> None:
        """A new term, from what the store has."""
        self._mail = {name: deque() for name in (_COORDINATOR, *self.managers)}
        self._machines.clear()
        for name in self.managers:
            self._go_on(name, manage(name, self.name, self.managers, self.flow), None)
        machine = coordinate(
            _COORDINATOR,
            self.name,
            self.managers,
            self.flow.tables,
            version=self.flow.version,
            how=self.how,
            identity=self.flow.identity,
        )
        self._go_on(_COORDINATOR, machine, None)

    def change(self, flow: Dataflow) -> None:
        """Go on with other views, in a new term."""
        self.flow = flow
        self._begin()

    def _go_on(self, name: str, machine: Machine, result: Any) -> None:
        self._took(name, machine, lambda: machine.send(result))

    def _took(self, name: str, machine: Machine, how: Callable[[], Any]) -> None:
        try:
            self._machines[name] = machine, how()
        except StopIteration:
            self._machines.pop(name, None)

    def run(self) -> None:
        """Maintain the views until they show everything that is in the logs."""
        terms = 0
        while True:
            machine, wants = self._machines.get(_COORDINATOR, (None, None))
            if machine is None:
                terms += 1
                if terms > _TERMS:
                    raise EverfreshError(
                        Code.FENCED,
                        f"somebody else maintains the views of group '{self.name}'",
                        hint="one process maintains a group at a time",
                    )
                self._begin()
            elif isinstance(wants, Idle):
                self._drain()
                if self._nothing_new(machine):
                    return
            else:
                self._drain()
                self._step(_COORDINATOR)

    def _nothing_new(self, machine: Machine) -> bool:
        """Let an idle coordinator look; whether it is idle again at once."""
        self._go_on(_COORDINATOR, machine, None)
        self._step(_COORDINATOR)  # the ends of the logs
        _, wants = self._machines.get(_COORDINATOR, (None, None))
        return isinstance(wants, Idle)

    def _drain(self) -> None:
        """Let managers go on until they wait for what nobody of them sends."""
        moved = True
        while moved:
            moved = False
            for name in [n for n in self._machines if n != _COORDINATOR]:
                while name in self._machines and self._step(name):
                    moved = True

    def _step(self, name: str) -> bool:
        """One step of a machine; whether it could make one."""
        if name not in self._machines:
            return False
        machine, wants = self._machines[name]
        try:
            if isinstance(wants, Idle):
                return False
            if isinstance(wants, Receive):
                if not self._mail[name]:
                    return False
                self._go_on(name, machine, self._mail[name].popleft())
            elif isinstance(wants, Send):
                self._deliver(wants.to, wants.message)
                self._go_on(name, machine, None)
            else:
                self._call(name, machine, wants)
        except EverfreshError:
            self._machines.clear()  # the next run begins a new term
            raise
        return True

    def _deliver(self, to: str, message: Any) -> None:
        self._mail[to].append(message)

    def _call(self, name: str, machine: Machine, wants: Any) -> None:
        try:
            result = perform(self.store, wants)
        except (Conflict, Refused, PartitionClosed, LogDiverged) as error:
            raised = error
            self._took(name, machine, lambda: machine.throw(raised))
        except LogTrimmed as error:
            raise EverfreshError(
                Code.HISTORY,
                f"the log no longer has what the views of group '{self.name}' have not seen",
                hint="make the views before the log is trimmed, and trim by Views.trim",
            ) from error
        else:
            if isinstance(wants, (Slice, Tracked)):
                self.held = len(result)
                self.taken += self.held
            self._go_on(name, machine, result)
