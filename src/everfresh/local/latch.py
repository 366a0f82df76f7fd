"""Turns between one writer and many readers of the same arrays.

The writer holds the latch while tables and maps change, and gives way where the state can be read: between
two statements of a batch (`breathe`), and while the log is written. A reader holds it while it reads. So a
reader waits for one statement at most, not for the batch.

Invariant: at most one holds it. A writer that waits goes before readers that come later, and lets those that
waited when it breathed read once: neither can keep the other from going on for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Latch:
    """Held with `with latch:` by the writer, with `with latch.reading():` by readers; by each once at a time.

    >>> latch = Latch()
    >>> with latch:
    ...     latch.breathe()
    >>> with latch.reading():
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)
        self._held = False
        self._wanted = 0  # writers that wait
        self._waiting = 0  # readers that wait
        self._served = 0  # readers that have read
        self._breathing = False

    def __enter__(self) -> None:
        with self._lock:
            self._wanted += 1
            try:
                while self._held:
                    self._turn.wait()
            finally:
                self._wanted -= 1
            self._held = True

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._held = False
            if self._waiting or self._wanted or self._breathing:
                self._turn.notify_all()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A reader's turn."""
        with self._turn:
            self._waiting += 1
            try:
                while self._held or self._wanted:
                    self._turn.wait()
            finally:
                self._waiting -= 1
                self._turn.notify_all()
            self._held = True
        try:
            yield
        finally:
            with self._turn:
                self._held = False
                self._served += 1
                self._turn.notify_all()

    def breathe(self) -> None:
        """The writer, who holds it, lets the readers that wait have their turn."""
        if not self._waiting:
            return
        with self._turn:
            until = self._served + self._waiting
            self._held, self._breathing = False, True
            self._turn.notify_all()
            while self._held or (self._waiting and self._served < until):
                self._turn.wait()
            self._held, self._breathing = True, False
