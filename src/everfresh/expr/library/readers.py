"""Text to physical values: casts from VARCHAR, and constants in the text of expressions.

Every reader raises Code.VALUE with the text and the type. They accept what DuckDB accepts in practice; what
they do not take (special dates as 'infinity', time zone names other than UTC, hexadecimal DECIMALs) raises
and is never misread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.library import zones
from everfresh.expr.library.civil import DAY_US, day_number, month_length
from everfresh.types import SqlType, canonical_float, coding, fold, nested_text
from everfresh.types.texts import read_blob, read_json, read_time, read_uuid

_NUMBER = re.compile(r"([+-]?)(\d+(?:_\d+)*)?(?:\.(\d+(?:_\d+)*)?)?(?:[eE]([+-]?\d+))?")
_RADIX = re.compile(r"0x([0-9a-f]+)|0b([01]+)|0o([0-7]+)", re.IGNORECASE)
_DATE = re.compile(r"(-?)(\d{1,7})([-/ \\])(\d{1,2})\3(\d{1,2})( \(BC\))?")
_TIME = re.compile(
    r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?"
    r"(?:Z| ?UTC|[+-]\d{2}(?::\d{2}){0,2})?",
    re.IGNORECASE,
)
_FLOATS = {"inf", "infinity", "nan"}
_BOOLEANS = {
    "true": True,
    "t": True,
    "1": True,
    "yes": True,
    "y": True,
    "false": False,
    "f": False,
    "0": False,
    "no": False,
    "n": False,
}
_SPACE = " \t\n\v\f\r"


def _wrong(text: str, type_: SqlType) -> EverfreshError:
    return EverfreshError(Code.VALUE, f"cannot read '{text}' as {type_}")


def _scaled(text: str, scale: int, type_: SqlType) -> int:
    """The decimal number `text` times 10**scale, rounded half away from zero."""
    match = _NUMBER.fullmatch(text.strip(_SPACE))
    if match is None or not (match[2] or match[3]):
        raise _wrong(text, type_)
    whole, fraction = (match[2] or "").replace("_", ""), (match[3] or "").replace("_", "")
    shift = int(match[4] or 0) + scale - len(fraction)
    if shift > 100:
        raise _wrong(text, type_)
    value: int = int(whole + fraction)
    if shift >= 0:
        value *= 10**shift
    else:
        unit = 10 ** min(-shift, len(whole + fraction) + 1)
        value = (value + unit // 2) // unit
    return -value if match[1] == "-" else value


def read_exact(text: str, type_: SqlType) -> int:
    """An integer or DECIMAL; fractions round half away from zero."""
    radix = _RADIX.fullmatch(text.strip(_SPACE))
    if radix is not None and type_.is_integer:
        value = int(radix[1], 16) if radix[1] else int(radix[2], 2) if radix[2] else int(radix[3], 8)
    else:
        value = _scaled(text, type_.scale, type_)
    low, high = type_.bounds
    if not low <= value <= high:
        raise _wrong(text, type_)
    return value


def read_float(text: str, type_: SqlType) -> float:
    """A REAL or DOUBLE; too large is infinite."""
    stripped = text.strip(_SPACE)
    match = _NUMBER.fullmatch(stripped)
    special = stripped.lower().lstrip("+-") in _FLOATS and len(stripped) - len(stripped.lstrip("+-")) <= 1
    if not special and (match is None or not (match[2] or match[3])):
        raise _wrong(text, type_)
    value = float(stripped)
    if type_.name == "REAL":
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    return canonical_float(value)


def read_boolean(text: str, type_: SqlType) -> bool:
    """A BOOLEAN; no blanks around it."""
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise _wrong(text, type_)
    return value


def _days(match: re.Match[str], text: str, type_: SqlType) -> int:
    year, month, day = int(match[2]), int(match[4]), int(match[5])
    if match[6]:
        year = 1 - year
    if match[1]:
        year = -year
    if not 1 <= month <= 12 or not 1 <= day <= month_length(year, month):
        raise _wrong(text, type_)
    return int(day_number(year, month, day))


def read_timestamp(text: str, type_: SqlType) -> int:
    """A TIMESTAMP; an offset from UTC is read over, as DuckDB does."""
    stripped = text.strip(_SPACE)
    match = _DATE.match(stripped)
    if stripped == "epoch":
        return 0
    if match is None:
        raise _wrong(text, type_)
    days, rest = _days(match, text, type_), stripped[match.end() :]
    if not rest:
        return days * DAY_US
    time = _TIME.fullmatch(rest[1:])
    if rest[0] not in " T" or time is None:
        raise _wrong(text, type_)
    hour, minute, second = int(time[1]), int(time[2]), int(time[3] or 0)
    us = int((time[4] or "").ljust(6, "0")[:6])
    if minute > 59 or second > 59 or hour > 24 or (hour == 24 and minute + second + us > 0):
        raise _wrong(text, type_)
    return days * DAY_US + (hour * 3600 + minute * 60 + second) * 1_000_000 + us


def read_date(text: str, type_: SqlType) -> int:
    """A DATE; a time of day behind it is read over."""
    stripped = text.strip(_SPACE)
    match = _DATE.fullmatch(stripped)
    return _days(match, text, type_) if match else read_timestamp(text, type_) // DAY_US


# unit: (months, days, microseconds) of one, and the spellings besides the plural
_UNITS: dict[str, tuple[int, int, int]] = {}
for _names, _one in (
    ("year years y yr yrs", (12, 0, 0)),
    ("month months mon mons", (1, 0, 0)),
    ("quarter quarters", (3, 0, 0)),
    ("decade decades dec decs", (120, 0, 0)),
    ("century centuries cent c", (1200, 0, 0)),
    ("millennium millennia millenium mil", (12000, 0, 0)),
    ("week weeks w", (0, 7, 0)),
    ("day days d", (0, 1, 0)),
    ("hour hours h hr hrs", (0, 0, 3_600_000_000)),
    ("minute minutes m min mins", (0, 0, 60_000_000)),
    ("second seconds s sec secs", (0, 0, 1_000_000)),
    ("millisecond milliseconds ms msec msecs", (0, 0, 1_000)),
    ("microsecond microseconds us usec usecs", (0, 0, 1)),
):
    _UNITS.update(dict.fromkeys(_names.split(), _one))

_SPAN = re.compile(
    r"\s*(?:([+-]?)(\d+):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?"
    r"|([+-]?\d+)(\.\d+)?\s*([A-Za-z]*))"
)


def _span(match: re.Match[str], text: str, type_: SqlType) -> tuple[int, int, int]:
    if match[3] is not None:
        us = (int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4] or 0)) * 1_000_000
        us += int((match[5] or "").ljust(6, "0"))
        return 0, 0, -us if match[1] == "-" else us
    unit = _UNITS.get((match[8] or "s").lower())
    if unit is None:
        raise _wrong(text, type_)
    count, sign = int(match[6]), -1 if match[6].startswith("-") else 1
    months, days, us = (count * n for n in unit)
    if match[7]:
        # A fraction of a unit goes into the next smaller ones: 1.5 years is 18 months, 1.5 months 45 days.
        micro = sign * int(match[7][1:].ljust(6, "0")[:6])
        if unit[0] > 1:
            months += micro * unit[0] // 1_000_000
        elif unit[0] == 1:
            days += micro * 30 // 1_000_000
        else:
            us += micro * (unit[1] * DAY_US + unit[2]) // 1_000_000
    return months, days, us


def read_interval(text: str, type_: SqlType) -> tuple[int, int, int]:
    """An INTERVAL: numbers with units, and H:MM:SS.

    >>> from everfresh.types import INTERVAL
    >>> read_interval("1 year 2 months 3 days 04:05:06", INTERVAL)
    (14, 3, 14706000000)
    """
    body = text.strip(_SPACE).removeprefix("@")
    ago = body.endswith(" ago")
    body = body.removesuffix(" ago")
    total, position = (0, 0, 0), 0
    while position < len(body):
        match = _SPAN.match(body, position)
        # only the last number needs no unit
        if match is None or (match[6] and not match[8] and match.end() < len(body)):
            raise _wrong(text, type_)
        span = _span(match, text, type_)
        total = (total[0] + span[0], total[1] + span[1], total[2] + span[2])
        position = match.end()
    bounds = (1 << 31, 1 << 31, 1 << 63)
    if position == 0 or not all(-limit <= n < limit for n, limit in zip(total, bounds, strict=True)):
        raise _wrong(text, type_)
    return (-total[0], -total[1], -total[2]) if ago else total


def read_moment(text: str, type_: SqlType) -> int:
    """A TIMESTAMPTZ: a timestamp with an offset or the name of a time zone, in UTC without one."""
    stripped = text.strip(_SPACE)
    match = _OFFSET.search(stripped) if ":" in stripped else None
    if match is None:
        return read_timestamp(text, type_)
    local = read_timestamp(stripped[: match.start()], type_)
    if match["zone"]:
        return zones.to_utc(local, match["zone"])
    offset = [int(part) for part in re.findall(r"\d\d", match["offset"] or "")]
    seconds = sum(part * unit for part, unit in zip(offset, (3600, 60, 1), strict=False))
    return local - (-seconds if (match["offset"] or "").startswith("-") else seconds) * 1_000_000


_OFFSET = re.compile(
    r"(?<=\d) ?(?:(?P<utc>Z|UTC)|(?P<offset>[+-]\d{2}(?::?\d{2}){0,2})| (?P<zone>[A-Za-z_]+(?:/[\w+-]+)*))$",
    re.IGNORECASE,
)


def _simple(reader: Callable[[str], Any]) -> Callable[[str, SqlType], Any]:
    def read_one(text: str, type_: SqlType) -> Any:
        try:
            return reader(text)
        except ValueError:
            raise _wrong(text, type_) from None

    return read_one


def _read_list(text: str, type_: SqlType) -> str:
    found = _simple(nested_text.list_parts)(text, type_)
    return coding.from_elements([_part(part, type_.inner[0]) for part in found], type_)


def _read_struct(text: str, type_: SqlType) -> str:
    given = {fold(name): part for name, part in _simple(nested_text.struct_parts)(text, type_)}
    names = [fold(name) for name in type_.names]
    if set(given).difference(names):
        raise _wrong(text, type_)
    pairs = zip(names, type_.inner, strict=True)
    return coding.from_fields([_part(given.get(name), inner) for name, inner in pairs], type_)


def _read_map(text: str, type_: SqlType) -> str:
    key, item = type_.inner
    found = [(_part(k, key), _part(v, item)) for k, v in _simple(nested_text.map_parts)(text, type_)]
    if len({k for k, _ in found}) < len(found):
        raise _wrong(text, type_)
    return coding.from_entries(found, type_)


def _part(text: str | None, type_: SqlType) -> Any:
    return None if text is None else read(text, type_)


def _read_label(text: str, type_: SqlType) -> int:
    if text not in type_.names:
        raise _wrong(text, type_)
    return type_.names.index(text)


_READERS: dict[str, Callable[[str, SqlType], Any]] = {
    "BLOB": _simple(read_blob),
    "UUID": _simple(read_uuid),
    "TIME": _simple(read_time),
    "JSON": _simple(read_json),
    "TIMESTAMPTZ": read_moment,
    "LIST": _read_list,
    "STRUCT": _read_struct,
    "MAP": _read_map,
    "ENUM": _read_label,
    "BOOLEAN": read_boolean,
    "DECIMAL": read_exact,
    "REAL": read_float,
    "DOUBLE": read_float,
    "DATE": read_date,
    "TIMESTAMP": read_timestamp,
    "INTERVAL": read_interval,
    "VARCHAR": lambda text, _: text,
}


def read(text: str, type_: SqlType) -> Any:
    """`CAST(text AS type_)`."""
    return _READERS.get(type_.name, read_exact)(text, type_)
