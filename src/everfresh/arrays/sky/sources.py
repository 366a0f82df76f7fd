"""Tables of points, whatever holds them: columns by name as numbers, and rows of chosen columns.

Arrow, pandas and Polars, astropy's Tables, dicts of columns, Parquet files and folders of them, and HATS
catalogs, whose `Norder=/Dir=/Npix=` folders are nothing but partitions. Of files only the columns that are
asked for are read. Foreign classes are known by their modules' names and never imported.

Invariant: rows are numbered as the data have them, those of a folder by the sorted paths of its files.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from everfresh.errors import Code, EverfreshError

Floats = NDArray[np.float64]
_KINDS = (
    "points can be a pyarrow Table, a pandas or Polars DataFrame, an astropy Table, a dict of columns, or "
    "the path of Parquet files or of a HATS catalog"
)


@dataclass(frozen=True, eq=False)
class Points:
    """A table of points; `what` names it in errors."""

    table: pa.Table
    what: str

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows

    def numbers(self, name: str, base: int = 0) -> Floats:
        """A column as doubles, less `base` before they are made such; what is NULL is NaN."""
        column = self.table.column(name)
        kind = column.type
        if pa.types.is_null(kind):  # a list without values says no type
            return np.full(len(column), np.nan)
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            raise EverfreshError(
                Code.TYPE,
                f"column '{name}' is {kind}, not numbers",
                place=self.what,
                hint="cast it to DOUBLE: dates to days, for example",
            )
        if base:
            column = pc.subtract(column.cast(pa.int64()), pa.scalar(base, pa.int64()))
        return np.concatenate([np.empty(0), *map(_doubles, column.chunks)])

    def extent(self, name: str) -> tuple[int, int] | None:
        """The least and the greatest of a column of whole numbers; None if it has none, or other numbers."""
        column = self.table.column(name)
        if not pa.types.is_integer(column.type):
            return None
        found = pc.min_max(column).as_py()
        return None if found["min"] is None else (found["min"], found["max"])

    def taken(self, name: str, rows: pa.Array) -> Any:
        """A column at these rows; what has no row is NULL."""
        column = self.table.column(name)
        if pa.types.is_string_view(column.type):  # of Polars, which Arrow does not take from
            column = column.cast(pa.large_string())
        return column.take(rows)


def common_base(a: Points, b: Points, names: tuple[str, str]) -> int:
    """What to take from two columns of whole numbers so that their differences are exact in doubles: 0 where
    they are already.

    >>> one, other = ({"t": [1 << 60]}, {"t": [(1 << 60) + 1]})
    >>> a, b = read_points(one, None, "left"), read_points(other, None, "right")
    >>> base = common_base(a, b, ("t", "t"))
    >>> (b.numbers("t", base) - a.numbers("t", base)).tolist()
    [1.0]
    """
    extents = [side.extent(name) for side, name in zip((a, b), names, strict=True)]
    if None in extents:
        return 0
    least, most = min(e[0] for e in extents if e), max(e[1] for e in extents if e)
    if max(-least, most) <= 1 << 53 or most - least >= 1 << 63 or most >= 1 << 63:
        return 0
    return least


def read_points(data: Any, names: Sequence[str] | None, what: str) -> Points:
    """The columns `names` of data of any kind, or all of them.

    >>> read_points({"ra": [1.5, 2.5], "mag": [20, 21]}, ["ra"], "left").numbers("ra").tolist()
    [1.5, 2.5]
    """
    if isinstance(data, (str, os.PathLike)):
        return Points(_read_files(Path(data), names, what), what)
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, pa.Table):
        table = data
    elif module == "astropy" and hasattr(data, "colnames"):
        table = _astropy(data, _known(names, data.colnames, what), what)
    elif isinstance(data, Mapping):
        table = _named({str(n): _array(v, n, what) for n, v in data.items()}, what)
    elif module == "pandas" and hasattr(data, "columns"):
        columns = list(map(str, data.columns))
        wanted = _known(names, columns, what)
        table = pa.table({n: pa.array(data.iloc[:, columns.index(n)], from_pandas=True) for n in wanted})
    elif module == "polars" and hasattr(data, "collect"):
        return read_points(data.collect(), names, what)
    elif hasattr(data, "__arrow_c_stream__"):
        table = pa.table(data)
    else:
        raise EverfreshError(
            Code.ARGUMENT, f"a {type(data).__name__} is not a table of points", place=what, hint=_KINDS
        )
    return Points(table.select(list(_known(names, table.column_names, what))), what)


def column_of(values: NDArray[Any], there: NDArray[np.bool_] | None = None) -> pa.Array:
    """64-bit integers or doubles as Arrow data; what is not `there` is NULL.

    `pa.array` would do, and load pandas on its first call, which takes longer than many a match.

    >>> column_of(np.array([1.5, 2.5]), np.array([True, False])).to_pylist()
    [1.5, None]
    """
    kind = {"i": pa.int64(), "f": pa.float64()}[values.dtype.kind]
    plain = np.ascontiguousarray(values, np.int64 if values.dtype.kind == "i" else np.float64)
    bitmap = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(plain), [bitmap, pa.py_buffer(plain)])


def _doubles(chunk: pa.Array) -> Floats:
    """An Arrow array of numbers as doubles, without loading pandas."""
    if not pa.types.is_float64(chunk.type):
        chunk = chunk.cast(pa.float64(), safe=False)  # of a whole number with more digits, the nearest double
    bitmap, values = chunk.buffers()
    start, end = chunk.offset, chunk.offset + len(chunk)
    if end == start:
        return np.empty(0)
    found = np.frombuffer(values, np.float64, count=end)[start:].copy()
    if chunk.null_count:
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
        found[bits[start:end] == 0] = np.nan
    return found


def _known(names: Sequence[str] | None, columns: Sequence[str], what: str) -> list[str]:
    """The names, once each, if all are columns."""
    if names is None:
        return list(columns)
    for name in names:
        if list(columns).count(name) > 1:
            raise EverfreshError(Code.ARGUMENT, f"there are several columns '{name}'", place=what)
        if name not in columns:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no column '{name}'",
                place=what,
                hint="columns are: " + ", ".join(map(str, columns)),
            )
    return list(dict.fromkeys(names))


def _array(values: Any, name: Any, what: str) -> Any:
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "if":
        return column_of(values)
    try:
        return values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise EverfreshError(
            Code.ARGUMENT, f"column '{name}' cannot be read: {error}", place=what, hint=_KINDS
        ) from None


def _named(columns: Mapping[str, Any], what: str) -> pa.Table:
    try:
        return pa.Table.from_arrays(list(columns.values()), list(columns))
    except pa.ArrowInvalid as error:
        raise EverfreshError(Code.ARGUMENT, f"columns differ in length: {error}", place=what) from None


def _astropy(data: Any, names: Sequence[str], what: str) -> pa.Table:
    """Columns of an astropy Table: angles in degrees, masked values NULL."""
    columns: dict[str, Any] = {}
    for name in names:
        column = data[name]
        unit = getattr(column, "unit", None)
        if unit is not None and getattr(unit, "physical_type", None) == "angle":
            column = getattr(column, "quantity", column).to("deg")
        mask = np.ma.getmaskarray(column) if hasattr(column, "mask") else None
        values = np.asarray(getattr(column, "value", column))
        if values.dtype.kind not in "iufbSU" or values.ndim != 1:
            raise EverfreshError(
                Code.TYPE, f"column '{name}' has no plain values", place=what, hint="choose other columns"
            )
        native = values.astype(values.dtype.newbyteorder("="))  # FITS is big-endian
        texts = _decoded(native, name, what) if native.dtype.kind == "S" else native
        columns[name] = pa.array(texts, mask=None if mask is None else np.asarray(mask))
    return pa.table(columns)


def _decoded(values: NDArray[Any], name: str, what: str) -> list[str]:
    try:
        return [v.decode() for v in values.tolist()]
    except UnicodeDecodeError as error:
        raise EverfreshError(Code.VALUE, f"column '{name}' is no text: {error}", place=what) from None


def files_of(path: Path, what: str) -> list[str]:
    """The Parquet files of a path: itself, those of a folder, or the partitions of a HATS catalog, which has
    other files beside them."""
    if not path.exists():
        raise EverfreshError(Code.NOT_FOUND, f"there is no file or folder '{path}'", place=what)
    if not path.is_dir():
        return [str(path)]
    told = path / "collection.properties"  # of a HATS collection: a catalog, and its margins and indexes
    lines = told.read_text().splitlines() if told.is_file() else []
    primary = [line.partition("=")[2].strip() for line in lines if line.startswith("hats_primary_table_url")]
    path = path / primary[0] if primary else path
    inside = path / "dataset" if (path / "dataset").is_dir() else path
    parted = sorted(inside.glob("Norder=*"))
    files = sorted(
        str(file)
        for folder in parted or [inside]
        for file in folder.rglob("*.parquet")
        if file.is_file() and not any(p.startswith(("_", ".")) for p in file.relative_to(inside).parts)
    )
    if not files:
        raise EverfreshError(Code.NOT_FOUND, f"there is no Parquet file in '{path}'", place=what)
    return files


def _read_files(path: Path, names: Sequence[str] | None, what: str) -> pa.Table:
    from pyarrow import dataset, parquet

    files = files_of(path, what)
    try:
        found = dataset.dataset(files, format="parquet")
        wanted = _known(names, found.schema.names, what)
        pieces = [parquet.ParquetFile(file).read(columns=wanted).select(wanted) for file in files]
        return pa.concat_tables(pieces, promote_options="permissive")
    except pa.ArrowException as error:
        raise EverfreshError(
            Code.FORMAT, f"'{path}' cannot be read as Parquet: {error}", place=what
        ) from None


def write_table(table: pa.Table, path: Path) -> None:
    """One table as one file, whole or not at all."""
    from pyarrow import parquet

    unfinished = path.with_name(f"_unfinished-{uuid.uuid4().hex}")
    try:
        parquet.write_table(table, unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
