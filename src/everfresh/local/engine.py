"""The in-process engine: tables and maps in pools, one atomic batch at a time, durable in a folder when one
is given.

A batch is resolved, every statement is evaluated against the state before it, then tables and maps are
changed, the views' own changes are published, the commit record is written, and only then is the epoch
visible. A failure at any of these points undoes the pools. Recovery loads the newest snapshot and runs the
net changes of later commit records through the same code.

Whatever touches the state runs in a section (`sections`). After an exception that nobody foresaw it is made
anew: from the folder, or without one from the tables and maps, if none of them was being changed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.compiler import Catalog, Effect
from everfresh.delta.bags import WEIGHT, split
from everfresh.delta.given import given
from everfresh.delta.given_files import given_files
from everfresh.epochs import (
    Domain,
    EpochSteps,
    Making,
    Objects,
    Published,
    RowChange,
    SnapshotPolicy,
    Timeline,
)
from everfresh.epochs.domain import not_later, sections_of, sql_entries
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Expr, Vector, evaluate_vector, satisfied
from everfresh.local.committed import Committed
from everfresh.local.draft import Draft
from everfresh.local.followed import check_followed, nets_of
from everfresh.local.input.arrivals import Arrivals
from everfresh.local.phases import Untimed, phases_of
from everfresh.local.relations.alike import Changes, merged
from everfresh.local.sizes import sizes
from everfresh.local.state import LocalState, Shaken
from everfresh.local.store.table import Net
from everfresh.local.workers import Workers, cores
from everfresh.local.writing import Writes
from everfresh.options import Options
from everfresh.program import Applied, Batch, Part, Progress
from everfresh.sql.constraints import filled
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.plan import scans
from everfresh.state import Commit, StateFolder, told, unpack_table
from everfresh.types import TableSchema

_AT_ONCE = 1 << 20  # words among which strings in use are counted while somebody waits


class LocalEngine(Writes):
    """Tables and views in this process. See `everfresh.program.Engine`."""

    name = "local"
    concurrent = True
    session = None

    def __init__(
        self,
        path: str | Path | None,
        options: Options,
        *,
        read_only: bool = False,
        domains: Sequence[Domain] = (),
    ) -> None:
        self._options = options
        self.objects = Objects(domains)
        self._read_only = read_only
        self._phases: Untimed = phases_of(options.timing)
        self._folder = (
            StateFolder.open(path, engine=self.name, workers=1, options=options, read_only=read_only)
            if path is not None
            else None
        )
        self._workers = Workers(options.threads or cores())
        self._arrivals = Arrivals()
        super().__init__()
        self._timeline = Timeline()
        self._snapshots = SnapshotPolicy(options)
        self._altered: dict[int, tuple[Catalog, Effect]] = {}
        """What DDL since the last snapshot has made, by its epoch: compiled views are not compiled again."""
        self._reset()
        if self._folder is not None:
            try:
                self._recover()
            except BaseException:
                self._folder.close()
                raise

    def _reset(self) -> None:
        self._state = LocalState(self._phases, self._options.compile)
        for domain in self.objects.domains.values():
            domain.load({}, 0)
        self._state.workers = self._workers
        self._shown = Committed(self._state, self._options)
        self._timeline.begin()
        self._watched: frozenset[str] = frozenset()
        """The tables and views that objects of other domains read."""

    def _forsake(self) -> None:
        self.objects.forsake()

    def _anew(self) -> None:
        """Read the state again from the folder; without one, make anew what can be."""
        if self._folder is not None:
            before = self._shown.catalog
            self._folder.commits.reopen()
            self._reset()
            self._load_snapshot(before)
            self._follow(self._folder.commits.last())
        elif self._state.lost or not all(domain.whole for domain in self.objects.domains.values()):
            raise EverfreshError(
                Code.INTERRUPTED,
                "an exception struck in the middle of a change, and there is no folder to read it again from",
                hint="make the database again; one with a path is read again by itself",
            )
        else:
            self._shown.restore(self._state)
            self._state.mend()

    @property
    def epoch(self) -> int:
        """The last epoch this handle has seen."""
        return (self._whole() if self._marked else self._shown).epoch

    @property
    def oldest(self) -> int:
        """The earliest epoch that reads reach."""
        return self._look(Committed.reaches)

    @property
    def catalog(self) -> Catalog:
        """Tables and views as of `epoch`."""
        return (self._whole() if self._marked else self._shown).catalog

    @property
    def sources(self) -> Mapping[str, int]:
        """The last batch of each stream."""
        self._whole()
        return self._timeline.sources

    @property
    def folder(self) -> StateFolder | None:
        """The folder, if there is one."""
        return self._folder

    @property
    def options(self) -> Options:
        """What the database was opened with."""
        return self._options

    # -- DDL ---------------------------------------------------------------------------------------

    def execute(self, statement: Any, progress: Progress | None = None) -> int:
        """Run one DDL statement."""
        catalog, effect = self.catalog.execute(statement, self._state.sizes(), progress=progress)
        if effect.nothing:
            return self.epoch
        beside = self.objects.beside(effect, self.catalog, cascade=effect.cascade)
        rows: pa.Table | None = None
        if effect.create_table is not None and statement.plan is not None:
            rows = self.select(statement.plan).cast(effect.create_table.arrow)
        return self._change(self._alter, catalog, effect, progress, beside, rows)

    def _alter(
        self,
        catalog: Catalog,
        effect: Effect,
        progress: Progress | None,
        beside: Mapping[str, Sequence[Any]],
        rows: pa.Table | None,
    ) -> int:
        """Run a DDL statement; a table that is created may have `rows` at once."""
        self._state.check()
        epoch = self._shown.epoch + 1
        with ExitStack() as stack:
            steps = stack.enter_context(EpochSteps(self.objects, Making(epoch)))
            steps.execute(beside)
            stack.enter_context(self._state.altering())
            self._state.execute(catalog, effect, epoch, progress)
            if effect.create_view is not None:
                self._state.check_values({}, effect.create_view.name)
            draft = Draft(epoch, ddl=(effect.text,), steps=steps)
            if effect.create_table is not None and rows is not None and rows.num_rows:
                name = effect.create_table.name
                nets = self._state.resolve({name: [Part(name, "insert", rows, f"CREATE TABLE {name}")]})
                draft.deltas = {name: rows}
                draft.changes = stack.enter_context(self._state.changing(nets))
                self._commit([draft])  # shown when the block ends
            else:
                self._commit([draft])
                self._state.finish()
        self._altered[epoch] = catalog, effect
        self._state.reclaim()
        if effect.create_view is not None:
            self._state.ahead(effect.create_view.name)
        self._maybe_snapshot()
        return epoch

    # -- batches -----------------------------------------------------------------------------------

    def read_input(self, data: Any, schema: TableSchema, what: str, op: Any) -> pa.Table:
        """Rows of any kind as an Arrow table of a table's schema."""
        rows = self._arrivals.read(data, schema, what, op)
        return filled(schema, rows) if schema.generated and op != "update" else rows

    def committed(self, key: str) -> int | None:
        """The epoch that a batch with this key committed, if one did."""
        if self._marked:
            self._whole()
        return self._timeline.keys.get(key)

    def apply(self, batch: Batch) -> Applied:
        """Apply a batch atomically."""
        (result,) = self.apply_all([batch])
        if isinstance(result, Exception):
            raise result
        return result

    def apply_all(self, batches: Sequence[Batch]) -> list[Applied | Exception]:
        """Apply batches in order, each atomically; their records are written and synced together."""
        try:
            first = batches[0]
            if len(batches) == 1 and not (first.changes or first.statements or self._watched):
                return [self._change(self._alone, first)]
            return self._change(self._together, batches)
        finally:
            self._phases.stop()

    def _alone(self, batch: Batch) -> Applied | Exception:
        """One batch that changes tables only, as `_together` applies it: apart, since the stack of blocks and
        the lists that several need are 5 to 9 microseconds of the hundred that a row takes."""
        begun, epoch = False, self._shown.epoch + 1
        try:
            nets, deltas = self._resolved(batch)
            with self._state.changing(nets) as changes:
                begun = True
                draft = Draft(epoch, batch.keys, (), batch.sources, deltas=deltas, changes=changes)
                self._commit([draft])
        except EverfreshError as error:
            if begun:
                raise
            return error
        self._state.reclaim()
        self._maybe_snapshot()
        return Applied(epoch, sum([change.rows for change in nets.values()]))

    def _together(self, batches: Sequence[Batch]) -> list[Applied | Exception]:
        results: list[Applied | Exception] = []
        drafts: list[Draft] = []
        with ExitStack() as stack:
            for batch in batches:
                try:
                    draft, rows = self._begun(batch, self._shown.epoch + 1 + len(drafts), stack)
                except EverfreshError as error:
                    results.append(error)
                    continue
                drafts.append(draft)
                results.append(Applied(draft.epoch, rows=rows))
            if drafts:
                self._commit(drafts)
                self._state.at_work.append(drafts)  # until all of them are final
        if drafts:
            self._state.at_work.clear()
            self._state.reclaim()
            self._maybe_snapshot()
        return results

    def _resolved(self, batch: Batch) -> tuple[dict[str, Net], dict[str, pa.Table]]:
        """The net changes of tables, and as the log keeps them, if there is one."""
        self._phases.to("resolve")
        parts: dict[str, list[Part]] = {}
        for part in batch.parts:
            parts.setdefault(part.table, []).append(part)
        nets = self._state.resolve(parts)
        if self._folder is None:
            return nets, {}
        self._phases.to("commit")
        return nets, {name: self._delta(name, parts[name], nets[name]) for name in nets}

    def _begun(self, batch: Batch, epoch: int, stack: ExitStack) -> tuple[Draft, int]:
        """A batch that is done but for its record, and how many rows it changed; `stack` takes it back or
        makes it final."""
        nets, deltas = self._resolved(batch)
        every: list[Changes] = []
        known = dict(nets)
        with ExitStack() as own:
            steps = own.enter_context(EpochSteps(self.objects, Making(epoch, rows=self._state.rows)))

            def tables(followed: Mapping[str, Published]) -> Mapping[str, Published]:
                mine = nets_of(self._state, self.objects, followed)
                if self._folder is not None:
                    deltas.update({name: self._rows_of(name, net) for name, net in mine.items()})
                these = {**mine, **nets} if not every else mine
                known.update(mine)
                every.append(own.enter_context(self._state.changing(these)))
                return self._published(known, merged(every))

            steps.execute(batch.statements)
            steps.run(batch.changes, tables, self._state.catalog)
            stack.enter_context(own.pop_all())
        rows = sum(change.rows for change in nets.values())
        changes = merged(every)
        draft = Draft(epoch, batch.keys, (), batch.sources, deltas=deltas, changes=changes, steps=steps)
        return draft, rows

    def _published(self, nets: Mapping[str, Net], changes: Changes) -> dict[str, Published]:
        """What objects of other domains see of the changes of tables and views."""
        found: dict[str, Published] = {n: changes[n] for n in self._watched if n in changes}
        for name in self._watched.intersection(nets):
            found[name] = RowChange(partial(self._rows_of, name, nets[name]))
        return found

    def _rows_of(self, name: str, change: Net) -> pa.Table:
        """A change of a table, with `_weight`."""
        rows = self._state.tables[name].codec.decode(change.words)
        return rows.append_column(WEIGHT, pa.array(change.weights))

    def _delta(self, name: str, parts: Sequence[Part], change: Net) -> pa.Table:
        """A change of a table as the log keeps it: without `_weight` all rows are inserted once."""
        if all(part.op == "insert" for part in parts) and sum(p.rows.num_rows for p in parts) == len(change):
            return _joined(parts)
        return self._rows_of(name, change)

    # -- commit and recovery -----------------------------------------------------------------------

    def _commit(self, drafts: Sequence[Draft]) -> None:
        """Commit epochs that are done in memory: all of them, or none. They are shown when they are made
        final."""
        if self._folder is not None:
            records = self._timeline.write(self._folder.commits, [draft.sealed() for draft in drafts])
            self._state.final = partial(self._advance_all, drafts, records)
        else:
            self._state.final = partial(self._advance_all, drafts, ())

    def _advance_all(self, drafts: Sequence[Draft], records: Sequence[Commit]) -> None:
        for draft in drafts:
            self._shown.show(draft.epoch, self._state, draft.changes)
            if draft.steps is not None:
                draft.steps.commit()
                self._watched = self.objects.read
            if not records:
                self._timeline.pass_on(draft.epoch, draft.keys, draft.sources)
        for record in records:
            self._timeline.advance(record)

    @property
    def behind(self) -> bool:
        """Whether `refresh` may have something to do."""
        return self._marked or self._read_only

    def refresh(self) -> None:
        """Be whole; readers: replay what was committed since."""
        if self._marked:
            self._whole()
        if self._folder is not None and self._read_only:
            with told(f"{self._folder.root} cannot be read"):
                last = self._folder.commits.last()
                if self.epoch < last:
                    self._change(self._follow, last)

    def _recover(self) -> None:
        assert self._folder is not None
        if not self._read_only:
            self._folder.remove_garbage(new_term=True)
        self._load_snapshot()
        last = self._folder.commits.last()
        self._timeline.check_end(last, self._folder.root)
        self._follow(last)

    def _follow(self, last: int) -> None:
        """Replay records. A reader whose next record was trimmed, or withdrawn, starts again."""
        assert self._folder is not None
        may_restart = self._read_only

        def restart() -> bool:
            nonlocal may_restart
            if not may_restart:
                return False
            may_restart = False
            self._reset()
            self._load_snapshot()
            return True

        self._timeline.follow(self._folder.commits, last, self._replay, restart, self._folder.root)

    def _replay(self, commit: Commit) -> None:
        for text in sql_entries(commit.ddl):
            catalog, effect = self._altered.get(commit.epoch) or self._state.catalog.replay(text)
            self._state.execute(catalog, effect, commit.epoch)
        nets = {}
        for name, section in commit.sections.items():
            if name.startswith("delta/"):
                rows = unpack_table(section)
                table = self._state.tables[name.removeprefix("delta/")]
                weights = np.ones(rows.num_rows, np.int64)
                if rows.num_columns > len(table.schema.columns):
                    rows, column = split(rows)
                    weights = column.to_numpy()
                nets[table.schema.name] = table.net(rows, weights)
        self._state.upkeep.count(nets.values())
        with EpochSteps(self.objects, Making(commit.epoch)) as steps:
            with self._state.changing(nets, again=True) as changes:
                pass
            steps.again(commit.ddl, commit.sections)
            steps.commit()
        self._shown.show(commit.epoch, self._state, changes)
        self._timeline.advance(commit)
        self._watched = self.objects.read
        self._state.reclaim()

    def _maybe_snapshot(self) -> None:
        """Snapshot when replaying the log would cost more than loading one."""
        if self._folder is None or not self._snapshots.due(self._timeline):
            return
        try:
            self._snapshot()
            self._snapshots.succeeded()
        except Exception as error:  # the epoch is committed, and the log serves
            self._snapshots.failed(self._shown.epoch, error, (Shaken,))

    def snapshot(self) -> None:
        """Write everything up to the current epoch to one file, and forget the log before it."""
        with told(f"no snapshot could be taken of epoch {self.epoch}"):
            self._change(self._snapshot)

    def _snapshot(self) -> None:
        assert self._folder is not None
        epoch, timeline = self._shown.epoch, self._timeline
        sections = self._write(self._folder.snapshots)
        timeline.taken(epoch, timeline.log_bytes, sum(memoryview(data).nbytes for data in sections.values()))
        self._altered = {}
        self._folder.commits.rotate()
        self._folder.commits.trim(min(epoch + 1, epoch - self._options.history + 1))
        self._folder.snapshots.drop(epoch)

    def _load_snapshot(self, before: Catalog | None = None) -> None:
        """Take the newest snapshot; `before` may be its catalog, with views that are compiled."""
        assert self._folder is not None
        snapshot = self._folder.snapshots.latest()
        if snapshot is None:
            return
        ddl = [text for _, text in snapshot.meta["ddl"]]
        known = before if before is not None and [text for _, text in before.ddl] == ddl else None
        self._state = LocalState.from_sections(
            ddl, snapshot.meta["created"], snapshot.sections, self._phases, self._options.compile, known
        )
        for domain in self.objects.domains.values():
            domain.load(sections_of(domain.name, snapshot.sections), snapshot.epoch)
        self._watched = self.objects.read
        size = sum(memoryview(section).nbytes for section in snapshot.sections.values())
        self._timeline.load(snapshot.epoch, snapshot.meta, size)
        self._state.workers = self._workers
        self._shown = Committed(self._state, self._options, snapshot.epoch)
        self._shown.load(snapshot.sections)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of a table or view, now or at an earlier epoch."""
        domain = self.objects.domain_of(name)
        if domain is not None:
            return domain.read(name, not_later(name, at, self._whole().epoch))
        return self._look(Committed.read, name, at)

    def changes(self, view: str, since: int | None) -> pa.Table:
        """The view's change of each epoch after `since`; of all that are kept if that is None."""
        domain = self.objects.domain_of(view)
        if domain is not None:
            return domain.changes(view, not_later(view, since, self._whole().epoch))
        return self._look(Committed.changes, view, since)

    def select(self, plan: p.Plan, bound: Any = None) -> pa.Table:
        """The result of an ad hoc query."""
        named = {scan.table for scan in scans(plan)}
        others = {n: self._rows_for(n, plan) for n in named if self.objects.find(n)}
        return self._look(Committed.select, plan, bound, others)

    given, given_files = staticmethod(given), staticmethod(given_files)

    def _rows_for(self, name: str, plan: p.Plan) -> pa.Table:
        """The rows that a query needs of an object of another domain."""
        self._whole()
        domain = self.objects.domain_of(name)
        assert domain is not None
        return domain.rows_for(name, plan)

    def matching(
        self, table: str, where: Expr | None, assign: Sequence[tuple[str, Expr]] = ()
    ) -> tuple[Any, Any]:
        """The rows that satisfy `where`, and the same rows with `assign` applied."""
        rows = self.read(table)
        schema = self._state.tables[table].schema
        env = {c.name: Vector.from_arrow(rows.column(c.name), c.type) for c in schema.columns}
        if where is not None:
            keep = satisfied(where, env, rows.num_rows)
            rows = rows.filter(pa.array(keep))
            env = {name: vector.filter(keep) for name, vector in env.items()}
        new = rows
        for name, expr in assign:
            vector = evaluate_vector(expr, env, rows.num_rows)
            new = new.set_column(schema.names.index(name), new.schema.field(name), vector.to_arrow())
        return rows, new

    def verify(self, view: str) -> pa.Table:
        """The differences of a view from its recomputation: by the reference evaluator, or its plan run
        again."""
        domain = self.objects.domain_of(view)
        if domain is not None:
            return domain.verify(view)
        check_followed(self._shown.catalog, self.objects, view, partial(self._look, Committed.read))
        return self._look(Committed.verify, view)

    def to_spark(self, name: str, at: int | None = None) -> Any:
        """Not here: this engine has no Spark session of its own."""
        raise EverfreshError(
            Code.UNSUPPORTED,
            "the local engine has no Spark session",
            hint="use to_arrow() and spark.createDataFrame(table), or connect with engine='spark'",
        )

    def statistics(self) -> dict[str, Any]:
        """Sizes, for people. A map that several views read is counted once."""
        state = self._state
        state.reclaim(now=state.holders().words <= _AT_ONCE)
        found = {
            "epoch": self._shown.epoch,
            **sizes(state, self.catalog),
            "streams": dict(self._timeline.sources),
            "strings": {"distinct": len(state.interner), "bytes": state.interner.nbytes},
        }
        found.update((d.name, some) for d in self.objects.domains.values() if (some := d.statistics()))
        if state.wiring.native is not None:
            from everfresh.local.native.report import statistics

            found["compiled"] = statistics(state.wiring.native)
        if self._options.timing:
            found["seconds"] = self._phases.seconds
        return found

    def entries(self, view: str) -> dict[str, int]:
        """How many entries the maps of a view have."""
        state = self._state
        own = state.maps[view]
        program = own.compiled.program
        beside = (m.name for m in program.maps if m.name in state.beside)
        return {own.target.name: len(own.pool), **{name: len(state.beside[name].pool) for name in beside}}

    placement = None

    @property
    def programs(self) -> Catalog:
        """The catalog: programs are run as they are."""
        return self.catalog

    def explain(self, view: str) -> dict[str, str]:
        """Which triggers of a view are compiled; nothing before there are any."""
        if self._state.wiring.native is None:
            return {}
        from everfresh.local.native.report import of_view

        return of_view(self._state.wiring.native, view)

    def compile(self, *, by_row: bool = False) -> None:
        """Compile all triggers now, for benchmarks; `by_row`: let changes of any size run row by row."""
        native = self._state.wiring.native
        if native is not None:
            native.everything()
            native.small = sys.maxsize if by_row else native.small

    def close(self) -> None:
        """Release the folder."""
        self._workers.close()
        if self._folder is not None:
            self._folder.close()


def _joined(parts: Sequence[Part]) -> pa.Table:
    """The rows of some parts of one table; their Arrow schemas differ in what may be NULL at most."""
    if len(parts) == 1:
        rows: pa.Table = parts[0].rows
        return rows
    return pa.concat_tables([part.rows for part in parts], promote_options="default")
