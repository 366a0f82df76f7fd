"""PREPARE, EXECUTE and DEALLOCATE, read by their words.

What is prepared is kept as text by the handle, and is a statement with parameters like any other when it is
executed. Invariant: a prepared text can be parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot.tokens import Token, TokenType

from everfresh.errors import Code
from everfresh.expr import evaluate
from everfresh.sql.altering import Words
from everfresh.sql.expressions import Binder
from everfresh.sql.parameters import Parameters
from everfresh.sql.parse import PREPARING, Parsed, expression_of
from everfresh.sql.scope import Scope
from everfresh.sql.source import Source
from everfresh.types import to_logical


@dataclass(frozen=True)
class Prepare:
    """PREPARE name AS statement."""

    name: str
    text: str


@dataclass(frozen=True)
class Execute:
    """EXECUTE name, name(value, ...) or name(parameter := value, ...)."""

    name: str
    given: Parameters | None


@dataclass(frozen=True)
class Deallocate:
    """DEALLOCATE [PREPARE] name."""

    name: str


def about_prepared(parsed: Parsed) -> Prepare | Execute | Deallocate | None:
    """The statement, if it is one of these.

    >>> from everfresh.sql.parse import split
    >>> [about_prepared(p) for p in split("Prepare q AS SELECT $1; EXECUTE q(1 + 1); SELECT 1")]
    [Prepare(name='q', text='SELECT $1'), Execute(name='q', given=[2]), None]
    """
    if parsed.verb not in PREPARING:
        return None
    words = Words(parsed.source, 1)
    if parsed.verb == "DEALLOCATE":
        words.take("PREPARE")
    name = words.name()
    if parsed.verb == "PREPARE":
        if parsed.inner is None or not words.take("AS"):
            raise words.error("PREPARE name AS statement is expected here")
        return Prepare(name, parsed.inner.source.statement)
    given: Parameters | None = None
    if parsed.verb == "EXECUTE" and words.token is not None:
        given = _given(parsed.source, words.inside())
    words.end()
    return Execute(name, given) if parsed.verb == "EXECUTE" else Deallocate(name)


def _given(source: Source, tokens: Sequence[Token]) -> Parameters | None:
    """The values in the parentheses of EXECUTE."""
    by_name: dict[str, Any] = {}
    by_place: list[Any] = []
    for some in _parts(tokens):
        if len(some) > 1 and some[1].text == ":=":
            by_name[some[0].text] = _value(source, some[2:])
        else:
            by_place.append(_value(source, some))
    if by_name and by_place:
        raise source.error(Code.SYNTAX, "values are given by name or by place, not both")
    return by_name or by_place or None


def _parts(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Tokens cut at the commas that stand in no parentheses."""
    opening = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
    closing = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
    start = depth = 0
    for i, token in enumerate(tokens):
        depth += (token.token_type in opening) - (token.token_type in closing)
        if not depth and token.token_type == TokenType.COMMA:
            yield tokens[start:i]
            start = i + 1
    if tokens:
        yield tokens[start:]


def _value(source: Source, tokens: Sequence[Token]) -> Any:
    bound = Binder(Scope(source), "EXECUTE").bind(expression_of(source, tokens))
    return to_logical(evaluate(bound, {}), bound.type)
