"""Arrays and their views in a database on Spark: what the driver knows of views, and their part of an epoch.

Every stage of a view is an array of its own, kept by the workers; of a stage that joins its groups are one
more. The driver has their schemas and catalogs, as of any array, and for each stage that joins a planner.

Invariant: the catalogs are those of the chunks in the units at the ledger's versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.domain import ARRAYS, CellChange
from everfresh.arrays.execute.catalog import Catalog, Entry
from everfresh.arrays.model import ArraySchema
from everfresh.arrays.spark.changing import read_entries, told_entries
from everfresh.arrays.spark.content import schema_of
from everfresh.arrays.spark.domain import CATALOG, ENTRIES, ArraysOnSpark, Changed, Kept
from everfresh.arrays.spark.views.calibrate import calibrated
from everfresh.arrays.spark.views.epoch import Epoch, Item, Measured
from everfresh.arrays.upkeep.planner import PlannerOptions
from everfresh.arrays.upkeep.plans import Costs
from everfresh.arrays.views.domain import VIEW
from everfresh.arrays.views.explain import lines_of, told
from everfresh.arrays.views.pipeline import Pipeline, compile_view
from everfresh.arrays.views.spread.meeting import CHANGED, MADE
from everfresh.arrays.views.spread.planning import ViewPlanner
from everfresh.arrays.views.spread.stored import groups_schema
from everfresh.arrays.views.stages import Base, Joined
from everfresh.delta.bags import difference, net, weigh
from everfresh.epochs import Object, Published, RowChange, Told, Undo
from everfresh.epochs.domain import Making, Sections
from everfresh.errors import Code, EverfreshError
from everfresh.spark.host import Host
from everfresh.spark.jobs.job import Base as Version
from everfresh.spark.jobs.job import World
from everfresh.spark.state.ledger import Draft
from everfresh.state import pack_arrays, plain, unpack_arrays

MANY = 1_000_000
"""From so many cells on it is measured what sending and joining take."""
HIDDEN = "\0"
"""In the name of what is kept for a view, behind the view's: no user has it in a name."""


@dataclass(frozen=True)
class Recorded:
    """What a record says of an object: rows of catalogs, by the name that they are kept under."""

    entries: Mapping[str, Sequence[Entry]]


@dataclass
class _Asked:
    """What an epoch is to do for views and has not yet."""

    made: list[str] = field(default_factory=list)
    stepped: list[str] = field(default_factory=list)


