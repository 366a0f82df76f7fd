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
| ARG_MIN(x, y), FIRST(x ORDER BY ...), ... | a map of the keys and x beside | the first in this order |
| MEDIAN(x), quantiles | nx, a map of the values beside | the values at, or around, the fraction |
| any with DISTINCT | a map of the different values beside | the aggregate over them |

FILTER makes the argument NULL where its condition is not TRUE. A component is shared by all aggregates that
need it. Arguments are expressions over the columns of the aggregate's input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from everfresh.algebra import Kind
from everfresh.compiler.lowering.products import not_null
from everfresh.expr import Const, Expr, Var, build, substitute, variables
from everfresh.program import beside, component, side_component
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.row_calls import KEEPING, PAIRS, QUANTILES, WHOLE, SortKey
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTEGER,
    INTERVAL,
    MAX_DIGITS,
    NULL,
    VARCHAR,
    SqlType,
)

FIRSTS = ("arg_min", "arg_max", "first", "last", "any_value")
"""Aggregates whose value is that of one row, the first in an order."""


class NotFlat(Exception):
    """A query that is not maintained incrementally; says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Extreme:
    """MIN or MAX of an expression: a side of its own."""

    how: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class AtFraction:
    """The value of an expression at a fraction of the rows: a side of its own."""

    how: str
    fraction: float
    expr: Expr


@dataclass(frozen=True, slots=True)
class FirstInOrder:
    """The value of an expression in the first row, in an order, of those for which `when` holds: a side of
    its own. The value itself is the last key of the order."""

    order: tuple[SortKey, ...]
    when: Expr | None


@dataclass(frozen=True, slots=True)
class Different:
    """Aggregates over the different values of some expressions, where `when` holds: a side of its own."""

    exprs: tuple[Expr, ...]
    when: Expr | None


Beside = Extreme | AtFraction | FirstInOrder | Different


@dataclass
class Components:
    """The components of a map's value and the sides it needs: each distinct one once."""

    items: list[tuple[Kind, Expr]] = field(default_factory=list)
    sides: list[Beside] = field(default_factory=list)
    beside: dict[int, tuple[tuple[Var, ...], Components]] = field(default_factory=dict)
    """Of each side that aggregates different values: the variables for them, and its components."""
    values: dict[Expr, str] = field(default_factory=dict)
    """The map of the values of an expression, once there is one: its quantiles are read off it."""

    def add(self, kind: Kind, expr: Expr) -> int:
        """The index of a component, from 1."""
        if (kind, expr) not in self.items:
            self.items.append((kind, expr))
        return self.items.index((kind, expr)) + 1

    def side(self, side: Beside) -> int:
        """The index of a side, from 1."""
        if side not in self.sides:
            self.sides.append(side)
        return self.sides.index(side) + 1

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of all components."""
        return tuple(kind for kind, _ in self.items)


def of_all_values(node: p.Aggregate) -> bool:
    """Whether an aggregation needs all values of its groups, so that these are recomputed."""
    return any(call.fn in WHOLE and not _in_order(call) for _, call in node.aggregates)


def _in_order(call: p.AggregateCall) -> bool:
    """Whether one of these is read off a map in order."""
    exprs = [*call.args, *(e for e, _, _ in call.order)]
    if any(e.type == INTERVAL for e in exprs):
        return False
    return call.fn in FIRSTS or (call.fn in QUANTILES and not call.distinct)


def aggregate(call: p.AggregateCall, components: Components, *, sure: bool) -> Expr:
    """The aggregate's value over components and sides; `sure` if a group is never empty."""
    if call.fn in FIRSTS:
        return _first(call, components)
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
    if call.fn in QUANTILES:
        return _quantile(call, x, n, components)
    value, certain = _VALUES[call.fn](x, n, components)
    if certain and sure and n is count:
        return value
    empty = build.call("=", n, Const(0, BIGINT))
    return build.case([(empty, Const(None, value.type))], value)


def _first(call: p.AggregateCall, components: Components) -> Expr:
    """ARG_MIN, ARG_MAX, and FIRST, LAST and ANY_VALUE with an order: of rows that tie the least value, of
    LAST the greatest."""
    value = call.args[0]
    if any(e.type == NULL for e in call.args):
        return Const(None, call.type)
    order = [*call.order, (value, True, False)]
    if call.fn in ("arg_min", "arg_max"):
        order = [(call.args[1], call.fn == "arg_min", False), (value, True, False)]
    elif call.fn == "last":
        order = [(e, not up, not first) for e, up, first in order]
    order = [(Const(0, INTEGER) if e.type == NULL else e, *how) for e, *how in order]  # type: ignore[misc]
    known = [] if call.fn in KEEPING else [not_null(e) for e in call.args if e.nullable]
    tests = known if call.filter is None else [call.filter, *known]
    side = FirstInOrder(tuple(order), build.conjunction(tests) if tests else None)
    return Var(side_component(components.side(side), "x"), value.type, True)


def _quantile(call: p.AggregateCall, x: Expr, n: Expr, components: Components) -> Expr:
    """MEDIAN and the quantiles, of `n` values."""
    given = call.args[1] if len(call.args) > 1 else Const(0.5, DOUBLE)
    assert isinstance(given, Const)
    fraction = float(given.value)
    if call.args[0].type == NULL:
        return Const(None, call.type)

    def at(how: str) -> Var:
        side = components.side(AtFraction(how, fraction, x))
        return Var(side_component(side, "x"), x.type, True)

    if call.fn == "quantile_disc" or x.type in (VARCHAR, BOOLEAN):
        return at("disc")
    return build.call("value_between", at("low"), at("high"), n, Const(fraction, DOUBLE))


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
