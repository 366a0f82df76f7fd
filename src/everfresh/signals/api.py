"""The fluent calls by which a query over signals is made, as close to Listing 7.1 of the thesis as Python is.

Four kinds: a `Stream` (lifetimes may overlap), a `Signal`, a `Uniform` one on a grid, a `Windowed` one with
arrays. Each call gives a new query; a call that a kind lacks is refused with the step that leads there.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import Node
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.kinds import SIGNAL, STREAM, UNIFORM, WINDOWED, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from everfresh.options import Options
    from everfresh.signals.aggregate import Aggregate

Ticks = int | str | dt.timedelta
Q = TypeVar("Q", bound="Query")

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_CALLED = {
    STREAM: "a stream",
    SIGNAL: "a signal without a grid",
    UNIFORM: "a uniform signal",
    WINDOWED: "a windowed signal",
}
_DAY = 24 * 3600 * 10**9


def ticks(value: Ticks, unit: str, what: str) -> int:
    """A span in ticks: a number of them, a timedelta, or text.

    >>> ticks("100 ms", "us", "period"), ticks(dt.timedelta(seconds=1), "ms", "period")
    (100000, 1000)
    """
    if isinstance(value, bool) or not isinstance(value, int | str | dt.timedelta):
        raise faults.period(
            f"{what} is {value!r}, which is no span of time",
            "a whole number of ticks, a timedelta, or text like '100 ms'",
        )
    if isinstance(value, int):
        return value
    if isinstance(value, dt.timedelta):
        nanos = (value.days * 86400 + value.seconds) * 10**9 + value.microseconds * 1000
    else:
        found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*(ns|us|ms|s|min|h|d)\s*", value)
        if found is None:
            raise faults.period(f"{what} '{value}' is no span of time", "for example '100 ms' or '2 h'")
        whole, _, part = found[1].partition(".")
        scale = _DAY if found[2] == "d" else _UNITS[found[2]]
        nanos = int(whole + part) * scale // 10 ** len(part)
        if int(whole + part) * scale % 10 ** len(part):
            raise faults.period(f"{what} '{value}' is less than a nanosecond", "give whole nanoseconds")
    one = _DAY if unit == "d" else _UNITS[unit]
    if nanos % one:
        raise faults.period(
            f"{what} '{value}' is not a whole number of ticks, which are of 1 {unit}",
            "give a multiple of the tick, or read times of a finer unit",
        )
    return nanos // one


def reading(
    table: str,
    *,
    time: str,
    key: str | Sequence[str] | None = None,
    value: str | Sequence[str] | None = None,
    end: str | None = None,
    duration: Ticks | None = None,
    where: str | None = None,
    lateness: Ticks = 0,
    late: str = "refuse",
    order: str = "table",
    nan: str = "keep",
    overlap: bool = False,
    unit: str = "us",
) -> Any:
    """Rows of a table as a signal, or with `overlap=True` as a stream. `value` is `"value"` if not given."""
    for name, given, allowed in (
        ("late", late, ("refuse", "drop")),
        ("order", order, ("table", "group")),
        ("nan", nan, ("keep", "missing")),
        ("unit", unit, (*_UNITS, "d")),
    ):
        if given not in allowed:
            raise EverfreshError(
                Code.ARGUMENT, f"{name}={given!r} is none of {', '.join(map(repr, allowed))}", place="reading"
            )
    if end is not None and duration is not None:
        raise EverfreshError(Code.ARGUMENT, "end= and duration= are given, and one of them is enough")
    length = None if duration is None else ticks(duration, unit, "duration")
    if length is not None and length < 1:
        raise faults.period(f"duration {length} is not positive", "a point lasts one tick")
    waits = ticks(lateness, unit, "lateness")
    if waits < 0:
        raise faults.period(f"lateness {waits} is negative", "0 refuses what is late")
    node = n.Reading(
        table, time, _names(key), _names("value" if value is None else value), end, length, where, waits,
        late, order, nan, overlap, unit,
    )  # fmt: skip
    return query(node)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def query(node: Node) -> Any:
    """The query of a node, of the class of its kind."""
    return _CLASSES[kind_of(node).name](node)


class Query:
    """What all kinds have."""

    kind: ClassVar[str]

    def __init__(self, node: Node) -> None:
        self.node = node

    def __str__(self) -> str:
        from everfresh.signals.text import to_text

        return to_text(self.node)

    def __repr__(self) -> str:
        return f"<{self.kind}: {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)

    def __getattr__(self, name: str) -> Any:
        for kind, step in _STEPS:
            if kind is not type(self) and name in vars(kind) and not name.startswith("_"):
                raise faults.kind(name, _CALLED[self.kind], *step)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    @property
    def unit(self) -> str:
        """The unit of ticks."""
        return next(each.unit for each in self.node.walk() if isinstance(each, n.Reading))

    def _ticks(self, value: Ticks, what: str) -> int:
        return ticks(value, self.unit, what)

    def run(self, rows: Any, options: Options | None = None) -> pa.Table:
        """The query over rows at hand: an Arrow table or a DataFrame, or several by the names of tables."""
        from everfresh.signals.run.offline import run

        return run(self.node, rows, options)

    def explain(self) -> str:
        """What is done, what can be updated, and when a result is final."""
        from everfresh.signals.explain import explain

        return explain(self.node)


class _Events(Query):
    """What streams and signals have."""

    def where(self: Q, condition: str) -> Q:
        """The events that satisfy a condition over the values."""
        return type(self)(n.Where(self.node, condition))

    def select(self: Q, **expressions: str) -> Q:
        """Other values, by expressions over the values."""
        if not expressions:
            raise EverfreshError(Code.ARGUMENT, "select() is given nothing to select")
        return type(self)(n.Select(self.node, tuple(expressions), tuple(expressions.values())))

    def _join(self, made: Node, other: Query, what: str) -> Any:
        if not isinstance(other, Query):
            raise EverfreshError(Code.ARGUMENT, f"{what}() is given a {type(other).__name__} and no signal")
        return query(made)

    def function(
        self: Q, function: Callable[..., Any] | Sequence[Callable[..., Any]], *columns: str,
        choose: str | None = None,
    ) -> Q:  # fmt: skip
        """Values as a function of time and columns, evaluated where the signal is sampled. `f(t, a, b)` is
        given arrays. Of several functions, the value `choose` is the number of each event's own."""
        several = (function,) if callable(function) else tuple(function)
        if len(several) != 1 and choose is None:
            raise EverfreshError(Code.ARGUMENT, "several functions need choose=, a column of their numbers")
        return type(self)(n.Function(self.node, tuple(map(n.Fn.of, several)), columns, choose))


