"""Functions that take a lambda: LIST_TRANSFORM, LIST_FILTER, LIST_REDUCE.

The body of a lambda is a constant: a text that declares its parameters and what it uses from around it, and
then the expression, in the language of `everfresh.expr.text`. So a call is a call like any other, of
`(body, result, list, used...)`: `result` is a NULL of the type that the body has, and `used` are the values
from around, which the body calls by the names that it declares behind its parameters. `everfresh.expr.
closures` makes such calls.

A list is computed at once: its values are the rows of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.library.casts import cast_value
from everfresh.expr.library.signature import Function, Rule, Signature
from everfresh.expr.nodes import Expr, Var
from everfresh.types import LIST, VARCHAR, SqlType, coding

Types = Sequence[SqlType]


@lru_cache(maxsize=1024)
def read_body(text: str) -> tuple[tuple[Var, ...], Expr]:
    """What a body declares, and its expression."""
    from everfresh.expr.text import parse_declaration, parse_expr
    from everfresh.expr.tokens import TokenStream

    stream = TokenStream(text)
    found: list[Var] = []
    while not stream.accept(":"):
        if found:
            stream.expect(",")
        found.append(parse_declaration(stream))
    expr = parse_expr(stream, {v.name: v for v in found})
    stream.end()
    return tuple(found), expr


def _values(body: str, parts: list[Any], parameters: int, used: tuple[Any, ...]) -> list[Any]:
    """The values of the body for each part of a list; the second parameter is its place."""
    from everfresh.expr.column import Vector
    from everfresh.expr.vector import evaluate_vector

    if not parts:
        return []
    declared, expr = read_body(body)
    rows = len(parts)
    columns = {declared[0].name: Vector.from_pylist(parts, declared[0].type)}
    if parameters > 1:
        columns[declared[1].name] = Vector(declared[1].type, np.arange(1, rows + 1))
    for variable, value in zip(declared[parameters:], used, strict=True):
        columns[variable.name] = Vector.constant(value, variable.type, rows)
    return evaluate_vector(expr, columns, rows).to_pylist()


def _parameters(body: str, used: tuple[Any, ...]) -> int:
    return len(read_body(body)[0]) - len(used)


def _transform(types: Signature, body: str, _: None, code: str | None, *used: Any) -> str | None:
    if code is None:
        return None
    parts = coding.elements(code, types.args[2])
    return coding.from_elements(_values(body, parts, _parameters(body, used), used), types.result)


def _filter(types: Signature, body: str, _: None, code: str | None, *used: Any) -> str | None:
    if code is None:
        return None
    parts = coding.elements(code, types.args[2])
    kept = _values(body, parts, _parameters(body, used), used)
    return coding.from_elements([p for p, keep in zip(parts, kept, strict=True) if keep], types.result)


def _reduce(types: Signature, body: str, _: None, code: str | None, *used: Any) -> Any:
    """The body of what came before and of the next value; begun with the first one."""
    if code is None:
        return None
    parts = coding.elements(code, types.args[2])
    if not parts:
        raise EverfreshError(
            Code.VALUE, "an empty list is not reduced without a first value",
            hint="give one as the third argument of list_reduce",
        )  # fmt: skip
    first = cast_value(parts[0], types.args[2].inner[0], types.result)
    return _folded(body, first, parts[1:], used, 2)


def _reduce_from(types: Signature, body: str, start: Any, code: str | None, *used: Any) -> Any:
    return None if code is None else _folded(body, start, coding.elements(code, types.args[2]), used, 1)


def _folded(body: str, found: Any, parts: list[Any], used: tuple[Any, ...], first: int) -> Any:
    from everfresh.expr.scalar import evaluate

    declared, expr = read_body(body)
    parameters = _parameters(body, used)
    row = {v.name: value for v, value in zip(declared[parameters:], used, strict=True)}
    for i, part in enumerate(parts, first):
        row |= {declared[0].name: found, declared[1].name: part}
        if parameters > 2:
            row[declared[2].name] = i
        found = evaluate(expr, row)
    return found


def _typing(result: Callable[[SqlType, SqlType], SqlType]) -> Rule:
    def of_types(types: Types) -> SqlType | None:
        if len(types) < 3 or types[0] != VARCHAR or types[2].name != "LIST":
            return None
        return result(types[1], types[2])

    return Rule(of_types, lambda args: [arg.type for arg in args])


def _may_be_null(args: tuple[Expr, ...]) -> bool:
    return True


_MORE: dict[str, Any] = {"strict": False, "null": _may_be_null}

ROWS = (
    Function("list_transform", _typing(lambda of, _: LIST(of)), _transform, **_MORE),
    Function("list_filter", _typing(lambda of, given: given), _filter, **_MORE),
    Function("list_reduce", _typing(lambda of, _: of), _reduce, **_MORE),
    Function("list_reduce_from", _typing(lambda of, _: of), _reduce_from, **_MORE),
)
