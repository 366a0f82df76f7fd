"""Just enough of a Spark session to run everfresh's jobs in this process: range, mapInArrow, repartitionById,
collect and toArrow, partition by partition, each as a task of its own.

Each task is served by one of some processes, that is, caches of units: which one is random, so that units are
found at the right version, behind it, ahead of it, or not at all. Threads may run jobs at the same time: a
process serves one task after the other. In a block of `trouble` tasks are tried again, from the start or
where they had done everything, and have twins that end before or after them. What becomes of processes that
are killed is tested with Spark itself.
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException

from everfresh.spark import frames
from everfresh.spark.jobs import plans, requests, snapshots, tasks
from everfresh.spark.jobs import row_tasks as tables
from everfresh.spark.session import sessions
from everfresh.spark.session.failures import TaskError
from everfresh.spark.state import artifacts, chain, reading, table_content
from everfresh.types import arrow_schema

Partition = list[pa.RecordBatch]


class _Conf:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def get(self, name: str, default: str = "") -> str:
        return self.values.get(name, default)


class _Process:
    """Something that serves one task at a time and keeps units in a cache."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.cache: OrderedDict[Any, Any] = OrderedDict()
        self.sizes: dict[Any, int] = {}
        self.compiled: OrderedDict[Any, Any] = OrderedDict()
        self.programs: dict[str, Any] = {}

    def forget(self) -> None:
        for known in (self.cache, self.sizes, self.compiled, self.programs):
            known.clear()


class _Here(threading.local):
    """What runs in this thread: tasks, the innermost last, each in its process; none on the driver."""

    def __init__(self) -> None:
        self.tasks: list[tuple[_Context, _Process]] = []


_here = _Here()
_driver = _Process()


