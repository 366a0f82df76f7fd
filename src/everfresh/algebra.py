"""The algebra under every view, as a ladder; each rung says what it buys.

1. **A commutative monoid** (+, 0): changes can be merged in any order, so a batch is one change.
2. **A group** (negation): a deletion is an insertion with weight -1, so one rule maintains both.
3. **A ring** (*): joins distribute over unions, so the delta of a query is again a query.

Multiplicities are vectors over Q^k: a count `n` and k aggregate values, added and multiplied componentwise
(section 2.2.1 of the thesis). `Weight` is such a vector with exact Python numbers (`int`, `Fraction`); `Gmr`
is a finite map from tuples to weights. They define the meaning; the engines hold the same numbers in machine
words, by the `Kind` of each component.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from fractions import Fraction
from typing import Any

Number = int | Fraction
Weight = tuple[Number, ...]
Key = tuple[Any, ...]


class Kind(IntEnum):
    """How an engine holds one component of a map's value."""

    COUNT = 0
    """A count: one 64-bit integer."""
    WIDE = 1
    """An exact sum of integers or decimals: 128 bits."""
    FLOAT = 2
    """A sum of doubles: three doubles, added by an error-free cascade."""


def one(k: int) -> Weight:
    """The unit of multiplication with k values."""
    return (1,) * (k + 1)


def add(a: Weight, b: Weight) -> Weight:
    """Componentwise sum."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def multiply(a: Weight, b: Weight) -> Weight:
    """Componentwise product."""
    return tuple(x * y for x, y in zip(a, b, strict=True))


def negate(a: Weight) -> Weight:
    """The additive inverse."""
    return tuple(-x for x in a)


class Gmr:
    """A generalized multiset relation: tuples with weights, none of them zero in every component.

    >>> r = Gmr([((1, "a"), (1, 10)), ((1, "a"), (1, 5))])
    >>> r.add((1, "a"), (-1, -10))
    >>> dict(r.items())
    {(1, 'a'): (1, 5)}
    """

    __slots__ = ("_entries",)

    def __init__(self, items: Iterable[tuple[Key, Weight]] = ()) -> None:
        self._entries: dict[Key, Weight] = {}
        for key, weight in items:
            self.add(key, weight)

    def add(self, key: Key, weight: Weight) -> None:
        """Add `weight` to the entry of `key`; an entry that becomes all zero is gone."""
        old = self._entries.get(key)
        new = weight if old is None else add(old, weight)
        if any(new):
            self._entries[key] = new
        elif old is not None:
            del self._entries[key]

    def update(self, other: Gmr) -> None:
        """Add all of `other`."""
        for key, weight in other.items():
            self.add(key, weight)

    def get(self, key: Key) -> Weight | None:
        """The weight of `key`, or None if it is zero."""
        return self._entries.get(key)

    def items(self) -> Iterator[tuple[Key, Weight]]:
        """All entries."""
        return iter(self._entries.items())

    def copy(self) -> Gmr:
        """An independent copy."""
        result = Gmr()
        result._entries = dict(self._entries)
        return result

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gmr) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Gmr({self._entries!r})"
