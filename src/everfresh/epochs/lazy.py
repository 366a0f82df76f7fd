"""A domain that is imported when it is needed: when the first of its objects is made, or a folder has some.

`import everfresh` and databases of tables alone pay nothing for the domains that they do not use.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa

from everfresh.epochs.domain import Domain, Making, Object, Sections, Stepping
from everfresh.errors import Code, EverfreshError
from everfresh.types import Column


class Lazy:
    """Stands for a domain until it is there. See `everfresh.epochs.domain.Domain`.

    `made` is the place of what makes it, as `module:function`, called with how many epochs of history are
    kept and what the engine offers; `given` is the module that defines what a user gives as a change: who
    has not imported it gives none. It is empty where changes are known by the name of their object alone.
    """

    def __init__(self, name: str, made: str, given: str, history: int) -> None:
        self.name = name
        self._made, self._given, self._history = made, given, history
        self._host: Any = None
        self._rows: Callable[[str], pa.Table] | None = None
        self._epoch = 0
        self._domain: Domain | None = None

    @property
    def domain(self) -> Any:
        """The domain itself."""
        if self._domain is None:
            self._domain = self._new()
            self._domain.load({}, self._epoch)
        return self._domain

    def _new(self) -> Domain:
        module, _, function = self._made.partition(":")
        made: Domain = getattr(importlib.import_module(module), function)(self._history, self._host)
        if self._rows is not None:
            made.over(self._rows)
        return made

    def attach(self, host: Any) -> None:
        """Keep what the engine offers until the domain is made."""
        self._host = host

    def over(self, rows: Callable[[str], pa.Table]) -> None:
        """Keep what gives the rows of tables until the domain is made."""
        self._rows = rows
        if self._domain is not None:
            self._domain.over(rows)

    @property
    def objects(self) -> Mapping[str, Object]:
        """Its objects; none before it is there."""
        return self._domain.objects if self._domain is not None else _NONE

    @property
    def whole(self) -> bool:
        """Whether its state is that of an epoch."""
        return self._domain is None or self._domain.whole

    def takes(self, given: Any) -> bool:
        """Whether something is a change of an object of this domain."""
        return self._given in sys.modules and bool(self.domain.takes(given))

    def prepare(self, name: str, given: Any) -> Any:
        """What a user gives for an object, as a change of it."""
        return self.domain.prepare(name, given)

    def dropping(self, name: str) -> Sequence[Any]:
        """The statements that drop an object."""
        return self._there(name).dropping(name)

    def columns(self, name: str) -> tuple[Column, ...]:
        """An object as a relation of SQL."""
        return self._there(name).columns(name)

    def begin(self, making: Making) -> Stepping:
        """An epoch begins that concerns the domain."""
        stepping: Stepping = self.domain.begin(making)
        return stepping

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of an object."""
        return self._there(name).read(name, at)

    def rows_for(self, name: str, plan: Any) -> pa.Table:
        """The rows of an object that a plan of SQL needs, at least."""
        return self._there(name).rows_for(name, plan)

    def frame(self, name: str, at: int | None, session: Any) -> Any:
        """The rows of an object as a DataFrame, or None."""
        return self._there(name).frame(name, at, session)

    def frame_for(self, name: str, plan: Any, session: Any) -> Any:
        """What a plan of SQL needs of an object, where it is."""
        return self._there(name).frame_for(name, plan, session)

    def changes(self, name: str, since: int | None) -> pa.Table:
        """An object's change of each epoch after `since`."""
        return self._there(name).changes(name, since)

    def verify(self, name: str) -> pa.Table:
        """Where an object differs from its recomputation."""
        return self._there(name).verify(name)

    def explain(self, name: str, format: str = "text") -> str:
        """How an object is maintained."""
        return self._there(name).explain(name, format)

    def hold(self, db: Any, name: str) -> Any:
        """What a user holds of an object."""
        return self._there(name).hold(db, name)

    def _there(self, name: str) -> Domain:
        if self._domain is None:
            raise EverfreshError(
                Code.NOT_FOUND, f"there is no {self.name} '{name}'", hint="there is none yet"
            )
        return self._domain

    def statistics(self) -> dict[str, Any]:
        """Sizes, for people."""
        return self._domain.statistics() if self._domain is not None else {}

    def still(self) -> AbstractContextManager[Any]:
        """A block in which nobody changes the domain."""
        return self._domain.still() if self._domain is not None else nullcontext()

    def forsake(self) -> None:
        """A change was ended by an exception that nobody foresaw."""
        if self._domain is not None:
            self._domain.forsake()

    def publishing(self, name: str, root: str | None) -> Any:
        """A statement from which on an object publishes."""
        return self._there(name).publishing(name, root)

    def release(self) -> None:
        """The database is closed."""
        if self._domain is not None:
            self._domain.release()

    def to_sections(self) -> Sections:
        """The state, for a snapshot."""
        return self._domain.to_sections() if self._domain is not None else {}

    def load(self, sections: Sections, epoch: int) -> None:
        """Take the state of a snapshot."""
        self._epoch = epoch
        if self._domain is None and sections:
            self._domain = self._new()
        if self._domain is not None:
            self._domain.load(sections, epoch)


_NONE: Mapping[str, Object] = {}
