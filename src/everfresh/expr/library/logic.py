"""AND, OR, NOT, IS NULL, COALESCE, and the 0/1 helpers with which conditions enter the calculus.

`and`, `or` and `coalesce` take one or more arguments and are lazy: the evaluators stop at the first argument
that decides. The helpers are never NULL, since a multiplicity never is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from everfresh.expr.coerce import alike, common, every
from everfresh.expr.column import Vector, zero_of
from everfresh.expr.library.signature import Function, Signature, never_fails, never_null
from everfresh.expr.nodes import Expr
from everfresh.types import BIGINT, BOOLEAN, SqlType


def _lazy(_: Signature, *values: Any) -> Any:
    raise AssertionError("lazy functions are evaluated by the evaluator")


def _all_nullable(args: tuple[Expr, ...]) -> bool:
    return all(arg.nullable for arg in args)


def _anything(result: SqlType) -> Any:
    return alike(lambda t: result, 1, 1, lambda args: args[0].type)


def _is_null(_: Signature, x: Vector) -> Vector:
    return Vector(BOOLEAN, np.zeros(len(x), np.bool_) if x.valid is None else ~x.valid)


def _not_null01(_: Signature, x: Vector) -> Vector:
    return Vector(BIGINT, np.ones(len(x), np.int64) if x.valid is None else x.valid.astype(np.int64))


def _truth(_: Signature, x: Vector) -> Vector:
    # A NULL slot holds False already.
    return Vector(BIGINT, x.values.astype(np.int64))


def _if_null_zero(types: Signature, x: Any) -> Any:
    if x is not None:
        return x
    return 0.0 if types.result.is_float else zero_of(types.result) if types.result.is_wide else 0


def _finite(_: Signature, x: float | None) -> float:
    return x if x is not None and math.isfinite(x) else 0.0


def _finite_columns(types: Signature, x: Vector) -> Vector:
    return Vector(types.result, np.where(np.isfinite(x.values), x.values, x.values.dtype.type(0)))


def _flag(name: str, test: Callable[[Any], Any]) -> Function:
    return Function(
        name,
        alike(lambda t: BIGINT if t.is_float else None, 1, 1),
        lambda types, x: int(x is not None and bool(test(x))),
        strict=False,
        null=never_null,
        fails=never_fails,
        columns=lambda types, x: Vector(BIGINT, np.asarray(test(x.values)).astype(np.int64)),
    )


_BOOLEANS = every(BOOLEAN, BOOLEAN)
_FLOATS = alike(lambda t: t if t.is_float else None, 1, 1)
_NUMBERS = alike(lambda t: t if t.is_numeric else None, 1, 1)

ROWS = (
    Function("and", _BOOLEANS, _lazy, strict=False, lazy=True, fails=never_fails),
    Function("or", _BOOLEANS, _lazy, strict=False, lazy=True, fails=never_fails),
    Function(
        "not",
        every(BOOLEAN, BOOLEAN, 1, 1),
        lambda types, x: not x,
        vector=lambda types, x: ~x,
        fails=never_fails,
    ),
    Function(
        "coalesce",
        alike(lambda t: t, 1, prepare=common),
        _lazy,
        strict=False,
        lazy=True,
        null=_all_nullable,
        fails=never_fails,
    ),
    Function(
        "is_null",
        _anything(BOOLEAN),
        lambda types, x: x is None,
        strict=False,
        columns=_is_null,
        null=never_null,
        fails=never_fails,
    ),
    Function(
        "truth",
        every(BOOLEAN, BIGINT, 1, 1),
        lambda types, x: int(x is True),
        strict=False,
        columns=_truth,
        null=never_null,
        fails=never_fails,
    ),
    Function(
        "not_null01",
        _anything(BIGINT),
        lambda types, x: int(x is not None),
        strict=False,
        columns=_not_null01,
        null=never_null,
        fails=never_fails,
    ),
    Function(
        "if_null_zero",
        _NUMBERS,
        _if_null_zero,
        strict=False,
        null=never_null,
        fails=never_fails,
        columns=lambda types, x: Vector(x.type, x.values),
    ),
    Function(
        "finite_or_zero",
        _FLOATS,
        _finite,
        strict=False,
        columns=_finite_columns,
        null=never_null,
        fails=never_fails,
    ),
    _flag("is_nan01", lambda x: x != x),
    _flag("is_pinf01", lambda x: x == math.inf),
    _flag("is_ninf01", lambda x: x == -math.inf),
)
