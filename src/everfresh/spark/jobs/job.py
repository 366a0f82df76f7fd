"""What a Spark job is told: the descriptor that the driver leaves in the inbox, and the versions of state it
names.

A task of a reused plan learns which batch it serves from a job property (a nonce, and the digest of the
descriptor), and everything else from `inbox/<nonce>`. A `Base` names one version of one state unit: a
snapshot and the segments since. Names of segments and snapshots are chosen by content, so equal attempts
write equal files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from everfresh.compiler import Catalog
from everfresh.errors import EverfreshError
from everfresh.expr import Const
from everfresh.expr.names import Made
from everfresh.program import OnConflict, Part
from everfresh.rewrite.packing import Packing
from everfresh.spark.jobs.messages import taken, written
from everfresh.spark.jobs.packed import CLASSES
from everfresh.spark.jobs.programs import batch_program, load_program, no_catalog, replayed, whole_program
from everfresh.spark.jobs.stages import Staged
from everfresh.spark.state.artifacts import CATALOG, PROGRAM, digest_of, known, leave, left, missing, name_of
from everfresh.state import Store, open_sealed, plain, scratch_of, seal, store_of, unpack_table
from everfresh.types import TableSchema

PROPERTY = "spark.everfresh.batch"
DRIVER = "driver"
"""The unit of what is on the driver."""
EXCHANGE = "to int, kind int, payload binary"
DATA, CONTROL, ERROR, ROWS, GATHERED, AGAIN = range(6)
"""Kinds of messages: for the next block, what was done to a unit, why the batch is refused, rows of a
DataFrame, what the driver gathers, and that the batch must be run in stages."""
Message = tuple[int, int, bytes]
"""The worker that it is for, its kind and what it says: a row of an exchange."""
_MESSAGE_BYTES = 16 << 20
"""What a message should have at most."""


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a unit's chain: the epoch, the tag after it, and where its segment is.

    `file` is a path below `parts/`, or `#i`: the i-th segment of the unit in the commit record of the epoch.
    A small segment of a step that is not committed yet is in no record: it travels as `data`.
    """

    epoch: int
    tag: str
    file: str
    data: bytes | None = None

    def to_json(self) -> list[Any]:
        """As plain data."""
        return [self.epoch, self.tag, self.file]


@dataclass(frozen=True, slots=True)
class Base:
    """A version of a unit: `snapshot` (None: empty) and the links after it; older links serve caches and
    history."""

    unit: str
    snapshot: Link | None = None
    links: tuple[Link, ...] = ()

    @property
    def version(self) -> tuple[int, str]:
        """The epoch and the tag of the last step."""
        if self.links:
            return self.links[-1].epoch, self.links[-1].tag
        return (self.snapshot.epoch, self.snapshot.tag) if self.snapshot is not None else (0, "")

    def path_from(self, version: tuple[int, str]) -> tuple[Link, ...] | None:
        """The links that lead from a version to this one; None if it is not on the way."""
        if version == self.version:
            return ()
        for index, link in enumerate(self.links):
            if (link.epoch, link.tag) == version:
                return self.links[index + 1 :]
        start = (self.snapshot.epoch, self.snapshot.tag) if self.snapshot is not None else (0, "")
        return self.since(start[0]) if version == start else None

    def since(self, epoch: int) -> tuple[Link, ...]:
        """The links of later epochs than `epoch`."""
        return tuple(link for link in self.links if link.epoch > epoch)

    def then(self, link: Link) -> Base:
        """The version one step later."""
        return Base(self.unit, self.snapshot, (*self.links, link))

    def data(self) -> dict[str, bytes]:
        """The segments that travel, by names for them."""
        return {
            f"data/{self.unit}/{at}": link.data for at, link in enumerate(self.links) if link.data is not None
        }

    def with_data(self, segments: Mapping[str, bytes]) -> Base:
        """The same with the segments that travelled."""
        if not segments:
            return self
        at = {int(name.rsplit("/", 1)[1]): data for name, data in segments.items()}
        links = (replace(link, data=at.get(i)) for i, link in enumerate(self.links))
        return Base(self.unit, self.snapshot, tuple(links))

    def to_json(self) -> list[Any]:
        """As plain data, without the segments that travel."""
        snapshot = self.snapshot.to_json() if self.snapshot is not None else None
        links = [[link.epoch, link.tag, link.file] for link in self.links]  # there may be hundreds
        return [self.unit, snapshot, links]

    @staticmethod
    def from_json(data: list[Any]) -> Base:
        """The inverse of `to_json`."""
        unit, snapshot, links = data
        return Base(
            unit, Link(*snapshot) if snapshot is not None else None, tuple(Link(*link) for link in links)
        )


