"""State in columns over slots, and lines of samples.

Invariants: rows of slots that no step has touched are the initial ones; `restore(slots, save(slots))` leaves
everything as it was; `decode(encode())` gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.run.flow import Array

_CLASSES = 63


class Columns:
    """Named columns over slots.

    >>> state = Columns(last=(np.int64, (), -1))
    >>> state.grow(2)
    >>> state["last"][:2].tolist()
    [-1, -1]
    """

    def __init__(self, **columns: tuple[Any, tuple[int, ...], Any]) -> None:
        self._fill = {name: fill for name, (_, _, fill) in columns.items()}
        self._arrays: dict[str, Array] = {
            name: np.full((0, *shape), fill, dtype) for name, (dtype, shape, fill) in columns.items()
        }
        self._count = 0

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def grow(self, count: int) -> None:
        """Have rows for so many slots."""
        self._count = max(self._count, count)
        for name, old in self._arrays.items():
            if len(old) < count:
                new = np.empty((max(count, 64, 3 * len(old) // 2), *old.shape[1:]), old.dtype)
                new[: len(old)] = old
                new[len(old) :] = self._fill[name]
                self._arrays[name] = new

    def save(self, slots: Array) -> dict[str, Array]:
        """The rows of slots."""
        return {name: array[slots] for name, array in self._arrays.items()}

    def restore(self, slots: Array, saved: dict[str, Array]) -> None:
        """Put the rows back."""
        for name, rows in saved.items():
            self._arrays[name][slots] = rows

    def encode(self) -> dict[str, Array]:
        """The columns."""
        return {name: array[: self._count] for name, array in self._arrays.items()}

    def decode(self, arrays: dict[str, Array]) -> None:
        """The inverse of `encode`."""
        self._arrays = {name: arrays[name].copy() for name in self._arrays}
        self._count = min((len(array) for array in self._arrays.values()), default=0)

    @property
    def bytes(self) -> int:
        """Memory it takes."""
        return sum(array.nbytes for array in self._arrays.values())


class Lines:
    """A line of samples for each slot. See `everfresh.signals.kernels.blocks`."""

    def __init__(self, components: int, dtype: Any, keep: int) -> None:
        from everfresh.signals.kernels.blocks import size_class

        self._largest = 4 << int(size_class(max(16, 2 * keep)))
        self.head = np.zeros((0, 4), np.int64)
        self._clear(components, dtype)

    def _clear(self, components: int, dtype: Any) -> None:
        self.arena = np.zeros((components, 256), dtype)
        self._free = np.full(_CLASSES, -1, np.int64)
        self._links = np.full(16, -1, np.int64)
        self._top = 0

    def grow(self, count: int) -> None:
        """Have lines for so many slots."""
        if len(self.head) < count:
            new = np.zeros((max(count, 64, 3 * len(self.head) // 2), 4), np.int64)
            new[: len(self.head)] = self.head
            self.head = new

    def reserve(self, slots: Array, extra: Array) -> None:
        """Give lines room for more samples."""
        from everfresh.signals.kernels import blocks

        need = self._top + blocks.wanted(slots, extra, self.head)
        if need > self.arena.shape[1]:
            size = max(need, 3 * self.arena.shape[1] // 2 // 16 * 16)
            arena = np.empty((self.arena.shape[0], size), self.arena.dtype)
            arena[:, : self._top] = self.arena[:, : self._top]
            links = np.full(size // 16, -1, np.int64)
            links[: len(self._links)] = self._links
            self.arena, self._links = arena, links
        self._top = blocks.reserve(slots, extra, self.head, self.arena, self._free, self._links, self._top)

    def append(self, slots: Array, offsets: Array, values: Array) -> None:
        """Put the run of each group behind its line."""
        from everfresh.signals.kernels import blocks

        self.reserve(slots, np.diff(offsets))
        blocks.append(slots, offsets, values, self.head, self.arena)

    def trim(self, slots: Array) -> None:
        """Give back what lines do not need."""
        from everfresh.signals.kernels import blocks

        self._top = blocks.trim(
            slots, self._largest, self.head, self.arena, self._free, self._links, self._top
        )

    def save(self, slots: Array) -> tuple[Array, Array]:
        """The lines of slots: their ends, and what is in them."""
        from everfresh.signals.kernels import blocks

        offsets = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(self.head[slots, 3] - self.head[slots, 2], out=offsets[1:])
        values = np.empty((self.arena.shape[0], offsets[-1]), self.arena.dtype)
        blocks.copy_out(slots, self.head, self.arena, offsets, values)
        return offsets, values

    def restore(self, slots: Array, saved: tuple[Array, Array]) -> None:
        """Put the lines back."""
        self.head[slots, 2] = self.head[slots, 3] = 0
        self.append(slots, *saved)
        self.trim(slots)

    def encode(self) -> dict[str, Array]:
        """The lines of all slots."""
        offsets, values = self.save(np.flatnonzero(self.head[:, 3] > self.head[:, 2]))
        return {
            "slots": np.flatnonzero(self.head[:, 3] > self.head[:, 2]),
            "offsets": offsets,
            "values": values,
            "count": np.array([len(self.head)]),
        }

    def decode(self, arrays: dict[str, Array]) -> None:
        """The inverse of `encode`."""
        self._clear(self.arena.shape[0], self.arena.dtype)
        self.head = np.zeros((int(arrays["count"][0]), 4), np.int64)
        self.append(arrays["slots"], arrays["offsets"], arrays["values"])

    @property
    def bytes(self) -> int:
        """Memory it takes."""
        return self.arena.nbytes + self.head.nbytes + self._links.nbytes
