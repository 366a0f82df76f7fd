"""Polyphase filters and sessions, beside SciPy and a loop, and in the same bits for every cut."""

from __future__ import annotations

import operator
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.signal
from hypothesis import given
from hypothesis import strategies as st
from signal_cases import events, grouped, online, same_bits, table

from everfresh import signals as s
from everfresh.errors import Code
from everfresh.testing.engine.suite_base import refused

GRID = s.reading("a", time="t", key="k").as_uniform(6, 1)
CUTS = st.lists(st.integers(0, 40), max_size=3)


def last_of(query: Any, rows: list[Any], cuts: list[int]) -> Any:
    *_, (_, result, _) = online(query, {"a": rows}, [[cut] for cut in sorted(cuts)])
    return result


@pytest.mark.parametrize(("up", "down"), [(1, 1), (2, 1), (3, 2), (2, 3), (1, 3), (6, 4)])
def test_polyphase_is_upfirdn(up: int, down: int) -> None:
    """On samples without a gap: SciPy's values, at the times of the finer grid."""
    rng = np.random.default_rng(up)
    x, taps = rng.random(40), rng.random(7)
    rows = [(3, 6 * i + 1, 6 * i + 2, float(v)) for i, v in enumerate(x)]
    found = grouped(GRID.resample_poly(up, down, taps.tolist()).run(table(rows)))[3]
    period = 6 * down // up
    wanted = np.append(scipy.signal.upfirdn(taps, x, up, down), np.zeros(len(x) * up))
    there = [m for m in range(len(wanted)) if m * down // up < len(x)]
    assert [(t - 1 % period) // period - 1 // period for t, _ in found] == there
    np.testing.assert_allclose([v for _, v in found], wanted[there], atol=1e-12)


@given(rows=events(grid=6), cuts=CUTS, up=st.integers(1, 3), down=st.integers(1, 4), taps=st.integers(1, 9))
def test_polyphase_in_the_same_bits(rows: Any, cuts: list[int], up: int, down: int, taps: int) -> None:
    """With gaps and negative times: as zeros between samples, a filter and each n-th would do."""
    b = np.random.default_rng(taps).random(taps)
    query = GRID.resample_poly(up, down, b.tolist())
    whole = grouped(query.run(table(rows)))
    same_bits(grouped(last_of(query, rows, cuts)), whole)
    for key in {row[0] for row in rows}:
        x = {(t - 1) // 6: v for k, t, _, v in rows if k == key}
        first = min(x)
        indices = [
            m for m in range(first * up // down - up, (max(x) + 1) * up // down + up) if m * down // up in x
        ]
        wanted = [
            sum(b[m * down - n * up] * v for n, v in x.items() if 0 <= m * down - n * up < taps)
            for m in indices
        ]
        period = 6 * down // up
        shift = 1 // period
        assert [(t - 1 % period) // period - shift for t, _ in whole.get(key, [])] == indices
        np.testing.assert_allclose([v for _, v in whole.get(key, [])], wanted, atol=1e-9)


@given(rows=events(intervals=True), cuts=CUTS, gap=st.integers(0, 30))
def test_sessions_in_the_same_bits(rows: Any, cuts: list[int], gap: int) -> None:
    """Events further apart than the gap begin anew; a session is final when the gap has passed."""
    query = s.reading("a", time="t", key="k", end="e").session(gap)
    wanted = []
    for key in dict.fromkeys(row[0] for row in rows):
        open_: list[int] = []
        for _, start, end, _ in sorted(row for row in rows if row[0] == key):
            if open_ and start - open_[1] <= gap:
                open_ = [open_[0], end, open_[2] + 1]
            else:
                wanted += [(key, *open_)] if open_ else []
                open_ = [start, end, 1]
        wanted.append((key, *open_))
    whole = [tuple(row.values()) for row in query.run(table(rows)).to_pylist()]
    assert sorted(whole, key=repr) == sorted(wanted, key=repr)
    found = [tuple(row.values()) for row in last_of(query, rows, cuts).to_pylist()]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


LEFT = s.reading("a", time="t", key="k", end="e")
RIGHT = s.reading("b", time="t", key="k", end="e")
TWO = {"left": events(intervals=True), "right": events(intervals=True)}


def steps_of(query: Any, left: list[Any], right: list[Any], cuts: list[int]) -> tuple[Any, Any]:
    """The result at once, and the last one of some cuts."""
    whole = query.run({"a": table(left), "b": table(right)}).to_pylist()
    *_, (_, result, _) = online(query, {"a": left, "b": right}, [[cut, cut // 2] for cut in sorted(cuts)])
    return sorted(map(repr, whole)), sorted(map(repr, result.to_pylist()))


@given(**TWO, cuts=CUTS)
def test_a_union_has_the_events_of_both(left: Any, right: Any, cuts: list[int]) -> None:
    wanted = sorted(repr(dict(zip(("k", "t", "end", "value"), row, strict=True))) for row in [*left, *right])
    assert steps_of(LEFT.union(RIGHT), left, right, cuts) == (wanted, wanted)


@given(**TWO, cuts=CUTS)
def test_an_anti_join_has_what_the_other_leaves(left: Any, right: Any, cuts: list[int]) -> None:
    """Tick by tick."""
    wanted = []
    for key, start, end, value in left:
        taken = {t for k, a, b, _ in right if k == key for t in range(max(a, start), min(b, end))}
        at = start
        while at < end:
            stop = at
            while stop < end and stop not in taken:
                stop += 1
            if stop > at:
                wanted.append(repr({"k": key, "t": at, "end": stop, "value": value}))
            at = stop + 1
    assert steps_of(LEFT.anti_join(RIGHT), left, right, cuts) == (sorted(wanted), sorted(wanted))


@given(rows=events(intervals=True), more=events(intervals=True), cuts=CUTS, data=st.data())
def test_aggregates_over_events_that_overlap(rows: Any, more: Any, cuts: list[int], data: Any) -> None:
    """Cut at every start and end; each stretch has the events that are valid in it."""
    agg = data.draw(st.sampled_from(["sum", "count", "mean", "min", "max"]))
    add = partial(reduce, operator.add)
    how: Any = {"sum": add, "count": len, "mean": lambda v: add(v) / len(v), "min": min, "max": max}[agg]
    first = min((row[1] for row in [*rows, *more]), default=0)
    both = sorted(((k, a % 400 + first % 7, a % 400 + first % 7 + b - a, v) for k, a, b, v in [*rows, *more]),
        key=lambda row: row[1])  # fmt: skip
    query = s.reading("a", time="t", key="k", end="e", overlap=True).aggregate(agg)
    wanted = []
    for key in {row[0] for row in both}:
        mine = [row[1:] for row in both if row[0] == key]
        marks = sorted({t for a, b, _ in mine for t in (a, b)})
        for a, b in pairwise(marks):
            valid = [v for start, end, v in mine if start <= a and b <= end]
            if valid:
                wanted.append(repr({"k": key, "t": a, "end": b, "value": float(how(valid))}))
    whole = sorted(map(repr, query.run(table(both)).to_pylist()))
    assert whole == sorted(wanted)
    assert sorted(map(repr, last_of(query, both, cuts).to_pylist())) == whole


def test_a_stream_is_a_signal_if_its_events_do_not_overlap() -> None:
    stream = s.reading("a", time="t", key="k", overlap=True).lifetime(duration=5)
    rows = [(3, 0, 1, 1.0), (7, 3, 4, 3.0), (3, 5, 6, 2.0)]
    assert len(stream.to_signal().run(table(rows))) == 3
    with refused(Code.SIG_OVERLAP, "[5, 10) and [9, 14) of key 3"):
        stream.to_signal().run(table([*rows, (3, 9, 10, 1.0)]))
    *_, (_, result, _) = online(stream.to_signal(), {"a": rows}, [[1], [2]])
    assert len(result) == 3


def test_mistakes() -> None:
    with refused(Code.SIG_PERIOD, "6 * 1 ticks are no multiple of 4"):
        GRID.resample_poly(4, 1, [1.0])
    with refused(Code.SIG_PERIOD, "period 6 and offset 1", "not 5"):
        GRID.as_uniform(5)
    assert GRID.as_uniform(6, 7) is GRID
    with refused(Code.SIG_PERIOD, "session(-1)"):
        s.reading("a", time="t").session(-1)
    with refused(Code.SIG_TYPE, "value and x", "same names"):
        one = LEFT.union(s.reading("b", time="t", key="k", end="e", value="x"))
        one.run({"a": table([]), "b": table([]).rename_columns(["k", "t", "e", "x"])})
    with refused(Code.ARGUMENT, "no stream"):
        LEFT.union(3)
    with refused(Code.SIG_KIND, "anti_join", "a windowed signal"):
        LEFT.anti_join(GRID.window(2, 2))


@given(rows=events(intervals=True), shift=st.integers(-9, 9), duration=st.none() | st.integers(1, 40))
def test_events_at_other_times(rows: Any, shift: int, duration: int | None) -> None:
    """Lifetimes that are moved, and have another length: what they say at a time is what they said before."""
    read = s.reading("a", time="t", key="k", end="e", overlap=True)
    found = read.lifetime(shift=shift, duration=duration).run(table(rows))
    mine = sorted(
        map(str, zip(*(found[name].to_pylist() for name in ("k", "t", "end", "value")), strict=True))
    )
    moved = [
        (k, a + shift, b + shift if duration is None else a + shift + duration, v) for k, a, b, v in rows
    ]
    assert mine == sorted(map(str, moved))


@given(rows=events(grid=2), factor=st.integers(1, 4))
def test_decimation_is_a_filter_and_each_of_some_samples(rows: Any, factor: int) -> None:
    grid = s.reading("a", time="t", key="k").as_uniform(2, 1)
    assert grid.decimate(factor, [1.0, 0.5]) == grid.filter_fir([1.0, 0.5]).downsample(factor)
    found = grid.decimate(factor, [1.0, 0.5]).run(table(rows))
    wanted = grid.filter_fir([1.0, 0.5]).run(table(rows)).to_pylist()
    kept = [row for row in wanted if (row["t"] - 1) // 2 % factor == 0]
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, kept))
