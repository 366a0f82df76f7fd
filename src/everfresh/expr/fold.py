"""Partial evaluation of expressions: the rule set `FOLD`.

Rules never change the value on any row, nor whether a row raises: a call whose constant arguments raise stays
as it is. The exceptions are errors in a part that folding proves is never needed, as in `FALSE AND 1 // 0 =
1`.
"""

from __future__ import annotations

from collections.abc import Callable

from everfresh.errors import EverfreshError
from everfresh.expr.library.functions import FUNCTIONS
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr
from everfresh.expr.scalar import evaluate
from everfresh.expr.total import lossless, total
from everfresh.rewrite import Rule, RuleSet
from everfresh.types import BOOLEAN

TRUE, FALSE = Const(True, BOOLEAN), Const(False, BOOLEAN)


def _constants(expr: Call | Cast) -> Expr | None:
    args = expr.args if isinstance(expr, Call) else (expr.arg,)
    if not all(isinstance(arg, Const) for arg in args):
        return None
    try:
        return Const(evaluate(expr, {}), expr.type)
    except EverfreshError:
        return None


def _strict_null(expr: Call) -> Expr | None:
    """A strict function of a NULL constant is NULL, if no other argument can raise."""
    if not FUNCTIONS[expr.op].strict or not any(isinstance(a, Const) and a.value is None for a in expr.args):
        return None
    return Const(None, expr.type) if all(not a.children for a in expr.args) else None


def _connective(expr: Call) -> Expr | None:
    """`x AND TRUE` is x, `x AND FALSE` ends there, for OR the other way round; calls in calls are one."""
    neutral, deciding = (TRUE, FALSE) if expr.op == "and" else (FALSE, TRUE)
    kept: list[Expr] = []
    for arg in expr.args:
        if isinstance(arg, Call) and arg.op == expr.op:
            kept.extend(arg.args)
        elif arg == deciding:
            kept.append(arg)
            break  # what follows is never evaluated
        elif arg != neutral:
            kept.append(arg)
    if deciding in kept and all(total(arg) for arg in kept):
        return deciding
    if not kept:
        return neutral
    return kept[0] if len(kept) == 1 else Call(expr.op, tuple(kept))


def _negation(expr: Call) -> Expr | None:
    inner = expr.args[0]
    return inner.args[0] if isinstance(inner, Call) and inner.op == "not" else None


def _is_null(expr: Call) -> Expr | None:
    return FALSE if not expr.args[0].nullable and total(expr.args[0]) else None


def _coalesce(expr: Call) -> Expr | None:
    """NULLs are left out, and so is what stands behind an argument that is never NULL."""
    kept: list[Expr] = []
    for arg in expr.args:
        if isinstance(arg, Const) and arg.value is None:
            continue
        kept.append(arg)
        if not arg.nullable:
            break
    if not kept:
        return expr.args[0]
    return kept[0] if len(kept) == 1 else Call("coalesce", tuple(kept))


def _case(expr: Case) -> Expr | None:
    arms: list[tuple[Expr, Expr]] = []
    default = expr.default
    for condition, value in expr.arms:
        if condition == TRUE:
            default = value
            break
        if not isinstance(condition, Const):
            arms.append((condition, value))
    while arms and arms[-1][1] == default and total(arms[-1][0]):
        arms.pop()
    return Case(tuple(arms), default) if arms else default


def _cast(expr: Cast) -> Expr | None:
    """A cast to the same type, there and back, and through a wider type."""
    inner = expr.arg
    if inner.type == expr.to:
        return inner
    if isinstance(inner, Cast) and lossless(inner.arg.type, inner.to):
        if inner.arg.type == expr.to:
            return inner.arg
        if inner.arg.type.is_exact and inner.to.is_exact and expr.to.is_exact:
            return Cast(inner.arg, expr.to)
    return None


def _on(name: str, ops: tuple[str, ...], apply: Callable[[Call], Expr | None]) -> Rule:
    return Rule(name, (Call,), lambda expr: apply(expr) if expr.op in ops else None)


FOLD = RuleSet(
    (
        Rule("constant", (Call, Cast), _constants),
        Rule("strict-null", (Call,), _strict_null),
        _on("connective", ("and", "or"), _connective),
        _on("not-not", ("not",), _negation),
        _on("is-null", ("is_null",), _is_null),
        _on("coalesce", ("coalesce",), _coalesce),
        Rule("case", (Case,), _case),
        Rule("cast", (Cast,), _cast),
    )
)
