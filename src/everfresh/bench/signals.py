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
from everfresh.bench.timing import interleave, median

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

NAME = "signals"
DESCRIPTION = "signals: the five queries of section 7.5 against NumPy, SciPy and pandas"
OPTIONS = {
    "events": "how many events each query reads (10000000)",
    "only": "parts: spectra, filters, correlation, interpolation, threads, overlap, applied, idle, "
    "elsewhere, on_spark",
    "groups": "how many groups queries 3 and 4 have, with commas (500,10000,100000,1000000)",
    "hop": "hops of overlap-add, with commas (1,4,16,64,256)",
    "each": "events a group on Spark, with commas (100,1000,20000)",
}

EXTRAPOLATED = 20_000
ROUNDS = 3


def run(settings: Settings) -> Report:
    """Measure."""
    report = Report(NAME)
    events = int(settings.options.get("events", 200_000 if settings.quick else 10_000_000))
    parts = (
        _spectra, _filters, _correlation, _interpolation, _threads, _overlap, applied, idle, _elsewhere,
        on_spark,
    )  # fmt: skip
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


def by_group(rows: pa.Table, function: Callable[[Any], Any], most: int) -> Callable[[], Any]:
    """pandas group by group on rows that are sorted, over so many groups."""
    import pyarrow.compute as pc

    some = rows.filter(pc.less(rows["sensor"], most)).to_pandas()
    return lambda: some.groupby("sensor")[["time", "value"]].apply(function)


def by_sensor(table: pa.Table) -> pa.Table:
    """Each sensor's rows together, in order of time."""
    return table.sort_by([("sensor", "ascending"), ("time", "ascending")]).combine_chunks()


def _groups(settings: Settings, events: int) -> tuple[int, ...]:
    if "groups" in settings.options:
        return tuple(int(groups) for groups in settings.options["groups"].split(","))
    sizes = (100, 2_000) if settings.quick else (500, 10_000, 100_000, 1_000_000)
    return tuple(groups for groups in sizes if groups <= events)


def _rows_of(function: Callable[[Any], tuple[Any, Any]]) -> Callable[[Any], Any]:
    """A function that gives the times and values of a group's result, as one that gives rows: what the query
    gives. The other gives pandas nothing to put together."""

    def rows(group: Any) -> Any:
        import pandas as pd

        at, values = function(group)
        return pd.DataFrame({"time": at, "value": values})

    return rows


def _compared(
    report: Report, what: str, query: Any, table: pa.Table, functions: dict[str, Callable[[Any], Any]],
    rounds: int = ROUNDS, **more: Any,
) -> tuple[dict[str, float], dict[str, float]]:  # fmt: skip
    """One shot and the refresh by 1 %; how many times faster than each function of pandas both are. One shot
    over rows in order of time, all sensors at each, and over what pandas has: each sensor's rows together."""
    sorted_ = by_sensor(table)
    groups = int(sorted_["sensor"][-1].as_py()) + 1
    most = min(groups, EXTRAPOLATED)
    ways: dict[str, Callable[[], Any]] = {
        "everfresh": partial(query.run, table),
        "everfresh, sorted input": partial(query.run, sorted_),
        **{name: by_group(sorted_, function, most) for name, function in functions.items()},
    }
    took = turns(ways, rounds)
    for name in functions:
        took[name] *= groups / most
    refresh = _refresh(query, table)
    shot = min(took["everfresh"], took["everfresh, sorted input"])
    for name, seconds in {**took, "everfresh, refresh by 1 %": refresh}.items():
        marked = {"extrapolated_from": most} if name in functions and most < groups else {}
        times = {"times": seconds / shot, "refresh_times": seconds / refresh} if name in functions else {}
        report.row(query=what, how=name, events=len(table), seconds=seconds, **times, **marked, **more)
    return (
        {name: took[name] / shot for name in functions},
        {name: took[name] / refresh for name in functions},
    )


def _refresh(query: Any, table: pa.Table) -> float:
    from everfresh import signals

    pipeline = signals.Pipeline(query.node, {"t": table.schema})
    cut = len(table) - len(table) // 100
    for start in range(0, cut, 100_000):
        pipeline.step({"t": table.slice(start, min(100_000, cut - start))})
        pipeline.commit()
    return cpu(lambda: pipeline.step({"t": table.slice(cut)}))


