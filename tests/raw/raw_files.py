"""Files of all formats with the same rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

Writer = Callable[[Path, pa.Table], Path]


def csv(path: Path, rows: pa.Table) -> Path:
    pyarrow.csv.write_csv(rows, path.with_suffix(".csv"))
    return path.with_suffix(".csv")


def csv_gz(path: Path, rows: pa.Table) -> Path:
    packed = path.with_suffix(".csv.gz")
    with gzip.open(packed, "wb") as file:
        pyarrow.csv.write_csv(rows, file)
    return packed


def parquet(path: Path, rows: pa.Table) -> Path:
    pyarrow.parquet.write_table(rows, path.with_suffix(".parquet"), row_group_size=7)
    return path.with_suffix(".parquet")


def _numpy(rows: pa.Table) -> dict[str, Any]:
    return {name: rows.column(name).to_numpy() for name in rows.column_names}


def fits(path: Path, rows: pa.Table) -> Path:
    from astropy.table import Table

    Table(_numpy(rows)).write(path.with_suffix(".fits"), overwrite=True)
    return path.with_suffix(".fits")


def hdf5_records(path: Path, rows: pa.Table) -> Path:
    import h5py

    columns = _numpy(rows)
    kind = [(name, column.dtype) for name, column in columns.items()]
    records = np.empty(rows.num_rows, kind)
    for name, column in columns.items():
        records[name] = column
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file.create_dataset("group/rows", data=records)
    return path.with_suffix(".h5")


def hdf5_columns(path: Path, rows: pa.Table) -> Path:
    import h5py

    with h5py.File(path.with_suffix(".hdf5"), "w") as file:
        for name, column in _numpy(rows).items():
            file.create_dataset(name, data=column)
    return path.with_suffix(".hdf5")


def zarr(path: Path, rows: pa.Table) -> Path:
    import zarr as library

    group = library.open_group(path.with_suffix(".zarr"), mode="w")
    for name, column in _numpy(rows).items():
        group.create_array(name, data=column)
    return path.with_suffix(".zarr")


WRITERS: dict[str, Writer] = {
    f.__name__: f for f in (csv, csv_gz, parquet, fits, hdf5_records, hdf5_columns, zarr)
}
