"""State units: the part of a database's state that one worker keeps, and how a task brings it to a version.

A worker w has three units: `base/w`, its rows of every table, `maps/w`, its entries of maps, and
`results/w`, those of results that are held apart from the maps they are computed from. What is on the driver
is the unit `driver`. A process keeps the units it has served in a cache; it finds a unit there at the right
version, takes back one uncommitted step, catches up from segments, or rebuilds from a snapshot and segments.
No cache is truth: dropping all of them changes latency only. A unit is used only at the tag that was asked
for, and the driver opens none but its own.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.compiler import Catalog
from everfresh.distributed.execute import Site
from everfresh.distributed.wire import entries_table, entries_values
from everfresh.errors import Code, EverfreshError
from everfresh.expr import stored, unstored
from everfresh.local.atoms import TableRows
from everfresh.local.entries import EntryStore
from everfresh.local.mapstore import MapStore
from everfresh.local.pool import Pool, Values
from everfresh.local.reclaim import Held, Upkeep
from everfresh.local.state import LocalState
from everfresh.local.stream_table import make_table
from everfresh.local.strings import Interner
from everfresh.local.table import Table
from everfresh.spark.jobs import DRIVER, Base, Link, World
from everfresh.spark.programs import incremental, placement_of
from everfresh.spark.rowlog import replay_rows
from everfresh.state import (
    Commit,
    array_chunks,
    open_sealed,
    pack_table,
    seal_chunks,
    unpack_arrays,
    unpack_table,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

_OF = "\n"  # between a view's identity and the name of one of its maps
_IDENTITY = re.compile(rf"(.*?@\d+)(?:{_OF}(.*))?\Z", re.DOTALL)
_CACHE: OrderedDict[tuple[str, str], Unit] = OrderedDict()
_SIZES: dict[tuple[str, str], int] = {}
_CACHE_BYTES = 4 << 30
_CATALOGS_KEPT = 64


_PROGRAMS: dict[str, Catalog] = {}


def _programs(world: World) -> Catalog:
    """The views that run as programs: the same object for the same catalog, so that states are kept."""
    if world.digest not in _PROGRAMS:
        if len(_PROGRAMS) >= _CATALOGS_KEPT:
            _PROGRAMS.clear()
        _PROGRAMS[world.digest] = incremental(world.catalog)
    return _PROGRAMS[world.digest]


class Unit:
    """The tables or maps of one worker, at one version."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.interner = Interner()
        self.tables: dict[str, Table] = {}
        self.maps: dict[str, MapStore] = {}
        self.pools: dict[str, Pool] = {}
        """Maps of views that run as programs, by `store_id`."""
        self._epoch = 0
        self._site: Site | None = None
        self._blank: Site | None = None
        self._work: Counter[int] = Counter()
        self.version: tuple[int, str] = (0, "")
        self.before: tuple[int, str] | None = None
        self._undo: list[Callable[[], None]] = []
        self._final: list[Callable[[], None]] = []
        self.dirty = False
        self.upkeep = Upkeep()
        self._entries = 0
        self.sync(world)

    # -- contents ----------------------------------------------------------------------------------

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
        if identity not in self.tables:
            self.tables[identity] = make_table(world.catalog.tables[name], self.interner)
        return self.tables[identity]

    def site(self, world: World) -> Site:
        """The maps here of all views that run as programs, as the local engine holds them, ready to run
        blocks."""
        if self._site is None or not self._holds(self._site, world):
            self.settle()  # by the stores that did it: those that are made now would not hear of it
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
        self.settle()
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

    @property
    def number(self) -> int:
        """The worker, or -1 for the driver."""
        return _of(self.name)

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
            self.settle()
            held = self._held(world)
            if held is not None:
                self.upkeep.step(self.interner, held, now=now)

    def _pools(self) -> list[Pool]:
        tables, maps = self.tables.values(), self.maps.values()
        return [*(t.pool for t in tables), *(m.pool for m in maps), *self.pools.values()]

    def _held(self, world: World) -> Held | None:
        """All that holds codes of strings; None if a map here belongs to no view of this catalog, so that
        nobody knows which of its words are codes."""
        sites = [self.site(world)] if self.pools else []
        sites += [self._blank] if self._blank is not None else []
        stores = [store for site in sites for store in site.state.holders().stores]
        stores += [*map(TableRows, self.tables.values()), *self.maps.values()]
        known = {id(store.pool) for store in stores}
        return Held(stores) if all(id(pool) in known for pool in self._pools()) else None

    # -- steps -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a step: what the last one left open becomes final, and an error from here on spoils the
        unit."""
        self.settle()
        self.dirty = True

    def settle(self) -> None:
        """What the last step left open becomes final: it is not taken back any more."""
        for fn in self._final:
            fn()
        # In this order: an old undo must never serve a new step.
        self._undo, self._final, self.before = [], [], None

    def record(self, undo: Callable[[], None], final: Callable[[], None]) -> None:
        """Note how one change of the step is taken back and how it is made final."""
        self._undo.append(undo)
        self._final.append(final)

    def end(self, epoch: int, tag: str) -> None:
        """Finish a step: the unit stands at its new version, and can go back one."""
        self.before, self.version, self.dirty = self.version, (epoch, tag), False

    def unchanged(self) -> None:
        """End a step that did nothing, or took back itself what it did."""
        self.dirty = False

    def rollback(self) -> bool:
        """Take the last step back; False if it cannot be."""
        if self.dirty or self.before is None:
            return False
        for fn in reversed(self._undo):
            fn()
        self.version, self.before, self._undo, self._final = self.before, None, [], []
        return True


# -- segments --------------------------------------------------------------------------------------


def map_image(store: MapStore, words: Any, values: Values) -> bytes:
    """Entries of a map after a step."""
    return pack_table(entries_table(store.codec, words, values))


def seal_segment(
    unit: str, epoch: int, nonce: str, tag_in: str, sections: Mapping[str, Buffer | list[Buffer]]
) -> tuple[list[Buffer], str]:
    """A segment, in chunks, and the tag of the version after it: the digest of the segment, which holds the
    tag before it and the job that made it. So segments of different jobs never have the same tag, and those
    of one job have it if they are equal."""
    header = {"unit": unit, "epoch": epoch, "nonce": nonce, "tag_in": tag_in}
    chunks = seal_chunks("segment", header, sections)
    return chunks, bytes(chunks[-1]).hex()


def next_tag(tag_in: str, data: bytes) -> str:
    """The tag after a step that leaves no segment, of which `data` says what it did."""
    return blake2b(tag_in.encode() + data, digest_size=16).hexdigest()


def _of(unit: str) -> int:
    return -1 if unit == DRIVER else worker_of(unit)


def worker_of(unit: str) -> int:
    """The worker of a unit."""
    return int(unit.split("/")[1])


def folder_name(unit: str) -> str:
    """Where a unit's files lie, below `parts/`."""
    return unit if unit == DRIVER else f"{worker_of(unit):04d}"


