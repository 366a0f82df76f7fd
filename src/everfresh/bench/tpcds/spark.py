"""The views of TPC-DS on Spark, one by one: batches as Parquet files, against Spark SQL over such files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import everfresh as ef
from everfresh.bench import Report, Settings
from everfresh.bench.timing import seconds
from everfresh.bench.tpcds.data import FACTS, Data, Mirror, same_rows
from everfresh.bench.tpcds.plan import Plan
from everfresh.bench.tpcds.views import Measured, add
from everfresh.bench.tpch_spark.sessions import recompute, started
from everfresh.datasets import Batch
from everfresh.errors import EverfreshError


def measure(report: Report, settings: Settings, plan: Plan, data: Data) -> None:
    """Measure each view alone."""
    mirror = Mirror(data)
    with (
        tempfile.TemporaryDirectory(prefix="everfresh-bench-") as home,
        started(plan) as session,
        ef.connect(
            Path(home) / "db", engine="spark", spark=session, options=ef.Options(workers=plan.workers)
        ) as db,
    ):
        files = _Files(Path(home) / "files")
        db.sql("; ".join(map(data.ddl, data.columns)))
        paths = {name: files.written(name, data.rows(name)) for name in data.columns}
        db.apply(paths)
        for name, path in paths.items():
            session.read.parquet(path).createOrReplaceTempView(name)
        found = [_view(settings, plan, data, mirror, session, db, files, n) for n in plan.queries]
    mirror.close()
    add(report, plan, "spark", found)


class _Files:
    """Files of rows, as Spark writes them."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        folder.mkdir()

    def written(self, name: str, rows: pa.Table) -> str:
        """Write rows into a new file."""
        self._count += 1
        path = self._folder / f"{name}-{self._count}.parquet"
        pq.write_table(rows, path, store_decimal_as_integer=True)
        return str(path)

    def delta(self, batch: Mapping[str, Batch]) -> dict[str, ef.Delta]:
        """A batch as files."""
        return {
            name: ef.Delta(inserts=self.written(name, b.inserts), deletes=self.written(name, b.deletes))
            for name, b in batch.items()
        }


def _view(
    settings: Settings,
    plan: Plan,
    data: Data,
    mirror: Mirror,
    session: Any,
    db: ef.Database,
    files: _Files,
    number: int,
) -> Measured:
    """Make a view, refresh it, compare it, and compute its query."""
    settings.note(f"Q{number}, spark")
    one, text = Measured(number), data.texts[number]
    try:
        one.made = seconds(partial(db.sql, f"CREATE MATERIALIZED VIEW q{number} AS {text}"))
    except EverfreshError as error:
        one.refused = error.message
        return one
    compiled = db.catalog.views[f"q{number}"].compiled
    one.incremental = not compiled.reevaluated
    facts = [name for name in FACTS if name in compiled.bases]
    for turn in range(1 + plan.rounds):
        batch = data.batch(facts, plan.share_on("spark"))
        took = seconds(partial(db.apply, files.delta(batch))) if batch else 0.0
        mirror.apply(batch)
        if turn:
            one.batches.append(took)
    one.right = same_rows(db.view(f"q{number}").to_arrow(), mirror.answer(mirror.settled(text)))
    one.computed = _computed(plan, session, compiled.plan)
    settings.note(one.said)
    db.sql(f"DROP MATERIALIZED VIEW q{number}")
    return one


def _computed(plan: Plan, session: Any, query: Any) -> list[float]:
    """Seconds that Spark SQL takes for a query over files; the first time, it is compiled."""
    from everfresh.spark.sql.text import plan_sql

    text = plan_sql(query, lambda name: name)
    recompute(session, text)
    return [seconds(partial(recompute, session, text)) for _ in range(plan.rounds)]
