"""Signals that never strike where the state is between two epochs.

A handler of signals, Python's own for Ctrl-C or a user's, may raise between any two instructions of the main
thread. While a change runs there, `HeldBack` takes such signals and hands them to their handlers where the
change can be undone (`check`), or after it. A second signal of the same kind does not wait: whoever sends it
wants an end at any price, and what was half done is made anew afterwards.

Exceptions that come by other ways (into other threads, out of memory) are not held back: engines find out
afterwards that a change did not come to its end.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

# The module itself: `signal` looks names up around each of its calls.
_NAMES: Final = ("SIGINT", "SIGTERM", "SIGALRM", "SIGUSR1")  # what people let raise: more would cost more
_SIGNALS: Final = tuple(int(getattr(_signal, name)) for name in _NAMES if hasattr(_signal, name))
_handler_of, _handle, _this_thread = _signal.getsignal, _signal.signal, threading.get_ident
_main = [threading.main_thread().ident]
Handler = Callable[[int, FrameType | None], Any]


class HeldBack:
    """Hold signals back while the block runs. Only the main thread receives them: elsewhere there is nothing
    to do."""

    __slots__ = ("_before", "caught", "raised")

    def __init__(self) -> None:
        self.caught: list[tuple[int, FrameType | None]] = []
        self.raised: BaseException | None = None
        """What a handler raised where `check` called it."""
        self._before: list[tuple[int, Handler]] = []

    def __enter__(self) -> HeldBack:
        if _this_thread() == _main[0]:
            before, note = self._before, self._note
            for number in _SIGNALS:
                handler = _handler_of(number)
                if callable(handler):
                    before.append((number, handler))
                    _handle(number, note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before:
            _handle(number, handler)
        if self.caught:
            self.check()

    def check(self) -> None:
        """Here an exception does no harm: hand over what has come."""
        while self.caught:
            try:
                self._hand_over(*self.caught.pop(0))
            except BaseException as raised:
                self.raised = raised
                raise

    def _note(self, number: int, frame: FrameType | None) -> None:
        if any(caught == number for caught, _ in self.caught):
            self._hand_over(number, frame)
        else:
            self.caught.append((number, frame))

    def _hand_over(self, number: int, frame: FrameType | None) -> None:
        dict(self._before)[number](number, frame)


NOT_HELD: Final = HeldBack()
"""Where nothing is held back."""


def _in_child() -> None:
    _main[0] = threading.main_thread().ident


os.register_at_fork(after_in_child=_in_child)