class Stream(_Events):
    """Events whose lifetimes may overlap."""

    kind = STREAM

    def to_signal(self) -> Signal:
        """Assert that events of a group do not overlap; one that does is an error that names both."""
        if isinstance(self.node, n.Reading):
            values = {name: getattr(self.node, name) for name in self.node._field_names}
            return Signal(n.Reading(**{**values, "overlap": False}))
        return Signal(n.ToSignal(self.node))

    def lifetime(self, shift: Ticks = 0, duration: Ticks | None = None) -> Stream:
        """The events at other times."""
        length = None if duration is None else self._ticks(duration, "duration")
        if length is not None and length < 1:
            raise faults.period(f"duration {length} is not positive", "a point lasts one tick")
        return Stream(n.Lifetime(self.node, self._ticks(shift, "shift"), length))


class _Valued(_Events):
    """What signals and uniform signals have."""

    def scale(self: Q, by: float | complex, add: float | complex = 0.0) -> Q:
        """Values times a number, plus another."""
        return type(self)(n.Scale(self.node, _number(by), _number(add)))

    def shift(self: Q, by: Ticks) -> Q:
        """The signal later by so many ticks."""
        return type(self)(n.Shift(self.node, self._ticks(by, "shift")))

    def plus(self, other: Any, align: str = "shift") -> Any:
        """The sum with another signal where both have a value, or with a number."""
        return self._combined(other, "plus", align)

    def minus(self, other: Any, align: str = "shift") -> Any:
        """The difference."""
        return self._combined(other, "minus", align)

    def times(self, other: Any, align: str = "shift") -> Any:
        """The product."""
        return self._combined(other, "times", align)

    __add__ = plus
    __sub__ = minus
    __mul__ = times

    def __radd__(self, other: float) -> Any:
        return self.plus(other)

    def __rmul__(self, other: float) -> Any:
        return self.times(other)

    def __rsub__(self: Q, other: float) -> Q:
        return type(self)(n.Scale(self.node, -1.0, _number(other)))

    def _combined(self, other: Any, op: str, align: str) -> Any:
        if isinstance(other, int | float | complex):
            number = _number(other)
            made = {"plus": (1.0, number), "minus": (1.0, -number), "times": (number, 0.0)}[op]
            return type(self)(n.Scale(self.node, *made))
        if align not in ("shift", "resample", "strict"):
            raise EverfreshError(Code.ARGUMENT, f"align={align!r} is none of 'shift', 'resample', 'strict'")
        if isinstance(other, Query) and kind_of(other.node).name not in (SIGNAL, UNIFORM):
            raise faults.kind(
                op, _CALLED[other.kind], "signals",
                "to_signal() makes a stream one",
            )  # fmt: skip
        return self._join(n.Combine(self.node, getattr(other, "node", self.node), op, align), other, op)


