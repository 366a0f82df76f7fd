"""What an engine is: the protocol between `database` and the runtimes, and the batch they exchange.

An engine keeps tables and the maps of views, and moves from epoch to epoch. Each call that changes something
either commits exactly one epoch or raises and changes nothing. Epochs are dense from 1. `read`, `changes`
and `select` answer from committed epochs only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Expr
from everfresh.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from everfresh.delta.given import Given
    from everfresh.delta.given_files import FileOptions
    from everfresh.options import Options
    from everfresh.state import StateFolder
    from everfresh.types import TableSchema

Op = Literal["insert", "delete", "delete_key", "update", "upsert", "change"]


@dataclass(frozen=True, slots=True)
class OnConflict:
    """What an upsert does with a row whose primary key exists: keep the old row, or assign (`excluded.c`
    is the new value)."""

    assignments: tuple[tuple[str, Expr], ...] = ()
    where: Expr | None = None

    @property
    def ignore(self) -> bool:
        """DO NOTHING."""
        return not self.assignments


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one table and what to do with them.

    `rows` is an Arrow table of exactly the schema's types, or a `SparkRows`. An `update` holds the primary
    key and the columns to set; a `delete_key` the primary key; the others all columns; a `change` also the
    columns of a feed (`everfresh.delta.feeds`). `conflict` belongs to `upsert`.
    """

    table: str
    op: Op
    rows: Any
    what: str
    conflict: OnConflict | None = None
    numbers: Any = None
    """The number of each row in what the user gave, where `rows` is only a piece of it; for error
    messages."""

    def number(self, row: int) -> int:
        """The user's number of a row of this part."""
        return row if self.numbers is None else int(self.numbers[row])


