"""External arrays in a database on Spark: workers read files and keep pieces, the driver has boxes."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.cells import Array, read_cells
from everfresh.arrays.chunk import Chunk
from everfresh.arrays.execute.work import work_of
from everfresh.errors import Code, EverfreshError
from everfresh.progress import Progress
from everfresh.raw.bounds import boxes_of
from everfresh.raw.boxes import Box
from everfresh.raw.cache.asking import Ask, CacheOptions
from everfresh.raw.cache.coordinator import Coordinator
from everfresh.raw.cache.joining import Join
from everfresh.raw.cells import CellReader
from everfresh.raw.domain import External
from everfresh.raw.files.places import Found
from everfresh.raw.here import array_of
from everfresh.raw.looking import Surveyed
from everfresh.raw.needs import Needs
from everfresh.raw.spark.files import forget_session
from everfresh.raw.spark.memory import Remote
from everfresh.raw.spark.pieces import Cells, Shard, reader_of
from everfresh.raw.spark.requests import ABOUT, asked
from everfresh.raw.spark.requests import answer as answer_request
from everfresh.raw.spark.run import SparkRun, undivided
from everfresh.spark.host import Host
from everfresh.spark.jobs.requests import Requests
from everfresh.spark.jobs.tasks import Batches
from everfresh.spark.session.failures import TaskError
from everfresh.spark.sql.text import spark_schema
from everfresh.sql.logical.plan import Plan
from everfresh.types import INTERVAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from everfresh.arrays.spark.domain import ArraysOnSpark

_log = logging.getLogger("everfresh")
_ROUND = 64
"""New files that a worker looks at in one job."""
_CHUNK = 1 << 16


class CoordinatorOnSpark(Coordinator):
    """What the driver has of the cache: boxes, budgets and history."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.session = uuid.uuid4().hex[:12]
        super().__init__(CacheOptions(workers=host.folder.workers))
        self._requests: Requests | None = None

    def _empty(self) -> Remote:
        return Remote([self.options.budget] * self.options.workers)

    def configure(self, options: CacheOptions) -> None:
        """As on one machine; how many workers there are, the database says."""
        if options.workers != self.host.folder.workers:
            raise EverfreshError(
                Code.ARGUMENT,
                f"the cache nodes are the workers of the database: {self.host.folder.workers}",
                hint="leave workers= out, or open a database with another number of workers",
            )
        super().configure(options)

    def clear(self) -> None:
        """Let everything in memory go, at the workers too."""
        with self.lock:
            had = len(self.state.memory)
            super().clear()
            if had:
                own: list[Any] = [{"keep": [], "make": []} for _ in range(self.options.workers)]
                self.ask("keep", {"budget": self.options.budget}, own)

    # -- the workers -----------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """What every task is told."""
        place = f"{self.host.ledger().world(0).database}/{self.session}"
        return {"place": place, "definitions": {n: str(r.definition) for n, r in self.readers.items()}}

    def ask_for_bytes(self, what: str, about: Mapping[str, Any], own: Sequence[Any]) -> list[bytes]:
        """Ask every worker something."""
        if self._requests is None:
            host = self.host
            self._requests = Requests(host.session, host.folder.root, host.folder.workers, answer_request)
        told = json.dumps({"ask": what, **self.about(), **about}).encode()
        sections = {f"worker/{worker}": json.dumps(one).encode() for worker, one in enumerate(own)}
        return self._requests.ask({ABOUT: told, **sections})

    def ask(self, what: str, about: Mapping[str, Any], own: Sequence[Any]) -> list[Any]:
        """Ask every worker something, and have an answer in numbers and text."""
        return [json.loads(told) for told in self.ask_for_bytes(what, about, own)]

    def forget(self) -> None:
        """The session is over: nothing of it stays with the workers, if they can be asked."""
        if self._requests is None:
            return
        try:
            self.ask("forget", {}, ())
        except Exception as error:  # a session of Spark that has ended, or workers that are gone
            _log.debug("workers could not be asked to forget: %s", error)
            forget_session(self.about()["place"])

    def left_out(self, path: str, why: str) -> None:
        """A file is left out, as its array asks."""
        _log.warning("a file cannot be read and is left out: %s: %s", path, why)

    def survey(
        self, reader: CellReader, fresh: Sequence[tuple[Found, int]]
    ) -> Iterator[tuple[str, Surveyed]]:
        """The boxes of new files, by their owners."""
        own: list[list[str]] = [[] for _ in range(self.options.workers)]
        for one, owner in fresh:
            own[owner].append(one.path)
        about = {"definition": str(reader.definition)}
        for at in range(0, max(map(len, own)), _ROUND):
            for told in self.ask("survey", about, [some[at : at + _ROUND] for some in own]):
                for path, box, cells, error in told:
                    yield path, (Box.of(*box) if box is not None else None, cells, error)

    # -- queries ---------------------------------------------------------------------------------------

    def _begun(self, asks: Sequence[Ask], progress: Progress | None) -> SparkRun:
        run = SparkRun(self, asks)
        run.look()
        run.read(progress)
        return run

    def answer(
        self, asks: Sequence[Ask], joins: Sequence[Join] = (), progress: Progress | None = None
    ) -> dict[str, Array]:
        """The cells of each array that a query needs, collected here."""
        with self.lock:
            begin = time.perf_counter()
            run = self._begun(asks, progress)
            run.homes()
            found = run.cells()
            run.keep()
            self.ended(run, begin)
        return {name: array_of(table, self.readers[name]) for name, table in found.items()}

    def rows_of(
        self,
        statement: aql.Statement,
        needs: Needs,
        arrays: ArraysOnSpark,
        progress: Progress | None = None,
    ) -> pa.Table | None:
        """The rows that a statement gives, computed by the workers; None if they do not run such."""
        schemas = {name: reader.schema for name, reader in self.readers.items()}
        stored = {name: kept.schema for name, kept in arrays.kept_of.items()}
        work = work_of(statement, {**stored, **{name: undivided(one) for name, one in schemas.items()}})
        if work is None or work.padded is not None or work.into:
            return None
        with self.lock:
            begin = time.perf_counter()
            run = self._begun([ask for ask in needs.asks if ask.array in schemas], progress)
            found = run.answer(str(statement), work, arrays.kept_of, arrays.plan_options)
            run.keep()
            self.ended(run, begin)
        if work.result is None:
            return found.rows
        return Chunk.of(read_cells(found.rows, work.result), work.result.ndim).table

    def frame(self, ask: Ask, session: SparkSession) -> DataFrame:
        """The cells that a query needs of an array as a DataFrame: read now, and again where they go."""
        with self.lock:
            begin = time.perf_counter()
            run = self._begun([ask], None)
            run.homes()
            run.keep()
            self.ended(run, begin)
            own: list[list[Any]] = [[] for _ in range(self.options.workers)]
            for shard in run.lasting(ask.array):
                own[shard.source.worker].append(shard.to_json())
        reader = self.readers[ask.array]
        boxes = [[b.lo, b.hi] for b in ask.boxes]
        told = json.dumps([self.about(), ask.array, boxes, own])
        schema = spark_schema(reader.schema.columns)
        workers = self.options.workers
        return session.range(0, workers, 1, workers).mapInArrow(partial(frame_block, told), schema)


