"""Zarr, by its own library: arrays of one axis are columns, others are dense.

Arrays of a group are told apart as datasets of HDF5 are; `dimension_names` names axes, and the fill value
stands for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.raw.files.hdf5 import content_of
from everfresh.raw.files.places import store_at
from everfresh.raw.files.protocol import Ranges, corrupt, installed
from everfresh.state import is_url


class Zarr:
    """Arrays and groups of Zarr."""

    name = "zarr"
    endings: tuple[str, ...] = (".zarr",)

    def columns(self, path: str) -> pa.Schema:
        """As the arrays say."""
        with _content(path) as found:
            return found.schema

    def ranges(self, path: str) -> Ranges:
        """The places of dense arrays."""
        with _content(path) as found:
            ranges: Ranges = found.ranges
            return ranges

    def rows(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some rows at a time."""
        with _content(path) as found:
            try:
                yield from found.rows(columns)
            except (OSError, RuntimeError, ValueError) as error:
                raise corrupt(path, error) from error


def _axes(array: Any) -> list[str] | None:
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    return list(map(str, names)) if names and all(names) else None


def _empty(array: Any) -> Any:
    value = array.fill_value
    return value.item() if isinstance(value, np.generic) else value


@contextmanager
def _content(path: str) -> Iterator[Any]:
    zarr = installed("zarr", path)
    try:
        if is_url(path):
            store, name = store_at(path)
            found = zarr.open(zarr.storage.ObjectStore(store, read_only=True), path=name, mode="r")
        else:
            found = zarr.open(path, mode="r")
        single = isinstance(found, zarr.Array)
        arrays = (
            {path.rstrip("/").rpartition("/")[2].partition(".")[0]: found} if single else dict(found.arrays())
        )
        content = content_of({name: _Array(each) for name, each in arrays.items()}, _axes, _empty)
    except Exception as error:  # zarr raises many kinds for a folder that is none of its own
        raise corrupt(path, error) from error
    yield content


class _Array:
    """An array of Zarr with a length, as datasets have one."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array, name)

    def __len__(self) -> int:
        return int(self._array.shape[0])

    def __getitem__(self, some: Any) -> Any:
        return self._array[some]
