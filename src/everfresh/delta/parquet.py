"""Parquet files that are already what a table asks for, read as they are.

Nothing is left to convert: a file has the table's columns with the table's types. That no NULL stands where
the table takes none, and that floats are canonical, is seen column by column. Strings that a file holds as
few different ones come as dictionaries, which are cheaper to read, to select from and to write; but for those
of columns that say where a row belongs.

Invariant: the fast twin of `read_rows` for inserts and deletes of full rows: the same rows, or None.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from everfresh.delta.casts import canonical
from everfresh.delta.changes import Operation
from everfresh.delta.feeds import is_feed
from everfresh.delta.files import kind_of, parquet_files
from everfresh.delta.rows import match_columns, required
from everfresh.delta.sound import check_years, is_sound
from everfresh.errors import EverfreshError
from everfresh.types import Column, TableSchema, to_arrow

_DICTIONARY_BYTES = 3
"""Strings come as a dictionary where they take so many bytes in the file, each, at most."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Files with a table's columns and types: their bytes, rows, columns, and what else they say."""

    size: int
    rows: int
    schema: pa.Schema
    metadata: tuple[Mapping[bytes, bytes], ...]


def exact_files(paths: Sequence[str], schema: TableSchema) -> Exact | None:
    """What `read_exact` will find at the paths of files, by their footers; None if it will not take one."""
    size = rows = 0
    found: list[tuple[pa.Schema, Mapping[bytes, bytes]]] = []
    try:
        for path in paths:
            if kind_of(path) != "parquet":
                return None
            with pa.OSFile(path) as source, pq.ParquetFile(source, pre_buffer=False) as file:
                given, metadata = file.schema_arrow, file.metadata
            if {*given.names} != {*schema.names} or not all(
                _fits(given.field(column.name), column) for column in schema.columns
            ):
                return None
            size, rows = size + os.path.getsize(path), rows + metadata.num_rows
            found.append((given.remove_metadata(), metadata.metadata or {}))
    except (pa.ArrowException, OSError):
        return None
    first = found[0][0]
    if any(given != first for given, _ in found):
        return None
    return Exact(size, rows, first, tuple(metadata for _, metadata in found))


def read_exact(paths: Sequence[str], schema: TableSchema, what: str, op: Operation) -> pa.Table | None:
    """The rows of the files at some paths; None if they have to be converted, or refused. In this thread: one
    that reads for others leaves them their cores."""
    try:
        below = [parquet_files(path, what) for path in paths]
        if not all(below):
            return None
        files = [file for some in below for file in some]
        found = [_read(file, schema, what, op, len(files) == 1) for file in files]
    except (EverfreshError, pa.ArrowException, OSError):  # the other way says what is wrong
        return None
    tables = [table for table in found if table is not None]
    if not tables or len(tables) < len(found):
        return None
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()


def _read(path: str, schema: TableSchema, what: str, op: Operation, alone: bool) -> pa.Table | None:
    with pa.OSFile(path) as source, pq.ParquetFile(source, pre_buffer=False) as file:
        given, metadata = file.schema_arrow, file.metadata
        if is_feed(given.names, schema):
            return None
        columns = [(c, i) for c, i in match_columns(given.names, schema, what=what, op=op) if i is not None]
        if len(columns) < len(schema.columns) or not all(_fits(given.field(i), c) for c, i in columns):
            return None
        few = _few(metadata, schema) if alone else []  # others may have more different ones
    with (
        pa.OSFile(path) as source,
        pq.ParquetFile(source, metadata=metadata, read_dictionary=few, pre_buffer=False) as file,
    ):
        table = file.read(use_threads=False)
    return _checked(table.combine_chunks(), schema)


def _fits(field: pa.Field, column: Column) -> bool:
    return bool(field.name == column.name and field.type == to_arrow(column.type))


def _few(metadata: Any, schema: TableSchema) -> list[str]:
    """The columns of strings of which a file, in one row group, has few different ones."""
    if not schema.key or metadata.num_row_groups != 1:
        return []
    texts = {c.name for c in schema.columns if c.type.name == "VARCHAR"}.difference(schema.key)
    group = metadata.row_group(0)
    return [
        chunk.path_in_schema
        for chunk in map(group.column, range(group.num_columns))
        if chunk.path_in_schema in texts
        and chunk.has_dictionary_page
        and chunk.total_uncompressed_size <= _DICTIONARY_BYTES * chunk.num_values
    ]


def _checked(table: pa.Table, schema: TableSchema) -> pa.Table | None:
    """A table in its schema's order, if no column has a NULL or another value that it must not have."""
    if not is_sound(table):
        return None
    arrays, fields = [], []
    for column in schema.columns:
        array = table.column(column.name)
        check_years(array, column, "")  # the other way says what is wrong
        if array.null_count and required(column, schema):
            return None
        if column.type.is_float:
            array = canonical(array.combine_chunks())
        arrays.append(array)
        fields.append(pa.field(column.name, array.type, column.nullable))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
