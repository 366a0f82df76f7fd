"""Templates: views that differ only in constants share a plan; the constants are a view's arguments.

Section 5.1 of the thesis on key-value views, with selections merged for all views of a template at once. A
view that groups joined rows is taken apart into a *core* and a *region*. The core is the same for all views
of a template: it groups by the view's keys and besides by the attributes that are compared with constants, so
its program is compiled once, and a new view needs nothing that the core does not have. The region says which
values of the attributes are the view's; all comparisons are half-open ranges `[lo, hi)` of physical values.
Invariant: the view's rows are the core's rows in its region, added up by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, nextafter
from typing import Any

from everfresh.algebra import Kind
from everfresh.compiler.lowering.aggregates import Components, NotFlat, aggregate
from everfresh.expr import FOLD, Call, Cast, Const, Expr, Var, build, substitute, variables
from everfresh.program import component
from everfresh.rewrite import rewrite
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.conditions import conjuncts
from everfresh.types import Column, SqlType

COUNT = "_n"
_MICROSECONDS = 86_400_000_000

Range = tuple[Any, Any]
"""From a value to before another; None: without a bound."""
Shape = tuple[Any, ...]
"""`("in", attribute)`, `("and", ...)` or `("or", ...)`: leaves take a view's ranges in order."""


class NotShared(Exception):
    """A view that needs a program of its own; says why."""


@dataclass(frozen=True, slots=True)
class Template:
    """What the views of a template have in common."""

    core: p.Plan
    keys: tuple[Column, ...]
    attributes: tuple[Column, ...]
    sums: tuple[Column, ...]
    """Columns of the core, in this order: keys, attributes, the count, sums."""
    shape: Shape
    items: tuple[tuple[str, Expr], ...]
    """The columns of a view, over its keys, the count and sums."""
    grouped: bool

    @property
    def inputs(self) -> dict[str, tuple[int, SqlType]]:
        """The variables of `items` that stand for the count (0) and for sums (from 1)."""
        found = {v.name: v for _, e in self.items for v in variables(e)}
        places = {component(0): 0}
        for i in range(1, len(self.sums) + 1):
            places[component(i)] = places[component(i, unscaled=True)] = i
        return {name: (places[name], found[name].type) for name in found if name in places}

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a view."""
        return tuple(Column(name, e.type, e.nullable) for name, e in self.items)


@dataclass(frozen=True, slots=True)
class Shared:
    """A view as a template and its arguments: a range for each leaf of the shape."""

    template: Template
    ranges: tuple[Range, ...]


def shared(plan: p.Plan) -> Shared:
    """A view's plan taken apart. Raises `NotShared`."""
    while isinstance(plan, p.Sort):  # a view is a bag
        plan = plan.input
    items: tuple[p.Named, ...] = tuple((v.name, v) for v in plan.variables)
    if isinstance(plan, p.Project):
        items, plan = plan.items, plan.input
    conditions: list[Expr] = []
    while isinstance(plan, p.Filter):  # HAVING
        raise NotShared("it has a condition on groups")
    if not isinstance(plan, p.Aggregate):
        raise NotShared("it does not aggregate")
    below = _stripped(plan.input, conditions)
    attributes: list[Expr] = []
    ranges: list[Range] = []
    leaves: list[tuple[Shape, list[Range]]] = []
    fixed = []
    for condition in conditions:
        found = _leaf(condition, attributes)
        if found is None:
            fixed.append(condition)
        else:
            leaves.append(found)
    if not leaves:
        raise NotShared("it compares nothing with constants")
    for _, of in leaves:
        ranges += of
    shape = ("and", *(shape for shape, _ in leaves))
    return Shared(_template(plan, below, fixed, attributes, shape, items), tuple(ranges))


def _template(
    plan: p.Aggregate,
    below: p.Plan,
    fixed: Sequence[Expr],
    attributes: Sequence[Expr],
    shape: Shape,
    items: Sequence[p.Named],
) -> Template:
    components, values = Components(), {}
    try:
        for name, call in plan.aggregates:
            assert isinstance(call, p.AggregateCall)
            values[name] = aggregate(call, components, sure=plan.grouped)
    except NotFlat as error:
        raise NotShared(str(error)) from error
    if components.sides or Kind.FLOAT in components.kinds:
        raise NotShared("it has MIN, MAX, DISTINCT or a sum of DOUBLE")
    if fixed:
        below = p.Filter(below, build.conjunction(list(fixed)))
    keys = {name: f"_k{i}" for i, (name, _) in enumerate(plan.keys)}
    named = [
        *((keys[name], e) for name, e in plan.keys),
        *((f"_a{i}", e) for i, e in enumerate(attributes)),
    ]
    calls: list[tuple[str, p.AggregateCall]] = [(COUNT, p.AggregateCall("count"))]
    calls += [(f"_s{i}", p.AggregateCall("sum", (e,))) for i, (_, e) in enumerate(components.items)]
    core = p.Aggregate(below, tuple(named), tuple(calls), True)
    columns = core.columns
    by_name: dict[str, Expr] = {name: Var(keys[name], e.type, e.nullable) for name, e in plan.keys}
    n, d = len(plan.keys), len(attributes)
    return Template(
        core,
        columns[:n],
        columns[n : n + d],
        columns[n + d + 1 :],
        shape,
        tuple((name, substitute(e, {**by_name, **values})) for name, e in items),
        plan.grouped,
    )


