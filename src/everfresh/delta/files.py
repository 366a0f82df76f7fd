"""Parquet and CSV files as Arrow tables: one file, a folder, a glob or an address (s3://...).

CSV columns are read as text, so that `coerce` reads them by the schema's types: '007' stays '007' in a
VARCHAR, decimals and dates are exact, and a bad value is named with its row. An empty field is NULL, `""` the
empty text. The first line has the column names. Folders named `column=value` (Hive, Spark) below the folder
that was given are columns. Invariant: files come in the order of their paths; each gives its own table, so
that rows are counted per file.
"""

from __future__ import annotations

import csv
import glob
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from everfresh.errors import Code, EverfreshError
from everfresh.types import fold

_PARQUET = (".parquet", ".parq", ".pq")
_TEXT = {".csv": ",", ".tsv": "\t"}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")
_HINT = "files end in .parquet, .csv or .tsv (also .csv.gz); a folder or a glob of them will do"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def read_files(
    path: str | os.PathLike[str], *, what: str, kind: str | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """The file at `path`, or each of the files that it stands for, with its name; never none.

    `kind` ("parquet" or "csv") says what a file is whose name does not.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise EverfreshError(
            Code.ARGUMENT, "a path is a str, not bytes", place=what, hint="use os.fsdecode(path)"
        )
    filesystem, root, files = find(text, what)
    for file in files:
        table = _read(filesystem, file, what, kind)
        for name, value in partition(file[len(root) :]):
            if fold(name) not in {fold(column) for column in table.column_names}:
                table = table.append_column(name, pa.repeat(pa.scalar(value, pa.string()), table.num_rows))
        yield file, table


def find(text: str, what: str, ends: tuple[str, ...] = ()) -> tuple[Any, str, list[str]]:
    """The filesystem, the path below which folder names are columns, and the files; in folders those whose
    names end with one of `ends`, or those of data."""
    if "://" in text:
        try:
            filesystem, root = pa_fs.FileSystem.from_uri(text)
        except (pa.ArrowException, ValueError, OSError) as problem:
            raise EverfreshError(
                Code.ARGUMENT, f"cannot open '{text}': {problem}", place=what, hint=_HINT
            ) from problem
    else:
        filesystem, root = pa_fs.LocalFileSystem(), os.path.expanduser(text)
        if glob.has_magic(root) and not os.path.exists(root):
            fixed = root[: min(root.find(c) for c in "*?[" if c in root)]
            found = [
                file
                for match in sorted(glob.glob(root, recursive=True))
                for file in _below(filesystem, match, what, ends)
            ]
            return filesystem, fixed[: fixed.rfind("/") + 1], _some(list(dict.fromkeys(found)), text, what)
    return filesystem, root, _some(_below(filesystem, root, what, ends), text, what)


def _some(files: list[str], text: str, what: str) -> list[str]:
    if not files:
        raise EverfreshError(
            Code.NOT_FOUND, f"there are no Parquet or CSV files at '{text}'", place=what, hint=_HINT
        )
    return files


def _below(filesystem: Any, path: str, what: str, ends: tuple[str, ...] = ()) -> list[str]:
    """The file at `path`, or the data files in the folder there, without hidden files and markers."""
    try:
        info = filesystem.get_file_info(path)
        if info.type == pa_fs.FileType.NotFound:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no file '{path}'",
                place=what,
                hint=f"text is read as a path; {_HINT}",
            )
        if info.type == pa_fs.FileType.File:
            return [path]
        inside = filesystem.get_file_info(pa_fs.FileSelector(path, recursive=True))
    except (OSError, ValueError) as problem:  # the latter for text that no file system takes as a name
        raise unreadable(path, problem, what) from problem
    return sorted(
        item.path
        for item in inside
        if item.type == pa_fs.FileType.File
        and (item.path.lower().endswith(ends) if ends else kind_of(item.path))
        and not any(part.startswith((".", "_")) for part in item.path[len(path) :].split("/"))
    )


def partition(below: str) -> Iterator[tuple[str, str | None]]:
    """The columns that the folders of a path are, with their values."""
    for part in below.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals:
            yield unquote(name), None if value == _NO_VALUE else unquote(value)


def suffixes(format: str | None) -> list[str]:
    """How the names of data files end: of "parquet" files, of "csv" files, or (None) of both."""
    text = [*_TEXT, *(suffix + packed for suffix in _TEXT for packed in _PACKED)]
    return {"parquet": list(_PARQUET), "csv": text, None: [*_PARQUET, *text]}[format]


def kind_of(path: str) -> str | None:
    """`parquet`, the separator of a text file, or None."""
    lower = path.lower()
    if lower.endswith(_PARQUET):
        return "parquet"
    base, suffix = os.path.splitext(lower)
    return _TEXT.get(os.path.splitext(base)[1] if suffix in _PACKED else suffix)


def _read(filesystem: Any, path: str, what: str, given: str | None = None) -> pa.Table:
    kind = {None: kind_of(path), "csv": kind_of(path) or ","}.get(given, given)
    if kind is None:
        raise EverfreshError(
            Code.ARGUMENT, f"cannot tell what '{path}' is by its name", place=what, hint=_HINT
        )
    try:
        if kind != "parquet":
            return read_text(filesystem, path, kind, what)
        with filesystem.open_input_file(
            path
        ) as file:  # int96 is Spark's old timestamp: its years go beyond nanoseconds
            return pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read()
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as problem:
        raise unreadable(path, problem, what) from problem


def unreadable(path: str, problem: Exception, what: str) -> EverfreshError:
    """The error of a file that cannot be read."""
    hint = (
        "save the file as UTF-8"
        if "utf" in str(problem).lower()
        else "is the file whole, and of the kind its name says?"
    )
    return EverfreshError(Code.ARGUMENT, f"cannot read '{path}': {problem}", place=what, hint=hint)


def read_text(
    filesystem: Any,
    path: str,
    separator: str,
    what: str,
    *,
    header: bool = True,
    null: str = "",
) -> pa.Table:
    """A text file as a table of texts. Its first line has the names; without such a line (`header`) they are
    column0, column1, ..."""
    try:
        with filesystem.open_input_stream(path, compression="detect") as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
            first = next(csv.reader(text, delimiter=separator), None)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as problem:
        raise unreadable(path, problem, what) from problem
    if not first:
        raise EverfreshError(
            Code.ARGUMENT,
            f"'{path}' is empty",
            place=what,
            hint="the first line of the file has the column names",
        )
    given = None if header else [f"column{i}" for i in range(len(first))]
    names = given or first

    def read(handler: Any) -> pa.Table:
        with filesystem.open_input_stream(path, compression="detect") as stream:
            return pa_csv.read_csv(
                stream,
                read_options=pa_csv.ReadOptions(use_threads=handler is None, column_names=given),
                parse_options=pa_csv.ParseOptions(
                    delimiter=separator,
                    newlines_in_values=True,
                    invalid_row_handler=handler,
                    ignore_empty_lines=len(names) > 1,  # in a file of one column an empty line is a NULL
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )

    try:
        return read(None)
    except pa.ArrowInvalid as problem:
        if "columns, got" not in str(problem):
            raise
        _name_row(read, path, what)
        raise


def _name_row(read: Any, path: str, what: str) -> None:
    """Read once more, in order, to find the row with too many or too few fields; raise its error."""
    rows: list[Any] = []

    def note(row: Any) -> str:
        rows.append(row)
        return "error"

    try:
        read(note)
    except pa.ArrowInvalid as problem:
        if not rows:
            raise
        bad, row = rows[0], rows[0].number - 2  # Arrow counts from 1, and the header too
        raise EverfreshError(
            Code.VALUE,
            f"row {row} of '{path}' has {bad.actual_columns} fields for {bad.expected_columns} columns",
            place=f"{what}, file '{path}', row {row}",
            hint="put text that has the separator in it in double quotes",
        ) from problem


@dataclass(frozen=True, slots=True)
class Parquet:
    """Parquet files at a local path: their size in bytes, the columns of the first, and about how many
    rows they have, judged by the first."""

    size: int
    names: tuple[str, ...]
    rows: int


def parquet_files(path: str, what: str) -> list[str]:
    """The local Parquet files at a path; none where there are others, or folders whose names are columns."""
    if "://" in path:
        return []
    _, root, files = find(path, what)
    other = any(kind_of(file) != "parquet" or any(partition(file[len(root) :])) for file in files)
    return [] if other else files


def find_parquet(data: Any, what: str) -> Parquet | None:
    """The Parquet files at a local path, without reading their rows; None if `data` is not such a path."""
    if not isinstance(data, str | os.PathLike) or "://" in str(os.fspath(data)):
        return None
    filesystem, root, files = find(str(os.fspath(data)), what)
    if any(kind_of(file) != "parquet" for file in files):
        return None
    try:
        first = pq.read_metadata(files[0], filesystem=filesystem)
        names = first.schema.to_arrow_schema().names
    except (pa.ArrowException, OSError) as problem:
        raise unreadable(files[0], problem, what) from problem
    folders = [name for name, _ in partition(files[0][len(root) :]) if name not in names]
    sizes = [info.size for info in filesystem.get_file_info(files)]
    rows = round(first.num_rows * sum(sizes) / max(sizes[0], 1))
    return Parquet(int(sum(sizes)), (*names, *folders), rows)
