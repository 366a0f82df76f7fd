"""Where in the text a piece of the parse tree stands, and the errors that say so.

sqlglot keeps offsets on identifiers, literals and most function names only. Invariant: `Source.place`
always finds a place: the node's own, else that of its leftmost part (moved back over an opening parenthesis
and the function's name), else that of the nearest parent, else the statement's.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token

from everfresh.errors import Code, EverfreshError


def position(text: str, offset: int) -> str:
    """The line and column of an offset, both from 1.

    >>> position("SELECT 1;\\n  SELEC 2", 12)
    'line 2, column 3'
    """
    before = text[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"


def near(name: str, candidates: Iterable[str], what: str) -> str | None:
    """A hint: the candidates like `name`, or else all of them (if there are few).

    >>> near("ordrs", ["orders", "customer"], "tables")
    "did you mean 'orders'?"
    """
    by_lower = {c.lower(): c for c in candidates}
    found = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    if found:
        return "did you mean " + " or ".join(f"'{by_lower[f]}'" for f in found) + "?"
    if not by_lower:
        return f"there are no {what}"
    names = list(by_lower.values())
    return f"{what} are: " + ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


def moment() -> dt.datetime:
    """What time it is, as a TIMESTAMP has it."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


@dataclass(frozen=True)
class Source:
    """The text of a script, the tokens of one of its statements, the dialect they are in, and the values of
    its parameters."""

    text: str
    tokens: tuple[Token, ...]
    dialect: str = "duckdb"
    given: Any = None
    now: Any = None
    """The time of the statement, if it may depend on it; in UTC, without a zone."""
    beside: Any = None
    """The rows that its queries may read beside tables and views (`everfresh.sql.queries.given`)."""
    types: Any = field(default_factory=dict)
    """The types that have names of their own, by lower-case name."""
    starts: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", tuple(t.start for t in self.tokens))

    @property
    def statement(self) -> str:
        """The statement as written."""
        return self.text[self.tokens[0].start : self.tokens[-1].end + 1]

    @property
    def start(self) -> str:
        """The place of the statement."""
        return position(self.text, self.tokens[0].start)

    def index(self, node: Any) -> int | None:
        """The index of the token with which a node begins, where that can be told."""
        offset = min((n.meta["start"] for n in node.walk() if "start" in n.meta), default=None)
        if offset is None:
            return self._keyword(node)
        i = bisect_left(self.starts, offset)
        if i >= len(self.tokens) or self.tokens[i].start != offset:
            return None
        if "start" in node.meta or not isinstance(node, exp.Func) or isinstance(node, (exp.Binary, exp.Case)):
            return i
        # FLOOR(x), MIN(x), EXTRACT(YEAR FROM x), ...: back to the name of the function
        j = i
        while j > 0 and i - j < 4:
            j -= 1
            if self.tokens[j].text.upper() in _spellings(node):
                return j
        return i

    def _keyword(self, node: Any) -> int | None:
        """CURRENT_DATE and the like carry no offset: find the word."""
        words = _spellings(node)
        return (
            next((i for i, t in enumerate(self.tokens) if t.text.upper() in words), None) if words else None
        )

    def number(self, node: Any) -> str:
        """A number as it stands in the text.

        sqlglot adds a digit to `.5`, which makes it another type, and keeps no offset for it.
        """
        if "start" in node.meta:
            return self.text[node.meta["start"] : node.meta["end"] + 1]
        text: str = node.this
        return text[1:] if text.startswith("0.") else text

    def place(self, node: Any, keyword: str = "") -> str:
        """The place of a node as text; with `keyword`, of the nearest such word at or before it."""
        if keyword and self.index(node) is None:
            spelled = (t.start for t in self.tokens if t.text.upper() == keyword)
            return position(self.text, next(spelled, self.tokens[0].start))
        while node is not None:
            i = self.index(node)
            if i is not None:
                if isinstance(node, (exp.Query, exp.Values)) and not keyword:
                    i = self._opening(i, isinstance(node, exp.Subquery))
                return position(self.text, self.tokens[self._back(i, keyword)].start)
            node = node.parent
        return self.start

    def _opening(self, i: int, parenthesis: bool) -> int:
        """The word with which a query starts, from its first known token; or the parenthesis before it."""
        words = [t.text.upper() for t in self.tokens[max(0, i - 8) : i]]
        back = next((k for k, w in enumerate(reversed(words), 1) if w in ("SELECT", "VALUES", "WITH")), 0)
        if parenthesis and back and words[-back - 1 : -back] == ["("]:
            back += 1
        return i - back

    def _back(self, i: int, keyword: str) -> int:
        found = (j for j in range(i, -1, -1) if self.tokens[j].text.upper() == keyword)
        return next(found, i) if keyword else i

    def in_brackets(self, node: Any) -> bool:
        """Whether IN is followed by a list, `x IN [a, b]`, which sqlglot takes for `x IN (a, b)`."""
        first = next((i for e in node.expressions if (i := self.index(e)) is not None), 0)
        at = next((i for i in range(first - 1, 0, -1) if self.tokens[i].text.upper() == "IN"), None)
        return at is not None and self.tokens[at + 1].text == "["

    def error(
        self, code: str, message: str, node: Any = None, *, hint: str | None = None, keyword: str = ""
    ) -> EverfreshError:
        """An error at a node."""
        where = self.start if node is None else self.place(node, keyword)
        return EverfreshError(code, message, place=where, hint=hint)

    def unsupported(
        self, what: str, node: Any = None, *, hint: str | None = None, keyword: str = ""
    ) -> EverfreshError:
        """The refusal of a construct, by its name."""
        return self.error(Code.UNSUPPORTED, f"{what} is not supported", node, hint=hint, keyword=keyword)


_OTHER_SPELLINGS = {exp.Ceil: ("CEIL", "CEILING"), exp.StrPosition: ("POSITION",)}


def _spellings(node: Any) -> set[str]:
    if not isinstance(node, exp.Func):
        return set()
    return {*node.sql_names(), *_OTHER_SPELLINGS.get(type(node), ())}


def words(node: Any) -> str:
    """A readable name for a class of the parse tree.

    >>> words(exp.AtTimeZone())
    'AT TIME ZONE'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()
