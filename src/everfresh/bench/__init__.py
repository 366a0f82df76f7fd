"""Benchmarks: each is a module here with `NAME`, `DESCRIPTION` and `run(settings) -> Report`.

A benchmark returns data and prints nothing; `settings.note` takes a line about what it is doing. Importing a
benchmark is cheap: what it measures it imports when it runs.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from everfresh.bench.report import Bar, Report, Skipped
from everfresh.bench.timing import interleave, median, repeat
from everfresh.errors import Code, EverfreshError

__all__ = [
    "Bar",
    "Benchmark",
    "Report",
    "Settings",
    "Skipped",
    "all_",
    "interleave",
    "load",
    "median",
    "names",
    "options",
    "repeat",
]


def _silent(_text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a benchmark runs."""

    quick: bool = False
    """A smaller run, in seconds; figures that need more are skipped."""

    sf: float | None = None
    """The scale factor of the data; None for the benchmark's own."""

    json: Path | None = None
    """Where the report will be written, for benchmarks that keep more beside it."""

    options: Mapping[str, str] = field(default_factory=dict)
    """What else was asked for: names that the benchmark has in `OPTIONS`."""

    note: Callable[[str], None] = _silent
    """Takes a line about what is being measured now."""


class Benchmark(Protocol):
    """What a module of this package offers; and `OPTIONS`, names with their meaning, if it takes some."""

    NAME: str
    DESCRIPTION: str

    def run(self, settings: Settings) -> Report:
        """Measure."""
        ...


def _modules() -> dict[str, str]:
    """Benchmark name -> module name, for every module that is not part of the framework."""
    framework = ("parts", "report", "timing")
    found = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in framework)
    return {name.replace("_", "-"): name for name in found if not name.startswith("_")}


def names() -> list[str]:
    """The names of all benchmarks.

    >>> "start" in names()
    True
    """
    return list(_modules())


def load(name: str) -> Benchmark:
    """The benchmark called `name`."""
    modules = _modules()
    if name not in modules:
        raise EverfreshError(
            Code.NOT_FOUND, f"there is no benchmark '{name}'", hint="benchmarks are: " + ", ".join(modules)
        )
    return cast(Benchmark, importlib.import_module(f"{__name__}.{modules[name]}"))


def options(benchmark: Benchmark, given: Iterable[str]) -> dict[str, str]:
    """Options of a benchmark from `name=value`; a name that it does not have is refused."""
    known: Mapping[str, str] = getattr(benchmark, "OPTIONS", {})
    found = {}
    for item in given:
        name, sign, value = item.partition("=")
        if name not in known or not sign:
            raise EverfreshError(
                Code.ARGUMENT,
                f"'{item}' is no option of {benchmark.NAME}",
                place="--set",
                hint="; ".join(f"{name}={meaning}" for name, meaning in known.items()) or "it has none",
            )
        found[name] = value
    return found


def all_() -> list[Benchmark]:
    """All benchmarks."""
    return [load(name) for name in names()]
