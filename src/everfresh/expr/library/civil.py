"""The proleptic Gregorian calendar on day numbers, for Python integers and NumPy arrays alike.

All divisions floor in both, so one formula serves the reference evaluator and the vectorised one (the
algorithm is Howard Hinnant's `civil_from_days`). Year 0 is 1 BC.
"""

from __future__ import annotations

from typing import Any

DAY_US = 86_400_000_000


def civil(days: Any) -> tuple[Any, Any, Any]:
    """Year, month and day of a day number.

    >>> civil(0), civil(-1), civil(11016)
    ((1970, 1, 1), (1969, 12, 31), (2000, 2, 29))
    """
    z = days + 719_468
    era = z // 146_097
    doe = z - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 - 12 * (mp >= 10)
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def day_number(year: Any, month: Any, day: Any) -> Any:
    """The inverse of `civil`; month must be 1 to 12, day may be any number.

    >>> day_number(1970, 1, 1), day_number(2000, 2, 30)
    (0, 11017)
    """
    y = year - (month <= 2)
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month + 12 * (month <= 2) - 3) + 2) // 5 + day - 1
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468


def month_length(year: Any, month: Any) -> Any:
    """The number of days of a month."""
    following = month % 12 + 1
    return day_number(year + (following == 1), following, 1) - day_number(year, month, 1)


def weekday(days: Any) -> Any:
    """The day of the week, Monday is 0."""
    return (days + 3) % 7


def iso_week(days: Any) -> Any:
    """The ISO week number: that of the week's Thursday in its year."""
    thursday = days - weekday(days) + 3
    return (thursday - day_number(civil(thursday)[0], 1, 1)) // 7 + 1


def add_months(days: Any, months: Any, minimum: Any = min) -> Any:
    """The same day `months` later, or the last of a shorter month (`minimum` takes two values)."""
    year, month, day = civil(days)
    total = year * 12 + month - 1 + months
    year, month = total // 12, total % 12 + 1
    return day_number(year, month, minimum(day, month_length(year, month)))
