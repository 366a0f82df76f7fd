"""The job of an epoch in which views follow arrays: chunks are sent, joined, and results taken.

    send      emits the planned objects (chunks as they were, changes of chunks, groups that move), each once
              for each target, as `wire.packed` bytes
    join      joins what a worker was told to; gives what it found to the workers of view chunks, and hands on
              to itself what it is to keep
    take      changes the arrays, takes over what moved, takes results into groups and what is shown of them:
              the one step of the worker's unit

What is measured holds no times, so that a stage that is run again repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import split
from everfresh.arrays.chunk import Chunk, exchanged
from everfresh.arrays.execute.catalog import Entry, entry
from everfresh.arrays.execute.wire import packed, unpacked
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.spark.changing import GIVEN, KINDS, given, rows_given, told_entries
from everfresh.arrays.spark.content import CHUNKS, ChunkContent, schema_of, segment
from everfresh.arrays.views.definition import Definition
from everfresh.arrays.views.groups import shown
from everfresh.arrays.views.pipeline import compile_view
from everfresh.arrays.views.slots import Changes, combined
from everfresh.arrays.views.spread.meeting import AGAIN
from everfresh.arrays.views.spread.stored import as_table, from_table, groups_of, groups_schema
from everfresh.arrays.views.spread.worker import Both, Share, joined, taken
from everfresh.spark.jobs.job import DATA, GATHERED, Job, Message
from everfresh.spark.jobs.plans import Plan, Stage, Step, Task, unit_stage
from everfresh.spark.state.chain import Unit, open_for_reading
from everfresh.state import pack_table, plain, unpack_arrays, unpack_table
from everfresh.types import no_rows

STEPS = "views"
ENTRIES, SENT, DIRTY = b"E", b"S", b"D"
"""What a message to the driver holds: rows of catalogs, what was measured, groups to be found again."""
CAME, WENT, GROUPS, FOUND = range(4)
"""Parts of what travels: a chunk, or what came to it; what went; groups that move; a change of groups."""
_CONTAINER = 16 << 20
_HEAD = 4


@dataclass(frozen=True, eq=False)
class Told:
    """What a worker is told of one view's step."""

    job: Job
    at: int
    worker: int
    about: dict[str, Any]

    @cached_property
    def definition(self) -> Definition:
        """What is joined."""
        return definition_of(
            self.about["text"], tuple(map(tuple, self.about["schemas"])), self.about["stage"]
        )

    @cached_property
    def objects(self) -> dict[str, Ints]:
        """The objects by position: array, number, delta, home."""
        return unpack_arrays(self.job.pieces[f"objects/{self.at}"])

    @cached_property
    def views(self) -> dict[str, Ints]:
        """View chunks: number, where they were, where they are kept."""
        return unpack_arrays(self.job.pieces[f"chunks/{self.at}"])

    @cached_property
    def mine(self) -> dict[str, Ints]:
        """This worker's part."""
        return unpack_arrays(self.job.pieces[f"part/{self.at}/{self.worker}"])

    @cached_property
    def keys(self) -> Ints | None:
        """The groups that are to be found again, if that is what is done."""
        if self.about["mode"] != AGAIN:
            return None
        return unpack_arrays(self.job.pieces[f"keys/{self.at}"])["key"]

    @property
    def share(self) -> Share:
        """What this worker joins."""
        o, m = self.objects, self.mine
        return Share(
            self.about["mode"], o["array"], o["delta"], o["number"], m["left"], m["right"], m["whole"],
            self.about["teams"], tuple(self.about["after"]),
        )  # fmt: skip

    def schema(self, position: int) -> ArraySchema:
        """The schema of the array that an object is of."""
        return schema_of(self.about["arrays"][int(self.objects["array"][position])][1])


@lru_cache(maxsize=128)
def definition_of(text: str, schemas: tuple[tuple[str, str], ...], stage: int) -> Definition:
    """The definition of a stage of a view over arrays of these schemas."""
    view = parse(text)
    found = compile_view(view, {name: schema_of(ddl) for name, ddl in schemas})  # type: ignore[arg-type]
    definition: Definition = found.stages[stage].definition  # type: ignore[attr-defined]
    return definition


