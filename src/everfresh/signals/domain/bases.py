"""What changed in a table, as a signal view sees it: rows that came and rows that went, of the columns that
it reads; and the rows of some groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.bags import WEIGHT, expand, net, split, weigh
from everfresh.signals.nodes import Reading
from everfresh.signals.payload import Array
from everfresh.signals.run.keys import Keys

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, eq=False)
class Moved:
    """Rows of a table that came, and rows that went."""

    came: pa.Table
    went: pa.Table


def moved(change: pa.Table, columns: Sequence[str]) -> Moved:
    """A change with `_weight` in these columns alone; what changed in others only has not changed."""
    rows = change.select([*columns, WEIGHT])
    weights = split(rows)[1].to_numpy()
    if (weights < 0).any():
        rows = net(rows)
        weights = split(rows)[1].to_numpy()
    elif (weights == 1).all():
        return Moved(rows.select(list(columns)), rows.select(list(columns)).slice(0, 0))
    came, went = weights > 0, weights < 0
    return Moved(expand(rows.filter(pa.array(came))), expand(negated(rows.filter(pa.array(went)))))


def negated(change: pa.Table) -> pa.Table:
    """What takes a change back."""
    rows, weights = split(change)
    return rows.append_column(WEIGHT, pc.negate(weights))


def without(rows: pa.Table, gone: pa.Table | None) -> pa.Table:
    """The rows but these, each as often as it is there."""
    if gone is None or not len(gone):
        return rows
    left = net(pa.concat_tables([weigh(rows), weigh(gone.cast(rows.schema), -1)]))
    return expand(left.filter(pc.greater(left.column(WEIGHT), 0)))


def without_those(rows: pa.Table, gone: pa.Table) -> pa.Table:
    """The rows but those with these values in some of their columns, each as often as it is there.

    >>> without_those(pa.table({"k": [1, 1, 2], "x": [7, 8, 9]}), pa.table({"k": [1]})).to_pydict()
    {'k': [1, 2], 'x': [8, 9]}
    """
    if set(gone.column_names) == set(rows.column_names):
        return without(rows, gone.select(rows.column_names))
    names, count = gone.column_names, len(rows)
    both = pa.concat_tables([rows.select(names), gone.cast(rows.select(names).schema)])
    both = both.append_column("", pa.array(np.arange(len(both))))
    groups = both.group_by(names, use_threads=False).aggregate([("", "list")])
    lists = groups.column(groups.num_columns - 1).combine_chunks()
    lists = pa.concat_arrays(lists.chunks) if isinstance(lists, pa.ChunkedArray) else lists
    numbers, offsets = lists.values.to_numpy(), lists.offsets.to_numpy()
    group = np.repeat(np.arange(len(lists)), np.diff(offsets))
    left = np.bincount(group[numbers >= count], minlength=len(lists))
    keep = np.ones(count, bool)
    for one in np.flatnonzero(left):
        mine = numbers[offsets[one] : offsets[one + 1]]
        keep[mine[mine < count][: left[one]]] = False
    return rows.filter(pa.array(keep))


def common(rows: pa.Table, others: pa.Table | None) -> pa.Table:
    """The rows that are among others, each as often as in both."""
    if others is None or not len(rows):
        return rows.slice(0, 0)
    return without(rows, without(rows, others))


def ordered(rows: pa.Table, reading: Reading) -> pa.Table:
    """Rows in order of time."""
    if not reading.timed:
        return rows
    at = rows.column(reading.time)
    whole = at.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], at.type)
    ticks = whole.cast(pa.int32()) if pa.types.is_date32(at.type) else whole
    if ticks.null_count == 0:
        numbers = ticks.cast(pa.int64()).to_numpy()
        if (numbers[1:] >= numbers[:-1]).all():
            return rows
    return rows.take(pc.sort_indices(rows, [(reading.time, "ascending")]))


class Groups:
    """Some groups, known by their keys."""

    def __init__(self, keys: pa.Table) -> None:
        self.keys = keys
        self._known = Keys(tuple(keys.schema.types))
        self._count = len(keys)
        if keys.num_columns:
            self._known.slots([_one(column) for column in keys.columns], len(keys))

    def of(self, rows: pa.Table, names: Sequence[str]) -> Array:
        """Which rows are of these groups, by the key columns of these names."""
        if not names:
            return np.ones(len(rows), bool)
        columns = [_one(rows.column(name)) for name in names]
        columns = [c.cast(t) if c.type != t else c for c, t in zip(columns, self._known.types, strict=True)]
        first = pc.is_in(columns[0], value_set=_one(self.keys.column(0)))
        mask: Array = np.asarray(first.to_numpy(zero_copy_only=False), bool).copy()
        if len(columns) > 1:
            some = pa.array(np.flatnonzero(mask))
            slots = self._known.slots([column.take(some) for column in columns], len(some))
            self._known.forget(self._count)
            mask[some.to_numpy()[slots >= self._count]] = False
        return mask

    def rows(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """The rows of these groups."""
        return rows.filter(pa.array(self.of(rows, names)))


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], column.type)
    return found
