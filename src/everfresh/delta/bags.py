"""Multisets of Arrow rows: a last column `_weight` says how often each row is there, or by how much that
changes. It is known by its place: a table may have a column of that name, too.

Rows are the same when all their values are: NULL is NULL here, NaN is NaN, and -0.0 is 0.0.
Invariant: `net` is the one place where rows are compared; everything else is sums of weights around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.casts import canonical
from everfresh.types import from_arrow
from everfresh.types.exchange import coded

WEIGHT = "_weight"
EPOCH = "_epoch"

_REAL_TOLERANCE = 2.0**-22  # two steps of a 32-bit float: REAL values that went different ways are not nearer


def net(table: pa.Table) -> pa.Table:
    """The sum of `_weight` of each distinct row, without the zeros, in order of first appearance.

    >>> net(pa.table({"a": [1, 2, 1, 2], "_weight": [1, 1, 2, -1]})).to_pydict()
    {'a': [1], '_weight': [3]}
    """
    rows, weights = split(table)
    if not rows.num_columns:
        total = pc.sum(weights).as_py() or 0
        return pa.Table.from_arrays([pa.array([total] if total else [], pa.int64())], schema=table.schema)
    labels = [f"{i}" for i in range(rows.num_columns)]
    held = [comparable(column) for column in rows.columns]
    columns = [*held, weights, pa.array(np.arange(len(table)))]
    groups = pa.Table.from_arrays(columns, [*labels, "w", "row"]).group_by(labels, use_threads=False)
    groups = groups.aggregate([("w", "sum"), ("row", "min")])
    groups = groups.filter(pc.not_equal(groups.column("w_sum"), 0))
    first = groups.column("row_min").to_numpy()
    if (np.diff(first) < 0).any():  # the grouper goes through blocks of rows, each in an order of its own
        groups = groups.take(np.argsort(first, kind="stable"))
    kept = [
        groups.column(n) if made.type == given.type else given.take(groups.column("row_min"))
        for n, made, given in zip(labels, held, rows.columns, strict=True)
    ]
    return pa.Table.from_arrays([*kept, groups.column("w_sum")], schema=table.schema)


def in_order(table: pa.Table) -> pa.Array:
    """The places of rows in an order that depends on nothing but the rows."""
    names = [f"{i}" for i in range(table.num_columns)]
    keys = pa.Table.from_arrays([comparable(column) for column in table.columns], names)
    return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names])


def split(table: pa.Table) -> tuple[pa.Table, pa.ChunkedArray]:
    """The rows and their weights."""
    last = table.num_columns - 1
    return table.remove_column(last), table.column(last)


def weigh(rows: pa.Table, weight: int = 1) -> pa.Table:
    """`rows` with the same `_weight` each."""
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight, np.int64)))


def expand(table: pa.Table) -> pa.Table:
    """Each row as often as its `_weight` says, without that column; a negative weight raises ValueError.

    >>> expand(pa.table({"a": [1, 2], "_weight": [2, 1]})).to_pydict()
    {'a': [1, 1, 2]}
    """
    rows, column = split(table)
    weights = column.to_numpy()
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(f"a row cannot be there {weights[row]} times: {rows.slice(row, 1).to_pylist()}")
    if (weights == 1).all():
        return rows
    places = np.repeat(np.arange(len(weights)), weights)
    if not rows.column_names:  # `take` would forget how many rows there are
        return pa.table({"": pa.nulls(len(places))}).select([])
    return rows.take(places)


def subtract(rows: pa.Table, changes: pa.Table) -> pa.Table:
    """`rows` as they were before the weighted `changes` (`_epoch` is ignored); ValueError if that cannot be.

    >>> subtract(pa.table({"a": [1, 2]}), pa.table({"a": [2, 3], "_weight": [1, -1]})).to_pydict()
    {'a': [1, 3]}
    """
    if changes.num_rows == 0:
        return rows
    return expand(net(_join(weigh(rows), _negated(changes.select([*rows.column_names, WEIGHT])))))


def difference(expected: pa.Table, actual: pa.Table, tolerance: float = 1e-9) -> pa.Table:
    """How `actual` differs: weight > 0 for rows that should be there and are not, < 0 for those too many.

    REAL and DOUBLE columns match within the relative `tolerance` (REAL within two steps of a 32-bit float at
    least; 0 asks for equality). Rows that agree in everything else are paired greedily, in order of a float
    column.

    >>> expected = pa.table({"a": [1, 2], "b": [0.1 + 0.2, 1.0]})
    >>> difference(expected, pa.table({"a": [1, 3], "b": [0.3, 1.0]})).to_pylist()
    [{'a': 2, 'b': 1.0, '_weight': 1}, {'a': 3, 'b': 1.0, '_weight': -1}]
    """
    rest = net(_join(weigh(expected), weigh(actual.select(expected.column_names), -1)))
    floats = [
        name for name in expected.column_names if pa.types.is_floating(expected.schema.field(name).type)
    ]
    if rest.num_rows == 0 or not floats or tolerance <= 0:
        return rest
    weights = split(rest)[1].to_numpy().copy()
    rest = rest.combine_chunks()
    values = np.empty((len(floats), rest.num_rows))
    limits = np.empty(len(floats))
    keys = rest.select([name for name in expected.column_names if name not in floats])
    for i, name in enumerate(floats):
        real = pa.types.is_float32(rest.schema.field(name).type)
        limits[i] = max(tolerance, _REAL_TOLERANCE) if real else tolerance
        kind, values[i] = _split(rest.column(name).chunk(0))
        keys = keys.append_column(f"kind of {name}", kind)
    _pair(*_groups(keys), values, limits, weights)
    keep = weights != 0
    return rest.set_column(rest.num_columns - 1, WEIGHT, pa.array(weights)).filter(pa.array(keep))


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column that Arrow groups as SQL does: floats are canonical, what Arrow cannot group is its code."""
    if pa.types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType):
        found = from_arrow(column.type)
        return column if found is None else coded(column, found)
    if not pa.types.is_floating(column.type):
        return column
    return pa.chunked_array([canonical(chunk) for chunk in column.chunks], column.type)


