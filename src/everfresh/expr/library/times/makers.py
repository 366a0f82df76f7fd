"""Times from numbers, and numbers that stand for times."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import takes
from everfresh.expr.library.calendar import timestamp_of
from everfresh.expr.library.civil import DAY_US, civil, month_length
from everfresh.expr.library.dates import scale_interval
from everfresh.expr.library.signature import Function, Signature, check, never_fails
from everfresh.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ

_JULIAN = 2_440_588
"""The Julian day number of 1970-01-01."""


def _make_time(_: Signature, hour: int, minute: int, seconds: float) -> int:
    us = round(seconds * 1_000_000) if abs(seconds) < 61 else -1
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= us <= 60_000_000):
        raise EverfreshError(Code.VALUE, f"there is no time {hour}:{minute}:{seconds}")
    found = (hour * 60 + minute) * 60_000_000 + us
    if found >= DAY_US:
        raise EverfreshError(Code.VALUE, f"the time {hour}:{minute}:{seconds} is not before 24:00:00")
    return found


def _to_timestamp(_: Signature, seconds: float) -> int:
    us = seconds * 1_000_000
    if not math.isfinite(us) or abs(us) >= 1 << 63:
        raise EverfreshError(Code.OVERFLOW, f"{seconds} seconds are outside TIMESTAMPTZ")
    return check(round(us), BIGINT, lambda: f"{seconds} seconds")


def _milliseconds(_: Signature, value: int) -> int:
    return check(value * 1000, BIGINT, lambda: f"{value} milliseconds")


def _julian(types: Signature, value: int) -> float:
    if types.args[0] == DATE:
        return float(value + _JULIAN)
    day, rest = divmod(value, DAY_US)
    return rest / DAY_US + (day + _JULIAN)


def _days_in_month(types: Signature, value: int) -> int:
    year, month, _ = civil(value if types.args[0] == DATE else value // DAY_US)
    return int(month_length(year, month))


def _nanosecond(types: Signature, value: Any) -> int:
    us = 0 if types.args[0] == DATE else value[2] if types.args[0] == INTERVAL else value
    return int(math.fmod(us, 60_000_000)) * 1000 if types.args[0] == INTERVAL else us % 60_000_000 * 1000


def _always(value: bool) -> Callable[[Signature, Any], bool]:
    return lambda _, __: value


_SIX = (BIGINT, BIGINT, BIGINT, BIGINT, BIGINT, DOUBLE)
_TIMES = takes(((DATE,), BOOLEAN), ((TIMESTAMP,), BOOLEAN))


def _normalized(_: Signature, span: tuple[int, int, int]) -> tuple[int, int, int]:
    """Days of 24 hours and months of 30 days, as far as they are whole."""
    days = span[1] + span[2] // DAY_US
    months = span[0] + days // 30
    return scale_interval((months, days % 30, span[2] % DAY_US), 1)


ROWS = (
    Function("make_time", takes(((BIGINT, BIGINT, DOUBLE), TIME)), _make_time),
    Function("to_timestamp", takes(((DOUBLE,), TIMESTAMPTZ)), _to_timestamp),
    Function("make_timestamp_ms", takes(((BIGINT,), TIMESTAMP)), _milliseconds),
    Function(
        "make_timestamptz",
        takes(((BIGINT,), TIMESTAMPTZ), (_SIX, TIMESTAMPTZ)),
        timestamp_of,
    ),
    Function("julian", takes(((DATE,), DOUBLE), ((TIMESTAMP,), DOUBLE)), _julian, fails=never_fails),
    Function(
        "days_in_month", takes(((DATE,), BIGINT), ((TIMESTAMP,), BIGINT)), _days_in_month, fails=never_fails
    ),
    Function(
        "nanosecond", takes(((DATE,), BIGINT), ((TIMESTAMP,), BIGINT), ((INTERVAL,), BIGINT)), _nanosecond,
        fails=never_fails,
    ),
    Function("normalized_interval", takes(((INTERVAL,), INTERVAL)), _normalized),
    Function("is_time_finite", _TIMES, _always(True), fails=never_fails),
    Function("is_time_infinite", _TIMES, _always(False), fails=never_fails),
)  # fmt: skip
