"""What generated code calls: the hash of keys, slots, slices, sums and products of all kinds, comparisons.

The same loops as in `kernels` (`pool_changes`, `pool_values`, `slice_links`, `exact_products`), by address
(`memory`), for one entry at a time, with the same `kernels.primitives`.
Invariant: for the same entries in the same order they leave the same pools, slices and journals. Their source
is part of the name under which generated code is kept (`build`), and they are kept nowhere themselves: a
compiled function does not notice that what it calls has changed.

A *block* is a run of words that says where a pool lies (`POOL_*`), or a slice (`SLICE_*`).
"""

from __future__ import annotations

import math

import numpy as np

from everfresh.local.jit.kernel import njit
from everfresh.local.kernels.primitives import HIGH, LOW, finish, two_product, two_sum
from everfresh.local.native.runtime.memory import add_checked, as_word, ld, ld32, ldf, st, st8, st32, stf

# -- blocks ----------------------------------------------------------------------------------------

POOL_KEYS, POOL_STRIDE, POOL_TABLE, POOL_MASK, POOL_MARK, POOL_STATE = 0, 1, 2, 3, 4, 5
POOL_N, POOL_INTS, POOL_FLOATS = 6, 7, 8
POOL_SLICES = 9
"""How many slices follow the pool, and then the address of their blocks."""
POOL_ROOM = 11
"""How many more upserts are sure to find room."""
POOL_TOUCHED, POOL_CREATED, POOL_OLD_N, POOL_OLD_INTS, POOL_OLD_FLOATS = 12, 13, 14, 15, 16
POOL_JOURNAL, POOL_COUNT = 17, 18
"""The capacity of the journal, and how many slots it has."""
POOL_INT_ROWS, POOL_FLOAT_ROWS = 19, 20
POOL_CAPACITY = 21
"""How many entries fit: less than the stride, the distance between two words of an entry."""
POOL_BANDS, MOST_BANDS = 22, 8
"""How many ordered indexes the function keeps up with the pool, and then the addresses of their blocks."""
POOL_SIZE = 23 + MOST_BANDS

SLICE_WORDS, SLICE_NULLS, SLICE_MAP = 0, 1, 2
"""Words of the slice's keys; null bits among them; the address of where each comes from."""
SLICE_KEYS, SLICE_STRIDE, SLICE_TABLE, SLICE_MASK, SLICE_MARK, SLICE_STATE = 3, 4, 5, 6, 7, 8
SLICE_N, SLICE_MULTIPLIERS, SLICE_HEADS, SLICE_NEXTS, SLICE_PREVS, SLICE_GROUPS = 9, 10, 11, 12, 13, 14
SLICE_SCRATCH, SLICE_CAPACITY = 15, 16
SLICE_SIZE = 17


@njit(forceinline=True)
def take_slot(mark: int, state: int) -> int:
    """A slot for a new entry, for which there is room."""
    slot = ld(state, 1)
    if slot >= 0:
        st(state, 1, -2 - ld32(mark, slot))
    else:
        slot = ld(state, 0)
        st(state, 0, slot + 1)
    st(state, 2, ld(state, 2) + 1)
    return int(slot)


# -- slices ----------------------------------------------------------------------------------------


@njit
def link_slices(pool: int, slot: int) -> None:
    """Enter a new slot into all slices of its pool."""
    keys, cap = ld(pool, 0), ld(pool, 1)
    for i in range(ld(pool, 9)):
        _link(ld(pool, 10) + 8 * 17 * i, keys, cap, slot)


