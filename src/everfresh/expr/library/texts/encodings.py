"""Texts and bytes in other forms: hexadecimal, binary, Base64, percent signs, digests, without accents.

A BLOB is held as a text with a character for each byte.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Callable
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import takes
from everfresh.expr.library.signature import Function, Signature, never_fails
from everfresh.types import BIGINT, BLOB, HUGEINT, INTEGER, UBIGINT, VARCHAR

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _bytes(types: Signature, value: str) -> bytes:
    return value.encode("latin-1") if types.args[0] == BLOB else value.encode()


def _blob(value: bytes) -> str:
    return value.decode("latin-1")


def _bits(types: Signature, value: int) -> int:
    """A number as the bits that hold it."""
    return value % (1 << 128 if types.args[0] == HUGEINT else 1 << 64)


def _hex(types: Signature, value: Any) -> str:
    return f"{_bits(types, value):X}" if isinstance(value, int) else _bytes(types, value).hex().upper()


def _bin(types: Signature, value: Any) -> str:
    if isinstance(value, int):
        return f"{_bits(types, value):b}"
    return "".join(f"{byte:08b}" for byte in _bytes(types, value))


def _from_digits(base: int, name: str) -> Callable[[Signature, str], str]:
    """Bytes from their digits; where some are missing, the first byte has fewer."""
    width = 2 if base == 16 else 8

    def scalar(_: Signature, text: str) -> str:
        if any(c not in "0123456789abcdefABCDEF"[: 22 if base == 16 else 2] for c in text):
            raise EverfreshError(Code.VALUE, f"'{text}' has other characters than digits of {name}")
        padded = text.zfill(-(-len(text) // width) * width)
        return _blob(
            bytes(int(padded[i : i + width], base) for i in range(0, len(padded), width)) if text else b""
        )

    return scalar


_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def _from_base64(_: Signature, text: str) -> str:
    if len(text) % 4 or not _BASE64.fullmatch(text):
        raise EverfreshError(Code.VALUE, f"'{text}' is not Base64")
    return _blob(base64.b64decode(text))


def _to_base64(types: Signature, value: str) -> str:
    return base64.b64encode(_bytes(types, value)).decode()


def _url_encode(_: Signature, text: str) -> str:
    return "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in text.encode())


_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


def _url_decode(_: Signature, text: str) -> str:
    found = _PERCENT.sub(lambda m: bytes([int(m[1], 16)]), text.encode())
    return _unicode(found, "url_decode")


def _unicode(found: bytes, name: str) -> str:
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise EverfreshError(Code.VALUE, f"what {name} gives is no text in UTF-8") from None


def _digest(algorithm: str) -> Callable[[Signature, str], str]:
    return lambda types, value: hashlib.new(algorithm, _bytes(types, value)).hexdigest()


def _to_base(_: Signature, number: int, base: int, least: int = 0) -> str:
    if number < 0 or not 2 <= base <= 36 or not 0 <= least <= 64:
        raise EverfreshError(
            Code.VALUE, f"to_base({number}, {base}) has no value",
            hint="the number is not negative, the base 2 to 36, the length up to 64",
        )  # fmt: skip
    made = ""
    while number:
        number, digit = divmod(number, base)
        made = _DIGITS[digit] + made
    return (made or "0").rjust(least, "0")


def _strip_accents(_: Signature, text: str) -> str:
    if text.isascii():
        return text
    marks = (c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c)[0] != "M")
    return unicodedata.normalize("NFC", "".join(marks))


def _escape(_: Signature, text: str) -> str:
    return "".join(c if c.isalnum() or c == "_" or ord(c) > 127 else "\\" + c for c in text).replace(
        "\\\x00", "\\x00"
    )


_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"), ("bytes", "kB", "MB", "GB", "TB", "PB")


def _size(unit: int) -> Callable[[Signature, int], str]:
    """A number of bytes in the largest unit of which there is one, cut behind one digit."""
    names = _UNITS[unit == 1000]

    def scalar(_: Signature, count: int) -> str:
        sign, tenths, at = "-" if count < 0 else "", abs(count) * 10, 0
        while tenths >= unit * 10 and at < len(names) - 1:
            at, tenths = at + 1, tenths // unit
        shown = f"{tenths // 10}.{tenths % 10}" if at else f"{tenths // 10}"
        return f"{sign}{shown} {'byte' if (at, tenths) == (0, 10) else names[at]}"

    return scalar


_TEXT = takes(((VARCHAR,), VARCHAR))
_READ = takes(((VARCHAR,), BLOB))
_ANY = takes(((VARCHAR,), VARCHAR), ((BLOB,), VARCHAR))
_NUMBER = takes(
    ((VARCHAR,), VARCHAR),
    ((BLOB,), VARCHAR),
    ((BIGINT,), VARCHAR),
    ((UBIGINT,), VARCHAR),
    ((HUGEINT,), VARCHAR),
)
_BYTES = takes(((BLOB,), VARCHAR))

ROWS = (
    Function("hex", _NUMBER, _hex, fails=never_fails),
    Function("bin", _NUMBER, _bin, fails=never_fails),
    Function("unhex", _READ, _from_digits(16, "hexadecimal")),
    Function("unbin", _READ, _from_digits(2, "binary")),
    Function("to_base64", _BYTES, _to_base64, fails=never_fails),
    Function("from_base64", _READ, _from_base64),
    Function("url_encode", _TEXT, _url_encode, fails=never_fails),
    Function("url_decode", _TEXT, _url_decode),
    Function("encode", _READ, lambda _, text: _blob(text.encode()), fails=never_fails),
    Function("decode", _BYTES, lambda _, code: _unicode(code.encode("latin-1"), "decode")),
    Function("octet_length", takes(((BLOB,), BIGINT)), lambda _, code: len(code), fails=never_fails),
    Function("md5", _ANY, _digest("md5"), fails=never_fails),
    Function("sha1", _ANY, _digest("sha1"), fails=never_fails),
    Function("sha256", _ANY, _digest("sha256"), fails=never_fails),
    Function("to_base", takes(((BIGINT, INTEGER), VARCHAR), ((BIGINT, INTEGER, INTEGER), VARCHAR)), _to_base),
    Function("strip_accents", _TEXT, _strip_accents, fails=never_fails),
    Function("nfc_normalize", _TEXT, lambda _, text: unicodedata.normalize("NFC", text), fails=never_fails),
    Function("regexp_escape", _TEXT, _escape, fails=never_fails),
    Function("format_bytes", takes(((BIGINT,), VARCHAR)), _size(1024), fails=never_fails),
    Function("format_decimal_bytes", takes(((BIGINT,), VARCHAR)), _size(1000), fails=never_fails),
)
