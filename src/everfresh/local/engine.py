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

import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.compiler import Catalog, Effect, readers
from everfresh.delta.bags import WEIGHT, split
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Expr, Vector, evaluate_vector, satisfied, stored
from everfresh.local.arrivals import Arrivals
from everfresh.local.atoms import Indexed
from everfresh.local.committed import Committed
from everfresh.local.phases import Untimed, phases_of
from everfresh.local.pool import Pool
from everfresh.local.publishing import Change
from everfresh.local.sections import InSections
from everfresh.local.state import LocalState, Shaken
from everfresh.local.table import Net
from everfresh.local.workers import Workers, cores
from everfresh.options import Options
from everfresh.program import Applied, Batch, Part, Progress
from everfresh.program.domain import Domain, Sections, sections_of
from everfresh.sql import plan as p
from everfresh.state import (
    Commit,
    StateFolder,
    pack_table,
    read_commit,
    told,
    unpack_table,
)
from everfresh.types import TableSchema

_KEYS_KEPT = 10_000
_WAIT = 1 << 10
"""Epochs after which a snapshot that has failed is tried again, at most."""
_AT_ONCE = 1 << 20  # words among which strings in use are counted while somebody waits
_log = logging.getLogger("everfresh")


@dataclass(slots=True)
class _Draft:
    """An epoch that is done in memory and has no record yet."""

    epoch: int
    keys: tuple[str, ...] = ()
    ddl: tuple[str, ...] = ()
    sources: Mapping[str, int] = field(default_factory=dict)
    deltas: Mapping[str, pa.Table] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    others: Sequence[Callable[[], Sections]] = ()

    def sections(self) -> dict[str, Any]:
        """The sections of its record."""
        sections: dict[str, Any] = {f"delta/{name}": pack_table(t) for name, t in self.deltas.items()}
        for tell in self.others:
            sections.update(tell())
        return sections


