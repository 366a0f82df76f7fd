"""Rows on their way in: those that are already what their table asks for are passed on as they are.

Most batches of a program look alike: Arrow tables of one schema, which has the table's columns with the
table's types. For these nothing is left to convert; that no NULL stands where the table takes none, and that
floats are canonical, is seen in one pass over the batch. All others are read by `delta.read_local`.

Invariant: the fast twin of `delta.read_local`: the same rows, or it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.delta.changes import Operation
from everfresh.delta.feeds import is_feed
from everfresh.delta.rows import match_columns, read_local, required
from everfresh.errors import EverfreshError
from everfresh.local import incoming_kernels
from everfresh.local.incoming import BySchema, exported_ahead, kind_of
from everfresh.types import TableSchema, to_arrow


@dataclass(frozen=True, slots=True)
class _Match:
    """Tables of one Arrow schema that are what a table asks for: what to look at in them, and which columns
    to take (None: all, in their order)."""

    lines: NDArray[np.int64]
    order: list[int] | None

    def rows(self, data: pa.Table) -> pa.Table | None:
        """The rows of a table, if nothing in it has to be refused or changed."""
        batches = data.to_batches()
        if len(batches) != 1:
            return None
        address, held = exported_ahead(data, batches[0])
        good = incoming_kernels.clean(address, self.lines, data.num_rows)
        del held
        if not good:
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
        lines.append((index, kind_of(column.type) or 0, required(column, schema)))
        order.append(index)
    if is_feed(given.names, schema):
        return None
    return _Match(np.array(lines, np.int64), None if order == [*range(len(given.names))] else order)
