"""Similarity joins on Spark: wall and processor time of each algorithm, and the speed-up that cores give.

The tasks of all logical workers share this machine's cores, so wall time says how much work a plan makes, and
2 to 8 workers cost the same or a little more; what more processors would give is measured with one and two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from everfresh.bench import Settings
from everfresh.bench.parts.process import has_java, python
from everfresh.bench.report import Report

MANY, FEW = 8, 2


def on_spark(report: Report, settings: Settings, nights: int, algorithms: Sequence[str]) -> None:
    """Run the joins of all workloads by Spark's tasks, planned by these algorithms with many workers."""
    if not has_java():
        report.skip("joins on Spark", "there is no Java for Spark")
        return
    cores = min(2, os.cpu_count() or 1)
    runs = {(cores, MANY): tuple({"bhvc": 0} | dict.fromkeys(algorithms)), (cores, FEW): ("bhvc",)}
    if cores > 1:
        runs[1, MANY] = ("bhvc",)
    took: dict[tuple[str, int, int], float] = {}
    matches: dict[str, set[int]] = {}
    for (used, workers), planned in runs.items():
        settings.note(f"joins on Spark: {workers} workers on {used} cores")
        asked = {"cores": used, "workers": workers, "algorithms": planned}
        asked |= {"quick": settings.quick, "nights": nights}
        found: list[dict[str, Any]] = json.loads(
            python("-m", "everfresh.bench.parts.simjoin_child", json.dumps(asked)).splitlines()[-1]
        )
        for one in found:
            what, algorithm = one["what"], one["algorithm"]
            report.row(
                what=what,
                workers=workers,
                how=f"on Spark, {used} cores, {algorithm}",
                seconds=one["seconds"],
                processor=one["processor"],
                mb=one["bytes"] / 1e6,
                received_max_mb=one["most_received"] / 1e6,
                received_mean_mb=one["mean_received"] / 1e6,
                spread=one["spread"],
                makespan=one["makespan"],
                receive_max=max(one["receive"]),
                receive_mean=sum(one["receive"]) / workers,
                receive_of_each=" ".join(f"{value:.3g}" for value in one["receive"]),
                joining_max=max(one["joining"]),
                joining_mean=sum(one["joining"]) / workers,
                overlap=one["overlap"],
                thread_spread=one["thread_spread"],
                matches=one["matches"],
            )
            matches.setdefault(what, set()).add(one["matches"])
            if algorithm == "bhvc":
                took[what, used, workers] = one["seconds"]
    for what, counts in matches.items():
        report.truth(f"{what}: the same matches on Spark by every plan", len(counts) == 1)
        ratio = took[what, cores, FEW] / took[what, cores, MANY]
        report.row(what=what, how=f"measured speed-up on Spark, {FEW} to {MANY} workers", ratio=ratio)
        if cores > 1:
            ratio = took[what, 1, MANY] / took[what, cores, MANY]
            report.row(what=what, how=f"measured speed-up on Spark, 1 to {cores} cores", ratio=ratio)
