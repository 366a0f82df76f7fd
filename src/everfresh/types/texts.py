"""What the texts of single values mean, for those who take rows and for casts alike: BLOB, UUID, TIME, JSON.

Each reader gives the physical value, or raises ValueError.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

_HEX_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")
_UUID = re.compile(r"\{?[0-9a-f]{8}(-?)[0-9a-f]{4}(-?)[0-9a-f]{4}(-?)[0-9a-f]{4}(-?)[0-9a-f]{12}\}?")
_TIME = re.compile(r"(?:\d{4}-\d{1,2}-\d{1,2}[ T])?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?", re.ASCII)
_PRINTED = {*map(chr, range(32, 127))} - {"\\", "'", '"'}


def read_blob(text: str) -> str:
    """The bytes that a text stands for: ASCII, and `\\xAB` for any byte; by the code of a BLOB.

    >>> read_blob("a\\\\xFF")
    'aÿ'
    """
    rest = _HEX_ESCAPE.sub("", text)
    if "\\" in rest or not rest.isascii():
        raise ValueError(text)
    return _HEX_ESCAPE.sub(lambda m: chr(int(m[1], 16)), text)


def blob_text(code: str) -> str:
    """The inverse: the text of a BLOB, given by its code."""
    return "".join([c if c in _PRINTED else f"\\x{ord(c):02X}" for c in code])


def read_uuid(text: str) -> str:
    """A UUID with or without hyphens and braces, by its code.

    >>> read_uuid("{00112233445566778899AABBCCDDEEFF}")
    '00112233-4455-6677-8899-aabbccddeeff'
    """
    found = text.strip().lower()
    if not _UUID.fullmatch(found) or found.startswith("{") != found.endswith("}"):
        raise ValueError(text)
    digits = found.strip("{}").replace("-", "")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def read_time(text: str) -> int:
    """Microseconds since midnight of `HH:MM[:SS[.ffffff]]`; a day before it is read over, and what is behind
    the sixth digit is cut."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((match[4] or "").ljust(6, "0")[:6])


def read_json(text: str) -> str:
    """A text that is JSON, as it is."""
    try:
        json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(text) from None
    return text


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def json_of(value: Any) -> str:
    """A Python value as JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