class Chunks:
    """Objects as this worker has them: its own, and what it was sent."""

    def __init__(self, job: Job, worker: int) -> None:
        found = open_for_reading(job.bases[f"{CHUNKS.name}/{worker}"], job.world).content
        assert isinstance(found, ChunkContent)
        self.job, self.worker, self.content = job, worker, found
        self.steps = steps_of(job, worker)
        self.batch: dict[str, Any] = plain(job.pieces[GIVEN], "a batch of cells")
        self.given: list[Any] = self.batch["arrays"]
        self._split: dict[int, tuple[dict[int, pa.Table], dict[int, pa.Table]]] = {}

    def changes(self, at: int) -> tuple[dict[int, pa.Table], dict[int, pa.Table]]:
        """The cells of a batch that come to this worker's chunks and leave them."""
        if at not in self._split:
            schema = schema_of(self.given[at][1])
            came, went = (
                split(given(self.job, self.worker, self.batch, kind, at, schema), schema) for kind in KINDS
            )
            self._split[at] = came, went
        return self._split[at]

    def local(self, step: Told, position: int) -> Both:
        """An object that is kept here."""
        identity, ddl, at, *_ = step.about["arrays"][int(step.objects["array"][position])]
        number, nothing = int(step.objects["number"][position]), no_rows(schema_of(ddl).arrow)
        if not step.objects["delta"][position]:
            return self.content.array(identity)[number].table, nothing
        if at is None:  # it was changed before, in the same epoch
            came, went = (
                rows_given(self.job.pieces, f"{kind}/{step.at}/{position}", nothing.schema)
                for kind in ("delta", "gone")
            )
            return came, went
        more, less = self.changes(at)
        return more.get(number, nothing), less.get(number, nothing)


def steps_of(job: Job, worker: int) -> list[Told]:
    """The steps of views in a job."""
    return [
        Told(job, at, worker, about) for at, about in enumerate(plain(job.pieces[STEPS], "steps of views"))
    ]


# -- containers ------------------------------------------------------------------------------------------

Item = tuple[int, int, int, bytes]
"""Which step, which position (or view chunk), which part, and its bytes."""


def _containers(items: Iterable[Item]) -> Iterator[bytes]:
    some: list[Item] = []
    size = 0
    for item in items:
        some.append(item)
        size += len(item[3])
        if size > _CONTAINER:
            yield _container(some)
            some, size = [], 0
    if some:
        yield _container(some)


def _container(items: list[Item]) -> bytes:
    head = np.array([[a, b, c, len(data)] for a, b, c, data in items], "<i8").reshape(-1)
    return b"".join([len(items).to_bytes(8, "little"), head.tobytes(), *(data for *_, data in items)])


def _opened(payloads: Iterable[bytes]) -> Iterator[tuple[int, int, int, memoryview]]:
    for payload in payloads:
        count = int.from_bytes(payload[:8], "little")
        head = np.frombuffer(payload, "<i8", _HEAD * count, 8).reshape(count, _HEAD)
        at = 8 + 8 * _HEAD * count
        for step, position, part, size in head.tolist():
            yield step, position, part, memoryview(payload)[at : at + size]
            at += size


# -- send ------------------------------------------------------------------------------------------------


