"""Aggregates over hopping windows of samples: one number of each window, on the grid of the windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.signals import faults
from everfresh.signals.nodes import Agg
from everfresh.signals.ops.windows import Windows
from everfresh.signals.run.flow import END, Array, Flow, Step

_CODES = {"sum": 0, "mean": 0, "energy": 0, "power": 0, "min": 1, "max": 2}


class Aggregates(Windows):
    """See `everfresh.signals.kernels.aggregates`."""

    def __init__(
        self, source: int, agg: str | Agg, size: int, hop: int, zero: bool, width: int, dtype: Any, moved: int
    ) -> None:
        if isinstance(agg, str) and agg not in _CODES:
            raise EverfreshError(
                Code.NOT_FOUND, f"there is no aggregate '{agg}'", hint="aggregates are: " + ", ".join(_CODES)
            )
        self._squared = agg in ("energy", "power")
        if agg in ("min", "max") and np.dtype(dtype) == np.complex128:
            raise faults.type_(f"{agg}() of complex numbers, which have no order", "scale or select one part")
        kept = np.float64 if self._squared else dtype
        super().__init__(source, size, hop, zero, kept, (), width)
        self._agg, self._moved = agg, moved

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The windows that are decided, folded."""
        from everfresh.signals.kernels import aggregates

        flow = flows[0]
        if self._squared:
            values = flow.values
            squares = values.real**2 + values.imag**2 if np.iscomplexobj(values) else values**2
            flow = Flow(flow.offsets, flow.at, squares, flow.progress)
        cuts, which, at, lead, count = self.found(step, flow)
        out = np.empty((len(flow.values), len(which)), self._dtype)
        for c in range(len(out)):
            line = self._lines.arena[c]
            if isinstance(self._agg, Agg):
                agg = self._agg
                calls = [None if each is None else each.call for each in (agg.combine, agg.result)]
                run = aggregates.user_fold(agg.accumulate.call, *calls)
                run(which, at, lead, count, self.size, self.hop, agg.init, line, out[c])
                continue
            code, complex_ = _CODES[self._agg], np.iscomplexobj(line)
            for part, found in (
                ((line.real, out[c].real), (line.imag, out[c].imag)) if complex_ else ((line, out[c]),)
            ):
                aggregates.fold(cuts, which, at, lead, count, self.size, self.hop, code, part, found)
        if self._agg in ("mean", "power"):
            out /= self.size
        progress = self.settle(step)
        progress = np.where(progress >= END // self.hop, END, progress + self._moved)
        return Flow(cuts, which + self._moved, out, progress)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """As windows."""
        return super().when(slots, progress - self._moved)
