"""Letters between managers, which the owner of the store keeps until they are fetched.

What a letter says is none of the owner's business: it is bytes. The protocol allows that letters come late or
never, so a box that nobody empties is thrown away when it is full. Invariant: letters from one sender to one
receiver come in the order in which they were sent, as far as they come.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.kv.process import wire

FULL = 256 << 20
WAIT = 0.5
BEAT = 0.5


class Boxes:
    """The owner's side."""

    def __init__(self, full: int = FULL) -> None:
        self._full = full
        self._held: dict[str, list[bytes]] = defaultdict(list)
        self._changed = threading.Condition()

    def post(self, to: str, letter: bytes) -> None:
        """Keep a letter for somebody.

        >>> boxes = Boxes(full=5)
        >>> boxes.post("a", b"123"), boxes.post("a", b"456"), boxes.post("a", b"7")
        (None, None, None)
        >>> boxes.fetch("a", 0.0)
        [b'456', b'7']
        """
        with self._changed:
            if sum(map(len, self._held[to])) + len(letter) > self._full:
                self._held[to].clear()
            self._held[to].append(letter)
            self._changed.notify_all()

    def fetch(self, name: str, seconds: float) -> list[bytes]:
        """The letters for somebody, once there are any, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._held[name], seconds)
            return self._held.pop(name, [])


class Post:
    """A manager's side: sends letters, and has those that came for it by group. What waits for letters lets
    the manager be heard of, too, so that one that loads for long is not taken for dead."""

    def __init__(
        self, connect: Callable[[], Any], me: str, metrics: Callable[[], dict[str, dict[str, int]]]
    ) -> None:
        """Two connections to the owner: one waits."""
        self.me, self.arrived, self._metrics = me, threading.Event(), metrics
        self.came: dict[str, deque[tuple[str, Any]]] = defaultdict(lambda: deque(maxlen=1 << 20))
        """For each group, to whom and what."""
        self._out, self._in = connect(), connect()
        self._letters: dict[str, list[Any]] = defaultdict(list)
        self._closed = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def send(self, member: str, group: str, to: str, message: Any) -> None:
        """Have a message sent with the next `flush`."""
        self._letters[member].append((group, to, message))

    def flush(self) -> None:
        """Send what there is to send."""
        for member, messages in self._letters.items():
            self._out.ask("post", member, wire.pack(messages))
        self._letters.clear()

    def _listen(self) -> None:
        heard = 0.0
        try:
            while not self._closed:
                now = time.monotonic()
                if now - heard > BEAT:
                    self._in.ask("beat", self.me, self._metrics())
                    heard = now
                for letter in self._in.ask("fetch", self.me, WAIT):
                    for group, to, message in wire.unpack(letter):
                        self.came[group].append((to, message))
                    self.arrived.set()
        except EverfreshError as error:  # the owner is gone: whoever asks it next hears of it
            if error.code != Code.CLOSED:
                raise

    def close(self) -> None:
        """Hear of nobody any more."""
        self._closed = True
        self._thread.join(2 * WAIT)
        self._out.close()
        self._in.close()


__all__ = ["Boxes", "Post"]