@njit
def _link(b: int, keys: int, cap: int, slot: int) -> None:
    words, source, scratch = ld(b, 0), ld(b, 2), ld(b, 15)
    for j in range(words):
        row = ld(source, j)
        st(scratch, j, ld(keys, row * cap + slot) if row >= 0 else 0)
    at = source + 8 * words
    for _ in range(ld(b, 1)):
        bit = (ld(keys, ld(at, 0) * cap + slot) >> ld(at, 1)) & 1
        st(scratch, ld(at, 2), ld(scratch, ld(at, 2)) | (bit << ld(at, 3)))
        at += 32
    multipliers = ld(b, 10)
    h = np.uint64(0)
    for j in range(words):
        h += np.uint64(ld(scratch, j)) * np.uint64(ld(multipliers, j))
    tag = finish(h)
    own, own_cap, table, mask = ld(b, 3), ld(b, 4), ld(b, 5), ld(b, 6)
    place = (tag >> 32) & mask
    group = np.int64(-1)
    while True:
        cell = ld(table, place)
        if cell == 0:
            break
        if (cell & HIGH) == tag:
            found = (cell & LOW) - 1
            same = True
            for j in range(words):
                if ld(own, j * own_cap + found) != ld(scratch, j):
                    same = False
            if same:
                group = found
                break
        place = (place + 1) & mask
    n = ld(b, 9)
    if group < 0:
        group = take_slot(ld(b, 7), ld(b, 8))
        st32(ld(b, 7), group, 0)
        st(table, place, tag | (group + 1))
        for j in range(words):
            st(own, j * own_cap + group, ld(scratch, j))
    heads, nexts, prevs, groups = ld(b, 11), ld(b, 12), ld(b, 13), ld(b, 14)
    first = ld32(heads, group) if ld(n, group) > 0 else -1
    st32(nexts, slot, first)
    st32(prevs, slot, -1)
    if first >= 0:
        st32(prevs, first, slot)
    st32(heads, group, slot)
    st32(groups, slot, group)
    st(n, group, ld(n, group) + 1)


# -- room and journal ------------------------------------------------------------------------------


@njit
def room(pool: int) -> int:
    """How many upserts find room for a new entry, in the pool, its slices and its journal."""
    left = min(ld(pool, 21) - ld(ld(pool, 5), 2), ld(pool, 17) - ld(pool, 18))
    for i in range(ld(pool, 9)):
        b = ld(pool, 10) + 8 * 17 * i
        left = min(left, ld(b, 16) - ld(ld(b, 8), 2))
    for i in range(ld(pool, 22)):
        b = ld(pool, 23 + i)
        left = min(left, ld(b, 10) - ld(ld(b, 6), 0))
    st(pool, 11, left)
    return int(left)


@njit
def remember(pool: int, slot: int, created: int) -> None:
    """Put a slot into the journal, with the values that it has."""
    count, journal, cap = ld(pool, 18), ld(pool, 17), ld(pool, 1)
    st(ld(pool, 12), count, slot)
    st8(ld(pool, 13), count, created)
    st(ld(pool, 14), count, ld(ld(pool, 6), slot))
    for j in range(ld(pool, 19)):
        st(ld(pool, 15), j * journal + count, ld(ld(pool, 7), j * cap + slot))
    for j in range(ld(pool, 20)):
        stf(ld(pool, 16), j * journal + count, ldf(ld(pool, 8), j * cap + slot))
    st32(ld(pool, 4), slot, count)
    st(pool, 18, count + 1)


# -- sums ------------------------------------------------------------------------------------------


@njit(forceinline=True)
def add_count(at: int, index: int, delta: int) -> int:
    """Add to a count; 1 if it overflows."""
    s, bad = add_checked(ld(at, index), delta)
    st(at, index, s)
    return int(bad)


@njit(forceinline=True)
def add_wide(at: int, cap: int, slot: int, delta: int) -> int:
    """Add a word to a two-word integer, its high word at `slot` and its low one `cap` behind; 1 if it
    overflows."""
    x = np.uint64(ld(at, cap + slot))
    y = x + np.uint64(delta)
    high, bad = add_checked(ld(at, slot), (delta >> 63) + (1 if y < x else 0))
    st(at, cap + slot, np.int64(y))
    st(at, slot, high)
    return int(bad)


