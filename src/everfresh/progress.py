"""A line on stderr for what takes longer than one waits without a word."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds before something is said."""


@contextmanager
def patience(what: str) -> Iterator[None]:
    """Within it `what` goes on; if it takes long, that is said once, on stderr.

    >>> with patience("counting"):
    ...     sum(range(10))
    45
    """
    timer = threading.Timer(PATIENCE, _say, (what,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say(what: str) -> None:
    print(f"everfresh: {what} ...", file=sys.stderr, flush=True)
