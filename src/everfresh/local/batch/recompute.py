"""The slow twin of view maintenance: a view recomputed from its base tables by the reference evaluator.

It shares nothing with the maps: definitions are evaluated over plain Python values, so `verify()` finds a
damaged map.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isfinite
from typing import Any

import pyarrow as pa

from everfresh.algebra import Gmr, Kind, Number, Weight
from everfresh.calculus import Database, Query, evaluate
from everfresh.compiler import CompiledView
from everfresh.delta.bags import WEIGHT
from everfresh.expr import Vector
from everfresh.expr import evaluate as scalar
from everfresh.program import component
from everfresh.types import TableSchema, canonical_float, to_arrow


def relation(schema: TableSchema, rows: pa.Table, counts: Any) -> Gmr:
    """Rows of a table and their multiplicities as a generalized multiset relation of physical values."""
    columns = [Vector.from_arrow(rows.column(c.name), c.type).to_pylist() for c in schema.columns]
    for i, column in enumerate(schema.columns):
        if column.type.is_float:  # rows are compared by identity: all NaNs must be one object
            columns[i] = [None if value is None else canonical_float(value) for value in columns[i]]
    return Gmr((key, (int(n),)) for key, n in zip(zip(*columns, strict=True), counts, strict=True))


def recompute(compiled: CompiledView, tables: Mapping[str, Gmr]) -> pa.Table:
    """The rows of the view over `tables`, with their multiplicity as `_weight`."""
    view, target = compiled.view, compiled.map
    assert isinstance(target.definition, Query)
    entries = list(evaluate(target.definition, Database(tables=tables)).items())
    if view.always and not any(weight[0] for _, weight in entries):
        entries = [((), (0,) * (len(target.kinds) + 1))]
    columns: list[list[Any]] = [[] for _ in view.outputs]
    weights: list[int] = []
    for key, weight in entries:
        if weight[0] == 0 and not view.always:
            continue
        env = dict(zip((v.name for v in target.keys), key, strict=True))
        env.update(components(weight, target.kinds))
        if view.having is not None and scalar(view.having, env) is not True:
            continue
        for column, expr in zip(columns, view.outputs, strict=True):
            column.append(scalar(expr, env))
        weights.append(int(weight[0]) if view.bag else 1)
    arrays = [
        Vector.from_pylist(values, c.type).to_arrow().cast(to_arrow(c.type))
        for values, c in zip(columns, view.columns, strict=True)
    ]
    return pa.Table.from_arrays(
        [*arrays, pa.array(weights, pa.int64())], names=[*(c.name for c in view.columns), WEIGHT]
    )


def components(weight: Weight, kinds: tuple[Kind, ...]) -> dict[str, Any]:
    """The variables that stand for the components of an entry in a view's outputs."""
    values: dict[str, Any] = {component(0): weight[0]}
    for index, (kind, value) in enumerate(zip(kinds, weight[1:], strict=True), 1):
        values[component(index)] = _double(value) if kind == Kind.FLOAT else int(value)
        own = values[component(index)]
        values[component(index, unscaled=True)] = (
            _double(value - Fraction(own)) if kind == Kind.FLOAT and isfinite(own) else own
        )
    return values


def _double(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if Fraction(value) > 0 else float("-inf")
