"""Filters over uniform signals: FIR, correlation, recursive filters, and a user's own (section 7.4.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.signals.ops.windows import CHUNK, Windows
from everfresh.signals.run.flow import END, NEVER, Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns, Lines

LOW = -END
DIRECT = 128
"""Filters of more taps go by blocks of transforms."""
LONGEST = 4096
"""Zero steps of a recursive filter that are made one by one; more are made by a power of the step."""


class Fir(Operator):
    """`y[n] = sum b[i] x[n - i]`, directly."""

    def __init__(self, source: int, b: Array, zero: bool, width: int, dtype: Any) -> None:
        super().__init__((source,))
        self._b, self._zero = np.ascontiguousarray(b), zero
        self._dtype = np.result_type(dtype, self._b.dtype)
        if self._dtype == np.complex128:
            self._b = self._b.astype(np.complex128)
        self._lines = Lines(width, self._dtype, len(b))
        self._s = Columns(next=(np.int64, (), LOW))
        self.state = (self._s, self._lines)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """An output for each sample; with `missing="skip"`, once there are as many as taps."""
        from everfresh.signals.kernels import filters

        flow, lines = flows[0], self._lines
        values = np.ascontiguousarray(flow.values, self._dtype)
        extra = np.empty(len(step.slots), np.int64)
        rows = (step.slots, flow.offsets, flow.at)
        filters.room(*rows, len(self._b), self._zero, self._s["next"], extra)
        lines.reserve(step.slots, extra)
        ok, out = np.ones(flow.rows, np.bool_), np.empty_like(values)
        filters.fir(*rows, values, self._b, self._zero, self._s["next"], lines.head, lines.arena, ok, out)
        lines.trim(step.slots)
        made = Flow(flow.offsets, flow.at, out, flow.progress)
        return made if self._zero else made.kept(ok)


class BlockFir(Operator):
    """The same by transforms of blocks that begin at absolute multiples: many taps for the price of few. A
    sample is final when its block is, so bits do not depend on when it came."""

    def __init__(self, source: int, b: Array, zero: bool, width: int, dtype: Any) -> None:
        super().__init__((source,))
        self._made = np.result_type(dtype, b.dtype)
        self._block = 1 << int(4 * len(b) - 1).bit_length()
        self._overlap = len(b) - 1
        self._dtype, self._b, self._zero = np.dtype(dtype), b, zero
        size = self._block + self._overlap
        self._width = width
        self._windows = Windows(source, size, self._block, True, dtype, (), width + 1)
        self._transformed: Array | None = None
        self.state = self._windows.state

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The outputs of the blocks that are complete."""
        flow = flows[0]
        given = np.ones((self._width + 1, flow.rows), self._dtype)  # the last says where samples are
        given[:-1] = flow.values
        cuts, which, *places = self._windows.found(step, Flow(flow.offsets, flow.at, given, flow.progress))
        at, lead, count = places
        parts = [self._convolved(at, lead, count, c) for c in range(self._width)]
        there = self._windows.frames(at, lead, count, self._width) != 0.0
        known = self._windows.settle(step)
        last = np.where(known >= END // self._block, END, (known - 1) * self._block)
        first = which * self._block - self._block
        if there.all():
            index = (first[:, None] + np.arange(self._block)).reshape(-1)
            values = np.array([part.reshape(-1) for part in parts], self._made)
            return Flow(cuts * self._block, index, values, last)
        mask = there[:, self._overlap :]
        if not self._zero:
            sums = np.cumsum(there, axis=1)
            before = np.concatenate([np.zeros((len(sums), 1)), sums[:, : self._block - 1]], axis=1)
            mask = mask & (sums[:, self._overlap :] - before == self._overlap + 1)
        sums = np.zeros(len(which) + 1, np.int64)
        np.cumsum(mask.sum(axis=1), out=sums[1:])
        values = np.array([part[mask] for part in parts], self._made).reshape(len(parts), -1)
        return Flow(sums[cuts], (first[:, None] + np.arange(self._block))[mask], values, last)

    def _convolved(self, at: Array, lead: Array, count: Array, component: int) -> Array:
        from scipy import fft

        size = self._block + self._overlap
        n = fft.next_fast_len(size, True)
        forth, back = (fft.fft, fft.ifft) if self._made == np.complex128 else (fft.rfft, fft.irfft)
        if self._transformed is None:
            self._transformed = forth(self._b, n)
        out = np.empty((len(at), self._block), self._made)
        chunk = max(1, CHUNK // size)
        for i in range(0, len(at), chunk):
            part = slice(i, i + chunk)
            frames = self._windows.frames(at[part], lead[part], count[part], component)
            found = back(forth(frames, n, axis=1) * self._transformed, n, axis=1)
            out[part] = found[:, self._overlap : size]
        return out

    def due(self, slots: Array) -> Array | None:
        """A block ends when time has passed it."""
        return self._windows.due(slots)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """The end of the block."""
        safe = np.minimum(progress, END)
        return np.where(progress >= END, NEVER, -(-safe // self._block) * self._block)


class Recursive(Operator):
    """Sections of direct form II transposed, one after the other; one section is a filter by `b` and `a`."""

    def __init__(
        self, source: int, b: Array, a: Array, zero: bool, width: int, dtype: Any, idle: int = END
    ) -> None:
        super().__init__((source,))
        self._b, self._a, self._zero, self._idle = b, a, zero, idle
        self._powers = powers(b, a)
        self._s = Columns(next=(np.int64, (), LOW), z=(dtype, (width, *b.shape), 0))
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """An output for each sample."""
        from everfresh.signals.kernels import filters

        flow = flows[0]
        out = np.empty_like(flow.values)
        filters.recursive(
            step.slots,
            flow.offsets,
            flow.at,
            flow.values,
            self._b,
            self._a,
            self._powers,
            LONGEST,
            self._idle,
            self._zero,
            self._s["next"],
            self._s["z"],
            out,
        )
        return Flow(flow.offsets, flow.at, out, flow.progress)


def powers(b: Array, a: Array) -> Array:
    """The matrix of a step without input, and its powers 2, 4, 8, ..."""
    sections, terms = b.shape
    n = sections * terms
    one = np.zeros((n, n))
    for column in range(n):
        z = np.zeros(n)
        z[column] = 1.0
        z = z.reshape(sections, terms)
        y = 0.0
        for s in range(sections):
            x, y = y, b[s, 0] * y + z[s, 0]
            for i in range(terms - 1):
                z[s, i] = (b[s, i + 1] * x + z[s, i + 1]) - a[s, i + 1] * y
            z[s, -1] = 0.0
        one[:, column] = z.reshape(-1)
    found = [one]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(62):
            found.append(found[-1] @ found[-1])
    return np.array(found)


class UserFilter(Operator):
    """Figure 7.6: a user's function of the newest inputs and of its own newest outputs, oldest first."""

    def __init__(
        self,
        source: int,
        function: Callable[..., Any],
        forward: int,
        backward: int,
        zero: bool,
        width: int,
        dtype: Any,
        idle: int = END,
    ) -> None:
        from everfresh.signals.kernels.user import filter_kernel

        super().__init__((source,))
        self._longest = min(LONGEST, idle - 1)
        self._kernel = filter_kernel(function)
        self._zero = zero
        self._s = Columns(
            next=(np.int64, (), LOW),
            count=(np.int64, (), 0),
            inputs=(dtype, (width, forward), 0),
            outputs=(dtype, (width, backward), 0),
        )
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """An output for each sample that has as many before it as the function takes, or zeros for them."""
        flow, s = flows[0], self._s
        ok, out = np.zeros(flow.rows, np.bool_), np.zeros_like(flow.values)
        self._kernel(
            step.slots, flow.offsets, flow.at, flow.values, self._longest, self._zero,
            s["next"], s["count"], s["inputs"], s["outputs"], ok, out,
        )  # fmt: skip
        made = Flow(flow.offsets, flow.at, out, flow.progress)
        return made if self._zero else made.kept(ok)
