"""Pools against a dictionary: random histories, in small pools that grow, wrap around and collide."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.algebra import Kind
from everfresh.errors import Code, EverfreshError
from everfresh.local.store.components import float_total, wide_from_python, wide_to_python
from everfresh.local.store.pool import Layout, Pool, Touched, Values

LAYOUT = Layout((Kind.WIDE, Kind.FLOAT, Kind.COUNT))
LOW, HIGH = -(1 << 63), (1 << 63) - 1

WORDS = st.sampled_from([0, 1, 2, 3, 1 << 40, 3 << 40, LOW, HIGH, -1])
ROW = st.tuples(
    st.tuples(WORDS, st.sampled_from([0, 1])),
    st.sampled_from([-2, -1, 0, 1, 1, 2]),
    st.sampled_from([0, 1, -1, 1 << 64, -(1 << 64), (1 << 64) - 1, 1 << 90]),
    st.sampled_from([0.0, 0.5, -0.25, 1024.0]),
    st.integers(-5, 5),
)
ROWS = st.lists(ROW, max_size=12)
OPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["commit", "rollback", "put", "insert", "twice"]), ROWS),
        st.tuples(st.sampled_from(["remove"]), st.lists(st.integers(0, 100), max_size=6)),
        st.tuples(st.sampled_from(["snapshot", "clear"]), st.just([])),
    ),
    max_size=14,
)


def values_of(rows: list) -> Values:
    out = Values.zeros(LAYOUT, len(rows))
    out.n[:] = [r[1] for r in rows]
    out.ints[0], out.ints[1] = wide_from_python([r[2] for r in rows])
    out.floats[0] = [r[3] for r in rows]
    out.ints[2] = [r[4] for r in rows]
    return out


def words_of(rows: list, words: int = 2) -> np.ndarray:
    return np.array([r[0][:words] for r in rows], dtype=np.int64).reshape(len(rows), words).T


def contents(pool: Pool) -> dict:
    """What the pool holds, checked against its own index on the way."""
    slots = pool.live()
    keys, values = pool.keys_at(slots), pool.gather(slots)
    assert len(slots) == len(pool)
    assert pool.find(keys[list(pool.key)]).tolist() == slots.tolist()
    wide = wide_to_python(values.ints[0], values.ints[1])
    total = float_total(values.floats).tolist()
    rows = zip(values.n.tolist(), wide, total, values.ints[2].tolist(), strict=True)
    out = dict(zip(map(tuple, keys.T.tolist()), map(list, rows), strict=True))
    assert len(out) == len(slots)
    return out


class Twin:
    """The slow twin: a dictionary from key to [n, wide, float, count]."""

    def __init__(self, words: int) -> None:
        self.words = words
        self.data: dict = {}

    def key(self, row: tuple) -> tuple:
        return row[0][: self.words]

    def add(self, rows: list) -> None:
        for row in rows:
            entry = self.data.setdefault(self.key(row), [0, 0, 0.0, 0])
            self.data[self.key(row)] = [a + b for a, b in zip(entry, row[1:], strict=True)]

    def commit(self) -> None:
        self.data = {k: v for k, v in self.data.items() if v[0] != 0}

    def put(self, rows: list) -> None:
        for row in rows:
            self.data[self.key(row)] = list(row[1:])
        self.commit()


def check_touched(pool: Pool, before: dict, touched: Touched, rows: list) -> None:
    keys = [tuple(k) for k in pool.keys_at(touched.slots).T.tolist()]
    assert keys == list(dict.fromkeys(r[0][: pool.words] for r in rows))
    assert touched.created.tolist() == [k not in before for k in keys]
    assert touched.old.n.tolist() == [before.get(k, [0])[0] for k in keys]


def run(pool: Pool, ops: list) -> None:
    twin = Twin(pool.words)
    for op, arg in ops:
        before = contents(pool)
        slot_of = dict(zip(before, pool.live().tolist(), strict=True))
        if op in ("commit", "rollback", "twice"):
            ghost = Pool.from_arrays(pool.to_arrays())
            first = pool.add(words_of(arg, pool.words), values_of(arg))
            check_touched(pool, before, first, arg)
            second = pool.add(words_of(arg, pool.words), values_of(arg)) if op == "twice" else None
            if op == "rollback":
                pool.rollback(first)
                same_future(pool, ghost)
            else:
                twin.add(arg * (1 + (op == "twice")))
                assert contents(pool) == twin.data  # n = 0 stays until commit
                pool.commit(first)
                if second is not None:
                    pool.commit(second)
                twin.commit()
        elif op == "put":
            pool.put(words_of(arg, pool.words), values_of(arg))
            twin.put(arg)
        elif op == "insert":
            rows = [(*r[:1], r[1] or 7, 0, 0.0, 0) for r in arg]
            keys = [twin.key(r) for r in rows]
            if len(set(keys)) == len(keys) and not set(keys) & set(twin.data):
                slots = pool.insert(words_of(rows, pool.words), values_of(rows).n)
                assert pool.find(words_of(rows, pool.words)).tolist() == slots.tolist()
                twin.put(rows)
            else:
                ghost = Pool.from_arrays(pool.to_arrays())
                with pytest.raises(ValueError, match="absent and distinct"):
                    pool.insert(words_of(rows, pool.words), values_of(rows).n)
                same_future(pool, ghost)
        elif op == "remove":
            live = pool.live()
            slots = live[sorted({i % len(live) for i in arg})] if len(live) else live
            for key in map(tuple, pool.keys_at(slots).T.tolist()):
                del twin.data[key]
            pool.remove(slots)
        elif op == "snapshot":
            pool = Pool.from_arrays(pool.to_arrays("x."), "x.")
        else:
            pool.clear()
            twin.data.clear()
        after = contents(pool)
        assert after == twin.data
        if op not in ("clear", "put"):  # put may remove a key and create it again
            now = dict(zip(after, pool.live().tolist(), strict=True))
            assert all(now[k] == slot for k, slot in slot_of.items() if k in now)


def same_future(pool: Pool, ghost: Pool) -> None:
    """Two pools hold the same, bit for bit, and hand out the same slots from now on."""
    probe = [((1000 + i, i), 1, 5, 0.5, 2) for i in range(9)]
    a, b = (Pool.from_arrays(p.to_arrays()) for p in (pool, ghost))
    slots = pool.live()
    assert slots.tolist() == ghost.live().tolist()
    assert a.keys_at(slots).tolist() == b.keys_at(slots).tolist()
    for x, y in zip(cells(a.gather(slots)), cells(b.gather(slots)), strict=True):
        assert x.tobytes() == y.tobytes()
    first, second = (p.add(words_of(probe, p.words), values_of(probe)) for p in (a, b))
    assert first.slots.tolist() == second.slots.tolist()
    assert first.created.tolist() == second.created.tolist()


def cells(values: Values) -> tuple[np.ndarray, ...]:
    return values.n, values.ints, values.floats


@settings(deadline=None, max_examples=150)
@given(OPS, st.sampled_from([0, 1, 2]), st.booleans())
def test_histories_equal_the_dictionary(ops: list, words: int, collide: bool) -> None:
    mask = 0 if collide else (1 << 64) - 1
    run(Pool(words, LAYOUT, capacity=4, _multiplier_mask=mask), ops)


STEPS = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 60), max_size=30)), max_size=9)


@settings(deadline=None, max_examples=40)
@given(STEPS, st.booleans())
def test_rows_by_primary_key(ops: list, collide: bool) -> None:
    pool = Pool(3, Layout(), key=(2, 0), capacity=4, _multiplier_mask=0 if collide else (1 << 64) - 1)
    twin: dict = {}
    for insert, ids in ops:
        ids = list(dict.fromkeys(ids))
        if insert:
            ids = [i for i in ids if i not in twin]
            rows = [(i % 3, 100 + i, i << 50) for i in ids]
            pool.insert(np.array(rows, dtype=np.int64).reshape(-1, 3).T, np.ones(len(ids), np.int64))
            twin |= dict(zip(ids, rows, strict=True))
        else:
            ids = [i for i in ids if i in twin]
            slots = pool.find(np.array([[i << 50 for i in ids], [i % 3 for i in ids]], dtype=np.int64))
            pool.remove(slots)
            for i in ids:
                del twin[i]
        found = pool.find(np.stack([np.arange(61) << 50, np.arange(61) % 3]))
        assert [i for i in range(61) if found[i] >= 0] == sorted(twin)
        assert pool.keys_at(found[found >= 0]).T.tolist() == [list(twin[i]) for i in sorted(twin)]


def counts(n: list[int]) -> Values:
    return Values(np.array(n, dtype=np.int64), np.zeros((0, len(n)), np.int64), np.zeros((0, len(n))))


def test_many_keys_grow_and_vanish() -> None:
    keys = np.random.default_rng(1).integers(0, 20_000, 50_000)
    words = np.stack([keys << 30, -keys])
    pool = Pool(2, Layout(), capacity=4)
    pool.commit(pool.add(words, counts([1] * len(keys))))
    unique, times = np.unique(keys, return_counts=True)
    assert len(pool) == len(unique)
    assert pool.gather(pool.find(np.stack([unique << 30, -unique]))).n.tolist() == times.tolist()
    assert len(pool) / len(pool._table) <= 0.6
    pool.commit(pool.add(words[:, ::-1], counts([-1] * len(keys))))  # not contiguous: copied
    assert len(pool) == 0
    assert not pool._table.any()
    assert not pool._keys.any()


def test_few_keys_do_not_reserve_for_the_batch() -> None:
    pool = Pool(1, Layout())
    pool.commit(pool.add(np.arange(100_000).reshape(1, -1) % 10, counts([1] * 100_000)))
    assert pool.capacity == 16


def test_a_key_that_goes_and_comes_back_keeps_its_slot() -> None:
    pool = Pool(1, Layout())
    pool.commit(pool.add(np.array([[5, 6, 7]]), counts([1, 1, 1])))
    slot = pool.find(np.array([[6]]))
    pool.commit(pool.add(np.array([[6, 8, 6]]), counts([-1, 1, 1])))
    assert pool.find(np.array([[6]])) == slot


def test_freed_slots_are_clean_and_reused() -> None:
    pool = Pool(1, LAYOUT)
    row = [((1,), 1, 7, 0.5, 3)]
    pool.commit(pool.add(words_of(row, 1), values_of(row)))
    pool.commit(pool.add(np.array([[1]]), values_of([((1,), -1, 0, 0.0, 0)])))  # values left behind
    assert len(pool) == 0
    slots = pool.insert(np.array([[9]]), np.array([1]))
    assert slots.tolist() == [0]
    values = pool.gather(slots)
    assert not values.ints.any()
    assert not values.floats.any()


def test_remove_and_insert_backwards_gives_the_slots_back() -> None:
    pool = Pool(1, Layout())
    words = np.arange(10).reshape(1, -1)
    before = pool.insert(words, np.ones(10, np.int64))
    pool.remove(before[[7, 2, 9]])
    assert pool.insert(np.array([[9, 2, 7]]), np.ones(3, np.int64)).tolist() == [9, 2, 7]


@pytest.mark.parametrize("slots", [[1], [-1], [0, 0], [100]])
def test_remove_refuses(slots: list[int]) -> None:
    pool = Pool(1, Layout())
    pool.insert(np.array([[3, 4]]), np.array([1, 1]))
    pool.remove(np.array([1]))
    with pytest.raises(ValueError, match="live and distinct"):
        pool.remove(np.array(slots))
    assert len(pool) == 1


def test_absent_slots_read_as_zero() -> None:
    pool = Pool(2, LAYOUT)
    pool.put(words_of([((1, 2),)]), values_of([((1, 2), 1, 3, 4.0, 5)]))
    slots = pool.find(np.array([[1, 9], [2, 9]]))
    assert slots.tolist() == [0, -1]
    assert pool.keys_at(slots).tolist() == [[1, 0], [2, 0]]
    assert pool.gather(slots).n.tolist() == [1, 0]
    assert pool.gather(slots).floats[0].tolist() == [4.0, 0.0]


def test_shapes_are_checked() -> None:
    pool = Pool(2, LAYOUT)
    with pytest.raises(ValueError, match="rows of words"):
        pool.find(np.zeros((1, 3), np.int64))
    with pytest.raises(ValueError, match="do not fit"):
        pool.add(np.zeros((2, 3), np.int64), Values.zeros(LAYOUT, 2))
    with pytest.raises(ValueError, match="counts other than 0"):
        pool.insert(np.zeros((2, 1), np.int64), np.array([0]))
    with pytest.raises(ValueError, match="distinct positions"):
        Pool(2, LAYOUT, key=(0, 2))


# ------------------------------------------------------------------------------------------ overflow


TOP = (1 << 127) - 1
BOTTOM = -(1 << 127)


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ((HIGH, 0, 0.0, 0), (1, 0, 0.0, 0), "a count"),
        ((LOW, 0, 0.0, 0), (-1, 0, 0.0, 0), "a count"),
        ((1, TOP, 0.0, 0), (1, 1, 0.0, 0), "component 0"),
        ((1, BOTTOM, 0.0, 0), (1, -1, 0.0, 0), "component 0"),
        ((1, 0, 1e308, 0), (1, 0, 1e308, 0), "component 1"),
        ((1, 0, 0.0, LOW), (1, 0, 0.0, -1), "component 2"),
    ],
)
def test_overflow_leaves_no_trace(first: tuple, second: tuple, what: str) -> None:
    pool = Pool(1, LAYOUT, capacity=4)
    pool.commit(pool.add(np.array([[1]]), values_of([((1,), *first)])))
    ghost = Pool.from_arrays(pool.to_arrays())
    rows = [((key,), 1, 1, 1.0, 1) for key in range(2, 9)]
    rows.insert(4, ((1,), *second))
    with pytest.raises(EverfreshError, match=what) as caught:
        pool.add(words_of(rows, 1), values_of(rows))
    assert caught.value.code == Code.OVERFLOW
    same_future(pool, ghost)


@settings(deadline=None)
@given(st.lists(st.integers(BOTTOM, TOP), min_size=1, max_size=8))
def test_wide_sums_equal_python(numbers: list[int]) -> None:
    pool = Pool(0, Layout((Kind.WIDE,)))
    high, low = wide_from_python(numbers)
    delta = Values(np.ones(len(numbers), np.int64), np.stack([high, low]), np.zeros((0, len(numbers))))
    partial = [sum(numbers[: i + 1]) for i in range(len(numbers))]
    if all(BOTTOM <= x <= TOP for x in partial):
        pool.commit(pool.add(np.zeros((0, len(numbers)), np.int64), delta))
        assert wide_to_python(*pool.gather(pool.live()).ints) == [partial[-1]]
    else:
        with pytest.raises(EverfreshError):
            pool.add(np.zeros((0, len(numbers)), np.int64), delta)
        assert len(pool) == 0


# ------------------------------------------------------------------------------------------ float sums


def add_floats(pool: Pool, x: np.ndarray, sign: int) -> None:
    delta = Values.zeros(pool.layout, len(x))
    delta.n[:] = sign
    delta.floats[0] = sign * x
    pool.commit(pool.add(np.zeros((0, len(x)), np.int64), delta))


@pytest.mark.parametrize("spread", ["money", "lognormal", "spikes"])
def test_inserts_then_deletes_leave_the_exact_sum(spread: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 1000, 20_000) if spread != "lognormal" else rng.lognormal(0, 5, 20_000)
    if spread == "spikes":
        x[rng.integers(500, len(x), 50)] = 1e17
    pool = Pool(0, Layout((Kind.FLOAT,)))
    add_floats(pool, x, 1)
    add_floats(pool, rng.permutation(x[500:]), -1)
    total = float_total(pool.gather(pool.live()).floats)[0]
    assert total == pytest.approx(math.fsum(x[:500]), rel=1e-15)
    one_more = np.append(x[:500], 0.0)
    add_floats(pool, one_more, -1)  # n = -1: the entry lives, and its sum is exactly 0
    assert float_total(pool.gather(pool.live()).floats).tolist() == [0.0]


FINITE = st.floats(-1e200, 1e200, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-200)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=40))
def test_the_error_bound_of_the_cascade(numbers: list[float]) -> None:
    pool = Pool(0, Layout((Kind.FLOAT,)))
    add_floats(pool, np.array(numbers), 1)
    exact = sum(map(Fraction, numbers))
    got = Fraction(float_total(pool.gather(pool.live()).floats)[0])
    n = len(numbers)
    bound = Fraction(n**3, 2**158) * sum(abs(Fraction(x)) for x in numbers)
    assert abs(got - exact) <= bound + abs(exact) / 2**53 + Fraction(5e-324)


# ------------------------------------------------------------------------------------------ snapshots


def test_a_memory_mapped_snapshot_restores_the_pool(tmp_path: Path) -> None:
    pool = Pool(2, LAYOUT, key=(1,), capacity=4)
    rows = [((i, i * i), 1 + i % 3, i << 70, i / 4, -i) for i in range(50)]
    pool.put(words_of(rows), values_of(rows))
    pool.remove(pool.find(np.array([[9, 49, 4, 2401]])))
    mapped = {}
    for name, array in pool.to_arrays("m/").items():
        np.save(tmp_path / f"{name[2:]}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name[2:]}.npy", mmap_mode="r")
    copy = Pool.from_arrays(mapped, "m/")
    assert (copy.words, copy.key, copy.layout, copy.capacity) == (2, (1,), LAYOUT, pool.capacity)
    assert contents(copy) == contents(pool)
    same_future(copy, pool)
    assert copy.nbytes == pool.nbytes


def test_a_snapshot_does_not_follow_the_pool() -> None:
    pool = Pool(1, Layout())
    pool.insert(np.array([[1]]), np.array([1]))
    arrays = pool.to_arrays()
    pool.insert(np.array([[2]]), np.array([1]))
    pool.remove(np.array([0]))
    assert Pool.from_arrays(arrays).live().tolist() == [0]


def test_read_only_input_is_accepted() -> None:
    words = np.array([[1, 2]])
    words.flags.writeable = False
    pool = Pool(1, Layout())
    pool.commit(pool.add(words, counts([1, 1])))
    pool.reserve(1000)
    assert pool.capacity == 1024
    assert pool.find(words).tolist() == [0, 1]