class _OfProcess(MutableMapping[Any, Any]):
    """A cache of the process that this thread's task runs in, where everfresh has one of its process."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _own(self) -> Any:
        return getattr(_here.tasks[-1][1] if _here.tasks else _driver, self._name)

    def __getitem__(self, key: Any) -> Any:
        return self._own[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._own[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._own[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def move_to_end(self, key: Any) -> None:
        self._own.move_to_end(key)

    def popitem(self, last: bool = True) -> Any:
        return self._own.popitem(last)


class FakeSession:
    """A session whose jobs run here, one task after the other."""

    def __init__(self, processes: int) -> None:
        self.conf = _Conf()
        self.jobs = 0
        self.stages = 0
        self.before_task: Callable[[], None] = lambda: None
        self.lost = 0
        """How many attempts of tasks came to nothing."""
        self._troubled = False
        self._random = random.Random(7)
        self._processes = [_Process() for _ in range(processes)]

    def forget(self) -> None:
        """Drop all caches, as if all processes were new."""
        for process in (*self._processes, _driver):
            process.forget()

    @contextmanager
    def task(self, number: int) -> Iterator[None]:
        """A task in one of the processes that serve them."""
        self.before_task()
        process = self._random.choice(self._processes)
        with process.lock:
            _here.tasks.append((_Context(number, self), process))
            try:
                yield
            finally:
                _here.tasks.pop()

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """A block in which tasks are retried and run twice; it must have come to that."""
        before, self._troubled = self.lost, True
        try:
            yield
        finally:
            self._troubled = False
        assert self.lost > before

    def attempts(self, number: int, run: Callable[[], Iterator[Any]]) -> list[Any]:
        """What a task answers; in trouble with attempts before and after it whose answers nobody gets."""
        before, after = (self._random.choice([0, 0, 1, 2]) if self._troubled else 0 for _ in range(2))
        for _ in range(before):
            self._lose(number, run)
        with self.task(number):
            found = list(run())
        for _ in range(after):
            self._lose(number, run)
        return found

    def _lose(self, number: int, run: Callable[[], Iterator[Any]]) -> None:
        """An attempt that ends at its first answer or after its last, and is not heard of."""
        self.lost += 1
        with self.task(number), suppress(TaskError):
            for _ in run():
                if self._random.random() < 0.5:
                    break

    def addTag(self, tag: str) -> None:
        pass

    def removeTag(self, tag: str) -> None:
        pass

    def interruptTag(self, tag: str) -> None:
        pass

    def newSession(self) -> FakeSession:
        return self

    def range(self, start: int, end: int, step: int, partitions: int) -> FakeFrame:
        assert step == 1
        assert partitions == end - start
        ids = [[pa.RecordBatch.from_pydict({"id": pa.array([i], pa.int64())})] for i in range(start, end)]
        return FakeFrame(self, lambda: ids, 1)


class FakeFrame:
    """Partitions that are computed when they are asked for."""

    def __init__(
        self, session: FakeSession, make: Callable[[], list[Partition]], stages: int, schema: Any = None
    ) -> None:
        self.sparkSession = session
        self._make = make
        self._stages = stages
        self._schema = schema

    def mapInArrow(self, fn: Callable[[Iterator[pa.RecordBatch]], Any], schema: Any) -> FakeFrame:
        def make() -> list[Partition]:
            attempts = self.sparkSession.attempts
            return [attempts(n, partial(self._answers, fn, rows)) for n, rows in enumerate(self._make())]

        return FakeFrame(self.sparkSession, make, self._stages, schema)

    @staticmethod
    def _answers(fn: Callable[[Iterator[pa.RecordBatch]], Any], rows: Partition) -> Iterator[pa.RecordBatch]:
        return iter(fn(iter(rows)))

    def repartitionById(self, count: int, column: str) -> FakeFrame:
        def make() -> list[Partition]:
            out: list[Partition] = [[] for _ in range(count)]
            for batch in (b for partition in self._make() for b in partition):
                for row, to in enumerate(batch.column(column).to_pylist()):
                    out[to].append(batch.slice(row, 1))
            return out

        return FakeFrame(self.sparkSession, make, self._stages + 1)

    def select(self, what: str) -> FakeFrame:
        assert what == "*"
        return self

    def selectExpr(self, *expressions: str) -> FakeRows:
        """Aggregates over all rows, by DuckDB."""
        rows = self.toArrow()
        with duckdb.connect() as oracle:
            oracle.register("rows", rows)
            text = ", ".join(expressions).replace("`", '"')
            return FakeRows(oracle.execute(f"SELECT {text} FROM rows").fetchall())

    def _run(self) -> Iterator[pa.RecordBatch]:
        self.sparkSession.jobs += 1
        self.sparkSession.stages += self._stages
        try:
            return iter([batch for partition in self._make() for batch in partition])
        except TaskError as error:
            raise PySparkException(str(error)) from error  # as what a task raises reaches the driver

    def collect(self) -> list[dict[str, Any]]:
        return [row for batch in self._run() for row in batch.to_pylist()]

    def toArrow(self) -> pa.Table:
        batches = list(self._run())
        return pa.Table.from_batches(batches) if batches else self._schema.empty_table()


class FakeRows:
    """Rows that are known."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def collect(self) -> list[tuple[Any, ...]]:
        return self._rows


class _Task:
    @staticmethod
    def get() -> Any:
        return _here.tasks[-1][0] if _here.tasks else None


class _Context:
    def __init__(self, number: int, session: FakeSession) -> None:
        self.number, self.session = number, session

    def partitionId(self) -> int:
        return self.number

    def getLocalProperty(self, name: str) -> str:
        return self.session.conf.get(name)


def install(monkeypatch: pytest.MonkeyPatch, processes: int = 2) -> FakeSession:
    """Let `everfresh.connect(engine="spark", spark=...)` run on the session that is returned."""
    session = FakeSession(processes)
    session.forget()
    monkeypatch.setattr(chain, "_CACHE", _OfProcess("cache"))
    monkeypatch.setattr(chain, "_SIZES", _OfProcess("sizes"))
    monkeypatch.setattr(table_content, "_PROGRAMS", _OfProcess("programs"))
    monkeypatch.setattr(artifacts, "_KNOWN", _OfProcess("compiled"))
    monkeypatch.setattr(pyspark, "TaskContext", _Task)
    monkeypatch.setattr(pyspark, "inheritable_thread_target", lambda given: lambda fn: fn)
    monkeypatch.setattr(tasks, "TaskContext", _Task)
    for module in (plans, requests, snapshots, tables, reading):
        monkeypatch.setattr(module, "freeze", lambda: None)
    monkeypatch.setattr(sessions, "own", lambda given: given)
    monkeypatch.setattr(sessions, "missing_settings", lambda given: {})
    monkeypatch.setattr(frames, "spark_schema", lambda columns: arrow_schema(tuple(columns)))
    return session
