"""What the planner knows of an array: plain metadata of its chunks, never a cell.

Columns with one row per chunk: where the chunk stands among the chunks, the tight box of its cells, how many
cells and bytes it has, and which worker keeps it. The paper on similarity joins calls this the catalog of the
coordinator (sections 2.1 and 4). Invariant: columns are read-only, of one length, and agree: a chunk has
cells, and its box lies inside its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from everfresh.errors import Code, EverfreshError

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def frozen(values: Any) -> Ints:
    """Integers that nobody writes to any more: a copy unless they are that already."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64 and not values.flags.writeable:
        return values
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Chunks:
    """The chunks of one array.

    >>> chunks = Chunks.of([[1, 3], [4, 4]], [[2, 4], [4, 4]], cells=[3, 1], start=(1, 1), length=(2, 2))
    >>> chunks.coords.tolist(), chunks.home.tolist()
    ([[0, 1], [1, 1]], [0, 0])
    """

    start: tuple[int, ...]  # first index of each dimension
    length: tuple[int, ...]  # indices of a chunk in each dimension
    coords: Ints  # (chunks, dimensions): the chunk's place among the chunks
    lo: Ints  # (chunks, dimensions): the least index of a cell
    hi: Ints  # (chunks, dimensions): the greatest
    cells: Ints
    bytes: Ints
    home: Ints  # the worker that keeps it

    @staticmethod
    def of(
        lo: Any,
        hi: Any,
        *,
        cells: Any,
        start: Sequence[int],
        length: Sequence[int],
        bytes: Any = None,
        home: Any = None,
    ) -> Chunks:
        """Chunks from the tight boxes of their cells; a chunk's place follows from its box.

        `bytes` are the cells unless given; `home` is worker 0.
        """
        start, length = tuple(int(x) for x in start), tuple(int(x) for x in length)
        if not length or len(start) != len(length) or min(length) < 1:
            raise _bad("a chunk needs a length of at least 1 in each dimension, and a first index", "length")
        try:
            low, high = (frozen(np.asarray(box, np.int64).reshape(-1, len(length))) for box in (lo, hi))
            count = frozen(cells)
            size = count if bytes is None else frozen(bytes)
            where = frozen(np.zeros(len(count)) if home is None else home)
        except (TypeError, ValueError, OverflowError) as error:
            raise _bad(f"columns of chunks are integers: {error}", "lo, hi, cells, bytes, home") from error
        if not len(low) == len(high) == len(count) == len(size) == len(where):
            raise _bad("columns of chunks differ in length", "lo, hi, cells, bytes, home")
        places = frozen((low - np.array(start)) // np.array(length))
        if (low > high).any() or ((high - np.array(start)) // np.array(length) != places).any():
            raise _bad("the box of a chunk is empty, or reaches into the next chunk", "lo, hi")
        if len(count) and (count.min() < 1 or size.min() < 0 or where.min() < 0):
            raise _bad("a chunk has at least one cell, and neither bytes nor worker below 0", "cells")
        return Chunks(start, length, places, low, high, count, size, where)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def dimensions(self) -> int:
        """How many dimensions the array has."""
        return len(self.length)

    def at(self, home: Any) -> Chunks:
        """The same chunks kept by other workers."""
        where = frozen(home)
        if where.shape != self.cells.shape or (len(where) and where.min() < 0):
            raise _bad("each chunk has one worker, counted from 0", "home")
        return replace(self, home=where)


def _bad(message: str, place: str) -> EverfreshError:
    return EverfreshError(Code.ARGUMENT, message, place=place)
