"""The job of a query: chunks are sent, joined, and rows given to the owners of groups or of result chunks.

Up to three stages, as `everfresh.arrays.execute` says what each does: `send` emits the planned (chunk,
target) pairs and no others; `compute` reads local chunks by the data access plan, joins them with each other
and with what has come, and folds; `finish` ends groups, and hands rows to the driver or keeps them as chunks.
Without a join the first stage is left out and the second goes over the chunks that are there; what needs no
owner ends in the second. Spark decides when its shuffle blocks travel: the plan's order of arrival orders
the joins of a task, not the network.

What each stage has measured goes to the driver as messages: bytes and chunks sent, reads, joins. Joins of the
last stage say how long they took, and receiving before them; what goes through an exchange holds no times, so
that a stage that is run again repeats it. Invariant: a worker is sent a chunk only if the plan says so, as
`wire.packed` bytes.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import array_of, read_cells, split
from everfresh.arrays.chunk import Chunk, coordinates
from everfresh.arrays.execute.answering import with_alone
from everfresh.arrays.execute.catalog import entry
from everfresh.arrays.execute.equijoin import EquiJoin
from everfresh.arrays.execute.joining import landed_of
from everfresh.arrays.execute.route import ChunkOwners, by_keys, parts
from everfresh.arrays.execute.split import GROUPS, WORKERS, Folding
from everfresh.arrays.execute.wire import packed, unpacked
from everfresh.arrays.execute.work import Work, work_of
from everfresh.arrays.execute.worker import Batch, Reads, run_worker
from everfresh.arrays.model import ArraySchema
from everfresh.arrays.plan import WorkerPlan
from everfresh.arrays.spark.changing import told_entries
from everfresh.arrays.spark.content import CHUNKS, ChunkContent, Held, schema_of, segment
from everfresh.arrays.spark.laying import lay_chunks, read_laid
from everfresh.spark.jobs.job import DATA, GATHERED, Job, Message, cut
from everfresh.spark.jobs.plans import Plan, Stage, Step, Task, unit_stage
from everfresh.spark.state.chain import Unit, open_for_reading
from everfresh.state import pack_arrays, pack_table, plain, unpack_arrays, unpack_table
from everfresh.types import no_rows

ABOUT, POSITIONS, OWNERS = "query", "positions", "owners"
ROWS, SENT, READ, MOVED, ENTRIES, LANDED, LAID = b"R", b"S", b"J", b"M", b"E", b"L", b"F"
"""What a message to the driver holds: rows, and what has been measured."""
_CONTAINER = 16 << 20
_PLAN = (
    "send_chunk",
    "send_to",
    "receive_chunk",
    "receive_from",
    "first",
    "second",
    "ways",
    "step",
    "chunk",
    "load",
)


def plan_pieces(parts_of: Iterable[WorkerPlan]) -> dict[str, bytes]:
    """Each worker's part of a plan as a piece of a message."""
    return {
        f"part/{part.worker}": pack_arrays({n: np.asarray(getattr(part, n), np.int64) for n in _PLAN})
        for part in parts_of
    }


class Chunks(Protocol):
    """The chunks that a worker has at hand."""

    def array(self, identity: str) -> Mapping[int, Chunk]:
        """Those of an array, by number."""
        ...


class Asked:
    """What a task is asked: the statement as workers run it, and this worker's chunks."""

    def __init__(self, job: Job, worker: int) -> None:
        self.job, self.worker = job, worker
        self.workers = job.world.workers
        self.about: dict[str, Any] = plain(job.pieces[ABOUT], "a query of arrays")
        self.work = _work(self.about["text"], tuple(map(tuple, self.about["schemas"])))
        self._laid: dict[str, Held] = {}

    @property
    def part(self) -> WorkerPlan:
        """This worker's part of the plan."""
        found = unpack_arrays(self.job.pieces[f"part/{self.worker}"])
        columns = [found[name].astype(bool) if name == "load" else found[name] for name in _PLAN]
        return WorkerPlan(self.worker, *columns)

    def content(self) -> Chunks:
        """This worker's chunks at the version of the job."""
        found = open_for_reading(self.job.bases[f"{CHUNKS.name}/{self.worker}"], self.job.world).content
        assert isinstance(found, ChunkContent)
        return found

    def held(self, content: Chunks, identity: str) -> Mapping[int, Chunk]:
        """This worker's chunks of an array: of one that is stored, or that a step before has laid down."""
        laid = self.about["laid"].get(identity)
        if laid is None:
            return content.array(identity)
        if identity not in self._laid:
            schema = schema_of(laid["ddl"])
            rows = read_laid(self.job.world.root, laid["files"].get(str(self.worker), ()), schema, None)
            chunks = split(rows, schema).items()
            self._laid[identity] = {number: Chunk.of(some, schema.ndim) for number, some in chunks}
        return self._laid[identity]

    def owners(self) -> ChunkOwners:
        """Who keeps the chunks of the result."""
        assert self.work.result is not None
        found = unpack_arrays(self.job.pieces[OWNERS]) if OWNERS in self.job.pieces else {}
        if not found:
            return ChunkOwners(self.work.result, self.workers)
        left = self.work.sources[0].schema
        return ChunkOwners(
            self.work.result, self.workers, left, self.work.along, found["chunk"], found["worker"]
        )


