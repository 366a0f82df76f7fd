"""A query over signals as a tree of immutable nodes: what chapter 7 of the thesis calls the query.

A node is one operation on the signal of its first field; `everfresh.signals.text` prints the tree as the
calls that make it, and reads it back. Times, periods and spans are ticks. Functions that a user gave are
`Fn`: equal if they are the same object under the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everfresh.rewrite import Node, node


@dataclass(frozen=True)
class Fn:
    """A function that a user gave, by a name."""

    name: str
    call: Callable[..., Any]

    @staticmethod
    def of(call: Callable[..., Any] | Fn) -> Fn:
        """The function under its own name."""
        return call if isinstance(call, Fn) else Fn(getattr(call, "__name__", "function"), call)


@node
class Policy(Node):
    """How beats between two references are filled, if these are at most `window` ticks apart (None:
    always)."""

    name: str
    window: int | None = None
    value: float = 0.0
    causal: bool = False
    f2: Fn | None = None
    f3: Fn | None = None


@node
class PayloadType(Node):
    """A user's type of payloads; see `everfresh.signals.PayloadType`."""

    name: str
    zero: tuple[float, ...]
    plus: Fn
    minus: Fn
    times: Fn
    scale: Fn


@node
class Agg(Node):
    """A user's aggregate over windows; see `everfresh.signals.Aggregate`."""

    name: str
    init: float
    accumulate: Fn
    combine: Fn | None = None
    result: Fn | None = None
    deaccumulate: Fn | None = None


@node
class Reading(Node):
    """Rows of a table as events."""

    table: str
    time: str
    key: tuple[str, ...] = ()
    value: tuple[str, ...] = ()
    end: str | None = None
    duration: int | None = None
    where: str | None = None
    lateness: int = 0
    late: str = "refuse"
    order: str = "table"
    nan: str = "keep"
    overlap: bool = False
    unit: str = "us"
    deletes: str = "revise"
    idle: int | None = None
    retain: int | None = None
    type: PayloadType | None = None

    @property
    def timed(self) -> bool:
        """Whether rows are events: those of a reference table, which has no column of times, are none."""
        return self.time != ""


@node
class Viewed(Node):
    """The query of a signal view, read by another."""

    input: Node
    view: str


@node
class ToSignal(Node):
    """A stream whose events are asserted not to overlap."""

    input: Node


@node
class Snapshot(Node):
    """An aggregate over the events of a stream that are valid at one time."""

    input: Node
    agg: str


@node
class Lifetime(Node):
    """Events at other times."""

    input: Node
    shift: int = 0
    duration: int | None = None


@node
class UntilNext(Node):
    """A point lasts until the next of its group, at most `max` ticks."""

    input: Node
    max: int


@node
class Union(Node):
    """The events of two streams."""

    input: Node
    right: Node


@node
class AntiJoin(Node):
    """The parts of lifetimes in which the right signal has no event."""

    input: Node
    right: Node


@node
class AsofLeft(Node):
    """Each event with the latest on the right at or before its start."""

    input: Node
    right: Node
    kind: str = "left"


@node
class JoinReference(Node):
    """Each event with the row of its group in a reference table."""

    input: Node
    right: Reading
    kind: str = "inner"


@node
class Where(Node):
    """The events that satisfy a condition."""

    input: Node
    condition: str


@node
class Select(Node):
    """Other values, by expressions."""

    input: Node
    names: tuple[str, ...]
    expressions: tuple[str, ...]


@node
class Function(Node):
    """Values are a function of time and of the columns, taken where the signal is sampled. Of several
    functions the column `choose` has the number of an event's own."""

    input: Node
    functions: tuple[Fn, ...]
    columns: tuple[str, ...]
    choose: str | None = None


@node
class Scale(Node):
    """Values times a number, plus another; or divided by one."""

    input: Node
    by: float | complex = 1.0
    add: float | complex = 0.0
    over: float | complex = 1.0


