"""Frames: some rows as columns by name, gathered only when a column is asked for.

A column is a name in a *part*: vectors of some source and the places of the frame's rows in them. Joins,
filters and sorts only compose places; a column that nobody reads is never copied, and one of a table never
leaves Arrow.

Invariant: all columns of a frame have `rows` rows. The column `D`, where there is one, says for which of the
outer query's combinations of values (`Outer`) a row stands; the frame then has the columns of those as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.delta.given import Given
from everfresh.expr import Expr, Var, Vector, concat
from everfresh.types import BIGINT

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

D = "\0d"  # no SQL name has this character


class TableColumns(Mapping[str, Vector]):
    """The columns of an Arrow table, or of `Given` rows, under other names, converted when they are read."""

    def __init__(self, table: pa.Table | Given, vars_: Sequence[Var]) -> None:
        self._table = table
        self._places = {v.name: (i, v.type) for i, v in enumerate(vars_)}
        self._done: dict[str, Vector] = {}

    def __getitem__(self, name: str) -> Vector:
        found = self._done.get(name)
        if found is None:
            place, type_ = self._places[name]
            found = self._done[name] = Vector.from_arrow(self._table.column(place), type_)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Computed(Mapping[str, Vector]):
    """Columns that are computed when they are read: what nobody reads raises nothing."""

    def __init__(self, exprs: Mapping[str, Expr], compute: Callable[[Expr], Vector]) -> None:
        self._exprs, self._compute = exprs, compute
        self._done: dict[str, Vector] = {}

    def __getitem__(self, name: str) -> Vector:
        if name not in self._done:
            self._done[name] = self._compute(self._exprs[name])
        return self._done[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._exprs)

    def __len__(self) -> int:
        return len(self._exprs)


class PickedRows:
    """Vectors, and which of their rows; -1 stands for a row of NULLs. `index` None: all rows in order."""

    def __init__(self, source: Mapping[str, Vector], index: Ints | None = None) -> None:
        self.source, self.index = source, index
        self._done: dict[str, Vector] = {}

    def vector(self, name: str) -> Vector:
        """One column."""
        if self.index is None:
            return self.source[name]
        found = self._done.get(name)
        if found is None:
            found = self._done[name] = take(self.source[name], self.index)
        return found

    def take(self, index: Ints) -> PickedRows:
        """Some rows of the part, -1 for NULLs."""
        if self.index is None:
            return PickedRows(self.source, index)
        if not len(self.index):
            return PickedRows(self.source, np.full(len(index), -1, np.int64))
        return PickedRows(self.source, np.where(index < 0, -1, self.index[index]))


def take(vector: Vector, index: Ints) -> Vector:
    """The rows at `index`, NULL where that is -1."""
    missing = index < 0
    if not missing.any():
        return vector.take(index)
    if not len(vector) or missing.all():
        return Vector.nulls(vector.type, len(index)).contiguous()
    taken = vector.take(np.where(missing, 0, index))
    return taken.with_valid(~missing if taken.valid is None else taken.valid & ~missing)


AROUND = "\0around"
"""The combinations of the outer query, while rows stand for those of a join."""


class Frame(Mapping[str, Vector]):
    """Rows as columns by name."""

    __slots__ = ("_columns", "rows")

    def __init__(self, columns: Mapping[str, tuple[PickedRows, str]], rows: int) -> None:
        self._columns = dict(columns)
        self.rows = rows

    @staticmethod
    def of(source: Mapping[str, Vector], rows: int) -> Frame:
        """All columns of `source`."""
        part = PickedRows(source)
        return Frame({name: (part, name) for name in source}, rows)

    def __getitem__(self, name: str) -> Vector:
        part, inner = self._columns[name]
        return part.vector(inner)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    @property
    def d(self) -> Ints | None:
        """The outer combination that each row belongs to; None if the rows are the same for all of them."""
        return self[D].values if D in self._columns else None

    def take(self, index: Ints) -> Frame:
        """The rows at `index`, NULLs where that is -1."""
        parts = {id(part): part for part, _ in self._columns.values()}
        taken = {key: part.take(index) for key, part in parts.items()}
        return Frame({n: (taken[id(part)], inner) for n, (part, inner) in self._columns.items()}, len(index))

    def filter(self, keep: Mask) -> Frame:
        """The rows where `keep` is True."""
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def only(self, names: Iterable[str]) -> Frame:
        """Some of the columns."""
        return Frame({name: self._columns[name] for name in names}, self.rows)

    def renamed(self, names: Mapping[str, str]) -> Frame:
        """Some of the columns, new name to old."""
        return Frame({new: self._columns[old] for new, old in names.items()}, self.rows)

    def beside(self, other: Frame) -> Frame:
        """The columns of both frames, which have as many rows; those of `self` win."""
        return Frame({**other._columns, **self._columns}, self.rows)

    def having(self, vectors: Mapping[str, Vector]) -> Frame:
        """The frame with further columns, which win."""
        return Frame.of(vectors, self.rows).beside(self)


class Outer:
    """The distinct combinations of values that a correlated subquery mentions, one row each."""

    def __init__(self, columns: Mapping[str, Vector], rows: int) -> None:
        self.columns, self.rows = columns, rows

    def attach(self, frame: Frame, d: Ints) -> Frame:
        """`frame` with its rows standing for the combinations `d`."""
        own = frame.only(name for name in frame if name != D)
        return own.beside(self.frame().take(d))

    def frame(self) -> Frame:
        """The combinations themselves."""
        return Frame.of({**self.columns, D: Vector(BIGINT, np.arange(self.rows))}, self.rows)

    def expand(self, frame: Frame) -> Frame:
        """Every row for every combination, unless the rows stand for combinations already."""
        if D in frame:
            return frame
        rows = np.repeat(np.arange(frame.rows), self.rows)
        return self.attach(frame.take(rows), np.tile(np.arange(self.rows), frame.rows))


def stack(frames: Sequence[Frame], names: Sequence[Sequence[str]]) -> Frame:
    """One frame after the other, column by column of `names` (those of the first frame are kept)."""
    vectors = {
        first: concat([frame[columns[i]] for frame, columns in zip(frames, names, strict=True)])
        for i, first in enumerate(names[0])
    }
    return Frame.of(vectors, sum(frame.rows for frame in frames))
