"""STRFTIME and STRPTIME: times as texts by a format, and back.

A format is a constant (`everfresh.expr.build` looks). What stands in it for a field is one row of `_WRITERS`;
what can be read, one of `_READERS`. A text is read from left to right: a blank of the format takes any number
of blanks, a number at most as many digits as its field has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import is_null_literal, is_string_literal
from everfresh.expr.library import zones
from everfresh.expr.library.calendar import DAY_NAMES, MONTH_NAMES
from everfresh.expr.library.civil import DAY_US, civil, day_number, iso_week, month_length, weekday
from everfresh.expr.library.signature import Function, Rule, Signature, check
from everfresh.expr.nodes import Expr
from everfresh.types import BIGINT, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

_HOUR, _MINUTE, _SECOND = 3_600_000_000, 60_000_000, 1_000_000


# -- writing -------------------------------------------------------------------------------------------------


def _year(year: int) -> str:
    return f"{year:04d}" if year >= 0 else str(year)


def _iso_year(day: int) -> int:
    return int(civil(day - weekday(day) + 3)[0])


def _week_from(first: int) -> Callable[[int, int], int]:
    """The week of the year, where weeks begin on a day (Monday is 0); days before the first are in week 0."""

    def of(day: int, _: int) -> int:
        new_year = int(day_number(civil(day)[0], 1, 1))
        begun = (first - int(weekday(new_year))) % 7
        return (day - new_year - begun) // 7 + 1

    return of


def _day_of_year(day: int, _: int) -> int:
    return int(day - day_number(civil(day)[0], 1, 1) + 1)


def _hour12(_: int, us: int) -> int:
    return us // _HOUR % 12 or 12


def _digits(of: Callable[[int, int], int], least: int) -> Callable[[int, int], str]:
    return lambda day, us: f"{int(of(day, us)):0{least}d}"


_NUMBERS: dict[str, tuple[Callable[[int, int], int], int]] = {
    "d": (lambda day, us: civil(day)[2], 2), "m": (lambda day, us: civil(day)[1], 2),
    "y": (lambda day, us: abs(civil(day)[0]) % 100, 2), "j": (_day_of_year, 3),
    "H": (lambda day, us: us // _HOUR, 2), "I": (_hour12, 2), "M": (lambda day, us: us // _MINUTE % 60, 2),
    "S": (lambda day, us: us // _SECOND % 60, 2),
}  # fmt: skip
_WRITERS: dict[str, Callable[[int, int], str]] = {
    **{letter: _digits(of, n) for letter, (of, n) in _NUMBERS.items()},
    **{f"-{letter}": _digits(of, 1) for letter, (of, _) in _NUMBERS.items()},
    "a": lambda day, us: DAY_NAMES[int(weekday(day))][:3], "A": lambda day, us: DAY_NAMES[int(weekday(day))],
    "b": lambda day, us: MONTH_NAMES[int(civil(day)[1]) - 1][:3],
    "B": lambda day, us: MONTH_NAMES[int(civil(day)[1]) - 1],
    "Y": lambda day, us: _year(int(civil(day)[0])), "G": lambda day, us: _year(_iso_year(day)),
    "u": lambda day, us: str(int(weekday(day)) + 1), "w": lambda day, us: str((int(weekday(day)) + 1) % 7),
    "f": lambda day, us: f"{us % _SECOND:06d}", "g": lambda day, us: f"{us % _SECOND // 1000:03d}",
    "n": lambda day, us: f"{us % _SECOND * 1000:09d}",
    "p": lambda day, us: "AM" if us < 12 * _HOUR else "PM",
    "U": _digits(_week_from(6), 2), "W": _digits(_week_from(0), 2),
    "V": lambda day, us: f"{int(iso_week(day)):02d}", "z": lambda day, us: "+00", "Z": lambda day, us: "",
}  # fmt: skip
_WHOLE = {"c": "%Y-%m-%d %H:%M:%S", "x": "%Y-%m-%d", "X": "%H:%M:%S", "T": "%H:%M:%S", "h": "%b"}
_FIELD = re.compile(r"%(-?.)", re.DOTALL)


@lru_cache(maxsize=1024)
def parts_of(pattern: str) -> tuple[str, ...]:
    """A format as texts and the letters of fields in turn, texts at both ends.

    >>> parts_of("%d. %h %%")
    ('', 'd', '. ', 'b', ' %')
    """
    whole = re.sub(r"%(-?.)", lambda m: _WHOLE.get(m[1], m[0]), pattern, flags=re.DOTALL)
    if not whole or re.search(r"(?<!%)(?:%%)*%-?\Z", whole):
        raise _wrong(pattern, "it ends within a field" if whole else "it is empty")
    parts, last = [""], 0
    for found in _FIELD.finditer(whole):
        parts[-1] += whole[last : found.start()]
        last, letter = found.end(), found[1]
        if letter == "%":
            parts[-1] += "%"
        elif letter not in _WRITERS:
            raise _wrong(pattern, f"'%{letter}' is no field")
        else:
            parts += [letter, ""]
    parts[-1] += whole[last:]
    return tuple(parts)


def _wrong(pattern: str, why: str) -> EverfreshError:
    hint = "fields are %Y %m %d %H %M %S %f %g %j %y %b %B %a %A %p %I %u %w %G %V %U %W %z %Z %c %x %X %%"
    return EverfreshError(Code.VALUE, f"'{pattern}' is no format of times: {why}", hint=hint)


def _write(_: Signature, us: int, pattern: str) -> str:
    day, rest = divmod(us, DAY_US)
    parts = parts_of(pattern)
    return "".join(_WRITERS[part](day, rest) if i % 2 else part for i, part in enumerate(parts))


# -- reading -------------------------------------------------------------------------------------------------

_NUMERIC: dict[str, tuple[int, int, int]] = {  # digits at most, least and largest value
    "d": (2, 1, 31), "m": (2, 1, 12), "y": (2, 0, 99), "Y": (4, 0, 9999), "j": (3, 1, 366), "H": (2, 0, 23),
    "I": (2, 1, 12), "M": (2, 0, 59), "S": (2, 0, 59), "u": (1, 1, 7), "w": (1, 0, 6), "f": (6, 0, 999_999),
    "g": (3, 0, 999),
}  # fmt: skip
_OFFSET = re.compile(r"([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9/_+-]+")


class _Unreadable(Exception):
    """A text does not fit a format."""


def is_zoned(pattern: str) -> bool:
    """Whether a format reads moments; refuses one with fields that cannot be read."""
    letters = {part.strip("-") for part in parts_of(pattern)[1::2]}
    for letter in ("n", "U", "W", "G", "V"):
        if letter in letters:
            raise EverfreshError(
                Code.UNSUPPORTED, f"reading '%{letter}' of '{pattern}' is not supported",
                hint="use %Y with %m and %d, or with %j" if letter != "n" else "use %f, microseconds",
            )  # fmt: skip
    if "j" in letters and letters & {"m", "b", "B", "d"}:
        raise EverfreshError(Code.UNSUPPORTED, f"'%j' beside months or days in '{pattern}' is not supported")
    return bool(letters & {"z", "Z"})


def _blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace() and text[at].isascii():
        at += 1
    return at


def _literal(part: str, text: str, at: int) -> int:
    for c in re.sub(r"\s+", " ", part, flags=re.ASCII):
        if c == " ":
            if _blanks(text, at) == at:
                raise _Unreadable
            at = _blanks(text, at)
        elif text[at : at + 1] != c:
            raise _Unreadable
        else:
            at += 1
    return at


def _named(names: Sequence[str], text: str, at: int) -> tuple[int, int]:
    for i, name in enumerate(names):
        if text[at : at + len(name)].lower() == name.lower():
            return i, at + len(name)
    raise _Unreadable


_SHORT = ([name[:3] for name in DAY_NAMES], [name[:3] for name in MONTH_NAMES])


def _field(letter: str, text: str, at: int) -> tuple[Any, int]:
    """The value of a field that begins at a place, and where it ends."""
    letter = letter.strip("-")
    if letter in _NUMERIC:
        most, low, high = _NUMERIC[letter]
        found = re.compile(f"[0-9]{{1,{most}}}").match(text, at)
        if found is None:
            raise _Unreadable
        digits = found[0].ljust(most, "0") if letter in "fg" else found[0]
        if not low <= int(digits) <= high:
            raise _Unreadable
        return int(digits), found.end()
    match letter:
        case "a" | "A":
            return _named(_SHORT[0] if letter == "a" else DAY_NAMES, text, at)
        case "b" | "B":
            return _named(_SHORT[1] if letter == "b" else MONTH_NAMES, text, at)
        case "p":
            return _named(("AM", "PM"), text, at)
        case "z":
            found = _OFFSET.match(text, at)
            if found is None:
                raise _Unreadable
            seconds = (int(found[2]) * 60 + int(found[3] or 0)) * 60 + int(found[4] or 0)
            return (-seconds if found[1] == "-" else seconds), found.end()
        case _:
            found = _ZONE.match(text, at)
            if found is None:
                raise _Unreadable
            return found[0], found.end()


_SPECIAL = {"epoch": 0}


def _read_one(text: str, pattern: str) -> int:
    """The time of a text by one format."""
    if text.strip().lower() in _SPECIAL:
        return _SPECIAL[text.strip().lower()]
    if text.strip().lower() in ("infinity", "-infinity"):
        raise EverfreshError(Code.OVERFLOW, f"'{text}' is outside TIMESTAMP")
    at, found = _blanks(text, 0), {}
    for i, part in enumerate(parts_of(pattern)):
        if i % 2:
            found[part.strip("-")], at = _field(part, text, at)
        else:
            at = _literal(part, text, at)
    if _blanks(text, at) < len(text):
        raise _Unreadable
    return _time_of(found, pattern)


def _time_of(found: dict[str, Any], pattern: str) -> int:
    year, month, day = found.get("Y", 1900), found.get("m", 1), found.get("d", 1)
    order = [part.strip("-") for part in parts_of(pattern)[1::2]]
    for letter in order:  # of several fields that say the same the last counts
        value = found[letter]
        if letter in "Yy":
            year = value if letter == "Y" else value + (1900 if value >= 69 else 2000)
        elif letter in "bBm":
            month = value + (letter != "m")
    hour = next((found[letter] for letter in reversed(order) if letter in "HI"), 0)
    if "p" in found:
        if hour > 12:
            raise _Unreadable
        hour = hour % 12 + 12 * found["p"]
    if day > month_length(year, month):
        raise EverfreshError(Code.VALUE, f"there is no date {year}-{month}-{day}")
    days = day_number(year, 1, 1) + found["j"] - 1 if "j" in found else day_number(year, month, day)
    us = found.get("f", found.get("g", 0) * 1000)
    total = days * DAY_US + hour * _HOUR + found.get("M", 0) * _MINUTE + found.get("S", 0) * _SECOND + us
    total = int(total) - found.get("z", 0) * _SECOND
    return zones.to_utc(total, found["Z"]) if "Z" in found else total


def _read(_: Signature, text: str, *patterns: str) -> int:
    for pattern in patterns:
        try:
            return check(_read_one(text, pattern), BIGINT, lambda: f"the time '{text}'")
        except _Unreadable:
            continue
    shown = " or ".join(f"'{pattern}'" for pattern in patterns)
    raise EverfreshError(Code.VALUE, f"cannot read '{text}' as a time by {shown}", hint="use try_strptime")


def _try_read(types: Signature, text: str, *patterns: str) -> int | None:
    try:
        return _read(types, text, *patterns)
    except EverfreshError as error:
        if error.code == Code.VALUE:
            return None
        raise


# -- the table -----------------------------------------------------------------------------------------------


def _texts(result: SqlType) -> Rule:
    """Any number of texts."""
    return Rule(
        lambda types: result if len(types) > 1 and all(t == VARCHAR for t in types) else None,
        lambda args: [VARCHAR] * len(args) if len(args) > 1 and all(map(_is_text, args)) else None,
    )


def _is_text(arg: Expr) -> bool:
    return arg.type == VARCHAR or is_null_literal(arg) or is_string_literal(arg)


def _may_be_null(args: tuple[Expr, ...]) -> bool:
    return True


_WRITE = Rule(
    lambda types: VARCHAR if tuple(types) == (TIMESTAMP, VARCHAR) else None,
    lambda args: [TIMESTAMP, VARCHAR] if len(args) == 2 and _is_text(args[1]) and _is_time(args[0]) else None,
)


def _is_time(arg: Expr) -> bool:
    return arg.type.name in ("DATE", "TIMESTAMP") or is_null_literal(arg)


ROWS = (
    Function("strftime", _WRITE, _write),
    Function("strptime_plain", _texts(TIMESTAMP), _read),
    Function("strptime_zoned", _texts(TIMESTAMPTZ), _read),
    Function("try_strptime_plain", _texts(TIMESTAMP), _try_read, null=_may_be_null),
    Function("try_strptime_zoned", _texts(TIMESTAMPTZ), _try_read, null=_may_be_null),
)
