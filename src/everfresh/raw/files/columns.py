"""Columns of NumPy as rows of Arrow: what files of scientific formats hold.

A field of several numbers becomes several columns (`flux_0`, `flux_1`, ...), a string of fixed length loses
the blanks at its end, and numbers of either byte order are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.raw.files.protocol import BATCH


def names_of(name: str, shape: tuple[int, ...]) -> list[str]:
    """The columns that a field becomes.

    >>> names_of("flux", ()), names_of("flux", (2,))
    (['flux'], ['flux_0', 'flux_1'])
    """
    return [name] if not shape else [f"{name}_{k}" for k in range(int(np.prod(shape)))]


def arrow_type(kind: np.dtype[Any]) -> pa.DataType:
    """The type of a column of NumPy's; text for what has none."""
    if kind.kind in "biuf":
        return pa.from_numpy_dtype(kind.newbyteorder("="))
    return pa.timestamp("us") if kind.kind == "M" else pa.string()


def schema_of(fields: Sequence[tuple[str, np.dtype[Any], tuple[int, ...]]]) -> pa.Schema:
    """The columns of these fields."""
    return pa.schema(
        [(each, arrow_type(kind)) for name, kind, shape in fields for each in names_of(name, shape)]
    )


def arrow_column(values: Any) -> pa.Array:
    """One column."""
    if values.dtype.kind in "biuf":
        kind = (
            np.dtype(np.float32) if values.dtype.itemsize == 2 and values.dtype.kind == "f" else values.dtype
        )
        mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        return pa.array(np.ascontiguousarray(values, kind.newbyteorder("=")), mask=mask)
    if values.dtype.kind == "M":
        return pa.array(values.astype("datetime64[us]"))
    return pa.array([_text(value) for value in values.tolist()], pa.string())


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").rstrip(" \0")
    return None if value is None else str(value).rstrip(" \0")


def batch_of(fields: Sequence[tuple[str, Any]], wanted: Sequence[str]) -> pa.RecordBatch:
    """Rows with the wanted columns; a field has its rows along its first axis."""
    columns: dict[str, pa.Array] = {}
    for name, values in fields:
        flat = values.reshape(len(values), -1) if values.ndim > 1 else values[:, None]
        for k, each in enumerate(names_of(name, values.shape[1:])):
            if each in wanted:
                columns[each] = arrow_column(flat[:, k])
    return pa.record_batch([columns[name] for name in wanted], names=list(wanted))


class Slab:
    """Room for records, which those of the next batch may take, as columns are copied out of it.

    >>> some, bytes_ = Slab(np.dtype([("x", "<i4"), ("y", "<f8")])), Slab(np.dtype([("x", "u1")]))
    >>> [np.shares_memory(slab.of(3), slab.of(2)) for slab in (some, bytes_)]
    [True, False]
    """

    def __init__(self, kind: np.dtype[Any]) -> None:
        self._kind, self._room = kind, np.empty(0, kind)
        sizes = [kind[name].itemsize for name in kind.names or ()]
        self._copied = all(size < kind.itemsize for size in sizes)
        """Whether every field is less than a record: then its column is no slice of the room, and copied."""

    def of(self, rows: int) -> Any:
        """Room for so many records."""
        if not self._copied:
            return np.empty(rows, self._kind)
        if len(self._room) < rows:
            self._room = np.empty(rows, self._kind)
        return self._room[:rows]


def steps(rows: int, most: int = BATCH) -> Iterator[tuple[int, int]]:
    """Ranges of rows, one batch each."""
    for begin in range(0, rows, most):
        yield begin, min(rows, begin + most)
