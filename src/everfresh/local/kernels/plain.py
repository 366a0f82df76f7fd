"""Twins of kernels by whole arrays: what runs in their place until they are compiled, where a loop over rows
in Python would take too long.

Each gives what the kernel of its name gives, and leaves the same arrays behind; a kernel that has none here
runs as it is written. Sums that might leave a word are left to the kernel's own loop, which knows when they
do. Dictionaries take the place of hash tables that a call makes for itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.local.jit.kernel import Inline, Kernel, kernel_of
from everfresh.local.kernels import (
    exact_products,
    hashing,
    interning,
    netting,
    pool_changes,
    pool_values,
    slice_links,
)
from everfresh.local.kernels import incoming as incoming_kernels
from everfresh.local.kernels.arrow_memory import BUFFERS, CHILDREN, NULLS, OFFSET
from everfresh.local.kernels.hashing import FREE, LIVE, TOP, Floats, Ints, Marks
from everfresh.local.native.runtime.memory import ld

Bools = NDArray[np.bool_]
_HIGH = np.int64(-1 << 32)
_LOW = np.int64((1 << 32) - 1)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_WORD = 1 << 64
_FEW = 24  # rows that are looked up one by one sooner than together


# -- hash index ------------------------------------------------------------------------------------


def _tags_of(words: Ints, rows: Ints, multipliers: Ints, start: int) -> Ints:
    picked = words[rows, start:].view(np.uint64) * multipliers.view(np.uint64)[:, None]
    h = picked.sum(axis=0, dtype=np.uint64)
    h ^= h >> np.uint64(32)
    h *= _MIX
    h ^= h >> np.uint64(15)
    tags: Ints = h.view(np.int64) & _HIGH
    return tags


def _cells(array: Any) -> memoryview[Any]:
    """The array as Python reads and writes single cells fastest."""
    return memoryview(array)


def _probed(keys: Ints, table: Ints, key: Ints, tags: Ints, words: Ints, rows: Ints, start: int) -> Ints:
    """The slot of each column of `words` from `start` on; below 0: -1 - (the empty cell where it belongs)."""
    mask = len(table) - 1
    out = np.empty(len(tags), np.int64)
    todo, at = np.arange(len(tags)), (tags >> 32) & mask
    pairs = [(keys[a], words[b, start:]) for a, b in zip(key.tolist(), rows.tolist(), strict=True)]
    while len(todo) > _FEW:
        cells = table[at]
        slots = (cells & _LOW) - 1
        found = (cells & _HIGH) == tags[todo]
        for stored, given in pairs:
            found &= stored[slots] == given[todo]
        empty = cells == 0
        found &= ~empty
        out[todo[found]] = slots[found]
        out[todo[empty]] = -1 - at[empty]
        on = ~(found | empty)
        todo, at = todo[on], (at[on] + 1) & mask
    for i, place in zip(todo.tolist(), at.tolist(), strict=True):
        out[i] = _slot_of(pairs, table, mask, tags.item(i), i, place)
    return out


def _slot_of(pairs: list[tuple[Ints, Ints]], table: Ints, mask: int, tag: int, i: int, at: int) -> int:
    """The same for one column, from a place of the table on."""
    while True:
        cell = table.item(at)
        if not cell:
            return -1 - at
        if (cell >> 32) == (tag >> 32):
            slot = (cell & 0xFFFFFFFF) - 1
            if all(stored.item(slot) == given.item(i) for stored, given in pairs):
                return slot
        at = (at + 1) & mask


def _rehash(table: Ints, bigger: Ints) -> None:
    mask, cells = len(bigger) - 1, _cells(bigger)
    for cell in table[table != 0].tolist():
        at = (cell >> 32) & mask
        while cells[at]:
            at = (at + 1) & mask
        cells[at] = cell


def _find(keys: Ints, table: Ints, key: Ints, words: Ints, rows: Ints, multipliers: Ints, out: Ints) -> None:
    tags = _tags_of(words, rows, multipliers, 0)
    np.maximum(_probed(keys, table, key, tags[: len(out)], words, rows, 0), -1, out=out)


def _locate(
    keys: Ints,
    table: Ints,
    key: Ints,
    words: Ints,
    multipliers: Ints,
    tags: Ints,
    slots: Ints,
    first: Ints,
) -> int:
    tags[:] = _tags_of(words, key, multipliers, 0)
    np.maximum(_probed(keys, table, key, tags, words, key, 0), -1, out=slots)
    seen: dict[Any, int] = {}
    first[:] = [seen.setdefault(value, i) for i, value in enumerate(_columns(words[key], len(slots)))]
    return int(np.count_nonzero((slots >= 0) | (first != np.arange(len(first)))))


def _columns(words: Ints, count: int) -> Iterable[Any]:
    """The columns of some words, as what a dictionary takes."""
    if len(words) == 1:
        return words[0].tolist()  # type: ignore[no-any-return]
    return zip(*words.tolist(), strict=True) if len(words) else [()] * count


def _judge(keys: Ints, words: Ints, weights: Ints, slots: Ints, first: Ints, keep: Bools) -> bool:
    m = len(slots)
    going, coming = np.full(m, -1, np.int64), np.full(m, -1, np.int64)
    gone, come = np.flatnonzero(weights < 0), np.flatnonzero(weights >= 0)
    keep[:] = True
    for some, into in ((gone, going), (come, coming)):
        if len(np.unique(first[some])) != len(some):
            return False
        into[first[some]] = some
    both = np.flatnonzero((going >= 0) & (coming >= 0))
    same = both[(words[:, going[both]] == words[:, coming[both]]).all(axis=0)]
    keep[going[same]] = keep[coming[same]] = False
    going[same] = coming[same] = -1
    left = going[going >= 0]
    if (slots[left] < 0).any() or (words[:, left] != keys[:, slots[left]]).any():
        return False
    return not (slots[coming[(coming >= 0) & (going < 0)]] >= 0).any()


def _taken(mark: Marks, state: Ints) -> int:
    slot = int(state[FREE])
    if slot >= 0:
        state[FREE] = -2 - int(mark[slot])
    else:
        slot = int(state[TOP])
        if slot == len(mark):
            return -1
        state[TOP] = slot + 1
    state[LIVE] += 1
    mark[slot] = 0
    return slot


def _insert_new(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    n: Ints,
    tags: Ints,
    words: Ints,
    start: int,
    slots: Ints,
) -> None:
    mask, cells, m, top = len(table) - 1, _cells(table), len(slots), state.item(TOP)
    if state[FREE] < 0:
        slots[:] = np.arange(top, top + m)
        mark[top : top + m] = 0
        state[TOP], state[LIVE] = top + m, state[LIVE] + m
    else:
        slots[:] = [_taken(mark, state) for _ in range(m)]
    for slot, tag in zip(slots.tolist(), tags[:m].tolist(), strict=True):
        at = (tag >> 32) & mask
        while cells[at]:
            at = (at + 1) & mask
        cells[at] = tag | (slot + 1)
    n[slots] = 1
    keys[:, slots] = words[:, start : start + len(slots)]


def _resolve(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    key: Ints,
    multipliers: Ints,
    words: Ints,
    start: int,
    count: int,
    slots: Ints,
    touched: Ints,
    created: Bools,
) -> tuple[int, int]:
    tags, m = _tags_of(words, key, multipliers, start), len(slots)
    found = _probed(keys, table, key, tags, words, key, start)
    new: dict[Any, int] = {}
    missing = np.flatnonzero(found < 0)
    mask, cells, end = len(table) - 1, _cells(table), m
    values = _columns(words[key][:, start + missing], len(missing))
    for i, tag, value in zip(missing.tolist(), tags[missing].tolist(), values, strict=True):
        slot = new.get(value, -1)
        if slot < 0:
            slot = _taken(mark, state)
            if slot < 0:
                end = start + i
                break
            at = (tag >> 32) & mask
            while cells[at]:
                at = (at + 1) & mask
            cells[at] = tag | (slot + 1)
            keys[:, slot] = words[:, start + i]
            new[value] = slot
        found[i] = slot
    got = found[: end - start]
    slots[start:end] = got
    # Each slot once, in order of first touch; those of an earlier call are there already.
    distinct, where = np.unique(got, return_index=True)
    place = mark[distinct]
    known = (place < count) & (touched[np.minimum(place, len(touched) - 1)] == distinct) if count else None
    is_new = np.isin(distinct, np.fromiter(new.values(), np.int64, len(new))) if new else None
    if known is not None:
        if is_new is not None:
            known &= ~is_new
        where = where[~known]
    where.sort()
    fresh = got[where]
    touched[count : count + len(fresh)] = fresh
    created[count : count + len(fresh)] = False if is_new is None else np.isin(fresh, distinct[is_new])
    mark[fresh] = np.arange(count, count + len(fresh))
    return end, count + len(fresh)


def _drop_empty(
    keys: Ints,
    table: Ints,
    mark: Marks,
    state: Ints,
    key: Ints,
    multipliers: Ints,
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
) -> None:
    gone = slots[(n[slots] == 0) & (mark[slots] >= 0)]
    if len(gone):
        own = kernel_of(pool_changes.drop_empty).py_func
        own(keys, table, mark, state, key, multipliers, n, ints, floats, gone)


# -- values ----------------------------------------------------------------------------------------


def _accumulate(
    n: Ints,
    ints: Ints,
    floats: Floats,
    kinds: Ints,
    slots: Ints,
    delta_n: Ints,
    delta_ints: Ints,
    delta_floats: Floats,
) -> int:
    failed = 1 if _add(n, slots, delta_n) < 0 else 0
    row, float_row = 0, 0
    for component, kind in enumerate(kinds.tolist()):
        if kind == 0:
            bad = _add(ints[row], slots, delta_ints[row])
            row += 1
        elif kind == 1:
            bad = _add_wide(ints[row], ints[row + 1], slots, delta_ints[row], delta_ints[row + 1])
            row += 2
        else:
            f = float_row
            terms = (*floats[f : f + 3], slots, *delta_floats[f : f + 3])
            bad = pool_values._add_cascade(*terms)
            float_row += 3
        if bad < 0 and failed == 0:
            failed = 2 + component
    return failed


def _add(target: Ints, slots: Ints, delta: Ints) -> int:
    return 0 if _add_within(target, slots, delta) else int(pool_values._add_checked(target, slots, delta))


def _add_within(target: Ints, slots: Ints, delta: Ints) -> bool:
    """Add, unless a sum on the way might not fit a word; whether it was done."""
    if len(slots):
        most = np.abs(target[slots].astype(np.float64)).max() + np.abs(delta.astype(np.float64)).sum()
        if most >= 2.0**62:
            return False
        np.add.at(target, slots, delta)
    return True


def _add_wide(high: Ints, low: Ints, slots: Ints, delta_high: Ints, delta_low: Ints) -> int:
    short = ((delta_low >> 63) == delta_high).all() and ((low[slots] >> 63) == high[slots]).all()
    if short and _add_within(low, slots, delta_low):
        high[slots] = low[slots] >> 63
        return 0
    sums: dict[int, int] = {}
    most = 0
    lows = delta_low.view(np.uint64).tolist()
    for slot, above, below in zip(slots.tolist(), delta_high.tolist(), lows, strict=True):
        value = (above << 64) | below
        most += abs(value)
        sums[slot] = sums.get(slot, 0) + value
    totals = {}
    for slot, value in sums.items():
        held = (int(high[slot]) << 64) | (int(low[slot]) % _WORD)
        most += abs(held)
        totals[slot] = held + value
    if most >= 1 << 126:
        return int(pool_values._add_wide(high, low, slots, delta_high, delta_low))
    at = list(totals)
    high[at] = [value >> 64 for value in totals.values()]
    low[at] = np.array([value % _WORD for value in totals.values()], np.uint64).view(np.int64)
    return 0


def _gather(matrix: Any, slots: Ints, top: int, out: Any) -> None:
    ok = (slots >= 0) & (slots < top)
    if ok.all():
        out[...] = matrix[..., slots]
    else:
        out[...] = 0
        out[..., ok] = matrix[..., slots[ok]]


def _gather_values(
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
    top: int,
    out_n: Ints,
    out_ints: Ints,
    out_floats: Floats,
) -> None:
    for source, out in ((n, out_n), (ints, out_ints), (floats, out_floats)):
        _gather(source, slots, top, out)


def _gather_entries(
    keys: Ints,
    n: Ints,
    ints: Ints,
    floats: Floats,
    slots: Ints,
    top: int,
    out: Ints,
    out_n: Ints,
    out_ints: Ints,
    out_floats: Floats,
) -> None:
    _gather(keys, slots, top, out)
    _gather_values(n, ints, floats, slots, top, out_n, out_ints, out_floats)


def _multiply(a: Ints, b: Ints, out: Ints) -> bool:
    np.multiply(a[: len(out)], b[: len(out)], out=out)
    return bool((np.abs(a.astype(np.float64) * b.astype(np.float64)) < 9.2e18).all())


def _split(x: Ints, high: Floats, low: Floats) -> None:
    small = (x >= -(1 << 53)) & (x <= 1 << 53)
    upper = x >> 32
    high[:] = np.where(small, x.astype(np.float64), upper.astype(np.float64) * 4294967296.0)
    low[:] = np.where(small, 0.0, (x - (upper << 32)).astype(np.float64))


def _net(words: Ints, weights: Ints, first: Ints, total: Ints) -> int:
    sums: dict[Any, list[int]] = {}
    for i, (value, weight) in enumerate(zip(_columns(words, len(weights)), weights.tolist(), strict=True)):
        known = sums.get(value)
        if known is None:
            sums[value] = [i, weight]
        else:
            known[1] += weight
    left = [(i, _wrapped(weight)) for i, weight in sums.values()]
    left = [each for each in left if each[1]]
    if left:
        first[: len(left)], total[: len(left)] = zip(*left, strict=True)
    return len(left)


def _wrapped(value: int) -> int:
    return (value + (_WORD >> 1)) % _WORD - (_WORD >> 1)


# -- chains ----------------------------------------------------------------------------------------


def _link(heads: Any, nexts: Any, prevs: Any, groups: Any, n: Ints, of: Ints, slots: Ints) -> None:
    heads, nexts, prevs, groups, counts = (_cells(x) for x in (heads, nexts, prevs, groups, n))
    for slot, group in zip(slots.tolist(), of.tolist(), strict=True):
        first = heads[group] if counts[group] > 0 else -1
        nexts[slot], prevs[slot] = first, -1
        if first >= 0:
            prevs[first] = slot
        heads[group], groups[slot] = slot, group
        counts[group] += 1


def _count(n: Ints, groups: Ints) -> int:
    return int(n[groups[groups >= 0]].sum())


def _fill(heads: Any, nexts: Any, groups: Ints, at: Ints, slots: Ints) -> None:
    firsts, following = _cells(heads), _cells(nexts)
    rows, found = [], []
    for i, group in enumerate(groups.tolist()):
        slot = firsts[group] if group >= 0 else -1
        while slot >= 0:
            rows.append(i)
            found.append(slot)
            slot = following[slot]
    at[: len(rows)], slots[: len(rows)] = rows, found


# -- batches where they lie ------------------------------------------------------------------------


def _seen(address: int, start: int, count: int, kind: Any) -> NDArray[Any]:
    """Memory as an array."""
    of = np.dtype(kind)
    size = of.itemsize * count
    if not count:
        return np.empty(0, of)
    raw = (ctypes.c_char * size).from_address(int(address) + of.itemsize * int(start))
    return np.frombuffer(raw, of)


def _bits(address: int, start: int, count: int) -> Bools:
    first = start >> 3
    whole = _seen(address, first, ((start + count + 7) >> 3) - first, np.uint8)
    return np.unpackbits(whole, bitorder="little")[start & 7 :][:count].astype(np.bool_)


_PLAIN = {
    incoming_kernels.INT64: np.int64,
    incoming_kernels.INT32: np.int32,
    incoming_kernels.INT16: np.int16,
    incoming_kernels.INT8: np.int8,
}
_PAIRS = (incoming_kernels.DECIMAL, incoming_kernels.WIDE)


def _words(array: int, columns: Ints, out: Ints) -> int:
    children, rows = ld(array, CHILDREN), out.shape[1]
    for c, (source, kind, first, mask, shift) in enumerate(columns[:, :5].tolist()):
        child = ld(children, source)
        buffers, start = ld(child, BUFFERS), ld(array, OFFSET) + ld(child, OFFSET)
        bits, data = ld(buffers, 0), ld(buffers, 1)
        if kind in _PLAIN:
            out[first] = _seen(data, start, rows, _PLAIN[kind])
        elif kind in _PAIRS:
            pairs = _seen(data, 2 * start, 2 * rows, np.int64)
            if kind == incoming_kernels.WIDE:
                out[first], out[first + 1] = pairs[1::2], pairs[::2]
            else:
                out[first] = pairs[::2]
        elif kind >= incoming_kernels.FLOAT:
            of = np.float64 if kind == incoming_kernels.DOUBLE else np.float32
            values = _seen(data, start, rows, of).astype(np.float64)
            values[values == 0.0] = 0.0
            found = values.view(np.int64)
            found[np.isnan(values)] = incoming_kernels._NAN
            out[first] = found
        elif kind == incoming_kernels.BIT:
            out[first] = _bits(data, start, rows)
        if bits == 0 or ld(child, NULLS) == 0:
            continue
        missing = ~_bits(bits, start, rows)
        if not missing.any():
            continue
        if mask < 0:
            return c
        out[mask, missing] |= np.int64(1) << np.int64(shift)
        if kind != incoming_kernels.TEXT:
            out[first, missing] = 0
        if kind == incoming_kernels.WIDE:
            out[first + 1, missing] = 0
    return len(columns)


def _put_over(given: Ints, lines: Ints, nulls: Ints, out: Ints) -> None:
    for source, target in lines.tolist():
        out[target] = given[source]
    for source, from_bit, target, to_bit in nulls.tolist():
        bit = np.int64(1) << np.int64(to_bit)
        out[target] = (out[target] & ~bit) | (((given[source] >> from_bit) & 1) << to_bit)


def _differing(both: Ints, out: Bools) -> int:
    out[:] = (both[:, : len(out)] != both[:, len(out) :]).any(axis=0)
    return int(np.count_nonzero(out))


def _lacking(slots: Ints) -> int:
    found = np.flatnonzero(slots < 0)
    return int(found[0]) if len(found) else -1


# -- strings ---------------------------------------------------------------------------------------


def _hash_bytes(start: int, size: int) -> np.int64:
    data, mix = ctypes.string_at(int(start), int(size)), int(_MIX)
    h, whole = int(size), size & ~7
    for at in range(0, whole, 8):
        h = ((h ^ int.from_bytes(data[at : at + 8], "little")) * mix) % _WORD
        h ^= h >> 32
    h = ((h ^ int.from_bytes(data[whole:], "big")) * mix) % _WORD
    h ^= h >> 32
    h = (h * mix) % _WORD
    h ^= h >> 15
    return np.int64(_wrapped(h) & int(_HIGH))


def _equal_bytes(a: int, b: int, size: int) -> bool:
    return ctypes.string_at(int(a), int(size)) == ctypes.string_at(int(b), int(size))


def _tail(at: int, end: int) -> np.uint64:
    return np.uint64(int.from_bytes(ctypes.string_at(int(at), int(end) - int(at)), "big"))


TWINS: dict[Kernel, Callable[..., Any]] = {
    kernel_of(hashing.tags_of): _tags_of,
    kernel_of(hashing.rehash): _rehash,
    kernel_of(hashing.find): _find,
    kernel_of(hashing.locate): _locate,
    kernel_of(pool_changes.judge): _judge,
    kernel_of(pool_changes.insert_new): _insert_new,
    kernel_of(pool_changes.resolve): _resolve,
    kernel_of(pool_changes.drop_empty): _drop_empty,
    kernel_of(pool_values.accumulate): _accumulate,
    kernel_of(pool_values.gather): _gather,
    kernel_of(pool_values.gather_values): _gather_values,
    kernel_of(pool_values.gather_entries): _gather_entries,
    kernel_of(interning._hash_bytes): _hash_bytes,
    kernel_of(interning._equal_bytes): _equal_bytes,
    kernel_of(interning._tail): _tail,
    kernel_of(exact_products.multiply): _multiply,
    kernel_of(exact_products.split): _split,
    kernel_of(netting._net): _net,
    kernel_of(slice_links.link): _link,
    kernel_of(slice_links.count): _count,
    kernel_of(slice_links.fill): _fill,
    kernel_of(incoming_kernels.words): _words,
    kernel_of(incoming_kernels.put_over): _put_over,
    kernel_of(incoming_kernels.differing): _differing,
    kernel_of(incoming_kernels.lacking): _lacking,
}

for _kernel, _twin in TWINS.items():
    if isinstance(_kernel, Inline):
        _kernel.run_by(_twin)
