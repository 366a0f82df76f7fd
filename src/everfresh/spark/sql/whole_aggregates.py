"""Spark SQL text for aggregates that need all values of a group: they are collected, put in order, and looked
at as an array.

The rows that count are structs: `v0`, `v1` the arguments, `k0`, `k1`, ... the keys of an ORDER BY; what does
not count is NULL. Invariant: the value is that of `everfresh.local.adhoc.ordered_aggregates`.
"""

from __future__ import annotations

from collections.abc import Sequence

from everfresh.expr import build
from everfresh.expr.nodes import Const, Var
from everfresh.spark.sql.evaluated import evaluated
from everfresh.spark.sql.text import let, literal, order_key, spark_type, string, zero
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.row_calls import KEEPING, ORDERED
from everfresh.types import BIGINT, DOUBLE, NULL, SqlType

_VALUE, _END = "$value", string("\x00")
"""What stands for a value, and the end of the code of a LIST."""
_LOW, _HIGH, _COUNT = "$low", "$high", "$count"
"""What stands for the values beside a quantile, and for how many there are."""
Key = tuple[str, SqlType, bool, bool]
"""A field of the struct, its type, whether it ascends, and whether NULLs come first."""


def row_struct(call: p.AggregateCall, args: Sequence[str], order: Sequence[str], kept: str | None) -> str:
    """A row of such an aggregate; NULL if FILTER or a NULL leaves it out."""
    fields = [f"'v{i}', {arg}" for i, arg in enumerate(args)]
    fields += [f"'k{i}', {key}" for i, key in enumerate(order)]
    if call.fn == "list":  # Spark does not know the codes of values: each is made as a LIST of its own
        alone = build.call("list_value", Var(_VALUE, call.args[0].type, call.args[0].nullable))
        fields.append(f"'c', {evaluated(alone, {_VALUE: args[0]})}")
    tests = [] if kept is None else [kept]
    if call.fn not in KEEPING:
        tests += [f"{arg} IS NOT NULL" for arg in args]
    row = f"named_struct({', '.join(fields)})"
    return f"CASE WHEN {' AND '.join(f'({test})' for test in tests)} THEN {row} END" if tests else row


def pair_sql(call: p.AggregateCall, column: str) -> str:
    """A covariance of a column of such rows."""
    if any(arg.type == NULL for arg in call.args):
        return "any_value(CAST(NULL AS DOUBLE))"
    y, x = (f"CAST({column}.v{i} AS DOUBLE)" for i in range(2))
    return f"({call.fn}({y}, {x}) + {zero(DOUBLE)})"


def whole_sql(call: p.AggregateCall, column: str) -> str:
    """The aggregate of a column of such rows."""
    of, to = call.args[0].type, spark_type(call.type)
    if of == NULL:
        return f"any_value(CAST(NULL AS {to}))"
    rows = f"collect_{'set' if call.distinct else 'list'}({column})"
    own: Key = ("v0", of, True, False)
    match call.fn:
        case "mode":
            return f"mode({column}.v0, true)"
        case "bit_and" | "bit_or" | "bit_xor":
            return f"{call.fn}({'DISTINCT ' if call.distinct else ''}{column}.v0)"
        case "arg_min" | "arg_max":
            by = ("v1", call.args[1].type, call.fn == "arg_min", False)
            return let("CASE WHEN size(@0) > 0 THEN element_at(@0, 1).v0 END", _sorted(rows, [by, own]))
    if call.fn in ORDERED:
        keys = [(f"k{i}", e.type, *how) for i, (e, *how) in enumerate(call.order)]
        found = _sorted(rows, [*keys, own])  # type: ignore[list-item]
        if call.fn == "string_agg":
            return _joined(found, call)
        if call.fn == "list":
            codes = "transform(@0, _e -> substring(_e.c, 1, length(_e.c) - 1))"
            return let(f"CASE WHEN size(@0) > 0 THEN concat(array_join({codes}, ''), {_END}) END", found)
        place = -1 if call.fn == "last" else 1
        return let(f"CASE WHEN size(@0) > 0 THEN element_at(@0, {place}).v0 END", found)
    found = _sorted(rows, [own])
    if call.fn == "product":
        step = f"(_p, _e) -> _p * CAST(_e.v0 AS DOUBLE) + {zero(DOUBLE)}"
        return let(f"CASE WHEN size(@0) > 0 THEN aggregate(@0, 1D, {step}) END", found)
    return _quantile(call, found, of)


