"""A stream as a signal by an aggregate over the events that are valid at one time (section 7.3 of the
thesis)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everfresh.signals.ops.lifetimes import Held
from everfresh.signals.run.flow import END, NEVER, Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns

LOW = -END
AGGREGATES = ("sum", "count", "mean", "min", "max")


class Snapshots(Operator):
    """The aggregate of the events that are valid, from one start or end to the next."""

    def __init__(self, source: int, agg: str) -> None:
        super().__init__((source,))
        self._op = AGGREGATES.index(agg)
        self._held = Held(1, np.float64)
        self._s = Columns(opened=(np.int64, (), LOW))
        self.state = (self._s, self._held.times, self._held.values)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The stretches that nothing can cut any more."""
        from everfresh.signals.kernels import snapshots

        flow, held, slots = flows[0], self._held, step.slots
        held.append(slots, flow)
        lengths = held.times.head[slots, 3] - held.times.head[slots, 2]
        most = 2 * int(lengths.sum())
        active = np.empty(int(lengths.max(initial=0)), np.int64)
        cuts = np.empty(len(slots) + 1, np.int64)
        start, end, out = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
        lines = (held.times.head, held.times.arena, held.values.head, held.values.arena)
        opened = self._s["opened"]
        n = snapshots.stretches(
            slots, flow.progress, self._op, *lines, opened, active, cuts, start, end, out
        )  # fmt: skip
        held.times.trim(slots)
        held.values.trim(slots)
        open_ = opened[slots]
        progress = np.where(open_ > LOW, np.minimum(open_, flow.progress), flow.progress)
        return Flow(cuts, start[:n], out[None, :n], progress, end[:n])

    def due(self, slots: Array) -> Array:
        """When the first of the valid events has ended."""
        from everfresh.signals.kernels import snapshots

        found = np.empty(len(slots), np.int64)
        held = self._held.times
        snapshots.soonest(slots, held.head, held.arena, NEVER, found)
        return found

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """What is behind the start of an open stretch is known when an event has ended."""
        opened = self._s["opened"][slots]
        waits = (opened > LOW) & (progress > opened)
        return np.where(waits, np.maximum(progress, self.due(slots)), progress)
