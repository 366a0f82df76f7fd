"""Strings that no view and no key reads: kept as bytes, one by one, and never compared unless a row goes.

An `Interner` looks every string up, which costs more than all other columns of a row together where most
strings differ. `Texts` copies it instead. A word is the string itself up to seven bytes, else the place and
the length of its block in a heap; blocks of rows that go are used again. Equal strings may have different
words: `unify` and `comparable` are for the moments where that matters.

Invariant: a word below 0 belongs to one cell of one row, and its block is released once, when that row has
gone for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.local.kernels import text_heap as kernels
from everfresh.local.kernels.text_heap import CLASSES, TOP, USED, Ints
from everfresh.local.store.arena import Growing, pages
from everfresh.local.store.strings import Interner, by_chunks, strings_array

_MOST: Final = 1 << 32  # cells of one heap: a place fits 32 bits
_WORTHWHILE: Final = 1 << 13  # cells from which memory that is not used is given back
_RESERVED: Final = 1 << 29  # cells that it has address space for when it is large


class Texts:
    """A heap of strings by words.

    >>> texts = Texts()
    >>> words = texts.keep(pa.array(["short", None, "a longer string", "a longer string"]))
    >>> words[2] == words[3], texts.decode(words).to_pylist()
    (np.False_, ['short', '', 'a longer string', 'a longer string'])
    """

    def __init__(self) -> None:
        self._grown = Growing(64, np.int64, _RESERVED)
        self._cells = self._grown.array
        self._heads = np.full(CLASSES, -1, np.int64)
        self._state = np.zeros(2, np.int64)
        self.whole = True
        """False while strings come or go: if that did not come to its end, the heap cannot be trusted."""

    @property
    def nbytes(self) -> int:
        """Bytes of the heap, unused capacity included, but not what is only reserved."""
        used = pages(8 * int(self._state[TOP])) if self._grown.in_place else self._cells.nbytes
        return used + self._heads.nbytes

    @property
    def used(self) -> int:
        """Bytes of the blocks in use."""
        return 8 * int(self._state[USED])

    @property
    def _heap(self) -> NDArray[np.uint8]:
        return self._cells.view(np.uint8)

    # --------------------------------------------------------------------------------------- words

    def keep(self, array: pa.Array | pa.ChunkedArray) -> Ints:
        """Words for the strings of an Arrow array; 0 for NULL."""
        return by_chunks(array, self.keep_columns)

    def keep_columns(self, array: int, lines: Ints, out: Ints) -> None:
        """Write words for string columns of an exported batch to rows of `out`: see `kernels.keep`."""
        size = kernels.size_of(array, lines, out.shape[1])
        self._grown.touch(int(self._state[TOP]) + size // 8)
        reached = np.zeros(3, np.int64)
        self.whole = False
        while not kernels.keep(self._cells, self._heads, self._state, array, lines, reached, out):
            # A block is at most twice its string.
            self._grow(int(self._state[TOP]) + int(reached[2]) // 4 + 2)
        self.whole = True

    def release(self, words: Ints) -> None:
        """The rows of these words have gone for good."""
        self.whole = False
        kernels.release(self._cells, self._heads, self._state, np.ascontiguousarray(words))
        self.whole = True

    def release_others(self, words: Ints, taken: Ints) -> None:
        """The same of those of these words that no row has `taken`; they may come more than once."""
        arrays = np.ascontiguousarray(words), np.ascontiguousarray(taken)
        self.whole = False
        kernels.release_others(self._cells, self._heads, self._state, *arrays)
        self.whole = True

    def wasteful(self, strings: int) -> bool:
        """Whether most of the heap is of blocks that are free, and much in proportion to the strings there
        are."""
        top, used = int(self._state[TOP]), int(self._state[USED])
        return top >= max(_WORTHWHILE, strings // 8) and 4 * used < top

    def become(self, other: Texts) -> None:
        """Take the heap of another, who is not used any more: at one go."""
        self.__dict__.update(other.__dict__)

    def unify(self, words: Ints, stored: Ints, slots: Ints, first: Ints) -> None:
        """Write over `words` where the row of the same key has an equal string: that at `slots` in `stored`,
        or the one at `first`."""
        kernels.unify(self._cells, words, stored, slots, first)

    def comparable(self, *words: Ints) -> list[Ints]:
        """Numbers for the strings of `words`, equal exactly for equal strings."""
        known = Interner()
        return [known.intern(self.decode(some)) for some in words]

    def decode(self, words: Ints, valid: NDArray[np.bool_] | None = None) -> pa.Array:
        """The strings of `words`, as the interner decodes its codes; NULL where `valid` is False."""
        words = np.ascontiguousarray(words)
        offsets = np.empty(len(words) + 1, np.int64)
        kernels.offsets_of(words, offsets)
        data = np.empty(int(offsets[-1]), np.uint8)
        kernels.copy(self._heap, words, offsets, data)
        return strings_array(offsets, data, valid)

    # ----------------------------------------------------------------------------------- snapshots

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, copied."""
        return {name: array.copy() for name, array in self.as_arrays().items()}

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The same as views: good until strings come or go."""
        return {
            "cells": self._cells[: int(self._state[TOP])],
            "heads": self._heads,
            "state": self._state,
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Texts:
        """What `to_arrays` wrote, in memory of its own."""
        out = Texts()
        cells = arrays["cells"]
        out._grow(len(cells))
        out._cells[: len(cells)] = cells
        out._heads, out._state = np.array(arrays["heads"]), np.array(arrays["state"])
        return out

    # -------------------------------------------------------------------------------------- inside

    def _grow(self, need: int) -> None:
        if need > _MOST:
            raise MemoryError(f"the strings of a table take at most {_MOST * 8 >> 30} GiB")
        size = len(self._cells)
        while size < need:
            size *= 2
        self._cells = self._grown.grow(size)
