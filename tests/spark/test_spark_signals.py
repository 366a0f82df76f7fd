"""Queries over Spark DataFrames give the bits of a run in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from everfresh import signals as s
from everfresh.signals.spark.run import flat

pytestmark = pytest.mark.spark


def readings(seed: int, name: str) -> pa.Table:
    rng = np.random.default_rng(seed)
    rows = sorted(
        {(int(k), int(t)) for k, t in zip(rng.integers(0, 7, 900), rng.integers(-50, 400, 900), strict=True)}
    )
    keys, times = zip(*rows, strict=True)
    return pa.table(
        {
            "room": pa.array([None if k == 6 else f"room {k}" for k in keys]),
            "k": pa.array([k % 2 for k in keys], pa.int32()),
            "at": pa.array(times, pa.int64()),
            name: rng.random(len(rows)),
        }
    )


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(map(repr, table.to_pylist()))  # type: ignore[arg-type]


def test_the_same_bits(spark: Any) -> None:
    """One table and two, several keys, NULL among them, windows, spectra, a user's function."""
    one, two = readings(1, "x"), readings(2, "y")
    frames = {"a": spark.createDataFrame(one.to_pandas()), "b": spark.createDataFrame(two.to_pandas())}
    key = ("room", "k")
    a = s.reading("a", time="at", key=key, value="x").sample(3, interpolate=s.first_order(window=20))
    b = s.reading("b", time="at", key=key, value="y", where="y > 0.1").sample(3, 1, s.last(window=30))
    queries = [
        (a.filter_fir([0.5, 0.25, 0.125]), {"a"}),
        (a + b, {"a", "b"}),
        (a.window(8, 4, missing="zero").taper("hann").fft(), {"a"}),
        (b.window(8, 8).reduce(lambda w: w.max(axis=1)), {"b"}),
        (s.reading("a", time="at", key=key, value="x").session(4), {"a"}),
    ]
    tables = {"a": one, "b": two}
    for query, names in queries:
        given = {name: frames[name] for name in names}
        found = query.run(given if len(names) > 1 else next(iter(given.values()))).toArrow()
        wanted = flat(query.run({name: tables[name] for name in names}))
        assert found.column_names == wanted.column_names
        assert rows_of(found) == rows_of(wanted)
        assert len(wanted) > 10
