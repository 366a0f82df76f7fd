"""The Spark engine: tables and maps in the workers' units, one job per batch.

The driver plans, commits and keeps small results (`everfresh.spark.jobs.driver_unit`); rows and maps stay
with the partitions (`everfresh.spark.state.chain`). A batch is one job: of one stage if every task may read
all of it, else of as many as its program has (`everfresh.spark.jobs.programs`). Rows that Spark has to
compute, in a DataFrame that is no scan of files, take one more stage in front (`everfresh.spark.input.given`;
where the DataFrame's session has adaptive execution on, Spark makes a job of each). The job's tasks change
only their own caches and write files that nobody names; the epoch exists once the driver has created its
commit record.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.compiler import Catalog, Effect, ViewDef
from everfresh.delta import SparkRows
from everfresh.delta.bags import WEIGHT, split
from everfresh.distributed import Placement
from everfresh.distributed.plan.programs import tables_of
from everfresh.epochs import Domain, Objects, Published, RowChange
from everfresh.epochs.domain import not_later
from everfresh.epochs.history import with_epochs
from everfresh.epochs.layers import rows_that_came
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Const, Expr
from everfresh.expr.build import cast
from everfresh.local.store.map_store import weighted_schema
from everfresh.options import Options
from everfresh.program import Applied, Batch, Part, Progress, check_epoch, one_by_one
from everfresh.spark.adaptive import INCREMENTAL, Costs, choose, counted, rows_left
from everfresh.spark.beside import given_files_on, given_on
from everfresh.spark.explaining import analyzed, explained, placed
from everfresh.spark.frames import Frames, SparkResult
from everfresh.spark.host import Host
from everfresh.spark.input.given import Chosen, chosen_for, frames_of, handed_out, read_given, takes_one_stage
from everfresh.spark.input.laying import LAID_OPS, removed
from everfresh.spark.input.routing import lay, routed
from everfresh.spark.jobs.driver_unit import gathered
from everfresh.spark.jobs.job import EXCHANGE, LOAD, PartSpec, World
from everfresh.spark.jobs.load import filled
from everfresh.spark.jobs.programs import (
    executed,
    over_tables,
)
from everfresh.spark.jobs.row_tasks import change_block
from everfresh.spark.jobs.runner import Again, Controls, Runner
from everfresh.spark.jobs.table_plans import BY_STAGES, ROWS_ONLY, VIEW_CHANGE
from everfresh.spark.overflow import UnsplitOnSpark, look_sql, looked, reach_of
from everfresh.spark.session import sessions
from everfresh.spark.session.failures import translated
from everfresh.spark.sql.forms import shown_frame
from everfresh.spark.sql.text import expr_sql, plan_sql
from everfresh.spark.sql.text import name as quoted
from everfresh.spark.sql.verify import differences, net_change
from everfresh.spark.state.compaction import Compaction
from everfresh.spark.state.ledger import Draft, Ledger
from everfresh.sql.logical import plan as p
from everfresh.state import StateFolder, told
from everfresh.state.backup import back_up
from everfresh.state.interrupts import HeldBack
from everfresh.types import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READ_CHUNK = 1 << 16
_log = logging.getLogger("everfresh")


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
                self._runner = Runner(self._spark, self._folder, options)
                for domain in domains:
                    domain.attach(
                        Host(
                            self._spark, self._folder, options, read_only, self._runner, lambda: self._ledger
                        )
                    )
                self._ledger = Ledger(self._folder, options, domains)
                if not read_only:
                    self._ledger.collect(new_term=True)
            except BaseException:
                self._folder.close()
                raise
        except BaseException:
            self._remove_temporary()
            raise
        self._workers = self._folder.workers
        self._frames = Frames(self._spark, self._ledger)
        self.given, self.given_files = given_on(self._spark), given_files_on(self._spark, options)
        self.compaction = Compaction(self._spark, self._ledger, self._runner, options)
        self._released = False
        self._costs = Costs()
        self._large: set[str] = set()
        self._unsplit = UnsplitOnSpark()
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
    def objects(self) -> Objects:
        """The objects of other domains."""
        return self._ledger.objects

    @property
    def sources(self) -> Mapping[str, int]:
        """The last batch of each stream."""
        return self._ledger.timeline.sources

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

    @property
    def behind(self) -> bool:
        """Whether `refresh` may have something to do."""
        return not self._ledger.whole or self._read_only

    def refresh(self) -> None:
        """Be whole; readers: follow the commit records."""
        self._ledger.refresh()

    # -- epochs ------------------------------------------------------------------------------------

    def _commit(
        self, draft: Draft, batch: Batch | None = None, *, made: tuple[Catalog, Effect] | None = None
    ) -> int:
        if batch is not None:
            draft.keys, draft.sources = tuple(batch.keys), batch.sources
        if made is not None:
            draft.ddl = (made[1].text,)
        with HeldBack():
            epoch = self._ledger.commit(draft, made)
        self.compaction.committed()
        return epoch

    def _reevaluate(self, draft: Draft, world: World, view: str, kind: str) -> None:
        """Bring a view to its plan's rows over the draft's tables and views, by the difference from the
        rows it has."""
        compiled = world.catalog.views[view].compiled
        source = partial(self._frames.view, draft=draft, world=world)
        new = self._spark.sql(plan_sql(compiled.plan, source))
        change = net_change(new, self._frames.frame(view, None, draft, world), compiled.view.columns)
        change_rows = change.mapInArrow(partial(change_block, world.left(), view), EXCHANGE)
        with translated():
            done = self._runner.run(draft.job(kind, world, view=view), VIEW_CHANGE, change_rows)
            draft.add(done.controls)

    def execute(self, statement: Any, progress: Progress | None = None) -> int:
        """Run one DDL statement."""
        with told("the statement was not run"):
            return self._execute(statement, progress)

    def _execute(self, statement: Any, progress: Progress | None) -> int:
        ledger = self._ledger
        made = _, effect = executed(ledger.catalog, statement, ledger.table_sizes(), progress)
        if effect.create_table is not None and not effect.create_table.retained:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "the Spark engine keeps the rows of every table: there is no retain = false",
                hint="leave the option out, or connect with engine='local'",
            )
        if effect.nothing:
            return ledger.epoch
        beside = self.objects.beside(effect, ledger.catalog, cascade=effect.cascade)
        draft = Draft(ledger)
        rows: SparkRows | None = None
        if effect.create_table is not None and statement.plan is not None:
            names = effect.create_table.names
            rows = SparkRows(
                self.select(statement.plan).frame.toDF(*names), tuple(zip(names, names, strict=True))
            )
        try:
            with draft.steps:
                draft.steps.execute(beside)
                return self._altered(draft, made, progress, rows)
        except EverfreshError:
            raise
        except BaseException:
            self.objects.forsake()
            raise

    def _altered(
        self,
        draft: Draft,
        made: tuple[Catalog, Effect],
        progress: Progress | None,
        rows_of_table: SparkRows | None = None,
    ) -> int:
        ledger, (catalog, effect) = self._ledger, made
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
        elif effect.create_table is not None and rows_of_table is not None:
            self._runner.observer.batch()
            world = ledger.world(draft.epoch, catalog, ledger.ids_after(effect, draft.epoch))
            self._lay_rows(draft, world, effect.create_table, rows_of_table, "CREATE TABLE")
        elif effect.redeclare is not None and effect.columns_renamed:
            old, new = effect.redeclare
            if new.key:
                self._runner.observer.batch()
                draft.add(self._runner.run(draft.job("alter", alter=(old, new, None)), ROWS_ONLY).controls)
        elif effect.alter_table is not None:
            self._runner.observer.batch()
            if effect.alter_table[1].key:
                job = draft.job("alter", alter=effect.alter_table)
                draft.add(self._runner.run(job, ROWS_ONLY).controls)
            else:
                world = ledger.world(draft.epoch, catalog, ledger.ids_after(effect, draft.epoch))
                self._move_rows(draft, world, *effect.alter_table)
        return self._commit(draft, made=made)

    def _fill(self, draft: Draft, world: World, view: str, kind: str, rows: int) -> Controls:
        """Fill a view that runs as a program, new or anew, from the rows of its tables."""
        started = time.perf_counter()
        program = world.program(LOAD, frozenset((view,)))
        assert program is not None
        job = draft.job(kind, world, view=view, form=LOAD)
        answers = self._runner.run(job, BY_STAGES[program.stages - 1])
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
        frame = self._frames.frame(old.name)
        columns = [
            quoted(c.name)
            if c.name in old.names
            else f"{expr_sql(cast(default or Const(None, c.type), c.type))} AS {quoted(c.name)}"
            for c in new.columns
        ]
        moved = shown_frame(frame.selectExpr(*columns), new.columns)
        rows = SparkRows(moved, tuple((name, name) for name in new.given))
        self._lay_rows(draft, world, new, rows, "ALTER TABLE")

    def _lay_rows(self, draft: Draft, world: World, new: TableSchema, rows: SparkRows, what: str) -> None:
        """Fill a table that nothing reads yet."""
        spec = PartSpec(new.name, "insert", f"{what} {new.name}", (), exchanged=True)
        job = draft.job("batch", world, parts=(spec,))
        draft.add(self._runner.run(job, ROWS_ONLY, routed(job.world, {0: rows}, job.parts)).controls)

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
        return self._ledger.timeline.keys.get(key)

    def apply(self, batch: Batch) -> Applied:
        """Apply a batch atomically."""
        with told("the batch was not applied"):
            return self._apply_steps(batch)

    def _apply_steps(self, batch: Batch) -> Applied:
        if not (batch.changes or batch.statements or self.objects.read):
            return self._apply_laid(batch)
        self._ledger.whole = False  # until the domains' steps are made, or taken back
        try:
            applied = self._apply_laid(batch)
        except EverfreshError:
            self._ledger.whole = True
            raise
        except BaseException:
            self.objects.forsake()
            raise
        return applied

    def _apply_laid(self, batch: Batch) -> Applied:
        with ExitStack() as stack:
            self._runner.observer.batch()
            batch = self._laid(batch, stack)
            draft = Draft(self._ledger)
            stack.enter_context(draft.steps)
            return self._runner.observer.told(self._apply(batch, draft))

    def _published(self, draft: Draft, batch: Batch, affected: Sequence[ViewDef]) -> dict[str, Published]:
        """What objects of other domains see of the changes of tables and views."""
        known = [*dict.fromkeys(part.table for part in batch.parts), *(view.name for view in affected)]
        wanted = self.objects.read if known else frozenset()
        return {
            name: RowChange(partial(self._frames.change_in, draft, name)) for name in known if name in wanted
        }

    def _following(self, followed: Mapping[str, Published]) -> tuple[Part, ...]:
        """What the changes of objects are to the tables that follow them."""
        parts: list[Part] = []
        for name, change in followed.items():
            found = self.objects.find(name)
            assert found is not None
            read = self.objects.domains[found.domain].read
            came = rows_that_came(change, partial(read, name), partial(self._frames.rows, name))
            rows, weights = split(came)
            schema, counts = self.catalog.tables[name].arrow, weights.to_numpy()
            rows = rows.select(schema.names).cast(schema)
            for op, some in (("delete", np.maximum(-counts, 0)), ("insert", np.maximum(counts, 0))):
                if some.any():
                    taken = rows.take(np.repeat(np.arange(len(counts)), some))
                    parts.append(Part(name, op, taken, f"{found.kind} '{name}'"))  # type: ignore[arg-type]
        return tuple(parts)

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
        found = lay(self._runner, world.left(), frames, specs, limit)
        for rows in found.values():
            stack.callback(removed, world, rows)
        large = {batch.parts[i].table for i, rows in found.items() if rows.size > limit}
        self._large |= large
        if large:
            return batch
        parts = tuple(replace(p, rows=found[i]) if i in found else p for i, p in enumerate(batch.parts))
        return replace(batch, parts=parts)

    def _apply(self, batch: Batch, draft: Draft) -> Applied:
        done: Applied | None = None

        def tables(followed: Mapping[str, Published]) -> Mapping[str, Published]:
            nonlocal done
            own = batch.parts if done is None else ()
            whole = replace(batch, parts=(*own, *self._following(followed)))
            if not whole.parts and (done is not None or batch.changes or batch.statements):
                return {}
            applied, published = self._apply_tables(whole, draft)
            done = done or applied
            return published

        draft.steps.execute(batch.statements)
        draft.steps.run(batch.changes, tables, self._ledger.catalog)
        return replace(done or Applied(0), epoch=self._commit(draft, batch))

    def _apply_tables(self, batch: Batch, draft: Draft) -> tuple[Applied, Mapping[str, Published]]:
        """Step tables and SQL views; what was done, but for the epoch, and what has changed."""
        ledger = self._ledger
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
        said = ("rows", "ms", "how", "arrived", "statements")
        notes: dict[str, Any] = {h["unit"]: {k: h[k] for k in said if k in h} for h, _ in controls}
        notes.update({"form": chosen.form or "rows", "stages": chosen.stages, "refresh": way})
        rows = sum(header["rows"] for header, _ in controls if header["unit"].startswith("base/"))
        return Applied(draft.epoch, rows=rows, notes=notes), self._published(draft, batch, affected)

    def _check_values(self, draft: Draft, world: World, views: Sequence[str], controls: Controls) -> None:
        """Refuse a batch, or a new view, with values outside their types that maps do not see."""
        came = [reach_of(header) for header, _ in controls]
        for name in self._unsplit.asked(views, came):
            source = partial(self._frames.view, draft=draft, world=world)
            try:
                with translated():
                    rows = self._spark.sql(plan_sql(world.catalog.views[name].compiled.plan, source))
                    rows.write.format("noop").mode("overwrite").save()
            except EverfreshError as error:
                raise error.at(f"view '{name}'") from error

    def _look(self, schema: TableSchema, places: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
        """How far the columns of a table reach, by its rows of the last epoch."""
        found = self._frames.frame(schema.name).selectExpr(*look_sql(schema, places))
        return looked(found.collect()[0], schema, places)

    def _run(self, draft: Draft, world: World, batch: Batch, chosen: Chosen) -> Controls:
        """Run the job of a batch, and the driver's part of it; what was done goes into the draft."""
        specs, pieces = handed_out(world, batch, chosen)
        published = tuple(sorted(self.objects.read & {part.table for part in batch.parts}))
        how = {"pieces": pieces, "form": chosen.form, "published": published}
        job = draft.job("batch", world, parts=tuple(specs), **how)
        answers = self._runner.run(job, chosen.plan, routed(job.world, frames_of(batch), specs))
        controls = [*answers.controls, *gathered(job, answers.gathered)]
        draft.add(controls)
        return controls

    # -- reading -----------------------------------------------------------------------------------

    def to_spark(self, name: str, at: int | None = None) -> DataFrame:
        """A DataFrame over a table or view that reads the units where they are."""
        domain = self.objects.domain_of(name)
        if domain is not None:
            frame = domain.frame(name, not_later(name, at, self.epoch), self._user)
            return frame if frame is not None else self._user.createDataFrame(self.read(name, at))
        self._check_at(name, at)
        found = self._ledger.catalog.relation(name)
        assert found is not None
        return shown_frame(self._frames.frame(name, at, session=self._user), found[1])

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of a table or view, collected; those of a view on the driver are there."""
        domain = self.objects.domain_of(name)
        if domain is not None:
            return domain.read(name, not_later(name, at, self.epoch))
        self._check_at(name, at)
        return self._frames.rows(name, at)

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
        domain = self.objects.domain_of(view)
        if domain is not None:
            return domain.changes(view, not_later(view, since, self.epoch))
        since = self.oldest if since is None else since
        check_epoch(view, since, self.oldest, self.epoch)
        created = self._ledger.created(view)
        parts = self._frames.changes_in(self._ledger.bases, view, max(since, created))
        if since < created:
            rows = self.read(view, created)
            parts.append((created, rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64)))))
        parts.sort(key=lambda item: item[0])
        return with_epochs(parts, weighted_schema(self.catalog.views[view].columns))

    def select(self, plan: p.Plan, bound: Any = None) -> SparkResult:
        """An ad hoc query, by Spark SQL over the units."""
        return self._frames.select(plan)

    def matching(
        self, table: str, where: Expr | None, assign: Sequence[tuple[str, Expr]] = ()
    ) -> tuple[Any, Any]:
        """The rows that satisfy `where`, and the same rows with `assign` applied, both as DataFrames."""
        return self._frames.matching(table, where, assign)

    def verify(self, view: str) -> pa.Table:
        """The differences of a view from Spark SQL's recomputation over the base tables."""
        domain = self.objects.domain_of(view)
        if domain is not None:
            return domain.verify(view)
        columns = self._ledger.catalog.views[view].columns
        with translated():
            return differences(self._frames.recomputed(view), self._frames.frame(view), columns)

    @property
    def programs(self) -> Catalog:
        """The catalog as programs see it."""
        return over_tables(self._ledger.catalog)

    @property
    def placement(self) -> Placement:
        """Where tables and maps are."""
        return placed(self.catalog)

    def entries(self, view: str) -> None:
        """Not known to the driver."""

    def explain(self, view: str) -> dict[str, Any]:
        """What this engine adds to a view's explanation."""
        missing = sessions.missing_settings(self._user)
        return explained(self.catalog, view, self._workers, self._options) | (
            {"settings that would help": ", ".join(f"{k}={v}" for k, v in missing.items())} if missing else {}
        )

    def statistics(self) -> dict[str, Any]:
        """Versions and log sizes, for people."""
        ledger = self._ledger
        found = {
            "epoch": ledger.epoch,
            "workers": self._workers,
            "snapshot": ledger.timeline.snapshot_epoch,
            "log bytes since": ledger.timeline.log_bytes,
            "streams": dict(ledger.timeline.sources),
            "tables": {n: {"rows": rows} for n, rows in ledger.table_sizes().items()},
            "views": {n: {} for n in ledger.catalog.views},
            "last batch": self._runner.observer.last(),
        }
        found.update((d.name, some) for d in self.objects.domains.values() if (some := d.statistics()))
        return found

    def analyzed(self, view: str) -> str:
        """What the stages of the last batches have cost; all views are maintained by the same ones."""
        return analyzed(self.catalog.expect_view(view).name, self._runner.observer)

    def backup(self, target: str | Path) -> int:
        """Copy the folder, beside the jobs that write it."""
        ledger, fault = self._ledger, self._options.fault
        return back_up(self._folder, target, lambda: ledger.epoch, ledger.nothing_removed, fault)

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
