"""Matrices with pending factors: a view held as P + L R', so that an update reads the large matrix and does not write it.

`add(U, V)` appends thin columns to L and R; `times` and `array` see the sum; `merge` folds L R' into P in one product at full
speed. Invariant: `P + L R'` is the value at every moment, and `array()` never changes it.
"""

from __future__ import annotations

from everfresh.linalg.backend import Array, Backend


class Held:
    """One stored matrix with its pending factors."""

    __slots__ = ("_cached", "_left", "_right", "backend", "base", "capacity", "updates", "width")

    def __init__(self, base: Array, backend: Backend, capacity: int) -> None:
        self.base = base
        self.backend = backend
        self.capacity = max(0, capacity)
        self.width = 0
        self.updates = 0
        self._left: Array | None = None
        self._right: Array | None = None
        self._cached: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.base.shape[0]), int(self.base.shape[1])

    @property
    def width_limit(self) -> int:
        """How many columns an operand may have to be multiplied factor by factor."""
        return max(1, min(self.shape) // 2)

    @property
    def left(self) -> Array:
        """L, as many columns as are pending."""
        assert self._left is not None
        return self._left[: self.width].T

    @property
    def right(self) -> Array:
        """R, as many columns as are pending."""
        assert self._right is not None
        return self._right[: self.width].T

    def times(self, x: Array, transposed: bool = False) -> Array:
        """The matrix (or its transpose) times thin columns."""
        base = self.base.T if transposed else self.base
        result = self.backend.thin(base, x)
        if self.width:
            first, last = (self.left, self.right) if transposed else (self.right, self.left)
            result += (((x.T @ first)) @ last.T).T
        return result

    def add(self, left: Array, right: Array) -> None:
        """Add `left right'`, pending if there is room."""
        more = left.shape[1]
        if self.width + more > self.capacity:
            self.merge()
        if more > self.capacity:
            self.backend.add_product(self.base, left, right)
            return
        if self._left is None or self._right is None:
            rows, columns = self.shape
            self._left = self.backend.zeros(rows, self.capacity, self.base).T
            self._right = self.backend.zeros(columns, self.capacity, self.base).T
        self._left[self.width : self.width + more] = left.T
        self._right[self.width : self.width + more] = right.T
        self.width += more
        self.updates += 1

    def drop(self, width: int) -> None:
        """Take back the factors that were added after there were `width` of them."""
        self.width = width

    def merge(self) -> None:
        """Fold the pending factors into the matrix."""
        if self.width:
            self.backend.add_product(self.base, self.left, self.right)
        self.width = self.updates = 0

    def array(self) -> Array:
        """The matrix with everything pending merged."""
        self.merge()
        return self.base

    def peek(self, rows: slice, columns: slice) -> Array:
        """A small part of the matrix, without merging."""
        part = self.base[rows, columns]
        if self.width:
            part = part + self.left[rows] @ self.right[columns].T
        return part
