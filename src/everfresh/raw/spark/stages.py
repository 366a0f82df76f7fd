"""The job of a query over external arrays: that of stored arrays, over pieces in the place of chunks.

What joins send is whole pieces. Whoever is to keep one that it is sent lays it aside as it comes, so that
placement costs no transfer of its own (section 3.4 of `004`). Pieces that no join brings to where they are
to be kept, because no worker that has one has room, are sent by a job of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from everfresh.arrays.chunk import Chunk
from everfresh.arrays.execute.wire import packed, unpacked
from everfresh.arrays.spark.content import CHUNKS, schema_of
from everfresh.arrays.spark.joining import Asked, answered, finished, opened, sent, shared
from everfresh.arrays.spark.joining import Chunks as Content
from everfresh.raw.cache.memory import divided
from everfresh.raw.cache.placement import Part
from everfresh.raw.spark.files import HostFiles
from everfresh.raw.spark.pieces import Cells, Shard
from everfresh.spark.jobs.job import DATA, GATHERED, Job, Message
from everfresh.spark.jobs.plans import Plan, Stage, Task
from everfresh.state import plain

ABOUT, SHARDS, ASIDE, MOVES = "raw", "raw/shards", "raw/aside/", "raw/moves/"
HEALED = b"H"
"""A message to the driver: files that had to be read again."""
OURS = "external:"
"""What identities of external arrays begin with."""


class AskedOfFiles(Asked):
    """What a task is asked, with pieces of files among the chunks."""

    @cached_property
    def cells(self) -> Cells:
        """What reads pieces."""
        about = plain(self.job.pieces[ABOUT], "a query of external arrays")
        return Cells(about["place"], about["definitions"])

    @cached_property
    def shards(self) -> Mapping[str, list[Shard]]:
        """The pieces of each array, by their numbers in the plan."""
        told = plain(self.job.pieces[SHARDS], "a query of external arrays")
        return {name: [Shard.of_json(one) for one in some] for name, some in told.items()}

    def content(self) -> Content:
        """Pieces of external arrays, and chunks of others."""
        return _Both(self)

    def healed(self) -> Iterator[Message]:
        """What the driver is told of files that were read again."""
        if self.cells.healed:
            told = json.dumps([found.path for found in self.cells.healed])
            yield self.worker, GATHERED, HEALED + told.encode()

    def lay_aside(self, payloads: list[bytes]) -> None:
        """Keep what the join has sent and this worker is to have: by position in the plan, a name each."""
        label = f"{ASIDE}{self.worker}"
        if label not in self.job.pieces:
            return
        wanted = plain(self.job.pieces[label], "a query of external arrays")
        files = HostFiles(self.cells.place, self.worker)
        schemas = [source.stored for source in self.work.sources]
        left = self.about["left"]
        for payload in payloads:
            for position, data in opened(payload):
                name = wanted.get(str(position))
                if name is not None:
                    schema = schemas[0 if self.work.same or position < left else 1]
                    files.write(name, unpacked(data, schema.arrow))


class _Both:
    """Pieces or chunks by the identity of their array."""

    def __init__(self, asked: AskedOfFiles) -> None:
        self._asked = asked
        self._known: dict[str, Mapping[int, Chunk]] = {}

    def array(self, identity: str) -> Mapping[int, Chunk]:
        """The chunks that this worker has of an array."""
        if identity not in self._known:
            if identity.startswith(OURS):
                self._known[identity] = _Pieces(self._asked, identity.removeprefix(OURS))
            else:
                self._known[identity] = Asked.content(self._asked).array(identity)
        return self._known[identity]


class _Pieces(Mapping[int, Chunk]):
    """This worker's pieces of an array, each read when it is asked for."""

    def __init__(self, asked: AskedOfFiles, name: str) -> None:
        self._asked, self._shards = asked, asked.shards[name]
        self._mine = [n for n, shard in enumerate(self._shards) if shard.source.worker == asked.worker]
        self._again: dict[int, Chunk] | None = None

    def __getitem__(self, number: int) -> Chunk:
        if self._again is None:  # files that are gone are read again once, for all of their pieces
            self._again = {}
            cells = self._asked.cells
            gone = [
                n
                for n in self._mine
                if cells.files(self._asked.worker).size(self._shards[n].source.name) is None
            ]
            for n, table in zip(gone, cells.tables([self._shards[n] for n in gone]), strict=True):
                self._again[n] = Chunk.of(table, len(self._shards[n].box.lo))
        if number in self._again:
            return self._again[number]
        shard = self._shards[number]
        (table,) = self._asked.cells.tables([shard])
        return Chunk.of(table, len(shard.box.lo))

    def __iter__(self) -> Iterator[int]:
        return iter(self._mine)

    def __len__(self) -> int:
        return len(self._mine)


