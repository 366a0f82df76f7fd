"""Windowed signals: arrays at hop points, spectra, and back to samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import Node
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.aggregate import WindowOperator
from everfresh.signals.kinds import WINDOWED, kind_of, slides
from everfresh.signals.queries.base import Query
from everfresh.signals.queries.quantities import numbers, whole

if TYPE_CHECKING:
    from everfresh.signals.queries.uniform import Uniform


class Windowed(Query):
    """Arrays at hop points: the samples of windows, or what was made of them."""

    kind = WINDOWED

    def fft(self, bins: Sequence[int] | None = None, method: str = "auto") -> Windowed:
        """The discrete Fourier transform of each window, or some of its bins. Where few bins of windows that
        overlap much are asked for they are made from those of the window before; `method` says so, or
        `"fft"` or `"sliding"`. What was made so cannot be transformed back."""
        if method not in ("auto", "fft", "sliding"):
            raise EverfreshError(Code.ARGUMENT, f"method={method!r} is none of 'auto', 'fft', 'sliding'")
        chosen = None if bins is None else tuple(whole(each, "bins") for each in bins)
        if chosen is not None and (not chosen or min(chosen) < 0):
            raise EverfreshError(Code.ARGUMENT, "bins= are numbers from 0 on, and one at least")
        made = n.Fft(self.node, chosen, method)
        if method == "sliding" and not slides(made):
            raise faults.kind(
                "fft(method='sliding')", "what was made of windows", "windows", "it goes behind window()"
            )
        return self._with(made)

    def ifft(self) -> Windowed:
        """The inverse transform."""
        if any(isinstance(each, n.Fft) and _partial(each) for each in _chain(self)):
            raise faults.kind(
                "ifft",
                "some bins, or a sliding transform",
                "whole spectra that are made anew",
                "fft() is one",
            )
        return self._with(n.Ifft(self.node))

    def taper(self, name: str) -> Windowed:
        """Windows times a taper of SciPy's: `hann`, `hamming`, `blackman`, ..."""
        from scipy.signal import get_window

        from everfresh.signals.kinds import window_of

        size = window_of(self.node).size
        try:
            vector = get_window(name, size)
        except ValueError as problem:
            raise EverfreshError(Code.NOT_FOUND, f"there is no taper '{name}': {problem}") from None
        return self._with(n.Multiply(self.node, tuple(vector.tolist()), name))

    def multiply(self, vector: Sequence[float | complex]) -> Windowed:
        """Each window times a vector."""
        return self._with(n.Multiply(self.node, numbers(vector, "vector")))

    def map(self, function: Callable[[Any], Any], size: int | None = None, half: bool = False) -> Windowed:
        """`function` of an `(m, W)` array of windows gives one of `(m, size)`. `half`: of spectra of real
        windows it sees the first half, and `ifft()` gives real windows."""
        return self._with(n.MapWindows(self.node, n.Fn.of(function), _size(size), half))

    def apply(self, operator: WindowOperator) -> Windowed:
        """An operator that updates what it made of the window before, if it can and stands behind `window()`;
        else it recomputes."""
        if operator.update is None or not isinstance(self.node, n.Window):
            return self.map(operator.recompute, operator.size)
        made = n.Fn.of(operator.recompute), n.Fn.of(operator.update)
        return self._with(n.Apply(self.node, *made, _size(operator.size)))

    def autocorrelate(self) -> Windowed:
        """Each window with itself, at lags from -(W - 1) to W - 1."""
        return self._with(n.Autocorrelate(self.node))

    def cross_correlate(self, other: Windowed) -> Windowed:
        """Each window with the one of equal stamp of another signal."""
        if not isinstance(other, Windowed):
            raise faults.kind(
                "cross_correlate", "no windowed signal", "windowed signals", "window(size, hop)"
            )
        one, two = kind_of(self.node), kind_of(other.node)
        if (one.period, one.offset, one.moved) != (two.period, two.offset, two.moved):
            raise faults.period(
                f"windows every {one.period} ticks are correlated with windows every {two.period}",
                "give both the same period, offset and hop",
            )
        return self._with(n.CrossCorrelate(self.node, other.node))

    def reduce(self, function: Callable[[Any], Any]) -> Uniform:
        """`function` of an `(m, W)` array of windows gives m numbers: a uniform signal."""
        return self._with(n.ReduceWindows(self.node, n.Fn.of(function)))

    def unwindow(self, agg: str | None = None, size: int | None = None, normalize: bool = False) -> Uniform:
        """Back to samples: value j of a window of N goes to the j-th of the N indices before its end, merged
        by `sum`, `max`, `min` or `last`. `normalize` divides by the summed squared tapers."""
        if agg not in (None, "sum", "max", "min", "last"):
            raise EverfreshError(Code.ARGUMENT, f"unwindow({agg!r}) is none of 'sum', 'max', 'min', 'last'")
        apart = (n.CrossCorrelate, n.Apply)
        if any(
            isinstance(each, apart) or (isinstance(each, n.Fft) and _partial(each)) for each in _chain(self)
        ):
            raise faults.kind(
                "unwindow",
                "a correlation of two signals, or windows that are updated",
                "windows of one signal that are made anew",
                "reduce(f) gives a signal",
            )
        return self._with(n.Unwindow(self.node, agg, _size(size), normalize))

    def overlap_add(self, normalize: bool = False) -> Uniform:
        """`unwindow("sum")`."""
        return self.unwindow("sum", normalize=normalize)


def _size(given: int | None) -> int | None:
    return None if given is None else whole(given, "size")


def _partial(node: n.Fft) -> bool:
    """Whether a transform has some bins, or is made from the one before."""
    return node.bins is not None or slides(node)


def _chain(query: Query) -> list[Node]:
    """The operations from windows on."""
    found = [query.node]
    while not isinstance(found[-1], n.Window):
        found.append(found[-1].children[0])
    return found