def _stripped(plan: p.Plan, conditions: list[Expr]) -> p.Plan:
    """The plan below its filters and those of inner joins."""
    if isinstance(plan, p.Filter):
        below = _stripped(plan.input, conditions)
        conditions += conjuncts(plan.condition)
        return below
    if isinstance(plan, p.Join) and plan.kind == "inner":
        left, right = _stripped(plan.left, conditions), _stripped(plan.right, conditions)
        conditions += conjuncts(plan.condition)
        return p.Join("inner", left, right, None)
    return plan


# -- conditions ------------------------------------------------------------------------------------------


def _leaf(condition: Expr, attributes: list[Expr]) -> tuple[Shape, list[Range]] | None:
    """The shape of a condition that only compares attributes with constants, and its ranges."""
    if not isinstance(condition, Call):
        return None
    if condition.op in ("and", "or"):
        before = len(attributes)
        parts = [_leaf(arg, attributes) for arg in condition.args]
        if not all(parts):
            del attributes[before:]
            return None
        found = [part for part in parts if part is not None]
        return (condition.op, *(s for s, _ in found)), [r for _, of in found for r in of]
    compared = _compared(condition)
    if compared is None:
        return None
    attribute, op, value = compared
    attribute, bounds = _uncast(attribute, _range(op, value, attribute.type))
    if attribute not in attributes:
        attributes.append(attribute)
    return ("in", attributes.index(attribute)), [bounds]


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _compared(condition: Call) -> tuple[Expr, str, Any] | None:
    if condition.op not in _TURNED:
        return None
    left, right = (rewrite(arg, FOLD) if not variables(arg) else arg for arg in condition.args)
    op = condition.op
    if isinstance(left, Const):
        left, right, op = right, left, _TURNED[op]
    if not isinstance(right, Const) or right.value is None or not variables(left) or not _plain(left):
        return None
    return left, op, right.value


def _plain(expr: Expr) -> bool:
    """Whether an attribute is a column, perhaps cast: what computes with constants is not the same in all
    views."""
    return isinstance(expr, Var) or (isinstance(expr, Cast) and _plain(expr.arg))


def _range(op: str, value: Any, type_: SqlType) -> Range:
    after = _after(value, type_)
    return {
        "<": (None, value),
        "<=": (None, after),
        ">": (after, None),
        ">=": (value, None),
        "=": (value, after),
    }[op]


def _after(value: Any, type_: SqlType) -> Any:
    """The least value that is greater."""
    if type_.name == "VARCHAR":
        return value + "\0"
    if type_.name == "BOOLEAN":
        return int(value) + 1
    if type_.is_float:
        return nextafter(value, inf)
    return value + 1


def _uncast(attribute: Expr, bounds: Range) -> tuple[Expr, Range]:
    """A cast that multiplies is undone in the bounds.

    `x * unit >= t` exactly if `x >= ceil(t / unit)`.
    """
    while isinstance(attribute, Cast):
        unit = _unit(attribute.arg.type, attribute.to)
        if unit is None:
            break
        attribute = attribute.arg
        bounds = (
            None if bounds[0] is None else ceil(Fraction(bounds[0], unit)),
            None if bounds[1] is None else ceil(Fraction(bounds[1], unit)),
        )
    return attribute, bounds


def _unit(of: SqlType, to: SqlType) -> int | None:
    if of.name == "DATE" and to.name == "TIMESTAMP":
        return _MICROSECONDS
    if of.is_exact and to.is_exact and of.name != "BOOLEAN":
        below = of.scale if of.name == "DECIMAL" else 0
        above = to.scale if to.name == "DECIMAL" else 0
        return int(10 ** (above - below)) if above >= below else None
    return None


def holds(shape: Shape, ranges: Sequence[Range], values: Sequence[Any]) -> bool:
    """Whether attributes with these values are in a region: the slow twin of `Cells`.

    >>> holds(("and", ("in", 0), ("in", 0)), [(2, None), (None, 5)], [4])
    True
    """
    return _holds(shape, iter(ranges), values)


def _holds(shape: Shape, ranges: Any, values: Sequence[Any]) -> bool:
    if shape[0] == "in":
        lo, hi = next(ranges)
        value = values[shape[1]]
        return value is not None and (lo is None or value >= lo) and (hi is None or value < hi)
    parts = [_holds(part, ranges, values) for part in shape[1:]]
    return all(parts) if shape[0] == "and" else any(parts)


def input_types(template: Template) -> Mapping[str, SqlType]:
    """The types of the variables of `items`."""
    return {c.name: c.type for c in template.keys} | {name: t for name, (_, t) in template.inputs.items()}


__all__ = ["COUNT", "NotShared", "Range", "Shape", "Shared", "Template", "holds", "shared"]
