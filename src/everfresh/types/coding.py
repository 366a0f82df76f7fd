"""Values that fit no word as texts that stand for them: what pools intern and vectors hold.

A value of BLOB, UUID, LIST, STRUCT or MAP is held as a text, its code, so that one mechanism serves all
texts: keys, groups, joins, DISTINCT, extremes, logs. Invariant: two values have the same code exactly when
they are the same in SQL's sense (NULL inside is NULL, NaN is NaN), and codes order as the values do, by code
points, which is the order of their UTF-8 bytes.

| value | code |
|---|---|
| BLOB | a character for each byte, of the byte's number |
| UUID | its usual text in lower case |
| LIST | before each value `\\x01`, for NULL `\\x02`; then `\\x00`, so that a list is before those it begins |
| STRUCT | the same for each field, and no end |
| MAP | a LIST of STRUCTs of key and value, in the order in which they were given |

Inside of these a number is the count of its digits in base 128, around 64, and the digits, turned for what is
below zero; a float the digits of its bits; a text is itself with `\\x00\\x01` for each `\\x00`, and
`\\x00\\x00` behind it; a code of a nested value is itself. No code is the beginning of another.

>>> from everfresh.types.sqltype import INTEGER
>>> codes = [from_elements(v, LIST(INTEGER)) for v in ([], [-2], [1], [1, 5], [1, None], [300])]
>>> codes == sorted(codes), elements(codes[4], LIST(INTEGER))
(True, [1, None])
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from everfresh.types.sqltype import LIST, SqlType

_END, _VALUE, _NULL = "\x00", "\x01", "\x02"
_MIDDLE = 64
_SIGN = 1 << 63
NAN = float("nan")
"""The one NaN object: tuples that hold it compare equal, since Python compares by identity first."""
WORD = (1 << 64) - 1


def from_elements(values: Sequence[Any], type_: SqlType) -> str:
    """The code of a LIST of physical values."""
    inner = type_.inner[0]
    return "".join([_NULL if v is None else _VALUE + _inside(v, inner) for v in values]) + _END


def from_fields(values: Sequence[Any], type_: SqlType) -> str:
    """The code of a STRUCT whose fields have these physical values."""
    pairs = zip(values, type_.inner, strict=True)
    return "".join([_NULL if v is None else _VALUE + _inside(v, t) for v, t in pairs])


def from_entries(entries: Sequence[tuple[Any, Any]], type_: SqlType) -> str:
    """The code of a MAP of these physical keys and values."""
    entry = entry_type(type_)
    return from_elements([from_fields(pair, entry) for pair in entries], LIST(entry))


def elements(code: str, type_: SqlType) -> list[Any]:
    """The physical values of a LIST."""
    return _read_list(code, 0, type_.inner[0])[0]


def fields(code: str, type_: SqlType) -> list[Any]:
    """The physical values of the fields of a STRUCT."""
    return _read_struct(code, 0, type_)[0]


def entries(code: str, type_: SqlType) -> list[tuple[Any, Any]]:
    """The physical keys and values of a MAP."""
    entry = entry_type(type_)
    found = [fields(pair, entry) for pair in elements(code, LIST(entry))]
    return [(key, value) for key, value in found]


def entry_type(type_: SqlType) -> SqlType:
    """The STRUCT of which a MAP is a LIST."""
    return SqlType("STRUCT", inner=type_.inner, names=("key", "value"))


# -- values inside -------------------------------------------------------------------------------------------


def _inside(value: Any, type_: SqlType) -> str:
    if type_.is_nested:
        text: str = value
        return text
    if type_.is_text:
        escaped: str = value.replace("\x00", "\x00\x01")
        return escaped + "\x00\x00"
    if type_.is_float:
        return _float_code(value)
    if type_.name == "BOOLEAN":
        return "\x01" if value else "\x00"
    return _number_code(value)


def _number_code(value: int) -> str:
    """The digits of a number and how many there are: what has more is larger, below zero smaller."""
    left, digits = abs(value), []
    while left:
        digits.append(left & 127)
        left >>= 7
    if value < 0:
        return chr(_MIDDLE - len(digits)) + "".join([chr(127 - d) for d in reversed(digits)])
    return chr(_MIDDLE + len(digits)) + "".join([chr(d) for d in reversed(digits)])


def _float_code(value: float) -> str:
    (bits,) = struct.unpack("<Q", struct.pack("<d", NAN if value != value else value + 0.0))
    bits = bits & (_SIGN - 1) | _SIGN if value != value else bits ^ (WORD if bits & _SIGN else _SIGN)
    return "".join([chr(bits >> shift & 127) for shift in range(63, -1, -7)])


def _read(code: str, at: int, type_: SqlType) -> tuple[Any, int]:
    """The physical value that begins at a place, and where it ends."""
    match type_.name:
        case "LIST" | "MAP" | "STRUCT":
            end = _end(code, at, type_)
            return code[at:end], end
        case "VARCHAR" | "BLOB" | "UUID" | "JSON":
            end = _text_end(code, at)
            return code[at : end - 2].replace("\x00\x01", "\x00"), end
        case "REAL" | "DOUBLE":
            return _read_float(code[at : at + 10]), at + 10
        case "BOOLEAN":
            return code[at] == "\x01", at + 1
        case _:
            return _read_number(code, at)


def _read_number(code: str, at: int) -> tuple[int, int]:
    count, value = ord(code[at]) - _MIDDLE, 0
    end = at + 1 + abs(count)
    for digit in code[at + 1 : end]:
        value = value << 7 | (127 - ord(digit) if count < 0 else ord(digit))
    return -value if count < 0 else value, end


def _read_float(digits: str) -> float:
    bits = 0
    for digit in digits:
        bits = bits << 7 | ord(digit)
    bits = bits ^ _SIGN if bits & _SIGN else bits ^ WORD
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return NAN if value != value else float(value)


def _read_list(code: str, at: int, inner: SqlType) -> tuple[list[Any], int]:
    found: list[Any] = []
    while (mark := code[at]) != _END:
        at += 1
        value = None
        if mark == _VALUE:
            value, at = _read(code, at, inner)
        found.append(value)
    return found, at + 1


def _read_struct(code: str, at: int, type_: SqlType) -> tuple[list[Any], int]:
    found: list[Any] = []
    for inner in type_.inner:
        mark, value = code[at], None
        at += 1
        if mark == _VALUE:
            value, at = _read(code, at, inner)
        found.append(value)
    return found, at


def _text_end(code: str, at: int) -> int:
    while True:
        at = code.index("\x00", at) + 2
        if code[at - 1] == "\x00":
            return at


def _end(code: str, at: int, type_: SqlType) -> int:
    """Where the value ends that begins at a place."""
    match type_.name:
        case "LIST" | "MAP":
            inner = entry_type(type_) if type_.name == "MAP" else type_.inner[0]
            while (mark := code[at]) != _END:
                at = _end(code, at + 1, inner) if mark == _VALUE else at + 1
            return at + 1
        case "STRUCT":
            for inner in type_.inner:
                at = _end(code, at + 1, inner) if code[at] == _VALUE else at + 1
            return at
        case "VARCHAR" | "BLOB" | "UUID" | "JSON":
            return _text_end(code, at)
        case "REAL" | "DOUBLE":
            return at + 10
        case "BOOLEAN":
            return at + 1
        case _:
            return at + 1 + abs(ord(code[at]) - _MIDDLE)
