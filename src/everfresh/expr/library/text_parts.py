"""Parts of texts, code points, and distances between texts."""

from __future__ import annotations

from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import every, takes
from everfresh.expr.library.signature import Function, Signature, never_fails
from everfresh.types import BIGINT, INTEGER, VARCHAR


def _split_part(_: Signature, text: str, by: str, index: int) -> str:
    """Part `index` from 1, or from the end if it is negative; '' where there is none."""
    parts = text.split(by) if by else [*text] or [""]
    at = index - 1 if index > 0 else index
    return parts[at] if index and -len(parts) <= at < len(parts) else ""


def _concat_ws(_: Signature, by: str | None, *parts: str | None) -> str | None:
    """All parts but NULLs, with `by` between them; NULL if that is."""
    return None if by is None else by.join(p for p in parts if p is not None)


def _by_null(args: Any) -> bool:
    return bool(args[0].nullable)


def _code(_: Signature, text: str) -> int:
    return ord(text[0]) if text else -1


def _ascii(_: Signature, text: str) -> int:
    return ord(text[0]) if text else 0


def _chr(_: Signature, code: int) -> str:
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise EverfreshError(Code.VALUE, f"{code} is no code point")
    return chr(code)


def _translate(_: Signature, text: str, old: str, new: str) -> str:
    """Each character of `old` by that of `new` at its place, or by nothing."""
    to: dict[int, str | None] = {}
    for i, c in enumerate(old):
        to.setdefault(ord(c), new[i] if i < len(new) else None)
    return text.translate(to)


def _levenshtein(_: Signature, a: str, b: str) -> int:
    """Insertions, deletions and replacements of bytes that make one text of the other."""
    left, right = a.encode(), b.encode()
    row = list(range(len(right) + 1))
    for i, x in enumerate(left, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(right, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


def _hamming(_: Signature, a: str, b: str) -> int:
    left, right = a.encode(), b.encode()
    if len(left) != len(right) or not left:
        raise EverfreshError(Code.VALUE, "the texts of HAMMING are of one length, in bytes, above zero")
    return sum(x != y for x, y in zip(left, right, strict=True))


def _overlay(_: Signature, text: str, by: str, start: int, size: int | None = None) -> str:
    """A part of a text replaced, as long as what comes in its place unless a length is given."""
    begin = max(start - 1, 0)
    end = start - 1 + (len(by) if size is None or size < 0 else size)
    return text[:begin] + by + text[max(end, 0) :]


_NUMBER_OF = takes(((VARCHAR,), INTEGER))
_DISTANCE = takes(((VARCHAR, VARCHAR), BIGINT))
_OVERLAY = takes(
    ((VARCHAR, VARCHAR, BIGINT), VARCHAR), ((VARCHAR, VARCHAR, BIGINT, BIGINT), VARCHAR)
)  # fmt: skip

ROWS = (
    Function("split_part", takes(((VARCHAR, VARCHAR, BIGINT), VARCHAR)), _split_part, fails=never_fails),
    Function(
        "concat_ws", every(VARCHAR, VARCHAR, 2), _concat_ws, strict=False, null=_by_null, fails=never_fails
    ),
    Function("unicode", _NUMBER_OF, _code, fails=never_fails),
    Function("ascii", _NUMBER_OF, _ascii, fails=never_fails),
    Function("chr", takes(((INTEGER,), VARCHAR)), _chr),
    Function("translate", takes(((VARCHAR, VARCHAR, VARCHAR), VARCHAR)), _translate, fails=never_fails),
    Function("levenshtein", _DISTANCE, _levenshtein, fails=never_fails),
    Function("hamming", _DISTANCE, _hamming),
    Function("strlen", takes(((VARCHAR,), BIGINT)), lambda _, text: len(text.encode()), fails=never_fails),
    Function("bit_length", takes(((VARCHAR,), BIGINT)), lambda _, t: 8 * len(t.encode()), fails=never_fails),
    Function("overlay", _OVERLAY, _overlay, fails=never_fails),
)
