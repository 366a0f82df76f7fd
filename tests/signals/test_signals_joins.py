"""Signals with one another, several components, other keys and times, a user's own functions."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_cases import events, grouped, near, online, same_bits, table

from everfresh import signals as s

A = s.reading("a", time="t", key="k")
B = s.reading("b", time="t", key="k")
LINE = s.first_order(12)
JOINS = {
    "plus": A.sample(2, 1, LINE) + B.sample(2, 1, LINE),
    "minus": A.sample(4, 1, LINE) - B.sample(2, 0, LINE),
    "times": A.sample(2, 1, LINE) * B.sample(4, 2, LINE),
    "moved": A.sample(4, 1, LINE) + B.sample(4, 3, LINE),
    "resampled": A.sample(4, 1, LINE).plus(B.sample(4, 3, LINE), align="resample"),
    "two taps": A.sample(2, 1, LINE) * A.sample(2, 1, LINE).shift(4),
    "continuous": A * B.sample(2, 1, LINE),
    "windows": (A.sample(2, 1, LINE) + B.sample(2, 1, LINE)).window(3, 1, "zero").overlap_add(),
}


@settings(max_examples=60 if settings().max_examples < 100 else settings().max_examples)
@given(
    name=st.sampled_from(sorted(JOINS)),
    a=events(),
    b=events(),
    cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=3),
)
def test_arithmetic_is_its_twin_after_every_step(name: str, a: Any, b: Any, cuts: Any) -> None:
    query = JOINS[name]
    tables = {"a": [(k, t, t + 1, v) for k, t, _, v in a], "b": [(k, t, t + 1, v) for k, t, _, v in b]}
    if name == "two taps":
        del tables["b"]
    whole = grouped(query.run({each: table(rows) for each, rows in tables.items()}))
    steps = [[cut[0], cut[1]][: len(tables)] for cut in sorted(cuts)]
    for pipeline, result, at in online(query, tables, steps):
        near(grouped(result), query, {n: rows[: at[n]] for n, rows in tables.items()}, pipeline.watermarks)
    same_bits(grouped(result), whole)


def on_grid(signal: Any) -> Any:
    return signal.as_uniform(2, 1)


@pytest.mark.parametrize("grids", [(), ("left",), ("right",), ("left", "right")])
@given(a=events(grid=2), b=events(grid=2), cut=st.integers(0, 40), kind=st.sampled_from(["left", "inner"]))
def test_the_latest_of_another_is_that_of_pandas(a: Any, b: Any, cut: int, kind: str, grids: Any) -> None:
    """Whether one of them has a grid or not."""
    one, two = (on_grid(each) if side in grids else each for side, each in (("left", A), ("right", B)))
    query = one.asof_left(two.select(other="value"), kind=kind)
    assert query.kind == ("uniform" if "left" in grids else "signal")
    tables = {"a": a, "b": b}
    found = query.run({name: table(rows) for name, rows in tables.items()}).to_pandas()
    left, right = (pd.DataFrame(rows, columns=["k", "t", "e", "value"]) for rows in (a, b))
    for frame in (left, right):
        frame["k"] = frame["k"].map(lambda key: 0 if key is None else key).fillna(0).astype("int64")
    if len(left) and len(right):
        right = right.rename(columns={"value": "other"})[["k", "t", "other"]]
        wanted = pd.merge_asof(left.sort_values("t"), right.sort_values("t"), on="t", by="k")
        wanted = wanted.dropna() if kind == "inner" else wanted
        found["k"] = found["k"].fillna(0).astype("int64")
        columns = ["k", "t", "value", "other"]
        mine, theirs = (
            sorted(map(str, (each[columns] + 0.0).to_numpy().tolist())) for each in (found, wanted)
        )
        assert mine == theirs  # but for the sign of zeros, which select() does not keep
    else:
        assert len(found) == (len(left) if kind == "left" else 0)
        assert found["other"].isna().all()
    for _, result, _ in online(query, tables, [[cut, cut]]):
        last = result
    whole = query.run({name: table(rows) for name, rows in tables.items()})
    rows = lambda t: sorted(map(str, t.to_pylist()))  # noqa: E731
    assert rows(last) == rows(whole)


@given(rows=events(), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_a_point_lasts_until_the_next(rows: list[Any], cuts: list[int]) -> None:
    query = A.until_next(10).sample(3)
    expected = {}
    for key in {row[0] for row in rows}:
        mine = [row for row in rows if row[0] == key]
        ends = [row[1] for row in mine[1:]] + [1 << 62]
        for (_, at, _, value), end in zip(mine, ends, strict=True):
            for beat in range(-(-at // 3) * 3, min(end, at + 10), 3):
                expected[key, beat] = value
    for _, result, _ in online(query, {"a": rows}, [[cut] for cut in sorted(cuts)]):
        last = {(row["k"], row["t"]): row["value"] for row in result.to_pylist()}
    assert last == expected
    whole = query.run(table(rows)).to_pylist()
    assert {(row["k"], row["t"]): row["value"] for row in whole} == expected


def test_lifetimes_that_two_signals_share() -> None:
    left = pa.table({"t": [0, 10], "e": [8, 20], "value": [1.0, 2.0]})
    right = pa.table({"t": [5, 15], "e": [12, 30], "value": [10.0, 20.0]})
    a, b = (s.reading(name, time="t", end="e") for name in ("a", "b"))
    assert (a + b).run({"a": left, "b": right}).to_pylist() == [
        {"t": 5, "end": 8, "value": 11.0},
        {"t": 10, "end": 12, "value": 12.0},
        {"t": 15, "end": 20, "value": 22.0},
    ]


@given(a=events(intervals=True), b=events(intervals=True), cut=st.integers(0, 40))
def test_shared_lifetimes_in_the_same_bits_for_any_cut(a: Any, b: Any, cut: int) -> None:
    left, right = (s.reading(name, time="t", key="k", end="e") for name in ("a", "b"))
    tables = {"a": a, "b": b}
    query = left * right
    expected = {
        (k, max(x, u), min(y, v), p * q)
        for k, x, y, p in a
        for j, u, v, q in b
        if j == k and max(x, u) < min(y, v)
    }
    for _, result, _ in online(query, tables, [[cut, 40 - cut]]):
        last = result
    for found in (last, query.run({name: table(rows) for name, rows in tables.items()})):
        rows = [tuple(row.values()) for row in found.to_pylist()]
        assert len(rows) == len(set(rows))
        assert set(rows) == expected


def test_structs_and_vectors_component_by_component() -> None:
    at = np.arange(0, 60, 3)
    x, y = np.sin(at), np.cos(at)
    struct = s.reading("a", time="t", value=("x", "y")).sample(2, interpolate=s.first_order())
    query = struct.filter_fir([1.0, 2.0]).mean(4, 2)
    found = query.run({"t": at, "x": x, "y": y}).to_pydict()
    pairs = pa.FixedSizeListArray.from_arrays(pa.array(np.stack([x, y], 1).ravel()), 2)
    vector = s.reading("a", time="t", value="v").sample(2, interpolate=s.first_order())
    both = vector.filter_fir([1.0, 2.0]).mean(4, 2).run(pa.table({"t": at, "v": pairs})).to_pydict()
    for name, values in (("x", x), ("y", y)):
        one = s.reading("a", time="t", value=name).sample(2, interpolate=s.first_order())
        alone = one.filter_fir([1.0, 2.0]).mean(4, 2).run({"t": at, name: values}).to_pydict()
        assert found[name] == alone[name]
        assert [pair["xy".index(name)] for pair in both["v"]] == alone[name]
    assert struct.select(value="x * x + y * y").run({"t": at, "x": x, "y": y})["value"][0].as_py() == 1.0


def test_keys_of_several_columns_and_times_of_a_clock() -> None:
    start = dt.datetime(2024, 1, 1)
    rows = pa.table(
        {
            "room": ["b", "a", "b", None],
            "n": [1, 1, 1, 2],
            "t": pa.array([start + dt.timedelta(seconds=i) for i in range(4)], pa.timestamp("us")),
            "value": pa.array([1, 2, 3, 4], pa.int32()),
        }
    )
    query = s.reading("a", time="t", key=("room", "n")).sample("1 s", interpolate=s.first_order())
    assert query.run(rows).to_pydict() == {
        "room": ["b", "b", "b", "a", None],
        "n": [1, 1, 1, 1, 2],
        "t": [start + dt.timedelta(seconds=i) for i in (0, 1, 2, 1, 3)],
        "value": [1.0, 2.0, 3.0, 2.0, 4.0],
    }
    assert query.run(rows.to_pandas()).num_rows == 5


@pytest.mark.parametrize("missing", ["zero", "skip"])
def test_a_users_filter_is_the_one_of_scipy(missing: str) -> None:
    rows = table([(3, 2 * n + 1, 2 * n + 2, np.sin(n)) for n in range(40) if n % 11 != 7])
    grid = A.as_uniform(2, 1)
    mine = grid.filter(lambda x, y: 0.5 * x[1] + 0.25 * x[0] - 0.5 * y[0], 2, 1, missing)
    found, wanted = (
        grouped(mine.run(rows)),
        grouped(grid.filter_iir([0.5, 0.25], [1, 0.5], missing).run(rows)),
    )
    times = [t for t, _ in found[3]]
    values = dict(wanted[3])
    if missing == "zero":
        np.testing.assert_allclose([v for _, v in found[3]], [values[t] for t in times], atol=1e-14)
    else:
        assert len(times) == len(values) - 4  # each run begins with its second sample


@pytest.mark.parametrize("combine", [None, lambda a, b: a + b])
def test_a_users_aggregate(combine: Any) -> None:
    rows = table([(3, 2 * n + 1, 2 * n + 2, float(n)) for n in range(20)])
    agg = s.Aggregate(0.0, lambda a, x: a + x * x, combine, result=lambda a: a / 2.0)
    grid = A.as_uniform(2, 1)
    found = grouped(grid.aggregate(agg, 5, 2).run(rows))[3]
    wanted = grouped(grid.energy(5, 2).run(rows))[3]
    assert [(t, 2.0 * v) for t, v in found] == wanted


def test_windows_of_two_signals_correlated() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(16), rng.random(16)
    rows = {name: {"t": np.arange(16), "value": v} for name, v in (("a", x), ("b", y))}
    a, b = (s.reading(name, time="t").as_uniform(1).window(8, 4) for name in ("a", "b"))
    found = a.cross_correlate(b).run(rows)
    wanted = [np.correlate(x[i : i + 8], y[i : i + 8], "full") for i in (0, 4, 8)]
    np.testing.assert_allclose(np.array(found["value"].to_pylist()), wanted, atol=1e-13)


def test_overlap_add_normalized_is_istft() -> None:
    x = np.random.default_rng(0).random(64)
    grid = s.reading("a", time="t").as_uniform(1)
    query = grid.window(8, 4).taper("hann").multiply([2.0] * 8).overlap_add(normalize=True)
    found = query.run({"t": np.arange(64), "value": x})["value"].to_numpy()
    taper = 2.0 * scipy.signal.get_window("hann", 8)
    sums, weights = np.zeros(64), np.zeros(64)
    for start in range(0, 60, 4):
        sums[start : start + 8] += taper * x[start : start + 8]
        weights[start : start + 8] += taper**2
    inside = weights > 1e-10
    np.testing.assert_allclose(found[inside], (sums[inside] / weights[inside]), atol=1e-13)
