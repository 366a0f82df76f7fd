"""A piece of a raw file as a task finds it: a file on its host, or, where that is gone, the raw file again.

A `Source` says where cells were laid down and from what they can be made again, so that no task fails because
a worker was lost, a host restarted, or Spark has run a task on another host than the last time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from everfresh.arrays.chunk import Chunk
from everfresh.errors import Code, EverfreshError
from everfresh.raw.boxes import Box
from everfresh.raw.cache.memory import divided
from everfresh.raw.cache.placement import Part
from everfresh.raw.catalog import RawFile
from everfresh.raw.cells import CellReader
from everfresh.raw.definition import CreateExternal, parse
from everfresh.raw.files.places import Found, stamped
from everfresh.raw.scan import check_same
from everfresh.raw.spark.files import HostFiles
from everfresh.types import no_rows


@dataclass(frozen=True)
class Source:
    """Cells at a worker: the file that they were laid down in, and the raw file, the box and the part of its
    cells that they are."""

    array: str
    worker: int
    name: str
    found: Found
    stored: Box
    parts: tuple[int, ...] = ()
    """Cells of all parts, if these are one of several."""
    part: int = 0

    def to_json(self) -> list[Any]:
        """As plain data."""
        file, box = [self.found.path, self.found.size, self.found.stamp], self.stored
        return [self.array, self.worker, self.name, file, box.lo, box.hi, self.parts, self.part]

    @staticmethod
    def of_json(data: Sequence[Any]) -> Source:
        """The inverse of `to_json`."""
        array, worker, name, file, lo, hi, parts, part = data
        return Source(array, worker, name, Found(*file), Box.of(lo, hi), tuple(parts), part)


@dataclass(frozen=True)
class Shard:
    """A piece, or a part of one, as a query reads it: what is inside a box of what a source has."""

    source: Source
    box: Box

    def to_json(self) -> list[Any]:
        """As plain data."""
        return [self.source.to_json(), self.box.lo, self.box.hi]

    @staticmethod
    def of_json(data: Sequence[Any]) -> Shard:
        """The inverse of `to_json`."""
        source, lo, hi = data
        return Shard(Source.of_json(source), Box.of(lo, hi))


@lru_cache(maxsize=256)
def reader_of(definition: str) -> CellReader:
    """What reads the files of an array, by its statement."""
    statement = parse(definition)
    if not isinstance(statement, CreateExternal):
        raise EverfreshError(Code.DAMAGED, f"there is no external array where it says '{definition}'")
    return CellReader(statement)


@dataclass
class Cells:
    """What the tasks of a worker read: `definitions` are the statements of arrays by name."""

    place: str
    definitions: Mapping[str, str]
    keeps: bool = True
    """Whether cells that were made again are laid down again."""
    healed: list[Found] = field(default_factory=list)
    """Files that had to be read again."""

    def files(self, worker: int) -> HostFiles:
        """The files of a worker on this host."""
        return HostFiles(self.place, worker)

    def tables(self, shards: Sequence[Shard]) -> Iterator[pa.Table]:
        """The cells of shards, one after the other; a raw file that is needed again is read once."""
        known: dict[Source, pa.Table] = {}
        missing: dict[tuple[str, Found], list[Source]] = {}
        for source in dict.fromkeys(shard.source for shard in shards):
            if self.files(source.worker).size(source.name) is None:
                missing.setdefault((source.array, source.found), []).append(source)
        for (array, found), sources in missing.items():
            known.update(self.again(array, found, sources))
        for shard in shards:
            table = known.get(shard.source)
            if table is None:
                table = self.table(shard.source)
            yield inside(table, shard.box, shard.source.stored)

    def table(self, source: Source) -> pa.Table:
        """The cells of a source."""
        found = self.files(source.worker).read(source.name)
        return found if found is not None else self.again(source.array, source.found, [source])[source]

    def again(self, array: str, found: Found, sources: Iterable[Source]) -> dict[Source, pa.Table]:
        """Read a raw file once more, for cells that were laid down and are gone."""
        reader = reader_of(self.definitions[array])
        check_same(RawFile(found, 0), stamped(found.path))
        wanted = list(sources)
        some: list[list[pa.Table]] = [[no_rows(reader.schema.arrow)] for _ in wanted]
        for _, table in reader.cells(found.path):
            for source, tables in zip(wanted, some, strict=True):
                tables.append(inside(table, source.stored))
        check_same(RawFile(found, 0), stamped(found.path))
        self.healed.append(found)
        made = {}
        for source, tables in zip(wanted, some, strict=True):
            table = pa.concat_tables(tables)
            if source.parts:
                chunk = Chunk.of(table, reader.schema.ndim)
                parts = [Part(0, cells) for cells in source.parts]
                table = divided(chunk, parts)[source.part].table
            made[source] = Chunk.of(table, reader.schema.ndim).table
            if self.keeps:
                self.files(source.worker).write(source.name, made[source])
        return made


def inside(table: pa.Table, box: Box, within: Box | None = None) -> pa.Table:
    """The rows of cells inside a box; all of them if they are known to lie `within` it."""
    if not table.num_rows or (within is not None and box.met(within) == within):
        return table
    mask = box.holds(Chunk(table, len(box.lo)).coords)
    return table if mask.all() else table.filter(pa.array(mask))
