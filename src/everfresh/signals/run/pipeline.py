"""A query that runs over batches: each step takes rows and times, and gives what has become final.

A step advances the groups that got rows and those whose deadlines time has reached; others cost nothing. It
ends by `commit` or `rollback`. Invariants: after any steps the rows given so far are the outputs that are
final by the rows and watermarks so far, with the same bits however they were cut into steps; a step that is
taken back, or that fails, leaves the state before it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.rewrite import Node
from everfresh.signals import faults
from everfresh.signals.kinds import UNIFORM, WINDOWED, kind_of
from everfresh.signals.plan import Plan
from everfresh.signals.run.flow import END, NEVER, Array, Flow, Step
from everfresh.signals.run.keys import Keys
from everfresh.signals.run.source import LOW, Events, Source
from everfresh.signals.run.timers import Timers

_NONE = np.zeros(0, np.int64)


class Pipeline:
    """A query over tables with these schemas. `undo=False` gives up `rollback`, for a run that is thrown away
    when it fails; `hold` keeps watermarks down until `finish`."""

    def __init__(
        self,
        query: Node,
        schemas: Mapping[str, pa.Schema],
        options: Options | None = None,
        undo: bool = True,
        hold: bool = False,
    ) -> None:
        self.query, self._schemas, self._options = query, dict(schemas), options or Options()
        self._plan = Plan(query, schemas, self._options)
        self._undo, self._hold = undo, hold
        self._timers = {at: Timers(self._width()) for at in self._plan.sources}
        self._where = np.full(0, -1, np.int64)
        self._back: list[Any] | None = None
        self._gathered: list[tuple[Array, Flow]] | None = None
        self._waits = [i for i, op in enumerate(self._operators) if _has_due(op)]

    def _width(self) -> int:
        kind = kind_of(self.query)
        return max(1, kind.period // 4) if kind.name in (UNIFORM, WINDOWED) else 1

    @property
    def _operators(self) -> list[Any]:
        return self._plan.operators

    @property
    def sources(self) -> tuple[Source, ...]:
        """The readings."""
        return tuple(self._plan.sources.values())

    @property
    def watermarks(self) -> dict[str, int]:
        """How far the time of each table has come."""
        return {s.reading.table: s.watermark for s in self.sources if s.reading.timed}

    # -- steps -------------------------------------------------------------------------------------

    def step(
        self,
        batch: Mapping[str, pa.Table] | None = None,
        advance: Mapping[str, int | None] | None = None,
        beside: Mapping[str, Sequence[tuple[pa.Table, Array]]] | None = None,
        newest: Sequence[int] | None = None,
    ) -> pa.Table:
        """Take rows of tables, and times that tables have reached (None: their end); the rows that became
        final. Take it back by `rollback`, or make it last by `commit`. Rows `beside` are of groups that will
        be computed anew, for each reading of a table, and which of them are changes of others. `newest` are
        for each reading the newest starts among rows that others take."""
        if self._back is not None:
            raise EverfreshError(Code.ARGUMENT, "the last step was neither committed nor rolled back")
        self._back = []
        for name in (*(batch or {}), *(advance or {})):
            if name not in self._schemas:
                self._back = None
                raise EverfreshError(
                    Code.NOT_FOUND, f"no reading of this signal is of table '{name}'",
                    hint="its tables are: " + ", ".join(self.watermarks),
                )  # fmt: skip
        try:
            return self._step(batch or {}, advance or {}, beside or {}, newest)
        except BaseException:
            if self._undo:
                self.rollback()
            raise

    def _step(
        self,
        batch: Mapping[str, pa.Table],
        advance: Mapping[str, int | None],
        beside: Mapping[str, Sequence[tuple[pa.Table, Array]]],
        newest: Sequence[int] | None,
    ) -> pa.Table:
        events: dict[int, Events] = {}
        self._keep(len(self._plan.keys), [self._scalars(source) for source in self.sources])
        for source in self.sources:
            source.late.revised = _NONE
        for number, (at, source) in enumerate(self._plan.sources.items()):
            table = batch.get(source.reading.table)
            for rows, changed in beside.get(source.reading.table, ()):
                source.pass_by(rows, changed)
            read = source.read(table) if table is not None and len(table) else source.none
            if newest is not None:
                source.newest = max(source.newest, newest[number])
            if not self._hold or source.reading.overlap or source.reading.lateness:
                name = source.reading.table
                source.rise(None if name not in advance else END if advance[name] is None else advance[name])
            events[at] = source.ready(read)
        due = [timers.passed(self._plan.sources[at].watermark) for at, timers in self._timers.items()]
        self._keep(due)
        return self._run(events, due)

    def gather(self) -> list[tuple[Array, Flow]]:
        """From now on steps give no rows, but put them here: slots, and the run of each."""
        self._gathered = []
        return self._gathered

    def rows_of(self, flow: Flow) -> pa.Table:
        """Rows of all groups as a table."""
        return self._table(np.arange(self.groups), flow)

    def finish(self, slots: Array) -> pa.Table:
        """The end of data for some groups: what was held back of them."""
        for source in self.sources:
            source.watermark = END
        events = {at: source.ready(source.none) for at, source in self._plan.sources.items()}
        return self._run(events, [slots])

    def _run(self, events: Mapping[int, Events], due: list[Array]) -> pa.Table:
        count = len(self._plan.keys)
        for each in (*(kept for op in self._operators for kept in op.state), *self._timers.values()):
            each.grow(count)
        if len(self._where) < count:
            self._where = np.full(max(count, 3 * len(self._where) // 2), -1, np.int64)
        slots = self._groups([each.slots for each in events.values()] + due)
        try:
            with np.errstate(all="ignore"):  # NaN and Inf are values
                return self._advance(slots, count, events)
        finally:
            self._where[slots] = -1

    def _groups(self, parts: list[Array]) -> Array:
        from everfresh.signals.kernels import grouping

        parts = [part for part in parts if len(part)]
        if not parts:
            return _NONE
        if len(self._plan.keys) == 1:
            self._where[0] = 0
            return np.zeros(1, np.int64)
        found = np.empty(min(sum(map(len, parts)), len(self._plan.keys)), np.int64)
        n = 0
        for part in parts:
            n = grouping.positions(part, self._where, found, n)
        return found[:n]

    def _advance(self, slots: Array, count: int, events: Mapping[int, Events]) -> pa.Table:
        step = Step(slots, count)
        if not len(slots):
            return self._table(slots, None)
        if self._undo and self._back is not None:
            due = [timers.of(slots) for timers in self._timers.values()]
            saved = [(kept, kept.save(slots)) for op in self._operators for kept in op.state]
            self._back += [slots, due, saved]
        flows: list[Flow] = []
        for at, operator in enumerate(self._operators):
            if at in self._plan.sources:
                flows.append(self._plan.sources[at].flow(slots, self._where, events[at]))
            else:
                flows.append(operator.step(step, [flows[i] for i in operator.inputs]))
        self._set_timers(slots)
        if self._gathered is not None:
            self._gathered.append((slots, flows[self._plan.result.at]))
            return self.nothing
        return self._table(slots, flows[self._plan.result.at])

    def _set_timers(self, slots: Array) -> None:
        """When each group has something to do without rows, by the watermark of each reading."""
        if self._hold or not self._waits:
            return
        found = {at: np.full(len(slots), NEVER, np.int64) for at in self._timers}

        def back(at: int, progress: Array) -> None:
            if at in found:  # what has passed already is no reason to wait less for the rest
                passed = progress <= self._plan.sources[at].watermark
                np.minimum(found[at], np.where(passed, NEVER, progress), out=found[at])
                return
            operator = self._operators[at]
            for side, below in enumerate(operator.inputs):
                needed = operator.when(slots, progress, side)
                back(below, np.where(progress >= NEVER, NEVER, needed))

        for at in self._waits:
            operator = self._operators[at]
            for side in operator.due_sides:
                back(operator.inputs[side], operator.due(slots))
        for at, due in found.items():
            self._timers[at].set(slots, due)

    # -- taking back -------------------------------------------------------------------------------

    def _scalars(self, source: Source) -> tuple[Any, ...]:
        return source, source.watermark, source.told, source.newest, source.waiting, source.late.tables

    def _keep(self, *what: Any) -> None:
        if self._back is not None:
            self._back += what

    def commit(self) -> None:
        """The last step stays."""
        self._back = None

    def rollback(self) -> None:
        """Take the last step back."""
        self.taking_back()()

    def taking_back(self) -> Callable[[], None]:
        """What takes the last step back, which stays unless it is called; later steps are taken back
        first."""
        back, self._back = self._back, None
        if back is None or not self._undo:
            raise EverfreshError(Code.ARGUMENT, "there is no step to take back")
        return partial(self._take_back, back)

    def _take_back(self, back: list[Any]) -> None:
        if len(back) > 3:
            slots, due, saved = back[3:]
            for kept, rows in saved:
                kept.restore(slots, rows)
            for timers, old in zip(self._timers.values(), due, strict=True):
                timers.set(slots, old)
        for timers, slots in zip(self._timers.values(), back[2] if len(back) > 2 else (), strict=False):
            timers.set(slots, timers.of(slots))
        if back:
            self._plan.keys.forget(back[0])
            for source, watermark, told, newest, waiting, late in back[1]:
                source.watermark, source.told, source.newest = watermark, told, newest
                source.waiting = waiting
                source.late.tables = late

    # -- groups computed anew ------------------------------------------------------------------------

    def revising(self) -> Pipeline:
        """Say that groups of late rows will be computed anew by `revise`."""
        for source in self.sources:
            source.revises = True
        return self

    def of_rows(self, rows: Mapping[str, pa.Table], marks: Mapping[int, int]) -> pa.Table:
        """A pipeline that has done nothing takes all rows of some groups at once, whatever their order, and
        watermarks by the place of the reading; what is final by them."""
        events: dict[int, Events] = {}
        for at, source in self._plan.sources.items():
            read = source.read(rows[source.reading.table])
            source.watermark = marks[at]
            source.newest = max(source.newest, LOW)
            events[at] = source.ready(read)
        return self._run(events, [])

    @property
    def marks(self) -> dict[int, int]:
        """Watermarks by the place of the reading."""
        return {at: source.watermark for at, source in self._plan.sources.items()}

    def rise(self, marks: Mapping[int, int]) -> pa.Table:
        """A step without rows, to these watermarks by the place of the reading."""
        self._back = []
        self._keep(len(self._plan.keys), [self._scalars(source) for source in self.sources])
        for at, source in self._plan.sources.items():
            source.watermark = max(source.watermark, marks[at])
        due = [timers.passed(self._plan.sources[at].watermark) for at, timers in self._timers.items()]
        self._keep(due)
        return self._run({at: source.ready(source.none) for at, source in self._plan.sources.items()}, due)

    def revise(self, slots: Array, other: Pipeline, theirs: Array) -> Callable[[], None]:
        """These groups are as those of another pipeline of the same query; what takes that back."""
        count, others = len(self._plan.keys), len(other._plan.keys)
        own = np.full(others, -1, np.int64)
        own[theirs] = slots
        undo: list[Callable[[], None]] = []
        for mine, made in zip(self._operators, other._operators, strict=True):
            for kept, new in zip(mine.state, made.state, strict=True):
                kept.grow(count)
                new.grow(others)
                undo.append(partial(kept.restore, slots, kept.save(slots)))
                kept.restore(slots, new.save(theirs))
        for at, timers in self._timers.items():
            timers.grow(count)
            other._timers[at].grow(others)
            undo.append(partial(timers.set, slots, timers.of(slots)))
            timers.set(slots, other._timers[at].of(theirs))
        for at, source in self._plan.sources.items():
            before, new = source.waiting, other._plan.sources[at].waiting
            undo.append(partial(setattr, source, "waiting", before))
            rest = before.take(np.flatnonzero(~np.isin(before.slots, slots)))
            new = new.take(np.flatnonzero(own[new.slots] >= 0))
            source.waiting = rest.and_(Events(own[new.slots], new.start, new.end, new.values))

        def take_back() -> None:
            while undo:
                undo.pop()()

        return take_back

    # -- rows --------------------------------------------------------------------------------------

    def _table(self, slots: Array, flow: Flow | None) -> pa.Table:
        plan, kind = self._plan, kind_of(self.query)
        made = plan.result
        if flow is None:
            frames = (1, 0, made.width) if kind.name == WINDOWED else (made.width, 0)
            flow = Flow(np.zeros(1, np.int64), _NONE, np.zeros(frames, made.dtype), _NONE, _NONE)
        keys = plan.keys.columns(slots, np.diff(flow.offsets))
        columns: dict[str, Any] = dict(zip(plan.key_names, keys, strict=True))
        type_ = next(iter(plan.sources.values())).time_type
        at = flow.at
        if kind.name == UNIFORM:
            at = at if (kind.period, kind.offset) == (1, 0) else at * kind.period + kind.offset
        elif kind.name == WINDOWED:
            at = (at + kind.moved) * kind.period + kind.offset
        columns[plan.time_name] = as_time(at, type_)
        if kind.name not in (UNIFORM, WINDOWED) and not made.points:
            assert flow.end is not None
            columns["end"] = as_time(flow.end, type_)
        if kind.name == WINDOWED:
            columns.update(made.payload.arrays(flow.values[0]))
        else:
            columns.update(made.payload.columns(flow.values))
        return pa.table(columns)

    @property
    def nothing(self) -> pa.Table:
        """No rows, with the columns of the result."""
        return self._table(_NONE, None)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key columns of the result."""
        return self._plan.key_names

    @property
    def time_name(self) -> str:
        """The column of times of the result."""
        return self._plan.time_name

    def slots_of(self, table: pa.Table, names: Sequence[str] | None = None) -> Array:
        """The slots of rows by their key columns, those of the result if no others are named."""
        columns = [_whole(table.column(name)) for name in (self._plan.key_names if names is None else names)]
        return self._plan.keys.slots(columns, len(table))

    def keys_of(self, slots: Array) -> pa.Table:
        """The keys of slots, by their names in the result."""
        return pa.table(dict(zip(self._plan.key_names, self._plan.keys.columns(slots), strict=True)))

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self._plan.keys)

    # -- the state ---------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Memory of the state."""
        kept = sum(each.bytes for op in self._operators for each in op.state)
        timers: int = sum(each.bytes for each in self._timers.values())
        return int(kept) + timers + self._plan.keys.bytes

    def check_memory(self) -> None:
        """Refuse a state that is larger than the options allow."""
        most = self._options.signal_memory
        if self.size > most:
            raise faults.state(self.groups, self.size // max(1, self.groups), most)

    def encode(self) -> dict[str, bytes]:
        """The state as sections of bytes."""
        sections = {"keys": _arrow(self._plan.keys.encode())}
        for i, operator in enumerate(self._operators):
            for j, kept in enumerate(operator.state):
                sections[f"state/{i}/{j}"] = _arrays(kept.encode())
        for at, timers in self._timers.items():
            sections[f"timers/{at}"] = _arrays(timers.encode())
        for at, source in self._plan.sources.items():
            waiting = source.waiting
            told = {
                "watermark": source.watermark, "told": source.told, "newest": source.newest,
            }  # fmt: skip
            if source.late.rows is not None:
                sections[f"late/{at}"] = _arrow(source.late.rows)
            sections[f"source/{at}"] = json.dumps(told).encode()
            sections[f"waiting/{at}"] = _arrays(
                {name: getattr(waiting, name) for name in ("slots", "start", "end", "values")}
            )
        return sections

    def decode(self, sections: Mapping[str, bytes]) -> None:
        """Take the state that `encode` gave, of a pipeline of the same query."""
        self._plan.keys.__dict__.update(
            Keys.decode(_read_arrow(sections["keys"])).__dict__ if self._plan.keys.types else {}
        )
        for i, operator in enumerate(self._operators):
            for j, kept in enumerate(operator.state):
                kept.decode(_read_arrays(sections[f"state/{i}/{j}"]))
        for at, timers in self._timers.items():
            timers.decode(_read_arrays(sections[f"timers/{at}"]))
        for at, source in self._plan.sources.items():
            told = json.loads(sections[f"source/{at}"])
            source.watermark, source.newest = told["watermark"], told["newest"]
            source.told = told["told"]
            late = sections.get(f"late/{at}")
            source.late.tables = () if late is None else (_read_arrow(late),)
            source.waiting = Events(**_read_arrays(sections[f"waiting/{at}"]))


def _has_due(operator: Any) -> bool:
    return bool(operator.inputs) and operator.due(_NONE) is not None


def as_time(at: Array, type_: pa.DataType) -> pa.Array:
    """Ticks as the time type of a table."""
    if pa.types.is_timestamp(type_):
        return pa.array(at, pa.int64()).cast(type_)
    if pa.types.is_date32(type_):
        return pa.array(at, pa.int64()).cast(pa.int32()).cast(type_)
    return pa.array(at, pa.int64()).cast(type_)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _arrays(arrays: Mapping[str, Array]) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, **arrays)  # type: ignore[arg-type]
    return sink.getvalue()


def _read_arrays(data: bytes) -> dict[str, Array]:
    with np.load(io.BytesIO(data)) as found:
        return {name: found[name] for name in found.files}


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _read_arrow(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
