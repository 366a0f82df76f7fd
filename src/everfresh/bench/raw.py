"""Raw arrays: what policies of the cache read again, and what placement saves in joins.

Section 4.2 of the paper on distributed caching for raw arrays: each workload runs on each policy from a cold
cache with known boxes, under budgets of 10, 25 and 50 % of the files' bytes; each query joins the cells of
its box with their neighbours. Bytes are counted, so they do not depend on the machine; seconds do.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from everfresh.bench import Settings
from everfresh.bench.report import Report

if TYPE_CHECKING:
    from everfresh.bench.parts.raw_workloads import Workload
    from everfresh.raw.cache.asking import CacheOptions
    from everfresh.raw.cache.asking import Report as Told
    from everfresh.raw.catalog import Catalog
    from everfresh.raw.cells import CellReader

NAME = "raw"
DESCRIPTION = "raw arrays: bytes that policies of the cache read again, and placement"
OPTIONS = {
    "parts": "which (first,policies)",
    "formats": "of part first (csv,fits,hdf5,hdf5-gzip)",
    "folder": "where files are written (the folder for temporary files)",
    "mb": "megabytes of numbers in the files of a catalog (2048; in part first by the format)",
    "workers": "cache nodes (8)",
    "workloads": "which, by their names (PTF-1,PTF-2,GEO,PTF-100)",
    "shares": "budgets in percent of the files' bytes (10,25,50)",
    "answers": "no: queries are not evaluated, so that bytes are counted sooner (yes)",
    "min_cells": "a piece with fewer cells is rarely cut (4096)",
}

POLICIES = ("file_lru", "chunk_lru", "pinned", "cost")


def run(settings: Settings) -> Report:
    """Measure."""
    from everfresh.bench.parts.raw_workloads import WORKLOADS

    report = Report(NAME)
    parts = settings.options.get("parts", "first,policies").split(",")
    if "first" in parts:
        from everfresh.bench.parts.raw_first_answer import first_answers

        first_answers(report, settings)
    if "policies" not in parts:
        return report
    mb = int(settings.options.get("mb", 24 if settings.quick else 2048))
    workers = int(settings.options.get("workers", 8))
    names = settings.options.get("workloads", "PTF-1,PTF-2,GEO" if settings.quick else "").split(",")
    for made in WORKLOADS:
        workload = made()
        if names != [""] and workload.name not in names:
            continue
        with tempfile.TemporaryDirectory(
            prefix="everfresh-raw-", dir=settings.options.get("folder")
        ) as folder:
            settings.note(f"{workload.name}: writing {workload.format}")
            from everfresh.bench.parts.raw_workloads import write

            size = write(Path(folder), workload.data, workload.format, mb)
            _workload(report, settings, workload, folder, size, workers)
    return report


def _workload(
    report: Report, settings: Settings, workload: Workload, folder: str, size: int, workers: int
) -> None:
    from everfresh.raw.cache.asking import CacheOptions
    from everfresh.raw.cache.coordinator import Coordinator
    from everfresh.raw.catalog import Catalog
    from everfresh.raw.looking import look

    reader = workload.reader(folder)
    settings.note(f"{workload.name}: first look at {size / 1e6:,.0f} MB")
    begin = time.perf_counter()
    catalog = look(reader, Catalog(), workers, Coordinator().numbers).catalog
    report.row(workload=workload.name, what="first look", seconds=time.perf_counter() - begin, mb=size / 1e6)
    found: dict[tuple[str, float, str], list[Told]] = {}
    shares = [int(each) / 100 for each in settings.options.get("shares", "10,25,50").split(",")]
    shares = shares if len(workload.boxes) == 10 else shares[-1:]
    evaluated = settings.options.get("answers", "yes") == "yes"
    min_cells = int(settings.options.get("min_cells", 4096))
    for share in shares:
        for policy in POLICIES if share == shares[0] else ("file_lru", "chunk_lru", "cost"):
            for placement in ("dynamic", "static") if policy == "cost" else ("static",):
                settings.note(f"{workload.name}: {policy}, {placement}, {share:.0%}")
                budget = int(size * share / workers)
                options = CacheOptions(workers, budget, policy, placement, min_cells)
                told = _queries(workload, reader, catalog, options, evaluated)
                found[policy, share, placement] = told
                _rows(report, workload, share, policy, placement, told)
    _bars(report, workload, found, len(catalog.files))


def _queries(
    workload: Workload,
    reader: CellReader,
    catalog: Catalog,
    options: CacheOptions,
    evaluated: bool = True,
) -> list[Told]:
    from everfresh.bench.parts.raw_workloads import asked
    from everfresh.raw.cache.coordinator import Coordinator

    cache = Coordinator(options)
    cache.put("a", reader, catalog)
    told = []
    for box in workload.boxes:
        asked(cache, workload, box, evaluated)
        assert cache.last is not None
        told.append(cache.last)
    return told


def _rows(
    report: Report, workload: Workload, share: float, policy: str, placement: str, told: list[Told]
) -> None:
    for name, some in (("all", told), (f"from query {workload.later} on", told[workload.later - 1 :])):
        report.row(
            workload=workload.name,
            what=f"{policy}, {placement}, {share:.0%}: {name}",
            seconds=sum(one.seconds for one in some),
            mb=sum(one.bytes_read for one in some) / 1e6,
            files=sum(len(one.files_read) for one in some),
            hits=sum(one.hits for one in some),
            misses=sum(one.misses for one in some),
            planning=sum(one.planning for one in some),
            moved_mb=sum(one.bytes_moved for one in some) / 1e6,
        )


def _bars(
    report: Report, workload: Workload, found: dict[tuple[str, float, str], list[Told]], files: int
) -> None:
    share = min(share for _, share, _ in found)

    def read(policy: str, placement: str = "static") -> float:
        return float(sum(one.bytes_read for one in found[policy, share, placement][workload.later - 1 :]))

    def moved(placement: str, first: int) -> float:
        return float(sum(one.bytes_moved for one in found["cost", share, placement][first:]))

    cost = read("cost", "dynamic")
    name = f"{workload.name}, {share:.0%}"
    to_file, to_chunk = {"PTF-1": (0.1, 1.0), "PTF-2": (1.0, 0.5), "GEO": (0.1, 0.5)}.get(
        workload.name, (1.0, 1.0)
    )
    report.below(f"{name}: bytes read, cost against file_lru", _ratio(cost, read("file_lru")), to_file, "x")
    report.below(
        f"{name}: bytes read, cost against chunk_lru", _ratio(cost, read("chunk_lru")), to_chunk, "x"
    )
    if workload.name in ("PTF-2", "GEO"):
        for what, first in (("all queries", 0), (f"from query {workload.later} on", workload.later - 1)):
            ratio = _ratio(moved("dynamic", first), moved("static", first))
            report.below(f"{name}: bytes moved, dynamic against static, {what}", ratio, 0.5, "x")
    after = found["cost", share, "dynamic"][1:]
    slow = sum(one.seconds for one in found["file_lru", share, "static"][1:])
    report.below(
        f"{name}: planning after the first query against file_lru's time",
        _ratio(sum(one.planning for one in after), slow),
        0.05,
        "x",
    )
    report.below(
        f"{name}: planning of a query after the first, {files} files",
        max(o.planning for o in after),
        1.5,
        "s",
    )


def _ratio(one: float, other: float) -> float:
    return one / other if other else float(one > 0)
