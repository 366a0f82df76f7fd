"""What it takes on this cluster to send a cell to another worker, and to join it: measured once.

The way of bytes is that of the jobs themselves: out of a task, through Spark's exchange, into another. One
measurement sends nothing, one some megabytes from each worker to the next; the difference is what they took.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.arrays.execute.calibrate import joining
from everfresh.arrays.upkeep.plans import Costs
from everfresh.spark.jobs.job import DATA, EXCHANGE
from everfresh.spark.jobs.tasks import Batches, emit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIECE = 1 << 20
_LEAST = 1e-12
"""Seconds: nothing is for nothing, whatever a clock says."""


def calibrated(session: SparkSession, workers: int, cell_bytes: float, megabytes: int = 8) -> Costs:
    """The seconds that a cell of so many bytes takes."""
    exchanged(session, workers, 0)  # processes are there
    idle = min(exchanged(session, workers, 0) for _ in range(2))
    busy = min(exchanged(session, workers, megabytes) for _ in range(2))
    per_byte = max(_LEAST, (busy - idle) / (megabytes * _PIECE))
    return Costs(per_byte * cell_bytes, max(_LEAST, joining()))


def exchanged(session: SparkSession, workers: int, pieces: int) -> float:
    """Seconds for each worker to send so many pieces to the next one."""
    started = perf_counter()
    frame = session.range(0, workers, 1, workers).mapInArrow(partial(_send, workers, pieces), EXCHANGE)
    rows = frame.repartitionById(workers, "to").mapInArrow(_count, EXCHANGE).collect()
    assert sum(row["kind"] for row in rows) == workers * pieces
    return perf_counter() - started


def _send(workers: int, pieces: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for worker in batch.column("id").to_pylist():
            to = (int(worker) + 1) % workers
            yield from emit((to, DATA, bytes([k % 256]) * _PIECE) for k in range(pieces))


def _count(batches: Any) -> Iterator[pa.RecordBatch]:
    found = sum(batch.num_rows for batch in batches)
    yield from emit([(0, found, b"")])
