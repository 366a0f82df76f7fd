"""A view kept by logical workers in this process: the twin of the jobs on Spark, and what simulations run.

Each worker has chunks of its own and reads nothing else; what it lacks it is sent as bytes. They are counted.

Invariant: after `make` and each `step` the groups are those of the join of the arrays as they are, each chunk
is where the catalogs say, and `links` are those of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from everfresh.arrays.cells import Array, split
from everfresh.arrays.chunk import Chunk, coordinates, exchanged
from everfresh.arrays.execute.catalog import Catalog, Entry, entry
from everfresh.arrays.execute.wire import packed, size_of, unpacked
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.upkeep.planner import PlannerOptions
from everfresh.arrays.views.definition import Definition
from everfresh.arrays.views.groups import shown
from everfresh.arrays.views.slots import combined
from everfresh.arrays.views.spread.meeting import AGAIN, CHANGED, MADE, Meeting, meeting
from everfresh.arrays.views.spread.planning import Plan, ViewPlanner
from everfresh.arrays.views.spread.stored import groups_of, groups_schema
from everfresh.arrays.views.spread.worker import Both, Share, joined, taken
from everfresh.types import no_rows

Delta = dict[int, Both]
"""The cells that come to chunks and leave them, by number."""


def delta_of(schema: ArraySchema, came: pa.Table, went: pa.Table) -> Delta:
    """A batch by chunks."""
    more, less = split(came, schema), split(went, schema)
    nothing = no_rows(schema.arrow)
    return {n: (more.get(n, nothing), less.get(n, nothing)) for n in sorted(more.keys() | less.keys())}


def delta_entry(number: int, home: int, both: Both, ndim: int) -> Entry:
    """What a catalog of changes says of the change of a chunk."""
    coords = np.concatenate([coordinates(table, ndim) for table in both], axis=1)
    size = sum(size_of(table) for table in both)
    return (number, home, coords.shape[1], size, *coords.min(axis=1).tolist(), *coords.max(axis=1).tolist())


def delta_catalog(schema: ArraySchema, delta: Delta, homes: Mapping[int, int]) -> Catalog:
    """The catalog of the changes of a batch."""
    entries = [delta_entry(n, homes[n], both, schema.ndim) for n, both in delta.items()]
    return Catalog.empty(schema).after(entries)


@dataclass
class LogicalView:
    """A view of joins, and its arrays, over logical workers."""

    of: Definition
    names: tuple[str, ...]
    workers: int
    rule: str = "round-robin"
    options: PlannerOptions = field(default_factory=PlannerOptions)
    catalogs: dict[str, Catalog] = field(default_factory=dict)
    chunks: list[dict[tuple[str, int], Chunk]] = field(default_factory=list)
    sent: Ints = field(default_factory=lambda: np.empty((0, 0), np.int64))
    """Bytes of chunks that workers have sent each other for the last batch; `links`: in the last job."""

    def make(self, arrays: Mapping[str, Array], rule: str = "round-robin") -> LogicalView:
        """Deal the arrays to workers, and make the view."""
        self.planner = ViewPlanner(self.options)
        self.chunks = [{} for _ in range(self.workers)]
        for name in dict.fromkeys(self.names):
            array = arrays[name]
            catalog = Catalog.of(array.schema, array.chunks, self.workers, rule)
            self.catalogs[name] = catalog
            for number, home in zip(catalog.number.tolist(), catalog.home.tolist(), strict=True):
                self.chunks[home][name, number] = array.chunks[number]
        self.kept = Catalog.empty(groups_schema(self.of))
        self.groups: list[dict[int, pa.Table]] = [{} for _ in range(self.workers)]
        self._run(self._plan(meeting(MADE, self.of, self.names, self.catalogs)), {})
        return self

    def step(self, batch: Mapping[str, Both]) -> Plan:
        """Follow a batch."""
        deltas, news = {}, {}
        for name, both in batch.items():
            catalog = self.catalogs[name]
            delta = delta_of(catalog.schema, *both)
            homes = catalog.homes(
                {n: len(a) + len(b) for n, (a, b) in delta.items()}, self.workers, self.rule
            )
            deltas[name], news[name] = delta, delta_catalog(catalog.schema, delta, homes)
        plan = self._plan(meeting(CHANGED, self.of, self.names, self.catalogs, news))
        dirty = self._run(plan, deltas)
        self.sent = self.links
        self._change(plan, deltas, news)
        if len(dirty):
            again = meeting(AGAIN, self.of, self.names, self.catalogs, keys=dirty)
            self._run(self._plan(again), {}, dirty)
        return plan

    @property
    def table(self) -> pa.Table:
        """What is shown."""
        tables = [shown(self.of, groups_of(self.of, t)) for held in self.groups for t in held.values()]
        return pa.concat_tables([no_rows(self.of.schema.arrow), *tables])

    def _plan(self, meeting: Meeting) -> Plan:
        return self.planner.plan(meeting, self.workers, self.kept, self.rule, self.catalogs)

    # -- what workers do -----------------------------------------------------------------------------------

    def _run(self, plan: Plan, deltas: Mapping[str, Delta], keys: Ints | None = None) -> Ints:
        """Send, join and take; the groups that have to be found again."""
        objects, of = plan.meeting.objects, self.of
        numbers = [list(objects.arrays).index(name) for name in self.names]
        self.links = np.zeros((self.workers, self.workers), np.int64)

        def kept(position: int) -> Both:
            name, number = objects.arrays[objects.array[position]], int(objects.number[position])
            if objects.delta[position]:
                return deltas[name][number]
            table = self.chunks[objects.home[position]][name, number].table
            return table, table.slice(0, 0)

        arrived: list[dict[int, Both]] = [{} for _ in range(self.workers)]
        for position, to in zip(*(side.tolist() for side in plan.sent), strict=True):
            home, is_delta = int(objects.home[position]), objects.delta[position]
            both = kept(position)
            data = [packed(table) for table in both[: 1 + is_delta]]
            self.links[home, to] += sum(map(len, data))
            back = [unpacked(one, both[0].schema) for one in data]
            arrived[to][position] = (back[0], back[-1] if is_delta else back[0].slice(0, 0))
        found = []
        for worker in range(self.workers):
            share = Share.of(plan, worker)

            def get(position: int, worker: int = worker) -> Both:
                if position in arrived[worker]:
                    return arrived[worker][position]
                assert objects.home[position] == worker, "a chunk that was never sent"
                return kept(position)

            found.append(joined(of, numbers, share, get, keys))
        self._move_views(plan)
        return self._take(plan, [change for change in found if change is not None], keys is not None)

    def _move_views(self, plan: Plan) -> None:
        for number, before, to in zip(
            plan.views.tolist(), plan.view_from.tolist(), plan.view_to.tolist(), strict=True
        ):
            if before not in (-1, to):
                table = self.groups[before].pop(number)
                self.links[before, to] += size_of(table)
                self.groups[to][number] = table

    def _take(self, plan: Plan, found: list, again: bool) -> Ints:
        """Take what was found into the chunks of groups; which have to be found again."""
        of = self.of
        volume = of.numbering.volume
        schema = groups_schema(of)
        empty = Chunk(no_rows(schema.arrow), schema.ndim)
        dirty = [np.empty(0, np.int64)]
        entries = []
        homes = dict(zip(plan.views.tolist(), plan.view_to.tolist(), strict=True))
        change = combined(found)
        touched = set() if change is None else set((change.keys // volume).tolist())
        for number in homes.keys() | touched:
            home = homes[number]
            held = self.groups[home]
            if number in touched:
                assert change is not None
                keep = change.keys // volume == number
                some = type(change)(change.keys[keep], {n: c[keep] for n, c in change.columns.items()})
                chunks = {number: held[number]} if number in held else {}
                done = taken(of, chunks, some, again)
                new = exchanged(schema, Chunk(held[number], schema.ndim) if chunks else empty, *done.groups)
                dirty.append(done.dirty)
                held[number] = new.table
                if not len(new):
                    del held[number]
            if number in held or number in touched:
                entries.append(entry(number, home, Chunk(held.get(number, empty.table), schema.ndim)))
        self.kept = self.kept.after(entries)
        return np.sort(np.concatenate(dirty))

    def _change(self, plan: Plan, deltas: Mapping[str, Delta], news: Mapping[str, Catalog]) -> None:
        """Change the arrays, and move the chunks that are kept elsewhere from now on."""
        for name in dict.fromkeys(self.names):
            catalog = self.catalogs[name]
            schema, entries = catalog.schema, []
            empty = Chunk(no_rows(schema.arrow), schema.ndim)
            homes: dict[int, int] = {}
            for known in (catalog, news.get(name, catalog)):
                homes |= dict(zip(known.number.tolist(), known.home.tolist(), strict=True))
            moving = {number: to for (array, number), to in plan.moved.items() if array == name}
            for number in sorted(deltas.get(name, {}).keys() | moving.keys()):
                held = self.chunks[homes[number]]
                chunk = held.pop((name, number), empty)
                if number in deltas.get(name, {}):
                    chunk = chunk.changed(schema, *deltas[name][number])
                home = moving.get(number, homes[number])
                entries.append(entry(number, home, chunk))
                if len(chunk):
                    self.chunks[home][name, number] = chunk
            self.catalogs[name] = catalog.after(entries)
