"""Followers of a pool against answers worked out afresh from its entries, through commits and rollbacks."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from everfresh.algebra import Kind
from everfresh.expr import Vector
from everfresh.local.order.followers import Extremes, TopRows
from everfresh.local.order.ranking import Ranks, SortKey
from everfresh.local.order.value_index import Band
from everfresh.local.store.codec import Codec
from everfresh.local.store.pool import Layout, Pool, Touched, Values
from everfresh.local.store.strings import Interner
from everfresh.types import BIGINT, DOUBLE, HUGEINT, VARCHAR, Column

GROUP, TEXT = Column("g", VARCHAR, nullable=True), Column("s", VARCHAR, nullable=True)
NUMBER, WIDE = Column("x", DOUBLE, nullable=True), Column("w", HUGEINT, nullable=False)
COLUMNS = [GROUP, TEXT, NUMBER, WIDE]
LAYOUT = Layout((Kind.COUNT,))
OPS = ["<", "<=", ">", ">=", "=", "<>"]

GROUPS = st.sampled_from(["p", "q", None])
STRINGS = st.one_of(st.none(), st.text("abä", max_size=3))
NUMBERS = st.sampled_from([None, 0.0, -1.5, 2.0, math.inf, math.nan])
WIDES = st.sampled_from([0, -1, 1 << 64, -(1 << 70)])
ROWS = st.lists(
    st.tuples(
        st.tuples(GROUPS, STRINGS, NUMBERS, WIDES), st.sampled_from([-2, -1, 1, 1, 2, 3]), st.integers(-2, 3)
    ),
    max_size=8,
)


def sort_value(value: object) -> object:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def nulls_last(value: object) -> tuple:
    return (True,) if value is None else (False, sort_value(value))


def holds(value: object, op: str, threshold: object) -> bool:
    if value is None or threshold is None:
        return False
    a, b = sort_value(value), sort_value(threshold)
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "=": a == b, "<>": a != b}[op]


def asked(op: str, limit: Vector) -> list:
    """What a comparison asks of a band."""
    return [[[(o, limit)] for o in ("<>" if op == "<>" else [op])]]


class Machine(RuleBasedStateMachine):
    """A pool and its followers; labels of strings run out all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.interner = Interner()
        self.ranks = Ranks(self.interner, gap=2, space=1 << 9)
        self.codec = Codec(COLUMNS, self.interner)
        self.pool = Pool(self.codec.words, LAYOUT)
        pool, codec, ranks = self.pool, self.codec, self.ranks
        self.extremes = {c: Extremes(pool, codec, [GROUP], c, ranks) for c in (TEXT, NUMBER, WIDE)}
        self.tops = {
            (limit, offset): TopRows(
                *(pool, codec, [SortKey("s", ascending=False), SortKey("x")], limit, offset, ranks)
            )
            for limit, offset in ((1, 0), (3, 2), (100, 0), (0, 1), (2, 100))
        }
        self.band = Band(pool, codec, self.component, BIGINT)
        self.texts = Band(pool, codec, self.text, VARCHAR, [GROUP], ranks)

    def component(self, slots: np.ndarray, words: np.ndarray) -> Vector:
        values = self.pool.gather(slots).ints[0]
        return Vector(BIGINT, values, values != 3)  # 3 stands for a NULL

    def text(self, slots: np.ndarray, words: np.ndarray) -> Vector:
        return self.codec.vector(words, TEXT)

    @property
    def by_presence(self) -> list:
        return [*self.extremes.values(), self.texts]

    def apply(self, rows: list) -> Touched:
        vectors = [Vector.from_pylist([row[0][i] for row in rows], c.type) for i, c in enumerate(COLUMNS)]
        delta = Values.zeros(LAYOUT, len(rows))
        delta.n[:] = [row[1] for row in rows]
        delta.ints[0] = [row[2] for row in rows]
        touched = self.pool.add(self.codec.encode_vectors(vectors, len(rows)), delta)
        created = touched.slots[touched.created]
        for follower in [*self.by_presence, *self.tops.values()]:
            follower.add(created, self.pool.keys_at(created))
        self.counts_changed(touched.slots)
        return touched

    def counts_changed(self, slots: np.ndarray) -> None:
        for top in self.tops.values():
            top.touch(slots, self.pool.keys_at(slots))
        for band in (self.band, self.texts):
            band.touch(slots, self.pool.keys_at(slots))

    def let_go(self, slots: np.ndarray) -> None:
        for follower in [*self.by_presence, *self.tops.values(), self.band]:
            follower.remove(slots, self.pool.keys_at(slots))

    @rule(rows=ROWS, look=st.booleans())
    def commit_rows(self, rows: list, look: bool) -> None:
        self.commit(rows, look)

    @rule(rows=ROWS, look=st.booleans())
    def rollback_rows(self, rows: list, look: bool) -> None:
        self.rollback(rows, look)

    def commit(self, rows: list, look: bool) -> None:
        touched = self.apply(rows)
        if look:  # inside the batch: entries of count zero are still there
            self.check_extremes()
            self.check_tops()
        self.let_go(touched.slots[self.pool.gather(touched.slots).n == 0])
        self.pool.commit(touched)

    def rollback(self, rows: list, look: bool) -> None:
        touched = self.apply(rows)
        if look:
            self.check_extremes()
            self.check_tops()
        self.let_go(touched.slots[touched.created])
        self.pool.rollback(touched)
        self.counts_changed(touched.slots[~touched.created])

    @rule(data=st.data(), look=st.booleans(), final=st.booleans())
    def cancel(self, data: st.DataObject, look: bool, final: bool) -> None:
        """Some entries, mostly extremes and first rows, come to nothing."""
        entries = self.entries()
        if entries:
            chosen = data.draw(st.lists(st.sampled_from(entries), unique_by=lambda e: e[0], max_size=6))
            rows = [(row, -n, 0) for _, row, n, _ in chosen]
            (self.commit if final else self.rollback)(rows, look)

    @rule(strings=st.lists(st.text("abc", max_size=5), max_size=5))
    def other_strings(self, strings: list) -> None:
        """Somebody else asks for labels."""
        self.ranks.labels(self.interner.intern_list(strings))

    def entries(self) -> list:
        """(slot, row, n, component) of all entries with a count."""
        slots = self.pool.live()
        vectors = self.codec.vectors(self.pool.keys_at(slots))
        rows = zip(*(vectors[c.name].to_pylist() for c in COLUMNS), strict=True)
        values = self.pool.gather(slots)
        found = zip(slots.tolist(), rows, values.n.tolist(), values.ints[0].tolist(), strict=True)
        return [entry for entry in found if entry[2] != 0]

    def check_extremes(self) -> None:
        groups = ["p", "q", None, "none such"]
        entries = self.entries()
        for column, extremes in self.extremes.items():
            at = COLUMNS.index(column)
            words = extremes._groups.encode_vectors([Vector.from_pylist(groups, VARCHAR)], len(groups))
            first, last = extremes.first(words).tolist(), extremes.last(words).tolist()
            rows = {slot: row for slot, row, _, _ in entries}
            for group, low, high in zip(groups, first, last, strict=True):
                values = sorted(
                    sort_value(r[at]) for r in rows.values() if r[0] == group and r[at] is not None
                )
                if not values:
                    assert (low, high) == (-1, -1)
                    continue
                assert (rows[low][0], rows[high][0]) == (group, group)
                assert (sort_value(rows[low][at]), sort_value(rows[high][at])) == (values[0], values[-1])

    def check_tops(self) -> None:
        order: list = []
        for slot, row, n, _ in self.entries():
            text = (True,) if row[1] is None else (False, [-b for b in row[1].encode()] + [1])
            order.extend([((text, nulls_last(row[2]), nulls_last(row[0]), row[3]), slot)] * n)
        order.sort()
        for (limit, offset), top in self.tops.items():
            rows = top.rows()
            want = Counter(slot for _, slot in order[offset : offset + limit])
            assert dict(zip(rows.slots.tolist(), rows.counts.tolist(), strict=True)) == want
            assert rows.slots.tolist() == list(dict.fromkeys(s for _, s in order[offset : offset + limit]))
            assert top.current
            assert top.rows() is rows

    @rule(old=st.sampled_from([None, -2, 0, 1, 2, 9]), new=st.sampled_from([None, -2, 0, 1, 2, 9]))
    def other_thresholds(self, old: object, new: object) -> None:
        self.thresholds(old, new)

    def thresholds(self, old: object, new: object) -> None:
        values = {slot: None if value == 3 else value for slot, _, _, value in self.entries()}
        for op in OPS:
            both = Vector.from_pylist([old, new, new], BIGINT)
            sums, at, slots = self.band.crossed(asked(op, both), np.array([-2, 1, 1]))
            assert dict(zip(slots.tolist(), sums[at].tolist(), strict=True)) == {
                s: 2 * (holds(v, op, new) - holds(v, op, old))
                for s, v in values.items()
                if holds(v, op, new) != holds(v, op, old)
            }

    @rule(
        pairs=st.lists(st.tuples(GROUPS, STRINGS, STRINGS), max_size=3),
        ops=st.tuples(*[st.sampled_from(OPS)] * 3),
    )
    def ranges_of_groups(self, pairs: list, ops: tuple) -> None:
        groups, one, two = (Vector.from_pylist([p[i] for p in pairs], VARCHAR) for i in range(3))
        words = Codec([GROUP], self.interner).encode_vectors([groups], len(pairs))
        rows = {slot: (row, n, value) for slot, row, n, value in self.entries()}
        first, second, third = ops
        options = [*asked(second, two)[0], *asked(third, one)[0]]
        spans = self.texts.spans([*asked(first, one), options], words)
        at, slots = self.texts.entries(spans)
        numbers = self.texts.numbers(spans, (0, -1, 1))
        assert at.tolist() == sorted(at.tolist())
        for i, (group, a, b) in enumerate(pairs):
            want = {
                slot
                for slot, (row, _, _) in rows.items()
                if row[0] == group
                and holds(row[1], first, a)
                and (holds(row[1], second, b) or holds(row[1], third, a))
            }
            assert sorted(slots[at == i].tolist()) == sorted(want)
            total = [sum(rows[s][1] for s in want), 0, sum(rows[s][2] for s in want)]
            assert [int(number[i]) for number in numbers] == total

    @invariant()
    def agree(self) -> None:
        for old, new in ((None, 0), (0, 1), (2, -1)):
            self.thresholds(old, new)
        self.check_extremes()
        self.check_tops()
        live = len(self.pool)
        assert all(len(top) == live for top in self.tops.values())


