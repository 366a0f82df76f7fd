"""Exceptions that strike between two instructions: the n-th place of a call where one may come from outside.

Python looks for signals, and for exceptions that another thread sends, where a function begins, where a loop
goes back and where a call has returned. `struck` runs a function and raises at the n-th of these places,
counted in the code of everfresh and in the parts of the standard library that its sections rest on: the same
n strikes at the same place, as far as the function does the same.
"""

from __future__ import annotations

import concurrent
import contextlib
import dis
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_FOLLOWED = (f"{Path(__file__).parents[1]}{os.sep}", contextlib.__file__, *concurrent.__path__)
"""What the paths of modules begin with in which strikes are counted; nothing of what is installed beside."""
_BEGINS = frozenset(code for name, code in dis.opmap.items() if name == "RESUME" or "JUMP_BACKWARD" in name)
_CALLS = frozenset(code for name, code in dis.opmap.items() if name.startswith("CALL"))


class Struck(BaseException):
    """What strikes."""


class Strike:
    """A tracer that raises at the n-th place; 0 only counts them, in `places`. Given some paths, only the
    places of modules whose paths begin with one of them."""

    def __init__(self, at: int, strike: Callable[[], None], within: tuple[str, ...] = _FOLLOWED) -> None:
        self._at, self._strike, self._within = at, strike, within
        self.places = 0
        self._known: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        """A function is called."""
        code = frame.f_code
        followed = self._known.get(code)
        if followed is None:
            name = code.co_filename
            followed = self._known[code] = name.startswith(self._within)
        if not followed or code is _STOP:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return _Frame(self, code.co_code).at

    def place(self) -> None:
        """Another place."""
        self.places += 1
        if self.places == self._at:
            self._strike()


class _Frame:
    """One call of a function that is followed."""

    __slots__ = ("_called", "_code", "_strike")

    def __init__(self, strike: Strike, code: bytes) -> None:
        self._strike, self._code, self._called = strike, code, False

    def at(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            op = self._code[frame.f_lasti]
            if self._called or op in _BEGINS:
                self._called = op in _CALLS
                self._strike.place()
            else:
                self._called = op in _CALLS
        return self.at


def struck(work: Callable[[], Any], at: int = 0, *within: str) -> tuple[bool, int]:
    """Run `work` and raise at its n-th place, or its n-th in some modules; whether it was struck, and how
    many places there were."""

    def strike() -> None:
        raise Struck

    return _traced(work, Strike(at, strike, within or _FOLLOWED))


def signalled(work: Callable[[], Any], at: int) -> bool:
    """Run `work` and send this process SIGINT at its n-th place; whether its handler interrupted it."""
    return _traced(work, Strike(at, lambda: signal.raise_signal(signal.SIGINT)))[0]


def _traced(work: Callable[[], Any], strike: Strike) -> tuple[bool, int]:
    try:
        sys.settrace(strike)
        try:
            work()
        finally:
            sys.settrace(None)
    except (Struck, KeyboardInterrupt):
        return True, strike.places
    return False, strike.places


_STOP = _traced.__code__
