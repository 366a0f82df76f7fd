"""Parquet files that tasks read and write themselves: no row becomes one of the JVM on its way.

A side of a crossmatch that is a folder, a HATS catalog, or a DataFrame that is nothing but a scan of such
files, is cut into splits of row groups; a task reads its split with pyarrow, and only the columns that are
needed. What a task writes bears a name of its own and counts once the driver has heard of it, so that an
attempt that is run again leaves nothing in the result.

Invariant: the rows that Spark would read. Files whose types Arrow and Spark might understand differently
(times, nested values) are left to Spark.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from everfresh.arrays.sky.sources import write_table
from everfresh.errors import Code, EverfreshError
from everfresh.spark.session.failures import TaskError, translated
from everfresh.types import no_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterable[pa.RecordBatch]
Stage = Callable[[Batches], Iterator[pa.RecordBatch]]
WRITTEN = "file string, rows bigint"
_LEAST, _MOST, _ROUNDS = 16 << 20, 128 << 20, 2
"""Bytes of a split, about, so that each core has two of them if it may be: small files are put together,
large ones are cut between row groups."""
_READ = 1 << 19
"""Rows that are read together."""
_HELD = 32 << 20
"""Bytes of rows that are written together."""
_PLAIN = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal128)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)

Piece = tuple[str, tuple[int, ...] | None]
"""A file, and which of its row groups; None is all."""


@dataclass(frozen=True)
class Split:
    """What one task reads."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Files:
    """Parquet files, and the schema of the first."""

    paths: tuple[str, ...]
    schema: pa.Schema

    @staticmethod
    def of(paths: Sequence[str], what: str) -> Files:
        """Files whose first footer is read."""
        from pyarrow import parquet

        try:
            schema = parquet.read_schema(paths[0])
        except (pa.ArrowException, OSError) as error:
            raise EverfreshError(
                Code.FORMAT, f"'{paths[0]}' cannot be read as Parquet: {error}", place=what
            ) from None
        return Files(tuple(paths), schema)

    def plain(self, names: Iterable[str]) -> bool:
        """Whether these columns mean the same to Arrow and to Spark; a missing one does."""
        if len(set(self.schema.names)) < len(self.schema.names):
            return False
        return all(_is_plain(self.schema.field(name).type) for name in names if name in self.schema.names)

    def splits(self, cores: int) -> list[Split]:
        """The files cut into what one task each reads, of tasks that run on so many cores."""
        found: list[Split] = []
        pieces: list[Piece] = []
        size = 0
        lengths = [os.path.getsize(path) for path in self.paths]
        wanted = min(max(sum(lengths) // (_ROUNDS * cores), _LEAST), _MOST)
        for path, length in zip(self.paths, lengths, strict=True):
            if length > 2 * wanted:
                found += _cut(path, wanted)
                continue
            if pieces and size + length > wanted + length // 2:
                found.append(Split(tuple(pieces)))
                pieces, size = [], 0
            pieces.append((path, None))
            size += length
        return [*found, Split(tuple(pieces))] if pieces else found


def _is_plain(kind: pa.DataType) -> bool:
    signed = not (pa.types.is_unsigned_integer(kind) or pa.types.is_float16(kind))
    return signed and any(test(kind) for test in (*_PLAIN, *_TEXTS))


def _cut(path: str, wanted: int) -> list[Split]:
    """A large file between its row groups, into splits of so many bytes."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(path)
    found, groups, size = [], [], 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        size += sum(
            metadata.row_group(group).column(c).total_compressed_size for c in range(metadata.num_columns)
        )
        if size >= wanted or group == metadata.num_row_groups - 1:
            found.append(Split(((path, tuple(groups)),)))
            groups, size = [], 0
    return found


@dataclass(frozen=True)
class Column:
    """A column as it is read: which of the file's, its name from then on, and its type."""

    source: str
    name: str
    type: pa.DataType


def over_files(
    splits: Sequence[Split], columns: Sequence[Column], stage: Stage, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """A stage over the rows of the splits whose numbers come."""
    numbers = [int(n) for batch in batches for n in batch.column(0).to_pylist()]
    yield from stage(batch for n in numbers for batch in read(splits[n], columns))


def read(split: Split, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """The rows of a split; a column may be asked for more than once."""
    from pyarrow import parquet

    names = list(dict.fromkeys(column.source for column in columns))
    for path, groups in split.pieces:
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(_READ, groups, names):
                    arrays = [batch.column(column.source).cast(column.type) for column in columns]
                    yield pa.record_batch(arrays, [column.name for column in columns])
        except (pa.ArrowException, OSError, KeyError) as error:
            raise TaskError(
                EverfreshError(Code.FORMAT, f"'{path}' cannot be read as the files before it: {error}")
            ) from error


# -- writing -----------------------------------------------------------------------------------------------


@contextmanager
def unfinished_in(folder: Path) -> Iterator[Path]:
    """A folder inside of another for what is not done, which goes in the end."""
    inside = folder / f"_unfinished-{uuid.uuid4().hex}"
    inside.mkdir(parents=True)
    try:
        yield inside
    finally:
        for left in inside.iterdir():
            left.unlink()
        inside.rmdir()


def written(found: DataFrame, stage: Stage, schema: pa.Schema, unfinished: Path) -> int:
    """Run a stage of the tasks of `found`, its rows into Parquet files of the folder that has the unfinished
    ones; how many rows they are."""
    write = partial(write_rows, str(unfinished), stage, schema)
    with translated():
        told = found.mapInArrow(write, WRITTEN).collect()
    for number, row in enumerate(sorted(told, key=lambda row: str(row["file"]))):
        os.replace(unfinished / row["file"], unfinished.parent / f"part-{number:05}.parquet")
    if not told:
        write_table(no_rows(schema), unfinished.parent / "part-00000.parquet")
    return sum(int(row["rows"]) for row in told)


def write_rows(folder: str, stage: Stage, schema: pa.Schema, batches: Batches) -> Iterator[pa.RecordBatch]:
    """What a task does: its rows in one file, if it has any."""
    from pyarrow import parquet

    name, rows, writer = f"{uuid.uuid4().hex}.parquet", 0, None
    held: list[pa.RecordBatch] = []
    texts = [field.name for field in schema if any(test(field.type) for test in _TEXTS)]  # may be few
    for batch in chain(stage(batches), (None,)):
        if batch is not None and batch.num_rows:
            held.append(batch.cast(schema))
        if held and (batch is None or sum(some.nbytes for some in held) >= _HELD):
            writer = writer or parquet.ParquetWriter(os.path.join(folder, name), schema, use_dictionary=texts)
            writer.write_table(pa.Table.from_batches(held))
            rows += sum(some.num_rows for some in held)
            held = []
    if writer is not None:
        writer.close()
        yield pa.record_batch([pa.array([name]), pa.array([rows], pa.int64())], ["file", "rows"])
