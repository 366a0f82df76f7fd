"""The chain of a unit of state: its versions, and how a task brings it to one.

A unit (`everfresh.spark.state.content`) has a *chain*: each step gets a tag and leaves a segment, and a
snapshot stands for the steps before it. All of that is here, whatever the unit holds: a domain brings only
its content. A process keeps the units it has served in a cache; it finds a unit there at the right version,
takes back one uncommitted step, catches up from segments, or rebuilds from a snapshot and segments. No cache
is truth: dropping all of them changes latency only. A unit is used only at the tag that was asked for, and
the driver opens none but its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.spark.jobs.job import DRIVER, Base, Link, World
from everfresh.spark.state.content import Content, role_name, role_of, worker_of
from everfresh.state import Commit, open_sealed, seal_chunks

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from everfresh.spark.state.content import Section

_CACHE: OrderedDict[tuple[str, str], Unit] = OrderedDict()
_SIZES: dict[tuple[str, str], int] = {}
_CACHE_BYTES = 4 << 30


class Unit:
    """A content at one version."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.version: tuple[int, str] = (0, "")
        self.before: tuple[int, str] | None = None
        self._undo: list[Callable[[], None]] = []
        self._final: list[Callable[[], None]] = []
        self.dirty = False
        self.content: Content = role_of(name).make(name, world, self.settle)

    @property
    def number(self) -> int:
        """The worker, or -1 for the driver."""
        return worker_of(self.name)

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

    def take_back(self) -> None:
        """End a step that failed by taking back what it has recorded."""
        for fn in reversed(self._undo):
            fn()
        self._undo, self._final, self.dirty = [], [], False

    def rollback(self) -> bool:
        """Take the last step back; False if it cannot be."""
        if self.dirty or self.before is None:
            return False
        self.take_back()
        self.version, self.before = self.before, None
        return True


# -- segments --------------------------------------------------------------------------------------


def seal_segment(
    unit: str, epoch: int, nonce: str, tag_in: str, sections: Mapping[str, Section]
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


def folder_name(unit: str) -> str:
    """Where a unit's files lie, below `parts/`."""
    return unit if unit == DRIVER else f"{worker_of(unit):04d}"


def segment_file(unit: str, epoch: int, tag: str) -> str:
    """The file of a segment, below `parts/`: its name stands for its contents."""
    return f"{folder_name(unit)}/s-{epoch:010d}-{role_name(unit)}-{tag}.seg"


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
    sealed = open_sealed(data, "segment", name, role_of(unit).hint)
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
        hint=role_of(unit).hint,
    )


def replay(unit: Unit, world: World, link: Link) -> None:
    """Bring a unit forward by one segment: after-images need no arithmetic."""
    sealed = read_segment(world, unit.name, link)
    if sealed.header["tag_in"] != unit.version[1]:
        raise _damaged(f"segment {link.tag}", unit.name, link, "does not follow the version before it")
    unit.begin()
    unit.content.replay(world, sealed.sections)
    unit.version, unit.dirty = (link.epoch, link.tag), False


# -- snapshots -------------------------------------------------------------------------------------


def snapshot_file(unit: str, version: tuple[int, str]) -> str:
    """The file of a unit at a version, below `parts/`."""
    epoch, tag = version
    return f"{folder_name(unit)}/c-{epoch:010d}-{role_name(unit)}-{tag or 'empty'}.snap"


def write_snapshot(unit: Unit, world: World, version: tuple[int, str]) -> str:
    """Write a whole unit to a file named by its version; returns the name."""
    return put_snapshot(world, snapshot_file(unit.name, version), pack_snapshot(unit, world, version))


def put_snapshot(world: World, file: str, data: Buffer | list[Buffer]) -> str:
    """Put a packed unit into its file, unless somebody has; returns the name."""
    world.store.create(f"parts/{file}", data, world.durable)
    return file


def pack_snapshot(unit: Unit, world: World, version: tuple[int, str]) -> list[Buffer]:
    """A whole unit as a sealed file, in chunks that are views of it: good until it changes."""
    epoch, tag = version
    return seal_chunks("unit", {"unit": unit.name, "epoch": epoch, "tag": tag}, unit.content.sections(world))


def load_snapshot(name: str, world: World, link: Link) -> Unit:
    """A unit from its snapshot."""
    path, data = _found(world, name, link, f"parts/{link.file}")
    sealed = open_sealed(data, "unit", path, role_of(name).hint)
    if sealed.header["unit"] != name or sealed.header["tag"] != link.tag:
        raise _damaged(path, name, link, "is a snapshot of something else")
    unit = Unit(name, world)
    unit.content.load(world, sealed.sections)
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
        unit.content.sync(world)
        for link in _path(unit, base) or ():
            replay(unit, world, link)
    _require(unit, base)
    unit.content.reclaim(world)
    _CACHE[key] = unit
    _CACHE.move_to_end(key)
    _evict(key)
    return unit, how


def cached_bytes(world: World, worker: int) -> int:
    """How much of a worker's state this process has."""
    return sum(
        size for (of, name), size in _SIZES.items() if of == world.database and worker_of(name) == worker
    )


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
            hint=role_of(base.unit).hint,
        )


def _evict(keep: tuple[str, str]) -> None:
    # The others have not changed since they were counted, but for the step that each has taken then.
    _SIZES[keep] = _CACHE[keep].content.nbytes
    total = sum(_SIZES.values())
    for key in list(_CACHE):
        if total <= _CACHE_BYTES:
            return
        if key[0] != keep[0] or worker_of(key[1]) != worker_of(
            keep[1]
        ):  # a worker's own units serve one batch
            del _CACHE[key]
            total -= _SIZES.pop(key, 0)


def _never_in_driver(unit: str) -> None:
    from pyspark import TaskContext

    if unit != DRIVER and TaskContext.get() is None:
        raise AssertionError(f"{unit} may be opened in a task only: the driver never holds distributed state")
