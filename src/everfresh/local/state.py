"""The state of the in-process engine: tables and maps in pools, and what a statement or a batch does to them.

It knows nothing of epochs and files. DDL replaces tables and maps and never changes one, so that it can be
undone; a batch changes them under `changing`, which makes everything final or takes it all back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa

from everfresh.compiler import Catalog, Effect, ViewDef
from everfresh.delta.bags import WEIGHT, expand
from everfresh.errors import EverfreshError
from everfresh.expr import evaluate_vector
from everfresh.local import adhoc
from everfresh.local.atoms import Pooled, TableRows
from everfresh.local.entries import EntryStore, merged
from everfresh.local.latch import Latch
from everfresh.local.loading import load
from everfresh.local.mapstore import MapStore
from everfresh.local.netting import netted
from everfresh.local.phases import UNTIMED, Untimed
from everfresh.local.pool import Pool
from everfresh.local.publishing import Change
from everfresh.local.reading import RowSet
from everfresh.local.reads import columns_read
from everfresh.local.reclaim import Held, Past, Upkeep
from everfresh.local.recompute import recompute, relation
from everfresh.local.steps import Steps, Visited
from everfresh.local.stream_table import make_table
from everfresh.local.strings import Interner
from everfresh.local.table import Net, Table
from everfresh.local.wiring import Wiring
from everfresh.local.workers import Workers
from everfresh.program import Part, Progress
from everfresh.sql import plan as p
from everfresh.state import pack_arrays, unpack_arrays
from everfresh.state.interrupts import uninterrupted
from everfresh.types import TableSchema


class LocalState:
    """Tables, views and the maps beside them."""

    def __init__(self, phases: Untimed = UNTIMED, compile: str = "off") -> None:
        self.catalog = Catalog(joins=True, rows=True)
        self._compile = compile
        self.interner = Interner()
        self.tables: dict[str, Table] = {}
        self.maps: dict[str, MapStore] = {}
        self.beside: dict[str, EntryStore] = {}
        self.created: dict[str, int] = {}
        self.visited: Visited = {}
        """Entries that the last batch visited, by (view, relation of the trigger, statement)."""
        self.phases = phases
        self.latch = Latch()
        self.workers = Workers()
        self.running: list[Steps] = []
        """What has been done and is not shown to readers yet."""
        self.past: Past | None = None
        """What holds codes of strings for readers of earlier epochs."""
        self.upkeep = Upkeep()
        self._dropped: list[Table | EntryStore] = []
        """What DDL has dropped, and no reader sees any more when it is committed."""
        self._wiring: Wiring | None = None

    @staticmethod
    def blank(
        catalog: Catalog,
        interner: Interner | None = None,
        pools: Callable[[str, str], Pool | None] = lambda view, name: None,
    ) -> LocalState:
        """The tables and maps of a catalog, with nothing in them but the entries of these pools (by view and
        name of the map); all strings will be interned."""
        state = LocalState()
        state.catalog = catalog
        state.interner = interner if interner is not None else state.interner
        state.tables = {n: make_table(schema, state.interner) for n, schema in catalog.tables.items()}
        for table in state.tables.values():
            table.read(table.schema.names)
        for name, view in catalog.views.items():
            held = view.compiled.view.map
            state.maps[name] = MapStore(view.compiled, state.interner, pools(name, held))
            for m in view.compiled.program.maps:
                if m.name != held:
                    state.beside[m.name] = EntryStore(m, state.interner, pools(name, m.name))
            state.maps[name].beside(state._store)
        return state

    # -- DDL ---------------------------------------------------------------------------------------

    @contextmanager
    def altering(self) -> Iterator[None]:
        """Undo what DDL did if the block raises."""
        before = self.tables, self.maps, self.beside, self.created, self.catalog
        try:
            yield
        except BaseException:
            self.tables, self.maps, self.beside, self.created, self.catalog = before
            self._dropped.clear()
            self._wiring = None
            raise

    def execute(self, catalog: Catalog, effect: Effect, epoch: int, progress: Progress | None = None) -> None:
        """Make the state fit `catalog`, as a DDL statement asks."""
        before = self._every()
        # Readers go on with those that are there.
        self.tables, self.maps = dict(self.tables), dict(self.maps)
        self.beside, self.created = dict(self.beside), dict(self.created)
        kept = {  # maps of a view that goes may be another's now
            m.name
            for view in catalog.views.values()
            if view is not effect.create_view
            for m in view.compiled.program.maps
        }
        for name in effect.drop_views:
            for m in self.catalog.views[name].compiled.program.maps:
                if m.name not in kept:
                    self.beside.pop(m.name, None)
            del self.maps[name], self.created[name]
        for name in effect.drop_tables:
            del self.tables[name]
        if effect.alter_table is not None:
            self._alter(catalog, *effect.alter_table)
        if effect.create_table is not None:
            self.tables[effect.create_table.name] = make_table(effect.create_table, self.interner)
        if effect.create_view is not None:
            self._create(catalog, effect.create_view, progress)
            self.created[effect.create_view.name] = epoch
        self.catalog = catalog
        used = {id(store.pool) for store in self._every()}
        self._dropped += [store for store in before if id(store.pool) not in used]

    def _create(self, catalog: Catalog, view: ViewDef, progress: Progress | None) -> None:
        compiled = view.compiled
        for base in compiled.bases:
            if base in self.tables:
                table = self.tables[base]
                table.check_loadable(view.name)
                with self.latch:  # readers may be decoding the strings
                    table.read([table.schema.names[i] for i in columns_read(compiled.program, base)])
        store = self.maps[view.name] = MapStore(compiled, self.interner)
        for m in compiled.program.maps:
            if m.name != compiled.view.map:
                self.beside[m.name] = EntryStore(m, self.interner)
        store.beside(self._store)
        if compiled.reevaluated:
            store.commit(store.replace(self._evaluate(store)))
            return
        wiring = self._wired(catalog)  # not kept: indexes of the load go with it
        load(wiring, view.name, compiled.program, progress)  # type: ignore[arg-type]
        store.rows()  # an aggregate outside its type is found now, not at the first read

    def sizes(self) -> dict[str, int]:
        """How many different rows each table has."""
        return {name: len(table.pool) for name, table in self.tables.items()}

    def _alter(self, catalog: Catalog, old: TableSchema, new: TableSchema, default: Any) -> None:
        vector = None
        if default is not None:
            vector = evaluate_vector(default, {}, 1)
        self.tables[new.name] = self.tables[old.name].altered(new, vector)
        for view in catalog.views_on(new.name):
            for m in view.compiled.program.maps:
                if m.name in self.beside:
                    self.beside[m.name] = EntryStore(m, self.interner, self.beside[m.name].pool)
            self.maps[view.name] = MapStore(view.compiled, self.interner, self.maps[view.name].pool)
            self.maps[view.name].beside(self._store)

    def _wired(self, catalog: Catalog, compile: str = "off") -> Wiring:
        return Wiring(catalog, self.interner, self.tables, self.maps, self._store, compile)

    @property
    def wiring(self) -> Wiring:
        """The programs of the catalog over the tables and maps, with the indexes on tables."""
        if self._wiring is None or self._wiring.catalog is not self.catalog:
            self._wiring = self._wired(self.catalog, self._compile)
        return self._wiring

    # -- batches -----------------------------------------------------------------------------------

    def resolve(self, parts: Mapping[str, Sequence[Part]]) -> dict[str, Net]:
        """The net changes that the parts of a batch make to their tables; those that are something."""
        nets: dict[str, Net] = {}
        try:
            for name, of_table in parts.items():
                nets[name] = self.tables[name].resolve(of_table)
        except BaseException:
            self.discard(nets)
            raise
        self.upkeep.count(nets.values())
        if all(map(len, nets.values())):
            return nets
        nothing = {name: net for name, net in nets.items() if not len(net)}
        self.discard(nothing)
        return {name: net for name, net in nets.items() if name not in nothing}

    def discard(self, nets: Mapping[str, Net]) -> None:
        """Forget changes that were not added, or were taken back."""
        for name, net in nets.items():
            self.tables[name].discard(net)

    def changing(self, nets: Mapping[str, Net]) -> Changing:
        """Add net changes to tables and maps; final if the block succeeds, undone if anything raises."""
        return Changing(self, nets)

    def published(self, nets: Mapping[str, Net], steps: Steps) -> dict[str, Change]:
        """The changes of all views. Re-evaluated ones are computed now, each after what it reads."""
        changes: dict[str, Change] = {}
        for view in self.wiring.affected_by(tuple(nets)):
            store = self.maps[view.name]
            touched = steps.touched.get(store.target.name, [])
            if view.compiled.reevaluated and {*nets, *changes}.intersection(view.compiled.bases):
                self.phases.to("relations")
                touched = [store.replace(self._evaluate(store))]
                steps.did(store, touched[0])
                if self.wiring.statements(view.name):
                    words = store.words(touched[0].slots)
                    now = store.entries(touched[0].slots, {})
                    rows = RowSet(store.codec, *netted(words, now.n - touched[0].old.n))
                    steps.view(view.name, rows, touched[0])
            self.phases.to("publish")
            self.latch.breathe()
            if touched:
                changes[view.name] = store.change(merged(touched))
            elif view.name in steps.changes:
                changed = steps.changes[view.name]
                changes[view.name] = Change(
                    partial(store.table_of, changed), [(rows.codec, rows.words) for rows in changed]
                )
        return changes

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

    def _store(self, name: str) -> EntryStore:
        """A map by name: of a view, or beside one."""
        found = self.beside.get(name) or self.maps.get(name)
        if found is None or found.target.name != name:
            found = next(m for m in self.maps.values() if m.target.name == name)
        return found

    def _every(self) -> list[Table | EntryStore]:
        """All tables and maps."""
        return [*self.tables.values(), *self.stores().values()]

    def stores(self) -> dict[str, EntryStore]:
        """All maps by name."""
        return {**{m.target.name: m for m in self.maps.values()}, **self.beside}

    # -- reading -----------------------------------------------------------------------------------

    def recomputed(self, view: str) -> pa.Table:
        """A view from the base tables alone: no map is read, not even of the views it reads."""
        compiled = self.catalog.views[view].compiled
        program = compiled.program
        plain = len(compiled.bases) == 1 and compiled.bases[0] in self.tables and not compiled.reevaluated
        if not plain or len(program.maps) > 1 or program.relations or program.shared:
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
        self.reclaim(now=True)
        sections = {"strings": pack_arrays(self.interner.as_arrays())}
        sections.update({f"table/{n}": pack_arrays(t.to_arrays()) for n, t in self.tables.items()})
        sections.update(
            {f"texts/{n}": pack_arrays(t.texts_to_arrays()) for n, t in self.tables.items() if t.codec.kept}
        )
        sections.update({f"map/{n}": pack_arrays(m.pool.as_arrays()) for n, m in self.stores().items()})
        return sections

    @staticmethod
    def from_sections(
        ddl: list[str],
        created: Mapping[str, int],
        sections: Mapping[str, Any],
        phases: Untimed = UNTIMED,
        compile: str = "off",
    ) -> LocalState:
        """The inverse of `to_sections`, with the catalog that `ddl` makes."""
        state = LocalState(phases, compile)
        for entry in ddl:
            state.catalog, _ = state.catalog.replay(entry)
        state.interner = Interner.from_arrays(unpack_arrays(sections["strings"]))
        for name, schema in state.catalog.tables.items():
            arrays, texts = unpack_arrays(sections[f"table/{name}"]), sections.get(f"texts/{name}")
            state.tables[name] = make_table(
                schema, state.interner, arrays, unpack_arrays(texts) if texts is not None else None
            )
        for name, view in state.catalog.views.items():
            for m in view.compiled.program.maps:
                pool = Pool.from_arrays(unpack_arrays(sections[f"map/{m.name}"]))
                if m.name == view.compiled.view.map:
                    state.maps[name] = MapStore(view.compiled, state.interner, pool)
                else:
                    state.beside[m.name] = EntryStore(m, state.interner, pool)
            state.maps[name].beside(state._store)
        state.created = dict(created)
        return state

    # -- memory ------------------------------------------------------------------------------------

    def reclaim(self, *, now: bool = False) -> None:
        """Free what is not used any more, if that is due, or `now`; between batches, by the writer."""
        if self.running:
            return  # a batch holds codes too
        self._release()
        if not now and not self.upkeep.due(self.interner):
            return
        with self.latch, suppress(MemoryError):  # readers may be decoding strings; another time there is more
            self.upkeep.step(self.interner, self.held(), now=now)

    def held(self) -> Held:
        """All that holds codes of strings now."""
        return Held(self._stores(), self.past)

    def _release(self) -> None:
        """Give back the memory of what was dropped and is not used again: cycles would keep it for long."""
        if self._dropped:
            used = {id(store.pool) for store in self._every()}
            for store in [s for s in self._dropped if id(s.pool) not in used]:
                self.upkeep.went(len(store.pool))
                if isinstance(store, EntryStore):
                    store.clear()
                store.pool.clear()
            self._dropped.clear()

    def _stores(self) -> list[Pooled]:
        """Tables and maps with their slices. A wiring of an earlier catalog may still be asked for those on
        tables."""
        known = self._wiring.tables if self._wiring is not None else {}
        tables = [
            known[name] if name in known and known[name].table is table else TableRows(table)
            for name, table in self.tables.items()
        ]
        return [*tables, *self.stores().values()]


class Changing:
    """A block in which net changes are added to tables and maps: see `LocalState.changing`. From its
    beginning to its end there is no Ctrl-C."""

    __slots__ = ("_alone", "_nets", "_state", "_steps")

    def __init__(self, state: LocalState, nets: Mapping[str, Net]) -> None:
        state.visited.clear()
        self._state, self._nets, self._alone = state, nets, uninterrupted()
        self._steps = Steps(state.wiring, state.visited, state.phases, state.latch.breathe, state.workers)

    def __enter__(self) -> dict[str, Change]:
        state, steps = self._state, self._steps
        try:
            with state.latch:
                state.running.append(steps)
                # One relation after the other: a trigger reads what those before it have left, so that
                # cross terms between relations are not needed.
                for name, change in self._nets.items():
                    steps.table(name, change)
                state.phases.to("publish")
                changes = state.published(self._nets, steps)
            state.phases.to("commit")
            self._alone.__enter__()
        except BaseException:
            self._take_back()
            raise
        return changes

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is not None:
                self._take_back()
                return
            with self._state.latch:
                self._steps.commit()
                self._forget()
        finally:
            self._alone.__exit__()

    def _take_back(self) -> None:
        with self._state.latch:
            self._steps.rollback()
            self._forget()
            self._state.discard(self._nets)

    def _forget(self) -> None:
        if self._steps in self._state.running:
            self._state.running.remove(self._steps)
