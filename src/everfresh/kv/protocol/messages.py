"""What coordinator and managers tell each other, and the inbox that counts each message once.

"Exactly once" in docs/design/key-value.md, in place of Algorithm 4.1 of the thesis on key-value views. The
id of a message is (term, epoch, round, sender, seq), with seq in the canonical order of the sender's output,
so that a replay sends the same ids. Invariant: what `ready` gives for a round of an epoch are all messages of
all senders, each once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everfresh.kv.protocol.calls import BaseAt, Slice, Tracked
from everfresh.kv.protocol.dataflow import Contribution
from everfresh.kv.store import Cut, LogDiverged


@dataclass(frozen=True, slots=True)
class Protections:
    """What keeps views consistent. All of it is on; simulations turn one off to see that they notice."""

    dedup: bool = True
    recorded_offsets: bool = True
    pinned_head: bool = True
    gc_floor: bool = True
    head_condition: bool = True
    keep_first: bool = True
    token_barrier: bool = True
    chunk_positions: bool = True
    maps_at_epoch: bool = True
    log_ids: bool = True


ALL = Protections()


@dataclass(frozen=True, slots=True)
class Load:
    """Scan the base and follow the logs meanwhile; say how far that came. A restore from there follows."""

    term: int
    coordinator: str
    bases: tuple[BaseAt, ...]
    managers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Of which positions a manager has the base, after a parallel transition."""

    term: int
    manager: str
    reached: Cut


@dataclass(frozen=True, slots=True)
class Restore:
    """Make the maps of what is committed, from the base as it was; nothing is written."""

    term: int
    epoch: int
    coordinator: str
    bases: tuple[BaseAt, ...]
    version: int = 0
    """The version of the definitions that is shown."""
    tracks: bool = False
    """Remember the records: of later changes only the keys are told."""
    managers: tuple[str, ...] = ()
    """Who works in this term: what a manager knows of the others may be of before."""
    identity: int = 0
    """Of which views: a manager that has not heard of a change of them cannot take part."""


@dataclass(frozen=True, slots=True)
class Work:
    """Do an epoch: these slices of the logs."""

    term: int
    epoch: int
    coordinator: str
    slices: tuple[Slice | Tracked, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """A manager has restored its maps, or prepared its rows of an epoch."""

    term: int
    epoch: int
    manager: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """A manager cannot go on with this term: it was refused, a partition was split, or the log has lost what
    was read from it."""

    term: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """An epoch is committed, and tombstones up to `gc_floor` may go."""

    term: int
    epoch: int
    gc_floor: int


@dataclass(frozen=True, slots=True)
class Update:
    """A contribution on its way."""

    term: int
    epoch: int
    sender: str
    seq: int
    contribution: Contribution
    round: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """Said after the last message of a round of an epoch: how many there were for this receiver."""

    term: int
    epoch: int
    sender: str
    count: int
    round: int = 0


class Inbox:
    """What came for a manager, by term, epoch and round."""

    def __init__(self, protect: Protections = ALL) -> None:
        self._senders: tuple[str, ...] = ()
        self._protect = protect
        self._term, self._done = 0, (-1, 0)
        self._updates: dict[tuple[int, int, int], dict[Any, Contribution]] = {}
        self._tokens: dict[tuple[int, int, int], dict[str, int]] = {}

    def begin(self, term: int, senders: tuple[str, ...]) -> None:
        """A new term: what came in earlier ones goes."""
        self._term, self._done, self._senders = term, (-1, 0), senders
        for held in (self._updates, self._tokens):
            for place in [p for p in held if p[0] < term]:
                del held[place]

    def take(self, message: Update | Token) -> None:
        """Keep a message, or drop it: of a zombie, late, or a second time."""
        at = message.epoch, message.round
        if message.term < self._term or (message.term == self._term and at <= self._done):
            return
        place = (message.term, *at)
        if isinstance(message, Token):
            self._tokens.setdefault(place, {})[message.sender] = message.count
            return
        held = self._updates.setdefault(place, {})
        id_: Any = (message.sender, message.seq)
        if not self._protect.dedup:
            id_ = (*id_, len(held))
        elif held.setdefault(id_, message.contribution) != message.contribution:
            raise LogDiverged
        held[id_] = message.contribution

    def ready(self, epoch: int, round_: int = 0) -> list[Contribution] | None:
        """All that came for a round of an epoch of this term, in canonical order, once it is complete; later
        messages of it are dropped."""
        place = (self._term, epoch, round_)
        tokens, updates = self._tokens.get(place, {}), self._updates.get(place, {})
        if len(tokens) < len(self._senders) and (self._protect.token_barrier or not tokens):
            return None
        if self._protect.token_barrier and len({id_[:2] for id_ in updates}) < sum(tokens.values()):
            return None
        self._done = epoch, round_
        self._tokens.pop(place, None)
        return [c for _, c in sorted(self._updates.pop(place, {}).items(), key=lambda item: item[0])]
