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

BEYOND = 1 << 20
"""By how much terms and epochs go on when a group is made anew."""

HEADS = StoredTable(
    TableSchema("_ef_heads", (Column("view_group", VARCHAR), Column("head", VARCHAR)), ("view_group",)),
    logged=False,
)


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
    lives: Mapping[int, str] = field(default_factory=dict)
    """The lives of the partitions before the last epoch was prepared, of a store that may lose writes."""

    @property
    def loading(self) -> bool:
        """Whether nothing is to be seen yet: it begins with data that were there, and they are not all in."""
        return self.version == 0 and bool(self.cut.at)

    def taken(self) -> Head:
        """With a new term."""
        return replace(self, term=self.term + 1)

    def begun_again(self, cut: Cut, lives: Mapping[int, str]) -> Head:
        """To be made anew from the base at a cut, since the store has lost what was seen of it. With the head
        itself, terms and epochs may have been lost that others remember: they go on far beyond."""
        epoch = self.committed + BEYOND
        return Head(self.term + BEYOND, epoch, cut, gc_floor=epoch, lives=lives)

    @property
    def again(self) -> bool:
        """Whether it is to be made anew, and nothing of that is shown."""
        return self.loading and self.committed > 0

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
            _numbers(data.get("lives", {})),
        )


def _text(lives: Mapping[int, str]) -> dict[str, str]:
    return {str(partition): life for partition, life in lives.items()}


def _numbers(lives: Mapping[str, str] | None = None) -> dict[int, str]:
    return {int(partition): life for partition, life in (lives or {}).items()}
