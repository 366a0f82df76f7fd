"""Operations on events with lifetimes: what two signals share, the latest event of another, the next of
one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.signals import faults
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

    def at_places(self, slots: Array, groups: Array, places: Array) -> Array:
        """The values of rows of groups of the step, by the places of their times in the arena."""
        times, values = self.times.head[slots], self.values.head[slots]
        moved = values[:, 0] + values[:, 2] - self._first - times[:, 0]
        return self.values.arena[:, places + moved[groups]]

    def first(self, slots: Array, part: int = 0) -> Array:
        """The start of the first event that waits, or (1) its end."""
        heads = self.times.head[slots]
        there = heads[:, 2] < heads[:, 3]
        return np.where(there, self.times.arena[part, np.where(there, heads[:, 0] + heads[:, 2], 0)], NEVER)

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
    """Each event with the latest of another signal that starts no later; where there is none NaN, or no
    event."""

    def __init__(self, left: int, right: int, widths: tuple[int, int], dtype: Any, outer: bool) -> None:
        super().__init__(left, right, widths, dtype)
        self._outer = outer
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
        n = lifetimes.latest(slots, *known, *lines, self._outer, cuts, a, b)
        left, right = self._sides
        times = left.times_of(slots, cuts, a[:n])
        theirs = right.rows(slots, cuts, np.maximum(b[:n], 0))
        theirs[:, b[:n] < 0] = np.nan
        values = np.concatenate([left.rows(slots, cuts, a[:n]), theirs])
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


class Merge(_Pairs):
    """The events of two streams as one, in order of start; final when both sides are known."""

    def __init__(self, left: int, right: int, width: int, dtype: Any) -> None:
        super().__init__(left, right, (width, width), dtype)
        self.due_sides = (0, 1)

    def due(self, slots: Array) -> Array:
        """When both sides have passed the first event that waits."""
        at = np.minimum(*(side.first(slots) for side in self._sides))
        return np.where(at == NEVER, NEVER, at + 1)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The events that start before both are known."""
        from everfresh.signals.kernels import lifetimes

        slots = step.slots
        known = flows[0].progress, flows[1].progress
        lines = self._append(slots, flows)
        most = sum(int((head[slots, 3] - head[slots, 2]).sum()) for head in (lines[0], lines[2]))
        cuts = np.empty(len(slots) + 1, np.int64)
        side, place = np.empty(most, np.int64), np.empty(most, np.int64)
        total = lifetimes.merged(slots, *known, *lines, cuts, side, place)
        side, place = side[:total], place[:total]
        left, right = self._sides
        groups = np.repeat(np.arange(len(slots)), np.diff(cuts))
        values = np.empty((left.values.arena.shape[0], total), left.values.arena.dtype)
        times = np.empty((2, total), np.int64)
        for number, held in enumerate((left, right)):
            mine = side == number
            times[:, mine] = held.times.arena[:, place[mine]]
            values[:, mine] = held.at_places(slots, groups[mine], place[mine])
            held.trim(slots)
        return Flow(cuts, times[0], values, np.minimum(*known), times[1])


class Uncovered(_Pairs):
    """The parts of lifetimes in which the other signal has no event; final when it has passed the end of the
    lifetime."""

    def __init__(self, left: int, right: int, widths: tuple[int, int], dtype: Any) -> None:
        super().__init__(left, right, widths, dtype)
        self.due_sides = (1,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The parts of the events that the other side has passed."""
        from everfresh.signals.kernels import lifetimes

        slots = step.slots
        lines = self._append(slots, flows)
        cuts = np.empty(len(slots) + 1, np.int64)
        known = flows[1].progress, flows[0].progress
        total = lifetimes.uncovered(slots, *known, True, *lines, cuts, *[cuts[:0]] * 3)
        start, end, place = (np.empty(total, np.int64) for _ in range(3))
        lifetimes.uncovered(slots, *known, False, *lines, cuts, start, end, place)
        left = self._sides[0]
        values = left.at_places(slots, np.repeat(np.arange(len(slots)), np.diff(cuts)), place)
        for side in self._sides:
            side.trim(slots)
        return Flow(cuts, start, values, np.minimum(flows[0].progress, left.first(slots)), end)

    def due(self, slots: Array) -> Array:
        """When the other side has passed the end of the first event that waits."""
        return self._sides[0].first(slots, 1)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """What is behind an event that waits is known when its end has passed."""
        at, end = (self._sides[0].first(slots, part) for part in (0, 1))
        return np.where((at != NEVER) & (progress > at), np.maximum(progress, end), progress)


class Asserted(Operator):
    """A stream as a signal: events of a group that overlap are refused."""

    def __init__(self, source: int, names: Callable[[Array], list[Any]], what: str) -> None:
        super().__init__((source,))
        self._names, self._what = names, what
        self._s = Columns(last=(np.int64, (), LOW), ended=(np.int64, (), LOW))
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The same events: nothing can begin before the last of them."""
        from everfresh.signals.kernels import grouping

        flow, slots, s = flows[0], step.slots, self._s
        end = flow.at + 1 if flow.end is None else flow.end
        ended, last = s["ended"][slots], s["last"][slots]
        row = int(grouping.admit(slots, flow.offsets, flow.at, end, s["last"], s["ended"]))
        if row >= 0:
            group = int(np.searchsorted(flow.offsets, row, "right")) - 1
            before = (int(last[group]), int(ended[group]))
            if row > flow.offsets[group]:
                before = (int(flow.at[row - 1]), int(end[row - 1]))
            key = self._names(slots[group : group + 1])[0]
            raise faults.overlap(self._what, key, before, (int(flow.at[row]), int(end[row])))
        return flow
