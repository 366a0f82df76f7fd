"""Split states: a view row that holds its newest committed state and the one that is being prepared.

"Atomic updates of many rows" in docs/design/key-value.md, after section 4.3.3 of the thesis on key-value
views. `fmt | n | epoch1 | state1 [| epoch2 | state2]`, the older first; a state may be absence. What is
visible is decided by the head of the row's view group, which names the last committed epoch. Invariant: of a
row's states all but the newest are committed, and every epoch that a head names finds its state or a newer
one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

FORMAT = 1
_HEAD = struct.Struct(">BB")
_STATE = struct.Struct(">Qi")
_ABSENT = -1


class State(NamedTuple):
    """What a row is since an epoch; None: it is not there."""

    epoch: int
    value: bytes | None


States = tuple[State, ...]


class MovedOn(Exception):
    """The row has no state as old as the epoch that was asked for: read the head again."""


def pack(states: Sequence[State]) -> bytes:
    """States as the bytes of a row.

    >>> unpack(pack([State(3, None), State(4, b"x")]))
    (State(epoch=3, value=None), State(epoch=4, value=b'x'))
    """
    parts = [_HEAD.pack(FORMAT, len(states))]
    for epoch, value in states:
        parts.append(_STATE.pack(epoch, _ABSENT if value is None else len(value)))
        parts.append(value or b"")
    return b"".join(parts)


def unpack(row: bytes | None) -> States:
    """The states of a row, the older first; none of a row that is not there."""
    if row is None:
        return ()
    form, count = _HEAD.unpack_from(row)
    if form != FORMAT:
        raise ValueError(f"a row of format {form}")
    at, states = _HEAD.size, []
    for _ in range(count):
        epoch, size = _STATE.unpack_from(row, at)
        at += _STATE.size
        states.append(State(epoch, None if size == _ABSENT else row[at : at + size]))
        at += max(size, 0)
    return tuple(states)


def prepared(states: States, epoch: int, value: bytes | None) -> States:
    """A row with a new state of `epoch`, whose predecessor is committed: what a dead writer left of the same
    epoch goes, and earlier epochs are folded into the newest.

    >>> prepared((State(3, b"a"), State(5, b"x")), 5, b"y")
    (State(epoch=3, value=b'a'), State(epoch=5, value=b'y'))
    >>> prepared((State(3, b"a"), State(4, b"b")), 5, b"y")
    (State(epoch=4, value=b'b'), State(epoch=5, value=b'y'))
    """
    if states and states[-1].epoch > epoch:
        raise ValueError(f"the row has a state of epoch {states[-1].epoch}, which is after {epoch}")
    older = [s for s in states if s.epoch < epoch]
    return (older[-1] if older else State(0, None), State(epoch, value))


def resolved(states: States, committed: int) -> States:
    """A row with its newest state only, if that is committed."""
    return states[-1:] if states and states[-1].epoch <= committed else states


def visible(states: States, committed: int) -> bytes | None:
    """What a reader sees who has pinned a committed epoch.

    >>> row = (State(3, b"a"), State(5, b"y"))
    >>> visible(row, 4), visible(row, 5), visible((), 5)
    (b'a', b'y', None)
    """
    if not states:
        return None
    found = [s for s in states if s.epoch <= committed]
    if not found:
        raise MovedOn
    return found[-1].value


def whole(states: States) -> bytes | None:
    """What a reader sees who knows of no heads: the older state, committed though perhaps stale."""
    return states[0].value if states else None


def is_tombstone(states: States, committed: int) -> bool:
    """Whether a row is nothing but absence since an epoch up to this."""
    return len(states) == 1 and states[0].value is None and states[0].epoch <= committed
