"""Parameters of a statement: values that are given beside its text, for `?`, `$1` and `$name`.

A value takes the place of a literal, with its type, and never becomes text: nothing in it can be read as SQL.
Invariant: as many values are given as the statement asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from sqlglot.tokens import Token, TokenType

from everfresh.errors import Code, EverfreshError
from everfresh.expr import build
from everfresh.expr.nodes import Const

Parameters = Sequence[Any] | Mapping[str, Any]


def numbered(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens with `$1`, `$2`, ... for each `?`, in order: sqlglot does not say which one is which."""
    count = 0
    for token in tokens:
        if token.token_type != TokenType.PLACEHOLDER:
            yield token
            continue
        count += 1
        where = token.line, token.col, token.start, token.end
        yield Token(TokenType.PARAMETER, "$", *where)
        yield Token(TokenType.NUMBER, str(count), *where)


def check_given(tokens: Sequence[Token], given: Parameters | None) -> None:
    """Raise unless there is a value for each parameter, and a parameter for each value."""
    wanted = list(dict.fromkeys(_names(tokens)))
    if given is None:
        if wanted:
            raise EverfreshError(
                Code.ARGUMENT,
                f"a value for parameter {wanted[0]} is missing",
                hint="db.sql(text, [value, ...])",
            )
        return
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | Mapping):
        raise EverfreshError(
            Code.ARGUMENT,
            f"parameters are a list, or a dict by name, not {type(given).__name__}",
            hint="a dialect is named: db.sql(text, dialect='spark')",
        )
    known = [f"${name}" for name in (given if isinstance(given, Mapping) else range(1, len(given) + 1))]
    missing = [name for name in wanted if name not in known]
    if missing:
        raise EverfreshError(Code.ARGUMENT, f"a value for parameter {missing[0]} is missing")
    unused = [name for name in known if name not in wanted]
    if unused:
        raise EverfreshError(Code.ARGUMENT, f"the statement has no parameter {unused[0]}")


def _names(tokens: Sequence[Token]) -> Iterator[str]:
    """What the parameters of a statement are called."""
    for token, after in pairwise(tokens):
        if token.token_type == TokenType.PARAMETER and token.text == "$":
            yield f"${after.text}"


def value_of(given: Parameters | None, name: str) -> Const:
    """The value of a parameter, as a literal."""
    found: Any = None
    if isinstance(given, Mapping):
        found = given.get(name)
    elif given is not None and name.isdecimal() and 0 < int(name) <= len(given):
        found = given[int(name) - 1]
    if hasattr(found, "item") and not hasattr(found, "__len__"):  # a scalar of NumPy
        found = found.item()
    return build.literal(found)
