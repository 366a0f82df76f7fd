"""Dense datasets as cells: a row for each element, with its place as columns.

The columns of a dataset `flux` with two axes are `axis0`, `axis1` (or the names that the file gives its axes)
and `flux`. Elements that are NaN, or what the file says stands for nothing, are no cells. Several datasets of
one shape are columns beside each other; then an element is a cell where one of them has a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.raw.files.columns import arrow_column, arrow_type
from everfresh.raw.files.protocol import BATCH, Ranges


def dense_schema(axes: Sequence[str], datasets: Mapping[str, Any]) -> pa.Schema:
    """The columns of dense datasets."""
    return pa.schema(
        [(a, pa.int64()) for a in axes] + [(n, arrow_type(d.dtype)) for n, d in datasets.items()]
    )


def dense_ranges(axes: Sequence[str], shape: Sequence[int]) -> Ranges:
    """Places are known by the shape."""
    return {axis: (0, int(size) - 1) for axis, size in zip(axes, shape, strict=True) if size}


def dense_rows(
    axes: Sequence[str], datasets: Mapping[str, Any], empty: Mapping[str, Any], wanted: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The elements, slab by slab along the first axis."""
    shape = next(iter(datasets.values())).shape
    inner = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    step = max(1, BATCH // max(1, inner))
    for begin in range(0, shape[0], step):
        slabs = {name: np.asarray(each[begin : begin + step]) for name, each in datasets.items()}
        there = {name: _there(values, empty.get(name)) for name, values in slabs.items()}
        some = np.logical_or.reduce(list(there.values()))
        places = np.nonzero(some)
        columns: dict[str, pa.Array] = {
            axis: pa.array(place + (begin if k == 0 else 0))
            for k, (axis, place) in enumerate(zip(axes, places, strict=True))
        }
        for name, values in slabs.items():
            column = arrow_column(values[places])
            absent = ~there[name][places]
            if absent.any():
                column = pa.array(column.to_pylist(), column.type, mask=absent)
            columns[name] = column
        yield pa.record_batch([columns[name] for name in wanted], names=list(wanted))


def _there(values: Any, empty: Any) -> Any:
    there = np.ones(values.shape, np.bool_)
    if values.dtype.kind == "f":
        there &= ~np.isnan(values)
    if empty is not None and not (isinstance(empty, float) and np.isnan(empty)):
        there &= values != empty
    return there
