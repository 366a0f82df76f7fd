"""The state of operators is as large after many events as after few: it depends on groups and windows alone.

Catches lines that are never cut, timers and buckets that pile up, blocks that are never given back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from everfresh import signals as s

READ = s.reading("a", time="t", key="k")
GRID = READ.sample(2, interpolate=s.first_order(6))
QUERIES = {
    "filter": GRID.filter_fir([0.1] * 32),
    "windows": GRID.window(16, 4, missing="zero").fft().map(np.conj).ifft().overlap_add(),
    "first": GRID.sum(16, 3, missing="zero", align="first"),
    "bins": GRID.window(16, 1).fft(bins=[1, 2]),
    "joined": GRID + READ.sample(2, 0, s.last(6)),
    "latest": GRID.asof_left(READ.until_next(5)),
}


def batches(events: int, groups: int, rounds: int) -> Any:
    """So many events of each group in a batch, at irregular times; half-way every tenth group goes silent."""
    rng = np.random.default_rng(3)
    for first in range(0, events // groups, rounds):
        group, turn = np.tile(np.arange(groups), rounds), np.repeat(np.arange(rounds) + first, groups)
        at = 3 * turn + rng.integers(0, 3, len(turn))
        batch = pa.table({"k": group, "t": at, "value": rng.random(len(turn))})
        talks = (group % 10 > 0) | (turn < events // groups // 2)
        yield batch.filter(pa.array(talks)).sort_by("t")


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(
    ("events", "groups", "rounds"),
    [(60_000, 100, 10), pytest.param(10_000_000, 10_000, 10, marks=pytest.mark.soak)],
)
def test_the_state_is_flat(name: str, events: int, groups: int, rounds: int) -> None:
    pipeline, found, rows = None, [], 0
    for batch in batches(events, groups, rounds):
        pipeline = pipeline or s.Pipeline(QUERIES[name].node, {"a": batch.schema})
        rows += pipeline.step({"a": batch}).num_rows
        pipeline.commit()
        found.append(pipeline.size)
    early = max(found[: len(found) // 5])
    assert max(found) <= 1.05 * early, (early, max(found))
    assert rows > events // 4
    print(f"{name}: {events:,} events, {rows:,} rows, {early:,} and {max(found):,} bytes of state")
