"""A view manager as a process: keeps its share of a store's view groups fresh, until it is told to stop.

It has the coordinator and the manager of each of its groups, the same generators as everywhere; the store
fences it if another has taken a group over. Invariant: it can be killed at any moment, and whoever takes over
goes on from what is committed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from everfresh.kv.definitions import VIEWS, Definition
from everfresh.kv.process import points
from everfresh.kv.process.mail import Post
from everfresh.kv.process.remote import RemoteStore
from everfresh.kv.process.ring import Ring, read_ring
from everfresh.kv.process.role import run
from everfresh.kv.process.spread import SpreadGroup
from everfresh.kv.protocol.calls import Collect, Fence, Prepare, Put, Resolve
from everfresh.kv.protocol.coordinator import How
from everfresh.kv.runtime.on_engine import MakeEngine
from everfresh.kv.views import Flow, Views

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


def maintain(path: str, name: str, stop: threading.Event, engine: str = "local") -> None:
    """Refresh the groups that the ring gives to this manager, and its part of those that it divides between
    all; let it be heard of."""
    at = points.point(points.MANAGER)
    store = RemoteStore(path) if at is None else _Mortal(path, at)
    views: Views | None = None
    post = Post(lambda: RemoteStore(path), name, lambda: {} if views is None else views.metrics())
    makes = _engines() if engine == "spark" else None
    seen: Any = None
    while not stop.is_set():
        began = time.monotonic()
        ring, _ = read_ring(store)
        now = ring.members, _made(store)
        if name in ring.members and (views is None or now != seen):
            views = Views(
                store,
                only=_given(ring, name),
                rebuild_every=REBUILD_EVERY,
                spread=_spread(store, ring, post),
                engine=makes,
            )
        seen = now
        if views is not None and name in ring.members:
            views.refresh()
        post.arrived.wait(max(0.0, PAUSE - (time.monotonic() - began)))
        post.arrived.clear()
    post.close()
    store.close()


def _engines() -> MakeEngine:
    from everfresh.kv.spark import engines

    return engines()


def _spread(store: RemoteStore, ring: Ring, post: Post) -> Callable[[str, Flow, How], SpreadGroup] | None:
    """What keeps this manager's part of a group, if there are others."""
    if len(ring.members) < 2:
        return None
    return lambda name, flow, how: SpreadGroup(
        store, name, flow, how, ring.members, post, leads=_given(ring, post.me)(name)
    )


def _given(ring: Ring, name: str) -> Callable[[str], bool]:
    """Whether a group is this manager's; all generations of a view are one's."""
    return lambda group: ring.owner(group.split("@")[0]) == name


def _made(store: RemoteStore) -> list[tuple[bytes, int]]:
    """What views there are: a new generation of one does not count."""
    if VIEWS.name not in store.tables():
        return []
    rows = [pair for batch in store.scan(VIEWS.name) for pair in batch]
    return [(key, 0 if "@" in Definition.from_bytes(row.value).group else row.version) for key, row in rows]


def main(arguments: list[str]) -> int:
    """`python -m everfresh.kv.process.maintainer SOCKET NAME ENGINE`."""
    path, who, engine = arguments
    return run(lambda stop: maintain(path, who, stop, engine))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