TestFollowers = Machine.TestCase
TestFollowers.settings = settings(
    max_examples=max(8, settings.default.max_examples // 3), stateful_step_count=25
)


def bag() -> tuple[Pool, Codec]:
    codec = Codec([Column("x", BIGINT, nullable=False)], Interner())
    return Pool(codec.words, Layout()), codec


def put(pool: Pool, top: TopRows, x: int, n: int) -> None:
    touched = pool.add(np.array([[x]]), Values(np.array([n]), np.empty((0, 1), np.int64), np.empty((0, 1))))
    words = pool.keys_at(touched.slots)
    (top.add if touched.created[0] else top.touch)(touched.slots, words)
    if pool.gather(touched.slots).n[0] == 0:
        top.remove(touched.slots, words)
    pool.commit(touched)


def test_the_walk_is_skipped_behind_the_end() -> None:
    pool, codec = bag()
    top = TopRows(pool, codec, [SortKey("x")], 2)
    for x in (10, 20, 30):
        put(pool, top, x, 1)
    assert not top.current
    assert pool.keys_at(top.rows().slots).tolist() == [[10, 20]]
    for x, n in ((40, 1), (30, 5), (30, -6)):
        put(pool, top, x, n)
        assert top.current
    put(pool, top, 20, 1)  # the last one that shows
    assert not top.current
    assert top.rows().counts.tolist() == [1, 1]
    put(pool, top, 10, -1)
    assert not top.current
    assert top.rows().counts.tolist() == [2]


def test_rows_are_cut_inside_a_tuple() -> None:
    pool, codec = bag()
    top = TopRows(pool, codec, [SortKey("x", ascending=False)], 3, 1)
    for x, n in ((1, 3), (2, 1), (3, 2)):
        put(pool, top, x, n)
    rows = top.rows()
    assert pool.keys_at(rows.slots).tolist() == [[3, 2, 1]]
    assert rows.counts.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="negative"):
        TopRows(pool, codec, [], -1)


def test_a_threshold_of_another_type_is_refused() -> None:
    pool, codec = bag()
    band = Band(pool, codec, lambda slots, words: codec.vectors(words)["x"], BIGINT)
    with pytest.raises(ValueError, match="cast"):
        band.crossed(asked("<", Vector.from_pylist([1.5], DOUBLE)), np.array([1]))
