"""What a run measures: engines, queries, the size of a batch, and how often."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from everfresh.bench import Settings
from everfresh.bench.parts.asked import Asked
from everfresh.errors import Code, EverfreshError

ENGINES, HOW, CLOCKS = ("local", "spark"), ("apart", "together"), ("wall", "processor")
QUERIES = 99

OPTIONS = {
    "engines": ",".join(ENGINES) + ": local unless given",
    "queries": "numbers, such as 3,7,40-49; all 99 unless given",
    "how": "apart: a view is made, refreshed and dropped before the next; together: all in one database",
    "share": "rows of a batch in percent of each fact table, half of them deletes: 0.1, on Spark 1",
    "rounds": "how many batches are measured: 5",
    "clock": "wall, or processor: only the time that the process had a processor (local engine)",
    "compile": "whether the local engine compiles: now, background or off; background unless given",
    "workers": "logical workers of Spark: as many as there are cores",
    "memory": "memory of the JVM: 4g",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    sf: float
    engines: tuple[str, ...]
    queries: tuple[int, ...]
    how: tuple[str, ...]
    share: float | None
    rounds: int
    clock: str
    compile: str
    workers: int
    memory: str
    quick: bool

    def share_on(self, engine: str) -> float:
        """Rows of a batch in percent of each fact table."""
        return self.share if self.share is not None else 0.1 if engine == "local" else 1.0

    @property
    def counts(self) -> bool:
        """Whether the data are of the size for which figures are to be reached."""
        return self.sf >= 1 and not self.quick


def plan_of(settings: Settings) -> Plan:
    """The plan that settings ask for."""
    asked, quick = Asked(settings.options, OPTIONS), settings.quick
    text = settings.options.get("queries", "3,7,42,52" if quick else f"1-{QUERIES}")
    return Plan(
        sf=settings.sf or (0.01 if quick else 1.0),
        engines=asked.names("engines", ENGINES, ENGINES[:1]),
        queries=_numbers(text),
        how=asked.names("how", HOW, HOW[:1] if quick else HOW),
        share=asked.number("share", 1.0) if "share" in settings.options else None,
        rounds=int(asked.number("rounds", 2 if quick else 5)),
        clock=asked.names("clock", CLOCKS, CLOCKS[:1])[0],
        compile=asked.names("compile", ("now", "background", "off"), ("background",))[0],
        workers=int(asked.number("workers", max(2, os.cpu_count() or 2))),
        memory=asked.text("memory", "1g" if quick else "4g"),
        quick=quick,
    )


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of queries: `3,7-9` is 3, 7, 8 and 9.

    >>> _numbers("3,7-9")
    (3, 7, 8, 9)
    """
    found: list[int] = []
    for part in text.split(","):
        asked = re.fullmatch(r"Q?(\d+)(?:-Q?(\d+))?", part.strip().upper())
        if asked is None:
            raise EverfreshError(
                Code.ARGUMENT, f"'{part}' is no number of a query", place="queries", hint=OPTIONS["queries"]
            )
        found += range(int(asked[1]), int(asked[2] or asked[1]) + 1)
    wrong = [number for number in found if not 1 <= number <= QUERIES]
    if wrong:
        raise EverfreshError(
            Code.ARGUMENT, f"TPC-DS has no query {wrong[0]}", place="queries", hint=OPTIONS["queries"]
        )
    return tuple(dict.fromkeys(found))
