"""Refreshing each view after a batch, against Spark SQL computing its query anew.

All tables are loaded once; a view is made, refreshed and dropped before the next one. Batches and
recomputations take turns, so that noise falls on both. Spark SQL reads Parquet files with the rows after a
batch, or tables that it has cached.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from everfresh.bench import Report, Settings, median
from everfresh.bench.timing import repeat, seconds
from everfresh.bench.tpch_local import reads
from everfresh.bench.tpch_local.bars import geometric_mean
from everfresh.bench.tpch_spark.data import INSERTS, Files
from everfresh.bench.tpch_spark.plan import Plan
from everfresh.bench.tpch_spark.published import TABLE_5_1
from everfresh.bench.tpch_spark.sessions import Counted, counted, recompute
from everfresh.datasets import tpch
from everfresh.workloads import Query

FILES, FRAMES, ARROW = "Parquet files", "Spark DataFrames", "Arrow on the driver"
COMPUTED = "computed DataFrames"
_LIMITS = {(1.0, FILES): 8.0, (1.0, FRAMES): 5.0, (0.1, FILES): 12.0}
"""How many times faster than recomputation, as a geometric mean, by share and form."""


_COMPILING = 180.0
"""Seconds that are given to the compiler, which runs beside batches, before anything is measured."""


@dataclass(slots=True)
class Measured:
    """What was measured of one query."""

    query: Query
    batches: dict[tuple[float, str, str], list[Counted]] = field(default_factory=dict)
    """By share, kind and form."""
    rows: dict[tuple[float, str], int] = field(default_factory=dict)
    again: float = 0.0
    """Recomputation from files, in seconds."""
    cached: float | None = None
    created: float = 0.0
    wrong: int = 0

    def refresh(self, share: float, kind: str, form: str) -> float:
        """How long a batch took."""
        return median([one.seconds for one in self.batches[share, kind, form]])


def load(db: Any, files: Files) -> None:
    """Make the tables and fill them."""
    for ddl in tpch.TABLES.values():
        db.sql(ddl)
    db.apply(files.loaded(list(tpch.TABLES)))


def warm_up(db: Any, files: Files, tables: list[str], least: int = 1) -> None:
    """Apply the batches of the first round at least so often, and until what they run is compiled."""
    until, done = time.monotonic() + _COMPILING, 0
    while done < least or (_compiling(db) and time.monotonic() < until):
        time.sleep(1.0 if done >= least else 0.0)
        for share in files.shares:
            for _, batch in files.kinds(tables, share, 0):
                db.apply(batch)
            db.apply(files.undo(tables, share, 0))
        done += 1


def _compiling(db: Any) -> int:
    """How many functions the processes of the last batch had yet to compile."""
    units = (u for u in db.statistics()["last batch"].values() if isinstance(u, dict))
    return sum(unit.get("statements", {}).get("compiling", 0) for unit in units)


def name_tables(session: Any, files: Files) -> None:
    """Let Spark SQL know the tables as they are after a batch."""
    for table in tpch.TABLES:
        session.read.parquet(*files.after(table)).createOrReplaceTempView(table)


def measure(
    report: Report, settings: Settings, plan: Plan, session: Any, db: Any, files: Files
) -> list[Measured]:
    """Refresh every view; the tables of `db` are loaded, and are left as they were."""
    name_tables(session, files)
    found = []
    for query in plan.queries:
        try:
            found.append(_measure(settings, plan, session, db, files, query))
        except Exception as error:  # the others are still worth their hour
            report.skip(f"{query.view}, refresh", first_line(error))
            db.sql(f"DROP VIEW IF EXISTS {query.view}")
            restore(db, files)
        if settings.json is not None:  # what there is, should the run be ended
            partial_ = Report(report.name, list(report.rows), machine=report.machine)
            for one in found:
                _add_rows(partial_, plan, one)
            settings.json.with_suffix(".partial.json").write_text(partial_.to_json(), encoding="utf-8")
    if "cached" in plan.sections:
        _from_memory(settings, plan, session, found)
    for one in found:
        _add_rows(report, plan, one)
    _add_bars(report, plan, found)
    return found


def restore(db: Any, files: Files) -> None:
    """Take every row of a batch out of the tables that is there."""
    import everfresh as ef

    for table in [t for t in tpch.TABLES if t not in tpch.FIXED]:
        for file in files.pieces(table):
            with suppress(ef.EverfreshError):
                db.apply({table: ef.Delta(deletes=str(file))})


def first_line(error: Exception) -> str:
    """What an error says, in short."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _measure(settings: Settings, plan: Plan, session: Any, db: Any, files: Files, query: Query) -> Measured:
    settings.note(f"{query.view}: making the view")
    found, tables = Measured(query), [t for t in reads(query) if t not in tpch.FIXED]
    found.created = counted(session, partial(db.sql, query.ddl)).seconds
    settings.note(f"{query.view}: warming Spark SQL")
    repeat(partial(recompute, session, query.text), plan.warm)
    settings.note(f"{query.view}: batches until their statements are compiled")
    warm_up(db, files, tables)
    again = []
    for turn in range(-1, plan.rounds):  # the first round warms
        settings.note(f"{query.view}: round {turn + 1} of {plan.rounds}")
        for share in plan.shares:
            for form in _forms(plan, turn):
                for kind, batch in files.kinds(tables, share, max(turn, 0)):
                    given = _given(session, batch, form)
                    one = counted(session, partial(db.apply, given))
                    found.rows[share, kind] = files.rows(batch)
                    if turn >= 0:
                        found.batches.setdefault((share, kind, form), []).append(one)
                db.apply(files.undo(tables, share, max(turn, 0)))
        again.append(seconds(partial(recompute, session, query.text)))
    found.again = median(again[1:])
    if plan.verify:
        found.wrong = db.view(query.view).verify().num_rows
    db.sql(f"DROP VIEW {query.view}")
    return found


