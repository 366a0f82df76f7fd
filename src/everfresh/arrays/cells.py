"""Cells from whatever holds them: tables and data frames, NumPy, scipy.sparse, xarray.

Everything becomes an Arrow table with the columns of the array's dimensions and attributes, checked: indices
are whole numbers inside of the array's ranges, attributes are of their types, as in every table of everfresh
(`everfresh.delta`). Foreign classes are known by their modules' names and never imported.

- A table or a list of rows has a column for each dimension; nullable attributes may be left out.
- `(coords, values)`: coordinates as one array with a row for each cell, or one array per dimension; values as
  an array (one attribute) or a dict of arrays.
- A dense NumPy array holds every cell of one attribute, from the first index of each dimension on; what is
  masked or NaN is empty.
- A scipy.sparse array holds what is stored in it, counted from the first index.
- An xarray DataArray or Dataset has the array's dimensions by name, with whole numbers as labels or none;
  NaN is empty.

Invariant: the result has the array's columns in order, and no NULL in a dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.chunk import Chunk, check_unique, coordinates
from everfresh.arrays.model import ArraySchema
from everfresh.delta.rows import read_local
from everfresh.errors import Code, EverfreshError
from everfresh.types import no_rows


def read_cells(data: Any, schema: ArraySchema) -> pa.Table:
    """The cells in `data`, checked against an array's schema.

    >>> from everfresh.arrays.model import Dimension
    >>> from everfresh.types import BIGINT, Column
    >>> a = ArraySchema("a", (Dimension("i", 1, 3, 2), Dimension("j", 1, 3, 2)), (Column("v", BIGINT),))
    >>> read_cells(([(1, 2), (3, 3)], [10, 20]), a).to_pylist()
    [{'i': 1, 'j': 2, 'v': 10}, {'i': 3, 'j': 3, 'v': 20}]
    """
    what = f"array '{schema.name}'"
    found = _columns(data, schema, what)
    table = read_local(data if found is None else found, schema.table, what, "insert")
    schema.check_inside(coordinates(table, schema.ndim))
    return table


def _columns(data: Any, schema: ArraySchema, what: str) -> dict[str, Any] | None:
    """Columns by name; None where the rows are a table of some kind already."""
    package = type(data).__module__.partition(".")[0]
    if package == "scipy":
        return _sparse(data, schema, what)
    if package == "xarray":
        return _labelled(data, schema, what)
    if isinstance(data, np.ndarray) and not data.dtype.names:
        return _dense(data, schema, what)
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], Mapping):
        return _coo(*data, schema, what)
    return None


def _wrong(schema: ArraySchema, given: int, what: str) -> EverfreshError:
    return EverfreshError(
        Code.ARGUMENT,
        f"the data have {given} dimensions, the array has {schema.ndim}",
        place=what,
        hint="dimensions are: " + ", ".join(schema.dimension_names),
    )


def _only(schema: ArraySchema, what: str) -> str:
    """The array's one attribute, for what has values without names."""
    if len(schema.attributes) != 1:
        raise EverfreshError(
            Code.ARGUMENT,
            f"values without a name are for an array of one attribute, not of {len(schema.attributes)}",
            place=what,
            hint="give (coords, {'attribute': values, ...}) or a table",
        )
    return schema.attributes[0].name


def _coo(coords: Any, values: Any, schema: ArraySchema, what: str) -> dict[str, Any]:
    if isinstance(coords, tuple) and len(coords) == schema.ndim and all(np.ndim(c) == 1 for c in coords):
        columns = [np.asarray(c) for c in coords]
    else:
        given = np.asarray(coords)
        if given.size == 0 and given.ndim < 2:
            given = given.reshape(0, schema.ndim)
        if given.ndim != 2 or given.shape[1] != schema.ndim:
            raise _wrong(schema, given.shape[1] if given.ndim == 2 else given.ndim, what)
        columns = list(given.T)
    named = values if isinstance(values, Mapping) else {_only(schema, what): values}
    return {**dict(zip(schema.dimension_names, columns, strict=True)), **named}


def _filled(values: Any) -> tuple[Any, Any]:
    """The values of a dense array, and where there are any."""
    there = ~np.ma.getmaskarray(values)
    plain = np.ma.getdata(values)
    if plain.dtype.kind == "f":
        there &= ~np.isnan(plain)
    return plain, there


def _dense(data: Any, schema: ArraySchema, what: str) -> dict[str, Any]:
    if data.ndim != schema.ndim:
        raise _wrong(schema, data.ndim, what)
    values, there = _filled(data)
    places = np.nonzero(there)
    columns = {d.name: p + d.lo for d, p in zip(schema.dimensions, places, strict=True)}
    return {**columns, _only(schema, what): values[places]}


