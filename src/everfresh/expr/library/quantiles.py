"""Values between two others, as quantiles are, and what is told of the values of a list: how often each is
there, how far they are from the middle, the shape of their distribution.

An aggregate of the same name is the function of the LIST of a group's values, so that both engines have it.
Invariant: no value depends on the order of the list.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from everfresh.expr.coerce import is_null_literal
from everfresh.expr.library.signature import Function, Rule, Signature, never_fails
from everfresh.expr.nodes import Expr
from everfresh.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    LIST,
    NULL,
    REAL,
    UBIGINT,
    SqlType,
    canonical_float,
    coding,
)

# -- between two values --------------------------------------------------------------------------------------


def between(of: SqlType, low: Any, high: Any, part: float) -> Any:
    """A value between two others, in physical units, to the same bits as DuckDB: with fused products; times
    to the nearest, decimals of up to 18 digits towards zero, of more downwards."""
    if of.is_wide:
        return low + int((high - low) * part)
    if of.name == "DECIMAL":
        return int(_fused(high - low, part, low))
    found = float(low) if part == 0 else _fused(low, 1 - part, high * part)
    if of == DOUBLE:
        return canonical_float(found)
    return int(math.copysign(math.floor(abs(found) + 0.5), found))


def _fused(x: float, y: float, z: float) -> float:
    """`x * y + z`, rounded once."""
    if not (math.isfinite(x) and math.isfinite(z)):
        return x * y + z
    return float(Fraction(x) * Fraction(y) + Fraction(z))


def _value_between(types: Signature, low: Any, high: Any, n: int, fraction: float) -> Any:
    """The value at a fraction of the way through n of them, of which the two beside it are given."""
    place = (n - 1) * fraction
    return between(types.result, low, high, place - math.floor(place))


def _middle(of: SqlType, values: list[Any]) -> Any:
    """The median of some values, of which there is one."""
    ordered = sorted(values, key=_order)
    place = (len(ordered) - 1) / 2
    low = math.floor(place)
    return between(of, ordered[low], ordered[math.ceil(place)], place - low)


def _order(value: Any) -> tuple[bool, Any]:
    """NaN is above all numbers."""
    return value != value, 0.0 if value != value else value


# -- lists ---------------------------------------------------------------------------------------------------


def _values(types: Signature, code: str) -> list[Any]:
    """The values of a list that are there."""
    return [v for v in coding.elements(code, types.args[0]) if v is not None]


def _histogram(types: Signature, code: str) -> str | None:
    """How often each value is there, in the order of the values."""
    counts, inner = Counter(_values(types, code)), types.args[0].inner[0]
    found = sorted(counts, key=_order) if inner.is_float else sorted(counts)
    return coding.from_entries([(v, counts[v]) for v in found], types.result) if found else None


def _entropy(types: Signature, code: str) -> float:
    """The bits that it takes to tell the values, each as likely as it is frequent."""
    counts = Counter(_values(types, code))
    n = counts.total()
    return sum((k / n * math.log2(n / k) for k in sorted(counts.values())), 0.0)


def _deviation(types: Signature, code: str) -> Any:
    """The median of how far values are from their median."""
    values, of = _values(types, code), types.result
    if not values:
        return None
    if of.name != "DECIMAL":
        values, of = [float(v) for v in values], DOUBLE
    middle = _middle(of, values)
    return _middle(of, [abs(v - middle) for v in values])


def _moments(types: Signature, code: str, least: int) -> tuple[int, list[float]] | None:
    """How many values there are, and the means of the second to the fourth power of what they are off their
    mean: None where they are less than `least`; NaN where a value or a power is not finite."""
    inner = types.args[0].inner[0]
    values = [v / 10**inner.scale if inner.name == "DECIMAL" else float(v) for v in _values(types, code)]
    n = len(values)
    if n < least:
        return None
    try:
        mean = math.fsum(values) / n
        rests = [v - mean for v in values]
        return n, [math.fsum(rest**k for rest in rests) / n for k in (2, 3, 4)]
    except (OverflowError, ValueError):  # beyond a double; infinities of both signs
        return n, [math.nan] * 3


def _skewness(types: Signature, code: str) -> float | None:
    """How much a distribution leans, of a sample."""
    found = _moments(types, code, 3)
    if found is None or found[1][0] == 0:
        return None
    n, (second, third, _) = found
    return canonical_float(math.sqrt(n * (n - 1)) / (n - 2) * third / second**1.5)


def _kurtosis(sample: bool) -> Callable[[Signature, str], float | None]:
    """How heavy the tails of a distribution are, less those of the normal one."""

    def scalar(types: Signature, code: str) -> float | None:
        found = _moments(types, code, 4 if sample else 2)
        if found is None or found[1][0] == 0:
            return None
        n, (second, _, fourth) = found
        share = fourth / (second * second) if second * second else math.nan
        if sample:
            return canonical_float((n - 1) * ((n + 1) * share - 3 * (n - 1)) / ((n - 2) * (n - 3)))
        return canonical_float(share - 3)

    return scalar


# -- the table -----------------------------------------------------------------------------------------------


def _ends(types: Sequence[SqlType]) -> SqlType | None:
    if len(types) != 4 or types[0] != types[1] or tuple(types[2:]) != (BIGINT, DOUBLE):
        return None
    of = types[0]
    return of if of.name in ("DECIMAL", "TIMESTAMP") else DOUBLE if of.is_numeric else None


def _of_list(result: Callable[[SqlType], SqlType | None]) -> Rule:
    def of_types(types: Sequence[SqlType]) -> SqlType | None:
        return result(types[0].inner[0]) if len(types) == 1 and types[0].name == "LIST" else None

    def coerce(args: Sequence[Expr]) -> list[SqlType] | None:
        if len(args) != 1:
            return None
        given = LIST(NULL) if is_null_literal(args[0]) else args[0].type
        return [LIST(INTEGER) if given == LIST(NULL) else given] if given.name == "LIST" else None

    return Rule(of_types, coerce)


def _number(inner: SqlType) -> SqlType | None:
    return DOUBLE if inner.is_numeric or inner == NULL else None


def _distance(inner: SqlType) -> SqlType | None:
    return inner if inner == REAL or inner.name == "DECIMAL" else _number(inner)


def _counts(inner: SqlType) -> SqlType:
    return SqlType("MAP", inner=(inner, UBIGINT))


def _maybe(args: tuple[Expr, ...]) -> bool:
    return True


ROWS = (
    Function(
        "value_between",
        Rule(_ends, lambda args: [arg.type for arg in args]),
        _value_between,
        fails=never_fails,
    ),
    Function("list_histogram", _of_list(_counts), _histogram, null=_maybe, fails=never_fails),
    Function("list_entropy", _of_list(lambda _: DOUBLE), _entropy, fails=never_fails),
    Function("list_mad", _of_list(_distance), _deviation, null=_maybe, fails=never_fails),
    Function("list_skewness", _of_list(_number), _skewness, null=_maybe, fails=never_fails),
    Function("list_kurtosis", _of_list(_number), _kurtosis(True), null=_maybe, fails=never_fails),
    Function("list_kurtosis_pop", _of_list(_number), _kurtosis(False), null=_maybe, fails=never_fails),
)  # fmt: skip
