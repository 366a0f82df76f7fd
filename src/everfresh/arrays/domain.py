"""Arrays as a domain of a database (`everfresh.epochs.domain`).

An array's value never changes: a batch makes the next one, which shares the chunks that nothing came to, so
taking a step back is putting the last one in its place. A commit record holds the cells that came and went, a
snapshot every chunk. What an array publishes is its cells as rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
from everfresh.delta.bags import WEIGHT, difference, net, weigh
from everfresh.epochs import Object, Published, Resident, RowChange, Told, Undo
from everfresh.epochs.domain import Sections
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.state import pack_table, plain, unpack_table
from everfresh.types import Column, no_rows

ARRAYS, CHUNK, PAST = "array/all", "array/chunk/", "array/past/"
CAME, WENT = "array/came/", "array/went/"

NO_ARRAYS: Mapping[str, Array] = {}


@dataclass(frozen=True, eq=False)
class CellChange:
    """Cells that come and go, with the columns of their array."""

    inserts: pa.Table
    deletes: pa.Table


class Arrays(Resident):
    """Arrays by name."""

    name = "array"
    kind = "array"

    def __init__(self, history: int = 100) -> None:
        super().__init__(history)
        self.values: dict[str, Array] = {}
        self.placements: dict[str, str] = {}
        """How chunks are dealt to logical workers."""
        self.sources: dict[str, str] = {}
        """The tables and SQL views whose rows are an array's cells."""
        self.rows_of: Callable[[str], pa.Table] | None = None

    def over(self, rows: Callable[[str], pa.Table]) -> None:
        """What gives the rows of tables and SQL views."""
        self.rows_of = rows

    def takes(self, given: Any) -> bool:
        """Never: cells come as rows do, and an array is known by its name."""
        return False

    def prepare(self, name: str, given: Any) -> CellChange:
        """Cells of any kind, or a `Delta` of them."""
        schema = self.schema(name)
        if name in self.sources:
            raise EverfreshError(
                Code.ARGUMENT,
                f"the cells of '{name}' are the rows of '{self.sources[name]}'",
                place=f"array '{name}'",
                hint="change what it reads",
            )
        delta = given if isinstance(given, Delta) else Delta(inserts=given)
        if delta.updates is not None:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "cells have no key to be updated by",
                place=f"array '{name}'",
                hint="delete the old tuples and insert the new ones in one batch",
            )
        nothing = no_rows(schema.arrow)
        both = (delta.inserts, delta.deletes)
        return CellChange(*(nothing if cells is None else self.cells_of(cells, schema) for cells in both))

    def cells_of(self, given: Any, schema: ArraySchema) -> Any:
        """Cells of any kind, checked."""
        return read_cells(given, schema)

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
        before, rules, sources = dict(self.values), dict(self.placements), dict(self.sources)

        def undo() -> None:
            self.values, self.placements, self.sources = before, rules, sources

        if isinstance(statement, aql.DropArray):
            self.expect(statement.name)
            self.values = {n: value for n, value in before.items() if n != statement.name}
            self.sources = {n: source for n, source in sources.items() if n != statement.name}
            return statement.name, undo
        schema: ArraySchema = statement.schema
        self.values = {**before, schema.name: Array(schema)}
        self.placements = {**rules, schema.name: statement.placement}
        return self.defined(statement), undo

    def defined(self, statement: aql.CreateArray, created: int = 0) -> Object:
        """The object that a statement makes, with what it reads."""
        name = statement.schema.name
        if statement.source:
            self.sources = {**self.sources, name: statement.source}
        reads = (statement.source,) if statement.source else ()
        return Object(name, self.name, self.kind, reads, created)

    def fed(self, schema: ArraySchema, rows: pa.Table, what: str) -> CellChange:
        """Rows of a relation, perhaps with `_weight`, as cells that come and go."""
        found = {name.lower(): name for name in reversed(rows.column_names)}
        missing = [name for name in schema.names if name.lower() not in found]
        if missing:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"'{what}' has no column '{missing[0]}'",
                place=f"array '{schema.name}'",
                hint="a dimension or an attribute is the column of its name; rename it in a view",
            )
        cells = rows.select([found[name.lower()] for name in schema.names]).rename_columns(list(schema.names))
        if WEIGHT not in rows.column_names:
            return CellChange(read_cells(cells, schema), no_rows(schema.arrow))
        weights = rows.column(WEIGHT).to_numpy()
        every = np.arange(len(weights))
        both = (cells.take(np.repeat(every, np.maximum(sign * weights, 0))) for sign in (1, -1))
        return CellChange(*(read_cells(some, schema) for some in both))

    def followed(self, name: str, own: Any, inputs: Mapping[str, Published]) -> Any:
        """The change of an array in an epoch: what it was given, or what its source has gained and lost."""
        source = self.sources.get(name)
        if own is not None or source is None:
            return own
        return self.fed(self.schema_of(name), inputs[source].table, source)

    def schema_of(self, name: str) -> ArraySchema:
        """The schema of an array in an epoch that is being made."""
        return self.values[name].schema

    def make(
        self, name: str, own: CellChange | None, inputs: Mapping[str, Published]
    ) -> tuple[CellChange | None, Published | None, Undo]:
        """Change an array by cells, its own or those that its source gives."""
        before, own = self.values[name], self.followed(name, own, inputs)
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
            told = [[str(self.statement_of(n)), o.created] for n, o in self.objects.items()]
            sections: dict[str, Any] = {ARRAYS: json.dumps(told).encode()}
            for name, value in self.values.items():
                for number, chunk in value.chunks.items():
                    sections[f"{CHUNK}{number}/{name}"] = chunk.encode()
            return {**sections, **self.history.to_sections(PAST, lambda change: change.table)}

    def statement_of(self, name: str) -> aql.CreateArray:
        """The statement that makes an array."""
        return aql.CreateArray(
            self.values[name].schema, self.placements[name], source=self.sources.get(name, "")
        )

    def restore(self, sections: Sections) -> None:
        """Take the state of a snapshot."""
        self.values, self.sources = {}, {}
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
            objects[schema.name] = self.defined(statement, created)
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
        return value.schema, CellChange(value.table, no_rows(value.schema.arrow))

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

    def homes(self, name: str) -> Mapping[int, int]:
        """The workers of an array's chunks, by number; nothing where all are in this process."""
        return {}

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
        found = weigh(pa.concat_tables(wrong) if wrong else no_rows(schema.arrow), -1)
        return found if found.num_rows else self.unfed(name, value.table)

    def unfed(self, name: str, cells: pa.Table) -> pa.Table:
        """Where an array differs from the rows of its source; nothing if it has none."""
        source = self.sources.get(name)
        if source is None or self.rows_of is None:
            return weigh(cells.slice(0, 0))
        return difference(self.fed(self.schema(name), self.rows_of(source), source).inserts, cells)

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
