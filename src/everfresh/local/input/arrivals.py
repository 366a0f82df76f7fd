"""Rows on their way in: those that are already what their table asks for are passed on as they are.

Most batches of a program look alike: Arrow tables of one schema, which has the table's columns with the
table's types. For these nothing is left to convert; that the values are what their types say, that no NULL
stands where the table takes none, and that floats are canonical, is seen in one pass over the batch. All
others are read by `delta.read_local`.

Invariant: the fast twin of `delta.read_local`: the same rows, or it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.delta.changes import Operation
from everfresh.delta.feeds import is_feed
from everfresh.delta.rows import match_columns, read_local, required
from everfresh.delta.sound import is_sound, years_of
from everfresh.delta.values import limits
from everfresh.errors import EverfreshError
from everfresh.local.input.incoming import BySchema, exported_ahead, kind_of
from everfresh.local.kernels import incoming as incoming_kernels
from everfresh.local.kernels.incoming import BAD, OTHER_TEXT
from everfresh.types import SqlType, TableSchema, to_arrow

_WORD = (1 << 64) - 1

_MOST: Final = 1000  # tables and operations that are remembered


@dataclass(frozen=True, slots=True)
class _Match:
    """Tables of one Arrow schema that are what a table asks for: what to look at in them, and which columns
    to take (None: all, in their order)."""

    lines: NDArray[np.int64]
    order: list[int] | None

    def rows(self, data: pa.Table) -> pa.Table | None:
        """The rows of a table, if nothing in it has to be refused or changed."""
        batches = data.to_batches()
        if len(batches) != 1 or not is_sound(batches[0], full=False):
            return None
        address, held = exported_ahead(data, batches[0])
        found = incoming_kernels.clean(address, self.lines, data.num_rows)
        del held
        if found == BAD or (found == OTHER_TEXT and not is_sound(batches[0])):
            return None
        return data if self.order is None else data.select(self.order)


class Arrivals:
    """Reads what `db.apply` is given."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Operation], tuple[TableSchema, BySchema[_Match | None]]] = {}

    def read(self, data: Any, schema: TableSchema, what: str, op: Operation) -> pa.Table:
        """Rows of any kind as an Arrow table of `schema`; `what` names them in errors."""
        if isinstance(data, pa.Table):
            known = self._known.get((schema.name, op))
            if known is None or known[0] is not schema:
                if len(self._known) >= _MOST:  # of tables that are gone, perhaps
                    self._known.clear()
                known = self._known[schema.name, op] = schema, BySchema(partial(_match, schema, op))
            match = known[1].of(data.schema)
            rows = match.rows(data) if match is not None else None
            if rows is not None:
                return rows
        return read_local(data, schema, what, op)


def _match(schema: TableSchema, op: Operation, given: pa.Schema) -> _Match | None:
    """How tables of an Arrow schema are read; None if they have to be converted, or refused."""
    try:
        chosen = match_columns(given.names, schema, what="", op=op)
    except EverfreshError:
        return None
    lines, order = [], []
    for column, index in chosen:
        if index is None or given.names[index] != column.name or given.types[index] != to_arrow(column.type):
            return None
        kind = kind_of(column.type)
        if kind is None:
            return None
        lines.append((index, kind, required(column, schema), *_bounds(column.type)))
        order.append(index)
    if is_feed(given.names, schema):
        return None
    return _Match(np.array(lines, np.int64), None if order == [*range(len(given.names))] else order)


def _bounds(type_: SqlType) -> tuple[int, int]:
    """The bounds of a column's values for `clean`; 0 and 0 where every value that Arrow has is one."""
    if type_.name not in ("DECIMAL", "HUGEINT"):
        return years_of(type_) or (0, 0)
    least, most = limits(type_)
    if not type_.is_wide:
        return least, most
    low, high = np.array([most & _WORD, most >> 64], np.uint64).view(np.int64).tolist()
    return low, high
