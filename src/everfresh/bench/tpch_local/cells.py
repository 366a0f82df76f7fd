"""One cell: a query maintained in one way over a stream in batches of one size.

A cell that would take too long is measured in windows: the stream is cut into parts, each is measured from
its start for its share of the time, and the rest runs untimed in large batches, so that small and large
states are both in the figure. Batches are made, and taken from the generated data, outside the measured time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from everfresh.bench.tpch_local.events import Batches, Events
from everfresh.local.jit import background
from everfresh.types import TableSchema, quoted
from everfresh.workloads import WORKLOADS, Query

WINDOWS = 4
SKIPPED = 100_000
"""The batch size of untimed parts."""
WARMING = (1, 50, 1_000, 10_000, 10_000)
"""Batches that run before anything is measured: kernels for small and large maps are loaded then."""
INSIDE = ("statements", "maps", "relations", "publish", "commit")
"""The phases that are the work of a view on a batch that has been converted (`everfresh.local.phases`)."""


class Took(NamedTuple):
    """Seconds on the clock, and of the processor."""

    seconds: float
    cpu: float


def clocked(fn: Callable[[], Any], clock: str = "wall") -> Took:
    """The time of one call; by the clock `processor`, only that of the processor."""
    cpu, started = time.process_time(), time.perf_counter()
    fn()
    wall, busy = time.perf_counter() - started, time.process_time() - cpu
    return Took(busy if clock == "processor" else wall, busy)


class Subject(Protocol):
    """What keeps a query fresh."""

    def prepare(self, batch: Batches) -> Any:
        """A batch in the form that `apply` takes; not measured."""

    def apply(self, prepared: Any) -> Took:
        """Apply a batch; returns the time that counts."""

    def skip(self, prepared: Any) -> None:
        """Apply a batch that is not measured."""

    def phases(self) -> dict[str, float]:
        """Seconds by phase so far, where it is known."""

    def sizes(self) -> dict[str, Any]:
        """Memory and what it consists of."""

    def close(self) -> None:
        """Release everything."""


@dataclass(slots=True)
class Cell:
    """What one cell measured."""

    query: str
    stream: str
    how: str
    size: int
    tuples: int = 0
    """How many were measured."""
    batches: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    """Of these, the seconds that this process had a processor: fewer where other work disturbs the run."""
    reached: float = 0.0
    """How much of the stream was run, measured or not."""
    longest: float = 0.0
    """Seconds of the longest batch."""
    phases: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Tuples per second through `db.apply`, or as the peer is called."""
        return self.tuples / self.seconds if self.seconds else 0.0

    @property
    def inside(self) -> float:
        """Tuples per second of the view's own work on converted batches; all of it where that is unknown."""
        spent = sum(self.phases.get(name, 0.0) for name in INSIDE)
        return self.tuples / spent if spent else self.rate

    @property
    def upkeep(self) -> float:
        """Tuples per second of all work after conversion. Unlike `inside` it has the rows of base tables and
        their slices, which is where first-order strategies keep what they read."""
        spent = sum(self.phases.get(name, 0.0) for name in (*INSIDE, "tables"))
        return self.tuples / spent if spent else self.rate

    @property
    def called(self) -> float:
        """Tuples per second of statements, maps and relations alone: what a trigger is."""
        spent = sum(self.phases.get(name, 0.0) for name in ("statements", "maps", "relations"))
        return self.tuples / spent if spent else self.rate

    def to_json(self) -> dict[str, Any]:
        """Everything, with both rates."""
        names = list(self.__dataclass_fields__)
        return {**{name: getattr(self, name) for name in names}, "rate": self.rate, "inside": self.inside}


def measure(cell: Cell, subject: Subject, events: Events, seconds: float, patience: float) -> Cell:
    """Run the stream through `subject`: at most `seconds` measured, and `patience` times that in all."""
    began, at, total = time.perf_counter(), 0, len(events)
    done = dict.fromkeys(subject.phases(), 0.0)
    for window in range(WINDOWS):
        end = total * (window + 1) // WINDOWS
        share = seconds * (window + 1) / WINDOWS
        before = subject.phases()
        while at < end and (cell.seconds < share or not cell.batches):
            high = min(at + cell.size, total)
            prepared = subject.prepare(events.batch(at, high))
            took = subject.apply(prepared)
            cell.seconds, cell.cpu = cell.seconds + took.seconds, cell.cpu + took.cpu
            cell.longest = max(cell.longest, took.seconds)
            cell.tuples, cell.batches, at = cell.tuples + high - at, cell.batches + 1, high
            if time.perf_counter() - began > patience * seconds:
                break
        after = subject.phases()
        done = {name: done[name] + after[name] - before[name] for name in done}
        for reached, batch in events.batches(at, end, SKIPPED):
            if time.perf_counter() - began > patience * seconds:
                break
            subject.skip(subject.prepare(batch))
            at = reached
        if at < end:
            break
    cell.phases, cell.sizes, cell.reached = done, subject.sizes(), at / total
    return cell


# -- everfresh -------------------------------------------------------------------------------------


