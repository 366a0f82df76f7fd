"""The protocol of a domain: a kind of object that lives in the epochs of a database.

Tables and SQL views are the first domain, matrices another. A domain keeps its own state and knows nothing of
files, locks and other domains. In an epoch the host asks it to step its objects, each after what it reads: an
object is given its own change, which the domain prepared from what the user gave, and the changes that were
published by what it reads; it publishes its own. When all are done the host writes what the domains tell into
the commit record, and makes the steps final, or takes all of them back.

Names of sections start with the domain's name and `/`. Invariants: what `again` does with the record of an
epoch leaves the state that the epoch left; a stepping that was rolled back leaves the state before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from everfresh.program.engine import check_epoch

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from everfresh.types import Column

Sections = Mapping[str, "Buffer"]


@dataclass(frozen=True, slots=True)
class Object:
    """What a database knows of an object, whatever its domain: `reads` are names of other objects."""

    name: str
    domain: str
    kind: str
    reads: tuple[str, ...] = ()
    created: int = 0
    """The epoch that made it."""
    publishes: bool = True
    """Whether it tells what has changed in an epoch, so that others may follow it."""


class Published(Protocol):
    """The change of an object's rows in an epoch. One with `exact = False` is right but for rounding: a row
    that went may not be, to the last digit, the row that was there."""

    @property
    def table(self) -> pa.Table:
        """The rows that came and went, with `_weight`; made when it is first asked for."""
        ...


@dataclass(frozen=True, slots=True)
class Making:
    """An epoch in the making: its number, on Spark the draft that jobs add to, and in this process what gives
    the rows of tables and SQL views as the epoch has changed them so far, all or at least those that have
    values of some columns."""

    epoch: int
    draft: Any = None
    rows: Callable[[str, pa.Table | None], pa.Table] | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What a commit record says of a domain: statements as text, and sections."""

    ddl: tuple[str, ...] = ()
    sections: Sections = field(default_factory=dict)


class Stepping(Protocol):
    """What one epoch does to the objects of a domain. Ends by `commit` or `rollback`, exactly once."""

    def execute(self, statement: Any) -> None:
        """Make or drop objects, as a statement of the domain's own says."""
        ...

    def step(self, name: str, own: Any, inputs: Mapping[str, Published]) -> Published | None:
        """Change an object by its own change (None: none) and those of what it reads; what it publishes,
        None if it has not changed."""
        ...

    def again(self, ddl: Sequence[str], sections: Sections) -> Mapping[str, Published]:
        """Do what the record of an epoch tells; what was published."""
        ...

    def told(self) -> Told:
        """What the commit record says of it."""
        ...

    def commit(self) -> None:
        """The epoch is committed: readers see it from now on."""
        ...

    def rollback(self) -> None:
        """Take everything back."""
        ...


class Domain(Protocol):
    """A kind of object. `everfresh.testing.DomainSuite` says what it must satisfy."""

    @property
    def name(self) -> str:
        """What its sections and statements are known by."""
        ...

    @property
    def objects(self) -> Mapping[str, Object]:
        """The objects as of the last committed epoch, by name, each after those that it reads."""
        ...

    @property
    def whole(self) -> bool:
        """Whether its state is that of an epoch: not after an exception that nobody foresaw struck inside."""
        ...

    def attach(self, host: Any) -> None:
        """Learn what the engine offers, before anything else: see `everfresh.spark.host.Host`."""
        ...

    def over(self, rows: Callable[[str], pa.Table]) -> None:
        """Learn what gives the rows of tables and SQL views as of the last committed epoch."""
        ...

    def takes(self, given: Any) -> bool:
        """Whether something is a change of an object of this domain, by what it is."""
        ...

    def prepare(self, name: str, given: Any) -> Any:
        """What a user gives for an object, as a change of it; refuses what is none."""
        ...

    def dropping(self, name: str) -> Sequence[Any]:
        """The statements that drop an object, with what is there for it alone."""
        ...

    def columns(self, name: str) -> tuple[Column, ...]:
        """An object as a relation of SQL: the columns that `read` gives."""
        ...

    def begin(self, making: Making) -> Stepping:
        """An epoch begins that concerns the domain."""
        ...

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of an object, now or at an earlier epoch."""
        ...

    def rows_for(self, name: str, plan: Any) -> pa.Table:
        """The rows of an object that a plan of SQL needs, at least."""
        ...

    def frame(self, name: str, at: int | None, session: Any) -> Any:
        """The same as a DataFrame of a Spark session that reads an object where it is; None if its rows are
        to be read here."""
        ...

    def frame_for(self, name: str, plan: Any, session: Any) -> Any:
        """The rows that a plan of SQL needs, at least, as `frame` gives them."""
        ...

    def changes(self, name: str, since: int | None) -> pa.Table:
        """An object's change of each epoch after `since`, with `_weight` and `_epoch`."""
        ...

    def verify(self, name: str) -> pa.Table:
        """Where an object differs from its recomputation; no rows when it is right."""
        ...

    def explain(self, name: str, format: str = "text") -> str:
        """How an object is maintained, and why."""
        ...

    def statistics(self) -> dict[str, Any]:
        """Sizes, for people."""
        ...

    def hold(self, db: Any, name: str) -> Any:
        """What a user holds of an object."""
        ...

    def still(self) -> AbstractContextManager[Any]:
        """A block in which nobody changes the domain, and what is there is committed."""
        ...

    def publishing(self, name: str, root: str | None) -> Any:
        """A statement from which on an object that does not publish does, in the database at `root`; None if
        it cannot."""
        ...

    def release(self) -> None:
        """The database is closed: give back what is held outside of its folder, as well as that can be
        done."""
        ...

    def to_sections(self) -> Sections:
        """The whole state as of the last committed epoch, for a snapshot; nothing if there never was an
        object."""
        ...

    def forsake(self) -> None:
        """An exception that nobody foresaw has ended a change in this thread: nothing is held for it any
        more."""
        ...

    def load(self, sections: Sections, epoch: int) -> None:
        """Take the state that `to_sections` gave at an epoch; none at all without sections."""
        ...


def not_later(name: str, epoch: int | None, last: int) -> int | None:
    """An epoch that was asked for; raises if it is not committed yet."""
    if epoch is not None and epoch > last:
        check_epoch(name, epoch, 0, last)
    return epoch


def sections_of(domain: str, sections: Mapping[str, Any]) -> dict[str, Any]:
    """The sections that are a domain's own."""
    return {name: data for name, data in sections.items() if name.startswith(f"{domain}/")}


_MARK = "@"


def entry(domain: str, text: str) -> str:
    """A statement of a domain in the log of DDL, whose other entries are SQL.

    >>> entry("matrix", "drop A"), entries_of("matrix", ["duckdb|DROP TABLE t", "@matrix|drop A"])
    ('@matrix|drop A', ('drop A',))
    """
    return f"{_MARK}{domain}|{text}"


def entries_of(domain: str, ddl: Sequence[str]) -> tuple[str, ...]:
    """The statements of a domain among those of a commit record."""
    prefix = entry(domain, "")
    return tuple(text.removeprefix(prefix) for text in ddl if text.startswith(prefix))


def sql_entries(ddl: Sequence[str]) -> tuple[str, ...]:
    """The statements that are SQL."""
    return tuple(text for text in ddl if not text.startswith(_MARK))
