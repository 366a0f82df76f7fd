"""Operations on each row alone: conditions, expressions, numbers, other times, functions of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from everfresh.errors import EverfreshError
from everfresh.expr import Expr, Var, Vector, build, evaluate_vector, parse, satisfied, variables
from everfresh.signals import faults
from everfresh.signals.payload import Payload
from everfresh.signals.run.flow import END, Array, Flow, Operator, Step
from everfresh.types import BOOLEAN, DOUBLE


def expression(text: str, payload: Payload, what: str, condition: bool = False) -> Expr:
    """An expression over the components of a payload; a payload of one number is also called `value`."""
    if payload.complex:
        raise faults.type_(
            f"{what} takes an expression over real numbers, and the signal is complex",
            "scale(), plus() and times() work on complex signals",
        )
    names = {name: Var(name, DOUBLE, False) for name in payload.names}
    if payload.scalar:
        names.setdefault("value", Var(payload.names[0], DOUBLE, False))
    try:
        found = parse(text, names, build.MAKERS)
        return build.cast(found, BOOLEAN if condition else DOUBLE)
    except EverfreshError as error:
        raise error.at(f"{what} '{text}'") from None


def columns_of(expr: Expr, payload: Payload, values: Array) -> Mapping[str, Vector]:
    """What an expression reads."""
    place = {name: c for c, name in enumerate(payload.names)}
    return {var.name: Vector(DOUBLE, values[place[var.name]] + 0.0) for var in variables(expr)}


class Where(Operator):
    """The rows that satisfy a condition; one that is NULL or false is not."""

    def __init__(self, source: int, expr: Expr, payload: Payload) -> None:
        super().__init__((source,))
        self._expr, self._payload = expr, payload

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The rows that stay."""
        flow = flows[0]
        if not flow.rows:
            return flow
        columns = columns_of(self._expr, self._payload, flow.values)
        return flow.kept(satisfied(self._expr, columns, flow.rows))


class Select(Operator):
    """Other values; a row for which one is NULL is no event."""

    def __init__(self, source: int, exprs: Sequence[Expr], payload: Payload) -> None:
        super().__init__((source,))
        self._exprs, self._payload = exprs, payload

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The rows with what was computed."""
        flow = flows[0]
        out = np.empty((len(self._exprs), flow.rows))
        valid = np.ones(flow.rows, np.bool_)
        for c, expr in enumerate(self._exprs):
            if flow.rows:
                found = evaluate_vector(expr, columns_of(expr, self._payload, flow.values), flow.rows)
                out[c] = found.values
                if found.valid is not None:
                    valid &= found.valid
        made = Flow(flow.offsets, flow.at, out, flow.progress, flow.end)
        return made if valid.all() else made.kept(valid)


class Apply(Operator):
    """A function of times and values, such as a scale."""

    def __init__(self, source: int, function: Callable[[Array, Array], Array]) -> None:
        super().__init__((source,))
        self._function = function

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The rows with other values."""
        flow = flows[0]
        return Flow(flow.offsets, flow.at, self._function(flow.at, flow.values), flow.progress, flow.end)


class Move(Operator):
    """Times or indices a constant later; lifetimes of another length."""

    def __init__(self, source: int, by: int, duration: int | None = None) -> None:
        super().__init__((source,))
        self._by, self._duration = by, duration

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The rows at other times."""
        flow = flows[0]
        at = flow.at + self._by
        end = flow.end
        if self._duration is not None:
            end = at + self._duration
        elif end is not None:
            end = np.where(end >= END, END, end + self._by)
        progress = np.where(flow.progress >= END, END, flow.progress + self._by)
        return Flow(flow.offsets, at, flow.values, progress, end)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """So much earlier."""
        return progress - self._by


class Thin(Operator):
    """Every n-th index, in the units of the coarser grid."""

    def __init__(self, source: int, n: int, phase: int) -> None:
        super().__init__((source,))
        self._n, self._phase = n, phase

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """The rows whose index is on the coarser grid."""
        flow = flows[0]
        index = (flow.at - self._phase) // self._n
        mask = index * self._n + self._phase == flow.at
        progress = np.where(flow.progress >= END, END, -((self._phase - flow.progress) // self._n))
        return Flow(flow.offsets, index, flow.values, progress, flow.end).kept(mask)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """As the finer index of the last one."""
        safe = np.minimum(progress, END // self._n - 1)
        return (safe - 1) * self._n + self._phase + 1


class ToTime(Operator):
    """A uniform signal as point events."""

    def __init__(self, source: int, period: int, offset: int) -> None:
        super().__init__((source,))
        self._period, self._offset = period, offset

    def step(self, step: Step, flows: Sequence[Flow]) -> Flow:
        """Indices as times."""
        flow = flows[0]
        at = flow.at * self._period + self._offset
        last = (np.minimum(flow.progress, END // self._period - 1) - 1) * self._period + self._offset + 1
        progress = np.where(flow.progress >= END // self._period - 1, END, last)
        return Flow(flow.offsets, at, flow.values, progress, at + 1)

    def when(self, slots: Array, progress: Array, side: int = 0) -> Array:
        """What `step` takes to say it: the index behind the last beat before that time."""
        return -((self._offset + 1 - progress) // self._period) + 1