def frame_block(told: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The cells that the worker of a task has."""
    about, array, boxes, own = json.loads(told)
    reader = reader_of(about["definitions"][array])
    cells = Cells(about["place"], about["definitions"], keeps=False)
    wanted = [Box.of(lo, hi) for lo, hi in boxes]
    for worker in [int(w) for batch in batches for w in batch.column("id").to_pylist()]:
        shards = [Shard.of_json(one) for one in own[worker]]
        try:
            for table in asked(cells, shards, wanted, reader):
                yield from table.combine_chunks().to_batches(max_chunksize=_CHUNK)
        except EverfreshError as error:
            raise TaskError(error) from error


class ExternalOnSpark(External):
    """External arrays by name, their pieces with the workers."""

    cache: CoordinatorOnSpark

    def __init__(self, history: int, host: Host) -> None:
        super().__init__(history, CoordinatorOnSpark(host))

    def release(self) -> None:
        """Nothing stays with the workers."""
        super().release()
        self.cache.forget()

    def survey(
        self, reader: CellReader, fresh: Sequence[tuple[Found, int]]
    ) -> Iterator[tuple[str, Surveyed]]:
        """Look at new files, by their owners."""
        return self.cache.survey(reader, fresh)

    def answered(
        self, statement: aql.Statement, needs: Needs, arrays: Any, progress: Progress | None = None
    ) -> pa.Table | None:
        """The rows of a statement, computed by the workers; None if they do not run such."""
        return self.cache.rows_of(statement, needs, arrays, progress)

    def frame(self, name: str, at: int | None, session: Any) -> Any:
        """The cells of an array as a DataFrame."""
        self.past(name, at)
        schema = self.reader(name).schema
        return self._frame(name, [Box.of(schema.lo, schema.hi)], session)

    def frame_for(self, name: str, plan: Plan, session: Any) -> Any:
        """The cells that a plan of SQL needs of an array, as a DataFrame."""
        boxes = boxes_of(plan, {name: self.reader(name).schema}).get(name, [])
        return self._frame(name, boxes, session) if boxes else None

    def _frame(self, name: str, boxes: Sequence[Box], session: Any) -> Any:
        if any(column.type == INTERVAL for column in self.reader(name).schema.columns):
            return None
        return self.cache.frame(Ask(name, tuple(boxes)), session)
