"""Interned strings against a dictionary, over every form an Arrow array of strings can have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.local.store import strings as module
from everfresh.local.store.strings import Alive, Interner

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


def marked(interner: Interner, codes: np.ndarray) -> Alive:
    alive = interner.none_alive()
    alive[codes] = True
    return alive


@settings(deadline=None)
@given(LISTS, st.lists(st.integers(0, 200), max_size=20), MASKS)
def test_renumbered_strings_are_the_live_ones(
    batches: list[list[str | None]], picks: list[int], mask: int
) -> None:
    interner = Interner(4, _tag_mask=mask)
    for batch in batches:
        interner.intern_list(batch)
    live = np.array([p % (len(interner) + 1) for p in picks], dtype=np.int64)
    before = interner.strings(live)
    total = len(interner)
    fresh, remap = interner.renumbered(marked(interner, live))
    interner.become(fresh)
    assert len(remap) == total + 1
    assert interner.strings(remap[live]) == before
    assert len(interner) == len(set(before) - {None}) == np.count_nonzero(remap)
    assert remap[remap > 0].tolist() == list(range(1, len(interner) + 1))  # the order stays
    assert interner.intern_list(before).tolist() == remap[live].tolist()


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(TEXT, max_size=12), st.sets(st.integers(0, 20))), max_size=8), MASKS)
def test_what_is_not_used_is_freed_and_the_rest_stays(
    batches: list[tuple[list[str | None], set[int]]], mask: int
) -> None:
    """Codes in use are never given to another string, whatever has been freed before; free ones are used
    again, so that there are never more than were in use at once."""
    interner, held, most = Interner(4, _tag_mask=mask), dict[str, int](), 0
    for batch, goes in batches:
        codes = interner.intern_list(batch).tolist()
        for text, code in zip(batch, codes, strict=True):
            assert held.setdefault(text, code) == code if text is not None else code == 0
        assert len(set(held.values())) == len(held)
        assert interner.strings(np.array([*held.values()], np.int64)) == [*held]
        most = max(most, len(held))
        assert interner.top <= most
        gone = {text: held.pop(text) for i, text in enumerate([*held]) if i in goes}
        version = interner.version
        assert interner.reclaim(marked(interner, np.array([*held.values()], np.int64))) == len(gone)
        assert (interner.version > version) == bool(gone)
        assert len(interner) == len(held)
        assert interner.strings(np.array([*held.values()], np.int64)) == [*held]
        for code in gone.values():
            with pytest.raises(IndexError):
                interner.decode(np.array([code]))
        copy = Interner.from_arrays(interner.to_arrays())
        assert copy.intern_list([*held]).tolist() == [*held.values()]
        assert (len(copy), copy.top) == (len(interner), interner.top)


def test_a_code_that_was_freed_is_not_marked() -> None:
    interner = Interner()
    codes = interner.intern_list(["a", "b"])
    interner.reclaim(marked(interner, codes[1:]))
    with pytest.raises(IndexError, match="free"):
        interner.reclaim(marked(interner, codes))
    alive = marked(interner, codes[1:])
    interner.intern_list(["c", "d"])
    with pytest.raises(IndexError, match="just now"):
        interner.reclaim(alive)
    assert interner.strings(codes[1:]) == ["b"]


def test_memory_follows_the_strings_in_use() -> None:
    interner = Interner()
    sizes = []
    for window in range(20):
        codes = interner.intern_list([f"{window:02} of a sliding window {i:06}" for i in range(5000)])
        assert interner.reclaim(marked(interner, codes)) == (5000 if window else 0)
        assert interner.strings(codes[:2]) == [f"{window:02} of a sliding window {i:06}" for i in range(2)]
        sizes.append(interner.nbytes)
    assert interner.top <= 10_000
    assert max(sizes) < 2_000_000
    interner.reclaim(interner.none_alive())
    assert interner.nbytes < 1000


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
    table = interner._at.table
    at = np.flatnonzero(table)
    assert np.mean((at - (table[at] >> 32)) & (len(table) - 1)) < 1
    assert interner.nbytes < 12_000_000
    interner.reclaim(marked(interner, codes[:10]))
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
    assert interner.reclaim(interner.none_alive()) == 0
    assert interner.renumbered(interner.none_alive())[1].tolist() == [0]


@pytest.mark.parametrize("mask", [-1, 0])
def test_short_strings_that_are_remembered(mask: int) -> None:
    """More of them than there is room for, in many batches; and none with its code after it was freed."""
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
    interner.reclaim(marked(interner, codes[::2]))
    assert interner.strings(codes[::2]) == known[::2]
    assert interner.intern_list(known[1::2][::-1]).tolist() == sorted(codes[1::2].tolist())
    assert interner.strings(codes[::2]) == known[::2]
