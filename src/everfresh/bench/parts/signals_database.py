"""Signal views in a database: batches through `db.apply`; and rows into groups that wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from everfresh.bench import Settings
from everfresh.bench.report import Report
from everfresh.bench.timing import median

if TYPE_CHECKING:
    import pyarrow as pa


def applied(report: Report, settings: Settings, events: int) -> None:
    """One signal through `db.apply` in batches of 100,000, in memory: a table alone, and with a view."""
    import numpy as np
    import pyarrow as pa

    import everfresh as ef

    b = np.random.default_rng(3).random(64).tolist()
    rows = min(events, 2_000_000)
    batch = 100_000
    values = np.random.default_rng(1).random(rows)
    table = pa.table({"t": np.arange(rows), "value": values})
    took: dict[str, float] = {}
    for what in ("table alone", "tumbling FFT of 256", "FIR of 64"):
        with ef.connect(engine="local") as db:
            db.sql("CREATE TABLE r (t BIGINT, value DOUBLE)")
            grid = db.signal("r", time="t").as_uniform(1)
            if what.startswith("tumbling"):
                grid.window(256, 256, missing="zero").fft().create_view("v")
            elif what.startswith("FIR"):
                grid.filter_fir(b).create_view("v")
            times = []
            for start in range(0, rows, batch):
                part = table.slice(start, batch)
                started = time.process_time()
                db.apply(r=part)
                times.append(time.process_time() - started)
        took[what] = median(times[1:] or times)
        rate = batch / took[what] / 1e6
        report.row(query=what, how="db.apply, batches of 100,000, in memory", million_per_s=rate)
        if not settings.quick and what != "table alone":
            report.at_least(f"{what} through db.apply", rate, 4.0, "million samples/s")


def idle(report: Report, settings: Settings, events: int) -> None:
    """A batch of 1,000 rows into many groups that wait, against into 1,000 groups."""
    import numpy as np

    from everfresh import signals

    read = signals.reading("t", time="time", key="sensor")
    query = read.sample(1, interpolate=signals.first_order(window=4)).filter_fir([0.25] * 32)
    took: dict[int, float] = {}
    many = 50_000 if settings.quick else min(1_000_000, events)
    for groups in (1_000, many):
        pipeline = signals.Pipeline(query.node, {"t": _rows(np.arange(1), 0).schema})
        for at in range(3):
            pipeline.step({"t": _rows(np.arange(groups), at)})
            pipeline.commit()
        times = []
        rng = np.random.default_rng(groups)
        for at in range(3, 23):
            batch = _rows(rng.choice(groups, 1_000, replace=False), at)
            started = time.process_time()
            pipeline.step({"t": batch})
            pipeline.commit()
            times.append(time.process_time() - started)
        took[groups] = median(times[3:])
        report.row(query="1,000 rows", groups=groups, seconds=took[groups])
    if not settings.quick:
        ratio = took[many] / took[1_000]
        report.below(f"1,000 rows into {many:,} groups", ratio, 3.0, "times into 1,000 groups")


def _rows(groups: Any, at: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    values = np.random.default_rng(at).random(len(groups))
    return pa.table({"sensor": groups, "time": np.full(len(groups), at), "value": values})