@lru_cache(maxsize=64)
def _work(text: str, schemas: tuple[tuple[str, str], ...]) -> Work:
    found = work_of(parse(text), {name: schema_of(ddl) for name, ddl in schemas})
    assert found is not None
    return found


class Positions:
    """The chunks of a plan, by position: as this worker keeps them."""

    def __init__(self, asked: Asked, content: Chunks) -> None:
        found = unpack_arrays(asked.job.pieces[POSITIONS])
        self.numbers, self.bytes = found["number"], found["bytes"]
        self.left: int = asked.about["left"]
        identities = asked.about["identities"]
        self._held = [asked.held(content, identity) for identity in identities]
        self.schemas = [source.stored for source in asked.work.sources]

    def side(self, position: int) -> int:
        """Which array a position is of."""
        return 0 if position < self.left else 1

    def chunk(self, position: int) -> Chunk:
        """A chunk that is kept here."""
        return self._held[self.side(position)][int(self.numbers[position])]


# -- stages ------------------------------------------------------------------------------------------------


def send(task: Task) -> Iterator[Message]:
    """Emit the chunks that the plan sends from here, each once per target; of a JOIN, rows to the owners of
    their keys."""
    yield from sent(Asked(task.job, task.worker))


def sent(asked: Asked) -> Iterator[Message]:
    """The chunks, or rows, that leave a worker."""
    if asked.work.equi is not None:
        yield from _shared(asked, asked.work.equi)
        return
    part, positions = asked.part, Positions(asked, asked.content())
    links = np.zeros(asked.workers, np.int64)
    waiting: dict[int, list[tuple[int, bytes]]] = {}
    sizes = dict.fromkeys(range(asked.workers), 0)
    for position, to in zip(part.send_chunk.tolist(), part.send_to.tolist(), strict=True):
        data = packed(positions.chunk(position).table)
        links[to] += len(data)
        waiting.setdefault(to, []).append((position, data))
        sizes[to] += len(data)
        if sizes[to] > _CONTAINER:
            yield to, DATA, _container(waiting.pop(to))
            sizes[to] = 0
    for to, some in sorted(waiting.items()):
        yield to, DATA, _container(some)
    told = json.dumps({"worker": asked.worker, "links": links.tolist(), "sent": len(part.send_chunk)})
    yield asked.worker, GATHERED, SENT + told.encode()


def _shared(asked: Asked, equi: EquiJoin) -> Iterator[Message]:
    """The rows of both sides, by the owners of their keys."""
    content = asked.content()
    for side, identity in enumerate(asked.about["identities"]):
        held = asked.held(content, identity)
        tables = list(asked.work.scanned((held[n] for n in sorted(held)), side))
        if not tables:
            continue
        for to, some in equi.shares(side, pa.concat_tables(tables), asked.workers):
            for piece in cut(some.combine_chunks()):
                yield to, DATA, bytes([side]) + pack_table(piece)


def _container(chunks: list[tuple[int, bytes]]) -> bytes:
    """Chunks with their positions as one message."""
    head = np.array([len(chunks), *(x for p, data in chunks for x in (p, len(data)))], "<i8").tobytes()
    return b"".join([head, *(data for _, data in chunks)])


def opened(payload: bytes) -> Iterator[tuple[int, memoryview]]:
    """The inverse of `_container`."""
    count = int.from_bytes(payload[:8], "little")
    head = np.frombuffer(payload, "<i8", 2 * count, 8).reshape(count, 2)
    at = 8 + 16 * count
    for position, size in head.tolist():
        yield position, memoryview(payload)[at : at + size]
        at += size


@dataclass(frozen=True)
class Clock:
    """When a task of the last stage began, and when all that came for it was there, by its process."""

    started: float
    there: float

    def told(self, opened: float) -> dict[str, Any]:
        """Times of a worker whose chunks were `opened` at some time, and whose joins end now."""
        now, wall = time.perf_counter(), time.time()
        return {
            "receive": opened - self.started,
            "seconds": now - opened,
            "began": wall - (now - opened),
            "thread": f"{platform.node()}/{os.getpid()}",
        }


