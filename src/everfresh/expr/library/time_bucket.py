"""`time_bucket(width, t [, origin])`: the start of the interval of a fixed width in which a time lies.

Buckets of days and less count from 2000-01-03, a Monday, those of months from 2000-01-01, as in DuckDB, or
from an origin. A bucket has its start in it and its end not, also before 1970.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import takes
from everfresh.expr.column import is_constant
from everfresh.expr.library import dates
from everfresh.expr.library.civil import DAY_US, civil, day_number
from everfresh.expr.library.signature import Function, Signature, check
from everfresh.types import BIGINT, DATE, INTERVAL, TIMESTAMP

Interval = tuple[int, int, int]
MONDAY = 10_959 * DAY_US
"""2000-01-03, from which buckets of days and less count, in microseconds from 1970-01-01."""
JANUARY = 360
"""2000-01, from which buckets of months count, in months from 1970-01."""


def width_of(span: Interval) -> tuple[int, int]:
    """A width in months and in microseconds, one of which is 0; raises Code.VALUE if it is no width."""
    months, us = span[0], span[1] * DAY_US + span[2]
    if months and (span[1] or span[2]):
        raise EverfreshError(
            Code.VALUE, "a bucket's width is of months, or of days and less", hint="not of both"
        )
    if months < 0 or us < 0 or not (months or us):
        raise EverfreshError(Code.VALUE, "the width of a bucket must be above zero")
    return months, check(us, BIGINT, lambda: "a bucket's width in microseconds")


def month_of(us: Any) -> Any:
    """Months from 1970-01."""
    year, month, _ = civil(us // DAY_US)
    return (year - 1970) * 12 + month - 1


def _first(month: Any) -> Any:
    """The first instant of a month."""
    return day_number(1970 + month // 12, month % 12 + 1, 1) * DAY_US


def _start(span: Interval, us: Any, origin: int | None) -> Any:
    """The start of the bucket; `us` may be an array."""
    months, width = width_of(span)
    if months:
        base = JANUARY if origin is None else int(month_of(origin))
        return _first((month_of(us) - base) // months * months + base)
    base = (MONDAY if origin is None else origin) % width
    return (us - base) // width * width + base


def _bucket(types: Signature, span: Interval, value: int, *origin: int) -> int:
    unit = DAY_US if types.result == DATE else 1
    found = _start(span, value * unit, origin[0] * unit if origin else None)
    return check(int(found), BIGINT, lambda: "the start of a bucket") // unit


def _buckets(types: Signature, span: Any, values: Any, *origin: Any) -> Any:
    """The fast twin, for one width and no origin."""
    if origin or not is_constant(span):
        return None
    months, width = width_of(span[0])
    if types.result == DATE:
        days = np.asarray(values, dtype=np.int64)
        return dates.by_day(lambda d: _start(span[0], d * DAY_US, None) // DAY_US, days)
    if months:
        days = values // DAY_US
        return dates.by_day(lambda d: _start(span[0], d * DAY_US, None) // DAY_US, days) * DAY_US
    if width > 1 << 61 or not (np.abs(values) < 1 << 61).all():
        return None
    return _start(span[0], values, None)


ROWS = (
    Function(
        "time_bucket",
        takes(
            ((INTERVAL, DATE), DATE),
            ((INTERVAL, TIMESTAMP), TIMESTAMP),
            ((INTERVAL, DATE, DATE), DATE),
            ((INTERVAL, TIMESTAMP, TIMESTAMP), TIMESTAMP),
        ),
        _bucket,
        vector=_buckets,
    ),
)
