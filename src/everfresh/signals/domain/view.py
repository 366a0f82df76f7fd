"""A signal view: its pipeline, its rows, and what a step does to them.

A step takes what came into the tables and times that were told, and adds the rows that became final. Rows
that went, and late ones by `late="revise"`, have their groups computed anew from all rows of these groups:
what differs in its bits is taken back and given anew. Invariant: the rows are those that one run over the
tables, by the same watermarks, gives; `step` and `again` return what takes them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.delta.bags import WEIGHT, net, split, weigh
from everfresh.epochs import Undo
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.rewrite import Node
from everfresh.signals import faults
from everfresh.signals.domain.bases import Groups, Moved, Tables, common, ordered, without, without_those
from everfresh.signals.domain.relational import Form
from everfresh.signals.explain import reach_of
from everfresh.signals.nodes import Reading
from everfresh.signals.payload import Array
from everfresh.signals.run.offline import piece_of
from everfresh.signals.run.pipeline import Pipeline
from everfresh.signals.run.source import LOW, Source
from everfresh.signals.run.source import ticks as ticks_of
from everfresh.state import pack_table, plain, unpack_table

Rows = Callable[[str, Groups | None], pa.Table]
"""The rows of a table or view as they are now, at least those of some groups; `Absent` if they are not at
hand."""
PIECE = 100_000
_LARGE = 1 << 20
"""Parts of rows that have so many bytes are not copied again."""


class Absent(Exception):
    """The rows of these groups are needed, and are elsewhere."""

    def __init__(self, keys: pa.Table) -> None:
        super().__init__(keys)
        self.keys = keys


@dataclass(frozen=True, eq=False)
class Stepped:
    """What the log keeps of a step: rows that came and went, by table; times that tables have reached; the
    keys of groups that were computed anew, and all rows of these groups; for each reading the newest start
    among rows of groups that are elsewhere."""

    came: Tables = field(default_factory=dict)
    went: Tables = field(default_factory=dict)
    times: Mapping[str, int | None] = field(default_factory=dict)
    keys: pa.Table | None = None
    groups: Tables = field(default_factory=dict)
    newest: tuple[int, ...] | None = None


class ViewState:
    """A view over tables with these schemas."""

    def __init__(
        self, name: str, query: Node, schemas: Mapping[str, pa.Schema], options: Options | None = None
    ) -> None:
        self.name, self.query, self.schemas, self._options = name, query, dict(schemas), options
        self.pipeline = Pipeline(query, self.schemas, options).revising()
        self.form = Form(self.pipeline.nothing)
        self.parts: tuple[pa.Table, ...] = ()
        self.sealed = LOW
        """The newest start among rows that went behind `retain`."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """Its readings."""
        return self.pipeline.sources

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Its readings, as a user gave them."""
        return tuple(source.reading for source in self.sources)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables and views that it reads."""
        return tuple(dict.fromkeys(reading.table for reading in self.readings))

    def columns_of(self, table: str) -> tuple[str, ...]:
        """The columns of a table that it reads."""
        return tuple(self.schemas[table].names)

    @property
    def rows(self) -> pa.Table:
        """Its rows, in the order in which they were made."""
        return pa.concat_tables(self.parts) if self.parts else self.pipeline.nothing

    # -- steps -------------------------------------------------------------------------------------

    def backfill(self, tables: Tables, told: Callable[[int, int], None] | None = None) -> None:
        """Take the rows that are there, in order of time; `told` hears how many are done of how many."""
        first = {reading.table: reading for reading in reversed(self.readings)}
        rows = {name: ordered(table, first[name]) for name, table in tables.items()}
        total = sum(map(len, rows.values()))
        pieces = -(-max(map(len, rows.values()), default=0) // PIECE)
        parts = []
        for i in range(pieces):
            cut = {name: piece_of(table, first[name], i, pieces) for name, table in rows.items()}
            parts.append(self.pipeline.step(cut))
            self.pipeline.commit()
            self.pipeline.check_memory()
            if told is not None:
                told(total * (i + 1) // pieces, total)
        self.parts = (
            tuple(part for part in (pa.concat_tables(parts).combine_chunks(),) if len(part)) if parts else ()
        )

    def follow(self, others: Iterable[ViewState]) -> None:
        """Before anything else: take over the late rows of views with the same readings."""
        for source in self.sources:
            for other in others:
                for theirs in other.sources:
                    if theirs.reading == source.reading and theirs.late.tables:
                        source.late.tables = theirs.late.tables

    def reach(self, others: Iterable[ViewState]) -> None:
        """Take over the watermarks of views with the same readings, and the times that were told to others:
        they are of the tables."""
        known = list(others)
        self._rise(
            max(
                [source.watermark]
                + [
                    theirs.told if theirs.reading != source.reading else theirs.watermark
                    for other in known
                    for theirs in other.sources
                    if theirs.reading.table == source.reading.table
                ]
            )
            for source in self.sources
        )
        for source in self.sources:
            same = [
                s.told for other in known for s in other.sources if s.reading.table == source.reading.table
            ]
            source.told = max([source.told, *same])

    def passed(self, newest: Sequence[int]) -> None:
        """After the rows that were there: for each reading the newest start among all of them, also those of
        groups that are elsewhere."""
        marks = []
        for source, time in zip(self.sources, newest, strict=True):
            source.newest = max(source.newest, time)
            goes = source.reading.order == "table" and source.newest > LOW
            marks.append(max(source.watermark, source.newest - source.reading.lateness if goes else LOW))
        self._rise(marks)

    def _rise(self, times: Iterable[int]) -> None:
        marks = dict(zip(self.pipeline.marks, times, strict=True))
        if marks != self.pipeline.marks:
            new = self.pipeline.rise(marks)
            self.pipeline.commit()
            if len(new):
                self._add(new)

    def step(
        self,
        moves: Mapping[str, Moved],
        times: Mapping[str, int | None],
        rows: Rows,
        newest: tuple[int, ...] | None = None,
    ) -> tuple[Stepped, pa.Table, Undo]:
        """Take what came and went; what the log keeps, the change of the rows, and what takes it back."""
        came = {name: move.came for name, move in moves.items() if len(move.came)}
        went = {name: move.went for name, move in moves.items() if len(move.went)}
        stepped = Stepped(came, went, times, newest=newest)
        return self._step(stepped, rows)

    def again(self, stepped: Stepped) -> tuple[pa.Table, Undo]:
        """Do what the log keeps of a step."""
        _, change, undo = self._step(stepped, None)
        return change, undo

    def _step(self, stepped: Stepped, rows: Rows | None) -> tuple[Stepped, pa.Table, Undo]:
        undo = _Undo()
        try:
            return self._stepped(stepped, rows, undo)
        except (EverfreshError, Absent):
            undo()
            raise

    def _stepped(self, stepped: Stepped, rows: Rows | None, undo: _Undo) -> tuple[Stepped, pa.Table, Undo]:
        undo.add(self, "parts", "sealed")
        before = self.parts
        changed = self._went(stepped.went, undo) if stepped.went else []
        changed += [
            (r, stepped.came[r.table]) for r in self.readings if not r.timed and r.table in stepped.came
        ]
        keys = stepped.keys
        if changed and keys is None:
            keys = self._keys([self._slots(*each) for each in changed])
        came, beside = (stepped.came, None) if keys is None else self._parted(stepped, Groups(keys))
        new = self.pipeline.step(came, stepped.times, beside, stepped.newest)
        undo.steps.append(self.pipeline.taking_back())
        late = [source.late.revised for source in self.sources if len(source.late.revised)]
        for source in self.sources:
            if len(source.late.revised) and self.sealed > LOW:
                self._check_sealed(source, stepped.came[source.reading.table])
        if len(new):
            self._add(new)
        change = weigh(new)
        self.pipeline.check_memory()
        if rows is not None and (late or changed):
            keys = self._keys([*late, *(self._slots(*each) for each in changed)])
            groups = Groups(keys)
            told = {name: self._of_groups(groups, name, rows(name, groups)) for name in self.tables}
            stepped = replace(stepped, keys=keys, groups=told)
        if stepped.keys is not None:
            change = self._revise(stepped, before, new, undo)
        return stepped, change, undo

    def _keys(self, slots: list[Array]) -> pa.Table:
        return self.pipeline.keys_of(np.unique(np.concatenate(slots)))

    def _parted(
        self, stepped: Stepped, groups: Groups
    ) -> tuple[Tables, Mapping[str, list[tuple[pa.Table, Array]]]]:
        """What came, but for groups that are computed anew; and what came into these, with what is the change
        of an event that was there."""
        came: dict[str, pa.Table] = {}
        beside: dict[str, list[tuple[pa.Table, Array]]] = {}
        for name, rows in stepped.came.items():
            reading = next(reading for reading in self.readings if reading.table == name)
            mask = self._in_groups(groups, name, rows)
            came[name] = rows.filter(pa.array(~mask))
            held = rows.filter(pa.array(mask))
            changed = np.zeros(len(held), bool)
            if name in stepped.went and len(held):
                places = [*reading.key, reading.time] if reading.timed else [*reading.key]
                changed = Groups(stepped.went[name].select(places)).of(held, places)
            beside[name] = [(held, changed)]
        return came, beside

    def _add(self, new: pa.Table) -> None:
        """More rows: small parts are merged, so that each is larger than those behind it together."""
        parts = [*self.parts, new]
        while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]) and parts[-1].nbytes < _LARGE:
            last = parts.pop()
            parts[-1] = pa.concat_tables([parts[-1], last]).combine_chunks()
        self.parts = tuple(parts)

    # -- rows that went ----------------------------------------------------------------------------

    def _went(self, went: Tables, undo: _Undo) -> list[tuple[Reading, pa.Table]]:
        """The rows that went and were events; late ones were none, and those behind `retain` stay."""
        found = []
        for source in self.sources:
            reading = source.reading
            if reading.table not in went:
                continue
            rows = went[reading.table]
            if not reading.timed:
                found.append((reading, rows))
                continue
            listed = common(rows.select(source.needed), source.late.rows)
            if len(listed):
                undo.add(source.late, "tables")
                left = without(source.late.rows, listed)
                source.late.tables = (left,) if len(left) else ()
                rows = without(rows.select(source.needed), listed)
            rows = self._unsealed(source, rows)
            if not len(rows):
                continue
            if reading.deletes == "refuse":
                self._refuse(source, rows)
            self._check_sealed(source, rows)
            found.append((reading, rows))
        return found

    def _unsealed(self, source: Source, rows: pa.Table) -> pa.Table:
        span = source.reading.retain
        if span is None or source.watermark == LOW:
            return rows
        at = ticks_of(_one(rows.column(source.reading.time)), source.reading)
        old = at < source.watermark - span
        if old.any():
            self.sealed = max(self.sealed, int(at[old].max()))
        return rows.filter(pa.array(~old))

    def _check_sealed(self, source: Source, rows: pa.Table) -> None:
        """Refuse to compute anew what rests on rows that went behind `retain`."""
        reach = reach_of(self.query)
        if self.sealed == LOW or reach is None:
            return
        at = ticks_of(_one(rows.column(source.reading.time)), source.reading)
        near = np.flatnonzero(at <= self.sealed + 3 * reach)
        if len(near):
            raise faults.sealed(source.reading, int(at[near[0]]), self.sealed)

    def _refuse(self, source: Source, rows: pa.Table) -> None:
        reading = source.reading
        at = ticks_of(_one(rows.column(reading.time)), reading)
        past = np.flatnonzero((at < source.watermark) | (reading.lateness == 0))
        if len(past):
            row = rows.slice(int(past[0]), 1).to_pylist()[0]
            key = tuple(row[name] for name in reading.key)
            raise faults.deleted(
                reading, key[0] if len(key) == 1 else key, int(at[past[0]]), source.watermark
            )

    # -- groups computed anew ------------------------------------------------------------------------

    def _of_groups(self, groups: Groups, table: str, rows: pa.Table) -> pa.Table:
        """The rows of a table in some groups."""
        rows = self.without_late(table, rows)
        return rows.filter(pa.array(self._in_groups(groups, table, rows)))

    def _in_groups(self, groups: Groups, table: str, rows: pa.Table) -> Array:
        mask = np.zeros(len(rows), bool)
        for reading in self.readings:
            if reading.table == table:
                mask |= groups.of(rows, reading.key)
        return mask

    def _slots(self, reading: Reading, rows: pa.Table) -> Array:
        return self.pipeline.slots_of(rows, reading.key)

    def without_late(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows of a table that are events to the view: not those that came too late."""
        rows = rows.select(list(self.columns_of(table))).cast(self.schemas[table])
        for source in self.sources:
            if source.reading.table == table and source.late.tables:
                rows = without_those(rows, source.late.rows)
        return rows

    def fresh(self, tables: Tables) -> tuple[Pipeline, pa.Table]:
        """A pipeline that took all these rows at once, and its rows."""
        made = Pipeline(self.query, self.schemas, self._options, undo=False)
        return made, made.of_rows(tables, self.pipeline.marks)

    def _revise(self, stepped: Stepped, before: tuple[pa.Table, ...], new: pa.Table, undo: _Undo) -> pa.Table:
        assert stepped.keys is not None
        keys, tables = stepped.keys, stepped.groups
        made, theirs = self.fresh(tables)
        groups, names = Groups(keys), self.pipeline.key_names
        slots, others = (p.slots_of(keys) if names else np.zeros(1, np.int64) for p in (self.pipeline, made))
        undo.steps.append(self.pipeline.revise(slots, made, others))
        theirs = theirs.filter(pa.array(groups.of(theirs, names)))
        old = pa.concat_tables([self.pipeline.nothing, *before])
        mask, of_new = groups.of(old, names), groups.of(new, names)
        old, rest = old.filter(pa.array(mask)), old.filter(pa.array(~mask))
        new = new.filter(pa.array(~of_new))
        theirs = self._as_sealed(old, theirs)
        self.parts = tuple(part for part in (rest, new, theirs) if len(part))
        return self._netted(pa.concat_tables([weigh(old, -1), weigh(theirs), weigh(new)]))

    def _as_sealed(self, mine: pa.Table, made: pa.Table) -> pa.Table:
        """Rows whose inputs are sealed stay as they were."""
        reach = reach_of(self.query)
        if self.sealed == LOW or reach is None:
            return made
        name, reading = self.pipeline.time_name, self.readings[0]
        until = self.sealed + 2 * reach
        old = ticks_of(_one(mine.column(name)), reading) <= until
        keep = ticks_of(_one(made.column(name)), reading) > until
        return pa.concat_tables([mine.filter(pa.array(old)), made.filter(pa.array(keep))])

    def _netted(self, change: pa.Table) -> pa.Table:
        rows, weights = split(change)
        return self.form.of_binary(net(self.form.binary(rows).append_column(WEIGHT, weights)))

    def verify(self, rows: Rows) -> pa.Table:
        """Where the rows differ from those of a run over the tables: with `_weight`."""
        tables = {name: self.without_late(name, rows(name, None)) for name in self.tables}
        _, made = self.fresh(tables)
        made = self._as_sealed(self.rows, made)
        return self._netted(pa.concat_tables([weigh(made), weigh(self.rows, -1)]))

    # -- snapshots ---------------------------------------------------------------------------------

    def to_sections(self) -> dict[str, Any]:
        """Rows and state."""
        sections: dict[str, Any] = {f"state/{name}": data for name, data in self.pipeline.encode().items()}
        sections["rows"] = pack_table(self.rows)
        sections["sealed"] = str(self.sealed).encode()
        return sections

    def load(self, sections: Mapping[str, Any]) -> None:
        """The inverse of `to_sections`."""
        state = {n.removeprefix("state/"): bytes(d) for n, d in sections.items() if n.startswith("state/")}
        try:
            self.pipeline.decode(state)
        except (KeyError, ValueError, pa.ArrowException) as error:
            raise EverfreshError(
                Code.DAMAGED, f"the state of the signal view '{self.name}' is damaged: {error!r}"
            ) from error
        rows = unpack_table(sections["rows"])
        self.parts = (rows,) if len(rows) else ()
        self.sealed = plain(sections["sealed"], "a signal view")


class _Undo:
    """What takes a step back."""

    def __init__(self) -> None:
        self.steps: list[Undo] = []

    def add(self, owner: Any, *names: str) -> None:
        """Fields that are put back."""
        for name in names:
            self.steps.append(partial(setattr, owner, name, getattr(owner, name)))

    def __call__(self) -> None:
        while self.steps:
            self.steps.pop()()


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], column.type)
    return found
