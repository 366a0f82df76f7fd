"""Signal views as a domain of a database (`everfresh.epochs.domain`).

A view is stepped in each epoch in which a table changes that it reads, or in which time is told to pass. A
view over a signal view goes on from its query: it is a function of the same tables, and knows as much of the
progress of each group. What a view publishes are the rows that became final, and those that were corrected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.bags import WEIGHT, expand
from everfresh.epochs import Making, Object, Published, Resident, RowChange, Told, Undo
from everfresh.epochs.domain import Sections
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.signals.domain.bases import Groups, Moved, moved, without
from everfresh.signals.domain.statements import (
    Advance,
    Drop,
    decode,
    encode,
    reads,
    said,
    view_of,
)
from everfresh.signals.domain.view import Stepped, ViewState
from everfresh.signals.nodes import Viewed
from everfresh.state import plain
from everfresh.types import Column

DOMAIN = "signal"
KIND = "signal view"
VIEWS, VIEW, PAST = "signal/views", "signal/view/", "signal/past/"


class Signals(Resident):
    """Signal views by name."""

    name = DOMAIN
    kind = KIND

    def __init__(self, history: int = 100, options: Options | None = None) -> None:
        super().__init__(history)
        self.views: dict[str, ViewState] = {}
        self._options = options
        self._making: Making | None = None
        self._moves: dict[tuple[int, tuple[str, ...]], tuple[Published, Moved]] = {}
        """What the changes of this epoch are in some columns."""
        self.base: Callable[[str], pa.Table] = _no_base
        """The rows of tables and views as of the last committed epoch."""

    def over(self, rows: Callable[[str], pa.Table]) -> None:
        """Learn where the rows of tables and views are, as of the last committed epoch."""
        self.base = rows

    # -- changes -----------------------------------------------------------------------------------

    def takes(self, given: Any) -> bool:
        """Whether something is a time that a table has reached."""
        return isinstance(given, Advance)

    def prepare(self, name: str, given: Any) -> Advance:
        """Time passes; anything else comes from the tables."""
        if not isinstance(given, Advance):
            tables = ", ".join(f"'{table}'" for table in self.view(name).tables)
            raise EverfreshError(
                Code.ARGUMENT,
                f"the signal view '{name}' is made from {tables} and takes no rows",
                place=f"signal view '{name}'",
                hint=f"change {tables}",
            )
        return given

    def dropping(self, name: str) -> tuple[Drop]:
        """The statement that drops a view."""
        return (Drop(name),)

    def columns(self, name: str) -> tuple[Column, ...]:
        """A view as a relation."""
        return self.view(name).form.columns

    def begin(self, making: Making) -> Any:
        """An epoch begins."""
        stepping = super().begin(making)
        self._making = making
        self._moves = {}
        return stepping

    def fill(
        self,
        view: ViewState,
        read: Callable[[str], pa.Table],
        told: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Before a view is made: take the rows that are there; `told` hears how far it is."""
        view.follow(self.views[each.view] for each in view.query.walk() if isinstance(each, Viewed))
        view.backfill(
            {table: view.without_late(table, read(table)) for table in view.tables},
            None if told is None else partial(told, f"signal view '{view.name}'"),
        )
        view.reach(self.views.values())

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make or drop a view."""
        before = dict(self.views)

        def undo() -> None:
            self.views = before

        if isinstance(statement, Drop):
            self.expect(statement.name)
            self.views = {name: view for name, view in before.items() if name != statement.name}
            return statement.name, undo
        view: ViewState = statement.view
        self.views = {**before, view.name: view}
        return Object(view.name, self.name, self.kind, reads(view.query, view.tables)), undo

    def make(
        self, name: str, own: Any, inputs: Mapping[str, Published]
    ) -> tuple[Stepped | None, Published | None, Undo]:
        """Step a view."""
        view = self.views[name]
        if isinstance(own, Stepped):  # again, from the log
            change, undo = view.again(own)
            return own, self._published(view, change), undo
        moves = {n: self._moved(inputs[n], view.columns_of(n)) for n in view.tables if n in inputs}
        moves = {n: move for n, move in moves.items() if len(move.came) or len(move.went)}
        times = {} if own is None else {own.table: own.time}
        if not moves and not times:
            return None, None, _nothing
        kept, change, undo = view.step(moves, times, partial(self._rows_now, view, inputs))
        return kept, self._published(view, change), undo

    def _published(self, view: ViewState, change: pa.Table) -> Published | None:
        return RowChange(partial(view.form.relational, change)) if len(change) else None

    def _moved(self, change: Published, columns: tuple[str, ...]) -> Moved:
        known = self._moves.get((id(change), columns))
        if known is None:
            known = self._moves[id(change), columns] = change, moved(change.table, columns)
        return known[1]

    def _rows_now(
        self, view: ViewState, inputs: Mapping[str, Published], name: str, groups: Groups | None
    ) -> pa.Table:
        """The rows of a table or view in the epoch that is being made, at least those of some groups."""
        making = self._making
        if making is not None and making.rows is not None:
            return making.rows(name, None if groups is None else _keys_in(view, name, groups))
        rows = self.base(name)
        if name not in inputs:
            return rows
        change = inputs[name].table.select([*rows.column_names, WEIGHT])
        weights = change.column(WEIGHT)
        came = expand(change.filter(pc.greater(weights, 0))).cast(rows.schema)
        went = change.filter(pc.less(weights, 0))
        went = went.set_column(went.num_columns - 1, WEIGHT, pc.negate(went.column(WEIGHT)))
        return pa.concat_tables([without(rows, expand(went)), came])

    # -- the log and snapshots -----------------------------------------------------------------------

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Any]]) -> Told:
        """Statements and steps as the log keeps them."""
        return encode(statements, changes)

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Any]]]:
        """The inverse of `encode`."""
        return decode(ddl, sections, self._options)

    def to_sections(self) -> dict[str, Any]:
        """Everything, for a snapshot."""
        with self.lock:
            if not self.objects:
                return {}
            sections: dict[str, Any] = {}
            told = []
            for number, (name, found) in enumerate(self.objects.items()):
                told.append({**said(self.views[name]), "created": found.created})
                for section, data in self.views[name].to_sections().items():
                    sections[f"{VIEW}{number}/{section}"] = data
            sections[VIEWS] = json.dumps(told).encode()
            return {**sections, **self.history.to_sections(PAST, lambda change: change.table)}

    def restore(self, sections: Sections) -> None:
        """Take the state of a snapshot."""
        self.views, self._moves = {}, {}
        objects = {}
        for number, told in enumerate(plain(sections[VIEWS], "signal views") if sections else ()):
            view = view_of(told, self._options)
            prefix = f"{VIEW}{number}/"
            view.load({n.removeprefix(prefix): d for n, d in sections.items() if n.startswith(prefix)})
            self.views[view.name] = view
            objects[view.name] = Object(
                view.name, self.name, self.kind, reads(view.query, view.tables), told["created"]
            )
        self.objects = objects
        self.history.load(PAST, sections)

    # -- reading -----------------------------------------------------------------------------------

    def view(self, name: str) -> ViewState:
        """A view."""
        self.expect(name)
        return self.views[name]

    def rows(self, name: str) -> pa.Table:
        """The rows of a view as a relation."""
        view = self.views[name]
        return view.form.relational(view.rows)

    def verify(self, name: str) -> pa.Table:
        """The rows that differ in their bits from a run over the tables, with `_weight`."""
        with self.lock:
            view = self.view(name)
            return view.form.relational(view.verify(lambda name, _: self.base(name)))

    def explain(self, name: str, format: str = "text") -> str:
        """Each operation, whether it updates or recomputes, and when a result is final."""
        from everfresh.signals.explain import explain

        if format != "text":
            raise EverfreshError(
                Code.ARGUMENT, f"a signal view is explained as text, not as '{format}'", place="format"
            )
        with self.lock:
            view = self.view(name)
            lines = [explain(view.query)]
            for source in view.sources:
                if not source.reading.timed:
                    continue
                late = sum(map(len, source.late.tables))
                left_out = f"; {late} late rows are left out" if late else ""
                lines.append(
                    f"table '{source.reading.table}' has reached {_time(source.watermark)}{left_out}"
                )
            return "\n".join(lines)

    def late(self, name: str) -> pa.Table | None:
        """The rows that came too late and are left out; None if there are none."""
        with self.lock:
            found = [source.late.rows for source in self.view(name).sources if source.late.tables]
            return found[0] if found else None

    def statistics(self) -> dict[str, Any]:
        """Rows, groups, bytes of state, watermarks and late rows of each view."""
        with self.lock:
            return {
                name: {
                    "kind": self.kind,
                    "rows": sum(map(len, view.parts)),
                    "groups": view.pipeline.groups,
                    "bytes": sum(part.nbytes for part in view.parts),
                    "state": view.pipeline.size,
                    "watermarks": view.pipeline.watermarks,
                    "late": sum(len(t) for source in view.sources for t in source.late.tables),
                }
                for name, view in self.views.items()
            }

    def hold(self, db: Any, name: str) -> Any:
        """What a user holds of a view."""
        from everfresh.signals.domain.handle import SignalView

        return SignalView(db, self, name)


def _keys_in(view: ViewState, table: str, groups: Groups) -> pa.Table | None:
    """The keys of groups by the key columns of a table, if all readings of it have the same."""
    keys = {reading.key for reading in view.readings if reading.table == table}
    if len(keys) != 1 or keys == {()}:
        return None
    schema = pa.schema([view.schemas[table].field(name) for name in next(iter(keys))])
    return groups.keys.rename_columns(schema.names).cast(schema)


def _time(watermark: int) -> str:
    return "no time yet" if watermark <= -(1 << 62) else "its end" if watermark >= 1 << 62 else str(watermark)


def _nothing() -> None:
    """Nothing was done."""


def _no_base(name: str) -> pa.Table:
    raise EverfreshError(Code.UNSUPPORTED, f"the rows of '{name}' are not at hand")


def made(history: int, host: Any) -> Signals:
    """The domain: state is in this process, or on Spark with the workers."""
    if host is None:
        return Signals(history)
    from everfresh.signals.spark.domain import SignalsOnSpark

    return SignalsOnSpark(history, host)
