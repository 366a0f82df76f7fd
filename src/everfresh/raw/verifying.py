"""Whether the pieces of files cover their cells: what the cache rests on, looked at from the files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from everfresh.arrays.chunk import Chunk
from everfresh.raw.catalog import UNKNOWN, Catalog
from everfresh.raw.cells import CellReader
from everfresh.types import no_rows


def misplaced(reader: CellReader, catalog: Catalog) -> pa.Table:
    """The cells that are in no piece of their file, in more than one, or in one that counts them wrong."""
    found = [no_rows(reader.schema.arrow)]
    for path in catalog.files:
        pieces = catalog.of_file(path)
        counts = dict.fromkeys((piece.number for piece in pieces), 0)
        for _, table in reader.cells(path):
            coords = Chunk(table, reader.schema.ndim).coords
            times = np.zeros(table.num_rows, np.int64)
            for piece in pieces:
                inside = piece.box.holds(coords)
                counts[piece.number] += int(inside.sum())
                times += inside
            found.append(table.filter(pa.array(times != 1)))
        for piece in pieces:
            if piece.cells not in (UNKNOWN, counts[piece.number]):
                found.append(_one(reader, piece.box.lo))
    return pa.concat_tables(found)


def _one(reader: CellReader, at: tuple[int, ...]) -> pa.Table:
    """A row that stands for a box with another number of cells."""
    columns = [pa.array([x], pa.int64()) for x in at]
    columns += [pa.nulls(1, field.type) for field in list(reader.schema.arrow)[len(at) :]]
    names = reader.schema.arrow.names
    return pa.Table.from_arrays(columns, names).cast(
        pa.schema([pa.field(f.name, f.type) for f in reader.schema.arrow])
    )
