"""Examples 5.1.2, 5.1.4 and 5.1.6 of the thesis on key-value views, and cells against the predicates."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from everfresh.kv.sharing.bits import evaluated, is_dropped, merged
from everfresh.kv.sharing.decompose import And, Decomposition, Or, Predicate, Within, decomp
from everfresh.kv.sharing.intervals import Interval, between, less

P1 = And((Within("Y", less(5)), Within("Z", between(0.1, 0.3))))
P2 = Or((Within("Y", less(10)), Within("Z", between(0.2, 0.4))))
P3 = Within("Y", less(15))


def test_bit_vectors_of_the_examples() -> None:
    predicates = [lambda r: r["Y"] == 5, lambda r: r["Y"] < 5, lambda r: r["Y"] <= 5]
    assert evaluated(predicates, {"Y": 5}) == (1, 0, 1)
    assert merged((1, None), (None, 0)) == (1, 0)
    assert merged((1, 0, None), (1, 0, None)) == (1, 0, None)
    assert is_dropped((0, 0), (0, 0))
    assert not is_dropped((1, 0), (0, 0))
    assert not is_dropped((0, None), (0, 0))


def test_example_5_1_4() -> None:
    found = Decomposition([P1, P2, P3])
    assert found.tags["Y"] == {
        "Y1": less(5),
        "Y2": Interval((5, 0), (10, 0)),
        "Y3": Interval((10, 0), (15, 0)),
    }
    assert found.tags["Z"] == {
        "Z1": Interval((0.1, 0), (0.2, 0)),
        "Z2": between(0.2, 0.3),
        "Z3": Interval((0.3, 1), (0.4, 1)),
    }
    keys = {("Y1",), ("Y2",), ("Y3",), ("Z2",), ("Z3",), ("Y1", "Z1"), ("Y1", "Z2")}
    assert found.keys() == keys
    row = {"Y": 4, "Z": 0.25}
    cell = found.cell(row)
    assert cell == ("Y1", "Z2")
    cells = [found.cells_of(p) for p in (P1, P2, P3)]
    assert [len(c) for c in cells] == [2, 12, 12]
    assert (len(found.cells()), len(set.union(*cells))) == (16, 14)
    sums = Counter({cell: 4})  # the row is in one cell, so every view counts it once
    assert [sum(sums[c] for c in of) for of in cells] == [4, 4, 4]


BOUNDS = st.integers(0, 6)
INTERVALS = st.builds(less, BOUNDS) | st.tuples(BOUNDS, BOUNDS).map(lambda b: between(min(b), max(b)))
LEAVES = st.builds(Within, st.sampled_from("AB"), INTERVALS)
PREDICATES: Any = st.recursive(
    LEAVES,
    lambda inner: st.builds(And, st.tuples(inner, inner)) | st.builds(Or, st.tuples(inner, inner)),
    max_leaves=4,
)


def holds(predicate: Predicate, row: dict[str, Any]) -> bool:
    if isinstance(predicate, Within):
        return row[predicate.attribute] is not None and row[predicate.attribute] in predicate.interval
    every = (holds(part, row) for part in predicate.parts)
    return all(every) if isinstance(predicate, And) else any(every)


@given(intervals=st.lists(INTERVALS, max_size=5))
def test_decomposition_is_disjoint_and_covers(intervals: list[Interval]) -> None:
    cells = decomp(intervals)
    for x in [i / 2 for i in range(-2, 16)]:
        assert sum(x in cell for cell in cells) == any(x in interval for interval in intervals)
    for cell in cells:
        for interval in intervals:
            assert cell.meet(interval) in (None, cell)


@given(predicates=st.lists(PREDICATES, min_size=1, max_size=4), data=st.data())
def test_a_row_counts_for_a_view_exactly_if_its_cell_does(predicates: list[Predicate], data: Any) -> None:
    found = Decomposition(predicates)
    values = st.none() | st.integers(-1, 14).map(lambda i: i / 2)
    row = {"A": data.draw(values), "B": data.draw(values)}
    for predicate in predicates:
        assert (found.cell(row) in found.cells_of(predicate)) == holds(predicate, row)
