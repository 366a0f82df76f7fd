"""Steps on windows: transforms, tapers, a user's functions. Each takes `(m, W)` and gives `(m, N)`, row by
row the same bits for any m."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from everfresh.rewrite import Node
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.run.flow import Array


class FrameStep(Protocol):
    """What is done with windows: `(m, W)` to `(m, N)`."""

    def __call__(self, frames: Array) -> Array:
        """The windows changed."""
        ...


def step_of(
    node: Node, steps: list[FrameStep], window: n.Window, size: int, dtype: Any
) -> tuple[list[FrameStep], int, Any]:
    """The steps with the one of a node behind them, and the size and type of what it makes."""
    half = bool(steps) and any(isinstance(each, Transform) and each.opens for each in steps)
    complex_ = np.dtype(np.complex128)
    match node:
        case n.Fft():
            made: list[FrameStep] = [*steps, Transform(False, False, size)]
            if node.bins is None:
                return made, size, complex_
            if max(node.bins) >= size:
                raise faults.bins(max(node.bins), size)
            return [*made, Chosen(node.bins)], len(node.bins), complex_
        case n.Ifft():
            if half:
                closed = [each.closed() if isinstance(each, Transform) else each for each in steps]
                return [*closed, Transform(True, True, window.size)], window.size, np.dtype(np.float64)
            return [*steps, Transform(True, False, size)], size, complex_
        case n.Multiply():
            if len(node.vector) != size:
                raise faults.size("multiply()", (len(node.vector),), (size,))
            vector = np.array(node.vector)
            return [*steps, Taper(vector)], size, np.result_type(dtype, vector)
        case n.Autocorrelate():
            return [*steps, Autocorrelation()], 2 * size - 1, dtype
        case n.MapWindows():
            if node.half:
                steps, size = _halved(steps, node, size)
            found = probe(node.function.name, node.function.call, size, dtype, node.size)
            wanted = size if node.size is None else node.size
            return [*steps, Mapped(node.function.name, node.function.call, wanted, found)], wanted, found
        case _:
            raise AssertionError(f"no step for {type(node).__name__}")


def _halved(steps: list[FrameStep], node: n.MapWindows, size: int) -> tuple[list[FrameStep], int]:
    last = steps[-1] if steps else None
    if not isinstance(last, Transform) or last.inverse or not isinstance(node.input, n.Fft):
        raise faults.kind("map", "no spectrum", "the spectrum of real windows", "half=True goes behind fft()")
    return [*steps[:-1], Transform(False, True, size)], size // 2 + 1


class Transform:
    """The discrete Fourier transform, or its inverse. `half`: of real windows only the first half, from which
    the rest follows."""

    def __init__(self, inverse: bool, half: bool, size: int) -> None:
        self.inverse, self._half, self._size = inverse, half, size
        self.opens = half and not inverse
        """Whether what follows sees half a spectrum."""

    def closed(self) -> Transform:
        """The same, once its inverse stands behind it."""
        made = Transform(self.inverse, self._half, self._size)
        made.opens = False
        return made

    def __call__(self, frames: Array) -> Array:
        """Transform each row."""
        from scipy import fft

        if self._half:
            found: Array = fft.irfft(frames, self._size) if self.inverse else fft.rfft(frames)
        else:
            found = fft.ifft(frames) if self.inverse else fft.fft(frames)
        return found


class Chosen:
    """Some values of each window."""

    def __init__(self, places: tuple[int, ...]) -> None:
        self._places = np.array(places, np.int64)

    def __call__(self, frames: Array) -> Array:
        """Choose in each row."""
        found: Array = frames[:, self._places]
        return found


class Taper:
    """Each window times a vector."""

    def __init__(self, vector: Array) -> None:
        self._vector = vector

    def __call__(self, frames: Array) -> Array:
        """Multiply each row."""
        found: Array = frames * self._vector
        return found


class Autocorrelation:
    """The correlation of each window of size W with itself, at lags from -(W - 1) to W - 1."""

    def __call__(self, frames: Array) -> Array:
        """Correlate each row."""
        return correlated(frames, frames)


def correlated(left: Array, right: Array) -> Array:
    """`sum left[i + lag] conj(right[i])` of each pair of rows, at lags from -(W - 1) to W - 1."""
    from scipy import fft

    size = left.shape[1] + right.shape[1] - 1
    n = fft.next_fast_len(size, True)
    if np.iscomplexobj(left) or np.iscomplexobj(right):
        found = fft.ifft(fft.fft(left, n) * np.conj(fft.fft(right, n)))
    else:
        found = fft.irfft(fft.rfft(left, n) * np.conj(fft.rfft(right, n)), n)
    before = right.shape[1] - 1
    made: Array = np.concatenate([found[:, n - before :], found[:, : left.shape[1]]], axis=1)
    return made


class Mapped:
    """A user's function of windows; what it returns is checked."""

    def __init__(self, name: str, function: Callable[[Array], Any], size: int, dtype: Any) -> None:
        self._name, self._function, self._size, self._dtype = name, function, size, dtype

    def __call__(self, frames: Array) -> Array:
        """Call it."""
        found = np.asarray(self._function(frames))
        if found.shape != (len(frames), self._size):
            raise faults.size(f"map({self._name})", found.shape, (len(frames), self._size))
        return found if found.dtype == self._dtype else found.astype(self._dtype)


def probe(name: str, function: Callable[[Array], Any], size: int, dtype: Any, declared: int | None) -> Any:
    """The type of what a function makes of windows, by calling it on two windows of zeros."""
    with np.errstate(all="ignore"):
        found = np.asarray(function(np.zeros((2, size), dtype)))
    expected = (2, size if declared is None else declared)
    if found.shape != expected:
        raise faults.size(f"map({name})", found.shape, expected)
    return np.dtype(np.complex128 if np.iscomplexobj(found) else np.float64)
