"""Arrays in a database on Spark: what the driver keeps of them, and the jobs of their epochs.

Of an array the driver has the schema, the placement rule and the catalog of its chunks: a commit record holds
the rows of the catalog that have changed, a snapshot all of it, and never a cell. The changes of an epoch are
run as one job, when the record is about to be written or somebody needs them before: `flush`. Workers that
refuse them refuse the epoch.

Invariant: the catalog is that of the chunks in the units at the ledger's versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import Array, read_cells, split
from everfresh.arrays.chunk import Chunk
from everfresh.arrays.domain import ARRAYS, NO_ARRAYS, Arrays, CellChange
from everfresh.arrays.execute.catalog import DEFAULT_PLACEMENT, Catalog, Entry
from everfresh.arrays.execute.explaining import Explained, options_of
from everfresh.arrays.execute.local import Measured
from everfresh.arrays.execute.staged import Step, staged
from everfresh.arrays.model import ArraySchema
from everfresh.arrays.spark.changing import CHANGE, Change, counts, pieces_of, read_entries, told_entries
from everfresh.arrays.spark.content import CHUNKS, schema_of
from everfresh.arrays.spark.laying import LaidCells, lay, read_laid
from everfresh.arrays.spark.queries import Query, Steps
from everfresh.arrays.spark.reading import changes_of, collected, frame_of
from everfresh.delta import SparkRows, read_rows
from everfresh.delta.bags import net, weigh
from everfresh.epochs import Object, Published, RowChange, Told, Undo
from everfresh.epochs.domain import Making, Sections
from everfresh.epochs.history import with_epochs
from everfresh.epochs.resident import weighted
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.program.engine import check_epoch
from everfresh.spark.host import Host
from everfresh.spark.jobs.job import Base, World
from everfresh.spark.state.ledger import Draft
from everfresh.state import pack_arrays, plain, unpack_arrays
from everfresh.types import INTERVAL, no_rows

CATALOG, ENTRIES = "array/catalog/", "array/entries/"


@dataclass(frozen=True)
class Kept:
    """What the driver knows of an array."""

    schema: ArraySchema
    identity: str
    catalog: Catalog
    placement: str = DEFAULT_PLACEMENT


@dataclass
class Changed:
    """What the record says of a batch: rows of the catalog, known when its job has run."""

    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True)
class Computed:
    """Cells that a query gives, which the workers keep as they compute them."""

    steps: tuple[Step, ...]


@dataclass
class _Pending:
    """What an epoch is to do to the units and has not yet."""

    changes: list[tuple[str, CellChange, Changed]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    computed: list[tuple[str, Computed, Changed]] = field(default_factory=list)


class ArraysOnSpark(Arrays):
    """Arrays by name, their chunks with the workers."""

    def __init__(self, history: int, host: Host) -> None:
        super().__init__(history)
        self.host = host
        self.kept_of: dict[str, Kept] = {}
        self.plan_options = options_of(host.options)
        """How joins are planned."""
        self.last: tuple[Query, Measured | None] | None = None
        """The last query that workers ran, and what was measured."""
        self._making = Making(0)
        self._pending = _Pending()

    # -- what there is -------------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self.host.folder.workers

    def about(self, name: str) -> Kept:
        """What the driver knows of an array."""
        with self.lock:
            self.expect(name)
            return self.kept_of[name]

    def schema(self, name: str) -> ArraySchema:
        """The dimensions and attributes of an array."""
        return self.about(name).schema

    def size(self, name: str) -> tuple[int, int]:
        """How many cells an array has, and how many chunks."""
        catalog = self.about(name).catalog
        return int(catalog.cells.sum()), len(catalog)

    # -- epochs --------------------------------------------------------------------------------------------

    def begin(self, making: Making) -> Any:
        """An epoch begins."""
        found = super().begin(making)
        self._making, self._pending = making, _Pending()
        return found

    def cells_of(self, given: Any, schema: ArraySchema) -> Any:
        """Cells of any kind, checked; those of a DataFrame by tasks, which lay them down for the workers."""
        if not (type(given).__module__.startswith("pyspark.sql") and hasattr(given, "mapInArrow")):
            return super().cells_of(given, schema)
        rows = read_rows(given, schema.table, what=f"array '{schema.name}'", op="insert")
        assert isinstance(rows, SparkRows)
        return lay(self.host.runner, self._version()[0], rows, schema)

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make or drop an array."""
        if isinstance(statement, aql.CreateView | aql.DropView):
            raise EverfreshError(
                Code.UNSUPPORTED,
                "array views are kept by the local engine",
                hint="connect with engine='local'",
            )
        before = dict(self.kept_of)

        def undo() -> None:
            self.kept_of = before

        if isinstance(statement, aql.DropArray):
            gone = self.about(statement.name)
            self.kept_of = {n: known for n, known in before.items() if n != statement.name}
            if len(gone.catalog):
                self._pending.dropped.append(gone.identity)
            return statement.name, undo
        schema: ArraySchema = statement.schema
        made = Kept(schema, f"{schema.name}@{self._making.epoch}", Catalog.empty(schema), statement.placement)
        self.kept_of = {**before, schema.name: made}
        return self.defined(statement), undo

    def make(
        self, name: str, own: Any, inputs: Mapping[str, Published]
    ) -> tuple[Any, Published | None, Undo]:
        """Change an array: by cells, when the job is run; or as a record says."""
        before = self.kept_of[name]

        def undo() -> None:
            self.kept_of[name] = before

        if isinstance(own, Changed):
            self._take(name, own.entries)
            return own, None, undo
        kept = Changed()
        if isinstance(own, Computed):
            self._pending.computed.append((name, own, kept))
            return kept, None, undo
        own = self.followed(name, own, inputs)
        self._pending.changes.append((name, own, kept))
        if not own.inserts.num_rows and not own.deletes.num_rows:
            return kept, None, undo
        schema, root = before.schema, self.host.folder.root

        def change() -> pa.Table:
            came, went = (
                read_laid(str(root), cells.files, schema, None) if isinstance(cells, LaidCells) else cells
                for cells in (own.inserts, own.deletes)
            )
            return net(pa.concat_tables([weigh(came), weigh(went, -1)]))

        return kept, RowChange(change), undo

    def _take(self, name: str, entries: Sequence[Entry]) -> None:
        known = self.kept_of[name]
        self.kept_of[name] = replace(known, catalog=known.catalog.after(list(entries)))

    def flush(self) -> None:
        """Run the jobs of what the epoch has asked for so far."""
        pending, draft = self._pending, self._making.draft
        if draft is None:
            return
        if pending.changes or pending.dropped:
            self._change(pending, draft)
        for name, computed, kept in pending.computed:
            with Steps(self, draft, computed.steps) as steps:
                answered = steps.last(steps.first(), self.kept_of[name].identity)
            self.last = steps.ran[-1]
            kept.entries[:] = answered.entries
            self._take(name, kept.entries)
        self._pending = _Pending()

    def _change(self, pending: _Pending, draft: Any) -> None:
        """Run the job of cells that come and go."""
        changes: list[Change] = []
        for name, change, _ in pending.changes:
            known = self.kept_of[name]
            cells: dict[int, int] = {}
            for rows in (change.inserts, change.deletes):
                for number, count in counts(rows, known.schema).items():
                    cells[number] = cells.get(number, 0) + count
            homes = known.catalog.homes(cells, self.workers, known.placement)
            changes.append((known.identity, known.schema.ddl, homes, change.inserts, change.deletes))
        job = draft.job("array", pieces=pieces_of(changes, pending.dropped, self.workers))
        answers = self.host.runner.run(job, CHANGE)
        draft.add(answers.controls)
        found = read_entries(answers.gathered)
        for name, _, kept in pending.changes:
            kept.entries[:] = found.get(self.kept_of[name].identity, ())
            self._take(name, kept.entries)

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Any]]) -> Told:
        """Statements as their text, and what the catalogs say of the chunks that have changed."""
        self.flush()
        told: dict[str, dict[int, Entry]] = {}
        for name, change in changes:
            told.setdefault(name, {}).update({one[0]: one for one in change.entries})
        sections = {ENTRIES + n: told_entries({"": list(some.values())}) for n, some in told.items()}
        return Told(tuple(map(str, statements)), sections)

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Any]]]:
        """The inverse of `encode`."""
        found = [
            (name.removeprefix(ENTRIES), Changed(read_entries([bytes(data)]).get("", [])))
            for name, data in sections.items()
            if name.startswith(ENTRIES)
        ]
        return [parse(text) for text in ddl], found

    # -- the past is in the segments -----------------------------------------------------------------------

    def remember(self, epoch: int, published: dict[str, Published]) -> None:
        """Segments have it."""

    def forget(self, created: Mapping[str, int]) -> None:
        """Segments go with the log."""

    def oldest(self, name: str) -> int:
        """The earliest epoch at which an object can be read."""
        ledger = self.host.ledger()
        return max(0, ledger.epoch - self.kept, self.host.folder.commits.first() - 1)

    def rows_at(self, found: Object, at: int) -> pa.Table:
        """The rows of an array at an earlier epoch."""
        return self._rows(found.name, at)

    def changes_of(self, found: Object, since: int | None) -> pa.Table:
        """An array's change of each epoch after `since`."""
        oldest = self.oldest(found.name)
        since = oldest if since is None else since
        check_epoch(found.name, since, oldest, max(self.epoch, oldest))
        world, bases = self._version()
        known = self.kept_of[found.name]
        parts = changes_of(world, bases, known.identity, known.schema, since)
        epochs: dict[int, list[pa.Table]] = {}
        for epoch, table in parts:
            epochs.setdefault(epoch, []).append(table)
        both = [(epoch, net(pa.concat_tables(tables))) for epoch, tables in sorted(epochs.items())]
        return with_epochs(both, weighted(no_rows(known.schema.arrow)))

    # -- reading -------------------------------------------------------------------------------------------

    def _version(self) -> tuple[World, tuple[Base, ...]]:
        """What tasks are told of the units as they are committed."""
        ledger = self.host.ledger()
        with ledger.lock:
            bases = tuple(ledger.bases[f"{CHUNKS.name}/{worker}"] for worker in range(self.workers))
            return ledger.world(ledger.epoch), bases

    def _rows(self, name: str, at: int | None = None) -> pa.Table:
        known = self.kept_of[name]
        world, bases = self._version()
        rows = collected(self.host.session, world, bases, (known.identity, known.schema.ddl), at)
        return Chunk.of(rows, known.schema.ndim).table

    def frame(self, name: str, at: int | None, session: Any) -> Any:
        """The cells of an array as a DataFrame, which reads the units where they are."""
        with self.lock:
            found = self.expect(name)
            if at is not None:
                check_epoch(name, at, max(self.oldest(name), found.created), self.host.ledger().epoch)
            known = self.kept_of[name]
            if any(column.type == INTERVAL for column in known.schema.columns):
                return None
            return frame_of(session, *self._version(), (known.identity, known.schema.ddl), at)

    def rows(self, name: str) -> pa.Table:
        """The cells of an array in row-major order, collected."""
        return self._rows(name)

    def array(self, name: str) -> Array:
        """The value of an array now, collected."""
        with self.lock:
            schema = self.schema(name)
            chunks = {n: Chunk.of(rows, schema.ndim) for n, rows in split(self._rows(name), schema).items()}
        return Array(schema, chunks)

    def all(self) -> Mapping[str, Array]:
        """The values of all arrays at one epoch, collected when they are asked for."""
        return cast("Mapping[str, Array]", Collected(self, tuple(self.objects)))

    def statistics(self) -> dict[str, Any]:
        """Cells, chunks and bytes of each array, and what the catalog takes here."""
        with self.lock:
            return {
                name: {
                    "cells": int(known.catalog.cells.sum()),
                    "chunks": len(known.catalog),
                    "bytes": int(known.catalog.bytes.sum()),
                    "catalog bytes": known.catalog.nbytes,
                    "placement": known.placement,
                }
                for name, known in self.kept_of.items()
            }

    def verify(self, name: str) -> pa.Table:
        """The rows of chunks that are not as the catalog says: none."""
        with self.lock:
            known = self.about(name)
            catalog, (world, bases) = known.catalog, self._version()
            expected = []
            for worker in range(self.workers):
                mine = catalog.home == worker
                expected.append(
                    dict(zip(catalog.number[mine].tolist(), catalog.cells[mine].tolist(), strict=True))
                )
            array = (known.identity, known.schema.ddl)
            return weigh(collected(self.host.session, world, bases, array, None, tuple(expected)), -1)

    def explain(self, name: str, format: str = "text") -> str:
        """What the array is, and who keeps it."""
        known = self.about(name)
        catalog = known.catalog
        shares = [f"{known.schema.ddl}", f"{int(catalog.cells.sum())} cells in {len(catalog)} chunks"]
        shares[-1] += f", placed {known.placement}"
        for worker in range(self.workers):
            mine = catalog.home == worker
            shares.append(
                f"worker {worker}: {int(mine.sum())} chunks, {int(catalog.cells[mine].sum())} cells, "
                f"{int(catalog.bytes[mine].sum())} bytes"
            )
        return "\n".join(shares)

    # -- queries -------------------------------------------------------------------------------------------

    def _steps(self, statement: aql.Statement) -> tuple[Step, ...] | None:
        """The statement as workers run it, if they do."""
        return staged(statement, {name: known.schema for name, known in self.kept_of.items()})

    def answer(self, statement: aql.Statement, others: Mapping[str, Array] = NO_ARRAYS) -> pa.Table:
        """The rows that a query gives, computed by the workers; those of an array in row-major order."""
        with self.lock:
            found = self._steps(statement) if not others else None
            if found is None:
                return super().answer(statement, others)
            with Steps(self, Draft(self.host.ledger()), found) as steps:
                answered = steps.last(steps.first())
            self.last = steps.ran[-1]
        work = found[-1].work
        if work.result is None:
            return answered.rows
        return Chunk.of(read_cells(answered.rows, work.result), work.result.ndim).table

    def computed(self, query: aql.Query, others: Mapping[str, Array] = NO_ARRAYS) -> tuple[ArraySchema, Any]:
        """What INTO keeps: its schema, and the change that fills it."""
        found = self._steps(query) if not others else None
        if found is None or found[-1].work.result is None:
            return super().computed(query, others)
        return found[-1].work.result, Computed(found)

    def explained(self, statement: aql.Statement, run: bool = False, options: Options | None = None) -> str:
        """How a query is run: the plan of its join, and if it is to be `run` what was measured."""
        with self.lock:
            schemas = {name: known.schema for name, known in self.kept_of.items()}
            found = self._steps(statement)
            if found is None:
                return Explained.of(statement, schemas).text
            told = [Explained(step.statement, step.work) for step in found]
            with Steps(self, Draft(self.host.ledger()), found) as steps:
                if run:
                    steps.last(steps.first())
                    for one, (query, measured) in zip(told, steps.ran, strict=True):
                        one.plan, one.measured = query.plan, measured
                else:
                    for one, step in zip(told, found, strict=True):
                        one.later = any(source.name not in schemas for source in step.work.sources)
                        one.plan = None if one.later else steps.planned(step).plan
            return "\n".join(one.text for one in told)

    # -- snapshots -----------------------------------------------------------------------------------------

    def to_sections(self) -> dict[str, Any]:
        """Everything that the driver knows."""
        with self.lock:
            if not self.objects:
                return {}
            told = [
                [
                    str(aql.CreateArray(known.schema, known.placement, source=self.sources.get(name, ""))),
                    self.objects[name].created,
                    known.identity,
                ]
                for name, known in self.kept_of.items()
            ]
            sections: dict[str, Any] = {ARRAYS: json.dumps(told).encode()}
            for name, known in self.kept_of.items():
                sections[CATALOG + name] = pack_arrays(known.catalog.to_arrays())
            return sections

    def restore(self, sections: Sections) -> None:
        """Take what a snapshot has."""
        self.kept_of, objects = {}, {}
        for text, created, identity in (
            plain(sections[ARRAYS], "the arrays of a database") if sections else ()
        ):
            statement = cast("aql.CreateArray", parse(text))
            schema = schema_of(statement.schema.ddl)
            catalog = Catalog.from_arrays(schema, unpack_arrays(sections[CATALOG + schema.name]))
            self.kept_of[schema.name] = Kept(schema, identity, catalog, statement.placement)
            objects[schema.name] = self.defined(statement, created)
        self.objects = objects


class Collected(Mapping[str, Array]):
    """Arrays by name, each collected when it is asked for."""

    def __init__(self, domain: ArraysOnSpark, names: tuple[str, ...]) -> None:
        self._domain, self._names = domain, names
        self._found: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._found:
            self._found[name] = self._domain.array(name)
        return self._found[name]

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
