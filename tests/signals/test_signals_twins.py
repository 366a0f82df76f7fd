"""Every operator against its twin, after every step of every cut, and in the same bits as the run at once.

Catches windows aligned to what came first, sums carried over cuts, beats filled too early or too late, groups
that are forgotten when time passes without rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_cases import events, f_two, grouped, near, online, same_bits, spread, table

from everfresh import signals as s

POINTS = s.reading("a", time="t", key="k")
LIVES = s.reading("a", time="t", key="k", end="e")
GRID = POINTS.as_uniform(2, 1)
FILLED = POINTS.sample(3, 1, s.first_order(window=12))

SAMPLED = {
    "none": LIVES.sample(4, 1),
    "points": POINTS.sample(2, 1),
    **{
        name: LIVES.sample(4, 1, policy)
        for name, policy in {
            "constant": s.constant(-1, 9),
            "last": s.last(9),
            "causal": s.last(9, causal=True),
            "zero order": s.zero_order(9),
            "first order": s.first_order(9),
            "second order": s.second_order(30),
            "no window": s.first_order(),
            "user": s.user(lambda v, r, w, u, t: v + (w - v) * (t - r), window=9),
        }.items()
    },
    "resampled": FILLED.resample(2, 0, s.zero_order(20)),
    "upsampled": POINTS.sample(6, 1, s.first_order(40)).upsample(3),
    "downsampled": FILLED.downsample(3, 2),
    "shifted": FILLED.shift(5).scale(2.0, 1.0),
}
FILTERS = {
    f"{name} {missing}": made
    for missing in ("zero", "skip")
    for name, made in {
        "fir": GRID.filter_fir([0.5, -1.0, 3.0, 0.25], missing=missing),
        "long fir": GRID.filter_fir([0.01 * (i % 7) for i in range(40)], missing=missing),
        "block fir": GRID.filter_fir([0.5, -1.0, 3.0, 0.25, 2.0], missing=missing, method="fft"),
        "decimate": GRID.filter_fir([1.0, 2.0, 0.5], missing=missing).downsample(3),
        "correlate": GRID.correlate([1.0, 2.0, 3.0], missing=missing),
        "iir": GRID.filter_iir([1.0, 0.5], [1.0, -0.5, 0.2], missing=missing),
        "sos": GRID.filter_sos([[1, 0.2, 0.1, 1, -0.3, 0.1], [0.5, 0, 0, 1, 0.2, 0]], missing=missing),
    }.items()
}
WINDOWS = {
    f"{name} {size} {hop} {missing}": make(GRID.window(size, hop, missing))
    for missing in ("zero", "skip")
    for size, hop in ((4, 4), (4, 2), (5, 3), (3, 1), (2, 5))
    for name, make in {
        "window": lambda w: w,
        "spectrum": lambda w: w.taper("hann").fft(),
        "overlap": lambda w: w.overlap_add(),
        "filtered": lambda w: w.fft().map(f_two).ifft().unwindow("sum"),
        "latest": lambda w: w.unwindow("last"),
        "lags": lambda w: w.autocorrelate(),
        "reduced": lambda w: w.reduce(spread),
        "chained": lambda w: w.overlap_add().filter_fir([1.0, 2.0]).sum(3, 2),
    }.items()
}
HOPPING = {
    f"{agg} {size} {hop} {missing}": GRID.aggregate(agg, size, hop, missing)
    for missing in ("zero", "skip")
    for size, hop in ((4, 4), (4, 2), (5, 3), (3, 1), (2, 5))
    for agg in ("sum", "mean", "energy", "power", "min", "max")
}
FIRST = {
    f"{name} {size} {hop} {missing}{pause}": make(grid, size, hop, missing)
    for pause, grid in (("", GRID), (" idle", s.reading("a", time="t", key="k", idle=45).as_uniform(2, 1)))
    for missing in ("zero", "skip")
    for size, hop in ((4, 4), (4, 3), (5, 2), (3, 1), (2, 5))
    for name, make in {
        "window": lambda g, *shape: g.window(*shape, align="first"),
        "spectrum": lambda g, *shape: g.window(*shape, align="first").taper("hann").fft(),
        "overlap": lambda g, *shape: g.window(*shape, align="first").overlap_add(),
        "longer": lambda g, *shape: g.window(*shape, align="first").autocorrelate().unwindow("sum"),
        "reduced": lambda g, *shape: g.window(*shape, align="first").reduce(spread),
        "sum": lambda g, *shape: g.sum(*shape, align="first"),
        "max": lambda g, *shape: g.max(*shape, align="first"),
        "chained": lambda g, *shape: g.sum(*shape, align="first").window(3, 2, "zero").overlap_add(),
    }.items()
}


def check(query: Any, rows: list[Any], cuts: list[int], complex_: bool = False) -> None:
    whole = grouped(query.run(table(rows, complex_)))
    for pipeline, result, at in online(query, {"a": rows}, [[cut] for cut in sorted(cuts)], complex_):
        near(grouped(result), query, {"a": rows[: at["a"]]}, pipeline.watermarks)
    same_bits(grouped(result), whole)


CASES = {"sampling": SAMPLED, "filters": FILTERS, "windows": WINDOWS, "aggregates": HOPPING, "first": FIRST}


@pytest.mark.parametrize("family", CASES)
@settings(max_examples=150 if settings().max_examples < 100 else settings().max_examples)
@given(data=st.data(), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_operators_are_their_twins_after_every_step(family: str, data: Any, cuts: list[int]) -> None:
    query = CASES[family][data.draw(st.sampled_from(sorted(CASES[family])))]
    rows = data.draw(events(grid=0 if family == "sampling" else 2, intervals=family == "sampling"))
    lives = "end='e'" in str(query)
    check(query, [(k, a, b if lives else a + 1, v) for k, a, b, v in rows], cuts)


PARTS = s.reading("a", time="t", key="k", value="value"), s.reading("a", time="t", key="k", value="other")
BOTH = s.reading("a", time="t", key="k", value=("value", "other"))
BY_COMPONENT = {
    **{
        policy.name: lambda read, policy=policy: read.sample(4, 1, policy)
        for policy in (
            s.last(9), s.zero_order(9), s.first_order(9), s.second_order(30),
            s.user(lambda v, r, w, u, t: v + (w - v) * (t - r), window=9),
        )
    },
    "iir": lambda read: read.as_uniform(2, 1).filter_iir([1.0, 0.5], [1.0, -0.5, 0.2]),
    "sos": lambda read: read.as_uniform(2, 1).filter_sos([[1, 0.2, 0.1, 1, -0.3, 0.1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_COMPONENT)
@given(rows=events(grid=2, complex_=True), cuts=st.lists(st.integers(0, 40), max_size=2))
def test_complex_values_vectors_and_structs(name: str, rows: list[Any], cuts: list[int]) -> None:
    """Complex samples are their twins; vectors and structs have the bits of their components alone."""
    make = BY_COMPONENT[name]
    check(make(POINTS), rows, cuts, True)
    real = [(k, a, b, v.real) for k, a, b, v in rows]
    both = table(real).append_column("other", pa.array([v.imag for *_, v in rows], pa.float64()))
    flat = np.array([[v.real, v.imag] for *_, v in rows]).reshape(-1)
    vectors = both.drop_columns(["value", "other"]).append_column(
        "value", pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float64()), 2)
    )
    wanted = [make(part).run(both) for part in PARTS]
    struct, vector = make(BOTH).run(both), make(POINTS).run(vectors)
    for place, (column, alone) in enumerate(zip(("value", "other"), wanted, strict=True)):
        numbers = alone.column(column).to_numpy().tobytes()
        assert struct.column(column).to_numpy().tobytes() == numbers
        inner = vector.column("value").combine_chunks().flatten().to_numpy(zero_copy_only=False)
        assert np.ascontiguousarray(inner.reshape(-1, 2)[:, place]).tobytes() == numbers
