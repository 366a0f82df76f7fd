"""A served store under load: point reads beside writers, how stale views are, what the log costs writers.

A store is served by `everfresh kv serve` as a process; the benchmark's process writes at a steady rate and
reads. Staleness is that of the view: how long ago the oldest write was acknowledged that it does not show.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from everfresh.bench.report import Report
from everfresh.bench.timing import interleave, median

RATE = 10_000
_BATCH = 100


@contextmanager
def served(*options: str) -> Iterator[str]:
    """A store that is served; the path of its socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "s")
        how = [sys.executable, "-m", "everfresh", "kv", "serve", f"{folder}/store", "--socket", path]
        child = subprocess.Popen([*how, *options], stdout=subprocess.PIPE, env=os.environ.copy())
        try:
            assert child.stdout is not None
            json.loads(child.stdout.readline())
            yield path
        finally:
            child.terminate()
            child.wait(30)


class Writer:
    """Writes batches at a steady rate, in a thread, and remembers when each was acknowledged."""

    def __init__(self, store: Any, batch: Callable[[], Sequence[Any]], rate: int = RATE) -> None:
        self._store, self._batch, self._rate = store, batch, rate
        self.acknowledged: list[float] = []
        self.upto: list[int] = []
        self.written = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.is_set():
            ops = self._batch()
            last = self._store.write(1, ops)
            self.written += len(ops)
            self.acknowledged.append(time.monotonic())
            self.upto.append(last)
            time.sleep(max(0.0, began + self.written / self._rate - time.monotonic()))

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def staleness(self, seen: int) -> float:
        """How long ago the first write was acknowledged of those after an offset."""
        now, at = time.monotonic(), bisect_right(self.upto, seen)
        return now - self.acknowledged[at] if at < len(self.acknowledged) else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Of so many values the one that a share is not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


# -- reads -----------------------------------------------------------------------------------------------


def reads(report: Report, duration: float) -> None:
    """Point reads of a view through the socket, beside a writer."""
    from everfresh.kv.client import Client
    from everfresh.kv.process.remote import RemoteStore
    from everfresh.kv.store import Op
    from everfresh.kv.views import Views

    with served() as path:
        reader, store, asking = RemoteStore(path), RemoteStore(path), RemoteStore(path)
        views = Views(store, only=lambda group: False)
        views.create_table("CREATE TABLE sales (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)")
        views.create_view(
            "CREATE MATERIALIZED VIEW total AS SELECT shop, SUM(price) AS s FROM sales GROUP BY shop",
            key=["shop"],
        )
        codec, random, count = Client(store)._codec("sales", view=False), Random(1), [0]

        def batch() -> list[Op]:
            count[0] += _BATCH
            rows = [(count[0] - i, random.randrange(100), random.randrange(1000)) for i in range(_BATCH)]
            return [Op("sales", *codec.encode(row)) for row in rows]

        took: list[float] = []
        with Writer(store, batch) as writer:
            _until_shown(asking, ["total"])
            began, first = time.monotonic(), writer.written
            while time.monotonic() - began < duration:
                at = time.perf_counter()
                reader.read_row("total", random.randrange(100))
                took.append(time.perf_counter() - at)
            rate = (writer.written - first) / (time.monotonic() - began)
    p50, p99 = 1000 * percentile(took, 0.5), 1000 * percentile(took, 0.99)
    report.row(
        what="point read through the socket",
        writes_per_s=round(rate),
        reads=len(took),
        p50_ms=round(p50, 3),
        p99_ms=round(p99, 3),
    )
    report.below("point read, median", p50, 0.3, "ms")
    report.below("point read, 99th percentile", p99, 5, "ms")


