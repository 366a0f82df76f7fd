"""Windows that are made from the one before: what left, what came, and what was made (section 7.4.6).

A chain of updates begins anew at absolute multiples of `every` windows, and behind a window that did not
fire; so an error does not live on, and bits do not depend on where a batch was cut. Chains are independent of
each other: the windows of all groups with the same place in their chain are updated in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.signals import faults
from everfresh.signals.ops.windows import LOW, Windows
from everfresh.signals.run.flow import END, Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns

Recompute = Callable[[Array], Any]
"""`(m, W)` windows to `(m, N)`."""
Update = Callable[[Array, Array, Array], Any]
"""What was made of the windows before, `(m, N)`, and the `(m, H)` samples that left and that came."""


class Updated(Operator):
    """See above."""

    def __init__(
        self,
        source: int,
        window: tuple[int, int, bool],
        dtype: Any,
        made: tuple[str, int, Any],
        recompute: Recompute,
        update: Update,
        every: int,
    ) -> None:
        super().__init__((source,))
        self.size, self.hop, zero = window
        self._windows = Windows(source, *window, dtype)
        self._longer = Windows(source, self.size + self.hop, self.hop, True, dtype)
        self._name, self._n, self._made = made
        self._recompute, self._update, self._every = recompute, update, every
        self._zero = zero
        self._s = Columns(last=(np.int64, (), LOW), made=(self._made, (self._n,), 0))
        self.state = (*self._windows.state, *self._longer.state, self._s)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The windows that are decided, each made anew or from the one before."""
        slots = step.slots
        cuts, which, *places = self._windows.found(step, flows[0])
        long_cuts, longer, *others = self._longer.found(step, flows[0])
        group = np.repeat(np.arange(len(slots)), np.diff(cuts))
        rows = np.arange(len(which))
        first = rows == cuts[group]
        last = self._s["last"][slots]
        before = np.where(first, last[group], np.roll(which, 1)) if len(which) else which
        chained = (which - 1 == before) & (which % self._every != 0) & (self.hop < self.size)
        made = np.empty((len(which), self._n), self._made)
        frames = self._windows.frames(places[0], places[1], places[2])
        if not chained.all():
            made[~chained] = self._checked(self._recompute(frames[~chained]), int((~chained).sum()))
        if chained.any():
            both = same(group, which, np.repeat(np.arange(len(slots)), np.diff(long_cuts)), longer)
            some = [each[both[chained]] for each in others]
            old = self._longer.frames(some[0], some[1], some[2])[:, : self.hop]
            new = frames[chained][:, self.size - self.hop :]
            self._chains(made, chained, first, self._s["made"][slots[group]], old, new)
        ends = cuts[1:][np.diff(cuts) > 0] - 1
        self._s["last"][slots[group[ends]]], self._s["made"][slots[group[ends]]] = which[ends], made[ends]
        self._longer.settle(step)
        return Flow(cuts, which, made[None], self._windows.settle(step))

    def _chains(self, made: Array, chained: Array, first: Array, kept: Array, old: Array, new: Array) -> None:
        rows = np.flatnonzero(chained)
        begins = np.maximum.accumulate(np.where(~chained | first, np.arange(len(chained)), 0))
        place = rows - begins[rows]  # 0: goes on from what the last step left
        for at in range(int(place.max()) + 1):
            mine = np.flatnonzero(place == at)
            if len(mine):
                row = rows[mine]
                before = kept[row] if at == 0 else made[row - 1]
                made[row] = self._checked(self._update(before, old[mine], new[mine]), len(row))

    def _checked(self, given: Any, rows: int) -> Array:
        found: Array = np.asarray(given)
        if found.shape != (rows, self._n):
            raise faults.size(f"apply({self._name})", found.shape, (rows, self._n))
        return found

    def due(self, slots: Array) -> Array | None:
        """As windows."""
        return self._windows.due(slots)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """As windows."""
        return self._windows.when(slots, progress)


class Deaccumulated(Updated):
    """A user's aggregate whose states can give samples back: one number of each window."""

    def __init__(self, source: int, window: tuple[int, int, bool], dtype: Any, agg: Any, moved: int) -> None:
        from everfresh.signals.kernels.user import folding

        size, hop, _ = window
        give = agg.deaccumulate.call
        self._result, run = folding(
            agg.accumulate.call, give, None if agg.result is None else agg.result.call
        )
        init, made = agg.init, (agg.name, 1, dtype)

        def recompute(frames: Array) -> Array:
            return run(np.full((len(frames), 1), init, dtype), frames[:, :0], frames)

        super().__init__(source, window, dtype, made, recompute, run, -(-size // hop))
        self._moved = moved

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """As samples of the grid of windows."""
        made = super().step(step, flows)
        progress = np.where(made.progress >= END // self.hop, END, made.progress + self._moved)
        values = np.ascontiguousarray(made.values[0].T)
        return Flow(made.offsets, made.at + self._moved, self._result(values), progress)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """As windows."""
        return super().when(slots, progress - self._moved)


def same(group: Array, which: Array, others: Array, longer: Array) -> Array:
    """Where the windows are among others; both are in order."""
    low = min(which.min(), longer.min())
    span = max(which.max(), longer.max()) - low + 1
    found: Array = np.searchsorted(others * span + (longer - low), group * span + (which - low))
    return found
