"""What users bring: aggregates over windows by their own functions (section 7.3 of the thesis,
"extensible")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everfresh.signals.nodes import Agg, Fn
from everfresh.signals.nodes import PayloadType as TypeNode

Call = Callable[..., Any]


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of numbers: `init`, `accumulate(state, x)`, and `result(state)` if the state is not it.

    With `combine(a, b)` of two states, windows that overlap share their work; so they do with
    `deaccumulate(state, x)`, which takes a sample back, from one multiple of the window to the next: what is
    rounded there is forgotten. Without either each window is computed from its samples. The functions are
    compiled: numbers in, a number out.
    """

    init: float
    accumulate: Call
    combine: Call | None = None
    result: Call | None = None
    name: str = "aggregate"
    deaccumulate: Call | None = None

    def node(self) -> Agg:
        """As part of a query."""
        made = [None if f is None else Fn.of(f) for f in (self.combine, self.result, self.deaccumulate)]
        return Agg(self.name, float(self.init), Fn.of(self.accumulate), *made)


@dataclass(frozen=True)
class WindowOperator:
    """An operator on windows: `recompute(windows)` of an `(m, W)` array gives `(m, size)`.

    With `update(before, old, new)` a window is made from the one before, of what was made of that and of the
    `(m, hop)` samples that left and that came; every few windows, at absolute multiples, it is made anew.
    Both are called with any m and must treat each row alike.
    """

    recompute: Call
    update: Call | None = None
    size: int | None = None


@dataclass(frozen=True)
class PayloadType:
    """A type of samples that are several numbers each, with arithmetic of its own (Figure 7.2 of the thesis).

    `zero` is the neutral element of `plus`. `plus`, `minus` and `times` of two values give one, and so does
    `scale(number, value)`; a value is a tuple of arrays, one for each column of the reading. Values are equal
    if their bits are.
    """

    name: str
    zero: tuple[float, ...]
    plus: Call
    minus: Call
    times: Call
    scale: Call

    def node(self) -> TypeNode:
        """As part of a query."""
        made = (Fn.of(each) for each in (self.plus, self.minus, self.times, self.scale))
        return TypeNode(self.name, tuple(map(float, self.zero)), *made)
