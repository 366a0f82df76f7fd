"""The state of the in-process engine: tables and maps in pools, and what a statement or a batch does to them.

It knows nothing of epochs and files. DDL replaces tables and maps and never changes one, so that it can be
undone; a batch changes them under `changing`, which makes everything final or takes it all back.

An exception may strike between any two instructions. What it may leave behind is known afterwards: `at_work`
names what was being changed and is on no list yet, `running` what was done and neither made final nor taken
back, and everything else that is kept beside tables and maps can be made anew from them (`mend`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any

import pyarrow as pa

from everfresh.compiler import WIDE, Catalog, Effect, ViewDef
from everfresh.delta.bags import WEIGHT, expand
from everfresh.errors import EverfreshError
from everfresh.expr import evaluate_vector, stored
from everfresh.local import adhoc
from everfresh.local.batch.columns_read import columns_read
from everfresh.local.batch.journal import Journal, Visited
from everfresh.local.batch.linked_programs import ALIKE, EACH_TIME, Wiring
from everfresh.local.batch.loading import load
from everfresh.local.batch.overflow import Unsplit
from everfresh.local.batch.recompute import recompute, relation
from everfresh.local.batch.steps import Steps
from everfresh.local.interpret.atoms import Pooled, TableRows
from everfresh.local.kernels.netting import netted
from everfresh.local.latch import Latch, Turn
from everfresh.local.measured import ANEW, Measured
from everfresh.local.phases import UNTIMED, Untimed
from everfresh.local.relations.alike import Changes
from everfresh.local.relations.view_reader import RowSet
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.map_store import MapStore
from everfresh.local.store.pool import Pool
from everfresh.local.store.reclaim import CodeHolders, PastHolders, Upkeep
from everfresh.local.store.stream_table import make_table
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Net, Table
from everfresh.local.workers import Workers
from everfresh.program import Part, Progress
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.subqueries import gives_several
from everfresh.state import pack_arrays, unpack_arrays
from everfresh.state.interrupts import NOT_HELD
from everfresh.types import TableSchema


class Shaken(Exception):
    """Somebody was interrupted while it read: indexes may be half made, and have to be made anew."""


class LocalState:
    """Tables, views and the maps beside them."""

    def __init__(self, phases: Untimed = UNTIMED, compile: str = "off") -> None:
        self.catalog = Catalog(joins=True, rows=True, wide=WIDE)
        self._compile = compile
        self.interner = Interner()
        self.tables: dict[str, Table] = {}
        self.maps: dict[str, MapStore] = {}
        self.beside: dict[str, EntryStore] = {}
        self.created: dict[str, int] = {}
        self.visited: Visited = {}
        self.measured: Measured | None = None
        """What statements cost, once somebody has asked."""
        """Entries that the last batch visited, by (view, relation of the trigger, statement)."""
        self.phases = phases
        self.latch = Latch()
        self.workers = Workers()
        self.running: list[Journal] = []
        """What has been done and is not shown to readers yet."""
        self.at_work: list[Any] = []
        """What is between two states: if anything is here when nothing runs, the state cannot be trusted."""
        self.shaken = False
        """Whether somebody reads; whoever has the turn and finds it so knows of a reader that did not come to
        its end, and may have left indexes half made."""
        self.final: Callable[[], None] | None = None
        """What shows a change that is committed to readers."""
        self.held = NOT_HELD
        """Signals that wait for a moment in which the running change can be undone."""
        self.unsplit = Unsplit(self.catalog)
        self.past: PastHolders | None = None
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
            self._wiring = self.final = None
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
        if effect.redeclare is not None:
            old, new = effect.redeclare
            self.tables[new.name] = self.tables.pop(old.name).declared(new)
        if effect.rename is not None and effect.rename[0] in self.maps:
            self._rename(catalog, *effect.rename, epoch)
        if effect.create_table is not None:
            self.tables[effect.create_table.name] = make_table(effect.create_table, self.interner)
        if effect.create_view is not None:
            self._create(catalog, effect.create_view, progress)
            self.created[effect.create_view.name] = epoch
        self.catalog = catalog
        used = {id(store.pool) for store in self._every()}
        self._dropped += [store for store in before if id(store.pool) not in used]

    def _rename(self, catalog: Catalog, name: str, to: str, epoch: int) -> None:
        """A view by another name: its maps keep theirs; the changes that it tells begin anew."""
        compiled = catalog.views[to].compiled
        self.maps[to] = MapStore(compiled, self.interner, self.maps.pop(name).pool)
        self.maps[to].beside(self._store)
        del self.created[name]
        self.created[to] = epoch

    def _create(self, catalog: Catalog, view: ViewDef, progress: Progress | None) -> None:
        compiled = view.compiled
        for base in compiled.bases:
            if base in self.tables:
                table = self.tables[base]
                table.check_loadable(view.name)
                turn = Turn(self.latch)
                with turn.lock:  # readers may be decoding the strings
                    turn.come()
                    self.at_work.append(table)
                    table.read([table.schema.names[i] for i in columns_read(compiled.program, base)])
                    self.at_work.pop()
        store = self.maps[view.name] = MapStore(compiled, self.interner)
        for m in compiled.program.maps:
            if m.name != compiled.view.map:
                self.beside[m.name] = EntryStore(m, self.interner)
        store.beside(self._store)
        if compiled.reevaluated:
            store.commit(store.replace(self._evaluate(store)))
            return
        wiring = self._wired(catalog)  # not kept: indexes of the load go with it
        load(wiring, view.name, compiled.program, progress, self.held.check)  # type: ignore[arg-type]
        self.check_empty(wiring)
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

    def _wired(self, catalog: Catalog, compile: str = "off", before: Wiring | None = None) -> Wiring:
        return Wiring(catalog, self.interner, self.tables, self.maps, self._store, compile, before)

    @property
    def wiring(self) -> Wiring:
        """The programs of the catalog over the tables and maps, with the indexes on tables."""
        if self._wiring is None or self._wiring.catalog is not self.catalog:
            self._wiring = self._wired(self.catalog, self._compile, self._wiring)
        return self._wiring

    def ahead(self, view: str) -> None:
        """A view was made: if many look alike, code is planned and compiled before rows come, for some views
        at a time, since what is planned has to be linked first."""
        views = len(self.catalog.views)
        if self._compile != "off" and views >= ALIKE and views % EACH_TIME == 0:
            native = self.wiring.native
            if native is not None:
                native.ahead(frozenset([view]))

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

    def changing(self, nets: Mapping[str, Net], again: bool = False) -> Changing:
        """Add net changes to tables and maps; final if the block succeeds, undone if anything raises. Changes
        that were made before and come `again` are not judged."""
        return Changing(self, nets, again)

    def check_values(self, nets: Mapping[str, Net], view: str | None = None) -> None:
        """Refuse changes, or a new view, with values outside their types that maps do not see."""
        if self.unsplit.catalog is not self.catalog:
            self.unsplit = Unsplit(self.catalog, self.unsplit)
        if view is not None:
            self.unsplit.check_view(view, self.tables, self.rows)
        else:
            self.unsplit.check(nets, self.tables, self.rows)

    def check_empty(self, wiring: Wiring, journal: Journal | None = None) -> None:
        """Refuse a new view, or what a journal has, if a map has entries that has to be empty."""
        names: Iterable[str] = wiring.empty
        if journal is not None and not journal.alike:
            names = wiring.empty.keys() & journal.touched.keys()
        for name in names:
            store = self._store(name)
            if store.pool.gather(store.slots()).n.any():
                raise gives_several().at(f"view '{wiring.empty[name]}'")

    def finish(self, journal: Journal | None = None) -> None:
        """Show what is committed, and make final what was done for it. From here on nothing can be undone."""
        turn = Turn(self.latch)
        with turn.lock:
            turn.come()
            self.at_work.append(journal)
            if self.final is not None:
                show, self.final = self.final, None
                show()
            if journal is not None:
                journal.commit()
                if journal in self.running:
                    self.running.remove(journal)
            self.at_work.pop()

    @property
    def lost(self) -> bool:
        """Whether an exception has left something that `mend` cannot make whole."""
        kept = all(table.codec.texts.whole for table in self.tables.values())
        return bool(self.at_work) or not self.interner.whole or not kept

    def check(self) -> None:
        """Raise `Shaken` if somebody was interrupted who read: whoever reads now has the turn."""
        turn = Turn(self.latch)
        with turn.lock:
            turn.come()
            if self.shaken:
                raise Shaken

    def mend(self) -> None:
        """After an exception that nobody foresaw: take back what was done, and make anew what is kept beside
        tables and maps. What strikes here can be done again, but for taking back."""
        turn = Turn(self.latch)
        with turn.lock:
            turn.come()
            self._dropped.clear()  # perhaps they were not
            while self.running:
                self.at_work.append(self.running[-1])
                self.running[-1].rollback()
                self.running.pop()
                self.at_work.pop()
            for store in self.stores().values():
                store.clear()
            for shown in self.maps.values():
                shown.beside(self._store)
            self._wiring, self.final, self.held, self.shaken = None, None, NOT_HELD, False
            self.unsplit.forget()

    def published(self, nets: Mapping[str, Net], steps: Steps, breathe: Callable[[], None]) -> Changes:
        """The changes of all views. Re-evaluated ones are computed now, each after what it reads."""
        changes, wiring, journal = Changes(), self.wiring, steps.journal
        for alike in journal.alike:
            alike.publish(changes, journal.touched)
        done = set(changes) if journal.alike else ()
        for view in wiring.affected_by(tuple(nets)):
            if view.name in done:
                continue
            store = self.maps[view.name]
            if view.compiled.reevaluated and {*nets, *changes}.intersection(view.compiled.bases):
                self.phases.to("relations")
                since = perf_counter()
                touched = steps.replaced(store, self._evaluate(store))
                if self.measured is not None:
                    spent, made = perf_counter() - since, len(touched.slots)
                    self.measured.add((view.name, "", ANEW), spent, made=made)
                if wiring.statements(view.name):
                    words = store.words(touched.slots)
                    now = store.entries(touched.slots, {})
                    rows = RowSet(store.codec, *netted(words, now.n - touched.old.n))
                    steps.view(view.name, rows, touched)
            self.phases.to("publish")
            breathe()
            change = journal.published(store, wiring.under)
            if change is not None:
                changes[view.name] = change
        return changes

    def _evaluate(self, store: MapStore) -> pa.Table:
        """The rows of a re-evaluated view over the tables and views as they are now."""
        definition = store.compiled.map.definition
        assert isinstance(definition, p.Plan)
        try:
            return adhoc.execute(definition, self.rows)
        except EverfreshError as error:
            raise error.at(f"view '{store.view.name}'") from error

    def rows(self, name: str, among: pa.Table | None = None) -> pa.Table:
        """The rows of a table or view, with what the running batch has added; `among` has values of some
        columns: at least the rows that have them."""
        self.held.check()
        if name not in self.tables:
            return expand(self.maps[name].rows())
        rows, counts = self.tables[name].rows(among=among)
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
        sections.update(
            {f"map/{stored(n)}": pack_arrays(m.pool.as_arrays()) for n, m in self.stores().items()}
        )
        return sections

    @staticmethod
    def from_sections(
        ddl: list[str],
        created: Mapping[str, int],
        sections: Mapping[str, Any],
        phases: Untimed = UNTIMED,
        compile: str = "off",
        catalog: Catalog | None = None,
    ) -> LocalState:
        """The inverse of `to_sections`, with the catalog that `ddl` makes, if that is not known."""
        state = LocalState(phases, compile)
        for entry in ddl if catalog is None else ():
            state.catalog, _ = state.catalog.replay(entry)
        state.catalog = state.catalog if catalog is None else catalog
        state.interner = Interner.from_arrays(unpack_arrays(sections["strings"]))
        for name, schema in state.catalog.tables.items():
            arrays, texts = unpack_arrays(sections[f"table/{name}"]), sections.get(f"texts/{name}")
            state.tables[name] = make_table(
                schema, state.interner, arrays, unpack_arrays(texts) if texts is not None else None
            )
        for name, view in state.catalog.views.items():
            for m in view.compiled.program.maps:
                section = f"map/{stored(m.name)}"
                if section not in sections:  # of a release that had no other spelling for views like `v#0`
                    section = f"map/{m.name}"
                pool = Pool.from_arrays(unpack_arrays(sections[section]))
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
        turn = Turn(self.latch)
        with turn.lock:  # readers may be decoding strings
            turn.come()
            with suppress(MemoryError):  # another time there is more
                self.upkeep.step(self.interner, self.holders(), now=now)

    def holders(self) -> CodeHolders:
        """All that holds codes of strings now."""
        return CodeHolders(self._stores(), self.past)

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
    """A block in which net changes are added to tables and maps: see `LocalState.changing`."""

    __slots__ = ("_again", "_journal", "_nets", "_state", "_steps", "_turn")

    def __init__(self, state: LocalState, nets: Mapping[str, Net], again: bool) -> None:
        state.visited.clear()
        self._again = again
        self._state, self._nets = state, nets
        self._turn = Turn(state.latch)
        self._journal = Journal(state.visited)
        self._steps = Steps(
            state.wiring, self._journal, state.phases, self._breathe, state.workers, state.at_work,
            state.measured,
        )  # fmt: skip
        if state.measured is not None:
            state.measured.begin()

    def __enter__(self) -> Changes:
        state, steps, turn = self._state, self._steps, self._turn
        try:
            with turn.lock:
                turn.come()
                if state.shaken:
                    raise Shaken
                state.running.append(self._journal)
                # One relation after the other: a trigger reads what those before it have left, so that
                # cross terms between relations are not needed.
                for name, change in self._nets.items():
                    steps.table(name, change)
                state.phases.to("publish")
                changes = state.published(self._nets, steps, self._breathe)
                if not self._again:
                    state.check_empty(state.wiring, self._journal)
                    state.check_values(self._nets)
                else:
                    state.unsplit.forget()
                if state.shaken:
                    raise Shaken
            state.phases.to("commit")
        except BaseException as error:
            self._take_back(error)
            raise
        return changes

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *where: object) -> None:
        if error is not None:
            self._take_back(error)
        else:
            self._state.finish(self._journal)

    def _breathe(self) -> None:
        """What is done and the list of it agree: others may read, and the change can be undone."""
        if self._state.held.caught:
            self._state.held.check()
        self._turn.breathe()

    def _take_back(self, error: BaseException) -> None:
        """Undo everything, unless nobody knows what there is to undo."""
        state, journal = self._state, self._journal
        if state.measured is not None:
            state.measured.forget()
        if isinstance(error, EverfreshError):
            state.at_work.clear()  # it refused its change, whole
        if state.at_work:
            return
        turn = Turn(state.latch)
        with turn.lock:
            turn.come()
            if journal in state.running and state.running[-1] is not journal:
                return  # one that came later was not taken back: all of them are, in order, by `mend`
            state.at_work.append(journal)
            state.final = None
            journal.rollback()
            if journal in state.running:
                state.running.remove(journal)
            state.discard(self._nets)
            state.at_work.pop()
