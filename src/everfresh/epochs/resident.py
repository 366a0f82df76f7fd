"""A domain whose state is in this process: what is the same for all of them.

A subclass keeps its state in fields of its own, changes it in `make`, `define` and `drop`, which give what
takes the change back, and says what its objects hold. Readers share one lock with the epochs that concern the
domain: they wait for its steps and for the commit record of such an epoch, and for nothing else.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from everfresh.delta.bags import WEIGHT
from everfresh.epochs.domain import Making, Object, Published, Sections, Told
from everfresh.epochs.history import History, RowChange
from everfresh.errors import Code, EverfreshError
from everfresh.program.engine import check_epoch

Undo = Callable[[], None]


class Resident(ABC):
    """A domain in this process. See `everfresh.epochs.domain.Domain`."""

    name: str
    kind: str
    """What a user calls one of its objects."""

    def __init__(self, history: int = 100) -> None:
        self.lock = threading.RLock()
        self.kept = history
        """How many epochs of history are kept."""
        self.open: list[_Stepping] = []
        """What has begun and has not ended."""
        self._held: Generator[None, None, None] | None = None
        """What holds the lock for what is open: noted before it takes it, and until it has let it go."""
        self.whole = True
        """Whether the state is that of an epoch, or of one with steps that can be taken back."""
        self.objects: Mapping[str, Object] = {}
        self.epoch = 0
        """The last epoch that concerned the domain, or that it was loaded at."""
        self.history: History[Published] = History(self.kept, RowChange)

    def load(self, sections: Sections, epoch: int) -> None:
        """Take the state that `to_sections` gave; none at all without sections. What has begun, and was
        abandoned, is forgotten."""
        self.open.clear()
        try:
            self.let_go()
        except RuntimeError:  # taken by another thread, which was struck twice and cannot give it back
            self._held, self.lock = None, threading.RLock()
        with self.lock:
            self.objects, self.epoch = {}, epoch
            self.history = History(self.kept, RowChange, epoch)
            self.restore(sections)
            self.whole = True

    def attach(self, host: Any) -> None:  # noqa: B027 - most need nothing
        """Nothing is needed of an engine."""

    def over(self, rows: Callable[[str], pa.Table]) -> None:  # noqa: B027 - most need nothing
        """No rows are needed but those that changed."""

    def expect(self, name: str) -> Object:
        """An object, or an error that lists what there is."""
        if name not in self.objects:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no {self.kind} '{name}'",
                hint=f"of this kind there are: {', '.join(self.objects) or 'none yet'}",
            )
        return self.objects[name]

    def publishing(self, name: str, root: str | None) -> Any:
        """Objects publish from the start, or never."""
        return None

    def release(self) -> None:  # noqa: B027 - most hold nothing
        """Nothing is held outside of this process."""

    # -- what a subclass says ----------------------------------------------------------------------

    @abstractmethod
    def takes(self, given: Any) -> bool:
        """Whether something is a change of an object, by what it is."""

    @abstractmethod
    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make an object, or drop one: the object, or the name of the one that is gone; and what takes that
        back."""

    @abstractmethod
    def make(
        self, name: str, own: Any, inputs: Mapping[str, Published]
    ) -> tuple[Any, Published | None, Undo]:
        """Change an object: what the log keeps of it, what it publishes, and what takes it back."""

    @abstractmethod
    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Any]]) -> Told:
        """Statements and changes as the log keeps them."""

    @abstractmethod
    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Any]]]:
        """The inverse of `encode`."""

    @abstractmethod
    def rows(self, name: str) -> pa.Table:
        """What an object holds now, as rows."""

    @abstractmethod
    def restore(self, sections: Sections) -> None:
        """Take the state that `to_sections` gave, of all objects and of their history; nothing without
        sections."""

    # -- the past, for domains that have a better form of it than rows ---------------------------------

    def remember(self, epoch: int, published: dict[str, Published]) -> None:
        """An epoch is committed, in which this was published."""
        self.history.add(epoch, published)

    def forget(self, created: Mapping[str, int]) -> None:
        """Objects came or went: forget what nobody can ask for."""
        self.history.prune(created)

    def oldest(self, name: str) -> int:
        """The earliest epoch at which an object can be read."""
        return self.history.oldest(self.epoch)

    def rows_at(self, found: Object, at: int) -> pa.Table:
        """The rows of an object at an earlier epoch."""
        return self.history.at(found.name, self.rows(found.name), at, found.created)

    def changes_of(self, found: Object, since: int | None) -> pa.Table:
        """An object's change of each epoch after `since`."""
        rows = self.rows(found.name)
        return self.history.changes(
            found.name, since, found.created, self.epoch, lambda: rows, weighted(rows)
        )

    # -- epochs ------------------------------------------------------------------------------------

    def prepare(self, name: str, given: Any) -> Any:
        """What is given, if it is a change."""
        if not self.takes(given):
            raise EverfreshError(
                Code.ARGUMENT,
                f"{type(given).__name__} is no change of a {self.kind}",
                place=f"{self.kind} '{name}'",
            )
        return given

    def still(self) -> AbstractContextManager[Any]:
        """A block in which nobody changes the domain."""
        return self.lock

    def begin(self, making: Making) -> _Stepping:
        """An epoch begins: readers wait for its end."""
        return _Stepping(self, making)

    def keep_out(self) -> None:
        """Readers wait until nothing is open."""
        if self._held is None:
            self._held = _holding(self.lock)
            next(self._held)

    def let_go(self) -> None:
        """Let readers in."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def forsake(self) -> None:
        """An exception that nobody foresaw, between any two instructions, has ended a change in this thread:
        what is still open has not come to its end, and the lock may be held for it."""
        if self.open:
            self.whole = False
            self.open.clear()
        self.let_go()

    # -- reading -----------------------------------------------------------------------------------

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of an object, now or at an earlier epoch."""
        with self.lock:
            found = self.expect(name)
            if at is None or at >= self.epoch >= found.created:  # whether it is committed the host knows
                return self.rows(name)
            check_epoch(name, at, max(self.oldest(name), found.created), self.epoch)
            return self.rows_at(found, at)

    def rows_for(self, name: str, plan: Any) -> pa.Table:
        """All rows: most domains have them at hand."""
        return self.read(name)

    def frame(self, name: str, at: int | None, session: Any) -> Any:
        """Rows are in this process."""
        return None

    def frame_for(self, name: str, plan: Any, session: Any) -> Any:
        """All rows, where they are."""
        return self.frame(name, None, session)

    def changes(self, name: str, since: int | None) -> pa.Table:
        """An object's change of each epoch after `since`."""
        with self.lock:
            found = self.expect(name)
            return self.changes_of(found, since if since is None else min(since, self.epoch))

    def statistics(self) -> dict[str, Any]:
        """The objects."""
        with self.lock:
            return {name: {"kind": found.kind} for name, found in self.objects.items()}


