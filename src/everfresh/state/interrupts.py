"""Ctrl-C that never lands between a commit and the state it made.

Between writing a commit record and moving the state in memory to its epoch, an interrupt would leave the two
apart. `uninterrupted` holds it back for these moments and delivers it right after.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold SIGINT back while the block runs. Only the main thread receives it: elsewhere there is nothing
    to do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[tuple[int, FrameType | None]] = []
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught and callable(before):
            before(*caught[0])
