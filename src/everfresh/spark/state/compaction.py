"""Snapshots of the units, beside the batches.

When the log has grown long enough, every unit that has changed is written to a file, and a manifest names the
files; then the log before goes. A thread of the driver does it, in jobs of their own: a few workers at a
time, so that tasks of batches find cores, and each by a process that has its units, as far as Spark asks one.
Each unit is written as some committed epoch left it; the manifest holds the segments since. A batch waits for
none of it, and a statement that writes a unit anew (ALTER TABLE) only makes the snapshot of that unit
useless.

What was replaced goes after the next commit: until then a DataFrame over the state still finds its files.
Whatever fails here is logged and tried again later. Invariant: at every moment the newest manifest and the
records after it are whole and make the last committed epoch.

What domains keep with the driver (`everfresh.epochs.domain`) is in the manifest, as of its epoch: batches
that concern them wait while that is made.
"""

from __future__ import annotations

import logging
import sys
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everfresh.epochs.snapshots import SnapshotPolicy
from everfresh.options import Options
from everfresh.spark.jobs.driver_unit import packed
from everfresh.spark.jobs.job import DRIVER, Job, Link
from everfresh.spark.jobs.runner import Runner
from everfresh.spark.session.observe import Observer
from everfresh.spark.state.chain import put_snapshot, snapshot_file
from everfresh.spark.state.content import worker_of
from everfresh.spark.state.ledger import Ledger, Mark
from everfresh.state import crash, is_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("everfresh")
_SHARE = 4
"""Of so many workers, one is at work on a snapshot in the background."""
_WAIT = 64
"""The most commits after which a snapshot that failed is tried again."""
_PATIENCE = 60.0


class _Cancelled(Exception):
    """The snapshot was given up on purpose."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A snapshot that has begun: where, the files of the driver's unit, and those that wait to be written."""

    mark: Mark
    driver: dict[str, Link]
    waiting: dict[str, bytes]


class Compaction:
    """The snapshots of one database, one at a time."""

    def __init__(self, session: SparkSession, ledger: Ledger, runner: Runner, options: Options) -> None:
        from pyspark import inheritable_thread_target

        self._ledger = ledger
        self._runner = runner
        self._options = options
        self._observer = Observer(session)
        # With the properties that jobs have now: those of a stream's thread end with the stream.
        self._target = inheritable_thread_target(session)(self._work)
        self._thread: threading.Thread | None = None
        self._policy = SnapshotPolicy(options, _WAIT)

    @property
    def running(self) -> bool:
        """Whether something is under way."""
        return self._thread is not None and self._thread.is_alive()

    def committed(self) -> None:
        """After a commit, in the thread of the batches: begin what has become due. Raises nothing."""
        if self.running:
            return
        ledger = self._ledger
        due = self._policy.due(ledger.timeline)
        try:
            if due and self._options.snapshots == "now":
                self.now()
            elif due or ledger.stale:
                taken = self._begin() if due else None
                self._thread = threading.Thread(
                    target=self._target, args=(taken,), name="everfresh-snapshot", daemon=True
                )
                self._observer.batch()
                self._thread.start()
        except Exception:  # the epoch is committed, and the log serves
            self._failed()

    def now(self) -> None:
        """Take a snapshot and remove what it replaces, in this thread, once none is under way."""
        self.wait()
        self._observer.batch()
        try:
            self._take(self._begin(), range(self._runner.workers))
            self._ledger.collect()
        finally:
            self._ledger.abandon()
        self._policy.succeeded()

    def wait(self) -> None:
        """Until nothing is under way; if this is interrupted, it is given up."""
        if self._thread is None:
            return
        try:
            self._thread.join()
        except BaseException:
            self._observer.cancel()
            self._thread.join(_PATIENCE)
            raise

    def _begin(self) -> Begun:
        """Where a snapshot begins, and the driver's unit there: only the thread of the batches opens it. It
        is written from where it is, which takes no memory, and is on the disk later; what goes over a network
        is copied, and sent later."""
        mark = self._ledger.mark()
        world, bases = self._ledger.to_take((), driver=True)
        links, waiting = {}, {}
        for unit, base in bases.items():
            file = snapshot_file(unit, base.version)
            links[unit] = Link(*base.version, file)
            if is_url(world.root):
                waiting[file] = b"".join(packed(base, world))
            else:
                world.store.replace(f"parts/{file}", packed(base, world), durable=False)
        return Begun(mark, links, waiting)

    def _work(self, begun: Begun | None) -> None:
        """What the thread does: remove what is stale, then take a snapshot if one is due."""
        try:
            if self._ledger.stale:
                self._ledger.collect()
            if begun is not None:
                count = max(1, self._runner.workers // _SHARE)
                self._take(begun, range(self._runner.workers), count)
            self._policy.succeeded()
        except _Cancelled:
            _log.info("a snapshot was given up")
        except Exception:
            self._failed()
        finally:
            self._ledger.abandon()

    def _failed(self) -> None:
        self._ledger.abandon()
        error = sys.exc_info()[1]
        assert error is not None
        self._policy.failed(self._ledger.epoch, error)

    def _take(
        self,
        begun: Begun,
        workers: Sequence[int],
        at_once: int | None = None,
    ) -> None:
        """Write all units that have changed, some workers at once, and name them in a manifest."""
        ledger, taken = self._ledger, dict(begun.driver)
        while begun.waiting:
            put_snapshot(ledger.world(begun.mark.epoch), *begun.waiting.popitem())
        for link in taken.values() if self._options.durable else ():
            ledger.folder.store.settle(f"parts/{link.file}")
        left = [*workers]
        while left:
            world, bases = ledger.to_take(left)
            assert DRIVER not in bases
            changed = {worker_of(unit) for unit in bases}
            left = [worker for worker in left if worker in changed]
            if self._observer.cancelled:
                raise _Cancelled
            if left:
                job = Job(uuid.uuid4().hex, "snapshot", world.left(), bases)
                files = self._runner.snapshot(job, left, min(at_once or len(left), len(left)), self._observer)
                taken.update({unit: Link(*bases[unit].version, file) for unit, file in files.items()})
                written = {worker_of(unit) for unit in files}
                left = [worker for worker in left if worker not in written]
            crash("between-snapshots", self._options.fault, scratch=ledger.folder.scratch)
        ledger.take_manifest(taken, begun.mark)
