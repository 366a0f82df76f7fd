"""Sets of numbers as intervals with open or closed bounds: what predicates say of one attribute.

A bound is (value, side): side 0 is just before the value, side 1 just after it, so `[a, b]` is from (a, 0) to
(b, 1) and `x < a` ends at (a, 0). Invariant: `lo < hi`; an empty interval is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INF = float("inf")
Bound = tuple[Any, int]


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """All values between two bounds."""

    lo: Bound
    hi: Bound

    def __contains__(self, value: Any) -> bool:
        return self.lo <= (value, 0) and (value, 1) <= self.hi

    def meet(self, other: Interval) -> Interval | None:
        """What both have.

        >>> less(10).meet(between(5, 20)) == Interval((5, 0), (10, 0))
        True
        """
        return _made(max(self.lo, other.lo), min(self.hi, other.hi))

    def without(self, other: Interval) -> list[Interval]:
        """What the other does not have: none, one or two intervals."""
        parts = (_made(self.lo, min(self.hi, other.lo)), _made(max(self.lo, other.hi), self.hi))
        return [part for part in parts if part is not None]


def _made(lo: Bound, hi: Bound) -> Interval | None:
    return Interval(lo, hi) if lo < hi else None


def less(value: Any) -> Interval:
    """`x < value`."""
    return Interval((-INF, 0), (value, 0))


def between(lo: Any, hi: Any) -> Interval:
    """`lo <= x <= hi`."""
    return Interval((lo, 0), (hi, 1))
