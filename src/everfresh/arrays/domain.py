"""Arrays as a domain of a database (`everfresh.epochs.domain`).

An array's value never changes: a batch makes the next one, which shares the chunks that nothing came to, so
taking a step back is putting the last one in its place. A commit record holds the cells that came and went, a
snapshot every chunk. What an array publishes is its cells as rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import Array, read_cells
from everfresh.arrays.chunk import Chunk
from everfresh.arrays.evaluate import evaluate
from everfresh.arrays.model import ArraySchema
from everfresh.delta import Delta
from everfresh.delta.bags import WEIGHT, net, weigh
from everfresh.epochs import Object, Published, Resident, RowChange, Told, Undo
from everfresh.epochs.domain import Sections
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.state import pack_table, plain, unpack_table
from everfresh.types import Column

ARRAYS, CHUNK, PAST = "array/all", "array/chunk/", "array/past/"
CAME, WENT = "array/came/", "array/went/"

NO_ARRAYS: Mapping[str, Array] = {}


@dataclass(frozen=True, eq=False)
class CellChange:
    """Cells that come and go, with the columns of their array."""

    inserts: pa.Table
    deletes: pa.Table


def reads_of(statement: aql.CreateArray) -> tuple[str, ...]:
    """What an array follows."""
    return (statement.follows,) if statement.follows else ()


def followed(schema: ArraySchema, inputs: Mapping[str, Published]) -> CellChange:
    """What has changed in an object, as cells of the array that follows it."""
    nothing = schema.arrow.empty_table()
    came, went = [nothing], [nothing]
    for published in inputs.values():
        table = published.table
        weights = table.column(WEIGHT).to_numpy()
        rows = table.select(list(schema.arrow.names)).cast(schema.arrow)
        for side, sign in ((came, 1), (went, -1)):
            times = np.maximum(weights * sign, 0)
            side.append(rows.take(np.repeat(np.arange(rows.num_rows), times)))
    return CellChange(pa.concat_tables(came), pa.concat_tables(went))


class Arrays(Resident):
    """Arrays by name."""

    name = "array"
    kind = "array"

    def __init__(self, history: int = 100) -> None:
        super().__init__(history)
        self.values: dict[str, Array] = {}
        self.placements: dict[str, str] = {}
        """How chunks are dealt to logical workers."""

    def takes(self, given: Any) -> bool:
        """Never: cells come as rows do, and an array is known by its name."""
        return False

    def prepare(self, name: str, given: Any) -> CellChange:
        """Cells of any kind, or a `Delta` of them."""
        schema = self.schema(name)
        if self.objects[name].reads:
            raise EverfreshError(
                Code.ARGUMENT,
                f"array '{name}' follows '{self.objects[name].reads[0]}'",
                place=f"array '{name}'",
                hint=f"change '{self.objects[name].reads[0]}'",
            )
        delta = given if isinstance(given, Delta) else Delta(inserts=given)
        if delta.updates is not None:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "cells have no key to be updated by",
                place=f"array '{name}'",
                hint="delete the old tuples and insert the new ones in one batch",
            )
        nothing = schema.arrow.empty_table()
        both = (delta.inserts, delta.deletes)
        return CellChange(*(nothing if cells is None else read_cells(cells, schema) for cells in both))

    def dropping(self, name: str) -> tuple[aql.DropArray]:
        """The statement that drops an array."""
        return (aql.DropArray(name),)

    def columns(self, name: str) -> tuple[Column, ...]:
        """An array as a relation."""
        return self.schema(name).columns

    def schema(self, name: str) -> ArraySchema:
        """The dimensions and attributes of an array."""
        with self.lock:
            self.expect(name)
            return self.values[name].schema

    def size(self, name: str) -> tuple[int, int]:
        """How many cells an array has, and how many chunks."""
        value = self.array(name)
        return len(value), len(value.chunks)

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make or drop an array."""
        before, rules = dict(self.values), dict(self.placements)

        def undo() -> None:
            self.values, self.placements = before, rules

        if isinstance(statement, aql.DropArray):
            self.expect(statement.name)
            self.values = {n: value for n, value in before.items() if n != statement.name}
            return statement.name, undo
        schema: ArraySchema = statement.schema
        self.values = {**before, schema.name: Array(schema)}
        self.placements = {**rules, schema.name: statement.placement}
        return Object(schema.name, self.name, self.kind, reads_of(statement)), undo

    def make(
        self, name: str, own: CellChange | None, inputs: Mapping[str, Published]
    ) -> tuple[CellChange | None, Published | None, Undo]:
        """Change an array by cells, or by what has changed in what it follows."""
        before = self.values[name]
        own = own or followed(before.schema, inputs)
        self.values[name] = before.changed(own.inserts, own.deletes)

        def undo() -> None:
            self.values[name] = before

        change = net(pa.concat_tables([weigh(own.inserts), weigh(own.deletes, -1)]))
        return own, RowChange(lambda: change) if change.num_rows else None, undo

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, CellChange]]) -> Told:
        """Statements as their text, cells as tables."""
        sections = {CAME + name: pack_table(change.inserts) for name, change in changes}
        sections |= {WENT + name: pack_table(change.deletes) for name, change in changes}
        return Told(tuple(map(str, statements)), sections)

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, CellChange]]]:
        """The inverse of `encode`."""
        names = [section.removeprefix(CAME) for section in sections if section.startswith(CAME)]
        found = [
            (n, CellChange(unpack_table(sections[CAME + n]), unpack_table(sections[WENT + n]))) for n in names
        ]
        return [parse(text) for text in ddl], found

    def to_sections(self) -> dict[str, Any]:
        """Everything, for a snapshot: chunk by chunk."""
        with self.lock:
            if not self.objects:
                return {}
            told = [
                [str(aql.CreateArray(self.values[n].schema, self.placements[n], *o.reads)), o.created]
                for n, o in self.objects.items()
            ]
            sections: dict[str, Any] = {ARRAYS: json.dumps(told).encode()}
            for name, value in self.values.items():
                for number, chunk in value.chunks.items():
                    sections[f"{CHUNK}{number}/{name}"] = chunk.encode()
            return {**sections, **self.history.to_sections(PAST, lambda change: change.table)}

    def restore(self, sections: Sections) -> None:
        """Take the state of a snapshot."""
        self.values = {}
        found: dict[str, dict[int, Any]] = {}
        for section, data in sections.items():
            if section.startswith(CHUNK):
                number, _, name = section.removeprefix(CHUNK).partition("/")
                found.setdefault(name, {})[int(number)] = data
        objects = {}
        for text, created in plain(sections[ARRAYS], "the arrays of a database") if sections else ():
            statement = parse(text)
            if not isinstance(statement, aql.CreateArray):
                raise EverfreshError(Code.DAMAGED, f"a snapshot has no array where it says '{text}'")
            schema = statement.schema
            self.placements[schema.name] = statement.placement
            chunks = {
                number: Chunk.decode(data, schema.ndim)
                for number, data in sorted(found.get(schema.name, {}).items())
            }
            self.values[schema.name] = Array(schema, chunks)
            objects[schema.name] = Object(schema.name, self.name, self.kind, reads_of(statement), created)
        self.objects = objects
        self.history.load(PAST, sections)

    # -- reading -----------------------------------------------------------------------------------

    def array(self, name: str) -> Array:
        """The value of an array now."""
        with self.lock:
            self.expect(name)
            return self.values[name]

    def all(self) -> Mapping[str, Array]:
        """The values of all arrays at one epoch."""
        with self.lock:
            return dict(self.values)

    # -- queries -----------------------------------------------------------------------------------

    def answer(self, statement: aql.Statement, others: Mapping[str, Array] = NO_ARRAYS) -> pa.Table:
        """The rows that a query gives, over these arrays and `others`; of an array in row-major order."""
        value = evaluate(statement, {**self.all(), **others})
        return value.to_arrow() if isinstance(value, Array) else value

    def computed(self, query: aql.Query, others: Mapping[str, Array] = NO_ARRAYS) -> tuple[ArraySchema, Any]:
        """What INTO keeps: its schema, and the change that fills it."""
        value = evaluate(query, {**self.all(), **others})
        if not isinstance(value, Array):
            raise AssertionError(f"INTO gives rows: {query}")
        return value.schema, CellChange(value.table, value.schema.arrow.empty_table())

    def explained(self, statement: aql.Statement, run: bool = False, options: Options | None = None) -> str:
        """How a query is run: the plan of its join, and if it is to be `run` what was measured."""
        from everfresh.arrays.execute.explaining import Explained

        values = self.all()
        schemas = {name: value.schema for name, value in values.items()}
        found = Explained.of(statement, schemas)
        if found.work is not None:
            held = {source.name: values[source.name] for source in found.work.sources}
            found.plan_local(held, self.placements, options or Options(), run)
        return found.text

    # -- rows --------------------------------------------------------------------------------------

    def rows(self, name: str) -> pa.Table:
        """The cells of an array in row-major order."""
        return self.values[name].to_arrow()

    def statistics(self) -> dict[str, Any]:
        """Cells, chunks and bytes of each array."""
        return {
            name: {
                "cells": len(value),
                "chunks": len(value.chunks),
                "bytes": sum(chunk.nbytes for chunk in value.chunks.values()),
            }
            for name, value in self.all().items()
        }

    def verify(self, name: str) -> pa.Table:
        """The rows of chunks that are not where they belong: none."""
        value = self.array(name)
        schema = value.schema
        wrong = [
            chunk.table
            for number, chunk in value.chunks.items()
            if not len(chunk) or (schema.chunk_ids(chunk.coords) != number).any()
        ]
        return weigh(pa.concat_tables(wrong) if wrong else schema.arrow.empty_table(), -1)

    def explain(self, name: str, format: str = "text") -> str:
        """What the array is and holds."""
        value = self.array(name)
        dense = 100 * len(value) / max(1, _cells(value.schema))
        held = f"{len(value)} cells in {len(value.chunks)} chunks"
        return f"{value.schema.ddl}\n{held}, {dense:.2g} % of the array"

    def hold(self, db: Any, name: str) -> Any:
        """What a user holds of an array."""
        from everfresh.arrays.handle import StoredArray

        return StoredArray(db, self, name)


def _cells(schema: ArraySchema) -> int:
    total = 1
    for dimension in schema.dimensions:
        total *= dimension.hi - dimension.lo + 1
    return total


def made(history: int, host: Any) -> Arrays:
    """The domain, on an engine that offers `host`."""
    if host is None:
        return Arrays(history)
    from everfresh.arrays.spark.domain import ArraysOnSpark

    return ArraysOnSpark(history, host)
