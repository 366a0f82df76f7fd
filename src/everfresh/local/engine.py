"""The in-process engine: tables and maps in pools, one atomic batch at a time, durable in a folder when one is given.

A batch is resolved, every statement is evaluated against the state before it, then tables and maps are changed, the views' own changes
are published, the commit record is written, and only then is the epoch visible. A failure at any of these points undoes the
pools. Recovery loads the newest snapshot and runs the net changes of later commit records through the same code.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.calculus import Query, Rel, relations
from everfresh.compiler import Catalog, Effect
from everfresh.delta.bags import EPOCH, WEIGHT, difference, expand, net, subtract
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Expr, Vector, evaluate_vector
from everfresh.local import adhoc
from everfresh.local.columnar import MapDelta, flat_plan, run
from everfresh.local.entries import EntryStore, merged
from everfresh.local.joined import Rows, run_joined
from everfresh.local.mapstore import MapStore, weighted_schema
from everfresh.local.pool import Pool, Touched
from everfresh.local.recompute import recompute, relation
from everfresh.local.strings import Interner
from everfresh.local.table import Net, Table
from everfresh.options import Options
from everfresh.program import Applied, Batch, Progress, check_epoch
from everfresh.sql import plan as p
from everfresh.state import (
    Commit,
    StateFolder,
    pack_arrays,
    pack_table,
    read_commit,
    unpack_arrays,
    unpack_table,
)
from everfresh.state.interrupts import uninterrupted
from everfresh.types import TableSchema

_KEYS_KEPT = 10_000
_log = logging.getLogger("everfresh")


class LocalEngine:
    """Tables and views in this process. See `everfresh.program.Engine`."""

    name = "local"

    def __init__(self, path: str | Path | None, options: Options, *, read_only: bool = False) -> None:
        self._options = options
        self._read_only = read_only
        self._folder = (
            StateFolder.open(path, engine=self.name, workers=1, options=options, read_only=read_only)
            if path is not None else None
        )
        self._reset()
        if self._folder is not None:
            try:
                self._recover()
            except BaseException:
                self._folder.close()
                raise

    def _reset(self) -> None:
        self._catalog = Catalog(joins=True)
        self._interner = Interner()
        self._tables: dict[str, Table] = {}
        self._maps: dict[str, MapStore] = {}
        self._beside: dict[str, EntryStore] = {}
        self._created: dict[str, int] = {}
        self._keys: OrderedDict[str, int] = OrderedDict()
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
        return self._catalog

    # -- DDL ----------------------------------------------------------------------------------------------------------

    def execute(self, statement: Any, progress: Progress | None = None) -> int:
        """Run one DDL statement."""
        catalog, effect = self._catalog.execute(statement)
        if effect.nothing:
            return self._epoch
        before = (dict(self._tables), dict(self._maps), dict(self._beside), dict(self._created), self._catalog)
        try:
            changes = self._effect(catalog, effect, self._epoch + 1, progress)
            self._commit(ddl=(effect.text,), changes=changes)
        except BaseException:
            self._tables, self._maps, self._beside, self._created, self._catalog = before
            raise
        self._maybe_snapshot()
        return self._epoch

    def _effect(
        self, catalog: Catalog, effect: Effect, epoch: int, progress: Progress | None = None
    ) -> dict[str, pa.Table]:
        """Make the state fit `catalog`. Existing tables and maps are replaced, never changed, so this can be undone."""
        for name in effect.drop_views:
            for beside in self._maps[name].compiled.program.maps:
                self._beside.pop(beside.name, None)
            del self._maps[name], self._created[name]
        for name in effect.drop_tables:
            del self._tables[name]
        if effect.alter_table is not None:
            self._alter(catalog, *effect.alter_table)
        if effect.create_table is not None:
            self._tables[effect.create_table.name] = Table(effect.create_table, self._interner)
        if effect.create_view is not None:
            compiled = effect.create_view.compiled
            store = MapStore(compiled, self._interner)
            beside = {m.name: EntryStore(m, self._interner) for m in compiled.program.maps if m.name != compiled.view.map}
            self._load(store, progress)
            for other in beside.values():
                self._load_joined(other)
            self._maps[effect.create_view.name] = store
            self._beside.update(beside)
            self._created[effect.create_view.name] = epoch
        self._catalog = catalog
        return {}

    def _alter(self, catalog: Catalog, old: TableSchema, new: TableSchema, default: Any) -> None:
        vector = None
        if default is not None:
            vector = evaluate_vector(default, {}, 1)
        self._tables[new.name] = self._tables[old.name].altered(new, vector)
        for view in catalog.views_on(new.name):
            self._maps[view.name] = MapStore(view.compiled, self._interner, self._maps[view.name].pool)
            for m in view.compiled.program.maps:
                if m.name in self._beside:
                    self._beside[m.name] = EntryStore(m, self._interner, self._beside[m.name].pool)

    def _load(self, store: MapStore, progress: Progress | None) -> None:
        """Fill a new map from its table in bulk, piece by piece."""
        if store.compiled.reevaluated:
            store.commit(store.replace(self._evaluate(store)))
            return
        plan = store.load_plan()
        if plan is None:
            self._load_joined(store)
            store.rows()
            return
        table = self._tables[plan.terms[0].relation]
        names = table.schema.names
        needed = plan.columns(names)
        chunks, done, total = table.chunks(), 0, len(table.pool)
        for slots in chunks:
            vectors = table.codec.vectors(table.pool.keys_at(slots), needed)
            delta = run(plan, names, vectors, table.pool.gather(slots).n)
            store.commit(store.add(delta))
            done += len(slots)
            if progress is not None:
                progress(f"loading {store.view.name}", done, total)
        store.rows()  # an aggregate outside its type is found now, not at the first read

    def _load_joined(self, store: EntryStore) -> None:
        """Fill a map whose definition joins tables, by the code that runs its statements."""
        def rows(factor: Any) -> Rows:
            table = self._tables[factor.name]
            slots = table.pool.live()
            return Rows(table.codec, table.pool.keys_at(slots), table.pool.gather(slots).n)

        if relations(store.target.definition):
            store.commit(store.add(run_joined(store.target, store.target.definition, rows)))

    # -- batches ------------------------------------------------------------------------------------------------------

    def committed(self, key: str) -> int | None:
        """The epoch that a batch with this key committed, if one did."""
        return self._keys.get(key)

    def apply(self, batch: Batch) -> Applied:
        """Apply a batch atomically."""
        parts: dict[str, list[Any]] = {}
        for part in batch.parts:
            parts.setdefault(part.table, []).append(part)
        nets = {name: self._tables[name].resolve(of_table) for name, of_table in parts.items()}
        nets = {name: change for name, change in nets.items() if len(change)}
        with self._changing(nets) as changes:
            deltas = self._log(nets) if self._folder is not None else {}
            self._commit(keys=(batch.key,) if batch.key is not None else (), deltas=deltas, changes=changes)
        self._maybe_snapshot()
        return Applied(self._epoch, rows=sum(int(np.abs(change.weights).sum()) for change in nets.values()))

    @contextmanager
    def _changing(self, nets: Mapping[str, Net]) -> Iterator[dict[str, pa.Table]]:
        """Add net changes to tables and maps; final if the block succeeds, undone if anything raises."""
        undo: list[Any] = []
        final: list[Any] = []
        with ExitStack() as stack:
            try:
                steps: dict[str, list[Touched]] = {}

                def step(store: EntryStore, touched: Touched) -> None:
                    steps.setdefault(store.target.name, []).append(touched)
                    undo.append((store.rollback, touched))
                    final.append((store.commit, touched))

                # One relation after the other: a trigger reads what those before it have left, so no cross terms are needed.
                for name, change in nets.items():
                    deltas = self._statements(name, change)
                    table = self._tables[name]
                    applied = table.apply(change)
                    undo.append((table.rollback, applied))
                    final.append((table.commit, applied))
                    for store, delta in deltas:
                        step(store, store.add(delta))
                changes: dict[str, pa.Table] = {}
                for view in self._catalog.affected_by(nets):
                    store = self._maps[view.name]
                    if view.compiled.reevaluated and {*nets, *changes}.intersection(view.compiled.bases):
                        step(store, store.replace(self._evaluate(store)))
                    if view.name in steps:
                        published = store.published(merged(steps[view.name]))
                        if published.num_rows:
                            changes[view.name] = published
                stack.enter_context(uninterrupted())
                yield changes
            except BaseException:
                for fn, what in reversed(undo):
                    fn(what)
                raise
            for fn, what in final:
                fn(what)

    def _evaluate(self, store: MapStore) -> pa.Table:
        """The rows of a re-evaluated view over the tables and views as they are now."""
        definition = store.compiled.map.definition
        assert isinstance(definition, p.Plan)
        try:
            return adhoc.execute(definition, self._now)
        except EverfreshError as error:
            raise error.at(f"view '{store.view.name}'") from error

    def _now(self, name: str) -> pa.Table:
        """The rows of a table or view, with what the running batch has added."""
        if name not in self._tables:
            return expand(self._maps[name].rows())
        rows, counts = self._tables[name].rows()
        return expand(rows.append_column(WEIGHT, pa.array(counts)))

    def _statements(self, name: str, change: Net) -> list[tuple[EntryStore, MapDelta]]:
        """What the trigger of a table adds to maps, all read off the state before it."""
        table = self._tables[name]
        names = table.schema.names
        statements = [
            (self._store(s.target), flat_plan(self._store(s.target).target, s.expr), s.expr)
            for view in self._catalog.views_on(name) if not view.compiled.reevaluated
            for s in view.compiled.program.trigger(name).statements  # type: ignore[union-attr]
            if isinstance(s.expr, Query)
        ]
        needed = frozenset().union(*(plan.columns(names) for _, plan, _ in statements if plan is not None))
        vectors = table.codec.vectors(change.words, needed)
        changed = Rows(table.codec, change.words, change.weights)
        result = []
        for store, plan, expr in statements:
            try:
                if plan is not None:
                    given = {n: vectors[n] for n in plan.columns(names)}
                    result.append((store, run(plan, names, given, change.weights)))
                else:
                    source = lambda f: changed if isinstance(f, Rel) else self._store(f.name)  # noqa: E731
                    result.append((store, run_joined(store.target, expr, source)))
            except EverfreshError as error:
                raise _at_row(error, store, table, change, joined=plan is None) from error
        return result

    def _store(self, name: str) -> EntryStore:
        """A map by name: of a view, or beside one."""
        return self._maps[name] if name in self._maps else self._beside[name]

    def _stores(self) -> dict[str, EntryStore]:
        return {**self._maps, **self._beside}

    def _log(self, nets: Mapping[str, Net]) -> dict[str, pa.Table]:
        tables = {}
        for name, change in nets.items():
            rows = self._tables[name].codec.decode(change.words)
            tables[name] = rows.append_column(WEIGHT, pa.array(change.weights))
        return tables

    # -- commit and recovery ----------------------------------------------------------------------------------------

    def _commit(
        self, *, ddl: tuple[str, ...] = (), keys: tuple[str, ...] = (), deltas: Mapping[str, pa.Table] | None = None,
        changes: Mapping[str, pa.Table],
    ) -> None:
        epoch = self._epoch + 1
        if self._folder is not None:
            sections = {f"delta/{name}": pack_table(table) for name, table in (deltas or {}).items()}
            sections.update({f"changes/{name}": pack_table(table) for name, table in changes.items()})
            record = Commit(epoch, self._digest, keys=keys, ddl=ddl, sections=sections)
            data = record.encode()
            if not self._folder.commits.create(epoch, data):
                raise EverfreshError(Code.FENCED, f"epoch {epoch} was committed by another writer", hint="reopen the database")
            self._digest = record.digest
            self._log_bytes += len(data)
        self._advance(epoch, keys, dict(changes))

    def _advance(self, epoch: int, keys: Sequence[str], changes: dict[str, pa.Table]) -> None:
        self._epoch = epoch
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
        """Follow the log. A reader whose next record was trimmed, or withdrawn, starts again from the newest snapshot."""
        assert self._folder is not None
        restarted = not self._read_only
        while self._epoch < last:
            commit = read_commit(self._folder.commits, self._epoch + 1)
            if commit is not None and commit.parent == self._digest:
                self._replay(commit)
                continue
            if restarted:
                raise EverfreshError(
                    Code.DAMAGED, f"the log has no record that takes epoch {self._epoch} to the next",
                    hint="restore the folder from a backup",
                )
            restarted = True
            self._reset()
            self._load_snapshot()

    def _replay(self, commit: Commit) -> None:
        for text in commit.ddl:
            catalog, effect = self._catalog.replay(text)
            self._effect(catalog, effect, commit.epoch)
        nets = {}
        for name, section in commit.sections.items():
            if name.startswith("delta/"):
                rows = unpack_table(section)
                table = self._tables[name.removeprefix("delta/")]
                words = table.codec.encode(rows.drop_columns([WEIGHT]))
                nets[table.schema.name] = Net(words, rows.column(WEIGHT).to_numpy())
        with self._changing(nets) as changes:
            pass
        self._digest = commit.digest
        self._log_bytes += sum(memoryview(section).nbytes for section in commit.sections.values())
        self._advance(commit.epoch, commit.keys, changes)

    def _maybe_snapshot(self) -> None:
        """Snapshot when replaying the log would cost more than loading one."""
        options = self._options
        enough = self._log_bytes > max(options.snapshot_bytes, self._snapshot_bytes // 3)
        if self._folder is not None and (enough or self._epoch - self._snapshot_epoch >= options.snapshot_epochs):
            try:
                self.snapshot()
            except Exception:  # the epoch is committed, and the log still serves: the next one tries again
                _log.exception("no snapshot could be taken of epoch %d", self._epoch)

    def snapshot(self) -> None:
        """Write everything up to the current epoch to one file, and forget the log before it."""
        assert self._folder is not None
        self._compact_strings()
        sections = {"strings": pack_arrays(self._interner.to_arrays())}
        sections.update({f"table/{n}": pack_arrays(t.pool.to_arrays()) for n, t in self._tables.items()})
        sections.update({f"map/{n}": pack_arrays(m.pool.to_arrays()) for n, m in self._stores().items()})
        meta = {"ddl": [list(item) for item in self._catalog.ddl], "keys": list(self._keys.items()), "created": self._created,
                "digest": self._digest}
        self._folder.snapshots.write(self._epoch, sections, meta)
        self._snapshot_epoch, self._log_bytes = self._epoch, 0
        self._snapshot_bytes = sum(len(section) for section in sections.values())
        self._folder.commits.rotate()
        self._folder.commits.trim(min(self._epoch + 1, self._epoch - self._options.history + 1))
        self._folder.snapshots.drop(self._epoch)

    def _load_snapshot(self) -> None:
        assert self._folder is not None
        snapshot = self._folder.snapshots.latest()
        if snapshot is None:
            return
        catalog = Catalog(joins=True)
        for _, text in snapshot.meta["ddl"]:
            catalog, _effect = catalog.replay(text)
        self._catalog = catalog
        self._interner = Interner.from_arrays(unpack_arrays(snapshot.sections["strings"]))
        for name, schema in catalog.tables.items():
            pool = Pool.from_arrays(unpack_arrays(snapshot.sections[f"table/{name}"]))
            self._tables[name] = Table(schema, self._interner, pool)
        for name, view in catalog.views.items():
            for m in view.compiled.program.maps:
                pool = Pool.from_arrays(unpack_arrays(snapshot.sections[f"map/{m.name}"]))
                if m.name == view.compiled.view.map:
                    self._maps[name] = MapStore(view.compiled, self._interner, pool)
                else:
                    self._beside[m.name] = EntryStore(m, self._interner, pool)
        self._created = dict(snapshot.meta["created"])
        self._keys = OrderedDict((key, epoch) for key, epoch in snapshot.meta["keys"])
        self._digest = snapshot.meta["digest"]
        self._epoch = self._snapshot_epoch = snapshot.epoch
        self._snapshot_bytes = sum(memoryview(section).nbytes for section in snapshot.sections.values())

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of a table or view, now or at an earlier epoch."""
        if name in self._tables:
            if at is not None and at != self._epoch:
                raise EverfreshError(Code.UNSUPPORTED, f"'{name}' is a table: earlier epochs are kept for views only")
            return self._now(name)
        store = self._maps[name]
        if at is None or at == self._epoch:
            return expand(store.rows())
        check_epoch(name, at, max(self.oldest, self._created[name]), self._epoch)
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
        for epoch in range(max(since, self._created[view]) + 1, self._epoch + 1):
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
        store = self._maps[view]
        parts = self._changes_after(view, since)
        if since < self._created[view]:  # what it held when it was created is its first change
            rows = self._at(store, self._created[view])
            first = net(rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64))))
            parts.insert(0, (self._created[view], first))
        schema = weighted_schema(store.view.columns).append(pa.field(EPOCH, pa.int64(), nullable=False))
        tables = [
            t.append_column(EPOCH, pa.array(np.full(t.num_rows, e, np.int64))).cast(schema) for e, t in parts if t.num_rows
        ]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def select(self, plan: p.Plan) -> pa.Table:
        """The result of an ad hoc query."""
        return adhoc.execute(plan, self.read)

    def matching(self, table: str, where: Expr | None, assign: Sequence[tuple[str, Expr]] = ()) -> tuple[Any, Any]:
        """The rows that satisfy `where`, and the same rows with `assign` applied."""
        rows = self.read(table)
        schema = self._tables[table].schema
        env = {c.name: Vector.from_arrow(rows.column(c.name), c.type) for c in schema.columns}
        if where is not None:
            verdict = evaluate_vector(where, env, rows.num_rows)
            keep = verdict.values if verdict.valid is None else verdict.values & verdict.valid
            rows = rows.filter(pa.array(keep))
            env = {name: vector.filter(keep) for name, vector in env.items()}
        new = rows
        for name, expr in assign:
            vector = evaluate_vector(expr, env, rows.num_rows)
            new = new.set_column(schema.names.index(name), new.schema.field(name), vector.to_arrow())
        return rows, new

    def verify(self, view: str) -> pa.Table:
        """The differences of a view from its recomputation: by the reference evaluator, or its plan run again."""
        return difference(self._recomputed(view), expand(self._maps[view].rows()))

    def _recomputed(self, view: str) -> pa.Table:
        """A view from the base tables alone: no map is read, not even of the views it reads."""
        compiled = self._catalog.views[view].compiled
        if len(compiled.bases) > 1 or compiled.reevaluated or len(compiled.program.maps) > 1:
            # Nested loops over several tables would not end: the plan is run, which shares no map either.
            return adhoc.execute(compiled.plan, lambda name: self._now(name) if name in self._tables else self._recomputed(name))
        tables = {name: relation(self._tables[name].schema, *self._tables[name].rows()) for name in compiled.bases}
        return expand(recompute(compiled, tables))

    def to_spark(self, name: str, at: int | None = None) -> Any:
        """Not here: this engine has no Spark session of its own."""
        raise EverfreshError(
            Code.UNSUPPORTED, "the local engine has no Spark session",
            hint="use to_arrow() and spark.createDataFrame(table), or connect with engine='spark'",
        )

    def statistics(self) -> dict[str, Any]:
        """Sizes, for people."""
        return {
            "epoch": self._epoch,
            "tables": {n: {"rows": len(t), "bytes": t.pool.nbytes} for n, t in self._tables.items()},
            "views": {n: {"entries": len(m.pool), "bytes": m.pool.nbytes} for n, m in self._maps.items()},
            "maps beside them": {n: {"entries": len(m.pool), "bytes": m.pool.nbytes} for n, m in self._beside.items()},
            "strings": {"distinct": len(self._interner), "bytes": self._interner.nbytes},
        }

    def close(self) -> None:
        """Release the folder."""
        if self._folder is not None:
            self._folder.close()

    def _compact_strings(self) -> None:
        """Forget strings that no row uses any more."""
        holders = [*self._tables.values(), *self._stores().values()]
        columns = [c for h in holders for c in h.codec.string_codes(h.pool.keys_at(h.pool.live()))]
        live = np.unique(np.concatenate(columns)) if columns else np.zeros(0, np.int64)
        if len(live) * 2 > len(self._interner):
            return
        remap = self._interner.compact(live[live != 0])
        for holder in holders:
            holder.remap_strings(remap)


def _at_row(
    error: EverfreshError, store: EntryStore, table: Table, change: Net, *, joined: bool
) -> EverfreshError:
    row = getattr(error, "row", None)
    place = f"view '{store.target.name.split('#')[0]}'"
    if row is not None and not joined:
        place += f", row {table.codec.decode(change.words[:, row : row + 1]).to_pylist()[0]}"
    return error.at(place)
