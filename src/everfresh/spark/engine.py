"""The Spark engine: tables and maps in the workers' units, one job per batch.

The driver plans, commits and keeps small results (`everfresh.spark.driver`); rows and maps stay with the
partitions (`everfresh.spark.units`). A batch is one job: of one stage if every task may read all of it, else
of as many as its program has (`everfresh.spark.programs`). Rows that Spark has to compute, in a DataFrame
that is no scan of files, take one more stage in front (`everfresh.spark.given`; where the DataFrame's session
has adaptive execution on, Spark makes a job of each). The job's tasks change only their own caches and write
files that nobody names; the epoch exists once the driver has created its commit record.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.compiler import Catalog, Effect
from everfresh.delta import SparkRows
from everfresh.delta.bags import EPOCH, WEIGHT
from everfresh.distributed import Dist, Placement
from everfresh.distributed.flat import tables_of
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Const, Expr, Var
from everfresh.expr.build import cast
from everfresh.local.mapstore import weighted_schema
from everfresh.options import Options
from everfresh.program import Applied, Batch, Progress, check_epoch, one_by_one
from everfresh.program.domain import Domain, Sections
from everfresh.spark import session as sessions
from everfresh.spark.adaptive import INCREMENTAL, Costs, choose, counted, rows_left
from everfresh.spark.compaction import Compaction
from everfresh.spark.driver import gathered
from everfresh.spark.failures import translated
from everfresh.spark.given import Chosen, chosen_for, frames_of, handed_out, read_given, takes_one_stage
from everfresh.spark.jobs import DRIVER, EXCHANGE, LOAD, Job, PartSpec, World
from everfresh.spark.laying import LAID_OPS, removed
from everfresh.spark.ledger import Draft, Ledger
from everfresh.spark.load import filled
from everfresh.spark.programs import (
    DRIVER_HOME,
    batch_program,
    executed,
    home_of,
    incremental,
    over_tables,
    placement_of,
    whole_program,
)
from everfresh.spark.reading import given_block, read_block, rows_of
from everfresh.spark.runner import STAGES, Again, Controls, Runner
from everfresh.spark.sqltext import expr_sql, plan_sql, spark_type
from everfresh.spark.sqltext import name as quoted
from everfresh.spark.tables import change_block
from everfresh.spark.units import read_segment
from everfresh.spark.unsplit import Unsplit, look_sql, looked, reach_of
from everfresh.spark.verify import differences, net_change
from everfresh.sql import plan as p
from everfresh.state import StateFolder, pack_table, told, unpack_table
from everfresh.state.interrupts import HeldBack
from everfresh.types import INTERVAL, Column, TableSchema, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READ_CHUNK = 1 << 16
_log = logging.getLogger("everfresh")


@dataclass(frozen=True, slots=True)
class Host:
    """What a domain on Spark works with."""

    session: SparkSession
    folder: StateFolder
    options: Options
    read_only: bool


class SparkEngine:
    """Tables and views on a Spark cluster. See `everfresh.program.Engine`."""

    name = "spark"
    concurrent = False
    apply_all = one_by_one

    def __init__(
        self,
        path: str | Path | None,
        options: Options,
        *,
        session: SparkSession | None = None,
        read_only: bool = False,
        domains: Sequence[Domain] = (),
    ) -> None:
        # Nobody opens a temporary folder again: there is nothing to wait for the disk for.
        options = options if path is not None else options.with_(durable=False)
        self._options = options
        self._domains = tuple(domains)
        self._read_only = read_only
        self._temporary = tempfile.mkdtemp(prefix="everfresh-") if path is None else None
        try:
            self._folder = StateFolder.open(
                path if path is not None else str(self._temporary),
                engine=self.name,
                workers=options.workers,
                options=options,
                read_only=read_only,
            )
            try:
                self._user = session if session is not None else sessions.acquire()
                self._given = session is not None
                self._spark = sessions.own(self._user)
                for domain in self._domains:
                    domain.attach(Host(self._spark, self._folder, options, read_only))
                self._ledger = Ledger(self._folder, options, self._domains)
                if not read_only:
                    self._ledger.collect(new_term=True)
            except BaseException:
                self._folder.close()
                raise
        except BaseException:
            self._remove_temporary()
            raise
        self._workers = self._folder.workers
        self._runner = Runner(self._spark, self._folder, options)
        self.compaction = Compaction(self._spark, self._ledger, self._runner, options)
        self._released = False
        self._costs = Costs()
        self._large: set[str] = set()
        self._unsplit = Unsplit()
        """Tables that got a DataFrame too large for every task to read."""

    @property
    def epoch(self) -> int:
        """The last epoch this handle has seen."""
        return self._ledger.epoch

    @property
    def oldest(self) -> int:
        """The earliest epoch that reads reach: as far back as the options say, and as the commit records
        go."""
        return max(0, self.epoch - self._options.history, self._folder.commits.first() - 1)

    @property
    def catalog(self) -> Catalog:
        """Tables and views as of `epoch`."""
        return self._ledger.catalog

    @property
    def sources(self) -> Mapping[str, int]:
        """The last batch of each stream."""
        return self._ledger.sources

    @property
    def folder(self) -> StateFolder:
        """The folder; a temporary one if none was given."""
        return self._folder

    @property
    def options(self) -> Options:
        """What the database was opened with."""
        return self._options

    @property
    def session(self) -> SparkSession:
        """The session that was given, or that was found or started."""
        return self._user

    def refresh(self) -> None:
        """Be whole; readers: follow the commit records."""
        self._ledger.refresh()

    # -- epochs ------------------------------------------------------------------------------------

    def _job(self, kind: str, draft: Draft, world: World, **fields: Any) -> Job:
        return Job(uuid.uuid4().hex, kind, world.left(), draft.bases, **fields)

    def _commit(
        self, draft: Draft, batch: Batch | None = None, *, made: tuple[Catalog, Effect] | None = None
    ) -> int:
        keys, sources = (batch.keys, batch.sources) if batch is not None else ((), {})
        ddl = (made[1].text,) if made is not None else ()
        with HeldBack():
            epoch = self._ledger.commit(draft, keys=keys, ddl=ddl, sources=sources, made=made)
        self.compaction.committed()
        return epoch

    def _reevaluate(self, draft: Draft, world: World, view: str, kind: str) -> None:
        """Bring a view to its plan's rows over the draft's tables and views, by the difference from the
        rows it has."""
        compiled = world.catalog.views[view].compiled
        source = partial(self._temp_view, draft=draft, world=world)
        new = self._spark.sql(plan_sql(compiled.plan, source))
        change = net_change(new, self._frame(self._spark, view, None, draft, world), compiled.view.columns)
        routed = change.mapInArrow(partial(change_block, world.left(), view), EXCHANGE)
        with translated():
            done = self._runner.run(self._job(kind, draft, world, view=view), "change", change=routed)
            draft.add(done.controls)

    def execute(self, statement: Any, progress: Progress | None = None) -> int:
        """Run one DDL statement."""
        with told("the statement was not run"):
            return self._execute(statement, progress)

    def _execute(self, statement: Any, progress: Progress | None) -> int:
        ledger = self._ledger
        made = catalog, effect = executed(ledger.catalog, statement, ledger.table_sizes(), progress)
        if effect.create_table is not None and not effect.create_table.retained:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "the Spark engine keeps the rows of every table: there is no retain = false",
                hint="leave the option out, or connect with engine='local'",
            )
        if effect.nothing:
            return ledger.epoch
        draft = Draft(ledger)
        if effect.create_view is not None:
            name = effect.create_view.name
            world = ledger.world(draft.epoch, catalog, ledger.ids_after(effect, draft.epoch))
            rows = sum(ledger.table_sizes().get(table, 0) for table in tables_of(catalog, name))
            work: Callable[[], Any] = partial(self._fill, draft, world, name, "load", rows)
            if effect.create_view.compiled.reevaluated:
                work = partial(self._reevaluate, draft, world, name, "fill")
            clean = partial(ledger.clean, draft.epoch)
            filled(self._runner.observer, f"loading {name}", work, progress, clean)
            self._unsplit.ready(catalog, world.ids, (name,), self._look)
            self._check_values(draft, world, (name,), [])
        elif effect.alter_table is not None:
            self._runner.observer.batch()
            if effect.alter_table[1].key:
                job = self._job("alter", draft, ledger.world(draft.epoch), alter=effect.alter_table)
                draft.add(self._runner.run(job, "base").controls)
            else:
                world = ledger.world(draft.epoch, catalog, ledger.ids_after(effect, draft.epoch))
                self._move_rows(draft, world, *effect.alter_table)
        return self._commit(draft, made=made)

    def _fill(self, draft: Draft, world: World, view: str, kind: str, rows: int) -> Controls:
        """Fill a view that runs as a program, new or anew, from the rows of its tables."""
        started = time.perf_counter()
        program = world.program(LOAD, frozenset((view,)))
        assert program is not None
        job = self._job(kind, draft, world, view=view, form=LOAD)
        answers = self._runner.run(job, STAGES[program.stages - 1])
        controls = [*answers.controls, *gathered(job, answers.gathered)]
        draft.add(controls)
        if kind == "load":
            self._costs.forget(view)
        self._costs.filled(view, rows, time.perf_counter() - started)
        return controls

    def _move_rows(
        self, draft: Draft, world: World, old: TableSchema, new: TableSchema, default: Const | None
    ) -> None:
        """Fill an altered table that has no key from the one before: its rows belong to other workers now."""
        frame = self._frame(self._spark, old.name, None)
        columns = [
            quoted(c.name)
            if c.name in old.names
            else f"{expr_sql(cast(default or Const(None, c.type), c.type))} AS {quoted(c.name)}"
            for c in new.columns
        ]
        rows = SparkRows(frame.selectExpr(*columns), tuple((name, name) for name in new.names))
        spec = PartSpec(new.name, "insert", f"ALTER TABLE {new.name}", (), exchanged=True)
        job = self._job("batch", draft, world, parts=(spec,))
        draft.add(self._runner.run(job, "base", {0: rows}).controls)

    def snapshot(self) -> None:
        """Write every unit to a file, name them in a manifest, and forget the log before it."""
        self.compaction.now()

    # -- batches -----------------------------------------------------------------------------------

    def read_input(self, data: Any, schema: TableSchema, what: str, op: Any) -> Any:
        """Rows as they will travel."""
        # Connect joins no DataFrames of two sessions, and another table's rows may be the user's.
        session = self._user if sessions.is_connect(self._user) else self._spark
        return read_given(data, schema, what, op, self._options, lambda path: session.read.parquet(path))

    def committed(self, key: str) -> int | None:
        """The epoch that a batch with this key committed, if one did."""
        return self._ledger.keys.get(key)

    def apply(self, batch: Batch) -> Applied:
        """Apply a batch atomically."""
        with told("the batch was not applied"):
            return self._apply_steps(batch)

    def _apply_steps(self, batch: Batch) -> Applied:
        if not batch.steps:
            return self._apply_laid(batch)
        self._ledger.whole = False  # until the domains' steps are made, or taken back
        try:
            applied = self._apply_laid(batch)
        except EverfreshError:
            self._ledger.whole = True
            raise
        return applied

    def _apply_laid(self, batch: Batch) -> Applied:
        with ExitStack() as stack:
            others = [
                stack.enter_context(domain.changing(batch.steps[domain.name]))
                for domain in self._domains
                if domain.name in batch.steps
            ]
            self._runner.observer.batch()
            batch = self._laid(batch, stack)
            return self._runner.observer.told(self._apply(batch, others))

    def _laid(self, batch: Batch, stack: ExitStack) -> Batch:
        """The batch with the rows of DataFrames in files of the inbox, until the stack ends, if every task
        may then read all of it."""
        frames = frames_of(batch)
        catalog, limit = self._ledger.catalog, self._options.whole_bytes
        tables = {part.table for part in batch.parts}
        views = [view for view in catalog.affected_by(tables) if not view.compiled.reevaluated]
        if (
            not frames
            or not views
            or not limit
            or tables & self._large
            or any(part.op not in LAID_OPS for part in batch.parts)
        ):
            return batch
        world = self._ledger.world(self._ledger.epoch + 1)
        if not takes_one_stage(world, frozenset(tables)):
            return batch
        specs = {i: PartSpec(p.table, p.op, p.what, ()) for i, p in enumerate(batch.parts) if i in frames}
        found = self._runner.lay(world.left(), frames, specs, limit)
        for rows in found.values():
            stack.callback(removed, world, rows)
        large = {batch.parts[i].table for i, rows in found.items() if rows.size > limit}
        self._large |= large
        if large:
            return batch
        parts = tuple(replace(p, rows=found[i]) if i in found else p for i, p in enumerate(batch.parts))
        return replace(batch, parts=parts)

    def _apply(self, batch: Batch, others: Sequence[Callable[[], Sections]]) -> Applied:
        ledger = self._ledger
        draft = Draft(ledger)
        for tell in others:
            draft.sections.update(tell())
        if others and not batch.parts:
            return Applied(self._commit(draft, batch))
        world = ledger.world(ledger.epoch + 1)
        affected = ledger.catalog.affected_by(part.table for part in batch.parts)
        programs = [view.name for view in affected if not view.compiled.reevaluated]
        left = rows_left(batch, programs, ledger.catalog, ledger.table_sizes())
        way = choose(self._options.refresh, self._costs, counted(batch), left)
        self._unsplit.ready(world.catalog, world.ids, programs, self._look)
        most = self._options.whole_bytes
        chosen = chosen_for(world, batch, bool(programs) and way == INCREMENTAL, most)
        started = time.perf_counter()
        try:
            controls = self._run(draft, world, batch, chosen)
        except Again as why:
            _log.warning("a batch is run in stages after all: %s", why)
            chosen = chosen_for(world, batch, True, None)
            controls = self._run(draft, world, batch, chosen)
        spent = time.perf_counter() - started
        changed = sum(h["rows"] for h, _ in controls if h["unit"].startswith("base/"))
        if programs and way == INCREMENTAL:
            self._costs.followed(programs, changed, spent)
        else:
            self._costs.stored(changed, spent)
            for name in programs:
                controls += self._fill(draft, world, name, "refill", left[name])
        for view in affected:
            if view.compiled.reevaluated:
                self._reevaluate(draft, world, view.name, "replace")
        self._check_values(draft, world, programs, controls)
        epoch = self._commit(draft, batch)
        said = ("rows", "ms", "how", "arrived", "statements")
        notes: dict[str, Any] = {h["unit"]: {k: h[k] for k in said if k in h} for h, _ in controls}
        notes.update({"form": chosen.form or "rows", "stages": chosen.stages, "refresh": way})
        rows = sum(header["rows"] for header, _ in controls if header["unit"].startswith("base/"))
        return Applied(epoch, rows=rows, notes=notes)

    def _check_values(self, draft: Draft, world: World, views: Sequence[str], controls: Controls) -> None:
        """Refuse a batch, or a new view, with values outside their types that maps do not see."""
        came = [reach_of(header) for header, _ in controls]
        for name in self._unsplit.asked(views, came):
            source = partial(self._temp_view, draft=draft, world=world)
            try:
                with translated():
                    rows = self._spark.sql(plan_sql(world.catalog.views[name].compiled.plan, source))
                    rows.write.format("noop").mode("overwrite").save()
            except EverfreshError as error:
                raise error.at(f"view '{name}'") from error

    def _look(self, schema: TableSchema, places: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
        """How far the columns of a table reach, by its rows of the last epoch."""
        found = self._frame(self._spark, schema.name, None).selectExpr(*look_sql(schema, places))
        return looked(found.collect()[0], schema, places)

    def _run(self, draft: Draft, world: World, batch: Batch, chosen: Chosen) -> Controls:
        """Run the job of a batch, and the driver's part of it; what was done goes into the draft."""
        specs, pieces = handed_out(world, batch, chosen)
        job = self._job("batch", draft, world, parts=tuple(specs), pieces=pieces, form=chosen.form)
        answers = self._runner.run(job, chosen.kind, frames_of(batch))
        controls = [*answers.controls, *gathered(job, answers.gathered)]
        draft.add(controls)
        return controls

    def _units(self, name: str, catalog: Catalog) -> tuple[str, ...]:
        """The units that hold a table or view."""
        home = "base" if name in catalog.tables else home_of(catalog, name)
        return (DRIVER,) if home == DRIVER_HOME else tuple(f"{home}/{w}" for w in range(self._workers))

    # -- reading -----------------------------------------------------------------------------------

    def _frame(
        self,
        session: SparkSession,
        name: str,
        at: int | None,
        draft: Draft | None = None,
        world: World | None = None,
    ) -> DataFrame:
        """A DataFrame over the units at the current epoch, or at a draft's versions, fixed now."""
        ledger = self._ledger
        world = world or ledger.world(ledger.epoch)
        found = world.catalog.relation(name)
        assert found is not None
        known = draft.bases if draft is not None else ledger.bases
        bases = tuple(known[unit] for unit in self._units(name, world.catalog))
        schema = spark_schema(found[1])
        if bases[0].unit == DRIVER:
            rows = pack_table(rows_of(world, bases[0], name, at))
            return session.range(0, 1, 1, 1).mapInArrow(partial(given_block, rows, _READ_CHUNK), schema)
        read = partial(read_block, world.left(), bases, name, at, _READ_CHUNK)
        return session.range(0, self._workers, 1, self._workers).mapInArrow(read, schema)

    def to_spark(self, name: str, at: int | None = None) -> DataFrame:
        """A DataFrame over a table or view that reads the units where they are."""
        self._check_at(name, at)
        return self._frame(self._user, name, at)

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of a table or view, collected; those of a view on the driver are there."""
        self._check_at(name, at)
        ledger = self._ledger
        found = ledger.catalog.relation(name)
        assert found is not None
        if self._units(name, ledger.catalog) == (DRIVER,):
            rows = rows_of(ledger.world(ledger.epoch), ledger.bases[DRIVER], name, at)
            return rows.cast(arrow_schema(found[1]))
        return SparkResult(self._frame(self._spark, name, at), found[1]).fetch()

    def _check_at(self, name: str, at: int | None) -> None:
        if at is None:
            return
        if name in self._ledger.catalog.tables:
            raise EverfreshError(
                Code.UNSUPPORTED, f"'{name}' is a table: earlier epochs are kept for views only"
            )
        check_epoch(name, at, max(self.oldest, self._ledger.created(name)), self.epoch)

    def changes(self, view: str, since: int | None) -> pa.Table:
        """The view's change of each epoch after `since`, from the segments of its units."""
        since = self.oldest if since is None else since
        check_epoch(view, since, self.oldest, self.epoch)
        ledger = self._ledger
        world, created, section = (
            ledger.world(ledger.epoch),
            ledger.created(view),
            f"changes/{ledger.ids[view]}",
        )
        parts: list[tuple[int, pa.Table]] = []
        if since < created:
            rows = self.read(view, created)
            parts.append((created, rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64)))))
        for unit in self._units(view, ledger.catalog):
            base = ledger.bases[unit]
            for link in base.since(max(since, created)):
                sealed = read_segment(world, base.unit, link)
                if section in sealed.sections:
                    parts.append((link.epoch, unpack_table(sealed.sections[section])))
        parts.sort(key=lambda item: item[0])
        schema = weighted_schema(ledger.catalog.views[view].columns).append(
            pa.field(EPOCH, pa.int64(), nullable=False)
        )
        tables = [
            t.append_column(EPOCH, pa.array(np.full(t.num_rows, e, np.int64))).cast(schema) for e, t in parts
        ]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def select(self, plan: p.Plan, bound: Any = None) -> SparkResult:
        """An ad hoc query, by Spark SQL over the units."""
        return SparkResult(self._spark.sql(plan_sql(plan, self._temp_view)), plan.columns)

    def _temp_view(self, name: str, draft: Draft | None = None, world: World | None = None) -> str:
        return self._named(self._frame(self._spark, name, None, draft, world))

    def _named(self, frame: DataFrame) -> str:
        alias = f"everfresh_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(alias)
        return alias

    def matching(
        self, table: str, where: Expr | None, assign: Sequence[tuple[str, Expr]] = ()
    ) -> tuple[Any, Any]:
        """The rows that satisfy `where`, and the same rows with `assign` applied, both as DataFrames."""
        schema = self._ledger.catalog.tables[table]
        scan: p.Plan = p.Scan(table, table, tuple(Var(c.name, c.type, c.nullable) for c in schema.columns))
        rows = p.Filter(scan, where) if where is not None else scan
        new = dict(assign)
        changed = p.Project(rows, tuple((v.name, new.get(v.name, v)) for v in scan.variables))
        names = tuple((name, name) for name in schema.names)
        alias = self._temp_view(table)
        return tuple(
            SparkRows(self._spark.sql(plan_sql(plan, lambda _: alias)), names) for plan in (rows, changed)
        )  # type: ignore[return-value]

    def verify(self, view: str) -> pa.Table:
        """The differences of a view from Spark SQL's recomputation over the base tables."""
        columns = self._ledger.catalog.views[view].columns
        with translated():
            return differences(self._recomputed(view), self._frame(self._spark, view, None), columns)

    def _recomputed(self, view: str) -> DataFrame:
        """A view from the base tables alone: no map is read, not even of the views it reads."""
        catalog = self._ledger.catalog

        def source(name: str) -> str:
            return self._temp_view(name) if name in catalog.tables else self._named(self._recomputed(name))

        return self._spark.sql(plan_sql(catalog.views[view].compiled.plan, source))

    @property
    def programs(self) -> Catalog:
        """The catalog as programs see it."""
        return over_tables(self._ledger.catalog)

    @property
    def placement(self) -> Placement:
        """Where tables and maps are."""
        catalog = self._ledger.catalog
        anew = [v.compiled.map for v in catalog.views.values() if v.compiled.reevaluated]
        maps = {m.name: Dist(tuple(v.name for v in m.keys)) for m in anew}
        known = placement_of(catalog)
        return Placement(known.tables, {**maps, **known.maps})

    def explain(self, view: str) -> dict[str, Any]:
        """What this engine adds to a view's explanation."""
        catalog = self._ledger.catalog
        compiled = catalog.views[view].compiled
        known: dict[str, Any] = {
            "place": str(self.placement.maps[compiled.map.name]),
            "workers": self._workers,
        }
        through = [base for base in compiled.bases if base in catalog.views]
        if through and not compiled.reevaluated:
            known["reads"] = f"the tables below {', '.join(through)}"
        if not compiled.reevaluated:
            changed = frozenset(tables_of(catalog, view)) - catalog.static
            alone = incremental(catalog, view)
            stages = batch_program(alone, changed).stages
            one = stages == 1 or whole_program(alone, changed) is not None
            known["stages per batch"] = (
                f"1 if every task may read it (up to {self._options.whole_bytes:,} bytes of full rows), "
                f"else {stages}"
                if one and stages > 1
                else str(stages)
            ) + ", one more for a DataFrame"
        missing = sessions.missing_settings(self._user)
        if missing:
            known["settings that would help"] = ", ".join(f"{k}={v}" for k, v in missing.items())
        return known

    def statistics(self) -> dict[str, Any]:
        """Versions and log sizes, for people."""
        ledger = self._ledger
        return {
            "epoch": ledger.epoch,
            "workers": self._workers,
            "snapshot": ledger.snapshot_epoch,
            "log bytes since": ledger.log_bytes,
            "streams": dict(ledger.sources),
            "tables": {n: {"rows": rows} for n, rows in ledger.table_sizes().items()},
            "views": {n: {} for n in ledger.catalog.views},
            "last batch": self._runner.observer.last(),
        }

    def close(self) -> None:
        """Release the folder, once a snapshot that is under way has ended; a session that was started here is
        stopped."""
        try:
            self.compaction.wait()
        finally:
            self._folder.close()
            if not self._released:
                self._released = True
                sessions.disown(self._spark)
                if not self._given:
                    sessions.release()
            self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def spark_schema(columns: Sequence[Column]) -> str:
    """The Spark schema of rows with these columns, as text: a client of Connect parses no types itself."""
    return ", ".join(f"{quoted(c.name)} {spark_type(c.type)}" for c in columns)


@dataclass(frozen=True, slots=True)
class SparkResult:
    """A DataFrame that answers a query, and the columns it has."""

    frame: DataFrame
    columns: tuple[Column, ...]

    def fetch(self) -> pa.Table:
        """The rows, with exactly the Arrow types of the columns."""
        with translated():
            table = self.frame.toArrow()
        for index, column in enumerate(self.columns):
            if (
                column.type == INTERVAL
            ):  # travels as a struct: Spark's own intervals do not mix months and days
                parts = [
                    None if v is None else (v["months"], v["days"], v["us"] * 1000)
                    for v in table[index].to_pylist()
                ]
                table = table.set_column(index, column.name, pa.array(parts, pa.month_day_nano_interval()))
        return table.cast(arrow_schema(self.columns))
