"""A parallel transition: a base is scanned, and what is written meanwhile is followed, in turns.

Section 6.3.2 of the thesis on key-value views, with offsets in place of its timestamps and key trees: each
chunk of a scan says at which position of the log it was read. An entry counts if its key was scanned before
it was written; of a key that was not scanned yet the chunk will have it. Invariant: what a partition gives
is its base at the position that is given with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from everfresh.kv.protocol.calls import BaseAt, Follow, Machine, ReadChunk
from everfresh.kv.protocol.timeline import Change
from everfresh.kv.store import Entry, Position

CHUNK = 1024


class _Scanned:
    """The keys of a table that were scanned, and where in the log each chunk was."""

    def __init__(self) -> None:
        self._begins: list[bytes] = []
        self._offsets: list[int] = []
        self.end: bytes | None = b""
        """Keys before this were scanned; None: all."""

    def add(self, lo: bytes, hi: bytes | None, at: Position) -> None:
        self._begins.append(lo)
        self._offsets.append(at.offset)
        self.end = hi

    def counts(self, entry: Entry, protect: bool) -> bool:
        """Whether an entry is to be applied to what was scanned."""
        if self.end is not None and entry.key >= self.end:
            return False
        return not protect or entry.offset > self._offsets[bisect_right(self._begins, entry.key) - 1]


def load(base: BaseAt, size: int = CHUNK, protect: bool = True) -> Machine:
    """The base of a partition as changes from nothing, and the position of its log that it is of. Without
    `protect` an entry counts though its chunk has it already: for simulations of what goes wrong then."""
    position: Position = base.logs[-1][1]
    scanned = {table: _Scanned() for table in base.tables}
    net: Counter[tuple[str, bytes, bytes]] = Counter()

    def follow(entries: Sequence[Entry]) -> Position:
        for entry in entries:
            if entry.table in scanned and scanned[entry.table].counts(entry, protect):
                for value, weight in ((entry.before, -1), (entry.after, 1)):
                    if value is not None:
                        net[entry.table, entry.key, value] += weight
        return entries[-1].position if entries else position

    for table, of in scanned.items():
        while of.end is not None:
            chunk = yield ReadChunk(base.partition, table, of.end, size)
            of.add(chunk.lo, chunk.hi, chunk.position)
            for key, row in chunk.rows:
                net[table, key, row.value] += 1
            position = follow((yield Follow(base.partition, position)))
    changes = []
    for (table, key, value), weight in sorted(net.items()):
        change = Change(table, key, None, value) if weight > 0 else Change(table, key, value, None)
        changes += [change] * abs(weight)
    return changes, position


__all__ = ["load"]
