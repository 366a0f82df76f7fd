"""Stages of views: each has a value, and makes of its inputs' changes the next value and a change of its own.

    Base                       an array, or another view
    Cellwise                   FILTER, PROJECT, BETWEEN, SUBARRAY, other chunks: cell by cell
    Blocks                     REGRID: blocks that a change lies in are made again
    Around                     APPLY: cells near a change are made again
    Joined                     a query over similarity joins (`everfresh.arrays.views.groups`)

What the operators mean is said once, by `everfresh.arrays.evaluate`: stages hand it the cells that a change
concerns. Changes are rows with `_weight`.

Invariant: the value of a stage after `step` is that of `start` over the inputs as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.cells import Array, array_of
from everfresh.arrays.chunk import coordinates
from everfresh.arrays.evaluate import value_of
from everfresh.arrays.join import Cells, matched
from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.shape import L0
from everfresh.arrays.views.definition import Definition
from everfresh.arrays.views.groups import Groups, by_weight, no_change
from everfresh.arrays.views.tuples import near
from everfresh.delta.bags import WEIGHT, expand, net, weigh
from everfresh.epochs import RowChange

INPUT = "\0input"
State = Any


class Stage(ABC):
    """A step of a view; `inputs` are the places of the stages that it reads."""

    schema: ArraySchema
    inputs: tuple[int, ...]

    @abstractmethod
    def start(self, inputs: Sequence[Array]) -> State:
        """The state over these inputs, from scratch."""

    @abstractmethod
    def step(
        self, state: State, inputs: Sequence[Array], changes: Sequence[pa.Table | None]
    ) -> tuple[State, pa.Table | RowChange | None]:
        """The next state, and the change (perhaps made when it is asked for; None: none); the inputs are
        those after the batch."""

    def value(self, state: State) -> Array:
        """The array that a state stands for."""
        found: Array = state
        return found


@dataclass(frozen=True)
class Base(Stage):
    """An array of the database, by its name."""

    name: str
    schema: ArraySchema
    inputs: tuple[int, ...] = ()

    def start(self, inputs: Sequence[Array]) -> Array:
        """As in `Stage`; the one input is the array."""
        return inputs[0]

    def step(
        self, state: State, inputs: Sequence[Array], changes: Sequence[pa.Table | None]
    ) -> tuple[Array, pa.Table]:
        """As in `Stage`."""
        return inputs[0], no_change(self.schema) if changes[0] is None else changes[0]


class Operation(Stage):
    """An operator on one array; its state is what it gives."""

    @abstractmethod
    def change(self, state: Array, of: Array, change: pa.Table) -> pa.Table:
        """The change of what it gives, from the change of its input, and the input after it; what is far from
        the change may be missing in both arrays (`reads` says what is near)."""

    def reads(self, of: ArraySchema, change: pa.Table, lo: Ints, hi: Ints) -> Ints:
        """Which of these boxes of chunks of the input are near a change of it."""
        return np.empty(0, np.int64)

    def writes(self, of: ArraySchema, change: pa.Table, lo: Ints, hi: Ints) -> Ints:
        """Which of these boxes of chunks of the result a change of the input may concern."""
        return self.reads(of, change, lo, hi)

    def step(
        self, state: Array, inputs: Sequence[Array], changes: Sequence[pa.Table | None]
    ) -> tuple[Array, pa.Table]:
        """As in `Stage`."""
        (change,) = changes
        assert change is not None
        return _moved(state, self.change(state, inputs[0], change))


@dataclass(frozen=True)
class Cellwise(Operation):
    """An operator that looks at one cell at a time."""

    schema: ArraySchema
    inputs: tuple[int, ...]
    of: ArraySchema
    operator: Callable[[Array], Array]

    def start(self, inputs: Sequence[Array]) -> Array:
        """As in `Stage`."""
        return self.operator(inputs[0])

    def change(self, state: Array, of: Array, change: pa.Table) -> pa.Table:
        """As in `Operation`."""
        parts = [no_change(self.schema)]
        for weight, rows in by_weight(change):
            found = self.operator(_bag(self.of, rows)).table
            parts.append(weigh(found.cast(self.schema.arrow), weight))
        return net(pa.concat_tables(parts))


@dataclass(frozen=True)
class Blocked(Operation):
    """REGRID."""

    schema: ArraySchema
    inputs: tuple[int, ...]
    operand: aql.Regrid

    def start(self, inputs: Sequence[Array]) -> Array:
        """As in `Stage`."""
        return over(self.operand, inputs[0])

    def change(self, state: Array, of: Array, change: pa.Table) -> pa.Table:
        """As in `Operation`."""
        if not change.num_rows:
            return no_change(self.schema)
        changed, first, last = self._blocks(of.schema, change)
        some = part(of, _meeting(of, first, last))
        keep = among(self._places(of.schema, some.table), changed)
        after = over(self.operand, _bag(of.schema, some.table.filter(pa.array(keep))))
        return _change(cells_at(state, changed), after.table.cast(self.schema.arrow))

    def reads(self, of: ArraySchema, change: pa.Table, lo: Ints, hi: Ints) -> Ints:
        """As in `Operation`."""
        _, first, last = self._blocks(of, change)
        return np.unique(near(first, last, lo, hi, L0())[1])

    def writes(self, of: ArraySchema, change: pa.Table, lo: Ints, hi: Ints) -> Ints:
        """As in `Operation`."""
        changed, *_ = self._blocks(of, change)
        return np.unique(near(changed, changed, lo, hi, L0())[1])

    def _places(self, of: ArraySchema, rows: pa.Table) -> Ints:
        """The block of each cell, as a cell of the result."""
        lo, factors = of.lo[:, None], np.array(self.operand.factors, np.int64)[:, None]
        return np.asarray(lo + (coordinates(rows, of.ndim) - lo) // factors, np.int64)

    def _blocks(self, of: ArraySchema, change: pa.Table) -> tuple[Ints, Ints, Ints]:
        """The blocks that a change lies in: as cells of the result, and their ends in the input."""
        lo, factors = of.lo[:, None], np.array(self.operand.factors, np.int64)[:, None]
        changed = np.unique(self._places(of, change), axis=1)
        first = lo + (changed - lo) * factors
        return changed, first, first + factors - 1


@dataclass(frozen=True)
class Around(Operation):
    """APPLY: smoothing, and whatever else looks at the cells around each."""

    schema: ArraySchema
    inputs: tuple[int, ...]
    operand: aql.Apply

    def start(self, inputs: Sequence[Array]) -> Array:
        """As in `Stage`."""
        return over(self.operand, inputs[0])

    def change(self, state: Array, of: Array, change: pa.Table) -> pa.Table:
        """As in `Operation`."""
        if not change.num_rows:
            return no_change(self.schema)
        ndim, shape = of.schema.ndim, self.operand.shape
        changed = np.unique(coordinates(change, ndim), axis=1)
        lo, hi = _boxes(of.schema, changed)
        ids, low, high = _grid(of)
        centers = part(of, ids[np.unique(near(low, high, lo, hi, shape)[0])])
        at = coordinates(centers.table, ndim)
        i, _ = (
            matched(Cells.of(at), Cells.of(changed), shape) if len(centers) else (np.empty(0, np.int64),) * 2
        )
        touched = np.unique(np.concatenate([at[:, np.unique(i)], changed], axis=1), axis=1)
        lo, hi = _boxes(of.schema, touched)
        met = np.unique(np.concatenate([near(lo, hi, low, high, s)[1] for s in (shape, L0())]))
        some = part(of, ids[met])
        there = coordinates(some.table, ndim)
        keep = among(there, touched)
        if len(some):
            _, j = matched(Cells.of(touched), Cells.of(there), shape)
            keep[j] = True
        after = over(self.operand, _bag(of.schema, some.table.filter(pa.array(keep)))).table
        after = after.filter(pa.array(among(coordinates(after, ndim), touched)))
        return _change(cells_at(state, touched), after.cast(self.schema.arrow))

    def reads(self, of: ArraySchema, change: pa.Table, lo: Ints, hi: Ints) -> Ints:
        """As in `Operation`: what leads to the change, and what that leads to."""
        shape = self.operand.shape
        low, high = _boxes(of, np.unique(coordinates(change, of.ndim), axis=1))
        some = np.unique(near(lo, hi, low, high, shape)[0])
        low, high = (np.concatenate([a, b[:, some]], axis=1) for a, b in ((low, lo), (high, hi)))
        found = [near(low, high, lo, hi, one)[1] for one in (shape, L0())]
        return np.unique(np.concatenate([some, *found]))


@dataclass(frozen=True)
class Joined(Stage):
    """A query over similarity joins."""

    definition: Definition
    inputs: tuple[int, ...]
    auxiliary: bool = False
    """Whether it is kept for a chain that goes on before it (`everfresh.arrays.views.chains`)."""

    @property
    def schema(self) -> ArraySchema:  # type: ignore[override]
        """As in `Stage`."""
        return self.definition.schema

    def start(self, inputs: Sequence[Array]) -> Groups:
        """As in `Stage`."""
        return Groups.over(self.definition, inputs)

    def step(
        self, state: Groups, inputs: Sequence[Array], changes: Sequence[pa.Table | None]
    ) -> tuple[Groups, RowChange | None]:
        """As in `Stage`."""
        return state.step(inputs, changes)

    def value(self, state: Groups) -> Array:
        """As in `Stage`."""
        return state.value


# -- cells of arrays -------------------------------------------------------------------------------------


def _bag(schema: ArraySchema, rows: pa.Table) -> Array:
    """Some cells of an array, whether or not two are in one cell."""
    return array_of(replace(schema, unique=False), rows.cast(schema.arrow))


def over(operand: Any, of: Array) -> Array:
    """An operator on an array."""
    return value_of(replace(operand, input=aql.Read(INPUT)), {INPUT: of})


def _change(before: pa.Table, after: pa.Table) -> pa.Table:
    return net(pa.concat_tables([weigh(before, -1), weigh(after)]))


def _moved(state: Array, change: pa.Table) -> tuple[Array, pa.Table]:
    if not change.num_rows:
        return state, change
    signs = change.column(WEIGHT).to_numpy()
    gone = change.filter(pa.array(signs < 0))
    negative = gone.set_column(gone.num_columns - 1, WEIGHT, pa.array(-gone.column(WEIGHT).to_numpy()))
    return state.changed(expand(change.filter(pa.array(signs > 0))), expand(negative)), change


def among(columns: Ints, wanted: Ints) -> Any:
    """Which columns are among those wanted, each of which is there once."""
    if not columns.shape[1] or not wanted.shape[1]:
        return np.zeros(columns.shape[1], np.bool_)
    both = np.concatenate([wanted, columns], axis=1)
    numbers = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
    return np.isin(numbers[wanted.shape[1] :], numbers[: wanted.shape[1]])


def part(array: Array, chunks: Ints) -> Array:
    """Some chunks of an array."""
    return Array(array.schema, {int(c): array.chunks[int(c)] for c in chunks if int(c) in array.chunks})


def cells_at(array: Array, coords: Ints) -> pa.Table:
    """The tuples of an array in these cells."""
    rows = part(array, np.unique(array.schema.chunk_ids(coords))).table
    return rows.filter(pa.array(among(coordinates(rows, array.schema.ndim), coords)))


def _grid(array: Array) -> tuple[Ints, Ints, Ints]:
    """The chunks of an array that hold data, and where they begin and end."""
    schema = array.schema
    ids = np.array(list(array.chunks), np.int64)
    places: Ints = np.stack([ids // s % g for s, g in zip(schema._strides, schema.grid, strict=True)])
    first = schema.lo[:, None] + places * schema.lengths[:, None]
    return ids, first, first + schema.lengths[:, None] - 1


def _meeting(array: Array, lo: Ints, hi: Ints) -> Ints:
    """The chunks that hold a part of some boxes."""
    ids, first, last = _grid(array)
    return ids[np.unique(near(lo, hi, first, last, L0())[1])]


def _boxes(schema: ArraySchema, coords: Ints) -> tuple[Ints, Ints]:
    """The tight boxes of cells, chunk by chunk."""
    numbers = schema.chunk_ids(coords)
    order = np.argsort(numbers, kind="stable")
    ordered, numbers = coords[:, order], numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    return np.minimum.reduceat(ordered, starts, axis=1), np.maximum.reduceat(ordered, starts, axis=1)


@dataclass(frozen=True)
class Operator:
    """An operator on one array."""

    operand: Any

    def __call__(self, of: Array) -> Array:
        """The result."""
        return over(self.operand, of)


@dataclass(frozen=True)
class Chunked:
    """The same cells in other chunks."""

    schema: ArraySchema

    def __call__(self, of: Array) -> Array:
        """The result."""
        return array_of(replace(self.schema, unique=False), of.table.cast(self.schema.arrow))
