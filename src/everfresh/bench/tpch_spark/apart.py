"""Sections that need processes of their own: memory, and scaling over 1, 2 and 4 workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from everfresh.bench import Report, Settings
from everfresh.bench.tpch_spark import child
from everfresh.bench.tpch_spark.data import prepared
from everfresh.bench.tpch_spark.plan import Plan
from everfresh.errors import EverfreshError
from everfresh.workloads import WORKLOADS

_GROWTH, _ALL = 0.10, 16 * 2**30
_COUNTS = (1, 2, 4)
_SCALED = ("q03", "q06", "q07", "q17")
"""The queries whose scaling the thesis shows."""
_EXECUTOR_MB = 1024


def memory(report: Report, settings: Settings, plan: Plan, folder: Path) -> None:
    """All views at a tenth of the scale factor, and at the scale factor."""
    peaks = []
    for sf in (plan.sf / 10, plan.sf):
        settings.note(f"memory with {len(plan.queries)} views at scale factor {sf:g}")
        few = replace(plan, sf=sf, rounds=2)
        found = child.run(few, prepared(folder, sf, plan.shares, few.rounds))
        peaks.append(found)
        report.row(
            section="memory",
            query=f"{len(plan.queries)} views",
            sf=sf,
            driver_mb=found["driver"] / 1e6,
            jvm_mb=found["jvm"] / 1e6,
            tasks_mb=found["tasks"] / 1e6,
            everything_mb=found["everything"] / 1e6,
            load_s=found["loaded"],
            views_s=sum(found["made"].values()),
        )
    if plan.counts:
        growth = peaks[1]["driver"] / peaks[0]["driver"] - 1
        report.below(f"the driver's Python process from {plan.sf / 10:g} to {plan.sf:g}", growth, _GROWTH)
        report.below("everything, all views", peaks[1]["everything"] / 2**30, _ALL / 2**30, "GiB")


def scaling(report: Report, settings: Settings, plan: Plan, folder: Path) -> None:
    """Clusters of 1, 2 and 4 workers: the same data on all (strong), or as much for each worker (weak), with
    the whole of the scale factor on the largest. A row has its time over that of one worker."""
    queries = tuple(WORKLOADS["thesis"].query(name) for name in _SCALED)
    share = plan.sf / max(_COUNTS)
    sizes: dict[str, Callable[[int], float]] = {
        "strong": lambda _: plan.sf,
        "weak": lambda count: share * count,
    }
    for how, size in sizes.items():
        one: dict[str, float] = {}
        for count in _COUNTS:
            sf = size(count)
            settings.note(f"{how} scaling: {count} workers, scale factor {sf:g}")
            few = replace(plan, sf=sf, workers=count, queries=queries)
            master = f"local-cluster[{count},1,{_EXECUTOR_MB}]"
            try:
                files = prepared(folder, sf, plan.shares, few.rounds)
                found = child.run(few, files, master=master, warm=plan.warm)
            except EverfreshError as error:
                report.skip(f"{how} scaling, {count} workers", error.message)
                continue
            if count == 1:
                one = found["batches"]
            for batch, took in found["batches"].items():
                report.row(
                    section="scaling",
                    query=f"{how}, {', '.join(_SCALED)}",
                    workers=count,
                    sf=sf,
                    batch=batch,
                    ms=1e3 * took,
                    over_one=took / one[batch] if batch in one else None,
                    load_s=found["loaded"],
                    views_s=sum(found["made"].values()),
                )