def _forms(plan: Plan, turn: int) -> list[str]:
    return [FILES, FRAMES, COMPUTED, ARROW] if "forms" in plan.sections else [FILES]


def _given(session: Any, batch: dict[str, Any], form: str) -> dict[str, Any]:
    """A batch of files in another form."""
    import everfresh as ef

    make: dict[str, Callable[[str], Any]] = {
        FILES: str,
        FRAMES: session.read.parquet,
        COMPUTED: lambda path: _computed(session.read.parquet(path)),
        ARROW: pq.read_table,
    }
    read = make[form]
    return {
        table: read(rows)
        if isinstance(rows, str)
        else ef.Delta(inserts=read(rows.inserts), deletes=read(rows.deletes))
        for table, rows in batch.items()
    }


def _computed(df: Any) -> Any:
    """The same rows, of which Spark has to see each."""
    return df.where(df[df.columns[0]].isNotNull())


def _from_memory(settings: Settings, plan: Plan, session: Any, found: list[Measured]) -> None:
    """The queries once more, over tables that Spark has cached."""
    settings.note("caching the tables")
    for table in tpch.TABLES:
        session.catalog.cacheTable(table)
        session.table(table).count()
    for one in found:
        settings.note(f"{one.query.view}: from cached tables")
        repeat(partial(recompute, session, one.query.text), max(1, plan.warm // 3))
        one.cached = median(repeat(partial(recompute, session, one.query.text), min(plan.rounds, 3)))
    for table in tpch.TABLES:
        session.catalog.uncacheTable(table)


# -- the report ------------------------------------------------------------------------------------


def _add_rows(report: Report, plan: Plan, one: Measured) -> None:
    report.row(section="load", query=one.query.view, sf=plan.sf, ms=1e3 * one.created)
    for (share, kind, form), some in one.batches.items():
        took = one.refresh(share, kind, form)
        report.row(
            section="refresh",
            query=one.query.view,
            batch=f"{share:g} %, {kind}",
            given=form,
            rows=one.rows[share, kind],
            ms=1e3 * took,
            slowest=1e3 * max(c.seconds for c in some),
            recompute_ms=1e3 * one.again,
            ratio=one.again / took,
            cached_ms=None if one.cached is None else 1e3 * one.cached,
            cached_ratio=None if one.cached is None else one.cached / took,
            jobs=median([c.jobs for c in some]),
            stages=median([c.stages for c in some]),
            shuffled_kb=median([c.shuffled for c in some]) / 1000,
        )


def _add_bars(report: Report, plan: Plan, found: list[Measured]) -> None:
    for share, kind, form in dict.fromkeys(key for one in found for key in one.batches):
        ratios = [one.again / one.refresh(share, kind, form) for one in found]
        cached = [one.cached / one.refresh(share, kind, form) for one in found if one.cached is not None]
        what = f"{share:g} % as {form}, {kind}"
        report.row(
            section="refresh",
            query=f"geometric mean of {len(found)}",
            batch=f"{share:g} %, {kind}",
            given=form,
            ratio=geometric_mean(ratios),
            cached_ratio=geometric_mean(cached) or None,
        )
        if plan.counts and kind == INSERTS and (share, form) in _LIMITS:
            report.at_least(f"{what}, geometric mean", geometric_mean(ratios), _LIMITS[share, form], "times")
            report.at_least(f"{what}, the slowest query", min(ratios), 1.0, "times")
    if plan.verify:
        report.truth("every view equals its recomputation", not any(one.wrong for one in found))
    _add_table(report, plan, found)


def _add_table(report: Report, plan: Plan, found: list[Measured]) -> None:
    """Whether jobs and stages are at most those of Table 5.1."""
    over = []
    for one in found:
        if one.query.workload == "thesis":
            some = one.batches[max(plan.shares), INSERTS, FILES]
            jobs, stages = TABLE_5_1[one.query.name]
            if median([c.jobs for c in some]) > jobs or median([c.stages for c in some]) > stages:
                over.append(one.query.name)
    if plan.counts:
        report.truth(
            f"jobs and stages at most those of Table 5.1{''.join(f' ({q})' for q in over)}", not over
        )
