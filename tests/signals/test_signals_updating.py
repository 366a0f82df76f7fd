"""Operators that go on from what they made: user aggregates that give samples back, operators on windows
with an update, filters that forget after a pause, and what a filter leaves behind a run.

Catches chains that depend on where a batch was cut, errors that outlive the chain, states of other groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_cases import VALUES, events, grouped, table
from test_signals_twins import check

import everfresh as ef
from everfresh import signals as s
from everfresh.testing.engine.suite_base import refused

GRID = s.reading("a", time="t", key="k").as_uniform(2, 1)
IDLE = s.reading("a", time="t", key="k", idle=9).as_uniform(2, 1)
SHAPES = ((4, 4), (4, 2), (5, 3), (3, 1), (8, 1), (2, 5))


def add(state: float, x: float) -> float:
    return state + x


def take(state: float, x: float) -> float:
    return state - x


def halved(state: float) -> float:
    return state / 2.0


def ramp(windows: Any) -> Any:
    """The sum of each window, and of its squares."""
    sums, squares = np.zeros(len(windows)), np.zeros(len(windows))
    for x in windows.T:
        sums, squares = sums + x, squares + x * x
    return np.stack([sums, squares], axis=1)


def moved(before: Any, old: Any, new: Any) -> Any:
    return before - ramp(old) + ramp(new)


def echo(inputs: Any, outputs: Any) -> float:
    return inputs[-1] + 0.5 * outputs[-1]


GIVEN_BACK = s.Aggregate(0.0, add, deaccumulate=take, result=halved, name="half")
PLAIN = s.Aggregate(0.0, add, result=halved, name="half")
UPDATED = s.WindowOperator(ramp, moved, size=2)
CASES = {
    **{
        f"{name} {size} {hop} {missing}": made(size, hop, missing)
        for missing in ("zero", "skip")
        for size, hop in SHAPES
        for name, made in {
            "given back": lambda size, hop, missing: GRID.aggregate(GIVEN_BACK, size, hop, missing),
            "updated": lambda size, hop, missing: GRID.window(size, hop, missing).apply(UPDATED),
            "chained": lambda size, hop, missing: GRID.window(size, hop, missing).apply(UPDATED).fft(),
        }.items()
    },
    "tail": GRID.filter_fir([1.0, -0.5, 0.25, 3.0], tail=True),
    "tail of one": GRID.filter_fir([2.0], tail=True).scale(2.0),
    "idle iir": IDLE.filter_iir([1.0, 0.5], [1.0, -0.5, 0.2]),
    "idle sos": IDLE.filter_sos([[1, 0.2, 0.1, 1, -0.3, 0.1]]),
}


@settings(max_examples=100 if settings().max_examples < 100 else settings().max_examples)
@given(data=st.data(), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_they_are_their_twins_after_every_step(data: Any, cuts: list[int]) -> None:
    """Values are few and whole, so that sums that are given back are exact."""
    query = CASES[data.draw(st.sampled_from(sorted(CASES)))]
    rows = [(k, a, a + 1, float(round(v))) for k, a, _, v in data.draw(events(grid=2))]
    check(query, rows, cuts)


@given(rows=events(grid=2), cuts=st.lists(st.integers(0, 40), max_size=3), value=VALUES)
def test_idle_begins_anew_a_filter_of_a_user(rows: Any, cuts: list[int], value: float) -> None:
    """As a filter by coefficients does."""
    rows = [(k, a, a + 1, value) for k, a, _, _ in rows]
    mine = grouped(IDLE.filter(echo, 1, 1).run(table(rows)))
    theirs = grouped(IDLE.filter_iir([1.0], [1.0, -0.5]).run(table(rows)))
    assert mine.keys() == theirs.keys()
    for key, found in mine.items():
        assert [at for at, _ in found] == [at for at, _ in theirs[key]]
        np.testing.assert_allclose([v for _, v in found], [v for _, v in theirs[key]], rtol=1e-12)


def test_what_is_rounded_is_forgotten() -> None:
    """A spike that has left takes no digits with it for longer than a window; NaN neither."""
    n = 400
    values = np.sin(np.arange(n))
    values[100], values[200] = 1e18, np.nan
    rows = pa.table({"t": np.arange(n), "value": values})
    grid = s.reading("a", time="t").as_uniform(1)
    back, plain = (grid.aggregate(agg, 16, 1).run(rows)["value"].to_numpy() for agg in (GIVEN_BACK, PLAIN))
    near = np.abs(back - plain) < 1e-12
    assert not near.all()
    spoilt = np.flatnonzero(~near) + 15
    assert set(spoilt) <= {*range(100, 133), *range(200, 233)}


def test_a_pause_decides_what_a_filter_remembers() -> None:
    rows = pa.table({"t": [1, 3, 13, 15, 27], "value": [1.0, 0.0, 0.0, 0.0, 0.0]})
    found = s.reading("a", time="t", idle=9).as_uniform(2, 1).filter_iir([1.0], [1.0, -0.5]).run(rows)
    assert found["value"].to_pylist() == [1.0, 0.5, 0.5**6, 0.5**7, 0.0]  # 9 ticks, and 11


def test_what_is_refused() -> None:
    with refused(ef.Code.SIG_PERIOD, "idle=4", "6 ticks"):
        s.reading("a", time="t", idle=4).as_uniform(2).window(4, 2).run(pa.table({"t": [0], "value": [0.0]}))
    with refused(ef.Code.SIG_PERIOD, "any pause"):
        s.reading("a", time="t", idle=4).sample(2, 0, s.first_order()).run(
            pa.table({"t": [0], "value": [0.0]})
        )
    with refused(ef.Code.SIG_PERIOD, "idle -1 is negative"):
        s.reading("a", time="t", idle=-1)
    with refused(ef.Code.SIG_KIND, "made anew"):
        GRID.window(4, 2).apply(UPDATED).overlap_add()
    wrong = s.WindowOperator(ramp, lambda before, old, new: before[:, :1], size=2)
    with refused(ef.Code.SIG_SIZE, "(1, 1)", "(1, 2)"):
        GRID.window(4, 1).apply(wrong).run(table([(1, 2 * t + 1, 0, 1.0) for t in range(7)]))
    with pytest.raises(ef.EverfreshError):
        GRID.filter_fir([1.0], missing="skip", tail=True)


def test_explain_says_which_update() -> None:
    query = GRID.window(4, 2).apply(UPDATED)
    assert "apply (windowed, period 4, offset 3): updated from what came" in query.explain()
    assert "recomputed" in GRID.window(4, 2).apply(s.WindowOperator(ramp, size=2)).explain()
    assert "hopping (uniform, period 4, offset 3): updated" in GRID.aggregate(GIVEN_BACK, 4, 2).explain()
    assert "hopping (uniform, period 4, offset 3): recomputed" in GRID.aggregate(PLAIN, 4, 2).explain()
    functions = {f.__name__: f for f in (ramp, moved)}
    assert s.parse(str(query), functions) == query.node
