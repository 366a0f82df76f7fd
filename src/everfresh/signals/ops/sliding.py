"""Spectra of windows that overlap, each from the one before (see `everfresh.signals.kernels.sliding`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from everfresh.signals.ops.updating import same
from everfresh.signals.ops.windows import CHUNK, LOW, Windows
from everfresh.signals.run.flow import Array, Flow, Operator, Step
from everfresh.signals.run.state import Columns


class Sliding(Operator):
    """Some bins of the transforms of windows."""

    def __init__(self, source: int, window: tuple[int, int, bool], dtype: Any, bins: Sequence[int]) -> None:
        super().__init__((source,))
        self._size, self._hop, _ = window
        self._windows = Windows(source, *window, dtype)
        self._longer = Windows(source, self._size + self._hop, self._hop, True, dtype)
        self._bins = np.array(bins, np.int64)
        self._every = -(-4 * self._size // self._hop)
        angle = 2.0 * np.pi * self._bins / self._size
        self._cos, self._sin = np.cos(angle), np.sin(angle)
        width = (len(self._bins),)
        self._s = Columns(
            last=(np.int64, (), LOW), wild=(np.int64, (), LOW),
            real=(np.float64, width, 0.0), imag=(np.float64, width, 0.0),
        )  # fmt: skip
        self.state = (*self._windows.state, *self._longer.state, self._s)

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The spectra of the windows that are decided."""
        from everfresh.signals.kernels import sliding

        slots, s = step.slots, self._s
        cuts, which, *places = self._windows.found(step, flows[0])
        long_cuts, longer, *others = self._longer.found(step, flows[0])
        out, anew = np.empty((len(which), len(self._bins)), np.complex128), np.empty(len(which), np.bool_)
        if len(which):
            group, long_group = (np.repeat(np.arange(len(slots)), np.diff(c)) for c in (cuts, long_cuts))
            at, lead, count = (each[same(group, which, long_group, longer)] for each in others)
            line = self._longer.samples
            sliding.anchors(
                slots, cuts, which, at, lead, count, line, self._size, self._hop, self._every, s["last"],
                s["wild"], anew,
            )  # fmt: skip
            made = self._made([each[anew] for each in places])
            sliding.slide(
                slots, cuts, anew, made, at, lead, count, line, self._size, self._hop, self._cos, self._sin,
                s["real"], s["imag"], out,
            )  # fmt: skip
        self._longer.settle(step)
        return Flow(cuts, which, out[None], self._windows.settle(step))

    def _made(self, places: list[Array]) -> Array:
        """The spectra of windows that are made anew."""
        from scipy import fft

        made = np.empty((len(places[0]), len(self._bins)), np.complex128)
        chunk = max(1, CHUNK // self._size)
        for i in range(0, len(made), chunk):
            at, lead, count = (each[i : i + chunk] for each in places)
            frames = self._windows.frames(at, lead, count)
            made[i : i + chunk] = fft.fft(frames)[:, self._bins]
        return made

    def due(self, slots: Array) -> Array | None:
        """As windows."""
        return self._windows.due(slots)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """As windows."""
        return self._windows.when(slots, progress)
