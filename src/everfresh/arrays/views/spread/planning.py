"""Where what meets is joined, where view chunks take what is found, and what is kept elsewhere from then on.

Turns a `Meeting` into a batch of the planner (`everfresh.arrays.upkeep`) and its plan into what workers are
told: objects that it sends and to whom, pairs that it joins, chunks that it takes over. A planner of a view
lives as long as the driver does; the window of past batches begins anew when a database is opened.

Invariant: every pair is joined at one worker, which has both objects then; whoever takes a chunk over has all
of it; `Plan.bytes` is what workers send one another of chunks, to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from everfresh.arrays.execute.catalog import Catalog
from everfresh.arrays.model import Ints
from everfresh.arrays.upkeep.planner import Planner, PlannerOptions
from everfresh.arrays.upkeep.plans import MaintenancePlan
from everfresh.arrays.upkeep.update import Update
from everfresh.arrays.views.spread.meeting import CHANGED, NONE, Meeting

MOST_WORKERS = 62
"""Sets of workers are words of 64 bits."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What workers do."""

    workers: int
    meeting: Meeting
    worker: Ints
    """Of each pair."""
    views: Ints
    """View chunks that may receive something, or move, by number; and where each was and is kept."""
    view_from: Ints
    view_to: Ints
    view_bytes: Ints
    moved: Mapping[tuple[str, int], int]
    """Chunks of arrays that are kept elsewhere from now on."""
    sent: tuple[Ints, Ints]
    """Objects and the workers that each is sent to."""
    upkeep: MaintenancePlan | None = None

    @property
    def links(self) -> Ints:
        """Bytes that each worker sends each other one: objects, and view chunks that move."""
        found = np.zeros((self.workers, self.workers), np.int64)
        what, to = self.sent
        objects = self.meeting.objects
        np.add.at(found, (objects.home[what], to), objects.bytes[what])
        away = (self.view_from != self.view_to) & (self.view_from >= 0)
        np.add.at(found, (self.view_from[away], self.view_to[away]), self.view_bytes[away])
        return found

    @property
    def method(self) -> str:
        """By which method it was made."""
        return "baseline" if self.upkeep is None else self.upkeep.method


@dataclass
class _Numbers:
    """Positions of things that come again, in the order in which they first came."""

    known: dict[tuple[str, int], int] = field(default_factory=dict)

    def of(self, things: list[tuple[str, int]]) -> Ints:
        return np.array([self.known.setdefault(thing, len(self.known)) for thing in things], np.int64)


