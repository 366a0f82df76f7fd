"""Aggregates over the components of a map ("Aggregates", docs/design/sql.md).

| aggregate | components | value |
|---|---|---|
| COUNT(*) | the count itself | n |
| COUNT(x) | nx | nx |
| SUM(x) exact | nx, sx | NULL if nx = 0 else sx |
| SUM(x) float | nx, sx over finite x, counts of NaN, inf, -inf | by IEEE rules from the counts |
| AVG(x) | as SUM | DOUBLE(sum) / nx |
| VAR(x), STDDEV(x) exact | nx, sx, sum of squares | by exact integers |
| the same of floats, COVAR | n, sums of both and of their products | n sxy - sx sy, by fractions |
| BOOL_AND(x), BOOL_OR(x) | nx, count of TRUE | nt = nx, nt > 0 |
| MIN(x), MAX(x) | a map of the values beside | its least, its greatest value |
| any with DISTINCT | a map of the different values beside | the aggregate over them |

FILTER makes the argument NULL where its condition is not TRUE. A component is shared by all aggregates that
need it. Arguments are expressions over the columns of the aggregate's input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from everfresh.algebra import Kind
from everfresh.expr import Const, Expr, Var, build, substitute, variables
from everfresh.program import beside, component, side_component
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.row_calls import PAIRS
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    MAX_DIGITS,
    NULL,
    SqlType,
)


class NotFlat(Exception):
    """A query that is not maintained incrementally; says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Extreme:
    """MIN or MAX of an expression: a side of its own."""

    how: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Different:
    """Aggregates over the different values of some expressions, where `when` holds: a side of its own."""

    exprs: tuple[Expr, ...]
    when: Expr | None


@dataclass
class Components:
    """The components of a map's value and the sides it needs: each distinct one once."""

    items: list[tuple[Kind, Expr]] = field(default_factory=list)
    sides: list[Extreme | Different] = field(default_factory=list)
    beside: dict[int, tuple[tuple[Var, ...], Components]] = field(default_factory=dict)
    """Of each side that aggregates different values: the variables for them, and its components."""

    def add(self, kind: Kind, expr: Expr) -> int:
        """The index of a component, from 1."""
        if (kind, expr) not in self.items:
            self.items.append((kind, expr))
        return self.items.index((kind, expr)) + 1

    def side(self, side: Extreme | Different) -> int:
        """The index of a side, from 1."""
        if side not in self.sides:
            self.sides.append(side)
        return self.sides.index(side) + 1

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of all components."""
        return tuple(kind for kind, _ in self.items)


def aggregate(call: p.AggregateCall, components: Components, *, sure: bool) -> Expr:
    """The aggregate's value over components and sides; `sure` if a group is never empty."""
    if call.distinct and call.fn not in ("min", "max", "bool_and", "bool_or"):
        return _distinct(call, components)
    count = Var(component(0), BIGINT, False)
    if not call.args:
        return (
            count
            if call.filter is None
            else _var(components.add(Kind.COUNT, build.call("truth", call.filter)), BIGINT)
        )
    x = call.args[0]
    if x.type == NULL:
        x = Const(None, INTEGER)
    if call.filter is not None:
        x = build.case([(call.filter, x)], Const(None, x.type))
    if call.fn in ("min", "max"):
        return Var(side_component(components.side(Extreme(call.fn, x)), "x"), x.type, True)
    if call.fn in PAIRS:
        return _covariance(call, components)
    n = _var(components.add(Kind.COUNT, build.call("not_null01", x)), BIGINT) if x.nullable else count
    if call.fn == "count":
        return n
    value, certain = _VALUES[call.fn](x, n, components)
    if certain and sure and n is count:
        return value
    empty = build.call("=", n, Const(0, BIGINT))
    return build.case([(empty, Const(None, value.type))], value)


def _distinct(call: p.AggregateCall, components: Components) -> Expr:
    if call.fn == "count" and len(call.args) == 1 and call.args[0].type == NULL:
        return Const(0, BIGINT)
    index = components.side(Different(call.args, call.filter))
    if index not in components.beside:
        values = tuple(Var(f"x{i}", e.type, e.nullable) for i, e in enumerate(call.args))
        components.beside[index] = values, Components()
    values, inner = components.beside[index]
    plain = p.AggregateCall(call.fn, values if len(values) == 1 else ())
    value = aggregate(plain, inner, sure=False)
    if inner.sides:
        raise NotFlat(f"{call.fn.upper()}(DISTINCT ...)")
    moved = {v.name: Var(beside(v.name, index), v.type, v.nullable) for v in variables(value)}
    return substitute(value, dict(moved))


def _var(index: int, type_: SqlType) -> Var:
    return Var(component(index), type_, False)


def _exact_sum(x: Expr, components: Components) -> tuple[int, int]:
    """The component with an exact sum, and the scale of its unit."""
    if x.type == BOOLEAN:
        return components.add(Kind.COUNT, build.call("truth", x)), 0
    return components.add(Kind.WIDE, _zeroed(x)), 0 if x.type.is_integer else x.type.scale


def _zeroed(x: Expr) -> Expr:
    return build.call("if_null_zero", x) if x.nullable else x


def _sum(x: Expr, n: Expr, components: Components) -> tuple[Expr, bool]:
    if x.type.is_float:
        return _float_sum(x, components), True
    index, scale = _exact_sum(x, components)
    return _var(index, DECIMAL(MAX_DIGITS, scale) if x.type.name == "DECIMAL" else HUGEINT), True


