"""What a batch costs whatever is in it: 1,000 rows for a view of one stage, against Spark moving them.

The rows are Arrow on the driver. The other side hands the same rows to tasks that do nothing with them, in
worker processes whose heap is frozen as everfresh freezes it, on a session with everfresh's settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from everfresh.bench import Report, Settings, interleave, median
from everfresh.bench.tpch_spark.data import Files
from everfresh.bench.tpch_spark.plan import Plan
from everfresh.workloads import WORKLOADS

ROWS, _LIMIT = 1_000, 0.8
OURS, THEIRS = "db.apply, Q6", "createDataFrame, mapInArrow, collect"


def measure(report: Report, settings: Settings, plan: Plan, session: Any, db: Any, files: Files) -> None:
    """Both in turns; `db` has its tables, loaded, and is left with as many rows."""
    import everfresh as ef
    from everfresh.spark.session.sessions import own

    settings.note(f"{ROWS:,} rows of Arrow against nothing in mapInArrow")
    query = WORKLOADS["thesis"].query("q06")
    db.sql(query.ddl)
    rounds = 5 if plan.quick else 40
    rows = pq.read_table(files.piece("lineitem", max(plan.shares), 0, "come"))
    rows = rows.slice(0, min(ROWS, rows.num_rows // 2))
    others = pq.read_table(files.piece("lineitem", max(plan.shares), 0, "next")).slice(0, rows.num_rows)
    there = [False]
    ours = own(session)

    def apply() -> None:
        """Insert the rows, and in the next turn delete them."""
        db.apply(lineitem=ef.Delta(deletes=rows) if there[0] else rows)
        there[0] = not there[0]

    def nothing() -> None:
        ours.createDataFrame(others).mapInArrow(_nothing, "n long").collect()

    interleave({OURS: apply, THEIRS: nothing}, 2 + rounds // 5)
    times = interleave({OURS: apply, THEIRS: nothing}, rounds)
    if there[0]:
        apply()
    db.sql(f"DROP VIEW {query.view}")
    for what, some in times.items():
        report.row(
            section="fixed", query=what, rows=rows.num_rows, ms=1e3 * median(some), fastest=1e3 * min(some)
        )
    ratio = median(times[OURS]) / median(times[THEIRS])
    report.row(section="fixed", query="the first over the second", ratio=ratio)
    if plan.counts:
        report.below(f"{ROWS:,} rows of Arrow, over nothing in mapInArrow", ratio, _LIMIT, "times")


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take the rows, and give back how many there were."""
    import gc

    yield pa.RecordBatch.from_arrays([pa.array([sum(batch.num_rows for batch in batches)])], ["n"])
    gc.freeze()
