"""Which statements of a script are about arrays: they are in a language of their own.

A statement is if it creates, drops or lists arrays, begins with an operator on arrays, or is a SELECT with a
SIMILARITY JOIN, with INTO, or from an operator on arrays; and so is EXPLAIN of one. Other SELECTs are SQL,
which reads arrays as tables.

>>> pieces("CREATE ARRAY a <v: INT> [i=1,8,2; j=1,8,2]; SELECT 'x;y' FROM a")
[('CREATE ARRAY a <v: INT> [i=1,8,2; j=1,8,2]', True), (" SELECT 'x;y' FROM a", False)]
"""

from __future__ import annotations

import re
from itertools import pairwise

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_CALL = r"(?:APPLY|BETWEEN|SUBARRAY|FILTER|PROJECT|REGRID)\s*\("
_ARRAYS = re.compile(
    r"\s*(?:EXPLAIN\s+(?:ANALYZE\s+)?)?(?:"
    r"CREATE\s+(?:EXTERNAL\s+)?(?:UNIQUE\s+)?ARRAY\b|REFRESH\s+\S|DROP\s+ARRAY\b|"
    r"SHOW\s+ARRAY(?:S|\s+VIEWS)\b|"
    rf"{_CALL}|"
    r"\(*\s*SELECT\b.*?\bSIMILARITY\s+JOIN\b|SELECT\b(?:(?!\bFROM\b).)*\bINTO\b|"
    rf"\(*\s*SELECT\b.*?\b(?:FROM|JOIN)\s*\(*\s*{_CALL})",
    re.IGNORECASE | re.DOTALL,
)


def pieces(text: str) -> list[tuple[str, bool]]:
    """The statements of a script, each with whether it is about arrays."""
    blank = _QUOTED.sub(lambda found: " " * len(found[0]), text)
    cuts, depth = [-1], 0
    for place, letter in enumerate(blank):
        depth += (letter == "[") - (letter == "]")
        if letter == ";" and depth <= 0:
            cuts.append(place)
    cuts.append(len(text))
    parts = [(a + 1, b) for a, b in pairwise(cuts) if blank[a + 1 : b].strip()]
    found = [(text[a:b], bool(_ARRAYS.match(blank[a:b]))) for a, b in parts]
    return [(_QUOTED.sub(_spoken, piece) if of_arrays else piece, of_arrays) for piece, of_arrays in found]


def _spoken(found: re.Match[str]) -> str:
    """What is quoted as it is, a comment as a blank: SQL's own parser knows them, that of arrays does not."""
    return " " if found[0].startswith(("--", "/*")) else found[0]


def about_arrays(text: str) -> bool:
    """Whether some statement of a script is about arrays: quick to say no."""
    lowered = text.lower()
    return any(word in lowered for word in _WORDS) and any(found for _, found in pieces(text))


_WORDS = ("array", "refresh", "similarity", "into", "apply", "between", "filter", "project", "regrid")
