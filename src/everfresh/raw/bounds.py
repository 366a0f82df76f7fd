"""The boxes of arrays that a plan of SQL reads: what its conditions say of their dimensions.

A condition above a scan, with nothing between but other conditions, projections and joins that keep no rows
without a partner, holds for every row of the scan that counts. Comparisons of a dimension with a constant
make its box smaller; everything else is left to the query. Invariant: no cell that the query needs is
outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from everfresh.arrays.model import ArraySchema
from everfresh.errors import EverfreshError
from everfresh.expr.nodes import Call, Cast, Expr, Var
from everfresh.expr.scalar import evaluate
from everfresh.raw.boxes import Box
from everfresh.sql.logical.conditions import conjuncts
from everfresh.sql.logical.plan import Filter, Join, Plan, Project, Scan

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def scans_within(plan: Plan) -> Iterator[tuple[Scan, tuple[Expr, ...]]]:
    """The scans of a plan, each with the conditions that hold for its rows."""
    yield from _below(plan, ())


def _below(plan: Plan, known: tuple[Expr, ...]) -> Iterator[tuple[Scan, tuple[Expr, ...]]]:
    for subquery in plan.subqueries:
        yield from _below(subquery.plan, ())
    match plan:
        case Scan():
            yield plan, known
        case Filter(below, condition):
            yield from _below(below, (*known, *conjuncts(condition)))
        case Project(below, items):
            passed = {name for name, expr in items if isinstance(expr, Var) and expr.name == name}
            yield from _below(below, tuple(c for c in known if _names(c) <= passed))
        case Join(kind, left, right, condition) if kind in ("inner", "cross"):
            known = (*known, *conjuncts(condition))
            yield from _below(left, known)
            yield from _below(right, known)
        case _:
            for below in plan.inputs:
                yield from _below(below, ())


def box_of(schema: ArraySchema, scan: Scan, conditions: Sequence[Expr]) -> Box | None:
    """The part of an array that a scan needs; None if it needs nothing."""
    places = scan.places or range(len(scan.vars))
    dimension = {v.name: place for v, place in zip(scan.vars, places, strict=True) if place < schema.ndim}
    lo, hi = [int(x) for x in schema.lo], [int(x) for x in schema.hi]
    for name, operator, value in _comparisons(conditions):
        if name not in dimension:
            continue
        k = dimension[name]
        if operator in ("=", ">=", ">"):
            lo[k] = max(lo[k], math.floor(value) + 1 if operator == ">" else math.ceil(value))
        if operator in ("=", "<=", "<"):
            hi[k] = min(hi[k], math.ceil(value) - 1 if operator == "<" else math.floor(value))
    return Box.of(lo, hi) if all(a <= b for a, b in zip(lo, hi, strict=True)) else None


def _comparisons(conditions: Sequence[Expr]) -> Iterator[tuple[str, str, Fraction]]:
    """The comparisons of a variable with a constant number, the variable first."""
    for condition in conditions:
        match condition:
            case Call(op, (left, right)) if op in _TURNED:
                for one, other, operator in ((left, right, op), (right, left, _TURNED[op])):
                    name, value = _variable(one), _constant(other)
                    if name is not None and value is not None:
                        yield name, operator, value
            case Call("in", (left, *rest)):
                name, values = _variable(left), [_constant(each) for each in rest]
                if name is not None and values and None not in values:
                    known = [value for value in values if value is not None]
                    yield name, ">=", min(known)
                    yield name, "<=", max(known)


def _variable(expr: Expr) -> str | None:
    """The name of a variable, which may be converted to a wider number."""
    while isinstance(expr, Cast) and expr.to.is_numeric and expr.arg.type.is_numeric:
        expr = expr.arg
    return expr.name if isinstance(expr, Var) else None


def _constant(expr: Expr) -> Fraction | None:
    """The number that an expression without variables is."""
    if not expr.type.is_numeric or _names(expr):
        return None
    try:
        value: Any = evaluate(expr, {})
    except EverfreshError:  # the query will say so
        return None
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    scaled: Fraction = Fraction(value) / 10 ** (expr.type.scale or 0 if expr.type.name == "DECIMAL" else 0)
    return scaled


def _names(expr: Any) -> set[str]:
    if isinstance(expr, Var):
        return {expr.name}
    return {name for child in expr.children for name in _names(child)}


def boxes_of(plan: Plan, schemas: Mapping[str, ArraySchema]) -> dict[str, list[Box]]:
    """The boxes of these arrays that a plan needs; an array with none is read and gives nothing."""
    found: dict[str, list[Box]] = {}
    for scan, conditions in scans_within(plan):
        if scan.table in schemas:
            box = box_of(schemas[scan.table], scan, conditions)
            known = found.setdefault(scan.table, [])
            if box is not None and box not in known:
                known.append(box)
    return found