def segment_file(unit: str, epoch: int, tag: str) -> str:
    """The file of a segment, below `parts/`: its name stands for its contents."""
    return f"{folder_name(unit)}/s-{epoch:010d}-{unit.split('/', maxsplit=1)[0]}-{tag}.seg"


def read_segment(world: World, unit: str, link: Link) -> Any:
    """The segment of a link, from its file or a commit record; refused if it is not what the chain names."""
    if link.data is not None:
        data: Any = link.data
        name = f"a segment of {unit} on its way"
    elif not link.file.startswith("#"):
        name, data = _found(world, unit, link, f"parts/{link.file}")
    else:
        name, data = _found(world, unit, link, f"commits/{link.epoch:010d}")
        commit = Commit.decode(data, name)
        data, name = commit.sections[f"segment/{unit}{link.file}"], f"{name} (segment of {unit})"
    sealed = open_sealed(data, "segment", name, _hint(unit))
    if sealed.header["unit"] != unit or sealed.digest != link.tag:
        raise _damaged(name, unit, link, "does not continue the chain")
    return sealed


def _found(world: World, unit: str, link: Link, file: str) -> tuple[str, bytes]:
    """Where a file of the database is, for messages, and its contents."""
    name = f"{world.root}/{file}"
    try:
        return name, world.store.read(file)
    except FileNotFoundError:
        raise _damaged(name, unit, link, "is missing") from None


