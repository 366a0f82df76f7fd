"""The protocol of a format: what a reader of raw files does, and nothing of arrays.

`everfresh.testing.RawReaderSuite` says what a reader must satisfy. Rows come in the order of the file and in
batches of bounded size; asked again, they come again the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from everfresh.errors import Code, EverfreshError

BATCH = 1 << 17
"""Rows of a batch."""
Ranges = Mapping[str, tuple[Any, Any]]
"""The least and the greatest value of columns, as far as a header tells; they hold for every row."""


class Reader(Protocol):
    """A format of files."""

    name: str
    endings: tuple[str, ...]

    def columns(self, path: str) -> pa.Schema:
        """The columns of a file, without reading its rows."""
        ...

    def ranges(self, path: str) -> Ranges:
        """What the header says of columns; nothing where it says nothing."""
        ...

    def rows(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a file, with these columns."""
        ...


def corrupt(path: str, error: Exception, row: int | None = None) -> EverfreshError:
    """A file that is not what its format says."""
    place = path if row is None else f"{path}, after row {row}"
    lines = str(error).strip().splitlines()
    return EverfreshError(
        Code.DAMAGED,
        f"the file cannot be read: {lines[0] if lines else type(error).__name__}",
        place=place,
        hint="mend or remove the file and REFRESH the array, or create it WITH (damaged = 'skip')",
    )


def installed(module: str, path: str) -> Any:
    """A library of the field, or an error that says how to get it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise EverfreshError(
            Code.ENVIRONMENT,
            f"to read this, {module.partition('.')[0]} must be installed",
            place=path,
            hint="pip install 'everfresh[raw]'",
        ) from None