class Bases(dict[str, Base]):
    """Versions of units by name: one that no step was made of yet is empty."""

    def __missing__(self, unit: str) -> Base:
        return Base(unit)


@dataclass(frozen=True, slots=True)
class World:
    """What a task needs to open state: the folder, the catalog, and the identity of each table and view.

    An identity is `name@epoch of creation`: a table that is dropped and made again is another table.
    `committed` are the identities as of the last commit: what a statement that is still running drops may
    not be forgotten yet.
    """

    root: str
    database: str
    workers: int
    ddl: tuple[str, ...]
    ids: Mapping[str, str]
    committed: frozenset[str]
    epoch: int
    inline_bytes: int
    durable: bool
    fault: str | None = None
    compile: str = "off"
    told: str = ""
    """Of the catalog that the driver left; empty if it left none."""

    @property
    def digest(self) -> str:
        """What the catalog is known by."""
        return digest_of(self.ddl)

    @property
    def catalog(self) -> Catalog:
        """The catalog, as the driver compiled it."""
        name = name_of("catalog", self.digest)
        found: Catalog = (
            left(self.root, name, self.told, CATALOG, self._replayed)
            if self.told
            else known(name, self._replayed)
        )
        return found

    def _replayed(self) -> Catalog:
        catalog = no_catalog()
        for entry in self.ddl:
            catalog, _ = replayed(catalog, entry)
        return catalog

    def know(self, catalog: Catalog) -> None:
        """Driver: this is the catalog; it need not be compiled again."""
        known(name_of("catalog", self.digest), lambda: catalog)

    def left(self) -> World:
        """Driver: the same with the catalog left for tasks."""
        return replace(self, told=leave(self.root, name_of("catalog", self.digest), self.catalog, CATALOG))

    def program(self, form: str, changed: frozenset[str]) -> Staged | None:
        """Driver: what a batch in this form does that changes these tables, or what fills a view."""
        found: Staged | None = known(
            name_of(form, self.digest, changed), lambda: _FORMS[form](self.catalog, changed)
        )
        return found

    @property
    def store(self) -> Store:
        """The files of the database."""
        return store_of(self.root)

    @property
    def inbox(self) -> Path:
        """Where the flags of injected faults lie."""
        return scratch_of(self.root)

    def name_of(self, identity: str) -> str | None:
        """The name of a table or view that still exists."""
        name = identity.rsplit("@", 1)[0]  # but for what goes by another name since
        if self.ids.get(name) == identity:
            return name
        return next((name for name, known in self.ids.items() if known == identity), None)


STAGED, WHOLE, LOAD = "staged", "whole", "load"
_FORMS: dict[str, Callable[[Catalog, frozenset[str]], Staged | None]] = {
    STAGED: batch_program,
    WHOLE: whole_program,
    LOAD: lambda catalog, view: load_program(catalog, *view),
}


