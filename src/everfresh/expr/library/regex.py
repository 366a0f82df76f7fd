"""Regular expressions: RE2's, as in DuckDB, by Arrow's kernels.

Options are letters: `i` ignores case, `c` heeds it, `l` takes the pattern as it is, `s` lets `.` match a new
line, and `g`, of `regexp_replace`, replaces all matches. A pattern that cannot be read is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import takes
from everfresh.expr.library.signature import Function, Signature
from everfresh.types import BIGINT, BOOLEAN, VARCHAR


def flags_of(options: str, more: str = "") -> str:
    """The options of a regular expression, if all are known."""
    unknown = [c for c in options if c not in "icslmnp" + more]
    if unknown:
        raise EverfreshError(
            Code.VALUE,
            f"'{unknown[0]}' is no option of a regular expression",
            hint="options are i, c, s, l, g",
        )
    return options


def pattern_of(pattern: str, options: str) -> str:
    """The pattern with its options inside."""
    if "l" in options:
        pattern = "".join(c if c.isalnum() or ord(c) > 127 else f"\\{c}" for c in pattern)
    letters = ("i" if "i" in options and "c" not in options else "") + ("s" if "s" in options else "")
    return f"(?{letters}){pattern}" if letters else pattern


def run(kernel: Callable[..., Any], text: str, **how: Any) -> Any:
    """What a kernel of Arrow gives for a text."""
    try:
        return kernel(pa.scalar(text, pa.large_string()), **how).as_py()
    except pa.ArrowInvalid as error:
        what = str(error).split("\n")[0]
        raise EverfreshError(Code.VALUE, f"not a regular expression: {what}") from None


def _matches(_: Signature, text: str, pattern: str, options: str = "") -> bool:
    return bool(run(pc.match_substring_regex, text, pattern=pattern_of(pattern, flags_of(options))))


def _full_match(_: Signature, text: str, pattern: str, options: str = "") -> bool:
    whole = f"\\A(?:{pattern_of(pattern, flags_of(options))})\\z"
    return bool(run(pc.match_substring_regex, text, pattern=whole))


def _replace(_: Signature, text: str, pattern: str, by: str, options: str = "") -> str:
    most = None if "g" in flags_of(options, "g") else 1
    found = run(
        pc.replace_substring_regex, text, pattern=pattern_of(pattern, options), replacement=by,
        max_replacements=-1 if most is None else most,
    )  # fmt: skip
    return str(found)


def _extract(_: Signature, text: str, pattern: str, group: int = 0, options: str = "") -> str:
    """The text of the first match, or of a group in it; '' where there is none."""
    return group_of(text, pattern_of(pattern, flags_of(options)), group) or ""


def group_of(text: str, pattern: str, group: int) -> str | None:
    """The text of a group in the first match; None where there is none."""
    found = run(pc.extract_regex, text, pattern=f"(?P<g0>{_named(pattern)})")
    value = None if found is None else found.get(f"g{group}")
    return None if value is None else str(value)


def groups_in(pattern: str) -> int:
    """How many groups a pattern has."""
    return len(_openings(pattern))


def group_at(pattern: str, group: int) -> tuple[int, int]:
    """Where a group begins, and where it ends: with its parentheses."""
    start = _openings(pattern)[group - 1]
    depth, inside = 0, False
    for i, c in _unescaped(pattern):
        if i >= start and not inside:
            depth += (c == "(") - (c == ")")
        inside = c == "[" or (inside and c != "]")
        if i >= start and not depth:
            return start, i + 1
    return start, len(pattern)


def _unescaped(pattern: str) -> Iterator[tuple[int, str]]:
    i = 0
    while i < len(pattern):
        if pattern[i] != "\\":
            yield i, pattern[i]
        i += 1 + (pattern[i] == "\\")


def _openings(pattern: str) -> list[int]:
    """Where the capturing groups of a pattern begin."""
    found, i, inside = [], 0, False
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            i += 1
        elif inside:
            inside = c != "]"
        elif c == "[":
            inside = True
            i += pattern[i + 1 : i + 2] == "^"
            i += pattern[i + 1 : i + 2] == "]"
        elif c == "(" and (pattern[i + 1 : i + 2] != "?" or pattern[i + 1 : i + 3] in ("?P", "?<")):
            found.append(i)
        i += 1
    return found


def _named(pattern: str) -> str:
    """The pattern with its groups named g1, g2, ..., by which Arrow gives what they match."""
    made, last = [], 0
    for number, at in enumerate(_openings(pattern), 1):
        end = at + 1
        if pattern[end : end + 1] == "?":
            end = pattern.index(">", end) + 1
        made.append(f"{pattern[last:at]}(?P<g{number}>")
        last = end
    return "".join(made) + pattern[last:]


_TEST = takes(((VARCHAR, VARCHAR), BOOLEAN), ((VARCHAR, VARCHAR, VARCHAR), BOOLEAN))
_EXTRACT = takes(
    ((VARCHAR, VARCHAR), VARCHAR), ((VARCHAR, VARCHAR, BIGINT), VARCHAR),
    ((VARCHAR, VARCHAR, BIGINT, VARCHAR), VARCHAR),
)  # fmt: skip
_REPLACE = takes(((VARCHAR, VARCHAR, VARCHAR), VARCHAR), ((VARCHAR, VARCHAR, VARCHAR, VARCHAR), VARCHAR))

ROWS = (
    Function("regexp_matches", _TEST, _matches),
    Function("regexp_full_match", _TEST, _full_match),
    Function("regexp_replace", _REPLACE, _replace),
    Function("regexp_extract", _EXTRACT, _extract),
)
