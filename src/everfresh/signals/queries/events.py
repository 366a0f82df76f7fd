"""Streams, and signals without a grid; and what signals of both kinds have."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.kinds import SIGNAL, STREAM, UNIFORM, kind_of
from everfresh.signals.queries.base import CALLED, Events, Q, Query, Ticks, ticks
from everfresh.signals.queries.policies import policy_of
from everfresh.signals.queries.quantities import number

if TYPE_CHECKING:
    from everfresh.signals.queries.uniform import Uniform


class Timed(Events):
    """What streams and signals of all kinds have."""

    def lifetime(self, shift: Ticks = 0, duration: Ticks | None = None) -> Any:
        """The events later by `shift`, or as long as `duration`: a stream, since they may overlap then."""
        length = None if duration is None else self._ticks(duration, "duration")
        if length is not None and length < 1:
            raise faults.period(f"duration {length} is not positive", "a point lasts one tick")
        later = self._ticks(shift, "shift")
        if length is None and kind_of(self.node).name == UNIFORM:
            return self._with(n.Shift(self.node, later))
        return self._with(n.Lifetime(self.node, later, length))

    def asof_left(self: Q, other: Events, kind: str = "left") -> Q:
        """Each event with the values of the latest of another signal that starts no later: a struct. Where
        there is none they are NaN, or with `kind="inner"` the event is left out."""
        if kind not in ("left", "inner"):
            raise EverfreshError(Code.ARGUMENT, f"asof_left(kind={kind!r}) is neither 'left' nor 'inner'")
        if not isinstance(other, Events):
            raise faults.kind("asof_left", CALLED[getattr(other, "kind", SIGNAL)], "signals",
                "unwindow() or reduce() makes a signal of windows")  # fmt: skip
        made: Q = self._with(n.AsofLeft(self.node, other.node, kind))
        return made

    def session(self, gap: Ticks) -> Signal:
        """Events that follow each other within `gap` ticks as one event, whose value is how many there
        were."""
        length = ticks(gap, self.unit, "gap")
        if length < 0:
            raise faults.period(f"session({length}) is negative", "the longest pause within a session")
        return self._with(n.Session(self.node, length))


class Stream(Timed):
    """Events whose lifetimes may overlap."""

    kind = STREAM

    def to_signal(self) -> Signal:
        """Assert that events of a group do not overlap; one that does is an error that names both."""
        if isinstance(self.node, n.Reading):
            values = {name: getattr(self.node, name) for name in self.node._field_names}
            return self._with(n.Reading(**{**values, "overlap": False}))
        return self._with(n.ToSignal(self.node))

    def aggregate(self, agg: str) -> Signal:
        """The `sum`, `count`, `mean`, `min` or `max` of the events that are valid at one time: a signal that
        is constant from one start or end to the next."""
        known = ("sum", "count", "mean", "min", "max")
        if agg not in known:
            raise EverfreshError(
                Code.ARGUMENT, f"aggregate({agg!r}) is none of {', '.join(map(repr, known))}"
            )
        return self._with(n.Snapshot(self.node, agg))


class Valued(Timed):
    """What signals and uniform signals have."""

    def to_signal(self: Q) -> Q:
        """It is one."""
        return self

    def anti_join(self, other: Valued) -> Signal:
        """The parts of lifetimes in which another signal has no event."""
        if not isinstance(other, Valued):
            raise faults.kind("anti_join", CALLED[getattr(other, "kind", SIGNAL)], "signals",
                "to_signal() makes a stream one")  # fmt: skip
        return self._with(n.AntiJoin(self.node, other.node))

    def until_next(self, max: Ticks) -> Signal:
        """Points that last until the next of their group, at most `max`: a signal of steps."""
        longest = self._ticks(max, "max")
        if longest < 1:
            raise faults.period(f"until_next({longest}) is not positive", "a point lasts one tick at least")
        return self._with(n.UntilNext(self.node, longest))

    def scale(self: Q, by: float | complex, add: float | complex = 0.0) -> Q:
        """Values times a number, plus another."""
        return self._with(n.Scale(self.node, number(by, "by"), number(add, "add")))

    def shift(self: Q, by: Ticks) -> Q:
        """The signal later by so many ticks."""
        return self._with(n.Shift(self.node, self._ticks(by, "shift")))

    def plus(self, other: Any, align: str = "shift") -> Any:
        """The sum with another signal where both have a value, or with a number."""
        return self._combined(other, "plus", align)

    def minus(self, other: Any, align: str = "shift") -> Any:
        """The difference."""
        return self._combined(other, "minus", align)

    def times(self, other: Any, align: str = "shift") -> Any:
        """The product."""
        return self._combined(other, "times", align)

    def divide(self, other: Any, align: str = "shift") -> Any:
        """The quotient."""
        return self._combined(other, "divide", align)

    __add__ = plus
    __sub__ = minus
    __mul__ = times
    __truediv__ = divide

    def __neg__(self: Q) -> Q:
        return self._with(n.Scale(self.node, -1.0))

    def __radd__(self, other: float) -> Any:
        return self.plus(other)

    def __rmul__(self, other: float) -> Any:
        return self.times(other)

    def __rsub__(self: Q, other: float) -> Q:
        return self._with(n.Scale(self.node, -1.0, number(other)))

    def _combined(self, other: Any, op: str, align: str) -> Any:
        if isinstance(other, Number):
            by = number(other)
            made = {
                "plus": (1.0, by), "minus": (1.0, -by), "times": (by, 0.0), "divide": (1.0, 0.0, by)
            }[op]  # fmt: skip
            return self._with(n.Scale(self.node, *made))
        if align not in ("shift", "resample", "strict"):
            raise EverfreshError(Code.ARGUMENT, f"align={align!r} is none of 'shift', 'resample', 'strict'")
        if isinstance(other, Query) and kind_of(other.node).name not in (SIGNAL, UNIFORM):
            raise faults.kind(
                op, CALLED[other.kind], "signals",
                "to_signal() makes a stream one",
            )  # fmt: skip
        return self._join(n.Combine(self.node, getattr(other, "node", self.node), op, align), other, op)


class Signal(Valued):
    """At most one event of a group is valid at any time."""

    kind = SIGNAL

    def sample(self, period: Ticks, offset: Ticks = 0, interpolate: n.Policy | None = None) -> Uniform:
        """The signal at the beats of a grid; `interpolate` fills beats between references."""
        return self._with(n.Sample(self.node, *grid(self, period, offset), policy_of(self, interpolate)))

    def as_uniform(self, period: Ticks, offset: Ticks = 0) -> Uniform:
        """Assert that all events lie on a grid; one that does not is an error."""
        return self._with(n.AsUniform(self.node, *grid(self, period, offset)))


def grid(signal: Query, period: Ticks, offset: Ticks) -> tuple[int, int]:
    """A grid that a user gave, in ticks."""
    length = ticks(period, signal.unit, "period")
    if length <= 0:
        raise faults.period(f"period {length} is not positive", "a grid has beats at k * period + offset")
    return length, ticks(offset, signal.unit, "offset")
