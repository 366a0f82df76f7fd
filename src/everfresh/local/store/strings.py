"""Strings as int64 codes: equal strings have equal codes, and code 0 is NULL.

Pools hold int64 words only (the specialised record format of the thesis, section 4.2.2); an `Interner` gives
each distinct string a code, counting from 1, or one that is free again. The bytes of all strings lie in one
heap. Which strings are still used is known to those who hold codes (`local/store/reclaim.py`): what none of
them holds is freed, and no other string gets another code.

Invariant: string `code` is `heap[bounds[2 * code] : bounds[2 * code + 1]]`. A free code has there, twice,
`-1 - next`, the next free code or 0: whoever asks for its string has kept a code without saying so, and gets
an `IndexError`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import WeakSet

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.local.input.incoming import exported
from everfresh.local.kernels import hashing, interning
from everfresh.local.kernels.hashing import Bytes, Ints
from everfresh.local.store.arena import Growing

Alive = NDArray[np.bool_]
"""By code: whether somebody holds it."""

_STRINGS: Final = 1 << 30  # most strings of one interner: a code and its table cell fit 32 bits
_RESERVED: Final = 1 << 26  # strings that one has address space for when it is large
_RECENT: Final = 1 << 8
_HEAP: Final = 1 << 34  # bytes of strings, likewise
_ARROW: Final = (1 << 31) - 1  # most bytes of one pa.string() array
_CODE: Final = (1 << 32) - 1  # of a cell of the hash table
_STRING: Final = pa.string()
_LARGE: Final = pa.large_string()
_ALONE: Final = np.array([[-1, 0, 0]])
_ALONE_LARGE: Final = np.array([[-1, 0, 1]])
_TOP, _USED, _FREE, _UNUSED = range(4)  # of the state: see `interning.intern`


class Remembering(Protocol):
    """What knows something by codes, and keeps none of them in use."""

    def forget(self, alive: Alive) -> None:
        """Codes that are not alive may mean other strings from now on."""


@dataclass(slots=True)
class _Memory:
    """The arrays of an interner. They are replaced all at once, so that they always belong together."""

    grown: tuple[Growing, Growing, Growing]
    heap: Bytes
    bounds: Ints
    table: Ints
    state: Ints
    recent: Ints
    """Short strings and their codes."""

    @staticmethod
    def sized(strings: int, size: int) -> _Memory:
        """Room for some strings, of `size` bytes together."""
        capacity = 1 << max(strings - 1, 1).bit_length()
        grown = (
            Growing(0, np.uint8, _HEAP),
            Growing(0, np.int64, 2 * _RESERVED + 2),
            Growing(0, np.int64, 2 * _RESERVED, scattered=True),
        )
        sizes = size, 2 * capacity + 2, 2 * capacity
        heap, bounds, table = (g.grow(elements) for g, elements in zip(grown, sizes, strict=True))
        state, recent = np.zeros(4, np.int64), np.zeros((2, _RECENT), np.int64)
        return _Memory(grown, heap, bounds, table, state, recent)

    def grow(self, size: int) -> None:
        """Room for at least one more string, of `size` bytes: doubles what is full."""
        top, used, free, _ = self.state.tolist()
        heap, bounds, table = self.grown
        if used + size > len(self.heap):
            self.heap = heap.grow(max(2 * len(self.heap), used + size))
        capacity = len(self.bounds) // 2 - 1
        if free == 0 and top == capacity:
            if 2 * capacity > _STRINGS:
                raise MemoryError(f"a dictionary holds at most {_STRINGS} strings")
            self.table = table.grow(4 * capacity)
            hashing.spread(self.table, 2 * capacity)
            self.bounds = bounds.grow(4 * capacity + 2)


class Interner:
    """A growing dictionary of strings. `_tag_mask` = 0 makes all strings collide, for tests.

    >>> interner = Interner()
    >>> interner.intern_list(["b", None, "", "b"]).tolist()
    [1, 0, 2, 1]
    >>> interner.strings(np.array([2, 0, 1]))
    ['', None, 'b']
    >>> interner.reclaim(np.array([True, False, True]))
    1
    >>> interner.intern_list(["c", "d", ""]).tolist()
    [1, 3, 2]
    """

    def __init__(self, capacity: int = 16, *, _tag_mask: int = -1) -> None:
        self._at = _Memory.sized(capacity, 8 * capacity)
        self._tag_mask = _tag_mask
        self._lock = threading.Lock()  # strings may come from several threads
        self._told: WeakSet[Remembering] = WeakSet()
        self.size = 0
        """Bytes of the strings that were found in use the last time."""
        self.version = 0
        """Increases when codes that nobody held may have come to mean other strings."""
        self.whole = True
        """False while strings come: if that did not come to its end, codes cannot be trusted. A kernel that
        is not compiled yet may be struck inside."""

    def __len__(self) -> int:
        """How many strings there are, those included that are not used any more but were not looked for."""
        top, _, _, unused = self._at.state.tolist()
        return int(top - unused)

    @property
    def top(self) -> int:
        """The highest code."""
        return int(self._at.state[_TOP])

    @property
    def used(self) -> int:
        """Bytes of all strings that have come since the heap was last put in order."""
        return int(self._at.state[_USED])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, unused capacity included."""
        return self._at.heap.nbytes + self._at.bounds.nbytes + self._at.table.nbytes

    @property
    def bytes(self) -> tuple[Bytes, Ints]:
        """The heap, and where each string begins and ends in it, for kernels to read: good until strings are
        added."""
        return self._at.heap, self._at.bounds

    # --------------------------------------------------------------------------------------- codes

    def intern(self, array: pa.Array | pa.ChunkedArray) -> Ints:
        """The codes of an Arrow string array; strings not seen before get new ones."""
        return by_chunks(array, self.intern_columns)

    def intern_columns(self, array: int, lines: Ints, out: Ints) -> None:
        """Write the codes of string columns of an exported batch to rows of `out`: see `interning.intern`."""
        reached = np.zeros(3, np.int64)
        with self._lock:
            at = self._at
            self.whole = False
            while not interning.intern(
                *(at.heap, at.bounds, at.table, at.state, at.recent),
                *(array, lines, self._tag_mask, reached, out),
            ):
                at.grow(int(reached[2]))
            self.whole = True

    def intern_list(self, strings: Sequence[str | None]) -> Ints:
        """The codes of Python strings."""
        return self.intern(pa.array(strings, pa.string()))

    def decode(self, codes: Ints) -> pa.Array:
        """The strings of `codes` as a `pa.string()` array, or `pa.large_string()` where they exceed 2 GiB."""
        codes = self._checked(codes)
        offsets, data = self._copied(codes)
        valid = codes != 0
        return strings_array(offsets, data, None if valid.all() else valid)

    def strings(self, codes: Ints) -> list[str | None]:
        """The strings of `codes` as Python objects."""
        out: list[str | None] = self.decode(codes).to_pylist()
        return out

    # ------------------------------------------------------------------------------------- reclaim

    def tell(self, who: Remembering) -> None:
        """Tell somebody, as long as there is one, when codes come to mean other strings."""
        self._told.add(who)

    def none_alive(self) -> Alive:
        """Room for those who hold codes to say so."""
        return np.zeros(self.top + 1, np.bool_)

    def reclaim(self, alive: Alive) -> int:
        """Free the strings whose codes are not `alive`, all that there were when `none_alive` made it; how
        many these are. The others keep their codes."""
        with self._lock:
            alive[0] = True
            old = self._at
            bounds = old.bounds[: 2 * len(alive)].reshape(-1, 2)
            known = bounds[:, 0] >= 0
            if len(alive) != self.top + 1 or (alive > known).any():
                raise IndexError("a code that is free is marked, or strings have come just now")
            self.size = int((bounds[alive, 1] - bounds[alive, 0]).sum())
            dead = int(np.count_nonzero(known) - np.count_nonzero(alive))
            if dead == 0:
                return 0
            for one in list(self._told):  # first: what they do not know, they can ask for again
                one.forget(alive)
            fresh = self._swept(old, bounds, alive)
            self.version += 1
            self._at = fresh
        return dead

    def _swept(self, old: _Memory, bounds: Ints, alive: Alive) -> _Memory:
        """The strings that are alive, in memory of their own; the heap only if much of it is not used."""
        codes = np.flatnonzero(alive)
        top, used, size = int(codes[-1]), int(old.state[_USED]), self.size
        in_order = 3 * size < used
        fresh = _Memory.sized(max(top, 1), max(64, 1 << size.bit_length()) if in_order else 1)
        lines = fresh.bounds[: 2 * top + 2].reshape(-1, 2)
        if in_order:
            offsets = np.empty(len(codes) + 1, np.int64)
            interning.string_offsets(old.bounds, codes, offsets)
            interning.copy_strings(old.heap, old.bounds, codes, offsets, fresh.heap)
            lines[codes, 0], lines[codes, 1] = offsets[:-1], offsets[1:]
            used = size
        else:
            fresh.grown = (old.grown[0], *fresh.grown[1:])
            fresh.heap = old.heap
            lines[codes] = bounds[codes]
        free = np.flatnonzero(~alive[: top + 1])
        lines[free] = (-1 - np.append(free[1:], 0))[:, None]
        alive[0] = False  # which is no cell
        hashing.rehash(old.table * alive[old.table & _CODE], fresh.table)
        fresh.state[:] = top, used, free[0] if len(free) else 0, len(free)
        return fresh

    def renumbered(self, alive: Alive) -> tuple[Interner, Ints]:
        """The strings that are `alive`, in the same order, with codes without gaps, and the new code of each
        old one, 0 if it has none: to be put in place by `become`."""
        alive[0] = False
        codes = np.flatnonzero(alive)
        remap = np.zeros(len(alive), np.int64)
        fresh = Interner(max(len(codes), 16), _tag_mask=self._tag_mask)
        remap[codes] = fresh.intern(self.decode(codes))
        return fresh, remap

    def become(self, other: Interner) -> None:
        """Take the strings of another, who is not used any more; all labels and codes are forgotten."""
        with self._lock:
            for one in list(self._told):
                one.forget(np.zeros(self.top + 1, np.bool_))
            self.version += 1
            self._at = other._at

    # ----------------------------------------------------------------------------------- snapshots

    def to_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """The whole dictionary as arrays, copied; names start with `prefix`."""
        return {name: array.copy() for name, array in self.as_arrays(prefix).items()}

    def as_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """The same, as views where strings lie in the order of their codes: good until strings are added. A
        free code has no bytes, and is not in the table."""
        at = self._at
        top, _, _, unused = at.state.tolist()
        lines = at.bounds[: 2 * top + 2].reshape(-1, 2)
        if unused == 0 and (lines[1:, 0] == lines[:-1, 1]).all():
            starts = np.ascontiguousarray(lines[:, 1])
            heap = at.heap[: starts[-1]]
        else:
            codes = np.arange(1, top + 1)
            codes[lines[1:, 0] < 0] = 0
            starts, heap = self._copied(codes)
        return {
            f"{prefix}heap": heap,
            f"{prefix}starts": starts,
            f"{prefix}table": at.table,
            f"{prefix}mask": np.array([self._tag_mask]),
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Interner:
        """The dictionary that `to_arrays` wrote, in memory of its own: the arrays may be read-only."""
        heap, starts, table = (arrays[f"{prefix}{name}"] for name in ("heap", "starts", "table"))
        out = Interner(_tag_mask=int(arrays[f"{prefix}mask"][0]))
        at = out._at = _Memory.sized(len(table) // 2, max(64, len(heap)))
        top = len(starts) - 1
        at.heap[: len(heap)] = heap
        at.table[:] = table
        lines = at.bounds[: 2 * top + 2].reshape(-1, 2)
        lines[1:, 0], lines[1:, 1] = starts[:-1], starts[1:]
        known = np.zeros(top + 1, np.bool_)
        known[0] = True
        known[table[table != 0] & _CODE] = True
        free = np.flatnonzero(~known)
        lines[free] = (-1 - np.append(free[1:], 0))[:, None]
        at.state[:] = top, len(heap), free[0] if len(free) else 0, len(free)
        return out

    # -------------------------------------------------------------------------------------- inside

    def _copied(self, codes: Ints) -> tuple[Ints, Bytes]:
        """Arrow offsets and bytes of the strings of codes."""
        at, offsets = self._at, np.empty(len(codes) + 1, np.int64)
        free = interning.string_offsets(at.bounds, codes, offsets)
        if free != 0:
            raise IndexError(f"code {free} was freed: whoever holds it does not say so")
        data = np.empty(int(offsets[-1]), np.uint8)
        interning.copy_strings(at.heap, at.bounds, codes, offsets, data)
        return offsets, data

    def _checked(self, codes: Ints) -> Ints:
        codes = np.array(codes, dtype=np.int64)
        if len(codes) and not (codes.min() >= 0 and codes.max() <= self.top):
            raise IndexError(f"a code is outside 0..{self.top}")
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
