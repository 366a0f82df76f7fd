"""What units of tables and views hold: a worker's rows of every table, or its entries of maps.

A worker w has such units by stage: `base/w`, its rows of every table, `maps/w`, its entries of maps, and
`results/w`, `results3/w`, ..., those of maps on later levels (`everfresh.spark.jobs.stages`). What is on the
driver is the unit `driver`. All of them are the same content: a unit has what was put into it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.compiler import Catalog
from everfresh.distributed.worker.execute import Site
from everfresh.distributed.worker.wire import entries_table, entries_values
from everfresh.expr import stored, unstored
from everfresh.local.interpret.atoms import TableRows
from everfresh.local.state import LocalState
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.map_store import MapStore
from everfresh.local.store.pool import Pool, Values
from everfresh.local.store.reclaim import CodeHolders, Upkeep
from everfresh.local.store.stream_table import make_table
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Table
from everfresh.spark.jobs.job import DRIVER, World
from everfresh.spark.jobs.programs import incremental, placement_of
from everfresh.spark.jobs.stages import HOMES
from everfresh.spark.state.chain import Unit
from everfresh.spark.state.content import RESTORE, Role, register, worker_of
from everfresh.spark.state.rowlog import replay_rows
from everfresh.state import array_chunks, pack_table, unpack_arrays, unpack_table

if TYPE_CHECKING:
    from everfresh.spark.state.content import Section

_OF = "\n"  # between a view's identity and the name of one of its maps
_IDENTITY = re.compile(rf"(.*?@\d+)(?:{_OF}(.*))?\Z", re.DOTALL)
_CATALOGS_KEPT = 64
_PROGRAMS: dict[str, Catalog] = {}


def _programs(world: World) -> Catalog:
    """The views that run as programs: the same object for the same catalog, so that states are kept."""
    if world.digest not in _PROGRAMS:
        if len(_PROGRAMS) >= _CATALOGS_KEPT:
            _PROGRAMS.clear()
        _PROGRAMS[world.digest] = incremental(world.catalog)
    return _PROGRAMS[world.digest]


class TableContent:
    """The tables or maps of one worker, at one version."""

    def __init__(self, name: str, world: World, settle: Callable[[], None] = lambda: None) -> None:
        self.number = worker_of(name)
        """The worker, or -1 for the driver."""
        self._settle = settle
        self.interner = Interner()
        self.tables: dict[str, Table] = {}
        self.maps: dict[str, MapStore] = {}
        self.pools: dict[str, Pool] = {}
        """Maps of views that run as programs, by `store_id`."""
        self._epoch = 0
        self._site: Site | None = None
        self._blank: Site | None = None
        self._work: Counter[int] = Counter()
        self.upkeep = Upkeep()
        self._entries = 0
        self.sync(world)

    def sync(self, world: World) -> None:
        """Follow the catalog: objects that are gone are dropped, views that were recompiled keep their
        entries. A reader of an earlier epoch drops nothing that has come since."""
        if world.epoch < self._epoch:
            return
        self._epoch = world.epoch
        known = {*world.ids.values(), *world.committed}
        for identity in [i for i in (*self.tables, *self.maps) if i not in known]:
            self.tables.pop(identity, None)
            self.maps.pop(identity, None)
        self.pools = {i: pool for i, pool in self.pools.items() if _parts(i)[0] in known}
        for identity, store in self.maps.items():
            name = world.name_of(identity)
            compiled = world.catalog.views[name].compiled if name is not None else store.compiled
            if store.compiled != compiled:
                self.maps[identity] = MapStore(compiled, self.interner, store.pool)

    def table(self, world: World, name: str) -> Table:
        """The worker's rows of a table. Only strings of its key are interned: no view reads them here."""
        identity = world.ids[name]
        schema = world.catalog.tables[name]
        if identity not in self.tables:
            self.tables[identity] = make_table(schema, self.interner)
        elif self.tables[identity].schema is not schema:
            self.tables[identity] = self.tables[identity].declared(schema)
        return self.tables[identity]

    def site(self, world: World) -> Site:
        """The maps here of all views that run as programs, as the local engine holds them, ready to run
        blocks."""
        if self._site is None or not self._holds(self._site, world):
            self._settle()  # by the stores that did it: those that are made now would not hear of it
            self._site = self.site_of(world, _programs(world))
            self._site.work = self._work
        self._site.compile = world.compile
        return self._site

    def _holds(self, site: Site, world: World) -> bool:
        """Whether a place is of this catalog, and of the maps that are here now: a view that is made anew has
        the same text, but other maps."""
        state = site.state
        return state.catalog is _programs(world) and all(
            self.pools.get(store_id(world, view, m.name)) is state._store(m.name).pool
            for view, definition in state.catalog.views.items()
            for m in definition.compiled.program.maps
        )

    def forget(self) -> None:
        """The maps will be changed by others than `site` has: it is made anew."""
        self._settle()
        self._site = None

    def site_of(self, world: World, catalog: Catalog) -> Site:
        """The same for some of these views, whose statements are interpreted."""
        return Site(self.state_of(world, catalog), self.number, world.workers, placement_of(world.catalog))

    def blank(self, world: World) -> Site:
        """A place with none of the maps, for what is computed from changes alone."""
        if self._blank is None or self._blank.state.catalog is not _programs(world):
            state = LocalState.blank(_programs(world), self.interner)
            self._blank = Site(state, self.number, world.workers, placement_of(world.catalog))
            self._blank.work = self._work
        self._blank.compile = world.compile
        return self._blank

    def state_of(self, world: World, catalog: Catalog) -> LocalState:
        """The same for some of these views."""

        def pool(view: str, name: str) -> Pool | None:
            return self.pools.get(store_id(world, view, name))

        state = LocalState.blank(catalog, self.interner, pool)
        for view, definition in catalog.views.items():
            for m in definition.compiled.program.maps:
                self.pools[store_id(world, view, m.name)] = state._store(m.name).pool
        return state

    def map(self, world: World, name: str) -> MapStore:
        """The worker's entries of a view's map."""
        if not world.catalog.views[name].compiled.reevaluated:
            return self.site(world).state.maps[name]
        identity = world.ids[name]
        if identity not in self.maps:
            self.maps[identity] = MapStore(world.catalog.views[name].compiled, self.interner)
        return self.maps[identity]

    @property
    def nbytes(self) -> int:
        """Memory held."""
        texts = sum(t.codec.texts.nbytes for t in self.tables.values())
        return self.interner.nbytes + texts + sum(pool.nbytes for pool in self._pools())

    # -- memory ------------------------------------------------------------------------------------

    def reclaim(self, world: World, *, now: bool = False) -> None:
        """Free what is not used any more, if that is due, or `now`. The unit stands at a version that is
        committed, and nothing has been read for the next step."""
        entries = sum(len(pool) for pool in self._pools())
        self.upkeep.went(self._entries - entries)
        self._entries = entries
        if now or self.upkeep.due(self.interner):
            self._settle()
            held = self._held(world)
            if held is not None:
                self.upkeep.step(self.interner, held, now=now)

    def _pools(self) -> list[Pool]:
        tables, maps = self.tables.values(), self.maps.values()
        return [*(t.pool for t in tables), *(m.pool for m in maps), *self.pools.values()]

    def _held(self, world: World) -> CodeHolders | None:
        """All that holds codes of strings; None if a map here belongs to no view of this catalog, so that
        nobody knows which of its words are codes."""
        sites = [self.site(world)] if self.pools else []
        sites += [self._blank] if self._blank is not None else []
        stores = [store for site in sites for store in site.state.holders().stores]
        stores += [*map(TableRows, self.tables.values()), *self.maps.values()]
        known = {id(store.pool) for store in stores}
        return CodeHolders(stores) if all(id(pool) in known for pool in self._pools()) else None

    # -- segments and snapshots --------------------------------------------------------------------

    def replay(self, world: World, sections: Mapping[str, Any]) -> None:
        """Rows and entries as they are after a step: no arithmetic is needed."""
        for section, data in sections.items():
            kind, identity = section.split("/", 1)
            identity, inner = _parts(identity)
            name = world.name_of(identity)
            if name is None or kind == "changes":
                continue
            image = unpack_table(data)
            if inner:
                _put(self.site(world).state._store(inner), image)
            elif kind != "map":
                replay_rows(kind, self.table(world, name), image)
            else:
                store = self.map(world, name)
                store.pool.put(*entries_values(store.codec, store.layout, image))

    def sections(self, world: World) -> dict[str, Section]:
        """Strings, and the pools of tables and maps as arrays that are views of them."""
        sections: dict[str, Section] = {"strings": array_chunks(self.interner.as_arrays())}
        kept = set(world.ids.values())
        for i, table in self.tables.items():
            if i in kept:
                sections[f"table/{i}"] = array_chunks(table.to_arrays())
                if table.codec.kept:
                    sections[f"texts/{i}"] = array_chunks(table.texts_to_arrays())
        pools = {i: m.pool for i, m in self.maps.items()} | self.pools
        sections.update(
            {f"map/{i}": array_chunks(p.as_arrays()) for i, p in pools.items() if _parts(i)[0] in kept}
        )
        return sections

    def load(self, world: World, sections: Mapping[str, Any]) -> None:
        """Take what `sections` gave."""
        self.interner = Interner.from_arrays(unpack_arrays(sections["strings"]))
        for section, part in sections.items():
            kind, _, identity = section.partition("/")
            whole, (identity, inner) = identity, _parts(identity)
            known = world.name_of(identity)
            if known is None or kind == "texts":
                continue
            arrays = unpack_arrays(part)
            if inner:
                self.pools[whole] = Pool.from_arrays(arrays)
            elif kind == "table":
                texts = sections.get(f"texts/{identity}")
                kept = unpack_arrays(texts) if texts is not None else None
                self.tables[identity] = make_table(world.catalog.tables[known], self.interner, arrays, kept)
            elif kind == "map":
                compiled = world.catalog.views[known].compiled
                self.maps[identity] = MapStore(compiled, self.interner, Pool.from_arrays(arrays))