def _damaged(name: str, unit: str, link: Link, how: str) -> EverfreshError:
    return EverfreshError(
        Code.DAMAGED,
        f"{name} {how}: it holds epoch {link.epoch} of {unit}",
        hint=_hint(unit),
    )


def _hint(unit: str) -> str:
    """How to go on without a file of a unit. Maps can be had again from tables; tables from a backup only."""
    restore = "restore the folder from a backup"
    if unit.startswith("base/"):
        return restore
    return f"{restore}, or make the database anew from its tables (docs/durability.md, Damage)"


def replay(unit: Unit, world: World, link: Link) -> None:
    """Bring a unit forward by one segment: after-images need no arithmetic."""
    sealed = read_segment(world, unit.name, link)
    if sealed.header["tag_in"] != unit.version[1]:
        raise _damaged(f"segment {link.tag}", unit.name, link, "does not follow the version before it")
    unit.begin()
    for section, data in sealed.sections.items():
        kind, identity = section.split("/", 1)
        identity, inner = _parts(identity)
        name = world.name_of(identity)
        if name is None or kind == "changes":
            continue
        image = unpack_table(data)
        if inner:
            _put(unit.site(world).state._store(inner), image)
        elif kind != "map":
            replay_rows(kind, unit.table(world, name), image)
        else:
            store = unit.map(world, name)
            store.pool.put(*entries_values(store.codec, store.layout, image))
    unit.version, unit.dirty = (link.epoch, link.tag), False


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


# -- snapshots -------------------------------------------------------------------------------------


def snapshot_file(unit: str, version: tuple[int, str]) -> str:
    """The file of a unit at a version, below `parts/`."""
    epoch, tag = version
    return f"{folder_name(unit)}/c-{epoch:010d}-{unit.split('/', maxsplit=1)[0]}-{tag or 'empty'}.snap"


def write_snapshot(unit: Unit, world: World, version: tuple[int, str]) -> str:
    """Write a whole unit to a file named by its version; returns the name."""
    return put_snapshot(world, snapshot_file(unit.name, version), pack_snapshot(unit, world, version))


def put_snapshot(world: World, file: str, data: Buffer | list[Buffer]) -> str:
    """Put a packed unit into its file, unless somebody has; returns the name."""
    world.store.create(f"parts/{file}", data, world.durable)
    return file


def pack_snapshot(unit: Unit, world: World, version: tuple[int, str]) -> list[Buffer]:
    """A whole unit as a sealed file, in chunks that are views of it: good until it changes."""
    sections: dict[str, Buffer | list[Buffer]] = {"strings": array_chunks(unit.interner.as_arrays())}
    kept = set(world.ids.values())
    for i, table in unit.tables.items():
        if i in kept:
            sections[f"table/{i}"] = array_chunks(table.to_arrays())
            if table.codec.kept:
                sections[f"texts/{i}"] = array_chunks(table.texts_to_arrays())
    pools = {i: m.pool for i, m in unit.maps.items()} | unit.pools
    sections.update(
        {f"map/{i}": array_chunks(p.as_arrays()) for i, p in pools.items() if _parts(i)[0] in kept}
    )
    epoch, tag = version
    return seal_chunks("unit", {"unit": unit.name, "epoch": epoch, "tag": tag}, sections)


def load_snapshot(name: str, world: World, link: Link) -> Unit:
    """A unit from its snapshot."""
    path, data = _found(world, name, link, f"parts/{link.file}")
    sealed = open_sealed(data, "unit", path, _hint(name))
    if sealed.header["unit"] != name or sealed.header["tag"] != link.tag:
        raise _damaged(path, name, link, "is a snapshot of something else")
    unit = Unit(name, world)
    unit.interner = Interner.from_arrays(unpack_arrays(sealed.sections["strings"]))
    for section, part in sealed.sections.items():
        kind, _, identity = section.partition("/")
        whole, (identity, inner) = identity, _parts(identity)
        known = world.name_of(identity)
        if known is None or kind == "texts":
            continue
        arrays = unpack_arrays(part)
        if inner:
            unit.pools[whole] = Pool.from_arrays(arrays)
        elif kind == "table":
            texts = sealed.sections.get(f"texts/{identity}")
            kept = unpack_arrays(texts) if texts is not None else None
            unit.tables[identity] = make_table(world.catalog.tables[known], unit.interner, arrays, kept)
        elif kind == "map":
            compiled = world.catalog.views[known].compiled
            unit.maps[identity] = MapStore(compiled, unit.interner, Pool.from_arrays(arrays))
    unit.version = (link.epoch, link.tag)
    return unit


