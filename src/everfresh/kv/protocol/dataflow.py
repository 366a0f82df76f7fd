"""What managers compute: changes of records become contributions, which meet by key in worker maps.

Section 4.3.1 of the thesis on key-value views. Round 0 works where the log is read; what it sends is worked
on in round 1, and so on up to the last round, where the keys of the view lie. Invariant: contributions of a
change may come in any order within a round, and the maps after the epoch are the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from everfresh.kv.protocol.timeline import Change


class At(NamedTuple):
    """The key of a contribution that is for one manager, by its place among them."""

    worker: int


EVERYONE = At(-1)
"""The key of one that is for all of them."""


class Contribution(NamedTuple):
    """What a change means for a key of the view's maps: sent to the manager that has the key."""

    key: Hashable
    delta: Any


class ViewRow(NamedTuple):
    """A row of a view table as it becomes; None: it goes."""

    table: str
    key: bytes
    value: bytes | None


class Dataflow(Protocol):
    """The computation of a view group."""

    tables: tuple[str, ...]
    """The base tables."""
    version: int
    """Which version of its views' definitions this is, from 1."""
    rounds: int
    """How often contributions are sent: once, or `rounds - 1` times more by `forward`."""

    @property
    def identity(self) -> int:
        """A number that two dataflows have in common only if they are of the same views."""
        ...

    def blank(self, worker: int, workers: int) -> Any:
        """The maps of one of so many workers, empty."""
        ...

    def route(self, changes: Sequence[Change], workers: int) -> list[Contribution]:
        """Round 0, in an order that only depends on the changes."""
        ...

    def forward(self, maps: Any, given: Iterable[Contribution]) -> list[Contribution]:
        """A round between the first and the last: change the maps; what that means for others."""
        ...

    def apply(self, maps: Any, given: Iterable[Contribution]) -> list[ViewRow]:
        """The last round: change the maps; the view rows that have changed."""
        ...

    def is_new(self, row: ViewRow, version: int) -> bool:
        """Whether a row is of a view that was not there in an earlier version (0: none was)."""
        ...


class OneRound:
    """What is the same for all dataflows that send once and whose views never change."""

    rounds = 1
    identity = 0

    def forward(self, maps: Any, given: Iterable[Contribution]) -> list[Contribution]:
        """There is no round between."""
        raise AssertionError("contributions are sent once")
