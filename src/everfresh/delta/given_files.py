"""Files that a query reads where they lie: Parquet, CSV and JSON, as `Given` rows.

| kind | types of its columns |
|---|---|
| Parquet | its own; a column is read when it is asked for |
| CSV | the first that all values are written as (`everfresh.delta.guessed`), over all rows |
| JSON | those of its values; one array of objects, or objects one after another |

Files of one query have the same columns, by name and in the order of the first; with `union_by_name` a column
that a file lacks is NULL. Folders named `column=value` are columns. An empty field of a CSV file is NULL and
`""` the empty text, as in every CSV file that is read or written.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from everfresh.delta.coerce import coerce_column
from everfresh.delta.files import find, kind_of, partition, read_text, suffixes, unreadable
from everfresh.delta.given import Given, type_of
from everfresh.delta.guessed import shaped, type_of_json, type_of_texts
from everfresh.errors import Code, EverfreshError
from everfresh.types import VARCHAR, Column, SqlType, common_type, distinct_names, fold

JSON_ENDS = (".json", ".jsonl", ".ndjson")
_SEPARATORS = (",", "|", ";", "\t")


@dataclass(frozen=True)
class FileOptions:
    """What a query says about its files."""

    header: bool | None = None
    delimiter: str | None = None
    all_varchar: bool = False
    nullstr: str = ""
    columns: tuple[tuple[str, SqlType], ...] = ()
    union_by_name: bool = False
    partitions: bool = field(default=True)


def kind_of_file(path: str) -> str | None:
    """What a query takes a file for, by its name: "parquet", "csv", "json" or nothing.

    >>> [kind_of_file(p) for p in ("a/*.parquet", "b.CSV.gz", "c.ndjson", "orders")]
    ['parquet', 'csv', 'json', None]
    """
    lower = path.lower()
    if lower.removesuffix(".gz").endswith(JSON_ENDS):
        return "json"
    found = kind_of(path)
    return "csv" if found not in (None, "parquet") else found


@dataclass(frozen=True)
class _File:
    """One file: where it is, and what its folders say."""

    system: Any
    path: str
    folders: tuple[tuple[str, str | None], ...]


def given_files(paths: Sequence[str], kind: str, options: FileOptions, what: str) -> Given:
    """The rows of the files at some paths (files, folders, globs, addresses), as one relation."""
    ends = JSON_ENDS if kind == "json" else tuple(suffixes(kind))
    files = []
    for path in paths:
        system, root, found = find(path, what, ends)
        for one in found:
            files.append(_File(system, one, tuple(partition(one[len(root) :])) if options.partitions else ()))
    return {"parquet": _parquet, "csv": _csv, "json": _json}[kind](files, options, what)


def _joined(
    files: Sequence[_File],
    options: FileOptions,
    what: str,
    names: Sequence[Sequence[str]],
    typed: Callable[[int, str], SqlType],
    load: Callable[[int, str], Any],
    rows: Sequence[int],
) -> Given:
    """One relation of files with these names of columns, loaded by file and name, and of these many rows."""
    order: dict[str, str] = {}
    for some in names if options.union_by_name else names[:1]:
        for name in some:
            order.setdefault(fold(name), name)
    for file, some in zip(files, names, strict=True):
        lacking = next((n for key, n in order.items() if key not in set(map(fold, some))), None)
        if lacking is not None and not options.union_by_name:
            raise EverfreshError(
                Code.ARGUMENT,
                f"file '{file.path}' has no column '{lacking}', which '{files[0].path}' has",
                place=what,
                hint="read_parquet([...], union_by_name = true) takes it for NULL",
            )
    columns: list[Column] = []
    loads: list[Callable[[], Any]] = []
    for key, name in order.items():
        places = [next((n for n in some if fold(n) == key), None) for some in names]
        types = [typed(i, n) for i, n in enumerate(places) if n is not None]
        column = Column(name, _common(types, name, what))
        columns.append(column)
        loads.append(_loading(column, places, load, rows, what))
    found = {fold(c.name) for c in columns}
    for key in dict.fromkeys(fold(n) for f in files for n, _ in f.folders):
        if key not in found:
            column, values = _of_folders(files, key, rows, what)
            columns.append(column)
            loads.append(partial(_same, values))
    return Given(what, columns, lambda i: loads[i](), lambda: sum(rows))


def _same(values: Any) -> Any:
    return values


def _loading(
    column: Column,
    places: Sequence[str | None],
    load: Callable[[int, str], Any],
    rows: Sequence[int],
    what: str,
) -> Callable[[], Any]:
    def read() -> Any:
        found = [
            pa.nulls(rows[i], pa.null()) if name is None else load(i, name) for i, name in enumerate(places)
        ]
        if len(found) == 1:
            return found[0]
        arrays = [coerce_column(some, column, what=what) for some in found]
        return pa.chunked_array(arrays)

    return read


def _common(types: Sequence[SqlType], name: str, what: str) -> SqlType:
    found = types[0]
    for other in types[1:]:
        both = found if other == found else common_type(found, other)
        if both is None:
            raise EverfreshError(
                Code.TYPE, f"column '{name}' is a {found} in one file and a {other} in another", place=what
            )
        found = both
    return found


def _of_folders(files: Sequence[_File], key: str, rows: Sequence[int], what: str) -> tuple[Column, Any]:
    """A column of the names of folders."""
    named = [next(((n, v) for n, v in f.folders if fold(n) == key), None) for f in files]
    name = next(n[0] for n in named if n is not None)
    parts = [pa.repeat(pa.scalar(n and n[1], pa.string()), r) for n, r in zip(named, rows, strict=True)]
    texts = pa.chunked_array(parts, pa.string())
    values = pa.chunked_array([pa.array([n and n[1] for n in named], pa.string())])
    found = type_of_texts(values, lambda t: coerce_column(values, Column(name, t), what=what))
    kept = found if found.name in ("BIGINT", "DATE", "TIMESTAMP") else VARCHAR
    return Column(name, kept), texts


# -- Parquet ---------------------------------------------------------------------------------------------


def _parquet(files: Sequence[_File], options: FileOptions, what: str) -> Given:
    readers = []
    for file in files:
        try:
            source = file.system.open_input_file(file.path)
            readers.append(pq.ParquetFile(source, coerce_int96_timestamp_unit="us"))
        except (pa.ArrowException, OSError) as problem:
            raise unreadable(file.path, problem, what) from problem
    schemas = [reader.schema_arrow for reader in readers]
    names = [distinct_names(schema.names) for schema in schemas]

    def load(i: int, name: str) -> Any:
        place = names[i].index(name)
        real = schemas[i].names[place]
        try:
            table = readers[i].read(columns=[real])
        except (pa.ArrowException, OSError) as problem:
            raise unreadable(files[i].path, problem, what) from problem
        return table.column(schemas[i].names[:place].count(real))

    return _joined(
        files,
        options,
        what,
        names,
        lambda i, name: type_of(schemas[i].field(names[i].index(name)).type, name, what),
        load,
        [reader.metadata.num_rows for reader in readers],
    )


# -- CSV -------------------------------------------------------------------------------------------------


class _Texts:
    """A CSV file as texts, and what types they are of."""

    def __init__(self, file: _File, options: FileOptions, what: str) -> None:
        self.file, self.options, self.what = file, options, what
        separator = options.delimiter or _separator(file, what)
        self.table = self._read(separator, True)
        header = options.header if options.header is not None else not self._is_data()
        if not header:
            self.table = self._read(separator, False)
        if options.columns:
            if len(options.columns) != self.table.num_columns:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"{len(options.columns)} columns for the {self.table.num_columns} of '{file.path}'",
                    place=what,
                )
            self.table = self.table.rename_columns([name for name, _ in options.columns])
        self.types = self._types()

    def _read(self, separator: str, header: bool) -> pa.Table:
        where = self.file.system, self.file.path, separator, self.what
        try:
            table = read_text(*where, header=header, null=self.options.nullstr)
        except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as problem:
            raise unreadable(self.file.path, problem, self.what) from problem
        return table.rename_columns(distinct_names(table.column_names))

    def _is_data(self) -> bool:
        """Whether the first line is one like the others: fits all types but VARCHAR."""
        others = [(n, t) for n, t in zip(self.table.column_names, self._types(), strict=True) if t != VARCHAR]
        for name, type_ in others:
            first = pa.chunked_array([pa.array([name.strip()], pa.string())])
            try:
                self._coerced(first, name, type_)
            except EverfreshError:
                return False
        return bool(others)

    def _types(self) -> list[SqlType]:
        """The types of the columns."""
        if self.options.all_varchar:
            return [VARCHAR] * self.table.num_columns
        if len(self.options.columns) == self.table.num_columns:
            return [type_ for _, type_ in self.options.columns]
        return [
            type_of_texts(values, partial(self._coerced, values, name))
            for name, values in zip(self.table.column_names, self.table.columns, strict=True)
        ]

    def _coerced(self, values: Any, name: str, type_: SqlType) -> Any:
        return coerce_column(trimmed(values, type_), Column(name, type_), what=self.what)


def trimmed(values: Any, type_: SqlType) -> Any:
    """Texts as values of a type are written."""
    return values if type_ == VARCHAR else pc.utf8_trim_whitespace(values)


def _separator(file: _File, what: str) -> str:
    """What separates the fields of a file: by its name, or what parts its first lines alike."""
    kind = kind_of(file.path)
    if kind == "\t":
        return kind
    try:
        with file.system.open_input_stream(file.path, compression="detect") as stream:
            head = stream.read(1 << 16).decode("utf-8-sig", "ignore")
    except (pa.ArrowException, OSError) as problem:
        raise unreadable(file.path, problem, what) from problem
    lines = head.splitlines()[:20]
    if len(head) >= 1 << 15 and len(lines) > 1:
        lines = lines[:-1]
    best, most = ",", 1
    for separator in _SEPARATORS:
        counts = {len(row) for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=separator)} - {0}
        if len(counts) == 1 and (width := counts.pop()) > most:
            best, most = separator, width
    return best


def _csv(files: Sequence[_File], options: FileOptions, what: str) -> Given:
    read = [_Texts(file, options, what) for file in files]
    names = [some.table.column_names for some in read]

    def place(i: int, name: str) -> int:
        at: int = names[i].index(name)
        return at

    return _joined(
        files,
        options,
        what,
        names,
        lambda i, name: read[i].types[place(i, name)],
        lambda i, name: trimmed(read[i].table.column(place(i, name)), read[i].types[place(i, name)]),
        [some.table.num_rows for some in read],
    )


# -- JSON ------------------------------------------------------------------------------------------------


def _json(files: Sequence[_File], options: FileOptions, what: str) -> Given:
    rows: list[Any] = []
    for file in files:
        rows += _values(file, what)
    if rows and not all(isinstance(row, Mapping) for row in rows):
        rows = [{"json": row} for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        names = [name for name, _ in options.columns] or ["json"]
    known = dict(options.columns)
    columns = [Column(n, known.get(n) or type_of_json(row.get(n) for row in rows)) for n in names]

    def load(i: int) -> list[Any]:
        name, type_ = columns[i].name, columns[i].type
        return [shaped(row.get(name), type_) for row in rows]

    return Given(what, columns, load, lambda: len(rows))


def _values(file: _File, what: str) -> list[Any]:
    """The values of a file: of its one array, or one after another."""
    try:
        with file.system.open_input_stream(file.path, compression="detect") as stream:
            text = stream.read().decode("utf-8-sig")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise unreadable(file.path, problem, what) from problem
    decoder = json.JSONDecoder()
    found: list[Any] = []
    at, end = 0, len(text)
    while True:
        while at < end and text[at] in " \t\r\n":
            at += 1
        if at >= end:
            break
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as problem:
            line = text.count("\n", 0, at) + 1
            raise EverfreshError(
                Code.VALUE,
                f"'{file.path}' is no JSON in line {line}: {problem}",
                place=what,
                hint="a file of JSON has an array of objects, or objects one after another",
            ) from problem
        found.append(value)
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found
