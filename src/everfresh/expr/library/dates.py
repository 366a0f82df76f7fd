"""Dates, timestamps and intervals: parts, truncation and arithmetic.

A date plus an interval is a TIMESTAMP; months are added first and clamp to the last day of the month, then
days, then microseconds. Two intervals are equal if they are with months of 30 days and days of 24 hours, as
DuckDB compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import takes
from everfresh.expr.column import Array, is_constant
from everfresh.expr.library import checked
from everfresh.expr.library.civil import (
    DAY_US,
    add_months,
    civil,
    day_number,
    iso_week,
    month_length,
    weekday,
)
from everfresh.expr.library.signature import Function, Signature, check, overflow
from everfresh.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    TIMESTAMP,
    VARCHAR,
    SqlType,
)

Interval = tuple[int, int, int]

# -- arithmetic ----------------------------------------------------------------------------------------------


def _inside(value: int, bounds: SqlType, unit: str, type_: SqlType) -> int:
    low, high = bounds.bounds
    if low <= value <= high:
        return value
    raise overflow(f"{value} {unit}", type_)


def _day(value: int) -> int:
    return _inside(value, INTEGER, "days from 1970-01-01", DATE)


def _instant(value: int) -> int:
    return _inside(value, BIGINT, "microseconds from 1970-01-01", TIMESTAMP)


def _interval(months: int, days: int, us: int) -> Interval:
    return (
        _inside(months, INTEGER, "months", INTERVAL),
        _inside(days, INTEGER, "days", INTERVAL),
        _inside(us, BIGINT, "microseconds", INTERVAL),
    )


def scale_interval(span: Interval, by: int) -> Interval:
    """An interval times an integer."""
    check(by, INTEGER, lambda: f"an interval times {by}")
    return _interval(span[0] * by, span[1] * by, span[2] * by)


def shift(us: int, span: Interval) -> int:
    """A timestamp an interval later: months first, which clamp to the last day, then days, then time."""
    days, rest = divmod(us, DAY_US)
    if span[0]:
        days = add_months(days, span[0])
    return _instant((_day(days) + span[1]) * DAY_US + rest + span[2])


def _unshift(us: int, span: Interval) -> int:
    return shift(us, scale_interval(span, -1))


def _between(a: int, b: int) -> Interval:
    us = _instant(a - b)
    days = abs(us) // DAY_US
    return _interval(0, -days if us < 0 else days, us + days * DAY_US if us < 0 else us - days * DAY_US)


def _add_intervals(a: Interval, b: Interval) -> Interval:
    return _interval(a[0] + b[0], a[1] + b[1], a[2] + b[2])


ARITHMETIC: dict[tuple[str, str, str], Callable[[Any, Any], Any]] = {
    ("+", "DATE", "INTEGER"): lambda a, b: _day(a + b),
    ("+", "INTEGER", "DATE"): lambda a, b: _day(a + b),
    ("-", "DATE", "INTEGER"): lambda a, b: _day(a - b),
    ("-", "DATE", "DATE"): lambda a, b: a - b,
    ("+", "TIMESTAMP", "INTERVAL"): shift,
    ("+", "INTERVAL", "TIMESTAMP"): lambda a, b: shift(b, a),
    ("-", "TIMESTAMP", "INTERVAL"): _unshift,
    ("-", "TIMESTAMP", "TIMESTAMP"): _between,
    ("+", "INTERVAL", "INTERVAL"): _add_intervals,
    ("-", "INTERVAL", "INTERVAL"): lambda a, b: _interval(a[0] - b[0], a[1] - b[1], a[2] - b[2]),
    ("*", "INTERVAL", "BIGINT"): scale_interval,
    ("*", "BIGINT", "INTERVAL"): lambda a, b: scale_interval(b, a),
}


def vector_arithmetic(symbol: str, types: Signature, a: Array, b: Array) -> Array | None:
    """The fast twin of the rows above that have one; None for the others."""
    names = {t.name for t in types.args}
    if names <= {"DATE", "INTEGER"}:
        bounds = BIGINT if types.result == BIGINT else INTEGER
        return checked.add(a, b, bounds) if symbol == "+" else checked.subtract(a, b, bounds)
    if names == {"TIMESTAMP", "INTERVAL"}:
        when, span = (a, b) if types.args[0] == TIMESTAMP else (b, a)
        if is_constant(span):
            return _vector_shift(when, span[0] if symbol == "+" else scale_interval(span[0], -1))
    return None


def _vector_shift(us: Array, span: Interval) -> Array | None:
    days = us // DAY_US
    if span[0]:
        days = checked.within(by_day(lambda d: add_months(d, span[0], np.minimum), days), INTEGER)
    # How far each row moves fits easily: |days| < 2**32, so the products stay below 2**63 unless span[1] is
    # huge.
    if abs(span[1]) > 1 << 24 or abs(span[2]) > 1 << 61 or (np.abs(days) > 1 << 26).any():
        return None
    return checked.add((days + span[1]) * DAY_US + us % DAY_US, np.full(1, span[2]), BIGINT)


def interval_order(span: Interval) -> int:
    """The number by which intervals are compared."""
    return (span[0] * 30 + span[1]) * DAY_US + span[2]


def by_day(fn: Callable[[Array], Any], days: Array) -> Array:
    """`fn` of day numbers, by a table of all days between the extremes if that is shorter."""
    if not len(days):
        return np.asarray(fn(days), dtype=np.int64)
    low, high = int(days.min()), int(days.max())
    if high - low >= len(days):
        return np.asarray(fn(days), dtype=np.int64)
    table = np.asarray(fn(np.arange(low, high + 1)), dtype=np.int64)
    return np.take(table, days - low)


# -- parts ---------------------------------------------------------------------------------------------------


def _towards_zero(value: Any, unit: int) -> Any:
    return abs(value) // unit * ((value >= 0) * 2 - 1)


def _counted(year: Any, length: int) -> Any:
    """The number of a century or a millennium: the first begins with the year 1, that before it is -1."""
    return (year > 0) * ((year - 1) // length + 1) - (year <= 0) * (-year // length + 1)


_OF_DAYS: dict[str, Callable[[Any], Any]] = {
    "year": lambda d: civil(d)[0],
    "month": lambda d: civil(d)[1],
    "day": lambda d: civil(d)[2],
    "quarter": lambda d: (civil(d)[1] + 2) // 3,
    "dow": lambda d: (weekday(d) + 1) % 7,
    "isodow": lambda d: weekday(d) + 1,
    "doy": lambda d: d - day_number(civil(d)[0], 1, 1) + 1,
    "week": iso_week,
    "isoyear": lambda d: civil(d - weekday(d) + 3)[0],
    "yearweek": lambda d: civil(d - weekday(d) + 3)[0] * 100 + iso_week(d),
    "era": lambda d: (civil(d)[0] > 0) * 1,
    "decade": lambda d: _towards_zero(civil(d)[0], 10),
    "century": lambda d: _counted(civil(d)[0], 100),
    "millennium": lambda d: _counted(civil(d)[0], 1000),
}
_OF_TIME: dict[str, Callable[[Any], Any]] = {
    "hour": lambda us: us // 3_600_000_000,
    "minute": lambda us: us // 60_000_000 % 60,
    "second": lambda us: us // 1_000_000 % 60,
    "millisecond": lambda us: us // 1_000 % 60_000,
    "microsecond": lambda us: us % 60_000_000,
}


def _trunc(value: int, unit: int) -> int:
    return -(-value // unit) if value < 0 else value // unit


_OF_INTERVAL: dict[str, Callable[[Interval], Any]] = {
    "year": lambda v: _trunc(v[0], 12),
    "decade": lambda v: _trunc(v[0], 120),
    "century": lambda v: _trunc(v[0], 1_200),
    "millennium": lambda v: _trunc(v[0], 12_000),
    "month": lambda v: v[0] - _trunc(v[0], 12) * 12,
    "day": lambda v: v[1],
    "quarter": lambda v: _trunc(v[0] - _trunc(v[0], 12) * 12, 3) + 1,
    "hour": lambda v: _trunc(v[2], 3_600_000_000),
    "minute": lambda v: _trunc(v[2] - _trunc(v[2], 3_600_000_000) * 3_600_000_000, 60_000_000),
    "second": lambda v: _trunc(v[2] - _trunc(v[2], 60_000_000) * 60_000_000, 1_000_000),
    "millisecond": lambda v: _trunc(v[2] - _trunc(v[2], 60_000_000) * 60_000_000, 1_000),
    "microsecond": lambda v: v[2] - _trunc(v[2], 60_000_000) * 60_000_000,
}


def part_of(name: str, type_: SqlType, value: Any) -> Any:
    """A part of a DATE, a TIMESTAMP (also of arrays of them) or an INTERVAL."""
    if type_ == INTERVAL:
        return _OF_INTERVAL[name](value)
    if name in _OF_DAYS:
        return _OF_DAYS[name](value if type_ == DATE else value // DAY_US)
    return _OF_TIME[name](value * 0 if type_ == DATE else value % DAY_US)


def span_us(span: Interval) -> int:
    """An interval in microseconds: DuckDB's year has 365.25 days here, its month 30."""
    years = _trunc(span[0], 12)
    return (years * 1461 * DAY_US) // 4 + ((span[0] - years * 12) * 30 + span[1]) * DAY_US + span[2]