class LocalEngine(InSections):
    """Tables and views in this process. See `everfresh.program.Engine`."""

    name = "local"
    concurrent = True

    def __init__(
        self,
        path: str | Path | None,
        options: Options,
        *,
        read_only: bool = False,
        domains: Sequence[Domain] = (),
    ) -> None:
        self._options = options
        self._domains = tuple(domains)
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
        self._with_domains = False
        """Whether the change does something to what domains keep."""
        self._failures = self._not_before = 0
        """How often snapshots have failed, and the epoch before which none is tried."""
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
        for domain in self._domains:
            domain.load({})
        self._state.workers = self._workers
        self._shown = Committed(self._state, self._options)
        self._keys: OrderedDict[str, int] = OrderedDict()
        self._sources: dict[str, int] = {}
        self._digest = ""
        self._log_bytes = 0
        self._snapshot_epoch = 0
        self._snapshot_bytes = 0

    def _anew(self) -> None:
        """Read the state again from the folder; without one, make anew what can be."""
        if self._folder is not None:
            before = self._shown.catalog
            self._folder.commits.reopen()
            self._reset()
            self._load_snapshot(before)
            self._replay_to(self._folder.commits.last())
        elif self._state.lost or self._with_domains:
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
        found: int = self._look("reaches")
        return found

    @property
    def catalog(self) -> Catalog:
        """Tables and views as of `epoch`."""
        return (self._whole() if self._marked else self._shown).catalog

    @property
    def sources(self) -> Mapping[str, int]:
        """The last batch of each stream."""
        self._whole()
        return self._sources

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
        return self.epoch if effect.nothing else self._change(self._alter, catalog, effect, progress)

    def _alter(self, catalog: Catalog, effect: Effect, progress: Progress | None) -> int:
        self._state.check()
        with self._state.altering():
            self._state.execute(catalog, effect, self._shown.epoch + 1, progress)
            if effect.create_view is not None:
                self._state.check_values({}, effect.create_view.name)
            self._commit([_Draft(self._shown.epoch + 1, ddl=(effect.text,))])
            self._state.finish()
        self._altered[self._shown.epoch] = catalog, effect
        self._state.reclaim()
        self._maybe_snapshot()
        return self._shown.epoch

    # -- batches -----------------------------------------------------------------------------------

    def read_input(self, data: Any, schema: TableSchema, what: str, op: Any) -> pa.Table:
        """Rows of any kind as an Arrow table of a table's schema."""
        return self._arrivals.read(data, schema, what, op)

    def committed(self, key: str) -> int | None:
        """The epoch that a batch with this key committed, if one did."""
        if self._marked:
            self._whole()
        return self._keys.get(key)

    def apply(self, batch: Batch) -> Applied:
        """Apply a batch atomically."""
        (result,) = self.apply_all([batch])
        if isinstance(result, Exception):
            raise result
        return result

    def apply_all(self, batches: Sequence[Batch]) -> list[Applied | Exception]:
        """Apply batches in order, each atomically; their records are written and synced together."""
        try:
            if len(batches) == 1 and not batches[0].steps:
                return [self._change(self._alone, batches[0])]
            return self._change(self._together, batches)
        finally:
            self._phases.stop()

    def _alone(self, batch: Batch) -> Applied | Exception:
        """One batch that changes tables only, as `_together` applies it."""
        begun, epoch = False, self._shown.epoch + 1
        try:
            nets, deltas = self._resolved(batch)
            with self._state.changing(nets) as changes:
                begun = True
                self._commit([_Draft(epoch, batch.keys, (), batch.sources, deltas, changes)])
        except EverfreshError as error:
            if begun:
                raise
            return error
        self._state.reclaim()
        self._maybe_snapshot()
        return Applied(epoch, sum([change.rows for change in nets.values()]))

    def _together(self, batches: Sequence[Batch]) -> list[Applied | Exception]:
        results: list[Applied | Exception] = []
        drafts: list[_Draft] = []
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
            self._with_domains = False
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

    def _begun(self, batch: Batch, epoch: int, stack: ExitStack) -> tuple[_Draft, int]:
        """A batch that is done but for its record, and how many rows it changed; `stack` takes it back or
        makes it final."""
        nets, deltas = self._resolved(batch)
        others: list[Callable[[], Sections]] = []
        if not batch.steps:
            changes = stack.enter_context(self._state.changing(nets))
        else:
            self._with_domains = True
            with ExitStack() as own:
                for domain in self._domains:
                    if domain.name in batch.steps:
                        others.append(own.enter_context(domain.changing(batch.steps[domain.name])))
                changes = own.enter_context(self._state.changing(nets))
                stack.enter_context(own.pop_all())
        rows = sum(change.rows for change in nets.values())
        return _Draft(epoch, batch.keys, (), batch.sources, deltas, changes, others), rows

    def _delta(self, name: str, parts: Sequence[Part], change: Net) -> pa.Table:
        """A change of a table as the log keeps it: without `_weight` all rows are inserted once."""
        if all(part.op == "insert" for part in parts) and sum(p.rows.num_rows for p in parts) == len(change):
            return _joined(parts)
        rows = self._state.tables[name].codec.decode(change.words)
        return rows.append_column(WEIGHT, pa.array(change.weights))

    # -- commit and recovery -----------------------------------------------------------------------

    def _commit(self, drafts: Sequence[_Draft]) -> None:
        """Commit epochs that are done in memory: all of them, or none. They are shown when they are made
        final."""
        if self._folder is not None:
            digest, records = self._digest, []
            for draft in drafts:
                record = Commit(
                    draft.epoch,
                    digest,
                    keys=draft.keys,
                    ddl=draft.ddl,
                    sources=draft.sources,
                    sections=draft.sections(),
                )
                records.append(record.encode())
                digest = record.digest
            if not self._folder.commits.create_all(drafts[0].epoch, records):
                raise EverfreshError(
                    Code.FENCED,
                    f"epoch {drafts[0].epoch} was committed by another writer",
                    hint="reopen the database",
                )
            self._digest = digest
            self._log_bytes += sum(map(len, records))
        self._state.final = partial(self._advance_all, drafts)

    def _advance_all(self, drafts: Sequence[_Draft]) -> None:
        for draft in drafts:
            self._advance(draft.epoch, draft.keys, draft.sources, draft.changes)

    def _advance(
        self, epoch: int, keys: Sequence[str], sources: Mapping[str, int], changes: dict[str, Change]
    ) -> None:
        self._shown.show(epoch, self._state, changes)
        self._sources.update(sources)
        for key in keys:
            self._keys[key] = epoch
            if len(self._keys) > _KEYS_KEPT:
                self._keys.popitem(last=False)

    def refresh(self) -> None:
        """Be whole; readers: replay what was committed since."""
        if self._marked:
            self._whole()
        if self._folder is not None and self._read_only:
            with told(f"{self._folder.root} cannot be read"):
                last = self._folder.commits.last()
                if self.epoch < last:
                    self._change(self._replay_to, last)

    def _recover(self) -> None:
        assert self._folder is not None
        if not self._read_only:
            self._folder.remove_garbage(new_term=True)
        self._load_snapshot()
        last = self._folder.commits.last()
        if last < self._shown.epoch:
            raise EverfreshError(
                Code.DAMAGED,
                f"the log of {self._folder.root} ends with epoch {last}, before the snapshot of epoch "
                f"{self._shown.epoch}",
                hint="restore the folder from a backup",
            )
        self._replay_to(last)

    def _replay_to(self, last: int) -> None:
        """Follow the log. A reader whose next record was trimmed, or withdrawn, starts again from the
        newest snapshot."""
        assert self._folder is not None
        restarted = not self._read_only
        while self._shown.epoch < last:
            commit = read_commit(self._folder.commits, self._shown.epoch + 1)
            if commit is not None and commit.parent == self._digest:
                self._replay(commit)
                continue
            if restarted:
                raise EverfreshError(
                    Code.DAMAGED,
                    f"the log has no record that takes epoch {self._shown.epoch} to the next",
                    hint="restore the folder from a backup",
                )
            restarted = True
            self._reset()
            self._load_snapshot()

    def _replay(self, commit: Commit) -> None:
        for text in commit.ddl:
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
        for domain in self._domains:
            if own := sections_of(domain, commit.sections):
                domain.replay(own)
        self._state.upkeep.count(nets.values())
        with self._state.changing(nets, again=True) as changes:
            pass
        self._digest = commit.digest
        self._log_bytes += sum(memoryview(section).nbytes for section in commit.sections.values())
        self._advance(commit.epoch, commit.keys, commit.sources, changes)
        self._state.reclaim()

    def _maybe_snapshot(self) -> None:
        """Snapshot when replaying the log would cost more than loading one."""
        options = self._options
        if self._folder is None:
            return
        enough = self._log_bytes > max(options.snapshot_bytes, self._snapshot_bytes // 3)
        due = enough or self._shown.epoch - self._snapshot_epoch >= options.snapshot_epochs
        if due and self._shown.epoch >= self._not_before:
            self._try_snapshot()

    def _try_snapshot(self) -> None:
        """Take a snapshot; if that fails, one is tried later: the epoch is committed, and the log serves."""
        epoch = self._shown.epoch
        try:
            self._snapshot()
            self._failures = 0
        except Exception as error:
            later = min(1 << self._failures, _WAIT)
            self._not_before, self._failures = epoch + later, self._failures + 1
            known = isinstance(error, OSError | EverfreshError | Shaken)
            _log.warning(
                "no snapshot could be taken of epoch %d: %s; it is tried again at epoch %d",
                epoch,
                str(error).splitlines()[0] if str(error) else type(error).__name__,
                epoch + later,
                exc_info=None if known else error,
            )

    def snapshot(self) -> None:
        """Write everything up to the current epoch to one file, and forget the log before it."""
        with told(f"no snapshot could be taken of epoch {self.epoch}"):
            self._change(self._snapshot)

    def _snapshot(self) -> None:
        assert self._folder is not None
        sections: dict[str, Any] = self._state.to_sections()
        sections.update(self._shown.to_sections())
        for domain in self._domains:
            sections.update(domain.to_sections())
        meta = {
            "ddl": [list(item) for item in self._state.catalog.ddl],
            "keys": list(self._keys.items()),
            "sources": self._sources,
            "created": self._state.created,
            "digest": self._digest,
        }
        self._folder.snapshots.write(self._shown.epoch, sections, meta)
        self._snapshot_epoch, self._log_bytes, self._altered = self._shown.epoch, 0, {}
        self._snapshot_bytes = sum(memoryview(section).nbytes for section in sections.values())
        self._folder.commits.rotate()
        self._folder.commits.trim(min(self._shown.epoch + 1, self._shown.epoch - self._options.history + 1))
        self._folder.snapshots.drop(self._shown.epoch)

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
        for domain in self._domains:
            domain.load(sections_of(domain, snapshot.sections))
        self._keys = OrderedDict((key, epoch) for key, epoch in snapshot.meta["keys"])
        self._sources = dict(snapshot.meta.get("sources", {}))
        self._digest = snapshot.meta["digest"]
        self._snapshot_epoch = snapshot.epoch
        self._state.workers = self._workers
        self._shown = Committed(self._state, self._options)
        self._shown.show(snapshot.epoch, self._state)
        self._shown.load(snapshot.sections)
        self._snapshot_bytes = sum(memoryview(section).nbytes for section in snapshot.sections.values())

    # -- reading -----------------------------------------------------------------------------------

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of a table or view, now or at an earlier epoch."""
        found: pa.Table = self._look("read", name, at)
        return found

    def changes(self, view: str, since: int | None) -> pa.Table:
        """The view's change of each epoch after `since`; of all that are kept if that is None."""
        found: pa.Table = self._look("changes", view, since)
        return found

    def select(self, plan: p.Plan, bound: Any = None) -> pa.Table:
        """The result of an ad hoc query."""
        found: pa.Table = self._look("select", plan, bound)
        return found

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
        found: pa.Table = self._look("verify", view)
        return found

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
        views, sliced = self.catalog.compiled, state.wiring.tables
        found = {
            "epoch": self._shown.epoch,
            "tables": {
                n: {
                    "rows": len(t) if t.schema.retained else "not retained",
                    **_bytes(t.pool, sliced[n], t.codec.texts.nbytes),
                }
                for n, t in state.tables.items()
            },
            "views": {n: {"entries": len(m.pool), **_bytes(m.pool, m)} for n, m in state.maps.items()},
            "maps beside them": {
                stored(n): {
                    "entries": len(m.pool),
                    **_bytes(m.pool, m),
                    "views": readers(views, n),
                    **({"outgrown": True} if m.outgrown else {}),
                }
                for n, m in state.beside.items()
            },
            "streams": dict(self._sources),
            "strings": {"distinct": len(state.interner), "bytes": state.interner.nbytes},
        }
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


def _bytes(pool: Pool, indexed: Indexed, texts: int = 0) -> dict[str, int]:
    return {"bytes": pool.nbytes + texts, "slice_bytes": indexed.slice_bytes}
