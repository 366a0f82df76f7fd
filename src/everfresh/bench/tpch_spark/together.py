"""All views in one database: one batch for all of them, against Spark SQL computing all queries anew."""

from __future__ import annotations

from functools import partial
from typing import Any

from everfresh.bench import Report, Settings, median
from everfresh.bench.timing import repeat
from everfresh.bench.tpch_spark.data import INSERTS, Files
from everfresh.bench.tpch_spark.plan import Plan
from everfresh.bench.tpch_spark.refresh import Measured, name_tables, warm_up
from everfresh.bench.tpch_spark.sessions import Counted, counted, recompute
from everfresh.datasets import tpch

_LIMIT = 50.0


def measure(
    report: Report,
    settings: Settings,
    plan: Plan,
    session: Any,
    db: Any,
    files: Files,
    known: list[Measured],
) -> None:
    """Make all views, apply batches that change all tables; `known` has recomputations measured before."""
    settings.note("all views in one database: making them")
    for query in plan.queries:
        db.sql(query.ddl)
    again = sum(one.again for one in known)
    if len(known) < len(plan.queries):
        again = _all_again(settings, plan, session, files)
    tables = [table for table in tpch.TABLES if table not in tpch.FIXED]
    took: dict[tuple[float, str], list[Counted]] = {}
    rows: dict[tuple[float, str], int] = {}
    warm_up(db, files, tables)
    for turn in range(plan.rounds):
        settings.note(f"all views in one database: round {turn + 1} of {plan.rounds}")
        for share in plan.shares:
            for kind, batch in files.kinds(tables, share, turn):
                one = counted(session, partial(db.apply, batch))
                rows[share, kind] = files.rows(batch)
                took.setdefault((share, kind), []).append(one)
            db.apply(files.undo(tables, share, turn))
    for (share, kind), some in took.items():
        typical = median([one.seconds for one in some])
        report.row(
            section="together",
            query=f"{len(plan.queries)} views",
            batch=f"{share:g} %, {kind}",
            given="Parquet files",
            rows=rows[share, kind],
            ms=1e3 * typical,
            slowest=1e3 * max(one.seconds for one in some),
            recompute_ms=1e3 * again,
            ratio=again / typical,
            jobs=median([one.jobs for one in some]),
            stages=median([one.stages for one in some]),
            shuffled_kb=median([one.shuffled for one in some]) / 1000,
        )
        if plan.counts and kind == INSERTS and share == min(plan.shares):
            what = f"{len(plan.queries)} views of one database, {share:g} % as files"
            report.at_least(what, again / typical, _LIMIT, "times")
    for query in plan.queries:
        db.sql(f"DROP VIEW {query.view}")


def _all_again(settings: Settings, plan: Plan, session: Any, files: Files) -> float:
    name_tables(session, files)
    total = 0.0
    for query in plan.queries:
        settings.note(f"{query.view}: recomputing")
        repeat(partial(recompute, session, query.text), plan.warm)
        total += median(repeat(partial(recompute, session, query.text), min(plan.rounds, 3)))
    return total
