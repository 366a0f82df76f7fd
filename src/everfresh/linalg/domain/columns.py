"""Matrices that follow columns of a table or SQL view: a row for each of its rows, found by a key.

A change of the relation becomes updates of the matrix in the same epoch: rows that changed are row updates,
rows that went are deleted, rows that came are appended. Invariant: the matrix has exactly the rows of the
relation, in the order in which they came; at first that is the order of the keys.

>>> rows = pa.table({"customer": ["bob", "ann"], "total": [3.0, 1.0]})
>>> linked, array = Followed.begin(Columns("spend", ("customer",), ("total",)), rows)
>>> array.tolist()
[[1.0], [3.0]]
>>> change = pa.table({"customer": ["ann", "cy"], "total": [1.0, 7.0], "_weight": [-1, 1]})
>>> [type(update).__name__ for update in linked.updates(change)[0]]
['DeleteRows', 'AppendRows']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.bags import WEIGHT, net
from everfresh.errors import Code, EverfreshError
from everfresh.linalg.run.updates import AppendRows, DeleteRows, RowUpdate, Update

Key = tuple[Any, ...]
_ONE = "1"


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a relation as a matrix: `index` names the columns that identify a row, `values` those that
    are its entries, in order; the number 1 stands for a column of ones. `null` is what NULL becomes."""

    relation: str
    index: tuple[str, ...]
    values: tuple[str, ...]
    null: float | None = None

    @staticmethod
    def of(told: Mapping[str, Any]) -> Columns:
        """From plain data."""
        return Columns(told["relation"], tuple(told["index"]), tuple(told["values"]), told["null"])

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that are not there, and values that are no numbers."""
        for name in (*self.index, *self.values):
            if name != _ONE and name not in schema.names:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"'{self.relation}' has no column '{name}'",
                    hint=f"its columns are: {', '.join(schema.names)}",
                )
        for name in self.values:
            if name != _ONE and not _is_number(schema.field(name).type):
                raise EverfreshError(
                    Code.TYPE,
                    f"column '{name}' of '{self.relation}' is {schema.field(name).type}, not a number",
                    hint="a matrix holds doubles: cast the column in a view",
                )

    def array(self, rows: pa.Table) -> np.ndarray[Any, Any]:
        """The entries of rows."""
        found = np.ones((rows.num_rows, len(self.values)))
        for j, name in enumerate(self.values):
            if name == _ONE and name not in rows.column_names:
                continue
            column = rows.column(name)
            if column.null_count:
                if self.null is None:
                    raise EverfreshError(
                        Code.VALUE,
                        f"column '{name}' of '{self.relation}' is NULL in a row, and a matrix has no NULL",
                        hint="say what it is with columns(..., null=0.0), or leave such rows out in a view",
                    )
                column = pc.fill_null(column.cast(pa.float64()), self.null)
            found[:, j] = column.cast(pa.float64()).to_numpy()
        return found

    def keys(self, rows: pa.Table) -> list[Key]:
        """The keys of rows."""
        return list(zip(*(rows.column(name).to_pylist() for name in self.index), strict=True))


def columns(
    relation: str, *, index: str | Sequence[str], values: Sequence[str | int], null: float | None = None
) -> Columns:
    """The columns `values` of a table or SQL view as a matrix that follows it: an input of a matrix view.

    `index` names the column, or columns, that identify a row, such as the keys of its GROUP BY. A value 1 is
    a column of ones, an intercept. Without `null` a NULL among the values is refused.

    >>> columns("spend", index="customer", values=[1, "total"])
    Columns(relation='spend', index=('customer',), values=('1', 'total'), null=None)
    """
    keys = (index,) if isinstance(index, str) else tuple(index)
    if not keys or not values:
        raise EverfreshError(Code.ARGUMENT, "columns() needs an index and at least one value", hint=_HINT)
    for value in values:
        if not isinstance(value, str) and not (isinstance(value, int) and value == 1):
            raise EverfreshError(Code.ARGUMENT, f"{value!r} names no column", hint=_HINT)
    return Columns(relation, keys, tuple(map(str, values)), null)


_HINT = 'columns("spend", index="customer", values=[1, "total"])'


class Followed:
    """Where the rows of a relation are in its matrix."""

    __slots__ = ("_keys", "_next", "order", "slots", "source")

    def __init__(self, source: Columns, keys: Iterable[Key] = ()) -> None:
        self.source = source
        self.slots: dict[Key, int] = {}
        """A number of each row, which grows as rows come."""
        self._keys: dict[int, Key] = {}
        self._next = 0
        self.order = np.empty(0, np.int64)
        """The numbers of the rows, in their order in the matrix, which is that of the numbers."""
        self.move((), list(keys))

    @staticmethod
    def begin(source: Columns, rows: pa.Table) -> tuple[Followed, np.ndarray[Any, Any]]:
        """Follow a relation that has these rows: and its matrix."""
        source.check(rows.schema)
        rows = rows.sort_by([(name, "ascending") for name in source.index])
        keys = source.keys(rows)
        for key, other in pairwise(keys):
            if key == other:
                raise _not_unique(source, key)
        return Followed(source, keys), source.array(rows)

    def key_table(self) -> pa.Table:
        """The keys, in the order of the rows."""
        return key_table(self.source, self.ordered())

    def ordered(self) -> Iterator[Key]:
        """The keys, in the order of the rows."""
        return (self._keys[slot] for slot in self.order.tolist())

    def move(self, deleted: Sequence[int], appended: Sequence[Key]) -> Callable[[], None]:
        """Rows at these positions were deleted, then rows with these keys appended; what takes that back."""
        order, start = self.order, self._next
        gone = [(slot, self._keys.pop(slot)) for slot in order[list(deleted)].tolist()]
        for _, key in gone:
            del self.slots[key]
        for key in appended:
            self.slots[key], self._keys[self._next] = self._next, key
            self._next += 1
        self.order = np.concatenate([np.delete(order, list(deleted)), np.arange(start, self._next)])

        def undo() -> None:
            for key in appended:
                del self._keys[self.slots.pop(key)]
            for slot, key in gone:
                self.slots[key], self._keys[slot] = slot, key
            self.order, self._next = order, start

        return undo

    def updates(self, change: pa.Table) -> tuple[list[Update], list[Key], list[int]]:
        """A change of the relation as updates; the keys of the rows that are appended, the positions of those
        that are deleted. Nothing is noted yet."""
        source = self.source
        names = [name for name in (*source.index, *source.values) if name in change.column_names]
        change = net(change.select([*dict.fromkeys(names), WEIGHT]))
        keys, entries = source.keys(change), source.array(change)
        weights = change.column(WEIGHT).to_numpy()
        came: dict[Key, int] = {}
        went: set[Key] = set()
        for i, key in enumerate(keys):
            if weights[i] < 0:
                went.add(key)
            elif key in came or weights[i] > 1:
                raise _not_unique(source, key)
            else:
                came[key] = i
        found: list[Update] = []
        for key, i in came.items():
            if key in self.slots:
                if key not in went:
                    raise _not_unique(source, key)
                found.append(RowUpdate(self.position(key), entries[i]))
        deleted = sorted(self.position(key) for key in went if key not in came)
        appended = [key for key in came if key not in self.slots]
        if deleted:
            found.append(DeleteRows(deleted))
        if appended:
            found.append(AppendRows(entries[[came[key] for key in appended]]))
        return found, appended, deleted

    def position(self, key: Key) -> int:
        """The row of a key."""
        return int(np.searchsorted(self.order, self.slots[key]))


def key_table(source: Columns, keys: Iterable[Key]) -> pa.Table:
    """Keys as a table, which holds them for the log and for snapshots."""
    listed = list(keys)
    arrays = [pa.array([key[i] for key in listed]) for i in range(len(source.index))]
    return pa.Table.from_arrays(arrays, names=list(source.index))


def _not_unique(source: Columns, key: Key) -> EverfreshError:
    shown = ", ".join(map(repr, key))
    return EverfreshError(
        Code.DUPLICATE_KEY,
        f"'{source.relation}' has several rows with {', '.join(source.index)} = {shown}",
        place="a matrix that follows it",
        hint="the columns of `index` must identify a row, as the keys of a GROUP BY do",
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )
