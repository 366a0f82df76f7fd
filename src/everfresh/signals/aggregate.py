"""What users bring: aggregates over windows by their own functions (section 7.3 of the thesis,
"extensible")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everfresh.signals.nodes import Agg, Fn

Call = Callable[..., Any]


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of numbers: `init`, `accumulate(state, x)`, and `result(state)` if the state is not it.

    With `combine(a, b)` of two states, windows that overlap share their work; without it each window is
    computed from its samples. The functions are compiled: numbers in, a number out.
    """

    init: float
    accumulate: Call
    combine: Call | None = None
    result: Call | None = None
    name: str = "aggregate"

    def node(self) -> Agg:
        """As part of a query."""
        made = [None if f is None else Fn.of(f) for f in (self.combine, self.result)]
        return Agg(self.name, self.init, Fn.of(self.accumulate), *made)
