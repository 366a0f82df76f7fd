"""Updates of matrices, and how each becomes a product of thin factors (section 6.3.2).

A row, a column or an entry that is set is a change of rank 1; a batch is the sum of its changes, merged to
its effective rank (rows that are set twice count once; the rest by QR and SVD). Invariant: a `LowRankChange`
says exactly how the matrix changes, in the coordinates of the stored array.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.kernels.backend import Array, Backend
from everfresh.linalg.run.pending import Held


@dataclass(frozen=True, eq=False)
class LowRank:
    """A change by `U V'`; U and V have as many columns as the rank."""

    U: Any
    V: Any


@dataclass(frozen=True, eq=False)
class RowUpdate:
    """Row `i` becomes `row`."""

    i: int
    row: Any


@dataclass(frozen=True, eq=False)
class ColumnUpdate:
    """Column `j` becomes `column`."""

    j: int
    column: Any


@dataclass(frozen=True, eq=False)
class EntryUpdate:
    """The entry in row `i` and column `j` becomes `value`."""

    i: int
    j: int
    value: float


@dataclass(frozen=True, eq=False)
class AppendRows:
    """New rows at the end."""

    rows: Any


@dataclass(frozen=True, eq=False)
class DeleteRows:
    """The rows with these numbers vanish; those below move up."""

    indices: Sequence[int]

    def __post_init__(self) -> None:
        try:
            for i in self.indices:
                operator.index(i)
        except TypeError:
            raise EverfreshError(
                Code.ARGUMENT, f"{self.indices!r} is no list of row numbers", hint="DeleteRows([0, 7])"
            ) from None


Update = LowRank | RowUpdate | ColumnUpdate | EntryUpdate | AppendRows | DeleteRows


@dataclass(frozen=True, slots=True, eq=False)
class LowRankChange:
    """`left right'`; if only some rows of a factor are not zero, `left_rows` and `right_rows` say which."""

    left: Array
    right: Array
    left_rows: np.ndarray[Any, Any] | None = None
    right_rows: np.ndarray[Any, Any] | None = None

    @property
    def rank(self) -> int:
        """The columns of the factors."""
        return int(self.left.shape[1])


class Accumulator:
    """The change of one matrix by a sequence of updates, each of which sees those before it."""

    def __init__(
        self, name: str, held: Held, rows: np.ndarray[Any, Any] | None, columns: np.ndarray[Any, Any] | None
    ) -> None:
        self.name = name
        self.held = held
        self.backend: Backend = held.backend
        self.like = held.base
        self.rows = np.arange(held.shape[0]) if rows is None else rows
        self.columns = np.arange(held.shape[1]) if columns is None else columns
        self.set_rows: dict[int, Array] = {}  # physical row -> its new value
        self.parts: list[tuple[Array, Array]] = []
        self.single: LowRankChange | None = None

    def add(self, update: Update) -> None:
        """Take one update."""
        match update:
            case LowRank(U, V):
                self._low_rank(U, V)
            case RowUpdate(i, row):
                self._set_row(self.position(i, self.rows, "row"), self._vector(row, self.columns, "row"))
            case ColumnUpdate(j, column):
                self._set_column(self.position(j, self.columns, "column"), column)
            case EntryUpdate(i, j, value):
                self._set_entry(i, j, value)
            case _:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"{type(update).__name__} is no update of {self.name}",
                    hint="updates are LowRank, RowUpdate, ColumnUpdate, EntryUpdate, AppendRows, DeleteRows",
                )

    def position(self, i: int, index: np.ndarray[Any, Any], what: str) -> int:
        """The stored position of a row or column of the user's."""
        if not isinstance(i, int | np.integer):
            raise EverfreshError(Code.ARGUMENT, f"{i!r} is no number of a {what} of {self.name}")
        if not -len(index) <= i < len(index):
            raise EverfreshError(
                Code.ARGUMENT,
                f"{self.name} has no {what} {i}",
                hint=f"it has {len(index)} {what}s, counted from 0",
            )
        return int(index[i])

    def _finite(self, array: Array) -> Array:
        if not self.backend.finite(array):
            raise EverfreshError(Code.VALUE, f"an update of {self.name} holds NaN or infinite values")
        return array

    def _vector(self, values: Any, index: np.ndarray[Any, Any], what: str) -> Array:
        """A given row or column, spread over the stored positions."""
        array = self._finite(self.backend.asarray(values, self.like)).reshape(-1)
        if array.shape[0] != len(index):
            raise EverfreshError(
                Code.ARGUMENT, f"a {what} of {self.name} has {len(index)} values, not {array.shape[0]}"
            )
        return self._spread(array.reshape(-1, 1), index, self.held.shape[1 if what == "row" else 0])

    def _spread(self, array: Array, index: np.ndarray[Any, Any], size: int) -> Array:
        if len(index) == size and (index[-1:] == size - 1).all() and (np.diff(index) == 1).all():
            return self.backend.columns(array)
        spread = self.backend.zeros(size, array.shape[1], self.like)
        spread[self.backend.index(index, self.like)] = array
        return spread

    def _low_rank(self, U: Any, V: Any) -> None:
        u, v = (self._finite(self.backend.asarray(x, self.like)) for x in (U, V))
        u, v = (x.reshape(-1, 1) if x.ndim == 1 else x for x in (u, v))
        wanted = (len(self.rows), len(self.columns))
        if u.ndim != 2 or v.ndim != 2 or (u.shape[0], v.shape[0]) != wanted or u.shape[1] != v.shape[1]:
            raise EverfreshError(
                Code.ARGUMENT,
                f"the factors of an update of {self.name} are {'x'.join(map(str, u.shape))} and "
                f"{'x'.join(map(str, v.shape))}",
                hint=f"they need {wanted[0]} and {wanted[1]} rows, and as many columns each",
            )
        self._flush()
        rows, columns = self.held.shape
        self.parts.append((self._spread(u, self.rows, rows), self._spread(v, self.columns, columns)))

    def _current_row(self, at: int) -> Array:
        """The row as the updates so far leave it, as a column."""
        if at in self.set_rows:
            return self.set_rows[at]
        row = self.held.peek(slice(at, at + 1), slice(None)).T
        for u, v in self.parts:
            row = row + v @ u[at : at + 1].T
        return row

    def _set_row(self, at: int, row: Array) -> None:
        self.set_rows[at] = row

    def _set_entry(self, i: int, j: int, value: float) -> None:
        at, to = self.position(i, self.rows, "row"), self.position(j, self.columns, "column")
        row = self.backend.copy(self._current_row(at))
        row[to] = self._finite(self.backend.asarray([[_number(value)]], self.like))[0, 0]
        self.set_rows[at] = row

    def _set_column(self, at: int, column: Any) -> None:
        new = self._vector(column, self.rows, "column")
        self._flush()
        old = self.held.peek(slice(None), slice(at, at + 1))
        for u, v in self.parts:
            old = old + u @ v[at : at + 1].T
        unit = self.backend.zeros(self.held.shape[1], 1, self.like)
        unit[at] = 1.0
        self.parts.append((self.backend.columns(new - old), unit))
        self.single = (
            LowRankChange(*self.parts[0], right_rows=np.array([at])) if len(self.parts) == 1 else None
        )

    def _flush(self) -> None:
        """Turn the rows that were set into factors: unit columns times differences."""
        if not self.set_rows:
            return
        positions = sorted(self.set_rows)
        new = self.set_rows
        self.set_rows = {}
        index = self.backend.index(positions, self.like)
        old = self.held.take(index).T
        for u, v in self.parts:
            old = old + v @ u[index].T
        right = self.backend.columns(self.backend.concat([new[at] for at in positions], 1) - old)
        left = self.backend.zeros(self.held.shape[0], len(positions), self.like)
        left[index, self.backend.index(range(len(positions)), self.like)] = 1.0
        self.parts.append((left, right))
        if len(self.parts) == 1:
            self.single = LowRankChange(left, right, left_rows=np.array(positions))
        else:
            self.single = None

    def zero_rows(self, positions: Sequence[int]) -> None:
        """Make stored rows zero, before they are given up."""
        for at in positions:
            self.set_rows[at] = self.backend.zeros(self.held.shape[1], 1, self.like)

    def change(self) -> LowRankChange | None:
        """The whole change; None if there is none."""
        self._flush()
        if not self.parts:
            return None
        if len(self.parts) == 1:
            return self.single or LowRankChange(*self.parts[0])
        left = self.backend.concat([u for u, _ in self.parts], 1)
        right = self.backend.concat([v for _, v in self.parts], 1)
        return recompress(left, right, self.backend)


