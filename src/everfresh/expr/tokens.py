"""A tokenizer for the texts of everfresh's intermediate languages: expressions, the calculus, programs.

Tokens are names, "quoted names", made#names, numbers, 'strings' and symbols; blanks separate and mean
nothing. A name that the compiler made (`everfresh.expr.names`) has one of the marks # $ ~ in it, or stands as
#"made name"; a user's with such a mark is quoted. A `TokenStream` is what the hand-written parsers read from;
its errors say line and column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from everfresh.errors import Code, EverfreshError
from everfresh.expr.names import Made

NAMES = ("name", "quoted", "made")
"""The kinds of tokens that are names."""
T = TypeVar("T")
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<made>(?:[^\W\d]\w*(?:\.[^\W\d]\w*)*(?!\#")[$\#~][\w$\#~]*|[$\#~][\w$\#~]+)(?:\.\w+)*)
      | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
      | \#"(?P<made_quoted>(?:[^"]|"")*)"
      | "(?P<quoted>(?:[^"]|"")*)"
      | '(?P<string>(?:[^']|'')*)'
      | (?P<symbol>\|\||<>|<=|>=|::|:=|\+=|//|->|.)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_MADE = re.compile(r"(?:[^\W\d]\w*(?:\.[^\W\d]\w*)*[$#~][\w$#~]*|[$#~][\w$#~]+)(?:\.\w+)*")


# A line ends at a newline that is in no string and in no quoted name.
_LINE = re.compile(r"""(?:[^'"\n]|'[^']*'|"[^"]*")+""")


def lines_of(text: str) -> list[str]:
    """The lines of a text; a newline inside of a string or a quoted name ends none.

    >>> lines_of("a\\n  'two\\nlines'")
    ['a', "  'two\\nlines'"]
    """
    return _LINE.findall(text)


def indented(text: str, by: str) -> str:
    """A text with each of its lines moved to the right.

    >>> print(indented("a\\nb", "- "))
    - a
    - b
    """
    return "\n".join(by + line for line in lines_of(text))


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is name, quoted, made, number, string, symbol or end; `text` is without quotes."""

    kind: str
    text: str
    start: int

    def matches(self, text: str) -> bool:
        """Whether it is this symbol, or this name in any case (keywords are never quoted)."""
        if self.kind == "name":
            return self.text.upper() == text.upper()
        return self.kind == "symbol" and self.text == text


def quote_name(name: str, keywords: frozenset[str] = frozenset()) -> str:
    """A name as it is written: quoted unless it is plain and no keyword.

    >>> quote_name("o_id"), quote_name("o id"), quote_name("l.o_id"), quote_name("#1"), quote_name(Made("#1"))
    ('o_id', '"o id"', 'l.o_id', '"#1"', '#1')
    """
    if isinstance(name, Made):
        return str(name) if _MADE.fullmatch(name) else '#"' + name.replace('"', '""') + '"'
    if _PLAIN.fullmatch(name) and name.upper() not in keywords:
        return name
    return '"' + name.replace('"', '""') + '"'


class TokenStream:
    """The tokens of a text and a position in them.

    >>> stream = TokenStream("a + 1")
    >>> stream.next().text, stream.accept("-"), stream.accept("+"), stream.peek().kind
    ('a', False, True, 'number')
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.position = 0
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or ""
            if kind == "made":
                self.tokens.append(Token(kind, Made(match[kind]), match.start()))
            elif kind == "made_quoted":
                self.tokens.append(Token("made", Made(match[kind].replace('""', '"')), match.start()))
            elif kind in ("quoted", "string"):
                mark = '"' if kind == "quoted" else "'"
                self.tokens.append(Token(kind, match[kind].replace(mark * 2, mark), match.start()))
            elif kind != "space":
                self.tokens.append(Token(kind, match[kind], match.start()))
        self.tokens.append(Token("end", "", len(text)))

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` of the position; past the end it is the end."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        """The token at the position, which moves on."""
        token = self.peek()
        self.position += 1
        return token

    def at(self, *texts: str) -> bool:
        """Whether these symbols or keywords come next, in this order."""
        return all(self.peek(i).matches(text) for i, text in enumerate(texts))

    def accept(self, *texts: str) -> bool:
        """Step over these symbols or keywords if they come next."""
        found = self.at(*texts)
        if found:
            self.position += len(texts)
        return found

    def expect(self, *texts: str) -> None:
        """Step over these symbols or keywords, or raise."""
        for text in texts:
            if not self.accept(text):
                raise self.error(f"'{text}' is expected")

    def name(self) -> str:
        """The name at the position, plain, quoted or made."""
        if self.peek().kind not in NAMES:
            raise self.error("a name is expected")
        return self.next().text

    def integer(self) -> int:
        """The integer at the position, with its sign."""
        sign = -1 if self.accept("-") else 1
        token = self.peek()
        if token.kind != "number" or not token.text.isdigit():
            raise self.error("an integer is expected")
        found = sign * int(token.text) if len(token.text) < 20 else 1 << 64
        if not -(1 << 63) <= found < 1 << 63:
            raise self.error("an integer of 64 bits is expected")
        self.next()
        return found

    def string(self) -> str:
        """The text in quotes at the position."""
        if self.peek().kind != "string":
            raise self.error("a text in 'quotes' is expected")
        return self.next().text

    def listed(self, item: Callable[[], T], end: str) -> list[T]:
        """What `item` reads between commas, up to the symbol `end`, which is read too."""
        found: list[T] = []
        while not self.accept(end):
            if found:
                self.expect(",")
            found.append(item())
        return found

    def end(self) -> None:
        """Raise unless everything has been read."""
        if self.peek().kind != "end":
            raise self.error("the text should end here")

    def error(self, message: str) -> EverfreshError:
        """A syntax error at the position."""
        token = self.peek()
        before = self.text[: token.start]
        line, column = before.count("\n") + 1, token.start - (before.rfind("\n") + 1) + 1
        found = "the end" if token.kind == "end" else f"'{token.text}'"
        return EverfreshError(Code.SYNTAX, f"{message}, not {found}", place=f"line {line}, column {column}")