def _sparse(data: Any, schema: ArraySchema, what: str) -> dict[str, Any]:
    if data.ndim != schema.ndim:
        raise _wrong(schema, data.ndim, what)
    found = data.tocoo()
    places = (found.row, found.col) if found.ndim == 2 else found.coords
    columns = {d.name: np.asarray(p, np.int64) + d.lo for d, p in zip(schema.dimensions, places, strict=True)}
    return {**columns, _only(schema, what): found.data}


def _labelled(data: Any, schema: ArraySchema, what: str) -> dict[str, Any]:
    fields: dict[str, Any]
    fields = dict(data.data_vars) if hasattr(data, "data_vars") else {data.name or _only(schema, what): data}
    if not hasattr(data, "data_vars") and data.name not in schema.names:
        fields = {_only(schema, what): data}
    there: Any = None
    values: dict[str, Any] = {}
    for name, each in fields.items():
        if set(each.dims) != set(schema.dimension_names):
            raise EverfreshError(
                Code.ARGUMENT,
                f"'{name}' has the dimensions {', '.join(map(str, each.dims))}",
                place=what,
                hint="dimensions are: " + ", ".join(schema.dimension_names),
            )
        values[str(name)], filled = _filled(each.transpose(*schema.dimension_names).values)
        there = filled if there is None else there | filled
    if there is None:
        raise EverfreshError(Code.ARGUMENT, "the Dataset has no variables", place=what)
    places = np.nonzero(there)
    columns: dict[str, Any] = {}
    for dimension, place in zip(schema.dimensions, places, strict=True):
        labelled = dimension.name in data.coords
        columns[dimension.name] = (
            data.coords[dimension.name].values[place] if labelled else place + dimension.lo
        )
    for name, each in values.items():
        chosen = each[places]
        empty = np.isnan(chosen) if chosen.dtype.kind == "f" else None
        columns[name] = chosen if empty is None or not empty.any() else pa.array(chosen, mask=empty)
    return columns


@dataclass(frozen=True, eq=False)
class Array:
    """An array in memory: its schema, and its chunks that hold data, by their numbers.

    >>> from everfresh.arrays.model import Dimension
    >>> from everfresh.types import BIGINT, Column
    >>> schema = ArraySchema("a", (Dimension("i", 1, 8, 2),), (Column("v", BIGINT),))
    >>> a = Array(schema).changed(inserts=[(1, 10), (4, 40)])
    >>> sorted(a.chunks), len(a), a.changed(deletes=[(4, 40)]).to_arrow().to_pylist()
    ([0, 1], 2, [{'i': 1, 'v': 10}])
    """

    schema: ArraySchema
    chunks: Mapping[int, Chunk] = field(default_factory=dict)

    def changed(self, inserts: Any = (), deletes: Any = ()) -> Array:
        """The array after a batch of cells, which is taken whole or not at all."""
        schema = self.schema
        nothing = no_rows(schema.arrow)
        added, removed = (
            nothing if isinstance(rows, tuple) and not rows else read_cells(rows, schema)
            for rows in (inserts, deletes)
        )
        more, less = split(added, schema), split(removed, schema)
        chunks = dict(self.chunks)
        for number in sorted(more.keys() | less.keys()):
            old = chunks.pop(number, Chunk(nothing, schema.ndim))
            new = old.changed(schema, more.get(number, nothing), less.get(number, nothing))
            if len(new):
                chunks[number] = new
        return Array(schema, dict(sorted(chunks.items())))

    def __len__(self) -> int:
        return sum(map(len, self.chunks.values()))

    @cached_property
    def table(self) -> pa.Table:
        """All cells, chunk by chunk."""
        if not self.chunks:
            return no_rows(self.schema.arrow)
        return pa.concat_tables([c.table for c in self.chunks.values()]).combine_chunks()

    def to_arrow(self) -> pa.Table:
        """All cells in row-major order of the whole array."""
        return Chunk.of(self.table, self.schema.ndim).table


def split(table: pa.Table, schema: ArraySchema) -> dict[int, pa.Table]:
    """Cells by the number of their chunk; the order inside of one is kept."""
    numbers = schema.chunk_ids(coordinates(table, schema.ndim))
    if not len(numbers):
        return {}
    order = np.argsort(numbers, kind="stable")
    rows = table.take(order)
    numbers = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    ends = np.append(starts[1:], len(numbers))
    return {int(numbers[a]): rows.slice(a, b - a) for a, b in zip(starts, ends, strict=True)}


def array_of(schema: ArraySchema, cells: Any) -> Array:
    """An array with these cells."""
    table = read_cells(cells, schema)
    chunks = {number: Chunk.of(rows, schema.ndim) for number, rows in split(table, schema).items()}
    if schema.unique:
        for chunk in chunks.values():
            check_unique(chunk.coords, schema)
    return Array(schema, chunks)
