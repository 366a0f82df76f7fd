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
