"""The checker: Example 4.2.1 of the thesis on key-value views, and the ways to decide against each other."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.testing.kv import decodable, witness
from everfresh.testing.kv.histories import Commit, History, Read, State, Timelines, in_order
from everfresh.testing.kv.levels import Level, explanations, level, violation_of_strong
from everfresh.testing.kv.smaller import smallest, told

# (k1, x, 15) -> 20 -> deleted; (k2, x, 10) is put. The state of a group is its sum, None without rows.
EXAMPLE = Timelines(((15, 20, None), (None, 10)))
UPDATES = {1: ("k1", 15, 20), 2: ("k2", None, 10), 3: ("k1", 20, None)}


def total(values: Any) -> Any:
    there = [v for v in values if v is not None]
    return sum(there) if there else None


def naive(order: tuple[int, ...]) -> list[Any]:
    """The states when updates are added to sum and count in this order, timelines or not."""
    amount, count, states = 15, 1, [15]
    for u in order:
        _, old, new = UPDATES[u]
        amount += (new or 0) - (old or 0)
        count += (new is not None) - (old is not None)
        states.append(amount if count or amount else None)
    return states


def of(states: list[Any]) -> Level:
    return level(History(EXAMPLE, in_order(states)), total)


def test_example_4_2_1_has_six_valid_states_of_eight() -> None:
    valid = set(explanations(EXAMPLE, total))
    assert valid == {15, 20, 25, 30, None, 10}
    seen = {state for order in permutations((1, 2, 3)) for state in naive(order)}
    assert seen == valid | {-5, 5}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ((1, 2, 3), Level.COMPLETE),
        ((1, 3, 2), Level.COMPLETE),
        ((2, 1, 3), Level.COMPLETE),
        ((2, 3, 1), Level.CONVERGENCE),
        ((3, 1, 2), Level.CONVERGENCE),
        ((3, 2, 1), Level.CONVERGENCE),
    ],
)
def test_example_4_2_1_orders(order: tuple[int, ...], expected: Level) -> None:
    assert of(naive(order)) == expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([15, 30, 10], Level.STRONG),
        ([15, 20, 30, 10], Level.COMPLETE),
        ([15, 30, 20, 10], Level.WEAK),
        ([15, 20, 0, 10], Level.CONVERGENCE),  # a group without rows is not there, and not 0
        ([15, 20, 30], Level.NONE),
    ],
)
def test_example_4_2_1_other_histories(states: list[Any], expected: Level) -> None:
    assert of(states) == expected


def test_a_torn_move_and_a_duplicate_are_not_weak() -> None:
    move = Timelines((("a", "b"),))

    def view(values: Any) -> State:
        return tuple(sorted(values))

    assert level(History(move, in_order([("a",), ("a", "b"), ("b",)])), view) == Level.CONVERGENCE
    assert of([15, 40, 10]) == Level.CONVERGENCE  # 20 was added twice


def test_reads_that_overlap_may_see_either_order() -> None:
    base = Timelines(((0, 1), (0, 1)))

    def view(values: Any) -> State:
        return tuple(values)

    crossing = (Read((1, 0), 1, 4), Read((0, 1), 2, 5), Read((1, 1), 6, 7))
    apart = (Read((1, 0), 1, 2), Read((0, 1), 3, 5), Read((1, 1), 6, 7))
    session = tuple(Read(r.state, r.begin, r.end, "me") for r in crossing)
    assert level(History(base, crossing), view) == Level.STRONG
    assert level(History(base, apart), view) == Level.WEAK
    assert level(History(base, session), view) == Level.WEAK


def test_the_smallest_history_that_fails() -> None:
    history = History(EXAMPLE, in_order([15, 25, 30, 20, 10]))
    small = smallest(history, lambda h: level(h, total) == Level.WEAK)
    assert [r.state for r in small.reads] == [30, 20, 10]
    assert "record 0: 20 -> absent" in told(small)


CODES = [[0, 1, 2], [1, 0, 2], [1, 2, 1]]


@st.composite
def read_histories(draw: Any) -> tuple[Read, ...]:
    """Reads of decodable sums; sums that are none, sessions and reads that overlap among them."""
    reads = []
    for _ in range(draw(st.integers(1, 7))):
        vector = [draw(st.integers(0, 2)) for _ in CODES]
        state = sum(codes[v] * 3**i for i, (codes, v) in enumerate(zip(CODES, vector, strict=True)))
        begin = draw(st.integers(0, 30))
        session = draw(st.sampled_from(["", "", "me"]))
        reads.append(Read(state, begin, begin + draw(st.integers(1, 10)), session))
    return tuple(reads)


@given(reads=read_histories())
def test_greedy_decides_as_search_does(reads: tuple[Read, ...]) -> None:
    timelines = Timelines(tuple(tuple(codes) for codes in CODES))

    def view(values: Any) -> State:
        return sum(v * 3**i for i, v in enumerate(values))

    slow = violation_of_strong(History(timelines, reads), explanations(timelines, view))
    fast = decodable.violation(reads, lambda s: decodable.decoded_sum(s, 3, CODES), len(CODES))  # type: ignore[arg-type]
    assert (slow is None) == (fast is None)


def test_greedy_says_which_record_and_reads() -> None:
    reads = in_order([0 + 3 + 9, 2 + 3 + 9, 1 + 3 + 9])
    found = decodable.violation(reads, lambda s: decodable.decoded_sum(s, 3, CODES), 3)  # type: ignore[arg-type]
    assert found is not None
    assert (found.level, found.record, [r.state for r in found.reads]) == ("strong", 0, [14, 13])
    torn = decodable.violation(in_order([27]), lambda s: decodable.decoded_sum(s, 3, CODES), 3)  # type: ignore[arg-type]
    assert torn is not None
    assert torn.level == "weak"


def test_a_stale_read_is_found() -> None:
    reads = (Read(12, 50, 51),)

    def decode(state: State) -> Any:
        return decodable.decoded_sum(state, 3, CODES)  # type: ignore[arg-type]

    times = [[0, 10, 20], [0, 0, 0], [0, 45, 48]]
    assert decodable.fresh(reads, decode, [[0, 45, 46], [0], [0, 45, 48]], 10) is None
    found = decodable.fresh(reads, decode, times, 10)
    assert found is not None
    assert (found.level, found.record) == ("stale", 0)


def test_a_witness_is_replayed() -> None:
    logs = {1: [("a", 1), ("a", 2)], 2: [("b", 5), ("b", None)]}
    commits = [Commit(1, {1: 1, 2: 1}), Commit(2, {1: 2, 2: 2})]

    def view(base: Any) -> State:
        return sum(base.values())

    right = (Read(0, 1, 2, claimed=0), Read(6, 3, 4, claimed=1), Read(2, 5, 6, claimed=2))
    assert witness.violation(logs, commits, right, view) is None
    wrong = [
        ((Read(5, 1, 2, claimed=1),), "prefix"),
        ((Read(5, 1, 2, claimed=9),), "prefix"),
        ((right[2], Read(6, 7, 8, claimed=1)), "strong"),
        ((Read(2, 5, 9, "me", 2), Read(6, 7, 8, "me", 1)), "strong"),
    ]
    for reads, expected in wrong:
        found = witness.violation(logs, commits, reads, view)
        assert found is not None
        assert found.level == expected
    shrinking = [Commit(1, {1: 2}), Commit(2, {1: 1})]
    assert witness.violation(logs, shrinking, (), view) is not None
