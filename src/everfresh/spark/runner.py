"""Jobs: which plan serves which kind, how it is run, and what must come back.

| kind | plan | answers |
|---|---|---|
| base | the tables' units only | base |
| whole | the tables' and the maps' units in one stage: every task reads the batch | base, maps |
| maps | the tables' units, then (one exchange) the maps' | base, maps |
| results | the same, then (one more) the results' | base, maps, results |
| change | the change of a re-evaluated view, routed to the maps' units | maps |
| lay | rows of DataFrames, written to files of the inbox | their names |
| snapshot | units of some workers, written to files | those |

Rows given as DataFrames are routed by a stage in front. What the driver gathers comes with the answers.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from everfresh.delta import SparkRows
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.spark.artifacts import leave_again
from everfresh.spark.blocks import maps_block, results_block, whole_block
from everfresh.spark.claims import forget
from everfresh.spark.failures import translated
from everfresh.spark.jobs import (
    AGAIN,
    CONTROL,
    ERROR,
    EXCHANGE,
    GATHERED,
    PROPERTY,
    ROWS,
    Job,
    PartSpec,
    World,
    read_error,
    unpack_control,
)
from everfresh.spark.laying import LaidRows, laid_rows, lay_block, removed
from everfresh.spark.observe import Observer
from everfresh.spark.sqltext import name as quoted
from everfresh.spark.tables import base_block, route_block, snapshot_block
from everfresh.spark.units import worker_of
from everfresh.state import StateFolder, crash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("everfresh")
_ATTEMPTS = 3
_ONE_STAGE = ("base", "whole")
_CLAIMED = (*_ONE_STAGE, "snapshot")
STAGES = ("base", "maps", "results")
"""The plan of a program, by its number of stages."""
_ANSWERS = {
    "base": ("base",),
    "whole": ("base", "maps"),
    "maps": ("base", "maps"),
    "results": ("base", "maps", "results"),
    "change": ("maps",),
}

Controls = list[tuple[dict[str, Any], Any]]


class Again(Exception):
    """A batch that was to be applied in one stage must be run in stages, for this reason."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What comes back from a job: what was done to units, and what the driver gathers."""

    controls: Controls
    gathered: list[bytes]