def _negated(changes: pa.Table) -> pa.Table:
    rows, weights = split(changes)
    return rows.append_column(WEIGHT, pc.negate(weights))


def _join(first: pa.Table, second: pa.Table) -> pa.Table:
    """Both tables, of one type: whether a field may be NULL does not count."""
    fields = zip(second.columns, first.schema, strict=True)
    columns = [column if column.type == field.type else column.cast(field.type) for column, field in fields]
    return pa.concat_tables([first, pa.Table.from_arrays(columns, schema=first.schema)])


def _split(column: pa.Array) -> tuple[pa.Array, Any]:
    """The kind of each value of a float column (0: finite), and the finite values (0 for the others)."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    values = column.cast(pa.float64()).fill_null(0).to_numpy()
    kind = np.select([missing, np.isnan(values), values == np.inf, values == -np.inf], [1, 2, 3, 4], 0)
    return pa.array(kind, pa.int8()), np.where(kind == 0, values, 0.0)


def _groups(keys: pa.Table) -> tuple[Any, Any]:
    """The numbers of the rows, those with equal keys together, and where each such group begins."""
    names = [f"{i}" for i in range(keys.num_columns)]
    keys = pa.Table.from_arrays([comparable(column) for column in keys.columns], names)
    numbered = keys.append_column("row", pa.array(np.arange(keys.num_rows)))
    groups = numbered.group_by(names, use_threads=False).aggregate([("row", "list")])
    lists = groups.column("row_list").combine_chunks()
    return lists.values.to_numpy(), lists.offsets.to_numpy()


def _near(here: Any, there: Any, limits: Any) -> Any:
    """Which rows are near in all float columns; those are the first dimension of `here` and `there`."""
    bound = limits[:, None] * np.maximum(np.abs(here), np.abs(there))
    with np.errstate(over="ignore"):
        return (np.abs(here - there) <= bound).all(axis=0)


def _pair(rows: Any, starts: Any, values: Any, limits: Any, weights: Any) -> None:
    """Cancel in `weights` the rows of opposite sign in each group whose values are all near."""
    sizes = np.diff(starts)
    a, b = rows[starts[:-1][sizes == 2]], rows[starts[:-1][sizes == 2] + 1]  # most groups, all at once
    both = (np.sign(weights[a]) == -np.sign(weights[b])) & _near(values[:, a], values[:, b], limits)
    a, b = a[both], b[both]
    count = np.sign(weights[a]) * np.minimum(np.abs(weights[a]), np.abs(weights[b]))
    weights[a] -= count
    weights[b] += count
    for i in np.flatnonzero(sizes > 2):
        _pair_group(rows[starts[i] : starts[i + 1]], values, limits, weights)


def _pair_group(members: Any, values: Any, limits: Any, weights: Any) -> None:
    """The same in one group, greedily.

    Both signs go up in the column with the most distinct values; only what is near in that one is looked at.
    """
    lead = int(np.argmax([len(np.unique(column[members])) for column in values]))
    order = members[np.argsort(values[lead, members], kind="stable")]
    missing, extra = order[weights[order] > 0], order[weights[order] < 0]
    low = values[lead, extra]
    for row in missing if len(extra) else ():
        value = values[lead, row]
        reach = abs(value) * limits[lead] * 2  # a little wide: `_near` decides
        window = slice(np.searchsorted(low, value - reach), np.searchsorted(low, value + reach, side="right"))
        near = extra[window]
        for other in near[_near(values[:, row, None], values[:, near], limits) & (weights[near] < 0)]:
            count = min(weights[row], -weights[other])
            weights[row] -= count
            weights[other] += count
            if weights[row] == 0:
                break
