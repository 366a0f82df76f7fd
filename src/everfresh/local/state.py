"""The state of the in-process engine: tables and maps in pools, and what a statement or a batch does to them.

It knows nothing of epochs and files. DDL replaces tables and maps and never changes one, so that it can be
undone; a batch changes them under `changing`, which makes everything final or takes it all back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.calculus import Query, Rel, relations
from everfresh.compiler import Catalog, Effect
from everfresh.delta.bags import WEIGHT, expand
from everfresh.errors import EverfreshError
from everfresh.expr import evaluate_vector
from everfresh.local import adhoc
from everfresh.local.columnar import MapDelta, flat_plan, run
from everfresh.local.entries import EntryStore, merged
from everfresh.local.joined import Rows, run_joined
from everfresh.local.mapstore import MapStore
from everfresh.local.pool import Pool, Touched
from everfresh.local.recompute import recompute, relation
from everfresh.local.strings import Interner
from everfresh.local.table import Net, Table
from everfresh.program import Progress
from everfresh.sql import plan as p
from everfresh.state import pack_arrays, unpack_arrays
from everfresh.state.interrupts import uninterrupted
from everfresh.types import TableSchema


class LocalState:
    """Tables, views and the maps beside them."""

    def __init__(self) -> None:
        self.catalog = Catalog(joins=True)
        self.interner = Interner()
        self.tables: dict[str, Table] = {}
        self.maps: dict[str, MapStore] = {}
        self.beside: dict[str, EntryStore] = {}
        self.created: dict[str, int] = {}

    # -- DDL ---------------------------------------------------------------------------------------

    @contextmanager
    def altering(self) -> Iterator[None]:
        """Undo what DDL did if the block raises."""
        before = (dict(self.tables), dict(self.maps), dict(self.beside), dict(self.created), self.catalog)
        try:
            yield
        except BaseException:
            self.tables, self.maps, self.beside, self.created, self.catalog = before
            raise

    def execute(self, catalog: Catalog, effect: Effect, epoch: int, progress: Progress | None = None) -> None:
        """Make the state fit `catalog`, as a DDL statement asks."""
        for name in effect.drop_views:
            for m in self.maps[name].compiled.program.maps:
                self.beside.pop(m.name, None)
            del self.maps[name], self.created[name]
        for name in effect.drop_tables:
            del self.tables[name]
        if effect.alter_table is not None:
            self._alter(catalog, *effect.alter_table)
        if effect.create_table is not None:
            self.tables[effect.create_table.name] = Table(effect.create_table, self.interner)
        if effect.create_view is not None:
            compiled = effect.create_view.compiled
            store = MapStore(compiled, self.interner)
            beside: dict[str, EntryStore] = {
                m.name: EntryStore(m, self.interner)
                for m in compiled.program.maps
                if m.name != compiled.view.map
            }
            self._load(store, progress)
            for other in beside.values():
                self._load_joined(other)
            self.maps[effect.create_view.name] = store
            self.beside.update(beside)
            self.created[effect.create_view.name] = epoch
        self.catalog = catalog

    def _alter(self, catalog: Catalog, old: TableSchema, new: TableSchema, default: Any) -> None:
        vector = None
        if default is not None:
            vector = evaluate_vector(default, {}, 1)
        self.tables[new.name] = self.tables[old.name].altered(new, vector)
        for view in catalog.views_on(new.name):
            self.maps[view.name] = MapStore(view.compiled, self.interner, self.maps[view.name].pool)
            for m in view.compiled.program.maps:
                if m.name in self.beside:
                    self.beside[m.name] = EntryStore(m, self.interner, self.beside[m.name].pool)

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
        table = self.tables[plan.terms[0].relation]
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
            table = self.tables[factor.name]
            slots = table.pool.live()
            return Rows(table.codec, table.pool.keys_at(slots), table.pool.gather(slots).n)

        if relations(store.target.definition):
            store.commit(store.add(run_joined(store.target, store.target.definition, rows)))

    # -- batches -----------------------------------------------------------------------------------

    @contextmanager
    def changing(self, nets: Mapping[str, Net]) -> Iterator[dict[str, pa.Table]]:
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

                # One relation after the other: a trigger reads what those before it have left, so that
                # cross terms between relations are not needed.
                for name, change in nets.items():
                    deltas = self._statements(name, change)
                    table = self.tables[name]
                    applied = table.apply(change)
                    undo.append((table.rollback, applied))
                    final.append((table.commit, applied))
                    for store, delta in deltas:
                        step(store, store.add(delta))
                changes: dict[str, pa.Table] = {}
                for view in self.catalog.affected_by(nets):
                    store = self.maps[view.name]
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
            return adhoc.execute(definition, self.rows)
        except EverfreshError as error:
            raise error.at(f"view '{store.view.name}'") from error

    def rows(self, name: str) -> pa.Table:
        """The rows of a table or view, with what the running batch has added."""
        if name not in self.tables:
            return expand(self.maps[name].rows())
        rows, counts = self.tables[name].rows()
        return expand(rows.append_column(WEIGHT, pa.array(counts)))

    def _statements(self, name: str, change: Net) -> list[tuple[EntryStore, MapDelta]]:
        """What the trigger of a table adds to maps, all read off the state before it."""
        table = self.tables[name]
        names = table.schema.names
        statements = [
            (self._store(s.target), flat_plan(self._store(s.target).target, s.expr), s.expr)
            for view in self.catalog.views_on(name)
            if not view.compiled.reevaluated
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
        return self.maps[name] if name in self.maps else self.beside[name]

    def stores(self) -> dict[str, EntryStore]:
        """All maps by name."""
        return {**self.maps, **self.beside}

    # -- reading -----------------------------------------------------------------------------------

    def recomputed(self, view: str) -> pa.Table:
        """A view from the base tables alone: no map is read, not even of the views it reads."""
        compiled = self.catalog.views[view].compiled
        if len(compiled.bases) > 1 or compiled.reevaluated or len(compiled.program.maps) > 1:
            # Nested loops over several tables would not end: the plan is run, which shares no map either.
            return adhoc.execute(
                compiled.plan, lambda name: self.rows(name) if name in self.tables else self.recomputed(name)
            )
        tables = {
            name: relation(self.tables[name].schema, *self.tables[name].rows()) for name in compiled.bases
        }
        return expand(recompute(compiled, tables))

    # -- snapshots ---------------------------------------------------------------------------------

    def to_sections(self) -> dict[str, bytes]:
        """Everything but the catalog, as sections of a snapshot."""
        self.compact_strings()
        sections = {"strings": pack_arrays(self.interner.to_arrays())}
        sections.update({f"table/{n}": pack_arrays(t.pool.to_arrays()) for n, t in self.tables.items()})
        sections.update({f"map/{n}": pack_arrays(m.pool.to_arrays()) for n, m in self.stores().items()})
        return sections

    @staticmethod
    def from_sections(ddl: list[str], created: Mapping[str, int], sections: Mapping[str, Any]) -> LocalState:
        """The inverse of `to_sections`, with the catalog that `ddl` makes."""
        state = LocalState()
        for entry in ddl:
            state.catalog, _ = state.catalog.replay(entry)
        state.interner = Interner.from_arrays(unpack_arrays(sections["strings"]))
        for name, schema in state.catalog.tables.items():
            state.tables[name] = Table(
                schema, state.interner, Pool.from_arrays(unpack_arrays(sections[f"table/{name}"]))
            )
        for name, view in state.catalog.views.items():
            for m in view.compiled.program.maps:
                pool = Pool.from_arrays(unpack_arrays(sections[f"map/{m.name}"]))
                if m.name == view.compiled.view.map:
                    state.maps[name] = MapStore(view.compiled, state.interner, pool)
                else:
                    state.beside[m.name] = EntryStore(m, state.interner, pool)
        state.created = dict(created)
        return state

    def compact_strings(self) -> None:
        """Forget strings that no row uses any more."""
        holders: list[Table | EntryStore] = [*self.tables.values(), *self.stores().values()]
        columns = [c for h in holders for c in h.codec.string_codes(h.pool.keys_at(h.pool.live()))]
        live = np.unique(np.concatenate(columns)) if columns else np.zeros(0, np.int64)
        if len(live) * 2 > len(self.interner):
            return
        remap = self.interner.compact(live[live != 0])
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
