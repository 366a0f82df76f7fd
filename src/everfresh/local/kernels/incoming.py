"""Compiled loops over a record batch where it lies, as the Arrow C data interface describes it.

A kernel gets the address of an `ArrowArray` whose children are the columns, and one line of numbers for each
column that it is to look at. Whoever calls it holds the batch alive and has checked the types of its columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.arrow_memory import BUFFERS, CHILDREN, NULLS, OFFSET
from everfresh.local.native.runtime.memory import as_word, ld, ld8, ld32, ldf, ldf32, ldu

Ints = NDArray[np.int64]

# What a column holds. TEXT has only its NULLs read here.
TEXT, BIT, INT8, INT16, INT32, INT64, DECIMAL, WIDE, FLOAT, DOUBLE = range(10)

# The places in a column's line for `words`: those of the column among its siblings, what it holds, its first
# word, the word and the bit of its NULLs (-1: it has none).
SOURCE, KIND, FIRST, MASK, SHIFT = range(5)

# The places in a line for `clean`, behind the first two: whether NULL is refused, the least and the greatest
# value that a column of days, moments or decimals takes. Of wide decimals these are words of the greatest.
REQUIRED, LEAST, MOST = 2, 3, 4

BAD, OTHER_TEXT, GOOD = range(3)
"""What `clean` finds."""

_NAN = np.float64(np.nan).view(np.int64)
_NAN32 = np.int64(np.float32(np.nan).view(np.int32))
_ZERO = np.int64(-1 << 63)
_ZERO32 = np.int64(-1 << 31)
_HIGH_BITS = np.uint64(0x8080808080808080)


@njit(forceinline=True, cache=True)
def _missing(bits: int, at: int) -> bool:
    """Whether a validity bitmap says that a value is NULL."""
    return bool(((ld8(bits, at >> 3) >> (at & 7)) & 1) == 0)


@njit(forceinline=True, cache=True)
def _signed(word: int, bits: int) -> int:
    """The number whose two's complement the lowest `bits` of a word are."""
    return int((word ^ (1 << (bits - 1))) - (1 << (bits - 1)))


@njit(cache=True)
def words(array: int, columns: Ints, out: Ints) -> int:
    """Write the words of columns to `out`, whose words of NULLs are 0; how many columns were done: fewer than
    all where one that has no room for NULLs has some."""
    children, rows = ld(array, CHILDREN), out.shape[1]
    for c in range(columns.shape[0]):
        child = ld(children, columns[c, SOURCE])
        buffers, start = ld(child, BUFFERS), ld(array, OFFSET) + ld(child, OFFSET)
        bits, data = ld(buffers, 0), ld(buffers, 1)
        kind, first = columns[c, KIND], columns[c, FIRST]
        if kind == INT64:
            for i in range(rows):
                out[first, i] = ld(data, start + i)
        elif kind == INT32:
            for i in range(rows):
                out[first, i] = ld32(data, start + i)
        elif kind == DECIMAL:
            for i in range(rows):
                out[first, i] = ld(data, 2 * (start + i))
        elif kind == WIDE:
            for i in range(rows):
                out[first, i] = ld(data, 2 * (start + i) + 1)
                out[first + 1, i] = ld(data, 2 * (start + i))
        elif kind >= FLOAT:
            for i in range(rows):
                value = ldf(data, start + i) if kind == DOUBLE else ldf32(data, start + i)
                # There is one NaN, and no -0.0.
                out[first, i] = _NAN if value != value else as_word(value) if value != 0.0 else 0
        elif kind == INT16:
            for i in range(rows):
                at = 2 * (start + i)
                out[first, i] = _signed(ld8(data, at) | (ld8(data, at + 1) << 8), 16)
        elif kind == INT8:
            for i in range(rows):
                out[first, i] = _signed(ld8(data, start + i), 8)
        elif kind == BIT:
            for i in range(rows):
                out[first, i] = (ld8(data, (start + i) >> 3) >> ((start + i) & 7)) & 1
        if bits == 0 or ld(child, NULLS) == 0:
            continue
        mask, shift = columns[c, MASK], columns[c, SHIFT]
        for i in range(rows):
            if _missing(bits, start + i):
                if mask < 0:
                    return c
                out[mask, i] |= np.int64(1) << shift
                if kind != TEXT:
                    out[first, i] = 0  # what Arrow has in the place of a NULL is undefined
                if kind == WIDE:
                    out[first + 1, i] = 0
    return int(columns.shape[0])


