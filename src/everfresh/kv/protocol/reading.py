"""Consistent reads of views: which state of a split row counts, and when a read has to begin again.

"Atomic updates of many rows" in docs/design/key-value.md, in place of (4.3.12) of the thesis on key-value
views. A point read takes at most one get more than a plain one: that of the head, and only if it finds a
split row. Invariant: what `read_view` gives is the view at the epoch that it names.
"""

from __future__ import annotations

from typing import NamedTuple

from everfresh.kv import split
from everfresh.kv.protocol.calls import Get, Lives, Machine, Scan
from everfresh.kv.protocol.head import HEADS, Head
from everfresh.kv.protocol.messages import ALL, Protections

LIMIT = 1024


class BeingMade(Exception):
    """The view is made of data that were there before it, and not all of them are in it yet."""


class Seen(NamedTuple):
    """A row as it is at an epoch; the head that says so, if it had to be asked."""

    value: bytes | None
    epoch: int
    head: Head | None


def read_row(group: str, table: str, key: bytes, *, ask: bool = False) -> Machine:
    """One row, as `Seen`; with `ask` the head is asked in any case."""
    row = yield Get(table, key)
    states = split.unpack(None if row is None else row.value)
    if len(states) == 1 and not ask:
        return Seen(*states[0][::-1], None)
    head = yield from read_head(group)
    if head.loading:
        raise BeingMade
    yield from _same_lives(head)
    visible = [s for s in states if s.epoch <= head.committed]
    if states and not visible:  # a row and a head of two views of one name, the one made after the other
        raise split.MovedOn
    return Seen(visible[-1].value if visible else None, head.committed, head)


def _same_lives(head: Head) -> Machine:
    """Raises `BeingMade` if a partition may have lost writes since the head's epoch."""
    if head.lives:
        lives = yield Lives()
        if any(lives.get(partition) != life for partition, life in head.lives.items()):
            raise BeingMade


def read_head(group: str) -> Machine:
    """The head of a group."""
    row = yield Get(HEADS.name, group.encode())
    return Head() if row is None else Head.from_bytes(row.value)


def read_view(
    group: str,
    table: str,
    lo: bytes = b"",
    hi: bytes | None = None,
    limit: int = LIMIT,
    protect: Protections = ALL,
) -> Machine:
    """The rows of a view from `lo` to before `hi`, and their epoch: `(list[(key, value)], epoch)`."""
    while True:
        head = yield from read_head(group)
        if head.loading:
            raise BeingMade
        try:
            rows = yield from _scan(group, table, lo, hi, limit, head, protect)
        except split.MovedOn:
            yield from _same_lives(head)  # or the head is an earlier one, and the row never comes
            continue
        yield from _same_lives(head)
        if protect.gc_floor:
            after = yield from read_head(group)
            if after.gc_floor > head.committed:
                continue  # what looks like no row may have been a tombstone
        return rows, head.committed


def _scan(
    group: str, table: str, lo: bytes, hi: bytes | None, limit: int, head: Head, protect: Protections
) -> Machine:
    found: list[tuple[bytes, bytes]] = []
    while True:
        rows = yield Scan(table, lo, limit)
        if not protect.pinned_head:
            head = yield from read_head(group)
        for key, row in rows:
            if hi is not None and key >= hi:
                return found
            states = split.unpack(row.value)
            value = split.visible(states, head.committed)
            if value is not None:
                found.append((key, value))
        if len(rows) < limit:
            return found
        lo = rows[-1][0] + b"\0"
