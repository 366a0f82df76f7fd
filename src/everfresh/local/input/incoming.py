"""Arrow rows as words, all columns in one call: the fast twin of `Vector.from_arrow` and `to_word`.

A batch goes to a kernel through Arrow's C data interface, where it lies: no Python object is made for a
column, which is most of what a small batch would cost. A column is read so if it has exactly the Arrow type
of its SQL type; how columns are to be read is decided once for all tables of the same Arrow schema.

Invariant: `ColumnForm.fill` writes what the slow way would.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.local.kernels import incoming as kernels
from everfresh.types import Column, SqlType, to_arrow

Ints = NDArray[np.int64]
T = TypeVar("T")

_KINDS: Final = {
    "BOOLEAN": kernels.BIT,
    "TINYINT": kernels.INT8,
    "SMALLINT": kernels.INT16,
    "INTEGER": kernels.INT32,
    "BIGINT": kernels.INT64,
    "TIME": kernels.INT64,
    "TIMESTAMPTZ": kernels.INT64,
    "DATE": kernels.INT32,
    "TIMESTAMP": kernels.INT64,
    "REAL": kernels.FLOAT,
    "DOUBLE": kernels.DOUBLE,
    "VARCHAR": kernels.TEXT,
}
_MOST: Final = 4  # Arrow schemas that are remembered

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def kind_of(type_: SqlType) -> int | None:
    """What a column of the Arrow type of its SQL type holds for kernels; None: they cannot read it."""
    if type_.name in ("DECIMAL", "HUGEINT"):
        return kernels.WIDE if type_.is_wide else kernels.DECIMAL
    return _KINDS.get(type_.name)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """All rows of a table, at least one, as one batch."""
    batches = table.to_batches()
    return batches[0] if len(batches) == 1 else table.combine_chunks().to_batches()[0]


def exported(batch: pa.RecordBatch | pa.Array) -> tuple[int, object]:
    """The address of a batch or array as an `ArrowArray`, good while the object beside it is held."""
    capsule = batch.__arrow_c_array__()[1]
    return _pointer(capsule, b"arrow_array"), capsule


_AHEAD: dict[int, tuple[weakref.ref[pa.Table], int, object]] = {}


def exported_ahead(table: pa.Table, batch: pa.RecordBatch) -> tuple[int, object]:
    """As `exported`, all rows of a table, which are `batch`; kept for `exported_rows` while there is the
    table."""
    address, held = exported(batch)
    key = id(table)
    _AHEAD[key] = weakref.ref(table, lambda _: _AHEAD.pop(key, None)), address, held
    return address, held


def exported_rows(table: pa.Table) -> tuple[int, object]:
    """As `exported`, all rows of a table, at least one. An address that was taken ahead is good once: whoever
    read the table does so no more."""
    known = _AHEAD.pop(id(table), None)
    return known[1:] if known is not None and known[0]() is table else exported(one_batch(table))


class Interning(Protocol):
    """What gives strings their codes."""

    def intern_columns(self, array: int, lines: Ints, out: Ints) -> None:
        """Write the codes of string columns of an exported batch."""


class Keeping(Protocol):
    """What keeps strings."""

    def keep_columns(self, array: int, lines: Ints, out: Ints) -> None:
        """Write the words of string columns of an exported batch."""


class BySchema(Generic[T]):
    """What is made once for each Arrow schema; those that came last are remembered."""

    __slots__ = ("_known", "_make")

    def __init__(self, make: Callable[[pa.Schema], T]) -> None:
        self._make = make
        self._known: tuple[tuple[pa.Schema, T], ...] = ()

    def of(self, schema: pa.Schema) -> T:
        """What there is for a schema."""
        for known, made in self._known:
            if known.equals(schema):
                return made
        made = self._make(schema)
        self._known = (schema, made), *self._known[: _MOST - 1]  # at once: threads may come
        return made


class ColumnForm:
    """How columns stand in batches of one Arrow schema.

    >>> batch = pa.record_batch({"x": pa.array([7, None], pa.int32())})
    >>> form = ColumnForm([(Column("x", SqlType("INTEGER")), 0, (1, 0))], batch.schema)
    >>> out = np.zeros((2, 2), np.int64)
    >>> address, held = exported(batch)
    >>> form.fill(address, out, None, None); out.tolist()
    [[7, 0], [0, 1]]
    """

    def __init__(
        self,
        columns: Sequence[tuple[Column, int, tuple[int, int] | None]],
        schema: pa.Schema,
        kept: Collection[str] = (),
    ) -> None:
        """For each column its first word, and the word and bit that say that it is NULL, if it may be; the
        strings of columns in `kept` are not interned."""
        lines = []
        texts: dict[bool, list[tuple[int, int, bool]]] = {True: [], False: []}
        others: list[tuple[Column, int]] = []
        for column, first, null in columns:
            source = schema.get_field_index(column.name)
            if source < 0:
                raise KeyError(f"the rows have no column '{column.name}', or more than one")
            kind = kind_of(column.type)
            given = schema.types[source]
            if kind is None or (given != to_arrow(column.type) and not _is_text(kind, given)):
                others.append((column, source))
                continue
            lines.append((source, kind, first, *(null or (-1, 0))))
            if kind == kernels.TEXT:
                texts[column.name in kept].append((source, first, pa.types.is_large_string(given)))
        self._lines = np.array(lines, np.int64).reshape(-1, 5)
        self._columns = len(lines)
        self._kept, self._interned = (np.array(texts[k], np.int64).reshape(-1, 3) for k in (True, False))
        self.others = tuple(others)
        """What kernels cannot read."""

    def fill(self, address: int, out: Ints, interner: Interning, texts: Keeping) -> None:
        """Write the words of an exported batch that kernels can read; strings go through `interner`, or
        `texts` if they are only kept."""
        if kernels.words(address, self._lines, out) < self._columns:
            raise ValueError("there are NULLs in a column that takes none")
        if len(self._kept):
            texts.keep_columns(address, self._kept, out)
        if len(self._interned):
            interner.intern_columns(address, self._interned, out)


def _is_text(kind: int, given: Any) -> bool:
    return kind == kernels.TEXT and pa.types.is_large_string(given)
