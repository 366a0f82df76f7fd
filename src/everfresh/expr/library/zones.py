"""Time zones, by the data of the standard library.

Moments are microseconds in UTC, local times microseconds of a clock on the wall. A local time that is there
twice, when clocks go back, is the second of the two; one that is skipped is read as if clocks had not gone
forward.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from everfresh.errors import Code, EverfreshError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_US = dt.timedelta(microseconds=1)
_CYCLE = 400 * 365 + 97  # days after which the calendar begins anew
_FIRST, _LAST = -25_567, 2_932_896  # 1900-01-01 to 9999-12-31


@lru_cache(maxsize=256)
def zone(name: str) -> ZoneInfo:
    """The time zone of a name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EverfreshError(
            Code.VALUE, f"there is no time zone '{name}'", hint="names are as in 'Europe/Berlin' or 'UTC'"
        ) from None


def _known(us: int) -> tuple[dt.datetime, int]:
    """A time that Python knows with the same place in its year, and how far it was moved."""
    day, moved = us // 86_400_000_000, 0
    if not _FIRST <= day < _LAST:
        cycles = -((_LAST - _CYCLE - day) // _CYCLE) if day >= _LAST else (_FIRST + _CYCLE - day) // _CYCLE
        moved = cycles * _CYCLE * 86_400_000_000 * (-1 if day >= _LAST else 1)
    return _EPOCH + (us + moved) * _US, moved


def to_utc(local: int, name: str) -> int:
    """The moment of a local time.

    >>> to_utc(0, "Europe/Berlin")
    -3600000000
    """
    when, moved = _known(local)
    either = (when.replace(tzinfo=zone(name), fold=fold) for fold in (0, 1))
    return max((at - _EPOCH) // _US for at in either) - moved


def to_local(moment: int, name: str) -> int:
    """The local time of a moment.

    >>> to_local(0, "Europe/Berlin")
    3600000000
    """
    when, moved = _known(moment)
    return (when.astimezone(zone(name)).replace(tzinfo=dt.UTC) - _EPOCH) // _US - moved