class Everfresh:
    """A view of a database without a folder, over empty tables at first."""

    def __init__(
        self,
        query: Query,
        tables: Mapping[str, pa.Table],
        mode: str,
        compile: str = "background",
        clock: str = "wall",
    ) -> None:
        import everfresh

        self._clock = clock
        self._by_row = compile == "by row"
        self._now = self._by_row or compile == "now"

        self.db = everfresh.connect(
            engine="local",
            options=everfresh.Options(
                timing="processor" if clock == "processor" else True,
                history=1,
                durable=False,
                compile="now" if self._now else compile,
            ),
        )
        for name in tables:
            self.db.sql(WORKLOADS[query.workload].tables[name])
        self._query, self._mode = query, mode

    def create(self) -> Everfresh:
        """Make the view."""
        self.db.sql(view_ddl(self._query, self._mode))
        if self._now:
            self.compile()
        return self

    def compile(self) -> None:
        """Compile all triggers, as a stream of some seconds would have."""
        self.db._engine.compile(by_row=self._by_row)  # type: ignore[attr-defined]

    def prepare(self, batch: Batches) -> Any:
        """Arrow tables with all columns, as a user would give them."""
        from everfresh import Delta

        return {
            name: part.inserts
            if not part.deletes.num_rows
            else Delta(deletes=part.deletes)
            if not part.inserts.num_rows
            else Delta(inserts=part.inserts, deletes=part.deletes)
            for name, part in batch.items()
        }

    def apply(self, prepared: Any) -> Took:
        """The time of `db.apply`."""
        return clocked(lambda: self.db.apply(prepared), self._clock)

    def skip(self, prepared: Any) -> None:
        """The same, untimed."""
        self.db.apply(prepared)

    def phases(self) -> dict[str, float]:
        """Of the engine."""
        found: dict[str, float] = self.db.statistics()["seconds"]
        return found

    def sizes(self) -> dict[str, Any]:
        """Bytes of tables, maps, slices and strings, and how many maps there are."""
        known = self.db.statistics()
        tables, maps = known["tables"], {**known["views"], **known["maps beside them"]}
        held = [*tables.values(), *maps.values()]
        found = {
            "tables": sum(one["bytes"] for one in tables.values()),
            "maps": sum(one["bytes"] for one in maps.values()),
            "slices": sum(one["slice_bytes"] for one in held),
            "strings": known["strings"]["bytes"],
        }
        return {
            "bytes": sum(found.values()),
            **found,
            "number of maps": len(maps),
            "by map": {name: one["bytes"] + one["slice_bytes"] for name, one in maps.items()},
        }

    def close(self) -> None:
        """Close the database."""
        self.db.close()


def view_ddl(query: Query, mode: str) -> str:
    """The statement that makes the view of a query, maintained by `mode`."""
    return f"CREATE MATERIALIZED VIEW {query.view} WITH (strategy = '{mode}') AS {query.text}"


# -- DuckDB ----------------------------------------------------------------------------------------


class DuckDB:
    """The query run again after each batch, by one thread; only the query is measured, not the change."""

    def __init__(
        self,
        text: str,
        tables: Mapping[str, pa.Table],
        schemas: Mapping[str, TableSchema],
        clock: str = "wall",
    ) -> None:
        import duckdb

        self._clock = clock
        self.con: Any = duckdb.connect()
        self.con.execute("SET threads = 1")
        self._text, self._schemas = text, schemas
        for name, rows in tables.items():
            self._with(rows.slice(0, 0), f"CREATE TABLE {quoted(name)} AS SELECT * FROM given")

    def _with(self, rows: pa.Table, text: str) -> None:
        self.con.register("given", rows)
        self.con.execute(text)
        self.con.unregister("given")

    def prepare(self, batch: Batches) -> Any:
        """As it is."""
        return batch

    def apply(self, prepared: Any) -> Took:
        """The time of the query."""
        self.skip(prepared)
        return self.recompute(self._text)

    def recompute(self, text: str) -> Took:
        """The time of a query, its result as an Arrow table."""
        return clocked(lambda: self.con.sql(text).to_arrow_table(), self._clock)

    def skip(self, prepared: Any) -> None:
        """Change the tables: insert, then delete by the key."""
        for name, part in prepared.items():
            if part.inserts.num_rows:
                self._with(part.inserts, f"INSERT INTO {quoted(name)} SELECT * FROM given")
            if part.deletes.num_rows:
                key = self._schemas[name].key
                same = " AND ".join(f"{quoted(name)}.{quoted(c)} = given.{quoted(c)}" for c in key)
                self._with(part.deletes, f"DELETE FROM {quoted(name)} USING given WHERE {same}")

    def phases(self) -> dict[str, float]:
        """Not known."""
        return {}

    def sizes(self) -> dict[str, Any]:
        """Not asked."""
        return {}

    def close(self) -> None:
        """Close the connection."""
        self.con.close()


def warm(make: Callable[[], Subject], events: Events) -> None:
    """Run the beginning of a stream, so that kernels are compiled before anything is measured."""
    subject = make()
    try:
        at = 0
        for size in WARMING:
            subject.apply(subject.prepare(events.batch(at, at + size)))
            at += size
        background.join()
    finally:
        subject.close()