def _avg(x: Expr, n: Expr, components: Components) -> tuple[Expr, bool]:
    divisor = build.cast(n, DOUBLE)
    if x.type.is_float:
        return build.call("/", _float_sum(x, components), divisor), True
    index, scale = _exact_sum(x, components)
    if scale:  # AVG divides the unscaled sum, as DuckDB does
        divisor = build.call("*", divisor, Const(float(10**scale), DOUBLE))
        return build.call("/", build.cast(_unscaled(index), DOUBLE), divisor), True
    total = _unscaled(index) if x.type.name == "DECIMAL" else _var(index, HUGEINT)
    return build.call("/", build.cast(total, DOUBLE), divisor), True


def _unscaled(index: int) -> Var:
    return Var(component(index, unscaled=True), HUGEINT, False)


def _float_sum(x: Expr, components: Components) -> Expr:
    x = build.cast(x, DOUBLE)
    total = _var(components.add(Kind.FLOAT, build.call("finite_or_zero", x)), DOUBLE)
    nan, plus, minus = (
        build.call(">", _var(components.add(Kind.COUNT, build.call(fn, x)), BIGINT), Const(0, BIGINT))
        for fn in ("is_nan01", "is_pinf01", "is_ninf01")
    )
    return build.case(
        [
            (build.disjunction([nan, build.call("and", plus, minus)]), Const(float("nan"), DOUBLE)),
            (plus, Const(float("inf"), DOUBLE)),
            (minus, Const(float("-inf"), DOUBLE)),
        ],
        total,
    )


def _variance(fn: str, x: Expr, n: Expr, components: Components) -> tuple[Expr, bool]:
    sample = fn.endswith("samp")
    if x.type.is_float:
        value = _over_pairs(
            build.call("greatest", _moment(x, x, n, components), Const(0.0, DOUBLE)), n, sample
        )
        return (build.call("sqrt", value) if fn.startswith("stddev") else value), False
    wide = build.cast(x, DECIMAL(MAX_DIGITS, x.type.scale) if x.type.name == "DECIMAL" else HUGEINT)
    first, scale = _exact_sum(wide, components)
    try:
        square = build.call("*", _zeroed(wide), _zeroed(wide))
    except Exception as error:
        raise NotFlat(f"{fn.upper()} of a {x.type}") from error
    if square.type.scale != 2 * scale:
        raise NotFlat(f"{fn.upper()} of a {x.type}")
    second = components.add(Kind.WIDE, square)
    value = build.call("variance_of", n, _unscaled(first), _unscaled(second), Const(int(sample), BIGINT))
    if scale:
        value = build.call("/", value, Const(float(10 ** (2 * scale)), DOUBLE))
    return (build.call("sqrt", value) if fn.startswith("stddev") else value), False


def _covariance(call: p.AggregateCall, components: Components) -> Expr:
    """A covariance, over the rows in which both values are there and FILTER holds."""
    nothing = Const(None, DOUBLE)
    y, x = (nothing if a.type == NULL else build.cast(a, DOUBLE) for a in call.args)
    there = [build.call("not", build.call("is_null", e)) for e in (y, x) if e.nullable]
    kept = build.conjunction(there if call.filter is None else [call.filter, *there])
    n = Var(component(0), BIGINT, False)
    if kept != build.conjunction([]):
        y, x = (build.case([(kept, e)], nothing) for e in (y, x))
        n = _var(components.add(Kind.COUNT, build.call("not_null01", y)), BIGINT)
    return _over_pairs(_moment(y, x, n, components), n, call.fn == "covar_samp")


def _moment(y: Expr, x: Expr, n: Expr, components: Components) -> Expr:
    """n sxy - sx sy, to the last digit: each product is held as its nearest double and what that left, each
    sum is read as two doubles. NaN where a product is not finite."""
    y, x = build.cast(y, DOUBLE), build.cast(x, DOUBLE)
    product = build.call("*", y, x)
    exprs = [build.call("finite_or_zero", e) for e in (y, x, product)]
    parts: list[Expr] = []
    for expr in (*exprs, build.call("product_rest", y, x)):
        index = components.add(Kind.FLOAT, expr)
        parts += [_var(index, DOUBLE), Var(component(index, unscaled=True), DOUBLE, False)]
    odd = components.add(Kind.COUNT, build.call("is_nan01", build.call("-", product, product)))
    finite = build.call("=", _var(odd, BIGINT), Const(0, BIGINT))
    return build.case([(finite, build.call("moment_of", n, *parts))], Const(float("nan"), DOUBLE))


def _over_pairs(moment: Expr, n: Expr, sample: bool) -> Expr:
    """A moment over n or n - 1; NULL over too few."""
    pairs = build.cast(n, DOUBLE)
    less = build.call("-", pairs, Const(1.0, DOUBLE)) if sample else pairs
    value = build.call("/", moment, build.call("*", pairs, less))
    few = build.call("<=", n, Const(int(sample), BIGINT))
    return build.case([(few, Const(None, DOUBLE))], value)


def _truths(fn: str, x: Expr, n: Expr, components: Components) -> tuple[Expr, bool]:
    true = _var(components.add(Kind.COUNT, build.call("truth", x)), BIGINT)
    return (build.call("=", true, n) if fn == "bool_and" else build.call(">", true, Const(0, BIGINT))), True


_VALUES: dict[str, Callable[[Expr, Expr, Components], tuple[Expr, bool]]] = {
    "sum": _sum,
    "avg": _avg,
    **{fn: partial(_variance, fn) for fn in ("var_samp", "var_pop", "stddev_samp", "stddev_pop")},
    **{fn: partial(_truths, fn) for fn in ("bool_and", "bool_or")},
}
