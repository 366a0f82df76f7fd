"""The views of TPC-DS on the local engine, against DuckDB on one thread: one by one, and all together."""

from __future__ import annotations

import gc
import resource
from functools import partial

import everfresh as ef
from everfresh.bench import Report, Settings, median
from everfresh.bench.tpcds.data import FACTS, Data, Mirror, same_rows
from everfresh.bench.tpcds.plan import Plan
from everfresh.bench.tpcds.views import Measured, add, is_incremental
from everfresh.bench.tpch_local.cells import clocked
from everfresh.errors import EverfreshError


def measure(report: Report, settings: Settings, plan: Plan, data: Data) -> None:
    """Measure what the plan asks for."""
    mirror = Mirror(data)
    try:
        for how, of in (("apart", _apart), ("together", _together)):
            if how in plan.how:
                with ef.connect(engine="local", options=ef.Options(compile=plan.compile)) as db:
                    for name in data.columns:
                        db.sql(data.ddl(name))
                        db.apply({name: data.rows(name)})
                    of(report, settings, plan, data, mirror, db)
                gc.collect()
    finally:
        mirror.close()


def _apart(
    report: Report, settings: Settings, plan: Plan, data: Data, mirror: Mirror, db: ef.Database
) -> None:
    """Each view alone: it gets batches of the fact tables that it reads."""
    found = []
    for number in plan.queries:
        settings.note(f"Q{number}, local")
        one = _made(plan, data, db, number)
        found.append(one)
        if one.refused:
            continue
        facts = [name for name in FACTS if name in db.catalog.views[f"q{number}"].compiled.bases]
        for turn in range(1 + plan.rounds):  # the first links statements and loads kernels
            took = _refresh(plan, data, mirror, db, facts)
            if turn:
                one.batches.append(took)
        _compare(plan, data, mirror, db, one)
        settings.note(one.said)
        db.sql(f"DROP MATERIALIZED VIEW q{number}")
    add(report, plan, "local", found)


def _made(plan: Plan, data: Data, db: ef.Database, number: int) -> Measured:
    one = Measured(number)
    ddl = f"CREATE MATERIALIZED VIEW q{number} AS {data.texts[number]}"
    try:
        one.made = clocked(partial(db.sql, ddl), plan.clock).seconds
    except EverfreshError as error:
        one.refused = error.message
    else:
        one.incremental = is_incremental(db, f"q{number}")
    return one


def _refresh(plan: Plan, data: Data, mirror: Mirror, db: ef.Database, facts: list[str]) -> float:
    batch = data.batch(facts, plan.share_on("local"))
    given = {n: ef.Delta(inserts=b.inserts, deletes=b.deletes) for n, b in batch.items()}
    took = clocked(partial(db.apply, given), plan.clock).seconds if given else 0.0
    mirror.apply(batch)
    return took


def _compare(plan: Plan, data: Data, mirror: Mirror, db: ef.Database, one: Measured) -> None:
    """Whether a view is right, and how long DuckDB takes for its query."""
    text = data.texts[one.number]
    wanted = mirror.answer(mirror.settled(text))
    one.right = same_rows(db.view(f"q{one.number}").to_arrow(), wanted)
    one.computed = [clocked(partial(mirror.answer, text), plan.clock).seconds for _ in range(plan.rounds)]


def _together(
    report: Report, settings: Settings, plan: Plan, data: Data, mirror: Mirror, db: ef.Database
) -> None:
    """All views in one database: batches of all fact tables."""
    found = []
    for number in plan.queries:
        settings.note(f"Q{number}, local, together")
        found.append(_made(plan, data, db, number))
    there = [one for one in found if not one.refused]
    took = [_refresh(plan, data, mirror, db, list(FACTS)) for _ in range(1 + plan.rounds)][1:]
    for one in there:
        _compare(plan, data, mirror, db, one)
    computed = sum(median(one.computed) for one in there)
    report.row(
        what=f"{len(there)} views together, local",
        made_ms=1e3 * sum(one.made for one in there),
        refresh_ms=1e3 * median(took),
        computed_ms=1e3 * computed,
        times=computed / median(took),
        right=sum(one.right for one in there),
        process_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
    wrong = ", ".join(f"Q{one.number}" for one in there if not one.right)
    report.truth(f"local, together: every view is right{f', but {wrong}' if wrong else ''}", not wrong)
