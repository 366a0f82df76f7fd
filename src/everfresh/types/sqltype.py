"""`SqlType`: the type of a column or an expression, and its name as text.

Invariant: `parse_type(str(type)) == type`, and the text is how DuckDB writes the type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from everfresh.errors import Code, EverfreshError

INTEGER_BITS = {
    "TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128,
    "UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64,
}  # fmt: skip
UNSIGNED = frozenset({"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
_TEXT = frozenset({"VARCHAR", "BLOB", "UUID", "JSON", "LIST", "STRUCT", "MAP"})
_NESTED = frozenset({"LIST", "STRUCT", "MAP"})
MAX_DIGITS = 38
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqlType:
    """A SQL type. `precision` and `scale` are of DECIMAL; `inner` are the types inside of a LIST (one), a
    STRUCT (one a field) and a MAP (keys and values); `names` are the fields of a STRUCT, the labels of an
    ENUM.

    >>> print(DECIMAL(15, 2), BIGINT, LIST(BIGINT))
    DECIMAL(15,2) BIGINT BIGINT[]
    """

    name: str
    precision: int = 0
    scale: int = 0
    inner: tuple[SqlType, ...] = ()
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.name:
            case "DECIMAL":
                return f"DECIMAL({self.precision},{self.scale})"
            case "LIST":
                return f"{self.inner[0]}[]"
            case "STRUCT":
                fields = zip(self.names, self.inner, strict=True)
                return f"STRUCT({', '.join(f'{_field_text(n)} {t}' for n, t in fields)})"
            case "MAP":
                return f"MAP({self.inner[0]}, {self.inner[1]})"
            case "ENUM":
                labels = ("'" + label.replace("'", "''") + "'" for label in self.names)
                return f"ENUM({', '.join(labels)})"
            case "TIMESTAMPTZ":
                return "TIMESTAMP WITH TIME ZONE"
            case _:
                return self.name

    @property
    def is_integer(self) -> bool:
        """TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT and those without a sign."""
        return self.name in INTEGER_BITS

    @property
    def is_float(self) -> bool:
        """REAL or DOUBLE."""
        return self.name in ("REAL", "DOUBLE")

    @property
    def is_numeric(self) -> bool:
        """An integer, a DECIMAL or a float."""
        return self.is_integer or self.is_float or self.name == "DECIMAL"

    @property
    def is_exact(self) -> bool:
        """Whether the physical form is an integer that adds exactly."""
        return self.is_integer or self.name == "DECIMAL"

    @property
    def is_wide(self) -> bool:
        """Whether the physical integer may need more than 64 bits."""
        return self.name in ("HUGEINT", "UBIGINT") or (self.name == "DECIMAL" and self.precision > 18)

    @property
    def is_text(self) -> bool:
        """Whether the physical form is a text: such values are interned, and order by code points."""
        return self.name in _TEXT

    @property
    def is_coded(self) -> bool:
        """Whether that text is not the value's own, but one that stands for it (`everfresh.types.coding`)."""
        return self.name in _TEXT and self.name not in ("VARCHAR", "JSON")

    @property
    def is_nested(self) -> bool:
        """LIST, STRUCT or MAP."""
        return self.name in _NESTED

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest physical integer of an exact type."""
        if self.name == "DECIMAL":
            limit = 10**self.precision - 1
            return -limit, limit
        bits = INTEGER_BITS[self.name]
        if self.name in UNSIGNED:
            return 0, (1 << bits) - 1
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


BOOLEAN = SqlType("BOOLEAN")
TINYINT = SqlType("TINYINT")
SMALLINT = SqlType("SMALLINT")
INTEGER = SqlType("INTEGER")
BIGINT = SqlType("BIGINT")
HUGEINT = SqlType("HUGEINT")
UTINYINT = SqlType("UTINYINT")
USMALLINT = SqlType("USMALLINT")
UINTEGER = SqlType("UINTEGER")
UBIGINT = SqlType("UBIGINT")
REAL = SqlType("REAL")
DOUBLE = SqlType("DOUBLE")
VARCHAR = SqlType("VARCHAR")
BLOB = SqlType("BLOB")
UUID = SqlType("UUID")
JSON = SqlType("JSON")
DATE = SqlType("DATE")
TIME = SqlType("TIME")
TIMESTAMP = SqlType("TIMESTAMP")
TIMESTAMPTZ = SqlType("TIMESTAMPTZ")
INTERVAL = SqlType("INTERVAL")
NULL = SqlType("NULL")  # the type of a bare NULL, before it is cast to what stands beside it


def DECIMAL(precision: int, scale: int = 0) -> SqlType:
    """The type DECIMAL(precision, scale)."""
    if not 1 <= precision <= MAX_DIGITS or not 0 <= scale <= precision:
        raise EverfreshError(
            Code.TYPE,
            f"DECIMAL({precision},{scale}) is not a type",
            hint="1 <= precision <= 38, 0 <= scale <= precision",
        )
    return SqlType("DECIMAL", precision, scale)


def LIST(inner: SqlType) -> SqlType:
    """The type of lists of values of one type."""
    return SqlType("LIST", inner=(inner,))


def STRUCT(fields: Sequence[tuple[str, SqlType]]) -> SqlType:
    """The type of values with named fields.

    >>> print(STRUCT([("a", INTEGER), ("b c", VARCHAR)]))
    STRUCT(a INTEGER, "b c" VARCHAR)
    """
    names = tuple(name for name, _ in fields)
    if not names or len({name.lower() for name in names}) < len(names):
        raise EverfreshError(
            Code.TYPE,
            "a STRUCT has fields, each with a name of its own"
            if names
            else "a STRUCT has at least one field",
            hint="as in STRUCT(a INTEGER, b VARCHAR)",
        )
    return SqlType("STRUCT", inner=tuple(type_ for _, type_ in fields), names=names)


def ENUM(labels: Sequence[str]) -> SqlType:
    """The type whose values are these labels, in this order.

    >>> print(ENUM(["sad", "it's"]))
    ENUM('sad', 'it''s')
    """
    if len(set(labels)) < len(labels) or not labels:
        raise EverfreshError(Code.TYPE, "an ENUM has labels, each once", hint="as in ENUM('low', 'high')")
    return SqlType("ENUM", names=tuple(labels))


_NAMED = {
    str(t): t
    for t in (
        BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT, UTINYINT, USMALLINT, UINTEGER, UBIGINT, REAL,
        DOUBLE, VARCHAR, BLOB, UUID, JSON, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NULL,
    )
}  # fmt: skip
TYPE_NAMES = tuple(_NAMED)
"""The names of the types that have no parameters."""

# -- types as text -------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_WORDS = (
    "all and any as asc key value both case cast check collate column constraint create cross default "
    "deferrable desc distinct do else end except false fetch for foreign from full grant group "
    "having in initially inner intersect into join lateral leading left limit natural not null "
    "offset on only or order outer primary references returning right select some table then to "
    "trailing true union unique using when where window with "
)
_RESERVED = frozenset(_RESERVED_WORDS.split())


def _field_text(name: str) -> str:
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


class Words(Protocol):
    """What a type is read from: a stream of names, symbols, numbers and strings."""

    def accept(self, *texts: str) -> bool:
        """Step over these symbols or names if they come next."""

    def expect(self, *texts: str) -> None:
        """Step over these symbols or names, or raise."""

    def name(self) -> str:
        """The name at the position, plain or quoted."""

    def integer(self) -> int:
        """The integer at the position."""

    def string(self) -> str:
        """The text in quotes at the position."""


def read_type(words: Words) -> SqlType:
    """The type at the position of a stream, which moves behind it."""
    found = _one_type(words)
    while words.accept("["):
        words.expect("]")
        found = LIST(found)
    return found


def _one_type(words: Words) -> SqlType:
    name = words.name().upper()
    if name == "DECIMAL" and words.accept("("):
        precision = words.integer()
        scale = words.integer() if words.accept(",") else 0
        words.expect(")")
        return DECIMAL(precision, scale)
    if name == "STRUCT":
        return STRUCT(_listed(words, lambda: (words.name(), read_type(words))))
    if name == "MAP":
        inner = tuple(_listed(words, lambda: read_type(words)))
        if len(inner) != 2:
            raise EverfreshError(Code.TYPE, "a MAP has two types", hint="as in MAP(VARCHAR, INTEGER)")
        return SqlType("MAP", inner=inner)
    if name == "ENUM":
        return ENUM(_listed(words, words.string))
    if name == "TIMESTAMP" and words.accept("WITH", "TIME", "ZONE"):
        return TIMESTAMPTZ
    try:
        return _NAMED[name]
    except KeyError:
        raise EverfreshError(
            Code.TYPE, f"'{name}' is not a type", hint="types are: " + ", ".join(TYPE_NAMES)
        ) from None


def _listed(words: Words, item: Callable[[], T]) -> list[T]:
    words.expect("(")
    found = [item()]
    while words.accept(","):
        found.append(item())
    words.expect(")")
    return found


_WORD = re.compile(
    r"""\s*(?:(?P<name>[^\W\d]\w*)|"(?P<quoted>(?:[^"]|"")*)"|'(?P<string>(?:[^']|'')*)'|(?P<number>\d+)"""
    r"""|(?P<symbol>.))""",
    re.DOTALL,
)


