"""Calls with a lambda, made of expressions.

The body of a lambda is bound like any expression, its parameters as variables with names of their own. To
close it is to write it as a text in which everything has a name of the lambda's: `p0`, `p1` for parameters,
`c0`, `c1` for what it uses from around, which become further arguments of the call. So equal lambdas are
equal texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everfresh.errors import Code, EverfreshError
from everfresh.expr import coerce
from everfresh.expr.build import cast, implicit
from everfresh.expr.coerce import is_null_literal
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr, Var
from everfresh.expr.text import declaration, to_text
from everfresh.types import BIGINT, BOOLEAN, VARCHAR, SqlType

Body = Callable[[Sequence[SqlType]], tuple[list[Var], Expr]]
"""Binds the body of a lambda whose parameters have these types: the parameters that it has, and the body."""


def closed(name: str, parameters: Sequence[Var], body: Expr, held: Sequence[Expr]) -> Expr:
    """The call of a function with a lambda; `held` are its other arguments: a list, or a value and a list."""
    by: dict[Expr, Var] = {v: Var(f"p{i}", v.of) for i, v in enumerate(parameters)}
    used: list[Expr] = []

    def inside(expr: Expr) -> Expr:
        if expr in by:
            return by[expr]
        if isinstance(expr, Call | Cast | Case) and not isinstance(expr, Var):
            return expr.map_children(inside)
        if isinstance(expr, Const):
            return expr
        if any(node in parameters for node in expr.walk()):
            raise EverfreshError(
                Code.UNSUPPORTED,
                "an aggregate or a window over what a lambda names is not supported",
            )
        used.append(expr)
        by[expr] = Var(f"c{len(used) - 1}", expr.type, expr.nullable)
        return by[expr]

    made = inside(body)
    declared = ", ".join(declaration(v) for v in by.values())
    text = Const(f"{declared}: {to_text(made)}", VARCHAR)
    start = held[0] if len(held) > 1 else Const(None, made.type)
    return Call(name, (text, start, held[-1], *used))


def _inner(held: Expr, name: str) -> SqlType:
    if held.type.name != "LIST":
        raise EverfreshError(Code.TYPE, f"{name} takes a list, not {held.type}")
    return held.type.inner[0]


def transformed(held: Expr, body: Body) -> Expr:
    """LIST_TRANSFORM."""
    if is_null_literal(held):
        return held
    parameters, expr = body((_inner(held, "list_transform"), BIGINT))
    return closed("list_transform", parameters, expr, [held])


def filtered(held: Expr, body: Body) -> Expr:
    """LIST_FILTER: the condition is cast to BOOLEAN."""
    if is_null_literal(held):
        return held
    parameters, expr = body((_inner(held, "list_filter"), BIGINT))
    return closed("list_filter", parameters, implicit(expr, BOOLEAN), [held])


def reduced(held: Expr, body: Body, start: Expr | None = None) -> Expr:
    """LIST_REDUCE: what is carried on has the type that the values and the body come to."""
    if is_null_literal(held):
        return held
    inner = _inner(held, "list_reduce")
    carried = inner if start is None or is_null_literal(start) else start.type
    parameters, expr = body((carried, inner, BIGINT))
    found = coerce.common([Var("", carried), Var("", expr.type)])
    if found is None:
        raise EverfreshError(Code.TYPE, "the values of a list and what the lambda gives have no common type")
    if found != carried:
        parameters, expr = body((found, inner, BIGINT))
    expr = cast(expr, found)
    if start is None:
        return closed("list_reduce", parameters, expr, [held])
    return closed("list_reduce_from", parameters, expr, [implicit(start, found), held])
