"""External arrays as a domain of a database (`everfresh.epochs.domain`).

What an epoch decides is which files an array has: a commit record holds them with their stamps and the boxes
of their pieces. Queries make the boxes finer, which changes no answer: that is kept in a file beside the
database, which counts only where it is of the same files, and in snapshots.

An external array is read as its files are now: it has no past, and no changes to follow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from everfresh.arrays.aql import DropArray
from everfresh.arrays.aql_parser import parse as parse_aql
from everfresh.delta.bags import weigh
from everfresh.epochs import Object, Published, Resident, Told, Undo
from everfresh.epochs.domain import Sections
from everfresh.errors import Code, EverfreshError
from everfresh.progress import Progress
from everfresh.raw.asking import Ask
from everfresh.raw.bounds import boxes_of
from everfresh.raw.boxes import Box
from everfresh.raw.catalog import Catalog
from everfresh.raw.cells import CellReader
from everfresh.raw.coordinator import Coordinator
from everfresh.raw.definition import CreateExternal, parse
from everfresh.raw.files.places import Found
from everfresh.raw.looking import Surveyed, surveyed
from everfresh.raw.needs import Needs
from everfresh.raw.verifying import misplaced
from everfresh.sql.logical.plan import Plan
from everfresh.state import plain, replace_file
from everfresh.types import Column

ALL, FILES = "raw/all", "raw/files/"


@dataclass(frozen=True)
class Made:
    """An external array and the files that it begins with."""

    definition: CreateExternal
    catalog: Catalog


@dataclass(frozen=True)
class Seen:
    """The files of an array as REFRESH found them."""

    catalog: Catalog


class External(Resident):
    """External arrays by name."""

    name = "raw"
    kind = "external array"

    def __init__(self, history: int = 100, cache: Coordinator | None = None) -> None:
        super().__init__(history)
        self.cache = cache or Coordinator()
        self.cache.told = self.write_boxes
        self.beside: Path | None = None
        """The folder in which finer boxes are kept; None where nothing is."""

    def takes(self, given: Any) -> bool:
        """What REFRESH saw."""
        return isinstance(given, Seen)

    def prepare(self, name: str, given: Any) -> Any:
        """Only what REFRESH saw: cells are changed in the files."""
        if not self.takes(given):
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"external array '{name}' is changed by its files",
                hint="write a file and REFRESH the array; or CREATE ARRAY, and load the cells",
            )
        return given

    def dropping(self, name: str) -> tuple[DropArray]:
        """The statement that drops an array."""
        return (DropArray(name),)

    def columns(self, name: str) -> tuple[Column, ...]:
        """An array as a relation."""
        return self.reader(name).schema.columns

    def reader(self, name: str) -> CellReader:
        """What reads the files of an array."""
        self.expect(name)
        return self.cache.readers[name]

    # -- epochs ------------------------------------------------------------------------------------

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make or drop an array."""
        cache = self.cache
        if isinstance(statement, DropArray):
            self.expect(statement.name)
            reader, catalog = cache.readers[statement.name], cache.catalogs[statement.name]
            cache.drop(statement.name)
            return statement.name, lambda: cache.put(statement.name, reader, catalog)
        name = statement.definition.schema.name
        cache.put(name, CellReader(statement.definition), statement.catalog)
        return Object(name, self.name, self.kind, publishes=False), lambda: cache.drop(name)

    def make(
        self, name: str, own: Seen, inputs: Mapping[str, Published]
    ) -> tuple[Seen | None, Published | None, Undo]:
        """Other files; nobody can follow that row by row."""
        reader, before = self.cache.readers[name], self.cache.catalogs[name]
        self.cache.put(name, reader, own.catalog)
        return own, None, lambda: self.cache.put(name, reader, before)

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Seen]]) -> Told:
        """Statements as their text, catalogs as sections."""
        made = [one for one in statements if isinstance(one, Made)]
        found = {one.definition.schema.name: one.catalog for one in made} | {n: c.catalog for n, c in changes}
        texts = tuple(str(one.definition if isinstance(one, Made) else one) for one in statements)
        return Told(texts, {FILES + name: catalog.to_text().encode() for name, catalog in found.items()})

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Seen]]]:
        """The inverse of `encode`."""
        catalogs = {
            section.removeprefix(FILES): Catalog.of_text(bytes(data).decode())
            for section, data in sections.items()
        }
        statements = [_statement(text, catalogs) for text in ddl]
        made = {one.definition.schema.name for one in statements if isinstance(one, Made)}
        return statements, [(name, Seen(found)) for name, found in catalogs.items() if name not in made]

    def to_sections(self) -> dict[str, Any]:
        """Everything, for a snapshot: the boxes as fine as they are."""
        with self.lock, self.cache.lock:
            if not self.objects:
                return {}
            told = [[str(self.cache.readers[n].definition), o.created] for n, o in self.objects.items()]
            sections: dict[str, Any] = {ALL: json.dumps(told).encode()}
            for name in self.objects:
                sections[FILES + name] = self.cache.catalogs[name].to_text().encode()
            return sections

    def restore(self, sections: Sections) -> None:
        """Take the state of a snapshot."""
        for name in list(self.cache.readers):
            self.cache.drop(name)
        objects = {}
        for text, created in plain(sections[ALL], "the external arrays of a database") if sections else ():
            definition = parse(text)
            if not isinstance(definition, CreateExternal):
                raise EverfreshError(Code.DAMAGED, f"a snapshot has no external array where it says '{text}'")
            name = definition.schema.name
            catalog = Catalog.of_text(bytes(sections[FILES + name]).decode())
            self.cache.put(name, CellReader(definition), catalog)
            objects[name] = Object(name, self.name, self.kind, (), created, publishes=False)
        self.objects = objects

    # -- finer boxes, beside the database ------------------------------------------------------------

    def keep_in(self, folder: Path | None) -> None:
        """Keep finer boxes in a folder, and take those that are there."""
        if folder is None or self.beside == folder:
            return
        self.beside = folder
        with self.cache.lock:
            for name, catalog in self.cache.catalogs.items():
                finer = self._kept(name)
                if finer is not None and finer.files == catalog.files:
                    self.cache.put(name, self.cache.readers[name], finer)

    def _file(self, name: str) -> Path:
        assert self.beside is not None
        return self.beside / (name.encode().hex() + ".boxes")

    def _kept(self, name: str) -> Catalog | None:
        try:
            return Catalog.of_text(self._file(name).read_text())
        except (OSError, ValueError, TypeError, KeyError):  # it is a help, and no more
            return None

    def write_boxes(self, names: Sequence[str]) -> None:
        """Keep the boxes of these arrays as they are now."""
        if self.beside is None:
            return
        self.beside.mkdir(exist_ok=True)
        for name in names:
            replace_file(self._file(name), self.cache.catalogs[name].to_text().encode(), False)

    # -- reading -------------------------------------------------------------------------------------

    def survey(
        self, reader: CellReader, fresh: Sequence[tuple[Found, int]]
    ) -> Iterator[tuple[str, Surveyed]]:
        """Look at new files, each with its owner."""
        return ((one.path, surveyed(reader, one.path)) for one, _ in fresh)

    def answered(
        self, statement: Any, needs: Needs, arrays: Any, progress: Progress | None = None
    ) -> pa.Table | None:
        """The rows of a statement, where workers compute them; None: its cells are collected."""
        return None

    def rows(self, name: str) -> pa.Table:
        """All cells of an array."""
        schema = self.reader(name).schema
        return self.cache.answer([Ask(name, (Box.of(schema.lo, schema.hi),))])[name].to_arrow()

    def read(self, name: str, at: int | None = None) -> pa.Table:
        """All cells of an array, as its files are now."""
        self.past(name, at)
        return self.rows(name)

    def past(self, name: str, at: int | None) -> None:
        """Refuse to be read as of an epoch before the files were looked at."""
        found = self.expect(name)
        if at is not None and at < max(found.created, self.epoch):
            raise EverfreshError(
                Code.HISTORY,
                f"external array '{name}' can be read as its files are now, and not as of epoch {at}",
                hint="read it without at=",
            )

    def rows_for(self, name: str, plan: Plan) -> pa.Table:
        """The cells that a plan of SQL needs of an array."""
        schema = self.reader(name).schema
        boxes = boxes_of(plan, {name: schema}).get(name, [])
        if not boxes:
            return schema.arrow.empty_table()
        return self.cache.answer([Ask(name, tuple(boxes))])[name].to_arrow()

    def changes(self, name: str, since: int | None) -> pa.Table:
        """None that can be followed."""
        self.expect(name)
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"external array '{name}' has no changes to follow: its files are other files, or they are not",
            hint="load the cells into an array (CREATE ARRAY) to follow them",
        )

    def verify(self, name: str) -> pa.Table:
        """The cells that no piece of their file holds, or more than one: none."""
        with self.cache.lock:
            return weigh(misplaced(self.reader(name), self.cache.catalogs[name]), -1)

    def explain(self, name: str, format: str = "text") -> str:
        """What the array is, and how far its files are known."""
        reader, catalog = self.reader(name), self.cache.catalogs[name]
        total = sum(file.found.size for file in catalog.files.values())
        return (
            f"{reader.definition}\n{len(catalog.files)} files, {total} bytes, known by "
            f"{len(catalog.pieces)} boxes"
        )

    def statistics(self) -> dict[str, Any]:
        """Files, their bytes, and pieces of each array."""
        return {
            name: {
                "files": len(catalog.files),
                "bytes": sum(file.found.size for file in catalog.files.values()),
                "pieces": len(catalog.pieces),
            }
            for name, catalog in self.cache.catalogs.items()
        }

    def hold(self, db: Any, name: str) -> Any:
        """What a user holds of an external array."""
        from everfresh.raw.handles import ExternalArray

        return ExternalArray(db, self, name)


def _statement(text: str, catalogs: Mapping[str, Catalog]) -> Any:
    if text.upper().startswith("DROP"):
        return parse_aql(text)
    definition = parse(text)
    assert isinstance(definition, CreateExternal)
    return Made(definition, catalogs[definition.schema.name])


def made(history: int, host: Any) -> External:
    """The domain, on an engine that offers `host`."""
    if host is None:
        return External(history)
    from everfresh.raw.spark.domain import ExternalOnSpark

    return ExternalOnSpark(history, host)
