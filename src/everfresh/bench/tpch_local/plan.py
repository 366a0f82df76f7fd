"""What a run measures: queries, batch sizes, ways to maintain a view, and how long each cell may take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everfresh.bench import Settings
from everfresh.bench.parts.asked import Asked, split
from everfresh.workloads import Query

USUAL = ("inserts", "churn", "refresh", "micro", "durability")
SECTIONS = (*USUAL, "strategies")
"""Strategies are compared in turns where that is asked for; `inserts` has them one after another."""
SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
MODES = ("auto", "higher-order", "first-order", "first-order-projected", "re-evaluate")
FORMS = ("interpreter", "by row")
"""Other ways to run the default strategy: nothing compiled; every batch row by row inside compiled calls."""
PEERS = ("duckdb", "pathway")
CLOCKS = ("wall", "processor")
_WORKLOADS = ("tpch", "finance", "tpcds")
_QUICK_QUERIES = ("tpch_q03", "finance_vwap", "tpcds_q03")

OPTIONS = {
    "queries": "names or workloads, such as tpch,finance_vwap; all unless given",
    "sizes": "batch sizes: " + ",".join(map(str, SIZES)),
    "how": "strategies and peers: " + ",".join((*MODES, *FORMS, *PEERS)),
    "sections": ",".join(SECTIONS),
    "seconds": "time of a cell that is measured: 3",
    "patience": "how many times that a cell may take in all, untimed parts of its stream included: 10",
    "clock": "what streams are measured by: wall, or processor where others use the machine",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    sf: float
    queries: tuple[Query, ...]
    sizes: tuple[int, ...]
    modes: tuple[str, ...]
    forms: tuple[str, ...]
    peers: tuple[str, ...]
    sections: tuple[str, ...]
    seconds: float
    patience: float
    clock: str
    quick: bool


def plan_of(settings: Settings) -> Plan:
    """The plan that settings ask for."""
    asked, quick = Asked(settings.options, OPTIONS), settings.quick
    usual = MODES + PEERS if quick else MODES + FORMS + PEERS  # compiling takes more than seconds
    how = asked.names("how", MODES + FORMS + PEERS, usual)
    return Plan(
        sf=settings.sf or (0.001 if quick else 0.1),
        queries=asked.queries(_WORKLOADS, _QUICK_QUERIES if quick else _WORKLOADS),
        sizes=_sizes(asked, (1, 100) if quick else SIZES),
        modes=tuple(mode for mode in MODES if mode in how),
        forms=tuple(form for form in FORMS if form in how),
        peers=tuple(peer for peer in PEERS if peer in how),
        sections=asked.names("sections", SECTIONS, USUAL),
        seconds=asked.number("seconds", 0.05 if quick else 3.0),
        patience=asked.number("patience", 10.0),
        clock=asked.names("clock", CLOCKS, CLOCKS[:1])[0],
        quick=quick,
    )


def _sizes(asked: Asked, default: Iterable[int]) -> tuple[int, ...]:
    text = asked.text("sizes", ",".join(map(str, default)))
    sizes = [int(item) if item.isdigit() else 0 for item in split(text)]
    if not sizes or min(sizes) < 1:
        raise asked.wrong("sizes", f"'{text}' are no batch sizes")
    return tuple(sorted(set(sizes)))
