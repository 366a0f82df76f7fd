"""What a run measures: sections, queries, shares of the data in a batch, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from everfresh.bench import Settings
from everfresh.bench.parts.asked import Asked
from everfresh.workloads import Query

SECTIONS = ("refresh", "forms", "cached", "together", "ablation", "scaling", "fixed", "memory")
SHARES = (0.1, 1.0)
_QUICK_SECTIONS = ("refresh", "forms", "cached", "together", "ablation", "fixed")
_QUICK_QUERIES = ("thesis_q03", "thesis_q06")

OPTIONS = {
    "sections": ",".join(SECTIONS),
    "queries": "names or workloads, such as thesis_q03,tpch; the thesis's 22 unless given",
    "shares": "sizes of a batch, in percent of every table: 0.1,1",
    "rounds": "how often a batch of each kind is applied: 5",
    "warm": "how often Spark SQL runs a query before it is timed: 10",
    "workers": "logical workers: as many as there are cores",
    "memory": "memory of the JVM: 4g",
    "folder": "where data and databases are kept for the run; a temporary folder unless given",
    "verify": "whether each view is compared with its recomputation by Spark SQL: yes or no",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    sf: float
    queries: tuple[Query, ...]
    sections: tuple[str, ...]
    shares: tuple[float, ...]
    rounds: int
    warm: int
    workers: int
    memory: str
    folder: str | None
    verify: bool
    quick: bool

    @property
    def counts(self) -> bool:
        """Whether the data are of the size for which figures are to be reached."""
        return self.sf >= 1 and not self.quick


def plan_of(settings: Settings) -> Plan:
    """The plan that settings ask for."""
    import os

    asked, quick = Asked(settings.options, OPTIONS), settings.quick
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    (verify,) = asked.names("verify", ("yes", "no"), ("yes",))[:1]
    return Plan(
        sf=settings.sf or (0.01 if quick else 1.0),
        queries=asked.queries(("thesis", "tpch"), _QUICK_QUERIES if quick else ("thesis",)),
        sections=asked.names("sections", SECTIONS, _QUICK_SECTIONS if quick else SECTIONS),
        shares=asked.numbers("shares", SHARES),
        rounds=int(asked.number("rounds", 2 if quick else 5)),
        warm=int(asked.number("warm", 1 if quick else 10)),
        workers=int(asked.number("workers", max(2, cores))),
        memory=asked.text("memory", "1g" if quick else "4g"),
        folder=settings.options.get("folder"),
        verify=verify == "yes",
        quick=quick,
    )
