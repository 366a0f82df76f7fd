"""What a benchmark found: its rows, the bars it has to reach, what it could not measure, and where it ran.

The JSON form is stable: `name`, `date`, `machine`, `rows`, `bars` (`what`, `target`, `value`, `holds`) and
`skipped` (`what`, `reason`). What was measured is in `rows` or `bars`, what could not be in `skipped`.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

VERSIONS = ("pyspark", "numba", "pyarrow", "numpy", "duckdb")


@dataclass(frozen=True, slots=True)
class Bar:
    """Something to reach: in words, as measured, and whether that holds."""

    what: str
    target: str
    value: float | str | None
    holds: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """A figure that could not be measured here, and why."""

    what: str
    reason: str


@dataclass(slots=True)
class Report:
    """The outcome of one run.

    >>> report = Report("example", machine={})
    >>> report.row(what="import", seconds=0.12)
    >>> report.below("import everfresh", 0.12, 0.3, "s")
    >>> report.bars
    [Bar(what='import everfresh', target='< 0.3 s', value=0.12, holds=True)]
    """

    name: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=lambda: describe_machine())
    date: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))

    def row(self, **values: Any) -> None:
        """Add a row to the table."""
        self.rows.append(values)

    def below(self, what: str, value: float, limit: float, unit: str = "") -> None:
        """A bar that holds if `value` is less than `limit`."""
        self.bars.append(Bar(what, f"< {limit:g} {unit}".rstrip(), value, value < limit))

    def at_least(self, what: str, value: float, limit: float, unit: str = "") -> None:
        """A bar that holds if `value` is no less than `limit`."""
        self.bars.append(Bar(what, f">= {limit:g} {unit}".rstrip(), value, value >= limit))

    def truth(self, what: str, holds: bool) -> None:
        """A bar that is simply so or not."""
        self.bars.append(Bar(what, "yes", "yes" if holds else "no", holds))

    def skip(self, what: str, reason: str) -> None:
        """Something that cannot be measured here."""
        self.skipped.append(Skipped(what, reason))

    @property
    def holds(self) -> bool:
        """Whether every bar holds."""
        return all(bar.holds for bar in self.bars)

    def to_json(self) -> str:
        """The report as JSON text."""
        data = {
            "name": self.name,
            "date": self.date,
            "machine": self.machine,
            "rows": self.rows,
            "bars": [asdict(bar) for bar in self.bars],
            "skipped": [asdict(skip) for skip in self.skipped],
        }
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """NumPy scalars and the like as Python numbers, everything else as text."""
    return value.item() if hasattr(value, "item") else str(value)


def describe_machine() -> dict[str, Any]:
    """What a figure depends on, without naming the machine: processors, memory, system and versions."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpus": usable,
        "cpu": _cpu_model(),
        "memory_gib": _memory_gib(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: found for name in VERSIONS if (found := _version(name)) is not None},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return None