@njit
def add_cascade(at: int, cap: int, slot: int, ds: float, dc: float, dcc: float) -> int:
    """Add to a three-term sum; 1 if it has left the finite range."""
    t, error = two_sum(ldf(at, slot), ds)
    u, first = two_sum(ldf(at, cap + slot), dc)
    u, second = two_sum(u, error)
    stf(at, slot, t)
    stf(at, cap + slot, u)
    stf(at, 2 * cap + slot, ldf(at, 2 * cap + slot) + (dcc + (first + second)))
    return 0 if math.isfinite(t) else 1


# -- products --------------------------------------------------------------------------------------


@njit(error_model="numpy")
def _more(s: float, c: float, cc: float, x: float, y: float) -> tuple[float, float, float]:
    if x == 0.0 or y == 0.0:
        return s, c, cc
    p, e = two_product(x, y)
    s, e1 = two_sum(s, p)
    c, e2 = two_sum(c, e1)
    c, e3 = two_sum(c, e)
    return s, c, cc + (e2 + e3)


@njit(error_model="numpy")
def cascade_times(
    a0: float, a1: float, a2: float, b0: float, b1: float, b2: float
) -> tuple[float, float, float]:
    """The product of two three-term sums."""
    s, c, cc = _more(0.0, 0.0, 0.0, a0, b0)
    s, c, cc = _more(s, c, cc, a0, b1)
    s, c, cc = _more(s, c, cc, a0, b2)
    s, c, cc = _more(s, c, cc, a1, b0)
    s, c, cc = _more(s, c, cc, a1, b1)
    s, c, cc = _more(s, c, cc, a1, b2)
    s, c, cc = _more(s, c, cc, a2, b0)
    s, c, cc = _more(s, c, cc, a2, b1)
    s, c, cc = _more(s, c, cc, a2, b2)
    if not math.isfinite(s):
        c, cc = 0.0, 0.0
    return s, c, cc


# -- scalars ---------------------------------------------------------------------------------------


@njit(forceinline=True)
def float_less(a: float, b: float) -> bool:
    """a < b, where NaN is above all numbers."""
    return a < b or (a == a and b != b)


@njit(forceinline=True)
def float_same(a: float, b: float) -> bool:
    """a = b, where NaN is NaN."""
    return a == b or (a != a and b != b)


@njit(error_model="numpy")
def decimal_to_float(value: int, unit: int, power: float) -> float:
    """A decimal as a double; beyond 2**53 whole and fraction apart, as in `expr.casts`."""
    if -(1 << 53) <= value <= (1 << 53):
        return np.float64(value) / power + 0.0
    size = abs(value)
    far = np.float64(size // unit) + np.float64(size % unit) / power
    return -far if value < 0 else far


@njit
def half_away(value: int, unit: int) -> int:
    """value / unit rounded half away from zero, |value| far from the limits."""
    quotient = (abs(value) + unit // 2) // unit
    return -quotient if value < 0 else quotient


@njit
def quotient(a: int, b: int) -> int:
    """a / b cut towards zero, b not 0 and the result a word."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


@njit
def divisible(a: int, b: int) -> bool:
    """Whether `quotient` has an answer; not for the least word, which has no absolute value."""
    return b != 0 and a > -(1 << 63) and b > -(1 << 63)


@njit
def civil_part(days: int, part: int) -> int:
    """Year (0), month (1) or day (2) of a day number (`expr.civil`)."""
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 - 12 * (mp >= 10)
    if part == 0:
        return yoe + era * 400 + (month <= 2)
    if part == 1:
        return month
    return doy - (153 * mp + 2) // 5 + 1


@njit(forceinline=True)
def words_of_float(x: float) -> int:
    """The word of a double: its canonical bits."""
    from_ = x + 0.0
    return int(as_word(from_ if from_ == from_ else np.nan))
