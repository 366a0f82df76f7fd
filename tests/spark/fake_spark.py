"""Just enough of a Spark session to run everfresh's jobs in this process: range, mapInArrow, repartitionById,
collect and toArrow, partition by partition, each as a task of its own.

Each task is served by one of some processes, that is, caches of units: which one is random, so that units are
found at the right version, behind it, ahead of it, or not at all. What Spark does to processes and tasks
(retries, kills) is tested with Spark itself.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from everfresh.spark import blocks, engine, reading, tables, tasks, units
from everfresh.spark import session as sessions
from everfresh.types import arrow_schema

Partition = list[pa.RecordBatch]


class _Conf:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def get(self, name: str, default: str = "") -> str:
        return self.values.get(name, default)


class FakeSession:
    """A session whose jobs run here, one task after the other."""

    def __init__(self, processes: int) -> None:
        self.conf = _Conf()
        self.jobs = 0
        self.stages = 0
        self._random = random.Random(7)
        self._processes: list[tuple[Any, Any]] = [(OrderedDict(), {}) for _ in range(processes)]

    def forget(self) -> None:
        """Drop all caches, as if all processes were new."""
        for caches in (*self._processes, (units._CACHE, units._SIZES)):
            for cache in caches:
                cache.clear()

    @contextmanager
    def process(self) -> Iterator[None]:
        """One of the processes that serve tasks."""
        driver = units._CACHE, units._SIZES
        units._CACHE, units._SIZES = self._random.choice(self._processes)
        try:
            yield
        finally:
            units._CACHE, units._SIZES = driver

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
            out = []
            for number, partition in enumerate(self._make()):
                with _task(number, self.sparkSession):
                    out.append(list(fn(iter(partition))))
            return out

        return FakeFrame(self.sparkSession, make, self._stages, schema)

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

    def _run(self) -> Iterator[pa.RecordBatch]:
        self.sparkSession.jobs += 1
        self.sparkSession.stages += self._stages
        return (batch for partition in self._make() for batch in partition)

    def collect(self) -> list[dict[str, Any]]:
        return [row for batch in self._run() for row in batch.to_pylist()]

    def toArrow(self) -> pa.Table:
        batches = list(self._run())
        return pa.Table.from_batches(batches) if batches else self._schema.empty_table()


class _Task:
    current: Sequence[Any] = ()

    @staticmethod
    def get() -> Any:
        return _Task.current[-1] if _Task.current else None


class _Context:
    def __init__(self, number: int, session: FakeSession) -> None:
        self.number, self.session = number, session

    def partitionId(self) -> int:
        return self.number

    def getLocalProperty(self, name: str) -> str:
        return self.session.conf.get(name)


@contextmanager
def _task(number: int, session: FakeSession) -> Iterator[None]:
    _Task.current = [*_Task.current, _Context(number, session)]
    try:
        with session.process():
            yield
    finally:
        _Task.current = _Task.current[:-1]


def install(monkeypatch: pytest.MonkeyPatch, processes: int = 2) -> FakeSession:
    """Let `everfresh.connect(engine="spark", spark=...)` run on the session that is returned."""
    session = FakeSession(processes)
    session.forget()
    monkeypatch.setattr(pyspark, "TaskContext", _Task)
    monkeypatch.setattr(pyspark, "inheritable_thread_target", lambda given: lambda fn: fn)
    monkeypatch.setattr(tasks, "TaskContext", _Task)
    for module in (blocks, tables, reading):
        monkeypatch.setattr(module, "freeze", lambda: None)
    monkeypatch.setattr(sessions, "own", lambda given: given)
    monkeypatch.setattr(sessions, "missing_settings", lambda given: {})
    monkeypatch.setattr(engine, "spark_schema", lambda columns: arrow_schema(tuple(columns)))
    return session
