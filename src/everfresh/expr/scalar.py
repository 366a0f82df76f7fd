"""The reference evaluator: one row, physical values, nothing clever.

Case, and, or and coalesce stop at the first part that decides, so an error in a part that is not reached does
not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everfresh.expr.library.casts import cast_value
from everfresh.expr.library.functions import FUNCTIONS
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr, Var


def evaluate(expr: Expr, env: Mapping[str, Any]) -> Any:
    """The value of `expr` where the variables have the physical values of `env`.

    >>> from everfresh.expr import build
    >>> evaluate(build.call("+", build.literal(1), build.literal(2)), {})
    3
    """
    match expr:
        case Const():
            return expr.value
        case Var():
            return env[expr.name]
        case Cast():
            return cast_value(evaluate(expr.arg, env), expr.arg.type, expr.to)
        case Case():
            for condition, value in expr.arms:
                if evaluate(condition, env) is True:
                    return evaluate(value, env)
            return evaluate(expr.default, env)
        case Call():
            return _call(expr, env)
        case _:
            raise AssertionError(f"not an expression: {type(expr).__name__}")


def _call(expr: Call, env: Mapping[str, Any]) -> Any:
    function = FUNCTIONS[expr.op]
    if function.lazy:
        return _LAZY[expr.op](expr.args, env)
    values = [evaluate(arg, env) for arg in expr.args]
    if function.strict and any(value is None for value in values):
        return None
    return function.scalar(expr.signature, *values)


def _and(args: tuple[Expr, ...], env: Mapping[str, Any]) -> bool | None:
    known = True
    for arg in args:
        value = evaluate(arg, env)
        if value is False:
            return False
        known = known and value is not None
    return True if known else None


def _or(args: tuple[Expr, ...], env: Mapping[str, Any]) -> bool | None:
    known = True
    for arg in args:
        value = evaluate(arg, env)
        if value is True:
            return True
        known = known and value is not None
    return False if known else None


def _coalesce(args: tuple[Expr, ...], env: Mapping[str, Any]) -> Any:
    for arg in args:
        value = evaluate(arg, env)
        if value is not None:
            return value
    return None


_LAZY = {"and": _and, "or": _or, "coalesce": _coalesce}
