"""The head row of a view group: the one row that says what is committed.

"Epochs" in docs/design/key-value.md. Writing it is the commit point of an epoch: all states that were
prepared become visible at once. It is only written if it is as it was read, by whoever has the newest term.
Invariant: `open` is of epoch `committed + 1`, and its cut does not change until it is committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from everfresh.kv.store import Cut, StoredTable
from everfresh.types import VARCHAR, Column, TableSchema

BEYOND = 1 << 16
"""By how much terms and epochs go on when a group is made anew."""

HEADS = StoredTable(
    TableSchema("_ef_heads", (Column("view_group", VARCHAR), Column("head", VARCHAR)), ("view_group",)),
    logged=False,
)


_BORN = 32
"""Epochs of a group begin with its birth, a number that tells it from one of the same name before it."""


def first_epoch(born: int) -> int:
    """The epoch before the first of a group.

    >>> birth(first_epoch(7) + 3), shown(first_epoch(7) + 3)
    (7, 3)
    """
    return born << _BORN


def birth(epoch: int) -> int:
    """Of which group an epoch is, of those that had its name."""
    return epoch >> _BORN


def shown(epoch: int) -> int:
    """An epoch as it is counted."""
    return epoch & ((1 << _BORN) - 1)


@dataclass(frozen=True, slots=True)
class Open:
    """An epoch that is planned: up to where in the logs."""

    epoch: int
    cut: Cut
    lives: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Head:
    """What is committed, what is under way, by whom, and up to where tombstones may be gone."""

    term: int = 0
    committed: int = 0
    cut: Cut = field(default_factory=Cut)
    open: Open | None = None
    gc_floor: int = 0
    version: int = 0
    """Which version of the definitions is shown: 0 before the first epoch."""
    drops: int = 0
    """How many of the group's views were dropped: whoever remembers another number asks for definitions."""
    lives: Mapping[int, str] = field(default_factory=dict)
    """The lives of the partitions before the last epoch was prepared, of a store that may lose writes."""

    @property
    def loading(self) -> bool:
        """Whether nothing is to be seen yet: it begins with data that were there, and they are not all in."""
        return self.version == 0 and bool(self.cut.at)

    def taken(self) -> Head:
        """With a new term."""
        return replace(self, term=self.term + 1)

    def begun_again(self, cut: Cut, lives: Mapping[int, str], born: int = 0) -> Head:
        """To be made anew from the base at a cut, since the store has lost what was seen of it. With the head
        itself, terms and epochs may have been lost that others remember: they go on far beyond."""
        epoch = max(self.committed, first_epoch(born)) + BEYOND
        return Head(self.term + BEYOND, epoch, cut, gc_floor=epoch, drops=self.drops, lives=lives)

    @property
    def again(self) -> bool:
        """Whether it is to be made anew, and nothing of that is shown."""
        return self.loading and shown(self.committed) > 0

    def planned(self, cut: Cut, lives: Mapping[int, str] | None = None) -> Head:
        """With the next epoch open.

        >>> Head().planned(Cut()).done().committed
        1
        """
        assert self.open is None
        return replace(self, open=Open(self.committed + 1, cut, lives or {}))

    def done(self, version: int = 1) -> Head:
        """With the open epoch committed, in which the views of a version of the definitions are shown."""
        assert self.open is not None
        now = self.open
        return replace(self, committed=now.epoch, cut=now.cut, open=None, version=version, lives=now.lives)

    def to_bytes(self) -> bytes:
        """As the value of its row."""
        data = {
            "term": self.term,
            "committed": self.committed,
            "cut": self.cut.to_json(),
            "open": None
            if self.open is None
            else [self.open.epoch, self.open.cut.to_json(), _text(self.open.lives)],
            "gc_floor": self.gc_floor,
            "version": self.version,
            "drops": self.drops,
            "lives": _text(self.lives),
        }
        return json.dumps(data).encode()

    @staticmethod
    def from_bytes(value: bytes) -> Head:
        """The inverse of `to_bytes`."""
        data = json.loads(value)
        opened = data["open"]
        return Head(
            data["term"],
            data["committed"],
            Cut.from_json(data["cut"]),
            None if opened is None else Open(opened[0], Cut.from_json(opened[1]), _numbers(*opened[2:])),
            data["gc_floor"],
            data["version"],
            data.get("drops", 0),
            _numbers(data.get("lives", {})),
        )


def _text(lives: Mapping[int, str]) -> dict[str, str]:
    return {str(partition): life for partition, life in lives.items()}


def _numbers(lives: Mapping[str, str] | None = None) -> dict[int, str]:
    return {int(partition): life for partition, life in (lives or {}).items()}
