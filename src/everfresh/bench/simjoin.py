"""Similarity joins of arrays, planned, simulated and run: what each algorithm moves, how it spreads work.

The evaluation of the paper on similarity joins (section 5) on catalogs alone: chunks dealt round-robin over 2
to 8 workers, every algorithm for the same pairs. Times of planning leave out the loading of compiled loops.
Load is candidate cell pairs per worker; makespan is that of the cost model with its default calibration.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from everfresh.bench import Settings
from everfresh.bench.parts.asked import Asked
from everfresh.bench.parts.simjoin_workloads import Workload, ptf_3d, workloads
from everfresh.bench.report import Report
from everfresh.bench.timing import seconds

if TYPE_CHECKING:
    from everfresh.arrays.plan import Plan, Problem

NAME = "simjoin"
DESCRIPTION = (
    "similarity joins of arrays: plans, simulated runs and runs, each algorithm on the same chunk pairs"
)

PARTS = ("plans", "large", "runs", "kernel", "spark")
OPTIONS = {
    "only": f"parts of: {', '.join(PARTS)}",
    "nights": "of the surveys whose joins are run",
    "algorithms": "whose plans Spark runs; bhvc is always among them",
}
WORKERS = (2, 4, 6, 8)
MANY = 8
HEURISTICS = ("hvc", "hvc-minimal", "mbh")
RIVALS = ("struct", "struct-once", "mr", "mr-once", "shuffle")
ALL = ("opt-vc", "bhvc", *HEURISTICS, *RIVALS)
_ON = {True: "on", False: "off"}
NEAR_OPTIMUM, AGAINST_RIVALS, SPREAD, LARGEST, PLANNING = 1.05, 0.45, 1.02, 1.03, 10.0


def run(settings: Settings) -> Report:
    """Plan and simulate, then run: in this process, and on Spark."""
    from everfresh.bench.parts.simjoin_runs import RUN, kernel, runs
    from everfresh.bench.parts.simjoin_spark import on_spark

    report = Report(NAME)
    asked = Asked(settings.options, OPTIONS)
    parts = asked.names("only", PARTS, PARTS)
    nights = int(asked.number("nights", 10 if settings.quick else 120))
    if "plans" in parts:
        _load_loops()
        for workload in workloads(settings.quick, report.skip):
            _algorithms(report, settings, workload)
        _two_instances(report, settings)
        _scaling(report, settings)
        _exact(report, settings)
    if "large" in parts:
        _load_loops()
        _large(report, settings)
    if "runs" in parts:
        runs(report, settings, nights)
    if "kernel" in parts:
        kernel(report, settings)
    if "spark" in parts:
        on_spark(report, settings, nights, asked.names("algorithms", RUN, RUN))
    return report


def _load_loops() -> None:
    """Plan and run something small, so that no figure has the loading of compiled loops in it."""
    from everfresh.arrays.plan.simulate import simulate

    small = ptf_3d(2).problem(2)
    for name in ALL:
        simulate(_plan(small, name), schedule=False)


def _plan(problem: Problem, algorithm: str) -> Plan:
    from everfresh.arrays.plan import PlanOptions, plan_problem

    return plan_problem(problem, PlanOptions(algorithm))


def _algorithms(report: Report, settings: Settings, workload: Workload) -> None:
    """All algorithms for 2 to 8 workers, bars at 8, and what schedule and caching save."""
    spans = {}
    for workers in WORKERS:
        settings.note(f"{workload.name}: {workers} workers")
        problem = workload.problem(workers)
        plans = _rows(report, workload.name, problem, ALL)
        spans[workers] = _ablation(report, workload.name, plans["bhvc"])
    _bars(report, workload.name, plans)
    how = f"simulated speed-up from {WORKERS[0]} workers"
    report.row(what=workload.name, workers=MANY, how=how, ratio=spans[WORKERS[0]] / spans[MANY])


def _rows(report: Report, what: str, problem: Problem, names: Iterable[str]) -> dict[str, Plan]:
    """A row for each algorithm; opt-vc comes first, for the others to be compared with."""
    plans: dict[str, Plan] = {}
    for name in names:
        started = time.perf_counter()
        plans[name] = _plan(problem, name)
        _row(report, what, plans[name], plans["opt-vc"], time.perf_counter() - started)
    return plans


def _row(report: Report, what: str, plan: Plan, least: Plan, took: float) -> None:
    load = plan.load_of_workers
    report.row(
        what=what,
        workers=plan.problem.workers,
        how=plan.options.algorithm,
        chunks=len(plan.problem.cells),
        pairs=len(plan.problem.first),
        seconds=took,
        mb=plan.bytes_moved / 1e6,
        against_opt=plan.bytes_moved / max(least.bytes_moved, 1),
        most_in_or_out_mb=plan.busiest_end / 1e6,
        load_max=int(load.max()),
        load_min=int(load.min()),
        load_mean=float(load.mean()),
        spread=plan.spread,
        makespan=plan.makespan,
    )


def _bars(report: Report, what: str, plans: dict[str, Plan]) -> None:
    """What is to be reached with 8 workers."""
    from everfresh.arrays.plan import explain

    bhvc, least = plans["bhvc"], plans["opt-vc"]
    where = f"{what}, {MANY} workers"
    report.below(f"{where}: bytes, BHVC / OPT-VC", bhvc.bytes_moved / least.bytes_moved, NEAR_OPTIMUM)
    report.below(f"{where}: load spread, BHVC / OPT-VC", bhvc.spread / least.spread, SPREAD)
    others = min(plans[name].busiest_end for name in HEURISTICS)
    report.below(f"{where}: largest in or out, BHVC / other heuristics", bhvc.busiest_end / others, LARGEST)
    bound = explain(bhvc).least_load / float(bhvc.load_of_workers.mean())
    report.row(what=what, workers=MANY, how="least spread of any assignment", ratio=bound)
    for name in RIVALS:
        ratio = bhvc.bytes_moved / max(plans[name].bytes_moved, 1)
        if what == "PTF 3-D" and name in ("struct", "mr"):
            report.below(f"{where}: bytes, BHVC / {name}, each pair once", ratio, AGAINST_RIVALS)
        else:
            report.row(what=what, workers=MANY, how=f"bytes, bhvc / {name}", ratio=ratio)


def _ablation(report: Report, what: str, plan: Plan) -> float:
    """Schedule and caching on and off, in the simulation, memory for an eighth of a worker's chunks."""
    from everfresh.arrays.plan import plan_problem
    from everfresh.arrays.plan.simulate import simulate

    problem = plan.problem
    budget = int(problem.bytes.sum()) // (8 * problem.workers)
    tight = plan_problem(problem, replace(plan.options, budget=budget))
    for schedule in (True, False):
        for caching in (True, False):
            found = simulate(tight, schedule=schedule, caching=caching)
            report.row(
                what=what,
                workers=problem.workers,
                how=f"simulated, schedule {_ON[schedule]}, caching {_ON[caching]}",
                makespan=found.makespan,
                slowest_over_fastest=found.slowest_over_fastest,
                receive_max=max(found.receive),
                receive_mean=sum(found.receive) / len(found.receive),
                receive_of_each=" ".join(f"{value:.3g}" for value in found.receive),
                reads=found.reads,
                compute=sum(found.compute),
                waiting_for_reads=sum(found.waiting),
                overlap=found.overlap,
                thread_spread=found.thread_spread,
            )
    return simulate(plan).makespan


