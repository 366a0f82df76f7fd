"""Raw arrays: what policies of the cache read again, and what placement saves in joins.

Section 4.2 of the paper on distributed caching for raw arrays: each workload runs on each policy from a cold
cache with known boxes, under budgets of 10, 25 and 50 % of the files' bytes; each query joins the cells of
its box with their neighbours. Bytes are counted, so they do not depend on the machine; seconds do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
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
    "formats": "of part first (csv,fits,hdf5-gzip,hdf5)",
    "folder": "where files are kept for other runs, and taken from (they are temporary)",
    "mb": "megabytes of numbers in the files of a catalog (2048; in part first by the format)",
    "workers": "cache nodes (8)",
    "workloads": "which, by their names (PTF-1,PTF-2,GEO,PTF-100)",
    "seeds": "where the ranges lie; 0: as they were chosen first (0)",
    "policies": "which; optimum: what one that knows all queries would read (file_lru,chunk_lru,pinned,cost)",
    "each": "yes: the figures of each query too",
    "shares": "budgets in percent of the files' bytes (10,25,50)",
    "answers": "no: queries are not evaluated, so that bytes are counted sooner (yes)",
    "min_cells": "a piece with fewer cells is rarely cut (4096)",
}

POLICIES = ("file_lru", "chunk_lru", "pinned", "cost")


def run(settings: Settings) -> Report:
    """Measure."""
    from everfresh.bench.parts.raw_workloads import WORKLOADS, laid_down

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
    seeds = [int(seed) for seed in settings.options.get("seeds", "0").split(",")]
    for made in WORKLOADS:
        some = [made(seed) for seed in seeds]
        if names != [""] and some[0].name not in names:
            continue
        settings.note(f"{some[0].name}: {mb} MB as {some[0].format}")
        with laid_down(settings.options.get("folder"), some[0].data, some[0].format, mb) as folder:
            _files(report, settings, dict(zip(seeds, some, strict=True)), folder, workers)
    return report


def _files(
    report: Report,
    settings: Settings,
    workloads: Mapping[int, Workload],
    folder: str,
    workers: int,
) -> None:
    from everfresh.bench.parts.raw_workloads import looked

    name = next(iter(workloads.values())).name
    reader = next(iter(workloads.values())).reader(folder)
    settings.note(f"{name}: first look")
    begin = time.perf_counter()
    catalog = looked(reader, folder, workers)
    size = sum(file.found.size for file in catalog.files.values())
    report.row(workload=name, what="first look", seconds=time.perf_counter() - begin, mb=size / 1e6)
    for seed, workload in workloads.items():
        called = replace(workload, name=f"{name}, seed {seed}") if seed else workload
        _workload(report, settings, called, reader, catalog, size, workers)


def _workload(
    report: Report,
    settings: Settings,
    workload: Workload,
    reader: CellReader,
    catalog: Catalog,
    size: int,
    workers: int,
) -> None:
    from everfresh.bench.parts.raw_optimum import least_read, trace
    from everfresh.raw.cache.asking import CacheOptions

    found: dict[tuple[str, float, str], list[Told]] = {}
    shares = [int(each) / 100 for each in settings.options.get("shares", "10,25,50").split(",")]
    shares = shares if len(workload.boxes) == 10 else shares[-1:]
    evaluated = settings.options.get("answers", "yes") == "yes"
    min_cells = int(settings.options.get("min_cells", 4096))
    policies = settings.options.get("policies", ",".join(POLICIES)).split(",")
    least = trace(workload, reader, catalog, min_cells) if "optimum" in policies else None
    for share in shares:
        for policy in POLICIES if share == shares[0] else ("file_lru", "chunk_lru", "cost"):
            for placement in ("dynamic", "static") if policy == "cost" else ("static",):
                if policy not in policies:
                    continue
                settings.note(f"{workload.name}: {policy}, {placement}, {share:.0%}")
                budget = int(size * share / workers)
                options = CacheOptions(workers, budget, policy, placement, min_cells)
                told = _queries(workload, reader, catalog, options, evaluated)
                found[policy, share, placement] = told
                _rows(report, workload, share, policy, placement, told, "each" in settings.options)
        if least is not None:
            settings.note(f"{workload.name}: optimum, {share:.0%}")
            for what, whole in (("optimum, at least", False), ("optimum, a solution", True)):
                mb = least_read(least, int(size * share), workload.later, whole) / 1e6
                report.row(
                    workload=workload.name,
                    what=f"{what}, {share:.0%}: from query {workload.later} on",
                    mb=mb,
                )
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
    report: Report,
    workload: Workload,
    share: float,
    policy: str,
    placement: str,
    told: list[Told],
    each: bool,
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
    if not each:
        return
    report.row(
        workload=workload.name,
        what=f"{policy}, {placement}, {share:.0%}: each query",
        seconds=_each(one.seconds for one in told),
        mb=_each(one.bytes_read / 1e6 for one in told),
        files=_each(len(one.files_read) for one in told),
        hits=_each(one.hits for one in told),
        misses=_each(one.misses for one in told),
        planning=_each(one.planning for one in told),
        moved_mb=_each(one.bytes_moved / 1e6 for one in told),
    )


def _each(values: Iterable[float]) -> str:
    return " ".join(f"{value:.3g}" for value in values)


def _bars(
    report: Report, workload: Workload, found: dict[tuple[str, float, str], list[Told]], files: int
) -> None:
    """The bars of the smallest budget, as far as its policies were run."""
    share = min((share for _, share, _ in found), default=0.0)
    name = f"{workload.name}, {share:.0%}"
    cost, static = found.get(("cost", share, "dynamic")), found.get(("cost", share, "static"))
    if cost is None or static is None:
        return

    def read(told: list[Told]) -> float:
        return float(sum(one.bytes_read for one in told[workload.later - 1 :]))

    def moved(told: list[Told], first: int) -> float:
        return float(sum(one.bytes_moved for one in told[first:]))

    for policy, most in zip(("file_lru", "chunk_lru"), _most(workload), strict=True):
        other = found.get((policy, share, "static"))
        if other is not None:
            ratio = _ratio(read(cost), read(other))
            report.below(f"{name}: bytes read, cost against {policy}", ratio, most, "x")
    if workload.name.startswith(("PTF-2", "GEO")):
        for what, first in (("all queries", 0), (f"from query {workload.later} on", workload.later - 1)):
            ratio = _ratio(moved(cost, first), moved(static, first))
            report.below(f"{name}: bytes moved, dynamic against static, {what}", ratio, 0.5, "x")
    other = found.get(("file_lru", share, "static"))
    if other is not None:
        report.below(
            f"{name}: planning after the first query against file_lru's time",
            _ratio(sum(one.planning for one in cost[1:]), sum(one.seconds for one in other[1:])),
            0.05,
            "x",
        )
    slowest = max(one.planning for one in cost[1:])
    report.below(f"{name}: planning of a query after the first, {files} files", slowest, 1.5, "s")


def _most(workload: Workload) -> tuple[float, float]:
    """What `cost` may read of what `file_lru` and `chunk_lru` do; just above 1 where that is no more."""
    known = {"PTF-1": (0.1, 1.0 + 1e-9), "PTF-2": (1.0, 0.5), "GEO": (0.1, 0.5)}
    return known.get(workload.name.partition(",")[0], (1.0, 1.0 + 1e-9))


def _ratio(one: float, other: float) -> float:
    return one / other if other else float(one > 0)
