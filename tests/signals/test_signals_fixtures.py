"""The worked figures: interpolation of Figure 7.4, second order, functional payloads, query 4, offsets,
windows, filters, and the example of section 7.1.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from signal_cases import events, grouped, online, same_bits, table

from everfresh import signals as s
from everfresh.testing.signal_twins import END, twin

FIGURE = [
    (10, 11, 1), (30, 31, 3), (55, 100, 8), (115, 116, 5), (170, 171, 16), (240, 241, 2), (300, 301, 8),
    (320, 321, 0), (365, 366, 9), (405, 470, 1),
]  # fmt: skip
BEATS = {30: 3, 60: 8, 90: 8, 240: 2, 300: 8, 420: 1, 450: 1}
LINE = {**BEATS, 120: 6, 150: 12, 270: 5, 330: 2, 360: 8, 390: 4}
POLICIES = [
    (None, BEATS),
    (s.first_order(60), LINE),
    (s.second_order(60), LINE),
    (s.last(60), {**BEATS, 120: 5, 150: 5, 270: 2, 330: 0, 360: 0, 390: 9}),
    (s.zero_order(60), {**BEATS, 120: 5, 150: 16, 270: 8, 330: 0, 360: 9, 390: 1}),
    (s.constant(-1, 60), {**BEATS, **dict.fromkeys((120, 150, 270, 330, 360, 390), -1)}),
    (
        s.last(60, causal=True),
        {**BEATS, 120: 5, 150: 5, 180: 16, 210: 16, 270: 2, 330: 0, 360: 0, 390: 9, 480: 1, 510: 1},
    ),
]
LIVES = s.reading("a", time="t", end="e")
GRID = s.reading("a", time="t").as_uniform(1)


def figure(upto: int = 10) -> pa.Table:
    start, end, value = zip(*FIGURE[:upto], strict=True)
    return pa.table({"t": start, "e": end, "value": [float(v) for v in value]})


def samples(values: dict[int, float]) -> pa.Table:
    return pa.table({"t": list(values), "value": [float(v) for v in values.values()]})


def as_dict(result: pa.Table, column: str = "value") -> dict[int, Any]:
    return dict(zip(result["t"].to_pylist(), result[column].to_pylist(), strict=True))


@pytest.mark.parametrize(("policy", "expected"), POLICIES)
def test_figure_7_4(policy: Any, expected: dict[int, float]) -> None:
    assert as_dict(LIVES.sample(30, interpolate=policy).run(figure())) == dict(sorted(expected.items()))


def test_a_beat_is_final_when_its_gap_is_closed() -> None:
    query = LIVES.sample(30, interpolate=s.first_order(60))
    pipeline = s.Pipeline(query.node, {"a": figure().schema})

    def step(rows: pa.Table | None, advance: int | None = None) -> list[int]:
        made = pipeline.step({} if rows is None else {"a": rows}, {} if advance is None else {"a": advance})
        pipeline.commit()
        return made["t"].to_pylist()

    assert step(figure().slice(0, 4)) == [30, 60, 90]
    assert step(figure().slice(4, 1)) == [120, 150]
    assert step(None, 230) == []
    missing = pipeline._operators[-1].when(np.array([0]), np.array([8]))
    assert missing == [231]  # then it is known that there is nothing at 180 and 210
    assert step(figure().slice(5, 1)) == [240]


def test_resampled_by_the_nearer_sample() -> None:
    query = LIVES.sample(30, interpolate=s.first_order(60)).resample(15, 0, s.zero_order(120))
    found = as_dict(query.run(figure()))
    between = {
        45: 8, 75: 8, 105: 6, 135: 12, 165: 12, 180: 12, 195: 2, 210: 2, 225: 2, 255: 5, 285: 8, 315: 2,
        345: 8, 375: 4, 405: 1, 435: 1,
    }  # fmt: skip
    assert found == dict(sorted({**LINE, **between}.items()))


def test_second_order() -> None:
    rows = samples({0: 0, 20: 400, 50: 2500, 80: 6400})
    found = as_dict(s.reading("a", time="t").sample(10, interpolate=s.second_order(60)).run(rows))
    assert found == {0: 0, 10: 200, 20: 400, 30: 900, 40: 1600, 50: 2500, 60: 3600, 70: 4900, 80: 6400}


def test_functions_of_time_are_taken_where_they_are_sampled() -> None:
    rows = pa.table({"t": [40, 80], "e": [80, 100], "freq": [40.0, 20.0], "which": [0.0, 1.0]})
    read = s.reading("a", time="t", end="e", value=("freq", "which"))
    wave = read.function(lambda t, freq: np.sin(2 * np.pi * t / freq), "freq")
    found = as_dict(wave.sample(10).run(rows))
    np.testing.assert_allclose([found[t] for t in (40, 50, 60, 70)], [0, 1, 0, -1], atol=1e-15)
    two = read.function([lambda t, f: t * 1.0, lambda t, f: f - t], "freq", choose="which")
    assert as_dict(two.scale(2.0).sample(10).run(rows)) == {
        40: 80, 50: 100, 60: 120, 70: 140, 80: -120, 90: -140,
    }  # fmt: skip
    product = wave.times(read.select(value="which + 1")).sample(10).run(rows)
    assert as_dict(product)[50] == pytest.approx(1.0)


def test_query_4_waits_for_both_tables() -> None:
    one = pa.table({"t": [0, 20, 40], "k": [1, 1, 1], "temp": [0.0, 1.0, 0.0]})
    two = pa.table({"t": list(range(0, 50, 5)), "k": [1] * 10, "temp": [1.0] * 10})
    a, b = (s.reading(name, time="t", key="k", value="temp") for name in ("s1", "s2"))
    total = a.sample(5, interpolate=s.first_order(20)) + b.as_uniform(5)
    expected = {0: 1, 5: 1.25, 10: 1.5, 15: 1.75, 20: 2, 25: 1.75, 30: 1.5, 35: 1.25, 40: 1}
    assert as_dict(total.run({"s1": one, "s2": two}), "temp") == expected
    query = total.where("value < 0.0001 or value > 1.9999")
    assert as_dict(query.run({"s1": one, "s2": two}), "temp") == {20: 2}
    pipeline = s.Pipeline(total.node, {"s1": one.schema, "s2": two.schema})
    assert len(pipeline.step({"s1": one})) == 0
    pipeline.commit()
    assert pipeline.step({"s2": two.slice(0, 5)})["t"].to_pylist() == [0, 5, 10, 15, 20]


def test_offsets() -> None:
    left = pa.table({"t": [0, 30], "value": [1.0, 2.0]})
    right = pa.table({"t": [10, 40], "value": [10.0, 20.0]})
    a = s.reading("l", time="t").as_uniform(30)
    b = s.reading("r", time="t").sample(30, 10, s.first_order())
    assert as_dict((a + b).run({"l": left, "r": right})) == {0: 11, 30: 22}
    resampled = a.plus(b, align="resample").run({"l": left, "r": right})
    assert as_dict(resampled) == {30: pytest.approx(2 + 50 / 3)}


def test_windows_and_the_way_back() -> None:
    rows = samples({i: i + 1 for i in range(10)})
    zero, skip = GRID.window(4, 2, "zero"), GRID.window(4, 2)
    found = as_dict(zero.run(rows))
    assert found[1] == [0, 0, 1, 2]
    assert found[9] == [7, 8, 9, 10]
    assert found[11] == [9, 10, 0, 0]
    assert list(as_dict(GRID.sum(4, 2, "zero").run(rows)).values()) == [3, 10, 18, 26, 34, 19]
    assert list(as_dict(skip.run(rows))) == [3, 5, 7, 9]
    inside = {i: 2 * (i + 1) for i in range(10)}
    assert as_dict(zero.overlap_add().run(rows)) == {-2: 0, -1: 0, **inside, 10: 0, 11: 0}
    assert list(as_dict(skip.overlap_add().run(rows)).values()) == [1, 2, 6, 8, 10, 12, 14, 16, 9, 10]


def test_samples_are_final_when_no_window_can_reach_them() -> None:
    pipeline = s.Pipeline(GRID.window(4, 2).overlap_add().node, {"a": samples({0: 1}).schema})
    assert pipeline.step({"a": samples({i: i + 1 for i in range(6)})})["t"].to_pylist() == [0, 1, 2, 3]
    pipeline.commit()
    assert pipeline.step({}, {"a": 12})["t"].to_pylist() == [4, 5]


def test_filters() -> None:
    x = samples({0: 1, 1: 2, 3: 4})
    assert as_dict(GRID.filter_fir([1, 10, 100]).run(x)) == {0: 1, 1: 12, 3: 204}
    assert as_dict(GRID.filter_fir([1, 10, 100], missing="skip").run(x)) == {}
    assert as_dict(GRID.correlate([1, 10, 100]).run(x)) == {0: 100, 1: 210, 3: 402}
    y = samples({0: 1, 1: 0, 3: 0})
    assert as_dict(GRID.filter_iir([1], [1, -0.5]).run(y)) == {0: 1, 1: 0.5, 3: 0.125}
    assert as_dict(GRID.filter_iir(feed_forward=[1], feed_backward=[0.5]).run(y)) == {0: 1, 1: 0.5, 3: 0.125}


@pytest.mark.parametrize("query", [GRID.filter_fir([1.0, 1.0, 1.0]), GRID.sum(3, 1)])
def test_a_nan_is_gone_with_its_window(query: Any) -> None:
    rows = samples({i: float("nan") if i == 3 else 0.1 * i for i in range(9)})
    found = as_dict(query.run(rows))
    assert [t for t, v in found.items() if v != v] == [3, 4, 5]
    assert found[6] == pytest.approx(0.1 * (4 + 5 + 6), abs=1e-15)


def two_largest(a: Any) -> Any:
    """The two largest magnitudes of each spectrum."""
    out = np.zeros_like(a)
    top = np.argsort(np.abs(a), axis=1, kind="stable")[:, -2:]
    np.put_along_axis(out, top, np.take_along_axis(a, top, 1), 1)
    return out


def sensors() -> pa.Table:
    rows = [
        (key, 100 * j, np.sin(2 * np.pi * m * 100 * j / 51200))
        for key, m, count in ((1, 8, 1536), (2, 16, 700), (3, 32, 511))
        for j in range(count)
    ]
    rows.sort(key=lambda row: row[1])
    key, at, value = zip(*rows, strict=True)
    return pa.table({"k": key, "t": at, "value": value})


def test_the_worked_example_of_7_1_1() -> None:
    query = (
        s.reading("a", time="t", key="k")
        .sample(100, interpolate=s.first_order())
        .window(512, 256)
        .fft()
        .map(two_largest)
        .ifft()
        .overlap_add()
    )
    found = grouped(query.run(sensors()))
    assert set(found) == {1, 2}
    for key, m, end in ((1, 8, 153500), (2, 16, 51100)):
        at = np.array([t for t, _ in found[key]])
        values = np.array([complex(v) for _, v in found[key]])
        assert at.tolist() == list(range(0, end + 1, 100))
        twice = (at >= 25600) & (at <= 127900) & (key == 1)
        wave = np.sin(2 * np.pi * m * at / 51200) * np.where(twice, 2, 1)
        np.testing.assert_allclose(values, wave, atol=1e-11)
        assert np.abs(values.imag).max() < 1e-12


def jittered() -> list[tuple[int, int, int, float]]:
    """The sensors with seeded jitter of -40 to 40 ticks, and 5 % of the readings lost, in order of time."""
    rng = np.random.default_rng(7)
    rows = zip(*(sensors().column(name).to_pylist() for name in ("k", "t", "value")), strict=True)
    kept = [(k, t + int(rng.integers(-40, 41)), v) for k, t, v in rows if rng.random() > 0.05]
    return sorted(((k, t, t + 1, v) for k, t, v in kept), key=lambda row: row[1])


@pytest.mark.parametrize("missing", ["skip", "zero"])
def test_the_worked_example_with_jitter_and_losses(missing: str) -> None:
    """The second run, and windows that are half empty: the twin, and the same bits for all cuts."""
    query = (
        s.reading("a", time="t", key="k").sample(100, interpolate=s.first_order(500))
        .window(512, 256, missing).fft().map(two_largest).ifft().overlap_add()
    )  # fmt: skip
    rows = jittered()
    whole = grouped(query.run(table(rows)))
    assert set(whole) == ({1} if missing == "skip" else {1, 2, 3})  # sensor 2 begins behind beat 0
    watermarks = {"a": END}
    for key, found in whole.items():
        wanted = twin(query.node, {"a": {key: [row[1:] for row in rows if row[0] == key]}}, watermarks, key)
        assert [t for t, _ in found] == wanted.at.tolist()
        np.testing.assert_allclose(np.array([v for _, v in found]), wanted.values, atol=1e-9)
    for cuts in ([1], [700, 701, 2000], list(range(0, len(rows), 97))):
        *_, (_, result, _) = online(query, {"a": rows}, [[cut] for cut in cuts])
        same_bits(grouped(result), whole)


@given(rows=events(grid=2), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_a_step_taken_back_leaves_nothing(rows: list[Any], cuts: list[int]) -> None:
    """Steps that are rolled back, and a state that went through bytes, in between."""
    query = (
        s.reading("a", time="t", key="k").sample(3, 1, s.first_order(12)).window(4, 2, "zero").overlap_add()
    )
    whole = grouped(query.run(table(rows)))
    pipeline = s.Pipeline(query.node, {"a": table([]).schema})
    parts = []
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(rows)], strict=True):
        batch = {"a": table(rows[start:stop])}
        pipeline.step(batch, {"a": None})
        pipeline.rollback()
        again = s.Pipeline(query.node, {"a": table([]).schema})
        again.decode(pipeline.encode())
        pipeline = again
        parts.append(pipeline.step(batch))
        pipeline.commit()
    parts.append(pipeline.step({}, {"a": None}))
    same_bits(grouped(pa.concat_tables(parts)), whole)


@given(rows=events(grid=2, complex_=True), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_complex_samples_in_the_same_bits_for_any_cut(rows: list[Any], cuts: list[int]) -> None:
    query = s.reading("a", time="t", key="k").as_uniform(2, 1).filter_fir([1.0, 0.5j]).window(4, 2).fft()
    whole = grouped(query.run(table(rows, True)))
    *_, (_, result, _) = online(query, {"a": rows}, [[cut] for cut in sorted(cuts)], True)
    same_bits(grouped(result), whole)
