"""Cells of chunk pairs that match by a shape: one loop over planned pairs, four algorithms, three results.

Cells are packed into 64-bit keys, row-major, with every dimension padded by the reach of the shape; a shape
is a list of row intervals, ranges of key differences in ascending order (`everfresh.arrays.join` makes both).
For each pair of chunks the cells that cannot have a partner are cut away by the other's box, and what is left
is joined by

- `NESTED`: every cell with every cell, where there are few;
- `SEARCH`: binary search from the smaller side, where the other is far larger;
- `HASH`: a table of the right cells, a probe for each offset, for shapes of scattered offsets;
- `SWEEP`: two pointers over both sides for each row interval, else.

Results are counts per left cell, or pairs, or aggregates of a value of the right cells. Section 4.1 of the
paper on similarity joins names nested loop, index and hash; the sweep takes the place of its index.

Invariant: all algorithms give the same matches, in an order of their own.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import njit

Ints = NDArray[np.int64]

AUTO: Final = -1
NESTED: Final = 0
SEARCH: Final = 1
HASH: Final = 2
SWEEP: Final = 3

COUNT: Final = 0
PAIRS: Final = 1
FOLD: Final = 2


@njit(forceinline=True)
def _emit(
    mode: int,
    i: int,
    begin: int,
    end: int,
    right: Ints,
    counts: Ints,
    found: Ints,
    cursor: Ints,
    values: Any,
    valid: Any,
    folds: Any,
) -> None:
    """Left cell `i` matches the right cells `right[begin:end]`."""
    if mode == 0:
        counts[i] += end - begin
    elif mode == 1:
        at = cursor[0]
        for k in range(begin, end):
            found[0, at] = i
            found[1, at] = right[k]
            at += 1
        cursor[0] = at
    else:
        for k in range(begin, end):
            j = right[k]
            if valid[j]:
                v = values[j]
                if counts[i] == 0:
                    folds[0, i] = v
                    folds[2, i] = v
                    folds[3, i] = v
                else:
                    total = folds[0, i]
                    added = total + v
                    back = added - total
                    folds[1, i] += (total - (added - back)) + (v - back)
                    folds[0, i] = added
                    folds[2, i] = min(folds[2, i], v)
                    folds[3, i] = max(folds[3, i], v)
                counts[i] += 1


@njit(forceinline=True)
def _lower(keys: Ints, size: int, key: int) -> int:
    """The first of the sorted keys that is not less."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@njit(forceinline=True)
def _cut(keys: Ints, coords: Ints, start: int, end: int, lo: Ints, hi: Ints, kept: Ints, index: Ints) -> int:
    """Keep the cells of a chunk that lie in a box; how many there are."""
    if coords.shape[0] == 0:
        for i in range(start, end):
            kept[i - start] = keys[i]
            index[i - start] = i
        return end - start
    count = 0
    for i in range(start, end):
        inside = True
        for d in range(coords.shape[0]):
            if coords[d, i] < lo[d] or coords[d, i] > hi[d]:
                inside = False
                break
        if inside:
            kept[count] = keys[i]
            index[count] = i
            count += 1
    return count


@njit(forceinline=True)
def _count(a: Ints, n: int, li: Ints, b: Ints, m: int, lo: Ints, hi: Ints, counts: Ints) -> None:
    """The sweep for counts alone."""
    for r in range(lo.size):
        begin = end = 0
        for i in range(n):
            least, most = a[i] + lo[r], a[i] + hi[r]
            while begin < m and b[begin] < least:
                begin += 1
            if begin == m:
                break
            end = max(begin, end)
            while end < m and b[end] <= most:
                end += 1
            counts[li[i]] += end - begin


@njit(forceinline=True)
def _slot(table: Ints, keys: Ints, key: int) -> int:
    """Where a key is in the table of first positions plus one, or where it belongs."""
    mask = np.uint64(table.size - 1)
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    at = (h ^ (h >> np.uint64(32))) & mask
    while table[at] != 0 and keys[table[at] - 1] != key:
        at = (at + np.uint64(1)) & mask
    return int(at)


@njit(forceinline=True)
def _chosen(how: int, n: int, m: int, rows: int, singles: int) -> int:
    """The algorithm for a pair: the measured thresholds of the design page on arrays."""
    if how >= 0:
        return SWEEP if how == HASH and singles == 0 else how
    if n * m <= 400:
        return NESTED
    small, large = min(n, m), max(n, m)
    if small * np.log2(large) * 2 < large:
        return SEARCH
    if singles > 0 and rows * (n + m) > 3 * singles * n:
        return HASH
    return SWEEP