@dataclass(frozen=True, slots=True)
class Batch:
    """One atomic batch over any number of tables; `key`, if given, is applied at most once.

    `changes` are what it does to the objects of other domains (`everfresh.epochs.domain`), by name, as their
    domains prepared them; `statements` make and drop such objects, by the domain's name, before anything
    changes. `source` is the stream that it was read from and its number there, which the commit record keeps.
    """

    parts: tuple[Part, ...] = ()
    key: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    source: tuple[str, int] | None = None
    statements: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key as commit records have them."""
        return (self.key,) if self.key is not None else ()

    @property
    def sources(self) -> dict[str, int]:
        """The source as commit records have them."""
        return dict([self.source]) if self.source is not None else {}


@dataclass(frozen=True, slots=True)
class Applied:
    """What a commit did: its epoch, and how many rows of tables it changed."""

    epoch: int
    rows: int = 0
    notes: dict[str, Any] = field(default_factory=dict)


class Stale(Exception):
    """A plan was bound to a catalog that is no longer that of the last epoch: bind it again."""


class Engine(Protocol):
    """A runtime for tables and views. `everfresh.testing.engine_suite` says what it must satisfy."""

    name: str
    concurrent: bool
    """Whether `epoch`, `oldest`, `catalog`, `read`, `changes` and `select` may be called while another thread
    changes something; they answer from the last committed epoch. Everything else is called by one thread at
    a time."""

    @property
    def session(self) -> Any:
        """The Spark session of an engine that runs on one, else None."""

    @property
    def epoch(self) -> int:
        """The last committed epoch this handle has seen."""

    @property
    def oldest(self) -> int:
        """The earliest epoch that `changes(since=)` and `read(at=)` reach."""

    @property
    def catalog(self) -> Any:
        """The tables and views as of `epoch` (`everfresh.compiler.Catalog`)."""

    @property
    def sources(self) -> Mapping[str, int]:
        """Of each stream that was ever applied, the number of its last batch that is committed."""

    @property
    def folder(self) -> StateFolder | None:
        """Where the state is kept; None if it is in memory only."""

    @property
    def options(self) -> Options:
        """What the database was opened with."""

    @property
    def objects(self) -> Any:
        """The objects of other domains than tables (`everfresh.epochs.Objects`)."""

    def read_input(self, data: Any, schema: TableSchema, what: str, op: Any) -> Any:
        """Rows of any kind, as the engine takes them in a `Part`."""

    @property
    def behind(self) -> bool:
        """Whether `refresh` may have something to do."""

    def refresh(self) -> None:
        """Be at an epoch, whole: readers move to the last committed one, and a change that was abandoned in
        the middle is done or undone."""

    def given(self, value: Any, name: str) -> Given:
        """Rows that a query reads beside tables and views, in a value of this name."""

    def given_files(self, paths: tuple[str, ...], kind: str, options: FileOptions, what: str) -> Given:
        """The same of files, of one kind."""

    def execute(self, statement: Any, progress: Progress | None = None) -> int:
        """Run one bound DDL statement; returns the epoch it committed."""

    def committed(self, key: str) -> int | None:
        """The epoch that a batch with this key committed, if one did."""

    def apply(self, batch: Batch) -> Applied:
        """Apply a batch atomically. Its key has not been committed."""

    def apply_all(self, batches: Sequence[Batch]) -> list[Applied | Exception]:
        """Apply batches in order, each atomically and in an epoch of its own, and commit them together if the
        engine can; for each what came of it. A batch that is refused is refused alone. If this raises, none
        was applied."""

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of a table or view, now or at an earlier epoch."""

    def changes(self, view: str, since: int | None) -> pa.Table:
        """The view's change of each epoch after `since`, with `_weight` and `_epoch`; None: of all that are
        kept."""

    def select(self, plan: Any, bound: Any = None) -> pa.Table:
        """The result of an ad hoc query plan over the current epoch. Raises `Stale` if `bound`, the catalog
        that it was bound to, is not that of the epoch."""

    def matching(
        self, table: str, where: Expr | None, assign: Sequence[tuple[str, Expr]] = ()
    ) -> tuple[Any, Any]:
        """The rows of a table that satisfy `where`, and the same rows with `assign` applied: what DELETE
        and UPDATE change."""

    def verify(self, view: str) -> pa.Table:
        """The differences of a view from its recomputation, as rows with `_weight`; none when equal."""

    def to_spark(self, name: str, at: int | None = None) -> Any:
        """A Spark DataFrame over a table or view."""

    def explain(self, view: str) -> dict[str, Any]:
        """What the engine adds to a view's explanation."""

    def entries(self, view: str) -> dict[str, int] | None:
        """How many entries the maps of a view have, if that is known here."""

    @property
    def programs(self) -> Any:
        """The catalog as the programs that run see it."""

    @property
    def placement(self) -> Any:
        """Where tables and maps are on a cluster; None without one."""

    def snapshot(self) -> None:
        """Write everything up to the current epoch, and forget the log before it; a database in memory has
        no place for one."""

    def statistics(self) -> dict[str, Any]:
        """Sizes of tables, views and their state, for people."""

    def analyzed(self, view: str) -> str:
        """What maintaining a view has cost over the last batches, as text."""

    def backup(self, target: str | Path) -> int:
        """Copy the last committed epoch into a new folder, while others change the database; the epoch."""

    def close(self) -> None:
        """Release everything; a second call goes on where the first was interrupted."""


def one_by_one(engine: Engine, batches: Sequence[Batch]) -> list[Applied | Exception]:
    """`apply_all` for an engine that commits every batch by itself."""
    results: list[Applied | Exception] = []
    for batch in batches:
        try:
            results.append(engine.apply(batch))
        except Exception as error:
            results.append(error)
    return results


def check_epoch(view: str, epoch: int, oldest: int, last: int) -> None:
    """Raise unless `epoch` is among those that are kept."""
    if not oldest <= epoch <= last:
        raise EverfreshError(
            Code.HISTORY,
            f"epoch {epoch} of view '{view}' is not available: epochs {oldest} to {last} are",
            hint="options.history says how many epochs are kept"
            if epoch <= last
            else "it is not committed yet",
        )
