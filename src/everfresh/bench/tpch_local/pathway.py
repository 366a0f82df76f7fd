"""Pathway as a peer: three queries of TPC-H in its own terms, in a process and an environment of its own.

It runs the beginning of the stream in one go, with the batches as its times. Only a whole run can be timed:
the figure has the way of the rows into it, and is less the time of a run over a few tuples, its start.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from everfresh.bench import Report, Settings
from everfresh.bench.tpch_local import pathway_child
from everfresh.bench.tpch_local.cells import Cell
from everfresh.bench.tpch_local.events import Events
from everfresh.bench.tpch_local.plan import Plan
from everfresh.workloads import Query

ENVIRONMENT = Path(__file__).parents[4] / ".venvs" / "pathway" / "bin" / "python"
"""The Python of the environment with Pathway, in a checkout."""
HOW = "pathway"
FEW, MOST = 20, 200_000
"""Tuples of the run that shows the time of its start, and of the one that is measured."""
LEAST_SIZE = 100
"""Smaller batches would be a run of minutes."""


def python() -> Path | None:
    """A Python that has Pathway: this one, or that of the checkout's environment."""
    found = importlib.util.find_spec("pathway")
    if found is not None and found.origin is not None:  # a folder of that name has no origin
        return Path(sys.executable)
    return ENVIRONMENT if ENVIRONMENT.exists() else None


def cells(report: Report, settings: Settings, plan: Plan, query: Query, events: Events) -> list[Cell]:
    """The cells of one query, or why there are none."""
    what = f"{query.view}, inserts, {HOW}"
    if query.workload != "tpch" or query.name not in pathway_child.COLUMNS:
        return []
    runs_it = python()
    if runs_it is None:
        report.skip(what, "Pathway is not installed (make .venvs/pathway)")
        return []
    found = []
    for size in plan.sizes:
        if size < LEAST_SIZE and not plan.quick:
            report.skip(f"{what}, batches of {size:,}", f"not measured below batches of {LEAST_SIZE}")
            continue
        settings.note(f"{what}, batches of {size:,}")
        cell = Cell(query.view, "inserts", HOW, size)
        reason = _run(cell, events, runs_it, query.name, plan.patience * max(plan.seconds, 6.0))
        if reason:
            report.skip(f"{what}, batches of {size:,}", reason)
        else:
            found.append(cell)
    return found


def _run(cell: Cell, events: Events, runs_it: Path, name: str, limit: float) -> str:
    """Fill in a cell; returns why that was not possible."""
    count = min(len(events), MOST)
    try:
        start = _seconds(events, runs_it, name, FEW, FEW, limit)
        whole = _seconds(events, runs_it, name, count, cell.size, limit)
    except subprocess.TimeoutExpired:
        return f"it took more than {limit:g} s for {count:,} tuples"
    except subprocess.CalledProcessError as error:
        return str((error.stderr.strip().splitlines() or ["no message"])[-1])
    if whole <= 2 * start:
        return f"{count:,} tuples take no longer than its start"
    cell.seconds = whole - start
    cell.tuples, cell.batches, cell.reached = count, -(-count // cell.size), count / len(events)
    return ""


def _seconds(events: Events, runs_it: Path, name: str, count: int, size: int, limit: float) -> float:
    """The time of a run over the first `count` tuples."""
    with tempfile.TemporaryDirectory(prefix="everfresh-bench-") as folder:
        for table, columns in pathway_child.COLUMNS[name].items():
            mine = np.flatnonzero(events.which[:count] == list(events.tables).index(table))
            rows = events.tables[table].select(columns).take(events.row[mine])
            plain = pa.table({c: _plain(rows[c]) for c in columns})
            pq.write_table(plain.append_column("batch", pa.array(mine // size)), f"{folder}/{table}.parquet")
        # Isolated: beside the script lies this module, which is not the one that it imports.
        done = subprocess.run(
            [str(runs_it), "-I", pathway_child.__file__, name, folder],
            capture_output=True,
            text=True,
            check=True,
            timeout=limit,
        )
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as doubles, dates as days, other integers as int64."""
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32()).cast(pa.int64())
    return column.cast(pa.int64()) if pa.types.is_integer(column.type) else column
