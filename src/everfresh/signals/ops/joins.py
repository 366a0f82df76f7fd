"""Joins in time within each group: arithmetic of uniform signals, the latest event of another signal.

A sample waits for its partner until the other side's progress has passed it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.signals.run.flow import Array, Flow, Operator, Step
from everfresh.signals.run.state import Lines

Combining = Callable[[Array, Array], Array]
COMBINING: dict[str, Combining] = {
    "plus": np.add,
    "minus": np.subtract,
    "times": np.multiply,
    "divide": np.true_divide,
}


class Waiting:
    """Rows that wait: their indices and values, in two lines of one shape."""

    def __init__(self, width: int, dtype: Any) -> None:
        self.index, self.values = Lines(1, np.int64, 1), Lines(width, dtype, 1)

    def append(self, slots: Array, flow: Flow) -> None:
        """Add what came."""
        self.index.append(slots, flow.offsets, flow.at[None])
        self.values.append(slots, flow.offsets, np.ascontiguousarray(flow.values, self.values.arena.dtype))

    def trim(self, slots: Array) -> None:
        """Give back room."""
        self.values.head[slots, 2] += self.index.head[slots, 2] - self._low
        self.index.trim(slots)
        self.values.trim(slots)

    def begin(self, slots: Array) -> None:
        """Remember where the lines begin."""
        self._low = self.index.head[slots, 2].copy()


class EqualTimes(Operator):
    """The samples of two signals with equal indices, combined."""

    def __init__(
        self, left: int, right: int, widths: tuple[int, int], dtype: Any, combine: Combining
    ) -> None:
        super().__init__((left, right))
        self._sides = Waiting(widths[0], dtype), Waiting(widths[1], dtype)
        self._combine = combine
        self.state = tuple(line for side in self._sides for line in (side.index, side.values))

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The pairs that came together."""
        from everfresh.signals.kernels import joins

        slots = step.slots
        left, right = self._sides
        if self._together(slots, flows):
            return Flow(
                flows[0].offsets, flows[0].at, self._combine(flows[0].values, flows[1].values),
                np.minimum(flows[0].progress, flows[1].progress),
            )  # fmt: skip
        for side, flow in zip(self._sides, flows, strict=True):
            side.append(slots, flow)
            side.begin(slots)
        most = joins.most(slots, left.index.head, right.index.head)
        cuts, index = np.empty(len(slots) + 1, np.int64), np.empty(most, np.int64)
        a, b = np.empty(most, np.int64), np.empty(most, np.int64)
        n = joins.merge(
            slots, flows[0].progress, flows[1].progress, left.index.head, left.index.arena[0],
            right.index.head, right.index.arena[0], left.values.head, right.values.head, cuts, index, a, b,
        )  # fmt: skip
        values = self._combine(left.values.arena[:, a[:n]], right.values.arena[:, b[:n]])
        for side in self._sides:
            side.trim(slots)
        return Flow(cuts, index[:n], values, np.minimum(flows[0].progress, flows[1].progress))

    def _together(self, slots: Array, flows: Sequence[Flow]) -> bool:
        """Whether nothing waits and both sides came with equal times: the two taps of one signal."""
        heads = [side.index.head for side in self._sides]
        return (
            flows[0].rows == flows[1].rows > 0
            and bool(np.array_equal(flows[0].offsets, flows[1].offsets))
            and bool(np.array_equal(flows[0].at, flows[1].at))
            and all(np.array_equal(head[slots, 2], head[slots, 3]) for head in heads)
        )


class EqualFrames(EqualTimes):
    """The windows of two signals with equal numbers, combined row by row."""

    def __init__(
        self, left: int, right: int, widths: tuple[int, int], dtype: Any, combine: Combining
    ) -> None:
        super().__init__(
            left,
            right,
            widths,
            dtype,
            lambda a, b: combine(a.T.copy(), b.T.copy()).T,  # rows are windows
        )

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The pairs that came together, as windows."""
        turned = [Flow(f.offsets, f.at, f.values[0].T, f.progress) for f in flows]
        made = super().step(step, turned)
        return Flow(made.offsets, made.at, np.ascontiguousarray(made.values.T)[None], made.progress)
