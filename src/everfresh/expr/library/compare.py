"""Comparisons, IS DISTINCT FROM, IN, GREATEST and LEAST.

Strings compare by code points, which is the order of their UTF-8 bytes; NaN equals itself and is larger than
all other floats; intervals compare with months of 30 days. `in(x, item, ...)` is SQL's IN: TRUE if an item
equals x, else NULL if x or an item is NULL, else FALSE.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everfresh.expr.coerce import alike, common, comparable
from everfresh.expr.column import Array, Vector, merge_dictionaries
from everfresh.expr.library.dates import interval_order
from everfresh.expr.library.signature import Function, Rule, Signature, never_fails, never_null
from everfresh.expr.nodes import Expr
from everfresh.types import BOOLEAN, INTEGER, NULL, SqlType

Operator = Callable[[Any, Any], Any]


def order_key(type_: SqlType) -> Callable[[Any], Any] | None:
    """How values of a type are brought into order; None if Python's own order is SQL's."""
    if type_.is_float:
        return lambda x: (x != x, x if x == x else 0.0)
    return interval_order if type_.name == "INTERVAL" else None


def compare(op: Operator, type_: SqlType, a: Any, b: Any) -> bool:
    """`a op b` for two physical values of one type, neither NULL."""
    key = order_key(type_)
    return bool(op(a, b) if key is None else op(key(a), key(b)))


# -- vectors -------------------------------------------------------------------------------------------------


def _float_masks(op: Operator, a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore"):
        out: Array = op(a, b)
    an, bn = a != a, b != b
    if an.any() or bn.any():
        out = np.where(an | bn, op(an.astype(np.int8), bn.astype(np.int8)), out)
    return out


def ranks(vectors: Sequence[Vector]) -> list[Array]:
    """Integers in the order of the strings, comparable between the vectors."""
    codes, dictionary = merge_dictionaries(vectors)
    order = np.empty(len(dictionary), dtype=np.int64)
    order[np.argsort(dictionary)] = np.arange(len(dictionary))
    return [order[c] for c in codes]


def _against_constant(op: Operator, a: Vector, b: Vector) -> Array:
    """Compare once per distinct value of `a`."""
    assert a.dictionary is not None
    assert b.dictionary is not None
    constant = b.dictionary[b.values[0]]
    table = np.fromiter((op(s, constant) for s in a.dictionary.tolist()), np.bool_, len(a.dictionary))
    return table[a.values]


def equal_masks(op: Operator, a: Vector, b: Vector) -> Array:
    """`op` on the values of two vectors of one type, whatever stands in NULL slots."""
    type_ = a.type
    if type_.is_text:
        if b.is_constant:
            return _against_constant(op, a, b)
        if a.is_constant:
            return _against_constant(lambda x, y: op(y, x), b, a)
        if a.dictionary is b.dictionary and op in (operator.eq, operator.ne):
            return np.asarray(op(a.values, b.values))
        left, right = ranks([a, b])
        return np.asarray(op(left, right))
    if type_.is_float:
        return _float_masks(op, a.values, b.values)
    if type_.name == "INTERVAL":
        key = np.frompyfunc(interval_order, 1, 1)
        return np.asarray(op(key(a.values), key(b.values))).astype(np.bool_)
    return np.asarray(op(a.values, b.values)).astype(np.bool_)


def all_valid(vectors: Sequence[Vector]) -> Array | None:
    """The rows on which no vector is NULL; None: all of them."""
    out: Array | None = None
    for vector in vectors:
        if vector.valid is not None:
            out = vector.valid if out is None else out & vector.valid
    return out


def _comparison(name: str, op: Operator) -> Function:
    equality = name in ("=", "<>")

    def columns(_: Signature, a: Vector, b: Vector) -> Vector:
        return Vector(BOOLEAN, equal_masks(op, a, b)).with_valid(all_valid([a, b]))

    return Function(
        name,
        alike(lambda t: BOOLEAN, 2, 2, lambda args: comparable(args, equality)),
        lambda types, a, b: compare(op, types.args[0], a, b),
        columns=columns,
        fails=never_fails,
    )


def _same(types: Signature, a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return compare(operator.eq, types.args[0], a, b)


def _same_columns(_: Signature, a: Vector, b: Vector) -> Vector:
    out = equal_masks(operator.eq, a, b)
    if a.valid is not None or b.valid is not None:
        av = np.ones(len(a), np.bool_) if a.valid is None else a.valid
        bv = np.ones(len(b), np.bool_) if b.valid is None else b.valid
        out = (out & av & bv) | ~(av | bv)
    return Vector(BOOLEAN, out)


def _distinct_columns(types: Signature, a: Vector, b: Vector) -> Vector:
    return Vector(BOOLEAN, ~_same_columns(types, a, b).values)


# -- IN ------------------------------------------------------------------------------------------------------


def _in(types: Signature, x: Any, *items: Any) -> bool | None:
    if x is None:
        return None
    if any(item is not None and compare(operator.eq, types.args[0], x, item) for item in items):
        return True
    return None if None in items else False


def _in_columns(types: Signature, x: Vector, *items: Vector) -> Vector | None:
    """Over constant items: one look-up in a table of the distinct values, or `np.isin`."""
    if not all(item.is_constant for item in items) or types.args[0].name == "INTERVAL" or not len(x):
        return None
    wanted = [item[0] for item in items]
    present = [value for value in wanted if value is not None]
    if types.args[0].is_text:
        assert x.dictionary is not None
        chosen = set(present)
        table = np.fromiter((s in chosen for s in x.dictionary.tolist()), np.bool_, len(x.dictionary))
        found = table[x.values]
    elif x.values.dtype == object:
        chosen = set(present)
        found = np.fromiter((v in chosen for v in x.values.tolist()), np.bool_, len(x))
    else:
        found = np.isin(x.values, np.array(present, dtype=x.values.dtype), kind=None)
        if any(value != value for value in present):
            found = found | (x.values != x.values)
    unknown = None if len(present) == len(wanted) else found
    valid = x.valid if unknown is None else unknown if x.valid is None else unknown & x.valid
    return Vector(BOOLEAN, found).with_valid(valid)


# -- GREATEST, LEAST -----------------------------------------------------------------------------------------


def _extreme(op: Operator) -> Callable[..., Any]:
    def scalar(types: Signature, *values: Any) -> Any:
        best = None
        for value in values:
            if value is not None and (best is None or compare(op, types.result, value, best)):
                best = value
        return best

    return scalar


def _extreme_columns(op: Operator) -> Callable[..., Vector | None]:
    def columns(types: Signature, *vectors: Vector) -> Vector | None:
        if types.result.is_text or types.result.name == "INTERVAL" or types.result.is_wide:
            return None
        values = vectors[0].values
        seen = np.ones(len(values), np.bool_) if vectors[0].valid is None else vectors[0].valid
        for vector in vectors[1:]:
            ok = np.ones(len(values), np.bool_) if vector.valid is None else vector.valid
            better = equal_masks(op, vector, Vector(types.result, values))
            values = np.where(ok & (better | ~seen), vector.values, values)
            seen = seen | ok
        return Vector(types.result, values).with_valid(seen)

    return columns


def _all_nullable(args: tuple[Expr, ...]) -> bool:
    return all(arg.nullable for arg in args)


def _known(args: Sequence[Expr]) -> SqlType | None:
    found = common(args)
    return INTEGER if found == NULL else found


_DISTINCT: Rule = alike(lambda t: BOOLEAN, 2, 2, lambda args: comparable(args, True))

ROWS = (
    _comparison("=", operator.eq),
    _comparison("<>", operator.ne),
    _comparison("<", operator.lt),
    _comparison("<=", operator.le),
    _comparison(">", operator.gt),
    _comparison(">=", operator.ge),
    Function(
        "is_distinct",
        _DISTINCT,
        lambda types, a, b: not _same(types, a, b),
        strict=False,
        columns=_distinct_columns,
        null=never_null,
        fails=never_fails,
    ),
    Function(
        "is_not_distinct",
        _DISTINCT,
        _same,
        strict=False,
        columns=_same_columns,
        null=never_null,
        fails=never_fails,
    ),
    Function(
        "in",
        alike(lambda t: BOOLEAN, 2, prepare=lambda args: comparable(args, True)),
        _in,
        strict=False,
        columns=_in_columns,
        fails=never_fails,
    ),
    Function(
        "greatest",
        alike(lambda t: t, 1, prepare=_known),
        _extreme(operator.gt),
        strict=False,
        columns=_extreme_columns(operator.gt),
        null=_all_nullable,
        fails=never_fails,
    ),
    Function(
        "least",
        alike(lambda t: t, 1, prepare=_known),
        _extreme(operator.lt),
        strict=False,
        columns=_extreme_columns(operator.lt),
        null=_all_nullable,
        fails=never_fails,
    ),
)
