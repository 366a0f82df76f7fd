"""Starts an owner and its managers, starts managers again that died, and ends all of it in order.

Invariant: when `run` returns, no process that it started is alive, and everything that was acknowledged is in
the store.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from everfresh.errors import Code, EverfreshError
from everfresh.kv.process.server import Server
from everfresh.kv.store import open_store
from everfresh.kv.views import Views

RETAIN_EVERY = 0.5
_SWITCH = 0.0002
"""Seconds for which a thread of the owner has the interpreter while others wait: a read waits for no more
than a few of them."""


class Supervisor:
    """The processes of one store."""

    def __init__(
        self, where: str | Path, path: Path, *, managers: int = 1, partitions: int = 1, log_entries: int = 0,
        sync: bool = False,
    ) -> None:  # fmt: skip
        if managers < 0 or partitions < 1 or log_entries < 0:
            raise EverfreshError(
                Code.ARGUMENT, "managers and log entries are 0 or more, partitions 1 or more"
            )
        self.store = open_store(str(where), partitions=partitions, sync=sync)
        try:
            Views(self.store, only=lambda group: False)  # makes the tables of heads and definitions
            self.server = Server(self.store, path, log_entries=log_entries)
        except BaseException:
            self.store.close()
            raise
        self._path, self._count = path, managers
        self._managers: list[subprocess.Popen[bytes]] = []
        self._stop = threading.Event()

    def run(self, ready: Callable[[list[int]], None] = lambda pids: None) -> None:
        """Serve until `stop`."""
        sys.setswitchinterval(_SWITCH)
        threading.Thread(target=self.server.serve, daemon=True).start()
        self._managers = [self._start(i) for i in range(self._count)]
        self.server.managers = [m.pid for m in self._managers]
        try:
            ready(self.server.managers)
            while not self._stop.wait(RETAIN_EVERY):
                for i, manager in enumerate(self._managers):
                    if manager.poll() is not None:
                        self._managers[i] = self._start(i)
                self.server.managers = [m.pid for m in self._managers]
                self._retain()
        finally:
            self._end()

    def _retain(self) -> None:
        """Trim logs; a store on servers may be without a master for a while."""
        try:
            self.server.retain()
        except EverfreshError as error:
            if error.code != Code.ENVIRONMENT:
                raise
            print(error, file=sys.stderr)

    def _start(self, share: int) -> subprocess.Popen[bytes]:
        module = "everfresh.kv.process.maintainer"
        how = [sys.executable, "-m", module, str(self._path), str(share), str(self._count)]
        return subprocess.Popen(how, env=os.environ.copy())

    def stop(self) -> None:
        """Let `run` return."""
        self._stop.set()

    def _end(self) -> None:
        for manager in self._managers:
            manager.send_signal(signal.SIGCONT)
            manager.terminate()
        for manager in self._managers:
            try:
                manager.wait(10)
            except subprocess.TimeoutExpired:
                manager.kill()
                manager.wait()
        self.server.close()
        self.store.close()
