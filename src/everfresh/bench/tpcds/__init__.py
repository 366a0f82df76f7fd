"""The 99 queries of TPC-DS as views: made, filled and refreshed by batches of the facts.

A view is made over tables that have rows, and given batches of the fact tables that it reads; DuckDB (on one
thread) answers its query over the same rows, and says whether the view is right. On Spark, batches are files,
and Spark SQL answers the query over files, too. `together` has all views in one database and changes all fact
tables at once.
"""

from __future__ import annotations

from everfresh.bench import Report, Settings
from everfresh.bench.tpcds.plan import OPTIONS, plan_of
from everfresh.errors import Code, EverfreshError

__all__ = ["DESCRIPTION", "NAME", "OPTIONS", "run"]

NAME = "tpcds"
DESCRIPTION = "the 99 queries of TPC-DS as views: batches of all fact tables, against DuckDB and Spark SQL"


def run(settings: Settings) -> Report:
    """Measure."""
    plan, report = plan_of(settings), Report(NAME)
    try:
        from everfresh.bench.tpcds.data import Data

        data = Data(plan.sf)
    except EverfreshError as error:
        if error.code != Code.ENVIRONMENT:
            raise
        report.skip("TPC-DS", str(error))
        return report
    if "local" in plan.engines:
        from everfresh.bench.tpcds import local

        local.measure(report, settings, plan, data)
    if "spark" in plan.engines:
        from everfresh.bench.tpcds import spark

        spark.measure(report, settings, plan, data)
    return report