def _number(value: Any) -> float | complex:
    if isinstance(value, bool) or not isinstance(value, int | float | complex):
        raise EverfreshError(Code.ARGUMENT, f"{value!r} is no number")
    return value if isinstance(value, complex) else float(value)


class Signal(_Valued):
    """At most one event of a group is valid at any time."""

    kind = SIGNAL

    def sample(self, period: Ticks, offset: Ticks = 0, interpolate: n.Policy | None = None) -> Uniform:
        """The signal at the beats of a grid; `interpolate` fills beats between references."""
        return Uniform(n.Sample(self.node, *_grid(self, period, offset), interpolate))

    def until_next(self, max: Ticks) -> Signal:
        """Points that last until the next of their group, at most `max`: a signal of steps."""
        longest = self._ticks(max, "max")
        if longest < 1:
            raise faults.period(f"until_next({longest}) is not positive", "a point lasts one tick at least")
        return Signal(n.UntilNext(self.node, longest))

    def asof_left(self, other: Signal) -> Signal:
        """Each event with the values of the latest of another signal that starts no later: a struct."""
        made = self._join(n.AsofLeft(self.node, other.node), other, "asof_left")
        assert isinstance(made, Signal)
        return made

    def as_uniform(self, period: Ticks, offset: Ticks = 0) -> Uniform:
        """Assert that all events lie on a grid; one that does not is an error."""
        return Uniform(n.AsUniform(self.node, *_grid(self, period, offset)))


def _grid(signal: Query, period: Ticks, offset: Ticks) -> tuple[int, int]:
    length = ticks(period, signal.unit, "period")
    if length <= 0:
        raise faults.period(f"period {length} is not positive", "a grid has beats at k * period + offset")
    return length, ticks(offset, signal.unit, "offset")


