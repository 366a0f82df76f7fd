"""How far a database had come: what tells epochs that were lost from one that was never acknowledged.

A log that ends early looks the same whether its last record was being written when the process died, or was
acknowledged and is gone: a file deleted, cut short, a bit of its last record changed. `REACHED` names an
epoch that was acknowledged. It is written when a database is closed, and every few seconds while one works:
what comes after it may have been cut short, what comes before it is missed.

Invariant: every epoch up to the one that it names was committed before it was written. Without `durable` the
two may reach the disk in another order, so it counts only until the machine starts again.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Final

from everfresh.errors import Code, EverfreshError
from everfresh.state.files import is_cut_short, open_sealed, seal
from everfresh.state.stores import Store

NAME: Final = "REACHED"
KIND: Final = "reached"
SECONDS: Final = 5.0
"""How often it is written while a database works."""


class Reached:
    """The mark of one database; only its writer writes it."""

    def __init__(self, store: Store, durable: bool, seconds: float = SECONDS) -> None:
        self._store = store
        self._durable = durable
        self._seconds = seconds
        self._due = 0.0
        self.epoch = self._read()
        """An epoch that was acknowledged; 0 if none is known."""

    def _read(self) -> int:
        try:
            data = self._store.read(NAME)
        except FileNotFoundError:
            return 0
        if is_cut_short(data, len(data)):
            return 0  # not on the disk yet when the machine stopped
        hint = "restore the file from a backup of the folder, or remove it: it only tells what is missing"
        head = open_sealed(data, KIND, f"{self._store.root}/{NAME}", hint).header
        return int(head["epoch"]) if head["durable"] or head["boot"] == _boot() else 0

    def check(self, last: int) -> None:
        """Raise if the records end before what was acknowledged."""
        if last < self.epoch:
            lost = (
                f"epoch {self.epoch} was"
                if self.epoch == last + 1
                else (f"epochs {last + 1} to {self.epoch} were")
            )
            raise EverfreshError(
                Code.DAMAGED,
                f"{self._store.root} is damaged: {lost} acknowledged, and the records end with epoch {last}",
                hint="restore the folder from a backup; to go on without what is lost, "
                f"remove its file {NAME}",
            )

    def passed(self, epoch: int) -> None:
        """An epoch was acknowledged: write it down, from time to time."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._seconds
            self.write(epoch)

    def write(self, epoch: int) -> None:
        """Write an epoch down. If that fails, only less will be missed."""
        if epoch > self.epoch:
            head = {"epoch": epoch, "durable": self._durable, "boot": _boot()}
            with contextlib.suppress(OSError, EverfreshError):
                if epoch <= self._read():
                    return  # another writer has come, and got farther
                self._store.replace(NAME, seal(KIND, head, {}), self._durable)
                self.epoch = epoch


def _boot() -> str:
    """What changes when the machine starts again; empty where that is not known."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""
