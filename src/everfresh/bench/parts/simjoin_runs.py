"""Similarity joins carried out: by logical workers in this process, their figures beside those of the plans.

Counting the matches of every cell, so that kernels and not the making of rows are measured. Workers run one
after the other; the wall time of a run is that of its slowest worker, which is what as many processors would
take for the joins. And the kernel alone, beside scipy's cKDTree on the same pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everfresh.bench import Settings
from everfresh.bench.parts.simjoin_workloads import cells_of
from everfresh.bench.report import Report
from everfresh.bench.timing import median, seconds

if TYPE_CHECKING:
    from everfresh.arrays.cells import Array
    from everfresh.arrays.execute import Batch, Catalog, JoinSpec
    from everfresh.arrays.shape import Shape

WORKERS = (2, 4, 6, 8)
MANY = 8
RUN = ("opt-vc", "bhvc", "hvc", "mbh", "struct", "mr", "shuffle")
KERNEL = 10.0
_POINTS = 1_000_000


@dataclass
class Count:
    """The matches that workers have found."""

    spec: JoinSpec
    total: int = 0

    def __call__(self, _worker: int, batch: Batch) -> None:
        """Count those of a batch."""
        for _, found in self.spec.counts(batch):
            self.total += int(found.sum())


def runs(report: Report, settings: Settings, nights: int) -> None:
    """Carry out the joins of all workloads, of surveys of so many nights."""
    from everfresh.arrays.execute.calibrate import calibrated

    cost = calibrated()
    report.row(what="calibrated", how="ns for a byte sent", ratio=cost.t_ntwk * 1e9)
    report.row(what="calibrated", how="ns for a byte read", ratio=cost.t_disk * 1e9)
    report.row(what="calibrated", how="ns for a cell of a join", ratio=cost.t_cpu * 1e9)
    for name, array, shape in cells_of(settings.quick, report.skip, nights):
        _runs(report, settings, name, array, shape)


def _runs(report: Report, settings: Settings, name: str, array: Array, shape: Shape) -> None:
    from everfresh.arrays.execute import Catalog, JoinSpec
    from everfresh.arrays.mapping import identity
    from everfresh.arrays.plan import place

    spec = JoinSpec(array.schema, array.schema, identity(array.schema.ndim), shape, True)
    known = Catalog.of(array.schema, array.chunks)
    slowest: dict[int, float] = {}
    totals: set[int] = set()
    for workers in WORKERS:
        placed = known.at(place(known.chunks(0), "round-robin", workers).home)
        for algorithm in RUN if workers == MANY else ("bhvc",):
            settings.note(f"{name}: {algorithm} run by {workers} workers")
            took, total = _run(report, name, array, spec, placed, workers, algorithm)
            totals.add(total)
            if algorithm == "bhvc":
                slowest[workers] = took
    report.truth(f"{name}: the same matches by every plan", len(totals) == 1)
    ratio = slowest[WORKERS[0]] / slowest[MANY]
    report.row(what=name, workers=MANY, how=f"measured speed-up of joins from {WORKERS[0]}", ratio=ratio)


def _run(
    report: Report,
    name: str,
    array: Array,
    spec: JoinSpec,
    placed: Catalog,
    workers: int,
    algorithm: str,
) -> tuple[float, int]:
    from everfresh.arrays.execute import prepared
    from everfresh.arrays.execute.local import Measured, Positions, run_local
    from everfresh.arrays.plan import Plan, PlanOptions

    plans: list[Plan] = []
    planning = seconds(lambda: plans.append(prepared(spec, placed, None, workers, PlanOptions(algorithm))))
    (plan,) = plans
    count, done = Count(spec), list[Measured]()
    wall = seconds(lambda: done.append(run_local(plan, Positions(placed, None), array.chunks, None, count)))
    (measured,) = done
    measured.check(plan)
    load = plan.load_of_workers
    report.row(
        what=name,
        workers=workers,
        how=f"run, {algorithm}",
        chunks=len(placed),
        pairs=len(plan.first),
        seconds=wall,
        planning=planning,
        mb=measured.bytes_moved / 1e6,
        load_max=int(load.max()),
        load_min=int(load.min()),
        load_mean=float(load.mean()),
        spread=plan.spread,
        makespan=plan.makespan,
        slowest=float(measured.seconds.max()),
        slowest_over_mean=float(measured.seconds.max() / measured.seconds.mean()),
        matches=count.total,
    )
    return float(measured.seconds.max()), count.total


def kernel(report: Report, settings: Settings) -> None:
    """Pairs within Linf(1) of a million points, counted; building of keys and of the tree included."""
    import numpy as np
    from scipy.spatial import cKDTree

    from everfresh.arrays.join import Cells, total
    from everfresh.arrays.shape import Linf

    points = _POINTS // 20 if settings.quick else _POINTS
    for ndim in (2, 3):
        side = int((4 * points) ** (1 / ndim))
        coords = np.random.default_rng(1).integers(0, side, (ndim, points))
        found: dict[str, int] = {}

        def ours(coords: Any = coords, found: dict[str, int] = found) -> None:
            cells = Cells.of(coords)
            found["everfresh"] = total(cells, cells, Linf(1))

        def tree(balanced: bool, coords: Any = coords, found: dict[str, int] = found) -> None:
            made = cKDTree(coords.T, balanced_tree=balanced)
            found["cKDTree"] = int(made.count_neighbors(made, 1.0, p=np.inf))

        ours()  # the kernel is loaded
        settings.note(f"kernel, {ndim}-D")
        took = median([seconds(ours) for _ in range(3)])
        rival = min(seconds(lambda: tree(False)), seconds(lambda: tree(True)))
        what = f"kernel, {points:,} points, Linf(1) in {ndim}-D, against cKDTree"
        report.truth(f"{what}: the same count", found["everfresh"] == found["cKDTree"])
        report.row(what=what, how="everfresh", seconds=took, matches=found["everfresh"])
        report.row(what=what, how="cKDTree", seconds=rival, matches=found["cKDTree"])
        if settings.quick:
            report.row(what=what, how="times as fast", ratio=rival / took)
        else:
            report.at_least(what, rival / took, KERNEL, "times")
