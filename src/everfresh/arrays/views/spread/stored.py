"""The groups of a view as chunks of an array that nobody sees: what workers keep, send and write.

Its dimensions are the view's, by their numbers; its attributes are what is kept of a group
(`everfresh.arrays.views.slots`). Whole sums that have left 64 bits stand in a column of text beside.

Invariant: `groups_of(of, table_of(of, changes))` is `changes`, whatever chunk the groups are in; a cell holds
one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.chunk import coordinates
from everfresh.arrays.model import ArraySchema, Dimension
from everfresh.arrays.views.definition import Argument, Definition
from everfresh.arrays.views.joins import physical, physical_kind
from everfresh.arrays.views.slots import ROWS, Changes, Columns
from everfresh.expr.arrow import vector_from_arrow
from everfresh.types import BIGINT, DOUBLE, VARCHAR, Column, SqlType, arrow_schema, no_rows

_FAR = "x"
_LARGE = 1 << 63


@dataclass(frozen=True)
class Slot:
    """A column of groups: its name, the type that it is stored as, and that of the values in it."""

    name: str
    stored: SqlType
    argument: Argument


def _slots(k: int, argument: Argument) -> Iterator[Slot]:
    """The columns that are kept of an argument."""
    kind = physical_kind(argument)
    stored = {"f": DOUBLE, "i": BIGINT}.get(kind, VARCHAR)
    yield Slot(f"n{k}", BIGINT, argument)
    if argument.summed:
        yield Slot(f"s{k}", stored, argument)
        if kind == "f":
            yield Slot(f"e{k}", DOUBLE, argument)
    if argument.ordered:
        yield Slot(f"lo{k}", stored, argument)
        yield Slot(f"hi{k}", stored, argument)


@lru_cache(maxsize=256)
def _every(arguments: tuple[Argument, ...]) -> tuple[Slot, ...]:
    return tuple(slot for k, argument in enumerate(arguments) for slot in _slots(k, argument))


def _far(slot: Slot) -> bool:
    """Whether values may have to stand in the column of text beside."""
    return slot.name[0] == "s" and slot.stored == BIGINT


def groups_schema(of: Definition) -> ArraySchema:
    """The array of a view's groups."""
    return _groups_schema(of.schema, of.arguments)


@lru_cache(maxsize=256)
def _groups_schema(shown: ArraySchema, arguments: tuple[Argument, ...]) -> ArraySchema:
    dimensions = tuple(Dimension(f"d{k}", d.lo, d.hi, d.chunk) for k, d in enumerate(shown.dimensions))
    columns = [Column(ROWS, BIGINT, False)]
    for slot in _every(arguments):
        columns.append(Column(slot.name, slot.stored))
        if _far(slot):
            columns.append(Column(_FAR + slot.name[1:], VARCHAR))
    return ArraySchema(shown.name, dimensions, tuple(columns), True)


def table_of(of: Definition, groups: Changes) -> pa.Table:
    """Groups as cells, in the order of their keys."""
    schema = groups_schema(of).arrow
    if not len(groups):
        return no_rows(schema)
    columns: list[Any] = [pa.array(row) for row in of.numbering.coords(groups.keys)]
    columns.append(pa.array(groups.columns[ROWS]))
    for slot in _every(of.arguments):
        values = groups.columns[slot.name]
        if slot.stored == VARCHAR:
            columns.append(pa.array([None if v is None else str(v) for v in values.tolist()], pa.string()))
        elif values.dtype.kind == "O":  # some sums have left 64 bits
            near = [-_LARGE <= v < _LARGE for v in values.tolist()]
            columns.append(pa.array(np.where(near, values, 0).astype(np.int64)))
            far = [None if is_near else str(v) for is_near, v in zip(near, values.tolist(), strict=True)]
            columns.append(pa.array(far, pa.string()))
        else:
            columns.append(pa.array(values.astype(np.float64 if slot.stored == DOUBLE else np.int64)))
            if _far(slot):
                columns.append(pa.nulls(len(values), pa.string()))
    return pa.Table.from_arrays(columns, schema=schema)


def groups_of(of: Definition, table: pa.Table) -> Changes:
    """The inverse of `table_of`."""
    keys = of.numbering.keys(coordinates(table, of.schema.ndim))
    columns: Columns = {ROWS: _numbers(table.column(ROWS))}
    for slot in _every(of.arguments):
        values = table.column(slot.name)
        if slot.stored == VARCHAR:
            columns[slot.name] = _objects(values.to_pylist(), not slot.argument.type.is_text)
            continue
        found = _numbers(values)
        if slot.name[:2] in ("lo", "hi"):
            found = found.astype(_kept_as(slot.argument), copy=False)
        if _far(slot):
            far = table.column(_FAR + slot.name[1:])
            if far.null_count < len(far):
                found = found.astype(object)
                for at, text in enumerate(far.to_pylist()):
                    if text is not None:
                        found[at] = int(text)
        columns[slot.name] = found
    return Changes(keys, columns)


def _numbers(column: Any) -> Any:
    return np.ascontiguousarray(column.to_numpy())


def _objects(values: list[Any], numbers: bool) -> Any:
    found = np.empty(len(values), object)
    found[:] = [int(v) if numbers and v is not None else v for v in values]
    return found


def _kept_as(argument: Argument) -> Any:
    """The type of the values of an argument in memory."""
    empty = pa.array([], arrow_schema((Column("v", argument.type),)).field(0).type)
    return physical(vector_from_arrow(empty, argument.type))[0].dtype


# -- in any columns --------------------------------------------------------------------------------------


def as_table(change: Changes) -> pa.Table:
    """Groups, or a change of them, as a table of their keys and columns; Python's numbers as text."""
    columns: dict[str, Any] = {"key": pa.array(change.keys)}
    for name, values in change.columns.items():
        if values.dtype.kind != "O":
            columns[name] = pa.array(values)
            continue
        known = values.tolist()
        numbers = any(isinstance(v, int) for v in known)
        shown = [None if v is None else str(v) for v in known]
        columns[f"{name}:{'number' if numbers else 'text'}"] = pa.array(shown, pa.string())
    return pa.table(columns)


def from_table(table: pa.Table) -> Changes:
    """The inverse of `as_table`."""
    columns: Columns = {}
    for label in table.column_names[1:]:
        name, _, kind = label.partition(":")
        values = table.column(label)
        columns[name] = _objects(values.to_pylist(), kind == "number") if kind else _numbers(values)
    return Changes(_numbers(table.column("key")), columns)
