"""Numbers, durations and sizes as people read them: three significant digits, units that fit.

>>> number(1234567), number(0.01234), short(1234567), duration(0.0123), bytes_(3 << 20)
('1,234,567', '0.0123', '1.23M', '12.3 ms', '3.00 MiB')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def number(value: float) -> str:
    """Integers in full with separators, other numbers with three significant digits."""
    if isinstance(value, int) or not math.isfinite(value):
        return f"{value:,}"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.3g}")))))  # rounded first: 0.9999 is 1.00
    return f"{value:,.{min(digits, 9)}f}"


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """`value` in the largest unit it reaches; `units` from large to small."""
    for size, unit in units:
        if abs(value) >= size * 0.9995:
            return f"{number(value / size)}{unit}"
    size, unit = units[-1]
    return f"{number(value / size)}{unit}"


def short(value: float) -> str:
    """A count in at most four characters and a letter: `950`, `1.23M`."""
    if abs(value) < 1000:
        return number(value)
    return _scaled(float(value), [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")])


def duration(seconds: float) -> str:
    """Seconds as a person says them: `850 µs`, `12.3 ms`, `1.24 s`, `2 min 05 s`, `1 h 02 min`."""
    if seconds >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min"
    if seconds >= 59.95:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60:02d} s"
    return _scaled(float(seconds), [(1.0, " s"), (1e-3, " ms"), (1e-6, " µs")])


def bytes_(count: float) -> str:
    """A number of bytes in binary units."""
    if abs(count) < 1024:
        return f"{count:,.0f} B"
    return _scaled(float(count), [(2.0**40, " TiB"), (2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB")])


def cell(value: object) -> str:
    """Any value as one cell of a table; text stays as it is."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return number(value)
        case str():
            return value
        case Mapping():
            return ", ".join(f"{key}: {cell(item)}" for key, item in value.items())
        case list() | tuple():
            return ", ".join(cell(item) for item in value)
        case _:
            return str(value)
