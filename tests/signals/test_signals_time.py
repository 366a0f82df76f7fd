"""Time that passes without events: a view at a watermark is the same whether time came there at once or tick
by tick; and times of nanoseconds since 1970, of which the period may be one."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from everfresh import signals as s

EVENTS = pa.table(
    {"t": [1, 6, 11, 13, 16, 30], "k": [1, 1, 1, 1, 1, 2], "value": [1.0, 2.0, 3.0, 5.0, 6.0, 4.0]}
)
READ = s.reading("a", time="t", key="k")
CAUSAL = s.last(10, causal=True)


def _sums(windows: Any) -> Any:
    return windows.sum(axis=1)


BEGIN: dict[str, Any] = {
    "samples": READ.sample(5, 1),
    "causal": READ.sample(5, 1, interpolate=CAUSAL),
    "line": READ.sample(5, 1, interpolate=s.first_order(7)),
    "steps": READ.until_next(13).sample(5, 1),
    "steps, causal": READ.until_next(13).sample(5, 1, interpolate=CAUSAL),
    "parabola": READ.sample(5, 4, interpolate=s.second_order(26)),
    "sessions": READ.session(4).select(value="count").sample(5, 2),
    "uncovered": READ.until_next(9).anti_join(READ.shift(3).until_next(2)).sample(2),
}
THEN: dict[str, Any] = {
    "overlap-add": lambda u: u.window(8, 1, missing="zero").overlap_add(),
    "unwindow": lambda u: u.window(5, 2, missing="zero").unwindow("sum"),
    "causal": lambda u: u.resample(1, 1, interpolate=CAUSAL),
    "nearest": lambda u: u.resample(10, 2, interpolate=s.zero_order(5)),
    "tail": lambda u: u.filter_fir([1.0, 2.0, 3.0, 4.0], tail=True),
    "sum": lambda u: u.sum(3, 2, missing="zero"),
    "reduce": lambda u: u.window(4, 2, missing="zero").reduce(_sums),
    "from the first": lambda u: u.sum(3, 1, missing="zero", align="first"),
    "overlap-add from the first": lambda u: u.window(4, 2, missing="zero", align="first").overlap_add(),
    "blocks": lambda u: u.filter_fir([1.0] * 8, method="fft"),
    "thin": lambda u: u.downsample(2, 1),
    "finer": lambda u: u.resample_poly(u.period, 1, [1.0, 2.0, 1.0]),
    "sum with its own": lambda u: u + u.shift(u.period),
    "latest": lambda u: u.asof_left(u.where("value < 3")).select(value="value"),
    "sessions": lambda u: u.session(3).select(value="count").sample(3),
    "steps": lambda u: u.until_next(8).sample(3),
    "sliding": lambda u: (
        u.window(4, 1, missing="zero").fft(bins=[0], method="sliding").map(np.abs).reduce(_sums)
    ),
}
CASES = [*itertools.product(BEGIN, THEN), *Random(3).sample([*itertools.product(BEGIN, THEN, THEN)], 40)]


def _ordered(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).sort_by([("k", "ascending"), ("t", "ascending")])


@pytest.mark.parametrize("case", CASES, ids=" - ".join)
def test_time_that_passes_in_steps(case: tuple[str, ...]) -> None:
    q = BEGIN[case[0]]
    for name in case[1:]:
        q = THEN[name](q)
    slow = s.Pipeline(q.node, {"a": EVENTS.schema})
    found = [slow.step({"a": EVENTS})]
    slow.commit()
    for at in range(31, 82):
        found.append(slow.step({}, {"a": at}))
        slow.commit()
        if at % 3 == 0 or 36 < at < 44:
            fast = s.Pipeline(q.node, {"a": EVENTS.schema})
            wanted = [fast.step({"a": EVENTS})]
            fast.commit()
            wanted.append(fast.step({}, {"a": at}))
            assert _ordered(found).equals(_ordered(wanted)), at


@pytest.mark.parametrize("origin", [0, -(10**9), 1_700_000_000_000_000_000, 4_000_000_000_000_000_000])
def test_a_period_of_one_nanosecond(origin: int) -> None:
    """Numbers of windows and samples are then as large as times."""
    n = 40
    rows = pa.table({"t": origin + np.arange(n), "k": np.ones(n, np.int64), "value": np.arange(n) + 1.0})
    grid = READ.as_uniform(1)
    made = {
        "windows": grid.window(8, 1, missing="zero").overlap_add(),
        "spectra": grid.window(8, 1, missing="zero").fft().map(np.abs).reduce(_sums).sum(2, 1),
        "blocks": grid.filter_fir([1.0, 2.0, 4.0], method="fft").filter_fir([1.0, 1.0]),
        "steps": grid.until_next(3).sample(1, interpolate=CAUSAL),
        "sums": grid.mean(4, 2, missing="zero").resample(1, interpolate=s.first_order()),
        "rates": grid.resample_poly(1, 2, [1.0, 0.5]).upsample(2) + grid,
    }
    for name, q in made.items():
        found = q.run(rows).sort_by("t")
        near = rows.set_column(0, "t", pa.array(np.arange(n)))
        wanted = q.run(near).sort_by("t")
        assert found["t"].to_pylist() == [origin + t for t in wanted["t"].to_pylist()], name
        np.testing.assert_allclose(found["value"], wanted["value"], rtol=1e-12, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(
        made["windows"].run(rows)["value"].to_numpy()[7 : n + 7], 8 * rows["value"].to_numpy()
    )
