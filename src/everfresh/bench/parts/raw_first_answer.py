"""The time to the first answer of `raw`: nothing is in memory, boxes are known, and a query reads its files.

Beside it one plain read of the files that the query meets, by the library of their format: all columns into
memory, file by file, and nothing done with them. Both read from the page cache, in turns.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from everfresh.bench import Settings
from everfresh.bench.parts.raw_workloads import NIGHTS, Workload, asked, laid_down, looked, ptf_1
from everfresh.bench.report import Report
from everfresh.raw.boxes import Box

LONG = 5.0
"""Seconds that a plain read must take for its bar to count."""
TIMES = 3
MEGABYTES = {"csv": 3_800, "fits": 9_000, "hdf5-gzip": 1_500, "hdf5": 3_000}
"""Numbers in the files: so many that a plain read takes over five seconds on two cores of 2026, but for HDF5
that is not packed, which would need some 25 GB."""


def across() -> Workload:
    """A strip of the sky through all nights: it meets nearly every file, and asks for a few cells of each."""
    return replace(ptf_1(), boxes=(Box((1, 1, 33_000), (NIGHTS * 112, 100_000, 33_099)),))


def first_answers(report: Report, settings: Settings) -> None:
    """Measure each format."""
    for format in settings.options.get("formats", ",".join(MEGABYTES)).split(","):
        mb = int(settings.options.get("mb", 24 if settings.quick else MEGABYTES[format]))
        settings.note(f"first answer: {mb} MB as {format}")
        with laid_down(settings.options.get("folder"), "ptf", format, mb) as folder:
            if not settings.quick:
                os.sync()
            _measure(report, settings, format, folder)


def _measure(report: Report, settings: Settings, format: str, folder: str) -> None:
    from everfresh.raw.cache.asking import CacheOptions
    from everfresh.raw.cache.coordinator import Coordinator

    workload = across()
    reader = workload.reader(folder)
    settings.note(f"first answer, {format}: first look")
    catalog = looked(reader, folder, 8)
    paths = sorted({piece.file for piece in catalog.meeting(workload.boxes)})
    size = sum(catalog.files[path].found.size for path in paths)
    budget = sum(file.found.size for file in catalog.files.values()) // 80

    def answer() -> None:
        cache = Coordinator(CacheOptions(8, budget))
        cache.put("a", reader, catalog)
        asked(cache, workload, workload.boxes[0])
        assert cache.last is not None
        assert cache.last.files_read == paths

    plain, ours = [], []
    for turn in range(1 + TIMES):
        settings.note(f"first answer, {format}: turn {turn} of {TIMES}")
        both = _seconds(lambda: PLAIN[format.partition("-")[0]](paths)), _seconds(answer)
        if turn:  # before that, code is loaded
            plain.append(both[0])
            ours.append(both[1])
    read, first = statistics.median(plain), statistics.median(ours)
    report.row(
        workload="first answer", what=format, files=len(paths), mb=size / 1e6,
        plain=read, seconds=first, ratio=first / read,
    )  # fmt: skip
    what = f"first answer, boxes known, against a plain read: {format}"
    if read > LONG:
        report.below(what, first / read, 1.3, "x")
    else:
        report.skip(
            what, f"the plain read takes {read:.2f} s, and not over {LONG:.0f}: {first / read:.2f} times"
        )


def _seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _csv(paths: Sequence[str]) -> None:
    import pyarrow.csv

    for path in paths:
        pyarrow.csv.read_csv(path)


def _fits(paths: Sequence[str]) -> None:
    from astropy.io import fits

    for path in paths:
        with fits.open(path, memmap=False) as found:
            assert len(found[1].data)


def _hdf5(paths: Sequence[str]) -> None:
    import h5py

    for path in paths:
        with h5py.File(path, "r") as found:
            assert len(found["cells"][...])


PLAIN: Mapping[str, Callable[[Sequence[str]], None]] = {"csv": _csv, "fits": _fits, "hdf5": _hdf5}
