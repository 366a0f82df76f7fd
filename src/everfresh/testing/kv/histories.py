"""What a history of base writes and view reads records.

"Levels and the checker" in docs/design/key-value.md. A record has a timeline of versions: index 0 is what it
was at first, None where it is absent. A state of the base is a vector: for each record the index of a
version. Every vector is a valid state, since the store orders per record only; R <= R' componentwise. All
times are of one clock, or of one sequencer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Vector = tuple[int, ...]
State = Hashable
"""A state of a view, in a form that compares."""
ViewOf = Callable[[Sequence[Any]], State]
"""The view of the values that the records have."""


@dataclass(frozen=True, slots=True)
class Timelines:
    """The versions of each record, in order."""

    versions: tuple[tuple[Any, ...], ...]

    @property
    def final(self) -> Vector:
        """The last version of each."""
        return tuple(len(of) - 1 for of in self.versions)

    @property
    def initial(self) -> Vector:
        """The first version of each."""
        return (0,) * len(self.versions)

    def at(self, vector: Vector) -> list[Any]:
        """The values of a state."""
        return [of[i] for of, i in zip(self.versions, vector, strict=True)]


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a view: what it saw, between two moments. `claimed` is the epoch that it says it shows, and
    `session` orders the reads of one client."""

    state: State
    begin: int
    end: int
    session: str = ""
    claimed: int | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a history is not consistent: the level that fails, the reads that show it, and words."""

    level: str
    why: str
    reads: tuple[Read, ...] = ()
    record: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The timelines of the base, and the reads of a view; `quiescent` if the last read was made when nothing
    was under way any more."""

    timelines: Timelines
    reads: tuple[Read, ...]
    quiescent: bool = True


@dataclass(frozen=True, slots=True)
class Commit:
    """An epoch that was committed: how many entries of each log it includes."""

    epoch: int
    offsets: Mapping[int, int] = field(default_factory=dict)


def in_order(states: Sequence[State]) -> tuple[Read, ...]:
    """The states that a view was in, one after the other, as reads.

    >>> [r.begin for r in in_order(["a", "b"])]
    [1, 3]
    """
    return tuple(Read(state, 2 * i + 1, 2 * i + 2) for i, state in enumerate(states))


def ended_before(a: Read, b: Read) -> bool:
    """Whether a read was over when another began, or came before it in a session."""
    return a.end < b.begin or (a.session != "" and a.session == b.session and a.begin < b.begin)