ROWS, BARE = "pandas", "pandas, arrays without times"


def _correlation(report: Report, settings: Settings, events: int) -> None:
    import numpy as np

    from everfresh import signals

    a = np.random.default_rng(5).random(32)
    query = signals.reading("t", time="time", key="sensor").as_uniform(1).correlate(a.tolist())

    def function(group: Any) -> tuple[Any, Any]:
        return group["time"].to_numpy(), np.convolve(group["value"], a[::-1])[: len(group)]

    ways = {ROWS: _rows_of(function), BARE: lambda group: function(group)[1]}
    for groups in _groups(settings, events):
        _compared(report, "correlation", query, grouped(events, groups), ways, rounds=1, groups=groups)


def interpolation_query() -> tuple[Any, Callable[[Any], tuple[Any, Any]]]:
    """Interpolation and a filter, and the same of a group by SciPy: times and values."""
    import numpy as np
    import scipy.signal

    from everfresh import signals

    b = np.random.default_rng(6).random(32)
    read = signals.reading("t", time="time", key="sensor")

    def function(group: Any) -> tuple[Any, Any]:
        at, values = group["time"].to_numpy(), group["value"].to_numpy()
        beats = np.arange(at[0], at[-1] + 1)
        return beats, scipy.signal.lfilter(b, 1, np.interp(beats, at, values))

    return read.sample(1, interpolate=signals.first_order(window=4)).filter_fir(b.tolist()), function


def _interpolation(report: Report, settings: Settings, events: int) -> None:
    query, function = interpolation_query()
    ways = {ROWS: _rows_of(function), BARE: lambda group: function(group)[1]}
    bars = {10_000: 4.0, 100_000: 8.0, 1_000_000: 60.0}
    for groups in _groups(settings, events):
        times, refresh = _compared(
            report, "interpolation and filter", query, grouped(events, groups), ways, rounds=1, groups=groups
        )
        if not settings.quick and groups in bars:
            report.at_least(
                f"interpolation and filter, {groups:,} groups", times[ROWS], bars[groups], "times pandas"
            )
            report.at_least(
                f"the same, refresh by 1 %, {groups:,} groups", refresh[ROWS], 100.0, "times pandas"
            )


