"""LIST, STRUCT and MAP as DuckDB writes them: `[1, NULL]`, `{'a': 1, 'b': x}`, `{k=v}`.

`written` puts quotes around a value that could be read otherwise; `list_parts`, `struct_parts` and
`map_parts` take a text apart, with None for NULL, and leave it to their caller to read the parts. Invariant:
the parts of what was written are what it was written from.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"""[,{}\[\]()'"\\=:]""")
_ESCAPED = re.compile(r"(['\\])")
_BLANK = " \t\n\v\f\r"
_OPEN, _CLOSE = "[{(", "]})"


def written(text: str) -> str:
    """A value's text as it stands inside of a nested value.

    >>> [written(text) for text in ("a b", "it's", "", "null")]
    ['a b', "'it\\\\'s'", "''", "'null'"]
    """
    plain = text and not _SPECIAL.search(text) and text.strip(_BLANK) == text and text.upper() != "NULL"
    return text if plain else quoted(text)


def quoted(text: str) -> str:
    """A text in quotes, as names of fields are written."""
    return "'" + _ESCAPED.sub(r"\\\1", text) + "'"


def list_parts(text: str) -> list[str | None]:
    """The values of a list.

    >>> list_parts("[1, 'a, b', NULL, [2, 3]]")
    ['1', 'a, b', None, '[2, 3]']
    """
    return [_value(part) for part in _split(_without(text, "[", "]"))]


def struct_parts(text: str) -> list[tuple[str, str | None]]:
    """The fields of a struct.

    >>> struct_parts("{'a': 1, b: NULL}")
    [('a', '1'), ('b', None)]
    """
    return _pairs(text, ":")


def map_parts(text: str) -> list[tuple[str, str | None]]:
    """The entries of a map.

    >>> map_parts("{a=1, 'b=c'=NULL}")
    [('a', '1'), ('b=c', None)]
    """
    return _pairs(text, "=")


def _pairs(text: str, mark: str) -> list[tuple[str, str | None]]:
    found = []
    for part in _split(_without(text, "{", "}")):
        halves = _split(part, mark, 1)
        if len(halves) != 2:
            raise ValueError(text)
        found.append((_value(halves[0]) or "", _value(halves[1])))
    return found


def _without(text: str, first: str, last: str) -> str:
    text = text.strip(_BLANK)
    if len(text) < 2 or text[0] != first or text[-1] != last:
        raise ValueError(text)
    return text[1:-1]


def _split(text: str, by: str = ",", most: int = -1) -> list[str]:
    """The parts between commas that are in no quotes and in no brackets; none of a blank text."""
    if not text.strip(_BLANK):
        return []
    parts, start, at, depth = [], 0, 0, []
    while at < len(text):
        c = text[at]
        if c == "\\":
            at += 1
        elif c in "'\"":
            at = _behind_quotes(text, at) - 1
        elif c in _OPEN:
            depth.append(_CLOSE[_OPEN.index(c)])
        elif c in _CLOSE:
            if not depth or depth.pop() != c:
                raise ValueError(text)
        elif c == by and not depth and most:
            parts.append(text[start:at])
            start, most = at + 1, most - 1
        at += 1
    if depth:
        raise ValueError(text)
    return [*parts, text[start:]]


def _behind_quotes(text: str, at: int) -> int:
    mark, at = text[at], at + 1
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == mark:
            return at + 1
        at += 1
    raise ValueError(text)


def _value(part: str) -> str | None:
    """A part without blanks and quotes around it."""
    part = part.strip(_BLANK)
    if part.upper() == "NULL":
        return None
    if len(part) >= 2 and part[0] in "'\"" and _behind_quotes(part, 0) == len(part):
        return re.sub(r"\\(.)", r"\1", part[1:-1], flags=re.DOTALL)
    return part
