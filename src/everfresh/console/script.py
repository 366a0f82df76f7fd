"""A SQL text as its statements, each with its place, so that a script or a prompt can run them one by one.

Only what hides a semicolon is understood here (quotes, comments, dollar quotes, dimensions of arrays); the
rest is the parser's.

>>> [(s.text, s.line) for s in split("SELECT ';' -- one; still one\\n; SELECT 2;").statements]
[("SELECT ';' -- one; still one", 1), ('SELECT 2', 2)]
>>> split("SELECT 1; SELECT 'open").rest.text
"SELECT 'open"
>>> [s.text for s in split("CREATE ARRAY a <> [i=1,8,2; j=1,8,2]; SELECT 1;").statements]
['CREATE ARRAY a <> [i=1,8,2; j=1,8,2]', 'SELECT 1']
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from everfresh.errors import EverfreshError
from everfresh.types import TableSchema

_BACKSLASH_DIALECTS = frozenset({"bigquery", "clickhouse", "databricks", "hive", "mysql", "spark", "spark2"})


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """One statement without its semicolon, and where it begins (from 1)."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Script:
    """The finished statements of a text, and the unfinished one behind the last semicolon, if any."""

    statements: tuple[ScriptStatement, ...]
    rest: ScriptStatement | None


def _tokens(backslash: bool) -> re.Pattern[str]:
    escape = r"|\\." if backslash else ""
    plain = r"\\" if backslash else ""
    return re.compile(
        rf"""
          (?P<blank> \s+ | --[^\n]* | /\*.*?\*/ )
        | (?P<quoted> '(?:[^'{plain}]|''{escape})*+' | "(?:[^"{plain}]|""{escape})*+" | `[^`]*` )
        | (?P<dollar> \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$ )
        | (?P<open> ['"`] | /\* | \$\w*\$ )
        | (?P<end> ; )
        | (?P<other> [^\W\d][\w$]* | . )
        """,
        re.VERBOSE | re.DOTALL,
    )


_PLAIN, _ESCAPING = _tokens(backslash=False), _tokens(backslash=True)


_DIMENSIONS = re.compile(r"CREATE\s+(UNIQUE\s+)?ARRAY\b|SELECT\b.*\bINTO\b", re.IGNORECASE | re.DOTALL)
"""Statements in which dimensions stand in brackets, with a semicolon between."""


def split(text: str, dialect: str = "duckdb") -> Script:
    """The statements of `text`; those of nothing but comments are left out."""
    pattern = _ESCAPING if dialect in _BACKSLASH_DIALECTS else _PLAIN
    done: list[ScriptStatement] = []
    start: int | None = None  # where the current statement begins
    depth = 0  # of brackets in it
    line, counted, line_start = 1, 0, 0  # the line number at `counted`, and where that line begins

    def statement(begin: int, end: int) -> ScriptStatement:
        nonlocal line, counted, line_start
        line += text.count("\n", counted, begin)
        line_start = max(text.rfind("\n", counted, begin) + 1, line_start)
        counted = begin
        return ScriptStatement(text[begin:end].rstrip(), line, begin - line_start + 1)

    for token in pattern.finditer(text):
        kind = token.lastgroup
        if kind == "end" and depth > 0 and _DIMENSIONS.match(text, start or 0, token.start()):
            continue
        if kind == "end":
            if start is not None:
                done.append(statement(start, token.start()))
            start, depth = None, 0
        elif kind != "blank" and start is None:
            start = token.start()
        depth += (token[0] == "[") - (token[0] == "]")
        if kind == "open":
            break
    rest = None if start is None else statement(start, len(text))
    return Script(tuple(done), rest)


def create_table(schema: TableSchema) -> str:
    """The statement that makes a table; names are in quotes, so that any will do.

    >>> from everfresh.types import BIGINT, Column
    >>> create_table(TableSchema("order", (Column("id", BIGINT, nullable=False),), key=("id",)))
    'CREATE TABLE "order" ("id" BIGINT NOT NULL, PRIMARY KEY ("id"))'
    """
    return schema.ddl


def in_script(error: EverfreshError, statement: ScriptStatement, name: str) -> EverfreshError:
    """An error about `statement` alone, with its place in the whole script called `name`."""

    def shift(match: re.Match[str]) -> str:
        line, column = int(match[1]), int(match[2])
        column += statement.column - 1 if line == 1 else 0
        return f"line {line + statement.line - 1}, column {column}"

    place, found = re.subn(r"line (\d+), column (\d+)", shift, error.place or "", count=1)
    if not found:
        place = f"line {statement.line}" if not place else f"line {statement.line}, {place}"
    return EverfreshError(
        error.code, error.message, place=f"{name}, {place}" if name else place, hint=error.hint
    )
