"""From the updates a user gives to one change per input, in the coordinates of the stored arrays.

Rows that are appended or deleted must be so in every input that shares the dimension; the stored rows that
are spare take the new ones. Invariant: resolving changes nothing; what it finds wrong it refuses before
anything is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.kernels.backend import Array
from everfresh.linalg.lang.dims import Dim, Index, Slots
from everfresh.linalg.run.updates import Accumulator, AppendRows, DeleteRows, LowRankChange, RowUpdate, Update

if TYPE_CHECKING:
    from everfresh.linalg.run.view import MatrixView

Updates = dict[str, list[Update]]


@dataclass(slots=True)
class Resolved:
    """The change of each input; what has to grow first; or the inputs anew, if a rigid dimension changes."""

    changes: dict[str, LowRankChange] = field(default_factory=dict)
    slots: dict[Dim, Slots] = field(default_factory=dict)
    grow: dict[Dim, int] = field(default_factory=dict)
    rebuilt: dict[str, Array] | None = None


def resolve(view: MatrixView, given: Mapping[str, Update | Iterable[Update]]) -> Resolved:
    """One change per input."""
    updates: Updates = {n: list(u) if isinstance(u, Iterable) else [u] for n, u in given.items()}
    added = _reshaped(view, updates)
    resolved = Resolved()
    if any(view.dimensions.rigid(dim) for dim in added):
        resolved.rebuilt = _rebuilt(view, updates)
        return resolved
    room: dict[Dim, Index] = {}
    for dim, count in added.items():
        slots = _slots(view, dim)
        spare = slots.spare(count)
        if spare is None:
            resolved.grow[dim] = len(slots.index) + count
        else:
            room[dim] = spare
    if resolved.grow:
        return resolved
    for name, listed in updates.items():
        rows, columns = (_slots(view, view.dimensions.of(name, axis), name, axis) for axis in (0, 1))
        accumulator = Accumulator(name, view.state[name], rows.index, columns.index)
        _run(accumulator, listed, room.get(view.dimensions.of(name, 0)))
        change = accumulator.change()
        if change is not None:
            resolved.changes[name] = change
        dim = view.dimensions.of(name, 0)
        if dim in added:
            _agree(view, resolved, dim, name, Slots(accumulator.rows, rows.size))
    return resolved


def _slots(view: MatrixView, dim: Dim, name: str | None = None, axis: int = 0) -> Slots:
    found = view.slots.get(dim)
    if found is not None:
        return found
    if name is None:
        name, axis = next((n, a) for n in view.state for a in (0, 1) if view.dimensions.of(n, a) == dim)
    size = view.state[name].shape[axis]
    return Slots(np.arange(size), size)


def _reshaped(view: MatrixView, updates: Updates) -> dict[Dim, int]:
    """The dimensions that grow or shrink, each with how many rows are appended."""
    counts: dict[Dim, dict[str, int]] = {}
    for name, listed in updates.items():
        for update in listed:
            if isinstance(update, (AppendRows, DeleteRows)):
                by_input = counts.setdefault(view.dimensions.of(name, 0), {})
                by_input[name] = by_input.get(name, 0) + (
                    _height(update) if isinstance(update, AppendRows) else 0
                )
    for dim, by_input in counts.items():
        for name in view.inputs:
            if view.dimensions.of(name, 1) == dim:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"the rows of {', '.join(by_input)} cannot change: "
                    f"they are one dimension with the columns of {name}",
                    hint="make the view anew over matrices of the new size",
                )
            if view.dimensions.of(name, 0) == dim and by_input.get(name, -1) != next(iter(by_input.values())):
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"rows are appended to or deleted from {', '.join(by_input)}, and not alike from {name}, "
                    "whose rows are the same dimension",
                    hint=f"append to or delete from {name} in the same update",
                )
    return {dim: next(iter(by_input.values())) for dim, by_input in counts.items()}


def _height(update: AppendRows) -> int:
    shape = np.shape(update.rows) if not hasattr(update.rows, "shape") else tuple(update.rows.shape)
    return 1 if len(shape) == 1 else int(shape[0])


def _run(accumulator: Accumulator, listed: list[Update], room: Index | None) -> None:
    taken = 0
    for update in listed:
        if isinstance(update, AppendRows):
            count = _height(update)
            assert room is not None
            first = len(accumulator.rows)
            accumulator.rows = np.concatenate([accumulator.rows, room[taken : taken + count]])
            taken += count
            rows = accumulator.backend.asarray(update.rows, accumulator.like)
            rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
            for i in range(count):
                accumulator.add(RowUpdate(first + i, rows[i]))
        elif isinstance(update, DeleteRows):
            gone = [accumulator.position(int(i), accumulator.rows, "row") for i in update.indices]
            accumulator.zero_rows(gone)
            accumulator.rows = accumulator.rows[~np.isin(accumulator.rows, gone)]
        else:
            accumulator.add(update)


def _agree(view: MatrixView, resolved: Resolved, dim: Dim, name: str, slots: Slots) -> None:
    other = resolved.slots.setdefault(dim, slots)
    if not np.array_equal(other.index, slots.index):
        raise EverfreshError(
            Code.ARGUMENT,
            f"different rows are deleted from {name} and from another input of the same dimension",
            hint="delete the same rows from all inputs that share them",
        )


def _rebuilt(view: MatrixView, updates: Updates) -> dict[str, Array]:
    """The input arrays after the updates, in the user's coordinates."""
    from everfresh.linalg.run.pending import Held

    arrays: dict[str, Any] = {name: view.read(name) for name in view.inputs}
    for name, listed in updates.items():
        for update in listed:
            array = arrays[name]
            if isinstance(update, AppendRows):
                rows = view.backend.asarray(update.rows, array)
                arrays[name] = view.backend.copy(
                    view.backend.concat([array, rows.reshape(-1, array.shape[1])], 0)
                )
            elif isinstance(update, DeleteRows):
                gone = {int(i) % array.shape[0] for i in update.indices}
                kept = [i for i in range(array.shape[0]) if i not in gone]
                arrays[name] = view.backend.copy(array[view.backend.index(kept, array)])
            else:
                accumulator = Accumulator(name, Held(array, view.backend), None, None)
                accumulator.add(update)
                change = accumulator.change()
                if change is not None:
                    view.backend.add_product(array, change.left, change.right)
    return arrays
