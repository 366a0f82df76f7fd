"""Physical values as text, exactly as DuckDB prints them in a cast to VARCHAR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from everfresh.expr.library.civil import DAY_US, civil
from everfresh.types import SqlType, coding
from everfresh.types.nested_text import quoted, written
from everfresh.types.texts import blob_text


def decimal_text(value: int, scale: int, precision: int = 38) -> str:
    """A scaled integer with its decimal point; DuckDB leaves out the zero in front if there is no room for
    one.

    >>> decimal_text(-5, 2), decimal_text(50, 2, 2), decimal_text(7, 0)
    ('-0.05', '.50', '7')
    """
    sign, digits = "-" if value < 0 else "", str(abs(value))
    if scale == 0:
        return sign + digits
    digits = digits.rjust(scale + (1 if precision > scale else 0), "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def date_text(days: int) -> str:
    """A day number as YYYY-MM-DD; years before 1 have the suffix (BC)."""
    year, month, day = civil(days)
    era = "" if year > 0 else " (BC)"
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}{era}"


def time_text(us: int) -> str:
    """Microseconds as H:MM:SS with the digits of the fraction that are needed."""
    seconds, fraction = divmod(us, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text if fraction == 0 else f"{text}.{fraction:06d}".rstrip("0")


def timestamp_text(us: int) -> str:
    """A timestamp as YYYY-MM-DD HH:MM:SS[.ffffff]."""
    days, rest = divmod(us, DAY_US)
    date = date_text(days)
    if date.endswith(" (BC)"):
        return f"{date[:-5]} (BC) {time_text(rest)}"
    return f"{date} {time_text(rest)}"


def interval_text(value: tuple[int, int, int]) -> str:
    """An interval as DuckDB prints it.

    >>> interval_text((13, -1, 90_000_000_000)), interval_text((0, 0, 0))
    ('1 year 1 month -1 day 25:00:00', '00:00:00')
    """
    months, days, us = value
    sign = -1 if months < 0 else 1
    years, rest = sign * (abs(months) // 12), sign * (abs(months) % 12)
    parts = []
    for count, unit in ((years, "year"), (rest, "month"), (days, "day")):
        if count:
            parts.append(f"{count} {unit}{'' if abs(count) == 1 else 's'}")
    if us or not parts:
        parts.append(("-" if us < 0 else "") + time_text(abs(us)))
    return " ".join(parts)


def real_text(value: float) -> str:
    """A REAL by its own shortest digits, in the notation Python uses for a double."""
    single = np.float32(value)
    if not np.isfinite(single):
        return repr(value)
    if single == 0 or 1e-4 <= abs(single) < 1e16:
        return np.format_float_positional(single, unique=True, trim="0")
    return np.format_float_scientific(single, unique=True, trim="-", exp_digits=2)


_RENDER: dict[str, Callable[[Any], str]] = {
    "BOOLEAN": lambda v: "true" if v else "false",
    "REAL": real_text,
    "DOUBLE": repr,
    "DATE": date_text,
    "TIME": time_text,
    "TIMESTAMP": timestamp_text,
    "TIMESTAMPTZ": lambda us: timestamp_text(us) + "+00",
    "INTERVAL": interval_text,
    "BLOB": blob_text,
}


def _list(value: Any, type_: SqlType) -> str:
    return f"[{', '.join(_inside(v, type_.inner[0]) for v in coding.elements(value, type_))}]"


def _struct(value: Any, type_: SqlType) -> str:
    found = zip(type_.names, coding.fields(value, type_), type_.inner, strict=True)
    return "{" + ", ".join(f"{quoted(name)}: {_inside(v, t)}" for name, v, t in found) + "}"


def _map(value: Any, type_: SqlType) -> str:
    key, item = type_.inner
    pairs = coding.entries(value, type_)
    return "{" + ", ".join(f"{_inside(k, key)}={_inside(v, item)}" for k, v in pairs) + "}"


def _inside(value: Any, type_: SqlType) -> str:
    if value is None:
        return "NULL"
    text = render(value, type_)
    return text if type_.is_nested or type_.name == "JSON" else written(text)


_NESTED: dict[str, Callable[[Any, SqlType], str]] = {
    "LIST": _list,
    "STRUCT": _struct,
    "MAP": _map,
    "DECIMAL": lambda value, type_: decimal_text(value, type_.scale, type_.precision),
    "ENUM": lambda value, type_: type_.names[value],
}


def render(value: Any, type_: SqlType) -> str:
    """A physical value that is not NULL, as CAST(value AS VARCHAR) gives it."""
    found = _NESTED.get(type_.name)
    return found(value, type_) if found is not None else _RENDER.get(type_.name, str)(value)
