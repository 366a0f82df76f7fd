"""Which manager keeps which view group: the ring, a row of the store that the master writes.

Section 4.1.3 of the thesis on key-value views. A group belongs to the member whose hash with it is the
greatest, so that a member that comes or goes moves its own groups only. Safety comes from the groups' terms:
with an old ring a manager works in vain, and nothing worse. Invariant: whoever writes the ring has its newest
term.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from everfresh.kv.store import ABSENT, Store, StoredTable
from everfresh.types import VARCHAR, Column, TableSchema

RING = StoredTable(
    TableSchema("_ef_ring", (Column("name", VARCHAR), Column("ring", VARCHAR)), ("name",)), logged=False
)
_KEY = b"ring"


@dataclass(frozen=True, slots=True)
class Ring:
    """The members, and the term of the master that says so."""

    term: int = 0
    members: tuple[str, ...] = ()

    def owner(self, group: str) -> str | None:
        """The member that keeps a group.

        >>> ring = Ring(1, ("a", "b", "c"))
        >>> owners = {str(n): ring.owner(str(n)) for n in range(50)}
        >>> less = Ring(2, ("a", "c"))
        >>> all(less.owner(group) == name for group, name in owners.items() if name != "b")
        True
        """
        return max(self.members, key=lambda name: (_hash(f"{name}\\0{group}"), name), default=None)


def _hash(text: str) -> int:
    """A hash whose bits all depend on all of the text."""
    found = crc32(text.encode())
    return (found * 2654435761 ^ found >> 15) & 0xFFFFFFFF


def read_ring(store: Store) -> tuple[Ring, int]:
    """The ring and its version, of a store that has the table."""
    row = store.get(RING.name, _KEY)
    if row is None:
        return Ring(), ABSENT
    data = json.loads(row.value)
    return Ring(data["term"], tuple(data["members"])), row.version


def write_ring(store: Store, ring: Ring, expect: int) -> int:
    """Write the ring if it is as it was read; its version. Raises `Conflict`."""
    value = json.dumps({"term": ring.term, "members": list(ring.members)}).encode()
    return store.put(RING.name, _KEY, value, expect=expect)


def members_now(beats: dict[str, float], before: Sequence[str], patience: float) -> tuple[str, ...]:
    """Who is heard of; if that is nobody, those before.

    >>> members_now({"a": 0.1, "b": 9.0}, ["a", "b"], 2.0), members_now({}, ["a"], 2.0)
    (('a',), ('a',))
    """
    alive = tuple(sorted(name for name, age in beats.items() if age < patience))
    return alive or tuple(before)
