"""From a query to operators: each node of the tree becomes one, equal parts become the same one.

A chain of operations on windows is one operator with what begins and ends it, so that windows stay in the
cache from their making to their merging.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.rewrite import Node
from everfresh.signals import faults, plan_filters, plan_windows
from everfresh.signals import nodes as n
from everfresh.signals.explain import memory_of
from everfresh.signals.kinds import UNIFORM, Kind, kind_of
from everfresh.signals.making import Made
from everfresh.signals.ops import (
    elementwise,
    gathering,
    joins,
    lifetimes,
    sampling,
    snapshots,
    typed,
)
from everfresh.signals.payload import Array, Payload
from everfresh.signals.run import references
from everfresh.signals.run.flow import Operator
from everfresh.signals.run.keys import Keys
from everfresh.signals.run.source import Source


class Plan:
    """The operators of a query over tables with these schemas."""

    def __init__(self, query: Node, schemas: Mapping[str, pa.Schema], options: Options | None = None) -> None:
        self.query, self._schemas = query, schemas
        self._most = (options or Options()).signal_max_fill
        self.operators: list[Operator] = []
        self.sources: dict[int, Source] = {}
        self._made: dict[Node, Made] = {}
        readings = [each for each in query.walk() if isinstance(each, n.Reading)]
        self.keys = Keys(self._key_types(readings))
        self.key_names = readings[0].key
        self.time_name = readings[0].time
        _check_idle(query)
        self.result = self.make(query)
        if self.result.function is not None:
            raise faults.kind(
                "create_view", "a signal of functions of time", "values", "sample(period) evaluates it first"
            )

    def _key_types(self, readings: list[n.Reading]) -> tuple[pa.DataType, ...]:
        found: list[tuple[pa.DataType, ...]] = []
        for reading in readings:
            if reading.table not in self._schemas:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"there is no table '{reading.table}'",
                    hint="tables are: " + ", ".join(self._schemas),
                )
            schema = self._schemas[reading.table]
            times = (reading.time,) if reading.timed else ()
            missing = [name for name in (*reading.key, *times) if name not in schema.names]
            if missing:
                raise EverfreshError(
                    Code.NOT_FOUND,
                    f"table '{reading.table}' has no column '{missing[0]}'",
                    hint="columns are: " + ", ".join(schema.names),
                )
            types = [schema.field(name).type for name in reading.key]
            found.append(tuple(pa.int64() if pa.types.is_integer(each) else each for each in types))
            if found[0] != found[-1]:
                first = readings[0]
                raise faults.keys(
                    f"({', '.join(map(str, found[0]))}) of table '{first.table}'",
                    f"({', '.join(map(str, found[-1]))}) of table '{reading.table}'",
                )
        schema = self._schemas[readings[0].table]
        return tuple(schema.field(name).type for name in readings[0].key)

    def add(self, operator: Operator) -> int:
        """Another operator; its place."""
        self.operators.append(operator)
        return len(self.operators) - 1

    def _names(self, slots: Array) -> list[Any]:
        return self.keys.names(slots)

    def make(self, node: Node) -> Made:
        """The operator of a node: equal nodes have the same one."""
        if node not in self._made:
            build = _BUILDERS.get(type(node))
            assert build is not None, f"no operator for {type(node).__name__}"
            self._made[node] = build(self, node)
        return self._made[node]

    # -- events and samples ------------------------------------------------------------------------

    def _reading(self, node: n.Reading) -> Made:
        made = Source if node.timed else references.Rows
        source = made(node, self._schemas[node.table], self.keys)
        at = self.add(source)
        self.sources[at] = source
        payload = source.payload
        if node.type is not None:
            if len(node.type.zero) != len(payload.names) or payload.complex or payload.vector:
                raise faults.type_(
                    f"the payload type '{node.type.name}' has {len(node.type.zero)} numbers, and table "
                    f"'{node.table}' gives {', '.join(payload.names)}",
                    "zero= and value= have as many real numbers",
                )
            payload = replace(payload, type=node.type)
        points = node.end is None and node.duration in (None, 1)
        return Made(at, payload, None, len(payload.names), payload.dtype, points)

    def _same(self, node: Any) -> Made:
        return self.make(node.input)

    def _where(self, node: n.Where) -> Made:
        below = self.make(node.input)
        if below.function is not None:
            raise faults.kind("where", "a signal of functions of time", "values", "sample(period) first")
        expr = elementwise.expression(node.condition, below.payload, "where", True)
        return replace(below, at=self.add(elementwise.Where(below.at, expr, below.payload)))

    def _select(self, node: n.Select) -> Made:
        below = self.make(node.input)
        exprs = [elementwise.expression(text, below.payload, "select") for text in node.expressions]
        payload = Payload(node.names)
        if below.function is not None:
            inner, given = below.function, below.payload

            def function(t: Array, values: Array) -> Array:
                found = inner(t, values)
                return np.array([_value(expr, given, found) for expr in exprs])

            return replace(below, payload=payload, function=function)
        at = self.add(elementwise.Select(below.at, exprs, below.payload))
        return replace(below, at=at, payload=payload, width=len(exprs), dtype=np.float64)

    def _function(self, node: n.Function) -> Made:
        below = self.make(node.input)
        names = below.payload.names
        for column in (*node.columns, *(() if node.choose is None else (node.choose,))):
            if column not in names:
                raise faults.type_(
                    f"function() takes column '{column}', which is no value of the signal",
                    "values are: " + ", ".join(names),
                )
        place = [names.index(column) for column in node.columns]
        chosen = None if node.choose is None else names.index(node.choose)
        calls = [each.call for each in node.functions]

        def function(t: Array, values: Array) -> Array:
            args = [values[c] for c in place]
            if chosen is None:
                return np.array(calls[0](t, *args), np.float64, ndmin=1).reshape(1, -1)
            out = np.empty(len(t))
            for i, call in enumerate(calls):
                mine = values[chosen] == i
                out[mine] = call(t[mine], *[arg[mine] for arg in args])
            return out[None]

        return replace(below, payload=Payload(("value",)), function=function)

    def _scale(self, node: n.Scale) -> Made:
        by, add, over = node.by, node.add, node.over
        below = self.make(node.input)
        if below.payload.type is not None:
            return self._scaled_type(below, by if over == 1.0 else 1.0 / over, add)
        complex_ = below.payload.complex or any(isinstance(each, complex) for each in (by, add, over))
        payload = replace(below.payload, complex=complex_)

        def change(_: Array, values: Array) -> Array:
            scaled = values * by if by != 1.0 else values
            scaled = scaled / over if over != 1.0 else scaled
            return scaled + add if add != 0.0 else scaled

        if below.function is not None:
            inner = below.function
            return replace(below, payload=payload, function=lambda t, v: change(t, inner(t, v)))
        at = self.add(elementwise.Apply(below.at, change))
        return replace(below, at=at, payload=payload, dtype=payload.dtype)

    def _scaled_type(self, below: Made, by: float | complex, add: float | complex) -> Made:
        type_ = below.payload.type
        assert type_ is not None
        if add != 0.0 or isinstance(by, complex) or below.function is not None:
            raise faults.type_(
                f"a sum with a number, of values of the payload type '{type_.name}'",
                "it has multiples by real numbers; select(name=expression) gives its numbers alone",
            )
        at = self.add(elementwise.Apply(below.at, lambda _, values: typed.called(type_, "scale", by, values)))
        return replace(below, at=at)

    def plain(self, made: Made, what: str) -> Made:
        """Refuse values with arithmetic of their own, of which an operation takes each number alone."""
        if made.payload.type is not None:
            raise faults.type_(
                f"{what} of values of the payload type '{made.payload.type.name}'",
                "select(name=expression) gives their numbers alone",
            )
        return made

    def _shift(self, node: n.Shift) -> Made:
        below, kind = self.make(node.input), kind_of(node.input)
        if kind.name == UNIFORM:
            by = (kind.offset + node.ticks) // kind.period
            return below if by == 0 else replace(below, at=self.add(elementwise.Move(below.at, by)))
        made = replace(below, at=self.add(elementwise.Move(below.at, node.ticks)))
        return _later(made, node.ticks)

    def _lifetime(self, node: n.Lifetime) -> Made:
        below = self._timed(self.make(node.input), node.input)
        points = below.points if node.duration is None else node.duration == 1
        made = replace(
            below, at=self.add(elementwise.Move(below.at, node.shift, node.duration)), points=points
        )
        return _later(made, node.shift)

    def _until_next(self, node: n.UntilNext) -> Made:
        below = self._timed(self.make(node.input), node.input)
        made = lifetimes.UntilNext(below.at, node.max, below.width, below.dtype)
        return replace(below, at=self.add(made), points=False)

    def _asof_left(self, node: n.AsofLeft) -> Made:
        left, right = self.make(node.input), self.make(node.right)
        if left.function is not None or right.function is not None:
            raise faults.kind("asof_left", "a signal of functions of time", "values", "sample(period) first")
        left, right = self._timed(left, node.input), self._timed(right, node.right)
        dtype = np.result_type(left.dtype, right.dtype)
        at = self.add(
            lifetimes.Latest(left.at, right.at, (left.width, right.width), dtype, node.kind == "left")
        )
        if kind_of(node).name == UNIFORM:
            at = self._on_grid(at, node, kind_of(node))
        mine = left.payload.names
        names = (*mine, *(f"{each}_right" if each in mine else each for each in right.payload.names))
        payload = Payload(names, dtype == np.complex128)
        return Made(at, payload, None, len(names), dtype, left.points)

    def _join_reference(self, node: n.JoinReference) -> Made:
        left, right = self.make(node.input), self.make(node.right)
        if any(each.timed and each.table == node.right.table for each in self.query.walk()
               if isinstance(each, n.Reading)):  # fmt: skip
            raise faults.kind(
                "join", f"table '{node.right.table}' as a signal and as a reference", "other tables",
                "a SQL view over it is one",
            )  # fmt: skip
        if left.function is not None:
            raise faults.kind("join", "a signal of functions of time", "values", "sample(period) first")
        dtype = np.result_type(left.dtype, right.dtype)
        outer = node.kind == "left"
        at = self.add(references.JoinRows(left.at, right.at, right.width, dtype, outer))
        mine = left.payload.names
        names = (*mine, *(f"{each}_right" if each in mine else each for each in right.payload.names))
        payload = Payload(names, dtype == np.complex128)
        return replace(left, at=at, payload=payload, width=len(names), dtype=dtype)

    def _to_signal(self, node: n.ToSignal) -> Made:
        below = self.make(node.input)
        tables = ", ".join(dict.fromkeys(r.table for r in node.walk() if isinstance(r, n.Reading)))
        return replace(below, at=self.add(lifetimes.Asserted(below.at, self._names, tables)))

    def _snapshot(self, node: n.Snapshot) -> Made:
        below = self.make(node.input)
        if below.function is not None or not below.payload.scalar or below.payload.complex:
            raise faults.type_(
                "aggregate() of a stream takes one real number of each event", "select(name=expression) first"
            )
        if any(isinstance(each, n.Reading) and each.order == "group" for each in node.walk()):
            raise faults.kind(
                "aggregate",
                "one whose groups keep their own pace",
                "streams in order of time",
                "order='table'",
            )
        return replace(below, at=self.add(snapshots.Snapshots(below.at, node.agg)), points=False)

    def _union(self, node: n.Union) -> Made:
        left, right = self.make(node.input), self.make(node.right)
        if left.function is not None or right.function is not None:
            raise faults.kind("union", "a signal of functions of time", "values", "sample(period) first")
        if left.payload.names != right.payload.names:
            raise faults.type_(
                f"union() of the values {', '.join(left.payload.names)} and {', '.join(right.payload.names)}",
                "select(name=expression) gives both the same names",
            )
        left, right = (self._timed(made, each) for made, each in ((left, node.input), (right, node.right)))
        dtype = np.result_type(left.dtype, right.dtype)
        at = self.add(lifetimes.Merge(left.at, right.at, left.width, dtype))
        payload = replace(left.payload, complex=dtype == np.complex128)
        return Made(at, payload, None, left.width, dtype, left.points and right.points)

    def _anti_join(self, node: n.AntiJoin) -> Made:
        left, right = self.make(node.input), self.make(node.right)
        if left.function is not None:
            raise faults.kind("anti_join", "a signal of functions of time", "values", "sample(period) first")
        left, right = self._timed(left, node.input), self._timed(right, node.right)
        at = self.add(lifetimes.Uncovered(left.at, right.at, (left.width, right.width), left.dtype))
        return replace(left, at=at)

    def _timed(self, made: Made, node: Node) -> Made:
        """A uniform signal as points in time; others as they are."""
        kind = kind_of(node)
        if kind.name != UNIFORM:
            return made
        return replace(made, at=self.add(elementwise.ToTime(made.at, kind.period, kind.offset)), points=True)

    def _as_uniform(self, node: n.AsUniform) -> Made:
        below = self._valued(self.make(node.input))
        return replace(below, at=self._on_grid(below.at, node, kind_of(node)))

    def _on_grid(self, at: int, node: Node, kind: Kind) -> int:
        """Points in time as samples of a grid; those that are off it are refused."""
        table = next(each.table for each in node.walk() if isinstance(each, n.Reading))
        return self.add(sampling.OnGrid(at, table, kind.period, kind.offset, self._names))

    def _valued(self, made: Made) -> Made:
        """Functions of time at the times of rows."""
        if made.function is None:
            return made
        at = self.add(elementwise.Apply(made.at, made.function))
        return replace(made, at=at, function=None, width=len(made.payload.names), dtype=made.payload.dtype)

    def _sample(self, node: n.Sample | n.Resample) -> Made:
        below, kind = self.make(node.input), kind_of(node.input)
        if kind.name == UNIFORM:
            at = self.add(elementwise.ToTime(below.at, kind.period, kind.offset))
            below = replace(below, at=at, points=True)
        return self._sampled(below, node.period, node.offset % node.period, node.interpolate)

    def _sampled(self, below: Made, period: int, offset: int, policy: n.Policy | None) -> Made:
        if not below.points:
            refs = policy is not None
            expand = sampling.Expand(
                below.at, period, offset, refs, below.width, below.dtype, self._most, self._names
            )
            below = replace(below, at=self.add(expand))
            if not refs:
                if below.function is not None:
                    inner = below.function
                    return self._valued(replace(below, function=lambda k, v: inner(k * period + offset, v)))
                return replace(below, points=True)
        below = self._valued(below)
        if policy is not None and policy.name == "constant":
            self.plain(below, "constant()")
        made = sampling.Interpolate(
            below.at, period, offset, policy, below.width, below.dtype, self._most, self._names,
            below.payload.type,
        )  # fmt: skip
        return replace(below, at=self.add(made), points=True)

    def _downsample(self, node: n.Downsample) -> Made:
        below = self.make(node.input)
        by = kind_of(node.input)
        moved = (by.offset + node.phase * by.period) // (by.period * node.n)
        at = self.add(elementwise.Thin(below.at, node.n, node.phase))
        return replace(below, at=at if moved == 0 else self.add(elementwise.Move(at, moved)))

    # -- arithmetic --------------------------------------------------------------------------------

    def _combine(self, node: n.Combine) -> Made:
        left, right = self.make(node.input), self.make(node.right)
        one, two, both = kind_of(node.input), kind_of(node.right), kind_of(node)
        if both.name != UNIFORM:
            return self._continuous(node, left, right)
        grid = (both.period, both.offset)
        left = self._onto(left, one, grid, node.align, False)
        right = self._onto(right, two, grid, node.align, True)
        payload = _joined(left.payload, right.payload, node.op)
        at = self.add(
            joins.EqualTimes(
                left.at, right.at, (left.width, right.width), payload.dtype, _combining(payload, node.op)
            )
        )
        return Made(at, payload, None, len(payload.names), payload.dtype, True)

    def _onto(self, made: Made, kind: Any, grid: tuple[int, int], align: str, right: bool) -> Made:
        if kind.name != UNIFORM:
            return self._sampled(made, *grid, None)
        if (kind.period, kind.offset) == grid:
            return made
        if kind.period == grid[0] and align == "strict":
            raise faults.period(
                f"the signals have one period, {kind.period}, and other offsets: {grid[1]} and {kind.offset}",
                "align='shift' moves the right one, align='resample' interpolates it",
            )
        if kind.period == grid[0] and right and align == "shift":
            return made
        at = self.add(elementwise.ToTime(made.at, kind.period, kind.offset))
        return self._sampled(replace(made, at=at, points=True), *grid, kind.policy)

    def _continuous(self, node: n.Combine, left: Made, right: Made) -> Made:
        payload = _joined(left.payload, right.payload, node.op)
        combine = _combining(payload, node.op)
        dtype = np.result_type(left.dtype, right.dtype)
        at = self.add(lifetimes.Intersect(left.at, right.at, (left.width, right.width), dtype))
        cut, f, g = left.width, left.function, right.function

        def function(t: Array, values: Array) -> Array:
            a, b = values[:cut], values[cut:]
            return combine(a if f is None else f(t, a), b if g is None else g(t, b))

        points = left.points or right.points
        if f is None and g is None:
            made = Made(at, payload, function, left.width + right.width, dtype, points)
            return self._valued(made)
        return Made(at, payload, function, left.width + right.width, dtype, points)

    # -- filters and windows -----------------------------------------------------------------------

    def _session(self, node: n.Session) -> Made:
        below = self.make(node.input)
        if below.function is not None:
            raise faults.kind("session", "a signal of functions of time", "values", "sample(period) first")
        below = self._timed(below, node.input)
        at = self.add(gathering.Sessions(below.at, node.gap))
        return Made(at, Payload(("count",)), None, 1, np.float64, False)


def _check_idle(query: Node) -> None:
    spans = [each.idle for each in query.walk() if isinstance(each, n.Reading) and each.idle is not None]
    reach = memory_of(query) if spans else 0
    if spans and (reach is None or min(spans) < reach):
        told = "any pause" if reach is None else f"{reach} ticks"
        raise faults.period(
            f"idle={min(spans)} is less than what an operation looks back over, which is {told}",
            "a longer idle=, or a window= for the interpolation",
        )


def _value(expr: Any, payload: Payload, values: Array) -> Array:
    from everfresh.expr import evaluate_vector

    return np.asarray(
        evaluate_vector(expr, elementwise.columns_of(expr, payload, values), values.shape[1]).values
    )


def _later(made: Made, ticks: int) -> Made:
    """Functions of time see the time that was."""
    if made.function is None or ticks == 0:
        return made
    inner = made.function
    return replace(made, function=lambda t, v: inner(t - ticks, v))


def _combining(payload: Payload, op: str) -> joins.Combining:
    if payload.type is None:
        return joins.COMBINING[op]
    if op == "divide":
        raise faults.type_(
            f"divide() of values of the payload type '{payload.type.name}'",
            "it has sums, differences, products and multiples; select(name=expression) gives its numbers",
        )
    return typed.combining(payload.type, op)


def _joined(left: Payload, right: Payload, op: str) -> Payload:
    if left.type != right.type:
        names = [each.type.name if each.type else "numbers" for each in (left, right)]
        raise faults.type_(f"{op}() of '{names[0]}' and '{names[1]}'", "both are of one payload type")
    if len(left.names) != len(right.names) and not (left.scalar or right.scalar):
        raise faults.type_(
            f"{op}() of a signal of {len(left.names)} components and one of {len(right.names)}",
            "both have the same components, or one is a single number",
        )
    wider = left if len(left.names) >= len(right.names) else right
    return replace(wider, complex=left.complex or right.complex)


_BUILDERS: dict[type[Node], Callable[[Plan, Any], Made]] = {
    n.Reading: Plan._reading,
    n.Viewed: Plan._same,
    n.ToSignal: Plan._to_signal,
    n.Snapshot: Plan._snapshot,
    n.Union: Plan._union,
    n.AntiJoin: Plan._anti_join,
    n.UntilNext: Plan._until_next,
    n.AsofLeft: Plan._asof_left,
    n.JoinReference: Plan._join_reference,
    n.Where: Plan._where,
    n.Select: Plan._select,
    n.Function: Plan._function,
    n.Scale: Plan._scale,
    n.Shift: Plan._shift,
    n.Lifetime: Plan._lifetime,
    n.AsUniform: Plan._as_uniform,
    n.Sample: Plan._sample,
    n.Resample: Plan._sample,
    n.Downsample: Plan._downsample,
    n.Combine: Plan._combine,
    n.Polyphase: plan_filters.polyphase,
    n.Session: Plan._session,
    n.Fir: plan_filters.fir,
    n.Iir: plan_filters.iir,
    n.Sos: plan_filters.sos,
    n.Filter: plan_filters.user_filter,
    n.Window: plan_windows.of_windows,
    n.Fft: plan_windows.of_windows,
    n.Ifft: plan_windows.of_windows,
    n.Multiply: plan_windows.of_windows,
    n.MapWindows: plan_windows.of_windows,
    n.Apply: plan_windows.of_windows,
    n.Autocorrelate: plan_windows.of_windows,
    n.CrossCorrelate: plan_windows.of_windows,
    n.ReduceWindows: plan_windows.reduced,
    n.Unwindow: plan_windows.unwindow,
    n.Hopping: plan_windows.hopping,
}
