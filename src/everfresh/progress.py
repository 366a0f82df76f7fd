"""A line on the terminal for what takes longer than two seconds.

It is written to standard error, and only if that is a terminal: nothing of it is left when the work is done,
and a log or a notebook has none of it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many rows (or how much work) are done, and how many there are."""

PATIENCE, PAUSE = 2.0, 0.2
"""Seconds before the line is there, and between two of its states."""
_CLEAR = "\r\x1b[K"


class _Line:
    """What is being done, and how much of it is."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._next = clock() + PATIENCE
        self._shown = False

    def __call__(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if now >= self._next:
            self._next = now + PAUSE
            self.say(f"{what}: {100 * done // max(total, 1)}%")

    def say(self, text: str) -> None:
        """Show a text."""
        self._shown = True
        self._stream.write(_CLEAR + text)
        self._stream.flush()

    def clear(self) -> None:
        """Take the line away, if it is there."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()


@contextmanager
def shown(
    told: Progress | None, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Progress | None]:
    """What is told of the progress of some work: `told`, if there is one, else a line on the terminal."""
    stream = stream or sys.stderr
    if told is not None or stream is None or not stream.isatty():
        yield told
        return
    line = _Line(stream, clock)
    try:
        yield line
    finally:
        line.clear()


@contextmanager
def patience(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Within it `what` goes on, of which nobody knows how much is done: after a while that is said.

    >>> with patience("counting"):
    ...     sum(range(10))
    45
    """
    with shown(None, stream) as line:
        if not isinstance(line, _Line):
            yield
            return
        timer = threading.Timer(PATIENCE, line.say, (f"{what} ...",))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # whatever it says is there before the line is cleared
