"""CREATE TYPE and DROP TYPE: types with names of their own, most of them ENUMs.

A name stands for its type wherever one is written. What is made of it, a column or a view, has the type
itself: it does not notice when the name goes.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokens import Token, TokenType

from everfresh.errors import Code, EverfreshError
from everfresh.sql.datatypes import sql_type
from everfresh.sql.ddl import common
from everfresh.sql.parse import Parsed, split
from everfresh.sql.scope import Catalog
from everfresh.sql.source import near
from everfresh.sql.statements import CreateType, DropType
from everfresh.types import SqlType, fold


def bind_type(parsed: Parsed, catalog: Catalog) -> CreateType | DropType:
    """The statement, with the type that is named."""
    words = _Words(parsed)
    verb = words.next()
    replaces = words.accept("OR", "REPLACE")
    words.accept("TYPE")
    skips = words.accept("IF", "NOT", "EXISTS") if verb == "CREATE" else words.accept("IF", "EXISTS")
    name = words.name()
    if verb == "DROP":
        words.end()
        if fold(name) not in catalog.types and not skips:
            hint = near(name, catalog.types, "types")
            raise parsed.source.error(Code.NOT_FOUND, f"there is no type '{name}'", hint=hint)
        return DropType(name, skips, **common(parsed.source))
    if not words.accept("AS"):
        raise words.wrong()
    found = _type(parsed, words.rest())
    if _is_type(name):
        raise parsed.source.error(Code.EXISTS, f"'{name}' is a type that is always there")
    if fold(name) in catalog.types and not replaces and not skips:
        hint = "drop it first, or use CREATE OR REPLACE TYPE"
        raise parsed.source.error(Code.EXISTS, f"there is already a type '{name}'", hint=hint)
    return CreateType(name, found, replaces, skips, **common(parsed.source))


class _Words:
    """The tokens of a statement, one after another."""

    def __init__(self, parsed: Parsed) -> None:
        self.parsed, self.left = parsed, list(parsed.source.tokens)

    def next(self) -> str:
        return str(self.left.pop(0).text).upper()

    def accept(self, *texts: str) -> bool:
        there = [t for t in self.left[: len(texts)] if t.token_type not in _QUOTED]
        if [str(t.text).upper() for t in there] != list(texts):
            return False
        del self.left[: len(texts)]
        return True

    def name(self) -> str:
        if not self.left or self.left[0].token_type == TokenType.STRING:
            raise self.wrong()
        return str(self.left.pop(0).text)

    def rest(self) -> list[Token]:
        if not self.left:
            raise self.wrong()
        return self.left

    def end(self) -> None:
        if self.left:
            raise self.wrong()

    def wrong(self) -> EverfreshError:
        hint = "as in CREATE TYPE level AS ENUM ('low', 'high'), and DROP TYPE level"
        return self.parsed.source.error(Code.SYNTAX, "this is no statement of a type", hint=hint)


_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


def _type(parsed: Parsed, tokens: list[Token]) -> SqlType:
    text = parsed.source.text[tokens[0].start : tokens[-1].end + 1]
    try:
        (made,) = split(f"SELECT CAST(NULL AS {text})", parsed.source.dialect)
        tree = made.tree.expressions[0] if made.tree is not None and len(made.tree.expressions) == 1 else None
        if tree is not None and tree.args.get("to") is not None:
            return sql_type(tree.args["to"], replace(made.source, types=parsed.source.types))
    except EverfreshError as error:
        if error.code != Code.SYNTAX:
            place = parsed.source.start
            raise EverfreshError(error.code, error.message, place=place, hint=error.hint) from None
    except ValueError:
        pass
    raise parsed.source.error(Code.SYNTAX, f"'{text[:40]}' is not a type")


def _is_type(name: str) -> bool:
    from everfresh.sql.scalars import read_type

    try:
        read_type(name)
    except EverfreshError:
        return False
    return True