def recompress(left: Array, right: Array, backend: Backend) -> LowRankChange | None:
    """`left right'` with as few columns as its numerical rank; None if it is zero.

    >>> import numpy as np
    >>> from everfresh.linalg.kernels.backend import NumpyBackend
    >>> u, v = np.ones((5, 3)), np.ones((4, 3))
    >>> recompress(u, v, NumpyBackend()).rank
    1
    """
    if left.shape[1] > min(left.shape[0], right.shape[0]):
        return recompress(*_split(left @ right.T, backend), backend)
    q_left, r_left = backend.qr(left)
    q_right, r_right = backend.qr(right)
    u, s, vt = backend.svd(r_left @ r_right.T)
    sizes = backend.to_numpy(s)
    scale = backend.norm(r_left) * backend.norm(r_right)  # what the rounding of the factors is relative to
    keep = int((sizes > scale * np.finfo(sizes.dtype).eps * max(left.shape[0], right.shape[0])).sum())
    if keep == 0:
        return None
    root = s[:keep] ** 0.5
    return LowRankChange(
        backend.columns(q_left @ (u[:, :keep] * root)), backend.columns(q_right @ (vt[:keep].T * root))
    )


def _split(change: Array, backend: Backend) -> tuple[Array, Array]:
    """A dense change as factors with as many columns as its smaller side."""
    if change.shape[0] <= change.shape[1]:
        return backend.eye(change.shape[0], change), change.T
    return change, backend.eye(change.shape[1], change)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise EverfreshError(Code.TYPE, f"{value!r} is no number that a matrix holds") from None
