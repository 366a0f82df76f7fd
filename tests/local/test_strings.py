"""Interned strings against a dictionary, over every form an Arrow array of strings can have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.local import strings as module
from everfresh.local.strings import Interner

TEXT = st.one_of(
    st.none(),
    st.sampled_from(["", "\0", "\0\0", "a", "a\0", "ä", "😀", "😀😀😀", "12345678", "123456789", "x" * 100]),
    st.text(max_size=20),
)
LISTS = st.lists(st.lists(TEXT, max_size=12), max_size=8)
MASKS = st.sampled_from([-1, 0])  # 0: all strings collide
FORMS = st.sampled_from(["list", "string", "large", "sliced", "chunked", "dictionary", "view"])


def arrow(strings: list[str | None], form: str) -> pa.Array | pa.ChunkedArray:
    if form == "large":
        return pa.array(strings, pa.large_string())
    if form == "sliced":  # an offset that is no multiple of 8, rows behind it, and NULLs around
        return pa.array([None, "before", "b", *strings, "after", None], pa.string())[3:-2]
    if form == "chunked":
        half = len(strings) // 2
        parts = [arrow(strings[:half], "sliced"), pa.array([], pa.string()), arrow(strings[half:], "string")]
        return pa.chunked_array(parts)
    if form == "dictionary":
        return pa.array(strings, pa.string()).dictionary_encode()
    return pa.array(strings, pa.string_view() if form == "view" else pa.string())


class Twin:
    """The slow twin."""

    def __init__(self) -> None:
        self.codes: dict[str | None, int] = {None: 0}

    def intern(self, strings: list[str | None]) -> list[int]:
        return [self.codes.setdefault(s, len(self.codes)) for s in strings]


@settings(deadline=None)
@given(LISTS, FORMS, st.sampled_from([1, 4, 64]), MASKS)
def test_codes_equal_the_dictionary(
    batches: list[list[str | None]], form: str, capacity: int, mask: int
) -> None:
    interner, twin = Interner(capacity, _tag_mask=mask), Twin()
    for batch in batches:
        codes = interner.intern_list(batch) if form == "list" else interner.intern(arrow(batch, form))
        assert codes.dtype == np.int64
        assert codes.tolist() == twin.intern(batch)
        assert interner.strings(codes) == batch
        assert interner.decode(codes).equals(pa.array(batch, pa.string()))
        interner.decode(codes).validate(full=True)
        assert len(interner) == len(twin.codes) - 1


@settings(deadline=None)
@given(LISTS, st.lists(st.integers(0, 200), max_size=20), MASKS)
def test_compact_keeps_the_live_strings(batches: list[list[str | None]], picks: list[int], mask: int) -> None:
    interner = Interner(4, _tag_mask=mask)
    for batch in batches:
        interner.intern_list(batch)
    live = np.array([p % (len(interner) + 1) for p in picks], dtype=np.int64)
    before = interner.strings(live)
    total = len(interner)
    remap = interner.compact(live)
    assert len(remap) == total + 1
    assert interner.strings(remap[live]) == before
    assert len(interner) == len(set(before) - {None}) == np.count_nonzero(remap)
    assert remap[remap > 0].tolist() == list(range(1, len(interner) + 1))  # the order stays
    assert interner.intern_list(before).tolist() == remap[live].tolist()


@settings(deadline=None)
@given(LISTS, st.lists(TEXT), MASKS)
def test_a_snapshot_restores_the_dictionary(
    batches: list[list[str | None]], later: list[str | None], mask: int
) -> None:
    interner = Interner(4, _tag_mask=mask)
    for batch in batches:
        interner.intern_list(batch)
    arrays = interner.to_arrays("s/")
    for array in arrays.values():
        array.flags.writeable = False
    copy = Interner.from_arrays(arrays, "s/")
    everything = np.arange(len(interner) + 1)
    assert copy.strings(everything) == interner.strings(everything)
    assert copy.intern_list(later).tolist() == interner.intern_list(later).tolist()


def test_many_distinct_strings() -> None:
    strings = [f"customer number {i * 7919 % 100_003}" for i in range(100_000)]
    interner = Interner()
    codes = interner.intern_list(strings)
    assert codes.tolist() == list(range(1, 100_001))
    assert interner.intern_list(strings[::-1]).tolist() == list(range(100_000, 0, -1))
    assert interner.strings(codes) == strings
    assert len(interner) == 100_000
    at = np.flatnonzero(interner._table)
    assert np.mean((at - (interner._table[at] >> 32)) & (len(interner._table) - 1)) < 1
    assert interner.nbytes < 10_000_000
    interner.compact(codes[:10])
    assert interner.nbytes < 10_000


def test_strings_that_differ_only_in_nul_bytes_or_length() -> None:
    strings = ["\0" * i for i in range(40)]
    assert Interner(_tag_mask=0).intern_list(strings).tolist() == list(range(1, 41))
    assert Interner().intern_list(strings).tolist() == list(range(1, 41))


def test_one_string_longer_than_the_heap() -> None:
    interner = Interner(2)
    assert interner.intern_list(["x" * 10_000, "y", "x" * 10_000]).tolist() == [1, 2, 1]


def test_more_than_arrow_holds_in_one_string_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ARROW", 10)
    interner = Interner()
    codes = interner.intern_list(["sixteen bytes...", None])
    assert interner.decode(codes).type == pa.large_string()
    assert interner.decode(codes).to_pylist() == ["sixteen bytes...", None]


@pytest.mark.parametrize("code", [-1, 2])
def test_unknown_codes(code: int) -> None:
    interner = Interner()
    interner.intern_list(["a"])
    with pytest.raises(IndexError):
        interner.decode(np.array([code]))


def test_nothing() -> None:
    interner = Interner()
    assert interner.intern_list([]).tolist() == []
    assert interner.intern(pa.chunked_array([], pa.string())).tolist() == []
    assert interner.decode(np.array([], dtype=np.int64)).to_pylist() == []
    assert interner.intern_list([None, None]).tolist() == [0, 0]
    assert interner.compact(np.array([0])).tolist() == [0]


@pytest.mark.parametrize("mask", [-1, 0])
def test_short_strings_that_are_remembered(mask: int) -> None:
    """More of them than there is room for, in many batches; and none with its old code after a compaction."""
    random, interner, twin = np.random.default_rng(7), Interner(_tag_mask=mask), Twin()
    few = [f"{i:x}" for i in range(module._RECENT * (4 if mask else 1))] + [
        "",
        "\0",
        "\0\0",
        "1234567",
        "12345678",
    ]
    for _ in range(20):
        batch = random.choice(few, 60).tolist()
        assert interner.intern_list(batch).tolist() == twin.intern(batch)
    known = list(twin.codes)[1:]
    codes = interner.intern_list(known)
    remap = interner.compact(codes[::2])
    assert interner.strings(remap[codes[::2]]) == known[::2]
    again = Twin()
    again.intern(known[::2])
    assert interner.intern_list(known).tolist() == again.intern(known)
