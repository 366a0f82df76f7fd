"""Sampling: events to samples on a grid, with or without interpolation (sections 7.4.1 and 7.4.2).

An event [a, b) gives references: a, each beat within, b - 1. A beat between two references is filled if they
are at most the policy's window apart; so it is known when the second comes, or when none can come any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.signals import faults
from everfresh.signals.nodes import PayloadType, Policy
from everfresh.signals.ops.typed_filters import Between, between
from everfresh.signals.run.flow import END, NEVER, Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns

LOW = -END
_ORDERS = {"constant": 0, "last": 1, "zero_order": 2, "first_order": 3, "second_order": 4, "user": 5}
Names = Callable[[Array], list[Any]]


def by_component(policy: Policy) -> tuple[Between, Between | None]:
    """A user's functions of numbers, called for each component of values."""

    def given(function: Callable[..., Any]) -> Between:
        def call(*args: Array) -> Array:
            width = next(len(each) for each in args if each.ndim == 2)
            parts = [[each[c] if each.ndim == 2 else each for each in args] for c in range(width)]
            rows = len(args[-1])
            return np.array([np.broadcast_to(np.asarray(function(*part)), rows) for part in parts])

        return call

    assert policy.f2 is not None
    return given(policy.f2.call), None if policy.f3 is None else given(policy.f3.call)