class _TypeText:
    """The words of a type's own text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = [(m.lastgroup or "", m[m.lastgroup or 0]) for m in _WORD.finditer(text.strip())]

    def accept(self, *texts: str) -> bool:
        there = self.words[: len(texts)]
        if [w.upper() for kind, w in there if kind in ("name", "symbol")] != [t.upper() for t in texts]:
            return False
        del self.words[: len(texts)]
        return True

    def expect(self, *texts: str) -> None:
        if not self.accept(*texts):
            raise self.wrong()

    def _next(self, *kinds: str) -> str:
        if not self.words or self.words[0][0] not in kinds:
            raise self.wrong()
        kind, word = self.words.pop(0)
        mark = {"quoted": '"', "string": "'"}.get(kind, "")
        return word.replace(mark * 2, mark) if mark else word

    def name(self) -> str:
        return self._next("name", "quoted")

    def integer(self) -> int:
        return int(self._next("number"))

    def string(self) -> str:
        return self._next("string")

    def wrong(self) -> EverfreshError:
        return EverfreshError(
            Code.TYPE, f"'{self.text}' is not a type", hint="types are: " + ", ".join(TYPE_NAMES)
        )


def parse_type(text: str) -> SqlType:
    """The inverse of `str(type)`.

    >>> parse_type("DECIMAL(15,2)[]") == LIST(DECIMAL(15, 2))
    True
    >>> print(parse_type('STRUCT(a INTEGER, "b c" MAP(VARCHAR, TIMESTAMP WITH TIME ZONE)[])'))
    STRUCT(a INTEGER, "b c" MAP(VARCHAR, TIMESTAMP WITH TIME ZONE)[])
    """
    known = _NAMED.get(text)
    if known is not None:
        return known
    words = _TypeText(text)
    found = read_type(words)
    if words.words:
        raise words.wrong()
    return found
