"""What a master and a manager have in common as processes: they end when they are told to, or their owner is
gone."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable

from everfresh.errors import Code, EverfreshError


def run(work: Callable[[threading.Event], None]) -> int:
    """Do the work until the event is set; the status to exit with."""
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    try:
        work(stop)
    except EverfreshError as error:
        if error.code == Code.CLOSED:
            return 0  # the owner is gone
        print(error, file=sys.stderr)
        return 1
    return 0