# -- the stages of a query -----------------------------------------------------------------------------------


def _send(task: Task) -> Iterator[Message]:
    asked = AskedOfFiles(task.job, task.worker)
    yield from sent(asked)
    yield from asked.healed()


def _compute(task: Task) -> Iterator[Message]:
    asked, payloads = AskedOfFiles(task.job, task.worker), task.take()
    if asked.work.equi is None:
        asked.lay_aside(payloads)
    yield from shared(asked, payloads)
    yield from asked.healed()


def _answer(task: Task) -> Iterator[Message]:
    asked, payloads = AskedOfFiles(task.job, task.worker), task.take()
    if asked.work.equi is None:
        asked.lay_aside(payloads)
    yield from answered(asked, asked.content(), payloads)
    yield from asked.healed()


def _finish(task: Task) -> Iterator[Message]:
    asked = AskedOfFiles(task.job, task.worker)
    yield from finished(asked, asked.content(), task.take())


_SEND, _COMPUTE = Stage("raw-send", _send), Stage("raw-compute", _compute)
_ANSWER, _FINISH = Stage("raw-answer", _answer), Stage("raw-finish", _finish)
PLANS = {
    (True, True): Plan("raw-send-compute-finish", (_SEND, _COMPUTE, _FINISH), (CHUNKS.name,)),
    (True, False): Plan("raw-send-answer", (_SEND, _ANSWER), (CHUNKS.name,)),
    (False, True): Plan("raw-compute-finish", (_COMPUTE, _FINISH), (CHUNKS.name,)),
    (False, False): Plan("raw-answer", (_ANSWER,), (CHUNKS.name,)),
}
"""The stages of a query, by whether pieces are sent and whether rows have owners."""


# -- pieces that no join brings to where they are to be kept -------------------------------------------------


def _leave(task: Task) -> Iterator[Message]:
    """Send pieces, or parts of them, to other workers."""
    cells = _cells(task.job)
    for name, to, shards, parts in _moves(task):
        tables = list(cells.tables([Shard.of_json(one) for one in shards]))
        chunk = Chunk.of(pa.concat_tables(tables), len(shards[0][1]))
        if parts:
            chunk = divided(chunk, [Part(0, count) for count in parts[1]])[parts[0]]
        head = json.dumps([name, shards[0][0][0]]).encode()
        yield to, DATA, len(head).to_bytes(4, "little") + head + packed(chunk.table)


def _arrive(task: Task) -> Iterator[Message]:
    """Lay aside what has come."""
    cells = _cells(task.job)
    schemas = plain(task.job.pieces[ABOUT], "pieces on their way")["schemas"]
    files = HostFiles(cells.place, task.worker)
    for payload in task.take():
        size = int.from_bytes(payload[:4], "little")
        name, array = json.loads(payload[4 : 4 + size])
        files.write(name, unpacked(memoryview(payload)[4 + size :], schema_of(schemas[array]).arrow))
    return iter(())


def _cells(job: Job) -> Cells:
    about = plain(job.pieces[ABOUT], "pieces on their way")
    return Cells(about["place"], about["definitions"])


def _moves(task: Task) -> list[Any]:
    label = f"{MOVES}{task.worker}"
    return plain(task.job.pieces[label], label) if label in task.job.pieces else []


MOVE = Plan("raw-move", (Stage("raw-leave", _leave), Stage("raw-arrive", _arrive)))