@njit(cache=True)
def _is_ascii(offsets: int, data: int, start: int, rows: int) -> bool:
    """Whether the strings of a column are ASCII, and none ends before it begins."""
    backwards = np.int64(0)
    for i in range(start, start + rows):
        backwards |= ld32(offsets, i + 1) - ld32(offsets, i)
    if backwards < 0:
        return False
    at, end = data + ld32(offsets, start), data + ld32(offsets, start + rows)
    high = np.uint64(0)
    while at + 32 <= end:
        high |= ldu(at) | ldu(at + 8) | ldu(at + 16) | ldu(at + 24)
        at += 32
    while at < end:
        high |= np.uint64(ld8(at, 0))
        at += 1
    return bool(high & _HIGH_BITS == 0)


@njit(forceinline=True, cache=True)
def _is_within(kind: int, data: int, i: int, least: int, most: int) -> bool:
    """Whether a day, a moment or a decimal is within bounds."""
    if kind == INT32:
        return bool(least <= ld32(data, i) <= most)
    if kind == INT64:
        return bool(least <= ld(data, i) <= most)
    low, high = ld(data, 2 * i), ld(data, 2 * i + 1)
    if kind == DECIMAL:
        return bool(least <= low <= most and high == low >> 63)
    if high < 0:  # 128 bits, by their magnitude
        low = -low
        high = -high if low == 0 else ~high
    return bool(np.uint64(high) < np.uint64(most) or (high == most and np.uint64(low) <= np.uint64(least)))


@njit(cache=True)
def clean(array: int, columns: Ints, rows: int) -> int:
    """GOOD if no column that refuses NULL has one, all values are of their types (and days of years that
    Python knows), and all floats are canonical; OTHER_TEXT if so, but some strings are not ASCII."""
    children, found = ld(array, CHILDREN), GOOD
    for c in range(columns.shape[0]):
        child = ld(children, columns[c, SOURCE])
        buffers, start = ld(child, BUFFERS), ld(array, OFFSET) + ld(child, OFFSET)
        bits, data, kind = ld(buffers, 0), ld(buffers, 1), columns[c, KIND]
        if ld(child, NULLS) == 0:
            bits = 0
        if columns[c, REQUIRED] and bits != 0:
            for i in range(rows):
                if _missing(bits, start + i):
                    return BAD
        if kind == TEXT:
            if not _is_ascii(data, ld(buffers, 2), start, rows):
                found = OTHER_TEXT
        elif kind == DOUBLE:
            for i in range(rows):
                word, value = ld(data, start + i), ldf(data, start + i)
                if word == _ZERO or (value != value and word != _NAN):
                    return BAD
        elif kind == FLOAT:
            for i in range(rows):
                word, value = ld32(data, start + i), ldf32(data, start + i)
                if word == _ZERO32 or (value != value and word != _NAN32):
                    return BAD
        elif columns[c, MOST] != 0:
            least, most = columns[c, LEAST], columns[c, MOST]
            for i in range(start, start + rows):
                # What Arrow has in the place of a NULL is undefined.
                if not _is_within(kind, data, i, least, most) and (bits == 0 or not _missing(bits, i)):
                    return BAD
    return found


@njit(cache=True)
def put_over(given: Ints, lines: Ints, nulls: Ints, out: Ints) -> None:
    """Write words of `given` over those of `out`: by `lines` (from, to), and single bits by `nulls` (from
    word and bit, to word and bit)."""
    for j in range(lines.shape[0]):
        source, target = given[lines[j, 0]], out[lines[j, 1]]
        for i in range(source.size):
            target[i] = source[i]
    for j in range(nulls.shape[0]):
        source, target = given[nulls[j, 0]], out[nulls[j, 2]]
        for i in range(source.size):
            bit = np.int64(1) << nulls[j, 3]
            target[i] = (target[i] & ~bit) | (((source[i] >> nulls[j, 1]) & 1) << nulls[j, 3])


@njit(cache=True)
def differing(both: Ints, out: NDArray[np.bool_]) -> int:
    """Whether the columns of the two halves of a matrix differ, and how many do."""
    count, m = 0, out.size
    for i in range(m):
        out[i] = False
        for j in range(both.shape[0]):
            out[i] |= both[j, i] != both[j, m + i]
        count += out[i]
    return count


@njit(cache=True)
def lacking(slots: Ints) -> int:
    """The first place without a slot; -1 if there is none."""
    for i in range(slots.size):
        if slots[i] < 0:
            return i
    return -1
