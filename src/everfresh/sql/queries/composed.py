"""Aggregates that are expressions over others: each is bound as what it is made of, so that nothing behind
the binder knows it.

The value is DuckDB's, but for the last bits of a DOUBLE. Regressions are over the rows in which both values
are there; `y` comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from everfresh.errors import Code, EverfreshError
from everfresh.expr import build
from everfresh.expr.nodes import Const, Expr
from everfresh.sql.logical.plan import AggregateCall
from everfresh.sql.logical.row_calls import SortKey
from everfresh.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, LIST, NULL

TREES: dict[type[Any], str] = {
    exp.CountIf: "count_if",
    exp.ApproxDistinct: "approx_count_distinct",
    exp.Corr: "corr",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrR2: "regr_r2",
    exp.RegrCount: "regr_count",
    exp.RegrAvgx: "regr_avgx",
    exp.RegrAvgy: "regr_avgy",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
    exp.Kurtosis: "kurtosis",
    exp.Skewness: "skewness",
    exp.ApproxQuantile: "approx_quantile",
}
Composed = Callable[[Sequence[Expr], bool, Expr | None], Expr]
_NULL = Const(None, DOUBLE)
_ZERO = Const(0.0, DOUBLE)


def _takes(fn: str, args: Sequence[Expr], number: int) -> None:
    if len(args) != number or not all(a.type.is_numeric or a == Const(None, a.type) for a in args):
        shown = ", ".join(str(a.type) for a in args)
        what = "two numbers" if number == 2 else "one number"
        raise EverfreshError(Code.TYPE, f"there is no aggregate {fn}({shown})", hint=f"{fn} takes {what}")


def _count_if(args: Sequence[Expr], distinct: bool, where: Expr | None) -> Expr:
    if len(args) != 1 or args[0].type != BOOLEAN or distinct:
        raise EverfreshError(Code.TYPE, "COUNT_IF takes one BOOLEAN, without DISTINCT")
    return AggregateCall("sum", (build.cast(args[0], INTEGER),), False, where)


def _different(args: Sequence[Expr], distinct: bool, where: Expr | None) -> Expr:
    """Exact: an approximation whose error is zero, and which deletes can be taken from."""
    if len(args) != 1:
        raise EverfreshError(Code.TYPE, "APPROX_COUNT_DISTINCT takes one value")
    return AggregateCall("count", tuple(args), True, where)


class _Pairs:
    """Aggregates over the rows in which both values are there."""

    def __init__(self, args: Sequence[Expr], distinct: bool, where: Expr | None) -> None:
        if distinct:
            raise EverfreshError(Code.UNSUPPORTED, "DISTINCT in an aggregate of pairs is not supported")
        y, x = (build.cast(a, DOUBLE) for a in args)
        self.where = where
        self.y, self.x = _where_known(y, x), _where_known(x, y)

    def of(self, fn: str, *args: Expr) -> Expr:
        """A plain aggregate."""
        return AggregateCall(fn, args, False, self.where)

    @property
    def count(self) -> Expr:
        """How many pairs there are."""
        both = _where_known(self.y, self.x)
        return self.of("count", both)

    @property
    def covariance(self) -> Expr:
        """Of the population."""
        return self.of("covar_pop", self.y, self.x)

    @property
    def slope(self) -> Expr:
        """Of the line of least squares."""
        return build.call("/", self.covariance, self.of("var_pop", self.x))


def _where_known(value: Expr, other: Expr) -> Expr:
    """The value where the other one is there."""
    if not other.nullable:
        return value
    return build.case([(build.call("not", build.call("is_null", other)), value)], Const(None, value.type))


def _pairs(fn: str, made: Callable[[_Pairs], Expr]) -> Composed:
    def run(args: Sequence[Expr], distinct: bool, where: Expr | None) -> Expr:
        _takes(fn, args, 2)
        return made(_Pairs(args, distinct, where))

    return run


def _correlation(of: _Pairs) -> Expr:
    below = build.call("*", of.of("stddev_pop", of.y), of.of("stddev_pop", of.x))
    return build.call("/", of.covariance, below)


def _intercept(of: _Pairs) -> Expr:
    flat = build.call("=", of.of("var_pop", of.x), _ZERO)
    line = build.call("-", of.of("avg", of.y), build.call("*", of.slope, of.of("avg", of.x)))
    return build.case([(flat, _NULL)], line)


def _determination(of: _Pairs) -> Expr:
    flat = build.call("=", of.of("var_pop", of.x), _ZERO)
    level = build.call("=", of.of("var_pop", of.y), _ZERO)
    one = _correlation(of)
    return build.case([(flat, _NULL), (level, Const(1.0, DOUBLE))], build.call("*", one, one))


def _times_count(value: Callable[[_Pairs], Expr]) -> Callable[[_Pairs], Expr]:
    return lambda of: build.call("*", value(of), build.cast(of.count, DOUBLE))


def _one(fn: str, made: Callable[[Callable[[str], Expr], Expr], Expr]) -> Composed:
    """Of one number, as a DOUBLE."""

    def run(args: Sequence[Expr], distinct: bool, where: Expr | None) -> Expr:
        _takes(fn, args, 1)
        x = build.cast(args[0], DOUBLE)
        return made(lambda name: AggregateCall(name, (x,), distinct, where), x)

    return run


def _geometric(args: Sequence[Expr], distinct: bool, where: Expr | None) -> Expr:
    _takes("geomean", args, 1)
    logs = build.call("ln", build.cast(args[0], DOUBLE))
    return build.call("exp", AggregateCall("avg", (logs,), distinct, where))


def _approximate(args: Sequence[Expr], distinct: bool, where: Expr | None) -> Expr:
    """Exact, like the number of different values: the value at the fraction."""
    of = args[0].type
    if not (of.is_numeric or of == NULL or of.name in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ")):
        hint = "use quantile_disc"
        raise EverfreshError(Code.TYPE, f"there is no aggregate approx_quantile({of})", hint=hint)
    return AggregateCall("quantile_disc", tuple(args), distinct, where)


# -- of the list of all values -------------------------------------------------------------------------------


def collected(
    value: Expr, order: Sequence[SortKey], distinct: bool, where: Expr | None, known: Sequence[Expr]
) -> Expr:
    """The LIST of the values in an order, of the rows on which those of `known` are not NULL."""
    tests = [build.call("not", build.call("is_null", e)) for e in known if e.nullable]
    kept = tests if where is None else [where, *tests]
    return AggregateCall("list", (value,), distinct, build.conjunction(kept) if kept else None, tuple(order))


def _of_values(fn: str) -> Composed:
    """A function of the values of a group that are there, in their order."""

    def run(args: Sequence[Expr], distinct: bool, where: Expr | None) -> Expr:
        if len(args) != 1:
            raise EverfreshError(Code.TYPE, f"{fn.upper()} takes one value")
        value = build.cast(args[0], INTEGER) if args[0].type == NULL else args[0]
        if fn not in ("histogram", "entropy") and not value.type.is_numeric:
            raise EverfreshError(Code.TYPE, f"there is no aggregate {fn}({value.type})")
        made = build.call(f"list_{fn}", collected(value, [(value, True, False)], distinct, where, [value]))
        return build.call("coalesce", made, _ZERO) if fn == "entropy" else made

    return run


def several(fn: str, args: Sequence[Expr], number: int, distinct: bool, where: Expr | None) -> Expr:
    """MIN, MAX, ARG_MIN and ARG_MAX with a number: the first so many values in an order, as a LIST."""
    up = fn in ("min", "arg_min")
    value, by = args[0], args[-1]
    order = [(by, up, False)] if value == by else [(by, up, False), (value, True, False)]
    found = collected(value, order, distinct, where, list(dict.fromkeys((value, by))))
    return build.call("list_slice", found, Const(1, BIGINT), Const(number, BIGINT))


def of_each(fn: str, value: Expr, fractions: Sequence[Const], distinct: bool, where: Expr | None) -> Expr:
    """A quantile for each of some fractions, as a LIST; NULL over nothing."""
    made = [AggregateCall(fn, (value, fraction), distinct, where) for fraction in fractions]
    of = AggregateCall(fn, (value, Const(0.5, DOUBLE))).type
    some = build.cast(build.call("list_value", *made), LIST(of))
    none = build.call("=", AggregateCall("count", (value,), False, where), Const(0, BIGINT))
    return build.case([(none, Const(None, LIST(of)))], some)


COMPOSED: dict[str, Composed] = {
    "count_if": _count_if,
    "approx_count_distinct": _different,
    "corr": _pairs("corr", _correlation),
    "regr_slope": _pairs("regr_slope", lambda of: of.slope),
    "regr_intercept": _pairs("regr_intercept", _intercept),
    "regr_r2": _pairs("regr_r2", _determination),
    "regr_count": _pairs("regr_count", lambda of: of.count),
    "regr_avgx": _pairs("regr_avgx", lambda of: of.of("avg", of.x)),
    "regr_avgy": _pairs("regr_avgy", lambda of: of.of("avg", of.y)),
    "regr_sxx": _pairs("regr_sxx", _times_count(lambda of: of.of("var_pop", of.x))),
    "regr_syy": _pairs("regr_syy", _times_count(lambda of: of.of("var_pop", of.y))),
    "regr_sxy": _pairs("regr_sxy", _times_count(lambda of: of.covariance)),
    "fsum": _one("fsum", lambda of, _: of("sum")),
    "favg": _one("favg", lambda of, _: of("avg")),
    "sem": _one(
        "sem",
        lambda of, _: build.call("/", of("stddev_pop"), build.call("sqrt", build.cast(of("count"), DOUBLE))),
    ),
    "geomean": _geometric,
    "approx_quantile": _approximate,
    **{fn: _of_values(fn) for fn in ("histogram", "entropy", "mad", "skewness", "kurtosis", "kurtosis_pop")},
}
"""The expression for each: of its arguments, with DISTINCT or not, over the rows of a FILTER."""
