"""What is decided by cost about the maps of a view (section 3.6): one value for each decision.

A decision is kept as text with the statement that made the view, so that it is made the same way whenever the
statement is executed again: the sign of its kind, and what its subject is known by, a digest of a canonical
form (`known_by`) or a number.

>>> str(larger_than(4)), str(Decision(DecisionKind.APART, "1f")), str(Decision(DecisionKind.LEFT_OUT, "a0"))
('>4', '1f', '-a0')
>>> [decision(text).kind.name for text in ("1f", ">4", "+1f", "-a0", "&22")]
['APART', 'LARGER', 'FILTERED', 'LEFT_OUT', 'COUNTED']
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b


class DecisionKind(Enum):
    """What is decided about what; the values are the signs that texts begin with."""

    APART = ""
    """A component is kept as single atoms (`decompose`)."""
    LARGER = ">"
    """All components of more than so many atoms are."""
    FILTERED = "+"
    """A table is kept joined with its filter (`filtered_maps`)."""
    LEFT_OUT = "-"
    """A map is not kept: the rows of its table do as well (`rows_for_maps`)."""
    COUNTED = "&"
    """A map is kept as a component of another (`merged_counts`)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision: its kind, and what its subject is known by."""

    kind: DecisionKind
    subject: str

    def __str__(self) -> str:
        return self.kind.value + self.subject


Decisions = frozenset[Decision]


def decision(text: str) -> Decision:
    """The inverse of `str`."""
    kind = next((k for k in DecisionKind if k.value and text.startswith(k.value)), DecisionKind.APART)
    return Decision(kind, text[len(kind.value) :])


def known_by(text: str) -> str:
    """A short form of what tells the subjects of decisions apart."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def larger_than(atoms: int) -> Decision:
    """The decision that all components of more than so many atoms are kept as single atoms."""
    return Decision(DecisionKind.LARGER, str(atoms))


@lru_cache(maxsize=64)  # asked for each product of a program
def largest(decisions: Decisions) -> float:
    """The most atoms of a component that becomes a map."""
    return min((int(d.subject) for d in decisions if d.kind is DecisionKind.LARGER), default=math.inf)


def any_of(kind: DecisionKind, decisions: Collection[Decision]) -> bool:
    """Whether there are decisions of a kind."""
    return any(d.kind is kind for d in decisions)
