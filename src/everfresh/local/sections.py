"""Sections: whatever touches the state of an engine, and what is known if one does not come to its end.

A section is marked before it begins, and unmarked when it has come to its end or has refused. A mark that
nobody works under any more is left by an exception that nobody foresaw, raised between any two instructions:
by a handler of signals, by another thread, for want of memory. Then nothing is read, changed or written
before the state has been made anew.

Invariant: the mark is set before the first change and is the last thing that goes; whoever is inside holds a
lock of the interpreter by `with`, which nothing can come between. So "marked, and nobody inside" is exact.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from everfresh.errors import EverfreshError
from everfresh.local.committed import Committed
from everfresh.local.state import LocalState, Shaken
from everfresh.state.interrupts import HeldBack

T = TypeVar("T")


class InSections:
    """An engine whose state is changed by `_change` and read by `_look`."""

    _state: LocalState
    _shown: Committed

    def __init__(self) -> None:
        self._inside = threading.Lock()
        """Held by whoever changes the state."""
        self._marked = False
        """A change has begun, and has neither come to its end nor been undone."""
        self._mending = False
        """The state is being made anew: readers wait."""

    def _anew(self) -> None:
        """Make the state anew, whatever it is like."""
        raise NotImplementedError

    def _forsake(self) -> None:
        """Hold nothing any more for a change that was abandoned in this thread."""

    def _change(self, work: Callable[..., T], *args: Any) -> T:
        """Run what changes the state; signals wait until it can be undone, or is over."""
        try:
            with self._inside:
                if self._marked:
                    self._mend()
                with HeldBack() as held:
                    self._state.held = held
                    self._marked = True
                    try:
                        result = work(*args)
                    except BaseException as error:
                        if isinstance(error, EverfreshError | Shaken) or error is held.raised:
                            self._marked = bool(self._state.at_work)
                        else:
                            self._forsake()
                        raise
                    self._marked = bool(self._state.at_work)
            return result
        except Shaken:  # a reader was interrupted, and what the change had done was undone
            with self._inside:
                self._mend_indexes()
            return self._change(work, *args)

    def _look(self, look: Callable[..., T], *args: Any) -> T:
        """What `look`, a method of `Committed`, finds."""
        while True:
            try:
                return look(self._whole(), *args)
            except Shaken:
                with self._inside:
                    self._mend_indexes()

    def _whole(self) -> Committed:
        """What readers see, made anew if something was abandoned in the middle."""
        if self._marked and (self._mending or not self._inside.locked()):
            with self._inside:
                if self._marked:  # nobody has done it meanwhile
                    self._mend()
        return self._shown

    def _mend(self) -> None:
        """After an exception that nobody foresaw; the caller is inside."""
        self._mending = True
        self._anew()
        self._marked = self._mending = False

    def _mend_indexes(self) -> None:
        """Make anew what a reader that was interrupted may have left half made; the caller is inside."""
        if self._marked:
            self._mend()
        try:
            self._state.check()
        except Shaken:
            self._marked = True  # until it is done
            self._state.mend()
            self._marked = False
