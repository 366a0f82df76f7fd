"""The Spark engine on TPC-H: refreshing views after a batch, against Spark SQL computing their queries anew.

Tables are loaded, then change by 0.1 % and 1 % of every table, inserts alone and with deletes. A row of the
report has the time of a batch, of the recomputation in the same session, their ratio, jobs and stages, and
what was written for exchanges. `data` says what a batch is, `refresh`, `together`, `ablation`, `fixed` and
`apart` what is measured.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from everfresh.bench import Report, Settings
from everfresh.bench.tpch_spark.plan import OPTIONS, Plan, plan_of

if TYPE_CHECKING:
    from everfresh.bench.tpch_spark.refresh import Measured

__all__ = ["DESCRIPTION", "NAME", "OPTIONS", "run"]

NAME = "tpch-spark"
DESCRIPTION = "the Spark engine: TPC-H views refreshed, against Spark SQL recomputing them"

_ONE_SESSION = ("refresh", "together", "fixed")


def run(settings: Settings) -> Report:
    """Measure."""
    plan = plan_of(settings)
    report = Report(NAME)
    if plan.folder is not None:
        Path(plan.folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="everfresh-bench-", dir=plan.folder) as folder:
        data = Path(plan.folder or folder)
        if set(_ONE_SESSION) & set(plan.sections):
            _in_one_session(report, settings, plan, data, Path(folder))
        if "ablation" in plan.sections:
            from everfresh.bench.tpch_spark import ablation

            ablation.measure(report, settings, plan)
        from everfresh.bench.tpch_spark import apart

        if "scaling" in plan.sections:
            apart.scaling(report, settings, plan, data)
        if "memory" in plan.sections:
            apart.memory(report, settings, plan, data)
    return report


def _in_one_session(report: Report, settings: Settings, plan: Plan, data: Path, folder: Path) -> None:
    import everfresh as ef
    from everfresh.bench.timing import seconds
    from everfresh.bench.tpch_spark import fixed, refresh, together
    from everfresh.bench.tpch_spark.data import prepared
    from everfresh.bench.tpch_spark.sessions import options, started

    settings.note(f"writing the files of scale factor {plan.sf:g}")
    files = prepared(data, plan.sf, plan.shares, plan.rounds)
    with (
        started(plan) as session,
        ef.connect(folder / "db", spark=session, options=options(plan)) as db,
    ):
        settings.note("loading the tables")
        took = seconds(lambda: refresh.load(db, files))
        report.row(section="load", query="all tables", sf=plan.sf, ms=1e3 * took)
        known: list[Measured] = []
        if "refresh" in plan.sections:
            known = refresh.measure(report, settings, plan, session, db, files)
        if "fixed" in plan.sections:
            fixed.measure(report, settings, plan, session, db, files)
        if "together" in plan.sections:
            try:
                together.measure(report, settings, plan, session, db, files, known)
            except Exception as error:  # what was measured before is not lost
                report.skip("all views in one database", refresh.first_line(error))
