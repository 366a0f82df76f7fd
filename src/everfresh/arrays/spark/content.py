"""What a worker's unit holds: the chunks of arrays that it keeps.

A segment has the cells that came and went, array by array, so what it costs does not depend on how large the
chunks are; a snapshot has a record batch for each chunk, which is used where it lies in the file. Arrays are
known by `name@epoch of creation`.

Invariant: chunks have cells, and are those of `Chunk.changed` by the same cells in the same order; `nbytes`
is the sum of what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import split
from everfresh.arrays.chunk import Chunk, exchanged
from everfresh.arrays.model import ArraySchema
from everfresh.errors import Code, EverfreshError
from everfresh.spark.jobs.job import World
from everfresh.spark.state.content import Role, register
from everfresh.state import pack_arrays, pack_table, plain, table_chunks, unpack_arrays, unpack_table
from everfresh.types import no_rows

if TYPE_CHECKING:
    from everfresh.spark.state.content import Section

ABOUT, CAME, WENT = "about", "came/", "went/"
TOOK, LEFT = "took/", "left/"
"""Chunks that another worker kept before, or keeps from now on: as they were before what came and went."""
NUMBERS, ROWS = "numbers/", "chunks/"
_OBJECT = 600
"""About what a chunk takes in memory beside its cells."""
Held = dict[int, Chunk]


class ChunkContent:
    """The chunks of one worker, by array and number."""

    def __init__(self, name: str, world: World, settle: Callable[[], None]) -> None:
        self.schemas: dict[str, ArraySchema] = {}
        self.arrays: dict[str, Held] = {}
        self._bytes = 0

    def array(self, identity: str) -> Held:
        """The chunks of an array."""
        return self.arrays.get(identity, {})

    # -- changes -------------------------------------------------------------------------------------------

    def changed(
        self, identity: str, schema: ArraySchema, came: pa.Table, went: pa.Table, exact: bool = False
    ) -> Held:
        """The chunks that cells come to or leave, as they will be; raises if the cells do not fit. With
        `exact` each cell holds at most one tuple, and what went was there."""
        nothing = no_rows(schema.arrow)
        held, more, less = self.array(identity), split(came, schema), split(went, schema)
        found: Held = {}
        for number in sorted(more.keys() | less.keys()):
            old = held.get(number, Chunk(nothing, schema.ndim))
            both = more.get(number, nothing), less.get(number, nothing)
            found[number] = exchanged(schema, old, *both) if exact else old.changed(schema, *both)
        return found

    def put(self, identity: str, schema: ArraySchema, chunks: Mapping[int, Chunk]) -> Callable[[], None]:
        """Keep chunks, those without cells no more; returns what takes it back."""
        known = identity in self.arrays
        held = self.arrays.setdefault(identity, {})
        self.schemas[identity] = schema
        before = {number: held.get(number) for number in chunks}
        self._set(held, chunks)

        def undo() -> None:
            self._set(held, before)
            if not known:
                del self.arrays[identity], self.schemas[identity]

        return undo

    def _set(self, held: Held, chunks: Mapping[int, Chunk | None]) -> None:
        for number, chunk in chunks.items():
            old = held.pop(number, None)
            self._bytes -= old.nbytes + _OBJECT if old is not None else 0
            if chunk is not None and len(chunk):
                held[number] = chunk
                self._bytes += chunk.nbytes + _OBJECT

    def drop(self, identities: Iterable[str]) -> Callable[[], None]:
        """Forget arrays; returns what takes it back."""
        gone = {i: (self.arrays.pop(i), self.schemas.pop(i)) for i in identities if i in self.arrays}
        size = sum(chunk.nbytes + _OBJECT for held, _ in gone.values() for chunk in held.values())
        self._bytes -= size

        def undo() -> None:
            for identity, (held, schema) in gone.items():
                self.arrays[identity], self.schemas[identity] = held, schema
            self._bytes += size

        return undo

    # -- the protocol of contents --------------------------------------------------------------------------

    def sync(self, world: World) -> None:
        """Arrays are dropped by steps."""

    def replay(self, world: World, sections: Mapping[str, Any]) -> None:
        """Do what a segment says."""
        about = plain(sections[ABOUT], "a segment of arrays")
        self.drop(about["dropped"])
        for identity, ddl in about["arrays"].items():
            schema = schema_of(ddl)
            nothing = no_rows(schema.arrow)
            came, went, took, left = (
                unpack_table(sections[kind + identity]) if kind + identity in sections else nothing
                for kind in (CAME, WENT, TOOK, LEFT)
            )
            chunks = {number: Chunk(rows, schema.ndim) for number, rows in split(took, schema).items()}
            self.put(identity, schema, chunks | {n: Chunk(nothing, schema.ndim) for n in split(left, schema)})
            exact = identity in about.get("exact", ())
            self.put(identity, schema, self.changed(identity, schema, came, went, exact))

    def sections(self, world: World) -> Mapping[str, Section]:
        """All chunks."""
        ddl = {identity: schema.ddl for identity, schema in self.schemas.items()}
        found: dict[str, Section] = {ABOUT: json.dumps(ddl, sort_keys=True).encode()}
        for identity, held in self.arrays.items():
            numbers = sorted(held)
            found[NUMBERS + identity] = pack_arrays({"number": np.array(numbers, np.int64)})
            empty = no_rows(self.schemas[identity].arrow)
            found[ROWS + identity] = table_chunks([held[n].table for n in numbers] or [empty])
        return found

    def load(self, world: World, sections: Mapping[str, Any]) -> None:
        """Take what `sections` gave; chunks are views of it."""
        for identity, ddl in plain(sections[ABOUT], "a snapshot of arrays").items():
            schema = schema_of(ddl)
            numbers = unpack_arrays(sections[NUMBERS + identity])["number"].tolist()
            batches = unpack_table(sections[ROWS + identity]).to_batches()
            batches = [batch for batch in batches if batch.num_rows]
            if len(batches) != len(numbers):
                raise EverfreshError(
                    Code.DAMAGED,
                    f"a snapshot of the array '{schema.name}' has {len(batches)} chunks of {len(numbers)}",
                    hint="restore the folder from a backup",
                )
            tables = (pa.Table.from_batches([batch], schema.arrow) for batch in batches)
            chunks = {n: Chunk(table, schema.ndim) for n, table in zip(numbers, tables, strict=True)}
            self.put(identity, schema, chunks)

    def reclaim(self, world: World, *, now: bool = False) -> None:
        """What goes is freed at once."""

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._bytes


CHUNKS = Role("array", ChunkContent)
register(CHUNKS)


@lru_cache(maxsize=1024)
def schema_of(ddl: str) -> ArraySchema:
    """The schema of a CREATE ARRAY statement."""
    statement = parse(ddl)
    if not isinstance(statement, aql.CreateArray):
        raise EverfreshError(Code.DAMAGED, f"there is no array where it says '{ddl}'")
    return statement.schema


Moved = tuple[ArraySchema, pa.Table, pa.Table]
"""Chunks that a worker takes over, and that it hands over."""


def segment(
    changes: Mapping[str, tuple[ArraySchema, pa.Table, pa.Table]],
    dropped: Iterable[str],
    moved: Mapping[str, Moved] | None = None,
    exact: Iterable[str] = (),
) -> dict[str, Section]:
    """The segment of a step: what came and went, by array, which chunks moved, and which arrays are gone.
    Empty if nothing. `exact` are arrays of one tuple to a cell of which only what was there went."""
    sections: dict[str, Section] = {}
    told: dict[str, str] = {}
    for kinds, some in (((CAME, WENT), changes), ((TOOK, LEFT), moved or {})):
        for identity, (schema, *both) in some.items():
            for kind, rows in zip(kinds, both, strict=True):
                if rows.num_rows:
                    sections[kind + identity] = pack_table(rows)
                    told[identity] = schema.ddl
    gone = sorted(dropped)
    if not sections and not gone:
        return {}
    about: dict[str, Any] = {"arrays": told, "dropped": gone}
    if known := sorted(told.keys() & set(exact)):
        about["exact"] = known
    return {ABOUT: json.dumps(about, sort_keys=True).encode(), **sections}