def send(task: Task) -> Iterator[Message]:
    """Emit what the plans of views send from here."""
    here = Chunks(task.job, task.worker)
    links = np.zeros((len(here.steps), task.job.world.workers), np.int64)
    items: dict[int, list[Item]] = {}
    for step in here.steps:
        for position, to in zip(step.mine["send"].tolist(), step.mine["to"].tolist(), strict=True):
            both = here.local(step, position)
            for part in (CAME, WENT)[: 1 + int(step.objects["delta"][position])]:
                items.setdefault(to, []).append((step.at, position, part, packed(both[part])))
        views = step.views
        away = (views["before"] == task.worker) & (views["home"] != task.worker)
        held = here.content.array(step.about["groups"])
        for number, to in zip(views["number"][away].tolist(), views["home"][away].tolist(), strict=True):
            items.setdefault(to, []).append((step.at, number, GROUPS, packed(held[number].table)))
    for to, some in sorted(items.items()):
        for at, _, _, data in some:
            links[at, to] += len(data)
        for payload in _containers(some):
            yield to, DATA, payload
    told = {"worker": task.worker, "links": links.tolist()}
    yield task.worker, GATHERED, SENT + json.dumps(told).encode()


# -- join ------------------------------------------------------------------------------------------------


def join(task: Task) -> Iterator[Message]:
    """Join, and give what was found to the workers of view chunks."""
    here = Chunks(task.job, task.worker)
    arrived: dict[tuple[int, int], dict[int, memoryview]] = {}
    kept: list[Item] = []
    for at, position, part, data in _opened(task.take()):
        if part == GROUPS:
            kept.append((at, position, part, bytes(data)))
        else:
            arrived.setdefault((at, position), {})[part] = data
    items: dict[int, list[Item]] = {}
    for step in here.steps:
        kept += [
            (step.at, position, part, bytes(data))
            for position in step.mine["take"].tolist()
            for part, data in arrived.get((step.at, position), {}).items()
        ]

        def get(position: int, step: Told = step) -> Both:
            parts = arrived.get((step.at, position))
            if parts is None:
                return here.local(step, position)
            schema = step.schema(position).arrow
            came = unpacked(parts[CAME], schema)
            return came, unpacked(parts[WENT], schema) if WENT in parts else no_rows(schema)

        change = joined(step.definition, step.about["sources"], step.share, get, step.keys)
        if change is not None:
            for to, part_of in _by_home(step, change):
                items.setdefault(to, []).append((step.at, 0, FOUND, bytes(pack_table(as_table(part_of)))))
    items.setdefault(task.worker, []).extend(kept)
    for to, some in sorted(items.items()):
        for payload in _containers(some):
            yield to, DATA, payload


