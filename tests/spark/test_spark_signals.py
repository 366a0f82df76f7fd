"""Queries over Spark DataFrames, and views with their groups in the workers, give the bits of one process."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import everfresh as ef
from everfresh import signals as s
from everfresh.signals.domain.functions import _REGISTERED
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


def test_views_with_their_groups_in_the_workers(spark: Any, tmp_path: Path) -> None:
    """Batches, corrections and a function that only this process knows; opened again, from a snapshot; the
    rows of one process, to the last bit."""
    name = "test_spark_signals.louder"
    s.register(name, lambda windows: 3.0 * windows)
    try:
        louder = _REGISTERED[name]
        one = readings(4, "x").sort_by("at")
        options = ef.Options(workers=2, durable=False, inline_bytes=1)
        on_spark = partial(ef.connect, tmp_path / "db", engine="spark", spark=spark, options=options)
        with ef.connect(engine="local") as local, on_spark() as db:
            for each in (local, db):
                each.sql("CREATE TABLE a (room VARCHAR, k INT, at BIGINT, x DOUBLE)")
                each.apply(a=one.slice(0, 300))
                query = each.signal("a", time="at", key=("room", "k"), value="x", late="revise").sample(3)
                query.window(4, 4, missing="zero").fft().map(louder).create_view("v")
                each.apply(a=one.slice(300, 250))
                each.apply(a=ef.Delta(deletes=one.slice(40, 2), inserts=one.slice(600)))
                each.apply(a=one.slice(550, 50))
            wanted = rows_of(local.view("v").to_arrow())
            assert rows_of(db.view("v").to_arrow()) == wanted
            assert db.view("v").to_spark().count() == len(local._engine.read("v"))
            db._engine.snapshot()
        with on_spark() as db:
            assert rows_of(db.view("v").to_arrow()) == wanted
            assert db.view("v").verify().num_rows == 0
            assert db.advance("a", None) == db.epoch
            assert len(db.view("v").changes(db.epoch - 1)) > 0
    finally:
        del _REGISTERED[name]
