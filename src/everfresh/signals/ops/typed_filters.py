"""Between values of a user's type, and recursive filters of them: what other operators do with numbers, by
the type's own sum, difference and multiples.

A recursive filter takes the next sample of all groups at once, so that its functions are called once for each
sample of the longest run, not of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.signals.nodes import PayloadType, Policy
from everfresh.signals.ops.filters import LONGEST, LOW, powers
from everfresh.signals.ops.typed import called, checked
from everfresh.signals.run.flow import Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns

Between = Callable[..., Array]
"""Of values by component and times in turn, as `signals.user` has it."""


def between(type_: PayloadType, policy: Policy) -> tuple[Between, Between | None]:
    """What a policy has between two values, and between the last two of three."""

    def line(v: Array, r: Array, w: Array, s: Array, t: Array) -> Array:
        part = (t - r).astype(np.float64) / (s - r).astype(np.float64)
        return called(type_, "plus", v, called(type_, "scale", part, called(type_, "minus", w, v)))

    def parabola(u: Array, q: Array, v: Array, r: Array, w: Array, s: Array, t: Array) -> Array:
        tq, tr, ts = ((t - each).astype(np.float64) for each in (q, r, s))
        rq, sq, sr = ((a - b).astype(np.float64) for a, b in ((r, q), (s, q), (s, r)))
        parts = ((tr * ts) / (rq * sq), -(tq * ts) / (rq * sr), (tq * tr) / (sq * sr))
        one, two, three = (called(type_, "scale", p, x) for p, x in zip(parts, (u, v, w), strict=True))
        return called(type_, "plus", called(type_, "plus", one, two), three)

    def given(function: Callable[..., Any]) -> Between:
        def call(*args: Array) -> Array:
            found = function(*(tuple(each) if each.ndim == 2 else each for each in args))
            return checked(type_, "user()", found, len(args[-1]))

        return call

    if policy.f2 is not None:
        return given(policy.f2.call), None if policy.f3 is None else given(policy.f3.call)
    return line, parabola if policy.name == "second_order" else None


class Recursive(Operator):
    """Sections of direct form II transposed. Samples that are missing are the neutral element; more than
    `LONGEST` of them are made by a power of the step."""

    def __init__(self, source: int, b: Array, a: Array, zero: bool, type_: PayloadType, idle: int) -> None:
        super().__init__((source,))
        self._b, self._a, self._zero, self._type, self._idle = b, a, zero, type_, idle
        self._powers = powers(b, a)
        self._none = np.array(type_.zero, np.float64)
        shape = (*b.shape, len(self._none))
        self._s = Columns(next=(np.int64, (), LOW), z=(np.float64, shape, np.broadcast_to(self._none, shape)))
        self.state = (self._s,)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """An output for each sample."""
        flow, s = flows[0], self._s
        out = np.empty(flow.values.shape)
        counts = np.diff(flow.offsets)
        order = np.argsort(-counts, kind="stable")
        first, many = flow.offsets[:-1][order], counts[order]
        for at in range(int(counts.max(initial=0))):
            mine = int(np.searchsorted(-many, -at))  # these groups have a row of this number
            rows, slots = first[:mine] + at, step.slots[order[:mine]]
            z = np.ascontiguousarray(np.moveaxis(s["z"][slots], 0, -1))
            self._pass(z, flow.at[rows], s["next"][slots])
            out[:, rows] = self._advance(z, np.ascontiguousarray(flow.values[:, rows]))
            s["z"][slots], s["next"][slots] = np.moveaxis(z, -1, 0), flow.at[rows] + 1
        return Flow(flow.offsets, flow.at, out, flow.progress)

    def _call(self, what: str, *args: Any) -> Array:
        return called(self._type, what, *args)

    def _advance(self, z: Array, x: Array) -> Array:
        """A step of all sections: `z[section, term]` are values, as x is; the last term stays neutral."""
        for section in range(len(z)):
            b, a, mine = self._b[section], self._a[section], z[section]
            y = self._call("plus", self._call("scale", b[0], x), mine[0])
            for i in range(len(mine) - 1):
                moved = self._call("plus", self._call("scale", b[i + 1], x), mine[i + 1])
                mine[i] = self._call("minus", moved, self._call("scale", a[i + 1], y))
            x = y
        return x

    def _pass(self, z: Array, at: Array, expected: Array) -> None:
        """What missing beats do before the samples."""
        gap = np.where(expected == LOW, 0, at - np.where(expected == LOW, 0, expected))
        anew = (gap > 0) & (gap >= self._idle) if self._zero else gap > 0
        z[..., anew] = self._none[:, None]
        gap[anew] = 0
        far = np.flatnonzero(gap > LONGEST)
        if len(far):
            z[..., far] = self._jumped(z[..., far], gap[far])
            gap[far] = 0
        for missing in range(int(gap.max(initial=0))):
            mine = np.flatnonzero(gap > missing)
            some = np.ascontiguousarray(z[..., mine])
            self._advance(some, np.repeat(self._none[:, None], len(mine), axis=1))
            z[..., mine] = some

    def _jumped(self, z: Array, steps: Array) -> Array:
        """The states after so many steps without samples."""
        flat = np.ascontiguousarray(z.reshape(-1, *z.shape[2:]))
        for k, matrix in enumerate(self._powers):
            mine = np.flatnonzero(steps >> k & 1)
            if not len(mine):
                continue
            before = np.ascontiguousarray(flat[..., mine])
            for i, row in enumerate(matrix):
                total = np.repeat(self._none[:, None], len(mine), axis=1)
                for j in np.flatnonzero(row):
                    total = self._call("plus", total, self._call("scale", row[j], before[j]))
                flat[i][:, mine] = total
        return flat.reshape(z.shape)