@njit(cache=True)
def match(
    mode: int,
    how: int,
    left_keys: Ints,
    left_coords: Ints,
    left_starts: Ints,
    left_boxes: Ints,
    right_keys: Ints,
    right_coords: Ints,
    right_starts: Ints,
    right_boxes: Ints,
    first: Ints,
    second: Ints,
    lo: Ints,
    hi: Ints,
    reach: Ints,
    singles: Ints,
    counts: Ints,
    found: Ints,
    values: Any,
    valid: Any,
    folds: Any,
) -> int:
    """Join all pairs of chunks `first[k]`, `second[k]`; how many pairs of cells were found in mode PAIRS.

    Boxes are (2, dimensions, chunks), with no dimension where nothing is to be cut; `reach` is the least and
    the greatest offset in each dimension;
    `singles` are the offsets as key differences one by one, or none where they are too many.
    """
    most_left = most_right = 1
    for k in range(first.size):
        p, q = first[k], second[k]
        most_left = max(most_left, left_starts[p + 1] - left_starts[p])
        most_right = max(most_right, right_starts[q + 1] - right_starts[q])
    a, li = np.empty(most_left, np.int64), np.empty(most_left, np.int64)
    b, ri = np.empty(most_right, np.int64), np.empty(most_right, np.int64)
    table = np.zeros(1, np.int64)
    cursor = np.zeros(1, np.int64)
    rows, dims = lo.size, left_coords.shape[0]
    low, high = np.empty(dims, np.int64), np.empty(dims, np.int64)
    for k in range(first.size):
        p, q = first[k], second[k]
        for d in range(dims):
            low[d] = right_boxes[0, d, q] - reach[1, d]
            high[d] = right_boxes[1, d, q] - reach[0, d]
        n = _cut(left_keys, left_coords, left_starts[p], left_starts[p + 1], low, high, a, li)
        if n == 0:
            continue
        for d in range(dims):
            low[d] = left_boxes[0, d, p] + reach[0, d]
            high[d] = left_boxes[1, d, p] + reach[1, d]
        m = _cut(right_keys, right_coords, right_starts[q], right_starts[q + 1], low, high, b, ri)
        if m == 0:
            continue
        chosen = _chosen(how, n, m, rows, singles.size)
        if chosen == NESTED:
            for i in range(n):
                for j in range(m):
                    r = _lower(hi, rows, b[j] - a[i])
                    if r < rows and lo[r] <= b[j] - a[i]:
                        _emit(mode, li[i], j, j + 1, ri, counts, found, cursor, values, valid, folds)
        elif chosen == SEARCH and n <= m:
            for i in range(n):
                for r in range(rows):
                    begin = _lower(b, m, a[i] + lo[r])
                    end = begin
                    while end < m and b[end] <= a[i] + hi[r]:
                        end += 1
                    if end > begin:
                        _emit(mode, li[i], begin, end, ri, counts, found, cursor, values, valid, folds)
        elif chosen == SEARCH:
            for j in range(m):
                for r in range(rows):
                    i = _lower(a, n, b[j] - hi[r])
                    while i < n and a[i] <= b[j] - lo[r]:
                        _emit(mode, li[i], j, j + 1, ri, counts, found, cursor, values, valid, folds)
                        i += 1
        elif chosen == HASH:
            size = 4
            while size < 2 * m:
                size *= 2
            if table.size != size:
                table = np.zeros(size, np.int64)
            else:
                table[:] = 0
            for j in range(m):
                if j == 0 or b[j] != b[j - 1]:
                    table[_slot(table, b, b[j])] = j + 1
            for i in range(n):
                for s in range(singles.size):
                    begin = table[_slot(table, b, a[i] + singles[s])] - 1
                    if begin >= 0:
                        end = begin + 1
                        while end < m and b[end] == b[begin]:
                            end += 1
                        _emit(mode, li[i], begin, end, ri, counts, found, cursor, values, valid, folds)
        elif mode == COUNT:
            _count(a, n, li, b, m, lo, hi, counts)
        else:
            for r in range(rows):
                begin = end = 0
                for i in range(n):
                    least, most = a[i] + lo[r], a[i] + hi[r]
                    while begin < m and b[begin] < least:
                        begin += 1
                    if begin == m:
                        break
                    end = max(begin, end)
                    while end < m and b[end] <= most:
                        end += 1
                    if end > begin:
                        _emit(mode, li[i], begin, end, ri, counts, found, cursor, values, valid, folds)
    return int(cursor[0])
