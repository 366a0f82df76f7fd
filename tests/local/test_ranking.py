"""Order words against the order of Python values, and labels of strings against sorted bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.expr import Vector
from everfresh.local.order.ranking import Ordering, Ranks, SortKey, encode
from everfresh.local.store.codec import Codec
from everfresh.local.store.strings import Interner
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTERVAL,
    REAL,
    TIMESTAMP,
    VARCHAR,
    Column,
)

LOW, HIGH = -(1 << 63), (1 << 63) - 1
INT64 = st.one_of(st.integers(LOW, HIGH), st.sampled_from([LOW, HIGH, 0, -1]))
FLOATS = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324]))
WIDE = st.one_of(
    st.integers(-(1 << 127), (1 << 127) - 1), st.integers(-3, 3), st.sampled_from([1 << 63, 1 << 64])
)
TEXT = st.one_of(
    st.text(max_size=4), st.sampled_from(["", "Z", "a", "z", "ä", "a\x00", "\U0001f600", "\ue000"])
)
TYPES = {
    BIGINT: INT64,
    DATE: st.integers(-100000, 100000),
    TIMESTAMP: INT64,
    DECIMAL(15, 2): st.integers(-(10**15) + 1, 10**15 - 1),
    BOOLEAN: st.booleans(),
    DOUBLE: FLOATS,
    REAL: st.floats(width=32),
    HUGEINT: WIDE,
    DECIMAL(38, 4): st.integers(-(10**38) + 1, 10**38 - 1),
    VARCHAR: TEXT,
}


def sort_value(value: object) -> object:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def before(a: object, b: object, ascending: bool, nulls_first: bool) -> bool:
    """The slow twin: whether `a` sorts before `b`."""
    if a is None or b is None:
        return (a is None) != (b is None) and (a is None) == nulls_first
    return sort_value(a) < sort_value(b) if ascending else sort_value(b) < sort_value(a)


@pytest.mark.parametrize("type_", list(TYPES), ids=str)
@given(data=st.data(), ascending=st.booleans(), nulls_first=st.booleans())
def test_words_order_as_values(
    data: st.DataObject, type_: object, ascending: bool, nulls_first: bool
) -> None:
    values = data.draw(st.lists(st.one_of(st.none(), TYPES[type_]), max_size=8))
    interner = Interner()
    ranks = Ranks(interner)
    vector = Vector.from_pylist(values, type_)
    words = list(map(tuple, encode(vector, ascending, nulls_first, ranks).T.tolist()))
    column = Column("x", type_, nullable=True)
    codec = Codec([column], interner)
    pool_words = codec.encode_vectors([vector], len(values))
    ordering = Ordering(codec, [SortKey("x", ascending, nulls_first)], ranks)
    assert list(map(tuple, ordering.encode(pool_words).T.tolist())) == words
    assert len(ordering.encode(pool_words)) == ordering.words
    for a, x in zip(values, words, strict=True):
        for b, y in zip(values, words, strict=True):
            assert (x < y) == before(a, b, ascending, nulls_first), (a, b)


def test_minus_zero_and_nan() -> None:
    words = encode(Vector.from_pylist([-0.0, 0.0, math.nan, math.inf, -math.nan], DOUBLE))[1].tolist()
    assert words[0] == words[1]
    assert words[2] == words[4] > words[3]


def test_keys_that_are_not_null_take_no_null_word() -> None:
    interner = Interner()
    codec = Codec([Column("s", VARCHAR, nullable=False), Column("w", HUGEINT, nullable=True)], interner)
    ordering = Ordering(codec, [SortKey("w", ascending=False), SortKey("s")], Ranks(interner))
    vectors = [Vector.from_pylist(["b", "a", "c"], VARCHAR), Vector.from_pylist([5, 5, None], HUGEINT)]
    words = ordering.encode(codec.encode_vectors(vectors, 3))
    assert ordering.words == len(words) == 4
    assert sorted(range(3), key=lambda i: tuple(words[:, i].tolist())) == [1, 0, 2]


def test_what_has_no_order_is_refused() -> None:
    interner = Interner()
    with pytest.raises(ValueError, match="intervals"):
        encode(Vector.from_pylist([(0, 1, 2)], INTERVAL))
    with pytest.raises(ValueError, match="ranks"):
        encode(Vector.from_pylist(["a"], VARCHAR))
    with pytest.raises(ValueError, match="ranks"):
        Ordering(Codec([Column("s", VARCHAR, nullable=True)], interner), [SortKey("s")])


def sorted_by_label(ranks: Ranks, strings: set) -> list:
    names = list(strings)
    labels = ranks.labels(ranks.interner.intern_list(names)).tolist()
    assert len(set(labels)) == len(labels)
    assert 0 not in labels
    return [name for _, name in sorted(zip(labels, names, strict=True))]


@given(st.lists(st.lists(TEXT, max_size=6), max_size=12), st.sampled_from([(1 << 36, 1 << 62), (4, 1 << 7)]))
def test_labels_order_as_bytes(batches: list, sizes: tuple) -> None:
    interner = Interner()
    ranks = Ranks(interner, gap=sizes[0], space=sizes[1])
    seen: set = set()
    for batch in batches:
        interner.intern_list([f"unasked {len(seen)}"])
        version, known = ranks.version, sorted(seen)
        old = ranks.labels(interner.intern_list(known)).tolist()
        ranks.labels(interner.intern_list([*batch, None]))
        seen |= set(batch)
        assert sorted_by_label(ranks, seen) == sorted(seen, key=str.encode)
        if ranks.version == version:
            assert ranks.labels(interner.intern_list(known)).tolist() == old
    assert len(ranks._order) == len(seen)


@pytest.mark.parametrize("shape", ["up", "down", "inside"])
def test_one_string_at_a_time(shape: str) -> None:
    """At the ends labels last; inside, a gap halves with each string until all labels are given anew."""
    interner = Interner()
    ranks = Ranks(interner)
    names = {"up": "k{:05d}", "down": "k{:05d}", "inside": "b{:05d}"}[shape]
    ranks.labels(interner.intern_list(["a", "c"] if shape == "inside" else ["k"]))
    count = 300
    for i in range(count):
        ranks.labels(interner.intern_list([names.format(count - i if shape == "down" else i)]))
    assert ranks.version == 0 if shape == "up" else ranks.version <= count // 30
    strings = {names.format(i) for i in range(count + 1)}
    assert sorted_by_label(ranks, strings) == sorted(strings)


def test_labels_after_strings_were_freed() -> None:
    """The labels of those that stay do not change; a code that is used again has one of its new string."""
    interner = Interner()
    ranks = Ranks(interner)
    codes = interner.intern_list(["c", "b", "a"])
    c, _, a = ranks.labels(codes).tolist()
    alive = interner.none_alive()
    alive[codes[[0, 2]]] = True
    interner.reclaim(alive)
    assert len(ranks._order) == 2
    assert ranks.labels(codes[[0, 2]]).tolist() == [c, a]
    again = interner.intern_list(["d", "aa"])
    assert again[0] == codes[1]
    d, between = ranks.labels(again).tolist()
    assert a < between < c < d
    assert ranks.codes(np.array([a, between, c, d])).tolist() == [codes[2], again[1], codes[0], again[0]]
    assert ranks.version == 0
    interner.reclaim(interner.none_alive())
    assert len(ranks._order) == 0
    interner.intern_list(["y", "x"])
    with pytest.raises(MemoryError):
        Ranks(interner, gap=1, space=2).labels(np.array([1, 2]))
