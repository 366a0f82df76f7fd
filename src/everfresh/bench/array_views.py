"""Views of arrays: maintenance against making them again, plans over workers, other shapes, crossmatch views.

The evaluation of the paper on array views (section 6). Times are of the local engine, the view written in
both; makespans are those of the plans' own terms on catalogs, in cells, T_ntwk / T_cpu as it is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from everfresh.bench import Settings
from everfresh.bench.parts.asked import Asked
from everfresh.bench.report import Report

NAME = "array-views"
DESCRIPTION = (
    "views of arrays: batches against making views again, plans of maintenance, queries of other shapes"
)
OPTIONS = {
    "only": "parts of: maintain, plans, sensitivity, answers, crossmatch, spark",
    "settings": "of plans: PTF-25, PTF-5, GEO",
    "orders": "of batches, of plans and sensitivity: real, random, correlated, periodic",
    "nights": "of the survey on Spark before the first batch",
    "batches": "on Spark",
}
WORKERS, RATIO = 8, 4.0
ORDERS = ("real", "random", "correlated", "periodic")
PAIRS = (
    ("LINF(1)", "L1(1)"),
    ("LINF(1)", "LINF(2)"),
    ("LINF(2)", "LINF(1)"),
    ("L1(1)", "L1(2)"),
    ("LINF(2)", "L1(1)"),
    ("L2(3)", "L1(3)"),
    ("L1(3)", "L2(3)"),
    ("LINF(1) WITHOUT CENTER", "LINF(1)"),
    ("[-200:-1, 0]", "[-190:-1, 0]"),
    ("LINF(3)", "L2(3)"),
)


def run(settings: Settings) -> Report:
    """Measure."""
    report = Report(NAME)
    asked = Asked(settings.options, OPTIONS)
    parts = {
        "maintain": _maintain, "plans": _plans, "sensitivity": _sensitivity, "answers": _answers,
        "crossmatch": _crossmatch, "spark": _spark,
    }  # fmt: skip
    for name in asked.names("only", tuple(parts), parts):
        settings.note(name)
        parts[name](report, settings)
    return report


def _maintain(report: Report, settings: Settings) -> None:
    """PTF-25: batches of 1 % in the order of the nights, against the view made again."""
    import everfresh as ef
    from everfresh.datasets import ptf

    nights = 12 if settings.quick else 90
    cells = ptf.cells(nights)
    total = len(cells["ra"])
    later = ptf.cells(20, first=nights)
    with ef.connect(engine="local", options=ef.Options(durable=False)) as db:
        db.sql("CREATE ARRAY ptf <mag: REAL> [time=1,200000,112; ra=1,100000,100; dec=1,50000,50]")
        db.apply(ptf=_table(cells))
        made = []
        for k in range(2 if settings.quick else 3):
            started = time.perf_counter()
            db.sql(_ptf_25(f"v{k}"))
            made.append(time.perf_counter() - started)
            if k:
                db.sql(f"DROP ARRAY VIEW v{k}")
        size = total // 100
        times = []
        for k in range(5):
            some = {name: column[k * size : (k + 1) * size] for name, column in later.items()}
            if len(some["ra"]) < size:
                break
            started = time.perf_counter()
            db.apply(ptf=_table(some))
            times.append(time.perf_counter() - started)
        wrong = db.view("v0").verify().num_rows if settings.quick else 0
    again, step = sorted(made)[len(made) // 2], sorted(times)[len(times) // 2]
    report.row(
        what="PTF-25, real order",
        cells=total,
        batch=size,
        again=again,
        batch_seconds=step,
        ratio=again / step,
    )
    report.at_least("PTF-25, 1 % batch against making the view again", again / step, 10.0)
    report.truth("PTF-25 is right after the batches", wrong == 0)


def _table(cells: Any) -> Any:
    import pyarrow as pa

    return pa.table({name: cells[name] for name in ("time", "ra", "dec", "mag")})


def _ptf_25(name: str, options: str = "") -> str:
    return (
        f"CREATE ARRAY VIEW {name}{options} AS SELECT COUNT(*) AS n FROM ptf AS x SIMILARITY JOIN ptf AS y "
        "ON (y.time = x.time AND y.ra = x.ra AND y.dec = x.dec) WITH SHAPE [*, -2:2, -2:2] "
        "GROUP BY x.time, x.ra, x.dec"
    )


def _reaches() -> dict[str, Any]:
    """How far the shapes of the settings reach."""
    import numpy as np

    from everfresh.arrays.plan import Reach, chunk_offsets

    days = np.arange(-200 * 112, 0, 112)
    steps = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
    cells = np.array([[day, *step] for day in days for step in steps])
    five = Reach.box((-200 * 112, -1, -1), (-1, 1, 1), chunk_offsets(cells, (112, 100, 50)))
    far = Reach.box((None, -2, -2), (None, 2, 2))
    return {"PTF-25": far, "PTF-5": five, "GEO": Reach.box((-1, -1), (1, 1))}


def _plans(report: Report, settings: Settings) -> None:
    """Simulated makespans of each method on its own history, and the time that planning takes."""
    from everfresh.bench.parts.array_view_workloads import NIGHTS, places, survey

    nights, batches = (20, 4) if settings.quick else (NIGHTS, 10)
    reaches, asked = _reaches(), Asked(settings.options, OPTIONS)
    for name in asked.names("settings", tuple(reaches), reaches):
        reach = reaches[name]
        for order in asked.names("orders", ORDERS, ORDERS):
            if name == "GEO" and order == "real":
                continue  # places have no time
            if name == "GEO":
                data = places(order, batches, 0 if settings.quick else 9)
            else:
                data = survey(order, nights, batches)
            settings.note(f"{name}, {order}")
            updates = list(data.updates(reach, WORKERS))
            for placement in ("round-robin", "hash", "sky"):
                spans = _spans(report, f"{name}, {order}", data, updates, placement)
                _bars(report, f"{name}, {order}", placement, spans)


def _spans(report: Report, what: str, data: Any, updates: Any, placement: str) -> dict[str, list[float]]:
    """Makespans by method, batch by batch; a row for each method."""
    from everfresh.arrays.upkeep import METHODS, Costs, Planner, PlannerOptions

    spans: dict[str, list[float]] = {}
    for method in METHODS:
        home = data.home(placement, WORKERS)
        planner = Planner(PlannerOptions(method, Costs(RATIO, 1.0)), home, home)
        took, plans = [], []
        for update, stored in updates:
            started = time.perf_counter()
            plans.append(planner.step(update, stored))
            took.append(time.perf_counter() - started)
        spans[method] = [plan.makespan for plan in plans]
        report.row(
            what=what, placement=placement, method=method, makespan=sum(spans[method]),
            against_baseline=sum(spans[method]) / sum(spans["baseline"]),
            from_4th=sum(spans[method][3:]) / max(1e-9, sum(spans["baseline"][3:])),
            cells_sent=sum(p.moved for p in plans), view_cells_moved=sum(p.view_moved for p in plans),
            load=max(float(p.cpu.max() / max(1e-9, p.cpu.mean())) for p in plans),
            most_seconds=max(took), pairs=max(len(u.first) for u, _ in updates),
            delta_chunks=max(int(u.delta.sum()) for u, _ in updates),
            irrelevant=sum(u.irrelevant for u, _ in updates),
        )  # fmt: skip
    return spans


def _bars(report: Report, what: str, placement: str, spans: dict[str, list[float]]) -> None:
    """What is to be reached."""
    report.below(
        f"{what}, {placement}: auto against baseline", sum(spans["auto"]) / sum(spans["baseline"]), 1.02
    )
    if placement != "sky":
        return
    if what == "PTF-25, real":
        ratio = sum(spans["differential"]) / sum(spans["baseline"])
        report.below(f"{what}, sky: differential against baseline", ratio, 0.5)
    if what == "PTF-25, correlated":
        ratio = sum(spans["reassign"][3:]) / sum(spans["baseline"][3:])
        report.below(f"{what}, sky: reassign against baseline from the 4th", ratio, 0.33)


def _sensitivity(report: Report, settings: Settings) -> None:
    """Batches of 50 to 1,600 chunks, more or fewer of them, close together and far apart: PTF-25, sky ranges,
    correlated and real."""
    from everfresh.bench.parts.array_view_workloads import NIGHTS, smaller, survey

    nights, batches = (20, 4) if settings.quick else (NIGHTS, 10)
    reach = _reaches()["PTF-25"]
    for order in Asked(settings.options, OPTIONS).names("orders", ORDERS, ("real", "correlated")):
        data = survey(order, nights, batches)
        for chunks in (50, 100, 200, 400, 800, 1600):
            few = smaller(data, chunks)
            spans = _spans(report, f"{order}, {chunks} chunks", few, list(few.updates(reach, WORKERS)), "sky")
            if chunks == 1600:
                for count in range(1, batches + 1):
                    ratios = {m: sum(s[:count]) / sum(spans["baseline"][:count]) for m, s in spans.items()}
                    report.row(what=f"{order}, {count} batches", **ratios)
        for spread in (1, 4, 16):
            wide = smaller(data, 100, spread)
            what = f"{order}, 100 chunks, one of {spread}"
            _spans(report, what, wide, list(wide.updates(reach, WORKERS)), "sky")


def _spark(report: Report, settings: Settings) -> None:
    """PTF-25 on Spark: batches of 1 % against the view made again, and `auto` against `baseline`, in turns
    over the same cells, each in a database and with a history of its own."""
    import everfresh as ef
    from everfresh.datasets import ptf

    asked = Asked(settings.options, OPTIONS)
    nights = int(asked.number("nights", 4 if settings.quick else 45))
    count = int(asked.number("batches", 2 if settings.quick else 5))
    cells = ptf.cells(nights)
    total, later = len(cells["ra"]), ptf.cells(10, first=nights)
    size = max(1, total // 100)
    workers, methods = 2, ("baseline", "auto")
    made: dict[str, list[Took]] = {method: [] for method in methods}
    steps: dict[str, list[Took]] = {method: [] for method in methods}
    sent = dict.fromkeys(methods, 0)
    with ExitStack() as stack:
        options = ef.Options(workers=workers, durable=False)
        dbs = {m: stack.enter_context(ef.connect(engine="spark", options=options)) for m in methods}
        for method, db in dbs.items():
            settings.note(f"{total:,} cells on Spark, {method}")
            db.sql("CREATE ARRAY ptf <mag: REAL> [time=1,200000,112; ra=1,100000,100; dec=1,50000,50]")
            db.apply(ptf=_table(cells))
            view = _ptf_25("v", f" WITH (maintenance = '{method}')")
            for k in range(2):  # the first one finds kernels and caches cold
                made[method].append(_took(lambda db=db, view=view: db.sql(view)))  # type: ignore[misc]
                if not k:
                    db.sql("DROP ARRAY VIEW v")
        for k in range(count + 1):  # the first one finds them cold, too
            some = _table({name: column[k * size : (k + 1) * size] for name, column in later.items()})
            for method in methods if k % 2 else reversed(methods):
                db = dbs[method]
                settings.note(f"batch {k} on Spark, {method}")
                took = _took(lambda db=db, some=some: db.apply(ptf=some))  # type: ignore[misc]
                steps[method] += [took] if k else []
                found = db._domain("array").measured["v", 1]
                sent[method] += int(found.links.sum())
                exact = bool((found.links == found.plan.links).all())
                report.truth(f"{method}, batch {k}: bytes as planned", exact)
        if settings.quick:
            wrong = sum(db.view("v").verify().num_rows for db in dbs.values())
            report.truth("views on Spark are right after the batches", wrong == 0)
    for method in methods:
        again, step = made[method][-1], sorted(steps[method])[len(steps[method]) // 2]
        used = sorted(took.processor for took in steps[method])[len(steps[method]) // 2]
        report.row(
            what=f"PTF-25 on Spark, {workers} workers, {method}", cells=total, batch=size, again=again.wall,
            batch_seconds=step.wall, ratio=again.wall / step.wall, again_processor=again.processor,
            batch_processor=used, processor_ratio=again.processor / max(used, 1e-9),
            bytes_sent=sent[method],
        )  # fmt: skip
        if again.wall > 5:
            what = f"Spark, {method}: a 1 % batch against making the view again"
            report.at_least(what, again.wall / step.wall, 3.0)
    walls, processor = (
        {m: sum(getattr(took, kind) for took in steps[m]) for m in methods} for kind in ("wall", "processor")
    )
    ratio = processor["auto"] / max(processor["baseline"], 1e-9)
    report.row(what="PTF-25 on Spark, auto against baseline, processor time", ratio=ratio)
    report.below("Spark: auto against baseline, wall time", walls["auto"] / walls["baseline"], 1.15)


class Took(NamedTuple):
    """Seconds: wall time, and processor time of all processes."""

    wall: float
    processor: float


def _took(fn: Callable[[], Any]) -> Took:
    from everfresh.bench.parts.crossmatch_lsdb import processor_seconds

    before, started = processor_seconds(), time.perf_counter()
    fn()
    return Took(time.perf_counter() - started, processor_seconds() - before)


def _answers(report: Report, settings: Settings) -> None:
    """Queries of other shapes, by the view and by their own join."""
    import numpy as np

    import everfresh as ef
    from everfresh.arrays import aql
    from everfresh.arrays.aql_parser import parse
    from everfresh.arrays.views.answers import answer, calibrated
    from everfresh.bench.timing import median, repeat

    rng = np.random.default_rng(3)
    count = 20_000 if settings.quick else 300_000
    stars = rng.integers(0, 2000, (2, count // 3))
    where = np.clip(stars[:, rng.integers(0, count // 3, count)] + rng.integers(-1, 2, (2, count)), 0, 2000)
    right, costs = 0, calibrated()
    report.row(what="cost model, measured", costs=str(costs))
    text = (
        "SELECT COUNT(*) AS n, SUM(y.u) AS s FROM sky AS x SIMILARITY JOIN sky AS y "
        "ON (y.ra = x.ra AND y.dec = x.dec) WITH SHAPE {} GROUP BY x.ra, x.dec"
    )
    with ef.connect(engine="local", options=ef.Options(durable=False)) as db:
        db.sql("CREATE ARRAY sky <u: DOUBLE> [ra=0,2000,100; dec=0,2000,100]")
        db.apply(sky=(tuple(where), rng.random(count)))
        for asked, kept in PAIRS:
            db.sql(f"CREATE ARRAY VIEW v AS {text.format(kept)}")
            domain = db._domain("array")
            arrays, views = domain.with_views()
            query = parse(text.format(asked))
            assert isinstance(query, aql.Query)
            view, states = views["v"]
            found = answer(query, arrays, "v", view, states, costs)
            assert found is not None
            by_view, by_join = median(repeat(found.rows, 3)), median(repeat(found.joined, 3))
            chosen, best = (by_view if found.by_view else by_join), min(by_view, by_join)
            right += chosen <= 1.15 * best
            report.row(what=f"{asked} from {kept}", by_view=by_view, by_join=by_join, chosen=chosen / best,
                       estimate_view=found.view_cost, estimate_join=found.join_cost)  # fmt: skip
            db.sql("DROP ARRAY VIEW v")
    report.at_least("the cost model takes the faster way, or within 15 % of it, of 10", right, 9)


def _crossmatch(report: Report, settings: Settings) -> None:
    """1,000 new detections, against matching again and writing the view."""
    import numpy as np
    import pyarrow as pa

    import everfresh as ef

    rng = np.random.default_rng(0)
    count = 50_000 if settings.quick else 1_000_000
    ra, dec = rng.random(count) * 360, np.rad2deg(np.arcsin(rng.random(count) * 1.6 - 0.8))

    def detections(first: int, size: int) -> Any:
        some = rng.integers(0, count, size)
        near = np.mod(ra[some] + rng.normal(0, 1e-4, size), 360)
        return pa.table({"k": np.arange(first, first + size), "ra": near, "dec": dec[some]})

    with ef.connect(engine="local", options=ef.Options(durable=False)) as db:
        for name in ("stars", "seen"):
            db.sql(f"CREATE TABLE {name} (k BIGINT PRIMARY KEY, ra DOUBLE, dec DOUBLE)")
        db.apply(stars=pa.table({"k": np.arange(count), "ra": ra, "dec": dec}), seen=detections(0, count))
        started = time.perf_counter()
        db.create_crossmatch_view("near", "stars", "seen", 1.0)
        made = time.perf_counter() - started
        times = []
        for k in range(15):
            batch = detections(count + 1000 * k, 1000)
            started = time.perf_counter()
            db.apply(seen=batch)
            times.append(time.perf_counter() - started)
        rows = len(db.view("near"))
    step = sorted(times)[len(times) // 2]
    report.row(
        what=f"crossmatch of {count} by {count}", rows=rows, again=made, batch_seconds=step, ratio=made / step
    )
    report.below("crossmatch view, 1,000 new detections", step, 0.02, "s")
    report.at_least("against matching again and writing the view", made / step, 50.0)