def _joined(
    asked: Asked, content: Chunks, payloads: list[bytes], clock: Clock | None = None
) -> tuple[pa.Table, Iterator[Message]]:
    """What this worker's joins come to, folded; and what it has measured, with times if it may have any."""
    work, positions, part = asked.work, Positions(asked, content), asked.part
    remote: dict[int, Chunk] = {}
    for payload in payloads:
        for position, data in opened(payload):
            schema = positions.schemas[positions.side(position) if not work.same else 0]
            remote[position] = Chunk(unpacked(data, schema.arrow), schema.ndim)
    folding, opened_at = Folding(work.cut), time.perf_counter()

    def join(batch: Batch) -> None:
        for block in work.joined(batch):
            folding.add(block)

    reads = run_worker(part, positions.bytes, asked.about["budget"], positions.chunk, remote, join)
    found = folding.done()
    times = clock.told(opened_at) if clock is not None else {}
    return found, iter([(asked.worker, GATHERED, READ + _told(asked.worker, reads, times))])


def _told(worker: int, reads: Reads, times: Mapping[str, Any]) -> bytes:
    told = {
        "worker": worker,
        "reads": reads.count,
        "bytes": reads.bytes,
        "joins": reads.joins,
        "most": reads.most,
        **times,
    }
    return json.dumps(told).encode()


def _computed(
    asked: Asked, content: Chunks, payloads: list[bytes], clock: Clock | None = None
) -> tuple[pa.Table, Iterator[Message]]:
    """What this worker's pairs or cells come to, before owners are asked."""
    if asked.work.spec is not None:
        return _joined(asked, content, payloads, clock)
    if asked.work.equi is not None:
        sides: list[list[pa.Table]] = [[], []]
        for payload in payloads:
            sides[payload[0]].append(unpack_table(memoryview(payload)[1:]))
        block = asked.work.equi.joined(*sides)
        return asked.work.cut.first([block] if block is not None else []), iter(())
    (identity,) = asked.about["identities"]
    held = asked.held(content, identity)
    return asked.work.cut.first(asked.work.scanned(held[n] for n in sorted(held))), iter(())


def compute(task: Task) -> Iterator[Message]:
    """Join or scan, and give rows to their owners."""
    yield from shared(Asked(task.job, task.worker), task.take())


def shared(asked: Asked, payloads: list[bytes]) -> Iterator[Message]:
    """What a worker's joins or cells come to, for the owners of its rows."""
    rows, measured = _computed(asked, asked.content(), payloads)
    yield from measured
    moved = 0
    for to, some in parts(*_owned(asked, rows)):
        moved += some.num_rows if to != asked.worker else 0
        for piece in cut(some):
            yield to, DATA, pack_table(piece)
    told = json.dumps({"worker": asked.worker, "rows": moved})
    yield asked.worker, GATHERED, MOVED + told.encode()


def _owned(asked: Asked, rows: pa.Table) -> tuple[pa.Table, Any]:
    """Rows, and the owner of each."""
    work = asked.work
    if work.into or work.padded is not None:
        assert work.result is not None
        if work.cut.where == WORKERS:
            rows = read_cells(rows, work.result)
            return rows, asked.owners().rows(rows)
        keys = work.key_dimensions()
        assert keys is not None
        columns = [pa.compute.fill_null(rows.column(k), 0).cast(pa.int64()) for k in keys]
        at = pa.Table.from_arrays(columns, list(work.result.dimension_names))
        coords = np.clip(coordinates(at, len(keys)), work.result.lo[:, None], work.result.hi[:, None])
        clipped = pa.Table.from_arrays([pa.array(row) for row in coords], at.column_names)
        return rows, asked.owners().rows(clipped)
    return rows, by_keys(rows, work.cut.keys, asked.workers)


def _ended(asked: Asked, content: Chunks, parts_: list[pa.Table]) -> pa.Table:
    """The statement's rows that this worker owns, or its share of what the driver ends."""
    work = asked.work
    if work.cut.where == GROUPS:
        rows = work.cut.last(parts_)
        return _padded(asked, content, rows) if work.padded is not None else rows
    if work.into:
        assert work.result is not None
        return pa.concat_tables([no_rows(work.result.arrow), *parts_])
    return pa.concat_tables([no_rows(work.cut.schema), *parts_])


