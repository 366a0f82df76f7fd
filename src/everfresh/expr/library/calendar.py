"""Differences of dates in parts of the calendar, ages, names of days and months, and times from numbers.

`date_diff` counts the borders of a part that lie between two times, `date_sub` the whole parts that fit.
`age` subtracts year from year, month from month and so on, and borrows from the month of the earlier time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import takes
from everfresh.expr.library.civil import DAY_US, civil, day_number, month_length, weekday
from everfresh.expr.library.dates import part_name, part_of, span_us
from everfresh.expr.library.signature import Function, Signature, check
from everfresh.types import BIGINT, DATE, DOUBLE, INTERVAL, TIMESTAMP, VARCHAR

Interval = tuple[int, int, int]
_UNITS = {
    "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1_000, "microsecond": 1,
    "epoch": 1_000_000,
}  # fmt: skip
_DAYS = ("day", "dow", "isodow", "doy")
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}


def _month_number(us: int) -> int:
    year, month, _ = civil(us // DAY_US)
    return int(year) * 12 + int(month) - 1


def _border(part: str, us: int) -> int:
    """How many borders of a part lie before a time, from some time on."""
    days = us // DAY_US
    if part in _DAYS:
        return days
    if part == "isoyear":
        return int(part_of("isoyear", DATE, days))
    if part in _UNITS:
        return us // _UNITS[part]
    if part == "month":
        return _month_number(us)
    if part == "quarter":
        return _month_number(us) // 3
    year = _month_number(us) // 12
    return _towards_zero(year, _MONTHS[part] // 12)


def _towards_zero(value: int, unit: int) -> int:
    return -(-value // unit) if value < 0 else value // unit


def _known(name: str, part: str) -> str:
    found = part_name(part)
    if found == "era":
        raise EverfreshError(Code.VALUE, f"{name} does not take '{part}'")
    return found


def _diff(types: Signature, part: str, start: int, end: int) -> int:
    unit = DAY_US if types.args[1] == DATE else 1
    found = _known("date_diff", part)
    if found in ("week", "yearweek"):  # DuckDB counts whole weeks here
        return _towards_zero(end * unit // DAY_US - start * unit // DAY_US, 7)
    return _border(found, end * unit) - _border(found, start * unit)


def _sub(types: Signature, part: str, start: int, end: int) -> int:
    unit = DAY_US if types.args[1] == DATE else 1
    found = _known("date_sub", part)
    start, end = start * unit, end * unit
    sign, first, last = (1, start, end) if start <= end else (-1, end, start)
    if found == "isoyear":
        found = "year"
    if found in _MONTHS:
        return sign * (_whole_months(first, last) // _MONTHS[found])
    width = _UNITS.get(found) or (7 * DAY_US if found in ("week", "yearweek") else DAY_US)
    return sign * ((last - first) // width)


def _whole_months(first: int, last: int) -> int:
    """Whole months from one time to a later one; the last day of a short month counts as the same day."""
    year, month, day = civil(last // DAY_US)
    length = int(month_length(year, month))
    if day == length:
        y, m, d = civil(first // DAY_US)
        if d > length or (d == length and first % DAY_US < last % DAY_US):
            first = day_number(y, m, length) * DAY_US + first % DAY_US
    return _age_between(last, first)[0]


def _age_between(last: int, first: int) -> Interval:
    """The age at `last` of what began at `first`, which is not later."""
    (y1, m1, d1), (y2, m2, d2) = civil(first // DAY_US), civil(last // DAY_US)
    months, days, us = int(y2 - y1) * 12 + int(m2 - m1), int(d2 - d1), last % DAY_US - first % DAY_US
    if us < 0:
        us, days = us + DAY_US, days - 1
    if days < 0:
        months, days = months - 1, days + int(month_length(y1, m1))
    return months, days, us


def _age(_: Signature, end: int, start: int) -> Interval:
    if start <= end:
        return _age_between(end, start)
    months, days, us = _age_between(start, end)
    return -months, -days, -us


DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip


def _of_day(fn: Callable[[int], Any]) -> Callable[[Signature, int], Any]:
    """A function of the day of a DATE or a TIMESTAMP."""
    return lambda types, value: fn(value if types.args[0] == DATE else value // DAY_US)


def _last_day(day: int) -> int:
    year, month, _ = civil(day)
    return int(day_number(year, month, month_length(year, month)))


def timestamp_of(_: Signature, *parts: Any) -> int:
    """A time from microseconds, or from a year, a month, a day, an hour, a minute and seconds."""
    if len(parts) == 1:
        return int(parts[0])
    year, month, day, hour, minute, seconds = parts
    if not 1 <= month <= 12 or abs(year) > 290_000 or not 1 <= day <= month_length(year, month):
        raise EverfreshError(Code.VALUE, f"there is no date {year}-{month}-{day}")
    us = round(seconds * 1_000_000) if abs(seconds) < 61 else -1
    midnight = (hour, minute, us) == (24, 0, 0)
    if not midnight and not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= us < 60_000_000):
        raise EverfreshError(Code.VALUE, f"there is no time {hour}:{minute}:{seconds}")
    found = day_number(year, month, day) * DAY_US + (hour * 60 + minute) * 60_000_000 + us
    return check(int(found), BIGINT, lambda: f"the time {year}-{month}-{day} {hour}:{minute}")


def _epoch(factor: int, divisor: int) -> Callable[[Signature, Any], int]:
    def scalar(types: Signature, value: Any) -> int:
        if types.result == TIMESTAMP:
            return check(value * divisor, BIGINT, lambda: f"{value} milliseconds")
        us = value * DAY_US if types.args[0] == DATE else value
        if types.args[0] == INTERVAL:
            us = span_us(value)
        return check(us * factor // divisor, BIGINT, lambda: "the number of a time")

    return scalar


_BETWEEN = takes(((VARCHAR, DATE, DATE), BIGINT), ((VARCHAR, TIMESTAMP, TIMESTAMP), BIGINT))
_NAME = takes(((DATE,), VARCHAR), ((TIMESTAMP,), VARCHAR))
_NUMBER = takes(((DATE,), BIGINT), ((TIMESTAMP,), BIGINT), ((INTERVAL,), BIGINT))
_SIX = (BIGINT, BIGINT, BIGINT, BIGINT, BIGINT, DOUBLE)

ROWS = (
    Function("date_diff", _BETWEEN, _diff),
    Function("date_sub", _BETWEEN, _sub),
    Function("age", takes(((TIMESTAMP, TIMESTAMP), INTERVAL)), _age),
    Function("last_day", takes(((DATE,), DATE), ((TIMESTAMP,), DATE)), _of_day(_last_day)),
    Function("dayname", _NAME, _of_day(lambda day: DAY_NAMES[int(weekday(day))])),
    Function("monthname", _NAME, _of_day(lambda day: MONTH_NAMES[int(civil(day)[1]) - 1])),
    Function("make_timestamp", takes(((BIGINT,), TIMESTAMP), (_SIX, TIMESTAMP)), timestamp_of),
    Function("epoch_ms", takes(*_NUMBER.rows, ((BIGINT,), TIMESTAMP)), _epoch(1, 1_000)),
    Function("epoch_us", _NUMBER, _epoch(1, 1)),
    Function("epoch_ns", _NUMBER, _epoch(1_000, 1)),
)
