"""Functions of times of day, of moments, and of time zones.

Functions of a TIMESTAMPTZ are those of a TIMESTAMP in UTC, the time zone of every session: `build` casts
there and back. Functions of a TIME are those of the TIMESTAMP on the first day, 1970-01-01.
"""

from __future__ import annotations

from typing import Any

from everfresh.expr.coerce import takes
from everfresh.expr.column import Array
from everfresh.expr.library import zones
from everfresh.expr.library.civil import DAY_US
from everfresh.expr.library.signature import Function, Signature, never_fails
from everfresh.types import DATE, TIME, TIMESTAMP, TIMESTAMPTZ, VARCHAR


def _same(_: Signature, us: int) -> int:
    return us


def _same_all(_: Signature, us: Array) -> Array:
    return us


def _at(_: Signature, day: int, us: int) -> int:
    return day * DAY_US + us


def _zone(types: Signature, name: str, us: int) -> Any:
    return zones.to_utc(us, name) if types.args[1] == TIMESTAMP else zones.to_local(us, name)


ROWS = (
    Function("on_first_day", takes(((TIME,), TIMESTAMP)), _same, vector=_same_all, fails=never_fails),
    Function("at_time", takes(((DATE, TIME), TIMESTAMP)), _at),
    Function(
        "timezone",
        takes(((VARCHAR, TIMESTAMP), TIMESTAMPTZ), ((VARCHAR, TIMESTAMPTZ), TIMESTAMP)),
        _zone,
    ),
)
