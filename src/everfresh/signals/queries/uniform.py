"""Uniform signals: filters, aggregates over windows, other grids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.kinds import UNIFORM, kind_of
from everfresh.signals.queries.base import Ticks
from everfresh.signals.queries.events import Valued, grid
from everfresh.signals.queries.policies import policy_of
from everfresh.signals.queries.quantities import numbers, reals, whole

if TYPE_CHECKING:
    from everfresh.signals.aggregate import Aggregate
    from everfresh.signals.queries.windowed import Windowed


class Uniform(Valued):
    """Samples at the beats of a grid."""

    kind = UNIFORM

    @property
    def period(self) -> int:
        """Ticks between beats."""
        return kind_of(self.node).period

    @property
    def offset(self) -> int:
        """The first beat at or after time 0."""
        return kind_of(self.node).offset

    def resample(
        self, period: Ticks, offset: Ticks = 0, interpolate: n.Policy | EllipsisType | None = ...
    ) -> Uniform:
        """The samples as references of another grid; the policy is the signal's own if none is given. Without
        one (None) there are samples at beats that both grids have."""
        own = kind_of(self.node).policy
        policy = own if isinstance(interpolate, EllipsisType) else policy_of(self, interpolate)
        return self._with(n.Resample(self.node, *grid(self, period, offset), policy))

    def sample(self, period: Ticks, offset: Ticks = 0, interpolate: n.Policy | None = None) -> Uniform:
        """`resample` by the policy that is given, and not by the signal's own."""
        return self.resample(period, offset, interpolate)

    def upsample(self, factor: int) -> Uniform:
        """`factor` times as many samples, by the signal's own policy."""
        period, offset, factor = self.period, self.offset, whole(factor, "factor")
        if factor < 1 or period % factor:
            raise faults.period(
                f"upsample({factor}) of period {period}: the period is no multiple of {factor}",
                "resample(period) takes any period",
            )
        return self._with(n.Resample(self.node, period // factor, offset, kind_of(self.node).policy))

    def downsample(self, factor: int, phase: int = 0) -> Uniform:
        """Every `factor`-th sample, those with absolute index `factor * k + phase`."""
        factor, phase = whole(factor, "factor"), whole(phase, "phase")
        if factor < 1 or not 0 <= phase < factor:
            raise faults.period(
                f"downsample({factor}, phase={phase}): the phase is not from 0 to {factor - 1}",
                "a factor is at least 1, a phase less than it",
            )
        return self._with(n.Downsample(self.node, factor, phase))

    def decimate(self, factor: int, taps: Sequence[float]) -> Uniform:
        """A filter, and then every `factor`-th sample."""
        return self.filter_fir(taps).downsample(factor)

    def resample_poly(self, up: int, down: int, taps: Sequence[float | complex]) -> Uniform:
        """`up` times as many samples through a filter, and each `down`-th of them, as SciPy's
        `upfirdn(taps, x, up, down)`: causal, and stamped with the newest sample that was used, on the finer
        grid. There is an output where that sample is."""
        up, down = whole(up, "up"), whole(down, "down")
        if up < 1 or down < 1 or self.period * down % up:
            raise faults.period(
                f"resample_poly({up}, {down}) of period {self.period}: {self.period} * {down} ticks are no "
                f"multiple of {up}",
                "both are at least 1, and the new period is whole ticks",
            )
        return self._with(n.Polyphase(self.node, up, down, numbers(taps, "taps")))

    def as_uniform(self, period: Ticks, offset: Ticks = 0) -> Uniform:
        """It is uniform: refused if its grid is another."""
        wanted, at = grid(self, period, offset)
        if (wanted, at % wanted) != (self.period, self.offset):
            raise faults.period(
                f"the signal has period {self.period} and offset {self.offset}, and not {wanted} and "
                f"{at % wanted}",
                "resample(period, offset) gives it another grid",
            )
        return self

    def filter_fir(
        self, b: Sequence[float | complex], missing: str = "zero", method: str = "auto", tail: bool = False
    ) -> Uniform:
        """`y[n] = sum b[i] x[n - i]`: SciPy's `lfilter(b, 1, x)`. Samples that are missing are zeros, or with
        `missing="skip"` begin the history anew. `tail` gives outputs behind a run as well, as long as one of
        its samples is in reach: all of `np.convolve`."""
        if tail and (missing != "zero" or method != "auto"):
            raise EverfreshError(Code.ARGUMENT, "tail=True goes with missing='zero' and method='auto'")
        if method not in ("auto", "direct", "fft"):
            raise EverfreshError(Code.ARGUMENT, f"method={method!r} is none of 'auto', 'direct', 'fft'")
        return self._with(n.Fir(self.node, numbers(b, "b"), _missing(missing), method, tail))

    convolve = filter_fir

    def correlate(self, a: Sequence[float | complex], missing: str = "zero") -> Uniform:
        """The dot product of `a` with the newest samples, oldest first: `sum x[n - K + 1 + i] conj(a[i])`."""
        taps = tuple(x.conjugate() if isinstance(x, complex) else x for x in reversed(numbers(a, "a")))
        return self._with(n.Fir(self.node, taps, _missing(missing)))

    def filter_iir(
        self,
        b: Sequence[float] | None = None,
        a: Sequence[float] | None = None,
        missing: str = "zero",
        *,
        feed_forward: Sequence[float] | None = None,
        feed_backward: Sequence[float] | None = None,
    ) -> Uniform:
        """SciPy's `lfilter(b, a, x)`; or by the coefficients of the thesis, which adds what is fed back."""
        if b is None:
            fed = () if feed_backward is None else reals(feed_backward, "feed_backward")
            b, a = feed_forward, (1.0, *(-x for x in fed))
        forward, backward = (() if x is None else reals(x, name) for x, name in ((b, "b"), (a, "a")))
        if not forward or not backward or backward[0] == 0.0:
            raise EverfreshError(Code.ARGUMENT, "filter_iir() takes b and a, or feed_forward, feed_backward")
        return self._with(n.Iir(self.node, forward, backward, _missing(missing)))

    def filter_sos(self, sos: Any, missing: str = "zero") -> Uniform:
        """SciPy's `sosfilt(sos, x)`: second-order sections."""
        rows = tuple(reals(row, "sos") for row in sos)
        if not rows or any(len(row) != 6 or row[3] != 1.0 for row in rows):
            raise EverfreshError(Code.ARGUMENT, "filter_sos() takes rows b0, b1, b2, 1, a1, a2")
        return self._with(n.Sos(self.node, rows, _missing(missing)))

    def filter(
        self, function: Callable[..., Any], forward: int, backward: int = 0, missing: str = "zero"
    ) -> Uniform:
        """`function(inputs, outputs)`: of the newest inputs and its newest outputs, oldest first. It is
        compiled (Figure 7.6)."""
        forward, backward = whole(forward, "forward"), whole(backward, "backward")
        if forward < 1 or backward < 0:
            raise EverfreshError(Code.ARGUMENT, "a filter has at least one input, and no less than 0 outputs")
        return self._with(n.Filter(self.node, n.Fn.of(function), forward, backward, _missing(missing)))

    def aggregate(
        self, agg: str | Aggregate, size: int, hop: int, missing: str = "skip", align: str = "index"
    ) -> Uniform:
        """An aggregate over the windows that `window` makes."""
        made = agg if isinstance(agg, str) else agg.node()
        return self._with(n.Hopping(self.node, made, *_windows(size, hop), _missing(missing), _align(align)))

    def sum(self, size: int, hop: int, missing: str = "skip", align: str = "index") -> Uniform:
        """The sum of each window."""
        return self.aggregate("sum", size, hop, missing, align)

    def mean(self, size: int, hop: int, missing: str = "skip", align: str = "index") -> Uniform:
        """The mean of each window."""
        return self.aggregate("mean", size, hop, missing, align)

    def power(self, size: int, hop: int, missing: str = "skip", align: str = "index") -> Uniform:
        """The mean of the squared magnitudes."""
        return self.aggregate("power", size, hop, missing, align)

    def energy(self, size: int, hop: int, missing: str = "skip", align: str = "index") -> Uniform:
        """The sum of the squared magnitudes."""
        return self.aggregate("energy", size, hop, missing, align)

    def min(self, size: int, hop: int, missing: str = "skip", align: str = "index") -> Uniform:
        """The least value of each window."""
        return self.aggregate("min", size, hop, missing, align)

    def max(self, size: int, hop: int, missing: str = "skip", align: str = "index") -> Uniform:
        """The greatest value of each window."""
        return self.aggregate("max", size, hop, missing, align)

    def window(self, size: int, hop: int, missing: str = "skip", align: str = "index") -> Windowed:
        """The samples in windows of `size` that end at each multiple of `hop`. A window with a missing sample
        is skipped, or with `missing="zero"` has zeros. Multiples are of the absolute index, or with
        `align="first"` of the index from each group's first sample on; what is made of windows is then on the
        grid of the samples."""
        return self._with(n.Window(self.node, *_windows(size, hop), _missing(missing), _align(align)))


def _missing(given: str) -> str:
    if given not in ("zero", "skip"):
        raise EverfreshError(Code.ARGUMENT, f"missing={given!r} is neither 'zero' nor 'skip'")
    return given


def _align(given: str) -> str:
    if given not in ("index", "first"):
        raise EverfreshError(Code.ARGUMENT, f"align={given!r} is neither 'index' nor 'first'")
    return given


def _windows(size: int, hop: int) -> tuple[int, int]:
    size, hop = whole(size, "size"), whole(hop, "hop")
    if size < 1 or hop < 1:
        raise faults.period(f"windows of {size} samples every {hop}", "both are at least 1")
    return size, hop
