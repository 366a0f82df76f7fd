"""Following an object: an iterator over its changes, epoch by epoch, that waits for the next one.

It asks for what has changed since the last epoch it saw, so nothing is queued: what it holds is what the
history of the database holds, and whoever applies batches never waits for it. One that falls behind further
than the history reaches gets the error `history`. Invariant: each epoch that changed the object is handed out
once, whole and in order, and `epoch` is the last one: what follows from there with `since=epoch` misses
nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.bags import EPOCH
from everfresh.errors import Code, EverfreshError

LOOK = 0.5
"""Seconds after which a follower looks by itself: another process may have committed."""


class Bell:
    """Rings when something was committed. It may ring for nothing, and a ring that is lost is made up for by
    looking."""

    def __init__(self) -> None:
        self._waiting: set[Callable[[], Any]] = set()

    def ring(self) -> None:
        """Wake whoever waits."""
        for wake in list(self._waiting):
            wake()

    def attach(self, wake: Callable[[], Any]) -> None:
        """Call `wake` from now on."""
        self._waiting.add(wake)

    def detach(self, wake: Callable[[], Any]) -> None:
        """Call it no more."""
        self._waiting.discard(wake)


class Follower:
    """The changes of an object, one Arrow table for each epoch that changes it, with `_weight` and `_epoch`.

    Iterate over it in a thread, with `for`, or in a coroutine, with `async for`; `close()`, from anywhere,
    ends both, and so does closing the database.
    """

    def __init__(
        self,
        changes: Callable[[int], pa.Table],
        now: Callable[[], int],
        bell: Bell,
        since: int | None,
    ) -> None:
        self._changes, self._now, self._bell = changes, now, bell
        self.epoch = now() if since is None else since
        """The epoch of the last change that was handed out, or that it began behind."""
        self._seen = self.epoch
        self._ready: deque[tuple[int, pa.Table]] = deque()
        self._closed = False
        self._lock = threading.Lock()
        self._ring = threading.Event()
        self._wake = self._ring.set
        self._look()
        bell.attach(self._wake)

    # -- life --------------------------------------------------------------------------------------

    def close(self) -> None:
        """End it: whoever waits for a change gets none."""
        self._closed = True
        self._bell.detach(self._wake)
        self._bell.ring()
        self._ring.set()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<follower behind epoch {self.epoch}{', closed' if self._closed else ''}>"

    # -- iteration ---------------------------------------------------------------------------------

    def __iter__(self) -> Follower:
        return self

    def __next__(self) -> pa.Table:
        while True:
            self._ring.clear()
            found = self._next()
            if found is not None:
                return found
            if self._closed:
                raise StopIteration
            self._ring.wait(LOOK)

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> pa.Table:
        loop, ring = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(ring.set)

        self._bell.attach(wake)
        try:
            while True:
                ring.clear()
                found = await asyncio.to_thread(self._next)
                if found is not None:
                    return found
                if self._closed:
                    raise StopAsyncIteration
                with suppress(TimeoutError):
                    await asyncio.wait_for(ring.wait(), LOOK)
        finally:
            self._bell.detach(wake)

    def _next(self) -> pa.Table | None:
        """The next change, if it is there."""
        with self._lock:
            if not self._ready and not self._closed:
                self._look()
            if self._closed or not self._ready:
                return None
            self.epoch, found = self._ready.popleft()
            return found

    def _look(self) -> None:
        """Take what has changed since the last look."""
        try:
            now = self._now()
            if now == self._seen:
                return
            found = self._changes(self._seen)
        except EverfreshError as error:
            if error.code == Code.CLOSED:
                self._closed = True
                return
            if error.code == Code.HISTORY and self._seen < self._now():
                raise EverfreshError(
                    error.code,
                    error.message,
                    hint="the follower is too far behind: read the view, and follow it from that epoch; "
                    "options.history says how many epochs are kept",
                ) from None
            raise
        epochs = found.column(EPOCH).to_numpy()
        for epoch in sorted(set(epochs.tolist())):
            self._ready.append((epoch, found.filter(pc.equal(found.column(EPOCH), epoch))))
        self._seen = max(now, int(epochs.max(initial=0)))
