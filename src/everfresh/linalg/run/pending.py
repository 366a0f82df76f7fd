"""Pending factors: a view held as P + L R', so that an update reads the large matrix and does not write it.

`add(U, V)` appends thin columns to L and R; `times` and `array` see the sum; `merge` folds L R' into P in
one product at full speed. Invariant: `P + L R'` is the value at every moment, and `array()` never changes
it.
"""

from __future__ import annotations

from typing import Any

from everfresh.linalg.compiler.cost import THIN
from everfresh.linalg.kernels.backend import Array, Backend
from everfresh.linalg.run.before import Before, Index


class Held:
    """One stored matrix with its pending factors."""

    __slots__ = ("_left", "_right", "_spare", "backend", "base", "capacity", "updates", "width")

    def __init__(self, base: Array, backend: Backend) -> None:
        self.base = base
        self.backend = backend
        self.capacity = 0
        self.width = 0
        self.updates = 0
        self._left: Array | None = None
        self._right: Array | None = None
        self._spare: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.base.shape[0]), int(self.base.shape[1])

    @property
    def thin(self) -> bool:
        """Whether it is updated at once, without pending factors."""
        return min(self.shape) <= THIN

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

    def times(self, x: Array, turned: bool = False) -> Array:
        """The matrix (or its transpose) times thin columns."""
        return self._plus_pending(self.backend.thin(self.base, x, turned), x, turned)

    def both(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The matrix times thin columns, and its transpose times others."""
        forth, back = self.backend.both(self.base, x, y)
        return self._plus_pending(forth, x, False), self._plus_pending(back, y, True)

    def _plus_pending(self, result: Array, x: Array, turned: bool) -> Array:
        if self.width:
            first, last = (self.left, self.right) if turned else (self.right, self.left)
            result += ((x.T @ first) @ last.T).T
        return result

    def reserve(self, more: int, capacity: int = 0) -> None:
        """Make room for `more` columns, `capacity` pending ones at most; the value stays the same.

        Room that wide changes once needed is no reason to keep many thin ones.
        """
        wanted = max(more, capacity)
        limit = wanted if capacity else self.capacity
        if self.width + more > min(self.capacity, limit):
            self.merge()
        if self.width == 0 and wanted > self.capacity:
            self.capacity, self._left, self._right = wanted, None, None

    def mark(self) -> Any:
        """What `restore` needs to take back each later `add` and `replace`, but no `reserve` or `merge`."""
        return self.base, self.width, self.updates

    def restore(self, mark: Any) -> None:
        """The value of the moment of `mark`."""
        self._spare = None
        self.base, self.width, self.updates, *changed = mark
        if changed:
            rows, before = changed
            self.base[rows] = before

    def mark_value(self) -> Any:
        """`mark` before `replace`, from which `before` has the value."""
        self.merge()
        return self.mark()

    def before(self, mark: Any, rows: Index, columns: Index) -> Before | None:
        """The value at a mark of `mark_value` or `mark_rows`, which is kept from now on; without a mark the
        value now."""
        array = self.array() if mark is None else mark[0]
        if mark is not None and len(mark) > 3:
            array = self.backend.copy(array)
            array[mark[3]] = mark[4]
        if array is self._spare:
            self._spare = None
        return Before((), array, rows, columns)

    @property
    def row_by_row(self) -> bool:
        """Whether some rows can be changed where they are."""
        return True

    def mark_rows(self, rows: Any) -> Any:
        """`mark` before `add_rows`, which changes the array itself; everything pending has been merged."""
        return self.base, self.width, self.updates, rows, self.backend.copy(self.base[rows])

    def add_rows(self, rows: Any, left: Array, right: Array) -> None:
        """Add `left right'` to some rows."""
        self.base[rows] += left @ right.T

    def add(self, left: Array, right: Array) -> None:
        """Add `left right'`, pending; `reserve` has made room."""
        more = left.shape[1]
        if self._left is None or self._right is None:
            rows, columns = self.shape
            self._left = self.backend.zeros(rows, self.capacity, self.base).T
            self._right = self.backend.zeros(columns, self.capacity, self.base).T
        self._left[self.width : self.width + more] = left.T
        self._right[self.width : self.width + more] = right.T
        self.width += more
        self.updates += 1

    def shift(self, left: Array, right: Array) -> None:
        """Add `left right'` at once, in a second array: the first stays as it is until the next shift."""
        spare = self._spare
        if spare is None or spare.shape != self.base.shape or spare is self.base:
            spare = self.backend.copy(self.base)
        self.backend.shifted(spare, self.base, left, right)
        self.base, self._spare = spare, self.base

    def replace(self, base: Array) -> None:
        """A new value altogether."""
        self.base, self.width, self.updates = base, 0, 0

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

    def take(self, rows: Any) -> Array:
        """Some rows by their numbers, without merging."""
        part = self.base[rows]
        if self.width:
            part = part + self.left[rows] @ self.right.T
        return part

    def times_some(self, x: Array, rows: Any, turned: bool) -> Array:
        """The matrix (or its transpose) times columns of which only `rows` are not zero."""
        some = x[rows]
        base = self.base[rows].T if turned else self.base[:, rows]
        result = base @ some
        if self.width:
            first, last = (self.left, self.right) if turned else (self.right, self.left)
            result = result + last @ (first[rows].T @ some)
        return self.backend.columns(result)

    @property
    def bytes(self) -> int:
        """The memory that the matrix and the room for its factors take."""
        arrays = [self.base, *(a for a in (self._left, self._right, self._spare) if a is not None)]
        return sum(int(a.nbytes) for a in arrays)
