"""Lambdas in SQL: `lambda x: x + 1`, the older `x -> x + 1`, and `[x + 1 FOR x IN l IF x > 1]`.

A parameter hides a column of its name. Its variable is called by how deep the lambda stands, so that nested
ones do not meet; the call that is made (`everfresh.expr.closures`) has its own names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import build, closures
from everfresh.expr.nodes import Expr, Var
from everfresh.sql import nested
from everfresh.types import BOOLEAN, SqlType, fold

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder


def _body(binder: Binder, names: Sequence[Any], tree: Any, most: int) -> closures.Body:
    """How the body of a lambda is bound once the types of its parameters are known."""
    if not 1 <= len(names) <= most:
        raise binder.source.error(Code.TYPE, f"this lambda takes up to {most} parameters", tree)
    if tree.find(exp.Query) is not None:
        raise binder.source.unsupported("a subquery in a lambda", tree)
    depth = len(binder.parameters)

    def bind(types: Sequence[SqlType]) -> tuple[list[Var], Expr]:
        made = [Var(f"lambda {depth} {i}", t) for i, t in enumerate(types[: len(names)])]
        known = {**binder.parameters, **{fold(n.name): v for n, v in zip(names, made, strict=True)}}
        return made, replace(binder, parameters=known).bind(tree)

    return bind


def _lambda(binder: Binder, node: Any, name: str, most: int) -> closures.Body:
    if not isinstance(node, exp.Lambda):
        raise binder.source.error(
            Code.TYPE, f"{name} takes a lambda", node, hint=f"as in {name}(l, lambda x: x + 1)"
        )
    return _body(binder, node.expressions, node.this, most)


def transform(binder: Binder, node: Any) -> Expr:
    """LIST_TRANSFORM."""
    body = _lambda(binder, node.expression, "list_transform", 2)
    return closures.transformed(binder.bind(node.this), body)


def keep(binder: Binder, node: Any) -> Expr:
    """LIST_FILTER."""
    body = _lambda(binder, node.expression, "list_filter", 2)
    return closures.filtered(binder.bind(node.this), body)


def by_name(binder: Binder, name: str, node: Any) -> Expr:
    """A call of a function with a lambda that sqlglot does not know."""
    given = node.expressions
    wanted = (2, 3) if name == "list_reduce" else (2,)
    if len(given) not in wanted:
        raise binder.source.error(Code.TYPE, f"{name} takes a list and a lambda", node)
    held = binder.bind(given[0])
    if name == "list_reduce":
        start = binder.bind(given[2]) if len(given) > 2 else None
        return closures.reduced(held, _lambda(binder, given[1], name, 3), start)
    make = closures.transformed if name == "list_transform" else closures.filtered
    return make(held, _lambda(binder, given[1], name, 2))


def comprehension(binder: Binder, node: Any) -> Expr:
    """[body FOR x, i IN list IF condition]: the body is computed where it holds."""
    position, condition = node.args.get("position"), node.args.get("condition")
    names = [node.expression, *([position] if position is not None else [])]
    held = binder.bind(node.args["iterator"])
    result = _body(binder, names, node.this, 2)
    if condition is None:
        return closures.transformed(held, result)
    test = _body(binder, names, condition, 2)

    def both(types: Sequence[SqlType]) -> tuple[list[Var], Expr]:
        made, value = result(types)
        keeps = build.implicit(test(types)[1], BOOLEAN)
        return made, nested.packed([("filter", keeps), ("result", build.case([(keeps, value)]))])

    def part(name: str) -> closures.Body:
        def bind(types: Sequence[SqlType]) -> tuple[list[Var], Expr]:
            elem = Var("lambda", types[0])
            return [elem], nested.field(elem, name)

        return bind

    kept = closures.filtered(closures.transformed(held, both), part("filter"))
    return closures.transformed(kept, part("result"))


def parameter(binder: Binder, node: Any) -> Expr | None:
    """The parameter that a name means, if it does."""
    return binder.parameters.get(fold(node.name))
