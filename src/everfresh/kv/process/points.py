"""Named points at which a process of a served store ends itself or stops, for tests of what the others do.

`prepare:3` kills the process before its third call of this kind, `prepare:3:after` after it, `prepare:3:stop`
and `prepare:3:after:stop` stop it there until somebody lets it go on. Invariant: without a point nothing is
counted.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

MANAGER = "EVERFRESH_KV_CRASH"
"""The variable that names the point of processes that maintain views."""
OWNER = "EVERFRESH_KV_CRASH_OWNER"
"""The variable that names the point of the process that owns the store: there the calls are its clients',
too."""


class Point:
    """A point that a process comes to once."""

    def __init__(self, text: str) -> None:
        self.kind, _, rest = text.partition(":")
        count, _, how = rest.partition(":")
        self._left = int(count or 0)
        self._after, self._stops = how.startswith("after"), how.endswith("stop")

    def around(self, kind: str, call: Callable[[], Any]) -> Any:
        """Make a call of a kind, if the process lives so long."""
        here = self._left > 0 and kind == self.kind
        self._left -= here
        hit = here and not self._left
        if hit and not self._after:
            self._end()
        try:
            return call()
        finally:
            if hit and self._after:
                self._end()

    def _end(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP if self._stops else signal.SIGKILL)


def point(variable: str) -> Point | None:
    """The point that the environment names."""
    text = os.environ.get(variable, "")
    return Point(text) if text else None