class Expand(Operator):
    """Lifetimes to their beats, or to their references, as far as time has passed."""

    def __init__(
        self,
        source: int,
        period: int,
        offset: int,
        refs: bool,
        width: int,
        dtype: Any,
        most: int,
        names: Names,
    ) -> None:
        super().__init__((source,))
        self._period, self._offset, self._refs, self._most, self._names = period, offset, refs, most, names
        self._s = Columns(
            a=(np.int64, (), LOW),
            b=(np.int64, (), LOW),
            position=(np.int64, (), LOW),
            held=(dtype, (width,), 0),
        )
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """Beats or references before the progress."""
        from everfresh.signals.kernels.sampling import expand

        flow, s = flows[0], self._s
        end = flow.at + 1 if flow.end is None else flow.end
        cuts = np.zeros(len(step.slots) + 1, np.int64)

        def run(dry: bool, at: Array, out: Array) -> int:
            return int(
                expand(
                    step.slots,
                    flow.offsets,
                    flow.at,
                    end,
                    flow.values,
                    flow.progress,
                    self._period,
                    self._offset,
                    self._refs,
                    self._most,
                    dry,
                    s["a"],
                    s["b"],
                    s["position"],
                    s["held"],
                    cuts,
                    at,
                    out,
                )
            )

        width = len(flow.values)
        total = run(True, cuts[:0], np.empty((width, 0), flow.values.dtype))
        if total < 0:
            raise self._too_many(step, flow, -1 - total)
        at, out = np.empty(total, np.int64), np.empty((width, total), flow.values.dtype)
        run(False, at, out)
        progress = flow.progress
        if not self._refs:
            progress = np.where(progress >= END, END, -((self._offset - progress) // self._period))
        return Flow(cuts, at, out, progress, at + 1 if self._refs else None)

    def _too_many(self, step: Step, flow: Flow, group: int) -> Exception:
        slot = step.slots[group]
        start, end = int(self._s["position"][slot]), int(self._s["b"][slot])
        rows = slice(flow.offsets[group], flow.offsets[group + 1])
        if flow.end is not None and rows.stop > rows.start:
            longest = int(np.argmax(flow.end[rows] - flow.at[rows]))
            start, end = int(flow.at[rows][longest]), int(flow.end[rows][longest])
        end = min(end, int(flow.progress[group]))
        key = self._names(step.slots[group : group + 1])[0]
        return faults.fill(key, start, end, (end - start) // self._period, self._most)

    def due(self, slots: Array) -> Array:
        """The next beat of a lifetime, or its end."""
        s = self._s
        b, position = s["b"][slots], s["position"][slots]
        with np.errstate(over="ignore"):
            beat = -((self._offset - position) // self._period) * self._period + self._offset + 1
        return np.where(b == LOW, NEVER, np.minimum(beat, b))

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """References are known as their time passes."""
        return progress if self._refs else _of_index(progress, self._period, self._offset)


def _of_index(progress: Array, period: int, offset: int) -> Array:
    """The progress in time that makes all before an index known."""
    safe = np.minimum(progress, END // period)
    return np.where(progress >= END // period, NEVER, (safe - 1) * period + offset + 1)


class Interpolate(Operator):
    """References to samples; without a policy only those on beats."""

    def __init__(
        self,
        source: int,
        period: int,
        offset: int,
        policy: Policy | None,
        width: int,
        dtype: Any,
        most: int,
        names: Names,
        type_: PayloadType | None = None,
    ) -> None:
        super().__init__((source,))
        self._period, self._offset = period, offset
        self._most, self._names = most, names
        self._order = 0 if policy is None else _ORDERS[policy.name]
        self._constant = 0.0 if policy is None else policy.value
        self._between: tuple[Between, Between | None] | None = None
        if policy is not None and self._order >= (3 if type_ is not None else 5):
            self._between = between(type_, policy) if type_ is not None else by_component(policy)
        window = -1 if policy is None else policy.window
        self._window = END // 2 if window is None else window
        self._causal = policy is not None and policy.causal
        self._waits = policy is not None and not policy.causal
        self._s = Columns(
            r=(np.int64, (), LOW),
            q=(np.int64, (), LOW),
            next=(np.int64, (), LOW),
            rv=(dtype, (width,), 0),
            qv=(dtype, (width,), 0),
        )
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The samples that are decided now."""
        from everfresh.signals.kernels import sampling

        flow, s = flows[0], self._s
        cuts, below = np.empty(len(step.slots) + 1, np.int64), np.empty(flow.rows, np.int64)
        grid = (self._period, self._offset, self._window)
        where = (step.slots, flow.offsets, flow.at)
        total = sampling.count_beats(
            *where, flow.progress, *grid, self._causal, self._most, below, s["r"], s["next"], cuts
        )
        if total < 0:
            raise self._too_many(step, flow, -1 - int(total))
        index = np.empty(total, np.int64)
        if self._between is not None:
            out = self._filled(step, flow, below, index, *self._between)
        else:
            out = np.empty((len(flow.values), total), flow.values.dtype)
            sampling.fill_beats(
                *where,
                flow.values,
                flow.progress,
                *grid,
                self._causal,
                self._order,
                self._constant,
                below,
                *(s[name] for name in ("r", "q", "next", "rv", "qv")),
                index,
                out,
            )
        progress = np.empty(len(step.slots), np.int64)
        sampling.known_until(step.slots, flow.progress, *grid, self._waits, s["r"], progress)
        return Flow(cuts, index, out, progress)

    def _filled(
        self, step: Step, flow: Flow, below: Array, index: Array, of_two: Between, of_three: Between | None
    ) -> Array:
        """The samples where functions say what is between references."""
        from everfresh.signals.kernels import sampling

        s = self._s
        row = np.empty(len(index), np.int64)
        where = (step.slots, flow.offsets, flow.at)
        sampling.gaps(*where, self._period, self._offset, self._window, below, s["r"], row, index)
        r, q = np.empty(flow.rows, np.int64), np.empty(flow.rows, np.int64)
        of_r, of_q = np.empty_like(flow.values), np.empty_like(flow.values)
        kept = (s["r"], s["q"], s["rv"], s["qv"])
        sampling.references(*where, flow.values, *kept, r, q, of_r, of_q)
        s["next"][step.slots] = np.where(
            s["r"][step.slots] == LOW, LOW, (s["r"][step.slots] - self._offset) // self._period + 1
        )
        out = np.empty((len(flow.values), len(index)), flow.values.dtype)
        filled = row >= 0
        out[:, ~filled] = flow.values[:, -1 - row[~filled]]
        rows, t = row[filled], index[filled] * self._period + self._offset
        args = (of_r[:, rows], r[rows], flow.values[:, rows], flow.at[rows], t)
        values = of_two(*args) if len(rows) else np.empty((len(out), 0), out.dtype)
        if of_three is not None:
            near = (q[rows] > LOW) & (flow.at[rows] - np.maximum(q[rows], LOW) <= self._window)
            if near.any():
                some = [arg[..., near] for arg in (of_q[:, rows], q[rows], *args)]
                values[:, near] = of_three(*some)
        out[:, filled] = values
        return out

    def _too_many(self, step: Step, flow: Flow, row: int) -> Exception:
        group = int(np.searchsorted(flow.offsets, row, "right")) - 1
        slot = step.slots[group : group + 1]
        before = self._s["r"][slot[0]] if row == flow.offsets[group] else flow.at[row - 1]
        start, end = int(before), int(flow.at[row])
        return faults.fill(self._names(slot)[0], start, end, (end - start) // self._period, self._most)

    def due(self, slots: Array) -> Array | None:
        """Only what fills without waiting has something to do when time passes."""
        if not self._causal:
            return None
        r, nxt = self._s["r"][slots], self._s["next"][slots]
        t = nxt * self._period + self._offset
        return np.where((r > LOW) & (t <= r + self._window), t + 1, NEVER)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """A beat behind the last reference is known when the window has passed."""
        needed = _of_index(progress, self._period, self._offset)
        if not self._waits:
            return needed
        r = self._s["r"][slots]
        late = np.where((r > LOW) & (needed > r + 1), r + self._window + 1, LOW)
        return np.minimum(np.maximum(needed, late), NEVER)


class OnGrid(Operator):
    """Points that are asserted to be samples of a grid."""

    def __init__(self, source: int, table: str, period: int, offset: int, names: Names) -> None:
        super().__init__((source,))
        self._table, self._period, self._offset, self._names = table, period, offset, names

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """Times as indices."""
        flow = flows[0]
        index = (flow.at - self._offset) // self._period if self._period > 1 else flow.at - self._offset
        if self._period > 1:
            wrong = index * self._period + self._offset != flow.at
            if wrong.any():
                row = int(np.argmax(wrong))
                group = int(np.searchsorted(flow.offsets, row, "right")) - 1
                key = self._names(step.slots[group : group + 1])[0]
                raise faults.off_grid(self._table, key, int(flow.at[row]), self._period, self._offset)
        progress = np.where(flow.progress >= END, END, -((self._offset - flow.progress) // self._period))
        return Flow(flow.offsets, index, flow.values, progress)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """An index is known when its time has passed."""
        return _of_index(progress, self._period, self._offset)
