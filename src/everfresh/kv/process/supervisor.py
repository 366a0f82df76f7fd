"""Starts an owner, a master and managers, starts again those that died, and ends all of it in order.

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
from everfresh.kv.process.ring import RING
from everfresh.kv.process.server import Policy, Server
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
        policy: Policy = "slow", sync: bool = False, engine: str = "local",
    ) -> None:  # fmt: skip
        if managers < 0 or partitions < 1 or log_entries < 0:
            raise EverfreshError(
                Code.ARGUMENT, "managers and log entries are 0 or more, partitions 1 or more"
            )
        self.store = open_store(str(where), partitions=partitions, sync=sync)
        try:
            Views(self.store, only=lambda group: False)  # makes the tables of heads and definitions
            self.store.create_table(RING)
            self.server = Server(self.store, path, log_entries=log_entries, policy=policy)
        except BaseException:
            self.store.close()
            raise
        self._path = path
        self._roles: dict[str, list[str]] = {
            f"m{i}": ["maintainer", f"m{i}", engine] for i in range(managers)
        }
        if managers:
            self._roles["master"] = ["master"]
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._stop = threading.Event()

    def run(self, ready: Callable[[list[int]], None] = lambda pids: None) -> None:
        """Serve until `stop`."""
        sys.setswitchinterval(_SWITCH)
        threading.Thread(target=self.server.serve, daemon=True).start()
        try:
            self._start_all()
            ready(self.server.managers)
            while not self._stop.wait(RETAIN_EVERY):
                self._start_all()
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

    def _start_all(self) -> None:
        """Have a process for every role."""
        for name, role in self._roles.items():
            child = self._children.get(name)
            if child is None or child.poll() is not None:
                module, *arguments = role
                how = [sys.executable, "-m", f"everfresh.kv.process.{module}", str(self._path), *arguments]
                self._children[name] = subprocess.Popen(how, env=os.environ.copy())
        pids = {name: child.pid for name, child in self._children.items()}
        self.server.master = pids.pop("master", None)
        self.server.managers = list(pids.values())

    def stop(self) -> None:
        """Let `run` return."""
        self._stop.set()

    def _end(self) -> None:
        for manager in self._children.values():
            manager.send_signal(signal.SIGCONT)
            manager.terminate()
        for manager in self._children.values():
            try:
                manager.wait(10)
            except subprocess.TimeoutExpired:
                manager.kill()
                manager.wait()
        self.server.close()
        self.store.close()
