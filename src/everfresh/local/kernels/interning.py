"""The compiled loops of interned strings: codes for the strings of a column where they lie, and back.

The heap has the bytes of all strings, `bounds` where each begins and ends, by code; a hash table as in
`hashing` finds the code, where slots are codes.
"""

from __future__ import annotations

import numpy as np

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.arrow_memory import BUFFERS, CHILDREN, NULLS, OFFSET
from everfresh.local.kernels.hashing import Bytes, Ints
from everfresh.local.kernels.primitives import HALF, HIGH, LOW, MIX, finish
from everfresh.local.native.runtime.memory import ld, ld8, ld32, ldu, prefetch

_STEP = 6  # strings between each of the three reads that lead to one and the next
_BLOCK = 1024  # strings that are hashed before the first of them is looked up
_DONE = 2  # like 1, no tag


@njit(forceinline=True, cache=True)
def _hash_bytes(start: int, size: int) -> np.int64:
    h = np.uint64(size)
    at = start
    end = start + size
    while at + 8 <= end:
        h = (h ^ ldu(at)) * MIX
        h ^= h >> HALF
        at += 8
    return np.int64(finish((h ^ _tail(at, end)) * MIX))


@njit(forceinline=True, cache=True)
def _tail(at: int, end: int) -> np.uint64:
    """Less than eight bytes as one word."""
    tail = np.uint64(0)
    while at < end:
        tail = (tail << np.uint64(8)) | np.uint64(ld8(at, 0))
        at += 1
    return tail


@njit(forceinline=True, cache=True)
def _short(begin: int, size: int) -> np.int64:
    """A number of its own for a string of less than eight bytes, which is not 0."""
    return np.int64((np.uint64(size + 1) << np.uint64(56)) | _tail(begin, begin + size))


@njit(forceinline=True, cache=True)
def _place(short: int, places: int) -> int:
    """Where a short string is remembered."""
    return int((np.uint64(short) * MIX) >> np.uint64(40)) & (places - 1)


@njit(forceinline=True, cache=True)
def _equal_bytes(a: int, b: int, size: int) -> bool:
    """Whether as many bytes at two addresses are the same."""
    i = 0
    while i + 8 <= size:
        if ldu(a + i) != ldu(b + i):
            return False
        i += 8
    while i < size:
        if ld8(a, i) != ld8(b, i):
            return False
        i += 1
    return True


@njit(cache=True)
def intern(
    heap: Bytes,
    bounds: Ints,
    table: Ints,
    state: Ints,
    recent: Ints,
    array: int,
    columns: Ints,
    tag_mask: int,
    reached: Ints,
    out: Ints,
) -> bool:
    """The codes of the strings of columns where they lie; NULL is 0. Whether all are done.

    `array` is the address of an `ArrowArray`, `columns` has a line for each column: which child it is (-1:
    the array itself), the row of `out` that its codes go to, and whether its offsets have 64 bits. `reached`
    is where to begin: column, row; and what to go on with, with the size of the string there, if something
    is full. `state` is (the highest code, bytes of the heap, the first free code, free codes). `recent` has
    short strings and their codes, some of those that came last: most columns of short strings have few
    different ones.
    """
    top, used, free, unused = state[0], state[1], state[2], state[3]
    mask, rows, strings = table.size - 1, out.shape[1], heap.ctypes.data
    tags = np.empty(min(rows, _BLOCK), np.int64)
    for c in range(reached[0], columns.shape[0]):
        child, base = array, 0
        if columns[c, 0] >= 0:
            child, base = ld(ld(array, CHILDREN), columns[c, 0]), ld(array, OFFSET)
        base += ld(child, OFFSET)
        buffers, wide, row = ld(child, BUFFERS), columns[c, 2] != 0, columns[c, 1]
        bits = ld(buffers, 0) if ld(child, NULLS) != 0 else 0
        offsets, data = ld(buffers, 1), ld(buffers, 2)
        first = reached[1] if c == reached[0] else 0
        while first < rows:
            some = min(rows - first, _BLOCK)
            for k in range(some):
                i = base + first + k
                if bits != 0 and not (ld8(bits, i >> 3) >> (i & 7)) & 1:
                    tags[k] = 1  # which no tag is
                else:
                    begin = ld(offsets, i) if wide else ld32(offsets, i)
                    size = (ld(offsets, i + 1) if wide else ld32(offsets, i + 1)) - begin
                    if size < 8:
                        short = _short(data + begin, size)
                        at = _place(short, recent.shape[1])
                        if recent[0, at] == short:
                            out[row, first + k] = recent[1, at]
                            tags[k] = _DONE
                            continue
                    tags[k] = _hash_bytes(data + begin, size) & tag_mask
            for k in range(some):
                i, tag, code = base + first + k, tags[k], 0
                if tag == _DONE:
                    continue
                # Three dependent reads lead to a string: each is asked for some rows before the next one.
                # Not a function of its own: arrays that a branch in one reads are counted at each call.
                if k + 3 * _STEP < some:
                    prefetch(table, (tags[k + 3 * _STEP] >> 32) & mask)
                    code = table[(tags[k + 2 * _STEP] >> 32) & mask] & LOW
                    prefetch(bounds, 2 * code)
                    code = table[(tags[k + _STEP] >> 32) & mask] & LOW
                    prefetch(heap, bounds[2 * code])
                    code = 0
                begin = ld(offsets, i) if wide else ld32(offsets, i)
                size = (ld(offsets, i + 1) if wide else ld32(offsets, i + 1)) - begin
                at = (tag >> 32) & mask
                while tag != 1:
                    cell = table[at]
                    if cell == 0:
                        if (free == 0 and 2 * top + 2 == bounds.size) or used + size > heap.size:
                            state[0], state[1], state[2], state[3] = top, used, free, unused
                            reached[0], reached[1], reached[2] = c, first + k, size
                            return False
                        for j in range(size):
                            heap[used + j] = ld8(data, begin + j)
                        if free != 0:
                            code = free
                            free = -1 - bounds[2 * code]
                            unused -= 1
                        else:
                            top += 1
                            code = top
                        bounds[2 * code] = used
                        used += size
                        bounds[2 * code + 1] = used
                        table[at] = tag | code
                        break
                    if (cell & HIGH) == tag:
                        known = cell & LOW
                        where = bounds[2 * known]
                        same = bounds[2 * known + 1] - where == size
                        if same and _equal_bytes(strings + where, data + begin, size):
                            code = known
                            break
                    at = (at + 1) & mask
                out[row, first + k] = code
                if tag != 1 and size < 8:
                    short = _short(data + begin, size)
                    at = _place(short, recent.shape[1])
                    recent[0, at], recent[1, at] = short, code
            first += some
    state[0], state[1], state[2], state[3] = top, used, free, unused
    return True


@njit(cache=True)
def string_offsets(bounds: Ints, codes: Ints, offsets: Ints) -> int:
    """Arrow offsets of the strings of `codes`; code 0 is empty. A code among them that is free, or 0."""
    offsets[0], free = 0, 0
    for i in range(codes.size):
        begin = bounds[2 * codes[i]]
        if begin < 0:
            free = codes[i]
        offsets[i + 1] = offsets[i] + bounds[2 * codes[i] + 1] - begin
    return free


@njit(cache=True)
def copy_strings(heap: Bytes, bounds: Ints, codes: Ints, offsets: Ints, out: Bytes) -> None:
    """The bytes of the strings of `codes`, one after the other."""
    for i in range(codes.size):
        begin, to = bounds[2 * codes[i]], offsets[i]
        for j in range(offsets[i + 1] - to):
            out[to + j] = heap[begin + j]
