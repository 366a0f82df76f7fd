"""External arrays as a domain of a database (`everfresh.epochs.domain`).

What an epoch decides is which files an array has: a commit record holds them with their stamps and the boxes
of their pieces. Queries make the boxes finer, which changes no answer: that is kept in a file beside the
database, which counts only where it is of the same files, and in snapshots.

An external array is read as its files are now: it has no past. What has changed in it is told from the moment
on that somebody follows it (`everfresh.raw.kept`): then an epoch has the cells that came and went with files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from everfresh.arrays.aql import DropArray
from everfresh.arrays.aql_parser import parse as parse_aql
from everfresh.delta.bags import net, weigh
from everfresh.epochs import Object, Published, Resident, RowChange, Told, Undo
from everfresh.epochs.domain import Sections
from everfresh.epochs.resident import weighted
from everfresh.errors import Code, EverfreshError
from everfresh.progress import Progress
from everfresh.raw.bounds import boxes_of
from everfresh.raw.boxes import Box
from everfresh.raw.cache.asking import Ask
from everfresh.raw.cache.coordinator import Coordinator
from everfresh.raw.catalog import Catalog
from everfresh.raw.cells import CellReader
from everfresh.raw.definition import CreateExternal, parse
from everfresh.raw.files.places import Found
from everfresh.raw.kept import Followed, KeptCells, cells_of_file
from everfresh.raw.looking import Looked, Surveyed, surveyed
from everfresh.raw.needs import Needs
from everfresh.raw.verifying import misplaced
from everfresh.raw.watching import Watch
from everfresh.sql.logical.plan import Plan
from everfresh.state import is_url, pack_table, plain, replace_file, unpack_table
from everfresh.types import Column, no_rows

ALL, FILES, PAST = "raw/all", "raw/files/", "raw/past/"
NAMES, CAME, WENT = "raw/kept/", "raw/came/", "raw/went/"


@dataclass(frozen=True)
class Made:
    """An external array and the files that it begins with."""

    definition: CreateExternal
    catalog: Catalog


@dataclass(frozen=True)
class Keep:
    """An external array tells what changes in it from now on: by file, the name of what is kept of it."""

    name: str
    names: Mapping[str, str]

    def __str__(self) -> str:
        return f"KEEP {self.name}"


@dataclass(frozen=True)
class Seen:
    """The files of an array as REFRESH found them, and what that changes for those who follow it."""

    catalog: Catalog
    followed: Followed | None = None


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
        self.kept_names: Mapping[str, Mapping[str, str]] = {}
        """Of the arrays that are followed, by file the name under which its cells are kept."""
        self.cells = KeptCells()
        self.watches: dict[str, Watch] = {}

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
        cache, names = self.cache, self.kept_names
        if isinstance(statement, Keep):
            found = self.expect(statement.name)
            self.kept_names = {**names, statement.name: statement.names}

            def undo() -> None:
                self.kept_names = names

            return replace(found, publishes=True), undo
        if isinstance(statement, DropArray):
            self.expect(statement.name)
            self.kept_names = {name: some for name, some in names.items() if name != statement.name}
            reader, catalog = cache.readers[statement.name], cache.catalogs[statement.name]
            cache.drop(statement.name)

            def again() -> None:
                cache.put(statement.name, reader, catalog)
                self.kept_names = names

            return statement.name, again
        name = statement.definition.schema.name
        cache.put(name, CellReader(statement.definition), statement.catalog)
        return Object(name, self.name, self.kind, publishes=False), lambda: cache.drop(name)

    def make(
        self, name: str, own: Seen, inputs: Mapping[str, Published]
    ) -> tuple[Seen | None, Published | None, Undo]:
        """Other files: what that changes is told where somebody follows the array."""
        reader, before, names = self.cache.readers[name], self.cache.catalogs[name], self.kept_names
        self.cache.put(name, reader, own.catalog)

        def undo() -> None:
            self.cache.put(name, reader, before)
            self.kept_names = names

        told = own.followed
        if told is None:
            return own, None, undo
        self.kept_names = {**names, name: told.names}
        change = net(pa.concat_tables([weigh(told.came), weigh(told.went, -1)]))
        return own, RowChange(lambda: change) if change.num_rows else None, undo

    def remember(self, epoch: int, published: dict[str, Published]) -> None:
        """An epoch is committed: cells that nobody asks for any more go."""
        super().remember(epoch, published)
        if self.kept_names or published:
            self.cells.keep_only({name for some in self.kept_names.values() for name in some.values()})

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Seen]]) -> Told:
        """Statements as their text, catalogs as sections."""
        made = [one for one in statements if isinstance(one, Made)]
        found = {one.definition.schema.name: one.catalog for one in made} | {n: c.catalog for n, c in changes}
        texts = tuple(str(one.definition if isinstance(one, Made) else one) for one in statements)
        sections: dict[str, Any] = {FILES + n: catalog.to_text().encode() for n, catalog in found.items()}
        for one in statements:
            if isinstance(one, Keep):
                sections[NAMES + one.name] = json.dumps(dict(one.names)).encode()
        for name, seen in changes:
            if seen.followed is not None:
                sections[NAMES + name] = json.dumps(dict(seen.followed.names)).encode()
                sections[CAME + name] = pack_table(seen.followed.came)
                sections[WENT + name] = pack_table(seen.followed.went)
        return Told(texts, sections)

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Seen]]]:
        """The inverse of `encode`."""
        catalogs = {
            section.removeprefix(FILES): Catalog.of_text(bytes(data).decode())
            for section, data in sections.items()
            if section.startswith(FILES)
        }
        kept = {
            section.removeprefix(NAMES): plain(data, "what is kept of files")
            for section, data in sections.items()
            if section.startswith(NAMES)
        }
        statements = [_statement(text, catalogs, kept) for text in ddl]
        made = {one.definition.schema.name for one in statements if isinstance(one, Made)}
        seen = []
        for name, found in catalogs.items():
            followed = None
            if CAME + name in sections:
                both = (unpack_table(sections[CAME + name]), unpack_table(sections[WENT + name]))
                followed = Followed(*both, kept[name])
            if name not in made:
                seen.append((name, Seen(found, followed)))
        return statements, seen

    def to_sections(self) -> dict[str, Any]:
        """Everything, for a snapshot: the boxes as fine as they are."""
        with self.lock, self.cache.lock:
            if not self.objects:
                return {}
            told = [[str(self.cache.readers[n].definition), o.created] for n, o in self.objects.items()]
            sections: dict[str, Any] = {ALL: json.dumps(told).encode()}
            for name in self.objects:
                sections[FILES + name] = self.cache.catalogs[name].to_text().encode()
            for name, names in self.kept_names.items():
                sections[NAMES + name] = json.dumps(dict(names)).encode()
            return {**sections, **self.history.to_sections(PAST, lambda change: change.table)}

    def restore(self, sections: Sections) -> None:
        """Take the state of a snapshot."""
        for name in list(self.cache.readers):
            self.cache.drop(name)
        objects, self.kept_names = {}, {}
        for text, created in plain(sections[ALL], "the external arrays of a database") if sections else ():
            definition = parse(text)
            if not isinstance(definition, CreateExternal):
                raise EverfreshError(Code.DAMAGED, f"a snapshot has no external array where it says '{text}'")
            name = definition.schema.name
            catalog = Catalog.of_text(bytes(sections[FILES + name]).decode())
            self.cache.put(name, CellReader(definition), catalog)
            kept = sections.get(NAMES + name)
            if kept is not None:
                self.kept_names = {**self.kept_names, name: plain(kept, "what is kept of files")}
            objects[name] = Object(name, self.name, self.kind, (), created, publishes=kept is not None)
        self.objects = objects
        self.history.load(PAST, sections)

    # -- finer boxes, beside the database ------------------------------------------------------------

    def keep_in(self, root: str) -> None:
        """Keep the cells of files that are followed in the database at `root`; and finer boxes, if that is a
        folder: take those that are there."""
        if self.cells.store is None:
            self.cells = KeptCells.of(root)
        folder = None if is_url(root) else Path(root) / "boxes"
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
            return no_rows(schema.arrow)
        return self.cache.answer([Ask(name, tuple(boxes))])[name].to_arrow()

    # -- who follows ---------------------------------------------------------------------------------

    def publishing(self, name: str, root: str | None) -> Keep:
        """The statement from which on an array tells what changes in it: all of its files are read."""
        if root is not None:
            self.keep_in(root)
        with self.cache.lock:
            reader, catalog = self.reader(name), self.cache.catalogs[name]
            return Keep(
                name,
                {p: self.cells.put(cells_of_file(reader, file.found)) for p, file in catalog.files.items()},
            )

    def kept_cells(self, name: str) -> pa.Table:
        """All cells of an array that is followed, as its files were when they were last looked at."""
        return self.cells_kept_as(name, self.kept_names[name])

    def cells_kept_as(self, name: str, kept: Mapping[str, str]) -> pa.Table:
        """The cells of an array's files that are kept under these digests."""
        nothing = no_rows(self.reader(name).schema.arrow)
        return pa.concat_tables([nothing, *(self.cells.get(digest, path) for path, digest in kept.items())])

    def followed(self, name: str, seen: Looked) -> Followed | None:
        """What a look at the files has changed, if somebody follows the array."""
        if name not in self.kept_names:
            return None
        reader, before = self.reader(name), self.kept_names[name]
        nothing = no_rows(reader.schema.arrow)
        came, went = [nothing], [nothing]
        names = {path: digest for path, digest in before.items() if path not in seen.gone}
        for path in (*seen.changed, *seen.gone):
            if path in before:
                went.append(self.cells.get(before[path], path))
        for path in (*seen.changed, *seen.come):
            came.append(cells_of_file(reader, seen.catalog.files[path].found))
            names[path] = self.cells.put(came[-1])
        return Followed(pa.concat_tables(came), pa.concat_tables(went), names)

    def changes_of(self, found: Object, since: int | None) -> pa.Table:
        """What came and went with files, since somebody follows the array."""
        if not found.publishes:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"nobody follows external array '{found.name}', so what has changed in it is not known",
                hint=f"db.array('{found.name}').on_change(...), or a view over it, before its files change",
            )
        schema = weighted(no_rows(self.reader(found.name).schema.arrow))
        return self.history.changes(
            found.name, since, found.created, self.epoch, lambda: self.kept_cells(found.name), schema
        )

    def watch(self, name: str, refresh: Any, seconds: float) -> None:
        """Look at the files of an array every so many seconds; 0: no more."""
        before = self.watches.pop(name, None)
        if before is not None:
            before.stop()
        if seconds > 0:
            self.watches[name] = Watch(refresh, name, seconds)

    def release(self) -> None:
        """Nobody looks at files any more."""
        for name in list(self.watches):
            self.watch(name, None, 0)

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


def _statement(text: str, catalogs: Mapping[str, Catalog], kept: Mapping[str, Any]) -> Any:
    if text.startswith("KEEP "):
        return Keep(text.removeprefix("KEEP "), kept[text.removeprefix("KEEP ")])
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
