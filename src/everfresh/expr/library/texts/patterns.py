"""All matches of a regular expression, and the texts between them.

Arrow's kernels give one match. All of them are found by writing marks around each; a text is split as DuckDB
does it, from the left, where the rest of the text is looked at as if it began there.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import takes
from everfresh.expr.library.regex import flags_of, group_at, group_of, groups_in, pattern_of, run
from everfresh.expr.library.signature import Function, Signature
from everfresh.types import BIGINT, LIST, VARCHAR, coding

_TEXTS = LIST(VARCHAR)
_OPEN, _BETWEEN, _CLOSE = "\ue000", "\ue001", "\ue002"


def _extract_all(types: Signature, text: str, pattern: str, group: int = 0, options: str = "") -> str:
    """What a group is in each match; NULL where it has no part in one."""
    whole, count = pattern_of(pattern, flags_of(options)), groups_in(pattern)
    if group > count:
        raise EverfreshError(Code.VALUE, f"'{pattern}' has {count} groups, no group {group}")
    if group < 0:
        return coding.from_elements([], types.result)
    if any(mark in text for mark in (_OPEN, _BETWEEN, _CLOSE)) or group > 8:
        raise EverfreshError(
            Code.UNSUPPORTED, "regexp_extract_all of more than 8 groups, or of private characters"
        )
    by = f"{_OPEN}\\1{_BETWEEN}\\{group + 1}{_CLOSE}"
    marked = run(pc.replace_substring_regex, text, pattern=f"({whole})", replacement=by)
    found: list[str | None] = []
    matches = [part.split(_CLOSE)[0].split(_BETWEEN) for part in str(marked).split(_OPEN)[1:]]
    if any(match for match, _ in matches) and _fits("", pattern, options):
        raise EverfreshError(
            Code.UNSUPPORTED, f"regexp_extract_all by '{pattern}', which matches '' too, is not supported",
            hint="let it match at least one character: + for *",
        )  # fmt: skip
    for match, value in matches:
        found.append(None if group and not value and _is_out(match, pattern, options, group) else value)
    return coding.from_elements(found, types.result)


def _is_out(match: str, pattern: str, options: str, group: int) -> bool:
    """Whether a group whose text is empty has no part in a match."""
    start, end = group_at(pattern, group)
    if not _fits("", pattern[start:end], options):
        return True
    if _fits(match, pattern[:start] + "[^\\x00-\\x{10FFFF}]" + pattern[end:], options):
        raise EverfreshError(
            Code.UNSUPPORTED, f"whether group {group} of '{pattern}' has a part in '{match}' is not known",
            hint="let the group match at least one character",
        )  # fmt: skip
    return False


def _fits(text: str, pattern: str, options: str) -> bool:
    whole = f"\\A(?:{pattern_of(pattern, options)})\\z"
    return bool(run(pc.match_substring_regex, text, pattern=whole))


def _split(types: Signature, text: str, pattern: str, options: str = "") -> str:
    whole, parts, rest = pattern_of(pattern, flags_of(options)), [], text.encode()
    while rest:
        at = int(run(pc.find_substring_regex, rest.decode(), pattern=whole))
        if at < 0:
            break
        size = len(str(group_of(rest.decode(), whole, 0)).encode())
        if not size and not at:  # nothing at the beginning: behind the first character
            at = len(rest.decode()[0].encode())
            if at == len(rest):
                break
        parts.append(rest[:at].decode())
        rest = rest[at + size :]
    return coding.from_elements([*parts, rest.decode()], types.result)


_TWO: tuple[Any, ...] = (VARCHAR, VARCHAR)

ROWS = (
    Function(
        "regexp_extract_all",
        takes((_TWO, _TEXTS), ((*_TWO, BIGINT), _TEXTS), ((*_TWO, BIGINT, VARCHAR), _TEXTS)),
        _extract_all,
    ),
    Function("string_split_regex", takes((_TWO, _TEXTS), ((*_TWO, VARCHAR), _TEXTS)), _split),
)