class Runner:
    """Runs the jobs of one database on one session."""

    def __init__(self, session: SparkSession, folder: StateFolder, options: Options) -> None:
        self._spark = session
        self._folder = folder
        self._root = folder.root
        self.workers = folder.workers
        self._options = options
        self._plans: dict[str, DataFrame] = {}
        self.observer = Observer(session)

    def run(
        self,
        job: Job,
        kind: str,
        frames: Mapping[int, SparkRows] | None = None,
        change: DataFrame | None = None,
    ) -> Answers:
        """Run a job and return what its tasks answered; an error that one reported is raised."""

        def plan(told: str) -> DataFrame:
            found = self._plan(job, kind, frames, change)
            # The property must be set on the session that owns the plan.
            found.sparkSession.conf.set(PROPERTY, told)
            return found

        rows = self._collected(job, kind, plan, self.observer)
        crash("after-collect", self._options.fault, scratch=self._folder.scratch)
        self._raise_errors(rows)
        again = sorted(bytes(row["payload"]) for row in rows if row["kind"] == AGAIN)
        if again:
            raise Again(again[0].decode())
        controls = _controls(rows)
        expected = [f"{role}/{w}" for role in _ANSWERS[kind] for w in range(self.workers)]
        _check(job, controls, expected)
        return Answers(controls, sorted(row["payload"] for row in rows if row["kind"] == GATHERED))

    def lay(
        self, world: World, frames: Mapping[int, SparkRows], specs: Mapping[int, PartSpec], limit: int
    ) -> dict[int, LaidRows]:
        """Lay the rows of DataFrames down in the inbox, if they have no more bytes than the limit."""
        laying: DataFrame | None = None
        for index, rows in frames.items():
            lay = partial(lay_block, world, index, specs[index], limit)
            one = _selected(rows).mapInArrow(lay, EXCHANGE)
            laying = one if laying is None else laying.union(one)
        assert laying is not None
        with translated(), self.observer.job(uuid.uuid4().hex, "lay"):
            found: Sequence[Any] = laying.collect()
        columns = {index: tuple(name for name, _ in rows.names) for index, rows in frames.items()}
        laid = laid_rows(columns, [bytes(row["payload"]) for row in found if row["kind"] == ROWS])
        try:
            self._raise_errors(found)
        except EverfreshError:
            for done in laid.values():
                removed(world, done)
            raise
        return laid

    def snapshot(self, job: Job, workers: Sequence[int], tasks: int, observer: Observer) -> dict[str, str]:
        """Write the units of a job of some of these workers, as many as tasks, to files: the name of each.
        Whoever has a worker's units writes them. Batches may run meanwhile."""
        anchor = self._spark.range(0, tasks, 1, tasks)

        def plan(told: str) -> DataFrame:
            return anchor.mapInArrow(partial(snapshot_block, self._root, told, tuple(workers)), EXCHANGE)

        rows = self._collected(job, "snapshot", plan, observer)
        self._raise_errors(rows)
        controls = _controls(rows)
        written = {worker_of(header["unit"]) for header, _ in controls}
        if len(written) != tasks:
            raise RuntimeError(f"job {job.nonce} answered for {sorted(written)}, not {tasks} workers")
        _check(job, controls, [unit for unit in job.bases if worker_of(unit) in written])
        return {header["unit"]: header["snapshot"] for header, _ in controls}

    def _collected(
        self, job: Job, kind: str, plan: Callable[[str], DataFrame], observer: Observer
    ) -> Sequence[Any]:
        """The rows of a job, which is run again if it fails."""
        told = job.write()
        try:
            for attempt in range(1, _ATTEMPTS + 1):
                found = plan(told)
                try:
                    with translated(), observer.job(job.nonce, kind):
                        rows: Sequence[Any] = found.collect()
                    return rows
                except EverfreshError as error:  # the batch is at fault, and would be again
                    raise self._explained(error) from error
                except Exception as error:
                    if attempt == _ATTEMPTS or observer.cancelled:
                        raise
                    _log.warning("job %s failed and is run again: %s", job.nonce, str(error).splitlines()[0])
        finally:
            job.remove()
            if kind in _CLAIMED:
                forget(job, self.workers)
        raise AssertionError("unreachable")

    def _raise_errors(self, rows: Sequence[Any]) -> None:
        errors = sorted(bytes(row["payload"]) for row in rows if row["kind"] == ERROR)
        if errors:
            raise self._explained(read_error(errors[0]))

    def _explained(self, error: EverfreshError) -> EverfreshError:
        """The error of a task, unless it comes of another writer."""
        if error.code == Code.DAMAGED:
            leave_again(self._root)
            self._folder.check_writer()  # what one that was overtaken misses, the other has removed
        return error

    def _plan(
        self, job: Job, kind: str, frames: Mapping[int, SparkRows] | None, change: DataFrame | None
    ) -> DataFrame:
        if change is not None:
            return self._then_maps(change)
        if frames:
            return self._routed(job.world, frames, job.parts, kind)
        # Plans of batches on the driver are built once, since a batch reaches their tasks as a job property.
        if kind not in self._plans:
            anchor = self._spark.range(0, self.workers, 1, self.workers)
            first = (
                partial(whole_block, self._root)
                if kind == "whole"
                else partial(base_block, self._root, kind == "base", kind == "base")
            )
            plan = anchor.mapInArrow(first, EXCHANGE)
            self._plans[kind] = plan if kind in _ONE_STAGE else self._then_maps(plan, kind)
        plan = self._plans[kind]
        # A plan with an exchange keeps its shuffle output: collected again, it would hand out the rows of the
        # batch before.
        return plan if kind in _ONE_STAGE else plan.select("*")

    def _then_maps(self, before: DataFrame, kind: str = "maps") -> DataFrame:
        maps = before.repartitionById(self.workers, "to").mapInArrow(
            partial(maps_block, self._root, kind != "results"), EXCHANGE
        )
        if kind != "results":
            return maps
        return maps.repartitionById(self.workers, "to").mapInArrow(
            partial(results_block, self._root), EXCHANGE
        )

    def _routed(
        self, world: World, frames: Mapping[int, SparkRows], specs: Sequence[PartSpec], kind: str
    ) -> DataFrame:
        """The plan of a batch with rows in DataFrames: they are checked and routed where they are."""
        routed: DataFrame | None = None
        for index, rows in frames.items():
            one = _selected(rows).mapInArrow(partial(route_block, world, index, specs[index]), EXCHANGE)
            routed = one if routed is None else routed.union(one)
        assert routed is not None
        base = routed.repartitionById(self.workers, "to").mapInArrow(
            partial(base_block, self._root, kind == "base", False), EXCHANGE
        )
        return base if kind == "base" else self._then_maps(base, kind)


def _controls(rows: Sequence[Any]) -> Controls:
    return [unpack_control(bytes(row["payload"])) for row in rows if row["kind"] == CONTROL]


def _check(job: Job, controls: Controls, expected: Iterable[str]) -> None:
    """Every unit answered exactly once, for this job, from the version it was given."""
    answered, expected = sorted(header["unit"] for header, _ in controls), sorted(expected)
    good = answered == expected and all(
        header["nonce"] == job.nonce and header["tag_in"] == job.bases[header["unit"]].version[1]
        for header, _ in controls
    )
    if not good:
        raise RuntimeError(f"job {job.nonce} answered for {answered} where {expected} were asked")


def _selected(rows: SparkRows) -> DataFrame:
    """The table's columns of a user's DataFrame, under the table's names. One that has them already is taken
    as it is: to select them one by one takes Python longer than Spark takes for a small batch."""
    from pyspark.sql.types import TimestampType

    types = {field.name: field.dataType for field in rows.df.schema.fields}
    # wall-clock time in the session's zone, as Spark shows it
    zoned = {name for name, type_ in types.items() if isinstance(type_, TimestampType)}
    if [name for name, _ in rows.names] == list(types) and not zoned:
        return rows.df
    texts = []
    for name, given in rows.names:
        column = quoted(given)
        texts.append(f"{f'CAST({column} AS TIMESTAMP_NTZ)' if given in zoned else column} AS {quoted(name)}")
    return rows.df.selectExpr(*texts)