# -- opening ---------------------------------------------------------------------------------------


def bring_to(base: Base, world: World) -> tuple[Unit, str]:
    """The unit at the version `base` names, for the writer, and how it was had: hit, catch-up or rebuild."""
    _never_in_driver(base.unit)
    key = (world.database, base.unit)
    unit = _CACHE.get(key)
    if unit is not None and _path(unit, base) is None:
        unit = unit if unit.rollback() and _path(unit, base) is not None else None
    how = (
        "hit"
        if unit is not None and unit.version == base.version
        else "catch-up"
        if unit is not None
        else "rebuild"
    )
    if unit is None:
        _CACHE.pop(key, None)
        _SIZES.pop(key, None)
        unit = rebuild(base, world)
    else:
        unit.sync(world)
        for link in _path(unit, base) or ():
            replay(unit, world, link)
    _require(unit, base)
    unit.reclaim(world)
    _CACHE[key] = unit
    _CACHE.move_to_end(key)
    _evict(key)
    return unit, how


def cached_bytes(world: World, worker: int) -> int:
    """How much of a worker's state this process has."""
    return sum(size for (of, name), size in _SIZES.items() if of == world.database and _of(name) == worker)


def open_for_reading(base: Base, world: World) -> Unit:
    """The unit at exactly the version `base` names; a cached unit that is ahead is left alone and a
    private copy made."""
    _never_in_driver(base.unit)
    unit = _CACHE.get((world.database, base.unit))
    if unit is None or _path(unit, base) is not None:
        return bring_to(base, world)[0]
    return rebuild(base, world)


def open_for_snapshot(base: Base, world: World) -> Unit:
    """The unit at exactly the committed version `base` names, beside batches that may have gone on: the last
    step of a cached unit is taken back, if that helps (a batch finds it in its segment); one that is further
    ahead, or spoilt, is left to the batches and a private copy made."""
    _never_in_driver(base.unit)
    unit = _CACHE.get((world.database, base.unit))
    if unit is None or _path(unit, base) is not None:
        return bring_to(base, world)[0]
    if unit.before is not None and base.path_from(unit.before) is not None and unit.rollback():
        return bring_to(base, world)[0]
    return rebuild(base, world)


def rebuild(base: Base, world: World) -> Unit:
    """The unit from its snapshot and segments alone."""
    unit = (
        load_snapshot(base.unit, world, base.snapshot)
        if base.snapshot is not None
        else Unit(base.unit, world)
    )
    for link in base.since(unit.version[0]):
        replay(unit, world, link)
    _require(unit, base)
    return unit


def _path(unit: Unit, base: Base) -> tuple[Link, ...] | None:
    """The segments that bring a unit to `base`; None if it cannot be brought there, or is spoilt."""
    return None if unit.dirty else base.path_from(unit.version)


def _require(unit: Unit, base: Base) -> None:
    if unit.version != base.version:
        raise EverfreshError(
            Code.DAMAGED,
            f"{base.unit} is at {unit.version} where {base.version} was asked for",
            hint=_hint(base.unit),
        )


def _evict(keep: tuple[str, str]) -> None:
    # The others have not changed since they were counted, but for the step that each has taken then.
    _SIZES[keep] = _CACHE[keep].nbytes
    total = sum(_SIZES.values())
    for key in list(_CACHE):
        if total <= _CACHE_BYTES:
            return
        if key[0] != keep[0] or _of(key[1]) != _of(keep[1]):  # a worker's own units serve one batch
            del _CACHE[key]
            total -= _SIZES.pop(key, 0)


def _never_in_driver(unit: str) -> None:
    from pyspark import TaskContext

    if unit != DRIVER and TaskContext.get() is None:
        raise AssertionError(f"{unit} may be opened in a task only: the driver never holds distributed state")
