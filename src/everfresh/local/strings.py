"""Strings as int64 codes: equal strings have equal codes, and code 0 is NULL.

Pools hold int64 words only (the specialised record format of 001, section 4.2.2); an `Interner` gives each
distinct string the next code, counting from 1. The bytes of all strings lie in one heap, ordered by code.

Invariant: string `code` is `heap[starts[code - 1] : starts[code]]`; a code keeps its string until
`compact`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.local import kernels
from everfresh.local.arena import Growing
from everfresh.local.incoming import exported
from everfresh.local.kernels import Bytes, Ints

_STRINGS: Final = 1 << 30  # most strings of one interner: a code and its table cell fit 32 bits
_RESERVED: Final = 1 << 26  # strings that one has address space for when it is large
_RECENT: Final = 1 << 8
_HEAP: Final = 1 << 34  # bytes of strings, likewise
_ARROW: Final = (1 << 31) - 1  # most bytes of one pa.string() array
_STRING: Final = pa.string()
_LARGE: Final = pa.large_string()
_ALONE: Final = np.array([[-1, 0, 0]])
_ALONE_LARGE: Final = np.array([[-1, 0, 1]])


class Interner:
    """A growing dictionary of strings. `_tag_mask` = 0 makes all strings collide, for tests.

    >>> interner = Interner()
    >>> interner.intern_list(["b", None, "", "b"]).tolist()
    [1, 0, 2, 1]
    >>> interner.strings(np.array([2, 0, 1]))
    ['', None, 'b']
    """

    def __init__(self, capacity: int = 16, *, _tag_mask: int = -1) -> None:
        capacity = 1 << max(capacity - 1, 1).bit_length()
        self._grown = (
            Growing(8 * capacity, np.uint8, _HEAP),
            Growing(capacity + 1, np.int64, _RESERVED + 1),
            Growing(2 * capacity, np.int64, 2 * _RESERVED, scattered=True),
        )
        self._heap, self._starts, self._table = (grown.array for grown in self._grown)
        self._state = np.zeros(2, np.int64)  # strings, bytes of the heap
        self._recent = np.zeros((2, _RECENT), np.int64)  # short strings and their codes
        self._tag_mask = _tag_mask
        self._lock = threading.Lock()  # strings may come from several threads
        self.whole = True
        """False while it grows: if that did not come to its end, codes cannot be trusted."""

    def __len__(self) -> int:
        return int(self._state[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, unused capacity included."""
        return self._heap.nbytes + self._starts.nbytes + self._table.nbytes

    @property
    def bytes(self) -> tuple[Bytes, Ints]:
        """The heap, and where each string ends in it, for kernels to read: good until strings are added."""
        return self._heap, self._starts

    # --------------------------------------------------------------------------------------- codes

    def intern(self, array: pa.Array | pa.ChunkedArray) -> Ints:
        """The codes of an Arrow string array; strings not seen before get new ones."""
        return by_chunks(array, self.intern_columns)

    def intern_columns(self, array: int, lines: Ints, out: Ints) -> None:
        """Write the codes of string columns of an exported batch to rows of `out`: see `kernels.intern`."""
        reached = np.zeros(3, np.int64)
        with self._lock:
            arrays = self._heap, self._starts, self._table, self._state, self._recent
            while not kernels.intern(*arrays, array, lines, self._tag_mask, reached, out):
                self._grow(int(reached[2]))
                arrays = self._heap, self._starts, self._table, self._state, self._recent

    def intern_list(self, strings: Sequence[str | None]) -> Ints:
        """The codes of Python strings."""
        return self.intern(pa.array(strings, pa.string()))

    def decode(self, codes: Ints) -> pa.Array:
        """The strings of `codes` as a `pa.string()` array, or `pa.large_string()` where they exceed 2 GiB."""
        codes = self._checked(codes)
        offsets = np.empty(len(codes) + 1, np.int64)
        kernels.string_offsets(self._starts, codes, offsets)
        data = np.empty(int(offsets[-1]), np.uint8)
        kernels.copy_strings(self._heap, self._starts, codes, offsets, data)
        valid = codes != 0
        return strings_array(offsets, data, None if valid.all() else valid)

    def strings(self, codes: Ints) -> list[str | None]:
        """The strings of `codes` as Python objects."""
        out: list[str | None] = self.decode(codes).to_pylist()
        return out

    def compact(self, live_codes: Ints) -> Ints:
        """Keep only the strings of `live_codes`, in order; the new code of each old one, 0 if dropped."""
        keep = np.zeros(len(self) + 1, np.bool_)
        keep[self._checked(live_codes)] = True
        keep[0] = False
        kept = self.decode(np.flatnonzero(keep))
        remap = np.zeros(len(self) + 1, np.int64)
        compacted = Interner(_tag_mask=self._tag_mask)
        remap[keep] = compacted.intern(kept)
        self.__dict__.update(compacted.__dict__)
        return remap

    # ----------------------------------------------------------------------------------- snapshots

    def to_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """The whole dictionary as arrays, copied; names start with `prefix`."""
        return {name: array.copy() for name, array in self.as_arrays(prefix).items()}

    def as_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """The same as views: good until strings are added."""
        count, used = self._state.tolist()
        return {
            f"{prefix}heap": self._heap[:used],
            f"{prefix}starts": self._starts[: count + 1],
            f"{prefix}table": self._table,
            f"{prefix}mask": np.array([self._tag_mask]),
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Interner:
        """The dictionary that `to_arrays` wrote, in memory of its own: the arrays may be read-only."""
        heap, starts, table = (arrays[f"{prefix}{name}"] for name in ("heap", "starts", "table"))
        out = Interner(len(table) // 2, _tag_mask=int(arrays[f"{prefix}mask"][0]))
        out._heap = out._grown[0].grow(len(heap))
        out._heap[: len(heap)] = heap
        out._starts[: len(starts)] = starts
        out._table[:] = table
        out._state[:] = len(starts) - 1, len(heap)
        return out

    # -------------------------------------------------------------------------------------- inside

    def _grow(self, size: int) -> None:
        """Room for at least one more string, of `size` bytes: doubles what is full."""
        self.whole = False
        count, used = self._state.tolist()
        heap, starts, table = self._grown
        if used + size > len(self._heap):
            self._heap = heap.grow(max(2 * len(self._heap), used + size))
        capacity = len(self._starts) - 1
        if count == capacity:
            if 2 * capacity > _STRINGS:
                raise MemoryError(f"a dictionary holds at most {_STRINGS} strings")
            self._starts = starts.grow(2 * capacity + 1)
            self._table = table.grow(4 * capacity)
            kernels.spread(self._table, 2 * capacity)
        self.whole = True

    def _checked(self, codes: Ints) -> Ints:
        codes = np.array(codes, dtype=np.int64)
        if len(codes) and not (codes.min() >= 0 and codes.max() <= len(self)):
            raise IndexError(f"a code is outside 0..{len(self)}")
        return codes


def by_chunks(array: pa.Array | pa.ChunkedArray, write: Callable[[int, Ints, Ints], None]) -> Ints:
    """What `write` makes of the strings of an Arrow array: it gets each chunk's address, the lines of its
    columns, and where to write."""
    out = np.empty((1, len(array)), np.int64)
    done = 0
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        if len(chunk):
            chunk, lines = as_text(chunk)
            address, held = exported(chunk)
            write(address, lines, out[:, done : done + len(chunk)])
            del held
            done += len(chunk)
    words: Ints = out[0]
    return words


def as_text(array: pa.Array) -> tuple[pa.Array, Ints]:
    """A string array of 32 or 64 bit offsets, and the line by which kernels take it as their only column."""
    type_ = array.type
    if type_ != _STRING and type_ != _LARGE:
        array, type_ = array.cast(_LARGE), _LARGE
    return array, _ALONE if type_ == _STRING else _ALONE_LARGE


def strings_array(offsets: Ints, data: Bytes, valid: NDArray[np.bool_] | None) -> pa.Array:
    """A `pa.string()` array, or `pa.large_string()` where the strings exceed 2 GiB."""
    small = len(data) <= _ARROW
    buffers = [
        None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little")),
        pa.py_buffer(offsets.astype(np.int32) if small else offsets),
        pa.py_buffer(data),
    ]
    return pa.Array.from_buffers(pa.string() if small else pa.large_string(), len(offsets) - 1, buffers)
