"""What one Python value means in a column: the reference rules, one value at a time.

`read_value` gives the value in the form in which Arrow takes it, or raises `Refused`. The rules are strict
where a conversion would lose something and lenient where it would not:

| column | takes |
|---|---|
| BOOLEAN | bool; the strings true/false, t/f, yes/no, y/n, 1/0 |
| integers | int; float, Decimal and strings without a fraction |
| DECIMAL(p, s) | int; Decimal and strings with at most s decimals; float, rounded half away from zero |
| REAL, DOUBLE | float, int, Decimal, strings (also nan, inf); rounded to the nearest float |
| VARCHAR | str |
| DATE | date; datetime at midnight; 'YYYY-MM-DD' |
| TIMESTAMP | datetime without a time zone; date; 'YYYY-MM-DD[ T]HH[:MM[:SS[.ffffff]]]' |
| INTERVAL | timedelta; pyarrow.MonthDayNano |
| all others | see `more_values` |

Missing values of pandas and NumPy (NA, NaT) are NULL; NaN is a value of REAL and DOUBLE and refused
elsewhere. Invariant: `casts` agrees with these rules wherever it answers at all.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.delta import more_values
from everfresh.delta.refused import Refused, Unreadable, bad, kind
from everfresh.errors import Code
from everfresh.types import INTEGER_BITS, MAX_DIGITS, SqlType, canonical_float, is_unicode, to_logical

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}(?::[0-9]{2}){0,2})(?:(?<=:..:..)\.([0-9]{1,9}))?(.*)"
)
_TRUTH = dict.fromkeys(("true", "t", "yes", "y", "1"), True) | dict.fromkeys(
    ("false", "f", "no", "n", "0"), False
)
_WHOLE = 2.0**53  # floats from here on are whole numbers
_FAR = 100  # a decimal exponent beyond every type: decided before 10**exponent is computed


def limits(type_: SqlType) -> tuple[int, int]:
    """The least and the largest physical value of an exact type (HUGEINT: what its Arrow form holds)."""
    low, high = type_.bounds
    most = int(10**MAX_DIGITS) - 1
    return max(low, -most), min(high, most)


def read_value(value: Any, type_: SqlType) -> Any:
    """`value` as a value of `type_`, in the Python form that Arrow takes.

    >>> from everfresh.types import BIGINT, DATE, DECIMAL
    >>> read_value("12.50", DECIMAL(9, 2)), read_value(3.0, BIGINT), read_value("2024-01-31", DATE)
    (Decimal('12.50'), 3, datetime.date(2024, 1, 31))
    """
    value = _plain(value)
    return None if value is None else _READERS[type_.name](value, type_)


def _plain(value: Any) -> Any:
    """`value` without its NumPy, pandas or Arrow wrapping; None if it is one of their missing values."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else _from_numpy_time(value)
    if isinstance(value, np.generic):
        return value.item()
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def _from_numpy_time(value: Any) -> Any:
    kind = "datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]"
    micro = value.astype(kind)
    plain = micro.item()
    if micro.astype(value.dtype) != value or isinstance(
        plain, int
    ):  # finer than a microsecond, or beyond year 9999
        return Unreadable(str(value))
    return plain


# -- refusals ----------------------------------------------------------------------------------------------


def _overflow(type_: SqlType) -> Refused:
    if type_.is_float:
        return Refused(
            Code.OVERFLOW, f"is too large for {type_}", f"{type_} has a limited range; use a larger type"
        )
    low, high = (to_logical(limit, type_) for limit in limits(type_))
    return Refused(Code.OVERFLOW, f"is outside {type_}", f"{type_} holds {low} to {high}")


# -- one reader per type -------------------------------------------------------------------------------------


def _boolean(value: Any, type_: SqlType) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return _TRUTH[value.strip().lower()]
        except KeyError:
            raise bad(type_, "write true or false") from None
    raise kind(value, type_, "give True or False; for numbers compare them first, as in x != 0")


def _exact(value: Any, type_: SqlType) -> Any:
    """An integer or a DECIMAL: the physical integer is found without any rounding, except that of a float."""
    number, is_float = _as_decimal(value, type_)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits)))
    shift = exponent + type_.scale
    if whole == 0:
        shift = 0
    elif number.adjusted() > _FAR:
        raise _overflow(type_)
    if shift >= 0:
        physical = whole * 10**shift
    else:
        physical, rest = divmod(whole, 10**-shift) if -shift <= len(digits) or is_float else (0, 1)
        if rest and not (is_float and type_.name == "DECIMAL"):
            raise bad(type_, _fraction_hint(type_))
        physical += 2 * rest >= 10**-shift if rest else 0
    physical = -physical if sign else physical
    low, high = limits(type_)
    if not low <= physical <= high:
        raise _overflow(type_)
    return to_logical(physical, type_)


def _fraction_hint(type_: SqlType) -> str:
    if type_.is_integer:
        return "the column takes whole numbers only: round first, or make it a DECIMAL or a DOUBLE"
    return f"{type_} has {type_.scale} digits after the point: round first, or give the column a larger scale"


