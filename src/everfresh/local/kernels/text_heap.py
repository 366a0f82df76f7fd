"""Compiled loops over the strings of `texts.Texts`: bytes in blocks of a heap, free blocks in lists by size.

The heap is an array of cells of eight bytes. A block is some of them, the last filled up with zeros; a free
one holds the next free block of its class in its first cell. Kernels and helpers live in this one module,
but for intrinsics: a function cached on disk does not notice that a callee elsewhere has changed.

Invariants: kernels raise nothing and never run out of room (they return how far they came); a word at least 0
holds its string, of at most seven bytes, itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.arrow_memory import BUFFERS, CHILDREN, NULLS, OFFSET
from everfresh.local.native.runtime.memory import ld, ld8, ld32, ldu

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

# Positions in the state: cells ever used, cells in use.
TOP, USED = 0, 1

EXACT = 128
"""Blocks of up to so many cells have a class of their own; larger ones are powers of two."""
CLASSES = EXACT + 33

_INLINE = 7
_BLOCK = np.int64(-1 << 63)
_AT = np.int64((1 << 32) - 1)
_SIZE = np.int64((1 << 31) - 1)


@njit(forceinline=True, cache=True)
def _class(cells: int) -> int:
    if cells <= EXACT:
        return cells
    power = 7
    while (1 << power) < cells:
        power += 1
    return EXACT + power - 7


@njit(forceinline=True, cache=True)
def _room(class_: int) -> int:
    """The cells of a block of a class."""
    return class_ if class_ <= EXACT else 1 << (class_ - EXACT + 7)


@njit(forceinline=True, cache=True)
def _size(word: int) -> int:
    return int(word >> 56 if word >= 0 else (word >> 32) & _SIZE)


@njit(forceinline=True, cache=True)
def _tail(data: int, size: int) -> int:
    """Less than eight bytes as one word."""
    word = np.int64(0)
    for j in range(size):
        word |= ld8(data, j) << (8 * j)
    return int(word)


@njit(forceinline=True, cache=True)
def _column(array: int, source: int) -> tuple[int, int]:
    """A column, and where it begins there."""
    if source < 0:
        return array, ld(array, OFFSET)
    child = ld(ld(array, CHILDREN), source)
    return child, ld(array, OFFSET) + ld(child, OFFSET)


@njit(cache=True)
def size_of(array: int, columns: Ints, rows: int) -> int:
    """The bytes of the strings of columns, as `keep` takes them."""
    total = 0
    for c in range(columns.shape[0]):
        child, base = _column(array, columns[c, 0])
        offsets = ld(ld(child, BUFFERS), 1)
        if columns[c, 2] != 0:
            total += ld(offsets, base + rows) - ld(offsets, base)
        else:
            total += ld32(offsets, base + rows) - ld32(offsets, base)
    return total


@njit(cache=True)
def keep(
    cells: Ints,
    heads: Ints,
    state: Ints,
    array: int,
    columns: Ints,
    reached: Ints,
    out: Ints,
) -> bool:
    """The words of the strings of columns where they lie, their bytes copied; 0 for NULL. Whether all are.

    `array`, `columns` and `reached` are as for `kernels.intern`; it stops when the heap is full.
    """
    rows = out.shape[1]
    for c in range(reached[0], columns.shape[0]):
        child, base = _column(array, columns[c, 0])
        buffers, wide, row = ld(child, BUFFERS), columns[c, 2] != 0, columns[c, 1]
        bits = ld(buffers, 0) if ld(child, NULLS) != 0 else 0
        offsets, data = ld(buffers, 1), ld(buffers, 2)
        for k in range(reached[1] if c == reached[0] else 0, rows):
            i = base + k
            if bits != 0 and not (ld8(bits, i >> 3) >> (i & 7)) & 1:
                out[row, k] = 0
                continue
            begin = ld(offsets, i) if wide else ld32(offsets, i)
            size = (ld(offsets, i + 1) if wide else ld32(offsets, i + 1)) - begin
            begin += data
            if size <= _INLINE:
                out[row, k] = (size << 56) | _tail(begin, size)
                continue
            class_ = _class((size + 7) >> 3)
            room = _room(class_)
            at = heads[class_]
            if at >= 0:
                heads[class_] = cells[at]
            else:
                at = state[TOP]
                if at + room > cells.size:
                    reached[0], reached[1], reached[2] = c, k, size
                    return False
                state[TOP] = at + room
            state[USED] += room
            whole = size >> 3
            for j in range(whole):
                cells[at + j] = np.int64(ldu(begin + 8 * j))
            if size & 7:  # what is behind the string may not be memory of ours
                cells[at + whole] = _tail(begin + 8 * whole, size & 7)
            out[row, k] = _BLOCK | (size << 32) | at
    return True


@njit(cache=True)
def release(cells: Ints, heads: Ints, state: Ints, words: Ints) -> None:
    """Free the blocks of some words, each once."""
    for i in range(words.size):
        if words[i] < 0:
            _free(cells, heads, state, words[i])


@njit(forceinline=True, cache=True)
def _free(cells: Ints, heads: Ints, state: Ints, word: int) -> None:
    class_ = _class((_size(word) + 7) >> 3)
    at = word & _AT
    cells[at] = heads[class_]
    heads[class_] = at
    state[USED] -= _room(class_)


@njit(cache=True)
def release_others(cells: Ints, heads: Ints, state: Ints, words: Ints, taken: Ints) -> None:
    """Free the blocks of those of some words that are not `taken`; a word may come more than once."""
    size = 16
    while size < 2 * (words.size + taken.size):
        size *= 2
    known = np.zeros(size, np.int64)  # words that are taken, or free now
    for i in range(taken.size):
        if taken[i] < 0:
            _entered(known, taken[i])
    for i in range(words.size):
        if words[i] < 0 and _entered(known, words[i]):
            _free(cells, heads, state, words[i])


@njit(forceinline=True, cache=True)
def _entered(known: Ints, word: int) -> bool:
    """Put a word below 0 into a hash table; whether it was not there."""
    hashed = np.uint64(word & _AT) * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64(hashed >> np.uint64(32)) & (known.size - 1)
    while known[at] != 0:
        if known[at] == word:
            return False
        at = (at + 1) & (known.size - 1)
    known[at] = word
    return True


@njit(forceinline=True, cache=True)
def _equal(cells: Ints, a: int, b: int) -> bool:
    if a == b:
        return True
    if a >= 0 or b >= 0 or _size(a) != _size(b):
        return False
    x, y = a & _AT, b & _AT
    for j in range((_size(a) + 7) >> 3):  # noqa: SIM110 - Numba compiles the loop better than all()
        if cells[x + j] != cells[y + j]:
            return False
    return True


@njit(cache=True)
def unify(cells: Ints, words: Ints, stored: Ints, slots: Ints, first: Ints) -> None:
    """Give a string the word of an equal one: of the stored row of its key, else of the first row with it."""
    for i in range(words.size):
        word = words[i]
        if word >= 0:
            continue
        if slots[i] >= 0 and _equal(cells, word, stored[slots[i]]):
            words[i] = stored[slots[i]]
        elif _equal(cells, word, words[first[i]]):
            words[i] = words[first[i]]


@njit(cache=True)
def offsets_of(words: Ints, offsets: Ints) -> None:
    """Arrow offsets of the strings of `words`."""
    offsets[0] = 0
    for i in range(words.size):
        offsets[i + 1] = offsets[i] + _size(words[i])


@njit(cache=True)
def copy(heap: Bytes, words: Ints, offsets: Ints, out: Bytes) -> None:
    """The bytes of the strings of `words`, one after the other."""
    for i in range(words.size):
        word, to = words[i], offsets[i]
        size = offsets[i + 1] - to
        if word >= 0:
            for j in range(size):
                out[to + j] = np.uint8((word >> (8 * j)) & 0xFF)
        else:
            begin = (word & _AT) << 3
            for j in range(size):
                out[to + j] = heap[begin + j]
