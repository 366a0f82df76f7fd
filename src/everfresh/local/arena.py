"""Arrays on address space that is reserved but not taken: they grow in place, so that growing copies nothing.

Memory comes as it is first written, by small pages at first and by those of 2 MiB once an array is large: the
first touch of a small page costs as much as storing the rows that fit on it. Invariant: what was never
written reads as zero.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import sys
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_NORESERVE: Final = 0x4000  # of Linux, where the module may not name it
_PAGE: Final = 1 << 12
_LASTING: Final = 1 << 18  # bytes from which an array grows in place
_LARGE: Final = 1 << 21  # bytes from which its memory is taken by large pages


def reserved(shape: tuple[int, ...], dtype: Any) -> NDArray[Any] | None:
    """A zeroed array that takes memory as it is written; None where the system does not lend that much.

    >>> room = reserved((2, 1 << 30), np.int64)
    >>> room is None or int(room[1, -1])
    0
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if sys.platform != "linux" or not size:
        return None
    try:
        taken = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except (OSError, OverflowError):  # a limit on address space
        return None
    return np.frombuffer(taken, dtype).reshape(shape)


def enlarge(array: NDArray[Any]) -> None:
    """From now on, take memory for such an array by large pages where it has none yet."""
    taken = array
    while isinstance(taken, np.ndarray) and taken.base is not None:
        taken = taken.base
    if isinstance(taken, memoryview):
        taken = taken.obj
    if isinstance(taken, mmap.mmap):
        with contextlib.suppress(OSError):  # a kernel without them
            taken.madvise(mmap.MADV_HUGEPAGE)


def pages(size: int) -> int:
    """The bytes of memory behind the first `size` bytes of such an array, by small pages."""
    return -(-size // _PAGE) * _PAGE


class Growing:
    """An array that grows at its end: in place once it is some pages long, up to `most` elements.

    >>> grown = Growing(2, np.int64, most=1 << 30)
    >>> grown.array[:] = 7, 8
    >>> grown.grow(1 << 20)[:3].tolist()
    [7, 8, 0]
    """

    def __init__(self, size: int, dtype: Any, most: int) -> None:
        self._full = self.array = np.zeros(size, dtype)
        self._most = most

    def grow(self, size: int) -> NDArray[Any]:
        """The array with at least `size` elements; those that are new are zero."""
        if size > len(self._full):
            full = None
            if size <= self._most and size * self.array.itemsize >= _LASTING:
                full = reserved((self._most,), self.array.dtype)
            if full is None:
                full = np.zeros(size, self.array.dtype)
            full[: len(self.array)] = self.array
            self._full = full
        if size * self.array.itemsize >= _LARGE:
            enlarge(self._full)
        if size > len(self.array):
            self.array = self._full[:size]
        return self.array

    @property
    def in_place(self) -> bool:
        """Whether there is room behind it."""
        return len(self._full) > len(self.array)
