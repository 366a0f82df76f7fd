"""Requests: the driver asks every worker something, and each answers.

For domains whose triggers run in the driver while what is large lies with the workers, in files
(`everfresh.spark.state.named`) that a process keeps in memory (`Kept`). A request is a message in the inbox,
of which tasks are told the digest. It changes no unit, and so needs no versions: a task may write files under
names that it was given, which nobody knows before the driver names them. So a request that failed leaves
nothing but garbage, and may be made again.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.spark.jobs.job import CONTROL, ERROR, EXCHANGE, PROPERTY, pack_error, read_error
from everfresh.spark.jobs.messages import taken, written
from everfresh.spark.jobs.tasks import Batches, drain, emit, freeze, told_by_job, worker_number
from everfresh.spark.session.failures import translated
from everfresh.state import store_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Buffer

_KIND = "request"


@dataclass(frozen=True, slots=True)
class Request:
    """What a task is asked: by whom it is answered, and the sections of the message."""

    root: str
    worker: int
    name: str
    """Of the message, for errors."""
    sections: Mapping[str, memoryview]


Answer = Callable[[Request], bytes]
"""A function of a module: Spark hands it out by its name."""


class Requests:
    """What one domain asks of the workers of a database."""

    def __init__(self, session: SparkSession, root: str, workers: int, answer: Answer) -> None:
        self._session, self._root, self._answer = session, root, answer
        self.workers = workers
        self._frame: DataFrame | None = None
        self.jobs = 0

    def ask(self, sections: Mapping[str, Buffer]) -> list[bytes]:
        """The answers of all workers, by their numbers."""
        if self._frame is None:
            anchor = self._session.range(0, self.workers, 1, self.workers)
            self._frame = anchor.mapInArrow(partial(request_block, self._root, self._answer), EXCHANGE)
        nonce, store = uuid.uuid4().hex, store_of(self._root)
        message, told = written(_KIND, {}, sections)
        store.replace(f"inbox/{nonce}", message, durable=False)
        self._session.conf.set(PROPERTY, f"{nonce}.{told}")
        self.jobs += 1
        try:
            with translated():
                rows = self._frame.collect()
        finally:
            store.remove(f"inbox/{nonce}")
        errors = sorted(bytes(row["payload"]) for row in rows if row["kind"] == ERROR)
        if errors:
            raise read_error(errors[0])
        found = {int(row["to"]): bytes(row["payload"]) for row in rows}
        if (
            len(found) < self.workers
        ):  # Spark ends a result that its driver has no memory for, and says nothing
            raise EverfreshError(
                Code.ENVIRONMENT,
                f"{len(found)} of {self.workers} workers answered: too much for the memory of Spark's driver",
                hint="give it more memory (spark.driver.memory)",
            )
        return [found[worker] for worker in range(self.workers)]


def request_block(root: str, answer: Answer, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Answer for the worker of this task's partition."""
    drain(batches)
    nonce, told = told_by_job().split(".")
    worker, name, kind = worker_number(), f"inbox/{nonce}", CONTROL
    try:
        payload = answer(Request(root, worker, name, taken(root, name, _KIND, told).sections))
    except EverfreshError as error:
        kind, payload = ERROR, pack_error(error.to_dict())
    yield from emit([(worker, kind, payload)])
    freeze()


class Sized(Protocol):
    """What knows the memory that it holds."""

    @property
    def nbytes(self) -> int:
        """Memory held."""
        ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Sized)


class Kept(Generic[K, V]):
    """What a process keeps of files that it has read, up to so many bytes: what was not used for longest
    goes first. It is no truth: files are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """What is kept, if it is."""
        return self._found.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep something, which is used now."""
        self._found[key] = value
        self._found.move_to_end(key)
        total = sum(one.nbytes for one in self._found.values())
        for other in list(self._found):
            if total <= self._most or other == key:
                return
            total -= self._found.pop(other).nbytes
