"""An epoch of arrays and views on Spark: which jobs, in which order, and what they are told.

Cells that come and go change arrays in the same job in which views of joins follow them. What a view shows
changes in it too; whoever reads that follows in the next job, over chunks that are as the batch leaves them.
Operators on one array (FILTER, REGRID, APPLY, ...) are applied by the driver to the cells that a change
concerns: it collects the chunks around the change, no others, and hands out what came and went. Groups that
lost their least or greatest value, or a sum that cannot be taken back, are found again in one job more.

Invariant: after `run` the catalogs are those of the chunks in the draft's units.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.cells import Array, split
from everfresh.arrays.chunk import Chunk
from everfresh.arrays.execute.catalog import Catalog, Entry
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.spark.changing import CHANGE, Cells, counts, pieces_of, read_entries
from everfresh.arrays.spark.laying import LaidCells, read_laid
from everfresh.arrays.spark.reading import changes_of, collected
from everfresh.arrays.spark.views import stages
from everfresh.arrays.spark.views.stages import FOLLOW, STEPS
from everfresh.arrays.views.groups import no_change
from everfresh.arrays.views.spread.logical import Delta, delta_catalog, delta_of
from everfresh.arrays.views.spread.meeting import AGAIN, CHANGED, MADE, meeting
from everfresh.arrays.views.spread.planning import Plan
from everfresh.arrays.views.spread.worker import Both, Share
from everfresh.arrays.views.stages import Base, Joined, Operation, Stage
from everfresh.delta.bags import WEIGHT, net, weigh
from everfresh.spark.state.ledger import Draft
from everfresh.state import pack_arrays, pack_table
from everfresh.types import no_rows

if TYPE_CHECKING:
    from everfresh.arrays.spark.views.domain import ArraysAndViewsOnSpark


Batch = tuple[Cells, Cells]
"""The cells that come to an array, and those that leave it."""


@dataclass(frozen=True)
class Item:
    """A stage of a view that is to be made, or to follow."""

    view: str
    at: int
    mode: str
    keys: Ints | None = field(default=None, compare=False, hash=False)


@dataclass(frozen=True, eq=False)
class Measured:
    """A plan of one step, and the bytes that workers have sent one another for it, as they counted them."""

    plan: Plan
    links: Ints


class Epoch:
    """The jobs of one epoch."""

    def __init__(self, domain: ArraysAndViewsOnSpark, draft: Draft) -> None:
        self.domain, self.draft = domain, draft
        self.deltas: dict[str, Both] = {}
        """What is known to have come and gone, by array."""
        self.after: set[str] = set()
        """Arrays whose chunks are as the epoch leaves them."""
        self.entries: dict[str, dict[int, Entry]] = {}
        """What the record is to say of catalogs."""

    def run(self, changes: Mapping[str, Batch], dropped: Iterable[str], todo: list[Item]) -> None:
        """Change arrays, and let views follow."""
        read = {name for item in todo for name in self._inputs(item)}
        at_hand = {n: self._at_hand(n, both) for n, both in changes.items() if n in read}
        waiting: dict[str, Batch] = {**changes, **at_hand}
        gone = list(dropped)
        self.deltas.update(at_hand)
        while True:
            steps = self._ready(todo, waiting)
            if not (waiting or gone or steps):
                break
            self._job(waiting, gone, steps)
            self.after |= waiting.keys()
            waiting, gone = {}, []
            self.after |= {self.domain.kept_name(item.view, item.at) for item in steps}
        assert not todo, "a stage of a view that waits for ever"

    def _at_hand(self, name: str, both: Batch) -> Both:
        """A batch whose chunks views plan by: cells that tasks have laid down are read here."""
        schema, root = self.domain.kept_of[name].schema, str(self.domain.host.folder.root)
        came, went = (
            read_laid(root, cells.files, schema, None) if isinstance(cells, LaidCells) else cells
            for cells in both
        )
        return came, went

    def _stage(self, item: Item) -> Stage:
        return self.domain.views[item.view].stages[item.at]

    def _inputs(self, item: Item) -> list[str]:
        """The arrays that a stage reads, by the names that they are kept under."""
        return [self.domain.kept_name(item.view, at) for at in self._stage(item).inputs]

    def _ready(self, todo: list[Item], waiting: dict[str, Batch]) -> list[Item]:
        """The joins that can be made now, taken off the list; operators that can be are applied: what comes
        of them waits for the job too."""
        steps: list[Item] = []
        held: set[str] = set()
        for item in list(todo):
            out, inputs = self.domain.kept_name(item.view, item.at), self._inputs(item)
            stage = self._stage(item)
            if isinstance(stage, Base):
                todo.remove(item)
                continue
            made = item.mode == MADE
            late = not held.isdisjoint(inputs) or (
                not waiting.keys().isdisjoint(inputs) and (made or isinstance(stage, Operation))
            )
            if late:
                held.add(out)
                continue
            self.deltas.update(
                {n: self.change(n) for n in inputs if n in self.after and n not in self.deltas}
            )
            if made or not self.deltas.keys().isdisjoint(inputs):
                if isinstance(stage, Joined):
                    steps.append(item)
                    held.add(out)
                else:
                    assert isinstance(stage, Operation)
                    both = self._made(stage, inputs[0]) if made else self._changed(stage, inputs[0], out)
                    if both[0].num_rows or both[1].num_rows:
                        self.deltas[out] = waiting[out] = both
            todo.remove(item)
        return steps

    # -- operators -----------------------------------------------------------------------------------------

    def _made(self, stage: Operation, of: str) -> Both:
        """What an operator gives over all of an array."""
        found = stage.start([self._array(of, self._catalog(of).number)]).table
        return found.cast(stage.schema.arrow), no_rows(stage.schema.arrow)

    def _changed(self, stage: Operation, of: str, out: str) -> Both:
        """What an operator's result gains and loses by a change of its input."""
        came, went = self.deltas[of]
        change = net(pa.concat_tables([weigh(came), weigh(went, -1)]))
        if not change.num_rows:
            return signed(no_change(stage.schema), stage.schema)
        schema, old, new = self._catalog(of).schema, self._catalog(out), self._catalog(of)
        state = self._array(out, old.number[stage.writes(schema, change, old.lo, old.hi)])
        now = self._array(of, new.number[stage.reads(schema, change, new.lo, new.hi)])
        return signed(stage.change(state, now, change), stage.schema)

    def _array(self, name: str, numbers: Ints) -> Array:
        """Some chunks of an array as the draft has them."""
        known = self.domain.kept_of[name]
        if not len(numbers):
            return Array(known.schema)
        world, bases = self.domain.version(self.draft)
        catalog = known.catalog
        wanted = np.isin(catalog.number, numbers)
        only = tuple(
            frozenset(catalog.number[wanted & (catalog.home == worker)].tolist())
            for worker in range(self.domain.workers)
        )
        rows = collected(
            self.domain.host.session, world, bases, (known.identity, known.schema.ddl), only=only
        )
        schema = known.schema
        chunks = {n: Chunk.of(some, schema.ndim) for n, some in split(rows, schema).items()}
        return Array(schema, dict(sorted(chunks.items())))

    def change(self, name: str) -> Both:
        """What came to an array and left it in this epoch, by its segments."""
        known = self.domain.kept_of[name]
        world, bases = self.domain.version(self.draft)
        parts = changes_of(world, bases, known.identity, known.schema, self.draft.epoch - 1)
        empty = weigh(no_rows(known.schema.arrow))
        return signed(net(pa.concat_tables([empty, *(table for _, table in parts)])), known.schema)

    def _catalog(self, name: str) -> Catalog:
        return self.domain.kept_of[name].catalog

    # -- jobs ----------------------------------------------------------------------------------------------

    def _job(self, changes: Mapping[str, Batch], dropped: list[str], steps: list[Item]) -> None:
        """One job; and one more for groups that are to be found again."""
        domain = self.domain
        homes = {name: self._homes(name, both) for name, both in changes.items()}
        told = [
            (domain.kept_of[n].identity, domain.kept_of[n].schema.ddl, homes[n], *both)
            for n, both in changes.items()
        ]
        pieces = pieces_of(told, dropped, domain.workers)
        if not steps:
            answers = domain.host.runner.run(self.draft.job("array", pieces=pieces), CHANGE)
            self.draft.add(answers.controls)
            self._entries(answers.gathered)
            return
        movable = {n for n in changes if n in domain.objects and domain.objects[n].kind == domain.kind}
        plans = []
        listed: list[Any] = []
        for at, item in enumerate(steps):
            plan = self._plan(item, homes, frozenset(movable))
            movable -= {name for name, _ in plan.moved}
            plans.append(plan)
            about, own = self._told(at, item, plan, list(changes))
            listed.append(about)
            pieces |= own
        pieces[STEPS] = json.dumps(listed).encode()
        answers = domain.host.runner.run(self.draft.job("array", pieces=pieces), FOLLOW)
        self.draft.add(answers.controls)
        self._entries(p[1:] for p in answers.gathered if p[:1] == stages.ENTRIES)
        self._measured(steps, plans, answers.gathered)
        dirty = stages.read_dirty(answers.gathered)
        if dirty:
            self.after |= changes.keys()
            again = [Item(steps[at].view, steps[at].at, AGAIN, keys) for at, keys in sorted(dirty.items())]
            self._job({}, [], again)

    def _measured(self, steps: list[Item], plans: list[Plan], gathered: Iterable[bytes]) -> None:
        workers = self.domain.workers
        links = np.zeros((len(steps), workers, workers), np.int64)
        for payload in gathered:
            if payload[:1] == stages.SENT:
                told = json.loads(payload[1:])
                links[:, told["worker"]] += np.array(told["links"], np.int64)
        for k, (item, plan) in enumerate(zip(steps, plans, strict=True)):
            if item.mode != AGAIN:
                self.domain.measured[item.view, item.at] = Measured(plan, links[k])

    def _homes(self, name: str, both: Batch) -> dict[int, int]:
        known = self.domain.kept_of[name]
        cells: dict[int, int] = {}
        for rows in both:
            for number, count in counts(rows, known.schema).items():
                cells[number] = cells.get(number, 0) + count
        return known.catalog.homes(cells, self.domain.workers, known.placement)

    def _plan(self, item: Item, homes: Mapping[str, dict[int, int]], movable: frozenset[str]) -> Plan:
        """Where a step's joins are made."""
        domain, names = self.domain, self._inputs(item)
        old = {name: self._catalog(name) for name in names}
        new = {}
        if item.mode == CHANGED:
            for name in dict.fromkeys(names):
                if name in self.deltas:
                    where = homes[name] if name in homes else self._homes(name, self.deltas[name])
                    new[name] = delta_catalog(old[name].schema, self._delta(name), where)
        definition = self._stage(item).definition  # type: ignore[attr-defined]
        found = meeting(item.mode, definition, names, old, new, item.keys)
        kept = domain.kept_of[domain.groups_name(item.view, item.at)]
        return domain.planner(item.view, item.at).plan(
            found, domain.workers, kept.catalog, kept.placement, old, movable
        )

    def _delta(self, name: str) -> Delta:
        return delta_of(self.domain.kept_of[name].schema, *self.deltas[name])

    def _told(self, at: int, item: Item, plan: Plan, changed: list[str]) -> tuple[Any, dict[str, Any]]:
        """A step as pieces of a message."""
        domain, names = self.domain, self._inputs(item)
        objects = plan.meeting.objects
        after = tuple(k for k, name in enumerate(objects.arrays) if name in self.after)
        pipeline = domain.views[item.view]
        about = {
            "text": str(pipeline.statement),
            "schemas": sorted((n, domain.kept_of[n].schema.ddl) for n in pipeline.reads),
            "stage": item.at,
            "mode": item.mode,
            "arrays": [
                [
                    domain.kept_of[n].identity,
                    domain.kept_of[n].schema.ddl,
                    changed.index(n) if n in changed else None,
                ]
                for n in objects.arrays
            ],
            "sources": [objects.arrays.index(name) for name in names],
            "groups": domain.kept_of[domain.groups_name(item.view, item.at)].identity,
            "shown": domain.kept_of[domain.kept_name(item.view, item.at)].identity,
            "teams": plan.meeting.teams,
            "after": list(after),
        }
        moves = np.full(len(objects), -1, np.int64)
        for (name, number), to in plan.moved.items():
            moves[(objects.array == objects.arrays.index(name)) & (objects.number == number)] = to
        what, targets = plan.sent
        used = np.unique(
            np.concatenate([plan.meeting.first, plan.meeting.second, what, np.flatnonzero(moves >= 0)])
        )
        columns = {name: getattr(objects, name)[used] for name in ("array", "number", "delta", "home")}
        kept = {"number": plan.views, "before": plan.view_from, "home": plan.view_to}
        pieces: dict[str, Any] = {
            f"objects/{at}": pack_arrays({**columns, "moves": moves[used]}),
            f"chunks/{at}": pack_arrays(kept),
        }
        if item.keys is not None:
            pieces[f"keys/{at}"] = pack_arrays({"key": item.keys})
        for worker in range(domain.workers):
            share = Share.of(plan, worker)
            mine, arriving = objects.home[what] == worker, targets == worker
            take = what[arriving][moves[what[arriving]] == worker]
            some = {"left": share.left, "right": share.right, "send": what[mine], "take": take}
            part = {name: np.searchsorted(used, positions) for name, positions in some.items()}
            pieces[f"part/{at}/{worker}"] = pack_arrays({**part, "to": targets[mine], "whole": share.whole})
        return about, pieces | self._beside(at, plan, used, changed)

    def _beside(self, at: int, plan: Plan, used: Ints, changed: list[str]) -> dict[str, Any]:
        """Changes of arrays that were changed in a job before: they travel with this one's message."""
        objects = plan.meeting.objects
        pieces: dict[str, Any] = {}
        split_of = {n: self._delta(n) for n in objects.arrays if n in self.deltas and n not in changed}
        for position, k in enumerate(used.tolist()):
            name = objects.arrays[int(objects.array[k])]
            if name in split_of and objects.delta[k]:
                both = split_of[name][int(objects.number[k])]
                for kind, rows in zip(("delta", "gone"), both, strict=True):
                    if rows.num_rows:
                        pieces[f"{kind}/{at}/{position}"] = pack_table(rows)
        return pieces

    def _entries(self, payloads: Iterable[bytes]) -> None:
        """Take what workers say of their chunks into catalogs, and into the record."""
        names = {known.identity: name for name, known in self.domain.kept_of.items()}
        for identity, some in read_entries(payloads).items():
            name = names[identity]
            self.domain.take(name, some)
            self.entries.setdefault(name, {}).update({one[0]: one for one in some})


def signed(change: pa.Table, schema: ArraySchema) -> Both:
    """Rows with `_weight` as those that came and those that went, each as often as it says."""
    weights = change.column(WEIGHT).to_numpy()
    rows = change.drop_columns([WEIGHT]).cast(schema.arrow)
    every = np.arange(len(weights))
    came, went = (np.repeat(every, np.maximum(sign * weights, 0)) for sign in (1, -1))
    return rows.take(came).combine_chunks(), rows.take(went).combine_chunks()
