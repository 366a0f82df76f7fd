"""A view group that managers in several processes keep together: this process's part of it.

Each member has a manager of the group, and the one that the ring gives the group to has its coordinator, too;
these are the generators that one process drives alone for other groups. Invariant: `run` never waits for
another process, and whatever a member that is gone has left undone is done again in a new term.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from everfresh.kv.process.mail import Post
from everfresh.kv.protocol.calls import Idle, Receive
from everfresh.kv.protocol.coordinator import How, coordinate
from everfresh.kv.protocol.dataflow import Dataflow
from everfresh.kv.protocol.manager import manage
from everfresh.kv.runtime.group import Group
from everfresh.kv.store import Store

PATIENCE = 5.0
"""After so many seconds without an answer from a member a new term begins."""
AGAIN = 0.05
"""Before a new term begins others have so many seconds to hear of what was changed."""


class SpreadGroup(Group):
    """A member's part of a group."""

    def __init__(
        self,
        store: Store,
        name: str,
        flow: Dataflow,
        how: How,
        members: Sequence[str],
        post: Post,
        *,
        leads: bool,
    ) -> None:
        self._post, self._leads = post, leads
        self._heard = self._ended = 0.0
        self.settled = False
        super().__init__(store, name, flow, how, members)

    @property
    def _coordinator(self) -> str:
        return f"coordinator {self._post.me}"

    def _begin(self) -> None:
        self._mail = {name: deque() for name in (self._coordinator, self._post.me)}
        self._machines.clear()
        me = self._post.me
        self._go_on(me, manage(me, self.name, self.managers, self.flow), None)
        if self._leads:
            self._lead()

    def _lead(self) -> None:
        """A coordinator, and with it a new term."""
        self.settled, self._heard = False, time.monotonic()
        self._mail[self._coordinator].clear()
        machine = coordinate(
            self._coordinator,
            self.name,
            self.managers,
            self.flow.tables,
            version=self.flow.version,
            how=self.how,
            identity=self.flow.identity,
        )
        self._go_on(self._coordinator, machine, None)

    def run(self) -> None:
        """Go on as far as that is possible without waiting."""
        if not self._machines:  # after an error
            self._begin()
        came = self._post.came[self.name]
        while came:
            to, message = came.popleft()
            if to in self._mail:
                self._mail[to].append(message)
        if self._leads:
            self._look()
        while any(self._step(name) for name in list(self._machines)):
            pass
        self._post.flush()

    def _look(self) -> None:
        """Let a coordinator that is idle look at the logs; begin again if it has ended or waits in vain."""
        name, now = self._coordinator, time.monotonic()
        machine, wants = self._machines.get(name, (None, None))
        if machine is None:
            self._ended = self._ended or now
            if now - self._ended > AGAIN:
                self._ended = 0.0
                self._lead()
        elif isinstance(wants, Idle):
            self.settled = True
            self._go_on(name, machine, None)
        elif self._mail[name] or not isinstance(wants, Receive):
            self._heard = now
        elif now - self._heard > PATIENCE:
            self._lead()

    def _deliver(self, to: str, message: Any) -> None:
        member = to.removeprefix("coordinator ")
        if member == self._post.me:
            self._mail[to].append(message)
        else:
            self._post.send(member, self.name, to, message)


__all__ = ["SpreadGroup"]