class Uniform(_Valued):
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

    def resample(self, period: Ticks, offset: Ticks = 0, interpolate: n.Policy | None = None) -> Uniform:
        """The samples as references of another grid; the policy is the signal's own if none is given."""
        policy = interpolate or kind_of(self.node).policy
        return Uniform(n.Resample(self.node, *_grid(self, period, offset), policy))

    def upsample(self, factor: int) -> Uniform:
        """`factor` times as many samples, by the signal's own policy."""
        period, offset = self.period, self.offset
        if factor < 1 or period % factor:
            raise faults.period(
                f"upsample({factor}) of period {period}: the period is no multiple of {factor}",
                "resample(period) takes any period",
            )
        return Uniform(n.Resample(self.node, period // factor, offset, kind_of(self.node).policy))

    def downsample(self, factor: int, phase: int = 0) -> Uniform:
        """Every `factor`-th sample, those with absolute index `factor * k + phase`."""
        if factor < 1 or not 0 <= phase < factor:
            raise faults.period(
                f"downsample({factor}, phase={phase}): the phase is not from 0 to {factor - 1}",
                "a factor is at least 1, a phase less than it",
            )
        return Uniform(n.Downsample(self.node, factor, phase))

    def decimate(self, factor: int, taps: Sequence[float]) -> Uniform:
        """A filter, and then every `factor`-th sample."""
        return self.filter_fir(taps).downsample(factor)

    def filter_fir(
        self, b: Sequence[float | complex], missing: str = "zero", method: str = "auto"
    ) -> Uniform:
        """`y[n] = sum b[i] x[n - i]`: SciPy's `lfilter(b, 1, x)`. Samples that are missing are zeros, or with
        `missing="skip"` begin the history anew."""
        if method not in ("auto", "direct", "fft"):
            raise EverfreshError(Code.ARGUMENT, f"method={method!r} is none of 'auto', 'direct', 'fft'")
        return Uniform(n.Fir(self.node, _taps(b), _missing(missing), method))

    convolve = filter_fir

    def correlate(self, a: Sequence[float | complex], missing: str = "zero") -> Uniform:
        """The dot product of `a` with the newest samples, oldest first: `sum x[n - K + 1 + i] conj(a[i])`."""
        taps = tuple(x.conjugate() if isinstance(x, complex) else x for x in reversed(_taps(a)))
        return Uniform(n.Fir(self.node, taps, _missing(missing)))

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
            b, a = feed_forward, (1.0, *(-float(x) for x in feed_backward or ()))
        if not b or not a or float(a[0]) == 0.0:
            raise EverfreshError(Code.ARGUMENT, "filter_iir() takes b and a, or feed_forward, feed_backward")
        return Uniform(n.Iir(self.node, _reals(b), _reals(a), _missing(missing)))

    def filter_sos(self, sos: Any, missing: str = "zero") -> Uniform:
        """SciPy's `sosfilt(sos, x)`: second-order sections."""
        rows = tuple(_reals(row) for row in sos)
        if not rows or any(len(row) != 6 or row[3] != 1.0 for row in rows):
            raise EverfreshError(Code.ARGUMENT, "filter_sos() takes rows b0, b1, b2, 1, a1, a2")
        return Uniform(n.Sos(self.node, rows, _missing(missing)))

    def filter(
        self, function: Callable[..., Any], forward: int, backward: int = 0, missing: str = "zero"
    ) -> Uniform:
        """`function(inputs, outputs)`: of the newest inputs and its newest outputs, oldest first. It is
        compiled (Figure 7.6)."""
        if forward < 1 or backward < 0:
            raise EverfreshError(Code.ARGUMENT, "a filter has at least one input, and no less than 0 outputs")
        return Uniform(n.Filter(self.node, n.Fn.of(function), forward, backward, _missing(missing)))

    def aggregate(self, agg: str | Aggregate, size: int, hop: int, missing: str = "skip") -> Uniform:
        """An aggregate over the windows of `size` samples that end at each multiple of `hop`."""
        made = agg if isinstance(agg, str) else agg.node()
        return Uniform(n.Hopping(self.node, made, *_windows(size, hop), _missing(missing)))

    def sum(self, size: int, hop: int, missing: str = "skip") -> Uniform:
        """The sum of each window."""
        return self.aggregate("sum", size, hop, missing)

    def mean(self, size: int, hop: int, missing: str = "skip") -> Uniform:
        """The mean of each window."""
        return self.aggregate("mean", size, hop, missing)

    def power(self, size: int, hop: int, missing: str = "skip") -> Uniform:
        """The mean of the squared magnitudes."""
        return self.aggregate("power", size, hop, missing)

    def energy(self, size: int, hop: int, missing: str = "skip") -> Uniform:
        """The sum of the squared magnitudes."""
        return self.aggregate("energy", size, hop, missing)

    def min(self, size: int, hop: int, missing: str = "skip") -> Uniform:
        """The least value of each window."""
        return self.aggregate("min", size, hop, missing)

    def max(self, size: int, hop: int, missing: str = "skip") -> Uniform:
        """The greatest value of each window."""
        return self.aggregate("max", size, hop, missing)

    def window(self, size: int, hop: int, missing: str = "skip") -> Windowed:
        """The samples in windows of `size` that end at each multiple of `hop`. A window with a missing sample
        is skipped, or with `missing="zero"` has zeros."""
        return Windowed(n.Window(self.node, *_windows(size, hop), _missing(missing)))


def _taps(given: Sequence[float | complex]) -> tuple[float | complex, ...]:
    found = tuple(x if isinstance(x, complex) else float(x) for x in given)
    if not found:
        raise EverfreshError(Code.ARGUMENT, "a filter has at least one coefficient")
    return found


def _reals(given: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(x) for x in given)


def _missing(given: str) -> str:
    if given not in ("zero", "skip"):
        raise EverfreshError(Code.ARGUMENT, f"missing={given!r} is neither 'zero' nor 'skip'")
    return given


def _windows(size: int, hop: int) -> tuple[int, int]:
    if size < 1 or hop < 1:
        raise faults.period(f"windows of {size} samples every {hop}", "both are at least 1")
    return size, hop


class Windowed(Query):
    """Arrays at hop points: the samples of windows, or what was made of them."""

    kind = WINDOWED

    def fft(self) -> Windowed:
        """The discrete Fourier transform of each window."""
        return Windowed(n.Fft(self.node))

    def ifft(self) -> Windowed:
        """The inverse transform."""
        return Windowed(n.Ifft(self.node))

    def taper(self, name: str) -> Windowed:
        """Windows times a taper of SciPy's: `hann`, `hamming`, `blackman`, ..."""
        from scipy.signal import get_window

        from everfresh.signals.kinds import window_of

        size = window_of(self.node).size
        try:
            vector = get_window(name, size)
        except ValueError as problem:
            raise EverfreshError(Code.NOT_FOUND, f"there is no taper '{name}': {problem}") from None
        return Windowed(n.Multiply(self.node, tuple(vector.tolist()), name))

    def multiply(self, vector: Sequence[float]) -> Windowed:
        """Each window times a vector."""
        return Windowed(n.Multiply(self.node, _reals(vector)))

    def map(self, function: Callable[[Any], Any], size: int | None = None, half: bool = False) -> Windowed:
        """`function` of an `(m, W)` array of windows gives one of `(m, size)`. `half`: of spectra of real
        windows it sees the first half, and `ifft()` gives real windows."""
        return Windowed(n.MapWindows(self.node, n.Fn.of(function), size, half))

    def autocorrelate(self) -> Windowed:
        """Each window with itself, at lags from -(W - 1) to W - 1."""
        return Windowed(n.Autocorrelate(self.node))

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
        return Windowed(n.CrossCorrelate(self.node, other.node))

    def reduce(self, function: Callable[[Any], Any]) -> Uniform:
        """`function` of an `(m, W)` array of windows gives m numbers: a uniform signal."""
        return Uniform(n.ReduceWindows(self.node, n.Fn.of(function)))

    def unwindow(self, agg: str | None = None, size: int | None = None, normalize: bool = False) -> Uniform:
        """Back to samples: value j of a window of N goes to the j-th of the N indices before its end, merged
        by `sum`, `max`, `min` or `last`. `normalize` divides by the summed squared tapers."""
        if agg not in (None, "sum", "max", "min", "last"):
            raise EverfreshError(Code.ARGUMENT, f"unwindow({agg!r}) is none of 'sum', 'max', 'min', 'last'")
        if any(isinstance(each, n.CrossCorrelate) for each in self.node.walk()):
            raise faults.kind(
                "unwindow",
                "a correlation of two signals",
                "windows of one signal",
                "reduce(f) gives a signal",
            )
        return Uniform(n.Unwindow(self.node, agg, size, normalize))

    def overlap_add(self, normalize: bool = False) -> Uniform:
        """`unwindow("sum")`."""
        return self.unwindow("sum", normalize=normalize)


_CLASSES: Mapping[str, type[Query]] = {
    STREAM: Stream, SIGNAL: Signal, UNIFORM: Uniform, WINDOWED: Windowed,
}  # fmt: skip
_STEPS: tuple[tuple[type[Query], tuple[str, str]], ...] = (
    (Signal, ("signals", "to_signal() makes a signal of a stream")),
    (Uniform, ("uniform signals", "sample(period, interpolate=...) or as_uniform(period) first")),
    (Windowed, ("windowed signals", "window(size, hop) first")),
    (Stream, ("streams", "a signal is read with overlap=True to be one")),
    (_Valued, ("signals", "to_signal() makes a signal of a stream")),
    (_Events, ("signals", "unwindow() or reduce() makes a signal of windows")),
)


# -- policies ------------------------------------------------------------------------------------------------


def constant(value: float, window: int | None = None) -> n.Policy:
    """Beats between references have a constant."""
    return n.Policy("constant", window, float(value))


def last(window: int | None = None, causal: bool = False) -> n.Policy:
    """The value of the reference before; `causal`: without waiting for the next, as long as `window`."""
    if causal and window is None:
        raise faults.period("last(causal=True) has no end without a window", "give window=")
    return n.Policy("last", window, causal=causal)


def zero_order(window: int | None = None) -> n.Policy:
    """The value of the nearer reference; in the middle that of the later."""
    return n.Policy("zero_order", window)


def first_order(window: int | None = None) -> n.Policy:
    """On the line through both references."""
    return n.Policy("first_order", window)


def second_order(window: int | None = None) -> n.Policy:
    """On the parabola through the last three references, on a line where there are two."""
    return n.Policy("second_order", window)


def user(f2: Callable[..., Any], f3: Callable[..., Any] | None = None, window: int | None = None) -> n.Policy:
    """`f2(v_r, r, v_s, s, t)` of arrays; with three references `f3(v_q, q, v_r, r, v_s, s, t)`."""
    return n.Policy("user", window, f2=n.Fn.of(f2), f3=None if f3 is None else n.Fn.of(f3))