def _padded(asked: Asked, content: Chunks, rows: pa.Table) -> pa.Table:
    """APPLY's rows, with those of this worker's cells that have no partners."""
    (source,) = asked.work.sources
    held = asked.held(content, asked.about["identities"][0])
    return with_alone(asked.work, [source.chunk(chunk).coords for chunk in held.values()], rows)


def _gathered(worker: int, rows: pa.Table) -> Iterator[Message]:
    return ((worker, GATHERED, ROWS + pack_table(piece)) for piece in cut(rows) if piece.num_rows)


def _answer(unit: Unit, task: Task) -> Step:
    """The last stage of a query without owners: join or scan, and hand rows over."""
    content = unit.content
    assert isinstance(content, ChunkContent)
    clock = Clock(task.started, task.there)
    return Step(outputs=list(answered(Asked(task.job, task.worker), content, task.take(), clock)))


def answered(
    asked: Asked, content: Chunks, payloads: list[bytes], clock: Clock | None = None
) -> Iterator[Message]:
    """Where chunks land, if that is asked; else a worker's share of an answer whose rows have no owners."""
    if asked.about.get("landed"):
        yield asked.worker, GATHERED, LANDED + _landed(asked, content)
        return
    rows, measured = _computed(asked, content, payloads, clock)
    yield from measured
    yield from _gathered(asked.worker, _ended(asked, content, [rows]))


def _landed(asked: Asked, content: Chunks) -> bytes:
    """Where the cells of this worker's left chunks land."""
    work = asked.work
    assert work.spec is not None
    source = work.sources[0]
    held = asked.held(content, asked.about["identities"][0])
    seen = {n: source.chunk(chunk) for n, chunk in held.items()}
    owner, lo, hi = landed_of(work.spec, {n: chunk for n, chunk in seen.items() if len(chunk)})
    return pack_arrays({"owner": owner, "lo": lo, "hi": hi})


def _finish(unit: Unit, task: Task) -> Step:
    """The last stage: end the groups that this worker owns, and hand rows over or keep them."""
    content = unit.content
    assert isinstance(content, ChunkContent)
    asked = Asked(task.job, task.worker)
    if not asked.work.into:
        return Step(outputs=list(finished(asked, content, task.take())))
    rows = _ended(asked, content, [unpack_table(payload) for payload in task.take()])
    result = asked.work.result
    assert result is not None
    if asked.about["lay"]:
        return _lay(asked, result, read_cells(rows, result))
    return _keep(unit, content, task.worker, asked.about["result"], result, read_cells(rows, result))


def _lay(asked: Asked, result: ArraySchema, rows: pa.Table) -> Step:
    """Leave the rows, as chunks of the result, to the steps after this one."""
    made = array_of(result, rows).chunks
    entries = {"": [entry(n, asked.worker, chunk) for n, chunk in made.items()]}
    file = lay_chunks(asked.job.world, {n: chunk.table for n, chunk in made.items()}) if made else None
    told = json.dumps({"worker": asked.worker, "file": file}).encode()
    return Step(
        outputs=[
            (asked.worker, GATHERED, LAID + told),
            (asked.worker, GATHERED, ENTRIES + told_entries(entries)),
        ]
    )


def finished(asked: Asked, content: Chunks, payloads: list[bytes]) -> Iterator[Message]:
    """The groups that a worker owns."""
    return _gathered(asked.worker, _ended(asked, content, [unpack_table(payload) for payload in payloads]))


def _keep(
    unit: Unit, content: ChunkContent, worker: int, identity: str, result: ArraySchema, rows: pa.Table
) -> Step:
    """Keep the rows as chunks of the result."""
    nothing = no_rows(result.arrow)
    chunks: Held = content.changed(identity, result, rows, nothing)
    unit.record(content.put(identity, result, chunks), lambda: None)
    entries: Mapping[str, Any] = {identity: [entry(n, worker, chunk) for n, chunk in chunks.items()]}
    return Step(
        segment({identity: (result, rows, nothing)}, ()),
        [(worker, GATHERED, ENTRIES + told_entries(entries))],
        rows.num_rows,
    )


_SEND = Stage("array-send", send)
_COMPUTE = Stage("array-compute", compute)
_ANSWER = unit_stage("array-answer", CHUNKS, _answer)
_FINISH = unit_stage("array-finish", CHUNKS, _finish)
PLANS = {
    (True, True): Plan("array-send-compute-finish", (_SEND, _COMPUTE, _FINISH)),
    (True, False): Plan("array-send-answer", (_SEND, _ANSWER)),
    (False, True): Plan("array-compute-finish", (_COMPUTE, _FINISH)),
    (False, False): Plan("array-answer", (_ANSWER,)),
}
"""The stages of a query, by whether chunks are sent and whether rows have owners."""
