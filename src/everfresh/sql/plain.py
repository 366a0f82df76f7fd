"""INSERT of plain values, read at once: what an application sends row by row, and what is wide.

`INSERT INTO name [(names)] VALUES (values), ...` where a value is a number, a text, NULL, TRUE or FALSE is
read by regular expressions, without tokens and without a tree. Whatever is not of that form, and whatever is
refused, is left to `parse` and `bind`: they alone say what is wrong, and where. Invariant: what is bound here
equals what `bind(split(text))` gives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from sqlglot import Dialect

from everfresh.errors import Code, EverfreshError
from everfresh.expr import build
from everfresh.expr.nodes import Expr
from everfresh.sql.scope import Catalog
from everfresh.sql.source import position
from everfresh.sql.statements import Insert
from everfresh.types import DOUBLE, SqlType, is_unicode

_BLANK = r"[ \t\r\n]*"
_NAME = r"(?:[A-Za-z_][A-Za-z0-9_]*|\"[^\"\\]+\")"
_HEAD = re.compile(
    rf"{_BLANK}(?P<start>INSERT)[ \t\r\n]+INTO[ \t\r\n]+(?P<table>{_NAME}){_BLANK}"
    rf"(?:\({_BLANK}(?P<names>{_NAME}(?:{_BLANK},{_BLANK}{_NAME})*){_BLANK}\){_BLANK})?VALUES{_BLANK}(?=\()",
    re.IGNORECASE,
)
_VALUE = re.compile(
    rf"(?P<open>\(?){_BLANK}"
    r"(?:(?P<number>-?[0-9]{1,38}(?:\.[0-9]{1,38})?)|'(?P<text>[^'\\]*)'|(?P<word>NULL|TRUE|FALSE))"
    rf"{_BLANK}(?P<end>,|\){_BLANK}(?:,|;?{_BLANK}\Z)){_BLANK}",
    re.IGNORECASE,
)
_WORDS = {"NULL": None, "TRUE": True, "FALSE": False}


Written = tuple[str | None, str | None, str | None]
"""Of a value the number, the text or the word: one of them."""


@dataclass(frozen=True)
class Plain:
    """Such a statement: its names, and the rows of its values as they are written."""

    text: str
    place: str
    table: str
    names: tuple[str, ...] | None
    rows: list[list[Written]]


def read(text: str, dialect: str) -> Plain | None:
    """The statement in a text, if it is one of plain values.

    >>> found = read("INSERT INTO t (a, b) VALUES (1, 'x'), (NULL, '');", "duckdb")
    >>> found.table, found.names, [len(row) for row in found.rows]
    ('t', ('a', 'b'), [2, 2])
    >>> read("INSERT INTO t VALUES (1 + 1)", "duckdb")
    """
    head = _HEAD.match(text) if dialect == "duckdb" else None
    if head is None or not is_unicode(text):
        return None
    written = [head["table"], *re.findall(_NAME, head["names"] or "")]
    if any(name.upper() in _keywords() for name in written):
        return None
    table, *names = (name.strip('"') for name in written)
    rows = _rows(text, head.end())
    if rows is None:
        return None
    whole = text[head.start("start") :].rstrip(" \t\r\n").removesuffix(";").rstrip(" \t\r\n")
    given = tuple(names) if head["names"] else None
    return Plain(whole, position(text, head.start("start")), table, given, rows)


def _rows(text: str, at: int) -> list[list[Written]] | None:
    """The values from a place to the end of the text; nothing unless they fill it."""
    rows: list[list[Written]] = []
    opened, end = False, ""
    while at < len(text):
        found = _VALUE.match(text, at)
        if found is None or bool(found["open"]) == opened:
            return None
        if not opened:
            rows.append([])
        rows[-1].append((found["number"], found["text"], found["word"]))
        end, at = found["end"], found.end()
        opened = end == ","
    return None if end.endswith(",") else rows


@cache
def _keywords() -> frozenset[str]:
    """Words that may mean more than a name, unless they are in quotes."""
    rules = Dialect.get_or_raise("duckdb")
    parser = rules.parser_class
    return frozenset(
        [
            *(word.upper() for word in rules.tokenizer_class.KEYWORDS),
            *parser.CONSTRAINT_PARSERS,
            *parser.SCHEMA_UNNAMED_CONSTRAINTS,
            *parser.FUNCTION_PARSERS,
            *parser.NO_PAREN_FUNCTION_PARSERS,
            *("DIRECTORY", "FUNCTION", "LOCAL", "BY", "DEFAULT"),
        ]
    )


def bind(plain: Plain, catalog: Catalog) -> Insert | None:
    """The statement, bound; nothing if there is anything to refuse."""
    schema = catalog.table(plain.table)
    if schema is None:
        return None
    found = (
        [schema.find(name) for name in plain.names]
        if plain.names is not None
        else [schema.column(name) for name in schema.given]
    )
    columns = [column for column in found if column is not None]
    if len(columns) != len(found) or len({column.name for column in columns}) != len(columns):
        return None
    if any(len(row) != len(columns) for row in plain.rows):
        return None
    if schema.generated and any(column.name not in schema.given for column in columns):
        return None
    if schema.defaults and len(columns) < len(schema.columns):
        return None
    known: dict[object, Expr] = {}
    rows: list[list[Expr]] = []
    try:
        for row in plain.rows:
            rows.append([])
            for value, column in zip(row, columns, strict=True):
                key = value, column.type
                made = known.get(key)
                if made is None:
                    made = known[key] = _literal(*value, column.type)
                rows[-1].append(made)
    except EverfreshError:
        return None
    names = tuple(column.name for column in columns)
    return Insert(schema.name, names, rows, text=plain.text, place=plain.place)


def _literal(number: str | None, text: str | None, word: str | None, to: SqlType) -> Expr:
    if word is not None:
        return build.implicit(build.literal(_WORDS[word.upper()]), to)
    if number is None:
        return build.implicit(build.literal(text), to)
    digits = number.removeprefix("-")
    if not digits.isdecimal():
        found: Expr = build.number(digits)
        return build.implicit(found if digits is number else build.call("neg", found), to)
    value = build.literal(int(number))
    if value.type == DOUBLE:
        raise EverfreshError(Code.VALUE, "an integer outside HUGEINT")
    return build.implicit(value, to)
