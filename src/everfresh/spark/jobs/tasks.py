"""The frame around every task: which job it serves, its messages in and out, and how a step of a unit ends.

A task drains its input (else its process is not used again) and is asked for nothing but messages: what comes
is sorted, so that nothing depends on the order in which it arrived.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from everfresh.errors import EverfreshError
from everfresh.spark.jobs.claims import claimed
from everfresh.spark.jobs.job import PROPERTY, Job, Message, pack_control
from everfresh.spark.session import observe
from everfresh.spark.session.failures import TaskError
from everfresh.spark.state.chain import Unit, cached_bytes, seal_segment, segment_file
from everfresh.state import crash

if TYPE_CHECKING:
    from everfresh.spark.state.content import Section

Batches = Iterable[pa.RecordBatch]
_SCHEMA = pa.schema([("to", pa.int32()), ("kind", pa.int32()), ("payload", pa.binary())])
_EMIT_BYTES = 4 << 20
_frozen = 0, 0


def worker_number() -> int:
    """The worker that a task after an exchange serves: that of its partition."""
    return int(TaskContext.get().partitionId())


def claimed_worker(job: Job, workers: Sequence[int] | None = None) -> int:
    """The worker that a task of a job of one stage serves: of all, or of these."""
    world = job.world
    workers = range(world.workers) if workers is None else workers
    with reported():
        return claimed(job, worker_number(), workers, lambda worker: cached_bytes(world, worker))


def told_by_job() -> str:
    """What a property of the job tells its tasks: a message in the inbox, and its digest."""
    return str(TaskContext.get().getLocalProperty(PROPERTY))


def job_of(root: str, told: str | None = None) -> Job:
    """What a task is told, by a property of the job if not otherwise."""
    with reported():
        return Job.read(root, told or told_by_job())


@contextmanager
def reported() -> Iterator[None]:
    """For a task that cannot answer for a worker yet: its error reaches the driver as it is."""
    try:
        yield
    except EverfreshError as error:
        raise TaskError(error) from error


def drain(batches: Batches) -> list[tuple[int, bytes]]:
    """All messages of an exchange, in an order that does not depend on how they arrived; an anchor's rows
    are none."""
    observe.begin()
    found: list[tuple[int, bytes]] = []
    for batch in batches:
        if "kind" not in batch.schema.names:
            continue
        found.extend(zip(batch.column("kind").to_pylist(), batch.column("payload").to_pylist(), strict=True))
    return sorted(found)


def emit(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as batches of up to a few megabytes: each crosses to the JVM by itself."""
    some: list[Message] = []
    size = 0
    for message in messages:
        some.append(message)
        size += len(message[2])
        if size > _EMIT_BYTES:
            yield _emitted(some)
            some, size = [], 0
    if some:
        yield _emitted(some)


def _emitted(messages: list[Message]) -> pa.RecordBatch:
    to, kinds, payloads = zip(*messages, strict=True)
    columns = [pa.array(to, pa.int32()), pa.array(kinds, pa.int32()), pa.array(payloads, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def freeze() -> None:
    """A worker collects all garbage after every task: keep it from walking modules and kernels, which
    never change. Twice, and once more whenever there are more modules."""
    global _frozen  # noqa: PLW0603 - one counter per process
    times, loaded = _frozen
    if times < 2 or len(sys.modules) > loaded:
        _frozen = times + 1, len(sys.modules)
        gc.collect()
        gc.freeze()


class Behind:
    """Files that are written while a task goes on: all of them are there, on the disk, when the block ends.

    A step is mostly computing, and what it writes mostly waiting.
    """

    def __init__(self) -> None:
        self._threads: list[Thread] = []
        self._errors: list[BaseException] = []

    def __enter__(self) -> Behind:
        return self

    def __call__(self, write: Callable[[], None]) -> None:
        """Write something from now on."""
        self._threads.append(Thread(target=self._run, args=(write,), daemon=True))
        self._threads[-1].start()

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:  # raised where it is waited for
            self._errors.append(error)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for thread in self._threads:
            thread.join()
        if self._errors and kind is None:
            raise self._errors[0]


def finish(
    job: Job,
    unit: Unit,
    tag_in: str,
    sections: Mapping[str, Section],
    rows: int,
    behind: Behind | None = None,
    **extra: Any,
) -> bytes:
    """End a step: seal its segment, keep it small or write it (`behind`: later), and say what was done."""
    world = job.world
    header: dict[str, Any] = {"unit": unit.name, "nonce": job.nonce, "tag_in": tag_in, "rows": rows, **extra}
    header.update(observe.arrived())
    if not sections:
        unit.dirty = False
        return pack_control({**header, "tag": tag_in, "file": None})
    data, tag = seal_segment(unit.name, world.epoch, job.nonce, tag_in, sections)
    size = sum(memoryview(chunk).nbytes for chunk in data)
    unit.end(world.epoch, tag)
    if size <= world.inline_bytes:
        return pack_control({**header, "tag": tag, "file": None, "bytes": size}, b"".join(data))
    file = segment_file(unit.name, world.epoch, tag)

    def write() -> None:
        crash("mid-write", world.fault, unit.number, world.inbox)
        world.store.replace(f"parts/{file}", data, world.durable)
        crash("after-write", world.fault, unit.number, world.inbox)

    if behind is None:
        write()
    else:
        behind(write)
    return pack_control({**header, "tag": tag, "file": file, "bytes": size})
