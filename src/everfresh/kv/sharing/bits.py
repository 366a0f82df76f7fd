"""Bit vectors: what the predicates of many views say of one row.

Section 5.1.1 of the thesis on key-value views. A place holds the value of one view's predicate: 1, 0, or None
where it cannot be decided from this side's columns. Invariant: where both sides decide, they agree, as the
three-valued value of one whole predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Bits = tuple[int | None, ...]
Predicate = Callable[[Mapping[str, Any]], bool | None]


def evaluated(predicates: Sequence[Predicate], row: Mapping[str, Any]) -> Bits:
    """The vector of a row.

    >>> p = [lambda r: r["Y"] == 5, lambda r: r["Y"] < 5, lambda r: r["Y"] <= 5]
    >>> evaluated(p, {"Y": 5})  # Example 5.1.2
    (1, 0, 1)
    """
    return tuple(None if (value := p(row)) is None else int(value) for p in predicates)


def merged(a: Bits, b: Bits) -> Bits:
    """The vector of a joined row (5.1.2).

    >>> merged((1, None), (None, 0))  # Example 5.1.6
    (1, 0)
    """
    return tuple(y if x is None else x if y is None else x | y for x, y in zip(a, b, strict=True))


def is_dropped(old: Bits, new: Bits) -> bool:
    """Whether an update concerns no view: neither its old nor its new row does."""
    return not any(bit != 0 for bit in (*old, *new))