_AGAIN = f"{RESTORE}, or make the database anew from its tables (docs/durability.md, Damage)"
"""Maps can be had again from tables; tables from a backup only."""
BASE = Role("base", TableContent)
TABLE_ROLES = (BASE, *(Role(home, TableContent, _AGAIN) for home in HOMES[1:]))
"""Of the units that every worker has, by the stage that touches them."""
MAPS = TABLE_ROLES[1]
register(*TABLE_ROLES, Role(DRIVER, TableContent, _AGAIN))


def tables_in(unit: Unit) -> TableContent:
    """What a unit of tables or maps holds."""
    content = unit.content
    assert isinstance(content, TableContent)
    return content


def map_image(store: MapStore, words: Any, values: Values) -> bytes:
    """Entries of a map after a step."""
    return pack_table(entries_table(store.codec, words, values))


def store_id(world: World, view: str, name: str) -> str:
    """The identity of a map of a view that runs as a program."""
    return f"{world.ids[view]}{_OF}{stored(name)}"


def _parts(text: str) -> tuple[str, str]:
    """The identity of a table or view, and the map of it that a section is about, if it is about one."""
    found = _IDENTITY.match(text)
    return (text, "") if found is None else (found[1], unstored(found[2]) if found[2] else "")


def _put(store: EntryStore, image: pa.Table) -> None:
    """Entries as they are after a step; what follows the map is told."""
    words, values = entries_values(store.codec, store.layout, image)
    old = store.pool.find(words) if store.columns else store.slots()[: len(values)]
    store.leave(old[old >= 0])
    store.pool.put(words, values)
    new = store.pool.find(words) if store.columns else store.slots()[: len(values)]
    store.enter(new[new >= 0])