def _epoch(types: Signature, value: Any) -> float:
    if types.args[0] == INTERVAL:
        us = span_us(value)
    else:
        us = value * DAY_US if types.args[0] == DATE else value
    return float(us) / 1e6


def _part(name: str) -> Function:
    spans = [((INTERVAL,), BIGINT)] if name in _OF_INTERVAL else []

    def vector(types: Signature, values: Array) -> Array | None:
        if types.args[0] == INTERVAL:
            return None
        if name in _OF_DAYS:
            return by_day(_OF_DAYS[name], values if types.args[0] == DATE else values // DAY_US)
        return np.asarray(part_of(name, types.args[0], values), dtype=np.int64)

    return Function(
        name,
        takes(((DATE,), BIGINT), ((TIMESTAMP,), BIGINT), *spans),
        lambda types, value: int(part_of(name, types.args[0], value)),
        vector=vector,
    )


# -- truncation ----------------------------------------------------------------------------------------------

_TO_DAYS: dict[str, Callable[[Any], Any]] = {
    "millennium": lambda d: day_number(civil(d)[0] // 1000 * 1000, 1, 1),
    "century": lambda d: day_number(civil(d)[0] // 100 * 100, 1, 1),
    "decade": lambda d: day_number(civil(d)[0] // 10 * 10, 1, 1),
    "year": lambda d: day_number(civil(d)[0], 1, 1),
    "quarter": lambda d: day_number(civil(d)[0], (civil(d)[1] - 1) // 3 * 3 + 1, 1),
    "month": lambda d: d - civil(d)[2] + 1,
    "week": lambda d: d - weekday(d),
    "day": lambda d: d,
}
_TO_US = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_MONTHS = {"millennium": 12_000, "century": 1_200, "decade": 120, "year": 12, "quarter": 3, "month": 1}

_SPELLINGS = {
    "millennium": "millennia millenium mil",
    "century": "centuries cent c",
    "decade": "decades dec decs",
    "year": "years y yr yrs",
    "quarter": "quarters",
    "month": "months mon mons",
    "week": "weeks w weekofyear",
    "day": "days d dayofmonth",
    "hour": "hours h hr hrs",
    "minute": "minutes m min mins",
    "second": "seconds s sec secs",
    "millisecond": "milliseconds ms msec msecs",
    "microsecond": "microseconds us usec usecs",
    "dow": "dayofweek weekday",
    "isodow": "",
    "doy": "dayofyear",
    "epoch": "",
    "isoyear": "",
    "yearweek": "",
    "era": "",
}
_PARTS = {alias: name for name, more in _SPELLINGS.items() for alias in (name, *more.split())}


def part_name(text: str) -> str:
    """The name of a date part in any of its spellings; raises Code.VALUE if there is none."""
    found = _PARTS.get(text.lower())
    if found is None:
        hint = "parts are: " + ", ".join(_SPELLINGS)
        raise EverfreshError(Code.VALUE, f"'{text}' is not a part of a date", hint=hint)
    return found


def _truncate(types: Signature, part: str, value: Any) -> Any:
    name = part_name(part)
    if types.args[1] == INTERVAL:
        return _truncate_interval(name, value)
    if name in _TO_DAYS:
        return _TO_DAYS[name](value // DAY_US) * DAY_US
    if name not in _TO_US:
        hint = "it takes: " + ", ".join([*_TO_DAYS, *_TO_US])
        raise EverfreshError(Code.VALUE, f"date_trunc does not take '{part}'", hint=hint)
    return value - value % _TO_US[name]


def _truncate_interval(name: str, span: Interval) -> Interval:
    if name in _MONTHS:
        return _trunc(span[0], _MONTHS[name]) * _MONTHS[name], 0, 0
    if name in ("week", "day"):
        return span[0], _trunc(span[1], 7) * 7 if name == "week" else span[1], 0
    return span[0], span[1], _trunc(span[2], _TO_US[name]) * _TO_US[name]


def _truncate_columns(types: Signature, part: Any, value: Any) -> Any:
    from everfresh.expr.column import Vector

    if types.args[1] == INTERVAL or not part.is_constant or part.valid is not None:
        return None
    name = part_name(part[0])
    if name in _TO_DAYS:
        made = by_day(_TO_DAYS[name], value.values // DAY_US) * DAY_US
    else:
        made = _truncate(types, part[0], value.values)
    return Vector(TIMESTAMP, made, None).with_valid(value.valid)


# -- constructors --------------------------------------------------------------------------------------------


def _make_date(_: Signature, year: int, month: int, day: int) -> int:
    if not 1 <= month <= 12 or abs(year) > 6_000_000 or not 1 <= day <= month_length(year, month):
        raise EverfreshError(Code.VALUE, f"there is no date {year}-{month}-{day}")
    return _day(day_number(year, month, day))


def _constructor(name: str, *unit: int) -> Function:
    def scalar(_: Signature, count: int) -> Interval:
        if not unit[2]:
            check(count, INTEGER, lambda: f"{name}({count})")
        return _interval(count * unit[0], count * unit[1], count * unit[2])

    return Function(name, takes(((BIGINT,), INTERVAL)), scalar)


def _seconds(_: Signature, count: float) -> Interval:
    if not abs(count) < 9.2e12:
        raise EverfreshError(Code.OVERFLOW, f"{count} seconds are outside INTERVAL")
    return _interval(0, 0, round(count * 1e6))


ROWS = (
    *(_part(name) for name in (*_OF_DAYS, *_OF_TIME)),
    Function("epoch", takes(((DATE,), DOUBLE), ((TIMESTAMP,), DOUBLE), ((INTERVAL,), DOUBLE)), _epoch),
    Function(
        "date_trunc",
        takes(((VARCHAR, TIMESTAMP), TIMESTAMP), ((VARCHAR, INTERVAL), INTERVAL)),
        _truncate,
        columns=_truncate_columns,
    ),
    Function("make_date", takes(((BIGINT, BIGINT, BIGINT), DATE)), _make_date),
    _constructor("to_millennia", 12_000, 0, 0),
    _constructor("to_centuries", 1_200, 0, 0),
    _constructor("to_decades", 120, 0, 0),
    _constructor("to_years", 12, 0, 0),
    _constructor("to_quarters", 3, 0, 0),
    _constructor("to_months", 1, 0, 0),
    _constructor("to_weeks", 0, 7, 0),
    _constructor("to_days", 0, 1, 0),
    _constructor("to_hours", 0, 0, 3_600_000_000),
    _constructor("to_minutes", 0, 0, 60_000_000),
    _constructor("to_milliseconds", 0, 0, 1_000),
    _constructor("to_microseconds", 0, 0, 1),
    Function("to_seconds", takes(((DOUBLE,), INTERVAL)), _seconds),
)