def _as_decimal(value: Any, type_: SqlType) -> tuple[Decimal, bool]:
    """The finite number that `value` is, and whether it was a float (then in its shortest decimal form)."""
    if isinstance(value, bool):
        raise kind(value, type_, "give 1 or 0")
    if isinstance(value, int):
        return Decimal(value), False
    if isinstance(value, float) and math.isfinite(value):
        return Decimal(value) if abs(value) >= _WHOLE else Decimal(str(value)), True
    if isinstance(value, Decimal) and value.is_finite():
        return value, False
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return Decimal(value.strip()), False
    if isinstance(value, (float, Decimal)):
        raise bad(
            type_, f"{type_} has no NaN and no infinity; give None for NULL, or make the column a DOUBLE"
        )
    if isinstance(value, str):
        raise bad(type_, "write a number such as " + ("42" if type_.is_integer else "12.5"))
    raise kind(value, type_, "give a number")


def _float(value: Any, type_: SqlType) -> float:
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text) and not _SPECIAL.fullmatch(text):
            raise bad(type_, "write a number such as 1.5 or 1e-3, or nan, inf, -inf")
        finite = not _SPECIAL.fullmatch(text)
        number = float(text)
    elif isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        try:
            finite, number = math.isfinite(value), float(value)
        except OverflowError:
            raise _overflow(type_) from None
    else:
        raise kind(value, type_, "give a number")
    if type_.name == "REAL":
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    if finite and math.isinf(number):
        raise _overflow(type_)
    return canonical_float(number)


def _text(value: Any, type_: SqlType) -> str:
    if not isinstance(value, str):
        hint = "decode the bytes first" if isinstance(value, bytes) else "convert it with str(...)"
        raise kind(value, type_, hint)
    if not is_unicode(value):
        raise bad(type_, "the text has a lone surrogate and is no valid Unicode")
    return value


def _date(value: Any, type_: SqlType) -> dt.date:
    if isinstance(value, str) and _DAY.fullmatch(value.strip()):
        value = _parsed(dt.date.fromisoformat, value.strip(), type_)
    elif isinstance(value, str):
        value = _instant(value, type_, "write a date as YYYY-MM-DD")
    if isinstance(value, dt.datetime):
        moment = _naive(value, type_)
        if moment.time() != dt.time():
            raise bad(type_, "it has a time of day: cut it off first, or make the column a TIMESTAMP")
        return moment.date()
    if isinstance(value, dt.date):
        return value
    raise kind(value, type_, "give a datetime.date or a string YYYY-MM-DD")


def _timestamp(value: Any, type_: SqlType) -> dt.datetime:
    if isinstance(value, str) and _DAY.fullmatch(value.strip()):
        value = _parsed(dt.date.fromisoformat, value.strip(), type_)
    elif isinstance(value, str):
        value = _instant(value, type_, "write a timestamp as YYYY-MM-DD HH:MM:SS.ffffff")
    if isinstance(value, dt.datetime):
        return _naive(value, type_)
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    raise kind(
        value, type_, "give a datetime.datetime of at most microseconds, or a string YYYY-MM-DD HH:MM:SS"
    )


def _parsed(parse: Callable[[str], Any], text: str, type_: SqlType) -> Any:
    try:
        return parse(text)
    except ValueError:
        raise bad(type_, "there is no such day or time") from None


def _instant(text: str, type_: SqlType, hint: str) -> dt.datetime:
    match = _INSTANT.fullmatch(text.strip())
    if match is None:
        raise bad(type_, hint)
    day, time, fraction, rest = match.groups()
    if rest:
        zone = re.fullmatch(r" ?(Z|UTC|[+-][0-9:]+)", rest) is not None
        raise bad(type_, _ZONE if zone else hint)
    if fraction and fraction[6:].strip("0"):
        raise bad(type_, "a TIMESTAMP holds microseconds: round first")
    moment: dt.datetime = _parsed(dt.datetime.fromisoformat, f"{day}T{time}", type_)
    return moment.replace(microsecond=int((fraction or "0")[:6].ljust(6, "0")))


_ZONE = "TIMESTAMP has no time zone: convert to UTC (or to local time) and drop the zone first"


def _naive(value: dt.datetime, type_: SqlType) -> dt.datetime:
    """`value` as a plain datetime; one with a time zone, or finer than a microsecond (pandas), is refused."""
    if value.tzinfo is not None:
        raise Refused(Code.TYPE, f"has a time zone, which a {type_} has not", _ZONE)
    if getattr(value, "nanosecond", 0):
        raise bad(type_, "a TIMESTAMP holds microseconds: round first")
    return dt.datetime(
        value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond
    )


def _interval(value: Any, type_: SqlType) -> Any:
    if isinstance(value, dt.timedelta):
        return value
    if isinstance(value, pa.MonthDayNano):
        if value.nanoseconds % 1000:
            raise bad(type_, "an INTERVAL holds microseconds: round first")
        return value
    raise kind(value, type_, "give a datetime.timedelta or a pyarrow.MonthDayNano")


def _nothing(value: Any, type_: SqlType) -> Any:
    raise kind(value, type_, "only None fits")


_READERS: dict[str, Callable[[Any, SqlType], Any]] = {
    **more_values.READERS,
    **dict.fromkeys(INTEGER_BITS, _exact),
    "BOOLEAN": _boolean,
    "DECIMAL": _exact,
    "REAL": _float,
    "DOUBLE": _float,
    "VARCHAR": _text,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "INTERVAL": _interval,
    "NULL": _nothing,
}
