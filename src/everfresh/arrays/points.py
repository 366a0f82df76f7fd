"""Points as an array: real coordinates cut into cells.

Section 2.3 of the paper on similarity joins: points become cells at some resolution, after which distances
are shapes. A cell with several points holds them all.

Invariant: a point lies in the cell `floor(coordinate / cell)` of each dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.cells import Array, array_of
from everfresh.arrays.model import ArraySchema, Dimension
from everfresh.arrays.sky.sources import read_points
from everfresh.errors import Code, EverfreshError
from everfresh.types import Column, from_arrow


def from_points(
    data: Any,
    names: Sequence[str] | str,
    *,
    cell: float | Sequence[float],
    chunk: int | Sequence[int],
    name: str = "points",
) -> Array:
    """The array of points with these coordinates: cells of size `cell`, chunks of `chunk` cells; the other
    columns are its attributes.

    >>> a = from_points({"x": [0.2, 0.3, -4.0], "y": [9.5, 9.9, 0.0], "v": [1, 2, 3]}, ["x", "y"],
    ...                 cell=0.5, chunk=4)
    >>> print(a.schema.ddl)
    CREATE ARRAY points <v: BIGINT> [x=-8,0,4; y=0,19,4]
    >>> a.to_arrow().to_pydict()
    {'x': [-8, 0, 0], 'y': [0, 19, 19], 'v': [3, 1, 2]}
    """
    names = [names] if isinstance(names, str) else names
    points = read_points(data, None, name)
    missing = [n for n in names if n not in points.table.column_names]
    if missing or not names:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"there is no column '{missing[0]}'" if missing else "no coordinates are named",
            place=name,
            hint="columns are: " + ", ".join(points.table.column_names),
        )
    if not len(points):
        raise EverfreshError(Code.ARGUMENT, "there are no points, so their range is not known", place=name)
    sizes, lengths = (_each(value, len(names), what) for value, what in ((cell, "cell"), (chunk, "chunk")))
    columns: dict[str, Any] = {}
    dimensions = []
    for n, size, length in zip(names, sizes, lengths, strict=True):
        values = points.numbers(n)
        bad = np.flatnonzero(~np.isfinite(values / size) | (np.abs(values / size) >= 1 << 52))
        if len(bad):
            raise EverfreshError(
                Code.VALUE,
                f"{n} = {values[bad[0]]} is in no cell",
                place=f"{name}, row {bad[0]}",
                hint="leave out rows without coordinates, or choose larger cells",
            )
        index = np.floor(values / size).astype(np.int64)
        columns[n] = index
        dimensions.append(Dimension(n, int(index.min()), int(index.max()), int(length)))
    attributes = []
    for field in points.table.schema:
        if field.name not in names:
            kind = from_arrow(field.type)
            if kind is None:
                raise EverfreshError(
                    Code.TYPE, f"column '{field.name}' is {field.type}, which no attribute is", place=name
                )
            attributes.append(Column(field.name, kind))
            columns[field.name] = points.table.column(field.name)
    return array_of(ArraySchema(name, tuple(dimensions), tuple(attributes)), pa.table(columns))


def _each(value: Any, count: int, what: str) -> list[Any]:
    """One number for each dimension."""
    values = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value] * count
    if len(values) != count or not all(v > 0 for v in values):
        raise EverfreshError(
            Code.ARGUMENT,
            f"{value} is no size for {count} dimensions",
            place=what,
            hint="give a number above 0, or one for each dimension",
        )
    return values
