"""Windows from the first sample of each group on: indices less a phase before windows, and back behind them.

What is between the two sees windows that end at multiples of the hop. Invariants: samples of two stretches of
a group, with a pause between that begins it anew, are further apart than any window reaches, so that what is
made of them is told apart by aligned indices alone; at the end of a step a group has one phase.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everfresh.signals.run.flow import END, NEVER, Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns

LOW = -END


class Aligned(Operator):
    """Indices less the phase of each group."""

    def __init__(self, source: int, hop: int, idle: int) -> None:
        super().__init__((source,))
        self._hop, self._idle = hop, idle
        self._s = Columns(last=(np.int64, (), LOW), phase=(np.int64, (), 0))
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The samples at their aligned indices."""
        from everfresh.signals.kernels import aligning

        flow, s = flows[0], self._s
        at = np.empty(flow.rows, np.int64)
        aligning.align(step.slots, flow.offsets, flow.at, self._hop, self._idle, s["last"], s["phase"], at)
        progress = np.where(flow.progress >= END, END, flow.progress - s["phase"][step.slots])
        return Flow(flow.offsets, at, flow.values, progress)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """So much later."""
        return np.where(progress >= END, NEVER, progress + self._s["phase"][slots])


class Unaligned(Operator):
    """What was made of aligned samples, at the indices of the grid: windows at that of their last sample, or
    with `size`, samples that windows of so many were merged to. The other inputs are the aligned samples and
    those before."""

    def __init__(self, source: int, aligned: int, before: int, hop: int, size: int | None = None) -> None:
        super().__init__((source, aligned, before))
        self._hop, self._size = hop, size
        self._s = Columns(phase=(np.int64, (), 0))
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The same, at other indices."""
        from everfresh.signals.kernels import aligning

        flow, aligned, before = flows
        of_windows = self._size is None
        reached = flow.at * self._hop if self._size is None else flow.at + (self._size - self._hop + 1)
        phase = np.empty(flow.rows, np.int64)
        kept = self._s["phase"]
        aligning.phases(
            step.slots, flow.offsets, reached, aligned.offsets, before.at, aligned.at, kept, phase
        )
        at = (reached - 1 if of_windows else flow.at) + phase
        end = END // self._hop if of_windows else END
        known = np.minimum(flow.progress, end) * self._hop - 1 if of_windows else flow.progress
        progress = np.where(flow.progress >= end, END, known + kept[step.slots])
        return Flow(flow.offsets, at, flow.values, progress)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """The least number of a window that ends there, or so much earlier."""
        if side:
            return np.full(len(slots), NEVER)
        needed = np.minimum(progress, END) - self._s["phase"][slots]
        if self._size is None:
            needed = -((-needed - 1) // self._hop)
        return np.where(progress >= END, NEVER, needed)
