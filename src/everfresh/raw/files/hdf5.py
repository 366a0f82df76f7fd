"""HDF5, by h5py: a table of records, columns beside each other, or dense datasets.

What a file holds is told by its shape: the first dataset of records is a table; else datasets of one axis and
one length are columns; else all datasets of the shape of the largest are dense. An attribute `axes`, or the
labels of HDF5's dimensions, names the axes of dense ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.raw.files.columns import Slab, batch_of, schema_of, steps
from everfresh.raw.files.dense import dense_ranges, dense_rows, dense_schema
from everfresh.raw.files.places import opened
from everfresh.raw.files.protocol import BATCH, Ranges, corrupt, installed
from everfresh.state import is_url


class Hdf5:
    """Tables, columns and dense datasets of HDF5."""

    name = "hdf5"
    endings: tuple[str, ...] = (".h5", ".hdf5", ".hdf")

    def columns(self, path: str) -> pa.Schema:
        """As the datasets say."""
        with _content(path) as found:
            return found.schema

    def ranges(self, path: str) -> Ranges:
        """The places of dense datasets; else attributes `valid_min` and `valid_max` of columns."""
        with _content(path) as found:
            ranges: Ranges = found.ranges
            return ranges

    def rows(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some rows at a time."""
        done = 0
        with _content(path) as found:
            rows = found.rows(columns)
            while True:
                try:
                    batch = next(rows, None)
                except (OSError, RuntimeError) as error:
                    raise corrupt(path, error, done) from error
                if batch is None:
                    return
                done += batch.num_rows
                yield batch


def whole_chunks(dataset: Any) -> int:
    """About as many rows as a batch has, so that no chunk of a dataset is unpacked for two of them."""
    rows = int((dataset.chunks or (1,))[0])
    return BATCH if rows > 4 * BATCH else max(rows, BATCH // rows * rows)


class Records:
    """A dataset of records."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        kinds = dataset.dtype
        self._fields = [(name, kinds[name].base, kinds[name].shape) for name in kinds.names]
        self.schema = schema_of(self._fields)
        self.ranges: Ranges = {}

    def rows(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All records."""
        slab = Slab(self._dataset.dtype)
        for begin, end in steps(self._dataset.shape[0], whole_chunks(self._dataset)):
            some = slab.of(end - begin)
            if end > begin:
                self._dataset.read_direct(some, np.s_[begin:end])
            yield batch_of([(name, some[name]) for name, _, _ in self._fields], wanted)


class Beside:
    """Datasets of one axis, a column each."""

    def __init__(self, datasets: dict[str, Any]) -> None:
        self._datasets = datasets
        self.schema = schema_of([(name, each.dtype, ()) for name, each in datasets.items()])
        self.ranges = {
            name: (_number(each.attrs["valid_min"]), _number(each.attrs["valid_max"]))
            for name, each in datasets.items()
            if "valid_min" in each.attrs and "valid_max" in each.attrs
        }

    def rows(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows."""
        first = next(iter(self._datasets.values()))
        for begin, end in steps(len(first), whole_chunks(first)):
            yield batch_of([(name, np.asarray(self._datasets[name][begin:end])) for name in wanted], wanted)


class Dense:
    """Datasets of one shape with several axes."""

    def __init__(self, datasets: dict[str, Any], axes: Sequence[str], empty: dict[str, Any]) -> None:
        self._datasets, self._axes, self._empty = datasets, axes, empty
        self.schema = dense_schema(axes, datasets)
        self.ranges = dense_ranges(axes, next(iter(datasets.values())).shape)

    def rows(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All elements."""
        return dense_rows(self._axes, self._datasets, self._empty, wanted)


def content_of(datasets: dict[str, Any], axes: Any, empty: Any) -> Records | Beside | Dense:
    """What datasets are, by their shapes; `axes` and `empty` tell the axes and the fill value of one."""
    records = next((each for each in datasets.values() if each.dtype.names and each.ndim == 1), None)
    if records is not None:
        return Records(records)
    plain = {name: each for name, each in datasets.items() if not each.dtype.names and each.ndim}
    if not plain:
        raise ValueError("there is no dataset in it")
    largest = max(
        plain.values(), key=lambda each: (int(np.prod(each.shape)), -list(plain.values()).index(each))
    )
    if largest.ndim == 1:
        return Beside({n: d for n, d in plain.items() if d.shape == largest.shape})
    same = {n: d for n, d in plain.items() if d.shape == largest.shape}
    told = (found for each in same.values() if (found := axes(each)))
    names = next(told, [f"axis{k}" for k in range(largest.ndim)])
    return Dense(same, names, {n: empty(d) for n, d in same.items()})


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _axes(dataset: Any) -> list[str] | None:
    given = dataset.attrs.get("axes")
    if given is not None:
        return [n.decode() if isinstance(n, bytes) else str(n) for n in np.atleast_1d(given)]
    labels = [dimension.label for dimension in dataset.dims]
    return labels if all(labels) else None


def _empty(dataset: Any) -> Any:
    value = dataset.attrs.get("_FillValue")
    return None if value is None else _number(np.atleast_1d(value)[0])


@contextmanager
def _content(path: str) -> Iterator[Any]:
    h5py = installed("h5py", path)
    with opened(path) as handle:
        try:
            found = h5py.File(handle if is_url(path) else path, "r")  # by itself it needs no Python to read
            datasets: dict[str, Any] = {}
            found.visititems(lambda n, o: datasets.update({n: o}) if isinstance(o, h5py.Dataset) else None)
            short = {name.rpartition("/")[2]: each for name, each in datasets.items()}
            content = content_of(short if len(short) == len(datasets) else datasets, _axes, _empty)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise corrupt(path, error) from error
        with found:
            yield content
