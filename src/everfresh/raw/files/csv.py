"""CSV, plain or compressed, by pyarrow: the first line names the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv

from everfresh.raw.files.places import Found, opened, stamped
from everfresh.raw.files.protocol import Ranges, corrupt
from everfresh.state import is_url

_BLOCK = 4 << 20
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_TEXT = (".csv", ".tsv")


class Csv:
    """Delimited text."""

    name = "csv"
    endings: tuple[str, ...] = tuple(text + packed for text in _TEXT for packed in ("", *_COMPRESSED))

    def columns(self, path: str) -> pa.Schema:
        """As the first block has them."""
        return _columns(stamped(path))

    def ranges(self, path: str) -> Ranges:
        """There is no header."""
        return {}

    def rows(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Block by block. Where a column that began with whole numbers has fractions later, whole numbers
        are read as fractions from that block on."""
        schema, done = self.columns(path), 0
        types = {name: schema.field(name).type for name in columns}
        while True:
            try:
                for batch in _after(path, types, columns, done):
                    done += batch.num_rows
                    yield batch
                return
            except (pa.ArrowException, OSError, EOFError) as error:
                wider = {n: pa.float64() if pa.types.is_integer(t) else t for n, t in types.items()}
                if wider == types:
                    raise corrupt(path, error, done) from error
                types = wider


@lru_cache(maxsize=1 << 14)
def _columns(file: Found) -> pa.Schema:
    """The columns of a file as it was when it had this stamp: its first block is read once for them."""
    with _batches(file.path, None, None) as found:
        return pa.schema([pa.field(f.name, _settled(f.type)) for f in found.schema])


def _settled(type_: pa.DataType) -> pa.DataType:
    """A column without values in the first block is text."""
    return pa.string() if pa.types.is_null(type_) else type_


def _after(
    path: str, types: dict[str, Any], columns: Sequence[str], skipped: int
) -> Iterator[pa.RecordBatch]:
    """The blocks of a file after some rows."""
    with _batches(path, types, columns) as found:
        for batch in found:
            if skipped >= batch.num_rows:
                skipped -= batch.num_rows
            else:
                yield batch.slice(skipped)
                skipped = 0


@contextmanager
def _batches(path: str, types: dict[str, Any] | None, columns: Sequence[str] | None) -> Iterator[Any]:
    packed = next((kind for ending, kind in _COMPRESSED.items() if path.endswith(ending)), None)
    is_tabbed = ".tsv" in path.rpartition("/")[2]
    convert = pcsv.ConvertOptions(
        column_types=types, include_columns=list(columns) if columns is not None else None
    )
    with opened(path) as handle:
        try:
            bytes_ = handle if is_url(path) else pa.OSFile(path)  # which needs no Python to read
            stream = pa.CompressedInputStream(bytes_, packed) if packed else bytes_
            found = pcsv.open_csv(
                stream,
                read_options=pcsv.ReadOptions(block_size=_BLOCK),
                parse_options=pcsv.ParseOptions(delimiter="\t" if is_tabbed else ","),
                convert_options=convert,
            )
        except (pa.ArrowException, OSError, EOFError) as error:
            raise corrupt(path, error) from error
        with found:
            yield found
