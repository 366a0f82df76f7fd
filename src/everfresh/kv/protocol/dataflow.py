"""What managers compute: changes of records become contributions, which meet by key in worker maps.

Section 4.3.1 of the thesis on key-value views, with two distribution rounds: round 0 works where the log is
read, round 1 where the key of the view lies. Invariant: contributions of a change may come in any order
within an epoch, and the maps after the epoch are the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from everfresh.kv.protocol.timeline import Change


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

    def blank(self) -> Any:
        """The maps of one worker, empty."""
        ...

    def route(self, changes: Sequence[Change]) -> list[Contribution]:
        """Round 0, in an order that only depends on the changes."""
        ...

    def apply(self, maps: Any, given: Iterable[Contribution]) -> list[ViewRow]:
        """Round 1: change the maps; the view rows that have changed."""
        ...

    def is_new(self, row: ViewRow, version: int) -> bool:
        """Whether a row is of a view that was not there in an earlier version (0: none was)."""
        ...