def _threads(report: Report, settings: Settings, events: int) -> None:
    """Interpolation and a filter over halves of the groups at once, by the clock."""
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow.compute as pc

    query, _ = interpolation_query()
    for groups in _groups(settings, events):
        table = grouped(events, groups)
        parts = [table.filter(pc.less(table["sensor"], groups // 2))]
        parts.append(table.filter(pc.greater_equal(table["sensor"], groups // 2)))
        with ThreadPoolExecutor(2) as pool:
            ways: dict[str, Callable[[], Any]] = {
                "1": partial(_run_all, map, query, parts),
                "2": partial(_run_all, pool.map, query, parts),
            }
            took = interleave(ways, 1 + ROUNDS)
        one, two = (median(took[n][1:]) for n in ("1", "2"))
        report.row(
            query="interpolation and filter", how="two threads, by the clock", events=events, groups=groups,
            one_thread_s=one, two_threads_s=two, times=one / two,
        )  # fmt: skip


def _run_all(each: Callable[..., Any], query: Any, parts: list[Any]) -> None:
    list(each(query.run, parts))


def overlap_query(size: int, hop: int) -> tuple[Any, dict[str, Callable[[Any], Any]]]:
    """Spectra and back, and the same of a group by NumPy and SciPy: strided windows with complex and real
    transforms, and window by window."""
    import numpy as np
    import scipy.fft

    from everfresh import signals

    grid = signals.reading("t", time="time", key="sensor").as_uniform(1)
    query = grid.window(size, hop, missing="zero").fft().map(same, half=True).ifft().overlap_add()

    def padded(group: Any) -> Any:
        return np.pad(group["value"].to_numpy(), (size - hop, size - 1))

    def strided(group: Any, real: bool) -> Any:
        values = padded(group)
        frames = np.lib.stride_tricks.sliding_window_view(values, size)[::hop]
        back = (
            scipy.fft.irfft(scipy.fft.rfft(frames), size) if real else scipy.fft.ifft(scipy.fft.fft(frames))
        )
        out = np.zeros(len(values), back.dtype)
        for j in range(0, size, hop):
            stop = min(hop, size - j)
            some = out[j : j + len(back) * hop]
            part = back[:, j : j + stop][: len(some) // hop]
            some[: len(part) * hop].reshape(-1, hop)[:, :stop] += part
        return out

    def loop(group: Any) -> Any:
        values = padded(group)
        out = np.zeros(len(values))
        for start in range(0, len(values) - size + 1, hop):
            frame = values[start : start + size]
            out[start : start + size] += scipy.fft.irfft(scipy.fft.rfft(frame), size)
        return out

    def rows(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def timed(group: Any) -> tuple[Any, Any]:
            values = function(group)
            first = group["time"].iloc[0] + hop - size
            return np.arange(first, first + len(values)), values

        return _rows_of(timed)

    ways: dict[str, Callable[[Any], Any]]
    ways = {FFT: partial(strided, real=False), RFFT: partial(strided, real=True), LOOP: loop}
    return query, {name: rows(function) for name, function in ways.items()}


FFT, RFFT, LOOP = "pandas, strided fft", "pandas, strided rfft", "pandas, a loop over windows"


def same(spectra: Any) -> Any:
    """What the query does with spectra."""
    return spectra


def _overlap(report: Report, settings: Settings, events: int) -> None:
    groups = 100
    hops: tuple[int, ...] = (16, 256) if settings.quick else (1, 4, 16, 64, 256)
    if "hop" in settings.options:
        hops = tuple(int(hop) for hop in settings.options["hop"].split(","))
    for hop in hops:
        table = grouped(max(groups * 512, events // {1: 16, 4: 4}.get(hop, 1)), groups)
        query, ways = overlap_query(256, hop)
        if hop < 64:
            few = grouped(groups * 2_000, groups)
            loop = cpu(by_group(by_sensor(few), ways.pop(LOOP), groups)) / len(few)
        times, _ = _compared(report, "overlap-add", query, table, ways, groups=groups, hop=hop)
        if hop < 64:
            ours = min(turns({"everfresh": partial(query.run, few)}, 1).values()) / len(few)
            times[LOOP] = loop / ours
            report.row(
                query="overlap-add", how=LOOP, events=len(few), seconds=loop * len(few), times=times[LOOP],
                groups=groups, hop=hop,
            )  # fmt: skip
        if settings.quick:
            continue
        bar = 2.5 if hop == 16 else 2.0
        report.at_least(f"overlap-add, hop {hop}", times[FFT], bar, "times pandas with strided complex fft")
        report.at_least(f"overlap-add, hop {hop}, rfft", times[RFFT], 1.0, "times pandas with strided rfft")
        if hop < 64:  # with longer hops there are few windows to loop over
            report.at_least(
                f"overlap-add, hop {hop}, loop", times[LOOP], 8.0, "times pandas, loop over windows"
            )


def _elsewhere(report: Report, settings: Settings, events: int) -> None:
    """The first two queries in Octave and R, where these are installed."""
    import shutil
    import subprocess

    octave = (
        f"x = rand(256, {events // 256}); b = rand(1, 64); t = cputime; fft(x); u = cputime; "
        "filter(b, 1, x(:)); printf('%g %g', u - t, cputime - u)"
    )
    r = (
        f"x <- matrix(runif({events // 256 * 256}), 256); b <- runif(64); t <- system.time(mvfft(x))[1]; "
        "u <- system.time(filter(as.vector(x), b, sides = 1))[1]; cat(t, u)"
    )
    for name, command in (
        ("octave", ["octave", "--quiet", "--eval", octave]),
        ("Rscript", ["Rscript", "-e", r]),
    ):
        if shutil.which(name) is None:
            report.skip(f"tumbling FFT and FIR in {name}", "it is not installed")
            continue
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for what, seconds in zip(("tumbling FFT", "FIR"), map(float, found), strict=True):
            report.row(query=what, how=name, seconds=seconds, events=events)


def _row(report: Report, what: str, took: dict[str, float], against: str, **more: Any) -> None:
    for name, seconds in took.items():
        report.row(query=what, how=name, seconds=seconds, ratio=seconds / took[against], **more)