def _sorted(rows: str, keys: Sequence[Key]) -> str:
    """An array in the order of some fields."""
    text = "0"
    for field, of, up, first in reversed(keys):
        a, b = (order_key(f"{side}.{field}", of) for side in ("_l", "_r"))
        low, high = (-1, 1) if up else (1, -1)
        null, other = (-1, 1) if first else (1, -1)
        text = (
            f"CASE WHEN {a} IS NULL AND {b} IS NULL THEN {text} WHEN {a} IS NULL THEN {null} "
            f"WHEN {b} IS NULL THEN {other} WHEN {a} < {b} THEN {low} WHEN {a} > {b} THEN {high} "
            f"ELSE {text} END"
        )
    return f"array_sort({rows}, (_l, _r) -> {text})"


def _joined(found: str, call: p.AggregateCall) -> str:
    separator = call.args[1]
    assert isinstance(separator, Const)
    if separator.value is None:
        return "CAST(any_value(NULL) AS STRING)"
    text = f"array_join(transform(@0, _e -> _e.v0), {string(separator.value)})"
    return let(f"CASE WHEN size(@0) > 0 THEN {text} END", found)


def _quantile(call: p.AggregateCall, found: str, of: SqlType) -> str:
    """MEDIAN and the quantiles: a value at a place, or between two."""
    fraction = call.args[1] if len(call.args) > 1 else Const(0.5, DOUBLE)
    assert isinstance(fraction, Const)
    part = literal(Const(float(fraction.value), DOUBLE))
    if call.fn == "quantile_disc" or of.name in ("VARCHAR", "BOOLEAN"):
        place = f"greatest(CAST(ceil(size(@0) * {part}) AS INT), 1)"
        return let(f"CASE WHEN size(@0) > 0 THEN element_at(@0, {place}).v0 END", found)
    if of.name in ("DECIMAL", "TIMESTAMP"):
        return _exact_quantile(found, of, float(fraction.value))
    place = f"((size(@0) - 1) * {part})"
    low, high = (
        f"CAST(element_at(@0, CAST({fn}({place}) AS INT) + 1).v0 AS DOUBLE)" for fn in ("floor", "ceil")
    )
    between = f"{low} + ({high} - {low}) * ({place} - floor({place}))"
    same = f"floor({place}) = ceil({place})"
    value = f"CASE WHEN {same} THEN {low} ELSE {between} END + {zero(DOUBLE)}"
    return let(f"CASE WHEN size(@0) > 0 THEN {value} END", found)


def _exact_quantile(found: str, of: SqlType, fraction: float) -> str:
    """The same of what is counted in whole units: everfresh rounds between two of them. The function that
    does stands outside of what makes the array, where Spark knows no function of others."""

    def at(fn: str) -> str:
        place = f"CAST({fn}((size(@0) - 1) * {literal(Const(fraction, DOUBLE))}) AS INT) + 1"
        return let(f"CASE WHEN size(@0) > 0 THEN element_at(@0, {place}).v0 END", found)

    low, high, count = Var(_LOW, of, True), Var(_HIGH, of, True), Var(_COUNT, BIGINT)
    made = build.call("value_between", low, high, count, Const(fraction, DOUBLE))
    return evaluated(
        made, {_LOW: at("floor"), _HIGH: at("ceil"), _COUNT: let("CAST(size(@0) AS BIGINT)", found)}
    )
