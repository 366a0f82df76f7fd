"""Ctrl-C that never lands between a commit and the state it made.

Between writing a commit record and moving the state in memory to its epoch, an interrupt would leave the two
apart. `uninterrupted` holds it back for these moments and delivers it right after.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import threading
from types import FrameType
from typing import Any, Final

_SIGINT: Final = int(_signal.SIGINT)  # the module itself: `signal` looks names up around each of its calls
_MAIN: Final = threading.main_thread()


class uninterrupted:
    """Hold SIGINT back while the block runs. Only the main thread receives it: elsewhere there is nothing
    to do."""

    __slots__ = ("_before", "_caught")

    def __enter__(self) -> None:
        self._caught: list[tuple[int, FrameType | None]] = []
        self._before: Any = None
        if threading.current_thread() is _MAIN:
            self._before = _signal.getsignal(_SIGINT)
        if self._before is not None:  # none: a handler that is not Python's
            _signal.signal(_SIGINT, lambda number, frame: self._caught.append((number, frame)))

    def __exit__(self, *error: object) -> None:
        if self._before is None:
            return
        _signal.signal(_SIGINT, self._before)
        if self._caught and callable(self._before):
            self._before(*self._caught[0])
