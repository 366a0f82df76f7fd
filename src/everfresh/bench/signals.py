"""The five queries of section 7.5 of the thesis on the operator path, against NumPy and SciPy at once and
pandas group by group: one shot, and the refresh by a batch of 1 % beside the same over all rows.

Alternatives are timed in turns, by processor time, so that a busy machine falls on all alike. What a baseline
takes above `EXTRAPOLATED` groups follows from that many, and is marked so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from everfresh.bench import Settings
from everfresh.bench.parts.signals_database import applied, idle
from everfresh.bench.parts.signals_spark import on_spark
from everfresh.bench.report import Report
from everfresh.bench.timing import median

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

NAME = "signals"
DESCRIPTION = "signals: the five queries of section 7.5 against NumPy, SciPy and pandas"
OPTIONS = {
    "events": "how many events each query reads (10000000)",
    "only": "parts: spectra, filters, correlation, interpolation, overlap, applied, idle, on_spark",
}

EXTRAPOLATED = 20_000
ROUNDS = 3


def run(settings: Settings) -> Report:
    """Measure."""
    report = Report(NAME)
    events = int(settings.options.get("events", 200_000 if settings.quick else 10_000_000))
    parts = (_spectra, _filters, _correlation, _interpolation, _overlap, applied, idle, on_spark)
    only = settings.options.get("only")
    for part in parts:
        if only is not None and part.__name__.strip("_") not in only.split(","):
            continue
        settings.note(f"{part.__name__.strip('_')}: {events:,} events")
        part(report, settings, events)
    return report


def cpu(call: Callable[[], Any]) -> float:
    """The processor time of a call."""
    started = time.process_time()
    call()
    return time.process_time() - started


def turns(alternatives: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, float]:
    """The median of each, measured in turns; one round before that compiles."""
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    for turn in range(rounds + 1):
        for name, call in alternatives.items():
            took = cpu(call)
            if turn:
                times[name].append(took)
    return {name: median(each) for name, each in times.items()}


@dataclass(frozen=True)
class Operators:
    """The operators of a query behind its reading, fed with arrays: one group, batches of some rows."""

    query: Any
    batch: int

    def __call__(self, values: np.ndarray[Any, Any]) -> None:
        """Run it over samples from index 0 on."""
        import numpy as np
        import pyarrow as pa

        from everfresh.signals.plan import Plan
        from everfresh.signals.run.flow import Flow, Step

        schema = pa.schema([("time", pa.int64()), ("value", pa.float64())])
        operators = Plan(self.query.node, {"t": schema}).operators[2:]
        step = Step(np.zeros(1, np.int64), 1)
        for operator in operators:
            for kept in operator.state:
                kept.grow(1)
        for start in range(0, len(values), self.batch):
            part = values[None, start : start + self.batch]
            stop = start + part.shape[1]
            offsets = np.array([0, part.shape[1]])
            flow = Flow(offsets, np.arange(start, stop), part, np.array([stop]))
            for operator in operators:
                flow = operator.step(step, [flow])


def _spectra(report: Report, settings: Settings, events: int) -> None:
    import numpy as np
    import scipy.fft

    from everfresh import signals

    values = np.random.default_rng(1).random(events)
    grid = signals.reading("t", time="time").as_uniform(1)
    for size in (64, 512) if settings.quick else (64, 256, 512, 2048):
        whole = values[: len(values) // size * size].reshape(-1, size)
        query = Operators(grid.window(size, size, missing="zero").fft(), 10_000)
        took = turns({"numpy": partial(scipy.fft.fft, whole), "everfresh": partial(query, values)})
        _row(report, "tumbling FFT", took, "numpy", window=size)
        if not settings.quick:
            ratio = took["everfresh"] / took["numpy"]
            report.below(f"tumbling FFT of {size}, operators, batches of 10,000", ratio, 1.2, "times offline")


def _filters(report: Report, settings: Settings, events: int) -> None:
    import numpy as np
    import scipy.signal

    from everfresh import signals

    values = np.random.default_rng(2).random(events)
    grid = signals.reading("t", time="time").as_uniform(1)
    for taps in (64, 256) if settings.quick else (64, 256, 512, 2048):
        b = np.random.default_rng(3).random(taps)
        query = Operators(grid.filter_fir(b.tolist()), 10_000)
        took = turns(
            {
                "lfilter": partial(scipy.signal.lfilter, b, 1, values),
                "oaconvolve": partial(scipy.signal.oaconvolve, values, b),
                "everfresh": partial(query, values),
            }
        )
        best = min(("lfilter", "oaconvolve"), key=lambda name: took[name])
        _row(report, "FIR", took, best, taps=taps)
        if not settings.quick:
            ratio = took["everfresh"] / took[best]
            report.below(f"FIR of {taps}, operators, batches of 10,000", ratio, 1.0, "times offline")


def grouped(events: int, groups: int, seed: int = 4) -> pa.Table:
    """Readings of many sensors, all at each time, in order of time."""
    import numpy as np
    import pyarrow as pa

    each = max(1, events // groups)
    return pa.table(
        {
            "sensor": np.tile(np.arange(groups), each),
            "time": np.repeat(np.arange(each, dtype=np.int64), groups),
            "value": np.random.default_rng(seed).random(each * groups),
        }
    )


def by_group(table: pa.Table, function: Callable[[Any], Any], most: int = EXTRAPOLATED) -> tuple[float, bool]:
    """Processor time of pandas group by group on sorted input, and whether it was extrapolated."""
    frame = table.to_pandas().sort_values(["sensor", "time"])
    groups = int(frame["sensor"].max()) + 1
    some = frame[frame["sensor"] < most]
    took = cpu(lambda: some.groupby("sensor")[["time", "value"]].apply(function))
    return took * groups / min(groups, most), groups > most


def _groups(settings: Settings, events: int) -> tuple[int, ...]:
    return (100, 2_000) if settings.quick else tuple(g for g in (10_000, 100_000, 1_000_000) if g <= events)


def _compared(
    report: Report, what: str, query: Any, table: pa.Table, function: Callable[[Any], Any], **more: Any
) -> tuple[float, float]:
    """One shot and the refresh by 1 %; how many times faster than pandas each is."""
    from everfresh import signals

    query.run(table.slice(0, 1000))
    shot = cpu(lambda: query.run(table))
    pandas, extrapolated = by_group(table, function)
    pipeline = signals.Pipeline(query.node, {"t": table.schema})
    cut = len(table) - len(table) // 100
    for start in range(0, cut, 100_000):
        pipeline.step({"t": table.slice(start, min(100_000, cut - start))})
        pipeline.commit()
    refresh = cpu(lambda: pipeline.step({"t": table.slice(cut)}))
    report.row(
        query=what,
        events=len(table),
        everfresh_s=shot,
        pandas_s=pandas,
        extrapolated=extrapolated,
        times=pandas / shot,
        refresh_s=refresh,
        refresh_times=pandas / refresh,
        **more,
    )
    return pandas / shot, pandas / refresh


def _correlation(report: Report, settings: Settings, events: int) -> None:
    import numpy as np

    from everfresh import signals

    a = np.random.default_rng(5).random(32)
    query = signals.reading("t", time="time", key="sensor").as_uniform(1).correlate(a.tolist())
    for groups in _groups(settings, events):
        table = grouped(events, groups)
        _compared(
            report, "correlation", query, table, lambda g: np.convolve(g["value"], a[::-1]), groups=groups
        )


def _interpolation(report: Report, settings: Settings, events: int) -> None:
    import numpy as np
    import scipy.signal

    from everfresh import signals

    b = np.random.default_rng(6).random(32)
    read = signals.reading("t", time="time", key="sensor")
    query = read.sample(1, interpolate=signals.first_order(window=4)).filter_fir(b.tolist())

    def function(group: Any) -> Any:
        at, values = group["time"].to_numpy(), group["value"].to_numpy()
        return scipy.signal.lfilter(b, 1, np.interp(np.arange(at[0], at[-1] + 1), at, values))

    bars = {10_000: 4.0, 100_000: 8.0, 1_000_000: 60.0}
    for groups in _groups(settings, events):
        times, refresh = _compared(
            report, "interpolation and filter", query, grouped(events, groups), function, groups=groups
        )
        if not settings.quick:
            report.at_least(
                f"interpolation and filter, {groups:,} groups", times, bars[groups], "times pandas"
            )
            report.at_least(f"the same, refresh by 1 %, {groups:,} groups", refresh, 100.0, "times pandas")


def _overlap(report: Report, settings: Settings, events: int) -> None:
    import numpy as np
    import scipy.fft

    from everfresh import signals

    size, groups = 256, 100
    grid = signals.reading("t", time="time", key="sensor").as_uniform(1)
    for hop in (16, 256) if settings.quick else (1, 4, 16, 64, 256):
        table = grouped(max(groups * size * 2, events // (16 if hop == 1 else 1)), groups)
        windows = grid.window(size, hop, missing="zero").fft()
        query = windows.map(lambda a: a, half=True).ifft().overlap_add()

        def function(group: Any, hop: int = hop) -> Any:
            values = np.pad(group["value"].to_numpy(), (size - hop, size - 1))
            frames = np.lib.stride_tricks.sliding_window_view(values, size)[::hop]
            back = scipy.fft.ifft(scipy.fft.fft(frames))
            out = np.zeros(len(values), complex)
            for j in range(0, size, hop):
                stop = min(hop, size - j)
                grid = out[j : j + len(back) * hop]
                part = back[:, j : j + stop][: len(grid) // hop]
                grid[: len(part) * hop].reshape(-1, hop)[:, :stop] += part
            return out

        times, _ = _compared(report, "overlap-add", query, table, function, groups=groups, hop=hop)
        if not settings.quick:
            bar = 2.5 if hop == 16 else 2.0
            report.at_least(f"overlap-add, hop {hop}", times, bar, "times pandas with strided complex fft")


def _row(report: Report, what: str, took: dict[str, float], against: str, **more: Any) -> None:
    for name, seconds in took.items():
        report.row(query=what, how=name, seconds=seconds, ratio=seconds / took[against], **more)
