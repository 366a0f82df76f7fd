"""A table whose rows are not kept (`retain = false`): its changes pass through the maps, and go.

Deletes are trusted: nothing says whether the row had come before, so weights go to the triggers as they are
given. What has passed is gone, so that nothing can be filled, read, verified or found by its key from it.

Invariant: the pool stays empty; `batches` says how many changes have passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector
from everfresh.local.store.pool import Pool
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Net, Table, TableUndo, unread
from everfresh.types import TableSchema

Ints = NDArray[np.int64]


class StreamTable(Table):
    """The changes of one table, none of them kept."""

    def __init__(self, schema: TableSchema, interner: Interner, batches: int = 0) -> None:
        super().__init__(schema, interner)
        self.batches = batches

    def __len__(self) -> int:
        """The rows that are kept: none."""
        return 0

    trusting = True

    def apply(self, net: Net) -> TableUndo:
        """Let a change pass."""
        self.batches += 1
        return TableUndo()

    def commit(self, undo: TableUndo) -> None:
        """Nothing was kept."""

    def rollback(self, undo: TableUndo) -> None:
        """As if it had not passed."""
        self.batches -= 1

    def check_loadable(self, view: str) -> None:
        """Raise once something has passed: a view would lack it."""
        if self.batches:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"view '{view}' comes too late: rows of '{self.schema.name}' have passed and are not kept",
                hint="create all views over it before its first batch; to begin anew, drop the table with "
                "CASCADE, create it and its views, and send the rows again",
            )

    def rows(
        self, names: Sequence[str] | None = None, among: pa.Table | None = None
    ) -> tuple[pa.Table, Ints]:
        """Refused, from the beginning."""
        raise not_kept(self.schema.name)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What a snapshot keeps: how much has passed."""
        return {"batches": np.array([self.batches])}

    def declared(self, schema: TableSchema) -> Table:
        """The same under another declaration."""
        return StreamTable(schema, self.codec.interner, self.batches)

    def altered(self, schema: TableSchema, default: Vector | None) -> Table:
        """The table with a column added or dropped: there are no rows to change."""
        return StreamTable(schema, self.codec.interner, self.batches)


def not_kept(table: str) -> EverfreshError:
    """The refusal of whatever would read the rows of a table that keeps none."""
    return EverfreshError(
        Code.UNSUPPORTED,
        f"the rows of '{table}' are not kept (retain = false)",
        hint="read a view over it; deletes give full rows, db.apply(t=everfresh.Delta(deletes=rows))",
    )


def make_table(
    schema: TableSchema,
    interner: Interner,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    texts: Mapping[str, NDArray[Any]] | None = None,
) -> Table:
    """The table of a schema, with what a snapshot has of it, and of the strings that are only kept."""
    if not schema.retained:
        return StreamTable(schema, interner, int(arrays["batches"][0]) if arrays is not None else 0)
    if arrays is None:
        return Table(schema, interner, kept=unread(schema))
    known = Table.texts_from_arrays(texts) if texts is not None else (None, ())
    return Table(schema, interner, Pool.from_arrays(arrays), *known)
