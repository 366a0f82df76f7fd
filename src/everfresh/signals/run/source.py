"""A reading in a pipeline: rows of a table become events, in order of time in each group, or are refused.

As docs/design/signals.md says: the watermark is the newest start less the lateness, or
what was said by punctuation; a row is late if it starts before the watermark that stood when its batch
came. Invariants: what is admitted depends on the rows and the watermark alone; a step that is taken back
leaves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Expr, Var, Vector, build, parse, satisfied, variables
from everfresh.signals import faults
from everfresh.signals.nodes import Reading
from everfresh.signals.payload import Payload, payload_of, values_of
from everfresh.signals.run.flow import END, Array, Flow, Operator
from everfresh.signals.run.keys import Keys
from everfresh.signals.run.state import Columns
from everfresh.types import BOOLEAN, from_arrow

LOW = -END


@dataclass(slots=True)
class Events:
    """Events that are admitted, or wait for the watermark."""

    slots: Array
    start: Array
    end: Array
    values: Array

    def take(self, rows: Array) -> Events:
        """Some of them."""
        return Events(self.slots[rows], self.start[rows], self.end[rows], self.values[:, rows])

    def and_(self, other: Events) -> Events:
        """These and others."""
        if not len(self.slots):
            return other
        if not len(other.slots):
            return self
        pairs = (("slots", 0), ("start", 0), ("end", 0), ("values", 1))
        return Events(
            *(np.concatenate([getattr(self, name), getattr(other, name)], axis) for name, axis in pairs)
        )


@dataclass(slots=True)
class Late:
    """Rows that came too late and were left out, by `late="drop"`; and, by `late="revise"`, the groups of
    such rows in the last step."""

    reading: Reading
    tables: tuple[pa.Table, ...] = ()
    revised: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def rows(self) -> pa.Table | None:
        """The rows, as the table has them."""
        return pa.concat_tables(self.tables) if self.tables else None

    @property
    def keys(self) -> list[Any]:
        """Their keys."""
        columns = [self._column(name) for name in self.reading.key]
        rows = zip(*columns, strict=True) if columns else ((),) * len(self.times)
        return [row[0] if len(row) == 1 else row for row in rows]

    @property
    def times(self) -> list[int]:
        """Their starts, in ticks."""
        return [t for table in self.tables for t in _times(table, self.reading).tolist()]

    def _column(self, name: str) -> list[Any]:
        return [value for table in self.tables for value in table.column(name).to_pylist()]


class Source(Operator):
    """The events of a reading."""

    def __init__(self, reading: Reading, schema: pa.Schema, keys: Keys) -> None:
        super().__init__()
        self.reading, self.keys = reading, keys
        self.payload: Payload = payload_of(schema, reading.value, reading.table)
        times = (reading.time,) if reading.timed else ()
        self.time_type = schema.field(reading.time).type if times else pa.int64()
        for name in (*times, *(() if reading.end is None else (reading.end,))):
            _check_times(schema, name, reading.table)
        self._where = None if reading.where is None else _predicate(reading.where, schema, reading.table)
        self.events = Columns(last=(np.int64, (), LOW), ended=(np.int64, (), LOW))
        self.state = (self.events,)
        self.watermark = LOW
        self.waiting = self.none
        self.late = Late(reading)
        self.newest = LOW
        self.told = LOW
        """The latest time that was told."""
        self.revises = False
        """Whether somebody computes the groups of late rows anew."""

    @property
    def needed(self) -> list[str]:
        """The columns of its table that it reads."""
        reading = self.reading
        ends = () if reading.end is None else (reading.end,)
        told = () if self._where is None else tuple(var.name for var in variables(self._where))
        times = (reading.time,) if reading.timed else ()
        return list(dict.fromkeys((*reading.key, *times, *ends, *reading.value, *told)))

    @property
    def none(self) -> Events:
        """No events."""
        empty = np.zeros(0, np.int64)
        return Events(empty, empty, empty, np.zeros((len(self.payload.names), 0), self.payload.dtype))

    # -- rows --------------------------------------------------------------------------------------

    def read(self, table: pa.Table) -> Events:
        """The rows of a batch as events; the watermark that they give is in `newest`."""
        start = _times(table, self.reading)
        if len(start):
            self.newest = max(self.newest, int(start.max()))
        events, rows = self._events(table, start)
        if len(events.start) and events.start.min() < self.watermark:
            events = self._without_late(events, table, rows)
        return events

    def pass_by(self, table: pa.Table, changed: Array) -> None:
        """Rows come whose groups are computed anew: they are judged as others, but for those that have
        changed, and time passes by them."""
        start = _times(table, self.reading)
        if not len(start):
            return
        self.newest = max(self.newest, int(start.max()))
        events, rows = self._events(table, start)
        known = changed if rows is None else changed[rows]
        late = (events.start < self.watermark) & ~known
        if late.any() and self.reading.late != "revise":
            some = np.flatnonzero(late)
            self._without_late(events.take(some), table, some if rows is None else rows[some])

    def _events(self, table: pa.Table, start: Array) -> tuple[Events, Array | None]:
        values, valid = values_of(table, self.reading.value, self.payload)
        end = self._ends(table, start)
        if self._where is not None:
            here = _satisfied(self._where, table)
            valid = here if valid is None else np.logical_and(valid, here)
        if self.reading.nan == "missing" and np.isnan(values).any():
            here = np.logical_not(np.isnan(values).any(axis=0))
            valid = here if valid is None else np.logical_and(valid, here)
        columns = [_column(table, name, self.reading.table) for name in self.reading.key]
        rows = None
        if valid is not None and not valid.all():
            rows = np.flatnonzero(valid)
            start, end, values = start[valid], end[valid], values[:, valid]
            columns = [column.filter(pa.array(valid)) for column in columns]
        return Events(self.keys.slots(columns, len(start)), start, end, values), rows

    def _ends(self, table: pa.Table, start: Array) -> Array:
        reading = self.reading
        if reading.end is None:
            return self._ends_of(start)
        column = _column(table, reading.end, reading.table)
        end = ticks(column, reading, open_ended=True)
        wrong = np.flatnonzero(end <= start)
        if len(wrong):
            raise faults.backwards(reading.table, int(start[wrong[0]]), int(end[wrong[0]]))
        return end

    def _without_late(self, events: Events, table: pa.Table, of_rows: Array | None) -> Events:
        late = events.start < self.watermark
        rows = np.flatnonzero(late)
        first = rows[0]
        if self.reading.late == "refuse" or (self.reading.late == "revise" and not self.revises):
            key = self.keys.names(events.slots[first : first + 1])[0]
            raise faults.late(self.reading, key, int(events.start[first]), self.watermark)
        if self.reading.late == "revise":
            self.late.revised = np.unique(events.slots[rows])
        else:
            left_out = table.select(self.needed).take(pa.array(rows if of_rows is None else of_rows[rows]))
            self.late.tables = (*self.late.tables, left_out)
        return events.take(np.flatnonzero(~late))

    def ready(self, events: Events) -> Events:
        """What can be admitted now that the watermark has risen; the rest waits."""
        if self.reading.lateness == 0:
            return events
        events = self.waiting.and_(events)
        now = events.start < self.watermark
        self.waiting = events.take(np.flatnonzero(~now))
        return events.take(np.flatnonzero(now))

    def rise(self, to: int | None) -> None:
        """Raise the watermark to what the rows say, or to a time that was told."""
        if self.reading.order == "table" and self.newest > LOW:
            self.watermark = max(self.watermark, self.newest - self.reading.lateness)
        if to is not None:
            self.watermark = max(self.watermark, to)
            self.told = max(self.told, to)

    # -- the step ----------------------------------------------------------------------------------

    def flow(self, slots: Array, where: Array, events: Events) -> Flow:
        """The events by group; they are checked, and remembered as the last ones."""
        from everfresh.signals.kernels import grouping

        offsets = np.zeros(len(slots) + 1, np.int64)
        if len(events.slots):
            if len(slots) == 1:
                offsets[1] = len(events.slots)
            else:
                order = np.empty(len(events.slots), np.int64)
                grouping.arrange(events.slots, where, offsets, order)
                events = self._arranged(events, order)
            if not grouping.is_ordered(offsets, events.start):
                group = np.repeat(np.arange(len(slots)), np.diff(offsets))
                events = self._arranged(events, np.lexsort((events.start, group)))
        last, ended = self.events["last"], self.events["ended"]
        if not self.reading.overlap:
            row = grouping.admit(slots, offsets, events.start, events.end, last, ended)
            if row >= 0:
                raise self._overlap(slots, offsets, events, int(row))
        progress = np.full(len(slots), self.watermark, np.int64)
        if not self.reading.overlap and self.reading.lateness == 0:
            np.maximum(progress, last[slots] + 1, out=progress)
        return Flow(offsets, events.start, events.values, progress, events.end)

    def _arranged(self, events: Events, order: Array) -> Events:
        """The events in the order of their groups, who have them now."""
        start = events.start[order]
        end = self._ends_of(start) if self.reading.end is None else events.end[order]
        return Events(events.slots[:0], start, end, events.values[:, order])

    def _ends_of(self, start: Array) -> Array:
        """The ends of events that have none of their own."""
        return start + (1 if self.reading.duration is None else self.reading.duration)

    def _overlap(self, slots: Array, offsets: Array, events: Events, row: int) -> EverfreshError:
        group = int(np.searchsorted(offsets, row, "right")) - 1
        slot = slots[group]
        first = row == offsets[group]
        before = (
            (int(self.events["last"][slot]), int(self.events["ended"][slot]))
            if first
            else (int(events.start[row - 1]), int(events.end[row - 1]))
        )
        key = self.keys.names(slots[group : group + 1])[0]
        return faults.overlap(self.reading.table, key, before, (int(events.start[row]), int(events.end[row])))


def _times(table: pa.Table, reading: Reading) -> Array:
    return ticks(_column(table, reading.time, reading.table), reading)


def _column(table: pa.Table, name: str, what: str) -> pa.Array:
    if name not in table.schema.names:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"table '{what}' has no column '{name}'",
            hint="columns are: " + ", ".join(table.schema.names),
        )
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [_no(column)])


def _no(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([], column.type)


def ticks(column: pa.Array, reading: Reading, open_ended: bool = False) -> Array:
    """Times as whole numbers of the column's own unit."""
    type_ = column.type
    if pa.types.is_timestamp(type_) or pa.types.is_date64(type_):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(type_):
        column = column.cast(pa.int32())
    if column.null_count:
        if not open_ended:
            raise EverfreshError(
                Code.NULL, f"a row of table '{reading.table}' has no time", place=f"column '{reading.time}'"
            )
        column = pc.fill_null(column.cast(pa.int64()), END)
    found: Array = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _check_times(schema: pa.Schema, name: str, table: str) -> None:
    if name not in schema.names:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"table '{table}' has no column '{name}'",
            hint="columns are: " + ", ".join(schema.names),
        )
    type_ = schema.field(name).type
    if not any(is_(type_) for is_ in (pa.types.is_timestamp, pa.types.is_date, pa.types.is_integer)):
        raise EverfreshError(
            Code.SIG_TYPE,
            f"the times of table '{table}' are {type_}: times are BIGINT, DATE or TIMESTAMP",
            place=f"column '{name}'",
            hint="cast the column, for example to TIMESTAMP",
        )


def _predicate(text: str, schema: pa.Schema, table: str) -> Expr:
    known = {each.name: from_arrow(each.type) for each in schema}
    names = {name: Var(name, type_) for name, type_ in known.items() if type_ is not None}
    try:
        found = parse(text, names, build.MAKERS)
    except EverfreshError as error:
        raise error.at(f"where= of table '{table}'") from None
    return build.cast(found, BOOLEAN)


def _satisfied(expr: Expr, table: pa.Table) -> Array:
    columns = {var.name: Vector.from_arrow(table.column(var.name), var.type) for var in variables(expr)}
    return satisfied(expr, columns, len(table))
