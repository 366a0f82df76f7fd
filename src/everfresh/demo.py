"""The demo: TPC-H orders stream in, views over them stay fresh, and in the end every view is checked.

It shows, beside the time a batch takes to reach all views, what recomputing each view from the same data
costs in the same session.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from everfresh.datasets import tpch
from everfresh.delta import Delta

if TYPE_CHECKING:
    from everfresh.database import Database

TABLES = ("customer", "orders", "lineitem")

VIEWS = {
    "pricing_summary": (
        "what was sold, by return flag and line status",
        """SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS
        sum_base_price, SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price, AVG(l_quantity) AS
        avg_qty, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order FROM lineitem WHERE l_shipdate <=
        DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus""",
    ),
    "forecast_revenue": (
        "what a discount cut would have earned in 1994",
        """SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
  AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    ),
    "spend_per_customer": (
        "how much each customer has ordered",
        """SELECT o_custkey, SUM(o_totalprice) AS spent, COUNT(*) AS orders, AVG(o_totalprice) AS average
FROM orders GROUP BY o_custkey""",
    ),
    "urgent_open_orders": (
        "the open orders of the highest priority, row by row",
        """SELECT o_orderkey, o_custkey, o_totalprice, o_orderdate FROM orders
WHERE o_orderstatus = 'O' AND o_orderpriority = '1-URGENT'""",
    ),
    "segments": (
        "customers and their balance, by market segment",
        """SELECT c_mktsegment, COUNT(*) AS customers, SUM(c_acctbal) AS balance
FROM customer GROUP BY c_mktsegment""",
    ),
}


class Screen(Protocol):
    """Where the demo shows what it does."""

    def line(self, text: str = "", style: str = "") -> None:
        """One line of text."""

    def heading(self, text: str) -> None:
        """A line that opens a section."""

    def table(self, title: str, columns: Any, rows: Any) -> None:
        """A table."""

    def progress(self) -> AbstractContextManager[Any]:
        """A group of progress bars."""


def run(sf: float, engine: str, display: Screen, batches: int = 12) -> int:
    """Run the demo; returns the exit code: 0 if every view was right in the end."""
    from everfresh.database import connect

    display.heading("everfresh: views that stay fresh")
    display.line(
        f"A view is a query whose answer is kept. {len(VIEWS)} views over TPC-H data (scale factor {sf:g})\n"
        f"follow {batches} batches of inserts and deletes; each batch reaches all views at once, atomically."
    )
    with _step(display, "generating the data"):
        tpch.generate(sf)
    with ExitStack() as stack:
        where = "starting Spark" if engine == "spark" else "opening a database in this process"
        with _step(display, where):
            db = stack.enter_context(connect(engine=engine))
        with _step(display, "creating tables and views"):
            for table in TABLES:
                db.sql(tpch.TABLES[table])
            for name, (_, text) in VIEWS.items():
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="everfresh-demo-"))
        recompute = _spark_recompute(db, Path(scratch)) if engine == "spark" else _local_recompute(db)
        applied, recomputed = _stream(db, sf, batches, display, recompute)
        return _conclude(db, display, applied, recomputed, engine)


@contextmanager
def _step(display: Screen, what: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    display.line(f"  {what}: {time.perf_counter() - started:.1f} s", style="dim")


def _stream(
    db: Database, sf: float, batches: int, display: Screen, recompute: Callable[[], dict[str, float]]
) -> tuple[list[tuple[int, float]], dict[str, list[float]]]:
    """Apply all batches; at some of them also recompute every view. Times of both."""
    applied: list[tuple[int, float]] = []
    recomputed: dict[str, list[float]] = {name: [] for name in VIEWS}
    measured = {batches // 2, batches - 2, batches - 1}
    display.line()
    with display.progress() as progress:
        task = progress.task("batches", batches, unit="rows")
        for number, batch in enumerate(tpch.stream(sf, batches, tables=TABLES)):
            started = time.perf_counter()
            db.apply({t: Delta(inserts=b.inserts, deletes=b.deletes) for t, b in batch.items()})
            spent = time.perf_counter() - started
            rows = sum(b.rows for b in batch.values())
            applied.append((rows, spent))
            if number in measured:
                for name, seconds in recompute().items():
                    recomputed[name].append(seconds)
            task.advance(1, units=rows, note=f"{rows:,} rows in {spent * 1000:.0f} ms")
    return applied, recomputed


def _spark_recompute(db: Database, scratch: Path) -> Callable[[], dict[str, float]]:
    """Every view by Spark SQL over the current rows, written to Parquet first so that scanning them is as
    fast as can be."""

    def recompute() -> dict[str, float]:
        for table in TABLES:
            frame = db.table(table).to_spark()
            path = str(scratch / table)
            frame.write.mode("overwrite").parquet(path)
            frame.sparkSession.read.parquet(path).createOrReplaceTempView(table)
        times = {}
        for name, (_, text) in VIEWS.items():
            started = time.perf_counter()
            frame.sparkSession.sql(text).toArrow()
            times[name] = time.perf_counter() - started
        return times

    return recompute


def _local_recompute(db: Database) -> Callable[[], dict[str, float]]:
    """Every view as an ad hoc query of this process."""

    def recompute() -> dict[str, float]:
        times = {}
        for name, (_, text) in VIEWS.items():
            started = time.perf_counter()
            db.sql(text)
            times[name] = time.perf_counter() - started
        return times

    return recompute


def _conclude(
    db: Database,
    display: Screen,
    applied: list[tuple[int, float]],
    recomputed: dict[str, list[float]],
    engine: str,
) -> int:
    with_ = "Spark SQL" if engine == "spark" else "an ad hoc query"
    wrong, rows = 0, []
    with display.progress() as progress:
        task = progress.task("verifying", len(VIEWS))
        for name, (meaning, _) in VIEWS.items():
            view = db.view(name)
            differences = view.verify().num_rows
            wrong += differences > 0
            rows.append(
                (
                    name,
                    meaning,
                    view.to_arrow().num_rows,
                    f"{_typical(recomputed[name]) * 1000:.0f} ms",
                    "equal" if differences == 0 else f"{differences} rows differ",
                )
            )
            task.advance(1)
    display.line()
    display.table("The views", ["view", "what it says", "rows", f"recomputed by {with_}", "verify()"], rows)
    later = applied[len(applied) // 3 :]  # the first batches also load kernels and start processes
    batch = _typical([spent for _, spent in later])
    again = sum(_typical(times) for times in recomputed.values())
    size = int(median(count for count, _ in later))
    display.line(
        f"A batch of {size:,} rows reached all {len(VIEWS)} views in {batch * 1000:.0f} ms (median);"
        f" recomputing them takes {again * 1000:.0f} ms\n"
        "and grows with the data, while a batch costs what it changes."
    )
    display.line(
        f"Every view equals its recomputation. Epoch {db.epoch}."
        if not wrong
        else f"{wrong} views are wrong.",
        style="bold green" if not wrong else "bold red",
    )
    return 0 if not wrong else 1


def _typical(times: list[float]) -> float:
    return median(times) if times else 0.0