class ViewPlanner:
    """Plans of one view of joins, batch after batch."""

    def __init__(self, options: PlannerOptions) -> None:
        self.options = options
        """How plans are made."""
        self._chunks, self._views = _Numbers(), _Numbers()
        self._planner = Planner(options, NONE, NONE)
        self.last: Plan | None = None

    def plan(
        self,
        meeting: Meeting,
        workers: int,
        kept: Catalog,
        rule: str,
        stored: Mapping[str, Catalog],
        movable: frozenset[str] | None = None,
    ) -> Plan:
        """The plan of a meeting; `kept` is the catalog of the view's groups, `rule` deals new chunks of it,
        `stored` are the catalogs of the arrays, `movable` those whose chunks may be kept elsewhere (None:
        all)."""
        homes = kept.homes(dict.fromkeys(meeting.views.tolist(), 1), workers, rule)
        views = np.array(list(homes), np.int64)
        to = np.array(list(homes.values()), np.int64)
        at = kept.places(views)
        there = at >= 0
        size = np.zeros((2, len(views)), np.int64)
        size[0, there], size[1, there] = kept.cells[at[there]], kept.bytes[at[there]]
        where = np.where(there, to, -1)
        if meeting.teams or workers > MOST_WORKERS or not len(meeting.first):
            self.last = self._at_home(meeting, workers, views, where, to, size[1])
            return self.last
        self._planner.options = self.options
        update, chunk_ids = self._update(meeting, workers, views, to, size[0])
        planner = self._planner if meeting.mode == CHANGED else self._fresh(update)
        chosen = planner.step(update, self._stored(stored))
        ids = self._views.of([("", n) for n in views.tolist()])
        new = chosen.view_home[ids] if meeting.mode == CHANGED else to
        moved = self._moved(meeting, chunk_ids, chosen)
        moved = {one: to for one, to in moved.items() if movable is None or one[0] in movable}
        sent = self._sent(meeting, chosen.worker, moved)
        self.last = Plan(workers, meeting, chosen.worker, views, where, new, size[1], moved, sent, chosen)
        return self.last

    def _fresh(self, update: Update) -> Planner:
        """A planner for a view that is made: nothing moves, and no past counts."""
        method = "baseline" if self.options.method == "baseline" else "differential"
        return Planner(replace(self.options, method=method), self._planner.home, self._planner.view_home)

    def _at_home(
        self, meeting: Meeting, workers: int, views: Ints, where: Ints, to: Ints, size: Ints
    ) -> Plan:
        """Pairs are joined where their first object is kept."""
        worker = meeting.objects.home[meeting.first]
        sent = self._sent(meeting, worker, {})
        return Plan(workers, meeting, worker, views, where, to, size, {}, sent)

    # -- as the planner reads it ---------------------------------------------------------------------------

    def _update(
        self, meeting: Meeting, workers: int, views: Ints, homes: Ints, sizes: Ints
    ) -> tuple[Update, Ints]:
        """The batch; and the chunk, as the planner knows it, of each object that takes part."""
        objects = meeting.objects
        some = np.unique(np.concatenate([meeting.first, meeting.second]))
        changed = some[objects.delta[some] == 1]
        old = objects.old[changed]
        some = np.unique(np.concatenate([some, old[old >= 0]]))  # a chunk that has changed, met or not
        names = [objects.arrays[k] for k in objects.array[some].tolist()]
        chunks = self._chunks.of(list(zip(names, objects.number[some].tolist(), strict=True)))
        ids = self._views.of([("", n) for n in views.tolist()])
        planner = self._planner
        planner.home = _grown(planner.home, len(self._chunks.known))
        planner.view_home = _grown(planner.view_home, len(self._views.known))
        planner.home[chunks] = objects.home[some]
        planner.view_home[ids] = homes
        view_size = np.zeros(len(planner.view_home), np.int64)
        view_size[ids] = sizes
        triples = [
            meeting.pair,
            ids[np.searchsorted(views, meeting.view)],
            np.searchsorted(some, meeting.side),
        ]
        pairs = np.stack([np.searchsorted(some, side) for side in (meeting.first, meeting.second)], axis=1)
        update = Update.of(
            workers,
            size=objects.cells[some],
            home=objects.home[some],
            pairs=pairs,
            triples=np.stack(triples, axis=1),
            view_home=planner.view_home,
            chunk=chunks,
            delta=objects.delta[some],
            view_size=view_size,
        )
        return update, chunks

    def _stored(self, stored: Mapping[str, Catalog]) -> Ints:
        """The cells of each chunk that the planner knows."""
        cells = np.zeros(len(self._chunks.known), np.int64)
        by_array: dict[str, tuple[list[int], list[int]]] = {}
        for (name, number), at in self._chunks.known.items():
            numbers, places = by_array.setdefault(name, ([], []))
            numbers.append(number)
            places.append(at)
        for name, (numbers, places) in by_array.items():
            if name in stored:
                found = stored[name].places(np.array(numbers, np.int64))
                here = found >= 0
                cells[np.array(places)[here]] = stored[name].cells[found[here]]
        return cells

    def _moved(self, meeting: Meeting, chunks: Ints, chosen: MaintenancePlan) -> dict[tuple[str, int], int]:
        if meeting.mode != CHANGED:
            return {}
        names = list(self._chunks.known)
        here = set(chunks.tolist())
        return {names[at]: worker for at, worker in chosen.home.items() if at in here}

    @staticmethod
    def _sent(meeting: Meeting, worker: Ints, moved: Mapping[tuple[str, int], int]) -> tuple[Ints, Ints]:
        """Whom objects are sent to, each once: workers that join them, or keep their chunk from now on."""
        objects = meeting.objects
        what = [meeting.first, meeting.second]
        to = [worker, worker]
        if moved:
            for (name, number), target in moved.items():
                its = (objects.array == objects.arrays.index(name)) & (objects.number == number)
                what.append(np.flatnonzero(its))
                to.append(np.full(len(what[-1]), target))
        every, target_of = np.concatenate(what), np.concatenate(to)
        codes = np.unique(every * (1 << 20) + target_of)
        every, target_of = codes >> 20, codes & ((1 << 20) - 1)
        away = objects.home[every] != target_of
        return every[away], target_of[away]


def _grown(values: Ints, count: int) -> Ints:
    found = np.zeros(count, np.int64)
    found[: len(values)] = values
    return found
