"""Operations on events with lifetimes: what two signals share, the latest event of another, the next of
one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from everfresh.signals.run.flow import END, NEVER, Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns, Lines

LOW = -END


class Held:
    """Events that wait: starts and ends in one line, values in another of the same shape."""

    def __init__(self, width: int, dtype: Any) -> None:
        self.times, self.values = Lines(2, np.int64, 1), Lines(width, dtype, 1)

    def append(self, slots: Array, flow: Flow) -> None:
        """Add what came."""
        end = flow.at + 1 if flow.end is None else flow.end
        self.times.append(slots, flow.offsets, np.stack([flow.at, end]))
        self.values.append(slots, flow.offsets, np.ascontiguousarray(flow.values, self.values.arena.dtype))
        self._first = self.times.head[slots, 2].copy()

    def rows(self, slots: Array, cuts: Array, places: Array) -> Array:
        """The values at places within lines, where each group's were at `append`."""
        heads = self.values.head[slots]
        begin = np.repeat(heads[:, 0] + heads[:, 2], np.diff(cuts))
        return self.values.arena[:, begin + places]

    def first(self, slots: Array) -> Array:
        """The start of the first event that waits."""
        heads = self.times.head[slots]
        there = heads[:, 2] < heads[:, 3]
        return np.where(there, self.times.arena[0, np.where(there, heads[:, 0] + heads[:, 2], 0)], NEVER)

    def times_of(self, slots: Array, cuts: Array, places: Array) -> Array:
        """Starts and ends, in the same way."""
        begin = np.repeat(self.times.head[slots, 0] + self._first, np.diff(cuts))
        return self.times.arena[:, begin + places]

    def trim(self, slots: Array) -> None:
        """Drop what the line of times has dropped, and give back room."""
        self.values.head[slots, 2] += self.times.head[slots, 2] - self._first
        self.times.trim(slots)
        self.values.trim(slots)


class _Pairs(Operator):
    """A join of events of two signals."""

    def __init__(self, left: int, right: int, widths: tuple[int, int], dtype: Any) -> None:
        super().__init__((left, right))
        self._sides = Held(widths[0], dtype), Held(widths[1], dtype)
        self.state = tuple(line for side in self._sides for line in (side.times, side.values))

    def _append(self, slots: Array, flows: Sequence[Flow]) -> tuple[Any, ...]:
        for side, flow in zip(self._sides, flows, strict=True):
            side.append(slots, flow)
        left, right = self._sides[0].times, self._sides[1].times
        return left.head, left.arena, right.head, right.arena


class Intersect(_Pairs):
    """The lifetimes that two signals share, with the values of both; final when both sides are known."""

    def __init__(self, left: int, right: int, widths: tuple[int, int], dtype: Any) -> None:
        super().__init__(left, right, widths, dtype)
        self.due_sides = (0, 1)

    def due(self, slots: Array) -> Array:
        """When both sides have passed the next time at which they may meet."""
        at = np.maximum(*(side.first(slots) for side in self._sides))
        return np.where(at == NEVER, NEVER, at + 1)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The shared lifetimes that begin before both are known."""
        from everfresh.signals.kernels import lifetimes

        slots = step.slots
        known = flows[0].progress, flows[1].progress
        lines = self._append(slots, flows)
        cuts = np.empty(len(slots) + 1, np.int64)
        total = lifetimes.shared(slots, *known, True, *lines, cuts, *[cuts[:0]] * 4)
        start, end, a, b = (np.empty(total, np.int64) for _ in range(4))
        lifetimes.shared(slots, *known, False, *lines, cuts, start, end, a, b)
        values = [side.rows(slots, cuts, places) for side, places in zip(self._sides, (a, b), strict=True)]
        lifetimes.passed(slots, *known, *lines)
        for side in self._sides:
            side.trim(slots)
        return Flow(cuts, start, np.concatenate(values), np.minimum(*known), end)


class Latest(_Pairs):
    """Each event with the latest of another signal that starts no later."""

    def __init__(self, left: int, right: int, widths: tuple[int, int], dtype: Any) -> None:
        super().__init__(left, right, widths, dtype)
        self.due_sides = (1,)

    def due(self, slots: Array) -> Array:
        """When the right side has passed the first event that waits."""
        at = self._sides[0].first(slots)
        return np.where(at == NEVER, NEVER, at + 1)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The events that the other side has passed."""
        from everfresh.signals.kernels import lifetimes

        slots = step.slots
        known = flows[0].progress, flows[1].progress
        lines = self._append(slots, flows)
        heads = lines[0][slots]
        most = int((heads[:, 3] - heads[:, 2]).sum())
        cuts, a, b = np.empty(len(slots) + 1, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
        n = lifetimes.latest(slots, *known, *lines, cuts, a, b)
        left, right = self._sides
        times = left.times_of(slots, cuts, a[:n])
        values = np.concatenate([left.rows(slots, cuts, a[:n]), right.rows(slots, cuts, b[:n])])
        for side in self._sides:
            side.trim(slots)
        return Flow(cuts, times[0], values, np.minimum(*known), times[1])


class UntilNext(Operator):
    """A point lasts until the next of its group, at most so long: it goes out when it is known how long."""

    def __init__(self, source: int, longest: int, width: int, dtype: Any) -> None:
        super().__init__((source,))
        self._longest = longest
        self._s = Columns(at=(np.int64, (), LOW), held=(dtype, (width,), 0))
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The events whose ends are known."""
        flow, s = flows[0], self._s
        slots, counts = step.slots, np.diff(flow.offsets)
        held = s["at"][slots] != LOW
        offsets = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(counts + held, out=offsets[1:])
        at, values = (
            np.empty(offsets[-1], np.int64),
            np.empty((len(flow.values), offsets[-1]), flow.values.dtype),
        )
        first = offsets[:-1][held]
        at[first], values[:, first] = s["at"][slots[held]], s["held"][slots[held]].T
        mine = np.ones(offsets[-1], np.bool_)
        mine[first] = False
        at[mine], values[:, mine] = flow.at, flow.values
        end = at + self._longest
        end[:-1] = np.minimum(end[:-1], np.where(_same_group(offsets), at[1:], END))
        last = np.zeros(offsets[-1], np.bool_)
        some = np.diff(offsets) > 0
        last[offsets[1:][some] - 1] = True
        known = np.repeat(flow.progress, np.diff(offsets))
        waits = last & (end > known)
        s["at"][slots] = LOW
        group = np.repeat(slots, np.diff(offsets))[waits]
        s["at"][group], s["held"][group] = at[waits], values[:, waits].T
        progress = np.where(s["at"][slots] == LOW, flow.progress, s["at"][slots])
        return Flow(offsets, at, values, progress, end).kept(~waits)

    def due(self, slots: Array) -> Array:
        """When the longest life of the last point has passed."""
        at = self._s["at"][slots]
        return np.where(at == LOW, NEVER, at + self._longest)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """A point that waits is known when its life has passed."""
        at = self._s["at"][slots]
        return np.where((at != LOW) & (progress > at), np.maximum(progress, at + self._longest), progress)


def _same_group(offsets: Array) -> Array:
    """Which rows have another of their group behind them."""
    same = np.ones(max(0, int(offsets[-1]) - 1), np.bool_)
    cuts = offsets[1:-1]
    same[cuts[(cuts > 0) & (cuts < offsets[-1])] - 1] = False
    return same
