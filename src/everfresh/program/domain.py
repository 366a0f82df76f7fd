"""What moves with an engine's epochs besides tables: the protocol of a domain, such as matrices.

A domain keeps its own state and knows nothing of epochs and files. The engine asks it to make the steps of a
batch, writes the sections that it gives into the commit record of the epoch, hands them back when the log
is replayed, and keeps its sections in snapshots. Names of sections start with the domain's name and `/`.
Invariant: replaying the sections of some batches leaves the state that these batches left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

Sections = Mapping[str, "Buffer"]


class Domain(Protocol):
    """A kind of object that lives beside tables."""

    name: str

    def attach(self, host: Any) -> None:
        """Learn what an engine with workers offers to work with; called before anything else, if at all."""

    def changing(self, steps: Any) -> AbstractContextManager[Callable[[], Sections]]:
        """Make steps; final if the block succeeds, undone if it raises. Gives what tells the log."""

    def replay(self, sections: Sections) -> None:
        """Make the steps of a commit record again."""

    def to_sections(self) -> Sections:
        """The whole state, for a snapshot."""

    def load(self, sections: Sections) -> None:
        """Take the state that `to_sections` gave; none at all without sections."""


def sections_of(domain: Domain, sections: Mapping[str, Any]) -> dict[str, Any]:
    """The sections that are a domain's own."""
    return {name: data for name, data in sections.items() if name.startswith(f"{domain.name}/")}