@dataclass(frozen=True, slots=True)
class PartSpec:
    """A part of a batch as the descriptor names it: its rows are pieces in the inbox, files, or come
    through an exchange."""

    table: str
    op: str
    what: str
    columns: tuple[str, ...]
    files: tuple[str, ...] = ()
    exchanged: bool = False
    laid: tuple[str, ...] | None = None
    """Files of the inbox that hold its rows (`everfresh.spark.input.laying`)."""
    conflict: OnConflict | None = None

    def part(self, rows: pa.Table, numbers: Any = None) -> Part:
        """The part with its rows."""
        return Part(self.table, self.op, rows, self.what, self.conflict, numbers)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Job:
    """One job: what to do to which versions."""

    nonce: str
    kind: str
    world: World
    bases: Mapping[str, Base]
    parts: tuple[PartSpec, ...] = ()
    view: str | None = None
    alter: tuple[TableSchema, TableSchema, Const | None] | None = None
    pieces: Mapping[str, Any] = field(default_factory=dict)
    form: str | None = None
    """Of the program that it runs: `STAGED`, `WHOLE` or `LOAD`; None if it runs none."""
    published: tuple[str, ...] = ()
    """The tables whose changes other domains read: segments have them too."""
    told: str = ""
    """Of the program that the driver left; empty on the driver."""
    roles: tuple[str, ...] | None = None
    """On the driver: tasks are told of every worker's units of these roles; None: of all that it names."""

    def piece(self, part: int, worker: int | None = None) -> pa.Table | None:
        """The rows of a part that the driver put into the inbox: for a worker, or all of them."""
        section = self.pieces.get(f"{part}/{worker}" if worker is not None else f"{part}")
        return unpack_table(section) if section is not None else None

    @property
    def changed(self) -> frozenset[str]:
        """The tables that the batch changes."""
        return frozenset(part.table for part in self.parts)

    @property
    def program(self) -> Staged | None:
        """What the job runs, in its tasks and on the driver."""
        if self.form is None:
            return None
        changed = frozenset((self.view,)) if self.view else self.changed
        if not self.told:
            return self.world.program(self.form, changed)
        name = name_of(self.form, self.world.digest, changed)
        found: Staged = left(self.world.root, name, self.told, PROGRAM, lambda: missing(name))
        return found

    def write(self) -> str:
        """Leave the descriptor in the inbox, and the program; what tasks are to be told."""
        world, program, told = self.world, self.program, ""
        if program is not None and self.form is not None:
            changed = frozenset((self.view,)) if self.view else self.changed
            told = leave(world.root, name_of(self.form, world.digest, changed), program, PROGRAM)
        about = _Told(
            self.nonce, self.kind, world, self.parts, self.view, self.alter, self.form, self.published, told
        )
        sections: dict[str, Any] = {"job": json.dumps(_PACKING.packed(about)).encode()}
        for unit in self._named():
            base = self.bases[unit]
            sections[f"base/{unit}"] = json.dumps(base.to_json()).encode()
            sections.update(base.data())
        sections.update({f"piece/{name}": data for name, data in self.pieces.items()})
        chunks, digest = written("job", {}, sections)
        world.store.replace(_descriptor(self.nonce), chunks, durable=False)
        return f"{self.nonce}.{digest}"

    def _named(self) -> list[str]:
        if self.roles is None:
            return [unit for unit in self.bases if unit != DRIVER]
        return [f"{role}/{worker}" for role in self.roles for worker in range(self.world.workers)]

    def remove(self) -> None:
        """Take the descriptor out of the inbox."""
        self.world.store.remove(_descriptor(self.nonce))

    @staticmethod
    def read(root: str, told: str) -> Job:
        """The descriptor that the driver left; in a folder it is memory-mapped, and a task reads only its own
        pieces."""
        nonce, digest = told.split(".")
        where = _descriptor(nonce)
        sections = taken(root, where, "job", digest).sections
        about = _PACKING.unpacked(plain(sections["job"], where), _Told, where)
        pieces = _Named(sections, "piece/", lambda label: sections[label])
        bases = _Named(sections, "base/", lambda label: _base(sections, label))
        return Job(
            about.nonce, about.kind, about.world, bases, about.parts, about.view, about.alter, pieces,
            about.form, about.published, about.told,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Told:
    """What a descriptor says beside versions and rows."""

    nonce: str
    kind: str
    world: World
    parts: tuple[PartSpec, ...]
    view: str | None
    alter: tuple[TableSchema, TableSchema, Const | None] | None
    form: str | None
    published: tuple[str, ...]
    told: str


_PACKING = Packing(*CLASSES, World, PartSpec, _Told, made=Made)


class _Named(Mapping[str, Any]):
    """Some sections of a message by the rest of their names, each read when it is asked for."""

    def __init__(self, sections: Mapping[str, memoryview], prefix: str, read: Callable[[str], Any]) -> None:
        self._sections, self._prefix, self._read = sections, prefix, read

    def __getitem__(self, name: str) -> Any:
        return self._read(f"{self._prefix}{name}")

    def __iter__(self) -> Iterator[str]:
        return (n.removeprefix(self._prefix) for n in self._sections if n.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _base(sections: Mapping[str, memoryview], label: str) -> Base:
    base = Base.from_json(plain(sections[label], "a descriptor"))
    return base.with_data({n: bytes(sections[n]) for n in sections if n.startswith(f"data/{base.unit}/")})


def _descriptor(nonce: str) -> str:
    return f"inbox/{nonce}"


def cut(table: pa.Table) -> Iterator[pa.Table]:
    """A table in pieces for messages: Spark holds a message several times over, in an executor's heap."""
    step = max(1, table.num_rows * _MESSAGE_BYTES // max(1, table.nbytes))
    for first in range(0, max(1, table.num_rows), step):
        yield table.slice(first, step)


def pack_control(header: dict[str, Any], segment: bytes | None = None) -> bytes:
    """A control row: what a task did to its unit, with a small segment inside."""
    return seal("control", header, {"segment": segment} if segment is not None else {})


def unpack_control(payload: bytes) -> tuple[dict[str, Any], Any]:
    """The inverse of `pack_control`."""
    sealed = open_sealed(payload, "control", "a control row")
    return sealed.header, sealed.sections.get("segment")


def pack_error(error: dict[str, Any]) -> bytes:
    """An `EverfreshError` on its way to the driver."""
    return json.dumps(error).encode()


def read_error(payload: bytes) -> EverfreshError:
    """The inverse of `pack_error`."""
    return EverfreshError.from_dict(json.loads(payload))
