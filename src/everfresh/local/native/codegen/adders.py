"""The text of functions that find an entry of a map, or add to it."""

from __future__ import annotations

from collections.abc import Sequence

from everfresh.algebra import Kind
from everfresh.local.native.codegen.ranged import entering
from everfresh.local.native.runtime.helpers import POOL_ROOM
from everfresh.local.native.runtime.layout import BandUse
from everfresh.local.store.components import WORD
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.pool import _multipliers


def tag_of(words: Sequence[str]) -> str:
    """The code of the tag of some words."""
    by = _multipliers(len(words), WORD).view("uint64").tolist()
    terms = [f"np.uint64({w}) * np.uint64({c})" for w, c in zip(words, by, strict=True)]
    return f"finish({' + '.join(terms) or 'np.uint64(0)'})"


def rows_of(store: EntryStore) -> list[tuple[str, str, int]]:
    """Where the cells of a made row stand in a buffer: how to store each, in which matrix, in which row."""
    found = [("st", "words", j) for j in range(store.codec.words + 1)]
    ints, floats = store.codec.words + 1, 0
    for kind in store.layout.kinds:
        if kind == Kind.FLOAT:
            found += [("stf", "floats", floats + i) for i in range(3)]
            floats += 3
        else:
            found.append(("st", "words", ints))
            ints += 1
    return found


def adder(
    name: str, store: EntryStore, place: int, bands: Sequence[BandUse] = (), followed: Sequence[BandUse] = ()
) -> str:
    """The function that adds a row to a map, with its journal, slices, and what keeps it in order (of
    `followed`, where it is there); `place` is that of the map's block of words."""
    keys = [f"k{j}" for j in range(store.codec.words)]
    same = " and ".join(f"ld(keys, {j} * cap + slot) == {k}" for j, k in enumerate(keys)) or "True"
    args, adds = [*keys, "dn"], []
    for i, (kind, row) in enumerate(zip(store.layout.kinds, store.layout.offsets, strict=True)):
        if kind == Kind.COUNT:
            args.append(f"d{i}")
            adds.append(f"bad |= add_count(ld(P, 7), {row} * cap + slot, d{i})")
        elif kind == Kind.WIDE:
            args.append(f"d{i}")
            adds.append(f"bad |= add_wide(ld(P, 7) + 8 * {row} * cap, cap, slot, d{i})")
        else:
            args += [f"d{i}s", f"d{i}c", f"d{i}cc"]
            adds.append(f"bad |= add_cascade(ld(P, 8) + 8 * {row} * cap, cap, slot, d{i}s, d{i}c, d{i}cc)")
    for band in bands:
        adds += entering(band, place)
    for band in followed:
        adds.append(f"if ld(P, {band.place - place}) != 0:")
        adds += (f"    {line}" for line in entering(band, place))
    stores = "\n        ".join(f"st(keys, {j} * cap + slot, {k})" for j, k in enumerate(keys)) or "pass"
    lines = "\n    ".join(adds) or "pass"
    return f"""
@njit
def {name}(P, {", ".join(args)}):
    keys, cap, table, mask, mark = ld(P, 0), ld(P, 1), ld(P, 2), ld(P, 3), ld(P, 4)
    tag = {tag_of(keys)}
    at = (tag >> 32) & mask
    slot = np.int64(-1)
    while True:
        cell = ld(table, at)
        if cell == 0:
            break
        if (cell & -4294967296) == tag:
            slot = (cell & 4294967295) - 1
            if {same}:
                break
            slot = np.int64(-1)
        at = (at + 1) & mask
    if slot < 0:
        slot = take_slot(mark, ld(P, 5))
        st(table, at, tag | (slot + 1))
        {stores}
        remember(P, slot, 1)
        if ld(P, 9) != 0:
            link_slices(P, slot)
    else:
        place = ld32(mark, slot)
        if place >= ld(P, 18) or ld(ld(P, 12), place) != slot:
            remember(P, slot, 0)
    st(P, {POOL_ROOM}, ld(P, {POOL_ROOM}) - 1)
    bad = add_count(ld(P, 6), slot, dn)
    {lines}
    return bad
"""


def finder(name: str, key: Sequence[int]) -> str:
    """The function that finds the slot of an entry by the words at some places, -1 if there is none."""
    args = "".join(f", a{j}" for j in range(len(key)))
    same = " and ".join(f"ld(keys, {p} * cap + slot) == a{j}" for j, p in enumerate(key)) or "True"
    return f"""
@njit(forceinline=True)
def {name}(keys, cap, table, mask{args}):
    tag = {tag_of([f"a{j}" for j in range(len(key))])}
    at = (tag >> 32) & mask
    while True:
        cell = ld(table, at)
        if cell == 0:
            return np.int64(-1)
        if (cell & -4294967296) == tag:
            slot = (cell & 4294967295) - 1
            if {same}:
                return slot
        at = (at + 1) & mask
"""
