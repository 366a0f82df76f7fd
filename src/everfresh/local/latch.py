"""Turns between one writer and many readers of the same arrays.

The writer has the turn while tables and maps change, and gives way where the state can be read: between two
statements of a batch (`breathe`), and while the log is written. A reader has it while it reads. So a reader
waits for one statement at most, not for the batch.

Turns come in the order in which they were asked for: whoever asks waits for the one that asked before. A
writer that breathes asks anew, behind all that wait.

Invariant: at most one has the turn, and a turn ends when its block does, whatever exception ends it and
wherever that strikes. So its end is that of a `with` over a lock of the interpreter, which nothing can come
between; everything else may be left half done, and whoever comes next goes by the chain of those before.
"""

from __future__ import annotations

import threading


class Turn:
    """A place in the queue, held with `with turn.lock:` and taken with `turn.come()` inside."""

    __slots__ = ("_before", "_latch", "lock")

    def __init__(self, latch: Latch) -> None:
        self.lock = threading.RLock()  # it knows who has it
        self._latch = latch
        self._before: Turn | None = None
        """Who has to end first; nobody, if this one has come."""

    def come(self) -> None:
        """Wait until all that asked before have ended."""
        latch = self._latch
        with latch.mutex:
            self._before, latch.tail = latch.tail, self
        before = self._before
        while before is not None:
            with before.lock:
                pass
            before = before._before  # it has given up, and those before it may be at work still
        self._before = None

    def breathe(self) -> None:
        """Let those that wait have their turns, and go on."""
        latch = self._latch
        if latch.tail is self:
            return
        again = Turn(latch)
        with again.lock:
            try:
                self.lock.release()
                again.come()
            finally:
                self._hold()
            again._before = self  # whoever asks after it waits for this one
            with latch.mutex:
                if latch.tail is again:
                    latch.tail = self

    def _hold(self) -> None:
        """Have the lock (again), since the block around will let go of it; what strikes meanwhile comes after
        that."""
        struck: BaseException | None = None
        while True:
            try:
                while not self.lock._is_owned():  # type: ignore[attr-defined]
                    self.lock.acquire()
                break
            except BaseException as error:
                struck = error
        if struck is not None:
            raise struck


class Latch:
    """A queue of turns.

    >>> latch = Latch()
    >>> turn = Turn(latch)
    >>> with turn.lock:
    ...     turn.come()
    ...     turn.breathe()
    """

    __slots__ = ("mutex", "tail")

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.tail: Turn | None = None
        """Who asked last."""
