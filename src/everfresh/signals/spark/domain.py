"""Signal views in a database on Spark: what the driver keeps of them, and the job of their epochs.

Groups are with the workers that own their keys (`everfresh.signals.spark.content`). Of a view the driver has
the query, how far time has come, and sizes: never a row or a group. All views that an epoch concerns are
stepped by one job, when the record is about to be written or somebody needs what they publish: `flush`.
Workers that refuse what comes refuse the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from everfresh.delta.bags import net, weigh
from everfresh.epochs import Making, Object, Published, RowChange, Told, Undo
from everfresh.epochs.domain import Sections
from everfresh.epochs.history import with_epochs
from everfresh.epochs.resident import weighted
from everfresh.errors import Code, EverfreshError
from everfresh.program.engine import check_epoch
from everfresh.signals.domain.functions import functions_of, registered
from everfresh.signals.domain.signals import VIEWS, Signals
from everfresh.signals.domain.statements import CreateView, Drop, reads, said, view_of
from everfresh.signals.domain.view import ViewState
from everfresh.signals.nodes import Viewed
from everfresh.signals.spark.content import ROLE, Call, role_with
from everfresh.signals.spark.reading import changes_of, checked, collected, frame_of
from everfresh.signals.spark.shipping import ROWS, Shipment, merged, pieces_of, placed, shipments
from everfresh.signals.spark.stepping import TODO, Answer, Reached, plan_with
from everfresh.spark.frames import Frames
from everfresh.spark.host import Host
from everfresh.spark.jobs.job import Base, World
from everfresh.spark.jobs.load import filled
from everfresh.spark.state.content import Role, register
from everfresh.spark.state.ledger import Draft
from everfresh.state import pack_table, plain

REACHED = "signal/reached"
_OPTIONS = ("signal_memory", "signal_max_fill")


@dataclass
class _Pending:
    """What an epoch is to do and has not yet: views to step, with what they read that has changed, and what
    the record will say of them."""

    steps: dict[str, tuple[tuple[str, ...], Mapping[str, Any]]] = field(default_factory=dict)
    kept: dict[str, Reached] = field(default_factory=dict)


class SignalsOnSpark(Signals):
    """Signal views by name, their groups with the workers."""

    def __init__(self, history: int, host: Host) -> None:
        super().__init__(history, host.options)
        self.host = host
        self.identities: dict[str, str] = {}
        self.reached: dict[str, Reached] = {}
        self._pending = _Pending()
        self._epoch = Making(0)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self.host.folder.workers

    @property
    def _functions(self) -> tuple[tuple[str, Call], ...]:
        """The functions of views that workers do not find by importing them."""
        known = registered()
        used = {fn.call for view in self.views.values() for fn in functions_of(view.query)}
        return tuple((name, call) for name, call in sorted(known.items()) if call in used)

    @property
    def _role(self) -> Role:
        """Of the units, with what makes their processes know these functions."""
        return role_with(self._functions)

    def _frames(self) -> Frames:
        return Frames(self.host.session, self.host.ledger())

    # -- epochs --------------------------------------------------------------------------------------------

    def begin(self, making: Making) -> Any:
        """An epoch begins."""
        found = super().begin(making)
        self._epoch, self._pending = making, _Pending()
        return found

    def fill(
        self,
        view: ViewState,
        read: Callable[[str], pa.Table],
        told: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Workers take the rows that are there, in the epoch that makes the view."""
        spread = placed(view.query)
        for each in view.query.walk():
            if isinstance(each, Viewed) and placed(self.views[each.view].query) != spread:
                raise EverfreshError(
                    Code.UNSUPPORTED,
                    f"the signal view '{view.name}' reads a table by two keys, and goes on from "
                    f"'{each.view}', whose groups are partitioned by one",
                    hint="write the whole query of it, instead of going on from the view",
                )

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make or drop a view; what is new is filled by the workers at once."""
        before = dict(self.views), dict(self.identities), dict(self.reached)

        def undo() -> None:
            self.views, self.identities, self.reached = before
            self._register()

        draft = self._epoch.draft
        if isinstance(statement, Drop):
            self.expect(statement.name)
            if draft is not None:
                self._run([{"do": "drop", "name": statement.name}], [])
            for known in ("views", "identities", "reached"):
                left = {n: one for n, one in getattr(self, known).items() if n != statement.name}
                setattr(self, known, left)
            return statement.name, undo
        view: ViewState = statement.view
        self.views = {**before[0], view.name: view}
        identity = f"{view.name}@{self._epoch.epoch}"
        self.identities = {**before[1], view.name: identity}
        self._take(view.name, Reached.by(view))
        self._register()
        if draft is not None:
            try:
                self._make(statement, identity)
            except BaseException:
                undo()
                raise
        return Object(view.name, self.name, self.kind, reads(view.query, view.tables)), undo

    def _register(self) -> None:
        """Units are made, in all processes, by who knows the functions that are used."""
        register(self._role)

    def _make(self, statement: CreateView, identity: str) -> None:
        view = statement.view
        options = {name: getattr(self.host.options, name) for name in _OPTIONS}
        told = {"do": "view", **said(view), "identity": identity, "options": options}
        found: list[Answer] = []

        def work() -> None:
            found.append(self._run([told], shipments(view, view.tables, ROWS)))

        clean = partial(self.host.ledger().clean, self._epoch.epoch)
        filled(self.host.runner.observer, f"signal view '{view.name}'", work, statement.progress, clean)
        self._take(view.name, found[0].reached[view.name])

    def _take(self, name: str, reached: Reached) -> None:
        self.reached = {**self.reached, name: reached}
        for source, (watermark, told, newest) in zip(self.views[name].sources, reached.marks, strict=True):
            source.watermark, source.told, source.newest = watermark, told, newest

    def make(
        self, name: str, own: Any, inputs: Mapping[str, Published]
    ) -> tuple[Any, Published | None, Undo]:
        """Step a view, when the job is run; or take what a record says."""
        before = self.reached[name]

        def undo() -> None:
            self._take(name, before)

        if isinstance(own, Reached):
            self._take(name, own)
            return own, None, undo
        tables = tuple(table for table in self.views[name].tables if table in inputs)
        if not tables and own is None:
            return None, None, undo
        kept = Reached()
        times = {} if own is None else {own.table: own.time}
        self._pending.steps[name] = tables, times
        self._pending.kept[name] = kept
        return kept, RowChange(partial(self._change_now, name, self._epoch.draft)), undo

    def _change_now(self, name: str, draft: Draft) -> pa.Table:
        """What a view publishes in the epoch that is being made."""
        self.flush()
        parts = changes_of(
            self._world(), self._bases(draft.bases), self.identities[name], self._epoch.epoch - 1
        )
        form = self.views[name].form
        rows = [form.relational(rows) for _, rows in parts]
        return pa.concat_tables([weigh(form.relational(form.nothing)), *rows])

    def flush(self) -> None:
        """Run the job of what the epoch has asked for so far."""
        pending, self._pending = self._pending, _Pending()
        if not pending.steps or self._epoch.draft is None:
            return
        todo: list[dict[str, Any]] = []
        wanted: list[Shipment] = []
        for name, (tables, times) in pending.steps.items():
            todo.append({"do": "step", "name": name, "tables": tables, "times": times})
            wanted += shipments(self.views[name], tables)
        answer = self._run(todo, wanted)
        for name, kept in pending.kept.items():
            reached = answer.reached[name]
            kept.marks, kept.sizes = reached.marks, reached.sizes
            self._take(name, kept)

    def _run(self, todo: Sequence[dict[str, Any]], wanted: Sequence[Shipment]) -> Answer:
        """Run a job, and again with the rows of groups that it turns out to need."""
        draft: Draft = self._epoch.draft
        plan = plan_with(self._functions)
        asked: dict[str, pa.Table] = {}
        while True:
            more = [
                ship
                for number, name in enumerate(asked)
                for ship in shipments(self.views[name], self.views[name].tables, ROWS, number)
            ]
            places = {name: number for number, name in enumerate(asked)}
            told = [{**one, "asked": places.get(one["name"])} for one in todo]
            pieces = pieces_of(merged([*wanted, *more]), draft, self._frames())
            pieces[TODO] = json.dumps(told).encode()
            pieces.update({f"asked/{places[name]}": pack_table(keys) for name, keys in asked.items()})
            answers = self.host.runner.run(draft.job("signal", pieces=pieces), plan)
            answer = Answer.of(answers.gathered)
            if not answer.needed:
                draft.add(answers.controls)
                return answer
            asked.update(answer.needed)

    # -- the log -------------------------------------------------------------------------------------------

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Any]]) -> Told:
        """Statements, and how far views have come: rows are in the segments."""
        self.flush()
        ddl = []
        told = {name: reached.to_json() for name, reached in changes}
        for statement in statements:
            if isinstance(statement, Drop):
                ddl.append(json.dumps({"do": "drop", "name": statement.name}))
                continue
            ddl.append(json.dumps({"do": "view", **said(statement.view)}))
            name = statement.view.name
            if name in self.reached:
                told.setdefault(name, self.reached[name].to_json())
        return Told(tuple(ddl), {REACHED: json.dumps(told).encode()} if told else {})

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Any]]]:
        """The inverse of `encode`."""
        statements: list[Any] = []
        for text in ddl:
            told = plain(text.encode(), "a statement about signals")
            drop = told["do"] == "drop"
            statements.append(Drop(told["name"]) if drop else CreateView(view_of(told, self._options)))
        found = plain(sections[REACHED], "an epoch of signals") if REACHED in sections else {}
        return statements, [(name, Reached.of(data)) for name, data in found.items()]

    def to_sections(self) -> dict[str, Any]:
        """Everything that the driver knows."""
        with self.lock:
            if not self.objects:
                return {}
            told = [
                {
                    **said(self.views[name]),
                    "created": found.created,
                    "identity": self.identities[name],
                    "reached": self.reached[name].to_json(),
                }
                for name, found in self.objects.items()
            ]
            return {VIEWS: json.dumps(told).encode()}

    def restore(self, sections: Sections) -> None:
        """Take what a snapshot has."""
        self.views, self.identities, self.reached, objects = {}, {}, {}, {}
        for told in plain(sections[VIEWS], "signal views") if sections else ():
            view = view_of(told, self._options)
            self.views[view.name], self.identities[view.name] = view, told["identity"]
            self._take(view.name, Reached.of(told["reached"]))
            objects[view.name] = Object(
                view.name, self.name, self.kind, reads(view.query, view.tables), told["created"]
            )
        self.objects = objects
        self._register()

    # -- the past is in the segments -----------------------------------------------------------------------

    def remember(self, epoch: int, published: dict[str, Published]) -> None:
        """Segments have it."""

    def forget(self, created: Mapping[str, int]) -> None:
        """Segments go with the log."""

    def oldest(self, name: str) -> int:
        """The earliest epoch at which a view can be read."""
        ledger = self.host.ledger()
        return max(0, ledger.epoch - self.kept, self.host.folder.commits.first() - 1)

    def rows_at(self, found: Object, at: int) -> pa.Table:
        """The rows of a view at an earlier epoch."""
        return self._rows(found.name, at)

    def changes_of(self, found: Object, since: int | None) -> pa.Table:
        """A view's change of each epoch after `since`."""
        oldest = self.oldest(found.name)
        since = oldest if since is None else since
        check_epoch(found.name, since, oldest, max(self.epoch, oldest))
        world, bases = self._version()
        form = self.views[found.name].form
        epochs: dict[int, list[pa.Table]] = {}
        for epoch, rows in changes_of(world, bases, self.identities[found.name], max(since, found.created)):
            epochs.setdefault(epoch, []).append(form.relational(rows))
        parts = [(epoch, pa.concat_tables(tables)) for epoch, tables in sorted(epochs.items())]
        if since < found.created:
            parts.insert(0, (found.created, net(weigh(self._rows(found.name, found.created)))))
        return with_epochs(parts, weighted(form.relational(form.nothing)))

    # -- reading -------------------------------------------------------------------------------------------

    def _world(self) -> World:
        ledger = self.host.ledger()
        return ledger.world(ledger.epoch)

    def _bases(self, bases: Mapping[str, Base]) -> tuple[Base, ...]:
        return tuple(bases[f"{ROLE}/{worker}"] for worker in range(self.workers))

    def _version(self) -> tuple[World, tuple[Base, ...]]:
        """What tasks are told of the units as they are committed."""
        ledger = self.host.ledger()
        with ledger.lock:
            return ledger.world(ledger.epoch), self._bases(ledger.bases)

    def _of(self, name: str) -> tuple[str, str]:
        return name, self.identities[name]

    def _rows(self, name: str, at: int | None = None) -> pa.Table:
        form = self.views[name].form
        found = collected(self.host.session, self._role, self._version(), self._of(name), at=at)
        return form.relational(pa.concat_tables([form.nothing, *found]))

    def rows(self, name: str) -> pa.Table:
        """The rows of a view as a relation, collected."""
        return self._rows(name)

    def frame(self, name: str, at: int | None, session: Any) -> Any:
        """The rows of a view as a DataFrame, which reads the units where they are."""
        with self.lock:
            found = self.expect(name)
            if at is not None:
                check_epoch(name, at, max(self.oldest(name), found.created), self.host.ledger().epoch)
            return frame_of(session, self._role, self._version(), self._of(name), self.columns(name), at)

    def late(self, name: str) -> pa.Table | None:
        """The rows that came too late and are left out, collected; None if there are none."""
        with self.lock:
            for number in range(len(self.view(name).sources)) if self.reached[name].sizes["late"] else ():
                found = collected(self.host.session, self._role, self._version(), self._of(name), number)
                if rows := pa.concat_tables(found):
                    return rows
            return None

    def verify(self, name: str) -> pa.Table:
        """The rows that differ in their bits from a run over the tables, with `_weight`."""
        with self.lock:
            view = self.view(name)
            ships = merged(shipments(view, view.tables, ROWS))
            draft = Draft(self.host.ledger())
            pieces = {n: bytes(data) for n, data in pieces_of(ships, draft, self._frames()).items()}
            found = checked(self.host.session, self._role, self._version(), self._of(name), pieces, ships)
            return view.form.relational(pa.concat_tables([weigh(view.form.nothing), *found]))

    def explain(self, name: str, format: str = "text") -> str:
        """The same as in one process, and where the groups are."""
        text = super().explain(name, format)
        if placed(self.view(name).query):
            return f"{text}\ngroups are partitioned by key over {self.workers} workers"
        return f"{text}\na table is read by two keys: all groups are with one worker"

    def statistics(self) -> dict[str, Any]:
        """Rows, groups, bytes of state, watermarks and late rows of each view, as of its last step."""
        with self.lock:
            return {
                name: {
                    "kind": self.kind,
                    **self.reached[name].sizes,
                    "watermarks": view.pipeline.watermarks,
                }
                for name, view in self.views.items()
            }
