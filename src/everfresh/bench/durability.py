"""What durability and company cost a batch on the local engine: the log, the disk, other writers, readers.

Lineitems of TPC-H in batches of 1,000 rows, all columns, under the views of its queries 1 and 3. The same
batches go to databases in memory, with a log, and with a log that waits for the disk, in turns, so that noise
falls on all alike; what the log and the disk add is the median of the differences, for the log of the
processor's time, which other processes do not lengthen. Then several threads apply batches of
10 rows at once, and one thread reads while another applies batches of 10,000.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from everfresh.bench import Settings
from everfresh.bench.report import Report
from everfresh.bench.timing import median, seconds
from everfresh.local.jit import background

NAME = "durability"
DESCRIPTION = "what the log, the disk, queueing writers and readers cost a batch of the local engine"
OPTIONS = {"folder": "where the databases are kept for the run; a temporary folder unless given"}

ROWS, SMALL, LARGE = 1_000, 10, 10_000
QUERIES = ("q01", "q03")
LOG_SHARE, SYNC_SECONDS = 0.30, 0.001
KINDS = ("in memory", "with a log", "with a log, on the disk")


def run(settings: Settings) -> Report:
    """Measure."""
    report = Report(NAME)
    parent = settings.options.get("folder")
    with tempfile.TemporaryDirectory(prefix="everfresh-bench-", dir=parent) as folder:
        data = _data(settings)
        _measure_log(settings, report, data, Path(folder) / "log")
        _measure_queue(settings, report, data, Path(folder) / "queue")
        _measure_readers(settings, report, data, Path(folder) / "readers")
    return report


def _data(settings: Settings) -> dict[str, pa.Table]:
    from everfresh.datasets import tpch

    read: dict[str, pa.Table] = tpch.read(settings.sf or (0.01 if settings.quick else 0.1))
    return read


def _connect(path: Path | None, durable: bool, data: dict[str, pa.Table]) -> Any:
    import everfresh as ef
    from everfresh.datasets import tpch
    from everfresh.workloads import WORKLOADS

    options = ef.Options(durable=durable, snapshot_bytes=1 << 40, snapshot_epochs=1 << 40)
    db = ef.connect(path, engine="local", options=options)
    for name in ("customer", "orders", "lineitem"):
        db.sql(tpch.TABLES[name])
    db.apply({name: data[name] for name in ("customer", "orders")})
    for query in QUERIES:
        db.sql(WORKLOADS["tpch"].query(query).ddl)
    return db


def _measure_log(settings: Settings, report: Report, data: dict[str, pa.Table], folder: Path) -> None:
    rounds = 30 if settings.quick else 200
    settings.note(f"{rounds} batches of {ROWS:,} rows, in memory, with a log, and on the disk")
    dbs = {
        kind: _connect(folder / str(i) if i else None, kind == KINDS[2], data) for i, kind in enumerate(KINDS)
    }
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    work: dict[str, list[float]] = {kind: [] for kind in KINDS}
    raw: list[float] = []
    warm, size = 10, 0
    log = next((folder / "1" / "log").iterdir())
    with open(folder / "raw", "ab") as file:
        for turn in range(warm + rounds):
            if turn == warm:
                background.join()  # until kernels are compiled
            batch = data["lineitem"].slice(turn * ROWS, ROWS)
            before = log.stat().st_size
            for kind in KINDS if turn % 2 else reversed(KINDS):
                took, used = _both(partial(dbs[kind].apply, lineitem=batch))
                if turn >= warm:
                    times[kind].append(took)
                    work[kind].append(used)
            size = log.stat().st_size - before
            raw.append(seconds(partial(_written, file.fileno(), size)))
    for kind, db in dbs.items():
        db.close()
        report.row(what=f"a batch of {ROWS:,} rows {kind}", seconds=median(times[kind]))
    logged = _added(work[KINDS[0]], work[KINDS[1]])
    synced = _added(times[KINDS[1]], times[KINDS[2]])
    report.row(
        what="the log adds, of the processor's time", seconds=logged, detail=f"{size / 1000:.0f} KB a batch"
    )
    report.row(what="the disk adds", seconds=synced)
    report.row(what="as many bytes written to a plain file, on the disk", seconds=median(raw))
    report.below("log, of a batch in memory", logged / median(work[KINDS[0]]), LOG_SHARE)
    report.below("disk", synced, SYNC_SECONDS, "s")
    again = seconds(lambda: _connect_again(folder / "1"))
    report.row(what=f"opening again, {warm + rounds} batches in the log", seconds=again)


def _both(fn: Callable[[], Any]) -> tuple[float, float]:
    """Wall time and processor time of one call."""
    used = time.process_time()
    took = seconds(fn)
    return took, time.process_time() - used


def _written(fd: int, size: int) -> None:
    os.write(fd, bytes(size))
    os.fsync(fd)


def _added(before: list[float], after: list[float]) -> float:
    return median([b - a for a, b in zip(before, after, strict=True)])


def _connect_again(path: Path) -> None:
    import everfresh as ef

    ef.connect(path, engine="local").close()


def _measure_queue(settings: Settings, report: Report, data: dict[str, pa.Table], folder: Path) -> None:
    count = 200 if settings.quick else 800
    for number, threads in enumerate((1, 4, 16)):
        settings.note(f"{threads} threads, {count} batches of {SMALL} rows")
        with _connect(folder / str(number), True, data) as db:
            groups = _counted(db)
            batches = [data["lineitem"].slice(i * SMALL, SMALL) for i in range(count)]

            def work(me: int, threads: int = threads, db: Any = db, batches: Any = batches) -> None:
                for batch in batches[me::threads]:
                    db.apply(lineitem=batch)

            took = seconds(partial(_in_threads, threads, work))
            report.row(
                what=f"a batch of {SMALL} rows on the disk, {threads} threads at once",
                seconds=took / count,
                detail=f"{count / len(groups):.1f} batches a commit",
            )


def _counted(db: Any) -> list[int]:
    """How many batches each commit has, from now on."""
    groups: list[int] = []
    commit = db._queue._commit

    def counted(group: Any) -> None:
        groups.append(len(group))
        commit(group)

    db._queue._commit = counted
    return groups


def _in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(me,)) for me in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _measure_readers(settings: Settings, report: Report, data: dict[str, pa.Table], folder: Path) -> None:
    settings.note(f"a reader beside batches of {LARGE:,} rows")
    count = min(data["lineitem"].num_rows // LARGE, 40)
    with _connect(None, False, data) as db:
        view = db.view("tpch_q01")
        alone, beside, batches = [], [], []
        db.apply(lineitem=data["lineitem"].slice(0, LARGE))
        alone = [seconds(view.to_arrow) for _ in range(50)]

        def write() -> None:
            for i in range(1, count):
                rows = data["lineitem"].slice(i * LARGE, LARGE)
                batches.append(seconds(partial(db.apply, lineitem=rows)))

        writer = threading.Thread(target=write)
        writer.start()
        while writer.is_alive():
            beside.append(seconds(view.to_arrow))
            time.sleep(0.001)
        writer.join()
    report.row(what="reading query 1, nothing else at work", seconds=median(alone))
    longest = f"the longest {max(beside) * 1000:.1f} ms of {len(beside)}"
    report.row(
        what=f"reading query 1 beside batches of {LARGE:,} rows",
        seconds=median(beside),
        detail=f"{longest}; a batch {median(batches) * 1000:.1f} ms",
    )
