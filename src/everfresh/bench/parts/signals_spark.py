"""Queries over grouped signals on Spark: one shot over Parquet, and a view refreshed by 1 %, both against
`applyInPandas` with SciPy over the same rows, in turns, by the clock."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from everfresh.bench import Settings
from everfresh.bench.report import Report
from everfresh.bench.timing import median

if TYPE_CHECKING:
    import pyarrow as pa

SIZES = {100: (1_000_000, 7.0), 1_000: (1_000_000, 2.5), 20_000: (2_000_000, 1.2)}
"""By events a group: how many there are at most, and how many times faster one shot is to be."""
TAPS, ROUNDS = 32, 3


def on_spark(report: Report, settings: Settings, events: int) -> None:
    """Interpolation and a filter: 100, 1,000 and 20,000 events a group."""
    from pyspark.sql import SparkSession

    if settings.quick:
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.master("local[2]").appName("everfresh bench signals")
    for name in ("spark.ui.enabled", "spark.sql.adaptive.enabled"):
        builder = builder.config(name, "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "2g")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        wanted = settings.options.get("each", ",".join(map(str, SIZES))).split(",")
        for each, (most, bar) in SIZES.items():
            if str(each) not in wanted:
                continue
            with TemporaryDirectory() as folder:
                _measured(report, session, Path(folder), each, min(most, events), bar)
    finally:
        session.stop()


def _measured(report: Report, session: Any, folder: Path, each: int, events: int, bar: float) -> None:
    import pyarrow.parquet as pq

    from everfresh.bench.signals import grouped

    groups = max(2, events // each)
    table = grouped(events, groups)
    percent = len(table) // 100
    cut = len(table) - percent - percent // 5
    for name, rows in (("all", table), ("first", table.slice(0, cut))):
        pq.write_table(rows, folder / f"{name}.parquet", row_group_size=1 << 17)
    ours, theirs = _one_shot(session, folder)
    times = _turns({"everfresh": ours, "applyInPandas": theirs})
    ratio = times["applyInPandas"] / times["everfresh"]
    refresh = _refresh(session, folder, table.slice(cut), percent)
    report.row(
        query="interpolation and filter on Spark", events=len(table), groups=groups,
        everfresh_s=times["everfresh"], apply_in_pandas_s=times["applyInPandas"], times=ratio,
        refresh_s=refresh, refresh_times=times["applyInPandas"] / refresh,
    )  # fmt: skip
    report.at_least(f"{each:,} events a group on Spark, one shot", ratio, bar, "times applyInPandas")
    report.at_least(
        f"{each:,} events a group on Spark, refresh by 1 %",
        times["applyInPandas"] / refresh, 30.0, "times applyInPandas over all rows",
    )  # fmt: skip


def _turns(alternatives: dict[str, Callable[[], None]]) -> dict[str, float]:
    """The median of each by the clock, in turns; one round before that starts processes and compiles."""
    found: dict[str, list[float]] = {name: [] for name in alternatives}
    for turn in range(ROUNDS + 1):
        for name, call in alternatives.items():
            started = time.perf_counter()
            call()
            if turn:
                found[name].append(time.perf_counter() - started)
    return {name: median(times) for name, times in found.items()}


def _query(read: Any) -> Any:
    import numpy as np

    from everfresh import signals

    b = np.random.default_rng(6).random(TAPS)
    return read.sample(1, interpolate=signals.first_order(window=4)).filter_fir(b.tolist())


def _one_shot(session: Any, folder: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    from everfresh import signals

    query = _query(signals.reading("t", time="time", key="sensor"))

    def written(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def rows() -> Any:
        return session.read.parquet(str(folder / "all.parquet"))

    def theirs() -> None:
        schema = "sensor long, time long, value double"
        written(rows().groupBy("sensor").applyInPandas(partial(_of_group, TAPS), schema))

    return lambda: written(query.run(rows())), theirs


def _of_group(taps: int, group: Any) -> Any:
    import numpy as np
    import pandas as pd
    import scipy.signal

    b = np.random.default_rng(6).random(taps)
    group = group.sort_values("time")
    at, values = group["time"].to_numpy(), group["value"].to_numpy()
    beats = np.arange(at[0], at[-1] + 1)
    found = scipy.signal.lfilter(b, 1, np.interp(beats, at, values))
    return pd.DataFrame({"sensor": group["sensor"].iloc[0], "time": beats, "value": found})


def _refresh(session: Any, folder: Path, last: pa.Table, percent: int) -> float:
    """A batch of 1 % into a view over the rest, after two small ones that warm up."""
    import everfresh as ef

    options = ef.Options(workers=2, durable=False)
    with ef.connect(folder / "db", engine="spark", spark=session, options=options) as db:
        db.sql("CREATE TABLE t (sensor BIGINT, time BIGINT, value DOUBLE)")
        db.apply(t=session.read.parquet(str(folder / "first.parquet")))
        _query(db.signal("t", time="time", key="sensor")).create_view("v")
        small = (len(last) - percent) // 2
        for start in (0, small):
            db.apply(t=last.slice(start, small))
        started = time.perf_counter()
        db.apply(t=last.slice(2 * small))
        return time.perf_counter() - started
