"""A stored matrix whose base is in blocks with the workers, and whose pending factors are here.

Small parts that were read for a check of drift are kept and follow the merges, so that most checks need no
job. Invariant: as of `Held`, the base and the pending factors are the value at every moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.linalg.kernels.backend import Array, NumpyBackend
from everfresh.linalg.run.pending import Held
from everfresh.linalg.spark.blocks import Blocks
from everfresh.linalg.spark.cluster import Cluster
from everfresh.linalg.spark.ops import Op, Peek, Take, Times, TimesSome

_KEPT_PARTS = 64
_LONG_CHAIN = 2.0  # how large a chain grows, relative to the matrix, before rows are written anew


class SparkBackend(NumpyBackend):
    """NumPy, and matrices that are with the workers."""

    def asarray(self, value: Any, like: Array | None = None) -> Array:
        """The value as an array of floats; blocks as they are."""
        return value if isinstance(value, Blocks) else super().asarray(value, like)

    def copy(self, x: Array) -> Array:
        """An independent copy; blocks never change."""
        return x if isinstance(x, (Blocks, SparkHeld)) else super().copy(x)

    def finite(self, x: Array) -> bool:
        """Whether no entry is infinite or NaN."""
        return bool(np.isfinite(x.total)) if isinstance(x, Blocks) else super().finite(x)


Wanted = dict[tuple[int, tuple[int, int], tuple[int, int]], tuple["SparkHeld", slice, slice]]


class SparkHeld(Held):
    """One stored matrix in blocks."""

    __slots__ = ("_added", "_parts", "blocks", "cluster", "wanted")

    def __init__(self, blocks: Blocks, backend: NumpyBackend, cluster: Cluster) -> None:
        super().__init__(np.zeros((0, 0), blocks.dtype), backend)
        self.cluster = cluster
        self.blocks = blocks
        self.wanted: Wanted | None = None
        self._added = 0
        self._parts: dict[tuple[tuple[int, int], tuple[int, int]], Array] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.blocks.shape

    @property
    def thin(self) -> bool:
        """Changes always wait: what is with the workers is never written at once."""
        return False

    @property
    def row_by_row(self) -> bool:
        """Rows are with the workers."""
        return False

    def sum(self) -> float:
        """What tells whether all entries were finite when the blocks were computed."""
        return self.blocks.total

    def times(self, x: Array, turned: bool = False) -> Array:
        """The matrix (or its transpose) times thin columns."""
        (result,) = self.cluster.asked([Times(self.blocks, "x", turned)], {"x": _rows_first(x)})
        return self._plus_pending(np.asfortranarray(result), x, turned)

    def both(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The matrix times thin columns, and its transpose times others: one job."""
        ops: list[Op] = [Times(self.blocks, "x", False), Times(self.blocks, "y", True)]
        forth, back = self.cluster.asked(ops, {"x": _rows_first(x), "y": _rows_first(y)})
        return (
            self._plus_pending(np.asfortranarray(forth), x, False),
            self._plus_pending(np.asfortranarray(back), y, True),
        )

    def times_some(self, x: Array, rows: Any, turned: bool) -> Array:
        """The matrix (or its transpose) times columns of which only `rows` are not zero."""
        some = x[rows]
        op = TimesSome(self.blocks, "x", "rows", turned)
        (result,) = self.cluster.asked([op], {"x": _rows_first(some), "rows": np.asarray(rows)})
        if self.width:
            first, last = (self.left, self.right) if turned else (self.right, self.left)
            result = result + last @ (first[rows].T @ some)
        return self.backend.columns(result)

    def mark(self) -> Any:
        """What `restore` needs."""
        return self.blocks, self.width, self.updates, self._added, dict(self._parts)

    def mark_value(self) -> Any:
        """`mark`: files of blocks that are replaced are not kept."""
        return self.mark()

    def before(self, mark: Any, rows: Any, columns: Any) -> None:
        """Nobody knows: the files may go."""

    def restore(self, mark: Any) -> None:
        """The value of the moment of `mark`."""
        self.blocks, self.width, self.updates, self._added, self._parts = mark

    def shift(self, left: Array, right: Array) -> None:
        """Add `left right'` at once."""
        self._add_to_base(left, right)

    def replace(self, base: Any) -> None:
        """A new value altogether: an array, or blocks."""
        if isinstance(base, SparkHeld):
            base = base.blocks
        self.blocks = base if isinstance(base, Blocks) else self.cluster.scatter(base)
        self.width, self.updates, self._added, self._parts = 0, 0, 0, {}

    def merge(self) -> None:
        """Hand the pending factors to the workers, in a file."""
        if self.width:
            self._add_to_base(self.left, self.right)
        self.width = self.updates = 0

    def _add_to_base(self, left: Array, right: Array) -> None:
        size = self.shape[0] * self.shape[1]
        if self._added + left.size + right.size > _LONG_CHAIN * size and self.blocks.chain:
            self.blocks, self._added = self.cluster.compacted(self.blocks), 0
        self.blocks = self.cluster.plus(self.blocks, left, right)
        self._added += left.size + right.size
        for (rows, columns), part in self._parts.items():
            part += left[slice(*rows)] @ right[slice(*columns)].T

    def array(self) -> Array:
        """The whole matrix, gathered, with everything pending in it."""
        whole = self.cluster.gather(self.blocks)
        if self.width:
            self.backend.add_product(whole, self.left, self.right)
        return whole

    def peek(self, rows: slice, columns: slice) -> Array:
        """A small part of the matrix; one that is read again needs no job."""
        spans = tuple(s.indices(size)[:2] for s, size in zip((rows, columns), self.shape, strict=True))
        key: Any = spans
        if key not in self._parts:
            if self.wanted is not None:
                self.wanted[(id(self), *key)] = (self, slice(*spans[0]), slice(*spans[1]))
                return np.zeros([stop - start for start, stop in spans], self.base.dtype)
            fetch({(id(self), *key): (self, slice(*spans[0]), slice(*spans[1]))}, self.cluster)
        part = self._parts[key]
        if self.width:
            part = part + self.left[rows] @ self.right[columns].T
        return part

    def take(self, rows: Any) -> Array:
        """Some rows by their numbers."""
        index = np.asarray(rows)
        order = np.argsort(index, kind="stable")
        (found,) = self.cluster.asked([Take(self.blocks, "rows")], {"rows": index[order]})
        part = np.empty_like(found)
        part[order] = found
        return part + self.left[rows] @ self.right.T if self.width else part

    @property
    def bytes(self) -> int:
        """The memory of the blocks, by rows and by columns, and of the factors here."""
        blocks: int = 2 * self.shape[0] * self.shape[1] * self.base.itemsize
        return blocks + sum(int(a.nbytes) for a in (self._left, self._right) if a is not None)


def fetch(wanted: Wanted, cluster: Cluster) -> None:
    """Read small parts of several matrices in one job, and keep them."""
    listed = list(wanted.items())
    parts = [
        Peek(held.blocks, (rows.start, rows.stop), (columns.start, columns.stop))
        for _, (held, rows, columns) in listed
    ]
    found = cluster.asked(parts, {})
    for ((_, *spans), (held, _, _)), part in zip(listed, found, strict=True):
        if len(held._parts) >= _KEPT_PARTS:
            held._parts.clear()
        held._parts[spans[0], spans[1]] = np.array(part)


def _rows_first(x: Array) -> Array:
    """Thin columns as they travel."""
    return np.ascontiguousarray(x)
