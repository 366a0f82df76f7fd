"""Arithmetic of payloads that users define (Figure 7.2 of the thesis): a neutral element, sum, difference,
product and multiples of values that are several numbers each.

Sums over windows begin with the neutral element and add from the oldest sample to the newest, all windows at
once; so bits do not depend on cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.signals import faults
from everfresh.signals.nodes import PayloadType
from everfresh.signals.ops.windows import CHUNK, Windows
from everfresh.signals.run.flow import END, Array, Flow, Step


def called(type_: PayloadType, what: str, *args: Any) -> Array:
    """One of the type's functions of values by component, and of numbers: one, or one for each value; what it
    gives is checked."""
    values = [isinstance(each, np.ndarray) and each.ndim == 2 for each in args]
    given = [tuple(each) if value else each for each, value in zip(args, values, strict=True)]
    found = getattr(type_, what).call(*given)
    return checked(type_, what, found, args[values.index(True)].shape[1])


def checked(type_: PayloadType, what: str, found: Any, rows: int) -> Array:
    """What a function gave for so many values, by component."""
    shape = (len(type_.zero), rows)
    try:
        made = np.array(np.broadcast_arrays(*found, np.empty(rows))[:-1], np.float64)
    except (TypeError, ValueError):
        made = np.empty(0)
    if made.shape != shape:
        raise faults.size(f"{what} of the payload type '{type_.name}'", np.shape(found), shape)
    return made


def combining(type_: PayloadType, what: str) -> Callable[[Array, Array], Array]:
    """`plus`, `minus` or `times` of samples."""
    return lambda a, b: called(type_, what, np.ascontiguousarray(a), np.ascontiguousarray(b))


class Folded(Windows):
    """Sums of windows, each sample times a number: of all windows that fire, or of those whose newest sample
    is there, as a filter has it."""

    def __init__(
        self,
        source: int,
        size: int,
        hop: int,
        zero: bool,
        type_: PayloadType,
        weights: Sequence[float] | None,
        filtered: bool,
        moved: int,
    ) -> None:
        super().__init__(source, size, hop, zero, np.float64, (), len(type_.zero) + 1)
        self._type, self._weights, self._filtered, self._moved = type_, weights, filtered, moved

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The sums, as samples."""
        flow = flows[0]
        given = np.concatenate([flow.values, np.ones((1, flow.rows))])  # the last says where samples are
        cuts, which, *places = self.found(step, Flow(flow.offsets, flow.at, given, flow.progress))
        out = np.empty((len(self._type.zero), len(which)))
        keep = np.ones(len(which), bool)
        chunk = max(1, CHUNK // self.size)
        for i in range(0, len(which), chunk):
            part = slice(i, i + chunk)
            out[:, part], last = self._summed([place[part] for place in places])
            keep[part] = last
        progress = self.settle(step)
        progress = np.where(progress >= END // self.hop, END, progress + self._moved)
        made = Flow(cuts, which + self._moved, out, progress)
        return made.kept(keep) if self._filtered else made

    def _summed(self, places: list[Array]) -> tuple[Array, Array]:
        zero = np.array(self._type.zero)
        at, lead, count = places
        frames = np.array([self.frames(at, lead, count, c) for c in range(len(zero) + 1)])
        there = frames[-1] != 0.0
        values = np.where(there, frames[:-1], zero[:, None, None])
        total = np.repeat(zero[:, None], len(there), axis=1)
        for j in range(self.size):
            x = np.ascontiguousarray(values[:, :, j])
            if self._weights is not None:
                x = np.where(there[:, j], called(self._type, "scale", self._weights[j], x), zero[:, None])
            total = called(self._type, "plus", total, x)
        return total, there[:, -1]

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """As windows."""
        return super().when(slots, progress - self._moved)
