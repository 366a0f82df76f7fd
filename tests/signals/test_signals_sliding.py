"""Transforms that are made from those of the window before: the transform itself, in the same bits however
batches were cut.

Catches chains that depend on cuts, values that leave a trace, samples of other groups, bins in other places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_cases import events, spread
from test_signals_twins import check

import everfresh as ef
from everfresh import signals as s
from everfresh.signals.kernels import sliding
from everfresh.testing.engine.suite_base import refused

GRID = s.reading("a", time="t", key="k").as_uniform(2, 1)
SHAPES = ((8, 1), (6, 2), (5, 3), (4, 4), (3, 5))
CASES = {
    f"{name} {size} {hop} {missing} {align}": make(GRID.window(size, hop, missing, align))
    for align in ("index", "first")
    for missing in ("zero", "skip")
    for size, hop in SHAPES
    for name, make in {
        "all": lambda w: w.fft(method="sliding"),
        "some": lambda w: w.fft(bins=[2, 0], method="sliding"),
        "anew": lambda w: w.fft(bins=[1], method="fft"),
        "peak": lambda w: w.fft(bins=[0, 1, 2], method="sliding").map(np.abs).reduce(spread),
    }.items()
}


@settings(max_examples=100 if settings().max_examples < 100 else settings().max_examples)
@given(data=st.data(), cuts=st.lists(st.integers(0, 40), max_size=3), complex_=st.booleans())
def test_bins_are_those_of_the_transform(data: Any, cuts: list[int], complex_: bool) -> None:
    query = CASES[data.draw(st.sampled_from(sorted(CASES)))]
    rows = [(k, a, a + 1, v) for k, a, _, v in data.draw(events(grid=2, complex_=complex_))]
    check(query, rows, cuts, complex_)


def spectra(values: Any, size: int, hop: int, **more: Any) -> Any:
    rows = pa.table({"t": np.arange(len(values)), "value": values})
    query = s.reading("a", time="t").as_uniform(1).window(size, hop).fft(**more)
    flat = query.run(rows)["value"].combine_chunks().flatten().storage.flatten().to_numpy()
    return flat.view(np.complex128).reshape(-1, size if "bins" not in more else len(more["bins"]))


@pytest.mark.parametrize("hop", [1, 3])
def test_what_has_left_leaves_no_trace(hop: int) -> None:
    """Neither a value that is not finite, nor one so large that it takes digits with it; errors do not add up
    over more than four windows."""
    values = np.random.default_rng(1).normal(size=20_000)
    values[[5_000, 9_001]], values[7_000], values[12_000] = np.nan, np.inf, 1e12
    found, wanted = (spectra(values, 64, hop, method=method) for method in ("sliding", "fft"))
    near = np.isclose(found, wanted, rtol=0, atol=1e-11).all(axis=1)
    ends = np.arange(len(near)) * hop + (-64 % hop) + 64  # one behind a window's last sample
    inside = np.zeros(len(near), bool)
    for at in (5_000, 7_000, 9_001):
        mine = (ends > at) & (ends <= at + 64)
        inside |= mine
        assert not np.isfinite(found[mine]).any()
    large = (ends > 12_000) & (ends <= 12_064)
    assert np.allclose(found[large], wanted[large], rtol=1e-11, atol=1.0)
    assert near[~inside & ~large].all()


def test_most_windows_come_from_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    anchors, seen = sliding.anchors, []

    def watched(*args: Any) -> None:
        anchors(*args)
        seen.append(args[-1].copy())

    monkeypatch.setattr(sliding, "anchors", watched)
    spectra(np.random.default_rng(2).normal(size=5_000), 32, 2, bins=[3])
    anew = np.concatenate(seen)
    assert len(anew) == (5_000 - 32) // 2 + 1
    assert anew.sum() == -(-len(anew) // 64) + 1  # each 64th by number, and the first


def test_explain_says_which() -> None:
    window = GRID.window(256, 1)
    slid = "fft (windowed, period 2, offset 1): updated from what came; from the bins of the window before"
    assert slid in window.fft(bins=[1, 2]).explain()
    assert slid in window.fft(method="sliding").explain()
    for query in (window.fft(), GRID.window(256, 8).fft(bins=range(256)), window.taper("hann").fft(bins=[1]),
                  window.fft(bins=[1], method="fft"), GRID.window(256, 256).fft(bins=range(30))):  # fmt: skip
        assert "window before" not in query.explain()
    query = window.fft(bins=[3, 1], method="sliding")
    assert s.parse(str(query)) == query.node


def test_frequencies_of_some_bins() -> None:
    rows = pa.table({"t": np.arange(16), "value": np.ones(16)})
    grid = s.reading("a", time="t").as_uniform(1)
    found = grid.window(8, 8).fft(bins=[0, 2, 7]).spectrum(rows)
    assert found["frequency"].to_pylist() == [0.0, 0.25, -0.125] * 2
    assert found["value"].to_pylist() == pytest.approx([8.0, 0.0, 0.0] * 2)


def test_mistakes() -> None:
    window = GRID.window(8, 1)
    with refused(ef.Code.SIG_SIZE, "asks for bin 8 of windows of 8 samples, which have bins 0 to 7"):
        window.fft(bins=[8]).run(pa.table({"k": [1], "t": [1], "value": [1.0]}))
    with refused(ef.Code.SIG_KIND, "ifft() is an operation of whole spectra"):
        window.fft(bins=[1]).ifft()
    with refused(ef.Code.SIG_KIND, "unwindow() is an operation of windows of one signal"):
        window.fft(method="sliding").overlap_add()
    with refused(ef.Code.SIG_KIND, "fft(method='sliding')() is an operation of windows"):
        window.taper("hann").fft(method="sliding")
    with refused(ef.Code.ARGUMENT, "bins= are numbers from 0 on"):
        window.fft(bins=[])
    with refused(ef.Code.ARGUMENT, "method='slow'"):
        window.fft(method="slow")
    with refused(ef.Code.ARGUMENT, "align='last'"):
        GRID.window(8, 1, align="last")
