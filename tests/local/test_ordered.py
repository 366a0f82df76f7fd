"""Ordered indexes against a sorted list: random batches, in blocks of 4 that split and merge all the time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from everfresh.algebra import Kind
from everfresh.local.order.ordered_index import OrderedIndex
from everfresh.local.store.components import wide_from_python, wide_to_python
from everfresh.local.store.pool import Layout
from everfresh.testing.sorted_list import SortedList

LOW, HIGH = -(1 << 63), (1 << 63) - 1
LAYOUT = Layout((Kind.COUNT, Kind.WIDE))
WORDS = 3

GROUPS = st.sampled_from([0, 1, 1, 2, LOW, HIGH])
VALUES = st.one_of(st.integers(-4, 12), st.sampled_from([LOW, HIGH]))
KEYS = st.tuples(GROUPS, VALUES, st.integers(0, 1))
COUNTS = st.integers(0, 5)
WIDES = st.sampled_from([0, 1, 7, (1 << 64) - 1, 1 << 64, 1 << 90])
ROWS = st.lists(
    st.tuples(st.sampled_from([1, 1, 1, 0, -1]), KEYS, st.integers(0, 1 << 40), COUNTS, WIDES), max_size=40
)
SIGNED = st.tuples(st.integers(-3, 5), st.sampled_from([-1, 1, 1 << 64, -(1 << 70)]))


def matrix(keys: list, words: int = WORDS) -> np.ndarray:
    return np.array(keys, np.int64).reshape(len(keys), words).T


def sums_of(pairs: list) -> np.ndarray:
    high, low = wide_from_python([p[1] for p in pairs])
    return np.array([np.array([p[0] for p in pairs], np.int64), high, low]).reshape(3, len(pairs))


def check_blocks(index: OrderedIndex) -> None:
    """What ordered_blocks promises about its arrays."""
    count = int(index._state[0])
    assert sorted(index._order.tolist()) == list(range(len(index._order)))
    fills = index._totals[index._order[:count], 0].tolist()
    assert sum(fills) == len(index)
    assert all(0 < fill <= index.block for fill in fills)
    assert not any(4 * a < index.block and 4 * b < index.block for a, b in pairwise(fills))
    entries = index._entries()
    keys = list(map(tuple, entries[: index.words].T.tolist()))
    assert keys == sorted(set(keys))
    ends = np.cumsum(fills, dtype=np.int64) - 1
    assert index._tops[:count].tolist() == [list(keys[e]) for e in ends]
    negative = (entries[index.words + 1 :] < 0).sum(axis=1)
    assert index._state[3:].tolist() == negative.tolist()


def check_tree(index: OrderedIndex) -> None:
    """With many blocks and small batches the tree is changed in place: it must agree with the entries."""
    entries, ranks = index._entries(), np.arange(len(index) + 1)
    assert (index.slots_at(ranks[:-1]) == entries[index.words]).all()
    assert (index.sums_before(ranks)[0, 1:] == np.cumsum(entries[index.words + 1])).all()


class Machine(RuleBasedStateMachine):
    """Batches go to both; all questions are asked after each."""

    block = 4

    def __init__(self) -> None:
        super().__init__()
        self.index, self.twin = OrderedIndex(WORDS, LAYOUT, block=self.block), SortedList(WORDS, LAYOUT)

    def both(self, what: str, *args: object) -> None:
        fast, slow = getattr(self.index, what)(*args), getattr(self.twin, what)(*args)
        if isinstance(fast, tuple):
            assert [x.tolist() for x in fast] == [x.tolist() for x in slow]
        else:
            assert fast.tolist() == slow.tolist()

    @rule(rows=ROWS)
    def mixed(self, rows: list) -> None:
        self.both(
            "apply",
            np.array([r[0] for r in rows], np.int64),
            matrix([r[1] for r in rows]),
            np.array([r[2] for r in rows], np.int64),
            sums_of([r[3:] for r in rows]),
        )

    @rule(rows=ROWS)
    def insert(self, rows: list) -> None:
        slots = np.array([r[2] for r in rows], np.int64)
        self.both("insert", matrix([r[1] for r in rows]), slots, sums_of([r[3:] for r in rows]))

    @rule(group=GROUPS, values=st.lists(VALUES, max_size=30))
    def insert_group(self, group: int, values: list) -> None:
        keys = matrix([(group, value, 0) for value in values])
        self.both("insert", keys, np.arange(len(values)), sums_of([(1, 1 << 63)] * len(values)))

    @rule(data=st.data())
    def remove_some(self, data: st.DataObject) -> None:
        keys = [key for key, _, _ in self.twin.entries]
        if keys:
            self.both("remove", matrix(data.draw(st.lists(st.sampled_from(keys), max_size=30))))

    @rule()
    def remove_all_backwards(self) -> None:
        self.both("remove", matrix([key for key, _, _ in self.twin.entries][::-1]))

    @rule(data=st.data(), delta=SIGNED)
    def add_signed(self, data: st.DataObject, delta: tuple) -> None:
        keys = [key for key, _, _ in self.twin.entries]
        if keys:
            self.both("add", matrix([data.draw(st.sampled_from(keys))]), sums_of([delta]))

    @rule()
    def clear(self) -> None:
        self.index.clear()
        self.twin.clear()

    @rule()
    def rebuild(self) -> None:
        keys, slots, sums = (
            (list(x) for x in zip(*self.twin.entries, strict=True)) if len(self.twin) else ([], [], [])
        )
        self.index.build(matrix(keys[::-1]), np.array(slots[::-1], np.int64), sums_of(sums[::-1]))

    @rule(keys=st.lists(KEYS, min_size=1, max_size=3), p=st.integers(0, 3), k=st.integers(-3, 5))
    def ask_keys(self, keys: list, p: int, k: int) -> None:
        given = matrix([key[:p] for key in keys], p)
        for after in (False, True):
            self.both("rank", given, after)
            self.both("prefix", given, after)
        self.both("first", given)
        self.both("last", given)
        self.both("nth", given, k)
        for count in (None, k):
            for descending in (False, True):
                self.both("slots", keys[0][:p], count, descending)

    @rule(low=KEYS, high=KEYS, p=st.integers(1, 3), q=st.integers(1, 3), a=st.booleans(), b=st.booleans())
    def ask_ranges(self, low: tuple, high: tuple, p: int, q: int, a: bool, b: bool) -> None:
        args = matrix([low[:p]], p), matrix([high[:q]], q), a, b
        self.both("range", *args)
        ranges = self.index.range(*args)
        self.both("between", *ranges)
        self.both("sums_between", *ranges)

    @rule(shift=st.integers(-1, 1), start=st.integers(-1, 20), strict=st.booleans(), data=st.data())
    def ask_sums(self, shift: int, start: int, strict: bool, data: st.DataObject) -> None:
        """Thresholds that are hit exactly, or missed by one."""
        ends = np.arange(start, len(self.twin) + 1).clip(0)
        sums = self.twin.sums_between(np.full(len(ends), max(start, 0)), ends)
        counts, wides = sums[0].tolist(), wide_to_python(sums[1], sums[2])
        for component, values in enumerate((counts, wides)):
            wanted = [v + shift for v in values] + [0, HIGH, LOW]
            self.both("find", component, wanted, strict, start)

    @invariant()
    def agree(self) -> None:
        n = len(self.twin)
        assert len(self.index) == n
        check_blocks(self.index)
        ranks = np.arange(-1, n + 2)
        self.both("slots_at", ranks)
        self.both("keys_at", ranks)
        self.both("sums_before", ranks)
        self.both("total")
        self.both("slots")


class LargeBlocks(Machine):
    """The default block size: all that is here fits one block or two."""

    block = 256


TestBlocksOfFour = Machine.TestCase
TestLargeBlocks = LargeBlocks.TestCase


@pytest.mark.parametrize("seed", range(5))
def test_taking_out_by_slot_is_removing_the_keys(seed: int) -> None:
    random = np.random.default_rng(seed)
    slots = random.permutation(200)
    stored = random.integers(0, 5, (2, 200))
    inside = np.zeros(200, np.bool_)
    inside[slots[:120]] = True
    keys = np.concatenate([stored, np.arange(200)[None]])
    fast, slow = (OrderedIndex(3, LAYOUT, block=4) for _ in range(2))
    for index in (fast, slow):
        index.insert(keys[:, inside], np.flatnonzero(inside), sums_of([(1, int(s)) for s in keys[0, inside]]))
    while inside.any():
        some = np.unique(random.integers(0, 260, 40))  # some are not inside, some are beyond
        gone = np.array([s for s in some if s < 200 and inside[s]], np.int64)
        fast.take_out(some, stored, inside)
        slow.remove(keys[:, gone])
        assert not inside[gone].any()
        assert len(fast) == inside.sum()
        assert np.array_equal(fast._entries(), slow._entries())
        check_blocks(fast)
        check_tree(fast)


@pytest.mark.parametrize("block", [4, 16, 256])
@pytest.mark.parametrize("order", ["up", "down", "random"])
def test_many_keys_and_back(block: int, order: str) -> None:
    rng = np.random.default_rng(1)
    n = 3000
    keys = np.arange(n) if order == "up" else np.arange(n)[::-1] if order == "down" else rng.permutation(n)
    index = OrderedIndex(1, Layout((Kind.COUNT,)), block=block)
    for part in np.array_split(keys, 300):
        assert (index.insert(part[None], 10 * part, part[None]) == -1).all()
        check_tree(index)
    assert index.slots().tolist() == list(range(0, 10 * n, 10))
    assert index.find(0, [n * (n - 1) // 2]).tolist() == [n - 1]
    check_blocks(index)
    full = index.nbytes
    gone = rng.permutation(n)[: n - 20]
    for part in np.array_split(gone, 300):
        assert index.remove(part[None]).tolist() == (10 * part).tolist()
        check_blocks(index)
        check_tree(index)
    assert len(index) == 20
    if block < 256:
        assert index.nbytes < full / 20


def test_ascending_inserts_fill_blocks() -> None:
    index = OrderedIndex(1, block=8)
    index.build(np.array([[0]]), np.array([0]))
    for i in range(1, 81):
        index.insert(np.array([[i]]), np.array([i]))
    assert int(index._state[0]) == -(-81 // 8)


def test_a_key_that_comes_twice_keeps_its_first_slot() -> None:
    for m in (3, 3000):  # one by one, and by sorting
        index = OrderedIndex(1, block=4)
        keys = np.array([[5] * m])
        assert index.insert(keys, np.arange(m)).tolist() == [-1] + [0] * (m - 1)
        assert index.slots().tolist() == [0]
    with pytest.raises(ValueError, match="same key"):
        index.build(np.array([[1, 1]]), np.array([1, 2]))


def test_in_and_out_within_one_batch() -> None:
    index = OrderedIndex(1)
    ops = np.array([1, -1, -1, 1, 1, -1, 1])
    assert index.apply(ops, np.array([[7] * 7]), np.arange(7)).tolist() == [-1, 0, -1, -1, 3, 3, -1]
    assert index.slots().tolist() == [6]


@given(st.lists(st.integers(-(1 << 120), 1 << 120), min_size=1, max_size=12), st.booleans())
def test_wide_sums_carry(values: list, strict: bool) -> None:
    index = OrderedIndex(1, Layout((Kind.WIDE,)), block=4)
    index.insert(np.arange(len(values))[None], np.arange(len(values)), np.array(wide_from_python(values)))
    got = wide_to_python(*index.sums_before(np.arange(len(values) + 1)))
    totals = [sum(values[:i]) for i in range(len(values) + 1)]
    assert got == totals
    starts, stops = np.triu_indices(len(totals))
    between = wide_to_python(*index.sums_between(starts, stops))
    assert between == [totals[b] - totals[a] for a, b in zip(starts, stops, strict=True)]
    for target in totals:
        passed = [t > target if strict else t >= target for t in totals[1:]]
        want = passed.index(True) if True in passed else len(values)
        assert index.find(0, [target], strict).tolist() == [want]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="doubles"):
        OrderedIndex(1, Layout((Kind.FLOAT,)))
    with pytest.raises(ValueError, match="at least"):
        OrderedIndex(1, block=2)
    index = OrderedIndex(2)
    with pytest.raises(ValueError, match="key words"):
        index.remove(np.array([[1]]))
    with pytest.raises(ValueError, match="key words"):
        index.rank(np.zeros((3, 1), np.int64))
    with pytest.raises(ValueError, match="slots"):
        index.insert(np.zeros((2, 2), np.int64), np.array([1]))
    with pytest.raises(ValueError, match="sums"):
        index.add(np.zeros((2, 2), np.int64), np.zeros((1, 2), np.int64))