@node
class Shift(Node):
    """The signal later by so many ticks."""

    input: Node
    ticks: int


@node
class Combine(Node):
    """A signal and another, where both have a value: `plus`, `minus`, `times`, `divide`."""

    input: Node
    right: Node
    op: str
    align: str = "shift"


@node
class AsUniform(Node):
    """Points that are asserted to lie on a grid."""

    input: Node
    period: int
    offset: int = 0


@node
class Sample(Node):
    """The signal at the beats of a grid."""

    input: Node
    period: int
    offset: int = 0
    interpolate: Policy | None = None


@node
class Resample(Node):
    """A uniform signal at the beats of another grid."""

    input: Node
    period: int
    offset: int = 0
    interpolate: Policy | None = None


@node
class Downsample(Node):
    """Each n-th sample, by absolute index."""

    input: Node
    n: int
    phase: int = 0


@node
class Polyphase(Node):
    """`up` times as many samples through a filter, and each `down`-th of them: no zeros are made."""

    input: Node
    up: int
    down: int
    taps: tuple[float | complex, ...]


@node
class Session(Node):
    """Events that follow each other within a gap, as one."""

    input: Node
    gap: int


@node
class Fir(Node):
    """`y[n] = sum b[i] x[n - i]`."""

    input: Node
    b: tuple[float | complex, ...]
    missing: str = "zero"
    method: str = "auto"
    tail: bool = False


@node
class Iir(Node):
    """A recursive filter, with SciPy's names and signs."""

    input: Node
    b: tuple[float, ...]
    a: tuple[float, ...]
    missing: str = "zero"


@node
class Sos(Node):
    """A recursive filter in second-order sections."""

    input: Node
    sections: tuple[tuple[float, ...], ...]
    missing: str = "zero"


@node
class Filter(Node):
    """A user's filter over the newest inputs and its own newest outputs (Figure 7.6)."""

    input: Node
    function: Fn
    forward: int
    backward: int = 0
    missing: str = "zero"


@node
class Hopping(Node):
    """An aggregate over windows: `sum`, `mean`, `power`, `energy`, `min`, `max`, or a user's."""

    input: Node
    agg: str | Agg
    size: int
    hop: int
    missing: str = "skip"
    align: str = "index"


@node
class Window(Node):
    """The arrays of the samples in windows. They end at multiples of the hop, by absolute index, or with
    `align="first"` by the index from each group's first sample on."""

    input: Node
    size: int
    hop: int
    missing: str = "skip"
    align: str = "index"


@node
class Fft(Node):
    """The discrete Fourier transform of each window, or some of its bins; `method`: made anew, or from that
    of the window before."""

    input: Node
    bins: tuple[int, ...] | None = None
    method: str = "auto"


@node
class Ifft(Node):
    """The inverse transform of each window."""

    input: Node


@node
class Multiply(Node):
    """Each window times a vector: a taper."""

    input: Node
    vector: tuple[float | complex, ...]
    name: str = ""


@node
class MapWindows(Node):
    """A function of the windows: `(m, W)` to `(m, size)`."""

    input: Node
    function: Fn
    size: int | None = None
    half: bool = False


@node
class Apply(Node):
    """An operator of a user that makes windows from those before, or anew."""

    input: Node
    recompute: Fn
    update: Fn
    size: int | None = None


@node
class Autocorrelate(Node):
    """The correlation of each window with itself at all lags."""

    input: Node


@node
class CrossCorrelate(Node):
    """The correlation of windows with those of equal stamp of another signal."""

    input: Node
    right: Node


@node
class ReduceWindows(Node):
    """One number of each window: a uniform signal."""

    input: Node
    function: Fn


@node
class Unwindow(Node):
    """Windows back on the time axis, merged by an aggregate where they overlap."""

    input: Node
    agg: str | None = None
    size: int | None = None
    normalize: bool = False
