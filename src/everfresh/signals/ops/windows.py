"""Windows over samples, what is done with them, and the way back to samples (sections 7.4.4 and 7.4.6).

Windows of all groups that are full or decided are taken together, cut into calls of about `CHUNK` elements
that stay in the cache; an operator on windows gives the same bits for any number of them in a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.signals import faults
from everfresh.signals.ops.frames import FrameStep
from everfresh.signals.run.flow import END, NEVER, Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns, Lines

LOW = -END
CHUNK = 50_000
_AGGREGATES = {"sum": 0, "max": 1, "min": 2, "last": 3}


class Windows(Operator):
    """The samples of each group in windows, and steps on these."""

    def __init__(
        self,
        source: int,
        size: int,
        hop: int,
        zero: bool,
        dtype: Any,
        steps: Sequence[FrameStep] = (),
        width: int = 1,
    ) -> None:
        super().__init__((source,))
        self.size, self.hop, self._zero, self._dtype = size, hop, zero, dtype
        self.steps = tuple(steps)
        self._lines = Lines(width, dtype, size)
        self._s = Columns(
            first=(np.int64, (), LOW),
            next=(np.int64, (), LOW),
            last=(np.int64, (), LOW),
            k=(np.int64, (), LOW),
        )
        self.state = (self._s, self._lines)

    def found(self, step: Step, flow: Flow) -> tuple[Array, ...]:
        """The windows that are decided: where each group's are, their numbers, and places in the arena."""
        from everfresh.signals.kernels import windows

        slots, s, lines = step.slots, self._s, self._lines
        values = np.ascontiguousarray(flow.values, self._dtype)
        cuts, extra = np.empty(len(slots) + 1, np.int64), np.empty(len(slots), np.int64)
        given = (slots, flow.offsets, flow.at, values, flow.progress, self.size, self.hop, self._zero)
        kept = [s[name] for name in ("first", "next", "last", "k")]
        total = windows.find(*given, True, *kept, lines.head, lines.arena, extra, cuts, *[cuts[:0]] * 4)
        lines.reserve(slots, extra)
        which, at, lead, count = (np.empty(total, np.int64) for _ in range(4))
        windows.find(*given, False, *kept, lines.head, lines.arena, extra, cuts, which, at, lead, count)
        return cuts, which, at, lead, count

    def settle(self, step: Step) -> Array:
        """Drop what is not needed any more; the progress in windows."""
        from everfresh.signals.kernels import windows

        s, lines = self._s, self._lines
        windows.forget(step.slots, self.size, self.hop, s["first"], s["next"], s["k"], lines.head)
        lines.trim(step.slots)
        found: Array = s["k"][step.slots]
        return found

    def frames(self, at: Array, lead: Array, count: Array, component: int = 0) -> Array:
        """Windows by their places, through all steps."""
        from everfresh.signals.kernels import windows

        found = np.empty((len(at), self.size), self._dtype)
        windows.gather(self._lines.arena[component], at, lead, count, found)
        for each in self.steps:
            found = each(found)
        return found

    @property
    def samples(self) -> Array:
        """Where places of windows are, of the first component."""
        found: Array = self._lines.arena[0]
        return found

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The windows as rows."""
        cuts, which, at, lead, count = self.found(step, flows[0])
        chunk = max(1, CHUNK // self.size)
        parts = [
            self.frames(at[i : i + chunk], lead[i : i + chunk], count[i : i + chunk])
            for i in range(0, max(1, len(which)), chunk)
        ]
        values = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return Flow(cuts, which, values[None], self.settle(step))

    def due(self, slots: Array) -> Array | None:
        """A window that has a sample fires when its end has passed."""
        if not self._zero:
            return None
        last, k = self._s["last"][slots], self._s["k"][slots]
        waits = (last > LOW) & (last >= np.maximum(k, LOW // self.hop) * self.hop - self.size)
        return np.where(waits, k * self.hop, NEVER)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """Windows before k are decided when the indices before (k - 1) hop are known."""
        return np.where(progress >= END // self.hop, NEVER, (progress - 1) * self.hop)


class OverlapAdd(Windows):
    """Windows, steps on them, and back: contributions to a sample are merged in the order of their
    windows."""

    def __init__(
        self,
        source: int,
        size: int,
        hop: int,
        zero: bool,
        dtype: Any,
        steps: Sequence[FrameStep],
        out: tuple[int, Any],
        agg: str | None,
        taper: Array | None,
    ) -> None:
        super().__init__(source, size, hop, zero, dtype, steps)
        self._n, self._made = out
        self._agg = _AGGREGATES[agg or "sum"]
        self._taper = np.zeros(0) if taper is None else np.ascontiguousarray(taper, np.float64)
        self._sums = Lines(1 if taper is None else 2, self._made, self._n)
        self._t = Columns(base=(np.int64, (), LOW), end=(np.int64, (), LOW))
        self.state = (*self.state, self._t, self._sums)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The samples that are final now."""
        from everfresh.signals.kernels import windows

        cuts, which, at, lead, count = self.found(step, flows[0])
        slots, sums = step.slots, self._sums
        progress = self._s["k"][slots]
        base, end = self._t["base"], self._t["end"]
        extra, offsets = np.empty(len(slots), np.int64), np.empty(len(slots) + 1, np.int64)
        shape = (self._n, self.hop)
        total = windows.count_back(slots, cuts, which, progress, *shape, base, end, extra, offsets)
        sums.reserve(slots, extra)
        index, out = np.empty(total, np.int64), np.empty(total, self._made)
        cursor = offsets[:-1].copy()
        group = np.repeat(np.arange(len(slots)), np.diff(cuts))
        chunk = max(1, CHUNK // self.size)
        for i in range(0, len(which), chunk):
            part = slice(i, i + chunk)
            frames = np.ascontiguousarray(self.frames(at[part], lead[part], count[part]), self._made)
            windows.add_back(
                group[part], which[part], frames, self._taper, self.hop, self._agg, slots, base, end,
                sums.head, sums.arena, cursor, index, out,
            )  # fmt: skip
        windows.flush(slots, progress, *shape, base, end, sums.head, sums.arena, cursor, index, out)
        self.settle(step)
        sums.trim(slots)
        final = np.where(progress >= END // self.hop, END, progress * self.hop - self._n)
        return Flow(offsets, index, out[None], final)

    def due(self, slots: Array) -> Array:
        """The next window of zeros, or when the next sample is out of reach of all windows to come."""
        base, end = self._t["base"][slots], self._t["end"][slots]
        k = np.where(base < end, (base + self._n) // self.hop + 1, 1)
        mine = np.where(base < end, (k - 1) * self.hop, NEVER)
        windows = super().due(slots)
        return mine if windows is None else np.minimum(mine, windows)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """A sample is final when all windows that reach it are decided."""
        safe = np.minimum(progress, END)
        k = -((-safe - self._n) // self.hop)
        return np.where(progress >= END, NEVER, (k - 1) * self.hop)


class OnFrames(Operator):
    """Steps on windows that come from elsewhere."""

    def __init__(self, source: int, steps: Sequence[FrameStep]) -> None:
        super().__init__((source,))
        self._steps = tuple(steps)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The windows changed."""
        flow = flows[0]
        found = flow.values[0]
        for each in self._steps:
            found = each(found)
        return Flow(flow.offsets, flow.at, found[None], flow.progress)


class Reduce(Operator):
    """One number of each window."""

    def __init__(
        self, source: int, name: str, function: Callable[[Array], Any], dtype: Any, moved: int, hop: int
    ) -> None:
        super().__init__((source,))
        self._name, self._function, self._dtype, self._moved = name, function, dtype, moved
        self._end = END // hop

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The numbers, as samples of the grid of windows."""
        flow = flows[0]
        found = np.asarray(self._function(flow.values[0]))
        if found.shape != (flow.rows,):
            raise faults.size(f"reduce({self._name})", found.shape, (flow.rows,))
        progress = np.where(flow.progress >= self._end, END, flow.progress + self._moved)
        return Flow(flow.offsets, flow.at + self._moved, found.astype(self._dtype)[None], progress)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """As many windows."""
        return progress - self._moved
