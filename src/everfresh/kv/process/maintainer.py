"""A view manager as a process: keeps its share of a store's view groups fresh, until it is told to stop.

It has the coordinator and the manager of each of its groups, the same generators as everywhere; the store
fences it if another has taken a group over. Invariant: it can be killed at any moment, and whoever takes over
goes on from what is committed.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any
from zlib import crc32

from everfresh.errors import Code, EverfreshError
from everfresh.kv.definitions import VIEWS, Definition
from everfresh.kv.process import points
from everfresh.kv.process.remote import RemoteStore
from everfresh.kv.protocol.calls import Collect, Fence, Prepare, Put, Resolve
from everfresh.kv.views import Views

PAUSE = 0.02
REBUILD_EVERY = 5.0
_POINTS = {Fence: "fence", Prepare: "prepare", Put: "head", Resolve: "resolve", Collect: "collect"}


class _Mortal(RemoteStore):
    """A store whose caller comes to a named point."""

    def __init__(self, path: str, at: points.Point) -> None:
        super().__init__(path)
        self._at = at

    def perform(self, call: Any) -> Any:
        """A protocol call."""
        return self._at.around(_POINTS.get(type(call), ""), lambda: super(_Mortal, self).perform(call))


def maintain(path: str, share: int, shares: int, stop: threading.Event) -> None:
    """Refresh the groups that belong to this share."""
    at = points.point(points.MANAGER)
    store = RemoteStore(path) if at is None else _Mortal(path, at)
    views = None
    seen: Any = None
    while not stop.is_set():
        now = _made(store)
        if views is None or now != seen:
            seen = now
            views = Views(
                store,
                only=lambda group: crc32(group.encode()) % shares == share,
                rebuild_every=REBUILD_EVERY,
            )
        began = time.monotonic()
        views.refresh()
        stop.wait(max(0.0, PAUSE - (time.monotonic() - began)))
    store.close()


def _made(store: RemoteStore) -> list[tuple[bytes, int]]:
    """What views there are: a new generation of one does not count."""
    if VIEWS.name not in store.tables():
        return []
    rows = [pair for batch in store.scan(VIEWS.name) for pair in batch]
    return [(key, 0 if "@" in Definition.from_bytes(row.value).group else row.version) for key, row in rows]


def main(arguments: list[str]) -> int:
    """`python -m everfresh.kv.process.maintainer SOCKET SHARE SHARES`."""
    path, share, shares = arguments[0], int(arguments[1]), int(arguments[2])
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    try:
        maintain(path, share, shares, stop)
    except EverfreshError as error:
        if error.code == Code.CLOSED:
            return 0  # the owner is gone
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
