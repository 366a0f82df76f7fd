"""Real processes of a served store under faults: owner, managers and clients are killed or stopped at named
points while they work; then all is quiet, and the checker judges every read.

Record i of the table is in one group of the view at a time, and its version v counts there as (v + 1) * B**i:
so a read of the view tells which version of each record it shows.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from everfresh.errors import EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.process.remote import RemoteStore
from everfresh.kv.views import Views
from everfresh.testing.kv import decodable
from everfresh.testing.kv.histories import Read, Violation
from everfresh.testing.kv.servers import until

RECORDS, VERSIONS, GROUPS = 5, 60, 3
BASE = VERSIONS + 2
WRITES = RECORDS * (VERSIONS - 1)
PACE = 0.01
"""How long a writer waits after each write, so that faults come while it writes."""
TABLE = "CREATE TABLE records (id BIGINT PRIMARY KEY, g BIGINT, v BIGINT)"
VIEW = "CREATE MATERIALIZED VIEW sums AS SELECT g, SUM(v) AS total, COUNT(*) AS n FROM records GROUP BY g"
FAMILY = VIEW.replace("GROUP BY", "WHERE v >= 0 GROUP BY")
"""The same as a view that may share its program with others."""
_WRITER = """
import sys
from kv_faults import timelines, write
seed, start = int(sys.argv[2]), int(sys.argv[3])
write(sys.argv[1], timelines(seed), start, lambda n: print(n, flush=True))
"""

Versions = list[list["int | None"]]
"""For each record the group that it is in at each version; None: it is not there. Version 0 is that."""


def timelines(seed: int) -> Versions:
    random = Random(seed)
    return [
        [None] + [None if random.random() < 0.15 else random.randrange(GROUPS) for _ in range(VERSIONS - 1)]
        for _ in range(RECORDS)
    ]


def write(path: str, of: Versions, start: int, done: Any) -> None:
    """All versions of all records in turn, from a number on; it connects again when the owner is gone. The
    number of each write is told when it is acknowledged."""
    client: Client | None = None
    for n in range(start, WRITES):
        version, record = n // RECORDS + 1, n % RECORDS
        while True:
            try:
                client = client or Client(RemoteStore(path, timeout=20))
                put(client, record, version, of[record][version])
                break
            except (EverfreshError, ValueError):
                client = None
                time.sleep(0.05)
        done(n)
        time.sleep(PACE)


def put(client: Client, record: int, version: int, group: int | None) -> None:
    if group is None:
        client.delete("records", record)
    else:
        client.put("records", {"id": record, "g": group, "v": (version + 1) * BASE**record})


def decode(of: Versions) -> decodable.Decode:
    """Which versions of each record a state of the view shows."""

    def allowed(state: Any) -> list[list[int]] | None:
        seen: list[tuple[int, int] | None] = [None] * RECORDS
        count = 0
        for group, total, n in state:
            count += n
            for record in range(RECORDS):
                total, digit = divmod(total, BASE)
                if digit and seen[record] is not None:
                    return None  # in two groups
                if digit:
                    seen[record] = group, digit - 1
        if count != sum(found is not None for found in seen):
            return None
        result = []
        for record, found in enumerate(seen):
            if found is None:
                result.append([v for v, group in enumerate(of[record]) if group is None])
            else:
                group, version = found
                result.append([version] if version < VERSIONS and of[record][version] == group else [])
        return result

    return allowed


class Trial:
    """One served store with a writer in a process of its own and a reader; faults are what a test does."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        owner: str = "",
        manager: str = "",
        *,
        options: tuple[str, ...] = (),
        family: bool = False,
    ) -> None:
        """`options` are those of `everfresh kv serve`; with `family` the view is one of a family."""
        self.options, self.family = options, family
        self.folder, self.seed, self.of = folder, seed, timelines(seed)
        self.path = str(Path(mkdtemp()) / "s")
        self._points = {"EVERFRESH_KV_CRASH_OWNER": owner, "EVERFRESH_KV_CRASH": manager}
        self.owner = self._serve(self._points if not owner else {"EVERFRESH_KV_CRASH": manager})
        self._declare()
        if owner:  # its point counts from here on
            self.end_owner()
            self.owner = self._serve(self._points)
        self.acknowledged = -1
        self.reads: list[Read] = []
        self._clock, self._stop = 0, threading.Event()
        self._failed: list[BaseException] = []
        self._reader = threading.Thread(target=self._read)
        self.writer = self._write()
        self._told = threading.Thread(target=self._listen, args=(self.writer,))
        self._told.start()
        self._reader.start()

    # -- processes ---------------------------------------------------------------------------------

    def _serve(self, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        how = [sys.executable, "-m", "everfresh", "kv", "serve", str(self.folder), "--socket", self.path]
        child = subprocess.Popen(
            [*how, "--partitions", "2", *self.options],
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        assert child.stdout is not None
        assert child.stdout.readline()
        return child

    def serve_again(self) -> None:
        """Another owner for the same folder, without points."""
        self.owner.wait(60)
        self.owner = self._serve({})

    def end_owner(self) -> None:
        self.owner.send_signal(signal.SIGCONT)
        self.owner.terminate()
        assert self.owner.wait(60) == 0

    def _write(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", _WRITER, self.path, str(self.seed), str(self.acknowledged + 1)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        )

    def write_again(self) -> None:
        """Another writer goes on where the one was that was killed; its last write may have been done."""
        self.writer.kill()
        self._told.join()
        self.writer.wait()
        self.writer = self._write()
        self._told = threading.Thread(target=self._listen, args=(self.writer,))
        self._told.start()

    def _listen(self, writer: subprocess.Popen[bytes]) -> None:
        assert writer.stdout is not None
        for line in writer.stdout:
            if line.endswith(b"\n"):
                self.acknowledged = int(line)

    def _declare(self) -> None:
        store = RemoteStore(self.path)
        views = Views(store, only=lambda group: False)
        views.create_table(TABLE)
        if self.family:
            views.create_views([FAMILY])
        else:
            views.create_view(VIEW, key=["g"])
        store.close()

    def managers(self) -> list[int]:
        store = RemoteStore(self.path)
        try:
            found: list[int] = store.ask("status")["managers"]
            return found
        finally:
            store.close()

    # -- reads -------------------------------------------------------------------------------------

    def _now(self) -> int:
        self._clock += 1
        return self._clock

    def _read(self) -> None:
        store: RemoteStore | None = None
        while not self._stop.is_set():
            begin = self._now()
            try:
                store = store or RemoteStore(self.path, timeout=2)
                rows = store.read("sums").to_pylist()
            except (EverfreshError, ValueError):
                store = None
                time.sleep(0.02)
                continue
            except BaseException as error:
                self._failed.append(error)
                return
            state = tuple((row["g"], int(row["total"]), row["n"]) for row in rows)
            self.reads.append(Read(state, begin, self._now(), "reader"))
            time.sleep(0.005)

    def until(self, writes: int) -> None:
        """Wait until so many writes are acknowledged, or all."""
        writes = min(writes, WRITES)
        until(lambda: self.acknowledged + 1 >= writes or not self._reader.is_alive(), "writes", 120)

    # -- the end -----------------------------------------------------------------------------------

    def judged(self) -> Violation | None:
        """Let all writes be done and seen, compare the view with its recomputation, and judge the reads."""
        self.until(WRITES)
        self.writer.wait(60)
        store = RemoteStore(self.path)
        views = Views(store, only=lambda group: False)

        def seen() -> bool:
            view = store.ask("status")["views"]["sums"]
            return bool(view["behind"] == 0 and view["epoch"] > 0)

        until(seen, "the view does not come on", 120)
        assert views.verify("sums").num_rows == 0
        before = len(self.reads)
        until(lambda: len(self.reads) > before + 1, "nobody reads")
        self._stop.set()
        self._reader.join()
        assert not self._failed, self._failed
        last = decode(self.of)(self.reads[-1].state)
        for record, versions in enumerate(last or []):
            if VERSIONS - 1 not in versions:
                return Violation("convergence", f"record {record} is {versions}", (self.reads[-1],), record)
        store.close()
        return decodable.violation(self.reads, decode(self.of), RECORDS)

    def close(self) -> None:
        """End every process, whatever has happened."""
        self._stop.set()
        self.writer.kill()
        self._reader.join(30)
        for pid in _children(self.owner.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.owner.send_signal(signal.SIGCONT)
        self.owner.terminate()
        try:
            self.owner.wait(30)
        except subprocess.TimeoutExpired:
            self.owner.kill()
            self.owner.wait()


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        yield from map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