class ArraysAndViewsOnSpark(ArraysOnSpark):
    """Arrays and views of them by name, their chunks with the workers."""

    def __init__(self, history: int, host: Host) -> None:
        super().__init__(history, host)
        self.views: dict[str, Pipeline] = {}
        self.measured: dict[tuple[str, int], Measured] = {}
        """The last plan of each stage that joins, and what workers sent."""
        self._planners: dict[tuple[str, int], ViewPlanner] = {}
        self._costs: Costs | None = None
        self._asked = _Asked()
        self._epoch: Epoch | None = None

    # -- names ---------------------------------------------------------------------------------------------

    def kept_name(self, view: str, at: int) -> str:
        """The name that the result of a stage is kept under."""
        stages = self.views[view].stages
        stage = stages[at]
        if isinstance(stage, Base):
            return stage.name
        return view if at == len(stages) - 1 else f"{view}{HIDDEN}{at}"

    def groups_name(self, view: str, at: int) -> str:
        """The name that the groups of a stage are kept under."""
        return f"{view}{HIDDEN}{at}g"

    def _kept(self, view: str, created: int) -> dict[str, Kept]:
        """What is kept for a view, still empty."""
        pipeline = self.views[view]
        found: dict[str, Kept] = {}

        def keep(name: str, schema: ArraySchema) -> None:
            own = name.removeprefix(view).replace(HIDDEN, "#")
            schema = schema_of(schema.ddl)
            identity = f"{view}@{created}{own}"
            found[name] = Kept(schema, identity, Catalog.empty(schema), pipeline.statement.placement)

        for at, stage in enumerate(pipeline.stages):
            if isinstance(stage, Base):
                continue
            keep(self.kept_name(view, at), stage.schema)
            if isinstance(stage, Joined):
                keep(self.groups_name(view, at), groups_schema(stage.definition))
        return found

    def planner(self, view: str, at: int) -> ViewPlanner:
        """The planner of a stage that joins."""
        if (view, at) not in self._planners:
            method = self.views[view].statement.maintenance
            self._planners[view, at] = ViewPlanner(PlannerOptions(method))
        found = self._planners[view, at]
        found.options = replace(found.options, costs=self.costs)
        return found

    @property
    def costs(self) -> Costs:
        """What it takes to send a cell, and to join it: as an option says, or as it was measured, once there
        are so many cells that it matters."""
        ratio = self.host.options.array_costs
        if ratio is not None:
            return Costs(ratio, 1.0)
        if self._costs is None:
            cells = sum(int(known.catalog.cells.sum()) for known in self.kept_of.values())
            if cells < MANY or self.workers < 2:
                return Costs()
            size = sum(int(known.catalog.bytes.sum()) for known in self.kept_of.values())
            self._costs = calibrated(self.host.session, self.workers, size / cells)
        return self._costs

    def _schemas(self) -> dict[str, ArraySchema]:
        return {n: known.schema for n, known in self.kept_of.items() if HIDDEN not in n}

    # -- epochs --------------------------------------------------------------------------------------------

    def begin(self, making: Making) -> Any:
        """An epoch begins."""
        found = super().begin(making)
        self._asked, self._epoch = _Asked(), None if making.draft is None else Epoch(self, making.draft)
        return found

    def prepare(self, name: str, given: Any) -> CellChange:
        """As in `Arrays`; a view is changed by what it reads alone."""
        if name in self.views:
            raise EverfreshError(
                Code.ARGUMENT,
                f"'{name}' is a view",
                place=f"array view '{name}'",
                hint=f"change what it reads: {', '.join(self.views[name].reads)}",
            )
        return super().prepare(name, given)

    def dropping(self, name: str) -> tuple[Any]:
        """The statement that drops an array or a view."""
        return (aql.DropView(name),) if name in self.views else super().dropping(name)

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make or drop an array or a view."""
        before = dict(self.kept_of), dict(self.views), dict(self.sources)

        def undo() -> None:
            self.kept_of, self.views, self.sources = before

        if not isinstance(statement, aql.CreateView | aql.DropView):
            if isinstance(statement, aql.DropArray):
                self.sources = {n: source for n, source in before[2].items() if n != statement.name}
            return super().define(statement)[0], undo
        name = statement.name
        self._planners = {key: known for key, known in self._planners.items() if key[0] != name}
        self.measured = {key: known for key, known in self.measured.items() if key[0] != name}
        if isinstance(statement, aql.DropView):
            if name not in self.views:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"there is no array view '{name}'",
                    hint=f"array views are: {', '.join(self.views) or 'none yet'}",
                )
            gone = {n: known for n, known in before[0].items() if n.split(HIDDEN)[0] == name}
            self.kept_of = {n: known for n, known in before[0].items() if n not in gone}
            self.views = {n: view for n, view in before[1].items() if n != name}
            self._pending.dropped += [known.identity for known in gone.values() if len(known.catalog)]
            return name, undo
        self.views = {**before[1], name: compile_view(statement, self._schemas())}
        self.kept_of = {**before[0], **self._kept(name, self._making.epoch)}
        self._asked.made.append(name)
        return Object(name, self.name, VIEW, self.views[name].reads), undo

    def make(
        self, name: str, own: Any, inputs: Mapping[str, Published]
    ) -> tuple[Any, Published | None, Undo]:
        """Change an array by cells, or let a view follow, when the job is run; or as a record says."""
        before = dict(self.kept_of)

        def undo() -> None:
            self.kept_of = before

        if isinstance(own, Recorded):
            for kept, entries in own.entries.items():
                self.take(kept, entries)
            return own, None, undo
        if name not in self.views:
            kept, change, _ = super().make(name, self.followed(name, own, inputs), inputs)
            return kept, change, undo
        draft = self._making.draft
        if draft is None:  # a record said nothing of it
            return None, None, undo
        self._asked.stepped.append(name)
        return Changed(), RowChange(lambda: self._published(name, draft)), undo

    def schema_of(self, name: str) -> ArraySchema:
        """As in `Arrays`."""
        return self.kept_of[name].schema

    def take(self, name: str, entries: Sequence[Entry]) -> None:
        """A catalog after some of its chunks have changed."""
        known = self.kept_of[name]
        self.kept_of[name] = replace(known, catalog=known.catalog.after(list(entries)))

    def _published(self, name: str, draft: Draft) -> pa.Table:
        """What a view has gained and lost in an epoch, with `_weight`."""
        with self.lock:
            if draft is self._making.draft:
                self.flush()
            came, went = Epoch(self, draft).change(name)
        return net(pa.concat_tables([weigh(came), weigh(went, -1)]))

    def flush(self) -> None:
        """Run the jobs of what the epoch has asked for so far."""
        pending, asked, epoch = self._pending, self._asked, self._epoch
        if epoch is None:
            return
        changes = {name: (change.inserts, change.deletes) for name, change, _ in pending.changes}
        todo = [Item(view, at, MADE) for view in asked.made for at in range(len(self.views[view].stages))]
        todo += [
            Item(view, at, CHANGED) for view in asked.stepped for at in range(len(self.views[view].stages))
        ]
        epoch.run(changes, pending.dropped, todo)
        pending.changes, pending.dropped = [], []
        super().flush()  # what queries compute is left
        for name, _, kept in pending.computed:
            epoch.entries.setdefault(name, {}).update({one[0]: one for one in kept.entries})
        self._asked = _Asked()

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Any]]) -> Told:
        """Statements as their text, and what the catalogs say of the chunks that have changed."""
        self.flush()
        entries = {} if self._epoch is None else self._epoch.entries
        sections = {ENTRIES + name: told_entries({"": list(some.values())}) for name, some in entries.items()}
        return Told(tuple(map(str, statements)), sections)

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Any]]]:
        """The inverse of `encode`."""
        found: dict[str, dict[str, Sequence[Entry]]] = {}
        for section, data in sections.items():
            if section.startswith(ENTRIES):
                kept = section.removeprefix(ENTRIES)
                entries = read_entries([bytes(data)]).get("", [])
                found.setdefault(kept.split(HIDDEN)[0], {})[kept] = entries
        return [parse(text) for text in ddl], [(name, Recorded(some)) for name, some in found.items()]

    # -- reading -------------------------------------------------------------------------------------------

    def version(self, draft: Draft) -> tuple[World, tuple[Version, ...]]:
        """What tasks are told of the units as an epoch in the making has them."""
        world = self.host.ledger().world(draft.epoch)
        return world, tuple(draft.bases[f"array/{worker}"] for worker in range(self.workers))

    def homes(self, name: str) -> Mapping[int, int]:
        """The workers of an array's chunks, by number."""
        catalog = self.about(name).catalog
        return dict(zip(catalog.number.tolist(), catalog.home.tolist(), strict=True))

    def statistics(self) -> dict[str, Any]:
        """Cells, chunks and bytes of each array and view, and what the catalogs take here."""
        with self.lock:
            every = super().statistics()
            found = {name: one for name, one in every.items() if HIDDEN not in name}
            for name, view in self.views.items():
                beside = [one for n, one in every.items() if n.split(HIDDEN)[0] == name]
                total = {key: sum(one[key] for one in beside) for key in ("bytes", "catalog bytes")}
                found[name] |= {"kind": VIEW, "reads": list(view.reads), **total}
        return found

    def verify(self, name: str) -> pa.Table:
        """The rows in which a view differs from its recomputation, over collected arrays; of arrays as in
        `ArraysOnSpark`."""
        wrong = super().verify(name)
        with self.lock:
            if wrong.num_rows:
                return wrong
            if name not in self.views:
                return self.unfed(name, self.rows(name)) if name in self.sources else wrong
            view = self.views[name]
            arrays = {n: self.array(n) for n in view.reads}
            return difference(view.value(view.start(arrays)).table, self.rows(name))

    def explain(self, name: str, format: str = "text") -> str:
        """What an array is and who keeps it; how a view is maintained, and the last plan of it."""
        if name not in self.views:
            return super().explain(name, format)
        with self.lock:
            view = self.views[name]
            lines = [tuple(lines_of(stage, None)) for stage in view.stages]
            for at in range(len(lines)):
                if (name, at) in self.measured:
                    lines[at] += tuple(plan_lines(self.measured[name, at], self.costs))
            found = told(view, lines, format)
            if format == "json":
                return found
            return "\n".join([found, *super().explain(name, format).splitlines()[1:]])

    def hold(self, db: Any, name: str) -> Any:
        """What a user holds of an array or a view."""
        from everfresh.arrays.views.handle import ArrayView

        return ArrayView(db, self, name) if name in self.views else super().hold(db, name)

    # -- snapshots -----------------------------------------------------------------------------------------

    def to_sections(self) -> dict[str, Any]:
        """Everything that the driver knows."""
        with self.lock:
            if not self.objects:
                return {}
            listed = []
            for name, found in self.objects.items():
                known = self.kept_of[name]
                view = self.views.get(name)
                source = self.sources.get(name, "")
                made = aql.CreateArray(known.schema, known.placement, source=source)
                listed.append([str(made if view is None else view.statement), found.created, known.identity])
            sections: dict[str, Any] = {ARRAYS: json.dumps(listed).encode()}
            for name, known in self.kept_of.items():
                sections[CATALOG + name] = pack_arrays(known.catalog.to_arrays())
            return sections

    def restore(self, sections: Sections) -> None:
        """Take what a snapshot has."""
        self.kept_of, self.views, self._planners, self.measured, self.sources = {}, {}, {}, {}, {}
        objects: dict[str, Object] = {}
        listed = plain(sections[ARRAYS], "the arrays of a database") if sections else ()
        for text, created, identity in listed:
            statement = parse(text)
            if isinstance(statement, aql.CreateView):
                name = statement.name
                self.views[name] = compile_view(statement, self._schemas())
                kept = self._kept(name, created)
                objects[name] = Object(name, self.name, VIEW, self.views[name].reads, created)
            elif isinstance(statement, aql.CreateArray):
                schema = schema_of(statement.schema.ddl)
                name = schema.name
                kept = {name: Kept(schema, identity, Catalog.empty(schema), statement.placement)}
                objects[name] = self.defined(statement, created)
            else:
                raise EverfreshError(Code.DAMAGED, f"a snapshot has no array where it says '{text}'")
            for n, known in kept.items():
                catalog = Catalog.from_arrays(known.schema, unpack_arrays(sections[CATALOG + n]))
                self.kept_of[n] = replace(known, catalog=catalog)
        self.objects = objects


def plan_lines(measured: Measured, costs: Costs) -> list[str]:
    """The last plan of a stage, for people."""
    plan = measured.plan
    found = [f"a cell that is sent takes {costs.ratio:.3g} times as long as a joined one"]
    found += [
        str(plan.upkeep) if plan.upkeep is not None else "baseline: joined where changed chunks are kept"
    ]
    moved = int(((plan.view_from != plan.view_to) & (plan.view_from >= 0)).sum())
    found.append(
        f"{len(plan.meeting.first)} pairs of chunks; {int(measured.links.sum())} bytes of chunks moved "
        f"(planned {int(plan.links.sum())}); {len(plan.moved)} chunks and {moved} view chunks kept elsewhere"
    )
    return found
