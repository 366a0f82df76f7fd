"""The sliding discrete Fourier transform: bins of a window from those of the one before, sample by sample.

`S_b` of the window one sample later is `(S_b + x_new - x_old) e^(2 pi i b / W)`, with exact factors. Errors
neither grow nor die but add up, so chains begin anew at absolute multiples of some windows, behind a window
that did not fire, and where what left would leave a trace: a value that is not finite, or one far above what
is in the window. All of that follows from the samples of the window and of the one before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.signals.kernels.compiled import compiled

Array = np.ndarray[Any, Any]
LOW = -(1 << 62)
SPIKE = 1e6
"""So many times the root mean square of a window, a value takes digits with it when it leaves."""


@compiled
def anchors(
    slots: Array,
    cuts: Array,
    which: Array,
    at: Array,
    lead: Array,
    count: Array,
    line: Array,
    size: int,
    hop: int,
    every: int,
    last_: Array,
    wild_: Array,
    anew: Array,
) -> None:
    """Which windows are made anew. `at`, `lead` and `count` are of windows longer by a hop: a window and what
    left it. The last window of each group is remembered, and its newest index that is not finite."""
    for g in range(slots.shape[0]):
        slot = slots[g]
        last, wild = last_[slot], wild_[slot]
        for w in range(cuts[g], cuts[g + 1]):
            k = which[w]
            follows = last != LOW and k == last + 1
            start = k * hop - size - hop  # the index of the longer window's first sample
            samples = line[at[w] : at[w] + count[w]]
            before = lead[w]
            came = size if follows else hop  # from here on nobody has looked
            new = 0.0
            for j in range(max(before, came), before + count[w]):
                x = abs(samples[j - before])
                if not np.isfinite(x):
                    wild = max(wild, start + j)
                new = max(new, x)
            made = not follows or k % every == 0 or hop >= size or wild >= start
            if not made:
                old = 0.0
                for j in range(before, min(hop, before + count[w])):
                    old = max(old, abs(samples[j - before]))
                if old * np.sqrt(float(size)) > SPIKE * new:
                    power = 0.0
                    for j in range(max(before, hop), before + count[w]):
                        x = abs(samples[j - before])
                        power += x * x
                    made = old > SPIKE * np.sqrt(power / size)
            anew[w] = made
            last = k
        last_[slot], wild_[slot] = last, wild


@compiled
def slide(
    slots: Array,
    cuts: Array,
    anew: Array,
    made: Array,
    at: Array,
    lead: Array,
    count: Array,
    line: Array,
    size: int,
    hop: int,
    cos: Array,
    sin: Array,
    real_: Array,
    imag_: Array,
    out: Array,
) -> None:
    """The bins of all windows: `made` has those that are made anew, in order."""
    bins = cos.shape[0]
    taken = 0
    for g in range(slots.shape[0]):
        slot = slots[g]
        re, im = real_[slot], imag_[slot]
        for w in range(cuts[g], cuts[g + 1]):
            if anew[w]:
                for b in range(bins):
                    re[b], im[b] = made[taken, b].real, made[taken, b].imag
                taken += 1
            else:
                samples = line[at[w] : at[w] + count[w]]
                before, stop = lead[w], lead[w] + count[w]
                for j in range(hop):
                    dr, di = 0.0, 0.0
                    if size + j >= before and size + j < stop:
                        x = samples[size + j - before]
                        dr, di = x.real, x.imag
                    if j >= before and j < stop:
                        x = samples[j - before]
                        dr, di = dr - x.real, di - x.imag
                    for b in range(bins):
                        p, q = re[b] + dr, im[b] + di
                        re[b] = p * cos[b] - q * sin[b]
                        im[b] = p * sin[b] + q * cos[b]
            row = out[w]
            for b in range(bins):
                row[b] = complex(re[b], im[b])