def _by_home(step: Told, change: Changes) -> Iterator[tuple[int, Changes]]:
    """A change by the workers of its view chunks."""
    views = step.views
    at = np.searchsorted(views["number"], change.keys // step.definition.numbering.volume)
    homes = views["home"][at]
    for to in np.unique(homes).tolist():
        keep = homes == to
        yield to, Changes(change.keys[keep], {n: c[keep] for n, c in change.columns.items()})


# -- take ------------------------------------------------------------------------------------------------


Moving = tuple[ArraySchema, Told, int]


class _Taking:
    """What a worker's unit becomes."""

    def __init__(self, unit: Unit, task: Task) -> None:
        assert isinstance(unit.content, ChunkContent)
        self.unit, self.worker, self.content = unit, task.worker, unit.content
        self.here = Chunks(task.job, task.worker)
        self.here.content = unit.content
        self.found: dict[int, list[Changes]] = {}
        self.groups: dict[tuple[int, int], pa.Table] = {}
        self.objects: dict[tuple[int, int], dict[int, memoryview]] = {}
        for at, position, part, data in _opened(task.take()):
            if part == FOUND:
                self.found.setdefault(at, []).append(from_table(unpack_table(bytes(data))))
            elif part == GROUPS:
                schema = groups_schema(self.here.steps[at].definition).arrow
                self.groups[at, position] = unpacked(bytes(data), schema)
            else:
                self.objects.setdefault((at, position), {})[part] = data
        self.changes: dict[str, tuple[ArraySchema, pa.Table, pa.Table]] = {}
        self.moved: dict[str, tuple[ArraySchema, pa.Table, pa.Table]] = {}
        self.entries: dict[str, list[Entry]] = {}
        self.puts: list[tuple[str, ArraySchema, dict[int, Chunk]]] = []
        self.dirty: list[bytes] = []
        self.rows = 0

    def arrays(self) -> None:
        """Change arrays by the batch, with the chunks that are kept elsewhere from now on."""
        known = {identity: (at, schema_of(ddl)) for at, (identity, ddl) in enumerate(self.here.given)}
        moving = self._moving()
        for identity in known.keys() | moving.keys():
            schema = known[identity][1] if identity in known else moving[identity][0]
            came, went = self.here.changes(known[identity][0]) if identity in known else ({}, {})
            took, left = self._moved(moving[identity]) if identity in moving else ({}, [])
            nothing = no_rows(schema.arrow)
            held = self.content.array(identity)
            came, went = ({n: t for n, t in some.items() if n not in left} for some in (came, went))
            for number, (_, *both) in took.items():
                came[number], went[number] = both
            chunks: dict[int, Chunk] = {n: Chunk(nothing, schema.ndim) for n in left}
            for number in sorted(came.keys() | went.keys()):
                old = (
                    Chunk(took[number][0], schema.ndim)
                    if number in took
                    else held.get(number, Chunk(nothing, schema.ndim))
                )
                chunks[number] = old.changed(schema, came.get(number, nothing), went.get(number, nothing))
                self.entries.setdefault(identity, []).append(entry(number, self.worker, chunks[number]))
            self.puts.append((identity, schema, chunks))
            self._note(self.changes, identity, schema, came.values(), went.values())
            gone = [held[n].table for n in left if n in held]
            self._note(self.moved, identity, schema, (one[0] for one in took.values()), gone)

    def _note(
        self, to: Any, identity: str, schema: ArraySchema, came: Iterable[pa.Table], went: Iterable[pa.Table]
    ) -> None:
        empty = no_rows(schema.arrow)
        both = [pa.concat_tables([empty, *some]).combine_chunks() for some in (came, went)]
        if both[0].num_rows or both[1].num_rows:
            to[identity] = (schema, *both)
            self.rows += both[0].num_rows + both[1].num_rows

    def _moving(self) -> dict[str, Moving]:
        """The arrays of which chunks move, and the step that says so: one at most."""
        found: dict[str, Moving] = {}
        for step in self.here.steps:
            for array in np.unique(step.objects["array"][step.objects["moves"] >= 0]).tolist():
                identity, ddl, *_ = step.about["arrays"][array]
                found[identity] = schema_of(ddl), step, array
        return found

    def _moved(self, moving: Moving) -> tuple[dict[int, tuple[pa.Table, pa.Table, pa.Table]], list[int]]:
        """Chunks that this worker takes over, with what comes and goes; and those that it gives away."""
        schema, step, array = moving
        nothing = no_rows(schema.arrow)
        o = step.objects
        took: dict[int, tuple[pa.Table, pa.Table, pa.Table]] = {}
        left: set[int] = set()
        for position in np.flatnonzero((o["moves"] >= 0) & (o["array"] == array)).tolist():
            number, to = int(o["number"][position]), int(o["moves"][position])
            if to == self.worker:
                old, came, went = took.get(number, (nothing, nothing, nothing))
                parts = self.objects[step.at, position]
                tables = {k: unpacked(bytes(data), schema.arrow) for k, data in parts.items()}
                if o["delta"][position]:
                    took[number] = (old, tables.get(CAME, nothing), tables.get(WENT, nothing))
                else:
                    took[number] = (tables[CAME], came, went)
            elif int(o["home"][position]) == self.worker:
                left.add(number)
        return took, sorted(left)

    def views(self) -> None:
        """Take what was found into groups, and into what is shown of them."""
        for step in self.here.steps:
            self._view(step)

    def _view(self, step: Told) -> None:
        of, about, views = step.definition, step.about, step.views
        schema, seen = groups_schema(of), of.schema
        held, cells_held = self.content.array(about["groups"]), self.content.array(about["shown"])
        away = views["number"][(views["before"] == self.worker) & (views["home"] != self.worker)].tolist()
        arriving = {n: table for (at, n), table in self.groups.items() if at == step.at}
        visible = {n: shown(of, groups_of(of, table)) for n, table in arriving.items()}
        groups = {n: Chunk(no_rows(schema.arrow), schema.ndim) for n in away}
        cells = {n: Chunk(no_rows(seen.arrow), seen.ndim) for n in away}
        groups |= {n: Chunk(table, schema.ndim) for n, table in arriving.items()}
        cells |= {n: Chunk(table, seen.ndim) for n, table in visible.items()}
        change = combined(self.found.get(step.at, []))
        if change is not None:
            touched = np.unique(change.keys // of.numbering.volume).tolist()
            there = {n: groups.get(n, held.get(n)) for n in touched}
            done = taken(
                of, {n: c.table for n, c in there.items() if c is not None}, change, step.keys is not None
            )
            self._exchange(groups, held, schema, done.groups)
            self._exchange(cells, cells_held, seen, done.shown)
            self._note(self.changes, about["groups"], schema, done.groups[:1], done.groups[1:])
            self._note(self.changes, about["shown"], seen, done.shown[:1], done.shown[1:])
            if len(done.dirty):
                head = step.at.to_bytes(4, "little")
                self.dirty.append(DIRTY + head + done.dirty.astype("<i8").tobytes())
        gone = [[some[n].table for n in away if n in some] for some in (held, cells_held)]
        self._note(self.moved, about["groups"], schema, arriving.values(), gone[0])
        self._note(self.moved, about["shown"], seen, visible.values(), gone[1])
        for kind, kept, one in (("groups", groups, schema), ("shown", cells, seen)):
            self.puts.append((about[kind], one, kept))
            self.entries.setdefault(about[kind], []).extend(
                entry(n, self.worker, chunk) for n, chunk in kept.items() if n not in away
            )

    @staticmethod
    def _exchange(kept: dict[int, Chunk], held: dict[int, Chunk], schema: ArraySchema, both: Both) -> None:
        """The chunks of an array of one tuple to a cell after these cells came and went."""
        more, less = split(both[0], schema), split(both[1], schema)
        nothing = no_rows(schema.arrow)
        for number in more.keys() | less.keys():
            old = kept.get(number, held.get(number, Chunk(nothing, schema.ndim)))
            kept[number] = exchanged(schema, old, more.get(number, nothing), less.get(number, nothing))

    def step(self, dropped: list[str]) -> Step:
        """The step of the unit, once all is known to fit."""
        gone = [identity for identity in dropped if identity in self.content.arrays]
        for one in self.puts:
            self.unit.record(self.content.put(*one), lambda: None)
        self.unit.record(self.content.drop(gone), lambda: None)
        told = [(self.worker, GATHERED, ENTRIES + told_entries(self.entries))]
        told += [(self.worker, GATHERED, data) for data in self.dirty]
        exact = [step.about[kind] for step in self.here.steps for kind in ("groups", "shown")]
        return Step(segment(self.changes, gone, self.moved, exact), told, self.rows)


def _take(unit: Unit, task: Task) -> Step:
    """The one step of a worker's unit."""
    taking = _Taking(unit, task)
    taking.arrays()
    taking.views()
    return taking.step(plain(task.job.pieces[GIVEN], "a batch of cells")["dropped"])


FOLLOW = Plan(
    "array-views",
    (
        Stage("array-view-send", send),
        Stage("array-view-join", join),
        unit_stage("array-view-take", CHUNKS, _take),
    ),
)


def read_dirty(payloads: Iterable[bytes]) -> dict[int, Ints]:
    """The groups that are to be found again, by step."""
    found: dict[int, list[Ints]] = {}
    for payload in payloads:
        if payload[:1] == DIRTY:
            keys = np.frombuffer(payload, "<i8", offset=5).astype(np.int64)
            found.setdefault(int.from_bytes(payload[1:5], "little"), []).append(keys)
    return {at: np.sort(np.concatenate(keys)) for at, keys in found.items()}
