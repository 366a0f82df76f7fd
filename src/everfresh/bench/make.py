"""Making and keeping views: creating them, filling them, wide tables, many views, and the first minutes.

Creating is measured over empty tables, by processor time; filling beside DuckDB on one thread, in the same
run; the rest in fresh interpreters. With `--quick` the long lists (TPC-DS, Spark) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from everfresh.bench import Settings
from everfresh.bench.parts.process import has_java
from everfresh.bench.report import Report
from everfresh.errors import EverfreshError

NAME = "make"
DESCRIPTION = "creating and filling views, wide tables, many views, the first minutes on a new machine"
OPTIONS: Mapping[str, str] = {
    "only": "parts of it: create, fill, groups, wide, many, first (separated by commas)",
    "queries": "numbers of TPC-DS queries to fill (separated by commas)",
}

CREATE_LIMIT, CREATE_MEAN, JOIN_LIMIT, SELF_LIMIT = 2.0, 0.5, 1.0, 10.0
GROUP_ROWS, GROUP_LIMIT, GROUP_MB = 100_000, 1.0, 300.0
WIDE_LIMITS = {"create": 0.05, "apply": 0.01, "insert": 0.05}
MANY_LIMITS = {"create": 0.05, "one row": 0.02}
FIRST_LIMIT, DEMO_LIMIT, LONGEST_LIMIT = 1.5, 8.0, 3.0


def run(settings: Settings) -> Report:
    """Measure all parts, or those that were asked for."""
    report = Report(NAME)
    asked = [part.strip() for part in settings.options.get("only", "").split(",") if part.strip()]
    for name, part in _PARTS.items():
        if not asked or name in asked:
            part(settings, report)
    return report


# -- creating ----------------------------------------------------------------------------------------


def _create(settings: Settings, report: Report) -> None:
    from everfresh.bench.parts.make_views import JOINS, made, made_in, tpcds

    for case in JOINS:
        settings.note(f"creating a view: {case.name}")
        found = made(case)
        how = found.refused or ("incremental" if found.incremental else "not incremental")
        report.row(what=f"create: {case.name}", seconds=found.seconds, detail=f"{how}, {found.maps} maps")
        limit = SELF_LIMIT if "of one table" in case.name else JOIN_LIMIT
        report.below(f"create: {case.name}", found.seconds, limit, "s")
        report.truth(f"create: {case.name}, incremental", found.incremental)
    what = "create: the views of TPC-DS"
    if settings.quick:
        report.skip(what, "takes half a minute: not with --quick")
        return
    settings.note("creating the views of TPC-DS")
    try:
        tables, cases = tpcds()
    except EverfreshError as error:
        report.skip(what, error.message)
        return
    created = [found for found in made_in(tables, cases) if not found.refused]
    slowest = max(created, key=lambda found: found.seconds)
    mean = sum(found.seconds for found in created) / len(created)
    few = sum(not found.incremental for found in created)
    detail = f"{len(created)} of {len(cases)}, {few} not incremental, slowest {slowest.name}"
    report.row(what=f"{what}, mean", seconds=mean, detail=detail)
    report.below(f"{what}, mean", mean, CREATE_MEAN, "s")
    report.below(f"{what}, slowest", slowest.seconds, CREATE_LIMIT, "s")


# -- filling -----------------------------------------------------------------------------------------


def _fill(settings: Settings, report: Report) -> None:
    from everfresh.bench.parts.fill_views import tpcds_fills

    what = "fill: the views of TPC-DS"
    if settings.quick:
        report.skip(what, "takes minutes: not with --quick")
        return
    wanted = [int(number) for number in settings.options.get("queries", "").split(",") if number.strip()]
    slow, count, worst = [], 0, 0.0
    try:
        for found in tpcds_fills(settings.sf or 0.1, wanted or None):
            if found.refused:
                continue
            settings.note(f"filled {found.name} in {found.fill:.2f} s, DuckDB {found.duckdb:.3f} s")
            detail = f"DuckDB {found.duckdb:.3f} s, process grew by {found.grown:.0f} MB"
            report.row(what=f"fill: TPC-DS {found.name}", seconds=found.fill, detail=detail)
            count, worst = count + 1, max(worst, found.fill / found.limit)
            if found.fill >= found.limit:
                slow.append(found.name)
    except EverfreshError as error:
        report.skip(what, error.message)
        return
    report.below(f"{what}, the worst of {count} in parts of its limit", worst, 1.0)
    report.truth(f"{what}: none above ten times DuckDB or 2 s {' '.join(slow)}".rstrip(), not slow)


def _groups(settings: Settings, report: Report) -> None:
    from everfresh.bench.parts.fill_views import group_fills

    rows = GROUP_ROWS // 10 if settings.quick else GROUP_ROWS
    settings.note(f"views over one group of {rows:,} rows")
    for name, found in group_fills(rows).items():
        for how in ("after", "before"):
            what = f"{name}, created {how} {rows:,} rows"
            seconds, grown = found[f"{how} seconds"], found[f"{how} MB"]
            detail = f"process grew by {grown:.0f} MB, one row more {found[f'{how} one row'] * 1e3:.1f} ms"
            report.row(what=what, seconds=seconds, detail=detail)
            report.below(what, seconds, GROUP_LIMIT, "s")
            report.below(f"{what}: memory", grown, GROUP_MB, "MB")


# -- wide tables and many views ------------------------------------------------------------------------


def _wide(settings: Settings, report: Report) -> None:
    from everfresh.bench.parts.many_views import wide

    settings.note("a table of 1,000 columns under 60 views")
    for name, seconds in wide().items():
        what = f"1,000 columns, 60 views: {name}"
        report.row(what=what, seconds=seconds)
        if name in WIDE_LIMITS:
            report.below(what, seconds, WIDE_LIMITS[name], "s")


def _many(settings: Settings, report: Report) -> None:
    from everfresh.bench.parts.many_views import many

    views = 100 if settings.quick else 1_000
    settings.note(f"{views:,} views over one table")
    found = many(views)
    came = f"; compiled after {found['rows until compiled']:,.0f} rows"
    for name in ("create", "one row, interpreted", "one row", "10,000 rows"):
        what = f"{views:,} views: {name}"
        report.row(what=what, seconds=found[name], detail=f"{found['MB']:.2f} MB per view{came}")
        if name in MANY_LIMITS:
            report.below(what, found[name], MANY_LIMITS[name], "s")


# -- the first minutes -----------------------------------------------------------------------------------


def _first(settings: Settings, report: Report) -> None:
    from everfresh.bench.parts.first_minutes import measure

    settings.note("the first minutes, with empty caches")
    spark = not settings.quick and has_java()
    found = measure(spark=spark)
    report.row(what="first: import to end of first batch, local", seconds=found.first_batch)
    report.row(what="first: second batch, local", seconds=found.second_batch)
    report.below("first: import to end of first batch, local", found.first_batch, FIRST_LIMIT, "s")
    detail = f"interpreter's longest {found.interpreter_longest * 1e3:.1f} ms"
    report.row(what="first: longest batch while compiling", seconds=found.longest, detail=detail)
    report.below("first: longest batch, in the interpreter's longest", found.ratio, LONGEST_LIMIT)
    if found.demo_first_batch is None:
        report.skip("first: the demo on Spark", "not with --quick, or there is no Java here")
        return
    what = "first: demo on Spark, session up to first batch"
    report.row(what=what, seconds=found.demo_first_batch, detail=f"views {found.demo_views:.1f} s")
    report.below(what, found.demo_first_batch, DEMO_LIMIT, "s")


_PARTS = {
    "create": _create,
    "fill": _fill,
    "groups": _groups,
    "wide": _wide,
    "many": _many,
    "first": _first,
}