def _until_shown(store: Any, names: Sequence[str], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while any(store.ask("status")["views"][name]["epoch"] == 0 for name in names):
        if time.monotonic() > end:
            raise RuntimeError(f"not shown after {seconds} s: {store.ask('status')}")
        time.sleep(0.05)


# -- staleness -------------------------------------------------------------------------------------------


def staleness(
    report: Report,
    duration: float,
    sf: float,
    queries: Sequence[tuple[str, str]],
    batches: Sequence[int],
    engine: str = "local",
) -> None:
    """How stale views of TPC-H are while rows of lineitem and orders come, change and go."""
    from everfresh.datasets import tpch

    names = ("customer", "orders", "lineitem")
    tables = tpch.read(sf, names)
    for batch in batches:
        for query, text in queries:
            _stale(report, duration, tables, query, text, batch, engine)


def _stale(
    report: Report, duration: float, tables: dict[str, Any], query: str, text: str, batch: int, engine: str
) -> None:
    from everfresh.datasets.tpch import TABLES
    from everfresh.kv.client import Client
    from everfresh.kv.process.remote import RemoteStore
    from everfresh.kv.store import Op
    from everfresh.kv.views import Views

    with served("--engine", engine) as path:
        store, asking = RemoteStore(path), RemoteStore(path)
        views = Views(store, only=lambda group: False)
        pairs: dict[str, list[tuple[bytes, bytes]]] = {}
        for name, rows in tables.items():
            views.create_table(TABLES[name])
            codec = Client(store)._codec(name, view=False)
            pairs[name] = [codec.encode(row) for row in codec.physical(rows)]
            ops = [Op(name, key, value) for key, value in pairs[name]]
            for at in range(0, len(ops), 1000):
                store.write(1, ops[at : at + 1000])
        strategy = "SCIMB" if batch else "SCI"
        views.create_view(f"CREATE MATERIALIZED VIEW v AS {text}", strategy=strategy, batch=batch)
        _until_shown(asking, ["v"], 600 if engine == "spark" else 120)
        random, gone = Random(5), dict[tuple[str, bytes], bytes]()

        def changes() -> list[Op]:
            """Rows go, and come again as they were or with the values of another."""
            found = []
            for _ in range(_BATCH):
                name = "lineitem" if random.random() < 0.8 else "orders"
                key, value = random.choice(pairs[name])
                back = gone.pop((name, key), None)
                if back is not None:
                    found.append(Op(name, key, back))
                elif random.random() < 0.3:
                    gone[name, key] = value
                    found.append(Op(name, key, None))
                else:
                    found.append(Op(name, key, random.choice(pairs[name])[1]))
            return found

        late: list[float] = []
        with Writer(store, changes) as writer:
            # What is compiled, or warms up, meanwhile is not measured.
            time.sleep(duration if engine == "spark" else min(2.0, duration))
            began, first = time.monotonic(), writer.written
            while time.monotonic() - began < duration:
                seen = asking.ask("status")["views"]["v"]["seen"]["1"]
                late.append(writer.staleness(seen))
                time.sleep(0.01)
            rate = (writer.written - first) / (time.monotonic() - began)
    p50, p99 = percentile(late, 0.5), percentile(late, 0.99)
    report.row(
        what=f"staleness of {query}, {engine}",
        batch=batch or "all",
        writes_per_s=round(rate),
        p50_s=round(p50, 3),
        p99_s=round(p99, 3),
    )
    if not batch:
        most = 2.0 if engine == "spark" else 0.5
        report.below(f"staleness of {query} at 10,000 updates/s, {engine}, 99th percentile", p99, most, "s")


# -- what the log costs ----------------------------------------------------------------------------------


def writers(report: Report, rows: int) -> None:
    """Batches of 1,000 rows without a log, with one, and with before-images too."""
    from everfresh.kv.store import Op, StoredTable, rocks_store
    from everfresh.types import BIGINT, Column, TableSchema

    kinds = {"none": (False, False), "log": (True, False), "log and before-images": (True, True)}
    for how, sync, size, most in (("batches of 1,000", False, 1000, rows), ("one row, sync", True, 1, 400)):
        with tempfile.TemporaryDirectory() as folder:
            store = rocks_store(folder, sync=sync)
            for i, (logged, before) in enumerate(kinds.values()):
                schema = TableSchema(f"t{i}", (Column("k", BIGINT),), ("k",))
                store.create_table(StoredTable(schema, logged=logged, before_images=before))
            random = Random(1)
            keys = [b"%08d" % random.randrange(most) for _ in range(most)]

            def batches(i: int, store: Any = store, keys: Any = keys, size: int = size) -> None:
                for at in range(0, len(keys), size):
                    store.write(1, [Op(f"t{i}", key, b"x" * 60) for key in keys[at : at + size]])

            times = interleave({name: lambda i=i: batches(i) for i, name in enumerate(kinds)}, 7)  # type: ignore[misc]
            store.close()
        took = {name: median(of) for name, of in times.items()}
        for name, s in took.items():
            report.row(what=f"RocksDB, {how}: {name}", us_per_row=round(1e6 * s / most, 2))
        log, images = took["log"] / took["none"], took["log and before-images"] / took["none"]
        if sync:
            report.below("RocksDB with sync, one row: before-images against none", images, 1.4, "times")
        else:
            report.below("RocksDB batches: log against none", log, 1.6, "times")
            report.below("RocksDB batches: before-images against none", images, 3.0, "times")
