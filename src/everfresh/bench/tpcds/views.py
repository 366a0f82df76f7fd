"""What is measured of a view, and what a run says of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from everfresh.bench import Report, median
from everfresh.bench.tpcds.plan import Plan
from everfresh.bench.tpch_local.bars import geometric_mean

_MEAN = {"local": 50.0, "spark": 8.0}
"""How many times faster than its query a view is to be refreshed, as a geometric mean at scale factor 1."""
_REEVALUATED = 1.3
"""How many times longer than computing the query a view may take that is re-evaluated."""


@dataclass(slots=True)
class Measured:
    """One view: seconds to make and fill it, of its batches, and of computing its query."""

    number: int
    incremental: bool = False
    made: float = 0.0
    batches: list[float] = field(default_factory=list)
    computed: list[float] = field(default_factory=list)
    right: bool = True
    refused: str = ""

    @property
    def refresh(self) -> float:
        """How long a batch took."""
        return median(self.batches)

    @property
    def times(self) -> float | None:
        """How many times longer computing the query took; None if the view reads no facts."""
        return median(self.computed) / self.refresh if self.refresh else None

    @property
    def said(self) -> str:
        """All of it in a line."""
        refresh, computed = 1e3 * self.refresh, 1e3 * median(self.computed)
        right = "right" if self.right else "WRONG"
        return f"  made in {self.made:.2f} s, a batch {refresh:.1f} ms, its query {computed:.1f} ms, {right}"


def is_incremental(db: Any, name: str) -> bool:
    """Whether every statement of a view costs as much as the change and what agrees with it."""
    program = db.catalog.views[name].compiled.program
    return {s.strategy for trigger in program.triggers for s in trigger.statements} <= {"incremental"}


def add(report: Report, plan: Plan, engine: str, found: Sequence[Measured]) -> None:
    """The rows of a run, and what is to be reached."""
    for one in found:
        if one.refused:
            report.skip(f"Q{one.number}, {engine}", one.refused)
            continue
        report.row(
            what=f"Q{one.number}, {engine}",
            incremental=one.incremental,
            made_ms=1e3 * one.made,
            refresh_ms=1e3 * one.refresh,
            computed_ms=1e3 * median(one.computed),
            times=one.times,
            right=one.right,
        )
    there = [one for one in found if not one.refused]
    if not there:
        return
    times = {one.number: one.times for one in there if one.times is not None}
    kept = [one for one in there if one.incremental]
    slow = sorted((of, number) for number, of in times.items() if of < 1)
    report.row(
        what=f"all, {engine}",
        views=len(there),
        incremental=len(kept),
        times=geometric_mean(times.values()),
        slowest=f"Q{max(there, key=lambda one: one.refresh).number}",
        slower=", ".join(f"Q{number} ({of:.2f})" for of, number in slow),
    )
    report.truth(f"{engine}: every view is right", all(one.right for one in there))
    if plan.counts and len(there) == len(plan.queries):
        report.at_least(f"{engine}: geometric mean", geometric_mean(times.values()), _MEAN[engine], "times")
        found_slow = {number for _, number in slow} & {one.number for one in kept}
        report.truth(f"{engine}: no incremental view slower than its query", not found_slow)
        anew = [1 / times[one.number] for one in there if not one.incremental and one.number in times]
        worst = max(anew, default=0.0)
        report.below(f"{engine}: the slowest re-evaluated view, of its query", worst, _REEVALUATED, "times")
