"""Functions of strings. Positions count code points from 1; cases map code point by code point, as in DuckDB.

None has a vectorised twin: the evaluator runs them once per distinct string.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import every, takes
from everfresh.expr.library.signature import Function, Signature, never_fails, never_null
from everfresh.expr.nodes import Expr
from everfresh.types import BIGINT, BOOLEAN, INTEGER, VARCHAR

_LONGEST = 4_294_967_295  # bytes, DuckDB's limit


@lru_cache(maxsize=4096)
def _upper_char(c: str) -> str:
    # One code point stays one: where Unicode's full mapping is longer, the title case is the simple one.
    return next((m for m in (c.upper(), c.title(), "ẞ" if c == "ß" else c) if len(m) == 1), c)


@lru_cache(maxsize=4096)
def _lower_char(c: str) -> str:
    return c.lower()[0]


def upper(text: str) -> str:
    """Upper case without change of length."""
    return text.upper() if text.isascii() else "".join(map(_upper_char, text))


def lower(text: str) -> str:
    """Lower case without change of length."""
    return text.lower() if text.isascii() else "".join(map(_lower_char, text))


def _place(n: int) -> int:
    """`n` if it can be a position or a length."""
    if not -_LONGEST - 1 <= n <= _LONGEST:
        raise EverfreshError(Code.OVERFLOW, f"position {n} is outside any string")
    return n


def _substring(_: Signature, text: str, start: int, length: int = _LONGEST) -> str:
    first = _place(start) - 1 if start > 0 else len(text) + _place(start) if start < 0 else -1
    last = first + _place(length)
    if last < first:
        first, last = last, first
    return text[max(0, first) : max(0, last)]


def _left(_: Signature, text: str, n: int) -> str:
    return text[: _place(n)] if n >= 0 else text[: max(0, len(text) + n)]


def _right(_: Signature, text: str, n: int) -> str:
    keep = min(n, len(text)) if n >= 0 else max(0, len(text) + n)
    return text[len(text) - keep :]


def _replace(_: Signature, text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _pad(text: str, length: int, by: str, left: bool, name: str) -> str:
    if length <= len(text):
        return text[: max(0, length)]
    if not by:
        raise EverfreshError(Code.VALUE, f"{name} of '{text}' to {length} characters has nothing to pad with")
    missing = length - len(text)
    _limit(missing)
    padding = (by * (missing // len(by) + 1))[:missing]
    return padding + text if left else text + padding


def _limit(size: int) -> None:
    if size > _LONGEST:
        raise EverfreshError(Code.OVERFLOW, f"a string of {size} bytes is longer than {_LONGEST}")


def _repeat(_: Signature, text: str, n: int) -> str:
    _limit(len(text) * n)
    return text * n


def _reverse(_: Signature, text: str) -> str:
    if text.isascii():
        return text[::-1]
    clusters: list[str] = []
    for c in text:  # marks stay behind the character they belong to
        if clusters and unicodedata.combining(c):
            clusters[-1] += c
        else:
            clusters.append(c)
    return "".join(reversed(clusters))


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """The regular expression of a LIKE pattern: % any characters, _ one, `escape` takes the next as it is."""
    if len(escape) > 1:
        raise EverfreshError(Code.VALUE, f"ESCAPE '{escape}' must be one character or none")
    parts: list[str] = []
    characters = iter(pattern)
    for c in characters:
        if escape and c == escape:
            following = next(characters, None)
            if following is None:
                raise EverfreshError(Code.VALUE, f"the pattern '{pattern}' ends with its escape character")
            parts.append(re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(c, re.escape(c)))
    return re.compile("".join(parts), re.DOTALL)


@lru_cache(maxsize=1024)
def matcher(pattern: str, escape: str = "") -> Callable[[str], object]:
    """The test of a LIKE pattern: without a regular expression for the forms x, x%, %x and %x%."""
    middle = pattern.strip("%")
    if escape or "_" in pattern or "%" in middle or len(pattern) - len(middle) > 2:
        return like_pattern(pattern, escape).fullmatch
    if pattern == middle:
        return middle.__eq__
    if pattern == middle + "%":
        return lambda text: text.startswith(middle)
    return (lambda text: text.endswith(middle)) if pattern == "%" + middle else lambda text: middle in text


def _escaped(args: tuple[Expr, ...]) -> bool:
    """Whether a pattern may end with its escape character, or have several."""
    return len(args) > 2


def _like(_: Signature, text: str, pattern: str, escape: str = "") -> bool:
    return bool(matcher(pattern, escape)(text))


def _like_texts(pattern: str, escape: str = "") -> Callable[[list[str]], list[Any]] | None:
    """LIKE of many strings at once, where Arrow means the same: no escape, and no backslash, which is one."""
    if escape or "\\" in pattern:
        return None
    from pyarrow import array, compute, string

    return lambda texts: compute.match_like(array(texts, string()), pattern).to_pylist()


def _ilike(_: Signature, text: str, pattern: str, escape: str = "") -> bool:
    return bool(matcher(lower(pattern), lower(escape))(lower(text)))


def _concat(_: Signature, *parts: Any) -> str:
    return "".join(part for part in parts if part is not None)


def _trim(strip: Any) -> Any:
    return lambda types, text, characters=" ": strip(text, characters) if characters else text


_TEXT = takes(((VARCHAR,), VARCHAR))
_TEST = takes(((VARCHAR, VARCHAR), BOOLEAN))
_LIKE = takes(((VARCHAR, VARCHAR), BOOLEAN), ((VARCHAR, VARCHAR, VARCHAR), BOOLEAN))
_TRIM = takes(((VARCHAR,), VARCHAR), ((VARCHAR, VARCHAR), VARCHAR))
_COUNT = takes(((VARCHAR, BIGINT), VARCHAR))
_PAD = takes(((VARCHAR, INTEGER, VARCHAR), VARCHAR))

ROWS = (
    Function("like", _LIKE, _like, texts=_like_texts, fails=_escaped),
    Function("ilike", _LIKE, _ilike, fails=_escaped),
    Function("||", every(VARCHAR, VARCHAR, 2, 2), lambda types, a, b: a + b, fails=never_fails),
    Function("concat", every(VARCHAR, VARCHAR), _concat, strict=False, null=never_null, fails=never_fails),
    Function("length", takes(((VARCHAR,), BIGINT)), lambda types, text: len(text), fails=never_fails),
    Function("upper", _TEXT, lambda types, text: upper(text), fails=never_fails),
    Function("lower", _TEXT, lambda types, text: lower(text), fails=never_fails),
    Function(
        "substring", takes(((VARCHAR, BIGINT), VARCHAR), ((VARCHAR, BIGINT, BIGINT), VARCHAR)), _substring
    ),
    Function("left", _COUNT, _left),
    Function("right", _COUNT, _right),
    Function("trim", _TRIM, _trim(str.strip)),
    Function("ltrim", _TRIM, _trim(str.lstrip)),
    Function("rtrim", _TRIM, _trim(str.rstrip)),
    Function("replace", takes(((VARCHAR, VARCHAR, VARCHAR), VARCHAR)), _replace),
    Function(
        "strpos",
        takes(((VARCHAR, VARCHAR), BIGINT)),
        lambda types, text, part: text.find(part) + 1,
        fails=never_fails,
    ),
    Function("starts_with", _TEST, lambda types, text, part: text.startswith(part), fails=never_fails),
    Function("ends_with", _TEST, lambda types, text, part: text.endswith(part), fails=never_fails),
    Function("contains", _TEST, lambda types, text, part: part in text, fails=never_fails),
    Function("lpad", _PAD, lambda types, text, n, by: _pad(text, n, by, True, "lpad")),
    Function("rpad", _PAD, lambda types, text, n, by: _pad(text, n, by, False, "rpad")),
    Function("reverse", _TEXT, _reverse),
    Function("repeat", _COUNT, _repeat),
)
