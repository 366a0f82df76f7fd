"""Arrays on address space that is reserved but not taken: they grow in place, so that growing copies nothing.

Memory comes as it is first written. The first touch of a page costs as much as storing the rows that fit on
it, so arrays that are written from front to back ask for some pages at once (`touch`). Hash tables, which are
written all over, take pages of 2 MiB once they are large; arrays that grow at their end do not: their last
page would be half empty, and large pages are not at hand in a machine that has lent its memory out.
Invariant: what was never written reads as zero.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import sys
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_NORESERVE: Final = 0x4000  # of Linux, where the module may not name it
_POPULATE_WRITE: Final = 23
_PAGE: Final = 1 << 12
_LASTING: Final = 1 << 18  # bytes from which an array grows in place
_LARGE: Final = 1 << 21  # bytes from which its memory is taken by large pages
AT_ONCE: Final = 1 << 14
"""Elements that memory is taken for at once."""


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
    taken = _behind(array)
    if taken is not None:
        with contextlib.suppress(OSError):  # a kernel without them
            taken.madvise(mmap.MADV_HUGEPAGE)


def touch(array: NDArray[Any], start: int, end: int) -> None:
    """Take memory for elements `start` to `end` of each row of such an array, which is whole."""
    taken = _behind(array)
    if taken is None:
        return
    size, rows = array.itemsize, array.size // array.shape[-1] if array.shape[-1] else 0
    for row in range(rows):
        at = row * array.shape[-1] * size
        low, high = (at + start * size) // _PAGE * _PAGE, pages(at + end * size)
        with contextlib.suppress(OSError):  # a kernel that does not: it comes page by page
            taken.madvise(_POPULATE_WRITE, low, min(high, len(taken)) - low)


def _behind(array: NDArray[Any]) -> mmap.mmap | None:
    """The address space that an array lies on, if it was reserved."""
    taken: Any = array
    while isinstance(taken, np.ndarray) and taken.base is not None:
        taken = taken.base
    if isinstance(taken, memoryview):
        taken = taken.obj
    return taken if isinstance(taken, mmap.mmap) else None


def pages(size: int) -> int:
    """The bytes of memory behind the first `size` bytes of such an array, by small pages."""
    return -(-size // _PAGE) * _PAGE


def give_back() -> None:
    """Give the memory that this process has freed back to the system, after something large that it does
    seldom: allocators keep it otherwise, each for itself."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):  # a system without it
        ctypes.CDLL(None).malloc_trim(0)


class Growing:
    """An array that grows at its end: in place once it is some pages long, up to `most` elements. It is
    written from front to back, unless it is `scattered`.

    >>> grown = Growing(2, np.int64, most=1 << 30)
    >>> grown.array[:] = 7, 8
    >>> grown.grow(1 << 20)[:3].tolist()
    [7, 8, 0]
    """

    def __init__(self, size: int, dtype: Any, most: int, *, scattered: bool = False) -> None:
        self._full = self.array = np.zeros(size, dtype)
        self._most, self._scattered, self._touched = most, scattered, 0

    def grow(self, size: int) -> NDArray[Any]:
        """The array with at least `size` elements; those that are new are zero."""
        if size > len(self._full):
            full = None
            if size <= self._most and size * self.array.itemsize >= _LASTING:
                full = reserved((self._most,), self.array.dtype)
            if full is None:
                full = np.zeros(size, self.array.dtype)
            full[: len(self.array)] = self.array
            self._full, self._touched = full, len(self.array)
        if self._scattered and size * self.array.itemsize >= _LARGE:
            enlarge(self._full)
        if size > len(self.array):
            self.array = self._full[:size]
        return self.array

    def touch(self, end: int) -> None:
        """Take memory up to element `end`, which will be written."""
        end = min(end, len(self.array))
        if end > self._touched and self.in_place:
            end = min(-(-end // AT_ONCE) * AT_ONCE, len(self.array))
            touch(self._full, self._touched, end)
            self._touched = end

    @property
    def in_place(self) -> bool:
        """Whether there is room behind it."""
        return len(self._full) > len(self.array)
