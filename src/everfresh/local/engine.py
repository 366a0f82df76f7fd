"""The in-process engine: tables and maps in pools, one atomic batch at a time, durable in a folder when one
is given.

A batch is resolved, every statement is evaluated against the state before it, then tables and maps are
changed, the views' own changes are published, the commit record is written, and only then is the epoch
visible. A failure at any of these points undoes the pools. Recovery loads the newest snapshot and runs the
net changes of later commit records through the same code.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.compiler import Catalog, readers
from everfresh.delta.bags import EPOCH, WEIGHT, difference, expand, net, subtract
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Expr, Vector, evaluate_vector, satisfied
from everfresh.local import adhoc
from everfresh.local.atoms import Indexed
from everfresh.local.mapstore import MapStore, weighted_schema
from everfresh.local.phases import UNTIMED, Phases, Untimed
from everfresh.local.pool import Pool
from everfresh.local.state import LocalState
from everfresh.local.table import Net
from everfresh.options import Options
from everfresh.program import Applied, Batch, Progress, check_epoch
from everfresh.program.domain import Domain, Sections, sections_of
from everfresh.sql import plan as p
from everfresh.state import (
    Commit,
    StateFolder,
    pack_table,
    read_commit,
    unpack_table,
)

_KEYS_KEPT = 10_000
_log = logging.getLogger("everfresh")


class LocalEngine:
    """Tables and views in this process. See `everfresh.program.Engine`."""

    name = "local"

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
        self._phases: Untimed = Phases() if options.timing else UNTIMED
        self._folder = (
            StateFolder.open(path, engine=self.name, workers=1, options=options, read_only=read_only)
            if path is not None
            else None
        )
        self._reset()
        if self._folder is not None:
            try:
                self._recover()
            except BaseException:
                self._folder.close()
                raise

    def _reset(self) -> None:
        self._state = LocalState(self._phases)
        for domain in self._domains:
            domain.load({})
        self._keys: OrderedDict[str, int] = OrderedDict()
        self._sources: dict[str, int] = {}
        self._history: deque[tuple[int, dict[str, pa.Table]]] = deque(maxlen=self._options.history)
        self._epoch = 0
        self._digest = ""
        self._log_bytes = 0
        self._snapshot_epoch = 0
        self._snapshot_bytes = 0

    @property
    def epoch(self) -> int:
        """The last epoch this handle has seen."""
        return self._epoch

    @property
    def oldest(self) -> int:
        """The earliest epoch that reads reach: as far back as the options say, and as the log goes."""
        oldest = max(0, self._epoch - self._options.history)
        if self._folder is not None:  # an earlier handle may have kept less
            kept = [self._folder.commits.first(), self._epoch + 1, *(epoch for epoch, _ in self._history)]
            oldest = max(oldest, min(kept) - 1)
        return oldest

    @property
    def catalog(self) -> Catalog:
        """Tables and views as of `epoch`."""
        return self._state.catalog

    @property
    def sources(self) -> Mapping[str, int]:
        """The last batch of each stream."""
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
        catalog, effect = self._state.catalog.execute(statement, self._state.sizes())
        if effect.nothing:
            return self._epoch
        with self._state.altering():
            self._state.execute(catalog, effect, self._epoch + 1, progress)
            self._commit(ddl=(effect.text,), changes={})
        self._maybe_snapshot()
        return self._epoch

    # -- batches -----------------------------------------------------------------------------------

    def committed(self, key: str) -> int | None:
        """The epoch that a batch with this key committed, if one did."""
        return self._keys.get(key)

    def apply(self, batch: Batch) -> Applied:
        """Apply a batch atomically."""
        try:
            return self._apply(batch)
        finally:
            self._phases.stop()

    def _apply(self, batch: Batch) -> Applied:
        self._phases.to("resolve")
        parts: dict[str, list[Any]] = {}
        for part in batch.parts:
            parts.setdefault(part.table, []).append(part)
        nets = {name: self._state.tables[name].resolve(of_table) for name, of_table in parts.items()}
        nets = {name: change for name, change in nets.items() if len(change)}
        with ExitStack() as stack:
            others = [
                stack.enter_context(domain.changing(batch.steps[domain.name]))
                for domain in self._domains
                if domain.name in batch.steps
            ]
            changes = stack.enter_context(self._state.changing(nets))
            deltas = self._log(nets) if self._folder is not None else {}
            self._commit(
                keys=batch.keys, sources=batch.sources, deltas=deltas, changes=changes, others=others
            )
        self._maybe_snapshot()
        return Applied(self._epoch, rows=sum(int(np.abs(change.weights).sum()) for change in nets.values()))

    def _log(self, nets: Mapping[str, Net]) -> dict[str, pa.Table]:
        tables = {}
        for name, change in nets.items():
            rows = self._state.tables[name].codec.decode(change.words)
            tables[name] = rows.append_column(WEIGHT, pa.array(change.weights))
        return tables

    # -- commit and recovery -----------------------------------------------------------------------

    def _commit(
        self,
        *,
        ddl: tuple[str, ...] = (),
        keys: tuple[str, ...] = (),
        sources: Mapping[str, int] | None = None,
        deltas: Mapping[str, pa.Table] | None = None,
        changes: Mapping[str, pa.Table],
        others: Sequence[Callable[[], Sections]] = (),
    ) -> None:
        epoch = self._epoch + 1
        if self._folder is not None:
            sections: dict[str, Any] = {
                f"delta/{name}": pack_table(table) for name, table in (deltas or {}).items()
            }
            for told in others:
                sections.update(told())
            sections.update({f"changes/{name}": pack_table(table) for name, table in changes.items()})
            record = Commit(epoch, self._digest, keys=keys, ddl=ddl, sources=sources or {}, sections=sections)
            data = record.encode()
            if not self._folder.commits.create(epoch, data):
                raise EverfreshError(
                    Code.FENCED, f"epoch {epoch} was committed by another writer", hint="reopen the database"
                )
            self._digest = record.digest
            self._log_bytes += len(data)
        self._advance(epoch, keys, sources or {}, dict(changes))

    def _advance(
        self, epoch: int, keys: Sequence[str], sources: Mapping[str, int], changes: dict[str, pa.Table]
    ) -> None:
        self._epoch = epoch
        self._sources.update(sources)
        for key in keys:
            self._keys[key] = epoch
            if len(self._keys) > _KEYS_KEPT:
                self._keys.popitem(last=False)
        self._history.append((epoch, changes))

    def refresh(self) -> None:
        """Readers: replay what was committed since."""
        if self._folder is not None and self._read_only:
            self._replay_to(self._folder.commits.last())

    def _recover(self) -> None:
        assert self._folder is not None
        if not self._read_only:
            self._folder.remove_garbage(new_term=True)
        self._load_snapshot()
        self._replay_to(self._folder.commits.last())

    def _replay_to(self, last: int) -> None:
        """Follow the log. A reader whose next record was trimmed, or withdrawn, starts again from the
        newest snapshot."""
        assert self._folder is not None
        restarted = not self._read_only
        while self._epoch < last:
            commit = read_commit(self._folder.commits, self._epoch + 1)
            if commit is not None and commit.parent == self._digest:
                self._replay(commit)
                continue
            if restarted:
                raise EverfreshError(
                    Code.DAMAGED,
                    f"the log has no record that takes epoch {self._epoch} to the next",
                    hint="restore the folder from a backup",
                )
            restarted = True
            self._reset()
            self._load_snapshot()

    def _replay(self, commit: Commit) -> None:
        for text in commit.ddl:
            catalog, effect = self._state.catalog.replay(text)
            self._state.execute(catalog, effect, commit.epoch)
        nets = {}
        for name, section in commit.sections.items():
            if name.startswith("delta/"):
                rows = unpack_table(section)
                table = self._state.tables[name.removeprefix("delta/")]
                words = table.codec.encode(rows.drop_columns([WEIGHT]))
                nets[table.schema.name] = Net(words, rows.column(WEIGHT).to_numpy())
        for domain in self._domains:
            if own := sections_of(domain, commit.sections):
                domain.replay(own)
        with self._state.changing(nets) as changes:
            pass
        self._digest = commit.digest
        self._log_bytes += sum(memoryview(section).nbytes for section in commit.sections.values())
        self._advance(commit.epoch, commit.keys, commit.sources, changes)

    def _maybe_snapshot(self) -> None:
        """Snapshot when replaying the log would cost more than loading one."""
        options = self._options
        enough = self._log_bytes > max(options.snapshot_bytes, self._snapshot_bytes // 3)
        if self._folder is not None and (
            enough or self._epoch - self._snapshot_epoch >= options.snapshot_epochs
        ):
            try:
                self.snapshot()
            except Exception:  # the epoch is committed, and the log still serves: the next one tries again
                _log.exception("no snapshot could be taken of epoch %d", self._epoch)

    def snapshot(self) -> None:
        """Write everything up to the current epoch to one file, and forget the log before it."""
        assert self._folder is not None
        sections: dict[str, Any] = self._state.to_sections()
        for domain in self._domains:
            sections.update(domain.to_sections())
        meta = {
            "ddl": [list(item) for item in self._state.catalog.ddl],
            "keys": list(self._keys.items()),
            "sources": self._sources,
            "created": self._state.created,
            "digest": self._digest,
        }
        self._folder.snapshots.write(self._epoch, sections, meta)
        self._snapshot_epoch, self._log_bytes = self._epoch, 0
        self._snapshot_bytes = sum(memoryview(section).nbytes for section in sections.values())
        self._folder.commits.rotate()
        self._folder.commits.trim(min(self._epoch + 1, self._epoch - self._options.history + 1))
        self._folder.snapshots.drop(self._epoch)

    def _load_snapshot(self) -> None:
        assert self._folder is not None
        snapshot = self._folder.snapshots.latest()
        if snapshot is None:
            return
        ddl = [text for _, text in snapshot.meta["ddl"]]
        self._state = LocalState.from_sections(ddl, snapshot.meta["created"], snapshot.sections, self._phases)
        for domain in self._domains:
            domain.load(sections_of(domain, snapshot.sections))
        self._keys = OrderedDict((key, epoch) for key, epoch in snapshot.meta["keys"])
        self._sources = dict(snapshot.meta.get("sources", {}))
        self._digest = snapshot.meta["digest"]
        self._epoch = self._snapshot_epoch = snapshot.epoch
        self._snapshot_bytes = sum(memoryview(section).nbytes for section in snapshot.sections.values())

    # -- reading -----------------------------------------------------------------------------------

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of a table or view, now or at an earlier epoch."""
        if name in self._state.tables:
            if at is not None and at != self._epoch:
                raise EverfreshError(
                    Code.UNSUPPORTED, f"'{name}' is a table: earlier epochs are kept for views only"
                )
            return self._state.rows(name)
        store = self._state.maps[name]
        if at is None or at == self._epoch:
            return expand(store.rows())
        check_epoch(name, at, max(self.oldest, self._state.created[name]), self._epoch)
        return self._at(store, at)

    def _at(self, store: MapStore, at: int) -> pa.Table:
        later = [t for _, t in self._changes_after(store.view.name, at)]
        if not later:
            return expand(store.rows())
        return subtract(expand(store.rows()), net(pa.concat_tables(later)))

    def _changes_after(self, view: str, since: int) -> list[tuple[int, pa.Table]]:
        """The view's changes of the epochs after `since`, from memory or from the log."""
        known = dict(self._history)
        found = []
        for epoch in range(max(since, self._state.created[view]) + 1, self._epoch + 1):
            if epoch in known:
                table = known[epoch].get(view)
            else:
                commit = read_commit(self._folder.commits, epoch) if self._folder is not None else None
                section = commit.sections.get(f"changes/{view}") if commit is not None else None
                table = unpack_table(section) if section is not None else None
            if table is not None:
                found.append((epoch, table))
        return found

    def changes(self, view: str, since: int) -> pa.Table:
        """The view's change of each epoch after `since`."""
        check_epoch(view, since, self.oldest, self._epoch)
        store = self._state.maps[view]
        parts = self._changes_after(view, since)
        if since < self._state.created[view]:  # what it held when it was created is its first change
            rows = self._at(store, self._state.created[view])
            first = net(rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64))))
            parts.insert(0, (self._state.created[view], first))
        schema = weighted_schema(store.view.columns).append(pa.field(EPOCH, pa.int64(), nullable=False))
        tables = [
            t.append_column(EPOCH, pa.array(np.full(t.num_rows, e, np.int64))).cast(schema)
            for e, t in parts
            if t.num_rows
        ]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def select(self, plan: p.Plan) -> pa.Table:
        """The result of an ad hoc query."""
        return adhoc.execute(plan, self.read)

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
        return difference(self._state.recomputed(view), expand(self._state.maps[view].rows()))

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
        views, sliced = self.catalog.compiled, state.wiring.tables
        found = {
            "epoch": self._epoch,
            "tables": {n: {"rows": len(t), **_bytes(t.pool, sliced[n])} for n, t in state.tables.items()},
            "views": {n: {"entries": len(m.pool), **_bytes(m.pool, m)} for n, m in state.maps.items()},
            "maps beside them": {
                n: {"entries": len(m.pool), **_bytes(m.pool, m), "views": readers(views, n)}
                for n, m in state.beside.items()
            },
            "streams": dict(self._sources),
            "strings": {"distinct": len(state.interner), "bytes": state.interner.nbytes},
        }
        if self._options.timing:
            found["seconds"] = self._phases.seconds
        return found

    def close(self) -> None:
        """Release the folder."""
        if self._folder is not None:
            self._folder.close()


def _bytes(pool: Pool, indexed: Indexed) -> dict[str, int]:
    return {"bytes": pool.nbytes, "slice_bytes": indexed.slice_bytes}