class _Stepping:
    """An epoch of a domain in this process."""

    def __init__(self, domain: Resident, making: Making) -> None:
        domain.open.append(self)
        domain.keep_out()
        self._domain, self._making = domain, making
        self._before = domain.objects
        self._undo: list[Undo] = []
        self._statements: list[Any] = []
        self._changes: list[tuple[str, Any]] = []
        self._published: dict[str, Published] = {}

    def execute(self, statement: Any) -> None:
        """Make or drop an object."""
        domain = self._domain
        with _Torn(domain):
            found, undo = domain.define(statement)
            self._undo.append(undo)
        self._statements.append(statement)
        name = found if isinstance(found, str) else found.name
        objects = {n: o for n, o in domain.objects.items() if n != name}
        if isinstance(found, Object):
            objects[name] = replace(found, created=self._making.epoch)
        domain.objects = objects

    def step(self, name: str, own: Any, inputs: Mapping[str, Published]) -> Published | None:
        """Change an object."""
        with _Torn(self._domain):
            kept, change, undo = self._domain.make(name, own, inputs)
            self._undo.append(undo)
        if kept is not None:
            self._changes.append((name, kept))
        if change is not None:
            self._published[name] = change
        return change

    def again(self, ddl: Sequence[str], sections: Sections) -> Mapping[str, Published]:
        """Do what a record tells."""
        statements, changes = self._domain.decode(ddl, sections)
        for statement in statements:
            self.execute(statement)
        kept = dict(changes)
        for name, found in self._domain.objects.items():
            inputs = {other: self._published[other] for other in found.reads if other in self._published}
            if inputs or name in kept:
                self.step(name, kept.get(name), inputs)
        return self._published

    def told(self) -> Told:
        """What the record says."""
        return self._domain.encode(self._statements, self._changes)

    def commit(self) -> None:
        """Show the epoch to readers."""
        domain = self._domain
        try:
            with _Torn(domain):
                domain.epoch = self._making.epoch
                domain.remember(domain.epoch, self._published)
                if domain.objects is not self._before:
                    domain.forget({name: found.created for name, found in domain.objects.items()})
        finally:
            self._end()

    def rollback(self) -> None:
        """Take everything back."""
        try:
            with _Torn(self._domain):
                while self._undo:
                    self._undo.pop()()
                self._domain.objects = self._before
        finally:
            self._end()

    def _end(self) -> None:
        self._domain.open.remove(self)
        if not self._domain.open:
            self._domain.let_go()


def _holding(lock: AbstractContextManager[Any]) -> Generator[None, None, None]:
    """Hold a lock until this is closed. Whoever keeps it before it begins knows of the lock, whatever
    strikes: between `with` and what is inside of it nothing can come."""
    with lock:
        yield


class _Torn:
    """A block after which a domain is whole if the block comes to its end, or refuses."""

    def __init__(self, domain: Resident) -> None:
        self._domain = domain

    def __enter__(self) -> None:
        self._before, self._domain.whole = self._domain.whole, False

    def __exit__(self, kind: type[BaseException] | None, *why: object) -> None:
        if kind is None or issubclass(kind, EverfreshError):
            self._domain.whole = self._before


def weighted(rows: pa.Table) -> pa.Schema:
    """The schema of the changes of such rows."""
    return rows.schema.append(pa.field(WEIGHT, pa.int64(), nullable=False))
