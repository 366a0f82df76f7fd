"""The job of an epoch of signal views: one exchange, whatever the pipelines do, since nothing crosses groups.

The first stage sends what has changed in the tables to the owners of the groups, the second steps every view
over the groups of its worker: a step of the worker's unit. Groups that have to be computed anew, because
events were deleted, changed or late, need rows that are elsewhere: a worker that finds some says which, does
nothing, and the driver runs the job again with the rows of these groups beside the change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from everfresh.signals.domain.bases import Groups, Moved, moved
from everfresh.signals.domain.view import Absent, Stepped, ViewState
from everfresh.signals.nodes import Viewed
from everfresh.signals.spark.content import Call, GroupContent, Kept, Segment, kept_of, role_with
from everfresh.signals.spark.shipping import ROWS, Arrived, read_ships, ship_all, shipments
from everfresh.spark.jobs.job import GATHERED, Message
from everfresh.spark.jobs.plans import Plan, Stage, Step, Task, unit_stage
from everfresh.spark.state.chain import Unit
from everfresh.state import pack_table, plain, unpack_table
from everfresh.types import no_rows

TODO = "todo"


@dataclass
class Reached:
    """What the driver knows of a view after an epoch: how far time has come, by reading, and sizes."""

    marks: list[tuple[int, int, int]] = field(default_factory=list)
    """The watermark, the latest time that was told, and the newest start."""
    sizes: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> list[Any]:
        """As plain data."""
        return [self.marks, self.sizes]

    @staticmethod
    def of(data: Sequence[Any]) -> Reached:
        """The inverse of `to_json`."""
        marks, sizes = data
        return Reached([tuple(each) for each in marks], dict(sizes))

    @staticmethod
    def by(view: ViewState) -> Reached:
        """Of a worker's groups."""
        sizes = {
            "rows": sum(map(len, view.parts)),
            "groups": view.pipeline.groups,
            "bytes": sum(part.nbytes for part in view.parts),
            "state": view.pipeline.size,
            "late": sum(len(t) for source in view.sources for t in source.late.tables),
        }
        return Reached([(s.watermark, s.told, s.newest) for s in view.sources], sizes)

    def and_(self, other: Reached) -> Reached:
        """Of two workers' groups: time is the same for both."""
        if not self.marks:
            return other
        sizes = {name: size + other.sizes[name] for name, size in self.sizes.items()}
        marks = [
            (max(a, d), max(b, e), max(c, f))
            for (a, b, c), (d, e, f) in zip(self.marks, other.marks, strict=True)
        ]
        return Reached(marks, sizes)


@dataclass
class Answer:
    """What the workers say of a job: where views are, or which groups' rows they need."""

    reached: dict[str, Reached] = field(default_factory=dict)
    needed: dict[str, pa.Table] = field(default_factory=dict)
    """Keys of groups, by view."""

    @staticmethod
    def of(payloads: Iterable[bytes]) -> Answer:
        """Of all workers."""
        found = Answer()
        for payload in payloads:
            told = plain(payload, "an answer about signals")
            for name, data in told.get("reached", {}).items():
                found.reached[name] = found.reached.get(name, Reached()).and_(Reached.of(data))
            for name, data in told.get("needed", {}).items():
                keys = unpack_table(bytes.fromhex(data))
                known = found.needed.get(name)
                found.needed[name] = keys if known is None else pa.concat_tables([known, keys])
        return found


def _stepped(unit: Unit, task: Task) -> Step:
    """What the driver asks for, over the groups of one worker."""
    content, todo = unit.content, plain(task.job.pieces[TODO], "a job of signals")
    assert isinstance(content, GroupContent)
    arrived = Arrived.of(read_ships(task.job.pieces), task.take())
    segment, reached, needed, rows = Segment(), dict[str, Reached](), dict[str, str](), 0
    for one in todo:
        name = one["name"]
        if one["do"] == "drop":
            if name in content.views:
                unit.record(content.put(name, None), _nothing)
                segment.dropped.append(name)
            continue
        if one["do"] == "view":
            made = _made(content, one, arrived)
            unit.record(content.put(name, made), _nothing)
            segment.made.append(made)
            reached[name] = Reached.by(made.state)
            continue
        view = content.views[name]
        try:
            stepped, change, undo = _step(view.state, one, arrived)
        except Absent as absent:
            needed[name] = pack_table(absent.keys).hex()
            continue
        unit.record(undo, _nothing)
        rows += len(change)
        reached[name] = Reached.by(view.state)
        if stepped is not None:
            segment.steps.append((name, stepped))
            if len(change):
                segment.changes[view.identity] = change
    if needed:
        unit.take_back()
        return Step(outputs=[_gathered(task, {"needed": needed})])
    told = {name: one.to_json() for name, one in reached.items()}
    return Step(segment.sections(pack_table), [_gathered(task, {"reached": told})], rows)


def _gathered(task: Task, told: Mapping[str, Any]) -> Message:
    return task.worker, GATHERED, json.dumps(told, sort_keys=True).encode()


def _nothing() -> None:
    """A step is final at once."""


def _made(content: GroupContent, told: Mapping[str, Any], arrived: Arrived) -> Kept:
    """A new view, with the rows that are there."""
    made = kept_of(told)
    view = made.state
    viewed = [each.view for each in view.query.walk() if isinstance(each, Viewed)]
    view.follow(content.views[other].state for other in viewed)
    tables = {}
    for ship in shipments(view, view.tables, ROWS):
        rows = arrived.table(ship)
        came = no_rows(view.schemas[ship.table]) if rows is None else rows.drop_columns(["_weight"])
        tables[ship.table] = view.without_late(ship.table, came.combine_chunks())
    view.backfill(tables)
    view.passed(arrived.newest_of(view))
    view.reach(kept.state for kept in content.views.values())
    return made


def _step(
    view: ViewState, told: Mapping[str, Any], arrived: Arrived
) -> tuple[Stepped | None, pa.Table, Callable[[], None]]:
    """Step a view: what the log keeps of it, None if nothing came of it."""
    moves: dict[str, Moved] = {}
    for ship in shipments(view, told["tables"]):
        change = arrived.table(ship)
        if change is not None:
            move = moved(change, ship.columns)
            if len(move.came) or len(move.went):
                moves[ship.table] = move
    asked = told.get("asked")

    def rows(table: str, groups: Groups | None) -> pa.Table:
        assert groups is not None
        if asked is None:
            raise Absent(groups.keys)
        (ship,) = shipments(view, [table], ROWS, asked)
        found = arrived.table(ship)
        return no_rows(view.schemas[table]) if found is None else found.drop_columns(["_weight"])

    before = Reached.by(view).marks
    stepped, change, undo = view.step(moves, told["times"], rows, arrived.newest_of(view))
    quiet = not moves and not len(change) and Reached.by(view).marks == before
    return None if quiet else stepped, change, undo


def _ship(task: Task) -> Iterable[Message]:
    yield from ship_all(task.job.world, task.job.pieces, task.worker)


@lru_cache(maxsize=16)
def plan_with(functions: tuple[tuple[str, Call], ...]) -> Plan:
    """The plan of a job of signal views, in processes that know these functions of users."""
    name = "signal-step" if not functions else f"signal-step-{abs(hash(functions)):x}"
    step = unit_stage("step", role_with(functions), _stepped)
    return Plan(name, (Stage("ship", _ship), step))
