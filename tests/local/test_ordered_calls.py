"""One key at a time in compiled code against the methods of an index that take many."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from everfresh.local import ordered_calls as calls
from everfresh.local.ordered import OrderedIndex
from everfresh.local.pool import Kind, Layout, wide_from_python

LAYOUT = Layout((Kind.COUNT, Kind.WIDE))
KEYS = st.tuples(st.integers(0, 2), st.integers(-3, 6))
SUMS = st.tuples(st.integers(0, 5), st.one_of(st.integers(0, 9), st.just(1 << 70)))


def columns(sums: tuple[int, int]) -> np.ndarray:
    high, low = wide_from_python([sums[1]])
    return np.array([[sums[0]], high.tolist(), low.tolist()])


@given(st.lists(st.tuples(KEYS, st.one_of(st.none(), SUMS)), max_size=40), KEYS, st.integers(0, 1 << 71))
def test_one_at_a_time_is_as_many(ops: list, asked: tuple[int, int], value: int) -> None:
    one, many = (OrderedIndex(2, LAYOUT, block=4) for _ in range(2))
    one._grow(64)
    out = np.zeros(1, np.int64)
    live: dict = {}
    for number, (key, sums) in enumerate(ops):
        words, slot = np.array([key]).T.copy(), np.array([number])
        if sums is None:
            there = calls.remove(*one.arrays, words, slot, np.zeros((3, 1), np.int64), out)
            assert there == (live.pop(key, None) is not None)
            many.remove(words)
            continue
        slot = np.array([live.get(key, (number, 0))[0]])
        assert calls.put(*one.arrays, words, slot, columns(sums), out)
        live[key] = int(slot[0]), sums
        many.remove(words)
        many.insert(words, slot, columns(sums))
    words = np.array([asked]).T.copy()
    scratch, found = np.zeros((1, 4), np.int64), np.zeros((1, 4), np.int64)
    for length in (0, 1, 2):
        for after in (False, True):
            rank = calls.rank_of(*one.arrays, words, 0, length, after)
            if length:
                assert rank == many.rank(words[:length], after)[0]
            calls.sums_below(*one.arrays, words, 0, length, after, scratch, found, 0)
            assert found[0].tolist() == [rank, *many.sums_before(np.array([rank]))[:, 0].tolist()]
    high, low = wide_from_python([value])
    for strict in (False, True):
        rank = calls.sum_reaches(*one.arrays, 2, True, high[0], low[0], strict)
        assert rank == many.find(1, [value], strict)[0]
    assert calls.grows(one.arrays[6], 2)
    slots, keys = [], []
    data, totals, order, _, tree, _, state = one.arrays
    place = calls.range_first(tree, state, 0)
    for _ in range(len(one)):
        slots.append(calls.slot_of(data, order, 2, *place))
        keys.append((calls.word_of(data, order, 0, *place), calls.word_of(data, order, 1, *place)))
        place = calls.range_next(totals, order, *place)
    assert keys == sorted(live)
    assert slots == [live[key][0] for key in keys] == many.slots().tolist()
