"""What an earlier value of a matrix is got back by, when an update has been made.

A change of low rank is kept as its factors: the value before is the value after less `left right'`. Where a
value was computed anew, or has another shape, the one before is kept whole. Arrays are those that are stored,
with spare rows and columns; which of them were in use, in the user's order, is kept beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from everfresh.linalg.kernels.backend import backend_of

Index = np.ndarray[Any, Any] | None
"""Numbers of stored rows or columns, in the user's order; None: all as they are."""


@dataclass(frozen=True, eq=False, slots=True)
class UsedArray:
    """A stored array and which of its rows and columns are in use."""

    array: Any
    rows: Index = None
    columns: Index = None

    def shown(self) -> np.ndarray[Any, Any]:
        """The matrix as the user has it, in NumPy."""
        array = _numpy(self.array)
        array = array if self.rows is None else array[self.rows]
        return array if self.columns is None else array[:, self.columns]


@dataclass(frozen=True, eq=False, slots=True)
class Before:
    """The value before an update: `whole`, or what the update added; and the rows and columns in use, of so
    many that were stored."""

    factors: tuple[tuple[Any, Any], ...] = ()
    whole: Any = None
    rows: Index = None
    columns: Index = None
    size: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        held = [self.whole, self.rows, self.columns, *(x for pair in self.factors for x in pair)]
        return sum(int(x.nbytes) for x in held if x is not None)

    def of(self, after: UsedArray) -> UsedArray:
        """The value before, given that after."""
        if self.whole is not None:
            return UsedArray(_numpy(self.whole), self.rows, self.columns)
        array = _numpy(after.array)
        rows, columns = self.size or array.shape  # it may have grown since
        array = np.array(array[:rows, :columns])
        for left, right in self.factors:
            array -= _numpy(left) @ _numpy(right).T
        return UsedArray(array, self.rows, self.columns)

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """As arrays by name."""
        size = np.array(self.size) if self.size is not None else None
        found = {"whole": self.whole, "rows": self.rows, "columns": self.columns, "size": size}
        for i, (left, right) in enumerate(self.factors):
            found |= {f"left{i}": left, f"right{i}": right}
        return {name: _numpy(array) for name, array in found.items() if array is not None}

    @staticmethod
    def from_arrays(arrays: Mapping[str, Any]) -> Before:
        """The inverse of `to_arrays`."""
        count = sum(name.startswith("left") for name in arrays)
        factors = tuple((arrays[f"left{i}"], arrays[f"right{i}"]) for i in range(count))
        size = tuple(arrays["size"].tolist()) if "size" in arrays else None
        return Before(factors, arrays.get("whole"), arrays.get("rows"), arrays.get("columns"), size)


def _numpy(array: Any) -> np.ndarray[Any, Any]:
    return np.asarray(backend_of(array).to_numpy(array))
