"""Operators that gather rows: several uniform signals as one, and events as sessions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everfresh.signals.run.flow import END, NEVER, Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns

LOW = -END


class Interleave(Operator):
    """Sample q of input r is sample `n * q + r`: the branches of a polyphase filter as one signal."""

    def __init__(self, inputs: Sequence[int]) -> None:
        super().__init__(inputs)
        self._n = len(inputs)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The samples of all branches, in order."""
        n = self._n
        at = np.concatenate([flow.at * n + r for r, flow in enumerate(flows)])
        values = np.concatenate([flow.values for flow in flows], axis=1)
        group = np.concatenate([np.repeat(np.arange(len(step.slots)), np.diff(f.offsets)) for f in flows])
        order = np.lexsort((at, group))
        offsets = np.zeros(len(step.slots) + 1, np.int64)
        np.cumsum(np.bincount(group, minlength=len(step.slots)), out=offsets[1:])
        known = [_times(flow.progress, n, r) for r, flow in enumerate(flows)]
        return Flow(offsets, at[order], values[:, order], np.minimum.reduce(known))

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """The least index of a branch that is not before."""
        return np.where(progress >= END, progress, -((side - progress) // self._n))


def _times(progress: Array, n: int, r: int) -> Array:
    far = END // n - 1
    return np.where(progress >= far, END, np.minimum(progress, far) * n + r)


class Sessions(Operator):
    """Events that follow each other within a gap, as one event from the first start to the last end; its
    value is how many there were. It is final when the gap has passed."""

    def __init__(self, source: int, gap: int) -> None:
        super().__init__((source,))
        self._gap = gap
        self._s = Columns(start=(np.int64, (), LOW), end=(np.int64, (), LOW), count=(np.int64, (), 0))
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The sessions that have ended. Events of a stream may end before those that began before them."""
        from everfresh.signals.kernels import grouping

        flow, s, slots = flows[0], self._s, step.slots
        held = s["count"][slots] > 0
        counts = np.diff(flow.offsets) + held
        offsets = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        start, end, count = (np.empty(offsets[-1], np.int64) for _ in range(3))
        first = offsets[:-1][held]
        mine = np.ones(offsets[-1], np.bool_)
        mine[first] = False
        for name, column in (("start", start), ("end", end), ("count", count)):
            column[first] = s[name][slots[held]]
        start[mine], count[mine] = flow.at, 1
        end[mine] = flow.at + 1 if flow.end is None else flow.end
        group = np.repeat(np.arange(len(slots)), counts)
        grouping.latest_ends(offsets, end)
        opens = np.ones(offsets[-1], np.bool_)
        opens[1:] = (group[1:] != group[:-1]) | (start[1:] - end[:-1] > self._gap)
        cuts = np.flatnonzero(opens)
        of, begin = group[cuts], start[cuts]
        until = end[np.append(cuts[1:], len(group)) - 1] if len(cuts) else begin
        total = np.add.reduceat(count, cuts) if len(cuts) else count
        last = np.ones(len(cuts), np.bool_)
        last[:-1] = of[1:] != of[:-1]
        known = flow.progress[of]
        waits = last & (until + self._gap >= known)
        s["count"][slots] = 0
        s["start"][slots] = s["end"][slots] = LOW
        kept = slots[of[waits]]
        s["start"][kept], s["end"][kept], s["count"][kept] = begin[waits], until[waits], total[waits]
        made = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(np.bincount(of[~waits], minlength=len(slots)), out=made[1:])
        open_ = s["count"][slots] > 0
        progress = np.where(open_, s["start"][slots], flow.progress)
        values = total[~waits].astype(np.float64)[None]
        return Flow(made, begin[~waits], values, progress, until[~waits])

    def due(self, slots: Array) -> Array:
        """When the gap behind an open session has passed."""
        open_ = self._s["count"][slots] > 0
        end = np.minimum(self._s["end"][slots], END - self._gap - 1)
        return np.where(open_, end + self._gap + 1, NEVER)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """What is behind the start of an open session is known when it has ended."""
        start = self._s["start"][slots]
        open_ = (self._s["count"][slots] > 0) & (progress > start)
        return np.where(open_, np.maximum(progress, self.due(slots)), progress)