def _two_instances(report: Report, settings: Settings) -> None:
    """What the document ran: the same catalog as two arrays, so that no pair is shared by two directions."""
    workload = ptf_3d(25 if settings.quick else 180)
    settings.note(f"{workload.name}: two instances")
    problem = workload.problem(MANY, two=True)
    what = f"{workload.name}, two instances"
    plans = _rows(report, what, problem, ("opt-vc", "bhvc", "hvc", "mbh", "struct", "mr", "shuffle"))
    for name in ("opt-vc", "struct", "mr"):
        ratio = plans["bhvc"].bytes_moved / plans[name].bytes_moved
        report.row(what=what, workers=MANY, how=f"bytes, bhvc / {name}", ratio=ratio)


def _scaling(report: Report, settings: Settings) -> None:
    """Simulated runs on 1 to 64 workers of one thread and of 16, as the document has them."""
    from everfresh.arrays.plan import CostModel, PlanOptions, plan_problem
    from everfresh.arrays.plan.simulate import simulate

    workload = ptf_3d(25 if settings.quick else 180)
    for threads in (1, 16):
        options, alone = PlanOptions(cost=CostModel(threads=threads)), 0.0
        for workers in (1, 2, 4, 8, 16, 32, 64):
            found = simulate(plan_problem(workload.problem(workers), options))
            alone = alone or found.makespan
            report.row(
                what=workload.name,
                workers=workers,
                how=f"simulated, {threads} threads, against one worker",
                ratio=alone / found.makespan,
                makespan=found.makespan,
                overlap=found.overlap,
                thread_spread=found.thread_spread,
            )


def _exact(report: Report, settings: Settings) -> None:
    """The least largest bytes into or out of a worker, by integer program, where a join is small enough."""
    from everfresh.arrays.plan.covers import SMALL
    from everfresh.arrays.plan.graph import transfer_graph
    from everfresh.errors import EverfreshError

    settings.note("small joins by integer program")
    for workers in (3, 4):
        problem = ptf_3d(1).problem(workers)
        if len(transfer_graph(problem).cost) > SMALL:
            report.skip(f"min-max, {workers} workers", f"more than {SMALL} vertices")
            continue
        try:
            exact = _plan(problem, "min-max")
        except EverfreshError as error:
            report.skip(f"min-max, {workers} workers", error.message)
            continue
        for name in ("bhvc", *HEURISTICS, "opt-vc"):
            ratio = _plan(problem, name).busiest_end / max(exact.busiest_end, 1)
            how = f"largest in or out, {name} / least possible"
            report.row(what="PTF 3-D, one night", workers=workers, how=how, ratio=ratio)


def _large(report: Report, settings: Settings) -> None:
    """From catalog to plan with 200,000 chunks."""
    what = f"planning 200,000 chunks, {MANY} workers"
    if settings.quick:
        report.skip(what, "takes half a minute: not with --quick")
        return
    settings.note(what)
    workload = ptf_3d(1800)
    for name in ("bhvc", "hvc", "mbh", "opt-vc"):
        took = seconds(lambda name=name: _plan(workload.problem(MANY), name))  # type: ignore[misc]
        report.row(what=what, how=name, chunks=len(workload.chunks), seconds=took)
        if name == "bhvc":
            report.below(what, took, PLANNING, "s")
